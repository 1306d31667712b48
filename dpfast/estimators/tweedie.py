"""Differentially private Tweedie regression."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._validation import check_real
from dpfast.estimators._log_link import PrivateTweedieRegressor
from dpfast.losses import Loss


@dataclass(eq=False, repr=False, kw_only=True)
class TweedieRegressor(PrivateTweedieRegressor):
    """Regression of costs with many zeros, with an (ε, δ)-differential-privacy guarantee.

    The mean of the target is ``exp(<x, coef_> + intercept_)``, its variance in proportion to the
    power q of the mean: a Tweedie law, between Poisson (1) and gamma (2) that of a random number of
    gamma costs. Minimizes ``(1/n) Σ (exp((2-q) z_i)/(2-q) + t_i exp((1-q) z_i)/(q-1)) + (α/2)‖w‖²``
    privately, ``z_i = <x̃_i, w>``, where ``x̃_i`` is row i scaled into the ball of radius
    `data_norm`, followed by the constant `intercept_scaling`, and ``t_i`` is the target divided by
    a twentieth of the highest one (by nothing without an intercept). Far outside the targets' range
    the exponentials go on in straight lines.

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
        Ridge of the mean loss, the targets being divided as said above. "auto" lets the solver
        choose it from public quantities.
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
        Public lowest and highest target, >= 0; targets beyond are clipped, and predictions stay in
        between. None takes them from `y` with a :class:`~dpfast.errors.PrivacyLeakWarning`.
    power : float, default=1.5
        The power q, from 1 (Poisson) to 2 (gamma, whose targets are > 0).
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
    max_rows_per_group : int or None, default=None
        Public bound of the rows of a group that are used, where `fit` gets `groups`; of a longer
        one so many, chosen evenly.  Solvers that do not clip whole groups need it.
    max_exposure : float or None, default=None
        Public bound of the exposures, needed where `fit` gets an `exposure`: how long each row was
        watched, or how many units are in it. The mean of the target is then the exposure times
        ``exp(<x, coef_> + intercept_)``; `target_bounds` and predictions are of the target over the
        exposure. It replaces `max_weight`, but where there are weights, too.
    prior : None, default=None
        Losses with a log link take none.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private weights: how the logarithm of the mean changes.
    intercept_ : float
        Private intercept, in logarithms like `coef_`; 0.0 without `fit_intercept`.
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
    >>> from dpfast import TweedieRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(-1.0, 1.0, 20_000)[:, np.newaxis]
    >>> y = rng.gamma(rng.poisson(np.exp(X[:, 0])))
    >>> model = TweedieRegressor(data_norm=1.0, target_bounds=(0.0, 20.0), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - np.exp(0.5)) < 0.5), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    power: float = 1.5

    def _family(self) -> Loss:
        power = self.deviance_power
        if power == 1.0:
            return Loss("poisson")
        return Loss("gamma") if power == 2.0 else Loss("tweedie", power)

    @property
    def deviance_power(self) -> float:
        """Power of the mean that the variance is taken to be in proportion to: `power`."""
        return check_real(
            "power", self.power, low=1.0, high=2.0, hint="Others have no bounded gradients."
        )
