"""Differentially private Huber regression."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._validation import check_real
from dpfast.estimators._base import PrivateLinearRegressor
from dpfast.estimators._inference import Inferential
from dpfast.losses import Loss


@dataclass(eq=False, repr=False, kw_only=True)
class HuberRegressor(Inferential, PrivateLinearRegressor):
    """Huber regression with an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ h(t_i - <x̃_i, w>) + (α/2)‖w‖²`` privately, where ``x̃_i`` is row i scaled
    into the ball of radius `data_norm`, followed by the constant `intercept_scaling`, ``t_i`` the
    target brought to [-1, 1], and ``h(r) = r²/2`` where ``|r| <= threshold``, a line beyond. The
    threshold is what one row can pull with: a small one resists outliers and needs less noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss ε > 0.
    delta : float, default=1e-6
        Probability δ in [0, 1) outside the ε bound; 0 asks for pure ε-differential privacy.
        Should be well below ``1 / n_samples``.
    solver : str, default="auto"
        Private algorithm; see :data:`dpfast.solvers.SOLVERS`.
    alpha : float or "auto", default="auto"
        Ridge of the mean loss, the targets being in [-1, 1]. "auto" lets the solver choose it from
        public quantities.
    data_norm : float or None, default=None
        Public bound of the rows' Euclidean norms (intercept not counted); longer rows are scaled
        down. None takes it from the data with a :class:`~dpfast.errors.PrivacyLeakWarning`.
    fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
        Value of the constant column. The intercept is penalized like the other weights, and the
        constant counts in the row norm.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What one person's influence means: her record replaced by any other, or absent.
    target_bounds : tuple of two floats or None, default=None
        Public lowest and highest target; targets beyond are clipped, and inside the model they are
        brought to [-1, 1] (without an intercept: divided by the larger absolute value). None takes
        them from `y` with a :class:`~dpfast.errors.PrivacyLeakWarning`.
    threshold : float, default=0.2
        Residual from which the loss grows linearly, > 0, in units of half the width of
        `target_bounds` (without an intercept: of the larger absolute value), or of the range within
        these where most targets are, if the solver learns it ("dp-whitened-gd", what "auto" takes
        for budgets with a δ). Unlike in scikit-learn no scale of the residuals is estimated.
    solver_options : dict or None, default=None
        Further options of the solver.
    optimizer : str, default="auto"
        Non-private inner optimizer, for solvers that have one.
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
    max_rows_per_group : int or None, default=None
        Public bound of the rows of a group that are used, where `fit` gets `groups`; of a longer
        one so many, chosen evenly.  Solvers that do not clip whole groups need it.
    prior : tuple (X, y), CoefficientPrior, fitted model or None, default=None
        Public rows and their targets, like the private ones; or coefficients with a covariance,
        such as those of an earlier model of dpfast: the fit begins with what they tell, and does
        not pay for it. See the guide to priors.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private weights.
    intercept_ : float
        Private intercept; 0.0 without `fit_intercept`.
    bse_, pvalues_ : ndarray of shape (n_features + 1,)
        With `inference`: standard errors, and p-values of the tests that a coefficient is 0; the
        intercept's last. NaN where what was released says that they would not hold.
    cov_params_ : ndarray of shape (n_features + 1, n_features + 1)
        With `inference`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.
    privacy_ : dpfast.privacy.PrivacyReport
        The guarantee and the ledger that supports it.

    Notes
    -----
    The number of rows and the shape of X are treated as public.

    There is no `partial_fit`: each look at the data would be paid for, and noise that is added many
    times hurts more than noise that is added once. Fit on all rows at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import HuberRegressor
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, np.newaxis]
    >>> y = 20.0 + 5.0 * X[:, 0]
    >>> model = HuberRegressor(data_norm=1.0, target_bounds=(10.0, 30.0), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - 22.5) < 1.0), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    threshold: float = 0.2

    def _loss(self) -> Loss:
        return Loss("huber", check_real("threshold", self.threshold, low=1e-6, high=1e6))
