#!/usr/bin/env python3
"""Key-value blocks of a language model in a pool: how fast they are copied, and how often they are there.

    python blocks_bench.py                          # copies of blocks of 2 MiB
    python blocks_bench.py --trace TRACE            # and the prefix hit ratios of a trace
    python blocks_bench.py --pool tcp:HOST:PORT     # copies to and from a memory node without a pool, beside iperf3
    python blocks_bench.py --json > figures.json

Copies: batches of 16 blocks, one thread, beside a plain copy of as much memory. The time is the
thread's processor time, so that other programs disturb less; over a network it is the time that passes.
iperf3, if it is installed, sends one stream to itself on this host: to compare with a node on loopback.

The trace is in libCacheSim's format oracleGeneral, packed by zstd (`pip install zstandard`), and its
requests begin with its first id, as those of Mooncake's conversation trace do. A request asks for
its blocks in order, takes those up to the first that is missing, and stores the others. The hit
ratio is the share of blocks that were taken. Atoll's pool has as many bytes as the LRU's blocks have
together, so that its index is at its expense; the index also remembers evicted blocks. Blocks are scaled down; they stay large objects.
"""

import argparse
import collections
import itertools
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

import atoll
from atoll.blocks import Blocks

BATCH = 16
POOL_BLOCKS = 64
SHARES = (0.01, 0.05, 0.1, 0.2)
# A little less than a chunk of such a pool, since a block lies in chunks together with its key.
SCALED_BYTES = (16 << 10) - 64


def rates(block_bytes, rounds, remote=None):
    """Gigabytes a second of a plain copy, of get and of put: medians of rounds in turn."""
    address = remote or f"shm:/atoll-blocks-bench-{os.getpid()}"
    clock = time.perf_counter if remote else time.thread_time
    pool_bytes = 2 * POOL_BLOCKS * block_bytes + (64 << 20)
    with atoll.Cache(address, capacity=pool_bytes) as cache:
        if not remote:
            atoll.remove(address, force=True)
        blocks = Blocks(cache)
        keys = [f"{number}" for number in range(POOL_BLOCKS)]
        sources = [bytearray(number.to_bytes(1, "little") * block_bytes) for number in range(POOL_BLOCKS)]
        targets = [memoryview(bytearray(block_bytes)) for _ in range(BATCH)]

        def copy(place):
            for target, source in zip(targets, sources[place : place + BATCH]):
                target[:] = source

        def put(place):
            blocks.put(keys[place : place + BATCH], sources[place : place + BATCH])

        def get(place):
            if blocks.get(keys[place : place + BATCH], targets) != BATCH:
                raise SystemExit("a block was evicted from a pool that has room")

        operations = {"copy": copy, "get": get, "put": put}
        seconds = {name: [] for name in operations}
        for place in range(0, POOL_BLOCKS, BATCH):
            put(place)
        for number in range(rounds):
            place = number * BATCH % POOL_BLOCKS
            for name, operation in operations.items():
                begun = clock()
                operation(place)
                seconds[name].append(clock() - begun)
            if targets[BATCH - 1] != sources[place + BATCH - 1]:
                raise SystemExit("a wrong block was read")
    if remote:
        atoll.remove(address)
    return {name: BATCH * block_bytes / statistics.median(times) / 1e9 for name, times in seconds.items()}


def rate_of_iperf3():
    """Gigabytes a second of iperf3's single stream over loopback; None where it is not installed."""
    if not shutil.which("iperf3"):
        return None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = subprocess.Popen(["iperf3", "--server", "--one-off", "--port", port], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        client = ["iperf3", "--client", "127.0.0.1", "--port", port, "--time", "5", "--json"]
        said = json.loads(subprocess.run(client, check=True, capture_output=True).stdout)
    finally:
        server.kill()
        server.wait()
    return said["end"]["sum_received"]["bits_per_second"] / 8e9


def requests_of(path):
    """The requests of a trace: lists of ids."""
    import zstandard

    with open(path, "rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file).read()
    ids = [record[1] for record in struct.iter_unpack("<IQIq", data)]
    requests = []
    for number in ids:
        if number == ids[0]:
            requests.append([])
        requests[-1].append(number)
    return requests


def hits_of_lru(requests, capacity):
    kept = collections.OrderedDict()
    hits = 0
    for request in requests:
        there = sum(1 for _ in itertools.takewhile(kept.__contains__, request))
        hits += there
        for number in request:
            kept[number] = None
            kept.move_to_end(number)
            if len(kept) > capacity:
                kept.popitem(last=False)
    return hits


def hits_of_atoll(requests, capacity):
    address = f"shm:/atoll-blocks-bench-{os.getpid()}"
    size = SCALED_BYTES
    with atoll.Cache(address, capacity=capacity * size, clients=1) as cache:
        atoll.remove(address, force=True)
        blocks = Blocks(cache)
        target, value = [bytearray(size)], bytearray(size)
        hits = 0
        for request in requests:
            keys = [struct.pack("<Q", number) for number in request]
            there = blocks.get(keys, target * len(keys))
            hits += there
            blocks.put(keys[there:], [value] * (len(keys) - there))
    return hits


def hit_ratios(path):
    requests = requests_of(path)
    total = sum(map(len, requests))
    unique = len(set(itertools.chain.from_iterable(requests)))
    rows = []
    for share in SHARES:
        capacity = int(unique * share)
        rows.append(
            {
                "share": share,
                "blocks": capacity,
                "lru": hits_of_lru(requests, capacity) / total,
                "atoll": hits_of_atoll(requests, capacity) / total,
            }
        )
    return {"requests": len(requests), "blocks": total, "unique": unique, "ratios": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=float, nargs="+", default=[2], help="sizes of blocks (default: 2)")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--trace", help="a trace whose prefix hit ratios are measured")
    parser.add_argument("--pool", help="the address of memory nodes that hold no pool (tcp:HOST:PORT)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {"copies": {f"{mib:g}": rates(int(mib * (1 << 20)), options.rounds, options.pool) for mib in options.mib}}
    if options.pool:
        found["iperf3"] = rate_of_iperf3()
    if options.trace:
        found["trace"] = hit_ratios(options.trace)
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    print("blocks of     plain copy         get                put")
    for mib, rate in found["copies"].items():
        cells = (f"{rate[name]:6.2f} GB/s ({rate[name] / rate['copy']:.2f})" for name in ("get", "put"))
        print(f"{mib + ' MiB':10} {rate['copy']:8.2f} GB/s  {'  '.join(cells)}")
    if found.get("iperf3"):
        print(f"iperf3's single stream over loopback: {found['iperf3']:.2f} GB/s")
    if options.trace:
        trace = found["trace"]
        print(f"\n{trace['requests']} requests for {trace['blocks']} blocks, {trace['unique']} different ones")
        print("pool of       LRU   Atoll")
        for row in trace["ratios"]:
            print(f"{row['blocks']:6} blocks  {row['lru']:.3f}  {row['atoll']:.3f}")


if __name__ == "__main__":
    main()
