"""Noisy gradient descent in learned coordinates, and what the noise in its end tells.

The descent begins at the best constant prediction, as far as noisy class counts tell it.  Gradients
that were released tell more than their own step: two of them at different points are a secant.
Along the weights themselves, the one direction that every step agrees on, secants add up to a
curvature that stands out of the noise, and steps are as long as that allows: a strong signal, whose
loss is nearly flat where its weights are, is not stopped halfway.  Where a class is rare, that
direction and the constant are nearly one: steps along both are found together.  And where the last
secant shows more curvature than was planned for, so that steps would pass the minimum, they get
shorter.

A hinge's corner, or the pinball loss's, is rounded off, over less from step to step: wide, it shows
the way; narrow, what is minimized is the loss itself (graduated smoothing).  The mean loss is
curved by how dense margins are at the corner, whatever its width, but by one over the width where
they pile up there: steps shrink as the square root, which is between the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, softmax

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian
from dpfast.queries.coordinates import CoordinateGradient, bounded, operator
from dpfast.shape import ProblemShape
from dpfast.solvers import _groups, _log_link
from dpfast.solvers._class_shares import intercepts_of, longest_slope
from dpfast.solvers._coordinates import UNCERTAIN_EFFECT, Coordinates, Learning, entry_bound
from dpfast.solvers._doubtful import within_others
from dpfast.solvers._groups import Groups
from dpfast.solvers._intercept import Released, expected_intercept, root
from dpfast.solvers._level import Level
from dpfast.solvers._log_link import LogLink, Spread
from dpfast.solvers._normal_rows import logistic_bends
from dpfast.solvers._target_range import Place, TargetRange
from dpfast.solvers._target_tails import Tails
from dpfast.solvers._weights import Weights
from dpfast.solvers._whitened_rules import NARROWEST_CORNER, confirmed_part, is_mean

# The curvature, in units of the loss's largest, at which noise is taken to pile up over the steps:
# slopes that are clipped do not follow the weights.  By the square of the clip, between these; and
# of the pinball loss, whose corner few residuals are at.
_GROUND, _LEAST_GROUND, _MOST_GROUND, _AT_CORNER = 1.65, 0.15, 0.5, 0.08
# The guess of the curvature along the weights, its deviation, and the least that is believed, in
# units of the largest; a step's share of one over the curvature.
_GUESS, _GUESS_DEVIATION, _LEAST_CURVATURE, _SHORT_OF_WHOLE = 0.8, 0.4, 0.12, 0.9
# Steps times curvature from which on steps pass the minimum by more and more, with momentum.
_ASTRAY = 1.2
# How much a secant counts one step later.
_FORGET = 0.5
# A secant's curvature is believed but for so many deviations of the noise in it.
_DOUBT = 4.0
# Weights of two classes that are longer are far: little draws these to zero, and momentum goes up
# to the second.  From so many rows behind one weight, times µ, on steps go as far by themselves.
_FAR, _MOST_MOMENTUM, _AMPLE = 4.0, 0.6, 200.0
# Shorter weights have no direction of their own yet.
_SHORTEST = 0.1
# Curvature along weights and constant is at least so many deviations of the noise in a gradient.
_BEND_NOISE = 4.0
# Of the curvature that weights share with the constant half is believed where they are so long.
_KNOWN_DIRECTION = 2.0
# Length of weights from which on the valley that they share with the constant is taken for flatter.
_VALLEY = 3.0
# How much of the way along flat ground, in steps of one over its curvature, lies behind iterates
# that are averaged; and the least share of them.
_BEHIND, _FEWEST_AVERAGED = 1.5, 0.35
# With a log link the step from the mean of all points is at most as long as this part of all steps.
_REACH = 0.3
# Share of the averaged iterates that counts where the mean of their gradients is more than noise.
_LATE = 0.35
# Deviations of their noise by which the gradients of several classes tell of a way.
_BEYOND_DOUBT = 3.0
# Rows behind one weight, times µ, at which rows are half as long as white ones in the coordinates.
_SHORT = 1.0
# Deviations of its noise by which the end of a descent is doubted, less so from so many rows behind
# one weight, times µ, on, and up to so many; and by which the first gradient is to stand out to
# tell of weights.
_DOUBTED, _LONG, _FULLY, _SURELY = 0.6, 16.0, 2.75, 2.0
# And by which slopes along a column that hardly varies are more than noise.
_SLOPE_SEEN = 2.0
# Half of what a constant ends beyond a hinge's corner is left where margins spread by so many times
# that; and how far beyond it is best, over their deviation and the square of how many of these the
# corner would be away if margins told of no class.
_SPREAD, _SHORT_OF_CORNER = 3.0, 0.3
# A class's shares of persons and of rows are taken to be this far apart, in deviations of it and of
# the sizes over their mean.
_APART = 0.3
# Beside a ridge, by which part rows of categories alone stay shorter, in logarithms; and the
# largest mean square of a coordinate, so that steps are not too long for it.
_SHORTER, _LONGEST = 0.5, 2.0
# Beside a ridge that leaves coordinates longer than this, it stays whole: what it takes of noise
# along the weights is worth more than what it takes of them.
_BARELY_BENT = 0.85
# Deviation of an effect across a column's range, in units of the margin, before any data are seen,
# and how many scales wide a range is that is known; and both for effects on logarithms of means.
PRIOR_EFFECT, _RANGE, _LINKED_EFFECT, _LINKED_RANGE = 10.0, 30.0, 1.5, 3.0
# By how much the square of that may turn out to be larger; and the precision, in units of the
# noise, of what a prior leaves alone.
_SPREADS, _NO_PULL = 2.0 ** np.arange(13), 1e-12
# And with how many deviations a single weight may ask for that, with a log link: a category without
# rows has one that is longer than its noise is taken to be.
_ASKED = 3.0


@dataclass(frozen=True)
class Settings:
    """What a run follows: the options of the solver's plan, and what is derived from them."""

    learning: Learning
    gradient: Gaussian
    loss: Loss  # what the descent minimizes
    curvature: float
    limit: float
    regime: str
    clip_norm: float
    rounds: int
    iterations: int
    clip: float
    learning_clip: float
    correlation_clip: float
    average: float
    ridge: float
    step: float
    intercept_step: float
    momentum: float
    shrinkage: float
    james_stein: bool
    learning_share: float
    correlation_share: float
    gradient_share: float
    classes: int | None = None
    link: LogLink | None = None
    target_range: TargetRange | None = None
    tails: Tails | None = None
    level: Level | None = None
    groups: Groups | None = None
    weights: Weights | None = None
    rows_per_weight: float = math.inf
    consistent: bool = False
    ridge_left: float | None = None  # in the descent, beside slopes of which as much is left
    averages_late: bool = False  # where a rare class makes the way long
    goes_far: bool = False  # whether long weights of two classes are followed farther
    narrowing: float = 1.0
    width: float | None = None
    # Curvature where noise piles up over the steps, in units of the largest; None: by the clip.
    ground: float | None = None
    # What `_few_rows` asks for where these are far fewer than weights.
    row_lengths: Gaussian | None = None
    along: Gaussian | None = None

    @property
    def mean_weight(self) -> float:
        """Of the rows, over the largest, as far as it was learned."""
        return 1.0 if self.weights is None else self.weights.mean

    @property
    def corners(self) -> Vector:
        """Width of the loss's corner at every step, over that at the first."""
        return np.geomspace(1.0, self.narrowing, self.iterations)

    @property
    def length(self) -> float:
        """Of rows in the coordinates of numbers, over that of white ones."""
        return 1.0 / (1.0 + _SHORT / self.rows_per_weight)

    @property
    def first_averaged(self) -> int:
        """The iteration from which on iterates are averaged."""
        return min(self.iterations - 1, math.floor(self.iterations * (1.0 - self.average)))

    @property
    def late(self) -> int:
        """How many iterates are averaged where the others were on their way to the minimum."""
        return math.ceil(_LATE * (self.iterations - self.first_averaged))

    @property
    def ramp(self) -> Vector:
        """How much every point counts, with a log link: those that others leave out, the less."""
        before = (1.0 - self.average) * self.iterations
        weights = np.minimum(1.0, np.arange(1.0, self.iterations + 1) / (1.0 + before))
        found: Vector = weights / weights.sum()
        return found

    @property
    def whole(self) -> float:
        """The step from the mean of all points to the end, with a log link: a curvature's."""
        longest = _REACH * self.iterations * self.step
        assert self.ground is not None
        return longest / max(1.0, longest * self.ground)

    @property
    def paces(self) -> Vector:
        """Length of every step, over that of the first."""
        return np.sqrt(self.corners)


