"""Fits to the same rows that nobody adds up: noticed within the process, and said once.

Every fit leaves a sketch of its rows: the smallest of their hashes, under a key that is drawn when
the process starts and never leaves it. Two sketches tell what share of the rows is common, as of
the folds of a cross-validation, and nothing else. Nothing is stored.
"""

from __future__ import annotations

import secrets
import threading
import warnings
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import BudgetExceeded, RepeatedFitWarning, UnsupportedEvent
from dpfast.privacy.budget import MAX_EPSILON, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.open_accounts import active_accountants
from dpfast.privacy.report import PrivacyReport

# Hashes of a sketch; with fewer different rows, what data have in common says nothing.
_HASHES = 128
_FEW = 32
# Share of a sketch in common from which on rows count as the same: folds have half and more.
_COMMON = 0.2
_REMEMBERED = 512


@dataclass
class _Fit:
    sketch: frozenset[int]
    report: PrivacyReport


class FitLog:
    """The fits of a process that no accountant adds up."""

    def __init__(self) -> None:
        self._key = secrets.randbits(64)
        self._fits: deque[_Fit] = deque(maxlen=_REMEMBERED)
        self._said: deque[frozenset[int]] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def note(self, X: Any, report: PrivacyReport, stacklevel: int = 2) -> None:
        """Remember a fit, and warn the first time that its rows were fitted before.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        report : PrivacyReport
            What the fit promised.
        stacklevel : int, default=2
            Of the warning.
        """
        if active_accountants():
            return
        sketch = self.sketch(X)
        with self._lock:
            same = [fit.report for fit in self._fits if _overlap(fit.sketch, sketch)]
            self._fits.append(_Fit(sketch, report))
            if not same or any(_overlap(said, sketch) for said in self._said):
                return
            self._said.append(sketch)
        epsilon, delta = total([*same, report])
        warnings.warn(
            f"These rows, or most of them, were fitted before in this process: {len(same) + 1} "
            f"fits together have epsilon = {epsilon:.3g}, delta = {delta:.3g} so far, and a report "
            "states that of one fit alone. Cross-validation, searches and calibration make many "
            "fits. Put a BudgetAccountant around what belongs together, or choose parameters by "
            "PrivateSearchCV. (Said once.)",
            RepeatedFitWarning,
            stacklevel=stacklevel + 1,
        )

    def sketch(self, X: Any) -> frozenset[int]:
        """The smallest hashes of rows; empty where too few rows differ."""
        rng = np.random.default_rng([self._key, X.shape[1]])
        # In float32 the order in which a row was added up makes no difference.
        projected = np.asarray(X @ rng.standard_normal(X.shape[1]), dtype=np.float32)
        bits: NDArray[np.uint64] = projected.view(np.uint32).astype(np.uint64)
        hashes = np.unique((bits * np.uint64(0x9E3779B97F4A7C15 ^ (self._key | 1))) >> np.uint64(8))
        return frozenset(hashes[:_HASHES].tolist()) if len(hashes) >= _FEW else frozenset()

    def forget(self) -> None:
        """Begin anew."""
        with self._lock:
            self._fits.clear()
            self._said.clear()


def _overlap(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether most rows behind two sketches are the same."""
    return len(one & other) >= max(1.0, _COMMON * min(len(one), len(other)))


def total(reports: list[PrivacyReport]) -> tuple[float, float]:
    """Epsilon and delta of several results from the same rows."""
    delta = max(report.delta for report in reports)
    ledger = Ledger(Budget(MAX_EPSILON, delta))
    try:
        if not any(report.adaptive for report in reports):
            ledger.spend_alone([event for report in reports for event in report.events])
            found = ledger.guarantee()
            return found.epsilon, found.delta
    except (BudgetExceeded, UnsupportedEvent, ValueError):
        pass
    return sum(report.epsilon for report in reports), sum(report.delta for report in reports)


FITS = FitLog()
"""The fits of this process."""
