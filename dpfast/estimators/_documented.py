"""Descriptions of parameters that several estimators have: each stands once, here."""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

Estimator = TypeVar("Estimator")

_DESCRIPTIONS = """
epsilon : float, default=1.0
    Privacy loss ε > 0.
delta : float, default=1e-6
    Probability δ in [0, 1) outside the ε bound; 0 asks for pure ε-differential privacy.
    Should be well below ``1 / n_samples``.
solver : str, default="auto"
    Private algorithm; see :data:`dpfast.solvers.SOLVERS`.
data_norm : float or None, default=None
    Public bound of the rows' Euclidean norms (without the intercept); longer rows are scaled
    down, in the fit and in predictions: there `coef_` is meant for rows within the bound. None
    takes it from the data with a :class:`~dpfast.errors.PrivacyLeakWarning`.
intercept_scaling : float, default=1.0
    Value of the constant column. The intercept is penalized like the other weights, and the
    constant counts in the row norm.
neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
    Which data sets are neighbors: one record is replaced by any other, or is absent.
target_bounds : tuple of two floats or None, default=None
    Public lowest and highest target. Targets beyond them are clipped; inside the model, targets
    are scaled to [-1, 1] (without an intercept, divided by the larger absolute bound). None
    takes the bounds from `y` with a :class:`~dpfast.errors.PrivacyLeakWarning`.
solver_options : dict or None, default=None
    Further options of the solver.
optimizer : str, default="auto"
    Non-private inner optimizer, for solvers that have one.
accountant : str, default="auto"
    How privacy is added up; "auto" takes the smallest valid ε.
random_state : None, int or NumPy generator, default=None
    None draws the noise from the operating system's randomness. Anything else makes the fit
    repeatable, and its report says not to release it.
n_jobs : int or None, default=None
    Number of threads: None means one, -1 all cores. The result does not depend on it.
verbose : int, default=0
    1 prints the plan before anything is spent.
strict : bool, default=False
    Raise an error instead of a :class:`~dpfast.errors.PrivacyLeakWarning`.
max_weight : float or None, default=None
    Public bound of the weights, required if `fit` gets a `sample_weight`. Larger weights are
    lowered to it, and the noise is proportional to it.
max_rows_per_group : int or None, default=None
    Largest number of rows that the fit uses from one group, if `fit` gets `groups`; it picks
    them evenly from a larger group. Required by solvers that do not clip whole groups.
column_blocks : sequence of ColumnBlock or None, default=None
    How the columns were declared, as in the `column_blocks_` of an encoder. The solver uses
    this public structure to reduce the effect of the noise. A wrong declaration costs
    accuracy, never privacy.
inference : bool, default=False
    Also release standard errors, within the same budget. The coefficients come from the solver
    "dp-newton", and the fitted model has `bse_`, `cov_params_`, `pvalues_`, `conf_int` and
    `summary`. With too few rows for valid intervals, `fit` refuses before anything is spent.
cov_type : {"robust", "nonrobust", "cluster"}, default="robust"
    Kind of standard errors, with `inference`. "robust" ones hold even if the model does not,
    which takes a release of products of scores; "nonrobust" ones trust the model; "cluster"
    ones allow for any dependence within a group, and are required if groups have several rows.
prior : tuple (X, y), CoefficientPrior, fitted model or None, default=None
    Public rows with their targets, in the form of the private ones; or coefficients with a
    covariance, such as those of an earlier dpfast model. The fit starts from them and spends no
    budget on them. See the guide to priors.
coef_ : ndarray of shape (n_features,)
    Private weights.
intercept_ : float
    Private intercept; 0.0 without `fit_intercept`.
bse_, pvalues_ : ndarray of shape (n_features + 1,)
    Standard errors, and p-values of the tests that a coefficient is 0, the intercept's last;
    with `inference`. NaN where the released statistics show that they would not hold.
cov_params_ : ndarray of shape (n_features + 1, n_features + 1)
    Covariance of the coefficients, the intercept last; with `inference`.
feature_names_in_ : ndarray of shape (n_features,)
    Only if `X` had string column names.
privacy_ : dpfast.privacy.PrivacyReport
    The guarantee and the ledger that supports it.
max_exposure : float or None, default=None
    Public bound of the exposures, required if `fit` gets an `exposure`: how long each row was
    observed, or how many units it covers. The mean of the target is then the exposure times
    ``exp(<x, coef_> + intercept_)``; `target_bounds` and predictions are of the target divided
    by the exposure. `max_weight` is then required only if `fit` also gets a `sample_weight`.
"""
#: What is said otherwise with a log link, and notes on every estimator.
_OTHERS = {
    "log_link_alpha": """\
alpha : float or "auto", default="auto"
    Ridge of the mean loss, the targets being divided as said above. "auto" lets the solver
    choose it from public quantities.""",
    "log_link_bounds": """\
target_bounds : tuple of two floats or None, default=None
    Public lowest and highest target, >= 0; targets beyond are clipped, and predictions stay in
    between. None takes them from `y` with a :class:`~dpfast.errors.PrivacyLeakWarning`.""",
    "log_link_prior": """\
prior : None, default=None
    Losses with a log link take none.""",
    "log_link_coef_": """\
coef_ : ndarray of shape (n_features,)
    Private weights: how the logarithm of the mean changes.""",
    "log_link_intercept_": """\
intercept_ : float
    Private intercept, in logarithms like `coef_`; 0.0 without `fit_intercept`.""",
    "notes": """\
The number of rows and the shape of X are treated as public.

There is no `partial_fit`: every call would have to pay, and noise added many times hurts more
than noise added once. Fit on all rows at once.""",
}
_BY_NAME = _OTHERS | {
    re.split(r"\W", text)[0]: text for text in re.split(r"\n(?=\S)", _DESCRIPTIONS.strip())
}


def documented(estimator: type[Estimator]) -> type[Estimator]:
    """Put descriptions where the docstring has a parameter's name in braces on a line of its own.

    Parameters
    ----------
    estimator : type

    Returns
    -------
    type
        The same.
    """
    if estimator.__doc__ is not None:  # there is none with python -OO
        text = inspect.cleandoc(estimator.__doc__)
        estimator.__doc__ = re.sub(r"(?m)^{(\w+)}$", lambda name: _BY_NAME[name[1]], text)
    return estimator
