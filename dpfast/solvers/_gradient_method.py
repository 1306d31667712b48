r"""Gradient descent, heavy ball and Nesterov's method on noisy gradients: one engine.

An iteration takes the noisy mean gradient ``g``, the ridge's added, at a point that is a function
of releases, and steps:

- descent ``w⁺ = w - η g(w)``;
- heavy ball ``w⁺ = w - η g(w) + m (w - w⁻)``;
- Nesterov ``w⁺ = z - η g(z)``, ``z = w + m (w - w⁻)``, in one stage or in several (MASG).

Step, momentum, iterations and the division of the budget follow from the bounds in
:mod:`dpfast.theory.kuru2020` and from public quantities only.

Privacy: a gradient is a release of :class:`~dpfast.queries.ClippedGradient` with Gaussian or
Laplace noise, or with `batch` of :class:`~dpfast.fused.SampledGradient`.  The events compose in
the ledger, and all iterates are post-processing: momentum, averaging and projection cost nothing,
and norms of noisy gradients may be released.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_flag, check_integer, check_real
from dpfast.curator import Curator
from dpfast.fused import LastIterate
from dpfast.mechanisms import Access
from dpfast.optimizers._contract import project
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, budget_epsilon, budget_mu
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import TYPICAL_MARGIN, Outcome, Plan, Solver, check_alpha, options_of
from dpfast.solvers._gradient_choice import Choice, Schedule
from dpfast.solvers._noisy_gradient import POWER, NoisyGradient

# What the pages of all of them say.
_FAMILY = (__doc__ or "").partition("\n\n")[2]
# Options of some methods of the family; all others are every method's.
_OF_SOME = ("analysis", "bound", "p", "first_stage")
EXPECTS = "excess_risk_bound"

# What "auto" chooses among.
_MAX_ITERATIONS = 10_000
_RIDGES = 4.0 ** np.arange(-14.0, 2.0)
_STEPS = {
    "descent": (1.0, 0.5, 0.2, 0.1),
    "heavy-ball": (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01),
    "nesterov": (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01),
    "multistage": (1.0, 0.1, 0.01),
}
# Iterates beyond this are of no use, and margins could overflow.
_LARGEST = 1e50


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    schedule: Schedule
    gradient: NoisyGradient
    iterations: int
    step: float
    momentum: float
    noise: str
    split: str
    analysis: str
    average: float
    bound: str
    w0: Vector
    w_radius: float | None
    keep_iterates: bool
    accesses: tuple[Access[Vector], ...]


def plan(
    name: str,
    method: str,
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    iterations: int | str = "auto",
    max_iterations: int | None = None,
    step: float | str = "auto",
    momentum: float | str = "auto",
    split: str = "uniform",
    noise: str = "auto",
    clip_norm: float | None = None,
    data_l1_norm: float | None = None,
    batch: int | None = None,
    average: float = 0.0,
    w0: ArrayLike | None = None,
    w_radius: float | None = None,
    initial_error: float | None = None,
    minimizer_norm: float | None = None,
    keep_iterates: bool = False,
    analysis: str = "composition",
    bound: str = "strongly convex",
    p: int = 1,
    first_stage: int | None = None,
) -> Plan[Settings]:
    """Settle a method from public quantities.

    Parameters
    ----------
    name : str
        Of the solver.
    method : {"descent", "heavy-ball", "nesterov", "multistage"}
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss.  None takes that of `shape`, or "auto" if it has none.  "auto" adds
        the ridge's own cost, ``(α/2) minimizer_norm²``, to the bound and minimizes it.
    iterations : int or "auto", default="auto"
        ``T``; "auto" takes as few as bring the bound within 5 % of its least.
    max_iterations : int or None, default=None
        The most that "auto" may take; None is 10,000.  Each reads all rows, or the sample.
    step : float or "auto", default="auto"
        c, in units of ``1 / (β + α)``.  "auto" minimizes the bound.
    momentum : float or "auto", default="auto"
        In [0, 1).  "auto" is what the method's bound asks for.  Descent has none.
    split : {"uniform", "optimal"}
        Whether iterations share the budget equally or as the bound prefers, the default of the
        solvers whose names end in "-opt".
    noise : {"auto", "gaussian", "laplace"}
        "auto" takes Gaussian noise unless the budget, or the accountant, is pure.
    clip_norm : float or None, default=None
        Bound of a row's gradient, its weight not counted.  None: the bound that every row obeys;
        smaller values bring less noise and a bias that the bound does not know.
    data_l1_norm : float or None, default=None
        Public bound of ``‖x_i‖₁``, for Laplace noise, enforced by clipping.
    batch : int or None, default=None
        Rows of a fresh sample for each gradient; None: all.
    average : float, default=0.0
        Return the mean of this share of the iterates, the last ones; 0: the last iterate.
    w0 : array-like of shape (dim,) or None
        Start; None: zeros.  It must not depend on the data.
    w_radius : float or None, default=None
        Public ball onto which every iterate is projected.
    initial_error : float or None, default=None
        Guess of ``F(w0) - F*``; None: a bound of it.  A wrong guess costs accuracy, never privacy.
    minimizer_norm : float or None
        Guess of the norm of the best weights, for "auto" alpha; None is 6 over the row norm.
    keep_iterates : bool, default=False
        Whether the history holds the iterates, which the noisy gradients determine.
    analysis : {"composition", "last-iterate"}
        Of descent: what is released and paid for, all noisy gradients or only the last iterate.
    bound : {"strongly convex", "quadratic"}
        Of the heavy ball: what chooses step, momentum and iterations, and is expected.  A bound
        for every strongly convex function, by the certificates of
        :func:`dpfast.theory.kuru2020.heavy_ball_certificates`, or the error of the worst quadratic
        (the default of "dp-hb"), which other functions may exceed.  Momenta without a certificate
        are priced by the latter.
    p, first_stage
        Of "multistage", see :func:`dpfast.theory.kuru2020.multistage`.

    Raises
    ------
    UnsupportedEvent
        If no accountant prices the events in the budget's unit.
    """
    _check_loss(name, shape)
    _check_options(split, analysis, bound, keep_iterates, p, first_stage, w_radius, initial_error)
    average = check_real("average", average, low=0.0, high=1.0)
    start = _start(w0, shape)
    noise = _choose_noise(noise, budget, accountant)
    norm = TYPICAL_MARGIN / shape.row_norm if minimizer_norm is None else minimizer_norm
    check_real("minimizer_norm", norm, low=1e-100, high=1e100)
    gradient = NoisyGradient.settle(
        shape,
        neighboring_relation,
        noise=noise,
        clip_norm=clip_norm,
        data_l1_norm=data_l1_norm,
        batch=batch,
    )
    hidden = analysis == "last-iterate"
    if hidden:
        _check_hidden(gradient, average, split, keep_iterates)

    price = budget_epsilon(budget) if noise == "laplace" else budget_mu(budget, accountant)
    choice = Choice(
        method, gradient, price, split == "optimal", hidden, p, first_stage, momentum,
        certified=bound == "strongly convex",
    )  # fmt: skip
    given = check_alpha(alpha, shape)
    ridges: Iterable[float] = _RIDGES * shape.smoothness if given is None else (given,)
    steps = _STEPS[method] if step == "auto" else (_checked_step(step, method),)
    lengths = _lengths(iterations, max_iterations)

    def first_error(ridge: float) -> float:
        return initial_error or _initial_error(shape, ridge, start, norm)

    ridge, schedule = choice.best(ridges, steps, lengths, first_error, norm)
    shape, error = shape.with_alpha(ridge), first_error(ridge)
    response, certified = choice.response(ridge, schedule, error)
    first = schedule.stages[0]
    accesses: tuple[Access[Vector], ...]
    if hidden:
        w_radius = w_radius or max(float(np.linalg.norm(start)), shape.minimizer_norm(ridge))
        last = LastIterate(
            shape, neighboring_relation, mu=price, step=first.step,
            iterations=schedule.iterations, radius=w_radius, start=start,
        )  # fmt: skip
        accesses, variance = (last,), np.full(schedule.iterations, last.stddev**2)
    else:
        accesses = gradient.accesses(budget, accountant, choice.shares(response))
        variance = np.array([gradient.variance_of(access) for access in accesses])
    risk = choice.error_bound(ridge, schedule, error, variance, average)
    return Plan(
        solver=name,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=tuple((access, 1) for access in accesses),
        settings=Settings(
            schedule=schedule,
            gradient=gradient,
            iterations=schedule.iterations,
            step=first.step,
            momentum=first.momentum,
            noise=noise,
            split=split,
            analysis=analysis,
            average=average,
            bound="strongly convex" if certified else "quadratic",
            w0=start,
            w_radius=w_radius,
            keep_iterates=keep_iterates,
            accesses=accesses,
        ),
        expected={
            EXPECTS: risk + 0.5 * ridge * norm**2,
            "gradient_noise_stddev": math.sqrt(float(variance[-1])),
        },
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Step along one noisy gradient after the other, or be told where that ends.

    The history holds, for every iteration, the norm of the noisy gradient (with the ridge), the
    step size and, if asked for, the iterate; it is empty if only the last iterate is released.
    """
    settings, alpha = plan.settings, plan.shape.alpha or 0.0
    if settings.analysis == "last-iterate":
        return Outcome(curator.release(settings.accesses[0]))
    rows, radius = settings.gradient.rows, settings.w_radius
    kept = math.ceil(settings.average * settings.iterations)
    w = _project(np.array(settings.w0), radius)
    norms: Vector = np.zeros(settings.iterations)
    steps: Vector = np.zeros(settings.iterations)
    iterates = np.zeros((settings.iterations if settings.keep_iterates else 0, len(w)))
    total = np.zeros_like(w)
    t = 0
    for stage in settings.schedule.stages:
        before = w
        for _ in range(stage.length):
            ahead = w + stage.momentum * (w - before)
            point = w if settings.schedule.method == "heavy-ball" else ahead
            point = np.clip(point, -_LARGEST, _LARGEST)
            noisy = curator.release(settings.accesses[t], point) / rows
            noisy += alpha * point
            before = w
            w = _project(np.clip(ahead - stage.step * noisy, -_LARGEST, _LARGEST), radius)
            norms[t] = np.linalg.norm(noisy)
            steps[t] = stage.step
            if settings.keep_iterates:
                iterates[t] = w
            t += 1
            if t > settings.iterations - kept:
                total += w
    history: dict[str, NDArray[np.float64]] = {"gradient_norm": norms, "step": steps}
    if settings.keep_iterates:
        history["iterates"] = iterates
    return Outcome(total / kept if kept else w, history)


