"""What whitened descent does more where a record is a group of rows, such as all rows of a person.

A group's gradient is clipped as one vector, so what it may add does not grow with its number of
rows.  How long such vectors are depends on how many rows there are, and on how alike they pull:
``√m`` times a row's if they have nothing in common, and m times if they are copies.  So a run

1. releases counts of the groups by size, from a small share of the budget, and makes the steps that
   fit the mean size; clipping, steps and momentum follow, since every row helps against the noise;
2. releases counts of the targets, of the mean over a group's rows, for losses of residuals: where
   these lie in bounds that may be far too wide tells where to begin, and how long gradients are;
3. releases with every gradient how alike groups pull (:class:`~dpfast.queries.GroupGradient`),
   and sets the radius of the next gradient by it.

Coordinates are learned from the means over the groups' rows, which cost what single rows do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.privacy import records_apart
from dpfast.queries import GroupGradient, GroupSizes
from dpfast.queries.coordinates import reach_limit
from dpfast.shape import ProblemShape
from dpfast.solvers._shares import Release
from dpfast.solvers._whitened_rules import Rule

_SIZES = "sizes of groups"
#: Share of the budget, in units of mu², that the counts take.
SIZES_SHARE = 0.02
# Weight of the alikeness beside the gradient, per record apart: 3% more noise.
_ALIKE = 0.25
# Deviations of the noise by which a count must stand out: one of sizes that nobody has would
# outweigh all others in the mean.
_SEEN = 4.0
# Radius of a group's gradient over a row's times its length in rows; rows are cut as one by one
# would lose more than the group's radius saves.  Of surprising labels, or targets on one side of a
# corner, a radius cuts more than of others, and most where a group is as one long row: there it
# grows by this more, in powers of the mean size.
_RADIUS, _ROW, _MORE_ALIKE = 0.7, 3.0, 1.35
# Share of all rows that are in groups which are not large.
_IN_SMALL = 0.8
# Up to this mean size, and from so many groups behind one weight, times µ, on, two classes are
# clipped as rows are, by factors that do not depend on labels: with more rows in a group, these may
# be alike for other reasons than the columns, and what they have in common is cut.
_SINGLE, _MANY_SINGLE = 1.25, 40.0
# Deviation of the noise in a mean, over what groups count on average, up to which all rows count
# alike.
_HIDING = 0.03
# More steps than for rows, where few are planned: each is worth more.
_MORE, _MOST_STEPS = 4.0, 28
# Between √m and m a group's length is m to one of these powers, taken to be this until it is known.
_POWERS, _POWER = np.linspace(1.0, 0.5, 51), 0.75
# How far the alikeness is believed to be from that guess.
_BELIEF = 0.3


class SizeLaw(NamedTuple):
    """Sizes that were seen, and the shares of the groups that have them."""

    sizes: Vector
    shares: Vector

    @property
    def mean(self) -> float:
        """Mean size."""
        return float(self.sizes @ self.shares)

    @property
    def spread(self) -> float:
        """Deviation of the sizes over their mean."""
        square = float(np.square(self.sizes) @ self.shares)
        return math.sqrt(max(0.0, square / self.mean**2 - 1.0))

    def alike(self, powers: Vector) -> Vector:
        """Expected ``min(1, γ r / l)``, γ² the mean size, if l is r times the size to a power."""
        least = math.sqrt(self.mean) / self.sizes ** powers[:, None]
        return np.minimum(1.0, least) @ self.shares

    def counted(self, least: float = 0.0) -> tuple[float, float]:
        """The size from which on groups are large, and what groups count on average.

        If a row counts one over that size, and large groups one: rows of the others count alike.
        It is so small that groups count `least` at least.
        """
        rows = np.cumsum(self.sizes * self.shares)
        at = int(np.searchsorted(rows, _IN_SMALL * rows[-1]))
        means = np.minimum(1.0, self.sizes / self.sizes[: at + 1, None]) @ self.shares
        while at > 0 and means[at] < least:
            at -= 1
        return float(self.sizes[at]), float(means[at])

    def counted_above(self, noise: float) -> tuple[float, float]:
        """The same, of a mean over groups that has noise of this deviation if each counts one.

        If groups count so little that it hides them, a few large ones decide the mean.
        """
        return self.counted(min(1.0, noise / _HIDING))


@dataclass(frozen=True)
class Groups:
    """What a run needs besides its settings."""

    sizes: Gaussian  # the release of the counts
    rule: Rule  # for settings that follow what is learned
    u: float  # groups behind one weight, times µ
    law: SizeLaw | None = None  # once it is released


def automatic_settings(settings: Callable[[float], dict[str, Any]], u: float) -> dict[str, Any]:
    """`settings` for so many groups behind one weight, with more steps."""
    found = settings(u)
    more = min(_MOST_STEPS, settings(_MORE * u)["iterations"])
    return found | {"iterations": max(found["iterations"], more)}


def gradient_query(
    shape: ProblemShape,
    limit: float,
    neighboring_relation: str,
    n_classes: int = 1,
) -> GroupGradient:
    """The query of every step."""
    weight = _ALIKE * records_apart(neighboring_relation)
    return GroupGradient(shape, limit, weight, n_classes)


def limit_of(shape: ProblemShape, radius: float, farthest: float) -> float:
    """Largest reach with which rounding stays below a thousandth of a group's contribution.

    As for rows, at least twice that of the coordinates to begin with, and up to `farthest`.
    """
    unit = GroupGradient(shape, 1.0, 0.0).rounding_error()
    least = 2.0 * math.sqrt(2.0) * (shape.dim + 1.0)
    return max(min(1e-3 / unit, reach_limit(shape, radius, radius, farthest)), least)


def planned_sizes(release: Release, shape: ProblemShape) -> Gaussian:
    """The release of the sizes."""
    return release(SIZES_SHARE, GroupSizes(shape), _SIZES)


def planned(release: Release, shape: ProblemShape, rule: Rule, u: float) -> Groups:
    """The release of the sizes, and what follows from it."""
    return Groups(planned_sizes(release, shape), rule, u)


def learned_sizes(sizes: Gaussian, curator: Curator) -> SizeLaw:
    """How many rows groups have, of the sizes that stand out of the noise."""
    return seen_sizes(sizes, curator.release(sizes))


def seen_sizes(sizes: Gaussian, counts: Vector) -> SizeLaw:
    """The same of counts that were released."""
    seen = np.where(counts > _SEEN * sizes.stddev, counts, 0.0)
    if not seen.any():
        seen[0] = 1.0  # of the smallest size, with which noise does least
    return SizeLaw(_middles(sizes)[seen > 0.0], seen[seen > 0.0] / seen.sum())


def mean_part(sizes: Gaussian, counts: Vector, n_groups: int, most: float) -> tuple[float, float]:
    """What groups count on average if one of `most` rows or more counts 1, and its deviation.

    Of all counts, since large groups that hide in the noise hold many rows; they add up to the
    number of groups, which takes most of the noise away.
    """
    parts = np.minimum(1.0, _middles(sizes) / most)
    middle = float(parts.mean())
    found = middle + float((parts - middle) @ counts) / n_groups
    deviation = sizes.stddev / n_groups * float(np.linalg.norm(parts - middle))
    return min(1.0, max(found, float(parts.min()))), deviation


def _middles(sizes: Gaussian) -> Vector:
    """Of what is counted together."""
    assert isinstance(sizes.query, GroupSizes)
    edges = sizes.query.edges
    middles: Vector = 0.5 * (edges[:-1] + edges[1:] - 1.0)
    return middles


def learned(groups: Groups, settings: Any, curator: Curator) -> Any:
    """`settings` with what the release of the sizes makes of them."""
    law = learned_sizes(groups.sizes, curator)
    found = replace(groups, law=law)
    more = math.pow(law.mean, 1.0 - _POWER)
    single = "consistent" in groups.rule.free and law.mean < _SINGLE and groups.u >= _MANY_SINGLE
    alike = {"consistent": True} if single else {}
    before = groups.rule.settings(groups.u)
    after = groups.rule.settings(groups.u * more, **alike) | alike
    changes = {name: after[name] for name in groups.rule.free if name in after}
    if "clip" in changes:
        changes["clip"] = settings.clip * after["clip"] / before["clip"]
        changes["clip_norm"] = settings.clip_norm * after["clip"] / before["clip"]
    return replace(settings, groups=found, **changes)


class Pace:
    """The radius of the gradients along a descent, as the alikeness that was released has it.

    Single rows' gradients are clipped to `row_norm`; the descent is in units of `half` the width of
    the targets' range.  If `consistent`, labels have no part in what slopes are multiplied by.
    """

    def __init__(
        self,
        groups: Groups,
        mechanism: Gaussian,
        shape: ProblemShape,
        row_norm: float,
        half: float = 1.0,
        consistent: bool = False,
    ) -> None:
        assert isinstance(mechanism.query, GroupGradient)
        assert groups.law is not None
        part = 1.0 / (shape.max_rows_per_group or 1)
        mean = groups.law.mean
        self.rows = mean * part  # behind one group, in units of what one counts at most
        # Slopes of residuals are in proportion to them.
        self._row_norm, self._half = half * row_norm, half
        self._unit = self._row_norm * part * shape.max_weight
        self._gauge = math.sqrt(mean)
        # Radii by how alike groups are, the longest first.
        self._alike = groups.law.alike(_POWERS)
        longer = 1.0 if shape.loss.even else _MORE_ALIKE
        self._radii = _RADIUS * self._gauge * mean ** (longer * (_POWERS - 0.5))
        self._weight = mechanism.query.weight * shape.n_samples
        self._consistent = consistent
        # The guess is worth as much as a release of this deviation.
        self._precision = 1.0 / _BELIEF**2
        self._share = float(groups.law.alike(np.array([_POWER]))[0])
        self._each = (self._weight / mechanism.stddev) ** 2

    @property
    def norm(self) -> float:
        """Bound of a group's gradient."""
        return self._unit * max(1.0, float(np.interp(self._share, self._alike, self._radii)))

    @property
    def change(self) -> float:
        """By which factor noise in the weights is larger than planned."""
        return self.norm / (self._half * self.rows)

    @property
    def point(self) -> tuple[float, float, float, float | None]:
        """What the next gradient is asked with."""
        correlation = self._correlation if self._consistent else None
        return _ROW * self._row_norm, self.norm, self._gauge, correlation

    @property
    def _correlation(self) -> float:
        """Of the slopes within a group, as far as gradients are longer than was to be expected."""
        power = float(np.interp(self._share, self._alike, _POWERS))
        more = max(0.0, (power - _POWER) / (1.0 - _POWER))
        mean = self._gauge**2
        return 0.0 if mean == 1.0 else (mean**more - 1.0) / (mean - 1.0)

    def gradient(self, answer: Vector) -> Vector:
        """The gradient of a noisy answer, whose alikeness the next one follows."""
        gradient: Vector = answer[:-1] * (self.norm / self._half)
        total = self._precision + self._each
        self._share += (answer[-1] / self._weight - self._share) * self._each / total
        self._precision = total
        return gradient
