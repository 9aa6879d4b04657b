"""pylibmc, over libmemcached, as a client: python3 pylibmc_clients.py MEMCACHED-PORT."""

import sys

import pylibmc

SERVER = ["127.0.0.1:" + sys.argv[1]]


def check(behaviors):
    c = pylibmc.Client(SERVER, behaviors=behaviors)
    assert c.flush_all()
    assert c.set("k", "v") and c.get("k") == "v" and c.get("absent") is None and c.get("absent", 7) == 7
    # pylibmc's flags say of what type a value is.
    for value in (b"bytes", "text", 7, 2**40, [1, {"two": 3.5}]):
        assert c.set("o", value) and c.get("o") == value and type(c.get("o")) is type(value), value
    assert c.add("k", "w") is False and c.replace("absent", "w") is False and c.replace("k", "w") is True
    assert c.set_multi({"a": 1, "b": 2}, time=100) == [] and c.get_multi(["a", "none", "b"]) == {"a": 1, "b": 2}
    assert c.set_multi({"x": 1, "y": 2}, key_prefix="p:") == [] and c.get_multi(["x", "y"], key_prefix="p:") == {"x": 1, "y": 2}
    assert c.add_multi({"a": 3, "z": 4}) == ["a"]
    assert c.delete_multi(["a", "b", "z"]) is True and c.get("a") is None and c.delete("a") is False
    c.set("n", 5)
    assert c.incr("n", 10) == 15 and c.decr("n") == 14 and c.incr_multi(["n"], delta=2) is None and c.get("n") == 16
    try:
        c.incr("absent")
        raise AssertionError("an absent number was counted up")
    except pylibmc.NotFound:
        pass
    c.set("s", b"middle")
    assert c.append("s", b">") and c.prepend("s", b"<") and c.get("s") == b"<middle>"
    assert c.touch("s", 100) and c.touch("absent", 100) is False
    large = b"x" * 500_000
    assert c.set("large", large, min_compress_len=1000) and c.get("large") == large
    assert c.set("large", large) and c.get("large") == large
    if behaviors.get("cas"):
        value, token = c.gets("s")
        assert value == b"<middle>" and c.cas("s", b"new", token)
        assert c.cas("s", b"newer", token) is False and c.get("s") == b"new"
    ((_, stats),) = c.get_stats()
    assert int(stats["curr_items"]) > 0 and int(stats["cmd_get"]) > 0
    c.disconnect_all()
    assert c.get("large") == large
    pool = pylibmc.ClientPool(c, 2)
    with pool.reserve() as one, pool.reserve() as other:
        assert one.set("pooled", 1) and other.get("pooled") == 1


check({})
check({"cas": True, "tcp_nodelay": True})
check({"no_block": True, "tcp_nodelay": True, "buffer_requests": False, "ketama": True})
