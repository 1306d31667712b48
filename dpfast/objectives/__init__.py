"""Whole objectives: value, gradient, Hessian and public constants, ready for an optimizer."""

from dpfast.objectives._contract import Objective, ObjectiveShape
from dpfast.objectives.erm import Erm, ErmShape
from dpfast.objectives.general import General, GeneralShape
from dpfast.objectives.linear_term import LinearTerm

__all__ = [
    "Erm",
    "ErmShape",
    "General",
    "GeneralShape",
    "LinearTerm",
    "Objective",
    "ObjectiveShape",
]
