"""What a guarantee leaves to any attack: telling records apart, believing, reconstructing.

All of it follows from the trade-off curve f of a guarantee (Wasserman & Zhou 2010; Dong, Roth & Su
2022): whoever guesses which of two neighboring data sets a result came from, and accuses wrongly
with probability α, misses with probability f(α) at least.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from dpfast._validation import check_real
from dpfast.privacy.budget import Budget
from dpfast.privacy.conversions import zcdp_delta
from dpfast.privacy.report import PrivacyReport

Curve = NDArray[np.float64]

# Where the advantage is sought: close together where curves are steep.
_ERRORS = np.concatenate([[0.0], np.geomspace(1e-9, 1e-3, 2000), np.linspace(1e-3, 1.0, 20_000)])


def trade_off(alpha: ArrayLike, guarantee: Budget) -> Curve:
    """Smallest type II errors, an array, of any test of type I errors alpha between neighbors.

    Parameters
    ----------
    alpha : array-like
        Type I errors, in [0, 1].
    guarantee : Budget
        (ε, δ): ``max(0, 1 - δ - e^ε α, e^-ε (1 - δ - α))`` (Wasserman & Zhou 2010; Kairouz, Oh &
        Viswanath 2015). µ-GDP: ``Φ(Φ⁻¹(1 - α) - µ)`` (Dong, Roth & Su 2022). ρ-zCDP: the largest of
        the curves of the (ε, δ) that it implies, at 200 values of ε; a bound, not the whole of what
        ρ-zCDP promises.

    Examples
    --------
    >>> from dpfast import Budget
    >>> from dpfast.privacy import trade_off
    >>> [round(float(b), 3) for b in trade_off([0.0, 0.05, 1.0], Budget(1.0))]
    [1.0, 0.864, 0.0]
    """
    errors = np.asarray(alpha, dtype=np.float64)
    if not (errors >= 0.0).all() or not (errors <= 1.0).all():
        raise ValueError(f"alpha must be within [0, 1]; got {alpha!r}.")
    if guarantee.mu is not None:
        return np.asarray(ndtr(ndtri(1.0 - errors) - guarantee.mu), dtype=np.float64)
    if guarantee.epsilon is not None:
        return _approximate(errors, guarantee.epsilon, guarantee.delta)
    rho = guarantee.limit
    # Beyond, delta is below 1e-9 (the simple rule of zCDP).
    epsilons = np.linspace(0.0, rho + 2.0 * np.sqrt(rho * np.log(1e9)), 200)
    curves = [_approximate(errors, e, zcdp_delta(rho, e)) for e in epsilons.tolist()]
    return np.asarray(np.max(curves, axis=0), dtype=np.float64)


def _approximate(errors: Curve, epsilon: float, delta: float) -> Curve:
    with np.errstate(over="ignore", invalid="ignore"):
        steep = 1.0 - delta - np.where(errors > 0.0, np.exp(epsilon) * errors, 0.0)
    flat = np.exp(-epsilon) * (1.0 - delta - errors)
    return np.asarray(np.maximum(0.0, np.maximum(steep, flat)), dtype=np.float64)


def guarantees_of(report: PrivacyReport) -> tuple[Budget, ...]:
    """The forms in which a report states its guarantee, each of which holds."""
    forms = [Budget(report.epsilon, report.delta)]
    if report.mu is not None:
        forms.append(Budget(mu=report.mu))
    elif report.rho is not None:
        forms.append(Budget(rho=report.rho))
    return tuple(forms)


def least_misses(report: PrivacyReport, alpha: ArrayLike) -> Curve:
    """The trade-off curve of a report: the highest of those of its forms."""
    curves = [trade_off(alpha, form) for form in guarantees_of(report)]
    return np.asarray(np.max(curves, axis=0), dtype=np.float64)


def advantage(report: PrivacyReport) -> float:
    """Largest difference between true and false accusations, in [0, 1], of any attack.

    An attacker tries to tell from a result whether it was learned from one record or from its
    neighbor. This is the most that such an attack gains over blind guessing.

    Examples
    --------
    >>> from dpfast.privacy import GaussianEvent, Budget, Ledger, PrivacyReport, advantage
    >>> ledger = Ledger(Budget(1.0, 1e-6))
    >>> ledger.spend(GaussianEvent(sensitivity=1.0, stddev=5.0, dimension=1,
    ...                            neighboring_relation="replace_one", where="output"))
    >>> round(advantage(PrivacyReport.from_ledger(ledger, reproducible=False)), 4)
    0.0797
    """
    exact = []
    for form in guarantees_of(report):
        if form.mu is not None:
            exact.append(float(2.0 * ndtr(0.5 * form.mu) - 1.0))
        elif form.epsilon is not None:
            # At α = (1 - δ) / (1 + e^ε), where the two lines meet.
            share = math.tanh(0.5 * form.epsilon)
            exact.append(share + form.delta * (1.0 - share))
        else:
            # Between two points of the grid neither error is below its least.
            curve = trade_off(_ERRORS, form)
            exact.append(float(np.max(1.0 - _ERRORS[:-1] - curve[1:])))
    return min(1.0, *exact)


def found_at(report: PrivacyReport, false_alarms: float) -> float:
    """Largest share of true accusations of an attack with so many false ones."""
    alpha = check_real("false_alarms", false_alarms, low=0.0, high=1.0)
    return float(1.0 - least_misses(report, alpha))


def belief(report: PrivacyReport, prior: float) -> float:
    """What a suspicion of probability `prior` becomes at most, up to the δ of the guarantee.

    ``p e^ε / (1 - p + p e^ε)``: Bayes' rule with the largest likelihood ratio.
    """
    p = check_real("prior", prior, low=0.0, high=1.0)
    if p in (0.0, 1.0):
        return p
    odds = math.log(p) - math.log1p(-p) + report.epsilon
    return 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0


def reconstruction(report: PrivacyReport, guess: float) -> float:
    """Largest probability of reconstructing a record that could be guessed with `guess` without it.

    ``1 - f(κ)`` (Hayes, Mahloujifar & Balle 2023, Theorem 2; Kaissis et al. 2023), where κ is the
    probability that a guess which does not use the result is close enough, whatever "close enough"
    means.
    """
    kappa = check_real("guess", guess, low=0.0, high=1.0)
    return float(1.0 - least_misses(report, kappa))