def gradient_method(
    name: str,
    method: str,
    doc: str,
    exact: Mapping[str, Any],
    *,
    options: tuple[str, ...] = (),
    **defaults: Any,
) -> Solver[Settings]:
    """One of the family, with options beside the usual ones, and other defaults for some."""
    return Solver(
        name=name,
        doc=f"{doc}\n\n{_FAMILY}",
        plan=partial(plan, name, method, **defaults),
        run=run,
        budgets=("pure", "approximate", "zcdp", "gdp"),
        relations=NEIGHBORING_RELATIONS,
        row_access="sums",
        weighs_groups=True,
        resumable=True,
        minimizes=True,
        expects=EXPECTS,
        exact=exact,
        options=tuple(name for name in options_of(plan) if name in options or name not in _OF_SOME),
    )


DP_GD = gradient_method(
    "dp-gd",
    "descent",
    """Noisy gradient descent.

The gradients are paid for one by one (``analysis="composition"``), or together, if nothing but the
last iterate is released (``analysis="last-iterate"``, :class:`~dpfast.fused.LastIterate`, for
smooth and strongly convex objectives: Bok, Su & Altschuler 2024), which never costs more.""",
    {"iterations": 2500, "step": 1.0},
    options=("analysis",),
)


def _project(w: Vector, radius: float | None) -> Vector:
    """The nearest point of the public ball, if there is one."""
    return w if radius is None else project(w, radius)


