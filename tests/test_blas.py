"""BLAS on one thread inside fits: results do not depend on the user's setting, which comes back."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dpfast
from dpfast._blas import one_blas_thread

# More than a few hundred rows and columns, or BLAS would not think of a second thread.
FITS = """
import hashlib, warnings
import numpy as np, scipy.sparse, dpfast
from dpfast.blocks import BlockProblem, from_npy

rng = np.random.default_rng(0)
X, y = rng.standard_normal((4000, 150)), rng.choice([-1.0, 1.0], 4000)
budget, digest = dpfast.Budget(1.0, 1e-6), hashlib.sha256()
blocks = BlockProblem(from_npy(X, y, block_rows=2000), data_norm=12.0)
problems = [dpfast.Problem(rows, y, data_norm=12.0) for rows in (X, scipy.sparse.csr_array(X))]
for solver in ("dp-whitened-gd", "objective-perturbation"):
    for problem in (*problems, blocks):
        result = dpfast.solve(problem, solver, budget, random_state=0)
        digest.update(result.w.tobytes())
print(digest.hexdigest())
"""


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_threads():
    """What a user has set, on however few cores."""
    with threadpool_limits(2, user_api="blas"):
        if set(blas_threads()) != {2}:
            pytest.skip("this BLAS knows no threads")
        yield


def test_results_do_not_depend_on_the_number_of_blas_threads():
    digests = set()
    for threads in "12":
        setting = {f"{name}_NUM_THREADS": threads for name in ("OMP", "OPENBLAS", "MKL")}
        path = str(Path(dpfast.__file__).parent.parent)
        run = subprocess.run(
            [sys.executable, "-c", FITS],
            env={**os.environ, **setting, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("solver", ["dp-whitened-gd", "objective-perturbation"])
def test_one_thread_inside_a_fit_and_the_old_setting_afterwards(solver, monkeypatch):
    X, y = np.eye(200), np.resize([1.0, -1.0], 200)
    seen = []
    looked_at = dpfast.Problem.clipped_gradient

    def look(*arguments, **options):
        seen.append(blas_threads())
        return looked_at(*arguments, **options)

    monkeypatch.setattr(dpfast.Problem, "clipped_gradient", look)
    problem = dpfast.Problem(X, y, data_norm=1.0)
    dpfast.solve(problem, solver, dpfast.Budget(1.0, 1e-6), random_state=0)
    assert seen
    assert all(set(threads) == {1} for threads in seen)
    assert set(blas_threads()) == {2}


def test_an_error_restores_the_setting():
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        assert set(blas_threads()) == {1}
        raise ZeroDivisionError
    assert set(blas_threads()) == {2}


def test_blocks_that_overlap_are_one():
    """Whichever ends first: BLAS stays on one thread until the last has ended."""
    begun, go_on = threading.Event(), threading.Event()

    def first():
        with one_blas_thread():
            begun.set()
            go_on.wait(60)

    other = threading.Thread(target=first)
    other.start()
    assert begun.wait(60)
    with one_blas_thread():
        go_on.set()
        other.join()  # the one that changed the setting is gone
        assert set(blas_threads()) == {1}
        with one_blas_thread():
            pass
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}
