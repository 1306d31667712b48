"""Rates of convergence on problems of known condition, no worse than the theorems say."""

import itertools

import numpy as np
import pytest
from optimizers.test_minimax import QuadraticGame
from optimizers.test_optimizers import Quadratic

from dpfast import Problem
from dpfast.objectives import Erm
from dpfast.optimizers import OPTIMIZERS, minimax_appa


def badly_conditioned(alpha):
    """200 rows of norm one: the smoothness of a row's logistic loss is 1/4."""
    rng = np.random.default_rng(1)
    n, d = 200, 30
    X = rng.standard_normal((n, d)) * np.geomspace(1.0, 1e-2, d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return Erm(Problem(X, y, data_norm=1.0, intercept=0.0), alpha)


def trace(name, objective, **options):
    seen = []
    OPTIMIZERS[name](objective, tolerance=1e-14, callback=seen.append, **options)
    return seen


@pytest.mark.parametrize("step", ["optimal", "strongly-convex", "convex"])
def test_gd_contracts_by_the_known_factor(step):
    kappa = 50.0
    objective = Quadratic(np.geomspace(1.0, kappa, 9), np.linspace(-3.0, 3.0, 9))
    factor = {
        "optimal": (kappa - 1) / (kappa + 1),
        "strongly-convex": kappa / (kappa + 1),
        "convex": 1 - 1 / kappa,
    }[step]
    seen = trace("gd", objective, step=step, max_passes=200)
    distances = np.array([np.linalg.norm(result.w - objective.c) for result in seen])
    assert np.all(distances[1:] <= factor * distances[:-1] * (1 + 1e-12) + 1e-13)
    # The factor is attained in the end: no other step was taken.
    assert distances[199] / distances[198] == pytest.approx(factor, rel=1e-3)


@pytest.mark.parametrize("momentum", ["constant", "restarted"])
def test_agd_follows_the_root_of_the_condition_number(momentum):
    kappa = 10_000.0
    objective = Quadratic(np.geomspace(1.0, kappa, 40), np.linspace(-3.0, 3.0, 40))
    seen = trace("agd", objective, momentum=momentum, max_passes=1500)
    start = np.linalg.norm(objective.c)
    distances = np.array([np.linalg.norm(result.w - objective.c) for result in seen])
    # ‖y_t - w*‖² <= ((β + µ)/µ) ‖w_0 - w*‖² exp(-t/√κ), and |w_t - w*| <= 3 max of two y's.
    bound = 3.0 * np.sqrt(kappa + 1.0) * start * np.exp(-0.5 * (np.arange(1500) - 1) / 100.0)
    if momentum == "constant":
        assert np.all(distances <= bound)
        slope = np.log(distances[1499] / distances[499]) / 1000
        assert slope <= 0.5 * np.log(1 - 1 / 100.0)
    else:
        assert distances[-1] <= bound[-1]


def test_newton_squares_the_gradient():
    """``‖∇F(w⁺)‖ <= M/(2µ²) ‖∇F(w)‖²`` with full steps (Boyd & Vandenberghe 2004, 9.5.3), the third
    derivative of the logistic loss along rows of norm 1 being at most ``M = 1/(6√3)``.  A Hessian
    may be kept for another step, which then gains a fixed factor."""
    alpha = 1e-2
    objective = badly_conditioned(alpha)
    norms = [
        OPTIMIZERS["newton"](objective, tolerance=1e-15, max_passes=passes).gradient_norm
        for passes in range(1, 12)
    ]
    bend = 1.0 / (6.0 * np.sqrt(3.0)) / (2.0 * alpha**2)
    close = [(a, b) for a, b in itertools.pairwise(norms) if 1e-12 < a < 0.5 / bend]
    assert len(close) >= 3
    assert sum(b <= bend * a**2 for a, b in close) >= 2
    assert all(b <= 0.05 * a for a, b in close)


def test_lbfgs_grows_with_the_root_of_the_condition_number():
    """No worse than accelerated descent, though no theorem says so for limited memory."""
    passes = {}
    for kappa in (100.0, 10_000.0):
        objective = Quadratic(np.geomspace(1.0, kappa, 40), np.linspace(-3.0, 3.0, 40))
        for name in ("lbfgs", "agd"):
            result = OPTIMIZERS[name](objective, tolerance=1e-8)
            assert result.converged
            passes[name, kappa] = result.passes
    assert passes["lbfgs", 10_000.0] <= 10.0 * passes["lbfgs", 100.0]
    assert all(passes["lbfgs", kappa] <= passes["agd", kappa] for kappa in (100.0, 10_000.0))


@pytest.mark.parametrize("weak", [{"nu": 0.5 / 16}, {"mu": 0.5 / 16}], ids=["adversary", "weights"])
def test_minimax_grows_with_the_root_of_both_condition_numbers(weak):
    """``O(√(κ_w κ_v))`` up to logarithms (Lin, Jin & Jordan 2020); descent and ascent in turns take
    their product: 16 times as many here, not 4."""
    passes = []
    for constants in ({}, weak):
        game = QuadraticGame(**constants)
        result = minimax_appa(game, tolerance=1e-4)
        assert result.converged
        passes.append(result.passes)
    assert passes[1] <= 1.5 * 4.0 * passes[0]


def test_svrg_shrinks_by_its_theorem():
    """Johnson & Zhang 2013, Theorem 1, over six epochs of a fixed seed."""
    objective = badly_conditioned(0.02)
    mu, beta = 0.02, objective.row_smoothness + 0.02
    laps = 5
    step = 0.1 / beta
    rho = 1 / (mu * step * 0.8 * laps * 200) + 0.2 / 0.8
    assert rho < 0.5
    minimum = OPTIMIZERS["newton"](objective, tolerance=1e-12).value
    seen = trace("svrg", objective, step=step, epoch_passes=laps, snapshot="average", max_passes=44)
    excess = [result.value - minimum for result in seen]
    assert len(excess) == 7
    assert excess[6] <= rho**6 * excess[0]


@pytest.mark.parametrize("alpha", [1e-3, 1e-4, 1e-5])
def test_katyusha_shrinks_by_its_theorem(alpha):
    """Allen-Zhu 2018, Theorem 2.1: ``(1 + √(µ/(3βm)))^-m`` an epoch where ``mµ/β <= 3/4``, else
    2/3; in gradient norms, the root of it, from the tenth epoch on."""
    objective = badly_conditioned(alpha)
    m = 400
    ratio = m * alpha / objective.row_smoothness
    factor = (
        2 / 3 if ratio > 0.75 else (1 + np.sqrt(alpha / (3 * objective.row_smoothness * m))) ** -m
    )
    seen = trace("katyusha", objective, max_passes=4 * 60)
    norms = [result.gradient_norm for result in seen]
    last = next((k for k, norm in enumerate(norms) if norm < 1e-13), len(norms) - 1)
    assert last >= 20
    assert norms[last] / norms[10] <= np.sqrt(factor) ** (last - 10)


@pytest.mark.parametrize(
    ("alpha", "first", "others"), [(1e-5, "katyusha", ("svrg", "agd")), (5e-3, "svrg", ("gd",))]
)
def test_who_wins_follows_from_the_condition_number(alpha, first, others):
    """κ/n = 125: in the passes that katyusha needs, neither of the others comes near.

    κ < n: a few epochs of svrg do what takes gradient descent hundreds of passes.
    """
    objective = badly_conditioned(alpha)
    winner = OPTIMIZERS[first](objective, tolerance=1e-8, max_passes=1000)
    assert winner.converged
    for name in others:
        loser = OPTIMIZERS[name](objective, tolerance=1e-8, max_passes=winner.passes)
        assert loser.gradient_norm > 10 * winner.gradient_norm


@pytest.mark.parametrize("name", ["gd", "agd", "subgradient", "svrg", "katyusha", "sgd"])
def test_an_interrupt_ends_the_run(name):
    calls = []

    def interrupt(result):
        calls.append(result)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        OPTIMIZERS[name](badly_conditioned(1e-4), tolerance=1e-12, callback=interrupt)
    assert len(calls) == 3


@pytest.mark.slow
def test_a_table_of_common_size_is_solved_to_rounding():
    """45,000 rows of numbers and one-hot columns, κ/n of 0.001 and 0.1: the tolerance is
    what output perturbation asks for, about a millionth of the sensitivity."""
    rng = np.random.default_rng(0)
    n = 45_211
    columns = [0.3 * rng.standard_normal((n, 7))]
    for k in (12, 3, 4, 2, 2, 2, 3, 12, 4):
        columns.append(np.eye(k)[rng.choice(k, size=n, p=rng.dirichlet(np.ones(k)))])
    X = np.hstack(columns)
    X /= np.linalg.norm(X, axis=1).max()
    truth = 4.0 * rng.standard_normal(X.shape[1])
    y = np.where(X @ truth - 3.0 + rng.logistic(size=n) > 0, 1.0, -1.0)
    for alpha in (1e-2, 1e-4):
        objective = Erm(Problem(X, y, data_norm=1.0), alpha)
        found = {
            name: OPTIMIZERS[name](objective, tolerance=4e-11)
            for name in ("newton", "lbfgs", "svrg", "katyusha")
        }
        for name, result in found.items():
            assert result.converged, name
            distance = np.linalg.norm(result.w - found["newton"].w)
            assert distance <= result.certificate + found["newton"].certificate, name