class Descent(NamedTuple):
    """Where a descent in the coordinates led, and what it was told."""

    end: Matrix
    norms: Vector  # of the noisy mean gradients
    change: float  # by which factor steps, and what noise did to the end, were larger than planned
    slopes: Matrix  # all gradients together, in units of their noise


def descend(
    settings: Settings,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
    spread: Spread | Place | None = None,
    start: Matrix | None = None,
) -> Descent:
    """Noisy gradient descent in the coordinates, from `start` or else from a constant prediction.

    With ``settings.classes``, weights are a matrix of as many columns, one a class; adding the same
    vector to all of them changes no loss, so what their noise has in common is taken out.  `spread`
    is what was released of the targets: of a `Place`, everything is in units of half its width, and
    so is the loss: thresholds and rounded-off kinks are as wide there as declared for [-1, 1].
    """
    units, averaged = _Units.of(spread, settings, shape), settings.first_averaged
    # Not where the log link rests on the steps.
    plain = not isinstance(spread, Spread)
    gradients = _Gradients(settings, shape, curator, coordinates.transform, units)
    steps = _Steps(settings, shape, coordinates, units, plain)
    v: Matrix = start_of(shape.loss, coordinates) if start is None else start
    if units.intercept is not None and coordinates.anchor is not None:
        v[-1] = units.intercept
    last, momentum = v, settings.momentum
    total, points, told = np.zeros_like(v), np.zeros_like(v), np.zeros_like(v)
    late, first, every = np.zeros_like(v), np.zeros(0), np.zeros_like(v)
    ramp, point, told_there = settings.ramp, np.zeros_like(v), np.zeros_like(v)
    for k in range(settings.iterations):
        if settings.goes_far:
            far = _far(v[: coordinates.free], settings.rows_per_weight)
            momentum = max(settings.momentum, _MOST_MOMENTUM * far)
        z = v + momentum * (v - last)
        gradient = gradients.at(z, k)
        in_noise = gradient / settings.curvature / gradients.noise
        first, every = in_noise if k == 0 else first, every + in_noise
        v, last = steps.taken(z, gradient, gradients.noise, k), v
        point, told_there = point + ramp[k] * z, told_there + ramp[k] * gradient
        if k >= averaged:
            total, points, told = total + v, points + z, told + gradient
            late = late + v * (k >= settings.iterations - settings.late)
    count, change = settings.iterations - averaged, gradients.change
    mean = total / count
    if settings.link is not None:
        mean = steps.whole(point, told_there, settings.whole)
    if plain:
        # At the minimum slopes of the rows are as long as those of a ridge, the other way.
        slopes = (told + steps.drawn(points))[: coordinates.free]
        slopes /= settings.curvature * gradients.noise
        mean += _on_the_way(slopes / math.sqrt(count)) * (late / settings.late - mean)
    if settings.james_stein and settings.link is None:
        mean = _without_noise(mean, settings, shape, coordinates, change, first[: coordinates.free])
    if settings.james_stein and plain:
        both = first, every / math.sqrt(settings.iterations)
        kept_columns = _kept_where_flat(mean, both, settings, shape, coordinates, change)
        mean, asked = (coordinates.with_kept(v, kept_columns) for v in (mean, points / count))
        if settings.classes is None and tells_shares(shape, coordinates):
            averages = asked, told / count
            mean[-1] = settled_intercept(mean, *averages, settings, shape, coordinates, change)
    return Descent(mean, np.array(gradients.norms), change, every)


def _far(v: Vector, u: float) -> float:
    """How sure it is that weights of two classes are long, and steps to their minimum too short.

    The loss is nearly flat there, so that the least pull to zero shortens them.  Noise that piles
    up is shorter, and so are most signals.

    Examples
    --------
    >>> round(_far(np.array([3.0]), 20.0), 2), round(_far(np.array([5.0]), 20.0), 2)
    (0.09, 0.86)
    """
    over = (float(v @ v) / _FAR**2) ** 4
    return over / (1.0 + over) * min(1.0, _AMPLE / u) ** 4


