r"""Whitened private gradient descent: learn coordinates in which noise hurts least, then descend.

Isotropic noise wastes budget where columns are badly scaled, far from centered, or correlated: the
excess loss that it causes grows with ``tr(A) tr(A⁻¹) >= d²``, ``A`` the rows' second moments.  Both
traces are ``d`` in coordinates ``z = Wᵀx̃`` in which the rows are centered and white.  So a run

1. learns center and scale of every column privately, in rounds, each in the coordinates that the
   one before it left (as Biswas, Dong, Kamath & Ullman 2020 do for covariances), so that errors are
   relative; then the correlations that stand out of the noise: `dpfast/solvers/_coordinates.py`;
2. descends on ``v``, ``w = W v``, by full-batch gradients that are clipped *in these coordinates*,
   with momentum where there are rows enough, averages the late iterates, and takes away what noise
   alone would explain: `dpfast/solvers/_whitened_descent.py`.

Targets that are numbers may be far narrower than their declared bounds: a run learns their range
first, and clips slopes in units of it (`dpfast/solvers/_target_range.py`); if a mean is asked for,
of a range as wide as counts of the tails are worth (`dpfast/solvers/_target_tails.py`).  The
intercept of a quantile, or of a mean, is settled in the end, by what hardly anything clips
(`dpfast/solvers/_level.py`).  Losses with a log link come with no scale of their slopes, either: a
run learns mean and spread of the targets first, and corrects intercept and length of the weights in
the end (`dpfast/solvers/_log_link.py`).

Where a record is a group of rows, such as all rows of a person, its gradient is clipped as one
vector, by a radius that is learned on the way (`dpfast/solvers/_groups.py`).

Where noise would drown everything (few rows a weight, tiny budgets), steps get so short that the
weights stay near zero, and the intercept, a single number, is learned as far as the noise lets it:
the fallback is a constant prediction.

The center moves the weight of the intercept, which is one more column, or that of a constant column
of the table's own; without either columns are scaled and not centered.  Mapping back with ``W`` is
post-processing.

Privacy
-------
All steps are Gaussian releases of sums (:mod:`dpfast.queries`) whose noise multipliers are fixed
beforehand, so GDP is exact for their composition (Dong, Roth & Su 2022, Corollary 3.3).  The ridge
is data-independent, and everything else here is post-processing.

Source: an extension, to coordinates learned privately, of noisy gradient descent (Bassily, Smith &
Thakurta 2014; Lee & Kifer 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast._validation import check_flag, check_integer, check_real
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Access, Gaussian, Query
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, records_apart
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import (
    ColumnParts,
    CoordinateGradient,
    Gram,
    RelativeGradient,
)
from dpfast.queries.coordinates import reach_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import (
    _column_ranges,
    _confirmation,
    _few_rows,
    _groups,
    _lengths,
    _level,
    _log_link,
    _seconds,
    _target_range,
    _target_tails,
    _weights,
)
from dpfast.solvers import _whitened_rules as rules
from dpfast.solvers._class_counts import counted, rareness_told
from dpfast.solvers._column_ranges import ColumnRanges
from dpfast.solvers._contract import Outcome, Plan, Solver, check_alpha, check_shape
from dpfast.solvers._coordinates import (
    CATEGORY_EFFECT,
    Columns,
    Coordinates,
    Learning,
    declared,
    learn,
)
from dpfast.solvers._lengths import said_of_lengths
from dpfast.solvers._log_link import Direction
from dpfast.solvers._normal_rows import mean_bends
from dpfast.solvers._shares import Release, releases
from dpfast.solvers._target_range import Place
from dpfast.solvers._whitened_descent import (
    Settings,
    averaged_late,
    beside_ridge,
    descend,
    drawn_by_rareness,
    moderate_effects,
    way_gone,
    weight_noise,
)

NAME = "dp-whitened-gd"

# A dozen matrices of this many columns are held, and one is diagonalized.
MAX_DIM = 10_000
_MOMENTS, _CORRELATION, _GRADIENT = "column moments", "column correlations", "gradient"
#: Up to so many weights the covariance of their errors is kept: it is dense.
MAX_COVARIANCE_DIM = 500
# The weight of the rows' lengths beside columns' moments.
_LENGTHS = 0.3
# Columns this many times narrower than their bounds are let be, where their ranges are learned.
_NARROWEST = 1e4
# Of the options that are numbers.
_LIMITS: dict[str, dict[str, Any]] = {
    "clip": {"low": 0.0, "low_open": True, "high": 1e100},
    "learning_clip": {"low": 1.0, "high": 1e100},
    "correlation_clip": {"low": 1.0, "high": 1e100},
    "learning_share": {"low": 0.0, "low_open": True},
    "correlation_share": {"low": 0.0},
    "step": {"low": 0.0, "low_open": True, "high": 2.0},
    "intercept_step": {"low": 0.0, "low_open": True, "high": 2.0},
    "momentum": {"low": 0.0, "high": 1.0, "high_open": True},
    "shrinkage": {"low": 0.0, "high": 1.0},
    "average": {"low": 0.0, "high": 1.0},
}
# Over the rows behind one weight, times µ: the share of the weights' length that may be missing.
_SHORT = 4.0
# What follows the sizes of groups, or the weights of rows, once they are known.
_FOLLOWING = ("clip", "step", "intercept_step", "momentum", "shrinkage", "james_stein")


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    iterations: int | str = "auto",
    clip: float | str = "auto",
    rounds: int | str = "auto",
    learning_clip: float | str = "auto",
    correlation_clip: float | str = "auto",
    learning_share: float | str = "auto",
    correlation_share: float | str = "auto",
    average: float | str = "auto",
    step: float | str = "auto",
    intercept_step: float | str = "auto",
    momentum: float | str = "auto",
    shrinkage: float | str = "auto",
    james_stein: bool | str = "auto",
    target_rounds: int | str = "auto",
    range_rounds: int | str = "auto",
    consistent: bool | str = "auto",
    narrowing: float | str = "auto",
) -> Plan[Settings]:
    """Settle coordinates' rounds, clipping and iterations from public quantities.

    Parameters
    ----------
    budget : Budget
        Not pure.
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss, which leaves the intercept alone.  None takes that of `shape`, or
        "auto" if it has none; "auto" is no ridge: the noise is held down by the number of steps.
    iterations : int or "auto"
        Gradient steps.
    clip : float or "auto"
        Radius of the gradients in the learned coordinates is ``clip √dim`` times the largest slope
        of the loss; with a log link, times the spread of the slopes, which is learned.
    rounds : int or "auto"
        Rounds in which the columns' moments are learned.
    learning_clip : float or "auto"
        From the second round of the moments on, rows are clipped to ``learning_clip √dim``.
    correlation_clip : float or "auto"
        The same for the correlations.
    learning_share : float or "auto"
        Share of the budget, in units of mu², that the rounds take together.
    correlation_share : float or "auto"
        The same for the correlations; 0 leaves them alone.
    average : float or "auto"
        Share of the iterates, from the last, that is averaged; 0 takes the last one alone.  With a
        log link all steps count, those before that share the less the earlier.
    step, intercept_step : float or "auto"
        Steps of the weights and of the intercept, in units of one over the loss's largest
        curvature (with a log link, over that at the mean, which is learned); at most 2.
    momentum : float or "auto"
        Nesterov's, less than 1.
    shrinkage : float or "auto"
        Ridge in the learned coordinates, the intercept left alone, as a share of the loss's largest
        curvature.
    james_stein : bool or "auto"
        Whether weights that noise alone would explain are drawn to zero in the end (after James &
        Stein 1961).
    target_rounds : int or "auto"
        Rounds in which the range of numeric targets is learned, 0 for none; "auto" is 5 for losses
        of numbers without a log link, which has its own, and none for classes.  With any of them, a
        loss that is quadratic in the whole range has the tails counted, too, if there are rows, or
        groups of them, enough to see them.
    range_rounds : int or "auto"
        Rounds in which the ranges of numeric columns are learned, 0 to 5; "auto" is 4 where the
        rows, or groups of them, stand out of the noise; elsewhere the lengths of rows are.
    consistent : bool or "auto"
        Whether rows are clipped by factors that do not depend on their labels, see
        :class:`~dpfast.queries.CoordinateGradient` and :class:`~dpfast.queries.GroupGradient`; for
        the logistic loss.
    narrowing : float or "auto"
        Width of the rounded-off corner of a hinge or of the pinball loss at the last step, over
        that at the first; at most 1.  "auto" is the smaller the more rows there are, if the loss
        has its default width, and 1 otherwise.  The plan's `width` is that at the last step.
    """
    chosen = {
        "iterations": iterations, "clip": clip, "rounds": rounds, "learning_clip": learning_clip,
        "correlation_clip": correlation_clip, "learning_share": learning_share,
        "correlation_share": correlation_share, "average": average, "step": step,
        "intercept_step": intercept_step, "momentum": momentum, "shrinkage": shrinkage,
        "james_stein": james_stein, "consistent": consistent, "narrowing": narrowing,
    }  # fmt: skip
    check_shape(
        NAME, shape, refusal(shape.loss), MAX_DIM,
        "solver='objective-perturbation' and 'output-perturbation' take more.",
    )  # fmt: skip
    ridge = check_alpha(alpha, shape)
    free = not ridge and all(value == "auto" for value in (*chosen.values(), range_rounds))
    terms = _Terms.of(shape, budget, neighboring_relation, accountant, target_rounds, free)
    rule, options = _options(chosen, terms)
    settings = _settings(terms, rule, options, range_rounds, ridge)
    return Plan(
        solver=NAME,
        shape=shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=accesses(settings),
        settings=settings,
        expected=_expected(settings, terms.shape),
    )


class _Terms(NamedTuple):
    """The public quantities that a plan follows."""

    shape: ProblemShape  # with the loss that the descent minimizes
    relation: str
    u: float
    release: Release
    whole: Loss  # what is asked for
    target_rounds: int
    few: bool  # whether rows are taken for far fewer than weights
    confirmed: float  # share of the budget for gradients along what was found

    @classmethod
    def of(
        cls,
        shape: ProblemShape,
        budget: Budget,
        relation: str,
        accountant: str,
        target_rounds: int | str,
        free: bool,
    ) -> _Terms:
        """Of a problem and its budget; whether all options are `free`."""
        u = rules.rows_per_weight(shape, budget, relation, accountant)
        release = releases(budget_mu(budget, accountant), relation)
        rounds, whole = _check_target_rounds(target_rounds, shape), shape.loss
        if rounds > 0 and shape.intercept != 0.0:
            shape = replace(shape, loss=rules.descent_loss(whole, u))
        few = free and _few_rows.serves(shape, u)
        confirmed = _confirmation.share(shape, u) if free and not few else 0.0
        return cls(shape, relation, u, release, whole, rounds, few, confirmed)

    @property
    def rows(self) -> float:
        """``µ n / √k``: rows in units of the noise that a count of them has."""
        return self.u * self.shape.dim * math.sqrt(records_apart(self.relation))


def _options(chosen: dict[str, Any], terms: _Terms) -> tuple[rules.Rule, dict[str, Any]]:
    """The options, of which "auto" stands for what follows from the terms, and that rule."""
    shape, u = terms.shape, terms.u
    auto = {name for name, value in chosen.items() if value == "auto"}
    free = tuple(name for name in _FOLLOWING if name in auto)
    free += ("consistent",) * ("consistent" in auto and shape.loss.multiclass)
    consistent = check_consistent(chosen["consistent"], rules.automatic_consistent(shape, u))
    narrowing = _check_narrowing(chosen["narrowing"], shape, u)
    james_stein = chosen["james_stein"] is not False
    rule = rules.Rule(free, _automatic(terms, consistent, narrowing, james_stein))
    options = _checked(chosen, rule.settings, shape, u)
    options |= {"consistent": consistent, "narrowing": narrowing}
    options["averages_late"] = "average" in auto and rules.averages_late(shape, u)
    farther = shape.loss.multiclass and not terms.few
    options["goes_far"] = farther and {"momentum", "shrinkage"} <= auto
    return rule, options


def _settings(
    terms: _Terms,
    rule: rules.Rule,
    options: dict[str, Any],
    range_rounds: int | str,
    ridge: float | None,
) -> Settings:
    """What a run follows, every access with its share of the budget."""
    shape, release, loss = terms.shape, terms.release, terms.shape.loss
    ranges, for_ranges = _column_ranges_planned(range_rounds, terms)
    lengths, for_lengths = _lengths_planned(terms, ranges is None and range_rounds == "auto")
    clip_norm, limit = _clipping(shape, options, ranges)
    slopes = _slopes(terms, rule, clip_norm, limit, options["consistent"])
    for_weights = _weights.share(terms.u * shape.dim, shape)
    for_others = slopes.share + for_ranges + for_lengths + for_weights
    for_others += terms.confirmed + _few_rows.SHARE * terms.few
    along = _confirmation.planned(shape, limit, release, terms.confirmed)
    left, level = _left(options, for_others), None
    if terms.target_rounds > 0:
        whole = replace(shape, loss=terms.whole)
        for_tails = _target_tails.share(terms.rows) if rules.is_mean(terms.whole) else 0.0
        level = _level.planned(whole, terms.rows, left, release, for_tails, loss.quantile)
        left = _left(options, for_others + (level.share if level else 0.0))
    settings = Settings(
        **options,
        **slopes.learned,
        learning=_learning(terms, options, ranges, lengths, limit),
        gradient=release(left / options["iterations"], slopes.query, _GRADIENT),
        gradient_share=left,
        curvature=1.0 if loss.log_link else loss.smoothness * shape.max_weight,
        limit=limit,
        regime=rules.regime(
            options["step"],
            slopes.learned.get("target_range"),
            rules.rows_beyond(terms.whole, terms.rows),
            1 if terms.few else 2 * (along is not None),
        ),
        clip_norm=clip_norm,
        ridge=ridge or 0.0,
        rows_per_weight=terms.u,
        level=level,
        loss=loss,
        weights=_weights.planned(shape, for_weights, release, rule),
        width=options["narrowing"] * (loss.width or 0.0) if loss.cornered else None,
        **(_few_rows.planned(shape, limit, release) if terms.few else {"along": along}),
    )
    if terms.few:
        return _few_rows.with_steps(settings, shape)
    if slopes.for_tails == 0.0:
        return settings
    by_noise = _excess_by_noise(settings, shape)
    tails = _target_tails.planned(shape, slopes.for_tails, release, options["clip"], by_noise)
    return replace(settings, tails=tails)


def check_consistent(consistent: bool | str, automatic: bool) -> bool:
    """The option, of which "auto" stands for `automatic`."""
    if consistent == "auto":
        return automatic
    return check_flag("consistent", consistent)


def _check_narrowing(narrowing: float | str, shape: ProblemShape, u: float) -> float:
    if narrowing == "auto":
        return rules.automatic_narrowing(shape, u)
    narrow = check_real("narrowing", narrowing, low=0.0, low_open=True, high=1.0)
    if narrow < 1.0 and not shape.loss.cornered:
        raise ValueError(
            f"narrowing must be 1 for the loss {shape.loss.name!r}; got {narrow}. It is for "
            "rounded-off corners."
        )
    return narrow


def _check_target_rounds(target_rounds: int | str, shape: ProblemShape) -> int:
    numbers = shape.loss.kind == "regression" and not shape.loss.log_link
    if target_rounds == "auto":
        return _target_range.ROUNDS if numbers else 0
    rounds = check_integer("target_rounds", target_rounds, low=0, high=100)
    if rounds > 0 and not numbers:
        raise ValueError(
            f"target_rounds must be 0 for the loss {shape.loss.name!r}; got {rounds}. Only "
            "numbers without a log link have a range that is learned."
        )
    return rounds


def _column_ranges_planned(
    range_rounds: int | str, terms: _Terms
) -> tuple[ColumnRanges | None, float]:
    """How the ranges of numeric columns are learned, and the share of the budget that takes."""
    numeric = np.flatnonzero(~declared(terms.shape, "one-hot", "binary"))
    a_round = _column_ranges.share(terms.rows, len(numeric))
    if range_rounds == "auto":
        rounds = _column_ranges.ROUNDS if a_round > 0.0 else 0
    else:
        rounds = check_integer("range_rounds", range_rounds, low=0, high=5)
    if rounds == 0:
        return None, 0.0
    if a_round == 0.0:
        raise ValueError(f"range_rounds must be 0 where noise would hide all rows; got {rounds}.")
    ranges = _column_ranges.planned(terms.shape, numeric, rounds, a_round, terms.release)
    return ranges, _column_ranges.cost(rounds, a_round)


def _lengths_planned(terms: _Terms, asked: bool) -> tuple[Gaussian | None, float]:
    """How the lengths of rows are learned, and the share of the budget that takes.

    Not if most columns are those of categories, whose scales follow from their counts.
    """
    shape = terms.shape
    share = _lengths.share(terms.rows * math.sqrt(records_apart(terms.relation)))
    categories = np.count_nonzero(declared(shape, "one-hot", "binary"))
    if not asked or 2 * categories >= shape.n_features or share == 0.0:
        return None, 0.0
    return _lengths.planned(shape, share, terms.release), share


def _clipping(
    shape: ProblemShape, options: dict[str, Any], ranges: ColumnRanges | None
) -> tuple[float, float]:
    """Radius of the gradients, and how far coordinates may reach for the sake of rounding."""
    unit = math.sqrt(shape.dim)
    # With a log link slopes are in units that the run learns.
    linked, slope = shape.loss.log_link, shape.loss.lipschitz
    clip_norm = options["clip"] * unit * (1.0 if linked else slope)
    radius = options["learning_clip"] * unit
    if linked:
        slope = max(1.0, clip_norm / _log_link.longest_row(shape))
    farthest = 0.0 if ranges is None else _NARROWEST * unit
    if rules.clips_groups(shape):
        return clip_norm, _groups.limit_of(shape, radius, farthest)
    return clip_norm, reach_limit(shape, clip_norm, radius, farthest, slope)


class _Slopes(NamedTuple):
    """What it takes to learn the unit that slopes are clipped in, and the gradients in that unit.

    `learned` are the settings that say how.  The share of the budget includes that for the tails of
    targets whose mean is asked for.
    """

    share: float
    query: Query
    learned: dict[str, Any]
    for_tails: float = 0.0


def _slopes(
    terms: _Terms,
    rule: rules.Rule,
    clip_norm: float,
    limit: float,
    consistent: bool,
) -> _Slopes:
    """Slopes with a log link, of numbers whose bounds may be far too wide, of groups, or plain."""
    shape, relation, u, release, whole, target_rounds, *_ = terms
    if shape.loss.log_link:
        link = _log_link.planned(shape, u, limit, release, rule)
        longest = _log_link.longest_row(shape)
        of_spread = RelativeGradient(shape, clip_norm, limit, shape.dim, longest)
        share = sum(_log_link.shares(u * shape.dim, shape.dim))
        share += 0.0 if link.sizes is None else _groups.SIZES_SHARE
        return _Slopes(share, of_spread, {"link": link})
    share, for_tails, learned = 0.0, 0.0, dict[str, Any]()
    query: Query = CoordinateGradient(shape, clip_norm, limit, consistent)
    if target_rounds > 0:
        tails, last = _target_range.tails(whole), rules.first_quantile(whole, u)
        begin, share = rules.first_quantile(shape.loss, u), _target_range.share(terms.rows)
        learned["target_range"] = _target_range.planned(
            shape, 1.0, target_rounds, share, release, tails, begin, last
        )
    if rules.clips_groups(shape):
        share += _groups.SIZES_SHARE
        learned["groups"] = _groups.planned(release, shape, rule, u)
        query = _groups.gradient_query(shape, limit, relation)
    elif target_rounds > 0:
        query = RelativeGradient(shape, clip_norm, limit, shape.dim)
        for_tails = _target_tails.share(terms.rows) if rules.is_mean(shape.loss) else 0.0
    return _Slopes(share + for_tails, query, learned, for_tails)


def _automatic(
    terms: _Terms, consistent: bool, narrowing: float, james_stein: bool
) -> Callable[..., dict[str, Any]]:
    """What "auto" stands for, by the rows behind one weight."""
    # In the end the intercept is settled by the counts: there they have a part of their own.
    settled = james_stein and terms.shape.loss.multiclass
    automatic = partial(
        rules.automatic_settings,
        shape=terms.shape,
        counts=rules.weight_of_counts(terms.u) if settled else rules.COUNTED,
        consistent=consistent,
        narrowing=narrowing,
    )
    if terms.few:
        return lambda u: automatic(u) | _few_rows.SETTINGS
    if not terms.shape.loss.log_link:
        return automatic
    return lambda u: automatic(u) | _log_link.automatic_settings(u, terms.shape.dim)


def _checked(
    chosen: dict[str, Any],
    automatic: Callable[[float], dict[str, Any]],
    shape: ProblemShape,
    u: float,
) -> dict[str, Any]:
    """The options that were chosen, and what "auto" stands for."""
    values = _groups.automatic_settings(automatic, u) if rules.clips_groups(shape) else automatic(u)
    values |= {name: value for name, value in chosen.items() if value != "auto"}
    found: dict[str, Any] = {
        name: check_real(name, values[name], **limits) for name, limits in _LIMITS.items()
    }
    found["iterations"] = check_integer("iterations", values["iterations"], low=1, high=10**6)
    found["rounds"] = check_integer("rounds", values["rounds"], low=1, high=100)
    found["james_stein"] = check_flag("james_stein", values["james_stein"])
    if shape.dim - (shape.intercept != 0.0) < 2:
        found["correlation_share"] = 0.0  # one column is correlated with nothing
    return found


def _left(options: dict[str, Any], for_others: float) -> float:
    """Share of the budget that is left for the gradients."""
    columns: float = options["learning_share"]
    correlated: float = options["correlation_share"]
    if columns + correlated + for_others >= 1.0:
        raise ValueError(
            f"learning_share + correlation_share must be less than {1.0 - for_others:g}, or "
            f"nothing is left for the gradients; got {columns} + {correlated}."
        )
    return 1.0 - columns - correlated - for_others


def _learning(
    terms: _Terms,
    options: dict[str, Any],
    ranges: ColumnRanges | None,
    lengths: Gaussian | None,
    limit: float,
) -> Learning:
    """The accesses that coordinates are learned by."""
    shape, u, release = terms.shape, terms.u, terms.release
    counts = rules.weight_of_counts(u)
    # To begin with no row is longer than √dim, and less radius is less noise.
    unit, turns = math.sqrt(shape.dim), options["rounds"]
    later = ColumnParts(shape, options["learning_clip"] * unit, False, None, counts)
    # Where nothing is declared, lengths tell how high entries are.
    weight = 0.0 if shape.columns else _LENGTHS
    first = ColumnParts(shape, unit, False, None, counts, weight)
    queries = [first] + [later] * (turns - 1)
    a_round, correlated = options["learning_share"] / turns, options["correlation_share"]
    moments = tuple(release(a_round, query, _MOMENTS) for query in queries)
    correlation, again = None, rules.correlation_rounds(u, shape) if ranges is not None else 1
    if correlated > 0.0:
        gram = Gram(shape, options["correlation_clip"] * unit, limit)
        correlation = release(correlated / again, gram, _CORRELATION)
    return Learning(ranges, lengths, moments, correlation, again, limit)


def accesses(settings: Settings) -> tuple[tuple[Access[Any], int], ...]:
    """What a run asks for, in order, and how often."""
    learning, link, level = settings.learning, settings.link, settings.level
    groups, target_range, tails = settings.groups, settings.target_range, settings.tails
    ranges = learning.ranges
    of_targets: list[tuple[Access[Any] | None, int]] = [
        *(target_range.accesses if target_range else ()),
        (tails.histogram if tails else None, 1),
    ]
    of_columns: list[tuple[Access[Any] | None, int]] = [
        *(((ranges.histogram, ranges.rounds), (ranges.long_rows, 1)) if ranges else ()),
        *((mechanism, 1) for mechanism in learning.of_columns),
        (learning.correlation, learning.correlation_rounds),
    ]
    found: list[tuple[Access[Any] | None, int]] = [
        (groups.sizes if groups else None, 1),
        (settings.weights.counts if settings.weights else None, 1),
        *(link.first if link else ()),
        *(of_targets + of_columns if learning.has_intercept else of_columns + of_targets),
        (settings.row_lengths, 1),
        (settings.gradient, settings.iterations),
        (settings.along, _few_rows.STEPS),
        *((link.last,) if link else ()),
        *(level.accesses if level else ()),
    ]
    return tuple((access, times) for access, times in found if access is not None)


def _excess_by_noise(settings: Settings, shape: ProblemShape) -> float:
    """What noise does to the average of the iterates, at a quarter of the largest curvature."""
    # Of groups as if each had one row: how many rows there are is not known yet.
    grouped = settings.groups is not None
    deviation = settings.gradient.stddev * (
        settings.clip_norm * shape.max_weight if grouped else 1.0
    )
    # Where rows are few, all gradients count alike: of all weights, before one direction is kept.
    few = settings.row_lengths is not None
    averaged = max(1.0, (1.0 if few else settings.average) * settings.iterations)
    variance = (deviation / shape.n_samples) ** 2 / averaged
    return 0.5 * shape.dim * variance / (settings.curvature / 4.0)


def _expected(settings: Settings, shape: ProblemShape) -> dict[str, float]:
    """What is to be expected of a run."""
    learning = settings.learning
    steps = settings.iterations + _few_rows.STEPS * (settings.along is not None)
    by_noise = _excess_by_noise(settings, shape)
    correlations = [learning.correlation] * learning.correlation_rounds
    releases = [mechanism for mechanism in (*learning.moments, *correlations) if mechanism]
    last = settings.level.rounds if settings.level else 0
    seconds = (
        _seconds.preparation(shape)
        + _seconds.column_ranges(shape, learning.ranges.rounds if learning.ranges else 0)
        + _seconds.whitening(shape, settings.rounds, len(releases) - settings.rounds)
        + sum(_seconds.release(mechanism.dimension) for mechanism in releases)
        + steps * (_seconds.gradient(shape) + _seconds.release(shape.dim))
        + last * _seconds.gradient(shape)
    )
    return {
        "excess_loss_by_noise": by_noise,
        "excess_risk_guess": rules.excess_risk_guess(shape, by_noise),
        "seconds": seconds,
        "megabytes": _seconds.megabytes(shape, _seconds.WHITENING_MATRICES),
    }


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Learn coordinates, descend in them, and map the average of the late iterates back.

    The history has the norms of the noisy gradients in the learned coordinates.
    """
    settings, shape = with_records(plan.settings, curator), plan.shape
    link = settings.link
    if link is None:
        coordinates, place = learn_places(settings, shape, curator)
        return descended(settings, shape, curator, coordinates, place)
    spread = _log_link.learn_spread(link, shape, curator)
    # By the loss as declared: it is flat far below the highest target, so that noise counts as
    # larger, and lengths, which come out too long along near lines, as doubtful.
    settings = _log_link.learned(link, settings, spread, shape)
    assert settings.link is not None
    coordinates = learn(settings.learning, shape, curator)
    shape = spread.seen_by(shape)
    v, norms, change, _ = descend(settings, shape, curator, coordinates, spread)
    found = _direction(settings, shape, coordinates, v, change)
    w, kept = _log_link.calibrated(
        settings.link, shape, curator, found, settings.limit, spread, settings.ridge
    )
    said = bounds_told(shape, coordinates.columns)
    ranges = coordinates.columns.ranges
    return Outcome(w, {"gradient_norm": norms}, said, column_ranges=ranges, prediction_range=kept)


