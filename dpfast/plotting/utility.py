"""What privacy costs: against epsilon, and solver against solver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from dpfast._validation import check_integer
from dpfast.plotting._axes import Display, epsilon_axis, epsilon_grid, legend_above
from dpfast.privacy import Budget
from dpfast.problem import Problem
from dpfast.shape import ProblemShape
from dpfast.solvers import plan

# Of reference lines.
_STYLES = ("--", ":", "-.")

#: Entries of a plan's expectations that are accuracy losses, the most telling first.
_LOSSES = {
    "excess_risk_guess": "expected, roughly",
    "excess_loss_by_noise": "expected by noise",
    "excess_risk_bound": "at most",
    "noise_and_time_bound": "at most",
}


class PrivacyUtilityDisplay(Display):
    """What is gained by a larger epsilon.

    Make one with :meth:`from_plans`, which needs no data, or :meth:`from_estimator`.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
    curves : mapping of str to array-like of shape (n_epsilons,)
        Label to values; NaN where there is none.
    ylabel : str
    spreads : mapping of str to array-like of shape (n_epsilons,), optional
        Standard deviations, drawn as a band around the curve of that label.
    references : mapping of str to float, optional
        Label to value, drawn as a horizontal line.
    delta : float, default=0.0
        Of all points; named on the axis.
    mark : float, optional
        An epsilon to point out.
    log : bool, default=False
        Logarithmic values.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : list of matplotlib.lines.Line2D
        One for each curve.
    """

    lines_: list[Any]

    def __init__(
        self,
        epsilons: ArrayLike,
        curves: Mapping[str, ArrayLike],
        ylabel: str,
        *,
        spreads: Mapping[str, ArrayLike] | None = None,
        references: Mapping[str, float] | None = None,
        delta: float = 0.0,
        mark: float | None = None,
        log: bool = False,
    ) -> None:
        self.epsilons: NDArray[np.float64] = np.asarray(epsilons, dtype=np.float64)
        self.curves = {key: np.asarray(values, np.float64) for key, values in curves.items()}
        self.spreads = {
            key: np.asarray(values, np.float64) for key, values in (spreads or {}).items()
        }
        for label, values in (*self.curves.items(), *self.spreads.items()):
            if values.shape != self.epsilons.shape:
                raise ValueError(
                    f"the values of {label!r} must be one for each of the {self.epsilons.size} "
                    f"epsilons; got shape {values.shape}."
                )
        self.ylabel = ylabel
        self.references = dict(references or {})
        self.delta = delta
        self.mark = mark
        self.log = log

    @classmethod
    def from_plans(
        cls,
        problem: Problem | ProblemShape,
        delta: float = 1e-6,
        epsilons: ArrayLike | None = None,
        *,
        solvers: Sequence[str] = (
            "dp-whitened-gd",
            "objective-perturbation",
            "output-perturbation",
        ),
        mark: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the accuracy losses that plans expect, from public numbers alone.

        Parameters
        ----------
        problem : Problem or ProblemShape
            Of a problem, only its shape is used.
        delta : float, default=1e-6
            0 for pure budgets.
        epsilons : array-like, optional
            By default 17 values from 0.01 to 100.
        solvers : sequence of str
            Those that do not take the loss or the budget, or state no accuracy loss, are left out.
        mark : float, optional
            An epsilon to point out.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        **options
            Further arguments of :func:`dpfast.plan` for every curve.

        Notes
        -----
        What solvers expect is not of one kind: the label says whether a curve is an estimate, the
        part of the noise alone, or an upper bound. The curve of a bound is not beaten by that of
        an estimate below it.

        Raises
        ------
        TypeError, ValueError
            If an argument is out of range, or no solver states an accuracy loss.
        """
        grid = epsilon_grid(epsilons, (0.01, 100.0, 17))
        shape = problem if isinstance(problem, ProblemShape) else problem.shape
        # Refused here, a wrong argument is not taken for a solver that does not apply.
        plan(shape, "auto", Budget(float(grid[0]), delta), **options)
        curves = {}
        for solver in solvers:
            found = [_expected(shape, solver, Budget(float(e), delta), options) for e in grid]
            kind = next((kind for kind, _ in found if kind is not None), None)
            if kind is not None:
                values = [value if own == kind else np.nan for own, value in found]
                curves[f"{solver}: {_LOSSES[kind]}"] = values
        if not curves:
            raise ValueError(
                f"solvers must hold one that states its accuracy loss for the loss "
                f"{shape.loss.name!r} and delta = {delta:g}; got {', '.join(solvers)}."
            )
        return cls(
            grid,
            curves,
            "mean loss above the best possible",
            references={"weights of zero, at most": shape.loss.at_zero * shape.max_weight},
            delta=delta,
            mark=mark,
            log=True,
        ).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        X_test: Any,
        y_test: ArrayLike,
        epsilons: ArrayLike = (0.1, 0.3, 1.0, 3.0, 10.0),
        repeats: int = 5,
        scoring: Callable[[Any, Any, Any], float] | None = None,
        references: Mapping[str, float] | None = None,
        ax: Any = None,
    ) -> Self:
        """Fit at several epsilons and draw the scores. For public or made-up data.

        Parameters
        ----------
        estimator : estimator
            Of dpfast; copies of it are fitted.
        X, y : array-like
            Rows to fit.
        X_test, y_test : array-like
            Rows to score.
        epsilons : array-like
        repeats : int, default=5
            Fits at each epsilon. The band is their standard deviation.
        scoring : callable, optional
            ``scoring(fitted, X_test, y_test)``; by default the estimator's ``score``.
        references : mapping of str to float, optional
            Scores to compare with, drawn as lines.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Notes
        -----
        Every fit spends its epsilon on the rows, and scores are computed without noise: on private
        data such a picture must not be shown to anybody who may not see the data.
        """
        grid = epsilon_grid(epsilons)
        repeats = check_integer("repeats", repeats, low=1)
        score = scoring or _score
        scores = np.array(
            [
                [
                    score(clone(estimator).set_params(epsilon=float(e)).fit(X, y), X_test, y_test)
                    for _ in range(repeats)
                ]
                for e in grid
            ]
        )
        name = type(estimator).__name__
        return cls(
            grid,
            {name: scores.mean(axis=1)},
            "test score" if scoring is None else getattr(scoring, "__name__", "score"),
            spreads={name: scores.std(axis=1)},
            references=references,
            delta=estimator.delta,
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on given axes, or on a new figure; returns the display."""
        ax = self._begin(ax)
        epsilon_axis(ax, self.delta, self.mark)
        self.lines_ = []
        for label, values in self.curves.items():
            marker = "o" if self.epsilons.size <= 12 else None
            (line,) = ax.plot(self.epsilons, values, marker=marker, linewidth=1.6, label=label)
            self.lines_.append(line)
            if label in self.spreads:
                low, high = values - self.spreads[label], values + self.spreads[label]
                ax.fill_between(self.epsilons, low, high, color=line.get_color(), alpha=0.2)
        for style, (label, value) in zip(cycle(_STYLES), self.references.items(), strict=False):
            ax.axhline(value, color="0.5", linewidth=1.0, linestyle=style, label=label)
        if self.log:
            ax.set_yscale("log")
        ax.set_ylabel(self.ylabel)
        legend_above(ax, 1 if self.log else 2)
        return self


def _expected(
    shape: ProblemShape, solver: str, budget: Budget, options: Mapping[str, Any]
) -> tuple[str | None, float]:
    """What kind of accuracy loss a plan states, and the loss."""
    try:
        expected = plan(shape, solver, budget, **options).expected
    except ValueError:
        return None, np.nan
    return next(((kind, expected[kind]) for kind in _LOSSES if kind in expected), (None, np.nan))


def _score(estimator: Any, X: Any, y: Any) -> float:
    return float(estimator.score(X, y))


class SolverComparisonDisplay(Display):
    """Scores of solvers at one budget, with their spread and their time.

    Parameters
    ----------
    solvers : sequence of str
    scores : sequence of array-like
        Scores of the runs of each solver.
    seconds : array-like of shape (n_solvers,), optional
        Time of a run.
    score_name : str, default="score"
    references : mapping of str to float, optional
        Label to score, drawn as a vertical line.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    points_ : matplotlib.container.ErrorbarContainer
    """

    points_: Any

    def __init__(
        self,
        solvers: Sequence[str],
        scores: Sequence[ArrayLike],
        seconds: ArrayLike | None = None,
        *,
        score_name: str = "score",
        references: Mapping[str, float] | None = None,
    ) -> None:
        self.solvers = list(solvers)
        self.scores = [np.asarray(values, dtype=np.float64) for values in scores]
        self.seconds = None if seconds is None else np.asarray(seconds, dtype=np.float64)
        if not self.solvers or len(self.scores) != len(self.solvers):
            raise ValueError(
                f"scores must have an entry for each of the {len(self.solvers)} solvers; got "
                f"{len(self.scores)}."
            )
        self.score_name = score_name
        self.references = dict(references or {})

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        X_test: Any,
        y_test: ArrayLike,
        solvers: Iterable[str],
        repeats: int = 5,
        scoring: Callable[[Any, Any, Any], float] | None = None,
        references: Mapping[str, float] | None = None,
        ax: Any = None,
    ) -> Self:
        """Fit with every solver, and compare. For public or made-up data.

        Parameters
        ----------
        estimator : estimator
            Of dpfast; copies of it are fitted.
        X, y, X_test, y_test : array-like
            Rows to fit, and rows to score.
        solvers : iterable of str
        repeats : int, default=5
        scoring : callable, optional
            ``scoring(fitted, X_test, y_test)``; by default the estimator's ``score``.
        references : mapping of str to float, optional
            Scores to compare with.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Notes
        -----
        As for :meth:`PrivacyUtilityDisplay.from_estimator`, nothing here is private.
        """
        names = list(solvers)
        repeats = check_integer("repeats", repeats, low=1)
        score = scoring or _score
        scores: list[list[float]] = []
        seconds = []
        for name in names:
            model = clone(estimator).set_params(solver=name)
            scores.append([])
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                model.fit(X, y)
                times.append(time.perf_counter() - start)
                scores[-1].append(score(model, X_test, y_test))
            seconds.append(min(times))
        label = "test score" if scoring is None else getattr(scoring, "__name__", "score")
        return cls(names, scores, seconds, score_name=label, references=references).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on given axes, or on a new figure; returns the display."""
        count = len(self.solvers)
        ax = self._begin(ax, (6.4, max(2.4, 1.2 + 0.3 * count)))
        places = np.arange(count)
        self.points_ = ax.errorbar(
            [values.mean() for values in self.scores],
            places,
            xerr=[values.std() for values in self.scores],
            fmt="o",
            capsize=3.0,
            label="mean and standard deviation of the runs",
        )
        for style, (label, value) in zip(cycle(_STYLES), self.references.items(), strict=False):
            ax.axvline(value, color="0.5", linewidth=1.0, linestyle=style, label=label)
        ax.locator_params(axis="x", nbins=6)
        ax.set_yticks(places, self.solvers)
        ax.set_ylim(count - 0.5, -0.5)
        ax.set_xlabel(self.score_name)
        if self.seconds is not None:
            for place, seconds in zip(places, self.seconds, strict=True):
                ax.annotate(
                    f"{seconds:.3g} s",
                    (1.02, place),
                    xycoords=("axes fraction", "data"),
                    verticalalignment="center",
                )
        legend_above(ax)
        return self