def _on_the_way(slopes: Matrix) -> float:
    """How sure it is that averaged iterates were on their way to the minimum.

    Then slopes have one sign throughout, so that they add up to more than their noise, which is 1.
    Of several classes they have to do so beyond doubt: momentum has brought most to the minimum.

    Examples
    --------
    >>> _on_the_way(np.array([2.0, 0.0])), _on_the_way(np.array([1.0, 0.0]))
    (0.5, 0.0)
    >>> slopes = np.tile([3.0, -1.5, -1.5], (10, 1))
    >>> round(_on_the_way(slopes), 2), _on_the_way(0.4 * slopes)
    (0.71, 0.0)
    """
    by_noise, square = max(1.0, len(slopes)), float(np.sum(slopes * slopes))
    if slopes.ndim > 1:
        entries = slopes.size - len(slopes)
        by_noise = entries + _BEYOND_DOUBT * math.sqrt(2.0 * max(1, entries))
    return 1.0 - by_noise / max(square, by_noise)


def told_of(settings: Settings) -> tuple[bool, ...]:
    """Whether slopes are consistent, beside the transform, of gradients that are to be told."""
    query = settings.gradient.query
    asks = isinstance(query, CoordinateGradient) and query.consistent is None
    return (settings.consistent,) if asks else ()


class _Gradients:
    """The noisy mean gradients of a descent; `norms` are theirs, and `noise` that of the last.

    That is the deviation of an entry, in units of the curvature.
    """

    def __init__(
        self,
        settings: Settings,
        shape: ProblemShape,
        curator: Curator,
        transform: Matrix,
        units: _Units,
    ) -> None:
        self._settings, self._units, self._n = settings, units, shape.n_samples
        self._curator, self._transform = curator, operator(shape, transform)
        mechanism, pace = settings.gradient, None
        assert mechanism.query is not None
        self._fixed = curator.fix(mechanism.query, transform, *units.rows, *told_of(settings))
        if settings.groups is not None:
            pace = _groups.Pace(
                settings.groups, mechanism, shape, settings.clip_norm, units.loss,
                settings.consistent,
            )  # fmt: skip
        self._pace, self._corners = pace, settings.corners
        self.norms: list[float] = []
        self.noise = self._planned = mechanism.stddev / shape.n_samples / settings.curvature

    @property
    def change(self) -> float:
        """By which factor steps, and what noise did to the weights, were larger than planned."""
        return self._units.change if self._pace is None else self._pace.change

    def at(self, z: Matrix, k: int) -> Matrix:
        """The one of step k, at a point."""
        settings, units, pace = self._settings, self._units, self._pace
        asked = units.asked
        if settings.narrowing < 1.0:
            asked = (*asked[:-1], units.weights * float(self._corners[k]))
        if pace is not None:
            asked = (*pace.point, *asked)
        point = units.weights * (self._transform @ z)
        noisy = self._curator.release(settings.gradient, self._fixed, point, *asked)
        if pace is not None:
            self.noise, noisy = self._planned * pace.change, pace.gradient(noisy)
        noisy = noisy.reshape(z.shape) / self._n
        if settings.classes is not None:
            noisy -= noisy.mean(axis=1, keepdims=True)
        self.norms.append(units.loss * float(np.linalg.norm(noisy)))
        return noisy if pace is None else noisy / pace.rows


class _Steps:
    """Where steps along the gradients end."""

    def __init__(
        self,
        settings: Settings,
        shape: ProblemShape,
        coordinates: Coordinates,
        units: _Units,
        plain: bool,
    ) -> None:
        self._shape, self._coordinates = shape, coordinates
        self._curvature, self._paces = settings.curvature, settings.paces
        self._change = units.change
        free, curvature, momentum = coordinates.free, settings.curvature, settings.momentum
        # The pull to zero, a ridge in the learned coordinates, is the same for all data sets.
        step: Matrix = np.full(shape.dim, settings.step)
        pull: Matrix = np.full(shape.dim, settings.shrinkage * curvature)
        step[free:], pull[free:] = settings.intercept_step, 0.0
        step, pull = step / curvature * units.change, pull / units.change
        # The ridge, (α/2) ‖Wv‖² without the intercept, is taken by its proximal step: along its
        # curvature, which has the spread that whitening takes from the rows, gradient steps would
        # have to be tiny.
        self._damping: Matrix | None = None
        self._bent: Matrix | None = None
        if units.ridge > 0.0:
            self._bent = units.ridge * ridge_bend(shape, coordinates)
            self._damping = (step * self._bent.T).T
        several = settings.classes is not None
        self._step, self._pull = (step[:, None], pull[:, None]) if several else (step, pull)
        # Losses of residuals are flat far out and bend near the minimum: long steps overshoot it
        # there if momentum carries them on.
        bends = shape.loss.kind != "classification" and momentum > 0.0
        self._stretches = units.ridge == 0.0 and plain and not bends
        # Where the loss itself changes from step to step secants tell nothing of its curvature.
        self._bounded = settings.narrowing == 1.0
        # The log link rests on the steps: only those that would go astray get shorter.
        self._borne = 1.0 if plain else _ASTRAY / max(float(step.max()) * curvature, 1e-300)
        self._secants = Secants(free)
        self._goes_far = settings.goes_far
        self._rows_per_weight = settings.rows_per_weight
        # How far the next point follows the noise in a gradient, and how far the last one did.
        self._follows = settings.step * units.change * (1.0 + momentum)
        self._followed = 0.0

    def taken(self, z: Matrix, gradient: Matrix, noise: float, k: int) -> Matrix:
        """The end of step k from a point."""
        coordinates, pace = self._coordinates, self._paces[k]
        self._secants.add(z, gradient / self._curvature, noise, self._followed)
        if self._bounded:
            pace /= max(1.0, self._secants.most / self._borne)
        self._followed = pace * self._follows
        pull = self._pull
        if self._goes_far:
            pull = (1.0 - _far(z[: coordinates.free], self._rows_per_weight)) * pull
        move = pace * self._step * (gradient + pull * z)
        if self._stretches:
            move = self._stretched(z, move, noise)
        end: Matrix = z - move
        return end if self._damping is None else _damped(pace * self._damping, end)

    def drawn(self, z: Matrix) -> Matrix:
        """The ridge's gradient at a point."""
        if self._bent is None:
            return np.zeros_like(z)
        return self._bent @ z if self._bent.ndim > 1 else (z.T * self._bent).T

    def whole(self, z: Matrix, gradient: Matrix, step: float) -> Matrix:
        """Where a step leads from a mean of points, along the mean of their gradients.

        Each gradient tells of the minimum, from wherever it was asked for, with noise of its own:
        their mean has less of it than iterates, which were moved by few.
        """
        # Longer than two over the curvature that was seen, large where columns go together, it ends
        # farther beyond the minimum than the points are before it.
        step /= max(1.0, 0.5 * self._change * step * self._secants.most)
        pace = self._change * step / self._curvature
        end: Matrix = z - pace * gradient
        return end if self._bent is None else _damped(pace * self._bent, end)

    def _stretched(self, z: Matrix, move: Matrix, noise: float) -> Matrix:
        """A step that along the weights, and along the constant, is as long as curvature allows."""
        if self._coordinates.anchor is None or z.ndim > 1 or not self._shape.loss.multiclass:
            return self._secants.stretched(z, move, noise)
        direction, length, along = self._secants.along(z, noise)
        bends, axes = np.linalg.eigh(_bends_together(float(z[-1]), length, along))
        # Along the valley of long weights the loss is nearly flat.
        flat = _LEAST_CURVATURE * (1.0 - 0.5 / (1.0 + (_VALLEY / max(length, 1e-12)) ** 4))
        bends = np.clip(bends, max(flat, _BEND_NOISE * noise), 1.0)
        # Steps of the constant may be longer than others.
        roots, before = np.sqrt(self._step[[0, -1]]), float(np.sum(move * direction))
        both = roots * (axes @ (axes.T @ (np.array([before, move[-1]]) / roots) / bends))
        move = move + (both[0] - before) * direction
        move[-1] = both[1]
        return move


