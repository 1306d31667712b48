"""Losses of one margin and one target, with the constants that the privacy analysis uses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast import _kernels
from dpfast._validation import check_choice, check_real

_TABLE = _kernels.loss_table()


def loss_names() -> tuple[str, ...]:
    """Names of the losses that the kernels know.

    Examples
    --------
    >>> "logistic" in loss_names()
    True
    """
    return tuple(_TABLE)


@dataclass(frozen=True)
class Loss:
    """A loss ``ℓ(z; y)`` of the margin ``z = <x, w>`` and the target ``y``.

    Value, derivative and constants all come from one registry in C, so that what the kernels
    compute and what the privacy analysis assumes cannot drift apart.

    =================  ====================================================  ==========  ========
    name               ``ℓ(z; y)``                                           parameter   width
    =================  ====================================================  ==========  ========
    logistic           ``log(1 + exp(-yz))``
    hinge              ``max(0, 1 - yz)``
    huberized-hinge    hinge, a parabola where ``|1 - yz| <= width``                     0.5
    squared-hinge      ``max(0, 1 - yz)²``, a line beyond slope `parameter`  4 (slope)
    huber              ``(z - y)²/2``, lines beyond slope `parameter`        1.35
    squared            ``(z - y)²/2``
    pinball            ``max(q r, (q-1) r)``, ``r = y - z``, a parabola      0.5 (q)     0.1
                       where ``|r| <= width``
    sigmoid            ``1 / (1 + exp(yz))``, not convex
    poisson            ``exp(z) - yz``                                                   3
    gamma              ``z + y exp(-z)``                                                 3
    tweedie            ``exp((2-q)z)/(2-q) + y exp((1-q)z)/(q-1)``           1.5 (q)     3
    negative-binomial  ``(y + 1/a) log(1 + a exp(z)) - yz``                  1 (a)       3
    =================  ====================================================  ==========  ========

    The last four (terms of `y` alone left out, which keep them from being negative) are for means
    ``exp(z)``; targets are from 0 to ``exp(width)``, for gamma from ``exp(-width)`` on.  Beyond
    ``|z| = width``, where no mean of such targets lies, exponentials that would have no bound go on
    in straight lines.  Scaling the targets by a constant moves the intercept and changes nothing
    else (but `a`, which it divides).

    Parameters
    ----------
    name : str
        One of :func:`loss_names`.
    parameter : float or None, default=None
        Slope bound, threshold, quantile, power or dispersion of the losses that have one; None
        takes the default.
    width : float or None, default=None
        Width of the rounded-off kink, or half the range of log-means, of the losses that have one;
        None takes the default.
    lowest : float, default=0.0
        Lowest target, where the loss would take lower ones; for means ``exp(z)`` only.

    Attributes
    ----------
    default_width : bool
        Whether `width` was None: solvers may then round off a kink over less.

    Raises
    ------
    TypeError, ValueError
        If the name is unknown, a number is out of range, or one is given to a loss without it.

    Examples
    --------
    >>> loss = Loss("logistic")
    >>> loss.lipschitz, loss.smoothness, loss.kind
    (1.0, 0.25, 'classification')
    >>> value, derivative, curvature = loss([0.0], [1.0])
    >>> value.round(4), derivative, curvature
    (array([0.6931]), array([-0.5]), array([0.25]))
    >>> Loss("pinball", 0.9).lipschitz
    0.9
    """

    name: str
    parameter: float | None = None
    width: float | None = None
    lowest: float = 0.0
    default_width: bool = field(init=False, default=False, repr=False)

    @classmethod
    def of(cls, loss: Loss | str) -> Loss:
        """The loss of that name, or the one that is given."""
        if isinstance(loss, str):
            return cls(loss)
        if not isinstance(loss, cls):
            raise TypeError(
                "loss must be a name or a dpfast.losses.Loss; got "
                f"{type(loss).__name__}. A loss in Python goes beside the problem: "
                "dpfast.objectives.PythonErm(problem, alpha, PythonLoss(...))."
            )
        return loss

    def __post_init__(self) -> None:
        object.__setattr__(self, "default_width", self.width is None)
        check_choice("loss", self.name, loss_names())
        facts = _TABLE[self.name]
        low, high = facts["parameter_low"], facts["parameter_high"]
        high = None if high == np.inf else high
        self._settle("parameter", self.parameter, facts["parameter"], low, high)
        self._settle("width", self.width, facts["width"], 0.0, None)
        if check_real("lowest", self.lowest, low=0.0) > 0.0:
            if not self.log_link:
                raise ValueError(
                    f"lowest must be 0.0 for the loss {self.name!r}; got {self.lowest!r}."
                )
            check_real("lowest", self.lowest, high=self.spec.target_range()[1])

    def _settle(
        self, name: str, value: float | None, default: float | None, low: float, high: float | None
    ) -> None:
        if value is None:
            value = default
        elif default is None:
            raise ValueError(f"{name} must be None for the loss {self.name!r}; got {value!r}.")
        else:
            value = check_real(name, value, low=low, low_open=True, high=high, high_open=True)
        object.__setattr__(self, name, value)

    @property
    def spec(self) -> _kernels.LossSpec:
        """The loss as the kernels take it."""
        return _kernels.LossSpec(_TABLE[self.name]["id"], self.parameter or 0.0, self.width or 0.0)

    @property
    def kind(self) -> str:
        """``"classification"`` (targets are -1 and +1) or ``"regression"`` (see `target_range`)."""
        return str(_TABLE[self.name]["kind"])

    @property
    def convex(self) -> bool:
        """Whether ``ℓ`` is convex in the margin."""
        return bool(_TABLE[self.name]["convex"])

    @property
    def monotone(self) -> bool:
        """Whether ``ℓ`` is a function of ``yz`` that never rises."""
        return bool(_TABLE[self.name]["monotone"])

    @property
    def cornered(self) -> bool:
        """Whether ``ℓ`` has a kink that is rounded off over `width`, on which no slope depends."""
        return self.width is not None and not self.log_link

    @property
    def even(self) -> bool:
        """Whether ``ℓ`` is a function of ``|z - y|`` whose slope is ``z - y``, perhaps cut off."""
        return bool(_TABLE[self.name]["even"])

    @property
    def quantile(self) -> float | None:
        """Which quantile of the targets the best constant is; None if it is another place."""
        tilted = self.kind == "regression" and not (self.even or self.log_link)
        return self.parameter if tilted else None

    @property
    def quadratic(self) -> bool:
        """Whether ``ℓ`` is ``(z - y)²/2``."""
        return bool(_TABLE[self.name]["quadratic"])

    @property
    def multiclass(self) -> bool:
        """Whether ``ℓ`` is the multinomial loss of two classes."""
        return bool(_TABLE[self.name]["multiclass"])

    @property
    def log_link(self) -> bool:
        """Whether ``ℓ`` is least at ``z = log y``, for targets that are means of ``exp(z)``."""
        return bool(_TABLE[self.name]["log_link"])

    @property
    def smoothed(self) -> str | None:
        """Name of the loss that rounds off the kinks of ``ℓ`` over its width; None: none does."""
        name: str | None = _TABLE[self.name]["smoothed"]
        return name

    @property
    def lipschitz(self) -> float:
        """Bound of ``|dℓ/dz|`` over all margins and targets; infinite if there is none."""
        return float(self.spec.constants()[0])

    @property
    def smoothness(self) -> float:
        """Bound of ``|d²ℓ/dz²|`` over all margins and targets; infinite if there is none."""
        return float(self.spec.constants()[1])

    @property
    def at_zero(self) -> float:
        """Bound of ``ℓ(0; y)`` over all targets; infinite if there is none."""
        return float(self.spec.constants()[2])

    @property
    def target_range(self) -> tuple[float, float]:
        """The lowest and the highest valid target."""
        low, high = self.spec.target_range()
        return max(low, self.lowest) if self.log_link else low, high

    def fixed(self) -> Loss:
        """The same loss, as if its width had been chosen."""
        return replace(self)

    def zoomed(self, size: float) -> Loss:
        """The loss of residuals in units of `size`, up to a factor; corners are so much narrower.

        Examples
        --------
        >>> Loss("huber", 0.5).zoomed(0.1).parameter, Loss("pinball", 0.5, 0.2).zoomed(0.5).width
        (0.05, 0.1)
        """
        if self.width is not None:
            return replace(self, width=self.width * size)
        return self if self.quadratic else replace(self, parameter=(self.parameter or 0.0) * size)

    def __call__(
        self, margin: ArrayLike, target: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Value, first and second derivative in the margin.

        Parameters
        ----------
        margin, target : array-like of shape (n,)

        Returns
        -------
        value, derivative, curvature : ndarray of shape (n,)
        """
        z = np.ascontiguousarray(margin, dtype=np.float64)
        y = np.ascontiguousarray(target, dtype=np.float64)
        value, derivative, curvature = self.spec.points(z, y)
        return value, derivative, curvature
