"""redis-py against a running server: python3 clients.py PORT."""

import sys
import time

import redis

port = int(sys.argv[1])


def check(protocol):
    r = redis.Redis(port=port, protocol=protocol, decode_responses=False)
    assert r.ping()
    r.flushall()
    assert r.set("k", b"\x00\xffbytes\r\n")
    assert r.get("k") == b"\x00\xffbytes\r\n"
    assert r.set("k", "v2", nx=True) is None
    assert r.set("k", "v2", xx=True, get=True) == b"\x00\xffbytes\r\n"
    assert r.get("absent") is None
    assert r.set("t", "v", px=60_000)
    assert 0 < r.pttl("t") <= 60_000
    assert r.set("t", "v", px=20)
    time.sleep(0.04)
    assert r.get("t") is None
    assert r.incr("n", 41) == 41 and r.incrbyfloat("n", 1.5) == 42.5
    assert r.append("a", "xy") == 2 and r.strlen("a") == 2
    assert r.setrange("a", 4, "z") == 5 and r.get("a") == b"xy\0\0z"
    assert r.mset({"m1": 1, "m2": 2}) and r.mget("m1", "no", "m2") == [b"1", None, b"2"]
    assert r.getdel("m1") == b"1" and r.exists("m1", "m2") == 1
    assert r.expire("m2", 100) and 0 < r.ttl("m2") <= 100 and r.persist("m2") and r.ttl("m2") == -1
    assert r.type("m2") == b"string"
    assert "db0" in r.info("keyspace")
    with r.pipeline(transaction=False) as pipe:
        for index in range(2000):
            pipe.set(f"p{index}", index)
        for index in range(2000):
            pipe.get(f"p{index}")
        replies = pipe.execute()
    assert all(replies[:2000]) and replies[2000:] == [str(index).encode() for index in range(2000)]
    assert len(set(r.scan_iter("p*", count=100))) == 2000
    # An expired key counts until its room is taken back, as with Redis.
    assert r.dbsize() >= len(r.keys("*")) == 2004
    try:
        r.incr("k")
    except redis.ResponseError as error:
        assert "not an integer" in str(error)
    else:
        raise AssertionError("INCR of a word")
    try:
        r.execute_command("NOSUCH", "a")
    except redis.ResponseError as error:
        assert "unknown command" in str(error)
    else:
        raise AssertionError("an unknown command")


for version in (2, 3):
    check(version)
print("ok")
