"""Many processes: they share one pool, and a fork, a death or a stop of one harms no other."""

import ctypes
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

import pytest
from conftest import in_fork, status_of

import atoll

FORKS = 50
KILLS = 30
# No operation waits longer for another process. One in so many may, for what the machine does meanwhile: a page that is
# made, a processor that its host takes away.
WAIT_SECONDS_MAX = 0.010
LATE_SHARE_MAX = 1 / 20_000
# One that waits for the stopped process waits for seconds.
LATE_SECONDS_MAX = 0.5

# A process that writes and reads values which name their key and repeat one number: a torn value,
# another key's, or one that was never written, is noticed.
LOAD = """
import random
cache = atoll.Cache(sys.argv[1], codec=atoll.json)
seed = int(sys.argv[2])
keys, rand = [f"load:{n}" for n in range(200)], random.Random(seed)
def check(key, value):
    name, number, filling = value.split(b"|", 2)
    assert name == key.encode() and filling == number * (len(filling) // len(number)), (key, value[:80])
waits, clock = [], time.perf_counter
# The second number is for how long this thread was ready and had no processor.
schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
def delayed():
    return int(os.pread(schedule, 64, 0).split()[1]) * 1e-9
print("ready", flush=True)
while not waits or len(waits) % 64 or "end" not in cache:
    key = rand.choice(keys)
    if rand.random() < 0.5:
        number = b"%08d" % rand.randrange(10**8)
        value = b"|".join([key.encode(), number, number * rand.choice([1, 30, 30, 30, 2000])])
        before, begun = delayed(), clock()
        cache.set(key, value)
        waited = clock() - begun
    else:
        before, begun = delayed(), clock()
        value = cache.get(key)
        waited = clock() - begun
        if value is not None:
            check(key, value)
    waits.append(waited - (delayed() - before))
waits.sort()
print(len(waits), waits[-1], sum(wait > float(sys.argv[3]) for wait in waits), flush=True)
cache.close()
"""


def test_processes_share_one_pool(cache, program):
    cache.set("from", "here")
    other = program("cache = atoll.Cache(sys.argv[1]); print(cache['from']); cache['back'] = 'there'", cache.address)
    assert other.stdout.read() == "here\n" and other.wait() == 0
    assert cache["back"] == "there"


def test_of_many_processes_one_creates_the_pool(address, program):
    lines = "print(atoll.Cache(sys.argv[1], capacity='16MiB').incr('n'), flush=True)"
    processes = [program(lines, address) for _ in range(8)]
    assert sorted(int(process.stdout.read()) for process in processes) == list(range(1, 9))


def test_fifty_forks_join_by_themselves_and_parent_and_children_go_on(cache):
    cache.set("before", "fork")
    cache.set("n", 0)

    def child():
        assert cache["before"] == "fork"
        for n in range(100):
            cache.incr("n")
            cache.set(f"{os.getpid()}:{n}", n)
            assert cache.get(f"{os.getpid()}:{n}") == n

    processes = [in_fork(child) for _ in range(FORKS)]
    for n in range(1000):
        cache.incr("n")
    assert [status_of(process) for process in processes] == [0] * FORKS
    assert cache["n"] == FORKS * 100 + 1000
    cache.set("after", b"x" * 100_000)
    assert cache.get("after") == b"x" * 100_000


