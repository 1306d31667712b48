"""Whole objectives: value, gradient, Hessian and public constants, ready for an optimizer."""

from dpfast.objectives._contract import Objective
from dpfast.objectives._finite_sum import FiniteSum, Rounded, Smoothable, Snapshot
from dpfast.objectives.erm import Erm

__all__ = ["Erm", "FiniteSum", "Objective", "Rounded", "Smoothable", "Snapshot"]
