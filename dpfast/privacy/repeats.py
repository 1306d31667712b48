"""Fits that nobody adds up, to rows of the same public shape: said within the process, and noted.

Whether two fits had people in common is not looked up: a note that depends on the rows would tell
of them. Fits count together if what is public of their rows agrees: the number of columns, what is
protected (rows or groups), and their number within a factor of two, as of the folds of a
cross-validation. What is said therefore begins with "if". Nothing is stored; fits in other
processes have logs of their own.

The first time there is a warning, and the report of every fit but the first has a note: a model
that a search chose by fifteen other fits does not say that it is all that was learned of the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from dpfast._files import new_lock
from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy.budget import MAX_EPSILON, Budget
from dpfast.privacy.events import Event, counted
from dpfast.privacy.ledger import Ledger, kinds
from dpfast.privacy.open_accounts import active_accountants
from dpfast.privacy.report import PrivacyReport

#: Kinds of fits: those that are alike are counted.
_REMEMBERED = 512
_PUBLIC: ContextVar[bool] = ContextVar("dpfast_public_rows", default=False)


@dataclass(frozen=True)
class _Fit:
    n_records: int
    n_features: int
    report: PrivacyReport
    said: bool = False
    times: int = 1

    @property
    def kind(self) -> tuple[object, ...]:
        """What is the same of fits that are alike."""
        of = self.report
        promise = of.unit, of.epsilon, of.delta, of.adaptive, of.events
        return self.n_records, self.n_features, *promise

    def resembles(self, other: _Fit) -> bool:
        """Whether both may have been to the same rows, by what is public of them."""
        fewer, more = sorted([self.n_records, other.n_records])
        same_unit = self.report.unit == other.report.unit
        return self.n_features == other.n_features and same_unit and more <= 2 * fewer


class FitLog:
    """The fits of a process that no accountant adds up."""

    def __init__(self) -> None:
        self._fits: dict[tuple[object, ...], _Fit] = {}
        self._lock = new_lock(self)

    def note(
        self, n_records: int, n_features: int, report: PrivacyReport
    ) -> tuple[PrivacyReport, str | None]:
        """Remember a fit, with what to warn of the first time that another resembles it.

        The caller warns once the model is kept: a warning may be made an error, and what was paid
        for is not lost to it.

        Nothing is done where an account adds up the fits, or all rows are public.

        Returns the report, with a note on the fits before if there were any, and the text of a
        `RepeatedFitWarning`, or None if there is nothing new to say.
        """
        if _PUBLIC.get() or _added_up():
            return report, None
        fit = _Fit(n_records, n_features, report)
        with self._lock:
            same = [each for each in self._fits.values() if each.resembles(fit)]
            alike = self._fits.pop(fit.kind, None)
            times = 1 if alike is None else alike.times + 1
            self._fits[fit.kind] = replace(fit, said=bool(same), times=times)
            if len(self._fits) > _REMEMBERED:
                del self._fits[next(iter(self._fits))]
        if not same:
            return report, None
        epsilon, delta = total([(fit.report, 1), *((each.report, each.times) for each in same)])
        columns = f"{n_features:,} column" + "s" * (n_features != 1)
        count = 1 + sum(each.times for each in same)
        fits = f"{count:,} fits in this process were to about as many rows of {columns}"
        together = f"together they have epsilon = {epsilon:.3g}, delta = {delta:.3g}"
        warning = (
            f"{fits}. If these were the same people, or most of them, {together} so far, and a "
            "report states that of one fit alone. Cross-validation, searches and calibration make "
            "many fits. Put a BudgetAccountant around what belongs together, or choose parameters "
            "by PrivateSearchCV. (Said once; every further report notes the sum.)"
        )
        note = (
            f"what other fits to the same people showed, if there were any: {fits} so far; if "
            f"these were the same people, {together}"
        )
        said = any(each.said for each in same)
        return replace(report, notes=(*report.notes, note)), None if said else warning

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


def _added_up() -> bool:
    """Whether an account adds up what is fitted here."""
    try:
        return bool(active_accountants())
    except RuntimeError:  # of a block that began during the fit, which is paid for and kept
        return False


def total(results: list[tuple[PrivacyReport, int]]) -> tuple[float, float]:
    """Epsilon and delta of several results from the same records, each so often."""
    delta = max(report.delta for report, _ in results)
    ledger = Ledger(Budget(MAX_EPSILON, delta))
    try:
        if not any(report.adaptive for report, _ in results):
            tally: Counter[Event] = Counter()
            for report, k in results:
                for kind, count in kinds(report.events).items():
                    tally[kind] += k * count
            ledger.spend_alone([counted(kind, count) for kind, count in tally.items()])
            found = ledger.guarantee()
            return found.epsilon, found.delta
    except (BudgetExceeded, UnsupportedEvent, ValueError):
        pass
    epsilon = sum(k * report.epsilon for report, k in results)
    return epsilon, sum(k * report.delta for report, k in results)


FITS = FitLog()
"""The fits of this process."""
