r"""Risk under the worst perturbation of every row, in closed form.

``G(w) = (1/n) Σ c_i max_{‖δ‖ <= r} ℓ(<x̃_i + δ, w>; y_i) + (α/2)‖w‖²`` (Lowy & Razaviyayn 2021,
section 5.2). For a linear model the inner maximum is attained in closed form: with ``s`` the dual
norm of the features' weights (``‖w‖₂`` for l2 perturbations, ``‖w‖₁`` for l∞; the constant column
is not perturbed), the margin ``y z`` of a loss that does not increase in it falls to ``y z - r s``,
and the residual ``|z - y|`` of a loss that does not decrease in it grows to ``|z - y| + r s``.
Both are convex in ``w``.

**Rounded kinks.**  ``s`` is not differentiable where (some of) the weights vanish, and ``|z - y|``
not at 0: minimizers sit there, and no gradient can certify them.  So the objective is *defined*
with the kinks rounded off, by a public width ``ν = smoothing / ρ`` (``ρ`` the row norm): ``s_ν`` is
``√(‖w‖² + ν²)`` or ``Σ √(w_j² + ν²)``, and for regression ``√((z - y)² + smoothing²)`` replaces the
residual.  Both are convex, never below the exact ones, and above them by at most ``ν`` (l2), ``dν``
(l∞) and `smoothing`: the objective bounds the exact worst case from above and is smooth.  Its
minimizer is what is certified, and the sensitivity below is that of its minimizer.  With
``smoothing = 0`` (classification only) the exact objective remains, with the subgradient of least
norm; its certificate ``‖w - w*‖ <= ‖g‖/α`` holds for any subgradient, but an optimizer made for
smooth functions reaches it only where no weight of the minimizer vanishes.

**The hinge** has kinks of its own.  It asks for ``smoothing = 0``, and its exact objective is
certified by a duality gap (:meth:`Adversarial.duality_gap`).

**Sensitivity.**  One record's term has the gradient ``τ (±θx̃ + r∇s)``, ``τ = c|ℓ'|`` in
``[0, T]``, ``|θ| <= 1``; ``‖∇s‖₂ <= 1`` (l2) or ``√d`` (l∞).  So its norm is at most
``L = T √((R + r*)² + intercept²)`` with ``r* = r`` or ``r√d``, the l2 norm of the longest
perturbation.  Let ``h`` be what two neighbors' means differ by, times n.  `add_or_remove_one`, the
absent record contributing nothing: ``‖∇h‖ <= L``.  `replace_one`: ``∇h`` is affine in the two
``τ``, so its norm is largest at a corner of their square; where both are ``T`` the pulls ``r∇s``
of one and the same point cancel and ``2Tρ`` is left, where one is 0 it is ``L``:
``‖∇h‖ <= max(2Tρ, L)``.  An adversary weaker than the rows (``r* <= ρ``, about) costs no noise.
Minimizers are then at most ``sup‖∇h‖ / (αn)`` apart, differentiable or not:
``α‖w - w'‖² <= (h(w) - h(w'))/n`` at the two minimizers, and ``∇h`` exists almost everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real
from dpfast.losses import Loss
from dpfast.objectives._contract import UP, Risk, RiskShape, checked_weights
from dpfast.objectives._sums import row_sum, weighted_gram
from dpfast.privacy import records_apart
from dpfast.shape import UNIT
from dpfast.sums import RowAccess, RowSums, single_rows


@dataclass(frozen=True)
class AdversarialShape(RiskShape):
    """Public side of :class:`Adversarial`.

    Parameters
    ----------
    problem : ProblemShape
        Of a convex loss of bounded slope: any for classification, ``"huber"`` for regression.
    alpha : float
        Ridge ``α``.
    radius : float, default=0.1
        ``r >= 0``, in the units of the features.
    norm : {"l2", "linf"}, default="l2"
        Norm of the perturbations.
    smoothing : float, default=1e-3
        Rounds off the kinks, in units of the margin; 0 for the hinge.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the stated kind or range.

    Examples
    --------
    >>> from dpfast import ProblemShape
    >>> plain = ProblemShape(10_000, 4, 1.0, intercept=0.0)
    >>> shape = AdversarialShape(plain, alpha=0.1, radius=0.5, norm="linf")
    >>> round(shape.lipschitz / plain.lipschitz, 6)
    2.0
    """

    smoothable: ClassVar[bool] = True

    radius: float = 0.1
    norm: str = "l2"
    smoothing: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        loss = self.problem.loss
        check_real("radius", self.radius, low=0.0, high=1e100)
        check_choice("norm", self.norm, ("l2", "linf"))
        check_real("smoothing", self.smoothing, low=0.0, high=1e100)
        if not loss.convex or not math.isfinite(loss.lipschitz):
            raise ValueError(
                "loss must be convex and of bounded slope, for adversarial training; "
                f"got {loss.name!r}."
            )
        if not math.isfinite(loss.smoothness) and self.smoothing != 0.0:
            raise ValueError(
                f"smoothing must be 0 for the loss {loss.name!r}, whose worst case is certified "
                f"with its kinks; got {self.smoothing!r}."
            )
        if loss.kind == "regression":
            if not loss.even:  # the closed form is for losses of the residual's absolute value
                raise ValueError(
                    "loss must be a classification loss or a function of the residual's absolute "
                    f"value ('huber'), for adversarial training; got {loss.name!r}."
                )
            if self.smoothing == 0.0 and self.radius > 0.0:
                raise ValueError(
                    f"smoothing must be > 0 for the loss {loss.name!r}, whose worst case has a "
                    f"kink at every target; got {self.smoothing!r}."
                )

    def on(self, problem: RowSums) -> Adversarial:
        """The objective of a problem with these public quantities."""
        return Adversarial(problem, self.alpha, self.radius, self.norm, self.smoothing)

    @property
    def longest_perturbation(self) -> float:
        """l2 norm of the longest perturbation: ``r`` or ``r√d``."""
        return self.radius * (math.sqrt(self.problem.n_features) if self.norm == "linf" else 1.0)

    @property
    def width(self) -> float:
        """``ν``: where the dual norm is rounded off, in units of the weights."""
        return self.smoothing / self.problem.row_norm

    @property
    def residual_width(self) -> float:
        """Where the residual's absolute value is rounded off; 0 where it has no kink."""
        rounded = self.problem.loss.kind == "regression" and self.radius > 0.0
        return self.smoothing if rounded else 0.0

    @property
    def row_norm(self) -> float:
        """Bound of the norm of a perturbed row, the intercept included."""
        longest = self.problem.data_norm + self.longest_perturbation
        return math.hypot(longest, self.problem.intercept) * UP

    @property
    def lipschitz(self) -> float:
        """Bound of the norm of one row's gradient."""
        return self.problem.loss.lipschitz * self.row_norm * self.problem.max_weight

    @property
    def smoothness(self) -> float:
        """Bound of the Hessian's norm, the ridge included; infinite without smoothing.

        ``max|ℓ''|`` times the squared norm of a perturbed row, and ``max|ℓ'|`` times the curvature
        of the rounded norm, at most ``r/ν``, and of the rounded residual, at most ``ρ²/smoothing``.
        """
        loss, kinks = self.problem.loss, 0.0
        if self.radius > 0.0:
            kinks += self.radius / self.width if self.width > 0.0 else math.inf
        if self.residual_width > 0.0:
            kinks += self.problem.row_norm**2 / self.residual_width
        rows = loss.smoothness * self.row_norm**2 + loss.lipschitz * kinks
        return self.problem.max_weight * rows + self.alpha

    @property
    def certificate(self) -> Literal["gradient", "gap"] | None:
        """The gradient where the kinks are rounded off; a duality gap for the hinge."""
        if math.isfinite(self.smoothness):
            return "gradient"
        return "gap" if self.problem.loss.smoothed is not None else None

    def least_tolerance(self) -> float:
        """For the hinge ``√(2α gap)`` for 64 times the gap that rounding leaves."""
        if self.certificate != "gap":
            return super().least_tolerance()
        gap = self.gap_error(2.0 * self.minimizer_norm)
        return math.sqrt(128.0 * self.alpha * (gap + 0.5 * self.dual_error() ** 2 / self.alpha))

    def dual_error(self) -> float:
        """Bound of the rounding error of the dual point in :meth:`Adversarial.duality_gap`.

        ``‖Δg‖ + r*|Δs̄|`` for sums of n terms, the one by the kernels, the other one after another.
        """
        shape = self.problem
        pull = (shape.additions() + 24) * shape.lipschitz
        return 1.1 * UNIT * (pull + 2.0 * (shape.most_rows + 16) * shape.max_weight * self._push())

    def gap_error(self, w_norm: float) -> float:
        """Bound of the rounding error of the other terms of the gap at ``‖w‖ <= w_norm``.

        A worst margin is wrong by ``(D + 8) u ρ'‖w‖``, and a row's term moves no faster; a few
        units of terms of the size ``1 + ρ'‖w‖`` and of their sum are counted as ``2D + 64``.
        """
        reach = self.row_norm * w_norm
        return UNIT * self.problem.max_weight * (3.0 * self.dim + 72.0) * (1.0 + reach)

    def _push(self) -> float:
        """l2 norm of the longest perturbation, rounded up."""
        return self.longest_perturbation * UP

    def hessian_trace(self) -> float:
        """``dβ``: the rounded norm bends in all directions."""
        return self.dim * self.smoothness

    @property
    def minimizer_norm(self) -> float:
        """Bound of ``‖w*‖₂``: ``αw*`` is minus a mean gradient; ``(α/2)‖w*‖² <= G(0)``."""
        columns = self.problem.n_features if self.norm == "linf" else 1
        loss = self.problem.loss
        rise = loss.lipschitz * self.radius * columns * self.width
        at_zero = (loss.at_zero + rise) * self.problem.max_weight
        return UP * min(self.lipschitz / self.alpha, math.sqrt(2.0 * at_zero / self.alpha))

    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """``max(2Tρ, L)/(αn)`` (`replace_one`) or ``L/(αn)`` (`add_or_remove_one`).

        ``T = max|ℓ'| c`` and ``ρ`` the row norm: the proof is in the module's first lines.
        """
        difference = self.lipschitz
        if records_apart(neighboring_relation) == 2:
            difference = max(2.0 * self.problem.lipschitz, difference)
        return difference / (self.alpha * self.n_samples)

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error of the computed gradient at ``‖w‖ <= w_norm``.

        As in :meth:`dpfast.ProblemShape.gradient_error`, for perturbed rows: margin and shift are
        wrong by at most ``(D + 8) u`` times ``ρ'‖w‖`` and the constant part of the shift, a
        derivative by that times ``max|ℓ''|`` (plus ``max|ℓ'|/smoothing`` where the residual is
        rounded off) plus a few units of its own, the direction of the norm by ``D + 8`` units.
        """
        shape, loss = self.problem, self.problem.loss
        columns = shape.n_features if self.norm == "linf" else 1
        margin = self.row_norm * w_norm + self.radius * columns * self.width
        bend = loss.smoothness
        if self.residual_width > 0.0:
            bend += loss.lipschitz / self.residual_width
        own = (2.0 * self.dim + 40.0) * loss.lipschitz
        row = bend * (self.dim + 8) * margin if margin > 0.0 else 0.0
        total = shape.max_weight * self.row_norm * (row + own)
        total += (2.0 * shape.additions() + 8) * self.lipschitz + 4.0 * self.alpha * w_norm
        return 1.1 * UNIT * total


class Adversarial(Risk):
    """Mean of every row's worst loss within a radius, and a ridge.

    Parameters
    ----------
    problem : Problem
    alpha, radius, norm, smoothing
        As for :class:`AdversarialShape`.

    Examples
    --------
    >>> from dpfast import Problem
    >>> problem = Problem([[1.0], [-0.5]], [1.0, -1.0], "hinge", data_norm=1.0, intercept=0.0)
    >>> objective = Adversarial(problem, alpha=0.1, radius=0.25, smoothing=0.0)
    >>> value, gradient = objective.value_and_gradient([1.0])
    >>> round(value, 9), gradient  # margins 1 and 0.5 became 0.75 and 0.25
    (0.55, array([-0.4]))
    """

    shape: AdversarialShape
    _problem: RowAccess

    def __init__(
        self,
        problem: RowSums,
        alpha: float,
        radius: float = 0.1,
        norm: str = "l2",
        smoothing: float = 1e-3,
    ) -> None:
        self.shape = AdversarialShape(problem.shape, alpha, radius, norm, smoothing)
        self._problem = single_rows(problem, "an adversarial objective")

    def _norm(self, w: Vector) -> tuple[float, Vector]:
        """The rounded dual norm of the features' weights, and its gradient."""
        shape = self.shape
        features = w[: shape.problem.n_features]
        direction = np.zeros(shape.dim)
        if shape.norm == "l2":
            size = math.hypot(float(np.linalg.norm(features)), shape.width)
            if size > 0.0:
                direction[: len(features)] = features / size
            return size, direction
        sizes = np.hypot(features, shape.width)
        direction[: len(features)] = np.divide(
            features, sizes, out=np.zeros(len(features)), where=sizes > 0.0
        )
        return float(sizes.sum()), direction

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """``G(w)`` and its gradient (without smoothing: its subgradient of least norm).

        X is read once.
        """
        shape = self.shape
        vector = checked_weights(w, self.dim)
        size, direction = self._norm(vector)
        spec, shift = shape.problem.loss.spec, shape.radius * size

        def work(
            kernel: Any, first: int, last: int, start: int, stop: int
        ) -> tuple[float, float, Vector]:
            out = np.empty(self.dim)
            loss, pull = _kernels.shifted_sum(
                kernel, first, last, spec, shift, shape.residual_width, vector, out
            )
            return loss, pull, out

        loss_sum, pull_sum, gradient = 0.0, 0.0, np.zeros(self.dim)
        for loss, pull, part in self._problem.map_chunks(work):
            loss_sum += loss
            pull_sum += pull
            gradient += part
        n = shape.n_samples
        gradient /= n
        strength = shape.radius * pull_sum / n
        gradient += strength * direction
        gradient += shape.alpha * vector
        if shape.width == 0.0:
            self._shorten(vector, gradient, strength)
        return loss_sum / n + 0.5 * shape.alpha * float(vector @ vector), gradient

    # ---- for the hinge --------------------------------------------------------------------------

    def smoothed(self, width: float) -> Adversarial:
        """The same with the huberized hinge of this `width`, and the norm rounded off by less."""
        name = self.shape.problem.loss.smoothed
        if name is None:
            raise ValueError(
                f"loss must be 'hinge', the one with a kink; got {self.shape.problem.loss.name!r}."
            )
        problem = self._problem.with_loss(Loss(name, width=width))
        shape = self.shape
        return Adversarial(problem, shape.alpha, shape.radius, shape.norm, self._rounding(width))

    def limit(self, before: Vector, w: Vector, width: float, shrink: float) -> Vector | None:
        """Straight on, with the weights at zero that the rounded norm keeps away from it.

        A strong adversary leaves few weights but the intercept, and every row of a class is at the
        kink at once.  There the path of the smoothed minimizers is straight, and of the rows'
        slopes only those on the way tell, not those at its end.
        """
        if width > 0.1:
            return None
        ahead = w + (w - before) * (shrink / (1.0 - shrink))
        features = slice(self.shape.problem.n_features)
        small = np.abs(w[features]) <= 30.0 * self._rounding(width) / self.shape.problem.row_norm
        ahead[features][small] = 0.0
        return ahead

    @staticmethod
    def _rounding(width: float) -> float:
        """What rounds the norm off where the hinge is rounded off over this width."""
        return 0.1 * width

    def duality_gap(self, w: Vector, width: float, slopes_at: Vector | None = None) -> float:
        r"""Upper bound of ``G(w) - G(w*)`` for the hinge, rounding included.

        With ``z_i = 1 - y_i <x̃_i, w> + r‖w‖'``, ``‖·‖'`` the dual norm of the features' weights,
        and any ``s_i`` in [0, 1], ``max(z_i, 0) >= s_i z_i``.  So ``G(v)`` is for every v at least
        ``s̄ - <g, v> + r s̄ ‖v‖' + (α/2)‖v‖²``, ``s̄ = (1/n) Σ c_i s_i``, ``g = (1/n) Σ c_i s_i y_i
        x̃_i``, whose minimum over v is ``s̄ - ‖q‖²/(2α)``: ``q`` is ``g`` shortened by ``r s̄``, as a
        vector (l2) or entry by entry (l∞); the intercept's entry as it is.  What ``G(w)`` exceeds
        this by is a sum of terms that are never negative::

            (1/n) Σ c_i (max(z_i, 0) - s_i z_i)  +  ‖αw - q‖²/(2α)  +  r s̄ ‖w‖' - <w, g - q>

        ``s_i`` is the slope of the smoothed objective's loss, at w or at another point.

        Rounding: whatever ``s_i`` were computed lie in [0, 1] and are a dual point, so ``g`` and
        ``s̄`` are wrong by the rounding of their sums alone.  ``q`` moves by at most
        ``e = ‖Δg‖ + r*|Δs̄|``, ``r*`` the l2 norm of the longest perturbation, and the gap as a
        function of both has the slope ``‖αw - q‖/α`` in e, which itself changes by at most e/α: so
        ``(‖αw - q‖ + e)²`` instead of ``‖αw - q‖²`` covers it.  The first term moves no faster
        than ``z_i`` (:meth:`AdversarialShape.gap_error`).

        The other point is `slopes_at`, if it is given.
        """
        shape, problem = self.shape, self._problem
        vector = checked_weights(w, self.dim)
        d, alpha, w_norm = shape.problem.n_features, shape.alpha, float(np.linalg.norm(vector))
        size, weight, target = self._norm(vector)[0], problem.sample_weight, problem.target
        slack = self._slack(vector)
        there = self.smoothed(width)._slack(
            vector if slopes_at is None else checked_weights(slopes_at, self.dim)
        )
        share = np.clip((there + width) / (2.0 * width), 0.0, 1.0)
        terms = np.maximum(slack, 0.0) - share * slack
        if weight is not None:
            terms, share = terms * weight, share * weight
        n = shape.n_samples
        pull, strength = row_sum(problem, share * target) / n, float(share.sum()) / n
        short = pull.copy()
        short[:d] = _shortened(pull[:d], shape.radius * strength, shape.norm)
        grown = (1.0 + 2.0**-40) * float(np.linalg.norm(alpha * vector - short))
        grown += shape.dual_error() + 16.0 * UNIT * (float(np.linalg.norm(pull)) + alpha * w_norm)
        along = shape.radius * strength * size - float(vector @ (pull - short))
        mean = float(terms.sum()) / n * (1.0 + 2.0**-52 * (shape.problem.most_rows + 16))
        gap = mean + max(0.0, along) + 0.5 * grown * grown / alpha + shape.gap_error(w_norm)
        return gap * (1.0 + 2.0**-50)

    def _slack(self, w: Vector) -> Vector:
        """``1`` minus the worst margins."""
        problem, push = self._problem, self.shape.radius * self._norm(w)[0]
        return np.asarray(1.0 - problem.target * problem.margins(w) + push)

    def rounding(self, w_norm: float) -> tuple[float, float]:
        """Bounds of the rounding errors of a value and of a subgradient, kinks included.

        As in :meth:`dpfast.objectives.Erm.rounding`, for perturbed rows; the direction of the norm
        is wrong by ``D + 8`` units.
        """
        shape, loss = self.shape.problem, self.shape.problem.loss
        columns = shape.n_features if self.shape.norm == "linf" else 1
        reach = self.shape.row_norm * w_norm + self.shape.radius * columns * self.shape.width
        largest = shape.max_weight * (loss.at_zero + loss.lipschitz * reach)
        depth = shape.additions() + 24
        value = 2.0 * shape.max_weight * loss.lipschitz * (self.dim + 8) * reach
        value += depth * (largest + shape.max_weight)
        value += 8.0 * self.shape.alpha * w_norm**2 * self.dim
        slope = (depth + self.dim + 8) * self.shape.lipschitz + 4.0 * self.shape.alpha * w_norm
        return 1.1 * UNIT * value, 1.1 * UNIT * slope

    def _shorten(self, w: Vector, gradient: Vector, strength: float) -> None:
        """Least norm: where weights vanish, the norm's subgradient may be chosen freely."""
        d = self.shape.problem.n_features
        if self.shape.norm == "linf":
            free = np.flatnonzero(w[:d] == 0.0)
            rest = gradient[free]
            gradient[free] = np.sign(rest) * np.maximum(np.abs(rest) - strength, 0.0)
        elif not w[:d].any():
            length = float(np.linalg.norm(gradient[:d]))
            gradient[:d] *= max(0.0, 1.0 - strength / length) if length > 0.0 else 0.0

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative from all rows, in three reads of X; `max_rows` is not used.

        ``Σ ℓ''(x̃ - y v)(x̃ - y v)^T / n`` with ``v = r∇s``, the norm's own curvature, and the
        ridge.
        """
        shape = self.shape
        vector = checked_weights(w, self.dim)
        size, direction = self._norm(vector)
        margin, target = self._problem.margins(vector), self._problem.target
        if shape.problem.loss.kind == "classification":
            _, slope, bend = shape.problem.loss(margin - target * shape.radius * size, target)
            pull, along, extra = -target * slope, -target, 0.0 * bend
        else:
            residual = margin - target
            rounded = np.hypot(residual, shape.residual_width)
            far = rounded + shape.radius * size
            _, pull, bend = shape.problem.loss(far, np.zeros(len(far)))
            # d|residual|/dz, and its own derivative ν²/|residual|³.
            safe = np.where(rounded > 0.0, rounded, 1.0)
            along = np.where(rounded > 0.0, residual / safe, 1.0)
            extra = pull * shape.residual_width**2 / safe**3
        weight = self._problem.sample_weight
        if weight is not None:
            pull, bend, extra = pull * weight, bend * weight, extra * weight
        push = shape.radius * direction
        total = weighted_gram(self._problem, bend * along**2 + extra)
        cross = np.outer(row_sum(self._problem, bend * along), push)
        total += cross + cross.T + bend.sum() * np.outer(push, push)
        strength = shape.radius * float(pull.sum())
        d = shape.problem.n_features
        if shape.norm == "l2":
            if size > 0.0:
                total[:d, :d] += (strength / size) * np.eye(d)
                total -= (strength / size) * np.outer(direction, direction)
        elif shape.width > 0.0:
            diagonal = np.arange(d)
            sizes = np.hypot(vector[:d], shape.width)
            total[diagonal, diagonal] += strength * shape.width**2 / sizes**3
        total /= shape.n_samples
        total[np.diag_indices(self.dim)] += shape.alpha
        return total


def _shortened(pull: Vector, by: float, norm: str) -> Vector:
    """What is left of a vector, or of its entries, when its length is taken down by so much."""
    if norm == "linf":
        return np.asarray(np.sign(pull) * np.maximum(np.abs(pull) - by, 0.0))
    length = float(np.linalg.norm(pull))
    return pull * (max(0.0, 1.0 - by / length) if length > 0.0 else 0.0)
