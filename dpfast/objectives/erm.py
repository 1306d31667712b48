"""Empirical risk with a ridge."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._validation import check_real
from dpfast.losses import Loss
from dpfast.objectives._finite_sum import Snapshot
from dpfast.shape import ProblemShape
from dpfast.sums import RowAccess, RowSums, single_rows

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ErmShape:
    """Public side of :class:`Erm`: a problem's shape and the ridge.

    Parameters
    ----------
    problem : ProblemShape
    alpha : float
        Ridge, which is also the strong convexity.

    Raises
    ------
    TypeError, ValueError
        If `alpha` is not a positive number.
    """

    problem: ProblemShape
    alpha: float

    def __post_init__(self) -> None:
        check_real("alpha", self.alpha, low=1e-100, high=1e100)

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return self.problem.dim

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.problem.n_samples

    @property
    def lipschitz(self) -> float:
        """Bound of the norm of one row's gradient."""
        return self.problem.lipschitz

    @property
    def strong_convexity(self) -> float:
        """The ridge: the loss part may be flat in some direction."""
        return self.alpha

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
        """See :meth:`dpfast.ProblemShape.gradient_error`."""
        return self.problem.with_alpha(self.alpha).gradient_error(w_norm)


class Erm:
    """``F(w) = (1/n) Σ ℓ_i(w) + (α/2)‖w‖²`` of a :class:`~dpfast.Problem`.

    Parameters
    ----------
    problem : Problem
    alpha : float
        Ridge, which is also the strong convexity of ``F``.
    """

    def __init__(self, problem: RowSums, alpha: float) -> None:
        self._problem = problem
        self._alpha = check_real("alpha", alpha, low=0.0, low_open=True)
        self._shape = problem.shape.with_alpha(self._alpha)
        self._kernel: Any = None
        self.shape = ErmShape(problem.shape, self._alpha)

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return self._shape.dim

    @property
    def strong_convexity(self) -> float:
        """The ridge: the loss part may be flat in some direction."""
        return self._alpha

    @property
    def smoothness(self) -> float:
        """Bound of the Hessian's norm, the ridge included."""
        return self._shape.smoothness + self._alpha

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """``F(w)`` and its gradient, in one pass over the rows."""
        return self._problem.value_and_gradient(w, self._alpha)

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative of ``F`` at `w`, from about `max_rows` rows if given."""
        return self._problem.hessian(w, self._alpha, max_rows=max_rows)

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``.

        Infinite for a loss with kinks: on which side a computed margin falls is anybody's guess.
        """
        if not np.isfinite(self._shape.smoothness):
            return np.inf
        return self._shape.gradient_error(w_norm)

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
        """Bound of ``‖w*‖₂``, see :meth:`dpfast.ProblemShape.minimizer_norm`."""
        return self._shape.minimizer_norm(self._alpha)

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
        shape, unit = self._shape, 2.0**-53
        reach = shape.row_norm * w_norm
        largest = shape.max_weight * (shape.loss.at_zero + shape.loss.lipschitz * reach)
        depth = shape.additions() + 24
        value = 2.0 * shape.max_weight * shape.loss.lipschitz * (shape.dim + 6) * reach
        value += depth * (largest + shape.max_weight) + 8.0 * self._alpha * w_norm**2 * shape.dim
        slope = depth * shape.lipschitz + 4.0 * self._alpha * w_norm
        return 1.1 * unit * value, 1.1 * unit * slope

    def smoothed(self, width: float) -> "Erm":
        """The same rows and ridge with the huberized hinge of this `width`.

        Raises
        ------
        ValueError
            If the loss is not the hinge.
        """
        name = self._shape.loss.smoothed
        if name is None:
            raise ValueError(
                f"loss must be 'hinge', the one with a kink; got {self._shape.loss.name!r}."
            )
        return Erm(self._problem.with_loss(Loss(name, width=width)), self._alpha)

    def duality_gap(self, w: Vector, width: float) -> float:
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

        Parameters
        ----------
        w : ndarray of shape (dim,)
        width : float

        Returns
        -------
        float
        """
        smooth = self.smoothed(width)
        shape = self._shape
        w_norm = float(np.linalg.norm(w))
        gradient = smooth.value_and_gradient(w)[1]
        norm = float(np.linalg.norm(gradient)) * (1.0 + 2.0**-40) + self.rounding(w_norm)[1]
        parts = self._problem.map_blocks(partial(_gap_terms, w=w, width=width))
        mean = sum(parts) / shape.n_samples
        error = shape.max_weight * (2 * shape.dim + 40) * (1.0 + shape.row_norm * w_norm)
        mean = mean * (1.0 + 2.0**-52 * (shape.n_samples + 16)) + 2.0**-53 * error
        return (mean + 0.5 * norm * norm / self._alpha) * (1.0 + 2.0**-50)


def _gap_terms(problem: RowAccess, w: Vector, width: float) -> float:
    """Sum of the rows' terms of :meth:`Erm.duality_gap`."""
    slack = 1.0 - problem.target * problem.margins(w)
    share = np.clip((slack + width) / (2.0 * width), 0.0, 1.0)
    terms = np.maximum(slack, 0.0) - share * slack
    weight = problem.sample_weight
    return float(terms.sum() if weight is None else terms @ weight)
