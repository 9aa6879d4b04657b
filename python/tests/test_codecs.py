"""Values of further types, and what a reader without the writer's codec gets."""

import collections

import pytest

import atoll


class Text(str):
    pass


Point = collections.namedtuple("Point", "x y")


def opened(cache, codec):
    return atoll.Cache(cache.address, codec=codec)


def test_without_a_codec_other_types_are_refused(cache):
    for value in ({"a": 1}, [1], Point(1, 2), object(), 1j):
        with pytest.raises(TypeError, match="needs a codec"):
            cache.set("k", value)
    assert "k" not in cache


def test_pickles_keep_types(cache):
    pickling = opened(cache, atoll.pickle)
    for value in ({"a": (1, 2)}, Point(1, 2), Text("t"), {1}, 1j):
        pickling.set("k", value)
        assert pickling.get("k") == value and type(pickling.get("k")) is type(value)
    assert pickling.get_many(["k"]) == {"k": 1j}


def test_a_pickle_is_read_only_by_a_cache_that_asks_for_it(cache):
    opened(cache, atoll.pickle).set("k", {"a": 1})
    for other in (cache, opened(cache, atoll.json)):
        with pytest.raises(atoll.CodecError, match="codec=atoll.pickle"):
            other.get("k")
        with pytest.raises(atoll.CodecError):
            other.get_many(["k"])
    assert cache.delete("k")


def test_json_is_read_by_every_cache(cache):
    opened(cache, atoll.json).set("k", {"a": [1, None, "ü"]})
    for reader in (cache, opened(cache, atoll.json), opened(cache, atoll.pickle)):
        assert reader["k"] == {"a": [1, None, "ü"]}
    with pytest.raises(TypeError):
        opened(cache, atoll.json).set("k", object())


def test_a_codec_of_a_program_may_use_the_cache(cache):
    class Reversed:
        flags = 256

        def encode(self, value):
            return value[0][::-1].encode()

        def decode(self, data):
            assert cache.get("other") == "there"
            return [data.decode()[::-1]]

    cache.set("other", "there")
    own = opened(cache, Reversed())
    own.set("k", ["abc"])
    assert own.get("k") == ["abc"] and own["k"] == ["abc"]
    with pytest.raises(atoll.CodecError, match="flags 256"):
        cache.get("k")
    assert opened(cache, atoll.json).codec is atoll.json


def test_what_is_no_codec_is_refused(cache):
    class Broken:
        flags = 256
        decode = encode = staticmethod(lambda value: 7)

    class Taken(Broken):
        flags = 16

    import json

    for codec in (json, object(), "pickle", Taken()):
        with pytest.raises(TypeError, match="codec"):
            opened(cache, codec)
    with pytest.raises(TypeError, match="encode returns bytes"):
        opened(cache, Broken()).set("k", [])


def test_bytes_that_a_codec_cannot_read_are_an_error_of_the_cache(cache):
    class Bad:
        flags = 32
        encode = staticmethod(lambda value: b"{")

        def decode(self, data):
            raise value

    bad = opened(cache, Bad())
    bad.set("k", [])
    for reader in (cache, opened(cache, atoll.json), opened(cache, atoll.pickle)):
        with pytest.raises(atoll.CodecError, match="delete the key") as raised:
            reader.get("k")
        assert isinstance(raised.value.__cause__, ValueError)
    value = LookupError("none")
    with pytest.raises(atoll.CodecError, match="LookupError: none"):
        bad.get("k")
    value = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bad.get("k")
