#!/usr/bin/env python3
"""Latencies of Atoll and of other caches, in one process of several that use the cache at once.

    python bench.py                  # four processes, values of 256 bytes
    python bench.py --json > figures.json

It needs `pip install diskcache cachetools pymemcache redis`, and the programs redis-server and
memcached; a cache whose parts are missing is left out, and named. Each process looks up and sets
keys of its own thousand; the figures are those of one of the processes. `cachetools` is a cache of
each process alone, so that the others' values are not in it.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KEYS = 1000
ROUND = 100


def atoll_cache(folder):
    import atoll

    return atoll.Cache(f"shm:/atoll-bench-{os.path.basename(folder)}", capacity="256MiB")


def cachetools_cache(_):
    import cachetools

    class Locked:
        """As cachetools recommends for threads."""

        def __init__(self):
            self.values, self.lock = cachetools.LRUCache(100_000), threading.Lock()

        def get(self, key):
            with self.lock:
                return self.values.get(key)

        def set(self, key, value):
            with self.lock:
                self.values[key] = value

    return Locked()


def diskcache_cache(folder):
    import diskcache

    return diskcache.Cache(os.path.join(folder, "diskcache"))


def pymemcache_client(folder):
    from pymemcache.client.base import Client

    # By default its sets wait for no reply.
    return Client(os.path.join(folder, "memcached.sock"), default_noreply=False)


def redis_client(folder):
    import redis

    return redis.Redis(unix_socket_path=os.path.join(folder, "redis.sock"))


CACHES = {
    "atoll": (atoll_cache, None),
    "cachetools with a lock": (cachetools_cache, None),
    "diskcache": (diskcache_cache, None),
    "pymemcache, unix socket": (pymemcache_client, "memcached"),
    "redis-py, unix socket": (redis_client, "redis-server"),
}


@contextlib.contextmanager
def servers(folder):
    """Servers of the peers, as far as they are installed."""
    commands = {
        "memcached": ["-s", os.path.join(folder, "memcached.sock"), "-m", "256", "-u", "root"],
        "redis-server": ["--port", "0", "--unixsocket", os.path.join(folder, "redis.sock"), "--save", "", "--dir", folder],
    }
    started = []
    try:
        for program, arguments in commands.items():
            if shutil.which(program):
                started.append(subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL))
        for socket in ("memcached.sock", "redis.sock")[: len(started)]:
            for _ in range(200):
                if os.path.exists(os.path.join(folder, socket)):
                    break
                time.sleep(0.01)
        yield
    finally:
        for server in started:
            server.terminate()
            server.wait()


def nanoseconds(operation, keys, seconds):
    """Medians and 99th percentiles of rounds of operations, in nanoseconds an operation."""
    clock, rounds = time.perf_counter_ns, []
    end = clock() + int(seconds * 1e9)
    position = 0
    while (begun := clock()) < end:
        for key in keys[position : position + ROUND]:
            operation(key)
        rounds.append((clock() - begun) / ROUND)
        position = (position + ROUND) % len(keys)
    rounds.sort()
    return statistics.median(rounds), rounds[len(rounds) * 99 // 100]


def work(name, folder, number, value_bytes, seconds, barrier, results):
    """One of the processes. Operations are timed in rounds, since reading the clock takes long."""
    cache = CACHES[name][0](folder)
    keys, value = [f"key:{number}:{n}" for n in range(KEYS)], os.urandom(value_bytes)
    for key in keys:
        cache.set(key, value)
    assert cache.get(keys[0]) == value
    figures = {}
    for operation, run in [("get", cache.get), ("set", lambda key: cache.set(key, value))]:
        barrier.wait()
        figures[operation] = nanoseconds(run, keys, seconds)
    barrier.wait()
    if number == 0:
        results.put(figures)


def measure(name, folder, processes, value_bytes, seconds):
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes), context.Queue()
    arguments = (value_bytes, seconds, barrier, results)
    started = [context.Process(target=work, args=(name, folder, n, *arguments)) for n in range(processes)]
    for process in started:
        process.start()
    figures = results.get(timeout=60 + 4 * seconds)
    for process in started:
        process.join()
    return figures


def missing(name):
    module = name.split()[0].split("-")[0].rstrip(",")
    program = CACHES[name][1]
    if program and not shutil.which(program):
        return program
    try:
        __import__(module)
    except ImportError:
        return module
    return None


def table(rows, processes, value_bytes):
    print(f"{processes} processes at once, values of {value_bytes} bytes, microseconds\n")
    print("| cache | get, median | get, 99 % | set, median | set, 99 % |")
    print("|---|---|---|---|---|")
    for row in rows:
        figures = [f"{row[f'{operation}_{which}_ns'] / 1000:.2f}" for operation in ("get", "set") for which in ("median", "p99")]
        print(f"| {row['cache']} | {' | '.join(figures)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--value-bytes", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2, help="for each operation of each cache")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as folder, servers(folder):
        for number, name in enumerate(CACHES, 1):
            lacks = missing(name)
            progress = f"left out: {lacks} is not installed" if lacks else f"{2 * options.seconds:g} s"
            print(f"[{number}/{len(CACHES)}] {name} ({progress})", file=sys.stderr, flush=True)
            if not lacks:
                figures = measure(name, folder, options.processes, options.value_bytes, options.seconds)
                named = {f"{operation}_{which}_ns": round(ns, 1) for operation, pair in figures.items() for which, ns in zip(("median", "p99"), pair)}
                rows.append({"cache": name, **named})
        with contextlib.suppress(ImportError):
            import atoll

            with contextlib.suppress(atoll.PoolAbsent):
                atoll.remove(f"shm:/atoll-bench-{os.path.basename(folder)}", force=True)
    if options.json:
        print(json.dumps({"processes": options.processes, "value_bytes": options.value_bytes, "caches": rows}, indent=2))
    else:
        table(rows, options.processes, options.value_bytes)


if __name__ == "__main__":
    main()
