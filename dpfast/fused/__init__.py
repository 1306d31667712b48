"""Accesses that are more than a query with noise on its value; all of them are trusted.

Their steps in between see the rows and must stay secret, or their answer has no single exact value.
Each says what it charges and why that is enough, and has an audit of its own, since replay cannot
look into it.
"""

from dpfast.fused.ball_sample import BallSample
from dpfast.fused.epochs import SampledSteps, State, Walk
from dpfast.fused.last_iterate import LastIterate
from dpfast.fused.perturbed_minimizer import PerturbedMinimizer
from dpfast.fused.sampled_gradient import SampledGradient

__all__ = [
    "BallSample",
    "LastIterate",
    "PerturbedMinimizer",
    "SampledGradient",
    "SampledSteps",
    "State",
    "Walk",
]
