"""Fits leave nothing behind. (The kernels allocate nothing: there is no heap in csrc.)"""

import ctypes
import gc
import sys

import numpy as np
import pytest

from dpfast import LogisticRegression

#: Blocks and bytes a fit that caches may grow by. What leaks at every fit is at least one block of
#: Python's, or the 24 bytes that the smallest one of C's allocator has.
BOUND = np.array([0.1, 10.0])


class MallocState(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def c_library():
    library = ctypes.CDLL(None)  # that of the process
    library.malloc.restype = ctypes.c_void_p
    if hasattr(library, "mallinfo2"):  # glibc
        library.mallinfo2.restype = MallocState
    return library


def held():
    """Blocks of Python's allocator, and bytes of that of C (0 where it does not tell)."""
    gc.collect()
    library = c_library()
    state = library.mallinfo2() if hasattr(library, "mallinfo2") else MallocState()
    return np.array([sys.getallocatedblocks(), state.uordblks + state.hblkhd], dtype=np.float64)


def growth(n_fits, after=lambda model: None):
    """What is held more after so many fits, a fit; `after` is called with the model every time."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (30, 4))
    y = np.where(rng.random(30) < 0.5, -1.0, 1.0)
    model = LogisticRegression(data_norm=1.0, classes=[-1, 1], solver="output-perturbation")

    def fit(times):
        for _ in range(times):
            after(model.fit(X, y))

    fit(200)
    before = held()
    fit(n_fits)
    return (held() - before) / n_fits


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="asks the C library of the process"),
]


@pytest.fixture(autouse=True)
def second_opinion():
    """Not here: that of all tests keeps their ledgers."""


def test_ten_thousand_fits_take_no_memory():
    assert (growth(10_000) < BOUND).all()


def test_a_leak_would_be_found():
    """A vector of five weights that Python or NumPy loses, or the 40 bytes that C code does."""
    kept = []
    assert growth(1000, lambda model: kept.append(model.coef_))[0] > 5.0 * BOUND[0]
    library = c_library()
    if not hasattr(library, "mallinfo2"):
        pytest.skip("the C library does not tell what it holds")
    assert growth(1000, lambda model: library.malloc(40))[1] > 3.0 * BOUND[1]
