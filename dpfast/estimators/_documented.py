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
    Public bound of the rows' Euclidean norms (intercept not counted); longer rows are scaled
    down. None takes it from the data with a :class:`~dpfast.errors.PrivacyLeakWarning`.
intercept_scaling : float, default=1.0
    Value of the constant column. The intercept is penalized like the other weights, and the
    constant counts in the row norm.
neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
    What one person's influence means: her record replaced by any other, or absent.
solver_options : dict or None, default=None
    Further options of the solver.
accountant : str, default="auto"
    How privacy is added up; "auto" takes the smallest valid ε.
random_state : None, int or NumPy generator, default=None
    None draws the noise from the operating system's randomness. Anything else makes the fit
    repeatable and the report says not to release it.
n_jobs : int or None, default=None
    Threads; None means one, -1 all cores. The result does not depend on it.
verbose : int, default=0
    1 prints the plan before anything is spent.
strict : bool, default=False
    Raise an error instead of a :class:`~dpfast.errors.PrivacyLeakWarning`.
max_weight : float or None, default=None
    Public bound of the weights, needed where `fit` gets a `sample_weight`: larger weights are
    lowered to it, and the noise is in proportion to it.
max_rows_per_group : int or None, default=None
    Public bound of the rows of a group that are used, where `fit` gets `groups`; of a longer
    one so many, chosen evenly.  Solvers that do not clip whole groups need it.
column_blocks : sequence of ColumnBlock or None, default=None
    How all columns were declared, as the encoders' `column_blocks_` say: public structure that
    makes noise matter less. Wrong declarations cost accuracy, never privacy.
inference : bool, default=False
    Spend the budget on standard errors, too: coefficients come from the solver "dp-newton", and
    the fit has `bse_`, `cov_params_`, `pvalues_`, `conf_int` and `summary`. Refused, before
    anything is spent, where the rows are too few for intervals that hold.
cov_type : {"robust", "nonrobust", "cluster"}, default="robust"
    Whether standard errors hold if the model does not (products of scores are released for
    that), or trust it. With `groups` of several rows it must be "cluster": whatever the rows of
    a group have in common. For `inference`.
bse_, pvalues_ : ndarray of shape (n_features + 1,)
    With `inference`: standard errors, and p-values of the tests that a coefficient is 0; the
    intercept's last. NaN where what was released says that they would not hold.
cov_params_ : ndarray of shape (n_features + 1, n_features + 1)
    With `inference`.
feature_names_in_ : ndarray of shape (n_features,)
    Only if `X` had string column names.
privacy_ : dpfast.privacy.PrivacyReport
    The guarantee and the ledger that supports it.
max_exposure : float or None, default=None
    Public bound of the exposures, needed where `fit` gets an `exposure`: how long each row was
    watched, or how many units are in it. The mean of the target is then the exposure times
    ``exp(<x, coef_> + intercept_)``; `target_bounds` and predictions are of the target over the
    exposure. It replaces `max_weight`, but where there are weights, too.
"""
_BY_NAME = {re.split(r"\W", text)[0]: text for text in re.split(r"\n(?=\S)", _DESCRIPTIONS.strip())}


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
