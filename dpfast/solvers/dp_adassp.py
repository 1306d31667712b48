r"""Least squares from private sums, with a ridge that adapts to the noise (AdaSSP).

The squared loss has no bounded slope, so one row's gradient is unbounded; but the minimizer is a
function of two sums over the rows, ``G = Σ c_i x̃_i x̃_iᵀ`` and ``v = Σ c_i x̃_i t_i``, to which a row
contributes a bounded amount.  Both are released at once with Gaussian or l2-Laplace noise, and

    ``w = (G̃ + αn P + λ I)⁻¹ ṽ``,    ``λ = max(0, ψ - λ_min(G̃ + αn P))``,

is post-processing; ``P`` is the identity, but for a 0 where the intercept is.  ``ψ`` is a multiple
of the noise matrix's typical norm ``2 √d σ``: below it an eigenvalue is mostly noise, whose inverse
must not reach the weights.  Declared categories of which the noisy squares show no rows have
weights within the largest of the others'.

Before that, a few rounds of noisy counts find where the targets lie between their bounds
(`dpfast/solvers/_target_range.py`): the noise in ``ṽ`` is in proportion to their range, and a range
that is learned is as narrow as the targets' own, whatever was declared.

The sums are one release (:class:`~dpfast.queries.ProductSums`).  The ridge `alpha` is
data-independent.

Sources: Wang 2018 (Algorithm 2, AdaSSP), who releases ``λ_min`` and both sums separately; here the
smallest eigenvalue is read from ``G̃``, and the sums share one release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dpfast._typing import Matrix, Vector
from dpfast._validation import check_integer, check_real
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, records_apart
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import ProductSums, symmetric
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import Outcome, Plan, Solver, check_alpha, check_shape
from dpfast.solvers._coordinates import declared
from dpfast.solvers._doubtful import within_others
from dpfast.solvers._lengths import said_of_lengths
from dpfast.solvers._shares import releases
from dpfast.solvers._target_range import ROUNDS, Place, TargetRange, learn_range, planned, share

NAME = "dp-adassp"

_SUMS = "sums of products"
# Accountants that price one l2-Laplace release and no Gaussian one.
_PURE = ("pure", "optimal")
# Accountants that add up the releases of a run by their squares.
_GAUSSIAN = ("auto", "gdp")
# Matrices of dim (dim + 1) / 2 noisy entries; beyond this they would not fit in memory.
MAX_DIM = 10_000
# A category has rows if the sum of its squares is above so many deviations of the noise in it.
_SEEN = 2.1


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    mechanism: Gaussian | L2Laplace
    target_range: TargetRange | None
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
    target_rounds: int | str = "auto",
) -> Plan[Settings]:
    """Settle the noise of the sums from public quantities.

    Parameters
    ----------
    shape : ProblemShape
        Of the squared loss.
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss, which leaves the intercept alone, and to which the adaptive ridge is
        added.  None takes that of `shape`, or "auto", which is 0, if it has none.
    target_bound : float, default=1.0
        Public bound of the targets' absolute values; targets beyond are clipped.
    floor : float, default=0.5
        Smallest eigenvalue of the system that is solved, in units of the norm that the noise
        matrix typically has; > 0.
    target_rounds : int or "auto"
        Rounds in which the range of the targets is learned, 0 for none; "auto" is 5 where privacy
        is Gaussian, and none otherwise.
    """
    other = "The huber loss with a large threshold is solved by other solvers."
    check_shape(NAME, shape, refusal(shape.loss), MAX_DIM, other)
    ridge = check_alpha(alpha, shape)
    target_bound = check_real("target_bound", target_bound, low=1e-100, high=1e100)
    floor = check_real("floor", floor, low=0.0, low_open=True, high=1e100)

    pure = budget.kind == "pure" or accountant in _PURE
    if target_rounds == "auto":
        target_rounds = 0 if pure or accountant not in _GAUSSIAN else ROUNDS
    rounds = check_integer("target_rounds", target_rounds, low=0, high=100)
    if rounds > 0 and pure:
        raise ValueError(
            f"target_rounds must be 0 for pure privacy, which pays for one release; got {rounds}."
        )

    query = ProductSums(shape, target_bound)
    target_range = None
    mechanism: Gaussian | L2Laplace
    if pure:
        mechanism = L2Laplace.calibrate(budget, query, neighboring_relation, where=_SUMS)
    elif rounds > 0:
        mu = budget_mu(budget, accountant)
        for_range = share(mu * shape.n_samples / math.sqrt(records_apart(neighboring_relation)))
        release = releases(mu, neighboring_relation)
        target_range = planned(shape, target_bound, rounds, for_range, release)
        mechanism = release(1.0 - for_range, query, _SUMS)
    else:
        mechanism = Gaussian.calibrate(
            budget, query, neighboring_relation, accountant=accountant, where=_SUMS
        )
    return Plan(
        solver=NAME,
        shape=shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=(*(target_range.accesses if target_range else ()), (mechanism, 1)),
        settings=Settings(
            mechanism=mechanism,
            target_range=target_range,
            noise="gaussian" if isinstance(mechanism, Gaussian) else "l2-laplace",
            target_bound=target_bound,
            target_factor=query.target_factor,
            ridge=ridge or 0.0,
            least_eigenvalue=floor * 2.0 * math.sqrt(shape.dim) * mechanism.stddev,
        ),
        expected={"noise_stddev_per_row": mechanism.stddev / shape.n_samples},
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Spend, add up, perturb, and solve the normal equations."""
    settings, dim, n = plan.settings, plan.shape.dim, plan.shape.n_samples
    place = Place(0.0, settings.target_bound, 0.0)
    if settings.target_range is not None:
        place = learn_range(settings.target_range, curator)
    center, half = place.center, place.half
    noisy = curator.release(settings.mechanism, center, half)
    gram = symmetric(noisy[:-dim], dim)
    moments = noisy[-dim:] / settings.target_factor * (half / settings.target_bound)
    # The constant takes up the center.
    shift = np.zeros(dim)
    if center != 0.0:
        shift[-1] = center / plan.shape.intercept
    features = plan.shape.n_features
    drawn = np.zeros(dim)
    drawn[:features] = n * settings.ridge
    values, vectors = scipy.linalg.eigh(gram + np.diag(drawn))
    ridge = max(0.0, settings.least_eigenvalue - float(values[0]))
    w: Vector = shift + vectors @ ((vectors.T @ moments) / (values + ridge))
    unseen = np.diag(gram)[:features] <= _SEEN * math.sqrt(2.0) * settings.mechanism.stddev
    unseen &= declared(plan.shape, "one-hot")
    w[:features] = within_others(w[:features], unseen, 1.0)
    # Three deviations of the trace's noise more: too long rather than too short.
    noise = 3.0 * math.sqrt(2.0 * features) * plan.expected["noise_stddev_per_row"]
    mean_square = float(np.trace(gram[:features, :features])) / n + noise
    said = said_of_lengths(plan.shape, mean_square)
    if settings.target_range is None:
        return Outcome(w, said=said)
    margins = _mean_and_deviation(w, gram, plan)
    return Outcome(w, said=said + place.said(), prediction_range=place.kept(*margins))


def _mean_and_deviation(w: Vector, gram: Matrix, plan: Plan[Settings]) -> tuple[float, float]:
    """Of the rows' margins, as far as the noisy sums tell."""
    constant, count = plan.shape.intercept, plan.shape.n_features
    rows, mean, of_columns = plan.shape.n_samples * plan.shape.max_weight, 0.0, w[:count]
    if constant != 0.0:
        # Weights may be small: their sum is one of the entries.
        least = plan.expected["noise_stddev_per_row"] * plan.shape.n_samples
        rows = min(rows, max(float(gram[-1, -1]) / constant**2, least))
        mean = float(gram[-1, :count] @ of_columns) / (rows * constant)
    square = float(of_columns @ gram[:count, :count] @ of_columns) / rows
    return mean + constant * float(w[-1]), math.sqrt(max(0.0, square - mean**2))


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
    penalizes_intercept=False,
    exact={"target_rounds": 0},
    loss="squared",
    max_dim=MAX_DIM,
    refusal=refusal,
)
