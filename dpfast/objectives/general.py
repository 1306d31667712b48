r"""Any strongly convex function of the data, by its declared constants.

The class of Lowy & Razaviyayn 2021 that is neither a mean over records nor a risk: ``F(w, X)``, µ-
strongly convex in ``w`` for every data set ``X``, with a data-dependent part whose gradient is no
longer than ``L``.

**Sensitivity.**  Write ``F = f + r`` with ``r`` free of data.  For any two data sets,
``µ‖w* - w'*‖ <= ‖∇F'(w*) - ∇F'(w'*)‖ = ‖∇F'(w*)‖ = ‖∇F'(w*) - ∇F(w*)‖ = ‖∇f'(w*) - ∇f(w*)‖
<= 2L``: at most ``2L/µ``, under either neighboring relation (their Proposition 2.2, part 1), and
reached by ``f = L x·w``, ``r = (µ/2)‖w‖²``, ``x = ±e``.  The middle of the chain says more: where
``L`` bounds the gradient of **all** of ``F`` on a ball that holds every minimizer, as in the
paper's definition of the class, ``‖∇F'(w*)‖ <= L`` and ``L/µ`` is enough; its Appendix F with one
record reaches that.  Who knows this, or a bound that shrinks with the number of records, declares
`sensitivity`.

**Gradient sensitivity.**  ``G``: how far the gradients of two neighbors' functions can be apart at
one point.  The same chain gives ``G/µ`` for the minimizers, and along a segment in which it holds
the *difference* of the two functions changes by at most ``G`` times the length, which is what the
exponential mechanism asks for.  ``2L`` always holds; for a mean of n terms that are L-Lipschitz
each, ``2L/n`` (`replace_one`) and ``L/n`` (`add_or_remove_one`).

None of these constants can be checked from outside: the guarantee stands on the declaration.

**Kinks.**  A function that is not smooth has no gradient that could certify its minimizer; lines
below it do.  Subgradients ``G_k`` at points ``w_k`` bound the minimum from below, and an average of
the points is certified by the gap (:class:`dpfast.optimizers.certificates.Averages`), if
`rounding` and `value_rounding` say what floating point does to both.  The gap falls as ``1/T`` in
the number of subgradients, so that the tolerance is 6 % of L unless told otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_integer, check_real, keep_python_numbers
from dpfast.objectives._contract import (
    Described,
    ShapedObjective,
    checked_weights,
    difference_hessian,
)
from dpfast.privacy import records_apart
from dpfast.shape import UNIT

# What subgradients of norm 2L certify after some 5,000 steps: √(2µ gap), gap = 2(2L)²/(µ(T + 1)).
_KINK_TOLERANCE = 0.06
# Number of terms that the default rounding bound assumes where no number of records is declared.
_DEFAULT_TERMS = 2**20


@dataclass(frozen=True)
class GeneralShape(Described):
    """Declared constants of a function of the data.

    Parameters
    ----------
    dim : int
    lipschitz : float
        ``L``: bound of the norm of the gradient of the data-dependent part, over all data sets and
        all weights that can be minimizers; for the exponential mechanism, which puts weights
        anywhere in it, over the whole ball ``‖w‖ <= minimizer_norm``.
    strong_convexity : float
        ``µ > 0`` of the whole function, for every data set.
    smoothness : float
        ``β >= µ``; infinite if the function is not smooth.
    n_samples : int or None, default=None
        Number of records, where it means something.
    sensitivity : float, mapping of neighboring relation to float, or None, default=None
        Largest distance between neighbors' minimizers; None takes ``gradient_sensitivity / µ``.
    minimizer_norm : float, default=inf
        Bound of ``‖w*‖₂`` over all data sets.
    rounding : callable or None, default=None
        ``rounding(w_norm)`` bounds the rounding error (l2) of a computed gradient.  None assumes a
        mean of `n_samples` terms (a million where that is unknown), each ``L``-Lipschitz and
        computed from a scalar product of length `dim`, added one after another:
        ``1.1 u (n + dim + 64)(L + β ‖w‖)``, ``u = 2^-53``.
    gradient_sensitivity : float, mapping of neighboring relation to float, or None, default=None
        ``G``: bound of the norm of the difference of neighbors' gradients, wherever `lipschitz`
        holds; None takes ``2L``.
    largest_value : float, default=inf
        Bound of ``|F|``, and of every sum on the way to it, over all data sets and all weights of
        norm up to `minimizer_norm`.  Of use to the exponential mechanism alone, which charges the
        rounding errors of values by it.
    value_rounding : callable or None, default=None
        ``value_rounding(w_norm)`` bounds the rounding error of a computed value, for functions with
        kinks.  There `rounding` bounds an ``r`` with
        ``F(v) >= F̂ + <Ĝ, v - w> + (µ/2)‖v - w‖² - value_rounding - r‖v - w‖`` for every v.

    Raises
    ------
    TypeError, ValueError
        If a constant is not of the stated kind or range.

    Examples
    --------
    >>> shape = GeneralShape(3, lipschitz=1.0, strong_convexity=0.5, smoothness=2.0)
    >>> shape.minimizer_sensitivity("replace_one") >= 4.0
    True
    """

    dim: int
    lipschitz: float
    strong_convexity: float
    smoothness: float
    n_samples: int | None = None
    sensitivity: float | Mapping[str, float] | None = None
    minimizer_norm: float = float("inf")
    rounding: Callable[[float], float] | None = None
    gradient_sensitivity: float | Mapping[str, float] | None = None
    largest_value: float = float("inf")
    value_rounding: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        check_integer("dim", self.dim, low=1, high=2**53)
        check_real("lipschitz", self.lipschitz, low=1e-100, high=1e100)
        check_real("strong_convexity", self.strong_convexity, low=1e-100, high=1e100)
        check_real("smoothness", self.smoothness, low=self.strong_convexity, allow_inf=True)
        check_real("minimizer_norm", self.minimizer_norm, low=0.0, low_open=True, allow_inf=True)
        if self.n_samples is not None:
            check_integer("n_samples", self.n_samples, low=1, high=2**53)
        check_real("largest_value", self.largest_value, low=0.0, allow_inf=True)
        _check_declared("sensitivity", self.sensitivity)
        _check_declared("gradient_sensitivity", self.gradient_sensitivity)
        keep_python_numbers(self)
        for name in ("rounding", "value_rounding"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(f"{name} must be callable or None; got {given!r}.")
        if self.rounding is None and self.smoothness == float("inf"):
            raise ValueError(
                "rounding must be given where smoothness is infinite, since errors of a scalar "
                "product then have no bounded effect on a gradient; got None."
            )

    @property
    def certificate(self) -> Literal["gradient", "gap", "saddle"] | None:
        """The gradient, or a gap where kinks and what rounding does there were declared."""
        if math.isfinite(self.smoothness):
            return "gradient"
        return None if self.value_rounding is None else "gap"

    def rounding_of_lines(self, w_norm: float) -> tuple[float, float]:
        """What rounding does to a value and to a line below, see :class:`Rounded`."""
        if self.value_rounding is None:
            return math.inf, math.inf
        value = check_real("value_rounding(w_norm)", self.value_rounding(w_norm), low=0.0)
        return value, self.gradient_error(w_norm)

    def least_tolerance(self) -> float:
        """For kinks ``√(2µ gap)`` for four times the gap that rounding leaves."""
        if self.certificate != "gap":
            return super().least_tolerance()
        mu, radius = self.strong_convexity, self.minimizer_norm
        reach = 2.0 * (radius if math.isfinite(radius) else self.lipschitz / mu)
        value, slope = self.rounding_of_lines(reach)
        return math.sqrt(8.0 * mu * (2.0 * value + slope * reach + 0.5 * slope**2 / mu))

    def easy_tolerance(self) -> float:
        """What subgradients can be expected to certify, of a function with kinks."""
        return _KINK_TOLERANCE * self.lipschitz if self.certificate == "gap" else 0.0

    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """The declared bound, or :meth:`difference_lipschitz` over µ."""
        if self.sensitivity is not None:
            return _declared(self.sensitivity, neighboring_relation)
        apart = self.difference_lipschitz(neighboring_relation)
        return apart / self.strong_convexity * (1.0 + 4.0 * UNIT)

    def difference_lipschitz(self, neighboring_relation: str) -> float:
        """``G``: the declared `gradient_sensitivity`, or ``2L``."""
        if self.gradient_sensitivity is not None:
            return _declared(self.gradient_sensitivity, neighboring_relation)
        records_apart(neighboring_relation)  # refuses an unknown name
        return 2.0 * self.lipschitz

    def value_error(self, w_norm: float) -> float:
        """Bound of the rounding error of a computed value at ``‖w‖ <= w_norm``.

        Under the assumptions of `rounding`'s default: terms no larger than `largest_value`, added
        one after another, and a scalar product's error times the slope.
        """
        slope = self.lipschitz + self.smoothness * w_norm
        return 1.1 * UNIT * (self._terms() + 64) * (self.largest_value + slope * w_norm)

    def gradient_error(self, w_norm: float) -> float:
        """The declared bound of the rounding error, or the default one."""
        if self.rounding is not None:
            return check_real("rounding(w_norm)", self.rounding(w_norm), low=0.0)
        slope = self.lipschitz + self.smoothness * w_norm
        return 1.1 * UNIT * (self._terms() + 64) * slope

    def _terms(self) -> int:
        """Additions behind a value or an entry of a gradient, and those of a scalar product."""
        return (self.n_samples if self.n_samples is not None else _DEFAULT_TERMS) + self.dim


def _check_declared(name: str, declared: float | Mapping[str, float] | None) -> None:
    """Refuse what is neither a positive number nor one for each of some neighboring relations."""
    if isinstance(declared, Mapping):
        if not declared:
            raise ValueError(f"{name} must name a neighboring relation; got {{}}.")
        for relation, value in declared.items():
            records_apart(relation)  # refuses an unknown name
            check_real(f"{name}[{relation!r}]", value, low=0.0, low_open=True)
    elif declared is not None:
        check_real(name, declared, low=0.0, low_open=True)


def _declared(declared: float | Mapping[str, float], neighboring_relation: str) -> float:
    """The number declared for a relation."""
    records_apart(neighboring_relation)
    if not isinstance(declared, Mapping):
        return float(declared)
    if neighboring_relation not in declared:
        names = ", ".join(map(repr, declared))
        raise ValueError(
            f"neighboring_relation must be one that a sensitivity was declared for ({names}); "
            f"got {neighboring_relation!r}."
        )
    return float(declared[neighboring_relation])


class General(ShapedObjective):
    """A user's own function with declared constants.

    Parameters
    ----------
    function : callable or object
        ``function(w)`` or ``function.value_and_gradient(w)`` returns the value and the gradient, an
        array of shape (dim,).  A method ``hessian(w)`` is used where there is one; otherwise the
        Hessian comes from differences of gradients.
    dim, lipschitz, strong_convexity, smoothness, n_samples, sensitivity, minimizer_norm, rounding
        As for :class:`GeneralShape`.
    gradient_sensitivity, largest_value, value_rounding
        As there.

    Notes
    -----
    Each answer is checked for its shape and for NaN and infinity.  Successive gradients are also
    held against the declared µ: ``(∇F(w) - ∇F(v))·(w - v) >= µ‖w - v‖²``.  A violation raises.
    That check depends on private data, sees only the points that an optimizer visits, and is not
    covered by the guarantee: it is there to find mistakes.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])
    >>> def spread(w):
    ...     '''Root of one plus the sum of squared margins, and a ridge: not a mean over rows.'''
    ...     root = np.sqrt(1.0 + np.sum((rows @ w) ** 2))
    ...     return root + w @ w, rows.T @ (rows @ w) / root + 2.0 * w
    >>> objective = General(spread, 2, lipschitz=2.0, strong_convexity=2.0, smoothness=5.0)
    >>> objective.value_and_gradient(np.zeros(2))
    (1.0, array([0., 0.]))
    """

    shape: GeneralShape

    def __init__(
        self,
        function: Any,
        dim: int,
        *,
        lipschitz: float,
        strong_convexity: float,
        smoothness: float,
        n_samples: int | None = None,
        sensitivity: float | Mapping[str, float] | None = None,
        minimizer_norm: float = float("inf"),
        rounding: Callable[[float], float] | None = None,
        gradient_sensitivity: float | Mapping[str, float] | None = None,
        largest_value: float = float("inf"),
        value_rounding: Callable[[float], float] | None = None,
    ) -> None:
        self.shape = GeneralShape(
            dim, lipschitz, strong_convexity, smoothness, n_samples, sensitivity, minimizer_norm,
            rounding, gradient_sensitivity, largest_value, value_rounding,
        )  # fmt: skip
        self._evaluate = getattr(function, "value_and_gradient", function)
        if not callable(self._evaluate):
            raise TypeError(
                f"function must be callable or have a method value_and_gradient; got {function!r}."
            )
        self._hessian = getattr(function, "hessian", None)
        self._last: tuple[Vector, Vector] | None = None

    def rounding(self, w_norm: float) -> tuple[float, float]:
        """Bounds of the rounding errors of a value and of a line below the function."""
        return self.shape.rounding_of_lines(w_norm)

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """The function's value and gradient, or a subgradient, checked."""
        point = checked_weights(w, self.dim)
        answer = self._evaluate(point.copy())
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(f"function must return (value, gradient); got {type(answer).__name__}.")
        value, gradient = float(answer[0]), np.array(answer[1], dtype=np.float64)
        if gradient.shape != point.shape:
            raise ValueError(
                f"function must return a gradient of shape {point.shape}; got {gradient.shape}."
            )
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            raise FloatingPointError("function returned NaN or infinity.")
        self._check_convexity(point, gradient)
        return value, gradient

    def _check_convexity(self, w: Vector, gradient: Vector) -> None:
        if self._last is not None:
            step, change = w - self._last[0], gradient - self._last[1]
            length = float(np.linalg.norm(step))
            norm = max(float(np.linalg.norm(w)), float(np.linalg.norm(self._last[0])))
            error = 2.0 * self.gradient_error(norm) * length
            least = (1.0 - 1e-6) * self.strong_convexity * length**2 - error
            if float(step @ change) < least:
                raise ValueError(
                    f"strong_convexity must hold for the function; got {self.strong_convexity!r}, "
                    "which two of its gradients contradict."
                )
        self._last = (w.copy(), gradient.copy())

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """The function's own Hessian, or one from differences of gradients."""
        if self._hessian is None:
            return difference_hessian(self, w)
        point = checked_weights(w, self.dim)
        hessian = np.asarray(self._hessian(point.copy()), dtype=np.float64)
        if hessian.shape != (self.dim, self.dim):
            raise ValueError(
                f"hessian must return an array of shape {(self.dim, self.dim)}; "
                f"got {hessian.shape}."
            )
        if not np.all(np.isfinite(hessian)):
            raise FloatingPointError("hessian returned NaN or infinity.")
        return hessian
