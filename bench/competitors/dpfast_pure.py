"""dpfast without a delta, as diffprivlib."""

from __future__ import annotations

from functools import partial

from bench.competitors import dpfast_native
from bench.competitors.dpfast_native import MODULE as MODULE

NAME = "dpfast, pure"
RELATION, DELTA = "replace_one", False
GUARANTEE = "epsilon-DP under replace_one; noise from the secure stream, rounded to a grid"

fit = partial(dpfast_native.fit, delta=0.0)
