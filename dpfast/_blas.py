"""BLAS on one thread while a fit runs, whatever it is set to otherwise.

Fits multiply pieces of some hundred rows, which are over before a second thread has begun: left
alone, BLAS would take several times as long.  How it divides a product also decides the last bits
of the result, which are not to depend on a user's settings.  Threads of our own take whole chunks
(`n_jobs`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  (SciPy's BLAS is another one than NumPy's, loaded by this)
import threadpoolctl

from dpfast._files import new_lock

_lock = new_lock(sys.modules[__name__])
# How many blocks are open in all threads, and what the first of them found.
_open = 0
_found: list[int | None] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run a block, or a function that is decorated by a call of this, with BLAS on one thread.

    BLAS has one setting for the whole process.  Where blocks overlap, in one thread or in several,
    the first to begin changes it and the last to end restores it.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _open
    with _lock:
        if _open == 0:
            _found[:] = [library.get_num_threads() for library in _libraries()]
            _set([1] * len(_found))
        _open += 1


def _leave() -> None:
    global _open
    with _lock:
        _open -= 1
        if _open == 0:
            _set(_found)


def _set(threads: list[int | None]) -> None:
    """Give each library its number of threads; None: as it is."""
    for library, count in zip(_libraries(), threads, strict=True):
        if count is None:
            continue
        # threadpoolctl lets only the thread that was the first to change OpenBLAS's setting do so
        # again; here the last to leave need not be the first that came.
        free = getattr(library, "clear_controlling_thread", lambda force: None)
        free(force=True)
        library.set_num_threads(count)
        free(force=True)


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries that are loaded; looking for them takes as long as a tenth of a fit."""
    controller = threadpoolctl.ThreadpoolController()
    return list(controller.select(user_api="blas").lib_controllers)