def descended(
    settings: Settings,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
    place: Place | None,
    confirm: _few_rows.Confirm | None = None,
) -> Outcome:
    """Where a descent in the coordinates led, for a loss without a log link.

    Where rows are far fewer than weights, one may `confirm` the direction that it found otherwise.
    """
    unit, change, kept = 1.0, 1.0, None
    if settings.row_lengths is not None:
        w, coordinates, norms = _few_rows.descended(settings, shape, curator, coordinates, confirm)
    else:
        whole, shape = shape, replace(shape, loss=settings.loss)
        settings, coordinates = counted(settings, shape, curator, coordinates)
        settings = averaged_late(settings, shape, coordinates)
        coordinates, settings = beside_ridge(coordinates, settings, shape, place)
        v, norms, change, slopes = descend(settings, shape, curator, coordinates, place)
        unit = place.half if place is not None else 1.0
        w = unit * coordinates.weights(v, partial(weight_noise, settings, shape, change))
        w, kept = finished(w, v, coordinates.free, settings, whole, curator, place)
        if settings.along is not None:
            w = _confirmation.confirmed(w, slopes, settings, shape, curator, coordinates)
    covariance = None
    if shape.dim <= MAX_COVARIANCE_DIM:
        covariance = _covariance(settings, shape, coordinates, w / unit, change)
        covariance = None if covariance is None else unit**2 * covariance
    said = bounds_told(shape, coordinates.columns, place)
    said += rareness_told(settings, shape, coordinates)
    ranges = coordinates.columns.ranges
    return Outcome(
        w, {"gradient_norm": norms}, said, covariance, column_ranges=ranges, prediction_range=kept
    )


