"""Saddle points that are known in closed form."""

import numpy as np
import pytest

from dpfast.optimizers import minimax_appa


class QuadraticGame:
    """``(µ/2)‖w‖² + w^T B v + b·w - (ν/2)‖v‖² + c·v`` on all of space or on a ball."""

    def __init__(self, dim=4, dim_adversary=3, mu=0.5, nu=0.5, ball=np.inf):
        rng = np.random.default_rng(2)
        self.dim, self.dim_adversary, self.ball = dim, dim_adversary, ball
        self.B = 0.5 * rng.standard_normal((dim, dim_adversary))
        self.b, self.c = rng.standard_normal(dim), rng.standard_normal(dim_adversary)
        self.strong_convexity, self.strong_concavity = mu, nu
        self.smoothness = np.linalg.norm(self.B, 2) + max(mu, nu)
        self.passes = 0

    def value_and_gradients(self, w, v):
        self.passes += 1
        assert np.linalg.norm(v) <= self.ball * (1 + 1e-12)
        mu, nu = self.strong_convexity, self.strong_concavity
        value = 0.5 * mu * w @ w + w @ self.B @ v + self.b @ w - 0.5 * nu * v @ v + self.c @ v
        return value, mu * w + self.B @ v + self.b, self.B.T @ w - nu * v + self.c

    def project(self, v):
        norm = np.linalg.norm(v)
        return v * (self.ball / norm) if norm > self.ball else v

    def support(self, direction):
        norm = np.linalg.norm(direction)
        return self.ball * norm if norm > 0 else 0.0


class Perturbed:
    """Adversarial training of a linear loss: row i is moved by ``v_i``, ``‖v_i‖ <= r``.

    ``H = -(1/n) Σ y_i <w, x_i + v_i> + (µ/2)‖w‖²`` is linear in v (no strong concavity), and
    ``G(w) = -<a, w> + r‖w‖ + (µ/2)‖w‖²``, ``a`` the mean of ``y_i x_i``: its minimizer is ``a``
    shortened by ``r``, over µ.
    """

    strong_concavity = 0.0

    def __init__(self, r=0.2, mu=0.5):
        rng = np.random.default_rng(4)
        self.X = rng.standard_normal((5, 3)) + np.array([1.0, 0.0, -1.0])
        self.y = np.array([1.0, 1.0, -1.0, 1.0, 1.0])
        self.r, self.strong_convexity = r, mu
        self.dim, self.dim_adversary = 3, 15
        self.smoothness = mu + 1.0 / np.sqrt(5.0)

    def value_and_gradients(self, w, v):
        moves = v.reshape(5, 3)
        mu = self.strong_convexity
        mean = self.y @ (self.X + moves) / 5
        ascent = -np.outer(self.y, w) / 5
        return -mean @ w + 0.5 * mu * w @ w, mu * w - mean, ascent.ravel()

    def project(self, v):
        moves = v.reshape(5, 3)
        norms = np.linalg.norm(moves, axis=1, keepdims=True)
        return (moves * (self.r / np.maximum(norms, self.r))).ravel()

    def support(self, direction):
        return self.r * float(np.linalg.norm(direction.reshape(5, 3), axis=1).sum())

    def minimizer(self):
        a = self.y @ self.X / 5
        norm = np.linalg.norm(a)
        return a * max(0.0, 1.0 - self.r / norm) / self.strong_convexity


def test_a_quadratic_game():
    game = QuadraticGame()
    mu, nu = game.strong_convexity, game.strong_concavity
    w = np.linalg.solve(mu * np.eye(4) + game.B @ game.B.T / nu, -game.b - game.B @ game.c / nu)
    result = minimax_appa(game, tolerance=1e-7)
    assert result.converged
    assert np.linalg.norm(result.w - w) <= result.certificate <= 1e-7 / mu
    np.testing.assert_allclose(result.v, (game.B.T @ w + game.c) / nu, atol=1e-4)
    assert result.passes == game.passes


def test_adversarial_training_in_closed_form():
    problem = Perturbed()
    exact = problem.minimizer()
    assert np.linalg.norm(exact) > 0.5
    result = minimax_appa(problem, tolerance=1e-3)
    assert result.converged
    assert np.linalg.norm(result.w - exact) <= result.certificate <= 2e-3


@pytest.mark.parametrize("ball", [0.3, np.inf])
def test_certificates_hold_at_every_stage(ball):
    game = QuadraticGame(ball=ball)
    exact = minimax_appa(game, tolerance=1e-6)
    assert exact.converged
    for passes in (1, 5, 25, 125):
        game.passes = 0
        result = minimax_appa(game, tolerance=1e-12, max_passes=passes)
        assert result.passes == game.passes <= passes
        assert not result.converged
        assert np.linalg.norm(result.w - exact.w) <= result.certificate + exact.certificate


def test_arguments_are_checked():
    game = QuadraticGame()
    for options, match in [
        ({"tolerance": 0.0}, "tolerance must be a real number > 0"),
        ({"max_passes": 0}, "max_passes must be an integer >= 1"),
        ({"w0": np.zeros(3)}, r"w0 must have shape \(4,\); got \(3,\)"),
        ({"v0": np.full(3, np.inf)}, "v0 must be finite"),
    ]:
        with pytest.raises(ValueError, match=match):
            minimax_appa(game, **{"tolerance": 1e-3, **options})
    game.strong_convexity = 0.0
    with pytest.raises(ValueError, match="strong_convexity must be a real number > 0"):
        minimax_appa(game, tolerance=1e-3)
