"""Mechanisms: noisy answers to queries, paid for before the data is touched."""

from typing import Any

from dpfast.mechanisms._access import Access
from dpfast.mechanisms._additive import AdditiveMechanism
from dpfast.mechanisms._mechanism import Mechanism
from dpfast.mechanisms._query import LARGEST_ARGUMENT, Query, check_size, plain
from dpfast.mechanisms._selecting import SelectingMechanism
from dpfast.mechanisms.exponential import Exponential
from dpfast.mechanisms.gaussian import Gaussian
from dpfast.mechanisms.l2_laplace import L2Laplace
from dpfast.mechanisms.laplace import Laplace
from dpfast.mechanisms.noisy_max import NoisyMax

MECHANISMS: dict[str, type[Mechanism[Any]]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "l2_laplace": L2Laplace,
    "noisy_max": NoisyMax,
    "exponential": Exponential,
}
"""The mechanisms by the name that their events carry: those that add noise to a vector are
subclasses of AdditiveMechanism, those that choose a candidate of SelectingMechanism."""

__all__ = [
    "LARGEST_ARGUMENT",
    "MECHANISMS",
    "Access",
    "AdditiveMechanism",
    "Exponential",
    "Gaussian",
    "L2Laplace",
    "Laplace",
    "Mechanism",
    "NoisyMax",
    "Query",
    "SelectingMechanism",
    "check_size",
    "plain",
]
