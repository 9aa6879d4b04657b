"""What the tests share: pools with names of their own, and processes."""

import contextlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import atoll

_numbers = itertools.count()


class Node:
    """A memory node of a test's own: `atoll node` with options, on a port that stays the same."""

    def __init__(self, program, *options):
        self._program = program
        self._options = options
        self._port = 0
        self._start()
        self.address = f"tcp:127.0.0.1:{self._port}"

    def _start(self):
        listen = f"127.0.0.1:{self._port}"
        command = [self._program, "node", "--listen", listen, "--capacity", "256MiB", *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        told = self._process.stdout.readline()
        found = re.search(r" at 127\.0\.0\.1:(\d+) ", told)
        assert found, f"the node says {told!r}"
        self._port = int(found[1])

    def stop(self):
        self._process.send_signal(signal.SIGSTOP)
        threads = pathlib.Path(f"/proc/{self._process.pid}/task")
        # Each of its threads stops by itself.
        while any("State:\tT" not in each.read_text() for each in threads.glob("*/status")):
            time.sleep(0.001)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def end(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def restart(self):
        """The node dies, and another one begins at its port, empty."""
        self.end()
        self._start()


def _program():
    """The program `atoll`: what the environment names, else the last build of the workspace, else that of the
    path."""
    named = os.environ.get("ATOLL_PROGRAM")
    target = pathlib.Path(__file__).resolve().parents[2] / "target"
    built = [path for path in (target / "debug/atoll", target / "release/atoll") if path.exists()]
    built.sort(key=lambda path: path.stat().st_mtime)
    return named or (str(built[-1]) if built else shutil.which("atoll"))


def needs(name, is_there, what):
    """Skips the test without what it needs, unless `check` demands it."""
    if not is_there:
        may_lack = name in os.environ.get("ATOLL_TEST_SKIP", "").split(",")
        assert may_lack or "ATOLL_TEST_NEED" not in os.environ, what
        pytest.skip(what)


@contextlib.contextmanager
def _started_node(*options):
    program = _program()
    needs("atoll", program, "no program atoll: cargo build -p atoll-cli")
    node = Node(program, *map(str, options))
    try:
        yield node
    finally:
        node.end()


@pytest.fixture
def node():
    with _started_node() as node:
        yield node


@pytest.fixture
def another_node():
    with _started_node() as node:
        yield node


@pytest.fixture
def start_node():
    """Starts a node with these options, and ends it after the test."""
    with contextlib.ExitStack() as started:
        yield lambda *options: started.enter_context(_started_node(*options))


@pytest.fixture
def fabric(request):
    """The fabric of a test's pool."""
    return getattr(request, "param", "shm")


def pytest_generate_tests(metafunc):
    """What each operation promises holds on every fabric. A test of `on_this_host` is of memory of this host."""
    on_all = metafunc.module.__name__ in ("test_operations", "test_blocks")
    if on_all and "fabric" in metafunc.fixturenames and not hasattr(metafunc.function, "on_this_host"):
        metafunc.parametrize("fabric", ["shm", "tcp"], indirect=True)


def on_this_host(test):
    test.on_this_host = True
    return test


@pytest.fixture
def address(request, fabric):
    """The address of a pool that no other test has. It is removed after the test."""
    if fabric == "tcp":
        yield request.getfixturevalue("node").address
        return
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
