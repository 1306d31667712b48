"""Empirical risk with a ridge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._typing import Vector
from dpfast.losses import Loss
from dpfast.objectives._contract import Risk, RiskShape
from dpfast.objectives._finite_sum import Snapshot
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums, single_rows


@dataclass(frozen=True)
class ErmShape(RiskShape):
    """Public side of :class:`Erm`.

    Parameters
    ----------
    problem : ProblemShape
    alpha : float
        Ridge, which is also the strong convexity.
    """

    single_rows: ClassVar[bool] = True
    smoothable: ClassVar[bool] = True

    def on(self, problem: RowSums) -> Erm:
        """The objective of a problem with these public quantities."""
        return Erm(problem, self.alpha)

    @cached_property
    def ridged(self) -> ProblemShape:
        """The problem's shape, with the ridge."""
        return self.problem.with_alpha(self.alpha)

    @property
    def smoothness(self) -> float:
        """Bound of the Hessian's norm, the ridge included."""
        return self.problem.smoothness + self.alpha

    @property
    def minimizer_norm(self) -> float:
        """See :meth:`dpfast.ProblemShape.minimizer_norm`."""
        return self.problem.minimizer_norm(self.alpha)

    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """See :meth:`dpfast.ProblemShape.minimizer_sensitivity`."""
        return self.problem.minimizer_sensitivity(self.alpha, neighboring_relation)

    def gradient_error(self, w_norm: float) -> float:
        """See :meth:`dpfast.ProblemShape.gradient_error`.

        Infinite for a loss with kinks: on which side a computed margin falls is not known.
        """
        return self.ridged.gradient_error(w_norm) if math.isfinite(self.smoothness) else math.inf

    @property
    def certificate(self) -> Literal["gradient", "gap"] | None:
        """The gradient of a smooth loss; a duality gap, of one whose kinks can be rounded off."""
        if math.isfinite(self.smoothness):
            return "gradient"
        return "gap" if self.problem.loss.smoothed is not None else None

    @property
    def lacks(self) -> str | None:
        """What the loss must be, and is not."""
        loss = self.problem.loss
        needs = {
            "convex, so that the ridge makes its minimizer stable": loss.convex,
            "of bounded slope, so that one record's influence is bounded": math.isfinite(
                loss.lipschitz
            ),
            "smooth or the hinge, since minimizers are certified by gradients or duality gaps": (
                self.certificate is not None
            ),
        }
        return next((need for need, met in needs.items() if not met), None)

    def least_tolerance(self) -> float:
        """For kinks ``√(2µ gap)`` for four times the gap that rounding leaves."""
        if self.certificate == "gradient":
            return super().least_tolerance()
        shape = self.problem
        reach = shape.row_norm * self.minimizer_norm
        value = shape.max_weight * (2 * shape.dim + 40) * (1.0 + 2.0 * reach)
        slope = UNIT * (shape.additions() + 24) * shape.lipschitz
        return math.sqrt(2.0 * self.alpha * 4.0 * (UNIT * value + slope**2 / self.alpha))

    def noise_risk(self, stddev: float, mean_norm: float) -> float:
        """Half the variance times the trace; for losses with kinks ``L E‖z‖``."""
        if math.isfinite(self.smoothness):
            return 0.5 * stddev**2 * self.hessian_trace()
        return super().noise_risk(stddev, mean_norm)


