"""Blocks: the prefix rule, keys, and copies straight to and from the program's buffers."""

import asyncio
import threading
import time
from array import array

import pytest

import atoll
from atoll.blocks import Blocks, block_keys

BLOCK = 512 << 10


def block(number, size=BLOCK):
    return bytearray((number * 31 + place) % 251 for place in range(997)) * (size // 997 + 1)


@pytest.fixture
def blocks(address):
    with atoll.Cache(address, capacity="64MiB") as cache:
        yield Blocks(cache, name="model", tokens=4)


def test_a_key_stands_for_all_tokens_up_to_its_block():
    keys = block_keys(range(11), 4, name="model")
    assert len(keys) == 2 and len(set(keys)) == 2 and all(len(key) == 16 for key in keys)
    assert block_keys([*range(8), 99, 98, 97, 96], 4, name="model")[:2] == keys
    assert block_keys([7, *range(1, 8)], 4, name="model")[1] != keys[1], "another block before it"
    assert block_keys(range(8), 4, name="other") != keys
    assert block_keys(range(4, 8), 4, parent=keys[0]) == keys[1:]
    assert block_keys([], 4) == [] and block_keys([2**62, -1], 2) != block_keys([2**62, 1], 2)
    with pytest.raises(ValueError):
        block_keys([1], 0)


def test_keys_are_the_documented_hashes():
    from hashlib import blake2b

    def digest(data):
        return blake2b(data, digest_size=16, person=b"atoll-blocks-1").digest()

    first = digest(digest("m".encode()) + b"".join(token.to_bytes(8, "little") for token in (5, 6)))
    second = digest(first + b"".join(token.to_bytes(8, "little") for token in (7, 70000)))
    assert block_keys([5, 6, 7, 70000, 9], 2, name="m") == [first, second]


def test_blocks_count_only_if_all_before_them_are_there(blocks):
    keys = blocks.keys(range(20))
    data = [block(number)[:BLOCK] for number in range(5)]
    blocks.put(keys, data)
    into = [bytearray(BLOCK) for _ in keys]
    assert blocks.count(keys) == 5 and blocks.get(keys, into) == 5 and into == data
    assert blocks.cache.delete(keys[2])
    into = [bytearray(BLOCK) for _ in keys]
    assert blocks.count(keys) == 2 and blocks.get(keys, into) == 2
    assert into[:2] == data[:2]
    blocks.put(keys[2:3], data[2:3])
    assert blocks.get(keys, into) == 5 and into == data
    assert blocks.get([], []) == 0 and blocks.count([b"absent", *keys]) == 0


def test_any_contiguous_buffer_is_copied_from_and_to(blocks):
    numbers = array("d", (place / 3 for place in range(50_000)))
    blocks.put(["a"], [memoryview(numbers)[100:]])
    into = array("d", bytes(8 * 50_000))
    assert blocks.get_sizes(["a"], [into]) == [8 * 49_900]
    assert into[:49_900] == numbers[100:] and not any(into[49_900:])
    blocks.put(["b"], [b"small"])
    place = bytearray(9)
    assert blocks.get_sizes(["b"], [memoryview(place)[2:7]]) == [5] and place == b"\0\0small\0\0"
    assert blocks.cache.get("b") == b"small" and blocks.cache.get_into("b", place) == 5
    blocks.put(["none"], [b""])
    assert blocks.get_sizes(["none"], [bytearray()]) == [0]


def test_buffers_that_do_not_fit_are_refused(blocks):
    blocks.put(["a", "b"], [b"x" * 100, block(1)])
    with pytest.raises(ValueError, match="block 1 has .* bytes, its buffer 10"):
        blocks.get(["a", "b"], [bytearray(100), bytearray(10)])
    with pytest.raises(ValueError, match="2 keys and 1 buffers"):
        blocks.get(["a", "b"], [bytearray(100)])
    with pytest.raises(TypeError, match="read-only"):
        blocks.get(["a"], [bytes(100)])
    with pytest.raises(BufferError):
        blocks.put(["a"], [memoryview(bytearray(100))[::2]])
    with pytest.raises(TypeError):
        blocks.put(["a"], ["text"])
    with pytest.raises(TypeError, match="a key is str or bytes"):
        blocks.count([7])
    with pytest.raises(atoll.TooLarge):
        blocks.put(["c", "huge", "d"], [b"c", bytearray(60 << 20), b"stored"])
    assert blocks.count(["c"]) == blocks.count(["huge"]) == 0 and blocks.count(["d"]) == 1
    assert blocks.cache["a"] == b"x" * 100


def test_blocks_expire(address):
    with atoll.Cache(address, capacity="64MiB") as cache:
        Blocks(cache, ttl=60).put(["stays"], [block(1)])
        blocks = Blocks(cache, ttl=1)
        blocks.put(["a"], [block(1)])
        assert blocks.count(["a"]) == 1
        until = time.monotonic() + 20
        while blocks.get(["a"], [bytearray(1 << 20)]) != 0:
            assert time.monotonic() < until, "it does not expire"
            time.sleep(0.01)
        assert blocks.count(["a"]) == 0 and blocks.count(["stays"]) == 1


def test_tasks_run_while_blocks_are_copied(blocks):
    async def both():
        data = [block(number)[:BLOCK] for number in range(8)]
        keys = [f"{number}" for number in range(8)]
        await blocks.aput(keys, data)
        into = [bytearray(BLOCK) for _ in keys]
        copied, count = await asyncio.gather(blocks.aget(keys, into), blocks.acount(keys))
        assert copied == count == 8 and into == data

    asyncio.run(both())


def test_a_full_pool_takes_blocks_and_never_gives_wrong_ones(address):
    # The pool holds less than half of them, and two threads write and read at once.
    with atoll.Cache(address, capacity="24MiB") as cache:
        data = {f"{number}": bytes(block(number)[:BLOCK]) for number in range(100)}
        wrong = []

        def use(first):
            blocks, place = Blocks(cache), bytearray(BLOCK)
            for number in range(400):
                key = f"{(number * 7 + first) % 100}"
                if blocks.get([key], [place]) == 0:
                    blocks.put([key], [data[key]])
                elif place != data[key]:
                    wrong.append(key)

        threads = [threading.Thread(target=use, args=(first,)) for first in (0, 50)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not wrong and cache.stats()["evictions"] > 0
