"""redis-py's own cache of what it reads, beside changes through two servers of a pool:
python3 redis_py_tracking.py PORT OTHER_PORT."""

import sys
import time

import redis
from redis.cache import CacheConfig

PORT, OTHER_PORT = map(int, sys.argv[1:])


def eventually(what, holds):
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.005)


def commands(r):
    """How many commands the server has got from this client and others."""
    return plain.info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]


plain = redis.Redis(port=PORT, decode_responses=True)
plain.flushall()
for writer in [plain, redis.Redis(port=OTHER_PORT, decode_responses=True)]:
    r = redis.Redis(port=PORT, protocol=3, decode_responses=True, cache_config=CacheConfig())
    writer.set("k", "1")
    assert r.get("k") == "1"
    before = commands(r)
    assert all(r.get("k") == "1" for _ in range(50))
    assert commands(r) == before, "lookups are answered by the client's own cache"
    for number in range(2, 30):
        writer.set("k", number)
        eventually(f"the client hears of {number}", lambda: r.get("k") == str(number))
    writer.psetex("k", 3000, "short")
    eventually("the client hears of it", lambda: r.get("k") == "short")
    eventually("what expires is gone", lambda: r.get("k") is None)
    # What was not there is not kept.
    writer.set("k", "again")
    eventually("the client finds it", lambda: r.get("k") == "again")
    writer.mset({"a": "1", "b": "2"})
    assert r.mget("a", "b") == ["1", "2"]
    writer.delete("a")
    eventually("the client hears of it", lambda: r.mget("a", "b") == [None, "2"])
    writer.hset("h", mapping={"f": "1"})
    assert r.hget("h", "f") == "1"
    writer.hset("h", "f", "2")
    eventually("the client hears of it", lambda: r.hget("h", "f") == "2")
    writer.flushall()
    eventually("the client hears of it", lambda: r.get("k") is None and r.get("b") is None)
    r.close()
