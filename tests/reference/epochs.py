"""Slow twins of the stochastic epochs: one step at a time, straight from the papers.

`rows` are the rows written out (scaled, with the constant column), `derivative(margin, target)` is
the loss's derivative at one point.
"""

import numpy as np


def project(w, radius):
    norm = np.linalg.norm(w)
    return w * (radius / norm) if norm > radius else w


def row_gradient(rows, target, weight, derivative, i, w):
    """Weighted gradient of row i's loss."""
    return weight[i] * derivative(rows[i] @ w, target[i]) * rows[i]


def sgd(rows, target, weight, derivative, w, indices, steps, *, alpha=0.0, w_radius=np.inf,
        average_weight=None):  # fmt: skip
    """Projected stochastic gradient descent (Lowy & Razaviyayn 2021, Algorithm 3); returns the last
    iterate and the weighted sum of all but the first."""
    average = np.zeros_like(w)
    for t, (i, step) in enumerate(zip(indices, steps, strict=True)):
        g = row_gradient(rows, target, weight, derivative, i, w) + alpha * w
        w = project(w - step * g, w_radius)
        average = average + (1.0 if average_weight is None else average_weight[t]) * w
    return w, average


def full_gradient(rows, target, weight, derivative, w, alpha):
    n = len(rows)
    losses = sum(row_gradient(rows, target, weight, derivative, i, w) for i in range(n))
    return losses / n + alpha * w


def svrg(rows, target, weight, derivative, snapshot, w, indices, step, *, alpha=0.0,
         w_radius=np.inf):  # fmt: skip
    """One epoch of SVRG (Johnson & Zhang 2013, Figure 1), the ridge a part of every row's function;
    returns the last iterate and the sum of all but the first."""

    def gradient(i, at):
        return row_gradient(rows, target, weight, derivative, i, at) + alpha * at

    mu = full_gradient(rows, target, weight, derivative, snapshot, alpha)
    total = np.zeros_like(w)
    for i in indices:
        w = project(w - step * (gradient(i, w) - gradient(i, snapshot) + mu), w_radius)
        total = total + w
    return w, total


def katyusha(rows, target, weight, derivative, snapshot, z, y, indices, *, alpha, smoothness, tau1,
             w_radius=np.inf):  # fmt: skip
    """One epoch of Katyusha (Allen-Zhu 2018, Algorithm 1, option I), psi the ridge; returns z, y
    and the next snapshot."""
    tau2, gamma = 0.5, 1.0 / (3.0 * tau1 * smoothness)
    mu = full_gradient(rows, target, weight, derivative, snapshot, 0.0)
    total, weights, theta = np.zeros_like(z), 0.0, 1.0
    for i in indices:
        x = tau1 * z + tau2 * snapshot + (1.0 - tau1 - tau2) * y
        g = (
            mu
            + row_gradient(rows, target, weight, derivative, i, x)
            - row_gradient(rows, target, weight, derivative, i, snapshot)
        )
        # argmin ||z' - z||^2 / (2 gamma) + <g, z'> + alpha ||z'||^2 / 2 over the ball
        z = project((z / gamma - g) / (1.0 / gamma + alpha), w_radius)
        # argmin 3 beta ||y - x||^2 / 2 + <g, y> + alpha ||y||^2 / 2 over the ball
        y = project((3.0 * smoothness * x - g) / (3.0 * smoothness + alpha), w_radius)
        total, weights = total + theta * y, weights + theta
        theta *= 1.0 + gamma * alpha
    return z, y, total / weights
