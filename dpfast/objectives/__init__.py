"""Whole objectives: value, gradient, Hessian and public constants, ready for an optimizer."""

from typing import Any

from dpfast._validation import check_choice
from dpfast.objectives._contract import Objective, ObjectiveShape
from dpfast.objectives._finite_sum import FiniteSum, Rounded, Smoothable, Snapshot
from dpfast.objectives.adversarial import Adversarial, AdversarialShape
from dpfast.objectives.erm import Erm, ErmShape
from dpfast.objectives.general import General, GeneralShape
from dpfast.objectives.linear_term import LinearTerm
from dpfast.objectives.python_erm import PythonErm, PythonErmShape, PythonLoss
from dpfast.objectives.saddle import Saddle, SaddleProblem, SaddleShape
from dpfast.objectives.tilted import Tilted, TiltedShape
from dpfast.shape import ProblemShape
from dpfast.sums import RowSums

#: Objectives of a problem by name: the objective, its public shape, the names of its options.
OBJECTIVES: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "erm": (Erm, ErmShape, ()),
    "tilted": (Tilted, TiltedShape, ("tilt", "target_bound")),
    "adversarial": (Adversarial, AdversarialShape, ("radius", "norm", "smoothing")),
}


def _look_up(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    check_choice("objective", name, tuple(OBJECTIVES))
    objective, shape, known = OBJECTIVES[name]
    for option in options:
        if option not in known:
            raise ValueError(
                f"objective_options must be among {known} for objective={name!r}; got {option!r}."
            )
    return objective, shape


def make_objective(name: str, problem: RowSums, alpha: float, **options: Any) -> Any:
    """The named objective of a problem.

    Parameters
    ----------
    name : {"erm", "tilted", "adversarial"}
    problem : Problem
    alpha : float
        Ridge.
    **options
        ``tilt``, ``target_bound`` (tilted); ``radius``, ``norm``, ``smoothing`` (adversarial).

    Returns
    -------
    Objective
        With the shape that :func:`objective_shape` gives for the same arguments.

    Raises
    ------
    TypeError, ValueError
        If the name or an option is unknown, or a value out of range.

    Examples
    --------
    >>> from dpfast import Problem
    >>> problem = Problem([[1.0], [-0.5]], [1.0, -1.0], data_norm=1.0)
    >>> make_objective("tilted", problem, 0.1, tilt=2.0).shape.tilt
    2.0
    """
    return _look_up(name, options)[0](problem, alpha, **options)


def objective_shape(name: str, shape: ProblemShape, alpha: float, **options: Any) -> Any:
    """The public shape of :func:`make_objective`'s result, from public quantities alone.

    Parameters
    ----------
    name, alpha, **options
        As for :func:`make_objective`.
    shape : ProblemShape

    Returns
    -------
    ObjectiveShape

    Examples
    --------
    >>> problem = ProblemShape(1000, 3, 1.0)
    >>> shapes = [objective_shape(name, problem, 0.1) for name in ("erm", "adversarial")]
    >>> shapes[0].lipschitz < shapes[1].lipschitz
    True
    """
    return _look_up(name, options)[1](shape, alpha, **options)


def leaks_of(problem: Any) -> tuple[str, ...]:
    """What was inferred from the private data behind a problem or an objective, in words."""
    if not isinstance(problem, RowSums):
        problem = getattr(problem, "_problem", None)
    return tuple(getattr(problem, "leaks", ()))


__all__ = [
    "OBJECTIVES",
    "Adversarial",
    "AdversarialShape",
    "Erm",
    "ErmShape",
    "FiniteSum",
    "General",
    "GeneralShape",
    "LinearTerm",
    "Objective",
    "ObjectiveShape",
    "PythonErm",
    "PythonErmShape",
    "PythonLoss",
    "Rounded",
    "Saddle",
    "SaddleProblem",
    "SaddleShape",
    "Smoothable",
    "Snapshot",
    "Tilted",
    "TiltedShape",
    "leaks_of",
    "make_objective",
    "objective_shape",
]
