"""What the regressors of counts, costs and durations share: means that are exponentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpfast._arrays import vector_in
from dpfast._typing import Vector
from dpfast._validation import check_real, warn
from dpfast.blocks import Executor, is_dask
from dpfast.errors import QuestionableSettingWarning
from dpfast.estimators._inference import Inferential
from dpfast.estimators._regressor import PrivateLinearRegressor
from dpfast.estimators._targets import COUNT_WIDTH, LogMean, Targets
from dpfast.losses import Loss
from dpfast.sums import as_vector

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLogLinkRegressor(Inferential, PrivateLinearRegressor):
    """Means are ``exp(<x, coef_> + intercept_)``; the score is the deviance explained.

    Parameters
    ----------
    alpha : float, "auto" or None, default="auto"
        Ridge of the mean loss, the targets being divided as said above. "auto" or None lets the
        solver choose it from public quantities.
    target_bounds : tuple of two floats or None, default=None
        Public lowest and highest target, >= 0; targets beyond are clipped, and predictions stay in
        between. None takes them from `y` with a :class:`~dpfast.errors.PrivacyLeakWarning`.
    prior : None, default=None
        Losses with a log link take none.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private weights: how the logarithm of the mean changes.
    intercept_ : float
        Private intercept, in logarithms like `coef_`; 0.0 without `fit_intercept`.
    """

    _ratio = "rate ratio"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _family(self) -> Loss:
        """The loss, of any width; parameters checked."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        """The loss for declared bounds."""
        return self._declared().loss

    def _count_width(self) -> float:
        """How far below the highest target, in logarithms, margins are 0 if targets can be."""
        return COUNT_WIDTH

    def _declared(self) -> LogMean:
        (targets,), _ = self._resolve_targets(None)
        assert isinstance(targets, LogMean)
        return targets

    def _question_bounds(self) -> None:
        learned = self.fit_intercept and self.max_rows_per_group in (None, 1)
        learned &= self.solver in ("auto", "objective-perturbation")
        if self.delta == 0.0 and not learned:
            warn(
                "delta = 0 for counts and costs: their mean is learned with solver='auto', an "
                "intercept and single rows alone. Otherwise noise is in proportion to the highest "
                "target that is declared, and with wide target_bounds models are far worse than a "
                "constant. Take delta=1e-6, or narrow bounds.",
                QuestionableSettingWarning,
            )

    def _targets_in(self, low: float, high: float) -> Targets:
        family = self._family()
        positive = family.target_range[0] > 0.0
        if low < 0.0 or (positive and low == 0.0):
            given = self.target_bounds is not None
            raise ValueError(
                f"{'target_bounds[0]' if given else 'y'} must be {'> 0' if positive else '>= 0'} "
                f"for the loss {family.name!r}; got {f'{low:g}' if given else 'other targets'}. "
                "Declare target_bounds: the targets' lowest possible value, and their highest."
                + " If zeros are among them, take TweedieRegressor."
                * positive
            )
        if high == 0.0:
            raise ValueError(
                f"target_bounds must be given for targets that are all 0, for the loss "
                f"{family.name!r}; got None. The highest one is not known from them."
            )
        width = self._count_width()
        return LogMean.of(family, low, high, centered=self.fit_intercept, count_width=width)

    def _link(self, margins: Vector) -> Vector:
        return np.exp(np.minimum(margins, 700.0))

    def check_targets(self, name: str, y: Vector) -> None:
        """Refuse targets that have no deviance.

        Parameters
        ----------
        name : str
            What they are called.
        y : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
        """
        family, lowest = self._family(), float(np.min(y))
        positive = family.target_range[0] > 0.0
        if lowest < 0.0 or (positive and lowest == 0.0):
            raise ValueError(
                f"{name} must hold numbers {'> 0' if positive else '>= 0'} for the deviance of the "
                f"loss {family.name!r}; got others. Leave these rows out of the score, or cut them "
                "to the declared bounds, as the fit does."
            )

    def _scored(self, found: Vector, predicted: Vector, weight: Vector | None) -> float:
        if np.all(found == found[0]):
            raise ValueError(
                "y must hold different numbers for a share of deviance explained; got one number "
                "in all rows, which has no deviance. Score more rows."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            return self.deviance_explained(found, predicted, weight)

    def deviance_explained(
        self, y: Vector, mean: Vector, sample_weight: Vector | None = None
    ) -> float:
        """D² of predicted means, by the deviance of the family.

        Parameters
        ----------
        y, mean : ndarray of shape (n_samples,)
        sample_weight : ndarray of shape (n_samples,) or None, default=None

        Returns
        -------
        float
            Not private: it is computed from `y`.
        """
        raise NotImplementedError


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateTweedieRegressor(PrivateLogLinkRegressor):
    """Variances are in proportion to a power of the mean; targets can be rates of an exposure.

    Parameters
    ----------
    max_exposure : float or None, default=None
        Public bound of the exposures, required for ``fit(X, y, exposure=...)``, an array of shape
        (n_samples,): how long each row was observed, or how many units it covers. The mean of the
        target is then the exposure times ``exp(<x, coef_> + intercept_)``; `target_bounds` and
        predictions are of the target divided by the exposure. `max_weight` is then required only if
        `fit` also gets a `sample_weight`.
    """

    __metadata_request__fit: ClassVar[dict[str, None]] = {"exposure": None}

    max_exposure: float | None = None

    @property
    def deviance_power(self) -> float:
        """Power of the mean that the variance is taken to be in proportion to."""
        raise NotImplementedError

    def deviance_explained(
        self, y: Vector, mean: Vector, sample_weight: Vector | None = None
    ) -> float:
        from sklearn.metrics import d2_tweedie_score  # takes long to import

        self.check_targets("y", y)
        found = d2_tweedie_score(y, mean, sample_weight=sample_weight, power=self.deviance_power)
        return float(found)

    def _by_exposure(
        self, X: Any, y: Any, fit_params: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Rates instead of targets, and weights with which their loss is that of an offset.

        With an exposure e, the loss of a mean ``e exp(z)`` is ``e^(2-q)`` times that of the rate
        ``t / e`` with the mean ``exp(z)``, up to terms without z.
        """
        y, fit_params = super()._by_exposure(X, y, fit_params)
        others = {name: value for name, value in fit_params.items() if name != "exposure"}
        exposure = fit_params.get("exposure")
        if exposure is None:
            if self.max_exposure is not None:
                raise ValueError(
                    f"exposure must be given to fit with max_exposure={self.max_exposure!r}; got "
                    "None. It is how long each row was watched, or how many are in it."
                )
            return y, others
        if isinstance(X, Executor) or is_dask(X, exposure):
            raise ValueError(
                "exposure must be left out for rows in blocks; got one. Give the source targets "
                "that are divided by it, and exposure**(2 - power) as weights."
            )
        highest = self._highest_exposure()
        if highest is None:
            raise ValueError(
                "max_exposure must be given with exposure; got None. Exposures are as private as "
                "the rows, and noise is in proportion to the weight of the longest: declare it, "
                "known without looking at the data (longer ones weigh as much as it)."
            )
        targets = vector_in("y", y)
        lengths = as_vector("exposure", exposure, len(targets))
        if lengths.min() <= 0.0:
            raise ValueError(
                "exposure must hold numbers > 0; got others. Leave out rows never watched."
            )
        weight = np.minimum(lengths, highest) ** (2.0 - self.deviance_power)
        given = fit_params.get("sample_weight")
        if given is not None:
            if self.max_weight is None:
                raise ValueError("max_weight must be given with sample_weight; got None.")
            given = as_vector("sample_weight", given, len(targets))
            weight = np.minimum(weight * given, _LARGEST)  # of which larger ones are lowered, too
        rates = targets / lengths
        return np.clip(rates, -_LARGEST, _LARGEST), {**others, "sample_weight": weight}

    def _highest_exposure(self) -> float | None:
        if self.max_exposure is None:
            return None
        return check_real("max_exposure", self.max_exposure, low=1e-100, high=1e100)

    def _weight_bound(self) -> float | None:
        highest = self._highest_exposure()
        if highest is None:
            return self.max_weight
        most: float = highest ** (2.0 - self.deviance_power)
        return most if self.max_weight is None else most * self.max_weight
