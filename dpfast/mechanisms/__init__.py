"""Mechanisms: releases of a query with noise, paid for before the data is touched."""

from dpfast.mechanisms._additive import AdditiveMechanism
from dpfast.mechanisms.gaussian import Gaussian
from dpfast.mechanisms.l2_laplace import L2Laplace

MECHANISMS: dict[str, type[AdditiveMechanism]] = {"gaussian": Gaussian, "l2_laplace": L2Laplace}
"""The additive mechanisms by the name that their events carry."""

__all__ = ["MECHANISMS", "AdditiveMechanism", "Gaussian", "L2Laplace"]
