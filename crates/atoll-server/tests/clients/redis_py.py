"""redis-py as a client: plain calls, pipelines, RESP3. Run by redis_py.rs with the port as its argument."""

import sys

import redis


def check(protocol):
    r = redis.Redis(port=int(sys.argv[1]), protocol=protocol, client_name="py")
    r.flushall()
    assert r.client_getname() in (b"py", "py")
    assert r.set("k", "v") is True
    assert r.get("k") == b"v"
    assert r.get("absent") is None
    assert r.set("k", "w", nx=True) is None
    assert r.set("k", "w", get=True) == b"v"
    assert r.set("k", "x", ex=100) is True
    assert r.ttl("k") == 100
    assert r.set("k", "y", keepttl=True) is True
    assert 99_000 < r.pttl("k") <= 100_000
    assert r.getex("k", persist=True) == b"y"
    assert r.ttl("k") == -1
    assert r.expire("k", 50, nx=True) and not r.expire("k", 60, nx=True)
    assert r.getdel("k") == b"y"
    assert r.incr("n", 5) == 5 and r.decr("n") == 4
    assert r.incrbyfloat("f", 0.1) == 0.1 and r.incrbyfloat("f", 0.2) == 0.3
    assert r.append("a", "Hello ") == 6 and r.append("a", "World") == 11
    assert r.getrange("a", -5, -1) == b"World" and r.setrange("a", 6, "Redis") == 11
    assert r.get("a") == b"Hello Redis" and r.strlen("a") == 11
    assert r.mset({"x": 1, "y": 2}) and r.mget("x", "none", "y") == [b"1", None, b"2"]
    assert r.msetnx({"x": 3, "z": 3}) is False and r.exists("z") == 0
    assert r.type("x") == b"string" and r.type("none") == b"none"
    assert sorted(r.scan_iter(match="[xy]")) == [b"x", b"y"]
    assert sorted(r.keys("?")) == [b"a", b"f", b"n", b"x", b"y"]
    assert r.delete("x", "y", "none") == 2
    assert r.dbsize() == 3 and r.randomkey() in (b"a", b"f", b"n")
    assert r.info("server")["redis_mode"] == "standalone"
    assert r.info()["keyspace_hits"] > 0
    assert r.command_count() > 40 and "get" in r.command()
    assert r.ping() and r.echo("hi") == b"hi" and len(r.time()) == 2
    blob = bytes(range(256)) * 4096
    assert r.set("blob", blob) and r.get("blob") == blob
    try:
        r.incr("a")
        raise AssertionError("a text was counted up")
    except redis.ResponseError as error:
        assert str(error) == "value is not an integer or out of range", error

    # A pipeline is a transaction, unless asked otherwise.
    r.delete("counter")
    with r.pipeline() as pipeline:
        replies = pipeline.incr("counter").set("k", "v", ex=100).incr("counter").get("k").execute()
    assert replies == [1, True, 2, b"v"]
    with r.pipeline() as pipeline:
        pipeline.watch("counter")
        r.incr("counter")
        pipeline.multi()
        pipeline.set("counter", 100)
        try:
            pipeline.execute()
            raise AssertionError("a watched key had changed")
        except redis.WatchError:
            pass
    assert r.transaction(lambda pipe: (pipe.multi(), pipe.incr("counter")), "counter") == [4]

    # A store of sessions: a hash with an expiry for each.
    r.delete("session")
    session = {"user": "7", "csrf": "\x00\xff", "visits": "1"}
    with r.pipeline() as pipeline:
        assert pipeline.hset("session", mapping=session).expire("session", 1000).execute() == [3, True]
    assert r.hincrby("session", "visits") == 2 and r.hincrbyfloat("session", "spent", 0.1) == 0.1
    session = {name.encode(): text.encode() for name, text in session.items()} | {b"visits": b"2", b"spent": b"0.1"}
    assert r.hgetall("session") == session and dict(r.hscan_iter("session")) == session
    assert r.hmget("session", "user", "none") == [b"7", None] and r.hget("session", "csrf") == session[b"csrf"]
    assert r.hexists("session", "user") and r.hlen("session") == 4 and r.hsetnx("session", "user", "8") == 0
    assert r.hkeys("session") == list(session) and r.hvals("session") == list(session.values())
    assert r.hrandfield("session") in session and len(r.hrandfield("session", -9)) == 9
    assert r.type("session") == b"hash" and list(r.scan_iter(_type="hash")) == [b"session"]
    assert 0 < r.ttl("session") <= 1000
    try:
        r.get("session")
        raise AssertionError("a hash was taken for a string")
    except redis.ResponseError as error:
        assert "wrong kind of value" in str(error), error
    assert r.hdel("session", *session) == 4 and not r.exists("session")

    lock = r.lock("lock", timeout=10)
    assert lock.acquire(blocking=False) and not r.lock("lock", timeout=10).acquire(blocking=False)
    assert lock.extend(10) and lock.owned()
    lock.release()
    assert not r.exists("lock")
    limit = r.register_script(
        "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return n"
    )
    assert [limit(keys=["limit"], args=[5000]) for _ in range(3)] == [1, 2, 3] and 0 < r.pttl("limit") <= 5000

    other = redis.Redis(port=int(sys.argv[1]), protocol=protocol, db=7)
    assert other.set("k", "seven") and r.get("k") == b"v" and other.get("k") == b"seven"
    assert r.copy("k", "copied", 7) and other.rename("copied", "renamed") and other.dbsize() == 2
    assert other.move("renamed", 0) and r.get("renamed") == b"v"
    assert r.info("keyspace")["db7"]["keys"] == 1
    assert other.flushdb() and not other.exists("k") and r.exists("k")

    listener = r.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("n?ws")
    assert r.pubsub_numsub("news") == [(b"news", 1)] and r.pubsub_numpat() == 1
    assert r.publish("news", "hello") == 2
    # Two confirmations come first, which are ignored.
    messages = [listener.get_message(timeout=5) for _ in range(4)]
    kinds = [(one["type"], one["data"]) for one in messages if one]
    assert kinds == [("message", b"hello"), ("pmessage", b"hello")], kinds
    listener.close()

    pipeline = r.pipeline(transaction=False)
    for index in range(10_000):
        pipeline.set(f"p{index}", index)
        pipeline.get(f"p{index}")
    replies = pipeline.execute()
    assert replies == [reply for index in range(10_000) for reply in (True, str(index).encode())]


for version in (2, 3):
    check(version)
