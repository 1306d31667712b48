r"""Noisy steps over random batches, taken in C.

One step releases ``Σ_{i in B} clip(g_i) + noise`` over a batch ``B`` that is drawn afresh and kept
secret (:class:`~dpfast.queries.BatchSum` states the sensitivity); weights, velocity and average are
functions of these sums and of public numbers.

Poisson sampling is paired with `add_or_remove_one`, batches of fixed size with `replace_one`; the
event refuses any other pair, since the amplification is proved for these.  Both samplers are exact
(integer arithmetic, ``dpfast._kernels.draw_batch``).  A Poisson batch beyond a public capacity,
which one in ``2^200`` is, is drawn again; this moves the law of a step by ``2^-200`` in total
variation, and no more than that is lost in delta at any number of steps that a machine can do.

Two kinds of noise:

- "discrete": the sum is rounded to a grid and an exact discrete Gaussian is added in integers, as
  :class:`dpfast.mechanisms.Gaussian` does.  That mechanism is a post-processing of continuous
  Gaussian noise on the rounded sum, whatever the batch, so the analysis of the subsampled Gaussian
  covers it; rounding and summation are charged to the sensitivity.
- "gaussian": a floating-point Gaussian (53 bits) from the same secure stream is added, and the
  result rounded to a grid of ``2^-24`` standard deviations, which hides the low bits that
  floating-point attacks read (Mironov 2012).  Rounding the noisy sum is post-processing.  What is
  not exact is the noise itself: its law deviates from a Gaussian's by the rounding of 53-bit
  numbers, which the guarantee neglects: so it is never the default, and the ledger names it.  It is
  some five times faster, for runs of very many steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpfast import _kernels
from dpfast._typing import Vector
from dpfast._validation import check_choice, check_integer
from dpfast.mechanisms import Access, Gaussian, check_size
from dpfast.privacy import SubsampledGaussianEvent
from dpfast.queries import BatchSum
from dpfast.random import SecureGenerator
from dpfast.sums import RowAccess

NOISES = ("auto", "discrete", "gaussian")

# Steps whose sizes are written out at once.
_SLICE_STEPS = 2**16
# The grid of floating-point noise, in steps of the exact mechanism's grid: 2^-24 of the noise.
_COARSER = 2.0**8
# Of the multiplier: rounding in the mechanism's constructor.
_HAIR = 1.0 + 1e-9


@dataclass(frozen=True)
class State:
    """Where a run of steps is; all of it is released."""

    w: Vector
    velocity: Vector | None = None
    average: Vector | None = None


@dataclass(frozen=True)
class Walk:
    """How the steps are taken; all of it is public.

    Attributes
    ----------
    sizes : callable
        From the numbers of the first step and of the one after the last to their sizes.
    average_weight : callable or None
        The same for their weights in the average.
    alpha, w_radius, momentum : float
        Ridge, radius of the ball onto which iterates are projected, momentum.
    snapshot, snapshot_gradient : ndarray of shape (dim,) or None
        Of a sum of differences: the point, and the noisy mean gradient there.
    """

    sizes: Callable[[int, int], Vector | float]
    average_weight: Callable[[int, int], Vector] | None = None
    alpha: float = 0.0
    w_radius: float = math.inf
    momentum: float = 0.0
    snapshot: Vector | None = None
    snapshot_gradient: Vector | None = None


class SampledSteps(Access[State]):
    """Some noisy steps, paid for together; released is where they end.

    Parameters
    ----------
    query : BatchSum
    multiplier : float
        Standard deviation of the noise per unit of charged sensitivity.
    neighboring_relation : str
    n_steps : int
        Steps that are paid for.
    noise : {"auto", "discrete", "gaussian"}
        "gaussian" is floating-point noise, several times faster and not exact: its events say so.
        "auto" is "discrete".
    """

    def __init__(
        self,
        query: BatchSum,
        multiplier: float,
        neighboring_relation: str,
        *,
        n_steps: int,
        noise: str = "auto",
    ) -> None:
        if not isinstance(query, BatchSum):
            raise TypeError(f"query must be a BatchSum; got {type(query).__name__}.")
        check_choice("noise", noise, NOISES)
        self.noise = "discrete" if noise == "auto" else noise
        self._sum, self._first, self._n_steps = query, 0, n_steps
        self.shape = query.shape
        settings: dict[str, Any] = {
            "sensitivity": query.sensitivity(neighboring_relation),
            "dimension": query.dimension,
            "neighboring_relation": neighboring_relation,
            "error": query.rounding_error(),
        }
        mechanism = Gaussian(multiplier * settings["sensitivity"], **settings)
        while mechanism.stddev < multiplier * mechanism.charged_sensitivity:
            mechanism = Gaussian(multiplier * mechanism.charged_sensitivity * _HAIR, **settings)
        self._mechanism = mechanism

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise of a sum, in each coordinate."""
        return self._mechanism.stddev

    @property
    def noise_multiplier(self) -> float:
        """The same per unit of charged sensitivity."""
        return self._event(1).noise_multiplier

    def part(self, first: int, n_steps: int, where: str) -> SampledSteps:
        """The steps numbered `first`, ... of a run, as an access of their own."""
        other = self.named(where)
        other.__dict__.update(
            _first=check_integer("first", first, low=0),
            _n_steps=check_integer("n_steps", n_steps, low=1),
        )
        return other

    def events(self, count: int = 1) -> tuple[SubsampledGaussianEvent, ...]:
        """Return what `count` times these steps are charged as."""
        return self._once if count == 1 else (self._event(count * self._n_steps),)

    @cached_property
    def _once(self) -> tuple[SubsampledGaussianEvent, ...]:
        return (self._event(self._n_steps),)

    def _event(self, count: int) -> SubsampledGaussianEvent:
        exactness = "" if self.noise == "discrete" else ", floating-point noise"
        return SubsampledGaussianEvent(
            sensitivity=self._mechanism.charged_sensitivity,
            stddev=self._mechanism.stddev,
            dimension=self._mechanism.dimension,
            neighboring_relation=self._mechanism.neighboring_relation,
            batch=self._sum.batch,
            n_samples=self._sum.shape.n_samples,
            sampling=self._sum.sampling,
            where=self.where + exactness,
            count=count,
        )

    def plain(self, *point: Any) -> tuple[Any, ...]:
        """Return a state and a walk of arrays that will not change, and the number of steps."""
        state, walk, *taken = point
        if not (type(state) is State and type(walk) is Walk):
            raise TypeError(
                f"arguments must be a State and a Walk; got {type(state).__name__} and "
                f"{type(walk).__name__}. Nothing was spent."
            )
        state = State(*super().plain(state.w, state.velocity, state.average))
        names = "alpha", "w_radius", "momentum", "snapshot", "snapshot_gradient"
        settled = super().plain(*(getattr(walk, name) for name in names))
        return state, replace(walk, **dict(zip(names, settled, strict=True))), *taken

    def check(self, *point: Any) -> None:
        """Refuse a point from which the sums may have no finite value, or not the one charged."""
        state, walk, *taken = point
        known = state.w, state.velocity, state.average, walk.snapshot, walk.snapshot_gradient
        shapes = {np.shape(each) for each in known if each is not None}
        if state.w is None or shapes != {(self._sum.dimension,)} or len(taken) > 1:
            raise ValueError(
                f"points must be arrays of {self._sum.dimension} numbers, with a number of steps "
                f"behind them or none; got {shapes} and {taken}. Nothing was spent."
            )
        if walk.snapshot is not None and not self._sum.differences:
            raise ValueError(
                "snapshot must be None for sums that are not of differences, which may be twice as "
                "long; got one. Nothing was spent."
            )
        for steps in taken:
            check_integer("taken", steps, low=0, high=self._n_steps)
        check_size("SampledSteps", *known, largest=self._sum.largest_argument)

    def answer(self, prepared: RowAccess, rng: SecureGenerator, *point: Any) -> State:
        """Take the steps from a state; of fewer steps, if so many are asked for, the same is paid.

        The point is a :class:`State`, a :class:`Walk`, and optionally the number of steps to take.
        """
        state, walk, *taken = point
        n_steps = taken[0] if taken else self._n_steps
        state = State(state.w.copy(), _copy(state.velocity), _copy(state.average))
        rows = prepared.kernel_rows(clipped=self._sum.clip_norm < math.inf)
        last = self._first + n_steps
        for start in range(self._first, last, _SLICE_STEPS):
            stop = min(start + _SLICE_STEPS, last)
            with rng.stream() as stream:
                self._run(rows, state, walk, start, stop, stream)
        return state

    def _run(self, rows: Any, state: State, walk: Walk, start: int, stop: int, stream: Any) -> None:
        """Some steps in C, which change the state's arrays."""
        query, mechanism = self._sum, self._mechanism
        averaged = walk.average_weight
        _kernels.private_epoch(
            rows,
            query.shape.loss.spec,
            state.w,
            walk.sizes(start, stop),
            sampling=query.sampling,
            noise=self.noise,
            stream=stream,
            n_steps=stop - start,
            batch=query.batch,
            capacity=query.capacity,
            stddev=mechanism.stddev,
            scale=mechanism.integer_scale,
            grid=mechanism.grid_step * (1.0 if self.noise == "discrete" else _COARSER),
            clip_norm=query.clip_norm,
            alpha=walk.alpha,
            # Farther away products with some rows are no numbers, and an error would tell of them.
            w_radius=min(walk.w_radius, query.largest_argument),
            momentum=walk.momentum,
            velocity=state.velocity,
            snapshot=walk.snapshot,
            snapshot_gradient=walk.snapshot_gradient,
            average=state.average,
            average_weight=None if averaged is None else averaged(start, stop),
        )


def _copy(values: Vector | None) -> Vector | None:
    return None if values is None else values.copy()
