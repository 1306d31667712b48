r"""Noisy sums over random batches: what the stochastic solvers see of the data.

One release is ``Σ_{i in B} clip(g_i) + noise`` over a batch ``B`` that is drawn afresh and kept
secret.  A row's vector ``g_i`` is a multiple of ``x̃_i`` and no longer than ``C`` (by clipping, or
because the loss is Lipschitz), so on a batch one record's presence changes the sum by at most
``c C``, ``c`` the bound of the weights, and a replaced record by ``2 c C``:
``records_apart(relation) · c C``.

Poisson sampling is paired with `add_or_remove_one`, batches of fixed size with `replace_one`; the
event refuses any other pair, since the amplification is proved for these.  Both samplers are exact
(integer arithmetic, :func:`dpfast._kernels.draw_batch`).  A Poisson batch beyond a public capacity,
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
  numbers, which the guarantee neglects.  It is some five times faster, for runs of very many
  steps; the ledger names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpfast import _kernels
from dpfast._validation import check_choice, check_integer, check_real
from dpfast.errors import UnsupportedEvent
from dpfast.mechanisms import Gaussian
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    Event,
    Ledger,
    SubsampledGaussianEvent,
    records_apart,
    smallest_noise,
)
from dpfast.privacy.accountants.rdp import RDPAccountant
from dpfast.privacy.calibration import budget_mu
from dpfast.privacy.events import SAMPLINGS
from dpfast.problem import Problem
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape

Vector = NDArray[np.float64]

NOISES = ("auto", "discrete", "gaussian")
SCHEDULES: Mapping[str, Callable[[Vector], Vector]] = {
    "constant": np.ones_like,
    "1/sqrt(t)": lambda t: 1.0 / np.sqrt(t),
    "1/t": lambda t: 1.0 / t,
}
"""Step sizes relative to the first, at t = 1, 2, ..."""

# So many values of exact noise take a few seconds.
_DISCRETE_VALUES = 2**24
# Steps whose sizes are written out at once.
_SLICE_STEPS = 2**16
# The grid of floating-point noise, in steps of the exact mechanism's grid: 2^-24 of the noise.
_COARSER = 2.0**8
_LOG_OVERFLOW = 200.0 * math.log(2.0)
_UNIT = 2.0**-53
# Parts in which a run is charged: an interruption loses the rest of a part.
_PARTS = 16
# Of the multiplier: rounding in the mechanism's constructor.
_HAIR = 1.0 + 1e-9
# Between orders that are tried: what is lost by it is less than a hundredth of the noise.
_ORDER_FACTOR = 1.08
_MAX_TURNS = 40
# Of the logarithm of a multiplier that privacy loss distributions have to find.
_PLD_TOLERANCE = 1e-4
_LARGEST_LOG_NOISE = 100.0


def default_sampling(sampling: str, neighboring_relation: str) -> str:
    """The sampling that is asked for, or for "auto" the one that the relation is analyzed with.

    Raises
    ------
    ValueError
        If sampling and relation do not go together.
    """
    check_choice("sampling", sampling, ("auto", *SAMPLINGS))
    right = next(name for name, pair in SAMPLINGS.items() if pair == neighboring_relation)
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


def poisson_capacity(batch: int, n_samples: int) -> int:
    """Rows that a Poisson batch exceeds with probability below ``2^-200``.

    By Chernoff's bound ``P(X >= x) <= exp(-(x ln(x/m) - x + m))`` for a sum of independent trials
    of mean m.
    """

    def exponent(x: float) -> float:
        return x * math.log(x / batch) - x + batch

    low, high = float(batch), 2.0 * batch + 200.0
    while exponent(high) < _LOG_OVERFLOW:
        high *= 2.0
    while high - low > 0.5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exponent(middle) < _LOG_OVERFLOW else (low, middle)
    return min(n_samples, math.ceil(high))


@dataclass(frozen=True)
class NoisyBatches:
    """Noisy sums over random batches, all alike.

    Attributes
    ----------
    mechanism : Gaussian
        Its sensitivity is that of a sum over a batch.
    sampling : {"poisson", "fixed-size"}
    batch, capacity, n_samples : int
    clip_norm : float
        Infinite if the loss alone bounds the rows' vectors.
    noise : {"discrete", "gaussian"}
    """

    mechanism: Gaussian
    sampling: str
    batch: int
    capacity: int
    n_samples: int
    clip_norm: float
    noise: str

    def __str__(self) -> str:
        return f"{self.noise} noise of stddev {self.mechanism.stddev:.4g} on {self.sampling} sums"

    def event(self, where: str, count: int) -> SubsampledGaussianEvent:
        """The event that `count` releases are charged as."""
        exactness = "" if self.noise == "discrete" else ", floating-point noise"
        return SubsampledGaussianEvent(
            sensitivity=self.mechanism.charged_sensitivity,
            stddev=self.mechanism.stddev,
            dimension=self.mechanism.dimension,
            neighboring_relation=self.mechanism.neighboring_relation,
            batch=self.batch,
            n_samples=self.n_samples,
            sampling=self.sampling,
            where=where + exactness,
            count=count,
        )

    def steps(
        self,
        problem: Problem,
        rng: SecureGenerator,
        w: Vector,
        sizes: Callable[[int, int], Vector | float],
        first: int,
        n_steps: int,
        average_weight: Callable[[int, int], Vector] | None = None,
        **settings: Any,
    ) -> None:
        """Take the steps ``first``, ..., already paid for; see :func:`_kernels.private_epoch`.

        Parameters
        ----------
        problem : Problem
        rng : SecureGenerator
        w : ndarray of shape (dim,), updated
        sizes, average_weight : callable
            From the numbers of the first step and of the one after the last to their sizes, and to
            their weights in the average.
        first, n_steps : int
        **settings
            Of :func:`_kernels.private_epoch`.
        """
        rows = _kernel_rows(problem, self.clip_norm < math.inf)
        last = first + n_steps
        for start in range(first, last, _SLICE_STEPS):
            stop = min(start + _SLICE_STEPS, last)
            with rng.stream() as stream:
                _kernels.private_epoch(
                    rows,
                    problem.shape.loss.spec,
                    w,
                    sizes(start, stop),
                    sampling=self.sampling,
                    noise=self.noise,
                    stream=stream,
                    n_steps=stop - start,
                    batch=self.batch,
                    capacity=self.capacity,
                    stddev=self.mechanism.stddev,
                    scale=self.mechanism.scale,
                    grid=self.mechanism.grid_step * (1.0 if self.noise == "discrete" else _COARSER),
                    clip_norm=self.clip_norm,
                    average_weight=None if average_weight is None else average_weight(start, stop),
                    **settings,
                )


def noisy_batches(
    shape: ProblemShape,
    *,
    multiplier: float,
    neighboring_relation: str,
    sampling: str,
    batch: int,
    longest: float,
    natural: float,
    n_steps: int,
    noise: str = "auto",
) -> NoisyBatches:
    """Noisy sums whose noise is `multiplier` times the charged sensitivity.

    Parameters
    ----------
    shape : ProblemShape
    multiplier : float
    neighboring_relation, sampling, batch
    longest : float
        ``C``: to this norm the rows' vectors, before their weights, are clipped.
    natural : float
        A norm that they do not pass without clipping, which is then left out; may be infinite.
    n_steps : int
        For the choice of the noise.
    noise : {"auto", "discrete", "gaussian"}
        "auto" is exact noise for up to ``2^24`` values.
    """
    check_choice("noise", noise, NOISES)
    if noise == "auto":
        noise = "discrete" if n_steps * shape.dim <= _DISCRETE_VALUES else "gaussian"
    capacity = poisson_capacity(batch, shape.n_samples) if sampling == "poisson" else batch
    largest = longest * shape.max_weight
    settings: dict[str, Any] = {
        "sensitivity": records_apart(neighboring_relation) * largest,
        "dimension": shape.dim,
        "neighboring_relation": neighboring_relation,
        # As Problem.gradient_sum_error, of at most `capacity` additions.
        "error": 1.01 * _UNIT * (capacity + 8) * capacity * largest,
    }
    mechanism = Gaussian(multiplier * settings["sensitivity"], **settings)
    while mechanism.stddev < multiplier * mechanism.charged_sensitivity:
        mechanism = Gaussian(multiplier * mechanism.charged_sensitivity * _HAIR, **settings)
    return NoisyBatches(
        mechanism=mechanism,
        sampling=sampling,
        batch=batch,
        capacity=capacity,
        n_samples=shape.n_samples,
        clip_norm=math.inf if longest >= natural else longest,
        noise=noise,
    )


def settle_ridge(alpha: float | str | None, shape: ProblemShape) -> ProblemShape:
    """The shape with the ridge that is asked for; None and "auto" leave it as it is."""
    if alpha is None or alpha == "auto":
        return shape
    hint = 'Or pass "auto".'
    return shape.with_alpha(check_real("alpha", alpha, low=1e-100, high=1e100, hint=hint))


def natural_norm(shape: ProblemShape) -> float:
    """The bound of a row's gradient before its weight that the loss guarantees."""
    return shape.loss.lipschitz * shape.row_norm


