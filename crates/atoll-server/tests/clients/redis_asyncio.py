"""redis-py's asyncio side, its pools, locks and retries: python3 redis_asyncio.py PORT."""

import asyncio
import sys
import threading

import redis
import redis.asyncio

PORT = int(sys.argv[1])


async def check_asyncio(protocol):
    r = redis.asyncio.Redis(port=PORT, protocol=protocol, decode_responses=True)
    await r.flushall()
    assert await r.set("k", "v", ex=100) and await r.get("k") == "v" and 0 < await r.ttl("k") <= 100
    await asyncio.gather(*(r.incr("n") for _ in range(40)))
    assert await r.get("n") == "40"

    async with r.pipeline() as pipeline:
        assert await pipeline.set("a", 1).incr("a").get("a").execute() == [True, 2, "2"]
    async with r.pipeline() as pipeline:
        await pipeline.watch("a")
        await r.set("a", 7)
        pipeline.multi()
        pipeline.set("a", 8)
        try:
            await pipeline.execute()
            raise AssertionError("a watched key had changed")
        except redis.WatchError:
            pass

    held = 0

    async def hold():
        nonlocal held
        async with r.lock("lock", timeout=10, sleep=0.01):
            held += 1
            assert held == 1
            await asyncio.sleep(0.005)
            held -= 1

    await asyncio.gather(*(hold() for _ in range(8)))
    assert not await r.exists("lock")
    lock = r.lock("lock", timeout=10)
    assert await lock.acquire()
    await r.set("lock", "another's")
    try:
        await lock.release()
        raise AssertionError("another's lock was released")
    except redis.exceptions.LockNotOwnedError:
        pass

    async with r.pubsub() as listener:
        await listener.subscribe("news")
        await listener.psubscribe("w*")
        for _ in range(2):
            assert (await listener.get_message(timeout=5))["type"] in ("subscribe", "psubscribe")
        await r.publish("news", "one")
        await r.publish("weather", "two")
        got = [await listener.get_message(timeout=5) for _ in range(2)]
        assert [(one["type"], one["data"]) for one in got] == [("message", "one"), ("pmessage", "two")], got
    assert [key async for key in r.scan_iter(match="[ak]")] and await r.hset("h", mapping={"f": "1"}) == 1
    assert await r.hgetall("h") == {"f": "1"}
    await r.aclose()


def check_pool():
    """Threads share a pool that is smaller than they are many, and lose nothing."""
    pool = redis.BlockingConnectionPool(port=PORT, max_connections=3, timeout=20, health_check_interval=1)
    r = redis.Redis(connection_pool=pool)
    r.delete("n")

    def work():
        for _ in range(50):
            with r.pipeline() as pipeline:
                pipeline.incr("n").expire("n", 100).execute()

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert r.get("n") == b"400"
    # A pool makes a connection when all others are taken: the threads need not have made them all.
    taken = [pool.get_connection() for _ in range(3)]
    for connection in taken:
        pool.release(connection)
    ports = [connection._sock.getsockname()[1] for connection in taken]
    listed = [int(one["addr"].rsplit(":", 1)[1]) for one in r.client_list()]
    assert set(ports) <= set(listed), (ports, listed)
    # A connection that the server has ended is made anew.
    r.client_kill_filter(_type="normal", skipme=True)
    assert r.get("n") == b"400"
    pool.disconnect()
    by_url = redis.Redis.from_url(f"redis://127.0.0.1:{PORT}/3?socket_timeout=5&health_check_interval=1")
    assert by_url.set("k", "three") and by_url.get("k") == b"three" and by_url.flushdb()
    with redis.Redis(port=PORT, single_connection_client=True) as single:
        assert single.client_id() == single.client_id()
        single.client_setname("one")
        assert [one["name"] for one in single.client_list() if one["id"] == str(single.client_id())] == ["one"]


for version in (2, 3):
    asyncio.run(check_asyncio(version))
check_pool()
