r"""Multinomial logistic regression: whitened private descent, all classes in one release.

``F(W) = (1/n) Σ_i -c_i log softmax(W x̃_i)_{y_i} + (α/2)‖W‖²``, W with a row for each of K classes.
The coordinates are learned once, and the descent is that of :mod:`dpfast.solvers.dp_whitened_gd`
too, on a matrix of weights: ``V``, ``W = V Tᵀ``, T the learned transform.

Privacy: as there, with one release of the gradients of all classes
(:class:`~dpfast.queries.ClassGradient`): ``K dim`` numbers, where one against the rest makes K
releases of ``dim`` numbers that share a budget.  Adding one vector to all rows of W changes no
probability: the part of the noise that is the same for all classes is removed, which is
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpfast._validation import check_flag, check_integer
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, Query
from dpfast.privacy import Budget, affordable, relation_of
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import ClassGradient, ColumnParts
from dpfast.queries.coordinates import CLASS_CURVATURE
from dpfast.shape import ProblemShape
from dpfast.solvers import _groups, dp_whitened_gd
from dpfast.solvers._class_counts import counted_classes
from dpfast.solvers._class_shares import constant_of
from dpfast.solvers._contract import Outcome, Plan, check_options, check_supported
from dpfast.solvers._coordinates import learn
from dpfast.solvers._shares import releases
from dpfast.solvers._whitened_descent import Settings, descend, weight_noise
from dpfast.solvers._whitened_rules import (
    clips_groups,
    regime,
    rows_per_weight,
    weight_of_counts,
    with_counts,
)

_SQRT_2 = math.sqrt(2.0)
_GRADIENT = "gradient of all classes"
# Rows behind one weight, times µ, below which there are fewer steps: each follows the noise.
_FEW = 20.0
# Iterations that a momentum of 1 would save.
_SPARED = 0.8
# At most this part of what gradients have pays for counts of the classes.
_MOST_PAID = 0.9
# Rows behind one weight, times µ, from which on steps are full ones.
_FULL = 1.3


def plan_multinomial(
    shape: ProblemShape,
    n_classes: int,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    **options: Any,
) -> Plan[Settings]:
    """Settle everything from public quantities.

    Parameters
    ----------
    shape : ProblemShape
        Of a problem with the logistic loss.
    n_classes : int
        K, at least 2.
    budget : Budget
        Not pure.
    neighboring_relation, accountant, **options
        As for :func:`dpfast.solvers.dp_whitened_gd.plan`.  "auto" takes half the `clip` of two
        classes; four times their iterations, at most 160, since steps are half as long (the
        curvature is bounded by twice that of two classes), up to twice as many for many classes,
        and fewer with momentum or few rows; and no `shrinkage`.  Steps get full ones at half the
        rows that two classes need, since `james_stein` draws to zero what is noise.
        docs/whitened.md has the evidence.
    """
    _check_served(shape, n_classes, budget, neighboring_relation, options)
    automatic = {
        name for name in dp_whitened_gd.SOLVER.options if options.get(name, "auto") == "auto"
    }
    affordable((), budget, accountant)  # refuses a budget that the accountant cannot limit
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    grouped = clips_groups(shape)
    consistent = dp_whitened_gd.check_consistent(options.pop("consistent", "auto"), automatic=True)
    if "shrinkage" in automatic:
        options["shrinkage"] = 0.0
    # The plan of two classes would draw weights to zero by the noise of two.
    james_stein = options.pop("james_stein", "auto")
    if james_stein == "auto":
        james_stein = not grouped
    else:
        check_flag("james_stein", james_stein)
    neighboring_relation = relation_of(neighboring_relation, shape.unit)
    base = dp_whitened_gd.plan(
        shape,
        budget,
        neighboring_relation=neighboring_relation,
        accountant=accountant,
        consistent=False,
        james_stein=False,
        **options,
    )
    settings = replace(
        base.settings,
        **_numbers(base.settings, shape, n_classes, u, automatic),
        curvature=CLASS_CURVATURE * shape.max_weight,
        classes=n_classes,
        consistent=consistent,
        james_stein=james_stein,
    )
    release = releases(budget_mu(budget, accountant), neighboring_relation)
    query: Query = ClassGradient(shape, settings.clip_norm, settings.limit, n_classes, consistent)
    if grouped:
        query = _groups.gradient_query(shape, settings.limit, neighboring_relation, n_classes)
    a_round = settings.learning_share / settings.rounds
    moments = tuple(
        release(a_round, _of_all_classes(mechanism, n_classes), mechanism.where)
        for mechanism in settings.learning.moments
    )
    settings = replace(
        settings,
        learning=replace(settings.learning, moments=moments),
        gradient=release(settings.gradient_share / settings.iterations, query, _GRADIENT),
    )
    plan = replace(
        base,
        accesses=dp_whitened_gd.accesses(settings),
        settings=settings,
        expected={},
    )
    assert affordable(plan.events, budget, accountant)
    return plan


def _check_served(
    shape: ProblemShape,
    n_classes: int,
    budget: Budget,
    neighboring_relation: str,
    options: Mapping[str, Any],
) -> None:
    """Refuse what a plan of several classes cannot be made for."""
    check_integer("n_classes", n_classes, low=2, high=2**20)
    if not shape.loss.multiclass:
        raise ValueError(f"loss must be 'logistic' for several classes; got {shape.loss.name!r}.")
    if shape.blocks is not None:
        raise ValueError(
            "problem must have its rows in memory for the multinomial loss, which needs the labels "
            "of all rows at once; got rows in blocks. Learn one class against the rest."
        )
    check_supported(dp_whitened_gd.SOLVER, budget, neighboring_relation)
    check_options(options, dp_whitened_gd.SOLVER.options, "multinomial regression")


def _numbers(
    of_two: Settings, shape: ProblemShape, n_classes: int, u: float, automatic: Set[str]
) -> dict[str, Any]:
    """What becomes of the settings of two classes, of which some may be chosen anew."""
    grouped = clips_groups(shape)
    steps, step, intercept_step = of_two.iterations, of_two.step, of_two.intercept_step
    if "intercept_step" in automatic:
        intercept_step = step  # counts know the intercepts, and no other settles them
    if "step" in automatic and not grouped:
        step = min(1.0, (u / _FULL) ** 1.5)  # what noise does then is drawn to zero
    if "iterations" in automatic:
        spared = 1.0 - _SPARED * of_two.momentum
        steps = max(1, round(_more_steps(n_classes, u) * spared * min(4 * steps, max(160, steps))))
    gradient_share, learning_share = of_two.gradient_share, of_two.learning_share
    if "learning_share" in automatic and not grouped:
        # Where rows are few, hardly more than the shares of the classes is learned.
        paid = with_counts(learning_share, weight_of_counts(u)) - learning_share
        paid = min(paid, _MOST_PAID * gradient_share)
        learning_share, gradient_share = learning_share + paid, gradient_share - paid
    # Two classes are one problem with slopes (s, -s): √2 times as long.
    clip_norm = _SQRT_2 * of_two.clip_norm
    if "clip" in automatic:
        clip_norm *= 0.5
    return {
        "iterations": steps,
        "step": step,
        "intercept_step": intercept_step,
        "gradient_share": gradient_share,
        "learning_share": learning_share,
        "clip_norm": clip_norm,
        "clip": clip_norm / (_SQRT_2 * math.sqrt(shape.dim)),
        "regime": regime(step, None),
    }


def _of_all_classes(mechanism: Gaussian, n_classes: int) -> ColumnParts:
    """The same moments, with counts of all classes."""
    query = mechanism.query
    assert isinstance(query, ColumnParts)
    weights = query.relative_weight, query.weight_of_lengths
    return ColumnParts(query.shape, query.radius, query.squares, n_classes, *weights)


def _more_steps(n_classes: int, u: float) -> float:
    """Up to twice the steps: the more classes, the less each is curved, and noise must allow it."""
    more = 1.0 + min(1.0, (n_classes - 2) / 8.0) * min(1.0, max(0.0, math.log2(u / 7.0)))
    return more * math.sqrt(min(1.0, u / _FEW))


def is_multinomial(plan: Plan[Any]) -> bool:
    """Whether a plan was made by :func:`plan_multinomial`."""
    return isinstance(plan.settings, Settings) and plan.settings.classes is not None


def run_multinomial(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Learn coordinates and descend in them, all classes at once, which are the problem's labels.

    The weights have the shape (K, dim), and their rows add up to zero; the history has the norms of
    the noisy gradients in the learned coordinates.
    """
    settings, shape = dp_whitened_gd.with_records(plan.settings, curator), plan.shape
    coordinates = learn(settings.learning, shape, curator)
    settings, coordinates = counted_classes(settings, shape, curator, coordinates)
    start = constant_of(coordinates, settings.classes or 0)
    v, norms, change, _ = descend(settings, shape, curator, coordinates, start=start)
    w = coordinates.weights(v, partial(weight_noise, settings, shape, change))
    return Outcome(
        np.ascontiguousarray(w.T),
        {"gradient_norm": norms},
        dp_whitened_gd.bounds_told(shape, coordinates.columns),
        column_ranges=coordinates.columns.ranges,
    )
