"""Slow twins of the objectives: one row at a time, straight from the definitions."""

import math

import numpy as np
from reference.dense import points


def tilted(rows, target, w, loss, tilt, alpha, weight=None):
    """Value and gradient of the tilted risk."""
    weight = np.ones(len(rows)) if weight is None else weight
    values, gradients = [], []
    for x, y, c in zip(rows, target, weight, strict=True):
        value, derivative, _ = points(loss, math.fsum(x * w), y)
        values.append(c * value)
        gradients.append(c * derivative * x)
    top = max(values)
    share = np.array([math.exp(tilt * (v - top)) for v in values])
    # Σ(p - 1) keeps its accuracy for a small tilt.
    excess = math.fsum(math.expm1(tilt * (v - top)) for v in values)
    value = top + math.log1p(excess / len(rows)) / tilt
    gradient = np.array(gradients).T @ share / math.fsum(share)
    return value + 0.5 * alpha * math.fsum(w * w), gradient + alpha * w


def smooth_abs(r, width):
    return math.hypot(r, width)


def adversarial(
    rows, n_features, target, w, loss, alpha, radius, norm, width, residual_width, weight=None
):
    """Value of the adversarial risk."""
    weight = np.ones(len(rows)) if weight is None else weight
    features = [float(v) for v in w[:n_features]]
    if norm == "l2":
        size = math.hypot(*features, width)
    else:
        size = math.fsum(smooth_abs(v, width) for v in features)
    total = 0.0
    for x, y, c in zip(rows, target, weight, strict=True):
        z = math.fsum(x * w)
        if loss.kind == "classification":
            total += c * points(loss, z - y * radius * size, y)[0]
        else:
            total += c * points(loss, smooth_abs(z - y, residual_width) + radius * size, 0.0)[0]
    return total / len(rows) + 0.5 * alpha * math.fsum(w * w)


def worst_perturbation(x, y, w, n_features, loss, radius, norm, rng, tries):
    """Largest loss over perturbations of one row: random ones and the two extreme ones."""
    features = w[:n_features]
    if norm == "l2":
        extreme = radius * features / np.linalg.norm(features)
    else:
        extreme = radius * np.sign(features)
    best = -math.inf
    for k in range(tries + 2):
        if k < 2:
            delta = extreme if k else -extreme
        elif norm == "l2":
            delta = rng.standard_normal(n_features)
            delta *= radius * rng.random() / np.linalg.norm(delta)
        else:
            delta = rng.uniform(-radius, radius, n_features)
        moved = x.copy()
        moved[:n_features] += delta
        best = max(best, points(loss, math.fsum(moved * w), y)[0])
    return best


def gradient(value, w, size=1e-6):
    """Central differences."""
    out = np.empty(len(w))
    for j in range(len(w)):
        step = np.zeros(len(w))
        step[j] = size
        out[j] = (value(w + step) - value(w - step)) / (2 * size)
    return out


def check_derivatives(objective, w, ridge):
    """Gradient and Hessian are those of the value, by differences, within the stated bounds."""
    slope = gradient(lambda v: objective.value_and_gradient(v)[0], w)
    np.testing.assert_allclose(objective.value_and_gradient(w)[1], slope, atol=1e-8)
    rows = [
        gradient(lambda v, j=j: objective.value_and_gradient(v)[1][j], w)
        for j in range(objective.dim)
    ]
    np.testing.assert_allclose(objective.hessian(w), rows, atol=1e-6)
    eigenvalues = np.linalg.eigvalsh(objective.hessian(w))
    assert eigenvalues[0] >= ridge - 1e-9
    assert eigenvalues[-1] <= objective.smoothness
