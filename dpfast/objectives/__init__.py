"""Whole objectives: value, gradient, Hessian and public constants, ready for an optimizer."""

from dpfast.objectives._contract import Objective
from dpfast.objectives.erm import Erm
from dpfast.objectives.linear_term import LinearTerm

__all__ = ["Erm", "LinearTerm", "Objective"]
