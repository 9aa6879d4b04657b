"""What the tests share: pools with names of their own, and processes."""

import itertools
import os
import subprocess
import sys

import pytest

import atoll

_numbers = itertools.count()


@pytest.fixture
def address():
    """The address of a pool that no other test has. It is removed after the test."""
    address = f"shm:/atoll-python-{os.getpid()}-{next(_numbers)}"
    yield address
    try:
        atoll.remove(address, force=True)
    except atoll.PoolAbsent:
        pass


@pytest.fixture
def cache(address):
    with atoll.Cache(address, capacity="16MiB") as cache:
        yield cache


@pytest.fixture
def program():
    """Starts a Python program of these lines, and ends it after the test. It has `atoll`, its
    arguments as `sys.argv[1:]`, and a pipe to and from the test."""
    started = []

    def start(lines, *arguments):
        command = [sys.executable, "-P", "-c", f"import atoll, os, sys, time\n{lines}", *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def in_fork(work):
    """Runs `work` in a fork of this process and returns its exit status: 0 if it returned."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return process


def status_of(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