def settle_clip_norm(clip_norm: float | None, shape: ProblemShape) -> float:
    """The bound of a row's gradient before its weight: what is asked for, or the loss's own."""
    natural = natural_norm(shape)
    if clip_norm is None:
        if not math.isfinite(natural):
            raise ValueError(
                f"clip_norm must be given for the loss {shape.loss.name!r}, whose slope has no "
                "bound; got None."
            )
        return natural
    return min(check_real("clip_norm", clip_norm, low=1e-100, high=1e100), natural)


@lru_cache(maxsize=4096)
def _multiplier(
    key: tuple[Any, ...], budget: Budget, accountant: str, unit_events: Callable[..., list[Event]]
) -> float:
    if accountant in ("auto", "rdp"):
        multiplier = _renyi_multiplier(key, budget, unit_events)
        if multiplier is not None:
            return multiplier
    if accountant == "pld":
        return _pld_multiplier(key, budget, unit_events)
    return smallest_noise(lambda noise: unit_events(noise, *key), budget, accountant)


def _pld_multiplier(
    key: tuple[Any, ...], budget: Budget, unit_events: Callable[..., list[Event]]
) -> float:
    """A multiplier within the budget by privacy loss distributions, in some six evaluations.

    Each takes a second.  Renyi divergences never ask for less noise: the search begins there.
    """
    assert budget.epsilon is not None
    accountant, target = ACCOUNTANTS["pld"], budget.epsilon
    start = _renyi_multiplier(key, budget, unit_events)
    if start is None:
        return smallest_noise(lambda noise: unit_events(noise, *key), budget, "pld")

    @lru_cache
    def excess(log_noise: float) -> float:
        epsilon = accountant.epsilon(unit_events(math.exp(log_noise), *key), budget.delta)
        return math.log(max(epsilon, 1e-300) / target)

    high = math.log(start) + 1e-9
    step = max(-2.0 * excess(high), _PLD_TOLERANCE)
    low = high - step
    while excess(low) <= 0.0 and low > -_LARGEST_LOG_NOISE:
        high, low, step = low, low - step, 2.0 * step
    if excess(high) > 0.0 or excess(low) <= 0.0:
        return math.exp(high)
    root = float(brentq(excess, low, high, xtol=_PLD_TOLERANCE, rtol=1e-12))
    return math.exp(min(root + 2.0 * _PLD_TOLERANCE, high))