def test_a_fork_that_ends_in_any_way_does_not_harm_its_parent(cache):
    cache.set("k", "v")

    def ends_normally():
        assert cache.get("k") == "v"
        sys.exit(0)

    def closes():
        cache.close()
        with pytest.raises(atoll.Closed):
            cache.get("k")

    def drops():
        nonlocal cache
        cache = None
        import gc

        gc.collect()

    def is_killed():
        cache.set("k", "v")
        os.kill(os.getpid(), signal.SIGKILL)

    def forks():
        assert cache["k"] == "v"
        assert status_of(in_fork(lambda: cache.set("grandchild", 1))) == 0
        assert cache["grandchild"] == 1

    for work, status in [(closes, 0), (drops, 0), (is_killed, -9), (forks, 0)]:
        assert status_of(in_fork(work)) == status
        for n in range(600):
            cache.set(f"k{n}", b"x" * 300)
            assert cache.get(f"k{n}") == b"x" * 300
        assert cache["k"] == "v"
    # A fork of a program that has threads, one of which is in an operation.
    end = threading.Event()

    def loop():
        while not end.is_set():
            cache.set("large", b"y" * 500_000)

    threads = [threading.Thread(target=loop) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [status_of(in_fork(lambda: cache.incr("forks"))) for _ in range(20)] == [0] * 20
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert cache["forks"] == 20


def test_a_fork_that_no_python_code_made_joins_by_itself(cache):
    cache.set("k", "v")
    process = ctypes.PyDLL(None).fork()
    if process == 0:
        works = cache.get("k") == "v" and cache.incr("n") == 1
        os._exit(0 if works else 1)
    assert status_of(process) == 0
    assert cache.incr("n") == 2


def test_a_pool_without_a_place_says_how_to_have_more(address, program):
    cache = atoll.Cache(address, capacity="16MiB", clients_max=2)
    lines = "cache = atoll.Cache(sys.argv[1]); cache['k'] = 1; print('in', flush=True); sys.stdin.read()"
    other = program(lines, address)
    assert other.stdout.readline() == "in\n"

    def child():
        with pytest.raises(atoll.TooManyClients, match="its 2 clients.*larger clients_max"):
            cache.get("k")

    assert status_of(in_fork(child)) == 0
    other.kill()
    other.wait()
    assert status_of(in_fork(lambda: cache.set("k", 2))) == 0
    assert cache["k"] == 2
    cache.close()


def test_a_cache_that_was_closed_before_the_fork_stays_closed(cache):
    cache.close()

    def child():
        with pytest.raises(atoll.Closed):
            cache.get("k")

    assert status_of(in_fork(child)) == 0


def add_one(cache, key):
    return cache.incr(key)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_passes_a_cache_on(cache, method):
    context = multiprocessing.get_context(method)
    with context.Pool(3) as pool:
        counts = pool.starmap(add_one, [(cache, "n")] * 30)
    assert sorted(counts) == list(range(1, 31))
    assert cache["n"] == 30


LEAVES = """
class Noisy(atoll.Cache):
    def close(self):
        super().close()
        print("left", flush=True)
cache = Noisy(sys.argv[1])
cache["k"] = 1
"""

ENDS = {
    "alone": ("", 1),
    "with a child of multiprocessing": (
        "import multiprocessing\n"
        "process = multiprocessing.get_context('fork').Process(target=cache.incr, args=('k',))\n"
        "process.start(); process.join()",
        2,
    ),
    "with a child that forks and exits": ("if os.fork() == 0: cache.incr('k'); sys.exit()\nos.wait()", 2),
    "by an exception": ("raise SystemExit", 1),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_process_that_ends_leaves_the_pool(cache, program, end):
    lines, processes = ENDS[end]
    process = program(LEAVES + lines, cache.address)
    assert process.communicate()[0] == "left\n" * processes
    assert process.returncode == 0 and cache["k"] == processes


def test_one_killed_in_a_set_one_stopped_one_forked_and_the_others_never_wait(cache, program):
    others, stopped = ([program(LOAD, cache.address, seed, WAIT_SECONDS_MAX) for seed in seeds] for seeds in ((1, 2), (3, 4, 5)))
    for process in [*others, *stopped]:
        assert process.stdout.readline() == "ready\n"
    rand = random.Random(5)
    forks = 0
    for process in stopped:
        # Half of the time it is in a set.
        time.sleep(rand.uniform(0.01, 0.05))
        os.kill(process.pid, signal.SIGSTOP)
    for kill in range(KILLS):
        # A set of a large value is long enough to be hit in its middle.
        victim = in_fork(lambda: [cache.set(f"load:{n % 200}", large(n)) for n in range(10**9)])
        time.sleep(rand.uniform(0.02, 0.08))
        os.kill(victim, signal.SIGKILL)
        assert status_of(victim) == -signal.SIGKILL
        counted = status_of(in_fork(lambda: os._exit(cache.incr("forks", 2))))
        # What is set does not fit, so the number may be evicted and begin again.
        assert counted in (forks + 2, 2)
        forks = counted
    cache.add("end", 1)
    for process in others:
        operations, longest, late = process.stdout.readline().split()
        assert process.wait() == 0, "a wrong value was read"
        assert int(operations) > 1000
        assert float(longest) < LATE_SECONDS_MAX
        assert int(late) <= 1 + int(operations) * LATE_SHARE_MAX, (operations, late, longest)
        print(f"{operations} operations, the longest wait {float(longest) * 1000:.2f} ms, {late} beyond 10 ms")
    for process in stopped:
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.readline() and process.wait() == 0


def large(n):
    number = b"%08d" % n
    return b"|".join([b"load:%d" % (n % 200), number, number * 20_000])