@dataclass(frozen=True)
class _Units:
    """What a descent is in units of, by what was learned of the targets."""

    ridge: float  # in these units
    weights: float = 1.0  # half the width of the targets' range
    loss: float = 1.0  # by how much that stretches the loss
    asked: tuple[float | None, ...] = ()  # with gradients, the width of the loss's corner last
    rows: tuple[float, ...] = ()  # of a group that count as one, with a log link
    change: float = 1.0  # by which factor steps are longer
    intercept: float | None = None  # where the descent begins; None: nothing was learned

    @classmethod
    def of(cls, spread: Spread | Place | None, settings: Settings, shape: ProblemShape) -> _Units:
        """Of a loss with a log link, of one of other numbers, or of classes."""
        loss = shape.loss
        if spread is None:
            left = 1.0 if settings.ridge_left is None else settings.ridge_left
            return cls(settings.ridge * left)
        if isinstance(spread, Place):
            half, begin = spread.half, spread.start / spread.half
            scale = spread.stretch(loss)
            ridge = settings.ridge * half / scale
            # Groups take the unit of slopes with the radius of their gradients; and the mean of
            # their targets is looked for by the loss as it was declared, which cuts no tails.
            asked: tuple[float, ...] = (scale, half)
            if settings.groups is not None:
                asked = () if is_mean(loss) else (half,)
            return cls(ridge, half, scale, asked, intercept=begin)
        # Slopes are in units of the spread, and the curvature is that at the mean.
        planned = settings.clip_norm / math.sqrt(shape.dim)
        relative = spread.reach(settings.clip) / planned
        unit = relative * float(_log_link.curvature(loss, spread.mean)[0])
        return cls(
            settings.ridge / unit * spread.steps.part,
            asked=(unit, *spread.size),
            rows=spread.steps.rows,
            change=relative / spread.steps.weight,
            intercept=math.log(spread.mean),
        )


def ridge_bend(shape: ProblemShape, coordinates: Coordinates) -> Matrix:
    """Curvature of a ridge of 1 in the coordinates; it leaves the intercept alone.

    Of columns that are only scaled, maybe thousands, it is the diagonal.
    """
    drawn = coordinates.transform[: shape.n_features]
    if all(np.count_nonzero(line) <= 1 for line in drawn):
        return np.asarray(np.einsum("ij,ij->j", drawn, drawn))
    return drawn.T @ drawn


def _damped(bent: Matrix, end: Matrix) -> Matrix:
    """Where a proximal step leads, by the curvature times its length, or by their diagonal."""
    if bent.ndim == 1:
        return (end.T / (1.0 + bent)).T
    return np.asarray(np.linalg.solve(np.eye(len(bent)) + bent, end), dtype=np.float64)


def beside_ridge(
    coordinates: Coordinates, settings: Settings, shape: ProblemShape, place: Place | None
) -> tuple[Coordinates, Settings]:
    """Coordinates in which noise hurts least where a ridge bends the loss, too, and a ridge there.

    If rows have the second moments ``A`` and the loss bends as ``A + R``, noise that is isotropic
    along ``z`` costs least for ``A + R`` and ``A`` in equal parts: where ``z`` has the second
    moments ``√(A (A + R)⁻¹)``, times a factor that leaves rows as long as before.  Those of
    categories stay shorter, since rare ones are cut most.  Beside slopes that are cut a ridge draws
    weights to zero by more than was asked for: it is as much smaller as they are, if it counts.
    """
    ridge = _Units.of(place, settings, shape).ridge / settings.curvature
    free, before = coordinates.free, float(coordinates.squares().sum())
    if ridge == 0.0 or free == 0:
        return coordinates, settings
    bent, axes = _spectrum(ridge * ridge_bend(shape, coordinates), free)
    squares = 1.0 / np.sqrt(1.0 + np.maximum(bent, 0.0))
    mean = float(np.mean(squares))
    part = 1.0 - _SHORTER * float(np.mean(coordinates.columns.categories))
    longer = min(mean**-part, _LONGEST / float(squares.max(initial=1e-300)))
    transform = coordinates.transform.copy()
    transform[:, :free] = _stretched(transform[:, :free], np.sqrt(longer * squares), axes)
    coordinates = replace(coordinates, transform=bounded(shape, transform, settings.limit))
    if mean > _BARELY_BENT:
        return coordinates, settings
    row = math.sqrt(1.0 + before * longer * mean)
    left = _left_of_slopes(settings, shape, coordinates, row)
    return coordinates, replace(settings, ridge_left=left)


def _spectrum(bend: Matrix, free: int) -> tuple[Vector, Matrix | None]:
    """Eigenvalues and axes of the curvature along the weights; no axes where it is diagonal."""
    return (bend[:free], None) if bend.ndim == 1 else np.linalg.eigh(bend[:free, :free])


def _stretched(transform: Matrix, factor: Vector, axes: Matrix | None) -> Matrix:
    return transform * factor if axes is None else transform @ ((axes * factor) @ axes.T)


