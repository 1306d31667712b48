"""Differentially private quantile regression."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._documented import documented
from dpfast._validation import check_real, warn
from dpfast.errors import QuestionableSettingWarning
from dpfast.estimators._regressor import PrivateLinearRegressor
from dpfast.losses import Loss
from dpfast.privacy import Budget

# A quantile's loss that is rounded off over so many units of the target is questioned.
_BLURRED = 1000.0
# Who learns the range of the targets without a delta, and who does with one.
_LEARNING = ("objective-perturbation", "dp-whitened-gd")


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class QuantileRegressor(PrivateLinearRegressor):
    """Quantile regression with an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ p(t_i - <x̃_i, w>) + (α/2)‖w‖²`` privately, where ``x̃_i`` is row i scaled
    into the ball of radius `data_norm`, followed by the constant `intercept_scaling`, ``t_i`` the
    target scaled to [-1, 1], and ``p(r) = max(q r, (q - 1) r)`` the pinball loss of the quantile
    q, rounded off by a parabola where ``|r| <= width``. Predictions are in units of the target.

    Parameters
    ----------
    quantile : float, default=0.5
        The quantile to predict, in (0, 1).
    width : float or None, default=None
        Half the width of the rounded-off part of the loss, > 0. The unit is half the width of
        `target_bounds` (without an intercept, the larger absolute bound), or of the range of most
        targets if the solver learns it, as those of "auto" do for single rows. The curvature is
        ``1 / (2 width)``, so a small width costs accuracy. None is 0.1; "dp-whitened-gd" narrows it
        step by step, to 0.01 at least, the more rows per weight there are and the larger epsilon
        is. The plan says how far.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import QuantileRegressor
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, np.newaxis]
    >>> y = 20.0 + 5.0 * X[:, 0]
    >>> model = QuantileRegressor(data_norm=1.0, target_bounds=(10.0, 30.0), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - 22.5) < 1.0), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    quantile: float = 0.5
    width: float | None = None

    def _question_bounds(self) -> None:
        # These solvers learn the range of the targets, and round off in units of that.
        learns = _LEARNING[Budget(self.epsilon, self.delta).delta > 0.0]
        if self.target_bounds is None or self.solver in ("auto", learns):
            return
        unit = self._resolve_targets(None)[0][-1].unit
        if (blur := (self._loss().width or 0.0) * unit) < _BLURRED:
            return
        low, high = self.target_bounds
        warn(
            f"target_bounds = ({low:g}, {high:g}) are wide: quantiles are blurred over {blur:.3g} "
            "units of the target either way, and noise is in proportion, too. If most targets "
            "differ by less, the model is useless: declare narrower bounds or a smaller width, or "
            'have the range learned (TableModel, "learn": true, or solver="auto").',
            QuestionableSettingWarning,
        )

    def _loss(self) -> Loss:
        quantile = check_real(
            "quantile", self.quantile, low=0.0, high=1.0, low_open=True, high_open=True
        )
        width = self.width
        if width is not None:
            width = check_real("width", width, low=1e-6, high=1e6)
        return Loss("pinball", quantile, width)
