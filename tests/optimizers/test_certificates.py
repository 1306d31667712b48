"""Certificates: what a witness remembers, and optimizers that lie."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.optimize
from objectives.test_saddle import Perturbed, minimizer, rows

from dpfast import CertificateNotReached, Problem
from dpfast.objectives import Erm, Tilted
from dpfast.optimizers import OPTIMIZERS, OptimizeResult, SaddleWitness, minimax_appa, witness
from dpfast.optimizers.certificates import Averages, averages_of, saddle_gap
from dpfast.queries.minimizer import certified_minimizer

TOLERANCE = 1e-6


class Counting(Erm):
    """Counts the reads of all rows."""

    reads = 0

    def value_and_gradient(self, w):
        self.reads += 1
        return super().value_and_gradient(w)

    def snapshot(self, w):
        self.reads += 2
        return super().snapshot(w)

    def duality_gap(self, w, width, slopes_at=None):
        self.reads += 2
        return super().duality_gap(w, width, slopes_at)


@pytest.fixture
def smooth(classification):
    X, y = classification
    return Counting(Problem(X, y, data_norm=2.0), 0.1)


@pytest.fixture
def kinked(classification):
    X, y = classification
    return Counting(Problem(X, y, "hinge", data_norm=2.0), 0.1)


def liar(w):
    """Claims that `w` is the minimizer, without a look, after looking elsewhere."""

    def minimize(objective, *, tolerance, w0=None, **options):
        objective.value_and_gradient(np.zeros(objective.dim))
        return OptimizeResult(np.array(w), 0.0, 0.0, 0.0, 1, True)

    return minimize


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "smoothing"])
def test_no_row_is_read_again_for_an_honest_optimizer(name, smooth):
    seen = witness(smooth)
    tolerance = 0.1 if name in ("sgd", "subgradient") else TOLERANCE
    result = OPTIMIZERS[name](seen, tolerance=tolerance)
    before = smooth.reads
    assert seen.certifies(result.w, tolerance) == result.converged
    assert smooth.reads == before + (0 if result.converged else 1)
    # The witness does not disturb it.
    alone = OPTIMIZERS[name](Erm(smooth._problem, 0.1), tolerance=tolerance)
    np.testing.assert_array_equal(alone.w, result.w)


@pytest.mark.parametrize(("name", "tolerance"), [("smoothing", 1e-3), ("subgradient", 0.03)])
def test_duality_gaps_are_remembered(name, tolerance):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((5, 2)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    objective = Counting(Problem(X, y, "hinge", data_norm=4.0), 0.3)
    seen = witness(objective)
    result = OPTIMIZERS[name](seen, tolerance=tolerance)
    assert result.converged
    before = objective.reads
    assert seen.certifies(result.w, tolerance)
    assert objective.reads == before
    # Another point is looked at afresh, with the best width that halving finds.
    exact = OPTIMIZERS["smoothing"](objective, tolerance=1e-5)
    assert seen.certifies(exact.w, 1e-3)
    assert not seen.certifies(exact.w + 0.1, 1e-3)


@pytest.mark.parametrize("kind", ["smooth", "kinked"])
def test_an_optimizer_that_lies_is_refused(kind, request, monkeypatch):
    objective = request.getfixturevalue(kind)
    for name in OPTIMIZERS:
        monkeypatch.setitem(OPTIMIZERS, name, liar(np.full(7, 0.3)))
    for name in ("newton", "smoothing"):
        with pytest.raises(CertificateNotReached, match="nothing is released"):
            certified_minimizer(objective, TOLERANCE, name)


@pytest.mark.parametrize("kind", ["smooth", "kinked"])
def test_a_deterministic_optimizer_takes_the_place_of_a_liar(kind, request, monkeypatch):
    objective = request.getfixturevalue(kind)
    tolerance = TOLERANCE if kind == "smooth" else 1e-3
    monkeypatch.setitem(OPTIMIZERS, "sgd", liar(np.full(7, 0.3)))
    found = certified_minimizer(objective, tolerance, "sgd")
    honest = OPTIMIZERS["smoothing"](objective, tolerance=tolerance)
    assert np.linalg.norm(found.w - honest.w) <= 2.0 * tolerance / 0.1


def test_modesty_is_not_overruled(smooth):
    """A point that its optimizer does not claim is not certified behind its back: nothing is read
    for it, and another optimizer goes on from there."""
    exact = OPTIMIZERS["newton"](smooth, tolerance=TOLERANCE)

    def modest(objective, *, tolerance, w0=None):
        return dataclasses.replace(exact, converged=False)

    OPTIMIZERS["modest"] = modest
    try:
        before = smooth.reads
        found = certified_minimizer(smooth, TOLERANCE, "modest")
    finally:
        del OPTIMIZERS["modest"]
    np.testing.assert_array_equal(found.w, exact.w)
    assert smooth.reads == before + 1


def test_what_an_optimizer_does_to_its_arrays_is_not_remembered(smooth):
    seen, w = witness(smooth), np.full(7, 0.3)
    _, gradient = seen.value_and_gradient(w)
    gradient[:] = 0.0
    assert not seen.certifies(w, TOLERANCE)
    # The same array with another point in it is another point.
    w[:] = OPTIMIZERS["newton"](smooth, tolerance=TOLERANCE).w
    assert seen.certifies(w, TOLERANCE)
    w[0] += 1e-3
    assert not seen.certifies(w, TOLERANCE)


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(7, np.nan)])
def test_points_that_are_none_are_refused(smooth, bad):
    with pytest.raises(ValueError, match="w must"):
        witness(smooth).certifies(bad, TOLERANCE)


def test_objectives_without_rows_have_a_witness(classification):
    X, y = classification
    seen = witness(Tilted(Problem(X, y, data_norm=2.0), 0.1, 0.5))
    assert not hasattr(seen, "sgd_epoch") and seen.shape.tilt == 0.5
    result = OPTIMIZERS["newton"](seen, tolerance=1e-5)
    assert seen.certifies(result.w, 1e-5)
    with pytest.raises(TypeError, match="objective must be a mean over rows"):
        OPTIMIZERS["svrg"](seen, tolerance=1e-5)


class TestAverages:
    def test_shares_that_make_no_average_are_refused(self, kinked):
        """Nothing but points may enter: a bound from nowhere would certify anything."""
        w = np.zeros(7)
        with pytest.raises(ValueError, match="share must be 1 for the first point"):
            Averages(kinked).add(0.5, w)
        averages = Averages(kinked)
        averages.add(1.0, w)
        for share in (-0.1, 1.1, math.nan):
            with pytest.raises(ValueError, match="share must be"):
                averages.add(share, w)

    def test_the_gap_holds(self, kinked):
        best = OPTIMIZERS["smoothing"](Erm(kinked._problem, 0.1), tolerance=1e-5)
        averages, w = averages_of(kinked), np.full(7, 0.2)
        for t in range(1, 200):
            _, gradient = averages.add(2.0 / (t + 1.0), w)
            w = w - (2.0 / (t + 1.0) / 0.1) * gradient
            distance = np.linalg.norm(averages.w - best.w) - best.certificate
            assert distance <= math.sqrt(2.0 * averages.gap() / 0.1)

    def test_an_average_that_was_changed_is_not_certified(self, kinked):
        seen = witness(kinked)
        averages = averages_of(seen)
        averages.add(1.0, np.zeros(7))
        averages.w[:] = 0.3  # a copy
        assert np.array_equal(averages.w, np.zeros(7))
        enough = 1.1 * math.sqrt(2.0 * 0.1 * averages.gap())
        assert seen.certifies(np.zeros(7), enough)
        far = np.full(7, 0.3 + enough / 0.1)
        assert not seen.certifies(far, enough)


class TestSaddlePoints:
    """For ``ν = 0`` and ``ν > 0``, where other bounds of the adversary's gain hold."""

    data = rows([0.6, 0.0, -0.8])

    @pytest.mark.parametrize("concavity", [0.0, 0.5])
    def test_an_honest_result_is_certified_without_another_look(self, concavity):
        game = Perturbed(self.data, concavity)
        seen = SaddleWitness(game)
        result = minimax_appa(seen, tolerance=1e-5)
        assert result.converged
        calls = []
        honest = game.value_and_gradients
        game.value_and_gradients = lambda *point: calls.append(point) or honest(*point)
        assert seen.certifies(result.w, result.v, 1e-5)
        assert calls == []
        assert not seen.certifies(result.w + 1e-3, result.v, 1e-5)
        assert len(calls) == 1

    def test_an_adversary_outside_the_set_is_brought_back(self):
        """Far outside, the bound is below the truth: at ``v = -a`` it says that 0 is optimal."""
        game = Perturbed(self.data)
        seen, zero, outside = SaddleWitness(game), np.zeros(3), -game.mean
        _, gradient, ascent = seen.value_and_gradients(zero, outside)
        assert saddle_gap(game, outside, gradient, ascent) < 1e-20
        assert np.linalg.norm(minimizer(self.data)) > 1.0
        assert not seen.certifies(zero, outside, 1e-3)

    def test_the_gap_holds(self):
        game, best = Perturbed(self.data), minimizer(self.data)
        rng = np.random.default_rng(0)

        def worst(w):
            return 0.25 * w @ w - game.mean @ w + 0.2 * np.linalg.norm(w)

        least = min(worst(best), scipy.optimize.minimize(worst, best).fun)
        for _ in range(50):
            w, v = rng.standard_normal((2, 3))
            v = game.project(v)
            _, gradient, ascent = game.value_and_gradients(w, v)
            assert worst(w) - least <= saddle_gap(game, v, gradient, ascent) + 1e-12
