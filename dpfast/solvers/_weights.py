"""Weights of rows that may be far below their declared bound: counts tell where to cut.

Noise is in proportion to the largest weight that there may be.  So weights are cut where no
higher ones stand out of the noise, or lower if hardly anything is cut there, and stretched to the
bound; and a run goes on as with fewer rows of the largest weight.  Where noise hides them all,
rows count alike, as without weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import WeightCounts
from dpfast.shape import ProblemShape
from dpfast.solvers._shares import Release
from dpfast.solvers._whitened_rules import Rule

_WEIGHTS = "rows by weight"
# How many counts there are, four an octave, and their share of the budget: that with which so many
# rows stand out, between two ends.
_COUNTS, _ROWS_SEEN, _LEAST, _MOST = 120, 40.0, 0.01, 0.05
# Deviations of the noise by which some counts together must stand out, and how many: false ones
# outweigh all others.
_SEEN, _TOGETHER = 4.0, (1, 2, 4, 8, 16)
# Which part of all weight may be cut, and from how many rows behind one weight, times µ, on less;
# and what weights are on average, over the edge above them.
_CUT, _MANY, _BELOW = 0.03, 30.0, 0.92


@dataclass(frozen=True)
class Weights:
    """The access, and what follows it."""

    counts: Gaussian
    rule: Rule  # for settings that follow the rows' mean weight, once it is learned
    mean: float = 1.0  # once it is, over the largest


class Cut(NamedTuple):
    """What was made of the weights."""

    larger: float  # by which factor those that were not cut are larger, or all on average
    mean: float  # of all rows since, over the largest


def share(rows: float, shape: ProblemShape) -> float:
    """Of the budget, in units of mu², for counts of rows by weight; `rows` is µ n / k."""
    if not shape.weighted or shape.several_rows:
        return 0.0
    return min(_MOST, max(_LEAST, (_ROWS_SEEN / rows) ** 2))


def planned(shape: ProblemShape, share: float, release: Release, rule: Rule) -> Weights | None:
    """Settle the access, which `release` calibrates from its share of the budget; None for none."""
    if share == 0.0:
        return None
    return Weights(release(share, WeightCounts(shape, _COUNTS), _WEIGHTS), rule)


def cut(counts: Gaussian, u: float, curator: Curator) -> Cut:
    """Cut the rows' weights where no more are seen, or next to none; where none are, at the end."""
    query = counts.query
    assert isinstance(query, WeightCounts)
    found = curator.release(counts)
    last = _last_seen(found / counts.stddev)
    noise, edges = counts.stddev / query.shape.n_samples, query.edges
    if last == 0:
        # Hidden weights may be any part of the bound, by which all else would be noisier.  So all
        # count alike that are not next to 0, and all counts together tell the mean, more or less.
        mean = _BELOW * float(edges @ found / edges[-1]) / query.shape.n_samples
        curator.cut_weights(float(edges[0]))
        return Cut(1.0 / min(1.0, max(mean, noise)), 1.0)
    seen, edges = found[: last + 1], edges[: last + 1]
    left = np.minimum(_BELOW * edges, edges[:, None]) @ seen  # of their sum, by where they are cut
    part = _CUT * min(1.0, _MANY / u)
    at = int(np.argmax(left >= (1.0 - part) * left[-1]))
    larger = float(query.edges[-1] / edges[at])
    if larger > 1.0:
        curator.cut_weights(float(edges[at]))
    mean = float(left[at] / edges[at]) / query.shape.n_samples
    return Cut(larger, min(1.0, max(mean, noise)))


def _last_seen(counts: Vector) -> int:
    """The last count that stands out, with some after it; they are in units of the noise."""
    below, last = np.append(0.0, np.cumsum(counts)), 0
    for width in _TOGETHER:
        out = np.flatnonzero(below[width:] - below[:-width] > _SEEN * width**0.5)
        last = max(last, int(out[-1]) if len(out) else 0)
    return last


def learned(weights: Weights, settings: Any, curator: Curator) -> Any:
    """`settings` for the weights that were cut: light rows tell as little as fewer ones."""
    larger, mean = cut(weights.counts, settings.rows_per_weight, curator)
    # A ridge stays what it is beside larger weights.
    settings = replace(settings, ridge=larger * settings.ridge)
    if settings.link is not None:  # which learns the mean weight with the targets
        return settings
    u = mean * settings.rows_per_weight
    found = weights.rule.settings(u)
    changes = {name: found[name] for name in weights.rule.free if name in found and name != "clip"}
    parts = {
        "target_range": settings.target_range,
        "tails": settings.tails,
        "level": settings.level,
    }
    for name, part in parts.items():
        if part is not None:
            changes[name] = replace(part, rows=mean * part.rows)
    return replace(
        settings,
        weights=replace(weights, mean=mean),
        curvature=mean * settings.curvature,
        rows_per_weight=u,
        **changes,
    )
