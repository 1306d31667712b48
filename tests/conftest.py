"""Fixtures shared by all tests."""

import hypothesis
import numpy as np
import pytest

from dpfast import _kernels
from dpfast.random import SecureGenerator

# The same examples in every run.
hypothesis.settings.register_profile("dpfast", derandomize=True)
hypothesis.settings.load_profile("dpfast")


@pytest.fixture(params=_kernels.supported_isas())
def isa(request):
    """Runs the test once on every instruction set of this CPU."""
    before = _kernels.isa_name()
    _kernels.force_isa(request.param)
    yield request.param
    _kernels.force_isa(before)


@pytest.fixture
def noiseless(monkeypatch):
    """Switches noise off: draws are zero, everything else stays as it is."""
    monkeypatch.setattr(
        SecureGenerator, "discrete_gaussian", lambda self, scale, n: np.zeros(n, dtype=np.int64)
    )
    monkeypatch.setattr(
        SecureGenerator, "discrete_laplace", lambda self, scale, n: np.zeros(n, dtype=np.int64)
    )
    monkeypatch.setattr(SecureGenerator, "gaussian", lambda self, n: np.zeros(n))
    monkeypatch.setattr(SecureGenerator, "l2_laplace", lambda self, d, scale: np.zeros(d))
    monkeypatch.setattr(
        SecureGenerator, "noisy_max", lambda self, scores, scale, noise: int(np.argmax(scores))
    )


@pytest.fixture
def classification():
    """A small classification problem: rows of norm at most 2, labels -1 and +1."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6))
    X *= 2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ np.arange(-2.0, 4.0) + rng.logistic(size=500) > 0, 1.0, -1.0)
    return X, y
