"""Chunks: taken by threads, worked on once, in order whoever takes them."""

import threading
import warnings

import numpy as np
import pytest

from dpfast.chunks import _Queue, map_in_order


def test_interruption_stops_between_chunks():
    """Ctrl-C reaches the caller after the chunk at hand; the others never start."""
    started = []
    lock = threading.Lock()

    def work(start, stop):
        with lock:
            started.append(start)
            if len(started) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(map_in_order(work, 1000, 1, 2))
    assert len(started) < 1000


def test_chunks_are_taken_once_and_come_in_order_whoever_takes_them():
    chunks = [(i, i + 1) for i in range(200)]
    rng = np.random.default_rng(0)
    delays = rng.random(200) < 0.1
    taken = []

    def work(start, stop):
        taken.append(start)
        for _ in range(20_000 if delays[start] else 1):
            pass
        return start, stop

    queue = _Queue(chunks, work)
    helpers = [threading.Thread(target=queue.run) for _ in range(3)]
    for helper in helpers:
        helper.start()
    assert list(queue.results()) == chunks
    for helper in helpers:
        helper.join()
    assert sorted(taken) == list(range(200))


def test_the_first_failing_chunk_is_the_one_that_is_raised():
    """Whatever the threads do: chunks before it are complete, and none is taken after it."""
    both = threading.Barrier(2)

    def work(start, stop):
        if start in (3, 4):
            both.wait()  # both are taken before either fails
            raise ValueError(start)
        return start

    queue = _Queue([(i, i + 1) for i in range(100)], work)
    helper = threading.Thread(target=queue.run)
    helper.start()
    seen = []
    with pytest.raises(ValueError, match=r"^3$"):
        for result in queue.results():
            seen.append(result)
    helper.join()
    assert seen == [0, 1, 2]
    assert queue._taken == 5


def test_a_closed_queue_gives_out_nothing_more():
    queue = _Queue([(0, 1), (1, 2)], lambda start, stop: start)
    results = queue.results()
    assert next(results) == 0
    queue.close()
    queue.run()
    assert queue._taken == 1


def test_helpers_warn_of_numbers_no_more_than_the_caller():
    """A warning of NumPy's would tell that some row made a number overflow."""
    all_here = threading.Barrier(2)

    def work(start, stop):
        all_here.wait(10.0)
        return float(np.array([1e200]) @ np.array([1e200])) + float(np.exp(np.float64(1e3)))

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        assert list(map_in_order(work, 2, 1, 2)) == [np.inf, np.inf]
