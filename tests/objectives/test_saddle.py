"""Worst cases over an adversary: constants, certified gaps, private minimizers."""

import math

import numpy as np
import pytest
import scipy.optimize
from outputs import perturbed, unperturbed

from dpfast import Budget, CertificateNotReached, Ledger, plan, solve
from dpfast.objectives import Saddle, SaddleShape
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out

BUDGET = Budget(1.0, 1e-6)
N, MU, REACH = 200, 0.5, 0.2


class Perturbed:
    """A linear loss whose rows may all be moved by one ``v``, ``‖v‖ <= r``:
    ``H = -<a + v, w> - (ν/2)‖v‖² + (µ/2)‖w‖²``, ``a`` the mean of rows in the unit ball.

    For ``ν = 0``, ``G(w) = -<a, w> + r‖w‖ + (µ/2)‖w‖²``: its minimizer is ``a`` shortened by ``r``,
    over µ.
    """

    dim = dim_adversary = 3
    strong_convexity, smoothness = MU, 2.0

    def __init__(self, rows, strong_concavity=0.0):
        self.mean, self.strong_concavity = rows.mean(axis=0), strong_concavity

    def value_and_gradients(self, w, v):
        pull, nu = self.mean + v, self.strong_concavity
        value = 0.5 * MU * w @ w - pull @ w - 0.5 * nu * v @ v
        return value, MU * w - pull, -w - nu * v

    def project(self, v):
        return v * min(1.0, REACH / max(float(np.linalg.norm(v)), 1e-300))

    def support(self, direction):
        return REACH * float(np.linalg.norm(direction))


def rows(first):
    data = np.tile([0.6, 0.0, -0.8], (N, 1))
    data[0] = first
    return data


def objective(data, strong_concavity=0.0, **changes):
    constants = {
        "lipschitz": 1.0 + REACH,
        "n_samples": N,
        "sensitivity": {"replace_one": 2.0 / (MU * N)},
        "minimizer_norm": 1.0 / MU,
        "gap_error": 1e-13,
    }
    return Saddle(Perturbed(data, strong_concavity), **{**constants, **changes})


def minimizer(data):
    a = data.mean(axis=0)
    return a * max(0.0, 1.0 - REACH / np.linalg.norm(a)) / MU


def test_the_minimizer_is_found_and_its_distance_is_paid_for(noiseless):
    data = rows([0.6, 0.0, -0.8])
    result = solve(objective(data), "output-perturbation", BUDGET)
    tolerance = result.plan.settings.gradient_tolerance
    assert np.linalg.norm(result.w - minimizer(data)) <= tolerance / MU * (1 + 1e-9)
    (event,) = result.privacy.events
    declared = 2.0 / (MU * N)
    assert declared + 2.0 * tolerance / MU <= event.sensitivity <= 1.02 * declared
    assert result.plan.settings.optimizer == "minimax_appa"


def test_worst_neighbors_reach_the_declared_sensitivity(noiseless):
    """Along the mean, where the adversary's pull is the same: the rows' difference over µn."""
    ends = [
        solve(objective(rows(first)), "output-perturbation", BUDGET)
        for first in ([0.6, 0.0, -0.8], [-0.6, 0.0, 0.8])
    ]
    distance = np.linalg.norm(ends[0].w - ends[1].w)
    assert 0.97 * 2.0 / (MU * N) <= distance <= ends[0].plan.events[0].sensitivity


def test_a_strongly_concave_adversary_is_smooth():
    shape = objective(rows([0.6, 0.0, -0.8]), strong_concavity=0.5).shape
    assert shape.smoothness == 2.0 * (1.0 + 2.0 / 0.5)
    settled = plan(shape, "output-perturbation", BUDGET)
    # Half the smoothness times E‖z‖².
    stddev = settled.expected["noise_stddev_per_weight"]
    bound = settled.expected["excess_risk_bound"]
    assert bound == pytest.approx(0.5 * 3 * stddev**2 * shape.smoothness, rel=1e-2)
    assert math.isinf(objective(rows([0.6, 0.0, -0.8])).shape.smoothness)


def test_plans_tell_how_many_gradients_to_expect():
    """Proposition 5.2 of Lowy & Razaviyayn 2021, at the accuracy that is certified."""
    data = rows([0.6, 0.0, -0.8])
    settled = plan(objective(data, diameter=2.0 * REACH).shape, "output-perturbation", BUDGET)
    accuracy = settled.settings.certified_accuracy
    count = settled.expected["minimax_gradients"]
    assert count == pytest.approx(math.sqrt(2.0 / MU * 2.0 / accuracy) * 2.0 * REACH)
    strongly = plan(objective(data, strong_concavity=0.5).shape, "output-perturbation", BUDGET)
    assert strongly.expected["minimax_gradients"] == pytest.approx(math.sqrt(4.0 * 4.0))
    # Who declares no diameter is told nothing.
    plain = plan(objective(data).shape, "output-perturbation", BUDGET)
    assert "minimax_gradients" not in plain.expected


def test_the_excess_risk_stays_below_the_bound():
    game = objective(rows([0.6, 0.0, -0.8]), strong_concavity=0.5)

    def worst(w):
        # The best v of a strongly concave game: -w/ν, shortened to the ball.
        v = game.game.project(-w / 0.5)
        return game.game.value_and_gradients(w, v)[0]

    settled = plan(game, "output-perturbation", BUDGET)
    point = unperturbed(settled, game)
    runs = [perturbed(settled, point, SecureGenerator(seed)) for seed in range(30)]
    least = scipy.optimize.minimize(worst, point, tol=1e-10).fun
    assert 0.0 <= worst(point) - least <= settled.settings.certified_accuracy + 1e-9
    excess = np.mean([worst(run) for run in runs]) - least
    assert 0.0 < excess <= settled.expected["excess_risk_bound"]


def test_without_a_certificate_nothing_is_released():
    for game, options in (
        (objective(rows([0.6, 0.0, -0.8])), {"optimizer_options": {"max_passes": 1}}),
        (objective(rows([0.6, 0.0, -0.8]), gap_error=1e-3), {"tolerance": 1e-3}),
    ):
        settled = plan(game, "output-perturbation", BUDGET, **options)
        ledger = Ledger(BUDGET)
        with pytest.raises(CertificateNotReached, match="nothing is released"):
            carry_out(settled, game, SecureGenerator(), ledger)
        assert ledger.events == settled.events


def test_bad_arguments():
    data = rows([0.6, 0.0, -0.8])
    with pytest.raises(ValueError, match="gap_error must be"):
        objective(data, gap_error=-1.0)
    with pytest.raises(ValueError, match="strong_concavity must be"):
        objective(data, strong_concavity=-1.0)
    with pytest.raises(ValueError, match="lipschitz must be"):
        objective(data, lipschitz=math.nan)
    with pytest.raises(ValueError, match="optimizer must be 'auto' or 'minimax_appa'"):
        plan(objective(data), "output-perturbation", BUDGET, optimizer="newton")
    with pytest.raises(ValueError, match="tolerance must be a number where gap_error is 0"):
        plan(objective(data, gap_error=0.0), "auto", BUDGET, tolerance="machine")
    with pytest.raises(ValueError, match="neighboring_relation must be"):
        plan(objective(data), "auto", BUDGET, neighboring_relation="add_or_remove_one")
    assert isinstance(objective(data).shape, SaddleShape)
