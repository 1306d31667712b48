"""Shares of several classes, and the constant prediction that they ask for."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln

from dpfast._typing import Matrix, Vector
from dpfast.solvers._coordinates import Coordinates

# Of the Dirichlet laws that the shares of the classes may have: concentration and weight.
_CONCENTRATIONS = ((0.25, 1.0), (1.0, 1.0), (4.0, 1.0), (16.0, 4.0), (64.0, 12.0))
# Of the grid on which a share is expected: points, deviations around what is found, and how far
# beyond 0 and 1 that may lie.
_POINTS, _AROUND, _FARTHEST = 300, 8.0, 6.0


def constant_of(coordinates: Coordinates, n_classes: int) -> Matrix:
    """The weights of the constant prediction of the shares to expect."""
    v = np.zeros((len(coordinates.transform), n_classes))
    if coordinates.tells_shares:
        shares, noise, _ = coordinates.class_shares()
        v[-1] = intercepts_of(shares, noise)
    return v


def intercepts_of(found: Vector, noise: float) -> Vector:
    """Those with the shares to expect, where normal noise of this deviation shows `found`."""
    logs = np.log(expected_class_shares(found, noise))
    return np.asarray(logs - logs.mean(), dtype=np.float64)


def longest_slope(shares: Vector) -> float:
    """Length of the slopes of a row of the least likely class, which has the longest."""
    return math.sqrt(float(shares @ shares) + 1.0 - 2.0 * float(shares.min()))


def expected_class_shares(found: Vector, noise: float) -> Vector:
    """Shares of all classes to expect, of which normal noise of this deviation shows `found`.

    They may be alike or far apart: symmetric Dirichlet laws of several concentrations, which the
    shares together make more or less likely.  Where all is noise, they are equal.

    Examples
    --------
    >>> expected_class_shares(np.array([0.9, 0.4, -0.3]), 0.5).round(2)
    array([0.36, 0.33, 0.31])
    >>> expected_class_shares(np.array([0.9, 0.08, 0.02]), 0.001).round(2)
    array([0.9 , 0.08, 0.02])
    """
    classes = len(found)
    found = np.clip(found, -_FARTHEST * noise, 1.0 + _FARTHEST * noise)[:, None]
    # Midpoints, close together near a share of 0, where laws of rare classes are steep.
    parts = (np.arange(_POINTS) + 0.5) / _POINTS
    low = np.maximum(found - _AROUND * noise, 0.0)
    at = low + (np.minimum(found + _AROUND * noise, 1.0) - low) * parts**3
    seen = np.exp(-0.5 * ((found - at) / noise) ** 2) * parts**2
    evidence, means = np.zeros(len(_CONCENTRATIONS)), np.zeros((len(_CONCENTRATIONS), classes))
    for k, (a, weight) in enumerate(_CONCENTRATIONS):
        b = a * (classes - 1)
        prior = (a - 1.0) * np.log(at) + (b - 1.0) * np.log1p(-at) - betaln(a, b)
        density = seen * np.exp(prior)
        total = np.maximum(density.sum(axis=1), 1e-300)
        means[k] = (density * at).sum(axis=1) / total
        # Shares add up to 1: one of them tells nothing new.
        evidence[k] = math.log(weight) + (1.0 - 1.0 / classes) * float(np.log(total).sum())
    likely = np.exp(evidence - evidence.max())
    shares = np.maximum(likely @ means, 1e-9)
    return np.asarray(shares / shares.sum(), dtype=np.float64)