class Erm(Risk):
    """``F(w) = (1/n) Σ ℓ_i(w) + (α/2)‖w‖²`` of a :class:`~dpfast.Problem`.

    Parameters
    ----------
    problem : Problem
    alpha : float
        Ridge, which is also the strong convexity of ``F``.
    """

    shape: ErmShape

    def __init__(self, problem: RowSums, alpha: float) -> None:
        self.shape = ErmShape(problem.shape, alpha)
        self._problem = problem
        self._alpha, self._shape = self.shape.alpha, self.shape.ridged
        self._kernel: Any = None

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """``F(w)`` and its gradient, in one pass over the rows."""
        return self._problem.value_and_gradient(w, self._alpha)

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative of ``F`` at `w`, from about `max_rows` rows if given."""
        return self._problem.hessian(w, self._alpha, max_rows=max_rows)

    # ---- for stochastic methods -----------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self._shape.n_samples

    @property
    def row_smoothness(self) -> float:
        """Bound of the Hessian's norm of every single row's loss, without the ridge."""
        return self._shape.smoothness

    @property
    def minimizer_norm(self) -> float:
        """Bound of ``‖w*‖₂``."""
        return self.shape.minimizer_norm

    def snapshot(self, w: Vector) -> Snapshot:
        """Value, gradient, margins and derivatives at `w`, in two passes over the rows."""
        rows = single_rows(self._problem, "steps along single rows")
        loss_gradient, loss_sum = self._problem.clipped_gradient(w)
        n = self._shape.n_samples
        loss_gradient /= n
        margin = self._problem.margins(w)
        return Snapshot(
            w=w,
            value=loss_sum / n + 0.5 * self._alpha * float(w @ w),
            gradient=loss_gradient + self._alpha * w,
            loss_gradient=loss_gradient,
            margin=margin,
            derivative=self._shape.loss(margin, rows.target)[1],
        )

    def sgd_epoch(
        self,
        w: Vector,
        indices: NDArray[np.int64],
        step: float | Vector,
        *,
        snapshot: Snapshot | None = None,
        radius: float = np.inf,
        average: Vector | None = None,
        average_weight: Vector | None = None,
    ) -> None:
        """One projected step for each index, see :func:`dpfast._kernels.sgd_epoch`."""
        _kernels.sgd_epoch(
            self._kernel_rows(),
            self._shape.loss.spec,
            w,
            indices,
            step,
            alpha=self._alpha,
            w_radius=radius,
            snapshot_derivative=None if snapshot is None else snapshot.derivative,
            snapshot_gradient=None if snapshot is None else snapshot.loss_gradient,
            average=average,
            average_weight=average_weight,
        )

    def katyusha_epoch(
        self,
        z: Vector,
        y: Vector,
        average: Vector,
        average_scale: Vector,
        indices: NDArray[np.int64],
        *,
        tau1: float,
        snapshot: Snapshot,
        radius: float = np.inf,
    ) -> None:
        """Katyusha's steps, see :func:`dpfast._kernels.katyusha_epoch`."""
        _kernels.katyusha_epoch(
            self._kernel_rows(),
            self._shape.loss.spec,
            z,
            y,
            average,
            average_scale,
            indices,
            alpha=self._alpha,
            smoothness=self._shape.smoothness,
            tau1=tau1,
            snapshot=snapshot.w,
            snapshot_gradient=snapshot.loss_gradient,
            snapshot_margin=snapshot.margin,
            snapshot_derivative=snapshot.derivative,
            w_radius=radius,
        )

    def _kernel_rows(self) -> Any:
        if self._kernel is None:
            self._kernel = single_rows(self._problem, "steps along single rows").kernel_rows()
        return self._kernel

    # ---- for losses with kinks ------------------------------------------------------------------

    def rounding(self, w_norm: float) -> tuple[float, float]:
        """Bounds of the rounding errors of a value and of a subgradient, kinks included.

        With the notation of :meth:`dpfast.ProblemShape.gradient_error`: a computed margin is wrong
        by at most ``δ = (D + 6) u ρ ‖w‖``, which moves a loss by ``max|ℓ'| δ``, and a line below
        the loss that touches it at the computed margin passes the true one by no more than that
        again.  A loss is at most ``ℓ(0) + max|ℓ'| ρ ‖w‖``; sums pass through ``m`` additions.
        """
        shape = self._shape
        reach = shape.row_norm * w_norm
        largest = shape.max_weight * (shape.loss.at_zero + shape.loss.lipschitz * reach)
        depth = shape.additions() + 24
        value = 2.0 * shape.max_weight * shape.loss.lipschitz * (shape.dim + 6) * reach
        value += depth * (largest + shape.max_weight) + 8.0 * self._alpha * w_norm**2 * shape.dim
        slope = depth * shape.lipschitz + 4.0 * self._alpha * w_norm
        return 1.1 * UNIT * value, 1.1 * UNIT * slope

    def smoothed(self, width: float) -> Erm:
        """The same rows and ridge with the huberized hinge of this `width`."""
        name = self._shape.loss.smoothed
        if name is None:
            raise ValueError(
                f"loss must be 'hinge', the one with a kink; got {self._shape.loss.name!r}."
            )
        return Erm(self._problem.with_loss(Loss(name, width=width)), self._alpha)

    def limit(self, before: Vector, w: Vector, width: float, shrink: float) -> None:
        """Nowhere else: gaps are tight at the smoothed minimizers."""

    def duality_gap(self, w: Vector, width: float, slopes_at: Vector | None = None) -> float:
        r"""Upper bound of ``F(w) - F(w*)`` for the hinge, rounding included.

        For every ``s_i`` in the domain of the conjugate ``ℓ_i*``, ``ℓ_i(m) >= s_i m - ℓ_i*(s_i)``,
        so that with ``g = (1/n) Σ c_i s_i x̃_i``, for every ``v``,
        ``F(v) >= <g, v> + (α/2)‖v‖² - (1/n) Σ c_i ℓ_i*(s_i) >= -‖g‖²/(2α) - (1/n) Σ c_i ℓ_i*(s_i)``
        (Fenchel duality; the rows ``x̃_i`` are the scaled ones and ``c_i`` the weights, as in
        ``F``).  Subtracted from ``F(w)`` this is a sum of terms that are never negative::

            gap = (1/n) Σ c_i (ℓ_i(m_i) + ℓ_i*(s_i) - s_i m_i) + ‖g + αw‖²/(2α)

        For the hinge, ``ℓ_i*(s) = y_i s`` on ``-1 <= y_i s <= 0``.  Here ``s_i = -y_i σ(z_i)`` is
        the derivative of the huberized hinge of width ``h``, ``z_i = 1 - y_i m_i``: the row's term
        is ``max(z_i, 0) - σ(z_i) z_i``, which is at most ``h/8`` and zero where ``|z_i| >= h``, and
        ``g + αw`` is the gradient of the smoothed objective.

        Rounding: whatever derivatives the kernel computed lie in ``[-1, 1]`` on the right side and
        are a dual point; so the sum ``g`` is wrong by the rounding of additions alone, see
        :meth:`rounding`.  Margins are wrong by at most ``δ = (D + 6) u ρ ‖w‖``.  That the row's
        term is computed from another margin than the derivative in ``g`` changes it by at most
        ``|Δσ| |z_i| <= min(δ/2h, 1) (h + δ) <= 3δ/2``, and the term's own slope is at most 1/2.
        To this come a few units of ``1 + ρ‖w‖``.

        `slopes_at` is not used.
        """
        smooth = self.smoothed(width)
        shape = self._shape
        w_norm = float(np.linalg.norm(w))
        gradient = smooth.value_and_gradient(w)[1]
        norm = float(np.linalg.norm(gradient)) * (1.0 + 2.0**-40) + self.rounding(w_norm)[1]
        parts = self._problem.map_blocks(partial(_gap_terms, w=w, width=width))
        mean = sum(parts) / shape.n_samples
        error = shape.max_weight * (2 * shape.dim + 40) * (1.0 + shape.row_norm * w_norm)
        mean = mean * (1.0 + 2.0**-52 * (shape.most_rows + 16)) + UNIT * error
        return (mean + 0.5 * norm * norm / self._alpha) * (1.0 + 2.0**-50)


def _gap_terms(problem: RowAccess, w: Vector, width: float) -> float:
    """Sum of the rows' terms of :meth:`Erm.duality_gap`."""
    slack = 1.0 - problem.target * problem.margins(w)
    share = np.clip((slack + width) / (2.0 * width), 0.0, 1.0)
    terms = np.maximum(slack, 0.0) - share * slack
    weight = problem.sample_weight
    return float(terms.sum() if weight is None else terms @ weight)
