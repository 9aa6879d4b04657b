"""What can go wrong. The message of each exception says what to do."""


class Error(Exception):
    """Any error of the cache. A miss is none."""


class OpenFailed(Error):
    """The pool cannot be opened or created, or its memory cannot be had."""


class PoolAbsent(OpenFailed):
    """There is no pool of this address, and ``create=False`` was given."""


class PoolInUse(Error):
    """The pool is not removed, because processes have it open."""


class TooManyClients(OpenFailed):
    """The pool has no place for another client (``clients_max``)."""


class PoolFull(Error):
    """No room: nothing can be evicted, or the host has no memory left. The key is unchanged."""


class TooLarge(Error, ValueError):
    """The key or the value is larger than the pool takes. Nothing was changed."""


class NotANumber(Error, ValueError):
    """The value is no decimal number, so nothing can be added to it. It is unchanged."""


class OutOfRange(Error, OverflowError):
    """The sum is beyond 64 bits. The value is unchanged."""


class WrongKind(Error, TypeError):
    """The value is of another kind, such as a hash of a Redis client. It is unchanged."""


class CodecError(Error, ValueError):
    """The value was written by a codec that this cache does not have, or the codec cannot read it.
    It is unchanged."""


class PoolLost(Error):
    """The pool's memory is gone, or this process was shut out of it. Try again, or open the pool
    again. It is not known whether a change took place."""


class Damaged(Error):
    """The pool has bytes that no client wrote: ``atoll pool verify`` checks it."""


class Closed(Error):
    """The cache was closed."""
