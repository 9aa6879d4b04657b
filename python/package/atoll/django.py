"""A backend for Django's cache.

    CACHES = {
        "default": {
            "BACKEND": "atoll.django.AtollCache",
            "LOCATION": "shm:/app",
            "OPTIONS": {"capacity": "256MiB"},
        }
    }

All processes of the host with this location share one cache. Objects are evicted when the pool is
full, so that ``MAX_ENTRIES`` and ``CULL_FREQUENCY`` have no effect. ``OPTIONS`` takes what
``atoll.Cache`` takes. Values are pickled, as by Django's other backends: whoever can write the pool
can run code in the processes that read it. ``"codec": atoll.json`` in ``OPTIONS`` avoids that.
"""

from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

from . import Cache, PoolFull, TooLarge, pickle
from ._shared import shared_cache

class AtollCache(BaseCache):
    """The cache of ``LOCATION``. The asynchronous operations do not leave the event loop: over
    shared memory none of them waits."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        options = dict(params.get("OPTIONS") or {})
        for name in ("MAX_ENTRIES", "CULL_FREQUENCY"):
            options.pop(name, None)
        options.setdefault("codec", pickle)
        self._location = location
        self._cache_options = options

    @property
    def atoll(self) -> Cache:
        """The cache underneath, for what Django has no operation for."""
        return shared_cache(self._location, self._cache_options)

    def _ttl(self, timeout: Any) -> float | None:
        """The time to live in seconds; ``None`` for ever, 0 or less if it is over."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return None if timeout is None else float(timeout)

    def _key(self, key: Any, version: Any) -> str:
        name: str = self.make_and_validate_key(key, version=version)
        return name

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        key, ttl = self._key(key, version), self._ttl(timeout)
        if ttl is not None and ttl <= 0:
            return key not in self.atoll
        return self.atoll.add(key, value, ttl)

    def get(self, key: Any, default: Any = None, version: Any = None) -> Any:
        return self.atoll.get(self._key(key, version), default)

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> None:
        key, ttl = self._key(key, version), self._ttl(timeout)
        if ttl is not None and ttl <= 0:
            self.atoll.delete(key)
            return
        try:
            self.atoll.set(key, value, ttl)
        except (PoolFull, TooLarge):
            # As with memcached: an older value must not stay.
            self.atoll.delete(key)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        key, ttl = self._key(key, version), self._ttl(timeout)
        if ttl is not None and ttl <= 0:
            return self.atoll.delete(key)
        return self.atoll.touch(key, ttl)

    def delete(self, key: Any, version: Any = None) -> bool:
        return self.atoll.delete(self._key(key, version))

    def has_key(self, key: Any, version: Any = None) -> bool:
        return self._key(key, version) in self.atoll

    def incr(self, key: Any, delta: int = 1, version: Any = None) -> int:
        try:
            return self.atoll.incr(self._key(key, version), delta, create=False)
        except KeyError:
            raise ValueError(f"Key '{key}' not found") from None

    def get_many(self, keys: Any, version: Any = None) -> dict[Any, Any]:
        names = {self._key(key, version): key for key in keys}
        return {names[name]: value for name, value in self.atoll.get_many(names).items()}

    def set_many(self, data: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> list[Any]:
        for key, value in data.items():
            self.set(key, value, timeout, version)
        return []

    def delete_many(self, keys: Any, version: Any = None) -> None:
        self.atoll.delete_many([self._key(key, version) for key in keys])

    def clear(self) -> None:
        self.atoll.clear()

    def close(self, **kwargs: Any) -> None:
        """Nothing: Django calls it after every request, and the process keeps its pool."""

    async def aclear(self) -> None:
        await self.atoll.aclear()

    async def aadd(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        return await self.atoll._run(self.add, key, value, timeout, version)

    async def aget(self, key: Any, default: Any = None, version: Any = None) -> Any:
        return await self.atoll._run(self.get, key, default, version)

    async def aset(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> None:
        await self.atoll._run(self.set, key, value, timeout, version)

    async def atouch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> bool:
        return await self.atoll._run(self.touch, key, timeout, version)

    async def adelete(self, key: Any, version: Any = None) -> bool:
        return await self.atoll._run(self.delete, key, version)

    async def ahas_key(self, key: Any, version: Any = None) -> bool:
        return await self.atoll._run(self.has_key, key, version)

    async def aincr(self, key: Any, delta: int = 1, version: Any = None) -> int:
        return await self.atoll._run(self.incr, key, delta, version)

    async def aget_many(self, keys: Any, version: Any = None) -> dict[Any, Any]:
        return await self.atoll._run(self.get_many, keys, version)

    async def aset_many(self, data: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> list[Any]:
        return await self.atoll._run(self.set_many, data, timeout, version)

    async def adelete_many(self, keys: Any, version: Any = None) -> None:
        await self.atoll._run(self.delete_many, keys, version)
