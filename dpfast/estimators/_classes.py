"""What a classifier's classes count: declared weights, or those of a private count of the classes.

The count comes first, and is one release; the fit gets what is left of the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_real
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, Laplace
from dpfast.privacy import Budget
from dpfast.privacy.calibration import MARGIN
from dpfast.queries import ClassCounts
from dpfast.solvers import Plan

# Of the budget, for the count.
_SHARE = 0.05
_WHERE = "classes"
#: Its events add up with a count by Laplace noise under no accountant.
_OBJECTIVE = "objective-perturbation"


def budget_left(budget: Budget) -> Budget:
    """What a fit has after a count; with a count of the rest it makes up the budget."""
    kept = (1.0 - _SHARE) * (1.0 - MARGIN)
    return Budget(budget.limit * kept, budget.delta * kept)


def planned_count(plan: Plan[Any], n_classes: int, budget: Budget) -> Gaussian | Laplace:
    """The release of the classes' counts, beside a plan for :func:`budget_left`."""
    n, relation = plan.shape.n_samples, plan.neighboring_relation
    share = Budget(budget.limit * _SHARE, budget.delta * _SHARE)
    if plan.solver == _OBJECTIVE and budget.delta > 0.0:
        query = ClassCounts(n, n_classes, "l2")
        return Gaussian.calibrate(share, query, relation, where=_WHERE)
    pure = Budget(share.limit)
    return Laplace.calibrate(pure, ClassCounts(n, n_classes, "l1"), relation, where=_WHERE)


def learned_shares(curator: Curator, access: Gaussian | Laplace) -> Vector:
    """Share of each class, none below the noise in a count."""
    query = access.query
    assert isinstance(query, ClassCounts)
    counts = curator.release(access)
    least = min(max(1.0, access.stddev) / query.n_samples, 1.0 / len(counts) / 2.0)
    others = np.clip(counts / query.n_samples, least, 1.0)
    shares = np.append(max(least, 1.0 - float(others.sum())), others)
    return np.asarray(shares / shares.sum())


def balanced(shares: Vector) -> Vector:
    """Weights with which all classes count the same; the largest is 1."""
    return np.asarray(shares.min() / shares)


def check_class_weight(class_weight: Any) -> Mapping[Any, float]:
    """Declared weights by class; none for None and "balanced"."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return {}
    if not isinstance(class_weight, Mapping):
        raise TypeError(
            "class_weight must be None, 'balanced', or a dict with the weight of each class; got "
            f"{class_weight!r}."
        )
    for weight in class_weight.values():
        check_real("class_weight", weight, low=0.0, high=1e100)
    return class_weight


def heaviest(class_weight: Mapping[Any, float], n_classes: int) -> float:
    """Largest of declared weights, which must not be 0; classes without one have 1."""
    unnamed = [1.0] if len(class_weight) < n_classes else []
    most = max([*class_weight.values(), *unnamed])
    return check_real("class_weight", most, low=1e-100, hint="That is the largest of them.")


def declared(class_weight: Mapping[Any, float], classes: NDArray[Any]) -> Vector:
    """Weights of the classes, in their order."""
    labels = classes.tolist()
    if unknown := [label for label in class_weight if label not in labels]:
        raise ValueError(
            f"class_weight must have keys among the {len(labels)} classes; got {unknown[0]!r}, "
            "which is none of them. Pass classes=[...], and weights of some of these."
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])