def finished(
    w: Vector,
    v: Vector,
    free: int,
    settings: Settings,
    shape: ProblemShape,
    curator: Curator,
    place: Place | None,
) -> tuple[Vector, tuple[float, float] | None]:
    """The weights with the intercept that is settled in the end, and what predictions are kept in.

    `v` are the weights in coordinates of which so many are `free`, and the next one constant, in
    units of half the range of the targets.
    """
    if place is None:
        return w, None
    half, before = place.half, w
    spread = half * float(np.linalg.norm(v[:free]))
    middle = half * float(v[free]) if free < len(v) else 0.0
    if settings.level is not None:
        groups = None if settings.groups is None else settings.groups.law
        # Gradients of groups are cut about where most targets are.
        reach = half * (1.0 if settings.tails is None else settings.tails.cut)
        w = settings.level.settled(
            w, shape, curator, place, half * settings.narrowing, groups, reach, spread
        )
    elif place.move != 0.0:  # where slopes tell nothing, the counts of the targets do
        w = np.append(w[:-1], w[-1] + place.move / shape.intercept)
    if w is not before:
        middle += shape.intercept * float(w[-1] - before[-1])
    return w, place.kept(middle, spread)


def learn_places(
    settings: Settings, shape: ProblemShape, curator: Curator
) -> tuple[Coordinates, Place | None]:
    """Where rows and targets are, and how far slopes may reach; None if that is not learned.

    Without an intercept the columns come first: if one of them is constant, it takes up the center
    of the targets.
    """
    if settings.learning.has_intercept:
        place = _learn_place(settings, curator, True)
        return learn(settings.learning, shape, curator), place
    coordinates = learn(settings.learning, shape, curator)
    place = _learn_place(settings, curator, coordinates.anchor is not None)
    return coordinates, place if place is None else place.beyond_end()


