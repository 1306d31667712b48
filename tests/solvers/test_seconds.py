"""What plans say of time and loss: finite, from public quantities alone, and of the right shape."""

import gc
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from dpfast import Budget, Problem, ProblemShape, plan, solve
from dpfast.solvers import _seconds

TIMED = ["dp-whitened-gd", "objective-perturbation", "output-perturbation"]
BUDGET = Budget(1.0, 1e-6)


@pytest.mark.parametrize("solver", TIMED)
def test_time_grows_with_rows_and_columns(solver):
    def seconds(rows, columns):
        shape = ProblemShape(rows, columns, 1.0)
        settings = {"iterations": 20} if solver == "dp-whitened-gd" else {}
        return plan(shape, solver, BUDGET, **settings).expected["seconds"]

    assert np.all(np.diff([seconds(10**k, 20) for k in range(2, 8)]) > 0)
    assert np.all(np.diff([seconds(50_000, 4 * 2**k) for k in range(8)]) > 0)
    # Ten times the rows: ten times the time, once the start no longer counts.
    assert seconds(10_000_000, 20) == pytest.approx(10 * seconds(1_000_000, 20), rel=0.1)
    assert 1e-3 < seconds(1000, 5) < 0.1 and 0.1 < seconds(1_000_000, 20) < 10.0


def test_time_is_that_of_the_steps():
    shape = ProblemShape(100_000, 30, 1.0)
    short, long = (
        plan(shape, "dp-whitened-gd", BUDGET, iterations=steps).expected["seconds"]
        for steps in (10, 110)
    )
    each = _seconds.gradient(shape) + _seconds.release(31)
    assert long - short == pytest.approx(100 * each)
    iterate = plan(shape, "output-perturbation", BUDGET, mode="iterate", iterations=50)
    assert iterate.expected["seconds"] > 50 * _seconds.gradient(shape)


def test_what_is_not_known_is_not_said():
    shape = ProblemShape(1000, 5, 1.0, "hinge")
    assert "seconds" not in plan(shape, "output-perturbation", BUDGET).expected
    lbfgs = plan(ProblemShape(1000, 5000, 1.0), "output-perturbation", BUDGET)
    assert lbfgs.parameters["optimizer"] == "lbfgs" and lbfgs.expected["seconds"] > 0.1


@pytest.mark.parametrize("loss", ["logistic", "huberized-hinge", "huber", "pinball"])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_auto_says_what_it_will_cost(loss, relation):
    """The guess falls with epsilon and with rows, and never passes a third of the loss at zero."""

    def guess(epsilon, rows=20_000):
        shape = ProblemShape(rows, 10, 3.0, loss)
        settled = plan(
            shape, "dp-whitened-gd", Budget(epsilon, 1e-6), neighboring_relation=relation
        )
        return settled.expected["excess_risk_guess"], min(
            shape.loss.at_zero, shape.loss.lipschitz
        ) / 3.0

    by_epsilon = [guess(e)[0] for e in np.geomspace(1e-3, 30.0, 12)]
    assert np.all(np.diff(by_epsilon) < 0.0)
    assert np.all(np.diff([guess(0.5, 10**k)[0] for k in range(2, 7)]) < 0.0)
    value, most = guess(1e-4)
    assert 0.5 * most < value < most
    assert guess(8.0)[0] < 0.01
    assert {"seconds", "excess_risk_guess"} <= set(
        plan(ProblemShape(20_000, 10, 3.0), "auto", BUDGET).expected
    )


def test_the_plan_is_read_aloud():
    text = str(plan(ProblemShape(20_000, 10, 3.0), "auto", BUDGET))
    assert "seconds = " in text and "excess_risk_guess = " in text and "intercept_step = " in text


# ---- memory --------------------------------------------------------------------------------------


def held_at_most(call):
    """Megabytes that NumPy and Python hold more at some time during a call."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("solver", "n", "d", "sparse"),
    [
        ("dp-whitened-gd", 3000, 700, False),
        ("dp-whitened-gd", 3000, 1500, True),
        ("dp-whitened-gd", 100_000, 30, True),
        ("objective-perturbation", 3000, 600, False),
        ("objective-perturbation", 3000, 900, True),
        ("output-perturbation", 20_000, 50_000, True),
    ],
)
def test_memory_is_foretold(solver, n, d, sparse):
    """Of sparse rows that would not fit if they were written out, too."""
    rng = np.random.default_rng(0)
    if sparse:
        entries = n * 10
        columns = np.sort(rng.integers(0, d // 10, (n, 10)) + np.arange(10) * (d // 10), axis=1)
        parts = (rng.uniform(-0.3, 0.3, entries), columns.ravel(), np.arange(0, entries + 1, 10))
        X = scipy.sparse.csr_array(parts, shape=(n, d))
    else:
        X = rng.standard_normal((n, d)) / np.sqrt(d)
    problem = Problem(X, rng.choice([-1.0, 1.0], n), data_norm=1.5)
    foretold = plan(problem, solver, BUDGET).expected["megabytes"]
    taken = held_at_most(lambda: solve(problem, solver, BUDGET, random_state=0))
    assert taken <= foretold
    large = 8e-6 * d**2 if d < 5000 else 0.0
    assert taken >= 2.0 * large and foretold <= 100.0 + 11.0 * large


def test_wide_tables_need_no_matrices():
    """100,000 rows of 50,000 columns: what takes matrices is refused with what to use instead."""
    shape = ProblemShape(100_000, 50_000, 1.0)
    with pytest.raises(ValueError, match="solver='objective-perturbation' and 'output-perturb"):
        plan(shape, "dp-whitened-gd", BUDGET)
    settled = plan(shape, "auto", BUDGET)
    assert settled.solver == "objective-perturbation"
    assert settled.expected["megabytes"] < 100.0
    assert plan(ProblemShape(10_000, 9999, 1.0), "auto", BUDGET).expected["megabytes"] > 7000.0
