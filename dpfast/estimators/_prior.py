"""What is known of a model's coefficients before it is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, column_or_1d

from dpfast._arrays import numbers_in
from dpfast._files import show_names
from dpfast._typing import Matrix, Vector
from dpfast._validation import check_real, counted, warn
from dpfast.errors import QuestionableSettingWarning
from dpfast.estimators._targets import Targets, units_of
from dpfast.privacy import Budget, PrivacyReport
from dpfast.rows import row_lengths
from dpfast.shape import ProblemShape
from dpfast.solvers import Plan
from dpfast.solvers.prior import Coefficients, check_shape, least_rows, plan_refit, tells_more
from dpfast.solvers.public_rows import FEW, MOST_KNOWN, from_rows, plan_with_rows

# The solver that fits with a prior.
_SOLVER = "dp-whitened-gd"
# What rounding may do to the least eigenvalue of a correlation matrix, such as a fitted model's.
_ROUNDED = 1e-12
# A prior's weights may be this part of the largest that rows may be multiplied with, since fits go
# on from there.
_FARTHEST = 1e-12


@dataclass(frozen=True, eq=False)
class CoefficientPrior:
    """Coefficients that are public, and how wrong they may be: the parameter `prior` of estimators.

    Parameters
    ----------
    coef : array-like of shape (n_features,)
        Coefficients of a model of the same columns, scaled alike: published ones, or those of an
        earlier private fit, which were paid for.
    intercept : float, default=0.0
    covariance : array-like of shape (k, k) or (k,)
        Covariance of the coefficients' errors, or their variances alone. k is ``n_features + 1``,
        with the intercept last, if the model has one, and else ``n_features``.
    rows_per_weight : float, default=0.0
        For coefficients of a private fit, its `u` (see the guide to priors). The fit then takes
        coordinates from the covariance, too, and believes it a little less. 0 for others.
    privacy : PrivacyReport or None, default=None
        That of the fit, for the reports of fits that begin with it. None for coefficients that are
        public otherwise.

    Examples
    --------
    >>> import dpfast
    >>> published = dpfast.CoefficientPrior([0.8, -0.4], -1.2, covariance=[0.04, 0.04, 0.01])
    >>> model = dpfast.LogisticRegression(0.1, data_norm=1.5, classes=[0, 1], prior=published)
    """

    coef: ArrayLike
    intercept: float = 0.0
    covariance: ArrayLike | None = None
    rows_per_weight: float = 0.0
    privacy: PrivacyReport | None = field(default=None, repr=False)

    def coefficients(self, shape: ProblemShape, targets: Targets) -> Coefficients:
        """Weights of a problem and their covariance, in its units.

        Raises
        ------
        TypeError, ValueError
            If shapes do not go together, or numbers are not finite.
        """
        if not isinstance(self.privacy, PrivacyReport | None):
            raise TypeError(
                "privacy of the prior must be None or the privacy_ of a fitted model; got "
                f"{type(self.privacy).__name__}."
            )
        coef = _numbers("coef", self.coef)
        d, dim = shape.n_features, shape.dim
        if coef.shape not in ((d,), (1, d)):
            raise ValueError(
                f"coef of the prior must have a coefficient for each of the {d} columns of X; got "
                f"shape {coef.shape}."
            )
        intercept = check_real("intercept of the prior", self.intercept)
        if dim == d and intercept != 0.0:
            raise ValueError(
                f"intercept of the prior must be 0 without fit_intercept; got {intercept:g}."
            )
        covariance = self._covariance(dim)
        units, shift = units_of(targets, dim, shape.intercept)
        w = (np.append(coef.ravel(), intercept)[:dim] - shift) / units
        largest = shape.largest_weights * _FARTHEST
        if not np.max(np.abs(w)) <= largest:
            raise ValueError(
                "coefficients of the prior must be within what products with rows leave finite, "
                f"{largest:.2g} in units of the targets; got {float(np.max(np.abs(w))):.2g}."
            )
        u = check_real("rows_per_weight", self.rows_per_weight, low=0.0)
        return Coefficients(w, covariance / np.outer(units, units), u)

    def _covariance(self, dim: int) -> Matrix:
        if self.covariance is None:
            raise ValueError(
                "covariance of the prior must be given; got None. The squares of published "
                "standard errors will do, the intercept's last."
            )
        given = _numbers("covariance", self.covariance)
        full = np.diag(given) if given.ndim == 1 else given
        if full.shape != (dim, dim):
            raise ValueError(
                f"covariance of the prior must be for {dim} numbers, the intercept's last if there "
                f"is one; got shape {given.shape}."
            )
        deviations = np.sqrt(np.maximum(np.diag(full), 0.0))
        if not np.allclose(full, full.T) or not deviations.all():
            least = -1.0
        else:
            full = 0.5 * (full + full.T)
            # In units of the deviations: columns of whatever units are no reason to refuse it.
            least = float(np.linalg.eigvalsh(full / deviations / deviations[:, None])[0])
        if least < -_ROUNDED:
            raise ValueError(
                "covariance of the prior must be symmetric and positive definite; got another "
                "matrix. What is known exactly has a small variance, not 0."
            )
        return full + max(0.0, _ROUNDED - least) * np.diag(deviations**2)


def plan_with_prior(
    prior: Any, shape: ProblemShape, targets: Targets, budget: Budget, **how: str
) -> Plan[Any] | None:
    """Plan of a fit that begins with what a prior tells; None if that would not help."""
    if isinstance(prior, tuple):
        X, y = _public_rows(prior, shape)
        if shape.dim > MOST_KNOWN:
            return None
        y = targets(y)
        if len(np.unique(y)) == 1:
            # They would say that others are impossible, and a fit with few rows believe it.
            raise ValueError(
                "prior must have rows of different targets, within target_bounds if there are any; "
                "got one target. Such rows tell nothing of the weights."
            )
        plan = plan_with_rows(shape, from_rows(shape, X, y), budget, **how)
        return plan if plan.settings.rows_per_weight < FEW else None
    if hasattr(prior, "as_prior"):
        if not hasattr(prior, "coef_"):
            raise ValueError(
                f"prior must be a fitted model; got a {type(prior).__name__} that is not fitted. "
                "Fit it to earlier data; in a grid of scikit-learn, whose copies are not fitted, "
                "write model.as_prior()."
            )
        prior = prior.as_prior()
    if not isinstance(prior, CoefficientPrior):
        raise TypeError(
            "prior must be None, a pair (X, y) of public rows and their targets, a "
            "CoefficientPrior or a fitted model of dpfast, such as TableModel.load(file); got "
            f"{type(prior).__name__}."
        )
    known = prior.coefficients(shape, targets)
    check_shape(shape, budget, **how)
    if 0.0 < known.rows_per_weight < least_rows(shape, budget, **how):
        return None
    return plan_refit(shape, known, budget, **how) if tells_more(known, shape) else None


def question_prior(prior: Any, plan: Plan[Any], accountant: str) -> None:
    """Warn, before anything is spent, of an earlier fit that is ignored for its few rows."""
    known = prior.as_prior() if hasattr(prior, "as_prior") else prior
    if not isinstance(known, CoefficientPrior):
        return
    least = least_rows(plan.shape, plan.budget, plan.neighboring_relation, accountant)
    if 0.0 < known.rows_per_weight < least:
        warn(
            f"The prior is ignored: it is of a fit with {known.rows_per_weight:.3g} private rows a "
            f"weight, times mu, and one with fewer than {least:.3g} would harm this fit.",
            QuestionableSettingWarning,
        )


def _public_rows(prior: tuple[Any, ...], shape: ProblemShape) -> tuple[Matrix, NDArray[Any]]:
    """The rows of a prior, made no longer than private ones may be, and their targets."""
    if len(prior) != 2:
        raise ValueError(
            "prior must be a pair (X, y) of public rows and their targets; got "
            f"{len(prior)} values."
        )
    X = check_array(numbers_in("prior[0]", prior[0]), dtype=np.float64, input_name="prior[0]")
    y = column_or_1d(prior[1])
    if X.shape != (len(y), shape.n_features):
        raise ValueError(
            f"prior must have a target for each row and {shape.n_features} columns, as the "
            f"private rows; got {X.shape} and {len(y)} targets."
        )
    length = np.maximum(row_lengths(X) / shape.data_norm, 1.0)
    return X / length[:, None], y


def check_asked(model: Any, parts: int, settings: Mapping[str, Any]) -> None:
    """Refuse a prior beside several problems, other solvers, options, or undeclared targets."""
    if parts > 1 or model.solver not in ("auto", _SOLVER) or settings != {"alpha": "auto"}:
        raise ValueError(
            f"prior must be None unless there are one or two classes, solver is 'auto' or "
            f"{_SOLVER!r}, and nothing else is asked of it; got {parts} problems, "
            f"solver={model.solver!r} and options {dict(settings)}."
        )
    if getattr(model, "classes", model) is None or getattr(model, "target_bounds", model) is None:
        raise ValueError(
            "classes or target_bounds must be given with a prior, whose targets they are, too; "
            "got None."
        )
    _check_order(model.prior, model)


def _check_order(prior: Any, model: Any) -> None:
    """Refuse public rows, or a fitted model, of other columns, another task, or turned classes."""
    rows = prior[0] if isinstance(prior, tuple) else None
    columns = getattr(rows, "column_names", getattr(rows, "columns", None))  # Arrow's, or others'
    theirs: Any = getattr(prior, "feature_names_in_", columns)
    own: Any = getattr(model, "feature_names_in_", None)
    if own is not None and theirs is not None and [*theirs] != [*own]:
        raise ValueError(
            f"prior must have the columns of X in their order, {show_names([*own])}; got "
            f"{show_names([*theirs])}."
        )
    if hasattr(prior, "fit") and (
        is_classifier(prior) != is_classifier(model)
        or hasattr(prior, "predict_proba") != hasattr(model, "predict_proba")
    ):
        raise ValueError(
            "prior must be a model of the same task, classes or numbers, with coefficients on one "
            f"scale; got {type(prior).__name__} for {type(model).__name__}."
        )
    theirs, own = getattr(prior, "classes_", ()), getattr(model, "classes", ())
    if {*theirs} == {*own} and [*theirs] != [*own]:
        raise ValueError(
            f"prior must have the classes of this model in their order, {[*own]}; got {[*theirs]}, "
            "whose coefficients have the opposite sign."
        )


def what_is_known(prior: Any) -> tuple[Any, ...]:
    """The numbers of a prior, by which one fit is told from another; none without one."""
    if isinstance(prior, tuple):
        return tuple(map(np.asarray, prior))
    if prior is None:
        return ()
    known = prior.as_prior() if hasattr(prior, "as_prior") else prior
    # What was said of other fits to the same rows is no part of what is known.
    return (replace(known, privacy=None),)


def begins_with_prior(plan: Plan[Any]) -> bool:
    """Whether a fit by this plan uses what was known beforehand."""
    return hasattr(plan.settings, "prior")


def described(prior: Any) -> str:
    """What a prior is, and whether it has a guarantee of its own, for the report."""
    if isinstance(prior, tuple):
        return f"{counted(len(prior[1]), 'row')} taken to be public"
    report = _report_of(prior)
    if report is None:
        return "coefficients taken to be public"
    file = getattr(prior, "_file", None)
    name = f"a {type(prior).__name__} {'fitted before' if file is None else f'read from {file}'}"
    if report.reproducible:
        return f"{name}, whose records nothing protects: its random_state repeats the noise"
    return (
        f"{name}, whose own account protects its records with epsilon = {report.epsilon:.3g} and "
        f"delta = {report.delta:.3g} ({report.neighboring_relation}); where these are the same "
        "records, both add up"
    )


def notes_of(prior: Any) -> tuple[str, ...]:
    """What a fitted prior does not protect of its own rows, which those after it inherit."""
    report = _report_of(prior)
    if report is None:
        return ()
    notes = tuple(f"{note} (of the fit that the prior is from)" for note in report.notes)
    if report.reproducible:
        return (*notes, "the rows of the prior, whose noise its random_state repeats")
    return notes


def _report_of(prior: Any) -> PrivacyReport | None:
    """The report of the fit that a prior is, or is from."""
    of = "privacy" if isinstance(prior, CoefficientPrior) else "privacy_"
    found: PrivacyReport | None = getattr(prior, of, None)
    return found


def _numbers(name: str, values: Any) -> Vector:
    found = np.asarray(values)
    if found.dtype.kind not in "fiub" or not np.all(np.isfinite(found)):
        raise ValueError(f"{name} of the prior must hold finite numbers.")
    return found.astype(np.float64)
