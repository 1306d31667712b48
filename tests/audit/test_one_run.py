"""One run on many rows: canaries in columns of their own, each with a coin for its label."""

import numpy as np
import pytest
import scipy.sparse

from dpfast import Budget, Loss, Problem, ProblemShape, solve
from dpfast.privacy import audit_one_run

pytestmark = pytest.mark.audit

ROWS, CANARIES = 20_000, 2000
BUDGET = Budget(1.0, 1e-6)
#: One step that changes no slope, so that the weights are noisy gradients.
SETTINGS = {
    "dp-gd": {"iterations": 1, "step": 1e-6, "alpha": 1e-3},
    "dp-sgd": {"steps": 2, "batch": "full", "step": 1e-6, "average": "none"},
    "output-perturbation": {"alpha": 0.5, "noise": "gaussian", "optimizer": "lbfgs"},
}


def problem(coins):
    """Canaries, and other rows in ten columns that the canaries leave alone."""
    rng = np.random.default_rng(0)
    others = rng.standard_normal((ROWS - CANARIES, 10))
    others /= np.linalg.norm(others, axis=1)[:, None]
    X = scipy.sparse.block_diag([scipy.sparse.eye_array(CANARIES), others], format="csr")
    y = np.concatenate([np.where(coins, 1.0, -1.0), np.sign(others[:, 0])])
    return Problem(X, y, Loss("huberized-hinge"), data_norm=1.0, intercept=0.0)


def audit(solver):
    coins = np.random.default_rng(1).random(CANARIES) < 0.5
    result = solve(problem(coins), solver, BUDGET, random_state=5, **SETTINGS[solver])
    assert result.privacy.epsilon <= BUDGET.epsilon
    return audit_one_run(result.w[:CANARIES], coins, delta=BUDGET.delta, confidence=0.999).value


@pytest.mark.parametrize("solver", SETTINGS)
def test_one_run_is_below_the_claim(solver):
    assert 0.0 < audit(solver) <= BUDGET.epsilon


def test_one_run_catches_far_too_little_noise(monkeypatch):
    """A single run finds no factor of two, but an influence forgotten by a factor of ten."""
    honest = ProblemShape.minimizer_sensitivity
    monkeypatch.setattr(ProblemShape, "minimizer_sensitivity", lambda *a: 0.1 * honest(*a))
    assert audit("output-perturbation") > BUDGET.epsilon
