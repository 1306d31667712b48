r"""Where an optimizer ends: near the minimizer of an objective, or after T steps of descent.

Both move little when one record changes, and say how little.  Their bounds need a convex loss of
bounded slope, which they refuse to do without.

Sources: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1; Zhang et al. 2017, Algorithm 1; Lowy &
Razaviyayn 2021, Algorithms 1, 6 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.errors import CertificateNotReached
from dpfast.losses import Loss
from dpfast.mechanisms import Query
from dpfast.objectives import ErmShape, SaddleShape, make_objective
from dpfast.optimizers import (
    OPTIMIZERS,
    OptimizeResult,
    SaddleWitness,
    as_minimizer,
    minimax_appa,
    witness,
)
from dpfast.privacy import records_apart
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowSums
from dpfast.theory import zhang2017

Vector = NDArray[np.float64]
Optimizer = str | Callable[..., Any]

# Newton factors d x d matrices; beyond this L-BFGS is faster.
_NEWTON_MAX_DIM = 1000
# More full gradients than this are a mistake: T of the theorems grows with β/α.
_MAX_ITERATIONS = 10**7
#: Optimizers that take single rows in a random order.
ROW_OPTIMIZERS = ("sgd", "svrg", "katyusha")
_KINK_OPTIMIZERS = ("subgradient", "sgd", "smoothing")
_SADDLE_OPTIMIZER = "minimax_appa"


class CertifiedMinimizer(Query):
    """A point that is proved to lie within ``τ/µ`` of an objective's minimizer.

    The objective is µ-strongly convex.  Whatever optimizer found the point, its certificate is
    computed here (:mod:`dpfast.optimizers.certificates`), rounding included: ``‖∇F(ŵ)‖ <= τ``, or
    for a loss with kinks a duality gap of at most ``τ²/(2µ)``; either implies ``‖ŵ - w*‖ <= τ/µ``
    by strong convexity.  An optimizer that misses it is followed by a deterministic one; if none
    reaches it, there is no value.

    Sensitivity: ``Δ_F + 2τ/µ`` **on every run**, ``Δ_F`` the distance of neighbors' minimizers as
    the objective's public shape proves it (for a mean of losses
    :meth:`dpfast.ProblemShape.minimizer_sensitivity`).  Lowy & Razaviyayn 2021, Algorithm 1, bound
    the expected suboptimality of a randomized optimizer instead, which leaves the tail unprotected.
    Reached but for the certificate: a lone short row on the steep side of a hinge.

    Parameters
    ----------
    shape : object
        Public shape of the objective.
    tolerance : float
        ``τ``.
    optimizer : str or callable, default="auto"
        A name in :data:`dpfast.optimizers.OPTIMIZERS`, or a function for
        :func:`dpfast.optimizers.as_minimizer`.
    optimizer_options : mapping
        Its further arguments.
    name : str or None, default=None
        Name of the objective that is made of the rows, which are a problem, by
        :func:`dpfast.objectives.make_objective`; None: they are the objective.
    options : mapping
        The objective's further arguments.

    Raises
    ------
    TypeError, ValueError
        If the objective has no certificate, or the optimizer cannot work on it.
    """

    def __init__(
        self,
        shape: Any,
        tolerance: float,
        *,
        optimizer: Optimizer = "auto",
        optimizer_options: Mapping[str, Any] = MappingProxyType({}),
        name: str | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        check_certifiable(shape)
        self.shape = shape
        self.tolerance = check_real("tolerance", tolerance, low=0.0, low_open=True)
        self.optimizer = choose_optimizer(optimizer, shape)
        self.optimizer_options = MappingProxyType(dict(optimizer_options))
        self.name, self.options = name, MappingProxyType(dict(options))
        self.dimension = shape.dim
        self.distance: float = self.tolerance / shape.strong_convexity
        bound = shape.minimizer_norm + self.distance
        self.bound = bound if math.isfinite(bound) else None

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        between = float(self.shape.minimizer_sensitivity(neighboring_relation))
        return between + 2.0 * self.distance

    def rounding_error(self) -> float:
        """Return 0: the certificate includes it."""
        return 0.0

    def prepare(self, rows: Any, *fixed: Any) -> Any:
        """The objective."""
        if self.name is None:
            return rows
        return make_objective(self.name, rows, self.shape.alpha, **self.options)

    def __call__(self, prepared: Any, *point: Any) -> Vector:
        """The point.

        Raises
        ------
        CertificateNotReached
            If no optimizer's point can be certified.
        """
        if isinstance(self.shape, SaddleShape):
            return self._saddle_point(prepared)
        return certified_minimizer(
            prepared, self.tolerance, self.optimizer, **self.optimizer_options
        ).w

    def _saddle_point(self, objective: Any) -> Vector:
        """A gap that holds after rounding: ``gap + error <= τ²/(2µ)``."""
        left = self.tolerance**2 - 2.0 * self.shape.strong_convexity * self.shape.gap_error
        if left > 0.0:
            tolerance, game = math.sqrt(left), SaddleWitness(objective.game)
            result = minimax_appa(game, tolerance=tolerance, **self.optimizer_options)
            if result.converged and game.certifies(result.w, result.v, tolerance):
                return result.w
        raise CertificateNotReached(
            f"no saddle point could be certified to the tolerance that the noise is calibrated for "
            f"({self.tolerance:.3g}), so nothing is released. Allow more max_passes, or a larger "
            "tolerance."
        )


class DescentIterate(Query):
    """``w_T`` of T steps of gradient descent on the mean loss with a ridge, from a public start.

    Sensitivity: :func:`dpfast.theory.zhang2017.descent_sensitivity` with ``g = k L/n``.  One
    record's loss has gradients no longer than L everywhere, so one step from one point takes
    neighbors ``ηg`` apart at most, the ridge being the same for both; and for ``η <= 2/(β + µ)`` a
    step on one objective brings two points closer by the factor ``1 - ηµ``, or no further apart.
    Reached by a short row on the steep side of a hinge.

    Rounding adds at most ``ηe`` to a step, which contracts like the rest.  The floating-point
    operations are the same on every data set.

    Parameters
    ----------
    shape : ProblemShape
        Of a smooth loss.
    alpha : float
        Ridge, which may be 0.
    iterations : int
        T.
    step : float
        ``η``.
    start : array-like of shape (dim,) or None, default=None
        ``w_0``; None is zero.
    paper : bool, default=False
        Also cover the sensitivities that Zhang et al. 2017 state for ``η <= 1/(β + µ)``, which are
        larger.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of the range in which the bound holds.
    """

    def __init__(
        self,
        shape: ProblemShape,
        alpha: float,
        iterations: int,
        step: float,
        start: ArrayLike | None = None,
        *,
        paper: bool = False,
    ) -> None:
        reason = refusal(shape.loss)
        if reason is None and not math.isfinite(shape.smoothness):
            reason = "smooth, so that steps of descent bring points no further apart"
        if reason is not None:
            raise ValueError(f"loss must be {reason}; got {shape.loss.name!r}.")
        self.shape, self.alpha, self.paper = shape, alpha, paper
        beta = self._smoothness = shape.smoothness + alpha
        self.step = check_real("step", step, low=0.0, low_open=True)
        if self.step > 2.0 / (beta + alpha) * (1.0 + 1e-12):
            raise ValueError(
                f"step must be <= 2/(smoothness + strong convexity) = {2.0 / (beta + alpha):.6g}; "
                f"got {step!r}."
            )
        if paper and self.step * (beta + alpha) > 1.0 + 1e-12:
            raise ValueError(
                f"step must be <= 1/(smoothness + strong convexity) = {1.0 / (beta + alpha):.6g} "
                f"with calibration='paper'; got {step!r}."
            )
        self.start = np.zeros(shape.dim) if start is None else np.array(start, dtype=np.float64)
        if self.start.shape != (shape.dim,) or not np.all(np.isfinite(self.start)):
            raise ValueError(f"w0 must hold {shape.dim} finite numbers; got {start!r}.")
        self.start.flags.writeable = False
        self.iterations = check_integer(
            "iterations",
            iterations,
            low=1,
            high=_MAX_ITERATIONS,
            hint="Give a number, or a larger alpha.",
        )
        self.dimension = shape.dim
        # ‖w⁺‖ <= (1 - ηα)‖w‖ + ηL.
        start_norm = float(np.linalg.norm(self.start))
        reach = start_norm + self.step * shape.lipschitz * self.iterations
        if alpha > 0.0:
            reach = min(reach, max(start_norm, shape.lipschitz / alpha))
        self._reach = reach * (1.0 + 2.0**-20)
        self.bound = self._reach if math.isfinite(self._reach) else None

    def _apart(self, by: float) -> float:
        """How far T steps take two runs apart whose gradients differ by this much."""
        return zhang2017.descent_sensitivity(
            self.iterations, self.step, self.alpha, self._smoothness, by
        )

    def exact_sensitivity(self, neighboring_relation: str) -> float:
        """Return the distance that the docstring proves."""
        records = records_apart(neighboring_relation)
        return self._apart(records * self.shape.lipschitz / self.shape.n_samples)

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the same, or what the paper states."""
        exact = self.exact_sensitivity(neighboring_relation)
        if not self.paper:
            return exact
        stated = zhang2017.paper_sensitivity(
            self.iterations,
            self.alpha,
            self._smoothness,
            self.shape.lipschitz,
            self.shape.n_samples,
        )
        return max(stated * (0.5 * records_apart(neighboring_relation)), exact)

    def rounding_error(self) -> float:
        """Return what the steps' rounding adds up to."""
        longest = self.shape.lipschitz + self._smoothness * self._reach
        shape = self.shape.with_alpha(self.alpha) if self.alpha else self.shape
        rounding = self.step * shape.gradient_error(self._reach)
        rounding += 2.0**-51 * (self._reach + self.step * longest)
        return self._apart(rounding / self.step)

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The last iterate."""
        w: Vector = self.start.copy()
        for _ in range(self.iterations):
            w = w - self.step * prepared.value_and_gradient(w, self.alpha)[1]
        return w


def certified_minimizer(
    objective: Any, tolerance: float, first: Optimizer, **options: Any
) -> OptimizeResult:
    """Minimize to a certificate of `tolerance`, with the optimizer `first` and then with others.

    Parameters
    ----------
    objective : Objective
    tolerance : float
        For µ times the distance to the minimizer.
    first : str or callable
        As for :class:`CertifiedMinimizer`.
    **options
        Further arguments of it.

    Returns
    -------
    OptimizeResult
        Of the optimizer; its point is certified, the rest is what it says.

    Raises
    ------
    CertificateNotReached
        If none of their points can be certified.
    """
    seen = witness(objective)
    minimize = OPTIMIZERS[first] if isinstance(first, str) else as_minimizer(first)
    result = minimize(seen, tolerance=tolerance, **options)
    for polish in ("newton", "lbfgs") if math.isfinite(objective.smoothness) else ("smoothing",):
        if result.converged and seen.certifies(result.w, tolerance):
            return result
        if polish == "newton" and objective.dim > 4 * _NEWTON_MAX_DIM:
            continue
        result = OPTIMIZERS[polish](seen, tolerance=tolerance, w0=result.w)
    if not (result.converged and seen.certifies(result.w, tolerance)):
        raise CertificateNotReached(
            "no optimizer could certify its point to the tolerance that the noise is calibrated "
            f"for ({tolerance:.3g}), so nothing is released. A stronger ridge (here the strong "
            f"convexity is {objective.strong_convexity:.3g}) makes the problem better conditioned, "
            "a larger tolerance asks for less."
        )
    return result


def least_tolerance(shape: Any) -> float:
    """The smallest tolerance that an optimizer can be sure to certify in floating point.

    Four times the rounding error of a gradient; of a duality gap, where the objective has kinks.

    Parameters
    ----------
    shape : object
        Public shape of an objective.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the objective has no certificate.
    """
    check_certifiable(shape)
    mu, radius = shape.strong_convexity, shape.minimizer_norm
    if isinstance(shape, SaddleShape):
        return 2.0 * math.sqrt(2.0 * mu * shape.gap_error)
    if not math.isfinite(shape.smoothness):
        return _gap_floor(shape)
    reach = 2.0 * (radius if math.isfinite(radius) else shape.lipschitz / mu)
    return 4.0 * float(shape.gradient_error(reach))


def _gap_floor(goal: ErmShape) -> float:
    """``√(2µ gap)`` for four times the gap that rounding leaves (:meth:`Erm.duality_gap`)."""
    shape = goal.problem
    reach = shape.row_norm * goal.minimizer_norm
    value = shape.max_weight * (2 * shape.dim + 40) * (1.0 + 2.0 * reach)
    slope = UNIT * (shape.additions() + 24) * shape.lipschitz
    return math.sqrt(2.0 * goal.alpha * 4.0 * (UNIT * value + slope**2 / goal.alpha))


def has_kinks(shape: Any) -> bool:
    """Whether an objective is certified by gaps instead of gradients."""
    return isinstance(shape, SaddleShape) or not math.isfinite(shape.smoothness)


def check_certifiable(shape: Any) -> None:
    """Refuse objectives without a bound of their minimizers' distance, or without a certificate.

    Raises
    ------
    ValueError
    """
    reason = refusal(shape.problem.loss) if isinstance(shape, ErmShape) else None
    if reason is not None:
        raise ValueError(f"loss must be {reason}; got {shape.problem.loss.name!r}.")
    # Kinks are certified by what only these know of them.
    hinge = isinstance(shape, ErmShape) and shape.problem.loss.smoothed is not None
    if has_kinks(shape) and not (hinge or isinstance(shape, SaddleShape)):
        raise ValueError(
            "objective must be smooth, or the empirical risk of the hinge, for a certificate; got "
            f"{type(shape).__name__} with smoothness={shape.smoothness!r}."
        )


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the sensitivity or the certificate, or None if both hold."""
    needs = {
        "convex, so that the ridge makes its minimizer stable": loss.convex,
        "of bounded slope, so that one record's influence is bounded": math.isfinite(
            loss.lipschitz
        ),
        "smooth or the hinge, since minimizers are certified by gradients or duality gaps": (
            math.isfinite(loss.smoothness) or loss.smoothed is not None
        ),
    }
    return next((need for need, met in needs.items() if not met), None)


