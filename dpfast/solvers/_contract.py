"""What a private solver is: a plan made from public quantities, and a run that follows it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real, counted, did_you_mean
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Access
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, Event, PrivacyReport
from dpfast.privacy.report import shares_told
from dpfast.shape import ProblemShape
from dpfast.solvers.meanings import EXPECTED, SETTINGS

S = TypeVar("S")

#: Guess of the margin of a typical longest row: this over the row norm is the solvers' guess of the
#: norm of the best weights where nobody states a better one.  Between 4 and 10 the log-loss of
#: output perturbation on three public tables at ε from 0.1 to 4 hardly changed.
TYPICAL_MARGIN = 6.0
#: The same of numbers in units of half their range.
TYPICAL_NUMBER = 3.0


@dataclass(frozen=True)
class Plan(Generic[S]):
    """Everything that a private fit will do, decided before it touches any data.

    Attributes
    ----------
    solver : str
        Name of the algorithm.
    shape : ProblemShape
        Public quantities of the problem, with the chosen ridge; for an objective that is not the
        risk of a problem, its own public shape.
    budget : Budget
    neighboring_relation : str
    settings : object
        The solver's decisions (accesses, tolerances, iteration counts), in its own frozen
        dataclass.
    accesses : tuple of (Access, int)
        What the run will ask the curator for, in order, and how often.
    expected : mapping
        What to expect of the result, from public quantities alone (noise, excess-risk bound).
    adaptive : bool
        Whether the run chooses its accesses by what it has released so far; `accesses` is then one
        possible sequence, and the guarantee is the whole budget.
    objective : ObjectiveShape or None
        Public shape of the objective, if the plan is for an objective instead of a problem.
    """

    solver: str
    shape: Any
    budget: Budget
    neighboring_relation: str
    settings: S
    accesses: tuple[tuple[Access[Any], int], ...]
    expected: Mapping[str, float] = field(default_factory=dict)
    adaptive: bool = False
    objective: Any = None

    def __post_init__(self) -> None:
        if not is_dataclass(self.settings):
            raise TypeError(
                f"settings of a plan must be a dataclass; got {type(self.settings).__name__}."
            )
        object.__setattr__(self, "expected", MappingProxyType(dict(self.expected)))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The noisy accesses to data, as they will stand in the ledger."""
        return tuple(e for access, count in self.accesses for e in access.events(count))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The settings by name."""
        settings: Any = self.settings
        return MappingProxyType({f.name: getattr(settings, f.name) for f in fields(settings)})

    @property
    def units(self) -> str:
        """What losses and weights are stated in: nothing to say of classes and of logarithms."""
        loss = getattr(self.shape, "loss", None)
        if loss is None or loss.kind != "regression" or loss.log_link:
            return ""
        learned = getattr(self.settings, "target_range", None) is not None
        return f", with targets in units of half their {'learned' if learned else 'declared'} range"

    def __str__(self) -> str:
        shape = self.shape
        if isinstance(shape, ProblemShape):
            what = (
                f"{counted(shape.n_samples, shape.unit)} x {counted(shape.n_features, 'column')}"
                f"{' + intercept' if shape.intercept else ''}, {shape.loss.name} loss, "
                f"{'no ridge' if shape.alpha is None else f'ridge alpha={shape.alpha:.4g}'}"
            )
        else:
            what = (
                f"{shape.dim:,} weights of a given objective, "
                f"strong convexity {shape.strong_convexity:.4g}"
            )
        lines = [
            f"Plan: {self.solver} on {what}",
            f"  budget: {self.budget}, {self.neighboring_relation}",
        ]
        for title, values, meanings in (
            (f"to expect{self.units}", self.expected, EXPECTED),
            ("settings", self.parameters, SETTINGS),
        ):
            lines.append(f"  {title}:")
            for key, value in values.items():
                if isinstance(value, (str, int, float)):
                    shown = f"{value:.4g}" if isinstance(value, float) else value
                    lines.append(f"    {key} = {shown}: {meanings.get(key, '')}".rstrip(": "))
        if told := shares_told(self.events):
            lines.append(f"  {told}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """What a solver's run hands back.

    Attributes
    ----------
    w : ndarray of shape (dim,)
    history : mapping
        Released quantities along the way, each an array with one entry an iteration: covered by the
        ledger, like `w`.
    said : tuple of str
        What the releases tell of settings that might be better; covered by the ledger, too.
    covariance : ndarray of shape (dim, dim) or None
        Of the noise in `w`, roughly, as far as public quantities and the releases tell it.
    unit : float
        Of `w`, in which the plan states its noise: 1, or what the releases told it to be; infinite
        if that noise says nothing of `w`.
    column_ranges : ndarray of shape (2, n_features) or None
        Lowest and highest entry of each column that the weights are meant for, as far as the
        releases tell; infinite for columns of which they do not.
    prediction_range : tuple of two floats or None
        Lowest and highest margin that is believed of any row, by what was released of the targets;
        None if nothing was. Covered by the ledger, too.
    """

    w: Vector
    history: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    covariance: NDArray[np.float64] | None = None
    unit: float = 1.0
    column_ranges: NDArray[np.float64] | None = None
    prediction_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", MappingProxyType(dict(self.history)))
        if self.prediction_range is not None:  # an array, from a checkpoint
            low, high = map(float, self.prediction_range)
            object.__setattr__(self, "prediction_range", (low, high))


@dataclass(frozen=True)
class Result:
    """What a private fit releases.

    Attributes
    ----------
    w : ndarray of shape (dim,)
        Private weights, the intercept's last if there is one.
    privacy : PrivacyReport
        The guarantee, computed from the ledger.
    plan : Plan
    history : mapping
        Released quantities along the way (see the solver), covered by the guarantee.
    prediction_range : tuple of two floats or None
        Lowest and highest margin that is believed of any row; None if the fit learned none.
    column_ranges : ndarray of shape (2, n_features) or None
        Lowest and highest entry of each column that `w` is meant for, infinite where no release
        tells; None if none does.  Estimators draw entries beyond to the middle where they predict.
    """

    w: Vector
    privacy: PrivacyReport
    plan: Plan[Any]
    history: Mapping[str, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}))
    prediction_range: tuple[float, float] | None = None
    column_ranges: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class Solver(Generic[S]):
    """A private algorithm: how it plans and runs, and what it can serve.

    Attributes
    ----------
    name : str
    doc : str
        What it does, for the command line and the documentation.
    plan : callable
        ``plan(shape, budget, *, neighboring_relation, accountant, **options)`` plans a run from
        public quantities, as :func:`dpfast.plan` does; it spends and touches nothing, and raises
        TypeError or ValueError for options out of range. Its docstring describes the options.
    run : callable
        ``run(plan, curator)`` carries a plan out, and returns an Outcome: all that it is told of
        the rows, the curator releases. If the ledger cannot afford an access, the data is not
        touched for it, and BudgetExceeded is raised.
    budgets : tuple of str
        Kinds of budgets that it serves ("pure", "approximate", "zcdp", "gdp").
    relations : tuple of str
        Neighboring relations that it serves.
    row_access : {"sums", "single rows"}
        Whether it looks at sums over all rows alone, or at single rows in a random order, which
        rows in blocks do not have.
    resumable : bool
        Whether it can go on from a checkpoint, which holds releases alone: not if it draws between
        them what later ones rest on.
    minimizes : bool
        Whether its weights approach the minimizer of the objective as the noise goes to zero (with
        the options in `exact`).
    expects : str
        The entry of ``Plan.expected`` that falls as epsilon grows.
    exact : mapping
        Options with which a noiseless run reaches the minimizer to 1e-6, for the tests.
    loss : str, default="logistic"
        A loss that it is made for.
    penalizes_intercept : bool, default=True
        Whether its ridge draws the intercept to zero like the other weights.
    takes_objectives : bool, default=False
        Whether it takes objectives instead of problems.
    weighs_groups : bool, default=False
        Whether it keeps its promise where a record is a group of rows whose weights add up to one
        row's at most: all it is told are sums over weighted rows.
    any_rows_per_group : bool, default=False
        Whether it keeps its promise however many rows groups have, without a declared bound.
    max_dim : float, default=inf
        Most weights that it takes.
    refusal : callable or None, default=None
        From a loss to what it lacks for the method, or None if it will do; for "auto", which takes
        no solver without it.
    options : tuple of str
        Names of the options that `plan` takes.
    """

    name: str
    doc: str | None
    plan: Callable[..., Plan[S]]
    run: Callable[[Plan[S], Curator], Outcome]
    budgets: tuple[str, ...]
    relations: tuple[str, ...]
    row_access: Literal["sums", "single rows"]
    resumable: bool
    minimizes: bool
    expects: str
    exact: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    loss: str = "logistic"
    penalizes_intercept: bool = True
    takes_objectives: bool = False
    weighs_groups: bool = False
    any_rows_per_group: bool = False
    max_dim: float = math.inf
    refusal: Callable[[Loss], str | None] | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_taken("plan", self.plan, "shape", "budget", _COMMON)
        _check_taken("run", self.run, "plan", "curator")
        for kind in self.budgets:
            check_choice("budgets", kind, tuple(_WRITTEN))
        for relation in self.relations:
            check_choice("relations", relation, NEIGHBORING_RELATIONS)
        check_choice("row_access", self.row_access, ("sums", "single rows"))
        if not self.options:
            object.__setattr__(self, "options", options_of(self.plan))


# What every plan takes besides its options.
_COMMON = ("neighboring_relation", "accountant")


def _check_taken(
    name: str, function: Callable[..., Any], first: str, second: str, named: tuple[str, ...] = ()
) -> None:
    """Refuse a function that cannot be called with these arguments: a fit would fail half-way."""
    try:
        inspect.signature(function).bind(first, second, **dict.fromkeys(named))
    except TypeError as error:
        wanted = ", ".join((first, second, *(f"{option}=..." for option in named)))
        raise TypeError(
            f"{name} must be a function that can be called as {name}({wanted}): {error}."
        ) from None


def options_of(plan: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the options that a plan takes, in the order of its signature."""
    taken = inspect.signature(plan).parameters.values()
    return tuple(p.name for p in taken if p.kind is p.KEYWORD_ONLY and p.name not in _COMMON)


