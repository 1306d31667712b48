r"""Least squares from private sums, with a ridge that adapts to the noise (AdaSSP).

The squared loss has no bounded slope, so one row's gradient is unbounded; but the minimizer is a
function of two sums over the rows, ``G = Σ c_i x̃_i x̃_iᵀ`` and ``v = Σ c_i x̃_i t_i``, to which a row
contributes a bounded amount.  Both are released at once with Gaussian or l2-Laplace noise, and

    ``w = (G̃ + (αn + λ) I)⁻¹ ṽ``,    ``λ = max(0, ψ - λ_min(G̃) - αn)``,

is post-processing.  ``ψ`` is a multiple of the noise matrix's typical norm ``2 √d σ``: below it an
eigenvalue of ``G̃`` is mostly noise, whose inverse must not reach the weights.

Privacy
-------
One row contributes ``u = c (U(x̃ x̃ᵀ), ω t x̃)``: ``U`` takes the upper triangle with its diagonal
divided by ``√2``, so that ``‖U(x̃ x̃ᵀ)‖² = ‖x̃‖⁴/2`` and ``<U(A), U(B)> = tr(A B)/2`` for symmetric A
and B.  With ``‖x̃‖ <= R``, ``|t| <= T`` (targets are clipped), ``0 <= c <= C`` and ``s = ω T / R``:

* `add_or_remove_one`: ``‖u‖ <= C R² √(1/2 + s²)``.
* `replace_one`: ``‖u - u'‖ <= C R² (1 + s²)`` if ``s <= 1``.  ``‖u - u'‖²`` is convex in the
  weights ``(c, c')`` and in ``(t, t')``, so it is largest at the ends of their ranges.  With a
  weight of 0 it is the square above, which is smaller.  With both weights C, in units of ``C R²``,
  and with ``a = ‖x̃‖²/R²``, ``b = ‖x̃'‖²/R²``, ``z = <x̃, x̃'>/R²``, it is at
  most ``(a² + b²)/2 - z² + s² (a + b + 2|z|) <= 1 - z² + 2 s² (1 + |z|)``, which is largest at
  ``|z| = s²``, where it is ``(1 + s²)²``.  Both contributions cannot be at their farthest at once,
  which is what adding up their separate sensitivities would charge.

Rounding: the floating-point sum differs from the exact one by at most ``m u Σ ‖u_i‖`` (m additions
an entry, u = 2^-53), which is charged.  The ridge `alpha` is data-independent.

Sources: Wang 2018 (Algorithm 2, AdaSSP), who releases ``λ_min`` and both sums separately; here the
smallest eigenvalue is read from ``G̃``, and the sums share one release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpfast._validation import check_real
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, Ledger, records_apart
from dpfast.problem import Problem, ProblemShape
from dpfast.random import SecureGenerator
from dpfast.solvers._contract import Outcome, Plan
from dpfast.solvers.dp_whitened_gd import upper_triangle

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NAME = "dp-adassp"
OPTIONS = ("alpha", "target_bound", "floor")
BUDGET_KINDS = ("pure", "approximate", "zcdp", "gdp")
RELATIONS = NEIGHBORING_RELATIONS
MINIMIZES = True
EXACT: Mapping[str, Any] = MappingProxyType({})
EXPECTS = "noise_stddev_per_row"
LOSS = "squared"

_UNIT = 2.0**-53
_SUMS = "sums of products"
# s² of the proof: with weights of margins about as large as the targets, the variances of both
# sums' noise in the normal equations add up to (1 + s²)³ / s², least at 1/2.
_TARGET_SHARE = 0.5
# Accountants that price one l2-Laplace release and no Gaussian one.
_PURE = ("pure", "optimal")
# Matrices of dim (dim + 1) / 2 noisy entries; beyond this they would not fit in memory.
MAX_DIM = 10_000


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    target_bound: float = 1.0,
    floor: float = 0.5,
) -> Plan:
    """Settle the noise of the sums from public quantities.

    Parameters
    ----------
    shape : ProblemShape
        Of the squared loss.
    budget : Budget
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    accountant : str, default="auto"
        The accountant of the ledger that will be charged.
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss, to which the adaptive ridge is added.  None takes that of `shape`,
        or "auto", which is 0, if it has none.
    target_bound : float, default=1.0
        Public bound of the targets' absolute values; targets beyond are clipped.
    floor : float, default=0.5
        Smallest eigenvalue of the system that is solved, in units of the norm that the noise
        matrix typically has; > 0.

    Returns
    -------
    Plan

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the loss is not the squared one.
    """
    reason = refusal(shape.loss)
    if reason is not None:
        raise ValueError(f"loss must be {reason}, for {NAME}; got {shape.loss.name!r}.")
    if shape.dim > MAX_DIM:
        raise ValueError(
            f"X must have at most {MAX_DIM} columns for {NAME}; got {shape.n_features}. "
            "The huber loss with a large threshold is solved by other solvers."
        )
    if alpha is None:
        alpha = shape.alpha if shape.alpha is not None else "auto"
    ridge = 0.0
    if alpha != "auto":
        ridge = check_real("alpha", alpha, low=1e-100, high=1e100, hint='Or pass "auto".')
    target_bound = check_real("target_bound", target_bound, low=1e-100, high=1e100)
    floor = check_real("floor", floor, low=0.0, low_open=True, high=1e100)

    dim, n = shape.dim, shape.n_samples
    share = _TARGET_SHARE
    largest = shape.max_weight * shape.row_norm**2
    single = largest * math.sqrt(0.5 + share)
    sensitivity = single if records_apart(neighboring_relation) == 1 else largest * (1.0 + share)
    settings: dict[str, Any] = {
        "sensitivity": sensitivity * (1.0 + 16.0 * _UNIT),
        "error": 1.01 * _UNIT * (shape.gram_additions() + 40) * n * single,
        "dimension": dim * (dim + 1) // 2 + dim,
        "neighboring_relation": neighboring_relation,
        # Sums that are clamped would still be private, and wrong.
        "bound": n * largest * (1.0 + 1e-6),
    }
    mechanism: Gaussian | L2Laplace
    if budget.kind == "pure" or accountant in _PURE:
        mechanism = L2Laplace.calibrate(budget, **settings)
        # E‖z‖² = D (D + 1) scale² for this law.
        stddev = math.sqrt(mechanism.dimension + 1.0) * mechanism.scale
    else:
        mechanism = Gaussian.calibrate(budget, accountant=accountant, **settings)
        stddev = mechanism.stddev
    return Plan(
        solver=NAME,
        shape=shape if alpha == "auto" else shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        events=(mechanism.event(_SUMS),),
        parameters=MappingProxyType(
            {
                "mechanism": mechanism,
                "noise": "gaussian" if isinstance(mechanism, Gaussian) else "l2-laplace",
                "target_bound": target_bound,
                "target_factor": math.sqrt(share) * shape.row_norm / target_bound,
                "ridge": ridge,
                "least_eigenvalue": floor * 2.0 * math.sqrt(dim) * stddev,
            }
        ),
        expected=MappingProxyType({EXPECTS: stddev / n}),
    )


def run(plan: Plan, problem: Problem, rng: SecureGenerator, ledger: Ledger) -> Outcome:
    """Spend, add up, perturb, and solve the normal equations.

    Returns
    -------
    Outcome

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford the release; the data is not touched.
    """
    parameters, dim, n = plan.parameters, plan.shape.dim, plan.shape.n_samples
    factor = float(parameters["target_factor"])
    target_bound = float(parameters["target_bound"])
    noisy = parameters["mechanism"].release(
        lambda: _sums(problem, target_bound, factor), rng=rng, ledger=ledger, where=_SUMS
    )
    upper, entries = upper_triangle(dim)
    gram = np.zeros((dim, dim))
    gram[upper] = noisy[:-dim] / entries
    gram += np.triu(gram, 1).T
    moments = noisy[-dim:] / factor
    values, vectors = scipy.linalg.eigh(gram)
    ridge = n * float(parameters["ridge"])
    ridge = max(ridge, float(parameters["least_eigenvalue"]) - float(values[0]))
    w: Vector = vectors @ ((vectors.T @ moments) / (values + ridge))
    return Outcome(w)


def _sums(problem: Problem, target_bound: float, factor: float) -> Vector:
    """Upper triangle of ``Σ c x̃ x̃ᵀ``, its diagonal over ``√2``, and ``ω Σ c x̃ t``."""
    parts = problem.map_shards(partial(_shard_sums, target_bound=target_bound, factor=factor))
    total = next(parts)
    for part in parts:
        total += part
    return total


def _shard_sums(problem: Problem, target_bound: float, factor: float) -> Vector:
    """:func:`_sums` of rows that are one array."""
    clipped = problem.with_target(np.clip(problem.target, -target_bound, target_bound))
    # The gradient of the squared loss at zero.
    moments = -clipped.clipped_gradient(np.zeros(problem.shape.dim))[0]
    upper, entries = upper_triangle(problem.shape.dim)
    return np.concatenate([problem.gram()[upper] * entries, factor * moments])


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the method, or None if it will do."""
    return None if loss.quadratic else f"{LOSS!r}, whose minimizer two sums determine"