def _left_of_slopes(
    settings: Settings, shape: ProblemShape, coordinates: Coordinates, row: float
) -> float:
    """Which part of the slopes of a row so long is left at a constant, of two classes of rows."""
    if not shape.loss.multiclass or settings.groups is not None:
        return 1.0
    shares = coordinates.probabilities() if coordinates.tells_shares else np.full(2, 0.5)
    slopes = np.full(2, shares.max()) if settings.consistent else 1.0 - shares
    return float(np.minimum(1.0, settings.clip_norm / row / slopes).mean())


def _without_noise(
    v: Matrix,
    settings: Settings,
    shape: ProblemShape,
    coordinates: Coordinates,
    change: float,
    first: Matrix,
) -> Matrix:
    """The weights less what the noise in them, whose law is public, explains.

    Steps were longer by the factor `change`; the `first` gradient is in units of its noise.
    """
    free, several = coordinates.free, settings.classes is not None
    # Where rows are short the loss is flat, and of K even classes it is curved by 1/K.
    curved = np.array([settings.length**2, 1.0]) * 2.0 / (settings.classes or 2)
    numbers = 1.0 - float(np.mean(coordinates.columns.categories))

    def deviation(ground: float | None = None, bent: float = 1.0) -> float:
        squares = np.square(weight_noise(settings, shape, change, bent * curved, ground))
        return math.sqrt(float(squares @ [numbers, 1.0 - numbers]))

    found = v[:free] / deviation(bent=_evenness(shape.loss, coordinates))
    if several:
        part = kept_of_classes(found, first)
    else:
        # How residuals bend their loss is a guess.
        power = 2.0 if shape.loss.kind == "classification" else 3.0
        part = kept(found, first, coordinates.squares(), settings, power)
        if settings.along is not None and confirmed_part(settings.rows_per_weight) == 1.0:
            part = 1.0  # later gradients alone tell how far to go
    v[:free] *= part
    # Intercepts go as far to the best constant: of a mean of points a convex loss is no larger than
    # the mean of the losses.
    ridge = settings.ridge and shape.intercept == 0.0  # draws the constant, too
    told = not ridge and coordinates.tells_shares
    of_rows = told and settings.groups is None
    if told and shape.loss.cornered and shape.loss.default_width:
        v[-1] = _near_corner(v, settings, shape, coordinates)
        if of_rows:
            narrow = shape.loss.zoomed(NARROWEST_CORNER / (shape.loss.width or 1.0))
            v[-1] = part * v[-1] + (1.0 - part) * start_of(narrow, coordinates)[-1]
    elif of_rows and several:
        constant = _constant_told(v[-1], settings, shape, coordinates, change)
        v[-1] = part * v[-1] + (1.0 - part) * constant
    # What clipping hides of the curvature at 0 is seen at large effects, which this is for.
    return v if several else _drawn_to_prior(v, deviation(_MOST_GROUND), shape, coordinates)


def _evenness(loss: Loss, coordinates: Coordinates) -> float:
    """How curved a hinge is over how curved it is with even classes; 1 for other losses.

    Most rows lie beyond its corner, where it is flat, if a class is rare.
    """
    if not (loss.cornered and coordinates.tells_shares):
        return 1.0
    return 4.0 * float(np.prod(coordinates.probabilities()))


def _kept_where_flat(
    v: Matrix,
    slopes: tuple[Matrix, Matrix],
    settings: Settings,
    shape: ProblemShape,
    coordinates: Coordinates,
    change: float,
) -> Vector:
    """What to keep of the weights of numbers that are mostly of one value; 1 of others.

    The ground may be flat along these, so that noise piles up, and errors of the coordinates lead
    there.  What stands out of the noise in the `slopes`, the first and all together, stays.
    Weights of columns that were not seen to vary, which noise may have made up, stay below the
    largest other.
    """
    columns, free = coordinates.columns, coordinates.free
    hidden = columns.steady & ~columns.categories
    if columns.constant is not None:
        hidden[columns.constant] = False
    kept, at = np.ones(len(hidden)), np.flatnonzero(hidden)
    if at.size == 0:
        return kept
    stretch = np.square(coordinates.transform[at, :free]).sum(axis=1)
    curved = np.minimum(1.0, stretch * columns.least[at]) * 2.0 / (settings.classes or 2)
    variance = stretch * np.square(weight_noise(settings, shape, change, curved))
    # Of several classes, whose numbers add up to 0.
    more = math.sqrt(max(1, (settings.classes or 2) - 1)) - 1.0
    seen = _slopes_along(at, slopes, coordinates) / (_SLOPE_SEEN + more) ** 2
    prior = (PRIOR_EFFECT / entry_bound(shape)) ** 2
    kept[at] = np.maximum(prior / (prior + variance), 1.0 - np.maximum(seen, 1.0) ** -2.0)
    hidden[at] = (seen <= 1.0) & (columns.least[at] == 0.0)
    w = (coordinates.transform @ v).reshape(len(coordinates.transform), -1)[: len(hidden)]
    sizes = np.linalg.norm(w, axis=1)
    found: Vector = within_others(kept * sizes, hidden, UNCERTAIN_EFFECT)
    found /= np.maximum(sizes, 1e-300)
    return found


def _slopes_along(
    at: NDArray[np.intp], slopes: tuple[Matrix, ...], coordinates: Coordinates
) -> Vector:
    """The largest square of these slopes along columns, less their values, over that of its noise.

    A column that is constant has nothing but noise: what its center is wrong by, and the constant's
    slope is seen through, is taken back.
    """
    free, inverse = coordinates.free, coordinates.columns_of_inverse(at)
    inverse[free:] -= coordinates.columns.value[at]
    along = [np.square((inverse.T @ one).reshape(len(at), -1)).sum(axis=1) for one in slopes]
    noise = np.square(inverse).sum(axis=0)
    return np.asarray(np.max(along, axis=0) / np.maximum(noise, 1e-300), dtype=np.float64)


