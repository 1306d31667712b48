"""Coefficients with a covariance: errors, intervals, tests, and which of them are not believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from dpfast._files import is_json_number
from dpfast._typing import Matrix, Vector
from dpfast._validation import check_real, warn
from dpfast.errors import QuestionableSettingWarning

#: Why a coefficient has no standard error, by the numbers of the solver's `refused`.
REASONS = (
    "",
    "what determines it hides in the noise: more rows, a larger budget, fewer columns or columns "
    "scaled to a declared range would show it; the others are those of the model without it, whose "
    "intercept cannot be told",
    "too few rows determine it, or they are too uneven, for its error to be nearly normal: more "
    "rows or a larger budget would do",
    "nearly all the others are refused, and it rests on the same rows",
    "residuals that are cut may move it by half of its error, should the largest be on one side: "
    "more rows or a larger budget would show where they end",
)


def check_level(name: str, value: object) -> float:
    """Return `value` as a confidence level; one that is hardly meant as such is questioned."""
    level = check_real(name, value, low=0.0, high=0.9999, low_open=True, hint="Mostly 0.95.")
    if level < 0.5:
        warn(
            f"{name} = {level:g} is the probability that an interval holds, not that it does not "
            f"(the alpha of statsmodels): did you mean {1.0 - level:g}?",
            QuestionableSettingWarning,
        )
    return level


@dataclass(frozen=True)
class Estimates:
    """Private coefficients whose errors from sampling and from noise are known together.

    Attributes
    ----------
    names : tuple of str
        Of the columns, and "Intercept", the last, if there is one.
    coefficients : ndarray of shape (k,)
    covariance : ndarray of shape (k, k)
        Sampling and privacy noise together; NaN for what is refused.
    sampling : ndarray of shape (k, k)
        What of the covariance would be left without noise.
    refused : tuple of int
        For each coefficient the number of its entry in ``REASONS``; 0: it is not refused.

    Examples
    --------
    >>> import numpy as np
    >>> variance = np.array([[0.04]])
    >>> found = Estimates(("age",), np.array([0.5]), variance, 0.6 * variance, (0,))
    >>> found.conf_int(0.95).round(2), found.pvalues.round(3)
    (array([[0.11, 0.89]]), array([0.012]))
    """

    names: tuple[str, ...]
    coefficients: Vector
    covariance: Matrix
    sampling: Matrix
    refused: tuple[int, ...]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        coefficients: Vector,
        covariance: Matrix,
        sampling: Matrix,
        refused: Vector,
    ) -> Estimates:
        """From a solver's covariances, with NaN where a variance is refused."""
        codes = tuple(int(code) for code in refused)
        kept = np.array(codes) == 0
        known = np.outer(kept, kept)
        whole, part = (np.where(known, each, np.nan) for each in (covariance, sampling))
        return cls(tuple(names), coefficients, whole, part, codes)

    def in_units(self, factors: Vector) -> Estimates:
        """The same estimates in other units: every coefficient times its factor."""
        both = np.outer(factors, factors)
        return replace(
            self,
            coefficients=factors * self.coefficients,
            covariance=both * self.covariance,
            sampling=both * self.sampling,
        )

    def to_dict(self) -> dict[str, Any]:
        """The covariances of what is not refused, in plain JSON types; names and values aside."""
        kept = np.flatnonzero(np.array(self.refused) == 0)
        known = np.ix_(kept, kept)
        return {
            "refused": list(self.refused),
            "covariance": self.covariance[known].tolist(),
            "sampling": self.sampling[known].tolist(),
        }

    @classmethod
    def from_dict(cls, data: Any, names: Sequence[str], coefficients: Vector) -> Estimates:
        """The estimates that :meth:`to_dict` wrote of these coefficients.

        Raises
        ------
        ValueError
            If it is none, or not one of so many coefficients.
        """
        if not isinstance(data, dict) or set(data) != {"refused", "covariance", "sampling"}:
            raise ValueError("expected an object with refused, covariance and sampling.")
        codes, k = data["refused"], len(coefficients)
        known = isinstance(codes, list) and all(type(code) is int for code in codes)
        if not known or len(codes) != k or not all(0 <= code < len(REASONS) for code in codes):
            raise ValueError(f"refused must hold {k} whole numbers from 0 to {len(REASONS) - 1}.")
        kept = np.flatnonzero(np.array(codes) == 0)
        whole, part = np.zeros((k, k)), np.zeros((k, k))
        for name, out in (("covariance", whole), ("sampling", part)):
            out[np.ix_(kept, kept)] = _covariance(name, data[name], len(kept))
        return cls.of(names, coefficients, whole, part, np.array(codes))

    @property
    def errors(self) -> Vector:
        """Standard errors."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def sampling_errors(self) -> Vector:
        """What of the standard errors would be left without noise."""
        return np.sqrt(np.diag(self.sampling))

    @property
    def zvalues(self) -> Vector:
        """Coefficients over their standard errors."""
        return self.coefficients / self.errors

    @property
    def pvalues(self) -> Vector:
        """Of the two-sided tests that each coefficient is 0."""
        pvalues: Vector = 2.0 * ndtr(-np.abs(self.zvalues))
        return pvalues

    def conf_int(
        self,
        level: float = 0.95,
        columns: Sequence[str | int] | None = None,
        *,
        sampling_only: bool = False,
    ) -> Matrix:
        """Interval of each coefficient by itself.

        Parameters
        ----------
        level : float, default=0.95
            In (0, 0.9999].
        columns : sequence of str or int, optional
            Names or numbers of the coefficients; None: all.
        sampling_only : bool, default=False
            Leave the noise out: to show how much of the width is the noise's.  Such intervals do
            not hold.

        Returns
        -------
        ndarray of shape (k, 2)
            NaN where the standard error is refused.

        Raises
        ------
        TypeError, ValueError
            If the level is out of range, or a column is unknown.
        """
        level = check_level("level", level)
        errors = self.sampling_errors if sampling_only else self.errors
        half = float(ndtri(0.5 + 0.5 * level)) * errors
        ends = np.column_stack([self.coefficients - half, self.coefficients + half])
        if columns is None:
            return ends
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names or numbers; got {columns!r}.")
        return ends[[self._place(column) for column in columns]]

    def named(self, columns: Sequence[str | int]) -> tuple[str, ...]:
        """The names of coefficients that were chosen by name or number."""
        return tuple(self.names[self._place(column)] for column in columns)

    def _place(self, column: str | int) -> int:
        """The number of a coefficient."""
        if isinstance(column, str) and column in self.names:
            return self.names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < len(self.names):
            return int(column)
        raise ValueError(
            f"columns must hold names among {', '.join(self.names)}, or numbers from 0 to "
            f"{len(self.names) - 1}; got {column!r}."
        )


def _covariance(name: str, data: Any, k: int) -> Matrix:
    """A matrix of k rows from nested lists."""
    rows = isinstance(data, list) and len(data) == k and all(isinstance(row, list) for row in data)
    if not rows or not all(len(row) == k and all(map(is_json_number, row)) for row in data):
        raise ValueError(f"{name} must hold {k} lists of {k} numbers, for what is not refused.")
    found = np.array(data, dtype=np.float64).reshape(k, k)
    if not np.isfinite(found).all() or (np.diag(found) < 0.0).any():
        raise ValueError(f"{name} must be finite, with a diagonal of at least 0.")
    return found
