"""pymemcache as a client. Run by memcached_clients.rs with the port as its argument."""

import sys

from pymemcache import MemcacheClientError, MemcacheUnknownCommandError
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.serde import pickle_serde

SERVER = ("127.0.0.1", int(sys.argv[1]))


def check(c):
    assert c.flush_all(noreply=False)
    assert c.set("k", b"v", noreply=False) is True
    assert c.get("k") == b"v" and c.get("absent") is None and c.get("absent", 7) == 7
    value, cas = c.gets("k")
    assert value == b"v" and c.cas("k", b"w", cas, noreply=False) is True
    assert c.cas("k", b"x", cas, noreply=False) is False
    assert c.cas("absent", b"x", cas, noreply=False) is None
    assert c.add("k", b"x", noreply=False) is False and c.replace("absent", b"x", noreply=False) is False
    assert c.append("k", b">", noreply=False) and c.prepend("k", b"<", noreply=False)
    assert c.get("k") == b"<w>"
    assert c.set_many({"m1": b"1", "m2": b"2"}, noreply=False) == []
    assert c.get_many(["m1", "none", "m2"]) == {"m1": b"1", "m2": b"2"}
    assert sorted(c.gets_many(["m1", "m2"])) == ["m1", "m2"]
    assert c.incr("m1", 41) == 42 and c.decr("m1", 50) == 0 and c.incr("none", 1) is None
    assert c.touch("k", 100, noreply=False) and not c.touch("none", 100, noreply=False)
    assert c.raw_command("gat 100 k", "END\r\n") == b"VALUE k 0 3\r\n<w>\r\n"
    assert c.delete("k", noreply=False) and not c.delete("k", noreply=False)
    assert c.delete_many(["m1", "m2"], noreply=False)
    # Without replies; the next reply shows that all of them were taken.
    c.set("q", b"1", expire=100)
    c.incr("q", 1, noreply=True)
    c.append("q", b"2")
    assert c.get("q") == b"22"
    big = bytes(range(256)) * 4000
    assert c.set("big", big, noreply=False) and c.get("big") == big
    try:
        c.incr("big", 1)
        raise AssertionError("bytes were counted up")
    except MemcacheClientError as error:
        assert b"non-numeric" in error.args[0], error
    stats = c.stats()
    assert stats[b"threads"] == 1 and stats[b"cmd_get"] > 0 and stats[b"curr_items"] > 0
    assert c.stats("settings")[b"evictions"] in (True, b"on")
    assert c.version() == b"1.6.18"


check(Client(SERVER))
check(PooledClient(SERVER, max_pool_size=2))
check(RetryingClient(Client(SERVER), attempts=2))

# Flags are the client's: with them values come back as what they were.
objects = Client(SERVER, serde=pickle_serde)
for value in (1, "text", b"bytes", {"a": [1, 2.5]}, True):
    assert objects.set("o", value, noreply=False) and objects.get("o") == value

try:
    Client(SERVER).raw_command("nothing", end_tokens=b"\r\n")
    raise AssertionError("an unknown command was run")
except MemcacheUnknownCommandError:
    pass