def _near_corner(
    v: Vector, settings: Settings, shape: ProblemShape, coordinates: Coordinates
) -> float:
    """A hinge's intercept without what the descent of a constant ends beyond the corner.

    A wide corner's minimum is beyond it if a class has less than a third of the rows, and the loss
    is the less steep there the fewer these are; the less so where margins spread.
    """
    probabilities, at = coordinates.probabilities(), float(start_of(shape.loss, coordinates)[-1])
    row = math.hypot(1.0, settings.length * math.sqrt(coordinates.free))
    longest = settings.clip_norm / row if settings.groups is None else 1.0
    step = settings.intercept_step / settings.curvature
    total, last = 0.0, at
    for k, (corner, pace) in enumerate(zip(settings.corners, settings.paces, strict=True)):
        z = at + settings.momentum * (at - last)
        _, slopes, _ = shape.loss.zoomed(float(corner))([z, z], [-1.0, 1.0])
        slope = float(probabilities @ np.clip(slopes, -longest, longest))
        at, last = z - pace * step * slope, at
        total += at * (k >= settings.first_averaged)
    mean = total / (settings.iterations - settings.first_averaged)
    beyond = abs(mean) - 1.0
    if beyond <= 0.0 or mean * v[-1] <= 0.0:
        return float(v[-1])
    rarer, spread = float(probabilities.min()), settings.length * float(np.linalg.norm(v[:-1]))
    # Short of the corner the loss is the steeper the rarer a class is: few rows are to be there.
    deviations = max(0.0, -float(ndtri(rarer / (1.0 - rarer))))
    most = max(0.0, abs(float(v[-1])) - 1.0 - _SHORT_OF_CORNER * deviations**2 * spread)
    moved = min(most, beyond / (1.0 + spread / (_SPREAD * beyond)))
    return float(v[-1]) - math.copysign(moved, mean)


def _constant_told(
    end: Vector, settings: Settings, shape: ProblemShape, coordinates: Coordinates, change: float
) -> Vector:
    """The best constant prediction of several classes, from their counts and a descent's `end`."""
    shares, noise, weight = coordinates.class_shares()
    found = softmax(end)
    # What is left of the slopes of a typical row, where rows are clipped.
    row = math.hypot(1.0, settings.length * math.sqrt(coordinates.free))
    left = min(1.0, settings.clip_norm / (row * longest_slope(found)))
    rows = shape.n_samples * shape.max_weight * weight * left
    averaged = settings.iterations - settings.first_averaged
    of_end = change * settings.gradient.stddev / (rows * math.sqrt(averaged))
    trust = of_end**2 / (noise**2 + of_end**2)
    return intercepts_of(found + trust * (shares - found), noise * math.sqrt(trust))


def drawn_by_rareness(
    v: Vector, settings: Settings, shape: ProblemShape, coordinates: Coordinates, change: float
) -> tuple[Vector, float]:
    """The weights of a loss with a log link drawn to moderate effects, and the noise's length then.

    Rows count the less the longer they are, so there is little curvature along rare columns.
    """
    free, curved = coordinates.free, settings.length**2
    rare = _log_link.longest_row(shape) * coordinates.columns.scale / entry_bound(shape)
    weights = coordinates.transform[: shape.n_features, :free]
    energy = np.square(coordinates.columns.scale[:, None] * weights)
    bent = np.full(shape.dim, curved)
    bent[:free] *= (np.minimum(1.0, rare) @ energy) / energy.sum(axis=0)
    deviations = weight_noise(settings, shape, change, bent)
    both = np.column_stack([v, np.diag(deviations)[:, :free]])
    drawn = _drawn_to_prior(both, deviations, shape, coordinates)
    return drawn[:, 0], float(np.linalg.norm(drawn[:free, 1:]))


def tells_shares(shape: ProblemShape, coordinates: Coordinates) -> bool:
    """Whether a constant's mean probability is that of classes that were counted."""
    return coordinates.tells_shares and shape.loss.multiclass


def settled_intercept(
    v: Matrix,
    asked: Matrix,
    told: Matrix,
    settings: Settings,
    shape: ProblemShape,
    coordinates: Coordinates,
    change: float,
) -> float:
    """The intercept of the weights `v`; gradients were `told` at points `asked`, on average.

    Their noise is larger by the factor `change` than planned.
    """
    short = settings.length
    shares, noise, weight = coordinates.class_shares()
    if settings.groups is not None and settings.groups.law is not None:
        # Persons were counted, and not their rows, of which there may be more for a class.
        apart = _APART * settings.groups.law.spread
        noise = math.hypot(noise, apart * math.sqrt(max(0.0, float(shares[0] * shares[1]))))
    averaged = settings.iterations - settings.first_averaged
    unit = shape.max_weight * weight
    released = Released(
        share=float(shares[1]),
        share_noise=noise,
        slope=float(told[-1]) / unit,
        slope_noise=change
        * settings.gradient.stddev
        / (shape.n_samples * unit * math.sqrt(averaged)),
        intercept=float(asked[-1]),
        length=short * float(np.linalg.norm(asked[:-1])),
        cut=settings.clip / short,
        consistent=settings.consistent,
    )
    length = short * float(np.linalg.norm(v[:-1]))
    drawn = coordinates.transform[: shape.n_features]
    constant = settings.ridge / unit * (drawn[:, -1] @ drawn)  # the last row of `ridge_bend`
    rest, own = float(constant[:-1] @ v[:-1]), float(constant[-1])
    return expected_intercept(released, length, float(v[-1]), (rest, own))


def start_of(loss: Loss, coordinates: Coordinates) -> Vector:
    """The best constant prediction, if there is a constant and the targets have classes."""
    v = np.zeros(len(coordinates.transform))
    if coordinates.tells_shares:
        probabilities = coordinates.probabilities()

        def slopes(z: float) -> tuple[float, float]:
            _, slope, curvature = loss([z, z], [-1.0, 1.0])
            return float(probabilities @ slope), float(probabilities @ curvature)

        v[-1] = root(slopes)
    return v


def _bends_together(intercept: float, length: float, along: float) -> Matrix:
    """Of the logistic loss, over its largest, along weights of this length and along the constant.

    Margins are taken for normal: secants tell the bend `along` the weights, and the model how much
    of it the constant shares.  With a strong signal and a rare class that is nearly all, so that
    steps along either alone go back and forth across a valley.  Short weights are mostly noise.

    Examples
    --------
    >>> _bends_together(-7.0, 6.0, 0.2).round(2)
    array([[0.2 , 0.14],
           [0.14, 0.15]])
    """
    constant, tilted, weights = logistic_bends(intercept, length)
    sure = length**2 / (_KNOWN_DIRECTION**2 + length**2)
    shared = sure * tilted * math.sqrt(along / max(weights, 1e-300))
    bend = min(1.0, max(2.0 * logistic_bends(intercept, 0.0)[0], (2.0 - sure) * constant))
    return np.array([[along, shared], [shared, bend]])


