"""What the stochastic solvers share: batches, ridges, step sizes, and the least noise for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_integer, check_real
from dpfast.fused import SampledSteps
from dpfast.privacy import SAMPLINGS, Budget, Event, records_apart, relation_of, unit_of
from dpfast.privacy.calibration import budget_mu
from dpfast.privacy.sampled_noise import (
    check_priced,
    least_admitted,
    noise_multiplier,
    sampled_unit_events,
)
from dpfast.queries import BatchSum
from dpfast.queries.gradient import within_norm
from dpfast.shape import ProblemShape

SCHEDULES: Mapping[str, Callable[[Vector], Vector]] = {
    "constant": np.ones_like,
    "1/sqrt(t)": lambda t: 1.0 / np.sqrt(t),
    "1/t": lambda t: 1.0 / t,
}
"""Step sizes relative to the first, at t = 1, 2, ..."""

# Parts in which a run is charged: an interruption loses the rest of a part.
_PARTS = 16


def default_sampling(sampling: str, neighboring_relation: str) -> str:
    """The sampling that is asked for, or for "auto" the one that the relation is analyzed with."""
    check_choice("sampling", sampling, ("auto", *SAMPLINGS))
    unit = unit_of(neighboring_relation)
    right = next(
        name for name, pair in SAMPLINGS.items() if relation_of(pair, unit) == neighboring_relation
    )
    if sampling not in ("auto", right):
        raise ValueError(
            f"sampling must be {right!r} with neighboring_relation={neighboring_relation!r}: "
            f"amplification by {sampling!r} sampling is proved for "
            f"{SAMPLINGS[sampling]!r} only, where a record's change leaves the other rows' "
            f"chances as they were; got {sampling!r}."
        )
    return right


def default_batch(batch: int | str, n_samples: int) -> int:
    """The batch that is asked for; "auto" is ``√n``, "full" all rows."""
    if batch == "auto":
        return max(1, round(math.sqrt(n_samples)))
    if batch == "full":
        return n_samples
    return check_integer("batch", batch, low=1, high=n_samples)


def natural_norm(shape: ProblemShape) -> float:
    """The bound of a row's gradient before its weight that the loss guarantees."""
    return shape.loss.lipschitz * shape.row_norm


def settle_clip_norm(clip_norm: float | None, shape: ProblemShape) -> float:
    """The bound of a row's gradient before its weight: what is asked for, or the loss's own."""
    if clip_norm is not None:
        clip_norm = check_real("clip_norm", clip_norm, low=1e-100, high=1e100)
    return within_norm(clip_norm, natural_norm(shape), shape)


def balanced_time(
    shape: ProblemShape, budget: Budget, relation: str, clip_norm: float, minimizer_norm: float
) -> float:
    """The sum of the step sizes at which noise costs what the descent still gains."""
    influence = records_apart(relation) * clip_norm * shape.max_weight
    time = minimizer_norm * shape.n_samples * budget_mu(budget)
    return time / (influence * math.sqrt(shape.dim))


def least_noisy_steps(
    query: BatchSum,
    budget: Budget,
    accountant: str,
    neighboring_relation: str,
    *,
    n_steps: int,
    noise: str = "auto",
    multiplier: float | None = None,
) -> SampledSteps:
    """Steps with the least noise, from `multiplier` up, that a ledger admits for all of them."""
    check_priced(accountant, query.sampling, neighboring_relation)
    if multiplier is None:
        key = (neighboring_relation, query.sampling, query.batch, query.shape.n_samples, n_steps)
        multiplier = noise_multiplier(budget, accountant, sampled_unit_events, *key)

    def made(multiplier: float) -> tuple[SampledSteps, tuple[Event, ...]]:
        steps = SampledSteps(query, multiplier, neighboring_relation, n_steps=n_steps, noise=noise)
        return steps, steps.named("noisy steps").events()

    return least_admitted(made, multiplier, budget, accountant)


def step_sizes(first: float, schedule: str) -> Callable[[int, int], Vector | float]:
    """The sizes of the steps from one number to before another."""

    def sizes(start: int, stop: int) -> Vector | float:
        if schedule == "constant":
            return first
        return first * SCHEDULES[schedule](np.arange(start + 1.0, stop + 1.0))

    return sizes


def parts(n_steps: int) -> list[tuple[int, int]]:
    """The parts of a run that are paid for together: numbers of the first step and of steps."""
    count = min(_PARTS, n_steps)
    edges = [n_steps * k // count for k in range(count + 1)]
    return [(a, b - a) for a, b in pairwise(edges)]
