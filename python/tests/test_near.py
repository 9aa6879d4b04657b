"""A near cache: what is read often stays in memory of this host, and is never old."""

import atoll
import pytest


def test_a_near_cache_answers_and_sees_what_others_change(address):
    with atoll.Cache(address, capacity="32MiB", near="1MiB") as near, atoll.Cache(address) as other:
        for turn in range(20):
            other.set("key", turn)
            assert all(near.get("key") == turn for _ in range(50))
        other.delete("key")
        assert near.get("key") is None
        assert near.stats()["near_hits"] > 500
        other.set("brief", b"value", ttl=0.05)
        while near.get("brief") is not None:
            pass


def test_a_near_cache_that_is_too_small_is_refused(address):
    with pytest.raises(atoll.Error, match="65536"):
        atoll.Cache(address, capacity="32MiB", near=1000).get("key")