def _bend_at(loss: Loss, margin: float) -> float:
    """Curvature of a loss that is the same for both labels, over its largest."""
    return float(loss([margin], [1.0])[2][0]) / loss.smoothness


class Secants:
    """What noisy gradients, in units of the largest curvature, tell of the curvature."""

    def __init__(self, free: int) -> None:
        self.free = free  # coordinates that are not constant
        # The largest that they show: rows that were shortened have no part in the second moments
        # that coordinates were learned by, so along some directions the others may be many times as
        # long as white ones.  Steps that pass the minimum there are long, and noise does not hide
        # what their gradients tell.
        self.most = 0.0
        # Sums along the weights: change of the point times that of the gradient, and times itself.
        self._slopes = self._squares = 0.0
        self._before: tuple[Matrix, Matrix] | None = None  # the last point and its gradient

    def add(self, z: Matrix, gradient: Matrix, noise: float, followed: float) -> None:
        """Take in one more gradient, whose entries have noise of this deviation.

        The step here `followed` that in the last one so far, which alone looks like curvature.
        """
        if self._before is not None:
            step, change = z - self._before[0], gradient - self._before[1]
            length = max(float(np.linalg.norm(step)), 1e-12)
            # Of several classes, whose entries add up to 0, one is what the others leave.
            entries = step.size - (len(step) if step.ndim > 1 else 0)
            doubt = _DOUBT * math.sqrt(2.0) * noise * length + followed * entries * noise**2
            self.most = max(self.most, (float(np.sum(step * change)) - doubt) / length**2)
            direction, _ = self._direction(self._before[0])
            along = float(np.sum(step * direction))
            self._slopes = _FORGET * self._slopes + along * float(np.sum(change * direction))
            self._squares = _FORGET * self._squares + along**2
        self._before = z.copy(), gradient.copy()

    def stretched(self, z: Matrix, move: Matrix, noise: float) -> Matrix:
        """A step that is longer along the weights, as far as the curvature there allows."""
        direction, _, bend = self.along(z, noise)
        return move + (1.0 / bend - 1.0) * float(np.sum(move * direction)) * direction

    def along(self, z: Matrix, noise: float) -> tuple[Matrix, float, float]:
        """Direction and length of the weights, and the bend there that steps go by, at most 1."""
        direction, length = self._direction(z)
        if length <= _SHORTEST:
            return direction, length, 1.0
        bend = min(1.0, max(_LEAST_CURVATURE, self.curvature(noise))) / _SHORT_OF_WHOLE
        return direction, length, min(1.0, bend)

    def curvature(self, noise: float) -> float:
        """That along the weights: between the guess and what was told, by precision."""
        precision, known = 1.0 / _GUESS_DEVIATION**2, 0.5 / noise**2
        told = _GUESS * precision + self._slopes * known
        return told / (precision + self._squares * known)

    def _direction(self, z: Matrix) -> tuple[Matrix, float]:
        """Of the weights, constants left out, and their length."""
        direction = z.copy()
        direction[self.free :] = 0.0
        length = float(np.linalg.norm(direction))
        return direction / max(length, 1e-12), length


def _drawn_to_prior(
    v: Matrix,
    deviation: float | Vector,
    shape: ProblemShape,
    coordinates: Coordinates,
) -> Matrix:
    """The weights that are most likely if effects of a column's whole range are moderate.

    The noise has this deviation in the coordinates, so a great one in the weights of columns whose
    scale is small; the prior has the same in the weights of all columns, and none for constants.
    """
    precision = moderate_effects(shape, coordinates)
    pull = np.sqrt(precision)[:, None] * coordinates.transform * deviation
    mixed = np.count_nonzero(pull) > np.count_nonzero(np.diagonal(pull))
    # Whose bounds may be far too wide: no range of theirs was learned.
    wide = np.ones(shape.dim, dtype=bool)
    wide[: shape.n_features] = ~coordinates.columns.ranged
    # With a log link the first vector is of the weights, and the others are of their noise.
    if shape.loss.log_link or (v.ndim == 1 and wide.all()):
        found = (v if v.ndim == 1 else v[:, 0]) / deviation
        values = np.square(np.diagonal(pull)) * wide
        if mixed:
            values, vectors = np.linalg.eigh(pull[wide].T @ pull[wide])
            found = vectors.T @ found
        most = _ASKED if shape.loss.log_link else math.inf
        pull[wide] /= math.sqrt(_evident_spread(found, values, most))
    own = np.diagonal(pull)
    if not mixed:
        return np.asarray((v.T / (1.0 + own**2)).T)
    system = np.eye(len(v)) + pull.T @ pull
    drawn = deviation * np.linalg.solve(system, (v.T / deviation).T).T
    return np.asarray(drawn.T, dtype=np.float64)


def _evident_spread(found: Vector, precision: Vector, most: float = math.inf) -> float:
    """By how much the variance of a prior is to grow for weights that are too long for it.

    As the likelihood of all weights together asks for (empirical Bayes; Efron & Morris 1973): of
    columns far narrower than their bounds, effects across these are large.  Weights and the prior's
    `precision` are in units of the noise.  It does not grow if weights of at `most` so many
    deviations would not ask for it: no single one decides against the others.

    Examples
    --------
    >>> _evident_spread(np.array([9.0, -7.0, 8.0]), np.full(3, 10.0)) > 100.0
    True
    >>> _evident_spread(np.array([1.0, -2.0, 0.5]), np.full(3, 10.0))
    1.0
    >>> few = np.array([8.0, 1.0, 1.0, 1.0]), np.array([5.0, 1.0, 1.0, 1.0])
    >>> _evident_spread(*few), _evident_spread(*few, most=3.0)
    (64.0, 1.0)
    """
    pulled = precision > _NO_PULL * max(1.0, float(precision.max(initial=0.0)))
    wider = _SPREADS[:, None] / precision[pulled]
    squares = np.square(found[pulled])

    def likeliest(squares: Vector) -> float:
        misfits = np.log1p(wider) + squares / (1.0 + wider)
        return float(_SPREADS[np.argmax(-0.5 * (misfits.sum(axis=1) + np.log(_SPREADS)))])

    asking = likeliest(np.minimum(squares, most**2 * (1.0 + wider[0])))
    return likeliest(squares) if asking > 1.0 else 1.0


