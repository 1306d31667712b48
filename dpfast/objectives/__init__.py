"""Whole objectives: value, gradient, Hessian and public constants, ready for an optimizer."""

from dataclasses import fields
from typing import Any

from dpfast._validation import check_choice
from dpfast.objectives._contract import Objective, ObjectiveShape, RiskShape
from dpfast.objectives._finite_sum import FiniteSum, Rounded, Smoothable, Snapshot
from dpfast.objectives.adversarial import Adversarial, AdversarialShape
from dpfast.objectives.erm import Erm, ErmShape
from dpfast.objectives.general import General, GeneralShape
from dpfast.objectives.linear_term import LinearTerm
from dpfast.objectives.python_erm import PythonErm, PythonErmShape, PythonLoss
from dpfast.objectives.saddle import Saddle, SaddleProblem, SaddleShape
from dpfast.objectives.tilted import Tilted, TiltedShape
from dpfast.shape import ProblemShape

#: Objectives of a problem by name.
OBJECTIVES: dict[str, type[RiskShape]] = {
    "erm": ErmShape,
    "tilted": TiltedShape,
    "adversarial": AdversarialShape,
}


def objective_shape(name: str, shape: ProblemShape, alpha: float, **options: Any) -> RiskShape:
    """The public shape of a named objective; its method `on` makes the objective of a problem.

    Parameters
    ----------
    name : {"erm", "tilted", "adversarial"}
    shape : ProblemShape
    alpha : float
        Ridge.
    **options
        Those of :class:`TiltedShape` or :class:`AdversarialShape`.

    Raises
    ------
    TypeError, ValueError
        If the name or an option is unknown, or a value out of range.

    Examples
    --------
    >>> problem = ProblemShape(1000, 3, 1.0)
    >>> shapes = [objective_shape(name, problem, 0.1) for name in ("erm", "adversarial")]
    >>> shapes[0].lipschitz < shapes[1].lipschitz
    True
    """
    check_choice("objective", name, tuple(OBJECTIVES))
    known = tuple(f.name for f in fields(OBJECTIVES[name]) if f.name not in ("problem", "alpha"))
    for option in options:
        if option not in known:
            raise ValueError(
                f"objective_options must be among {known} for objective={name!r}; got {option!r}."
            )
    return OBJECTIVES[name](shape, alpha, **options)


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
    "RiskShape",
    "Rounded",
    "Saddle",
    "SaddleProblem",
    "SaddleShape",
    "Smoothable",
    "Snapshot",
    "Tilted",
    "TiltedShape",
    "objective_shape",
]
