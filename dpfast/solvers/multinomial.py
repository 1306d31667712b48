r"""Multinomial logistic regression: whitened private descent, all classes in one release.

``F(W) = (1/n) Σ_i -c_i log softmax(W x̃_i)_{y_i} + (α/2)‖W‖²``, W with a row for each of K classes.
The coordinates are learned once, and the descent is that of :mod:`dpfast.solvers.dp_whitened_gd`
too, on a matrix of weights: ``V``, ``W = V Tᵀ``, T the learned transform.

Privacy
-------
Coordinates: see there; they are functions of the rows alone.  Gradients: with ``p = softmax(W x̃)``
and ``z = Tᵀ x̃``, row i's gradient in V is the outer product of ``s = p - e_y`` and ``z``, of
Frobenius norm ``‖s‖ ‖z‖``; the kernel scales s so that this is at most C.  As
``‖s‖² = Σ_{k≠y} p_k² + (1 - p_y)² <= 2 (1 - p_y)² <= 2``, it is never longer than
``√2 ‖z‖``.  So the sum's l2 sensitivity is ``k C`` times the largest weight, ``k`` =
:func:`~dpfast.privacy.records_apart`: one Gaussian release of ``K dim`` numbers, where one against
the rest makes K releases of ``dim`` numbers that share a budget.

The entries of s add up to zero, and adding one vector to all rows of W changes no probability: the
part of the noise that is the same for all classes is removed, which is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._validation import check_integer
from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget, Ledger, PrivacyReport, records_apart
from dpfast.privacy.calibration import budget_mu
from dpfast.problem import Problem, ProblemShape
from dpfast.random import SecureGenerator
from dpfast.solvers import dp_whitened_gd
from dpfast.solvers._contract import Plan, check_supported

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_UNIT = 2.0**-53
_SQRT_2 = math.sqrt(2.0)
_GRADIENT = "gradient of all classes"
#: Bounds of the loss in the K margins: norm of the derivative, norm of the second derivative.
#: ``diag(p) - ppᵀ <= 1/2``, since its rows' absolute entries add up to ``2 p_k (1 - p_k) <= 1/2``.
SLOPE, CURVATURE = _SQRT_2, 0.5
# Rows behind one weight, times µ, below which full steps follow the noise; fewer than for two
# classes, whose shorter ones lost more than they saved here (scikit-learn's digits, ε from 0.2 on).
_HOPELESS = 1.3
# Iterations that a momentum of 1 would save.
_SPARED = 0.8


def plan_multinomial(
    shape: ProblemShape,
    n_classes: int,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    **options: Any,
) -> Plan:
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
        As for :func:`dpfast.solvers.dp_whitened_gd.plan`.  "auto" stands for half the `clip` there,
        and four times the iterations, or 160 if that is less, of which the momentum spares most:
        the curvature is bounded by twice that of two classes, so steps are half as long.  Steps
        are full ones and nothing is shrunk.  docs/whitened.md has the evidence.

    Returns
    -------
    Plan

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.
    """
    check_integer("n_classes", n_classes, low=2, high=2**20)
    if not shape.loss.multiclass:
        raise ValueError(f"loss must be 'logistic' for several classes; got {shape.loss.name!r}.")
    if shape.blocks is not None:
        raise ValueError(
            "problem must have its rows in memory for the multinomial loss, which needs the labels "
            "of all rows at once; got rows in blocks. Learn one class against the rest."
        )
    check_supported(dp_whitened_gd, budget, neighboring_relation)
    unknown = sorted(set(options) - set(dp_whitened_gd.OPTIONS))
    if unknown:
        raise ValueError(
            f"options must be among {', '.join(dp_whitened_gd.OPTIONS)} for multinomial "
            f"regression; got {', '.join(unknown)}."
        )
    Ledger(budget, accountant)  # refuses a budget that the accountant cannot limit
    u = dp_whitened_gd.rows_per_weight(shape, budget, neighboring_relation, accountant)
    step = min(1.0, (u / _HOPELESS) ** 1.5)
    automatic = {"step": step, "intercept_step": step, "shrinkage": 0.0, "james_stein": False}
    for name, value in automatic.items():
        if options.get(name, "auto") == "auto":
            options[name] = value
    base = dp_whitened_gd.plan(
        shape,
        budget,
        neighboring_relation=neighboring_relation,
        accountant=accountant,
        **options,
    )
    steps, limit = int(base.parameters["iterations"]), float(base.parameters["limit"])
    if options.get("iterations", "auto") == "auto":
        spared = 1.0 - _SPARED * float(base.parameters["momentum"])
        steps = max(1, round(_more_steps(n_classes, u) * spared * min(4 * steps, max(160, steps))))
    share = 1.0 - base.parameters["learning_share"] - base.parameters["correlation_share"]
    # Two classes are one problem with slopes (s, -s): √2 times as long.
    clip_norm = _SQRT_2 * float(base.parameters["clip_norm"])
    if options.get("clip", "auto") == "auto":
        clip_norm *= 0.5
    apart = records_apart(neighboring_relation)
    # As for a single gradient; a product with the K slopes more, and their norm.
    unit = 1.01 * _UNIT * (_additions(shape) + shape.dim + n_classes + 60) * shape.n_samples
    gradient = Gaussian.calibrate(
        Budget(mu=budget_mu(budget, accountant) * math.sqrt(share / steps)),
        sensitivity=apart * min(clip_norm, SLOPE * limit) * shape.max_weight,
        error=unit * SLOPE * shape.max_weight * limit,
        dimension=n_classes * shape.dim,
        neighboring_relation=neighboring_relation,
    )
    plan = replace(
        base,
        events=(*base.events[:-1], gradient.event(_GRADIENT, steps)),
        parameters=MappingProxyType(
            {
                **base.parameters,
                "gradient": gradient,
                "curvature": CURVATURE * shape.max_weight,
                "clip_norm": clip_norm,
                "clip": clip_norm / (_SQRT_2 * math.sqrt(shape.dim)),
                "iterations": steps,
                "classes": n_classes,
            }
        ),
        expected=MappingProxyType({}),
    )
    Ledger(budget, accountant).check(*plan.events, alone=True)
    return plan


