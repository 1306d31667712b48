r"""Where an optimizer ends: near the minimizer of an objective, or after T steps of descent.

Both move little when one record changes, and say how little.  Their bounds need a convex loss of
bounded slope, which they refuse to do without.

Sources: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1; Zhang et al. 2017, Algorithm 1; Lowy &
Razaviyayn 2021, Algorithms 1, 6 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast._typing import Vector
from dpfast._validation import check_integer, check_real
from dpfast.errors import CertificateNotReached
from dpfast.mechanisms import Query
from dpfast.objectives import Erm, ErmShape, LinearTerm, Smoothable
from dpfast.objectives._contract import Described
from dpfast.optimizers import (
    OPTIMIZERS,
    OptimizeResult,
    SaddleWitness,
    as_minimizer,
    minimax_appa,
    newton,
    witness,
)
from dpfast.optimizers.choice import Optimizer, choose_optimizer
from dpfast.privacy import records_apart
from dpfast.shape import ProblemShape
from dpfast.sums import RowSums
from dpfast.theory import zhang2017

# More full gradients than this are a mistake: T of the theorems grows with β/α.
_MAX_ITERATIONS = 10**7


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
    Reached up to the certificate: a lone short row on the steep side of a hinge.

    Parameters
    ----------
    shape : object
        Public shape of the objective; the rows are the objective itself, or a problem, of which the
        shape makes it.
    tolerance : float
        ``τ``.
    optimizer : str or callable, default="auto"
        A name in :data:`dpfast.optimizers.OPTIMIZERS`, or a function for
        :func:`dpfast.optimizers.as_minimizer`.
    optimizer_options : mapping
        Its further arguments.

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
    ) -> None:
        check_certifiable(shape)
        self.shape = shape
        self.tolerance = check_real("tolerance", tolerance, low=0.0, low_open=True)
        self.optimizer = choose_optimizer(
            optimizer,
            shape.dim,
            shape.certificate,
            single_rows=shape.single_rows,
            smoothable=shape.smoothable,
            what=f"{type(shape).__name__.removesuffix('Shape').lower()} objectives",
        )
        self.optimizer_options = MappingProxyType(dict(optimizer_options))
        self.dimension = shape.dim
        self.distance: float = self.tolerance / shape.strong_convexity
        bound = shape.minimizer_norm + self.distance
        self.bound = bound if math.isfinite(bound) else None

    def sensitivity(self, neighboring_relation: str) -> float:
        problem = getattr(self.shape, "problem", None)
        if problem is not None and problem.several_rows and not isinstance(self.shape, ErmShape):
            raise ValueError(
                "objective must be 'erm' where a record is a group of several rows; got "
                f"{type(self.shape).__name__}, whose distance is proved for a row."
            )
        between = float(self.shape.minimizer_sensitivity(neighboring_relation))
        return between + 2.0 * self.distance

    def rounding_error(self) -> float:
        """Return 0: the certificate includes it."""
        return 0.0

    def prepare(self, rows: Any, *fixed: Any) -> Any:
        """The objective."""
        return self.shape.on(rows) if isinstance(rows, RowSums) else rows

    def __call__(self, prepared: Any, *point: Any) -> Vector:
        """The point.

        Raises
        ------
        CertificateNotReached
            If no optimizer's point can be certified.
        """
        if self.shape.certificate == "saddle":
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


def check_units(shape: ProblemShape, farthest: float, center: float, half: float) -> None:
    """Refuse units without a width, a center too far away, and one that no constant tells."""
    if not (0.0 < half < math.inf and abs(center) <= farthest * half):
        raise ValueError(
            f"half must be positive and center at most {farthest:g} times it; got {half} and "
            f"{center}. Nothing was spent on it."
        )
    if center != 0.0 and shape.intercept == 0.0:
        raise ValueError(f"center must be 0 without an intercept; got {center}.")


def minimizer_in_units(
    rows: RowSums,
    shape: ProblemShape,
    alpha: float,
    tolerance: float,
    optimizer: Optimizer,
    units: tuple[float, float],
    linear: ArrayLike = 0.0,
    more_ridge: ArrayLike = 0.0,
    **options: Any,
) -> Vector:
    """A certified minimizer for targets in `units`, a center and a half, and in these units.

    The objective is that of the targets as they are, whose values are as large as ``half`` times
    the stretch of the slopes: the ridges are around the weight of the constant that predicts the
    center, `linear` and the tolerance grow with the slopes.
    """
    (center, half), start = units, np.zeros(shape.dim)
    if center != 0.0:
        start[-1] = center / shape.intercept
    loss = shape.loss.zoomed(half)
    stretch = loss.lipschitz / shape.loss.lipschitz
    ridge, more = alpha * (stretch / half), np.asarray(more_ridge) * (stretch / half)
    coefficients = stretch * np.asarray(linear) - (ridge + more) * start
    objective = LinearTerm(Erm(rows.with_loss(loss), ridge), coefficients, more)
    # What rounds the tolerance is taken off it.
    tolerance *= stretch * (1.0 - 2.0**-40)
    w = certified_minimizer(objective, tolerance, optimizer, **{"w0": start, **options}).w
    return np.asarray((w - start) / half, dtype=np.float64)


class MinimizerInUnits(CertifiedMinimizer):
    """The same for a mean of losses of numbers, of targets in units that were learned.

    With c the center of the units, h their half and s the constant's weight that predicts c, the
    value is ``v = (w - s) / h``, w certified to be near the minimizer of the mean of the losses in
    these units with the ridge around s: so v is near that of the targets ``(y - c) / h`` with the
    ridge α.  The arguments are c and h.

    Sensitivity: the same, since the distance of neighbors' minimizers is proved for targets of any
    size; and ``‖v‖ <= L/α`` and what the certificate allows, as the gradient at 0 is at most L.

    Parameters
    ----------
    shape : ErmShape
        Of a smooth loss of numbers without a log link.
    tolerance : float
    farthest : float
        The center's largest distance from 0, in halves.
    optimizer, optimizer_options
        As for :class:`CertifiedMinimizer`; of optimizers that read all rows.
    """

    shape: ErmShape
    takes = (), ()

    def __init__(
        self,
        shape: ErmShape,
        tolerance: float,
        farthest: float,
        *,
        optimizer: Optimizer = "auto",
        optimizer_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        problem = shape.problem
        if problem.loss.kind != "regression" or problem.loss.log_link:
            raise ValueError(
                f"loss must be one of numbers without a log link; got {problem.loss.name!r}."
            )
        super().__init__(shape, tolerance, optimizer_options=optimizer_options)
        self.optimizer = choose_optimizer(
            optimizer, shape.dim, "gradient", single_rows=False, what="objectives in other units"
        )
        self.farthest = check_real("farthest", farthest, low=0.0, high=2.0**30)
        self.bound = problem.lipschitz / shape.alpha + self.distance

    def rounding_error(self) -> float:
        """Return what is lost where the center is taken from the weights."""
        moved = self.farthest / (abs(self.shape.problem.intercept) or 1.0)
        return 2.0**-50 * (moved + (self.bound or 0.0))

    def check_point(self, *point: Any) -> None:
        """Refuse units without a width, and a center that is too far away."""
        super().check_point(*point)
        check_units(self.shape.problem, self.farthest, *point)

    def prepare(self, rows: Any, *fixed: Any) -> Any:
        """The rows."""
        return rows

    def __call__(self, prepared: Any, *point: Any) -> Vector:
        """The point, in these units."""
        center, half = point
        return minimizer_in_units(
            prepared, self.shape.problem, self.shape.alpha, self.tolerance, self.optimizer,
            (center, half), **self.optimizer_options,
        )  # fmt: skip


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
        reason = ErmShape(shape, 1.0).lacks
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
        records = records_apart(neighboring_relation)
        return self._apart(records * self.shape.record_lipschitz / self.shape.n_samples)

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

    The point of the result is certified, the rest is what an optimizer says.

    Raises
    ------
    CertificateNotReached
        If none of their points can be certified.
    """
    seen = witness(objective)
    minimize = OPTIMIZERS[first] if isinstance(first, str) else as_minimizer(first)
    result = minimize(seen, tolerance=tolerance, **options)
    if math.isfinite(objective.smoothness):
        others: tuple[str, ...] = ("newton", "lbfgs")
    else:
        others = ("smoothing",) if isinstance(objective, Smoothable) else ("subgradient",)
    for polish in others:
        if result.converged and seen.certifies(result.w, tolerance):
            return result
        if polish == "newton" and objective.dim > 4 * newton.MAX_DIM:
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


def check_certifiable(shape: Any) -> None:
    """Refuse objectives without a bound of their minimizers' distance, or without a certificate."""
    if not issubclass(type(shape), Described):
        raise TypeError(
            f"objective must be one of dpfast.objectives; got a shape of type "
            f"{type(shape).__name__}."
        )
    if shape.lacks is not None:
        raise ValueError(f"loss must be {shape.lacks}; got {shape.problem.loss.name!r}.")
    if shape.certificate is None:
        raise ValueError(
            "objective must be smooth, the empirical risk of the hinge, or declare value_rounding, "
            f"for a certificate; got {type(shape).__name__} with smoothness={shape.smoothness!r}."
        )
