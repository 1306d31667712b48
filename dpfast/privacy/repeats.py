"""Fits to the same rows that nobody adds up: noticed within the process, said, and noted.

Every fit leaves a sketch of its rows: the smallest of their hashes, under a key that is drawn when
the process starts and never leaves it. Two sketches tell what share of the rows is common, as of
the folds of a cross-validation, and nothing else. Nothing is stored.

The first time that rows come back there is a warning, and the report of every fit but the first
has a note: a model that a search chose by fifteen other fits does not say that it is all that was
learned of the rows. Fits in other processes have logs of their own.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy.budget import MAX_EPSILON, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.open_accounts import ACTIVE, active_accountants
from dpfast.privacy.report import PrivacyReport

# Hashes of a sketch; with fewer different rows, what data have in common says nothing.
_HASHES = 128
_FEW = 32
# Share of a sketch in common from which on rows count as the same: folds have half and more.
_COMMON = 0.2
_REMEMBERED = 512
# Rows that are hashed at once.
_CHUNK_ROWS = 2**16


_PUBLIC: ContextVar[bool] = ContextVar("dpfast_public_rows", default=False)


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

    def note(self, X: Any, report: PrivacyReport) -> tuple[PrivacyReport, str | None]:
        """Remember a fit, with what to warn of the first time that its rows were fitted before.

        The caller warns once the model is kept: a warning may be made an error, and what was paid
        for is not lost to it.

        Nothing is done where an account adds up the fits, or where this one was paid for as a part
        of something larger.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        report : PrivacyReport
            What the fit promised.

        Returns
        -------
        report : PrivacyReport
            The same, with a note on the fits before if there were any.
        warning : str or None
            The text of a `RepeatedFitWarning`; None if there is nothing new to say.
        """
        if _PUBLIC.get() or ACTIVE.get() == () or active_accountants():
            return report, None
        if not (sketch := self.sketch(X)):
            return report, None
        with self._lock:
            same = [fit.report for fit in self._fits if _overlap(fit.sketch, sketch)]
            self._fits.append(_Fit(sketch, report))
            if not same:
                return report, None
            news = not any(_overlap(said, sketch) for said in self._said)
            if news:
                self._said.append(sketch)
        fits, (epsilon, delta) = len(same) + 1, total([*same, report])
        # What holds for all rows of a group holds for each of them.
        mixed = len({each.unit for each in [*same, report]}) > 1
        whom = " for one row (some were for groups of rows)" if mixed else ""
        text = (
            f"These rows, or most of them, were fitted before in this process: {fits} fits "
            f"together have epsilon = {epsilon:.3g}, delta = {delta:.3g}{whom} so far, and a "
            "report states that of one fit alone. Cross-validation, searches and calibration "
            "make many fits. Put a BudgetAccountant around what belongs together, or choose "
            "parameters by PrivateSearchCV. (Said once; every further report notes the sum.)"
        )
        said = (
            "what other fits to these rows, or most of them, showed in the same process: with this "
            f"one there were {fits} so far, which together have epsilon = {epsilon:.3g}, delta = "
            f"{delta:.3g}{whom}"
        )
        return replace(report, notes=(*report.notes, said)), text if news else None

    def sketch(self, X: Any) -> frozenset[int]:
        """The smallest hashes of rows; empty where too few rows differ."""
        rng = np.random.default_rng([self._key, X.shape[1]])
        direction = rng.standard_normal(X.shape[1])
        smallest = np.empty(0, dtype=np.uint64)
        for start in range(0, X.shape[0], _CHUNK_ROWS):
            found = self._hashes(X[start : start + _CHUNK_ROWS], direction)
            if len(smallest) == _HASHES:
                found = found[found < smallest[-1]]  # few, so that there is little to sort
            smallest = np.unique(np.concatenate([smallest, found]))[:_HASHES]
        return frozenset(smallest.tolist()) if len(smallest) >= _FEW else frozenset()

    def _hashes(self, X: Any, direction: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Hashes of some rows."""
        # In float32 the order in which a row was added up makes no difference.
        # Rows may be of any size, and no warning may tell of them.
        with np.errstate(over="ignore", invalid="ignore"):
            projected = np.asarray(X @ direction, dtype=np.float32)
        bits: NDArray[np.uint64] = projected.view(np.uint32).astype(np.uint64)
        return (bits * np.uint64(0x9E3779B97F4A7C15 ^ (self._key | 1))) >> np.uint64(8)

    @contextmanager
    def public_rows(self) -> Iterator[None]:
        """A block in which all rows are public, so that fits need not be added up."""
        before = _PUBLIC.set(True)
        try:
            yield
        finally:
            _PUBLIC.reset(before)

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
