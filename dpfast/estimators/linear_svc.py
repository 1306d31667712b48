"""Differentially private linear support vector classification."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._validation import check_real
from dpfast.estimators._classifier import PrivateLinearClassifier
from dpfast.estimators._documented import documented
from dpfast.losses import Loss


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LinearSVC(PrivateLinearClassifier):
    """Linear support vector classifier with an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ ℓ(y_i <x̃_i, w>) + (α/2)‖w‖²`` privately, where ``x̃_i`` is row i scaled into
    the ball of radius `data_norm`, followed by the constant `intercept_scaling`, and ``ℓ`` is the
    huberized hinge: ``max(0, 1 - z)``, rounded off by a parabola where ``|1 - z| <= width``
    (Chaudhuri, Monteleoni & Sarwate 2011). Its slope is at most 1 and its curvature at most
    ``1 / (2 width)``, which every solver can use; the hinge itself has a kink. More than two
    classes are learned one against the rest, within the one budget: with K of them as if ε were
    about √K times smaller (with pure ε, K times). Many classes with few rows are better served by
    :class:`~dpfast.LogisticRegression`, which learns them together: 1,347 images of ten digits
    have an accuracy of 0.15 here at ε = 2, and 0.87 there.

    Parameters
    ----------
    {epsilon}
    {delta}
    {solver}
    alpha : float or "auto", default="auto"
        Ridge of the mean loss, as in scikit-learn's SGDClassifier (``C = 1 / (alpha * n_samples)``
        there). "auto" lets the solver choose it from public quantities.
    {data_norm}
    fit_intercept : bool, default=True
    {intercept_scaling}
    {neighboring_relation}
    classes : array-like of shape (n_classes,) or None, default=None
        The class labels, public, in any order: as in scikit-learn ``classes_`` has them sorted, and
        of two the last is the positive one. None takes them from `y` with a
        :class:`~dpfast.errors.PrivacyLeakWarning`.
    width : float or None, default=None
        Half the width of the rounded-off part of the hinge, > 0. A small one is closer to the hinge
        and costs accuracy under privacy. None is 0.5, which "dp-whitened-gd" (what "auto" takes for
        budgets with a δ) narrows step by step for two classes, the more the more rows a weight has
        and the larger epsilon is, to 0.01 at least; the plan says to what.
    objective : {"erm", "tilted", "adversarial"}, default="erm"
    objective_options : dict or None, default=None
        As for :class:`~dpfast.LogisticRegression`.
    class_weight : dict, "balanced" or None, default=None
        How much rows count by their class: ``{class: weight}``, public, 1 for classes that are left
        out; noise is in proportion to the largest. "balanced" takes weights with which all classes
        count the same, the largest being 1, from a private count of the classes, which costs a
        twentieth of the budget; with public shares p_k of K classes give ``1 / (K p_k)``. For
        rare classes see the guide to rare events: weights cost more accuracy than they bring.
    {solver_options}
    {optimizer}
    {accountant}
    {random_state}
    {n_jobs}
    {verbose}
    {strict}
    {max_weight}
    {column_blocks}
    {max_rows_per_group}
    {prior}

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
    {feature_names_in_}
    {privacy_}

    Notes
    -----
    {notes}

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

    width: float | None = None

    def _loss(self) -> Loss:
        width = self.width
        if width is not None:
            width = check_real("width", width, low=1e-6, high=1e6)
        return Loss("huberized-hinge", width=width)
