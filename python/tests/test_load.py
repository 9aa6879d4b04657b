"""One loader for each key, among threads, tasks and processes."""

import asyncio
import multiprocessing
import os
import signal
import threading
import time

import pytest
from conftest import in_fork, status_of

import atoll


def test_of_many_threads_one_loads(cache):
    loads, found = [], []

    def load():
        loads.append(1)
        time.sleep(0.05)
        return "loaded"

    threads = [threading.Thread(target=lambda: found.append(cache.get_or_set("k", load, 60))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["loaded"] * 8 and len(loads) == 1
    assert cache.get_or_set("k", lambda: pytest.fail("it is there")) == "loaded"
    assert cache.stats()["objects"] == 1, "no lease is left"


def load_in_process(cache, _):
    def load():
        time.sleep(0.05)
        return cache.incr("loads")

    return cache.get_or_set("k", load)


def test_of_many_processes_one_loads(cache):
    with multiprocessing.get_context("fork").Pool(4) as processes:
        assert processes.starmap(load_in_process, [(cache, n) for n in range(16)]) == [1] * 16


def test_a_loader_that_raises_keeps_nobody_waiting_and_sets_nothing(cache):
    def fail():
        raise LookupError("no such user")

    for _ in range(2):
        with pytest.raises(LookupError, match="no such user"):
            cache.get_or_set("k", fail)
    assert cache.get_or_set("k", lambda: None) is None
    assert cache.get("k", "absent") is None


def test_when_a_loader_dies_another_loads_after_the_lease(cache):
    begun = multiprocessing.get_context("fork").Event()

    def dies():
        cache.get_or_set("k", lambda: begun.set() or time.sleep(60), lease=0.3)

    process = in_fork(dies)
    assert begun.wait(20)
    os.kill(process, signal.SIGKILL)
    status_of(process)
    assert cache.get_or_set("k", lambda: "mine", lease=0.3) == "mine"


def test_a_value_without_room_is_returned_all_the_same(cache):
    value = bytes(15 << 20)
    assert cache.get_or_set("k", lambda: value) == value
    assert "k" not in cache
    with pytest.raises(TypeError, match="codec"):
        cache.get_or_set("k", object)
    with pytest.raises(ValueError, match="lease"):
        cache.get_or_set("k", lambda: 1, lease=0)


def test_of_many_tasks_one_loads(cache):
    loads = []

    async def load():
        loads.append(1)
        await asyncio.sleep(0.05)
        return "loaded"

    async def run():
        found = await asyncio.gather(*(cache.aget_or_set("k", load) for _ in range(8)))
        assert found == ["loaded"] * 8 and len(loads) == 1
        assert await cache.aget_or_set("plain", lambda: 7) == 7
        loading = asyncio.create_task(cache.aget_or_set("cancelled", lambda: asyncio.sleep(60)))
        await asyncio.sleep(0.02)
        loading.cancel()
        assert await cache.aget_or_set("cancelled", lambda: "another") == "another"

    asyncio.run(run())


def test_asynchronous_operations_do_what_the_others_do(address):
    async def run():
        async with atoll.Cache(address, capacity="16MiB") as cache:
            await cache.aset("k", 1, 60)
            assert await cache.aget("k") == 1 and await cache.aget("absent", 7) == 7
            assert await cache.aadd("a", 1) and not await cache.areplace("b", 1)
            await cache.aset_many({"x": 1, "y": 2})
            assert await cache.aget_many(["x", "y", "z"]) == {"x": 1, "y": 2}
            assert await cache.aincr("n", 5) == 5 and await cache.adecr("n") == 4
            assert await cache.atouch("x", 60) and await cache.acontains("x")
            assert await cache.adelete("x") and await cache.adelete_many(["y", "z"]) == 1
            assert await cache.aclear() == 3
        assert cache.closed

    asyncio.run(run())


def test_a_function_is_run_once_for_the_same_arguments(cache):
    calls = []

    @cache.memoize(ttl=60)
    def area(width, height=1, *, unit="m"):
        """The area."""
        calls.append((width, height, unit))
        return f"{width * height} {unit}2"

    assert area(2, 3) == area(2, 3) == "6 m2"
    assert area(2, 3, unit="km") == "6 km2"
    assert area(2.0, 3) == "6.0 m2"
    assert len(calls) == 3
    assert area.__doc__ == "The area." and area.__name__ == "area"
    assert cache[area.cache_key(2, 3)] == "6 m2"
    assert area.forget(2, 3) and not area.forget(2, 3)
    assert area(2, 3) == "6 m2" and len(calls) == 4
    for arguments in ([1], object()):
        with pytest.raises(TypeError, match=r"memoize\(key=...\)"):
            area(arguments)

    @cache.memoize
    def none():
        calls.append("none")

    assert none() is none() is None and calls.count("none") == 1


def test_a_function_with_a_key_of_its_own_and_a_coroutine_function(cache):
    class User:
        number = 7

        @cache.memoize(key=lambda self: f"user:{self.number}")
        def name(self):
            return "alice"

        @cache.memoize(key=lambda self: f"mail:{self.number}")
        async def mail(self):
            await asyncio.sleep(0)
            return "alice@example.org"

    assert User().name() == cache["user:7"] == "alice"
    assert asyncio.run(User().mail()) == cache["mail:7"] == "alice@example.org"
