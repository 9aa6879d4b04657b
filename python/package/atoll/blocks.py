"""Blocks of a language model's key-value cache, shared by the processes that serve the model.

A prompt is cut into blocks of tokens. The state that a model has computed for a block depends on
every token before it, so a block is of use only if all blocks before it are there, too: the
**prefix rule**. Every operation here keeps it.

>>> import atoll, atoll.blocks
>>> blocks = atoll.blocks.Blocks(atoll.Cache("shm:/kv", capacity="8GiB"), name="llama-8b/bf16", tokens=256)
>>> keys = blocks.keys(prompt)              # one for each full block
>>> there = blocks.get(keys, buffers)       # copied into the first buffers: so many
>>> blocks.put(keys[there:], computed)      # what was computed of the others

A buffer is anything with the buffer protocol whose bytes lie one behind the other: a bytearray, a
memoryview, an array, a NumPy array, pinned memory of a GPU's library. A block is copied once,
between the pool and the buffer, without the interpreter lock.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import Iterable, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from ._atoll import count_blocks, get_blocks, set_blocks
from ._cache import Cache

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Blocks", "block_keys"]

_KEY_BYTES = 16
_PERSON = b"atoll-blocks-1"


def block_keys(
    tokens: Iterable[int], block_tokens: int, *, name: str = "", parent: bytes | None = None
) -> list[bytes]:
    """The keys of the full blocks of a prompt; the last tokens that fill no block have none.

    Each key is a BLAKE2b hash of 16 bytes, with the personalization ``atoll-blocks-1``. The first
    is of ``name`` in UTF-8, and is the parent of the first block. The key of a block is of its
    parent's key and the block's tokens, each as eight bytes, the lowest first. So a key stands for
    all tokens up to the end of its block, and two prompts share the keys of the blocks that they
    have in common.

    ``name`` tells apart what must not be shared: models, precisions, ranks of a tensor-parallel
    group, tenants. With ``parent``, the key of the block before, a prompt is continued.
    """
    if block_tokens < 1:
        raise ValueError("a block has one token at least")
    all_tokens = array("q", tokens)
    if sys.byteorder == "big":
        all_tokens.byteswap()
    data = memoryview(all_tokens).cast("B")
    if parent is None:
        parent = blake2b(name.encode(), digest_size=_KEY_BYTES, person=_PERSON).digest()
    keys, step = [], block_tokens * 8
    for start in range(0, len(data) - step + 1, step):
        block = blake2b(parent, digest_size=_KEY_BYTES, person=_PERSON)
        block.update(data[start : start + step])
        parent = block.digest()
        keys.append(parent)
    return keys


class Blocks:
    """The blocks of one model in a cache.

    ``name``
        What must not be shared with others is in it: see ``block_keys``.
    ``tokens``
        Tokens of a block.
    ``ttl``
        How long blocks stay: seconds, or a ``timedelta``; by default until they are evicted.
    """

    def __init__(
        self, cache: Cache, *, name: str = "", tokens: int = 256, ttl: float | timedelta | None = None
    ) -> None:
        if tokens < 1:
            raise ValueError("a block has one token at least")
        self.cache, self.name, self.tokens, self.ttl = cache, name, tokens, ttl

    def keys(self, tokens: Iterable[int], parent: bytes | None = None) -> list[bytes]:
        """The keys of a prompt's full blocks: see ``block_keys``."""
        return block_keys(tokens, self.tokens, name=self.name, parent=parent)

    def count(self, keys: Sequence[str | bytes]) -> int:
        """How many blocks are there from the first on until one is missing. Another process may
        evict them at any time: only ``get`` says which it has copied."""
        return count_blocks(self.cache, keys)

    def get(self, keys: Sequence[str | bytes], buffers: Sequence[Buffer]) -> int:
        """Copies the blocks into the buffers, from the first on until one is missing; returns how
        many. What is in the other buffers is not defined afterwards. A block that is longer than
        its buffer is a ``ValueError``; ``get_sizes`` tells the lengths of shorter ones."""
        return len(get_blocks(self.cache, keys, buffers))

    def get_sizes(self, keys: Sequence[str | bytes], buffers: Sequence[Buffer]) -> list[int]:
        """As ``get``, and returns the lengths of the blocks that were copied."""
        return get_blocks(self.cache, keys, buffers)

    def put(self, keys: Sequence[str | bytes], buffers: Sequence[Buffer]) -> None:
        """Stores the buffers' bytes as blocks, the last one first: a pool evicts what is older
        sooner, and a block is worth less than those before it. If one has no room, those behind it
        are stored, and the exception is ``PoolFull`` or ``TooLarge``."""
        set_blocks(self.cache, keys[::-1], buffers[::-1], self.ttl)

    async def acount(self, keys: Sequence[str | bytes]) -> int:
        """As ``count``, on a thread."""
        return await asyncio.to_thread(self.count, keys)

    async def aget(self, keys: Sequence[str | bytes], buffers: Sequence[Buffer]) -> int:
        """As ``get``, on a thread, so that other tasks run meanwhile."""
        return await asyncio.to_thread(self.get, keys, buffers)

    async def aput(self, keys: Sequence[str | bytes], buffers: Sequence[Buffer]) -> None:
        """As ``put``, on a thread, so that other tasks run meanwhile."""
        await asyncio.to_thread(self.put, keys, buffers)