def _renyi_multiplier(
    key: tuple[Any, ...], budget: Budget, unit_events: Callable[..., list[Event]]
) -> float | None:
    """A multiplier within the budget by Renyi divergences, in a twentieth of the evaluations.

    It goes up and down between the best order for a multiplier and the smallest multiplier for an
    order.  Any order proves a guarantee, so where this stops early it errs on the side of noise.
    """
    assert budget.epsilon is not None
    accountant, log_delta, target = RDPAccountant(), math.log(budget.delta), budget.epsilon

    def epsilon(log_noise: float, excess: float) -> float:
        moment = accountant.log_moment(unit_events(math.exp(log_noise), *key), excess)
        return (moment - log_delta - math.log1p(excess)) / excess - math.log1p(1.0 / excess)

    def solve(excess: float, start: float, step: float) -> float | None:
        return _falling_root(lambda x: epsilon(x, excess) - target, start, step)

    # The best order for Gaussian noise on all rows; sampling moves it.
    excess = math.sqrt(-2.0 * log_delta) / budget_mu(budget)
    log_noise = solve(excess, 0.0, 0.5)
    for _ in range(_MAX_TURNS):
        if log_noise is None:
            return None
        better = _best_order(epsilon, log_noise, excess)
        if better == excess:
            break
        excess = better
        log_noise = solve(excess, log_noise, 0.01)
    return None if log_noise is None else math.exp(log_noise)


