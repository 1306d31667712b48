"""Center and scale columns by a private mean and variance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._documented import documented
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.preprocessing._private import PrivateScaler, Task
from dpfast.queries import ColumnSums

_WHERE = "column means and variances"


@documented
class PrivateStandardScaler(PrivateScaler):
    r"""Center and scale each column by a mean and a variance that are learned privately.

    Use it where :class:`sklearn.preprocessing.StandardScaler` would read them off the data, if the
    declared bounds are at most about ten times wider than the range of most values; if they are
    wider, :class:`PrivateQuantileScaler` loses less.

    Parameters
    ----------
    bounds : (low, high), sequence of (low, high), or dict of str to (low, high)
        Public bounds, as for :class:`BoundedScaler`: values outside are cut to them. The noise is
        proportional to their width.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Private means.
    var_ : ndarray of shape (n_features,)
        Private variances, none smaller than the noise can distinguish from zero.
    scale_ : ndarray of shape (n_features,)
        Their square roots.

    Notes
    -----
    Guarantee. One release of the sums of values and squares (:class:`dpfast.queries.ColumnSums`
    states their sensitivity); Gaussian noise, or l2-Laplace noise for ``delta=0``. The number of
    rows is public.

    The rounding that depends on the order of additions is bounded and charged. Values are cut to
    the bounds in ``transform``, too, so the norm of its rows is bounded by public quantities; it is
    mostly near ``√d``.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast.preprocessing import PrivateStandardScaler
    >>> X = np.random.default_rng(0).normal([40.0, 3.0], [10.0, 0.5], size=(20_000, 2))
    >>> scaler = PrivateStandardScaler(bounds=[(0, 100), (0, 10)], random_state=0).fit(X)
    >>> bool(abs(scaler.mean_[0] - 40.0) < 1.0), bool(abs(scaler.scale_[0] - 10.0) < 1.0)
    (True, True)
    >>> scaler.privacy_.epsilon <= 1.0
    True
    """

    def _learn(self, task: Task) -> None:
        n, d, low, high, budget, curator, relation = task
        query = ColumnSums(n, low, high, relation)
        kind = Gaussian if budget.delta > 0.0 else L2Laplace
        mechanism = kind.calibrate(budget, query, relation, where=_WHERE)
        noisy, weight = curator.release(mechanism), query.weight
        mean = np.clip(noisy[:d] / n, -1.0, 1.0)
        square = noisy[d:] / (weight * n) + 1.0
        # No variance in [-1, 1] is above 1, and none below the noise can be told from zero.
        least = min(1.0, mechanism.stddev / (weight * n))
        variance = np.clip(square - mean**2, least, 1.0)
        half = 0.5 * high - 0.5 * low
        self.mean_ = 0.5 * low + 0.5 * high + half * mean
        self.scale_ = half * np.sqrt(variance)
        self.var_ = self.scale_**2

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        low, high = self._bounds()
        result = np.clip(X.astype(np.float64), low, high)
        result -= self.mean_
        result /= self.scale_
        scaled: NDArray[Any] = result.astype(X.dtype, copy=False)
        return scaled
