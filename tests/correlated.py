"""Rows in which coordinates matter."""

import numpy as np


def correlated(n=3000, seed=0, d=6):
    """Badly scaled, far from centered, correlated rows in the unit ball, and their labels."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d))
    z[:, 1] = 0.9 * z[:, 0] + 0.4 * z[:, 1]
    scale = 10.0 ** np.linspace(-3, 0, d)
    X = 0.5 + z * scale
    X /= 1.001 * np.linalg.norm(X, axis=1).max()
    y = np.where(z @ np.linspace(1, -1, d) + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y


def clipped_rows(Z, radius):
    return Z * np.minimum(1.0, radius / np.linalg.norm(Z, axis=1))[:, None]
