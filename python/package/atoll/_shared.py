"""The caches that backends of frameworks use: one of a pool for a whole process.

A framework makes many backends, Django one for each thread. Each cache is a client of the pool, of
which a pool has a limited number.
"""

import os
import threading
from typing import Any

from ._cache import Cache

_shared: dict[tuple[str, str], Cache] = {}
_lock = threading.Lock()


def shared_cache(address: str, options: dict[str, Any]) -> Cache:
    """The cache of this process with this address and these options."""
    name = (address, repr(sorted(options.items())))
    cache = _shared.get(name)
    if cache is None or cache.closed:
        with _lock:
            cache = _shared.get(name)
            if cache is None or cache.closed:
                cache = _shared[name] = Cache(address, **options)
    return cache


def _renew_lock() -> None:
    # Another thread may have held it when the process forked.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
