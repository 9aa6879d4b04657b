"""Celery with its results in Redis or memcached: python3 celery_results.py PORT MEMCACHED-PORT."""

import sys
import warnings

from celery import Celery, chord, group, states

warnings.simplefilter("ignore")
PORT, MEMCACHED = sys.argv[1:]


def check(url, has_chords):
    """A worker that keeps its queue in memory, so that the server has the results alone."""
    app = Celery("results", broker="memory://", backend=url)
    app.conf.update(result_expires=100, broker_transport_options={"polling_interval": 0.02})

    @app.task
    def add(x, y):
        return x + y

    @app.task
    def total(numbers):
        return sum(numbers)

    @app.task(bind=True)
    def stepwise(self):
        self.update_state(state="PROGRESS", meta={"done": 50})
        return "done"

    @app.task
    def fail():
        raise ValueError("on purpose")

    from celery.contrib.testing.worker import start_worker

    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False, loglevel="CRITICAL"):
        assert add.delay(2, 3).get(timeout=20) == 5
        assert stepwise.delay().get(timeout=20) == "done"
        failed = fail.delay()
        try:
            failed.get(timeout=20)
            raise AssertionError("a failure was lost")
        except ValueError as error:
            assert str(error) == "on purpose", error
        assert failed.state == states.FAILURE and "on purpose" in failed.traceback
        kept = group(add.s(n, n) for n in range(10)).apply_async()
        assert kept.get(timeout=20) == [2 * n for n in range(10)]
        kept.save()
        assert app.GroupResult.restore(kept.id).get(timeout=20) == kept.get()
        kept.delete()
        assert app.GroupResult.restore(kept.id) is None
        if has_chords:
            assert chord((add.s(n, n) for n in range(10)), total.s()).apply_async().get(timeout=20) == 90
        forgotten = add.delay(1, 1)
        assert forgotten.get(timeout=20) == 2
        forgotten.forget()
        assert app.AsyncResult(forgotten.id).state == states.PENDING


# A chord in Redis needs lists or sorted sets, which Atoll has not; one in memcached needs a counter.
check(f"redis://127.0.0.1:{PORT}/2", has_chords=False)
check(f"cache+memcached://127.0.0.1:{MEMCACHED}/", has_chords=True)
