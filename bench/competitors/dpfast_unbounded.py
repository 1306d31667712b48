"""dpfast under the relation that DP-SGD's libraries use."""

from __future__ import annotations

from functools import partial

from bench.competitors import dpfast_native
from bench.competitors.dpfast_native import MODULE as MODULE

NAME = "dpfast, add_or_remove_one"
RELATION, DELTA = "add_or_remove_one", True
GUARANTEE = dpfast_native.GUARANTEE.replace("replace_one", RELATION)

fit = partial(dpfast_native.fit, relation=RELATION)
