"""What is asked of the rows: a function of them together with what one record can change."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from inspect import Signature, signature
from types import MethodType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import python_number

LARGEST_ARGUMENT = 1e150
"""Products with rows' entries, which are no larger, do not overflow."""


class _Settling(ABCMeta):
    """Settles objects as soon as they are made."""

    def __call__(cls, *arguments: Any, **settings: Any) -> Any:
        made = super().__call__(*arguments, **settings)
        made.__dict__["_settled"] = True
        return made

    @property
    def __signature__(cls) -> Signature:
        """That of the constructor, which :meth:`__call__` would hide."""
        made: Any = cls
        return signature(MethodType(made.__init__, made))


class Settled(metaclass=_Settling):
    """What a price rests on: no attribute can be set once it is made, and no array written to."""

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse_change(name)
        # In the arithmetic of NumPy's scalars sensitivities could round down; and what is stated
        # must not change after it was charged.
        value = frozen(value) if isinstance(value, np.ndarray) else python_number(value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse_change(name)
        super().__delattr__(name)

    def _refuse_change(self, name: str) -> None:
        if "_settled" in self.__dict__:
            raise AttributeError(
                f"{name} of {type(self).__name__} cannot be set: a price rests on it. Make another."
            )


class Query(Settled):
    """A function of the rows, its sensitivity, and what rounding adds to it.

    A query is public: it is made from public quantities and holds no rows.  Subclasses prove their
    sensitivity in their docstring.  Nothing else states one.

    Attributes
    ----------
    norm : {"l2", "l1", "range"}
        What :meth:`sensitivity` is measured in.  "range": the values are scores of candidates, and
        it is the length of an interval that holds 0 and the changes of all scores.
    takes : tuple
        Shapes of the arguments, fixed ones first: () of a number, -1 for any length, None for
        whatever it is.
    optional : int
        How many of the last ones may be left out.
    largest_argument : float
        Bound of the norm of an array among the arguments: beyond it the values could be finite on
        some rows only, and an error would say something of them.
    fixed : int
        How many leading arguments the bounds, or state that is kept between releases, rest on.
        They are checked by :meth:`check` and given to :meth:`prepare`.
    fewer_rows : bool
        Whether the bounds hold for halves of the rows and smaller parts, too, as no mean's do.
        Queries of which it is true have the reason in their docstring.
    takes_functions : bool
        Whether arguments may be functions of the rows, of callers that hold these themselves.
    any_parameter : bool
        Whether they hold for any parameter and width of the rows' loss: values do not depend on
        these, or no slope counts more for them.
    monotone : bool
        Of scores: whether a record's presence moves all of them up, or all of them down.
    dimension : int
        Number of values.
    bound : float or None
        Public bound of the values' absolute values, if they are to be released unclamped.
    """

    norm: Literal["l2", "l1", "range"] = "l2"
    takes: tuple[tuple[int, ...] | None, ...] = ()
    optional: int = 0
    largest_argument: float = LARGEST_ARGUMENT
    fixed: int = 0
    fewer_rows: ClassVar[bool] = False
    takes_functions: ClassVar[bool] = False
    any_parameter: ClassVar[bool] = False
    monotone: ClassVar[bool] = False
    dimension: int
    bound: float | None = None

    @abstractmethod
    def sensitivity(self, neighboring_relation: str) -> float:
        """Largest distance between the exact values on two neighbors, in :attr:`norm`."""

    @abstractmethod
    def rounding_error(self) -> float:
        """Bound of the distance between the computed and the exact values, in l2 norm.

        Of scores: bound of each one's error.
        """

    def check(self, *fixed: Any) -> None:
        """Refuse fixed arguments for which the bounds do not hold.  They are public.

        Raises
        ------
        TypeError, ValueError
        """
        del fixed

    def check_point(self, *point: Any) -> None:
        """Refuse other arguments than rows of any kind have finite values for.  They are public.

        Raises
        ------
        ValueError
        """
        check_size(type(self).__name__, *point, largest=self.largest_argument)

    def check_shapes(self, arguments: tuple[Any, ...], stated: slice) -> None:
        """Refuse more or fewer arguments than some of those stated, or of other shapes.

        Raises
        ------
        ValueError
        """
        shapes = self.takes[stated]
        optional = self.optional if stated.stop is None else 0
        fits = len(shapes) - optional <= len(arguments) <= len(shapes)
        if not (fits and all(map(_has_shape, arguments, shapes))):
            got = tuple(np.shape(a) if isinstance(a, np.ndarray) else a for a in arguments)
            left_out = f", the last {optional} of which may be left out" * (optional > 0)
            raise ValueError(
                f"the arguments of {type(self).__name__} must have the shapes {shapes}{left_out}; "
                f"got {got}. Nothing was spent."
            )

    def prepare(self, rows: Any, *fixed: Any) -> Any:
        """What the query needs of the rows and its fixed arguments, each time it is asked."""
        del fixed
        return rows

    @abstractmethod
    def __call__(self, prepared: Any, *point: Any) -> ArrayLike:
        """The values, computed from what :meth:`prepare` returned and the other arguments."""

    def evaluate(self, rows: Any, *arguments: Any) -> ArrayLike:
        """Check, prepare and compute: **not private**, for tests."""
        fixed, point = arguments[: self.fixed], arguments[self.fixed :]
        self.check(*fixed)
        return self(self.prepare(rows, *fixed), *point)


def _has_shape(argument: Any, shape: tuple[int, ...] | None) -> bool:
    """Whether an argument is a number if the shape is (), or an array of that shape."""
    if not shape:
        return shape is None or type(argument) in (int, float, bool)
    known = np.shape(argument)
    return len(known) == len(shape) and all(n in (-1, m) for n, m in zip(shape, known, strict=True))


def frozen(values: ArrayLike) -> NDArray[Any]:
    """A copy of an array whose memory nobody can write to: that of bytes."""
    array = np.asarray(values)
    if array.dtype == np.dtype(object):
        array = array.astype(np.float64)
    return np.ndarray(array.shape, array.dtype, array.tobytes())


def plain(value: Any) -> Any:
    """What an argument is now: a number, a text, None, or an array that will not change.

    Arrays are of float64.  Other objects could be one thing when they are checked and another one
    when they are computed with, and are handed the rows where an operator of theirs is called.

    Raises
    ------
    TypeError
    """
    number = python_number(value)
    if number is None or type(number) in (int, float, bool, str):
        # Beyond int64 NumPy would compute with Python's objects.
        return float(number) if type(number) is int and number.bit_length() > 63 else number
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        # Squares of complex numbers, and of large integers, are not what bounds take them for.
        if array.dtype.kind in "biufO":
            return frozen(array.astype(np.float64, copy=False))
    raise TypeError(
        "arguments must be numbers or arrays of numbers; got "
        f"{type(value).__name__}. Nothing was spent."
    )


def check_size(name: str, *arguments: Any, largest: float = LARGEST_ARGUMENT) -> None:
    """Refuse arrays among the arguments that are not finite, or of a larger norm (ValueError)."""
    for argument in arguments:
        value = argument
        # Whoever computes with them makes floats of these, too.
        if isinstance(value, list | tuple) or getattr(value, "dtype", None) == np.dtype(object):
            value = np.asarray(value, dtype=np.float64)
        floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        # Written so that NaN is refused.
        if floating and not np.vdot(value, value) <= largest**2:
            raise ValueError(
                f"the arguments of {name} must be finite and of norm at most {largest:g}; got "
                f"{float(np.linalg.norm(value)):g}. Nothing was spent."
            )