def moderate_effects(shape: ProblemShape, coordinates: Coordinates) -> Vector:
    """Precision of the weights if effects of a column's whole range are moderate."""
    effect, wide = PRIOR_EFFECT, _RANGE
    if shape.loss.log_link:
        effect, wide = _LINKED_EFFECT, _LINKED_RANGE
    height, columns = entry_bound(shape), coordinates.columns
    precision: Vector = np.full(shape.dim, (height / effect) ** 2)
    known = np.minimum(height, wide * columns.scale[columns.ranged])
    precision[: shape.n_features][columns.ranged] = np.square(known / effect)
    precision[shape.n_features :] = 0.0
    if coordinates.anchor is not None:
        precision[coordinates.anchor] = 0.0
    return precision


def kept(
    v: Vector, first: Vector, squares: Vector, settings: Settings, power: float = 2.0
) -> float:
    """Which share of the weights to keep, in units of their noise as the first gradient is.

    What does not stand out of the noise goes: the end of the descent tells best, with little doubt
    if there are many rows.  Along correlated columns, few steps go all the way, and the first
    gradient may tell beyond doubt what the noise of the others hides.  Coordinates whose mean
    `squares` are small end short of the minimum: more of them is kept.  And weights count by these
    squares, as they do in the loss.
    """
    entries = float(squares.sum()) ** 2 / max(float(squares @ squares), 1e-300)
    even = np.sqrt(squares * entries / squares.sum())
    u = settings.rows_per_weight
    more = _DOUBTED * min(1.0, _LONG / u) * min(1.0, (u / _FULLY) ** 2)
    end, begin = noise_share(even * v, entries, more), noise_share(even * first, entries, _SURELY)
    power -= float(squares.mean()) if squares.size else 0.0
    return 1.0 - float(min(end, begin) ** power)


def kept_of_classes(v: Matrix, first: Matrix) -> float:
    """The same of vectors of several classes, which add up to 0.

    They have many entries together, and how long noise makes them is known the better: the power is
    half of how many deviations that is from nothing.

    Examples
    --------
    >>> v = np.full((100, 10), 1.2)
    >>> round(kept_of_classes(v, v), 2)
    0.99
    """
    entries = v.size - len(v)
    power = max(2.0, 0.5 * math.sqrt(0.5 * max(1, entries)))
    share = min(noise_share(v, entries, 0.0), noise_share(first, entries, _SURELY))
    return 1.0 - float(share**power)


def noise_share(v: Matrix, entries: float, more: float) -> float:
    """Which part of ``‖v‖²`` noise of deviation 1 would have in so many entries, at most 1.

    Less two of them (as James & Stein 1961; theirs is of the average noise, this of some deviations
    `more`).

    Examples
    --------
    >>> noise_share(np.full(8, 2.0), 8, 1.0), noise_share(np.full(8, 0.5), 8, 1.0)
    (0.28125, 1.0)
    """
    square, apart = float(np.sum(v * v)), math.sqrt(0.5 * max(1.0, entries))
    noise = max(0.0, entries - 2.0) * (1.0 + more / apart)
    return min(1.0, noise / square) if square > 0.0 else 0.0


def weight_noise(
    settings: Settings,
    shape: ProblemShape,
    change: float,
    curved: Vector,
    ground: float | None = None,
) -> Vector:
    """Deviations of the noise in averaged weights, along which the loss is curved so much.

    In units of the usual curvature, `ground`: 0 is flat.  Each step's noise has a share in the
    average.  Steps were longer by the factor `change`.
    """
    if ground is None:
        ground = _ground(settings, shape.loss) if settings.ground is None else settings.ground
    squares = np.square(_shares_of_steps(settings, ground * curved)).sum(axis=0)
    noise = settings.gradient.stddev / shape.n_samples / settings.curvature
    found: Vector = change * noise * np.sqrt(squares)
    return found


def way_gone(settings: Settings, whole: float | None = None) -> float:
    """Which part of the way from 0 to the minimum lies behind the end, with a log link.

    Where the loss is curved as it usually is, and with another last step than ``settings.whole``.
    """
    assert settings.ground is not None
    return settings.ground * float(_shares_of_steps(settings, settings.ground, whole).sum())


def _shares_of_steps(
    settings: Settings, curved: Vector | float, whole: float | None = None
) -> Matrix:
    """How a gradient's error at each step changes the end, at a fixed curvature.

    The recursion of `descend` is linear in it there.
    """
    steps, momentum, first = settings.iterations, settings.momentum, settings.first_averaged
    pull, paces = np.atleast_1d(settings.shrinkage + curved), settings.step * settings.paces
    # How much iterates, points and gradients have in the end.
    of_iterates, of_points = (np.arange(steps) >= first) / (steps - first), np.zeros((steps, 1))
    of_gradients = np.zeros((steps, 1))
    if settings.link is not None:
        of_iterates, of_points = np.zeros(steps), settings.ramp[:, None]
        of_gradients = (settings.whole if whole is None else whole) * of_points
    # From the last step back: what a change of its iterate does to the end.
    shares, after, later = np.zeros((steps, len(pull))), np.zeros_like(pull), np.zeros_like(pull)
    for k in reversed(range(steps)):
        effect = of_iterates[k] + (1.0 + momentum) * after - momentum * later
        shares[k] = paces[k] * effect + of_gradients[k]
        told = of_points[k] - of_gradients[k] * curved
        after, later = (1.0 - paces[k] * pull) * effect + told, after
    return shares


def _ground(settings: Settings, loss: Loss) -> float:
    """The usual curvature where noise piles up, in units of the largest."""
    if loss.kind == "regression" and not is_mean(loss):
        return _LEAST_GROUND if loss.quantile is None else _AT_CORNER
    # Residuals are far shorter than the largest slope.
    clip = 2.0 * settings.clip if is_mean(loss) else settings.clip
    return min(_MOST_GROUND, max(_LEAST_GROUND, _GROUND * clip**2))


def averaged_late(settings: Settings, shape: ProblemShape, coordinates: Coordinates) -> Settings:
    """The settings with an average of later iterates, if a class turned out to be rare.

    The loss is flat then, and the way to the minimum takes more steps, the fewer the more momentum
    there is: early iterates are far from it.
    """
    if not settings.averages_late:
        return settings
    flat = _bend_at(shape.loss, float(start_of(shape.loss, coordinates)[-1]))
    noise = settings.gradient.stddev / shape.n_samples / settings.curvature
    behind = _BEHIND * (1.0 - settings.momentum) / max(flat, noise)
    share = max(_FEWEST_AVERAGED, 1.0 - behind / settings.iterations)
    return replace(settings, average=min(settings.average, share))
