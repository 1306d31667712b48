"""Bring columns to a fixed range that is found privately, however wide the declared one is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpfast._documented import documented
from dpfast._typing import Vector
from dpfast._validation import too_few, warn
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.preprocessing._columns import interval
from dpfast.preprocessing._private import PrivateScaler, Task
from dpfast.privacy import Budget, Event, budget_mu, unit_of
from dpfast.privacy.calibration import MARGIN
from dpfast.queries import CountsBeyond
from dpfast.queries.columns import scale_to_range

# Halvings of the declared range: 2^14 places, which lie close together around zero.
_HALVINGS = 14
# Where places begin to lie as far apart as numbers are large, in widths of the declared range.
_LINEAR = 2.0**-17
# The ends leave out this share of the rows, or three deviations of the noise if that is more.
_LEAST_SHARE = 0.01
_DEVIATIONS = 3.0
# With more than a quarter of the rows beyond each end, the noise decides where they are.
_LARGEST_SHARE = 0.25
_WHERE = "ranges of the columns"


@dataclass(frozen=True)
class RangeSearch:
    """A private search for the ranges of columns: halving by noisy counts.

    Parameters
    ----------
    n_samples, n_columns : int
    mechanism : Gaussian or L2Laplace
        Of one step.

    Notes
    -----
    Guarantee. Fourteen releases of :class:`dpfast.queries.CountsBeyond`. Which places are asked for
    next follows from what was released. The number of rows is public.
    """

    n_samples: int
    n_columns: int
    mechanism: Gaussian | L2Laplace

    @classmethod
    def plan(
        cls, n_samples: int, n_columns: int, budget: Budget, neighboring_relation: str
    ) -> RangeSearch:
        """The search that a budget, of all steps together, pays for."""
        query = CountsBeyond(n_columns)
        mechanism: Gaussian | L2Laplace
        if budget.kind == "pure":
            each = Budget(budget.limit / _HALVINGS * (1.0 - MARGIN))
            mechanism = L2Laplace.calibrate(each, query, neighboring_relation, where=_WHERE)
        else:
            each = Budget(mu=budget_mu(budget) / math.sqrt(_HALVINGS) * (1.0 - MARGIN))
            mechanism = Gaussian.calibrate(each, query, neighboring_relation, where=_WHERE)
        return cls(n_samples, n_columns, mechanism)

    @property
    def events(self) -> tuple[Event, ...]:
        """What it spends."""
        return self.mechanism.events(_HALVINGS)

    @property
    def rows_beyond(self) -> float:
        """How many rows are to lie below the lower end, and above the upper one."""
        return max(_LEAST_SHARE * self.n_samples, _DEVIATIONS * self.mechanism.stddev)

    @property
    def rows_needed(self) -> int:
        """Number of rows from which on the data, and not the noise, decide."""
        return math.ceil(_DEVIATIONS * self.mechanism.stddev / _LARGEST_SHARE)

    def run(self, curator: Curator, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        """Lower and upper ends, shape (d,), within ``[low, high]`` and at least one place apart.

        The curator is that of the columns, or of what counts their rows.
        """
        beyond = min(self.rows_beyond, _LARGEST_SHARE * self.n_samples)
        unit = (high - low) * _LINEAR
        # Rows: the lower and the upper end. Columns: as in the data. Places: asinh(x / unit).
        start = np.stack([np.arcsinh(low / unit)] * 2)
        stop = np.stack([np.arcsinh(high / unit)] * 2)
        for _ in range(_HALVINGS):
            middle = 0.5 * start + 0.5 * stop
            noisy = curator.release(self.mechanism, np.sinh(middle) * unit)
            few = noisy.reshape(2, -1) < beyond
            # Few rows below: the lower end can be raised. Few rows above: the upper one lowered.
            up = np.stack([few[0], ~few[1]])
            start, stop = np.where(up, middle, start), np.where(up, stop, middle)
        lower, upper = np.sinh(start[0]) * unit, np.sinh(stop[1]) * unit
        lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)
        # To three deviations, if the values have a normal law.
        deviations = float(ndtri(1.0 - beyond / self.n_samples))
        further = 0.5 * max(0.0, 3.0 / deviations - 1.0) * (upper - lower)
        lower, upper = np.maximum(lower - further, low), np.minimum(upper + further, high)
        flat = upper - lower < 1e-12 * (high - low)
        return np.where(flat, low, lower), np.where(flat, high, upper)


@documented
class PrivateRangeScaler(PrivateScaler):
    """Cut each column to a range that is learned privately, and scale it linearly.

    For columns about which little is known: the declared bounds may be a thousand times too wide,
    or more. The range leaves out about one row in a hundred on either side.

    Parameters
    ----------
    feature_range : (float, float), default=(-1, 1)
        Where the range is mapped to; with the default no row is longer than ``√d``.

    Attributes
    ----------
    range_ : ndarray of shape (2, n_features)
        Lower and upper end of each column.

    Notes
    -----
    Guarantee: as of :class:`~dpfast.preprocessing.private_range_scaler.RangeSearch`, fourteen
    releases of two counts a column. The error is one of rank: some ``3 √(28 d) / µ`` rows for a
    budget of µ-GDP. A warning says when there are too few rows for that; it depends on public
    numbers alone.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast.preprocessing import PrivateRangeScaler
    >>> X = np.random.default_rng(0).normal(40.0, 10.0, size=(20_000, 1))
    >>> scaler = PrivateRangeScaler(bounds=(-100_000, 100_000), random_state=0).fit(X)
    >>> low, high = scaler.range_[:, 0]
    >>> bool(0.0 < low < 20.0), bool(60.0 < high < 80.0)
    (True, True)
    """

    def __init__(
        self,
        bounds: Sequence[Any] | Mapping[str, Sequence[float]] | NDArray[Any],
        feature_range: tuple[float, float] = (-1, 1),
        epsilon: float = 1.0,
        delta: float = 1e-6,
        neighboring_relation: str = "replace_one",
        random_state: Any = None,
    ) -> None:
        super().__init__(bounds, epsilon, delta, neighboring_relation, random_state)
        self.feature_range = feature_range

    def _learn(self, task: Task) -> None:
        interval("feature_range", self.feature_range)
        search = RangeSearch.plan(task.n_records, task.n_columns, task.budget, task.relation)
        if task.n_records < search.rows_needed:
            noun = unit_of(task.relation)
            warn(
                f"{too_few(task.n_records, noun)} for this budget: the noise decides "
                f"where the ranges end. It takes {search.rows_needed:,} {noun}s, more budget, or "
                "fewer columns."
            )
        # An accountant pays for all the steps at once.
        task.curator.check(*[search.mechanism] * _HALVINGS)
        self.range_ = np.stack(search.run(task.curator, task.low, task.high))

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        low, high = self.range_
        return scale_to_range(X, low, high, interval("feature_range", self.feature_range))