def _more_steps(n_classes: int, u: float) -> float:
    """Up to twice the steps: the more classes, the less each is curved, and noise must allow it."""
    return 1.0 + min(1.0, (n_classes - 2) / 8.0) * min(1.0, max(0.0, math.log2(u / 7.0)))


def run_multinomial(
    plan: Plan, problem: Problem, labels: Vector, rng: SecureGenerator, ledger: Ledger
) -> Matrix:
    """Weights of shape (K, dim), private.

    Parameters
    ----------
    plan : Plan
        Of :func:`plan_multinomial`.
    problem : Problem
        Its targets are not used.
    labels : ndarray of shape (n_samples,)
        Classes 0, 1, ..., K - 1 as floating-point numbers.
    rng : SecureGenerator
    ledger : Ledger

    Returns
    -------
    ndarray of shape (K, dim)
        Its rows add up to zero.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    transform = dp_whitened_gd.learn_coordinates(plan, problem, rng, ledger)
    clip_norm = float(plan.parameters["clip_norm"])

    def gradient(view: Problem, w: Matrix) -> Matrix:
        return multinomial_gradient(view, labels, w.T, clip_norm)[0].T

    classes = int(plan.parameters["classes"])
    w, _ = dp_whitened_gd.descend(plan, problem, transform, gradient, rng, ledger, classes=classes)
    return np.ascontiguousarray(w.T)


def solve_multinomial(
    problem: Problem,
    labels: Vector,
    n_classes: int,
    budget: Budget,
    *,
    accountant: str = "auto",
    random_state: Any = None,
    notes: tuple[str, ...] = (),
    verbose: bool = False,
    **settings: Any,
) -> tuple[Matrix, PrivacyReport, Plan]:
    """Plan, spend and run.

    Parameters
    ----------
    problem, labels
        As for :func:`run_multinomial`.
    n_classes, budget, accountant, **settings
        As for :func:`plan_multinomial`.
    random_state, notes
        As for :func:`dpfast.solve`.
    verbose : bool, default=False
        Print the plan before anything is spent.

    Returns
    -------
    weights : ndarray of shape (n_classes, dim)
    report : PrivacyReport
    plan : Plan

    Raises
    ------
    TypeError, ValueError, BudgetExceeded
        As for :func:`dpfast.solve`; nothing is spent.
    """
    settled = plan_multinomial(problem.shape, n_classes, budget, accountant=accountant, **settings)
    if verbose:
        print(f"{n_classes} classes, multinomial:\n{settled}")
    ledger = Ledger(budget, accountant)
    ledger.check(*settled.events)
    rng = SecureGenerator(random_state)
    weights = run_multinomial(settled, problem, labels, rng, ledger)
    report = PrivacyReport.from_ledger(
        ledger, reproducible=rng.reproducible, notes=(*problem.leaks, *notes)
    )
    return weights, report, settled


def multinomial_gradient(
    problem: Problem, labels: Vector, w: Matrix, clip_norm: float = math.inf
) -> tuple[Matrix, float]:
    """Sum of the rows' gradients and of their losses, in one read of X; **not private**.

    Parameters
    ----------
    problem : Problem
        Its targets are not used. Rows are clipped by the lengths of
        :meth:`dpfast.Problem.clipped_by`, and not at all without these.
    labels : ndarray of shape (n_samples,)
    w : ndarray of shape (K, dim)
    clip_norm : float, default=inf

    Returns
    -------
    gradient : ndarray of shape (K, dim)
    loss_sum : float
    """
    w = np.ascontiguousarray(w)

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> tuple[Matrix, float]:
        out = np.empty_like(w)
        loss = _kernels.multinomial_sum(kernel, first, last, labels[start:stop], w, clip_norm, out)
        return out, loss

    total, losses = np.zeros_like(w), 0.0
    for part, loss in problem.map_blocks(work):
        total += part
        losses += loss
    return total, losses


def _additions(shape: ProblemShape) -> int:
    """Longest chain of additions in a sum over all rows: within blocks, blocks, chunks."""
    chunk = min(shape.chunk_rows(), shape.n_samples)
    # The kernel's blocks have 8 to 1024 dense rows, or all rows of the chunk if they are sparse.
    return shape.additions() + chunk // 8 + 1 + -(-shape.n_samples // chunk)
