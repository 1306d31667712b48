r"""Tilted empirical risk: between the mean and the maximum of the losses.

``F(w) = (1/t) log((1/n) Σ_i exp(t v_i(w))) + (α/2)‖w‖²`` with ``v_i = c_i ℓ(<x̃_i, w>; y_i)`` and a
tilt ``t > 0``.  As ``t`` goes to 0 this is the mean risk, as ``t`` grows it approaches the largest
loss (Li, Beirami, Sanjabi & Smith 2020; Lowy & Razaviyayn 2021, section 5.1).  The gradient of the
loss part is ``Σ p_i g_i`` with ``g_i = ∇v_i`` and ``p_i = exp(t v_i) / Σ_j exp(t v_j)``, so it is
no longer than ``L``; the Hessian is ``Σ p_i ∇²v_i + t Cov_p(g) + αI``, so ``F`` is α-strongly
convex and ``β + tL² + α`` smooth.

**What an absent record is.**  For ``add_or_remove_one`` an absent record has the loss 0 at every
``w``, as in a mean risk: it contributes ``exp(0) = 1`` to the sum, and n stays.  A weight of 0
makes a row absent.

**Sensitivity.**  Let data sets differ in one record, with values ``a = exp(t v)``, ``a'`` and
gradients ``g``, ``g'`` at a point; let ``S`` be the sum of the others' ``exp(t v_i)`` and ``ḡ`` the
mean of their gradients under it, ``p = a/(S + a)``, ``p' = a'/(S + a')``.  The gradients of F and
F' differ by ``p(g - ḡ) - p'(g' - ḡ) = p g - p' g' - (p - p') ḡ``.

- `replace_one`: the norm is at most ``L(p + p' + |p - p'|) = 2L max(p, p')``.  If the losses at
  this point lie in [0, r], ``p <= E/(n - 1 + E)``, ``E = exp(t r)``.
- `add_or_remove_one`: ``g' = 0``, ``a' = 1 <= a`` since losses are not negative, so the norm is at
  most ``L(2p - p')``: at most the maximum of ``2E/(S + E) - 1/(S + 1)`` over ``S >= n - 1``
  (present and absent others contribute at least 1 each).

By strong convexity ``α‖w* - w'*‖ <= ‖∇F'(w*) - ∇F(w*)‖``, so ``r`` is needed at minimizers only:
``‖w*‖ <= B`` (`minimizer_norm`) bounds margins by ``ρB``, ``ρ`` the row norm.  Both bounds are
``2L/(αn)`` and ``L/(αn)`` at ``t = 0`` and at most ``2L/α``.  Lowy & Razaviyayn 2021, Lemma 5.2,
has ``(2L/α) min(1, E/n)``, which is never smaller than the first.

For a regression loss the spread is finite only for bounded targets: `target_bound` clips them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._typing import Vector
from dpfast._validation import check_real
from dpfast.losses import Loss
from dpfast.objectives._contract import UP, Risk, RiskShape, checked_weights
from dpfast.objectives._sums import weighted_gram
from dpfast.privacy import records_apart
from dpfast.shape import UNIT
from dpfast.sums import RowAccess, RowSums, single_rows


@dataclass(frozen=True)
class TiltedShape(RiskShape):
    """Public side of :class:`Tilted`.

    Parameters
    ----------
    problem : ProblemShape
        Of a convex loss of bounded slope.
    alpha : float
        Ridge ``α``.
    tilt : float, default=1.0
        ``t > 0``.
    target_bound : float or None, default=None
        Bound of ``|y|`` for a regression loss, which the targets are clipped to.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the stated kind or range.

    Examples
    --------
    >>> from dpfast import ProblemShape
    >>> shape = TiltedShape(ProblemShape(10_000, 5, 1.0), alpha=0.1, tilt=0.5)
    >>> mean = ProblemShape(10_000, 5, 1.0).minimizer_sensitivity(0.1, "replace_one")
    >>> 1.0 < shape.minimizer_sensitivity("replace_one") / mean < 150.0
    True
    """

    tilt: float = 1.0
    target_bound: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        loss = self.problem.loss
        check_real("tilt", self.tilt, low=1e-100, high=1e100, hint='Use objective="erm" for 0.')
        if not loss.convex or not math.isfinite(loss.lipschitz) or loss.log_link:
            raise ValueError(
                "loss must be convex, of bounded slope, and of targets on both sides of zero, for "
                f"a tilted risk; got {loss.name!r}."
            )
        if loss.kind == "classification":
            if self.target_bound is not None:
                raise ValueError(
                    f"target_bound must be None for the loss {loss.name!r}; "
                    f"got {self.target_bound!r}."
                )
        elif self.target_bound is None:
            raise ValueError(
                f"target_bound must be given for the loss {loss.name!r}: without a bound of |y| "
                "the losses have no bounded spread, and one record can outweigh all others."
            )
        else:
            check_real("target_bound", self.target_bound, low=0.0, high=1e100)

    def on(self, problem: RowSums) -> Tilted:
        """The objective of a problem with these public quantities."""
        return Tilted(problem, self.alpha, self.tilt, self.target_bound)

    @property
    def smoothness(self) -> float:
        """``β + tL² + α``: curvature, spread of the gradients under the tilted weights, ridge."""
        return self.problem.smoothness + self.tilt * self.lipschitz**2 + self.alpha

    @property
    def minimizer_norm(self) -> float:
        """Bound of ``‖w*‖₂``.

        ``α‖w*‖ <= ‖∇F(w*) - ∇F(0)‖ = ‖∇F(0)‖``, at most the largest slope at margin 0 times the row
        norm; and ``(α/2)‖w*‖² <= F(w*) <= F(0)``, at most the largest loss at margin 0, since the
        loss part is not negative.
        """
        slope, value = self._at_zero()
        return UP * min(slope / self.alpha, math.sqrt(2.0 * value / self.alpha))

    def _at_zero(self) -> tuple[float, float]:
        """Bounds of a row's gradient norm and of its loss at ``w = 0``."""
        bound = 1.0 if self.target_bound is None else self.target_bound
        value, derivative, _ = self.problem.loss([0.0, 0.0], [bound, -bound])
        row = self.problem.row_norm * self.problem.max_weight
        return float(np.abs(derivative).max()) * row, float(value.max()) * self.problem.max_weight

    def loss_bound(self, w_norm: float) -> float:
        """Bound of one row's weighted loss at ``‖w‖ <= w_norm``; losses are not negative.

        Convex losses are largest at a corner of the rectangle of margins and targets.
        """
        margin = self.problem.row_norm * w_norm * UP
        y = 1.0 if self.target_bound is None else self.target_bound
        value = self.problem.loss([margin, -margin, margin, -margin], [y, y, -y, -y])[0]
        return UP * self.problem.max_weight * float(value.max())

    def _largest_share(self, neighboring_relation: str) -> float:
        """Bound of the gradients' difference over ``L``, see the module's first lines."""
        others = float(self.n_samples - 1)
        # Losses reach down to 0 where rows are absent or have small weights, which the shape does
        # not exclude; without either, the smallest loss at the margin ρB could be subtracted.
        spread = self.tilt * self.loss_bound(self.minimizer_norm)
        if records_apart(neighboring_relation) == 2:
            return 2.0 / (1.0 + others * math.exp(-spread))
        if spread > 700.0:
            return 2.0
        grow = math.exp(spread)
        root = math.sqrt(2.0 * grow)
        worst = max(others, (grow - root) / (root - 1.0))
        return 2.0 * grow / (worst + grow) - 1.0 / (worst + 1.0)

    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """Largest distance between the minimizers of neighboring data sets.

        ``2L/α · E/(n - 1 + E)`` (`replace_one`) or ``L/α · max_S (2E/(S + E) - 1/(S + 1))``
        (`add_or_remove_one`), ``E = exp(t r)``: the proof is in the module's first lines.
        """
        share = UP * self._largest_share(neighboring_relation)
        return min(2.0, share) * self.lipschitz / self.alpha * UP

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error of the computed gradient at ``‖w‖ <= w_norm``.

        As in :meth:`dpfast.ProblemShape.gradient_error` a margin is wrong by at most
        ``e = (D + 6) u ρ ‖w‖``, so a row's gradient by ``c ρ (max|ℓ''| e + 8 u max|ℓ'|)`` and its
        loss, at most ``A``, by ``c max|ℓ'| e + 8 u A``.  The exponent ``t(v_i - max v)`` is then
        wrong by ``t`` times that (the maximum is only a shift, whatever its own error) and
        ``2 t u A`` of its own rounding, as are the exponents of all rescalings together; ``exp``
        adds a few units, and so does each rescaling, at most one a block of
        eight rows or more and one a chunk.  Both sums pass through fewer than ``2m`` additions,
        ``m`` those of a plain sum.

        The terms ``p_i g_i`` of the numerator add up to at most ``LM`` in norm, ``M = Σ p_i``, and
        its error beside ``LM`` is that of a term and of the additions.  The denominator is computed
        as ``n + Σ(p_i - 1)``, whose terms add up to ``n - M``: what their evaluation, rescalings
        and additions are wrong by, relative to them, is ``(n - M)/M`` times as much relative to
        ``M``.  ``M`` is at least 1, the largest term's share, and at least ``n exp(-tA)``; so
        ``n/M <= min(n, exp(tA))``.  A relative error ``ν`` of the numerator and ``η`` of the
        denominator change the quotient by at most ``(ν + η)L/(1 - η)``.
        """
        shape = self.problem
        steps = 2.0 * shape.additions()
        rescalings = shape.additions() / 8.0 - (-shape.n_samples // shape.chunk_rows())
        margin = (self.dim + 6) * shape.row_norm * w_norm
        value = shape.max_weight * shape.loss.lipschitz * margin
        high = self.loss_bound(w_norm)
        exponent = self.tilt * (value + 16.0 * high)
        terms = 8.0 + 6.0 * rescalings + steps
        crowd = min(float(shape.n_samples), math.exp(min(self.tilt * high, 700.0)))
        numerator, denominator = exponent + terms, exponent + terms * crowd + 8.0
        if not 1.1 * UNIT * denominator < 0.05:
            return math.inf
        row = (
            shape.max_weight
            * shape.row_norm
            * (shape.loss.smoothness * margin + 8.0 * shape.loss.lipschitz)
        )
        total = row + (1.1 * (numerator + denominator) + 8.0) * self.lipschitz
        return 1.1 * UNIT * (total + 4.0 * self.alpha * w_norm)


class Tilted(Risk):
    """``F(w) = (1/t) log((1/n) Σ exp(t c_i ℓ_i(w))) + (α/2)‖w‖²`` of a problem.

    Parameters
    ----------
    problem : Problem
    alpha, tilt, target_bound
        As for :class:`TiltedShape`.  Targets beyond `target_bound` are clipped to it.

    Examples
    --------
    >>> from dpfast import Problem
    >>> problem = Problem([[1.0], [-0.5]], [1.0, 1.0], data_norm=1.0, intercept=0.0)
    >>> objective = Tilted(problem, alpha=0.1, tilt=2.0)
    >>> value, gradient = objective.value_and_gradient([0.0])
    >>> round(value, 4), gradient
    (0.6931, array([-0.125]))
    """

    shape: TiltedShape
    _problem: RowAccess

    def __init__(
        self,
        problem: RowSums,
        alpha: float,
        tilt: float = 1.0,
        target_bound: float | None = None,
    ) -> None:
        self.shape = TiltedShape(problem.shape, alpha, tilt, target_bound)
        self._problem = single_rows(problem, "a tilted objective")
        self._target = self._problem.target
        if target_bound is not None:
            self._target = np.clip(self._target, -target_bound, target_bound)

    @property
    def _loss(self) -> Loss:
        return self.shape.problem.loss

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """``F(w)`` and its gradient, in one read of X."""
        vector = checked_weights(w, self.dim)
        spec, tilt = self._loss.spec, self.shape.tilt

        def work(
            kernel: Any, first: int, last: int, start: int, stop: int
        ) -> tuple[int, float, float, Vector]:
            out = np.empty(self.dim)
            target = self._target[start:stop]
            peak, excess = _kernels.tilted_sum(kernel, first, last, spec, tilt, vector, target, out)
            return stop - start, peak, excess, out

        rows, top, total, gradient = 0, -math.inf, 0.0, np.zeros(self.dim)
        for count, peak, excess, part in self._problem.map_chunks(work):
            # Bring both sums to the larger of the two maxima; Σ(p - 1) becomes Σ(f p - 1).
            if peak > top:
                total, gradient = _rescale(total, gradient, rows, tilt * (top - peak))
                top = peak
            else:
                excess, part = _rescale(excess, part, count, tilt * (peak - top))
            rows, total = rows + count, total + excess
            gradient += part
        mass = rows + total
        gradient /= mass
        gradient += self.shape.alpha * vector
        value = top + math.log1p(total / rows) / tilt
        return value + 0.5 * self.shape.alpha * float(vector @ vector), gradient

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """``Σ p_i ∇²v_i + t Cov_p(∇v) + αI`` from all rows, in two reads of X.

        Rows count by their tilted weights, so that a few of them can hold all of the curvature:
        `max_rows` is not used.
        """
        vector = checked_weights(w, self.dim)
        value, slope, curvature = self._loss(self._problem.margins(vector), self._target)
        if self._problem.sample_weight is not None:
            value, slope = value * self._problem.sample_weight, slope * self._problem.sample_weight
            curvature = curvature * self._problem.sample_weight
        share = np.exp(self.shape.tilt * (value - value.max()))
        share /= share.sum()
        total = weighted_gram(self._problem, share * (curvature + self.shape.tilt * slope**2))
        mean = self.value_and_gradient(vector)[1] - self.shape.alpha * vector
        total -= self.shape.tilt * np.outer(mean, mean)
        total[np.diag_indices(self.dim)] += self.shape.alpha
        return total


def _rescale(total: float, gradient: Vector, rows: int, exponent: float) -> tuple[float, Vector]:
    """Multiply the terms behind ``Σ(p_i - 1)`` and ``Σ p_i g_i`` by ``exp(exponent)``."""
    if rows == 0:
        return total, gradient
    factor = math.exp(exponent)
    return factor * total + rows * math.expm1(exponent), factor * gradient
