"""Django's own tests of a cache backend, and what they leave out.

Django's tests are in its source archive: ATOLL_DJANGO_TESTS is the path of its folder `tests`.
"""

import asyncio
import os
import sys

import pytest
from conftest import in_fork, status_of

import atoll

django = pytest.importorskip("django")

ADDRESS = f"shm:/atoll-django-{os.getpid()}"
BASE = {
    "BACKEND": "atoll.django.AtollCache",
    "LOCATION": ADDRESS,
    "OPTIONS": {"capacity": "64MiB", "MAX_ENTRIES": 300},
}
SUITE = os.environ.get("ATOLL_DJANGO_TESTS")

from django.conf import settings  # noqa: E402

settings.configure(
    SECRET_KEY="tests",
    USE_TZ=True,
    CACHES={"default": BASE},
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["cache"] if SUITE else [],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
)
if SUITE:
    # Last: some of its folders have the names of packages.
    sys.path.append(SUITE)
django.setup()

from django.core.cache import cache, caches  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def pool():
    from django.db import connection
    from django.test.utils import setup_test_environment, teardown_test_environment

    setup_test_environment()
    connection.creation.create_test_db(verbosity=0)
    yield
    teardown_test_environment()
    cache.atoll.close()
    atoll.remove(ADDRESS, force=True)


if SUITE:
    from cache.tests import BaseCacheTests, caches_setting_for_tests
    from django.test import TestCase, override_settings

    @override_settings(CACHES=caches_setting_for_tests(base=BASE))
    class TestDjangosOwn(BaseCacheTests, TestCase):
        """The tests that Django has for each of its backends."""

        # The pool is full by its bytes, not by a number of entries.
        test_cull = None
        test_zero_cull = None
        test_cull_delete_when_store_empty = None

        # The error of an increment of text says more than a TypeError.
        incr_decr_type_error = atoll.NotANumber

else:

    @pytest.mark.skip(reason="ATOLL_DJANGO_TESTS does not name the folder `tests` of Django's source")
    def test_djangos_own():
        pass


def test_asynchronous_operations_do_what_the_others_do():
    async def run():
        await cache.aclear()
        assert await cache.aadd("a", 1) and not await cache.aadd("a", 2)
        await cache.aset("b", {"c": (1, 2)}, timeout=60)
        assert await cache.aget("b") == {"c": (1, 2)}
        assert await cache.aincr("a", 4) == 5 and await cache.adecr("a") == 4
        assert await cache.aset_many({"x": 1, "y": 2}) == []
        assert await cache.aget_many(["x", "y", "z"]) == {"x": 1, "y": 2}
        assert await cache.ahas_key("x") and await cache.atouch("x", 60)
        assert await cache.aget_or_set("new", lambda: "made") == "made" == cache.get("new")
        await cache.adelete_many(["x"])
        assert await cache.adelete("y") and not await cache.adelete("y")
        assert not await cache.atouch("x")

    asyncio.run(run())


def test_all_threads_and_forks_use_one_pool_and_requests_do_not_close_it():
    from django.core.signals import request_finished

    caches["default"].set("k", "v")
    request_finished.send(sender=None)
    assert caches["default"].get("k") == "v"
    assert caches.create_connection("default").atoll is cache.atoll
    cache.set("forked", 1)
    assert [status_of(in_fork(lambda: cache.incr("forked"))) for _ in range(3)] == [0] * 3
    assert cache.get("forked") == 4


def test_a_value_that_has_no_room_is_not_there_and_an_older_one_neither():
    cache.set("k", "old")
    cache.set("k", b"x" * (63 << 20))
    assert cache.get("k") is None


def test_without_pickles_if_the_options_say_so():
    from atoll.django import AtollCache

    plain = AtollCache(ADDRESS, {"OPTIONS": {"codec": atoll.json}})
    plain.set("json", {"a": [1]})
    assert plain.get("json") == {"a": [1]} == cache.get("json")
    cache.set("pickle", {1, 2})
    with pytest.raises(atoll.CodecError):
        plain.get("pickle")
