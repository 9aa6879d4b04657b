"""A remote backend for LMCache: the key-value blocks of all serving processes of a host in one pool.

    remote_storage_plugins: ["atoll"]
    extra_config:
      remote_storage_plugin.atoll.module_path: atoll.lmcache
      remote_storage_plugin.atoll.class_name: AtollConnector
      remote_storage_plugin.atoll.address: "shm:/lmcache"
      remote_storage_plugin.atoll.capacity: "32GiB"

A chunk is copied once, between the pool and the memory that LMCache lends, without the interpreter
lock. Only its bytes are stored, no description: LMCache's configuration says what a full chunk is,
and a shorter chunk has fewer tokens. Layerwise chunks are refused.
"""

import asyncio
from typing import Any

from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector

from ._atoll import count_blocks, get_blocks, set_blocks
from ._shared import shared_cache

__all__ = ["AtollConnector"]

_OPTION = "remote_storage_plugin.atoll."


class AtollConnector(RemoteConnector):  # type: ignore[misc]
    """LMCache's interface to the blocks of a pool. Lookups of many keys follow the prefix rule."""

    def __init__(self, loop: asyncio.AbstractEventLoop, local_cpu_backend: Any, config: Any) -> None:
        super().__init__(local_cpu_backend.config, local_cpu_backend.metadata)
        if config.use_layerwise:
            raise ValueError("atoll.lmcache stores whole chunks: set use_layerwise to false")
        options = config.extra_config or {}
        address = options.get(_OPTION + "address")
        if not address:
            raise ValueError(f"the pool's address is missing: set {_OPTION}address in extra_config")
        given = {name: options[_OPTION + name] for name in ("capacity", "clients") if _OPTION + name in options}
        self.cache = shared_cache(address, given)
        self._backend = local_cpu_backend

    async def exists(self, key: Any) -> bool:
        return await asyncio.to_thread(self.exists_sync, key)

    def exists_sync(self, key: Any) -> bool:
        return key.to_string() in self.cache

    def support_batched_contains(self) -> bool:
        return True

    def batched_contains(self, keys: list[Any]) -> int:
        return count_blocks(self.cache, [key.to_string() for key in keys])

    async def batched_async_contains(self, lookup_id: str, keys: list[Any], pin: bool = False) -> int:
        return await asyncio.to_thread(self.batched_contains, keys)

    async def get(self, key: Any) -> Any:
        found = await self.batched_get_non_blocking("", [key])
        return found[0] if found else None

    def support_batched_get(self) -> bool:
        return True

    async def batched_get(self, keys: list[Any]) -> list[Any]:
        found = await self.batched_get_non_blocking("", keys)
        return found + [None] * (len(keys) - len(found))

    async def batched_get_non_blocking(self, lookup_id: str, keys: list[Any]) -> list[Any]:
        """The chunks from the first on until one is missing."""
        return await asyncio.to_thread(self._get, [key.to_string() for key in keys])

    def _get(self, keys: list[str]) -> list[Any]:
        # LMCache lends memory for the chunks that are there. One may be evicted before it is copied.
        lent: list[Any] = []
        found: list[Any] = []
        try:
            for _ in range(count_blocks(self.cache, keys)):
                chunk = self._backend.allocate(self.meta_shapes, self.meta_dtypes, self.meta_fmt)
                if chunk is None:
                    break
                lent.append(chunk)
            sizes = get_blocks(self.cache, keys[: len(lent)], [chunk.byte_array for chunk in lent])
            found = [self.reshape_partial_chunk(chunk, size) for chunk, size in zip(lent, sizes)]
        finally:
            for chunk in lent[len(found) :]:
                chunk.ref_count_down()
        return found

    async def put(self, key: Any, memory_obj: Any) -> None:
        await self.batched_put([key], [memory_obj])

    def support_batched_put(self) -> bool:
        return True

    async def batched_put(self, keys: list[Any], memory_objs: list[Any]) -> None:
        # The last one first: see `Blocks.put`.
        names = [key.to_string() for key in reversed(keys)]
        chunks = [chunk.byte_array for chunk in reversed(memory_objs)]
        await asyncio.to_thread(set_blocks, self.cache, names, chunks)

    def remove_sync(self, key: Any) -> bool:
        return self.cache.delete(key.to_string())

    async def list(self) -> list[str]:
        raise NotImplementedError("a pool is shared by programs that do not know each other's keys")

    def support_ping(self) -> bool:
        return True

    async def ping(self) -> int:
        await asyncio.to_thread(self.cache.stats)
        return 0

    async def close(self) -> None:
        """Nothing: other backends of this process may use the pool, which it leaves at its end."""