def _learn_place(settings: Settings, curator: Curator, centered: bool) -> Place | None:
    """Of the targets; ranges are around zero if they are not `centered`."""
    if settings.target_range is None:
        return None
    place = _target_range.learn_range(replace(settings.target_range, centered=centered), curator)
    if settings.tails is None:
        return place
    return _target_tails.widened(place, settings.tails, curator, centered)


def _direction(
    settings: Settings, shape: ProblemShape, coordinates: Coordinates, v: Vector, change: float
) -> Direction:
    """The weights of a loss with a log link, and what noise has of their length."""
    of_noise, constant = 0.0, None
    if settings.james_stein:
        v, of_noise = drawn_by_rareness(v, settings, shape, coordinates, change)
    if coordinates.anchor is not None:
        constant = coordinates.transform[:, -1]
        v = np.append(v[:-1], 0.0)
    w = coordinates.weights(v, partial(weight_noise, settings, shape, change))
    length = float(np.linalg.norm(coordinates.of_weights(w)))
    way, seen = way_gone(settings), way_gone(settings, 0.0)
    return Direction(w, length, of_noise, way, seen, settings.clip, constant)


def _covariance(
    settings: Settings, shape: ProblemShape, coordinates: Coordinates, w: Vector, change: float
) -> Matrix | None:
    """Of what the weights are wrong by: noise, that they are short, and the rows that they are of.

    And of what else is believed of them.  None where noise is too large for the numbers to tell.
    """
    back, free = np.linalg.inv(coordinates.transform), coordinates.free
    rows = shape.n_samples * settings.mean_weight
    v = np.asarray(back @ w, dtype=np.float64)
    bends = mean_bends(shape.loss, v, free, settings.clip, settings.consistent)
    noise = np.linalg.inv(bends) * settings.gradient.stddev * change / rows / shape.max_weight
    short = min(1.0, _SHORT / settings.rows_per_weight) * v
    short[free:] = 0.0
    covariance = noise @ noise / settings.iterations + np.outer(short, short)
    covariance += np.linalg.inv(bends) / rows
    precision = moderate_effects(shape, coordinates)
    columns = coordinates.columns
    precision[: shape.n_features] += columns.categories * (columns.spread / CATEGORY_EFFECT) ** 2
    try:
        found = np.linalg.inv(back.T @ np.linalg.inv(covariance) @ back + np.diag(precision))
    except np.linalg.LinAlgError:
        return None
    return np.asarray(found, dtype=np.float64)


