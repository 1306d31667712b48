"""Chunks of rows, which threads take one after another; results come in the order of the chunks.

Results do not depend on the number of threads: chunks follow from the shape alone, and are always
added up in the same order.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_integer

T = TypeVar("T")


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads; None means one, -1 all cores."""
    if n_jobs is None:
        return 1
    count = check_integer("n_jobs", n_jobs, low=-(2**15), high=2**15)
    if count == 0:
        raise ValueError("n_jobs must be None, a positive number, or -1 for all cores; got 0.")
    return count if count > 0 else max(1, (os.cpu_count() or 1) + 1 + count)


def map_in_order(
    work: Callable[[int, int], T], n_rows: int, step: int, threads: int
) -> Iterator[T]:
    """``work(start, stop)`` on every chunk of `step` rows; results in order, as they come."""
    chunks = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    helpers_needed = min(threads, len(chunks)) - 1
    if helpers_needed == 0:
        for start, stop in chunks:
            yield work(start, stop)
        return
    queue = _Queue(chunks, work)
    pool = _pool(os.getpid(), threads - 1)
    # NumPy keeps in the context whether it warns, as of an overflow: a warning would tell of rows.
    helpers = [pool.submit(copy_context().run, queue.run) for _ in range(helpers_needed)]
    try:
        yield from queue.results()
    finally:
        # On Ctrl-C, the chunks that have not started are dropped; those that have are waited for,
        # since they write into arrays of the caller.
        queue.close()
        for helper in helpers:
            helper.cancel()
        wait(helpers)


@lru_cache(maxsize=8)
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    """Threads of this process, which a forked child has not; the caller's own comes on top."""
    return ThreadPoolExecutor(count)


class _Queue(Generic[T]):
    """Chunks that threads take themselves, one after another, and their results in order.

    An exception takes the place of the result of its chunk, and no chunk is taken after it, so that
    the first one in the order of the chunks is raised.
    """

    def __init__(self, chunks: list[tuple[int, int]], work: Callable[[int, int], T]) -> None:
        self._chunks = chunks
        self._work = work
        self._taken = 0
        self._closed = False
        self._done: dict[int, tuple[T | None, BaseException | None]] = {}
        self._change = threading.Condition()

    def close(self) -> None:
        """No chunk is taken from now on."""
        with self._change:
            self._closed = True

    def run(self) -> None:
        """Work until no chunk is left."""
        while self._take():
            pass

    def _take(self) -> bool:
        with self._change:
            if self._closed or self._taken == len(self._chunks):
                return False
            number = self._taken
            self._taken += 1
        value, error = None, None
        try:
            value = self._work(*self._chunks[number])
        except BaseException as caught:  # raised in the thread of the caller
            error = caught
        with self._change:
            self._done[number] = (value, error)
            self._closed = self._closed or error is not None
            self._change.notify_all()
        return True

    def results(self) -> Iterator[T]:
        """The results in the order of the chunks; the caller's thread works on chunks, too."""
        for number in range(len(self._chunks)):
            while number not in self._done:
                if not self._take():
                    # Others are at work on it: chunks are taken in order.
                    with self._change:
                        while number not in self._done:
                            self._change.wait()
            value, error = self._done.pop(number)
            if error is not None:
                raise error
            yield cast(T, value)


def add_up(parts: Iterator[Any]) -> NDArray[np.float64]:
    """Sum of arrays of one shape, of which there is at least one, in their order."""
    total = np.array(next(parts), dtype=np.float64)
    for part in parts:
        total += part
    return total


def finish(results: Iterator[Any]) -> None:
    """Run an iterator to its end for its effects."""
    deque(results, maxlen=0)