def check_planned(plan: Plan[Any], problem: Any) -> None:
    """Refuse to run a plan on anything but what it was made for: its noise would be for others."""
    shape = getattr(problem, "shape", None)
    if plan.objective is not None:
        if shape != plan.objective:
            raise ValueError(
                f"problem must be the objective that the plan was made for, {plan.objective!r}; "
                f"got {type(problem).__name__}."
            )
        return
    if not isinstance(shape, ProblemShape):
        raise ValueError(
            "problem must be a Problem, as the plan was made for one; got "
            f"{type(problem).__name__}."
        )
    differ = [
        f"{f.name}={getattr(shape, f.name)!r} instead of {getattr(plan.shape, f.name)!r}"
        for f in fields(ProblemShape)
        if f.name != "alpha" and getattr(shape, f.name) != getattr(plan.shape, f.name)
    ]
    if differ:
        raise ValueError(
            "problem must have the public quantities that the plan was made for; got "
            f"{', '.join(differ)}. Plan again for this problem."
        )


def check_alpha(alpha: float | str | None, shape: ProblemShape) -> float | None:
    """The ridge that is asked for, which is that of the shape for None; "auto" gives None."""
    if alpha is None:
        return shape.alpha
    if alpha == "auto":
        return None
    return check_real("alpha", alpha, low=1e-100, high=1e100, hint='Or pass "auto".')