def _initial_error(
    shape: ProblemShape, ridge: float, start: Vector, minimizer_norm: float
) -> float:
    """Bound of ``F(w0) - F*``, losses being at least 0."""
    norm = float(np.linalg.norm(start))
    ridge_part = 0.5 * ridge * norm**2
    at_zero = shape.loss.at_zero * shape.max_weight
    if math.isfinite(at_zero):
        far = shape.smoothness * norm * (norm + minimizer_norm)
        return at_zero + min(shape.lipschitz * norm, far) + ridge_part
    distance = norm + minimizer_norm
    slope = shape.lipschitz * distance
    return (slope if math.isfinite(slope) else 0.5 * shape.smoothness * distance**2) + ridge_part


def _lengths(iterations: int | str, max_iterations: int | None) -> NDArray[np.int64]:
    """Numbers of iterations to choose among."""
    if iterations != "auto":
        if max_iterations is not None:
            raise ValueError(
                f"max_iterations must be None unless iterations is 'auto'; got {max_iterations!r} "
                f"with iterations={iterations!r}."
            )
        return np.array([check_integer("iterations", iterations, low=1, high=10**7)])
    most = _MAX_ITERATIONS if max_iterations is None else max_iterations
    most = check_integer("max_iterations", most, low=1, high=10**6)
    count = 4 + round(12.0 * math.log10(most))
    return np.unique(np.round(np.geomspace(1, most, count))).astype(np.int64)


