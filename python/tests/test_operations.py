"""What each operation promises."""

import math
import threading
import time
from datetime import timedelta

import pytest
from conftest import on_this_host

import atoll


def test_large_values_come_back_whatever_was_looked_up_before(cache):
    large = {f"{size}": bytes(range(256)) * (size // 256) for size in (65536, 300_032, 2 << 20)}
    cache.set_many(large)
    cache.set_many({"small": b"s", "text": "t" * 100_000, "none": None})
    for _ in range(3):
        for key, value in large.items():
            assert cache.get(key) == value and cache[key] == value
        # What is not large, or no bytes, is found although a large value is expected.
        assert cache.get("small") == b"s"
        assert cache.get(max(large)) == large[max(large)]
        assert cache.get("text") == "t" * 100_000 and cache.get("none", 1) is None
        assert cache.get(max(large)) == large[max(large)] and cache.get("absent", 7) == 7
    hits, misses = cache.stats()["hits"], cache.stats()["misses"]
    assert cache.get(max(large)) and cache.get("absent") is None
    assert (cache.stats()["hits"], cache.stats()["misses"]) == (hits + 1, misses + 1)


def test_a_value_comes_back_as_the_type_that_was_set(cache):
    values = [b"", b"\x00\xff", "", "grüße", 0, -1, 2**63 - 1, -(2**63), 10**40, 0.1, -0.0, 1e300, math.inf, True, False, None]
    for value in values:
        cache.set("k", value)
        found = cache.get("k", "missing")
        assert found == value and type(found) is type(value)
    cache.set("k", math.nan)
    assert math.isnan(cache.get("k"))


def test_buffers_are_stored_as_their_bytes(cache):
    import array

    for value in [bytearray(b"abc"), memoryview(b"abc"), memoryview(b"aXbXcX")[::2]]:
        cache.set("k", value)
        assert cache.get("k") == b"abc"
    cache.set("k", array.array("I", [1, 2]))
    assert cache.get("k") == array.array("I", [1, 2]).tobytes()


def test_text_and_bytes_are_the_same_key_and_other_keys_are_refused(cache):
    cache.set("grüße", 1)
    assert cache.get("grüße".encode()) == 1
    assert "" not in cache
    cache[b""] = "empty"
    assert cache[""] == "empty"
    for key in (1, None, ("a",), bytearray(b"k")):
        with pytest.raises(TypeError, match="a key is str or bytes"):
            cache.get(key)
    with pytest.raises(UnicodeEncodeError):
        cache.get("\ud800")


def test_a_miss_is_the_default_and_a_stored_none_is_none(cache):
    assert cache.get("k") is None and cache.get("k", 7) == 7
    cache.set("k", None)
    assert cache.get("k", 7) is None
    with pytest.raises(KeyError, match="absent"):
        cache["absent"]
    with pytest.raises(KeyError):
        del cache["absent"]
    del cache["k"]
    assert "k" not in cache


def test_add_sets_what_is_absent_and_replace_what_is_present(cache):
    assert not cache.replace("k", 1)
    assert cache.add("k", 2)
    assert not cache.add("k", 3)
    assert cache.replace("k", 4)
    assert cache["k"] == 4
    assert cache.delete("k") and not cache.delete("k")


def test_numbers_are_counted_and_stay_numbers(cache):
    assert cache.incr("n") == 1
    assert cache.incr("n", 41) == 42
    assert cache.decr("n", 2) == 40
    assert cache.get("n") == 40
    cache.set("n", 7)
    assert cache.incr("n") == 8
    with pytest.raises(KeyError, match="other"):
        cache.incr("other", create=False)
    assert "other" not in cache
    cache.set("n", "seven")
    with pytest.raises(atoll.NotANumber, match="decimal"):
        cache.incr("n")
    assert cache["n"] == "seven"
    cache.set("n", 2**63 - 1)
    with pytest.raises(atoll.OutOfRange):
        cache.incr("n")
    with pytest.raises(OverflowError):
        cache.decr("n", -(2**63))


def test_many_keys_at_once(cache):
    values = {f"k{n}": n for n in range(1000)}
    cache.set_many(values)
    keys = [*values, b"k7", "absent"]
    assert cache.get_many(keys) == {**values, b"k7": 7}
    assert cache.get_many(iter(["k1"])) == {"k1": 1}
    assert cache.get_many([]) == {}
    assert cache.delete_many(["k1", "k2", "absent"]) == 2
    assert cache.clear() == 998
    assert cache.get_many(keys) == {}
    with pytest.raises(TypeError):
        cache.set_many([("k", 1)])


def expire(cache, keys, left):
    """Waits until these of the keys are left."""
    until = time.monotonic() + 20
    while (found := cache.get_many(keys)) != left:
        assert time.monotonic() < until, found
        time.sleep(0.01)


@pytest.mark.parametrize("ttl", [0.5, timedelta(milliseconds=500)])
def test_objects_expire_after_their_time(cache, ttl):
    cache.set("set", 1, ttl)
    cache.add("added", 1, ttl)
    cache.set_many({"many": 1}, ttl)
    cache.incr("counted", ttl=ttl)
    cache.set("touched", 1)
    assert cache.touch("touched", ttl)
    cache.set("kept", 1, ttl)
    assert cache.touch("kept") and not cache.touch("absent")
    cache.incr("counted", ttl=60)
    expire(cache, ["set", "added", "many", "counted", "touched", "kept"], {"kept": 1})


def test_a_cache_has_a_time_of_its_own(address):
    with atoll.Cache(address, capacity="16MiB", ttl=0.05) as cache:
        cache.set("short", 1)
        cache["item"] = 1
        cache.set("long", 1, 60)
        cache.set("for ever", 1, math.inf)
        expire(cache, ["short", "item", "long", "for ever"], {"long": 1, "for ever": 1})


@pytest.mark.parametrize("ttl", [0, -1, -math.inf, math.nan, timedelta(0), timedelta(seconds=-1)])
def test_a_time_that_is_over_is_refused(cache, ttl):
    with pytest.raises(ValueError, match="more than 0"):
        cache.set("k", 1, ttl)
    assert "k" not in cache


@pytest.mark.parametrize("ttl", ["60", True, object()])
def test_what_is_no_time_is_refused(cache, ttl):
    with pytest.raises(TypeError, match="ttl"):
        cache.set("k", 1, ttl)
    cache.set("k", 1, 10**30)
    assert cache["k"] == 1


def test_a_value_is_copied_into_a_buffer_of_the_caller(cache):
    cache.set("k", b"value")
    buffer = bytearray(b"........")
    assert cache.get_into("k", buffer) == 5
    assert buffer == b"value..."
    assert cache.get_into("absent", buffer) is None
    assert cache.get_into("k", memoryview(buffer)[3:]) == 5
    assert buffer == b"valvalue"
    with pytest.raises(ValueError, match="the value has 5 bytes, the buffer 4"):
        cache.get_into("k", bytearray(4))
    with pytest.raises((TypeError, BufferError)):
        cache.get_into("k", b"read-only")
    large = bytes(range(256)) * 8192
    cache.set("large", large)
    into = bytearray(len(large))
    for _ in range(3):
        assert cache.get_into("large", into) == len(large) and into == large
        assert cache.get("large") == large
        assert cache.get("k") == b"value"


def test_limits_are_errors_that_say_so_and_change_nothing(cache):
    cache.set("k" * 65536, 1)
    with pytest.raises(atoll.TooLarge, match="65537 bytes"):
        cache.set("k" * 65537, 1)
    with pytest.raises(atoll.TooLarge, match="make a larger pool"):
        cache.set("k", bytes(15 << 20))
    assert "k" not in cache


def test_a_pool_that_is_full_evicts(cache):
    for n in range(60_000):
        cache.set(f"k{n}", b"x" * 500)
    stats = cache.stats()
    assert stats["evictions"] > 0 and stats["used_bytes"] <= stats["capacity_bytes"] == 16 << 20
    assert cache.get("k59999") == b"x" * 500


def test_stats_count(cache):
    cache.set("a", 1)
    cache.get("a")
    cache.get("b")
    stats = cache.stats()
    assert (stats["hits"], stats["misses"], stats["sets"], stats["objects"]) == (1, 1, 1, 1)


def test_a_closed_cache_says_so_and_closing_twice_is_harmless(address):
    cache = atoll.Cache(address, capacity="16MiB")
    cache.close()
    cache.close()
    assert cache.closed and "closed" in repr(cache)
    for operation in (lambda: cache.get("k"), lambda: cache.set("k", 1), cache.stats):
        with pytest.raises(atoll.Closed):
            operation()
    assert atoll.remove(address) == 16 << 20


def test_a_pool_keeps_its_settings_and_opening_can_be_without_creating(address):
    with pytest.raises(atoll.PoolAbsent):
        atoll.Cache(address, create=False)
    with atoll.Cache(address, capacity=16 << 20) as first, atoll.Cache(address, create=False) as second:
        first["k"] = "v"
        assert second["k"] == "v"
        assert atoll.Cache(address, capacity="1GiB").stats()["capacity_bytes"] == 16 << 20
    for capacity, error in [("lots", ValueError), (-1, ValueError), ("9999TiB", ValueError), ("1KiB", atoll.OpenFailed), ("999TiB", atoll.OpenFailed)]:
        with pytest.raises(error):
            atoll.Cache(f"{address}-other", capacity=capacity)
    for wrong in ("nonsense:/x", "shm:/../x", "tcp:127.0.0.1:1", "shm:/"):
        with pytest.raises(atoll.OpenFailed):
            atoll.Cache(wrong)


@on_this_host
def test_sizes_are_read_as_redis_reads_them(address):
    with atoll.Cache(address, capacity="32mb") as cache, atoll.Cache(address + "-of-ten", capacity="32m") as smaller:
        larger_bytes, smaller_bytes = (cache.stats()["capacity_bytes"] for cache in (cache, smaller))
        assert larger_bytes - smaller_bytes > 1_000_000, "one is 2^25 bytes, the other 32 million"
    atoll.remove(address + "-of-ten")
    for wrong in ("much", "", "-1", "1zb"):
        with pytest.raises(ValueError, match="write a number of bytes, such as 64MiB"):
            atoll.Cache(address, capacity=wrong)


@on_this_host
def test_a_pool_in_use_is_removed_by_force_only(cache, program):
    user = program("cache = atoll.Cache(sys.argv[1]); print('in', flush=True); sys.stdin.read()", cache.address)
    assert user.stdout.readline() == "in\n"
    cache.close()
    with pytest.raises(atoll.PoolInUse, match=f"process {user.pid}.*force=True"):
        atoll.remove(cache.address)
    assert atoll.remove(cache.address, force=True) == 16 << 20
    with pytest.raises(atoll.PoolAbsent):
        atoll.remove(cache.address)


def test_threads_share_a_cache(cache):
    def work(number):
        for round in range(3000):
            cache.incr("n")
            cache.set(f"t{number}", f"{number}:{round}")
            assert cache.get(f"t{number}") == f"{number}:{round}"
            if round % 500 == 0:
                cache.set(f"large{number}", bytes([number]) * 100_000)
                assert cache.get(f"large{number}") in (None, bytes([number]) * 100_000)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("n") == 8 * 3000
