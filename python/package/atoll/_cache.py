"""The cache: what the compiled class does not do. That is whatever calls a program's functions,
waits, or is asynchronous."""

import asyncio
import functools
import inspect
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast, overload

from . import _atoll, _process
from ._codecs import Codec
from ._errors import PoolFull, TooLarge

Key = str | bytes
TTL = float | timedelta | None
P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=Key)

_ABSENT: Any = object()
_LEASE_SECONDS = 30.0
_PLAIN = (str, bytes, int, float, bool, type(None))


def _pauses() -> Iterator[float]:
    """How long to sleep before each further look for a value that another caller loads."""
    return itertools.chain((0.0001 * 2**n for n in range(8)), itertools.repeat(0.02))


class Cache(_atoll.Cache):
    """A cache in the pool ``address``, which any number of processes share.

    The pool is opened, or created if there is none. ``shm:/NAME`` is memory of this host; it stays
    until it is removed (``atoll.remove``) or the host reboots. The path of a file stays longer.
    ``tcp:HOST:PORT[,HOST:PORT...]`` is memory of other hosts, which ``atoll node`` lends. Their
    secret is in the file that the environment variable ``ATOLL_SECRET_FILE`` names when the cache
    is opened. With ``?ca=FILE`` behind the address connections are TLS: FILE holds the certificate
    of the authority that signed the nodes'.
    A process makes one cache of a pool, because each has a place of its own among the pool's
    clients. Any number of threads may use it. A forked child goes on with the same object: its
    first operation opens the pool anew, by itself.

    ``capacity``
        Bytes of a new pool, as a number or as text such as ``"256MiB"``, which is the default. A
        pool that is there keeps its own.
    ``codec``
        How values are written that are not bytes, ``str``, ``int``, ``float``, ``bool`` or
        ``None``: ``atoll.json``, ``atoll.pickle``, or an object like them. Without one such a
        value is a ``TypeError``. To read a pickle runs what its writer says: use ``atoll.pickle``
        only if every process that can write the pool is trusted.
    ``ttl``
        How long values stay that are set without a ``ttl``: seconds, or a ``timedelta``. The
        default is until they are evicted.
    ``create``
        Whether the pool is created if there is none. Otherwise that is a ``PoolAbsent``.
    ``clients``
        As many threads of this process use the pool at a time; the default is 4.
    ``clients_max``, ``object_bytes``
        Of a new pool: the most clients of all processes (512, or 64 if the pool has less than 64
        MiB), and the expected bytes of a key with its value (296).
    ``near``
        Bytes of this process's own memory, as a number or as text, for copies of what it reads
        often. A hit costs no access to the pool, and no process reads an old value. It pays where
        the pool is on another host. The default is none.
    """

    def __init__(
        self,
        address: str,
        *,
        capacity: int | str | None = None,
        codec: Codec | None = None,
        ttl: TTL = None,
        create: bool = True,
        clients: int | None = None,
        clients_max: int | None = None,
        object_bytes: int | None = None,
        near: int | str | None = None,
    ) -> None:
        self._options = {
            "capacity": capacity,
            "codec": codec,
            "ttl": ttl,
            "create": create,
            "clients": clients,
            "clients_max": clients_max,
            "object_bytes": object_bytes,
            "near": near,
        }
        self._waits = address.startswith("tcp:")
        _process.closes_at_exit(self)

    async def _run(self, operation: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Runs an operation. Over a network it waits, so that it runs on a thread; over shared memory
        none waits."""
        if self._waits:
            return await asyncio.to_thread(operation, *arguments, **options)
        return operation(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process that gets the cache, such as one of multiprocessing, opens the pool.
        return _opened, (type(self), self.address, self._options)

    def __repr__(self) -> str:
        return f"<atoll.Cache {self.address!r}{' closed' if self.closed else ''}>"

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Cache":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._run(self.close)

    def get_or_set(
        self, key: Key, loader: Callable[[], T], ttl: TTL = None, *, lease: float = _LEASE_SECONDS
    ) -> T:
        """The value of ``key``; if it is absent, what ``loader()`` returns, which is then set.

        One caller loads at a time, among all threads and processes; the others wait for its value.
        If the loader raises, its caller gets the exception, and one that waits loads. If its
        process dies, or it takes longer than ``lease`` seconds, another caller loads. A loader
        must not load its own key. A value that the pool has no room for is returned all the same.
        """
        pauses = _pauses()
        value: Any
        while (value := self.get(key, _ABSENT)) is _ABSENT:
            token = self._lease(key, lease)
            if token is not None:
                try:
                    value = loader()
                    self._keep(key, value, ttl)
                finally:
                    self._release_lease(key, token)
                break
            time.sleep(next(pauses))
        return cast(T, value)

    async def aget_or_set(
        self,
        key: Key,
        loader: Callable[[], Awaitable[T]] | Callable[[], T],
        ttl: TTL = None,
        *,
        lease: float = _LEASE_SECONDS,
    ) -> T:
        """As ``get_or_set``, with a loader that may be a coroutine function. Of all tasks, threads
        and processes one loads. If its task is cancelled, another caller loads."""
        pauses = _pauses()
        value: Any
        while (value := await self._run(self.get, key, _ABSENT)) is _ABSENT:
            token = await self._alease(key, lease)
            if token is not None:
                try:
                    value = loader()
                    if inspect.isawaitable(value):
                        value = await value
                    await self._run(self._keep, key, value, ttl)
                finally:
                    await self._run(self._release_lease, key, token)
                break
            await asyncio.sleep(next(pauses))
        return cast(T, value)

    async def _alease(self, key: Key, lease: float) -> int | None:
        if not self._waits:
            return self._lease(key, lease)
        taking = asyncio.ensure_future(asyncio.to_thread(self._lease, key, lease))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The thread goes on. The lease that it gets is given back, so that no caller waits for it.
            taking.add_done_callback(functools.partial(self._give_back, key))
            raise

    def _give_back(self, key: Key, taken: "asyncio.Future[int | None]") -> None:
        if not taken.cancelled() and taken.exception() is None and (token := taken.result()) is not None:
            asyncio.get_running_loop().run_in_executor(None, self._release_lease, key, token)

    def _keep(self, key: Key, value: Any, ttl: TTL) -> None:
        try:
            self.set(key, value, ttl)
        except (PoolFull, TooLarge):
            pass

    @overload
    def memoize(self, function: Callable[P, T], /) -> Callable[P, T]: ...
    @overload
    def memoize(
        self, *, ttl: TTL = None, key: Callable[..., Key] | None = None, lease: float = _LEASE_SECONDS
    ) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
    def memoize(  # type: ignore[misc]
        self, function: Any = None, /, *, ttl: TTL = None, key: Any = None, lease: float = _LEASE_SECONDS
    ) -> Any:
        """Decorates a function, also a coroutine function, so that its results are cached and all
        processes share them. One caller at a time runs it with the same arguments.

        The key is made of the function's name and its arguments, which must be text, bytes,
        numbers, ``None``, or tuples of these. For other arguments give ``key``, which is called
        with the same arguments. ``f(1)`` and ``f(x=1)`` have results of their own.
        ``f.cache_key(...)`` is the key, and ``f.forget(...)`` deletes the result.
        """

        def decorate(function: Any) -> Any:
            name = f"{function.__module__}.{function.__qualname__}"
            key_of = key or functools.partial(_key_of_call, name)
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def memoized(*args: Any, **kwargs: Any) -> Any:
                    load = functools.partial(function, *args, **kwargs)
                    return await self.aget_or_set(key_of(*args, **kwargs), load, ttl, lease=lease)

            else:

                @functools.wraps(function)
                def memoized(*args: Any, **kwargs: Any) -> Any:
                    load = functools.partial(function, *args, **kwargs)
                    return self.get_or_set(key_of(*args, **kwargs), load, ttl, lease=lease)

            memoized.cache_key = key_of  # type: ignore[attr-defined]
            memoized.forget = lambda *args, **kwargs: self.delete(key_of(*args, **kwargs))  # type: ignore[attr-defined]
            return memoized

        return decorate if function is None else decorate(function)

    async def aget(self, key: Key, default: Any = None) -> Any:
        """As ``get``. Over shared memory this and the other operations in ``a`` take as long as those
        without, since none of them waits; over a network they run on threads."""
        return await self._run(self.get, key, default)

    async def aget_many(self, keys: Iterable[K]) -> dict[K, Any]:
        """As ``get_many``."""
        return await self._run(self.get_many, keys)

    async def aset(self, key: Key, value: Any, ttl: TTL = None) -> None:
        """As ``set``."""
        await self._run(self.set, key, value, ttl)

    async def aadd(self, key: Key, value: Any, ttl: TTL = None) -> bool:
        """As ``add``."""
        return await self._run(self.add, key, value, ttl)

    async def areplace(self, key: Key, value: Any, ttl: TTL = None) -> bool:
        """As ``replace``."""
        return await self._run(self.replace, key, value, ttl)

    async def aset_many(self, values: Mapping[K, Any], ttl: TTL = None) -> None:
        """As ``set_many``."""
        await self._run(self.set_many, values, ttl)

    async def adelete(self, key: Key) -> bool:
        """As ``delete``."""
        return await self._run(self.delete, key)

    async def adelete_many(self, keys: Iterable[Key]) -> int:
        """As ``delete_many``."""
        return await self._run(self.delete_many, keys)

    async def atouch(self, key: Key, ttl: TTL = None) -> bool:
        """As ``touch``."""
        return await self._run(self.touch, key, ttl)

    async def aincr(self, key: Key, delta: int = 1, ttl: TTL = None, *, create: bool = True) -> int:
        """As ``incr``."""
        return await self._run(self.incr, key, delta, ttl, create=create)

    async def adecr(self, key: Key, delta: int = 1, ttl: TTL = None, *, create: bool = True) -> int:
        """As ``decr``."""
        return await self._run(self.decr, key, delta, ttl, create=create)

    async def acontains(self, key: Key) -> bool:
        """Whether ``key`` is there."""
        return await self._run(self.__contains__, key)

    async def aclear(self) -> int:
        """As ``clear``, on a thread of its own: it takes as long as there are keys."""
        return await asyncio.to_thread(self.clear)

    async def aclose(self) -> None:
        """As ``close``."""
        await self._run(self.close)


def _opened(cls: type[Cache], address: str, options: dict[str, Any]) -> Cache:
    return cls(address, **options)


def _key_of_call(name: str, *args: Any, **kwargs: Any) -> str:
    arguments = (args, tuple(sorted(kwargs.items())))
    if not _is_plain(arguments):
        raise TypeError(
            f"the arguments of {name} make no key: they must be text, bytes, numbers, None, or tuples of these; "
            "otherwise give memoize(key=...), a function of the same arguments"
        )
    return f"{name}{arguments!r}"


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or type(value) is tuple and all(map(_is_plain, value))
