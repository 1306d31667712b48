"""Bring columns to a fixed range by private quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._documented import documented
from dpfast._validation import check_integer, check_real
from dpfast.mechanisms import Exponential
from dpfast.preprocessing._columns import interval, is_pair
from dpfast.preprocessing._private import PrivateScaler, Task
from dpfast.privacy import (
    Budget,
    ExponentialEvent,
    budget_epsilon,
    budget_rho,
    smallest_noise,
)
from dpfast.privacy.calibration import MARGIN
from dpfast.queries import RankScores
from dpfast.queries.columns import scale_to_range


@documented
class PrivateQuantileScaler(PrivateScaler):
    """Cut each column to two quantiles that are learned privately, and scale it linearly.

    A :class:`BoundedScaler` whose bounds need to be known only roughly: the error of a quantile is
    one of rank, which grows with the logarithm of `resolution` and not with the width of the
    declared bounds.

    Parameters
    ----------
    quantiles : (float, float), default=(0.05, 0.95)
        Which two quantiles, ``0 <= low < high <= 1``. They should leave out far more rows than the
        noise moves the rank; otherwise the fit finds the declared bounds.
    feature_range : (float, float), default=(-1, 1)
        Where the quantiles are mapped to; with the default no row is longer than ``√d``.
    resolution : int, default=4096
        The bounds of each column are divided into this many equal steps, and a quantile is the end
        of one of them.

    Attributes
    ----------
    quantiles_ : ndarray of shape (2, n_features)
        Private lower and upper quantile of each column, one step apart at least.

    Notes
    -----
    Guarantee. Each of the 2d quantiles is one choice by the exponential mechanism among the
    ``resolution + 1`` ends of steps, end c with the score ``-|#{i : x_i < c} - round(q n)|`` (Smith
    2011, Algorithm 2, on a grid). The counts are integers: nothing is rounded, and the number of
    rows is public. One record, replaced or absent, changes each count by at most 1 and so each
    score, up for some ends and down for others: ``score_range = 2`` for both relations. The 2d
    choices share the budget equally; where there is a δ, they are priced by their Rényi divergence.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast.preprocessing import PrivateQuantileScaler
    >>> X = np.random.default_rng(0).normal(40.0, 10.0, size=(20_000, 1))
    >>> scaler = PrivateQuantileScaler(bounds=(-1000, 1000), random_state=0).fit(X)
    >>> bool(np.all(abs(scaler.quantiles_[:, 0] - [23.6, 56.4]) < 2.0))
    True
    """

    def __init__(
        self,
        bounds: Sequence[Any] | Mapping[str, Sequence[float]] | NDArray[Any],
        quantiles: tuple[float, float] = (0.05, 0.95),
        feature_range: tuple[float, float] = (-1, 1),
        resolution: int = 4096,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        neighboring_relation: str = "replace_one",
        random_state: Any = None,
    ) -> None:
        super().__init__(bounds, epsilon, delta, neighboring_relation, random_state)
        self.quantiles = quantiles
        self.feature_range = feature_range
        self.resolution = resolution

    def _learn(self, task: Task) -> None:
        n, d, low, high, budget, curator, relation = task
        targets = [round(q * n) for q in _pair_of_quantiles(self.quantiles)]
        interval("feature_range", self.feature_range)
        steps = check_integer("resolution", self.resolution, low=1, high=2**20)
        mechanism = Exponential.of_query(
            _epsilon_each(budget, 2 * d, relation),
            RankScores(steps + 1),
            relation,
            where="quantiles",
        )
        # An accountant pays for all the choices at once.
        curator.check(*[mechanism] * (2 * d))
        found = np.empty((2, d))
        for j in range(d):
            ends = np.linspace(low[j], high[j], steps + 1)
            first, second = sorted(curator.release(mechanism, j, ends, t) for t in targets)
            if ends[first] == ends[second]:
                first, second = max(first - 1, 0), min(second + 1, steps)
            if ends[first] == ends[second]:  # bounds so narrow that float64 has no steps
                first, second = 0, steps
            found[:, j] = ends[first], ends[second]
        self.quantiles_ = found

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        low, high = self.quantiles_
        return scale_to_range(X, low, high, interval("feature_range", self.feature_range))


@lru_cache(maxsize=64)
def _epsilon_each(budget: Budget, parts: int, neighboring_relation: str) -> float:
    """The largest epsilon of that many choices by the exponential mechanism within a budget.

    Kept, for the search takes half a second.
    """
    if budget.kind == "pure":
        return budget_epsilon(budget) / parts * (1.0 - MARGIN)

    def events(noise: float) -> list[ExponentialEvent]:
        return [
            ExponentialEvent(
                epsilon=1.0 / noise,
                neighboring_relation=neighboring_relation,
                where="quantiles",
                count=parts,
            )
        ]

    # One choice is (epsilon² / 8)-zCDP.
    guess = math.sqrt(8.0 * budget_rho(budget) / parts)
    return 1.0 / smallest_noise(events, budget, start=1.0 / guess) * (1.0 - MARGIN)


def _pair_of_quantiles(value: Any) -> tuple[float, float]:
    if not is_pair(value):
        raise ValueError(f"quantiles must be a pair of numbers (low, high); got {value!r}.")
    low, high = (check_real("quantiles", end, low=0.0, high=1.0) for end in value)
    if not low < high:
        raise ValueError(f"quantiles must have low < high; got {value!r}.")
    return low, high
