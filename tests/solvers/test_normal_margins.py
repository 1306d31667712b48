"""How far to go along one direction, as gradients along it and the constant tell."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dpfast.solvers._normal_margins import NormalMargins

CLIP = 1.0


def rows(mean=0.0, width=1.0, length=1.5, intercept=-1.0, n=4000):
    """Numbers along a direction, and labels whose weights have that length."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(n)
    return mean + width * z, (rng.logistic(size=n) < intercept + length * z) * 1.0


def gradient(v, z, y):
    """The mean gradient, of rows that are clipped by weights."""
    p = 1.0 / (1.0 + np.exp(-v[1] - v[0] * z))
    kept = np.minimum(1.0, CLIP / np.sqrt(1.0 + z**2) / np.maximum(p, 1.0 - p))
    return np.array([np.mean(kept * (p - y) * z), np.mean(kept * (p - y))])


def loss(v, z, y):
    margin = v[1] + v[0] * z
    return float(np.mean(np.logaddexp(0.0, margin) - y * margin))


def followed(z, y, noise, rng, steps=5):
    share = y.mean()
    margins = NormalMargins(share, max(noise, 1e-3), share)
    v = np.array([0.0, math.log(share / (1.0 - share))])
    for _ in range(steps):
        margins.add(gradient(v, z, y) + noise * rng.standard_normal(2), noise, v, CLIP)
        v = margins.best(v)
    return v


@pytest.mark.parametrize(
    "table",
    [{}, {"width": 3.0}, {"width": 0.5}, {"mean": -1.0}, {"mean": 1.5, "width": 2.0},
     {"length": 4.0}, {"intercept": -4.0}],
)  # fmt: skip
def test_exact_gradients_lead_to_the_least_loss(table):
    z, y = rows(**table)
    found = loss(followed(z, y, 0.0, np.random.default_rng(0)), z, y)
    least = minimize(loss, np.zeros(2), (z, y)).fun
    constant = loss([0.0, math.log(y.mean() / (1.0 - y.mean()))], z, y)
    assert found - least < 0.03 * (constant - least)


def test_noise_alone_leads_nowhere_far():
    z, y = rows(length=0.0)
    rng, constant = np.random.default_rng(0), loss([0.0, math.log(y.mean() / (1 - y.mean()))], z, y)
    lost = [loss(followed(z, y, 0.04, rng), z, y) - constant for _ in range(12)]
    assert np.mean(lost) < 0.005


def test_what_noise_half_hides_is_followed_in_part():
    z, y = rows(length=0.6, intercept=0.0)  # a slope like the noise in five of them
    constant, rng = math.log(2.0), np.random.default_rng(0)
    ends = [followed(z, y, 0.25, rng) for _ in range(12)]
    assert 0.0 < np.mean([v[0] for v in ends]) < 0.6
    assert np.mean([loss(v, z, y) for v in ends]) < constant
