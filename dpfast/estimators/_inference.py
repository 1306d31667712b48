"""Standard errors, intervals and tests of estimators that can pay for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast._validation import check_choice, check_flag
from dpfast.blocks import Executor
from dpfast.estimators._base import PrivateLinearModel
from dpfast.estimators._one_vs_rest import planned
from dpfast.estimators._targets import Targets, units_of
from dpfast.inference import Estimates, Summary
from dpfast.privacy import Budget, Event
from dpfast.privacy.open_accounts import Charged
from dpfast.shape import ProblemShape
from dpfast.solvers import Outcome, Plan
from dpfast.solvers.dp_newton import COV_TYPES, NAME

NO_WEIGHTS = (
    "with inference=True; got weights, of which nobody can say whether they count repetitions or "
    "precision."
)
_COVERED = (
    "Each interval, taken alone, covers sampling and privacy noise together. What is estimated is "
    "the best model of these columns, in which rows of much leverage count less."
)


@dataclass(eq=False, repr=False, kw_only=True)
class Inferential(PrivateLinearModel):
    """What ``inference=True`` adds to an estimator: the solver made for it, and what it hands back.

    Parameters
    ----------
    inference : bool, default=False
        Also release standard errors, within the same budget. The coefficients come from the solver
        "dp-newton", and the fitted model has `bse_`, `cov_params_`, `pvalues_`, `conf_int` and
        `summary`. With too few rows for valid intervals, `fit` refuses before anything is spent.
    cov_type : {"auto", "robust", "nonrobust", "cluster"}, default="auto"
        Kind of standard errors, with `inference`. "robust" ones hold even if the model does not,
        which takes a release of products of scores; "nonrobust" ones trust the model; "cluster"
        ones allow for any dependence within a group, and are required if groups have several rows.
        "auto" is "cluster" for such groups, and otherwise "robust".

    Attributes
    ----------
    bse_, pvalues_ : ndarray of shape (n_features + 1,)
        Standard errors, and p-values of the tests that a coefficient is 0, the intercept's last;
        with `inference`. NaN where the released statistics show that they would not hold.
    cov_params_ : ndarray of shape (n_features + 1, n_features + 1)
        Covariance of the coefficients, the intercept last; with `inference`.
    """

    inference: bool = False
    cov_type: str = "auto"

    # What coefficients are the logarithms of, if anything.
    _ratio = ""
    # Parameters that intervals are not made for, and what they must be.
    _usual: ClassVar[tuple[tuple[str, Any], ...]] = ()

    def _fit(
        self,
        X: Any,
        y: Any,
        fit_params: Mapping[str, Any],
        accounts: Sequence[Charged] | None = None,
        *,
        alone: bool = True,
    ) -> Self:
        # Those of a part are checked by the whole; those of blocks may stand for an exposure.
        weighted = fit_params.get("sample_weight") is not None
        weighted |= isinstance(X, Executor) and X.weighted and not self._loss().log_link
        if self.inference and alone and weighted:
            raise ValueError(f"sample_weight must be None {NO_WEIGHTS}")
        return super()._fit(X, y, fit_params, accounts, alone=alone)

    def _planned(
        self, shape: ProblemShape, budget: Budget, parts: int | None = None
    ) -> tuple[Plan[Any], tuple[Event, ...]]:
        check_flag("inference", self.inference)
        cov_type = check_choice("cov_type", self.cov_type, ("auto", *COV_TYPES))
        if not self.inference:
            return super()._planned(shape, budget, parts)
        self._check_asked(budget, self._parts() if parts is None else parts)
        if cov_type == "auto":
            cov_type = "cluster" if shape.several_rows else "robust"
        settings = {**self._settings(), "cov_type": cov_type}
        plan, events = planned(shape, 1, NAME, budget, **settings)
        needed = int(plan.expected["rows_for_coverage"])
        if shape.n_samples < needed:
            remedy = "Fewer columns or a larger epsilon would do"
            if plan.neighboring_relation.startswith("replace_one"):
                remedy += (
                    f", or half the {shape.unit}s with neighboring_relation='add_or_remove_one'"
                )
            raise ValueError(
                f"X must have at least {needed:,} {shape.unit}s for inference=True with "
                f"{shape.dim} coefficients and {budget}, {plan.neighboring_relation}; got "
                f"{shape.n_samples:,}, with which intervals would not hold. {remedy}. Nothing was "
                "spent."
            )
        return plan, events

    def _check_asked(self, budget: Budget, parts: int) -> None:
        """Refuse what has no covariance."""
        if parts > 1:
            raise ValueError(
                f"classes must be two for inference=True; got {parts}. Fit one class against the "
                "others, each with a part of the budget."
            )
        if self.solver not in ("auto", NAME):
            raise ValueError(
                f"solver must be 'auto' or {NAME!r} for inference=True; got {self.solver!r}, "
                "whose coefficients have no law that is known without the data."
            )
        for name, usual in self._usual:
            given = getattr(self, name)
            if given != usual:
                raise ValueError(
                    f"{name} must be {usual} for inference=True; got {given!r}: intervals are for "
                    "the population as it was sampled."
                )
        if self.prior is not None:
            raise ValueError(
                "prior must be None for inference=True; got one, which would draw the "
                "coefficients to what no interval knows."
            )
        if self.alpha != "auto":
            raise ValueError(
                f"alpha must be 'auto', no ridge, for inference=True; got {self.alpha!r}: a ridge "
                "draws the coefficients to zero by what no interval knows."
            )
        if budget.kind == "pure":
            raise ValueError(
                "delta must be > 0 for inference=True, whose noise is Gaussian; got 0.0."
            )

    def _estimated(
        self, plan: Plan[Any], outcomes: Sequence[Outcome], targets: Targets
    ) -> dict[str, Any]:
        """Attributes that hold the estimates."""
        if not self.inference:
            return {"_estimates": None, "_facts": None}
        (outcome,), shape = outcomes, plan.shape
        units, shift = units_of(targets, shape.dim, shape.intercept)
        names = list(getattr(self, "feature_names_in_", ()))
        names = [str(n) for n in names] or [f"x{j}" for j in range(shape.n_features)]
        if shape.intercept != 0.0:
            names.append("Intercept")
        square, history = np.outer(units, units), outcome.history
        found = Estimates.of(
            names,
            outcome.w * units + shift,
            history["covariance"] * square,
            history["sampling"] * square,
            history["refused"],
        )
        facts = (
            (f"{shape.unit.capitalize()}s", f"{shape.n_samples:,}"),
            ("Privacy", f"{plan.budget}, {plan.neighboring_relation}"),
            ("Covariance", plan.settings.cov_type),
        )
        return {"_estimates": found, "_facts": facts}

    @property
    def _found(self) -> Estimates:
        """The estimates of the last fit."""
        found: Estimates | None = vars(self).get("_estimates")
        if found is None:
            raise AttributeError(
                f"{type(self).__name__} has standard errors after a fit with inference=True; fit "
                "again so. They are paid for together with the coefficients."
            )
        return found

    @property
    def bse_(self) -> Vector:
        """Standard errors of the coefficients, the intercept's last; NaN where refused."""
        return self._found.errors

    @property
    def cov_params_(self) -> Matrix:
        """Covariance of the coefficients, the intercept last; NaN where refused."""
        return self._found.covariance

    @property
    def pvalues_(self) -> Vector:
        """Of the two-sided tests that a coefficient is 0, the intercept's last."""
        return self._found.pvalues

    def conf_int(
        self,
        level: float = 0.95,
        columns: Sequence[str | int] | None = None,
        *,
        sampling_only: bool = False,
    ) -> Any:
        """Intervals that cover sampling and privacy noise together, for a fit with inference=True.

        Parameters
        ----------
        level : float, default=0.95
            Of each interval by itself; in (0, 0.9999].
        columns : sequence of str or int, optional
            Names ("Intercept" among them) or numbers; None: all, the intercept last.
        sampling_only : bool, default=False
            Leave the noise out, to show how much of the width it causes. Such intervals do not
            hold.

        Returns
        -------
        ndarray of shape (k, 2), or pandas.DataFrame
            NaN where the standard error is refused; :meth:`summary` says why.  A data frame with a
            row for each coefficient and the columns "lower" and "upper" if the features of `X` had
            names and pandas is installed; ``to_numpy()`` is the array.
        """
        found = self._found
        ends = found.conf_int(level, columns, sampling_only=sampling_only)
        if not hasattr(self, "feature_names_in_"):
            return ends
        try:
            import pandas as pd
        except ImportError:
            return ends
        names = found.names if columns is None else found.named(columns)
        return pd.DataFrame(ends, index=list(names), columns=["lower", "upper"])

    def summary(self, level: float = 0.95) -> Summary:
        """The table of coefficients, for a fit with inference=True.

        Parameters
        ----------
        level : float, default=0.95
            Of the intervals.

        Returns
        -------
        Summary
            Prints as text, shows as HTML, and has ``to_frame()``.
        """
        return Summary(
            title=f"{type(self).__name__}, private",
            facts=vars(self)["_facts"] if self._found else (),
            estimates=self._found,
            level=level,
            ratio=self._ratio,
            notes=(_COVERED,),
        )
