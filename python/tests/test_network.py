"""Caches on memory nodes: `tcp:HOST:PORT`."""

import asyncio
import threading
import time

import pytest
from conftest import in_fork, status_of

import atoll


def test_processes_share_a_pool_on_a_node(node, program):
    with atoll.Cache(node.address, capacity="16MiB") as cache:
        cache.set("from", "here")
        other = program("cache = atoll.Cache(sys.argv[1])\nprint(cache['from'])\ncache['back'] = 'there'", node.address)
        assert other.communicate()[0].strip() == "here"
        assert cache["back"] == "there"
        assert cache.stats()["objects"] == 2


def test_a_fork_joins_by_itself(node):
    with atoll.Cache(node.address, capacity="16MiB") as cache:
        cache["parent"] = 1

        def work():
            assert cache["parent"] == 1
            cache["child"] = 2

        assert status_of(in_fork(work)) == 0
        assert cache["child"] == 2
        cache["parent"] = 3
        assert cache["parent"] == 3


def test_threads_wait_for_the_network_at_once(node):
    """The interpreter lock is free while a thread waits: a thread that cannot get an answer blocks no other."""
    with atoll.Cache(node.address, capacity="16MiB", clients=2) as cache:
        cache["key"] = 1
        node.stop()
        try:
            waiting = threading.Thread(target=lambda: cache.get("key"))
            waiting.start()
            counted, until = 0, time.monotonic() + 0.5
            while time.monotonic() < until:
                counted += 1
            assert waiting.is_alive(), "the node is stopped"
            assert counted > 1000
        finally:
            node.go_on()
        waiting.join(30)
        assert not waiting.is_alive()
        assert cache["key"] == 1


def test_tasks_go_on_while_one_waits_for_the_network(node):
    async def wait_and_tick(cache):
        await cache.aset("key", 1)
        node.stop()
        try:
            waiting = asyncio.create_task(cache.aget("key"))
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert not waiting.done(), "the node is stopped"
        finally:
            node.go_on()
        assert await waiting == 1
        assert await cache.aget_or_set("loaded", lambda: 7) == 7
        assert await cache.aincr("count", 2) == 2 and await cache.acontains("count")

    with atoll.Cache(node.address, capacity="16MiB") as cache:
        asyncio.run(wait_and_tick(cache))


def test_a_task_that_is_cancelled_while_it_takes_a_lease_keeps_none(node):
    taken, goes_on = threading.Event(), threading.Event()

    class Slow(atoll.Cache):
        def _lease(self, key, seconds):
            token = super()._lease(key, seconds)
            taken.set()
            assert goes_on.wait(30)
            return token

    async def cancel(cache):
        loading = asyncio.create_task(cache.aget_or_set("loaded", lambda: 7, lease=300))
        assert await asyncio.to_thread(taken.wait, 30)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        goes_on.set()
        # While the cancelled task had the lease, it would take that long.
        return await asyncio.wait_for(cache.aget_or_set("loaded", lambda: 8, lease=300), 60)

    with Slow(node.address, capacity="16MiB") as cache:
        assert asyncio.run(cancel(cache)) == 8


def test_an_idle_process_stays_a_client(node, program):
    """Other processes take a client for dead that is silent for long."""
    with atoll.Cache(node.address, capacity="16MiB") as cache:
        cache["key"] = 1
        busy = """
cache = atoll.Cache(sys.argv[1])
until = time.monotonic() + 4
while time.monotonic() < until:
    cache.incr("count")
"""
        assert program(busy, node.address).wait(60) == 0
        cache["key"] = 2
        assert cache["key"] == 2 and cache["count"] > 0


def test_a_node_that_comes_back_empty_is_used_again(node):
    with atoll.Cache(node.address, capacity="16MiB") as cache:
        cache["key"] = 1
        node.restart()
        until = time.monotonic() + 60
        while True:
            try:
                assert cache.get("key") is None
                cache["key"] = 2
                break
            except atoll.PoolLost:
                assert time.monotonic() < until, "the pool stays lost"
                time.sleep(0.05)
        assert cache["key"] == 2


def test_several_nodes_hold_one_pool(node, another_node):
    address = f"{node.address},{another_node.address.removeprefix('tcp:')}"
    with atoll.Cache(address, capacity="32MiB") as cache:
        values = {f"key:{number}": bytes([number % 256]) * 4000 for number in range(2000)}
        cache.set_many(values)
        assert cache.get_many(values) == values
        another_node.end()
        # What was on the other node misses, and the rest is there.
        until = time.monotonic() + 60
        while True:
            try:
                left = cache.get_many(values)
                break
            except atoll.PoolLost:
                assert time.monotonic() < until, "the pool stays lost"
                time.sleep(0.05)
        assert 0 < len(left) < len(values)
        assert all(values[key] == value for key, value in left.items())


def test_a_wrong_address_is_an_error_that_says_so(node):
    with pytest.raises(atoll.OpenFailed, match="127.0.0.1:1: "):
        atoll.Cache("tcp:127.0.0.1:1")
    with pytest.raises(atoll.OpenFailed, match="tcp:HOST:PORT"):
        atoll.Cache("tcp:nowhere")
    with pytest.raises(atoll.PoolAbsent, match="create=False"):
        atoll.Cache(node.address, create=False)
    with pytest.raises(atoll.PoolAbsent):
        atoll.remove(node.address)


def test_a_pool_on_a_node_is_removed_once_it_is_closed(node):
    cache = atoll.Cache(node.address, capacity="16MiB")
    with pytest.raises(atoll.PoolInUse):
        atoll.remove(node.address)
    cache.close()
    assert atoll.remove(node.address) == 16 << 20
    with pytest.raises(atoll.PoolAbsent):
        atoll.Cache(node.address, create=False)
