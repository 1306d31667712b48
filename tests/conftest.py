"""Fixtures shared by all tests."""

import builtins
import contextlib
import os
import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from dpfast import Ledger, _kernels
from dpfast.privacy.repeats import FITS
from dpfast.random import SecureGenerator

opinions = None
if os.environ.get("DPFAST_OPINIONS") != "0":
    with contextlib.suppress(ImportError):
        import opinions
# Where these libraries are not installed, doctests are not looked for there.
collect_ignore = [] if opinions else ["opinions.py"]

# The same examples every time, and no verdict on how long they take: a slow machine is no failure.
settings.register_profile(
    "dpfast",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("dpfast")


@pytest.fixture(params=_kernels.supported_isas())
def isa(request):
    """Runs the test once on every instruction set of this CPU."""
    before = _kernels.isa_name()
    _kernels.force_isa(request.param)
    yield request.param
    _kernels.force_isa(before)


@pytest.fixture(autouse=True)
def no_fits_before():
    """Tests fit the same rows one after another; each knows of its own fits alone."""
    FITS.forget()


@pytest.fixture(autouse=True)
def second_opinion():
    """The price of every ledger is held against lower bounds by other libraries, if installed.

    ``DPFAST_OPINIONS=0`` does without, ``all`` compares more than a few of each test.
    """
    if opinions is None:
        yield
        return
    claims = opinions.Claims()
    # Not the test's monkeypatch, all of which is undone before its claims are compared.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "__init__", claims.watched(Ledger.__init__))
        patch.setattr(Ledger, "guarantee", claims.kept_of(Ledger.guarantee))
        yield
        refuted = claims.refuted()
    assert not refuted, "\n".join(refuted)


@pytest.fixture
def without_dp_accounting(monkeypatch):
    """As where it is not installed, though others have imported it."""
    original = builtins.__import__

    def fail(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, also where the process was started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
        SecureGenerator, "discrete_l2_laplace", lambda self, scale, d: np.zeros(d, dtype=np.int64)
    )
    epoch = _kernels.private_epoch
    monkeypatch.setattr(
        _kernels, "private_epoch", lambda *args, **named: epoch(*args, **{**named, "noise": "none"})
    )
    monkeypatch.setattr(
        SecureGenerator, "noisy_max", lambda self, scores, scale, noise: int(np.argmax(scores))
    )


def small_classification():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6))
    X *= 2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ np.arange(-2.0, 4.0) + rng.logistic(size=500) > 0, 1.0, -1.0)
    return X, y


@pytest.fixture
def classification():
    """A small classification problem: rows of norm at most 2, labels -1 and +1."""
    return small_classification()


@pytest.fixture(scope="module")
def shared_classification():
    """The same, for fits that several tests look at: not to be written to."""
    return small_classification()


@pytest.fixture(scope="session")
def three_centers():
    """Three classes around three centers, rows of norm at most 2: not to be written to."""
    rng = np.random.default_rng(5)
    kind = rng.integers(3, size=3000)
    X = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])[kind] + 0.4 * rng.normal(size=(3000, 2))
    X *= 2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1))[:, None]
    return X, kind