def _best_order(epsilon: Callable[[float, float], float], log_noise: float, excess: float) -> float:
    """An order of the lattice around `excess` where epsilon, which falls and rises, is least."""
    best = epsilon(log_noise, excess)
    for factor in (_ORDER_FACTOR, 1.0 / _ORDER_FACTOR):
        start = excess
        while (value := epsilon(log_noise, excess * factor)) < best:
            excess, best = excess * factor, value
        if excess != start:
            break
    return excess


def _falling_root(function: Callable[[float], float], start: float, step: float) -> float | None:
    """A point at most 1e-4 beyond the root of a falling function; None if there is none near."""
    low = high = start
    while function(high) > 0.0:
        low, high, step = high, high + step, 2.0 * step
        if high > _LARGEST_LOG_NOISE:
            return None
    while low == high or function(low) <= 0.0:
        high, low, step = low, low - step, 2.0 * step
        if low < -_LARGEST_LOG_NOISE:
            return None
    return float(brentq(function, low, high, xtol=4e-5, rtol=1e-12)) + 5e-5


def sampled_unit_events(
    noise: float, relation: str, sampling: str, batch: int, n_samples: int, count: int
) -> list[Event]:
    """Releases of sensitivity 1, for calibration."""
    return [
        SubsampledGaussianEvent(
            sensitivity=1.0,
            stddev=noise,
            dimension=1,
            neighboring_relation=relation,
            where="calibration",
            count=count,
            batch=batch,
            n_samples=n_samples,
            sampling=sampling,
        )
    ]


def noise_multiplier(
    budget: Budget,
    accountant: str,
    unit_events: Callable[..., list[Event]],
    *key: Any,
) -> float:
    """The smallest noise multiplier that the budget pays for; remembered.

    Parameters
    ----------
    budget : Budget
    accountant : str
        Of the ledger that will be charged.
    unit_events : callable
        A module's function from a multiplier and `key` to events of sensitivity 1.
    *key : hashable
    """
    return _multiplier(key, budget, accountant, unit_events)


def least_noisy_batches(
    shape: ProblemShape,
    budget: Budget,
    accountant: str,
    *,
    n_steps: int,
    multiplier: float | None = None,
    **settings: Any,
) -> NoisyBatches:
    """Noisy sums with the least noise that a ledger of this budget admits for `n_steps` of them.

    Parameters
    ----------
    shape, budget, accountant, n_steps
    multiplier : float or None, default=None
        Noise to begin with; None asks the accountant.
    **settings
        Of :func:`noisy_batches`.
    """
    check_priced(accountant, settings["sampling"], settings["neighboring_relation"])
    if multiplier is None:
        key = (settings["neighboring_relation"], settings["sampling"], settings["batch"])
        multiplier = noise_multiplier(
            budget, accountant, sampled_unit_events, *key, shape.n_samples, n_steps
        )
    while True:
        batches = noisy_batches(shape, multiplier=multiplier, n_steps=n_steps, **settings)
        if affordable((batches.event("plan", n_steps),), budget, accountant):
            return batches
        multiplier *= 1.0 + 1e-5


def check_priced(accountant: str, sampling: str, neighboring_relation: str) -> None:
    """Refuse an accountant that knows no amplification by this sampling.

    Raises
    ------
    UnsupportedEvent
        It says why.
    """
    event = sampled_unit_events(1.0, neighboring_relation, sampling, 1, 2, 1)[0]
    if accountant == "auto" or ACCOUNTANTS[accountant].supports(event):
        return
    reason = (
        "composes the privacy loss distributions of Poisson samples, under add_or_remove_one; that "
        "of fixed-size samples under replace_one is not known"
        if accountant == "pld"
        else "has no price for noise on random batches, which are only cheap if amplification by "
        "sampling is counted"
    )
    raise UnsupportedEvent(
        f"accountant must be 'auto' or 'rdp' for {sampling} batches; got {accountant!r}, which "
        f"{reason}."
    )


def affordable(events: tuple[Event, ...], budget: Budget, accountant: str) -> bool:
    """Whether a new ledger admits the events."""
    return Ledger(budget, accountant).can_afford(*events)


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


def _kernel_rows(problem: Problem, clip: bool) -> Any:
    """All rows as one kernel object; rows of a layout that kernels do not read are copied."""
    if clip:
        problem._prepare_clipping()
    return problem.kernel_rows()
