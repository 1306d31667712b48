r"""Least squares from private sums, with a ridge that adapts to the noise (AdaSSP).

The squared loss has no bounded slope, so one row's gradient is unbounded; but the minimizer is a
function of two sums over the rows, ``G = Σ c_i x̃_i x̃_iᵀ`` and ``v = Σ c_i x̃_i t_i``, to which a row
contributes a bounded amount.  Both are released at once with Gaussian or l2-Laplace noise, and

    ``w = (G̃ + (αn + λ) I)⁻¹ ṽ``,    ``λ = max(0, ψ - λ_min(G̃) - αn)``,

is post-processing.  ``ψ`` is a multiple of the noise matrix's typical norm ``2 √d σ``: below it an
eigenvalue of ``G̃`` is mostly noise, whose inverse must not reach the weights.

The sums are one release (:class:`~dpfast.queries.ProductSums`).  The ridge `alpha` is
data-independent.

Sources: Wang 2018 (Algorithm 2, AdaSSP), who releases ``λ_min`` and both sums separately; here the
smallest eigenvalue is read from ``G̃``, and the sums share one release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpfast._validation import check_real
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget
from dpfast.queries import ProductSums, upper_triangle
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import Outcome, Plan, Solver
from dpfast.solvers._lengths import said_of_lengths

Vector = NDArray[np.float64]

NAME = "dp-adassp"

_SUMS = "sums of products"
# Accountants that price one l2-Laplace release and no Gaussian one.
_PURE = ("pure", "optimal")
# Matrices of dim (dim + 1) / 2 noisy entries; beyond this they would not fit in memory.
MAX_DIM = 10_000


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    mechanism: Gaussian | L2Laplace
    noise: str
    target_bound: float
    target_factor: float
    ridge: float
    least_eigenvalue: float


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    target_bound: float = 1.0,
    floor: float = 0.5,
) -> Plan[Settings]:
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

    query = ProductSums(shape, target_bound)
    mechanism: Gaussian | L2Laplace
    if budget.kind == "pure" or accountant in _PURE:
        mechanism = L2Laplace.calibrate(budget, query, neighboring_relation, where=_SUMS)
        # E‖z‖² = D (D + 1) scale² for this law.
        stddev = math.sqrt(mechanism.dimension + 1.0) * mechanism.scale
    else:
        mechanism = Gaussian.calibrate(
            budget, query, neighboring_relation, accountant=accountant, where=_SUMS
        )
        stddev = mechanism.stddev
    return Plan(
        solver=NAME,
        shape=shape if alpha == "auto" else shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=((mechanism, 1),),
        settings=Settings(
            mechanism=mechanism,
            noise="gaussian" if isinstance(mechanism, Gaussian) else "l2-laplace",
            target_bound=target_bound,
            target_factor=query.target_factor,
            ridge=ridge,
            least_eigenvalue=floor * 2.0 * math.sqrt(shape.dim) * stddev,
        ),
        expected=MappingProxyType({"noise_stddev_per_row": stddev / shape.n_samples}),
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Spend, add up, perturb, and solve the normal equations.

    Returns
    -------
    Outcome

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford the release; the data is not touched.
    """
    settings, dim, n = plan.settings, plan.shape.dim, plan.shape.n_samples
    noisy = curator.release(settings.mechanism)
    upper, entries = upper_triangle(dim)
    gram = np.zeros((dim, dim))
    gram[upper] = noisy[:-dim] / entries
    gram += np.triu(gram, 1).T
    moments = noisy[-dim:] / settings.target_factor
    values, vectors = scipy.linalg.eigh(gram)
    ridge = max(n * settings.ridge, settings.least_eigenvalue - float(values[0]))
    w: Vector = vectors @ ((vectors.T @ moments) / (values + ridge))
    # Three deviations of the trace's noise more: too long rather than too short.
    features = plan.shape.n_features
    noise = 3.0 * math.sqrt(2.0 * features) * plan.expected["noise_stddev_per_row"]
    mean_square = float(np.trace(gram[:features, :features])) / n + noise
    return Outcome(w, said=said_of_lengths(plan.shape, mean_square))


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the method, or None if it will do."""
    return None if loss.quadratic else "'squared', whose minimizer two sums determine"


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("pure", "approximate", "zcdp", "gdp"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    weighs_groups=True,
    resumable=True,
    minimizes=True,
    expects="noise_stddev_per_row",
    loss="squared",
    max_dim=MAX_DIM,
    refusal=refusal,
)
