r"""The worst case over an adversary, by its declared constants: ``G(w) = max_{v ∈ V} H(w, v)``.

For a user's own ``H``, µ-strongly convex in ``w`` and concave in ``v``, ``G`` is µ-strongly convex
(a maximum of such functions), and its minimizer is as sensitive as that of
:mod:`dpfast.objectives.general`: with ``L`` a bound of ``‖∇_w‖`` of the data-dependent part of
``H`` at every ``v ∈ V``, the subgradients of ``G``'s data-dependent part are no longer (they are
convex combinations of such gradients at maximizers), so the distance is at most ``2L/µ``.  A bound
that shrinks with the number of records is declared as `sensitivity`.  Lowy & Razaviyayn 2021,
section 5.2, release the minimizer by output perturbation.

The gradient of ``G`` is not at hand, so what is certified is a gap, by
:func:`dpfast.optimizers.minimax_appa`: ``G(w) - min G <= gap`` implies a distance of at most
``√(2 gap/µ)``, smooth or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from dpfast._typing import Vector
from dpfast._validation import check_real
from dpfast.objectives.general import GeneralShape


class SaddleProblem(Protocol):
    """A function ``H(w, v)``, strongly convex in `w` and concave in `v`, on ``v ∈ V``.

    Attributes
    ----------
    dim, dim_adversary : int
        Lengths of `w` and `v`.
    strong_convexity : float
        ``µ > 0`` in `w`, for every `v`.
    strong_concavity : float
        ``ν >= 0`` in `v`, for every `w`.
    smoothness : float
        Lipschitz constant of the gradient in both arguments together.
    """

    @property
    def dim(self) -> int: ...

    @property
    def dim_adversary(self) -> int: ...

    @property
    def strong_convexity(self) -> float: ...

    @property
    def strong_concavity(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    def value_and_gradients(self, w: Vector, v: Vector) -> tuple[float, Vector, Vector]:
        """``H(w, v)`` and its gradients in `w` and in `v`."""
        ...

    def project(self, v: Vector) -> Vector:
        """The point of ``V`` that is closest to `v`."""
        ...

    def support(self, direction: Vector) -> float:
        """``max_{v ∈ V} <direction, v>``."""
        ...


def _not_used(w_norm: float) -> float:
    return 0.0


@dataclass(frozen=True)
class SaddleShape(GeneralShape):
    """Declared constants of ``G``.

    Parameters
    ----------
    dim, lipschitz, strong_convexity, smoothness, n_samples, sensitivity, minimizer_norm
        Of ``G``, as for :class:`GeneralShape`.
    gap_error : float, default=0.0
        Bound of the rounding error of a certified gap: of ``½‖∇_w H‖²/µ`` plus
        ``max_{u ∈ V} <∇_v H, u - v>``.  The noise pays for it.  0 takes the gap for exact.
    game_smoothness, strong_concavity, diameter : float
        ``ℓ`` and ``ν`` of ``H``, and the diameter of ``V``, by which a plan tells how many
        gradients to expect; infinite: not known.

    Examples
    --------
    >>> shape = SaddleShape(3, lipschitz=1.0, strong_convexity=0.5, smoothness=2.0, gap_error=1e-12)
    >>> shape.minimizer_sensitivity("replace_one") >= 4.0
    True
    """

    gap_error: float = 0.0
    game_smoothness: float = math.inf
    strong_concavity: float = 0.0
    diameter: float = math.inf

    @property
    def certificate(self) -> Literal["saddle"]:
        """A gap of the convex-concave function."""
        return "saddle"

    def least_tolerance(self) -> float:
        """For four times the gap's rounding error."""
        return 2.0 * math.sqrt(2.0 * self.strong_convexity * self.gap_error)

    def __post_init__(self) -> None:
        if self.rounding is None:
            # No gradient of G is ever computed.
            object.__setattr__(self, "rounding", _not_used)
        super().__post_init__()
        check_real("gap_error", self.gap_error, low=0.0)
        check_real("game_smoothness", self.game_smoothness, low=0.0, allow_inf=True)
        check_real("strong_concavity", self.strong_concavity, low=0.0)
        check_real("diameter", self.diameter, low=0.0, allow_inf=True)


class Saddle:
    """A user's own convex-concave function, to be minimized in `w` under the worst `v`.

    Parameters
    ----------
    game : SaddleProblem
        Has ``dim``, ``dim_adversary``, ``strong_convexity`` µ, ``strong_concavity`` ν,
        ``smoothness`` ℓ, and the methods ``value_and_gradients(w, v)``, ``project(v)`` and
        ``support(direction)``; see :class:`SaddleProblem`.  The constants must be
        public.  ``G`` is ``ℓ(1 + ℓ/ν)``-smooth, and not smooth for ``ν = 0``.
    lipschitz : float
        ``L``: bound of the norm of the gradient in `w` of the data-dependent part, for every `v`.
    n_samples, sensitivity, minimizer_norm, gap_error, diameter
        As for :class:`SaddleShape`.

    Examples
    --------
    Every row of a linear loss may be moved by up to 0.1:

    >>> import numpy as np
    >>> import dpfast
    >>> class Game:
    ...     dim, dim_adversary, strong_convexity, strong_concavity = 2, 2, 0.5, 0.0
    ...     smoothness = 2.0
    ...     def __init__(self, rows):
    ...         self.mean = rows.mean(axis=0)
    ...     def value_and_gradients(self, w, v):
    ...         pull = self.mean + v
    ...         return 0.25 * w @ w - pull @ w, 0.5 * w - pull, -w
    ...     def project(self, v):
    ...         return v * min(1.0, 0.1 / max(np.linalg.norm(v), 1e-300))
    ...     def support(self, direction):
    ...         return 0.1 * float(np.linalg.norm(direction))
    >>> objective = Saddle(Game(np.tile([0.6, 0.8], (1000, 1))), lipschitz=1.1, n_samples=1000,
    ...                    sensitivity=2.0 / (0.5 * 1000), gap_error=1e-12)
    >>> result = dpfast.solve(objective, "output-perturbation", dpfast.Budget(1.0, 1e-6))
    >>> bool(np.linalg.norm(result.w - 2.0 * 0.9 * np.array([0.6, 0.8])) < 1.0)
    True
    """

    shape: SaddleShape

    def __init__(
        self,
        game: Any,
        *,
        lipschitz: float,
        n_samples: int | None = None,
        sensitivity: float | Mapping[str, float] | None = None,
        minimizer_norm: float = math.inf,
        gap_error: float = 0.0,
        diameter: float = math.inf,
    ) -> None:
        ell = check_real("smoothness", game.smoothness, low=0.0, low_open=True)
        concavity = check_real("strong_concavity", game.strong_concavity, low=0.0)
        smoothness = ell * (1.0 + ell / concavity) if concavity > 0.0 else math.inf
        self.game = game
        self.shape = SaddleShape(
            game.dim, lipschitz, game.strong_convexity, smoothness, n_samples, sensitivity,
            minimizer_norm, gap_error=gap_error, game_smoothness=ell, strong_concavity=concavity,
            diameter=diameter,
        )  # fmt: skip