def _start(w0: ArrayLike | None, shape: ProblemShape) -> Vector:
    if w0 is None:
        return np.zeros(shape.dim)
    start = np.array(w0, dtype=np.float64)
    if start.shape != (shape.dim,) or not np.all(np.abs(start) <= _LARGEST):
        raise ValueError(
            f"w0 must hold {shape.dim} finite numbers; got shape {start.shape}"
            f"{'' if start.shape != (shape.dim,) else ' with NaN, infinity or a huge number'}."
        )
    start.setflags(write=False)
    return start


def _checked_step(step: object, method: str) -> float:
    high = 1.0 if method in ("nesterov", "multistage") else 2.0
    open_end = high == 2.0
    return check_real(
        "step",
        step,
        low=0.0,
        low_open=True,
        high=high,
        high_open=open_end,
        hint="It is in units of 1 / (β + α), β the loss's smoothness and α the ridge.",
    )


def _choose_noise(noise: str, budget: Budget, accountant: str) -> str:
    check_choice("noise", noise, ("auto", *POWER))
    pure = budget.kind == "pure" or accountant == "pure"
    if noise == "auto":
        return "laplace" if pure else "gaussian"
    if noise == "gaussian" and pure:
        raise ValueError(
            f"noise must be 'laplace' for {budget!r} with accountant={accountant!r}: Gaussian "
            "noise has no pure guarantee."
        )
    if noise == "laplace" and (
        budget.kind in ("zcdp", "gdp") or accountant not in ("auto", "pure", "basic")
    ):
        raise ValueError(
            f"noise must be 'gaussian' for {budget!r} with accountant={accountant!r}: the shares "
            "of Laplace noise are counted in epsilon."
        )
    return noise


def _check_options(
    split: str,
    analysis: str,
    bound: str,
    keep_iterates: bool,
    p: int,
    first_stage: int | None,
    w_radius: float | None,
    initial_error: float | None,
) -> None:
    """Refuse options that are out of range whatever the others are."""
    check_choice("split", split, ("uniform", "optimal"))
    check_choice("analysis", analysis, ("composition", "last-iterate"))
    check_choice("bound", bound, ("strongly convex", "quadratic"))
    check_flag("keep_iterates", keep_iterates)
    check_integer("p", p, low=1, high=30)
    if first_stage is not None:
        check_integer("first_stage", first_stage, low=1)
    if w_radius is not None:
        check_real("w_radius", w_radius, low=1e-100, high=_LARGEST)
    if initial_error is not None:
        check_real("initial_error", initial_error, low=0.0, low_open=True, high=1e200)


def _check_loss(name: str, shape: ProblemShape) -> None:
    if not shape.loss.convex:
        raise ValueError(f"loss must be convex for {name}; got {shape.loss.name!r}.")
    if not math.isfinite(shape.loss.smoothness):
        raise ValueError(
            f"loss must be smooth for {name}, whose steps follow from its curvature; got "
            f"{shape.loss.name!r}."
        )


def _check_hidden(gradient: NoisyGradient, average: float, split: str, keep_iterates: bool) -> None:
    reasons = {
        "noise must be 'gaussian'": gradient.noise != "gaussian",
        "clip_norm must be None, since clipped steps need not contract": math.isfinite(
            gradient.query.clip_norm
        ),
        "batch must be None": gradient.batch is not None,
        "average must be 0, since only the last iterate is released": average != 0.0,
        "split must be 'uniform'": split != "uniform",
        "keep_iterates must be False, since only the last iterate is released": keep_iterates,
    }
    for reason, broken in reasons.items():
        if broken:
            raise ValueError(f"{reason}, with analysis='last-iterate'.")
