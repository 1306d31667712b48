"""Differentially private linear support vector classification."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._validation import check_real
from dpfast.estimators._base import PrivateLinearClassifier
from dpfast.losses import Loss


@dataclass(eq=False, repr=False, kw_only=True)
class LinearSVC(PrivateLinearClassifier):
    """Linear support vector classifier with an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ ℓ(y_i <x̃_i, w>) + (α/2)‖w‖²`` privately, where ``x̃_i`` is row i scaled into
    the ball of radius `data_norm`, followed by the constant `intercept_scaling`, and ``ℓ`` is the
    huberized hinge: ``max(0, 1 - z)``, rounded off by a parabola where ``|1 - z| <= width``
    (Chaudhuri, Monteleoni & Sarwate 2011). Its slope is at most 1 and its curvature at most
    ``1 / (2 width)``, which every solver can use; the hinge itself has a kink. More than two
    classes are learned one against the rest, within the one budget.

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
        Ridge of the mean loss, as in scikit-learn's SGDClassifier (``C = 1 / (alpha * n_samples)``
        there). "auto" lets the solver choose it from public quantities.
    data_norm : float or None, default=None
        Public bound of the rows' Euclidean norms (intercept not counted); longer rows are scaled
        down. None takes it from the data with a :class:`~dpfast.errors.PrivacyLeakWarning`.
    fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
        Value of the constant column. The intercept is penalized like the other weights, and the
        constant counts in the row norm.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What one person's influence means: her record replaced by any other, or absent.
    classes : array-like of shape (n_classes,) or None, default=None
        The class labels, public, in any order: as in scikit-learn ``classes_`` has them sorted, and
        of two the last is the positive one. None takes them from `y` with a
        :class:`~dpfast.errors.PrivacyLeakWarning`.
    width : float, default=0.5
        Half the width of the rounded-off part of the hinge, > 0. A small one is closer to the hinge
        and costs accuracy under privacy.
    objective : {"erm", "tilted", "adversarial"}, default="erm"
    objective_options : dict or None, default=None
        As for :class:`~dpfast.LogisticRegression`.
    class_weight : dict, "balanced" or None, default=None
        How much rows count by their class: ``{class: weight}``, public, 1 for classes that are left
        out; noise is in proportion to the largest. "balanced" takes weights with which all classes
        count the same, the largest being 1, from a private count of the classes, which costs a
        twentieth of the budget; with public shares p_k of K classes give ``1 / (K p_k)``. For
        rare classes see the guide to rare events: weights cost more accuracy than they bring.
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
    prior : tuple (X, y), CoefficientPrior, fitted model or None, default=None
        Public rows and their targets, like the private ones; or coefficients with a covariance,
        such as those of an earlier model of dpfast: the fit begins with what they tell, and does
        not pay for it. See the guide to priors.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private weights; one row for two classes, otherwise one for each class against the rest.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private intercepts; 0 without `fit_intercept`.
    classes_ : ndarray of shape (n_classes,)
    class_shares_ : ndarray of shape (n_classes,)
        Only if the classes were counted: their private shares.
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

    More than two classes are learned one against the rest. Each row is in all of these problems, so
    their privacy losses add up: with Gaussian noise each problem gets ``1/√k`` of the budget in
    units of µ (about ``√k`` times the noise of a binary fit), with a pure budget ``ε/k``.

    Examples
    --------
    >>> from dpfast import LinearSVC
    >>> from dpfast.datasets import load_randhie
    >>> X, y = load_randhie(return_X_y=True)
    >>> model = LinearSVC(epsilon=1.0, delta=1e-6, data_norm=65.0, classes=[0, 1])
    >>> model.fit(X, y).privacy_.epsilon <= 1.0
    True
    """

    width: float = 0.5

    def _loss(self) -> Loss:
        width = check_real("width", self.width, low=1e-6, high=1e6)
        return Loss("huberized-hinge", width=width)
