"""The end of a process: it leaves its pools, so that no other process must find out that it died.

A process that is killed leaves nothing, and the others reclaim what it held. That the first
operation of a forked child opens the pool anew is the compiled class's own work.
"""

import atexit
import os
import sys
import weakref
from typing import Any

_open: "weakref.WeakSet[Any]" = weakref.WeakSet()
_after_fork_known = False


def closes_at_exit(cache: Any) -> None:
    """Has the cache closed when this process ends."""
    _open.add(cache)


def _close_all() -> None:
    for cache in list(_open):
        cache.close()


def _know_multiprocessing() -> None:
    # A child that multiprocessing forks ends without `atexit`.
    global _after_fork_known
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _after_fork_known:
        _after_fork_known = True
        util.register_after_fork(sys.modules[__name__], _in_child_of_multiprocessing)


def _in_child_of_multiprocessing(_: object) -> None:
    util = sys.modules["multiprocessing.util"]
    util.Finalize(None, _close_all, exitpriority=-100)


atexit.register(_close_all)
os.register_at_fork(before=_know_multiprocessing)
