"""One fit of a table: planned from public numbers, then run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import counted, too_few, warn
from dpfast.blocks import Source
from dpfast.chunks import thread_count
from dpfast.curator import Curator
from dpfast.errors import BudgetExceeded, RepeatedFitWarning, UnsupportedEvent
from dpfast.estimators._inference import NO_WEIGHTS
from dpfast.preprocessing.matching import NUMBER
from dpfast.preprocessing.private_range_scaler import RangeSearch
from dpfast.privacy import (
    Budget,
    Event,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    Ledger,
    PrivacyReport,
    budget_mu,
    gaussian_epsilon,
    relation_of,
)
from dpfast.privacy.calibration import MARGIN
from dpfast.privacy.ledger import kinds, totals
from dpfast.privacy.repeats import FITS
from dpfast.queries.columns import SHARES, shares_of
from dpfast.random import SecureGenerator
from dpfast.shape import BlockSizes, ProblemShape
from dpfast.solvers import Plan
from dpfast.tabular.columns import CategoryColumn, NumberColumn
from dpfast.tabular.families import exposure_exponent, largest_weight
from dpfast.tabular.rows import TableRows
from dpfast.tabular.schema import TableSchema
from dpfast.tabular.targets import RangeTarget

NOUNS = {"row": "row", "group": "person"}
"""What the records of a table are called, by their unit."""
# Entries of a block of encoded rows, of which two are in memory.
_BLOCK_ENTRIES = 2**21
_LEAST_BLOCK = 256
# Rows that are counted at once.
_COUNTED_ROWS = 2**16


@dataclass(frozen=True)
class FitPlan:
    """What a fit of a table does and costs; made from public numbers alone.

    Attributes
    ----------
    schema : TableSchema
    shape : ProblemShape
    in_memory : bool
        Whether the encoded rows are held in memory, or read in blocks.
    budget : Budget
        Of everything together.
    solver : Plan[Any]
        What the estimator will do.
    events : tuple of Event
        All accesses to the data, those that learn ranges first, or what bounds them: it is what
        accounts are charged for.
    estimator : estimator
        Not fitted; its budget is what learning leaves.
    learning : Budget or None
        The share for ranges that are learned.
    search : RangeSearch or None
    """

    schema: TableSchema
    shape: ProblemShape
    in_memory: bool
    budget: Budget
    solver: Plan[Any]
    events: tuple[Event, ...]
    estimator: Any
    learning: Budget | None = None
    search: RangeSearch | None = None

    def __str__(self) -> str:
        return f"{self.table}\n{self.solver}"

    @property
    def table(self) -> str:
        """How the table is read, in lines."""
        where = "held in memory" if self.in_memory else "read in blocks"
        where += ", categories as codes" * self.schema.in_codes
        learned = ", ".join(self.schema.learns)
        codes = [
            f"{column.name!r} ({len(column.categories)})"
            for column in self.schema.features
            if isinstance(column, CategoryColumn)
            and all(NUMBER.fullmatch(text) for text in column.categories)
        ]
        return "\n".join(
            [
                f"{counted(self.shape.n_samples, self.noun)}, "
                f"{counted(len(self.schema.features), 'column')}, encoded as "
                f"{self.shape.n_features:,} ({where}); norm of a row at most "
                f"{self.shape.data_norm:.6g}",
                *([f"numbers that are categories: {', '.join(codes)}"] if codes else []),
                *([f"ranges learned of {learned}: {self.learning}"] if learned else []),
            ]
        )

    @property
    def noun(self) -> str:
        """What is counted and protected."""
        return NOUNS[self.shape.unit]

    def check_affordable(self) -> None:
        """Refuse what an accountant around it cannot afford: all of it, not the last part."""
        Ledger(self.budget, self.estimator.accountant).check(*self.events)


def plan_fit(estimator: Any, schema: TableSchema, n_samples: int, in_memory: bool) -> FitPlan:
    """Plan a fit to so many rows, or persons.

    The estimator, with the whole budget, is changed.
    """
    budget = Budget(estimator.epsilon, estimator.delta)
    # What the estimator cannot take is refused before a range is paid for.
    thread_count(estimator.n_jobs)
    if schema.weight is not None and getattr(estimator, "inference", False):
        raise ValueError(f"the weight {schema.weight.name!r} must be left out {NO_WEIGHTS}")
    shape = _shape(estimator, schema, n_samples, in_memory)
    if not schema.learns:
        plan, events = estimator._planned(shape, budget)
        return FitPlan(schema, shape, in_memory, budget, plan, events, estimator)
    relation = relation_of(estimator.neighboring_relation, shape.unit)
    refused: Exception | None = None
    for learning, epsilon, delta in _shares(budget, schema.learn_share):
        estimator.set_params(epsilon=epsilon, delta=delta)
        search = RangeSearch.plan(n_samples, len(schema.learns), learning, relation)
        plan, events = estimator._planned(shape, Budget(epsilon, delta))
        _check_learning(schema, search, plan)
        bounding = _bounding(events, schema, plan, Budget(epsilon, delta), estimator.accountant)
        events = (*search.events, *bounding)
        try:
            Ledger(budget, estimator.accountant).check(*events, alone=True)
        except (BudgetExceeded, UnsupportedEvent) as error:
            refused = error
            continue
        return FitPlan(schema, shape, in_memory, budget, plan, events, estimator, learning, search)
    assert refused is not None
    raise refused


def _check_learning(schema: TableSchema, search: RangeSearch, plan: Plan[Any]) -> None:
    """Refuse what ranges cannot be learned with."""
    if plan.adaptive:
        raise ValueError(
            "solver must fix its accesses to the data beforehand where ranges are learned; got "
            f"{plan.solver!r}. solver='auto' does."
        )
    if search.n_samples < search.rows_needed:
        raise ValueError(
            f"{too_few(search.n_samples, NOUNS[schema.unit])} to learn the ranges of "
            f"{counted(search.n_columns, 'column')} from a share of {schema.learn_share:g} of this "
            f"budget: it takes {search.rows_needed:,}. Declare narrower ranges instead for some of "
            'them, or a larger "learn_share", or a larger epsilon.'
        )


def _shares(budget: Budget, share: float) -> Iterator[tuple[Budget, float, float]]:
    """Budgets for learning and for the model: by squares where both add Gaussian noise."""
    epsilon, delta = budget.limit, budget.delta
    if delta > 0.0:
        mu = budget_mu(budget) * (1.0 - MARGIN)
        rest = gaussian_epsilon(mu * (1.0 - share) ** 0.5, delta)
        yield Budget(mu=mu * share**0.5), rest, delta
    kept = (1.0 - share) * (1.0 - MARGIN)
    yield Budget(epsilon * share, delta * share), epsilon * kept, delta * kept


def _bounding(
    events: tuple[Event, ...],
    schema: TableSchema,
    plan: Plan[Any],
    budget: Budget,
    accountant: str,
) -> tuple[Event, ...]:
    """A model's accesses, or one that is worth all that its budget admits.

    A loss with a log link follows from the range of the targets. Where that is learned, accesses
    are not known beforehand; in one unit of privacy, what they are worth at most is.
    """
    target = schema.target
    if not (isinstance(target, RangeTarget) and target.learn and plan.shape.loss.log_link):
        return events
    place: dict[str, Any] = {
        "neighboring_relation": plan.neighboring_relation,
        "where": "fit, whatever range is learned",
    }
    if all(isinstance(event, GaussianEvent | GDPEvent) for event in events):
        return (GDPEvent(mu=budget_mu(budget, accountant), **place),)
    if budget.delta == 0.0:  # accountants take l2-Laplace noise for the worst of its epsilon
        return (L2LaplaceEvent(sensitivity=budget.limit, scale=1.0, dimension=1, **place),)
    raise ValueError(
        "solver and accountant must be 'auto' where the range of the target is learned for a loss "
        f"with a log link; got {plan.solver!r}, whose price follows from the range. Or declare the "
        'range, without "learn".'
    )


def _worth_no_more(made: tuple[Event, ...], paid: tuple[Event, ...]) -> bool:
    """Whether whoever paid for some accesses, or for what bounds them, has paid for others."""
    if kinds(made) == kinds(paid):
        return True
    unit = "epsilon" if isinstance(paid[0], L2LaplaceEvent) else "mu"
    found, limit = totals(made), totals(paid)
    return len(paid) == 1 and unit in found and found[unit] <= limit.get(unit, 0.0)


def _shape(estimator: Any, schema: TableSchema, n_samples: int, in_memory: bool) -> ProblemShape:
    """The public quantities of the encoded rows."""
    columns, weight = len(schema.feature_names), largest_weight(estimator, schema)
    blocks = None
    if not in_memory and schema.person is not None:
        blocks = BlockSizes.of_groups(n_samples, block_rows(columns))
    elif not in_memory:
        whole, rest = divmod(n_samples, block_rows(columns))
        sizes = [block_rows(columns)] * bool(whole) + [rest] * bool(rest)
        blocks = BlockSizes(whole + bool(rest), tuple(sorted(sizes)))
    return ProblemShape(
        n_samples,
        columns,
        schema.row_norm_bound,
        estimator._loss(),
        estimator._constant(),
        None,
        1.0 if weight is None else weight,
        blocks,
        schema.unit,
        None if schema.person is None else estimator.max_rows_per_group,
        columns=schema.column_blocks,
        weighted=weight is not None,
    )


def block_rows(columns: int) -> int:
    """Rows of a block."""
    return max(_LEAST_BLOCK, _BLOCK_ENTRIES // columns)


class TableFit:
    """A fit that was planned and checked; it spends nothing before it is run.

    Parameters
    ----------
    plan : FitPlan
    rows : TableRows
    unused : tuple of str
    keep : callable
        Gets the schema, the fitted estimator and the report.
    random_state : None, int or NumPy generator

    Attributes
    ----------
    plan : FitPlan
    unused : tuple of str
        Columns of the table that are not read.
    """

    def __init__(
        self,
        plan: FitPlan,
        rows: TableRows,
        unused: tuple[str, ...],
        keep: Callable[[TableSchema, Any, PrivacyReport], Any],
        random_state: Any,
    ) -> None:
        self.plan, self.unused = plan, unused
        self._keep, self._random_state = keep, random_state
        if plan.schema.exposure is not None:
            rows = rows.with_exponent(exposure_exponent(plan.estimator))
        self._rows = rows

    @property
    def n_samples(self) -> int:
        """Number of rows, or of persons."""
        return self._rows.n_records

    def run(self) -> Any:
        """Spend the budget and fit the model.

        Returns
        -------
        TableModel
            The one that was prepared.
        """
        shape = self.plan.shape
        with np.errstate(all="ignore"):  # as in the fit of an estimator
            schema, report = self._run()
            report, repeated = FITS.note(shape.n_samples, shape.n_features, report)
            model = self._keep(schema, self.plan.estimator, report)
        # Last, since a warning may be made an error: what was paid for is kept by now.
        if repeated is not None:
            warn(repeated, RepeatedFitWarning)
        return model

    def _run(self) -> tuple[TableSchema, PrivacyReport]:
        """Fit the estimator; the schema with the ranges that were learned, and the report."""
        plan, rows, estimator = self.plan, self._rows, self.plan.estimator
        schema, spent = plan.schema, None
        accounts: tuple[()] | None = None
        if plan.search is not None:
            rng = SecureGenerator(self._random_state)
            # Two parts of one plan: whoever stands behind it pays for both at once.
            whole = Ledger(plan.budget, estimator.accountant)
            whole.spend_all(plan.events)
            accounts = ()
            spent, ranges = self._learn(plan.search, rng)
            schema = schema.with_learned(ranges)
            rows = rows.with_schema(schema)
            if isinstance(schema.target, RangeTarget):
                estimator.set_params(target_bounds=schema.target.ends)
        self._rows = rows
        if plan.in_memory:
            X, y, arguments = rows.whole()
            estimator._fit(X, y, arguments, accounts, alone=False)
        else:
            if rows.grouped:
                rows = rows.by_person()
            source = Source(rows, block_rows(rows.n_features))
            estimator._fit(source, None, {}, accounts, alone=False)
        _name_estimates(estimator, schema)
        if spent is None:
            return schema, estimator.privacy_
        return schema, self._both(spent, estimator.privacy_)

    def targets(self) -> NDArray[Any]:
        """The targets of all rows: positions of classes, or numbers, over the exposure if any."""
        return self._rows.field("target")

    def mean_target(self) -> float:
        """The number that a constant predicts, a rate if there are exposures; not private."""
        weight = None if self.plan.schema.exposure is None else self._rows.weights()
        return float(np.average(self.targets(), weights=weight))

    def dense(self) -> tuple[Vector, NDArray[Any], dict[str, Any]]:
        """Encoded rows, targets and arguments of `fit`, for a comparison that is not private."""
        return self._rows.dense()

    def _learn(
        self, search: RangeSearch, rng: SecureGenerator
    ) -> tuple[Ledger, dict[str, tuple[float, float]]]:
        """The ledger that paid for the ranges of columns, and the ranges."""
        fields, low, high = _learned_fields(self.plan.schema)
        rows = self._rows
        sizes = rows.sizes()

        def count(places: Vector) -> NDArray[Any]:
            total = np.zeros(places.shape, dtype=np.int64)
            for start, stop in rows.ranges(_COUNTED_ROWS):
                records = rows.records(start, stop)
                share = None if sizes is None else shares_of(sizes[records["person"]])
                for j, field in enumerate(fields.values()):
                    values = np.clip(records[field], low[j], high[j])
                    total[0, j] += _counted(values < places[0, j], share)
                    total[1, j] += _counted(values > places[1, j], share)
            return total if sizes is None else total / SHARES

        assert self.plan.learning is not None
        ledger = Ledger(self.plan.learning, accounts=())
        ends = search.run(Curator(count, ledger, rng), low, high)
        pairs = zip(*(end.tolist() for end in ends), strict=True)
        return ledger, dict(zip(fields, pairs, strict=True))

    def _both(self, spent: Ledger, report: PrivacyReport) -> PrivacyReport:
        """One report of what was learned and of the model."""
        assert self.plan.search is not None
        paid = self.plan.events[len(self.plan.search.events) :]
        if not _worth_no_more(report.events, paid):
            raise RuntimeError(
                "the fit made other accesses than were planned and paid for; nothing is released. "
                "Please report this."
            )
        # Accesses that follow from what was learned add up to no guarantee; what bounds them does.
        events = report.events if kinds(report.events) == kinds(paid) else paid
        whole = Ledger(self.plan.budget, self.plan.estimator.accountant)
        # Both were charged to the accounts before the first.
        whole.spend_alone([*spent.events, *events])
        return PrivacyReport.from_ledger(
            whole, reproducible=report.reproducible, notes=report.notes, prior=report.prior
        )


def _name_estimates(estimator: Any, schema: TableSchema) -> None:
    """Give standard errors, if there are any, the names of the encoded columns, and references."""
    found = vars(estimator).get("_estimates")
    if found is not None:
        names = (*schema.feature_names, *found.names[len(schema.feature_names) :])
        estimator._estimates = replace(found, names=names)
        references = [
            f"{column.name}: {column.reference}"
            for column in schema.features
            if isinstance(column, CategoryColumn) and column.reference is not None
        ]
        if references:
            estimator._facts = (*estimator._facts, ("References", "; ".join(references)))


def _counted(chosen: NDArray[np.bool_], share: NDArray[np.int64] | None) -> int:
    """How many rows are chosen, or the sum of their shares."""
    return int(np.count_nonzero(chosen) if share is None else share[chosen].sum())


def _learned_fields(schema: TableSchema) -> tuple[dict[str, str], Vector, Vector]:
    """Columns to be learned with their fields of a record, and their declared ranges."""
    fields, ends = {}, []
    for j, column in enumerate(schema.features):
        if isinstance(column, NumberColumn) and column.learn:
            fields[column.name] = f"x{j}"
            ends.append(column.transformed_range())
    target = schema.target
    if isinstance(target, RangeTarget) and target.learn:
        fields[target.name] = "target"
        ends.append((target.low, target.high))
    low, high = np.array(ends).T
    return fields, low, high
