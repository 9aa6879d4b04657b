"""A backend for dogpile.cache.

    region = make_region().configure(
        "atoll", expiration_time=60, arguments={"address": "shm:/app", "capacity": "256MiB"}
    )

``arguments`` takes the address, the capacity and the other options of ``atoll.Cache``. Of all
processes one creates a value at a time; if it dies, its lock is released after ``lock_timeout``
seconds (30 by default). Objects leave the pool when it is full, or after ``expiration`` seconds if
that argument is given. It should be longer than the region's ``expiration_time``.

dogpile.cache writes the values, by default as pickles: whoever can write the pool can run code in
the processes that read it.
"""

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dogpile.cache.api import NO_VALUE, BytesBackend, CacheMutex

from ._cache import Cache
from ._shared import shared_cache

_OPTIONS = ("capacity", "create", "clients", "clients_max", "object_bytes", "near")
_LOCK_PREFIX = "\0atoll-dogpile-lock\0"


class AtollBackend(BytesBackend):
    """The backend ``atoll``."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        # As other backends, it ignores arguments that are not its own.
        options = {name: arguments[name] for name in _OPTIONS if name in arguments}
        self._lock_seconds = float(arguments.get("lock_timeout", 30))
        self._ttl = arguments.get("expiration")
        self.atoll = shared_cache(arguments["address"], options)

    def get_serialized(self, key: str) -> Any:
        return self.atoll.get(key, NO_VALUE)

    def get_serialized_multi(self, keys: Iterable[str]) -> Sequence[Any]:
        keys = list(keys)
        found = self.atoll.get_many(keys)
        return [found.get(key, NO_VALUE) for key in keys]

    def set_serialized(self, key: str, value: bytes) -> None:
        self.atoll.set(key, value, self._ttl)

    def set_serialized_multi(self, mapping: Mapping[str, bytes]) -> None:
        self.atoll.set_many(mapping, self._ttl)

    def delete(self, key: str) -> None:
        self.atoll.delete(key)

    def delete_multi(self, keys: Iterable[str]) -> None:
        self.atoll.delete_many(keys)

    def get_mutex(self, key: str) -> CacheMutex:
        return _Mutex(self.atoll, key, self._lock_seconds)


class _Mutex(CacheMutex):
    """A lock in the pool. It is released after some time if its holder dies."""

    def __init__(self, cache: Cache, key: str, seconds: float) -> None:
        self._cache, self._key, self._seconds = cache, _LOCK_PREFIX + key, seconds
        self._token: int | None = None

    def acquire(self, wait: bool = True) -> bool:
        for pause in itertools.chain((0.0001 * 2**n for n in range(8)), itertools.repeat(0.02)):
            token = self._cache._lease(self._key, self._seconds)
            if token is not None or not wait:
                break
            time.sleep(pause)
        # Threads share this object, and one of them may hold the lock.
        if token is not None:
            self._token = token
        return token is not None

    def release(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            self._cache._release_lease(self._key, token)

    def locked(self) -> bool:
        token = self._cache._lease(self._key, 1.0)
        if token is None:
            return True
        self._cache._release_lease(self._key, token)
        return False