def with_ridge(shape: ProblemShape, alpha: float | str | None) -> ProblemShape:
    """The shape with the ridge that is asked for; None and "auto" keep its own, or none."""
    return shape.with_alpha(check_alpha(alpha, shape) or shape.alpha)


def settle_minimizer_norm(given: float | None, guess: float) -> float:
    """The norm of the best weights that is given, or else this guess."""
    norm = guess if given is None else given
    return check_real("minimizer_norm", norm, low=0.0, low_open=True)


#: Options that estimators have as parameters of their own.
_PARAMETERS = ("alpha", "optimizer", "objective", "objective_options")


def check_options(
    given: Collection[str], known: Collection[str], name: str, hint: str = ""
) -> None:
    """Refuse options that a solver does not have."""
    if unknown := sorted(set(given) - set(known)):
        own = [option for option in _PARAMETERS if option in known]
        others = [option for option in known if option not in own] or ["none"]
        raise ValueError(
            f"solver_options must be among {', '.join(others)} for {name} (keyword arguments of "
            f"plan and solve; {', '.join(own)}, too, which estimators have as parameters); got "
            f"{', '.join(unknown)}.{did_you_mean(unknown[0], known)}{hint}"
        )


def check_supported(solver: Solver[Any], budget: Budget, neighboring_relation: str) -> None:
    """Refuse a budget or a neighboring relation that a solver cannot serve."""
    if budget.kind not in solver.budgets:
        raise ValueError(
            f"budget must be one of {', '.join(_WRITTEN[kind] for kind in solver.budgets)} "
            f"for solver={solver.name!r}; got {budget!r}. "
            "solver='output-perturbation' takes every kind."
        )
    if neighboring_relation not in solver.relations:
        raise ValueError(
            f"neighboring_relation must be {' or '.join(map(repr, solver.relations))} for "
            f"solver={solver.name!r}; got {neighboring_relation!r}."
        )


def check_shape(
    name: str, shape: ProblemShape, lacking: str | None, most: float = math.inf, remedy: str = ""
) -> None:
    """Refuse a loss that is `lacking` something for a solver, and more weights than it takes."""
    if lacking is not None:
        raise ValueError(f"loss must be {lacking}, for {name}; got {shape.loss.name!r}.")
    if shape.dim > most:
        raise ValueError(
            f"X must have at most {most} columns, the intercept's included, for {name}, which "
            f"works on matrices of that size; got {shape.dim}. {remedy}"
        )


_WRITTEN = {
    "pure": "Budget(epsilon)",
    "approximate": "Budget(epsilon, delta)",
    "zcdp": "Budget(rho=...)",
    "gdp": "Budget(mu=...)",
}
