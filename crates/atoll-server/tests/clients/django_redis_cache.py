"""django-redis as a cache, a lock and a store of sessions: python3 django_redis_cache.py PORT."""

import sys

import django
from django.conf import settings

URL = f"redis://127.0.0.1:{sys.argv[1]}"


def of(**options):
    return {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": URL + "/1",
        "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient", **options},
    }


settings.configure(
    CACHES={
        "default": of(),
        "json": of(SERIALIZER="django_redis.serializers.json.JSONSerializer") | {"KEY_PREFIX": "json"},
        "zlib": of(COMPRESSOR="django_redis.compressors.zlib.ZlibCompressor") | {"KEY_PREFIX": "zlib"},
        "herd": of(CLIENT_CLASS="django_redis.client.HerdClient") | {"KEY_PREFIX": "herd"},
        "shards": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": [URL + "/2", URL + "/3"],
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"},
        },
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    CACHE_HERD_TIMEOUT=20,
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import caches  # noqa: E402
from django_redis import get_redis_connection  # noqa: E402


def check(name):
    c = caches[name]
    c.clear()
    value = {"user": 7, "roles": ["a", "b"]}
    assert c.set("k", value, timeout=100) and c.get("k") == value and c.get("absent", "no") == "no"
    assert c.add("k", 1) is False and c.add("fresh", 1) is True
    c.set_many({"a": 1, "b": "two"}, timeout=100)
    assert c.get_many(["a", "none", "b"]) == {"a": 1, "b": "two"}
    assert c.has_key("a") and "none" not in c
    assert c.touch("a", 50) and not c.touch("none", 50)
    assert c.get_or_set("made", lambda: 42, 100) == 42 and c.get("made") == 42
    large = "x" * 300_000
    assert c.set("large", large) and c.get("large") == large
    assert c.delete("a") and not c.delete("a")
    assert sorted(c.keys("*")) == ["b", "fresh", "k", "large", "made"], c.keys("*")
    assert c.delete_pattern("f*") == 1 and c.get("fresh") is None
    c.delete_many(["b", "made"])
    assert c.get_many(["b", "made"]) == {}


for cache in ("default", "json", "zlib", "herd", "shards"):
    check(cache)

c = caches["default"]
c.clear()
c.set("n", 5, timeout=100)
assert c.incr("n") == 6 and c.decr("n", 2) == 4 and 0 < c.ttl("n") <= 100 and 0 < c.pttl("n") <= 100_000
try:
    c.incr("none")
    raise AssertionError("an absent number was counted up")
except ValueError:
    pass
assert c.set("forever", 1, timeout=None) and c.ttl("forever") is None and c.ttl("none") == 0
assert c.persist("n") and c.ttl("n") is None and c.expire("n", 10) and 0 < c.ttl("n") <= 10
c.set("short", 1)
assert c.set("short", 2, timeout=0) and c.get("short") is None
assert c.set("k", 1, nx=True) and not c.set("k", 2, nx=True) and c.get("k") == 1
assert c.incr_version("k") == 2 and c.get("k", version=2) == 1 and c.get("k") is None
assert list(c.iter_keys("n*")) == ["n"]
with c.lock("job", timeout=10):
    assert not c.lock("job", timeout=10).acquire(blocking=False)
assert c.hset("hash", "f", 7) and c.hexists("hash", "f") and c.hlen("hash") == 1
assert c.hkeys("hash") == ["f"] and c.hdel("hash", "f") == 1
raw = get_redis_connection("default")
with raw.pipeline() as pipeline:
    assert pipeline.set("raw", 1).incr("raw").execute() == [True, 2]

session = SessionStore()
session["user"] = 7
session.save()
assert SessionStore(session.session_key)["user"] == 7
session.set_expiry(100)
session.cycle_key()
assert SessionStore(session.session_key)["user"] == 7
session.flush()
assert "user" not in SessionStore(session.session_key)
