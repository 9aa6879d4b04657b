"""A cache that the processes of a host share at memory speed, and those of several hosts over a network.

>>> import atoll
>>> cache = atoll.Cache("shm:/app", capacity="256MiB")   # in every process: opens or creates
>>> cache.set("user:7", "alice", ttl=60)
>>> cache.get("user:7")
'alice'

``Cache`` has the operations, ``atoll.json`` and ``atoll.pickle`` are codecs for further types of
values, ``atoll.django`` and ``atoll.dogpile`` are backends. All errors are an ``atoll.Error``.
"""

from ._atoll import remove
from ._cache import Cache
from ._codecs import Codec, json, pickle
from ._errors import (
    Closed,
    CodecError,
    Damaged,
    Error,
    NotANumber,
    OpenFailed,
    OutOfRange,
    PoolAbsent,
    PoolFull,
    PoolInUse,
    PoolLost,
    TooLarge,
    TooManyClients,
    WrongKind,
)

__all__ = [
    "Cache",
    "Closed",
    "Codec",
    "CodecError",
    "Damaged",
    "Error",
    "NotANumber",
    "OpenFailed",
    "OutOfRange",
    "PoolAbsent",
    "PoolFull",
    "PoolInUse",
    "PoolLost",
    "TooLarge",
    "TooManyClients",
    "WrongKind",
    "json",
    "pickle",
    "remove",
]

for _error in __all__:
    if isinstance(globals()[_error], type) and issubclass(globals()[_error], Exception):
        globals()[_error].__module__ = "atoll"
