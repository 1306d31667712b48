r"""PrivGene: a genetic algorithm whose parents are chosen by the exponential mechanism.

Every generation is a list of candidate weights.  Some of them are chosen as parents, by the
exponential mechanism on their sums of losses clipped to ``[0, C]``; the next generation is the
parents and their children by crossover and mutation, which look at no data.  The best of the last
generation is chosen in the same way.  It needs no gradient and no bound of one, so any loss will
do, and it is a baseline: the number of choices, over which the budget is cut, grows with the
dimension that is to be searched.

Privacy: a choice is :class:`dpfast.mechanisms.Exponential` on
:class:`dpfast.queries.CandidateLosses`, of bounded range η: η-DP and ``η²/8``-zCDP.  The textbook's
rule, twice the largest change of a score, is η under `replace_one`; under `add_or_remove_one`,
where all scores move the same way, bounded range spares its factor of 2.  The "enhanced exponential
mechanism" of the source, which charges a choice less from a property of its own scores, is not
used: its claim has not been proved here, and without a proof the ledger gives no discount.

Sources: Zhang, Xiao, Yang, Zhang & Winslett 2013; a baseline of Lee & Kifer 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast._validation import check_integer, check_real
from dpfast.curator import Curator
from dpfast.mechanisms import Exponential
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget
from dpfast.privacy.calibration import budget_epsilon, budget_rho
from dpfast.queries import CandidateLosses
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import TYPICAL_MARGIN, Outcome, Plan, Solver, with_ridge

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator


NAME = "privgene"

_WHERE = "choice of a candidate"
# Of the size of mutations from one generation to the next.
_SHRINKAGE = 0.85


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan`."""

    mechanism: Exponential
    generations: int
    population: int
    parents: int
    loss_clip: float
    radius: float


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    generations: int = 15,
    population: int = 50,
    parents: int = 2,
    loss_clip: float | None = None,
    radius: float | None = None,
) -> Plan[Settings]:
    """Settle the choices and their noise from public quantities.

    Parameters
    ----------
    budget : Budget
        Cut evenly over the ``generations * parents + 1`` choices; with a delta by zCDP if that is
        cheaper.
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss.  None and "auto" take that of `shape`, or none at all.
    generations : int, default=15
        The source makes it proportional to n ε, with a factor that wants tuning.
    population : int, default=50
        Candidates in a generation.
    parents : int, default=2
        Candidates chosen in a generation.
    loss_clip : float or None, default=None
        ``C``; None is twice the loss at weights zero, or twice the largest slope if that has no
        bound.
    radius : float or None, default=None
        Bound of the norm of all candidates; None is 6 over the row norm.

    Raises
    ------
    GridOverflow
        If the budget of a choice is too small.
    """
    generations = check_integer("generations", generations, low=1, high=10**6)
    population = check_integer("population", population, low=2, high=10**6)
    parents = check_integer("parents", parents, low=1, high=population)
    shape = with_ridge(shape, alpha)
    if loss_clip is None:
        at_zero, slope = shape.loss.at_zero, shape.loss.lipschitz
        loss_clip = 2.0 * (at_zero if math.isfinite(at_zero) else slope)
        if not math.isfinite(loss_clip):
            raise ValueError(
                f"loss_clip must be given for the loss {shape.loss.name!r}, whose values have no "
                "public bound; got None."
            )
    loss_clip = check_real("loss_clip", loss_clip, low=1e-100, high=1e100)
    if radius is None:
        radius = TYPICAL_MARGIN / shape.row_norm
    radius = check_real("radius", radius, low=1e-100, high=1e100)

    choices = generations * parents + 1
    mechanism = Exponential.of_query(
        _epsilon(budget, choices, accountant),
        CandidateLosses(shape, population, loss_clip, radius),
        neighboring_relation,
        minimum=True,
        where=_WHERE,
    )
    return Plan(
        solver=NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=((mechanism, choices),),
        settings=Settings(
            mechanism=mechanism,
            generations=generations,
            population=population,
            parents=parents,
            loss_clip=loss_clip,
            radius=radius,
        ),
        # The chosen score is worse than the best by scale * log(population) at most, on average.
        expected={"noise_in_mean_loss": mechanism.scale * math.log(population) / shape.n_samples},
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Breed `generations` generations, then choose."""
    settings, rng = plan.settings, curator.public_rng
    size, radius = settings.population, settings.radius

    def choose(candidates: Matrix) -> Vector:
        chosen: Vector = candidates[curator.release(settings.mechanism, candidates)]
        return chosen

    candidates = _within(_spread(size, plan.shape.dim, radius, rng), radius)
    for generation in range(settings.generations):
        chosen = np.array([choose(candidates) for _ in range(settings.parents)])
        step = radius * _SHRINKAGE**generation
        children = _cross(chosen, size - len(chosen), rng)
        children += _spread(len(children), plan.shape.dim, step, rng)
        candidates = np.concatenate([chosen, _within(children, radius)])
    return Outcome(choose(candidates))


def _epsilon(budget: Budget, choices: int, accountant: str) -> float:
    """Return what one of the choices may cost."""
    by_zcdp = math.sqrt(8.0 * budget_rho(budget) / choices) if budget.kind != "pure" else 0.0
    if budget.kind == "zcdp" or accountant == "zcdp":
        return by_zcdp
    shared = budget_epsilon(budget) / choices
    return max(shared, by_zcdp) if accountant == "auto" else shared


def _spread(rows: int, dim: int, size: float, rng: SecureGenerator) -> Matrix:
    """Return rows of isotropic noise, of lengths spread evenly between 0 and `size`."""
    noise = rng.gaussian(rows * dim).reshape(rows, dim)
    lengths = size * (rng.uint64(rows) * 2.0**-64)
    result: Matrix = noise * (lengths / np.maximum(np.linalg.norm(noise, axis=1), 1e-300))[:, None]
    return result


def _cross(parents: Matrix, rows: int, rng: SecureGenerator) -> Matrix:
    """Return children each of whose coordinates is one of the parents', at random."""
    choice = (rng.uint64(rows * parents.shape[1]) % np.uint64(len(parents))).astype(np.intp)
    return parents[choice.reshape(rows, -1), np.arange(parents.shape[1])]


def _within(candidates: Matrix, radius: float) -> Matrix:
    norms = np.linalg.norm(candidates, axis=1)
    result: Matrix = candidates * np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None]
    return result


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("pure", "approximate", "zcdp"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    resumable=False,
    minimizes=False,
    expects="noise_in_mean_loss",
)
