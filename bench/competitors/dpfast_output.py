"""dpfast's output perturbation, which solves once, as scikit-learn does."""

from __future__ import annotations

from functools import partial

from bench.competitors import dpfast_native
from bench.competitors.dpfast_native import DELTA as DELTA
from bench.competitors.dpfast_native import GUARANTEE as GUARANTEE
from bench.competitors.dpfast_native import MODULE as MODULE
from bench.competitors.dpfast_native import RELATION as RELATION

NAME = "dpfast, output perturbation"

fit = partial(dpfast_native.fit, solver="output-perturbation")