def bounds_told(
    shape: ProblemShape, columns: Columns, place: Place | None = None
) -> tuple[str, ...]:
    """What released centers, scales and counts tell of the bounds of rows and targets."""
    square = float(columns.center @ columns.center + columns.scale @ columns.scale)
    said = said_of_lengths(shape, square)
    return said if place is None else said + place.said()


def with_records(settings: Settings, curator: Curator) -> Settings:
    """What sizes of groups, or weights of rows, make of the settings."""
    if settings.groups is not None:
        settings = _groups.learned(settings.groups, settings, curator)
    if settings.weights is not None:
        settings = _weights.learned(settings.weights, settings, curator)
    return settings


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the method, or None if it will do."""
    needs = {
        "convex": loss.convex,
        "of bounded slope, which the clipping is measured by": math.isfinite(loss.lipschitz),
        "of bounded curvature, which sets the step size": math.isfinite(loss.smoothness),
        f"of a width of at most {_log_link.WIDEST:g}, in logarithms of targets": not loss.log_link
        or loss.width is None
        or loss.width <= _log_link.WIDEST,
    }
    return next((need for need, met in needs.items() if not met), None)


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("approximate", "zcdp", "gdp"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    resumable=True,
    minimizes=True,
    expects="excess_loss_by_noise",
    exact={
        "iterations": 500,
        "clip": 10.0,
        "average": 0.0,
        "correlation_share": 0.1,
        "momentum": 0.0,
        "shrinkage": 0.0,
        "james_stein": False,
        "target_rounds": 0,
        "narrowing": 1.0,
    },
    penalizes_intercept=False,
    weighs_groups=True,
    any_rows_per_group=True,
    max_dim=MAX_DIM,
    refusal=refusal,
)
