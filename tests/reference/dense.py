"""Slow twins of the dense kernels: one row at a time, straight from the definitions."""

import math

import numpy as np
import pytest


def logistic(y, z, p, h):
    m = y * z
    value = math.log1p(math.exp(-m)) if m > 0 else -m + math.log1p(math.exp(m))
    tail = math.exp(-m) / (1 + math.exp(-m)) if m > 0 else 1 / (1 + math.exp(m))
    return value, -y * tail, tail * (1 - tail)


def hinge(y, z, p, h):
    return (0.0, 0.0, 0.0) if y * z >= 1 else (1 - y * z, -y, 0.0)


def huberized_hinge(y, z, p, h):
    m = y * z
    if m > 1 + h:
        return 0.0, 0.0, 0.0
    if m < 1 - h:
        return 1 - m, -y, 0.0
    return (1 + h - m) ** 2 / (4 * h), -y * (1 + h - m) / (2 * h), 1 / (2 * h)


def squared_hinge(y, z, p, h):
    t = 1 - y * z
    if t < 0:
        return 0.0, 0.0, 0.0
    if 2 * t > p:
        knee = p / 2
        return knee**2 + p * (t - knee), -y * p, 0.0
    return t**2, -y * 2 * t, 2.0


def huber(y, z, p, h):
    r = z - y
    if abs(r) <= p:
        return r**2 / 2, r, 1.0
    return p * abs(r) - p**2 / 2, math.copysign(p, r), 0.0


def squared(y, z, p, h):
    return (z - y) ** 2 / 2, z - y, 1.0


def pinball(y, z, p, h):
    r = y - z
    if abs(r) > h:
        return max(p * r, (p - 1) * r), -p if r > 0 else 1 - p, 0.0
    return r**2 / (4 * h) + h / 4 + (p - 0.5) * r, -(r / (2 * h) + p - 0.5), 1 / (2 * h)


def sigmoid(y, z, p, h):
    v = logistic(y, z, p, h)[1] / -y
    return v, -y * v * (1 - v), v * (1 - v) * (1 - 2 * v)


def extended(f, slope, bend, z, end):
    """A function with its slope and curvature, and its tangent at `end` for z beyond it."""
    beyond = z > end > 0 or z < end < 0
    at = end if beyond else z
    return f(at) + slope(at) * (z - at), slope(at), 0.0 if beyond else bend(at)


def added(y, first, second, constant=0.0):
    """First plus y times second, value by slope by curvature, and a constant in the value."""
    value, slope, bend = (a + y * b for a, b in zip(first, second, strict=True))
    return value + constant, slope, bend


def poisson(y, z, p, h):
    return added(y, extended(math.exp, math.exp, math.exp, z, h), (h - z, -1.0, 0.0))


def gamma(y, z, p, h):
    def fall(t):
        return math.exp(-t)

    return added(y, (z, 1.0, 0.0), extended(fall, lambda t: -fall(t), fall, z, -h), h)


def tweedie(y, z, p, h):
    def mean(power):  # the antiderivative of exp(power z), its slope and its curvature
        return (
            lambda t: math.exp(power * t) / power,
            lambda t: math.exp(power * t),
            lambda t: power * math.exp(power * t),
        )

    value, slope, bend = (lambda t, f=f: -f(t) for f in mean(1 - p))
    return added(y, extended(*mean(2 - p), z, h), extended(value, slope, bend, z, -h))


def negative_binomial(y, z, p, h):
    m = math.exp(z)
    value = (y + 1 / p) * math.log1p(p * m) - y * z + h * y
    return value, (m - y) / (1 + p * m), m * (1 + p * y) / (1 + p * m) ** 2


LOSSES = {
    f.__name__.replace("_", "-"): f
    for f in (
        *(logistic, hinge, huberized_hinge, squared_hinge, huber, squared, pinball, sigmoid),
        *(poisson, gamma, tweedie, negative_binomial),
    )
}


def points(loss, z, y):
    """Value, derivative and curvature of one loss at one point."""
    return LOSSES[loss.name](y, z, loss.parameter, loss.width)


def rows_with_intercept(X, row_scale, intercept):
    """The rows that the problem is about, written out."""
    X = np.asarray(X, dtype=np.float64)
    scale = np.ones(len(X)) if row_scale is None else np.asarray(row_scale)
    rows = X * scale[:, None]
    return np.hstack([rows, np.full((len(X), 1), intercept)]) if intercept else rows


def clipped_gradient(rows, target, w, loss, clip_norm, loss_clip, weight=None):
    """Weighted sums of clipped per-row gradients and of clipped losses."""
    gradient, total = np.zeros(rows.shape[1]), 0.0
    weight = np.ones(len(rows)) if weight is None else weight
    for x, y, c in zip(rows, target, weight, strict=True):
        value, derivative, _ = points(loss, math.fsum(x * w), y)
        g = derivative * x
        norm = math.sqrt(math.fsum(g * g))
        gradient += c * g * min(1.0, clip_norm / norm) if norm > 0 else g
        total += c * min(value, loss_clip)
    return gradient, total


def hessian(rows, target, w, loss, weight=None):
    """Weighted sum of the rows' Hessians."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    weight = np.ones(len(rows)) if weight is None else weight
    for x, y, c in zip(rows, target, weight, strict=True):
        total += c * points(loss, math.fsum(x * w), y)[2] * np.outer(x, x)
    return total


def check(kernel, rows, y, w, loss, clip_norm, loss_clip, weight, rtol=1e-13):
    """Hold sums and margins of a kernel's rows, dense or sparse, against these."""
    n, dim = rows.shape
    expected, expected_loss = clipped_gradient(rows, y, w, loss, clip_norm, loss_clip, weight)
    out = np.full(dim, np.nan)
    total = kernel.gradient(0, n, loss.spec, w, clip_norm, loss_clip, out)
    # Slopes are at most lipschitz or |z - y|; inverse norms are float32 where rows are clipped.
    slope = loss.lipschitz if loss.lipschitz < np.inf else 1 + np.abs(rows @ w - y).max()
    scale = 2 * slope * max(np.abs(rows).sum(axis=0).max(), 1e-300)
    atol = (2e-7 if clip_norm < np.inf else rtol) * scale
    np.testing.assert_allclose(out, expected, rtol=0, atol=atol)
    assert total == pytest.approx(expected_loss, rel=10 * rtol)
    assert kernel.objective(0, n, loss.spec, w, loss_clip) == pytest.approx(total, rel=1e-14)
    margins = np.empty(n)
    kernel.margins(0, n, w, margins)
    atol = rtol * (1 + np.abs(rows).sum(axis=1).max())
    np.testing.assert_allclose(margins, rows @ w, rtol=0, atol=atol)
    found = np.full((dim, dim), 3.0)
    if hasattr(kernel, "add_hessian"):
        kernel.add_hessian(0, n, loss.spec, w, found)
    else:
        for sign in (1, -1):
            half = np.empty((n, dim))
            kernel.curvature_rows(0, n, loss.spec, w, half, sign)
            found += sign * (half.T @ half)
    np.testing.assert_array_equal(found, found.T)
    curvature = max(1.0, loss.smoothness if loss.smoothness < np.inf else 1.0)
    atol = 10 * rtol * (3 + np.sum(rows**2)) * curvature
    np.testing.assert_allclose(found - 3.0, hessian(rows, y, w, loss, weight), rtol=0, atol=atol)