def choose_optimizer(optimizer: Optimizer, shape: Any) -> Optimizer:
    """The optimizer's name or the user's function, refused if it cannot work on the objective.

    Parameters
    ----------
    optimizer : str or callable
        As for :class:`CertifiedMinimizer`.
    shape : object
        Public shape of an objective, or of a problem.

    Returns
    -------
    str or callable

    Raises
    ------
    TypeError, ValueError
    """
    if isinstance(shape, SaddleShape):
        if optimizer not in ("auto", _SADDLE_OPTIMIZER):
            raise ValueError(
                f"optimizer must be 'auto' or {_SADDLE_OPTIMIZER!r} for a saddle point; "
                f"got {optimizer!r}."
            )
        return _SADDLE_OPTIMIZER
    if callable(optimizer):
        return optimizer
    check_choice("optimizer", optimizer, ("auto", *OPTIMIZERS))
    if optimizer == "auto":
        if has_kinks(shape):
            return "smoothing"
        return "newton" if shape.dim <= _NEWTON_MAX_DIM else "lbfgs"
    if has_kinks(shape) and optimizer not in _KINK_OPTIMIZERS:
        raise ValueError(
            f"optimizer must be one of {', '.join(map(repr, _KINK_OPTIMIZERS))} for a loss with "
            f"kinks; got {optimizer!r}."
        )
    if optimizer in ROW_OPTIMIZERS and not isinstance(shape, ErmShape):
        raise ValueError(
            f"optimizer must work on whole objectives, such as 'newton' or 'agd', for "
            f"{type(shape).__name__.removesuffix('Shape').lower()} objectives; got {optimizer!r}, "
            "which takes steps along single rows of an empirical risk."
        )
    return optimizer
