"""Every solver comes to the same weights when NumPy passes over the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.problems import synthetic
from bench.suites import baseline
from dpfast import Loss, Problem, _kernels
from dpfast.cli._numpy_kernels import NumpyLoss, NumpyRows, in_numpy
from dpfast.objectives._sums import row_sum, weighted_gram
from dpfast.solvers import SOLVERS

DATA = synthetic(400, 3)
SIZES = baseline.Sizes((), (), steps=40)


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_solvers_release_the_same_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A plan that takes no time.
    monkeypatch.setitem(baseline._OPTIONS, "dp-sgd", {"epochs": 1, "calibration": "advanced"})
    fit = baseline.solver_fit(name, DATA, SIZES)
    ours = fit()
    native = _kernels.DenseRows
    with in_numpy():
        theirs = fit()
        assert _kernels.DenseRows is NumpyRows
    assert _kernels.DenseRows is native
    # Rows are clipped by norms in float32, where a rounding error may be 6e-8.
    assert np.linalg.norm(theirs - ours) <= 1e-6 * np.linalg.norm(ours)
    assert np.linalg.norm(ours) > 0.0


def test_every_solver_reads_the_rows_through_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that is wrong shows: the agreement above is not of native code with itself."""

    def wrong(self: NumpyRows, rows: slice, s: np.ndarray, out: np.ndarray) -> None:
        out += 0.01 * len(s)

    fits = {name: baseline.solver_fit(name, DATA, SIZES) for name in ("dp-gd", "dp-masg-opt")}
    ours = {name: fit() for name, fit in fits.items()}
    monkeypatch.setattr(NumpyRows, "add", wrong)
    with in_numpy():
        for name, fit in fits.items():
            assert np.linalg.norm(fit() - ours[name]) > 1e-3 * np.linalg.norm(ours[name])


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(("n", "d", "data_norm"), [(1, 1, 9.0), (333, 7, 0.8), (3000, 90, 9.0)])
@pytest.mark.parametrize("intercept", [1.0, 0.0])
def test_passes_agree_with_the_kernels(
    loss: str, n: int, d: int, data_norm: float, intercept: float
) -> None:
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d)) / math.sqrt(d)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)

    def results() -> list[np.ndarray]:
        problem = Problem(X, y, loss, data_norm=data_norm, intercept=intercept)
        rng = np.random.default_rng(0)
        w, direction = 3.0 * rng.standard_normal((2, problem.shape.dim))
        factors = rng.standard_normal(n)
        steps = np.array([0.0, 0.1, 2.0])
        return [
            problem.margins(w),
            problem.hessian(w, 0.1),
            problem.gram(),
            row_sum(problem, factors),
            weighted_gram(problem, factors**2),
            problem.line_search_losses(w, direction, steps, 1.5),
            problem.line_search_losses(w - 0.1 * direction, w, steps),
            *(np.asarray(problem.objective(w, clip)) for clip in (math.inf, 0.5)),
            *map(np.asarray, problem.value_and_gradient(w, 0.1)),
            problem.clipped_gradient(w, 0.3)[0],
            problem.clipped_gradient(w, 0.3, clip_order=1)[0],
            problem.clipped_by_lengths(
                lambda _: np.linalg.norm(X, axis=1) + 0.5, consistent=loss == "logistic"
            ).clipped_gradient(w, 0.3)[0],
        ]

    ours = results()
    with in_numpy():
        theirs = results()
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        # The last three are clipped by norms in float32.
        size = 1.0 + np.abs(a).max()
        np.testing.assert_allclose(b, a, rtol=0, atol=(1e-7 if k >= 11 else 1e-11) * size)


def test_losses_are_computed_for_who_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"values": 0}

    def counted(*arguments: object) -> None:
        counts["values"] += 1
        values(*arguments)

    values = NumpyLoss.values_and_slopes
    monkeypatch.setattr(NumpyLoss, "values_and_slopes", counted)
    with in_numpy():
        problem = Problem(DATA.X, DATA.y, data_norm=1.0)
        assert math.isnan(problem.clipped_gradient(np.zeros(4), 0.5)[1])
        baseline.solver_fit("dp-gd", DATA, SIZES)()
        assert counts["values"] == 0
        assert problem.value_and_gradient(np.zeros(4))[0] == pytest.approx(math.log(2.0))
        assert counts["values"] == 1


def test_epochs_agree_with_the_kernels() -> None:
    w = np.random.default_rng(0).standard_normal(4)

    def results() -> list[np.ndarray]:
        problem = Problem(DATA.X, DATA.y, data_norm=0.7)
        problem.clipped_gradient(w, 1.0)  # sets the inverse norms
        found = []
        for sampling, noise in (("poisson", "discrete"), ("fixed-size", "gaussian")):
            end, velocity, average = w.copy(), np.zeros(4), np.zeros(4)
            _kernels.private_epoch(
                problem.kernel_rows(), Loss("logistic").spec, end, np.linspace(0.5, 0.1, 30),
                sampling=sampling, noise=noise, stream=_kernels.Stream(bytes(32)), n_steps=30,
                batch=20, capacity=40, stddev=0.5, grid=2.0**-30, scale=2**29, alpha=0.1,
                clip_norm=0.4, w_radius=2.0, momentum=0.5, velocity=velocity, snapshot=w,
                snapshot_gradient=0.1 * w, average=average, average_weight=np.linspace(1, 2, 30),
            )  # fmt: skip
            found += [end, velocity, average]
        return found

    ours = results()
    with in_numpy():
        theirs = results()
    np.testing.assert_allclose(theirs, ours, rtol=1e-7)


def test_what_is_not_there_is_refused() -> None:
    with in_numpy():
        with pytest.raises(NotImplementedError, match="weights"):
            Problem(DATA.X, DATA.y, data_norm=1.0, sample_weight=DATA.y**2, max_weight=1.0)
        with pytest.raises(NotImplementedError, match="hinge"):
            Problem(DATA.X, DATA.y, "hinge", data_norm=1.0).objective(np.zeros(4))
