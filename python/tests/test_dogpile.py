"""dogpile.cache's own tests of a backend."""

import multiprocessing
import os

import pytest

import atoll

pytest.importorskip("dogpile.cache")

from dogpile.cache import make_region, register_backend  # noqa: E402
from dogpile.testing.fixtures import (  # noqa: E402
    _GenericBackendFixture,
    _GenericBackendTestSuite,
    _GenericMutexTestSuite,
    _GenericSerializerTestSuite,
)

register_backend("atoll", "atoll.dogpile", "AtollBackend")

ADDRESS = f"shm:/atoll-dogpile-{os.getpid()}"
ARGUMENTS = {"arguments": {"address": ADDRESS, "capacity": "16MiB"}}


@pytest.fixture(scope="module", autouse=True)
def pool():
    yield
    atoll.remove(ADDRESS, force=True)


class TestBackend(_GenericBackendTestSuite):
    backend = "atoll"
    config_args = ARGUMENTS


class TestSerializer(_GenericSerializerTestSuite, _GenericBackendFixture):
    backend = "atoll"
    config_args = ARGUMENTS


class TestMutex(_GenericMutexTestSuite):
    backend = "atoll"
    config_args = ARGUMENTS


def create(arguments):
    # A process that is spawned imports this module anew, with an ADDRESS of its own.
    region = make_region().configure("atoll", **arguments)

    def creator():
        return region.backend.atoll.incr("created")

    return region.get_or_create("value", creator)


def test_of_all_processes_one_creates_a_value():
    with multiprocessing.get_context("spawn").Pool(4) as processes:
        assert processes.map(create, [ARGUMENTS] * 40) == [1] * 40


def test_a_lock_of_a_process_that_died_is_released_after_some_time():
    backend = make_region().configure(
        "atoll", arguments={**ARGUMENTS["arguments"], "lock_timeout": 1, "expiration": 60}
    ).backend
    held, other = backend.get_mutex("m"), backend.get_mutex("m")
    assert held.acquire() and not other.acquire(wait=False) and other.locked()
    assert other.acquire(), "the holder has not released it, as if it had died"
    held.release()
    assert other.locked(), "a lock that has timed out is not its holder's any more"
    other.release()
    assert not other.locked()
