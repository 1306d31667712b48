"""The contract of a query, checked on the query itself: a case a kind, and what to hold it to.

A case says which rows could be a record, worst ones among them, and which arguments the query is
asked with.  `check` compares the query's values on neighbors, that differ in one record, with what
the query states of them; whoever states too little fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from dpfast import Loss, Problem, ProblemShape
from dpfast.blocks import BlockProblem, from_npy
from dpfast.coded import CodedMatrix
from dpfast.mechanisms import Query
from dpfast.objectives import ErmShape, objective_shape
from dpfast.queries import (
    BatchSum,
    CandidateLosses,
    CertifiedMinimizer,
    ClassCounts,
    ClassGradient,
    ClippedGradient,
    ColumnHistogram,
    ColumnParts,
    ColumnSums,
    CoordinateGradient,
    CountsBeyond,
    DescentIterate,
    GradientStep,
    Gram,
    GroupGradient,
    GroupSizes,
    LineSearchLosses,
    LongRows,
    MinimizerInUnits,
    ProductSums,
    QuantileSlopes,
    RankScores,
    RelativeGradient,
    ResidualSizes,
    ResidualSum,
    RowLengths,
    ScoreProducts,
    ScoreSum,
    SquaredSlopes,
    TargetCounts,
    TargetHistogram,
    TargetSizes,
    TargetSum,
    TargetTails,
    WeightCounts,
    WeightedCurvature,
    WeightedScores,
    estimating,
)
from dpfast.queries.columns import GroupedColumns
from dpfast.shape import BlockSizes
from dpfast.sums import RowSums

RELATIONS = ("replace_one", "add_or_remove_one")
NORM, BOUND, WEIGHT = 2.0, 0.8, 2.5
SIZES = (1, 2, 5, 40)
BLOCK_ROWS = 3
_DRAWN = 3
ALL_ROWS = "all rows"
"""Stands in arguments for the numbers of all the rows there are."""


def in_codes(X: np.ndarray) -> CodedMatrix:
    """Columns of few values as codes, whose levels are the values, and others as numbers."""
    parts = []
    for column in np.clip(X, -1e149, 1e149).T:  # larger entries are refused
        values, codes = np.unique(column, return_inverse=True)
        if len(values) > 4:
            parts.append((np.array(column), None))
        else:
            parts.append((codes.astype(np.uint8), values[:, None]))
    return CodedMatrix(parts)


STORAGES: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "csr": scipy.sparse.csr_array,
    "fortran": np.asfortranarray,
    "codes": in_codes,
}


@dataclass(frozen=True)
class Record:
    """One record: its row, its target or label, its weight."""

    x: tuple[float, ...]
    y: float
    weight: float = WEIGHT


@dataclass(frozen=True)
class Person:
    """One record that is several rows."""

    rows: tuple[Record, ...]


def nothing(query: Query, *point: Any) -> np.ndarray:
    """An empty sum."""
    return np.zeros(query.dimension)


@dataclass(frozen=True)
class Case:
    """A query with its records and arguments.

    `reached` is the share of the stated sensitivity that the worst of the records must reach,
    beside the `others`.
    """

    name: str
    make: Callable[[int], Query]
    arguments: Callable[[Query], list[tuple[Any, ...]]]
    records: list[Any]
    rows: Callable[[list[Any], str, int], Any]
    reached: dict[str, float]
    storages: tuple[str, ...] = ("float64",)
    empty: Callable[..., Any] = nothing
    others: tuple[Record, ...] = ()


def values(
    case: Case,
    query: Query,
    records: Sequence[Any],
    points: Sequence[tuple[Any, ...]],
    storage: str = "float64",
) -> np.ndarray:
    """The query's value at every point; of no record, that of an empty sum."""
    if not records:
        return np.array([case.empty(query, *point) for point in points])
    rows = case.rows(list(records), storage, query_size(query))
    prepared: dict[tuple[bytes, ...], Any] = {}
    found = []
    for point in points:
        given = [np.arange(len(records)) if part is ALL_ROWS else part for part in point]
        fixed = given[: query.fixed]
        key = tuple(np.asarray(part).tobytes() for part in fixed)
        if key not in prepared:
            query.check(*fixed)
            prepared[key] = query.prepare(rows, *fixed)
        found.append(np.asarray(query(prepared[key], *given[query.fixed :])))
    return np.array(found)


def relations_of(case: Case) -> tuple[str, ...]:
    """The relations that the query states something for."""
    if case.name.startswith("column sums"):
        return tuple(relation for relation in RELATIONS if relation in case.name)
    return RELATIONS


def query_size(query: Query) -> int:
    """How many records a query is stated for; 0 where that does not matter."""
    return getattr(getattr(query, "shape", query), "n_samples", 0)


def distance(query: Query, change: np.ndarray) -> Any:
    """What the query's sensitivity is to bound, of changes along the last axis."""
    if query.norm == "range":
        return np.maximum(change.max(axis=-1), 0.0) - np.minimum(change.min(axis=-1), 0.0)
    return np.linalg.norm(change, 1 if query.norm == "l1" else 2, axis=-1)


def allowed(query: Query, relation: str) -> float:
    """The stated sensitivity, and what rounding may add to it as the mechanisms charge it."""
    error = query.rounding_error()
    if query.norm == "range":
        return query.sensitivity(relation) + 4.0 * error
    if query.norm == "l1":
        return query.sensitivity(relation) + 2.0 * math.sqrt(query.dimension) * error
    return query.sensitivity(relation) + 2.0 * error


def farthest(
    query: Query, known: np.ndarray, nobody: np.ndarray, relation: str
) -> tuple[float, set[int], int]:
    """How far apart neighbors are at most, which of the records they differ in, at which point.

    Values are those with each of the records, and with none, at each of the points.
    """
    assert np.isfinite(known).all()
    most: tuple[float, set[int], int] = (0.0, set(), 0)
    for point, (one, none) in enumerate(zip(known.swapaxes(0, 1), nobody, strict=True)):
        two = one if relation == "replace_one" else none[None]
        apart = distance(query, one[:, None] - two)
        if apart.max() > most[0]:
            first, second = np.unravel_index(apart.argmax(), apart.shape)
            pair = {int(first), int(second)} if relation == "replace_one" else {int(first)}
            most = float(apart.max()), pair, point
    return most


def check(case: Case, *relations: str) -> None:
    """Hold the query to what it states, and where it says so to having said no more.

    Raises
    ------
    AssertionError
    """
    worst = check_alone(case, *relations)
    check_beside(case, *relations, worst=worst)


def values_alone(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return the query's values of each record beside the others, and without it."""
    query = case.make(1 + len(case.others))
    points = case.arguments(query)
    known = [values(case, query, [*case.others, one], points) for one in case.records]
    return np.array(known), values(case, query, case.others, points)


def check_alone(case: Case, *relations: str) -> tuple[set[int], set[int]]:
    """Check every record beside none; the worst of the records and of the arguments."""
    query = case.make(1 + len(case.others))
    known, nobody = values_alone(case)
    worst_records: set[int] = set()
    worst_points: set[int] = set()
    for relation in relations:
        apart, pair, point = farthest(query, known, nobody, relation)
        limit = allowed(query, relation)
        assert apart > 0.0, f"{case.name}: all records look alike"
        assert apart <= limit, f"{case.name}: {apart:.6g} apart, {limit:.6g} stated"
        least = case.reached[relation] * query.sensitivity(relation)
        assert apart >= least, f"{case.name}: {apart:.6g} reached, {least:.6g} expected"
        worst_records |= pair
        worst_points.add(point)
    return worst_records, worst_points


def check_beside(case: Case, *relations: str, worst: tuple[set[int], set[int]]) -> None:
    """Check the worst, and any others, beside more rows, however many and however stored."""
    worst_records, worst_points = worst
    rng = np.random.default_rng(7)
    for size, storage in itertools.product(SIZES, case.storages):
        query = case.make(size)
        points = case.arguments(query)
        asked = [points[k] for k in {*worst_points, int(rng.integers(len(points)))}]
        drawn = rng.integers(len(case.records), size=size - 1 + _DRAWN).tolist()
        others = [case.records[k] for k in drawn[_DRAWN:]]
        place = int(rng.integers(size))
        beside = [
            values(case, query, [*others[:place], *one, *others[place:]], asked, storage)
            for one in ([], *([case.records[k]] for k in {*worst_records, *drawn[:_DRAWN]}))
        ]
        for relation in relations:
            apart = farthest(query, np.array(beside[1:]), beside[0], relation)[0]
            limit = allowed(query, relation)
            assert apart <= limit, f"{case.name}, {size} rows, {storage}: {apart:.6g} > {limit:.6g}"


# ---- records ------------------------------------------------------------------------------------


def ball(d: int, targets: tuple[float, ...], *, count: int = 14) -> list[Record]:
    """Rows on the sphere, inside and far outside, opposed and alike, with every target."""
    rng = np.random.default_rng(3)
    axes = [NORM * np.eye(d)[0], -NORM * np.eye(d)[0], NORM * np.eye(d)[1], np.zeros(d)]
    diagonal = NORM * np.ones(d) / math.sqrt(d)
    sixty = NORM * np.array([0.5, math.sqrt(0.75), *np.zeros(d - 2)])
    # Of moments, the farthest apart: see the proof.
    angle = math.pi / 12.0
    pair = [(math.cos(angle), math.sin(angle)), (-math.sin(angle), -math.cos(angle))]
    pair = [NORM * np.array([*two, *np.zeros(d - 2)]) for two in pair]
    # All but equal, and on both sides of weights along the first axis, or across the diagonal:
    # opposed slopes.
    for row, axis in ((axes[2], axes[0]), (diagonal, axes[0] - axes[2])):
        pair += [row * math.cos(0.02) + axis * math.sin(0.02) * sign for sign in (1.0, -1.0)]
    far = [40.0 * NORM * np.eye(d)[0], 1e200 * np.eye(d)[1]]
    drawn = rng.standard_normal((count, d))
    drawn *= (NORM * rng.uniform(0.2, 1.5, count) / np.linalg.norm(drawn, axis=1))[:, None]
    rows = [*axes, diagonal, -diagonal, sixty, -sixty, *pair, *far, *drawn]
    made = [Record(tuple(x), y) for x in rows for y in targets]
    first = tuple(axes[0])
    return [*made, Record(first, targets[0], 0.0), Record(first, targets[0], 99.0)]


def problem_of(
    loss: Loss, *, block_rows: int | None = None, **settings: Any
) -> Callable[[list[Record], str, int], RowSums]:
    """Rows as a problem whose public bounds are those of the queries; in blocks without labels."""

    def rows(records: list[Record], storage: str, _size: int, **more: Any) -> RowSums:
        labels = [max(record.y, 0.0) for record in records]
        targets = [record.y for record in records]
        if loss.kind == "classification":
            targets = [1.0 if y > 0 else -1.0 for y in targets]
        X = np.array([record.x for record in records])
        if storage == "float32":
            X = np.clip(X, -1e30, 1e30)
        weight = np.array([record.weight for record in records])
        bounds: dict[str, Any] = {"data_norm": NORM, "max_weight": WEIGHT, **settings}
        if block_rows is not None:
            beside = np.array(targets), weight
            source = from_npy(STORAGES[storage](X), *beside, block_rows=block_rows, **more)
            return BlockProblem(source, loss, **bounds)
        problem = Problem(
            STORAGES[storage](X), targets, loss, sample_weight=weight, **bounds, **more
        )
        return problem.with_labels(labels)

    return rows


def persons(d: int, targets: tuple[float, ...]) -> list[Person]:
    """Persons of one row and of many: alike, opposed, of all kinds, of no weight, very long."""
    kinds = ball(d, targets, count=3)
    one, two = kinds[0], replace(kinds[len(targets)], y=targets[-1])
    made = [Person((row,)) for row in kinds]
    made += [Person((row,) * count) for row in (one, two, *kinds[-8:]) for count in (2, 3, 70)]
    made += [Person((one, replace(one, y=targets[-1])) * 4), Person((one, two) * 9)]
    return [*made, Person(tuple(kinds)), Person((one, replace(one, weight=0.0)) * 2)]


def in_turn(owner: np.ndarray) -> np.ndarray:
    return np.arange(len(owner))


def grouped(
    rows: Callable[..., Any], order: Callable[[np.ndarray], np.ndarray] = in_turn
) -> Callable[[list[Person], str, int], Any]:
    """Persons as a problem: their rows one after the other, or mixed with the others'."""

    def problem(people: list[Person], storage: str, size: int) -> Any:
        owner = np.repeat(np.arange(len(people)), [len(one.rows) for one in people])
        records = [row for one in people for row in one.rows]
        places = order(owner)
        return rows([records[k] for k in places], storage, size, groups=owner[places])

    return problem


def mixed(owner: np.ndarray) -> np.ndarray:
    """Everybody's rows between the others', in their own order still."""
    places = np.random.default_rng(11).random(len(owner))
    for who in np.unique(owner):
        places[owner == who] = np.sort(places[owner == who])
    return np.argsort(places)


def group_shape(
    loss: Loss, size: int, most: int | None, alpha: float | None = None, blocks: bool = False
) -> ProblemShape:
    sizes = BlockSizes.of_groups(size, BLOCK_ROWS) if blocks else None
    return ProblemShape(
        size, 3, NORM, loss, 1.0, alpha, WEIGHT, sizes, unit="group", max_rows_per_group=most
    )


def shape_of(
    loss: Loss,
    size: int,
    d: int,
    intercept: float = 1.0,
    alpha: float | None = None,
    blocks: bool = False,
) -> ProblemShape:
    whole, rest = divmod(size, BLOCK_ROWS)
    lengths = (BLOCK_ROWS,) * (whole > 0) + (rest,) * (rest > 0)
    sizes = BlockSizes(whole + (rest > 0), lengths) if blocks else None
    return ProblemShape(size, d, NORM, loss, intercept, alpha, WEIGHT, sizes, weighted=True)


def mean_of(loss: Loss, **settings: Any) -> Callable[[list[Record], str, int], Problem]:
    """The same for means over the public number of rows: who is absent contributes nothing."""
    rows = problem_of(loss, **settings)

    def padded(records: list[Record], storage: str, size: int) -> Problem:
        absent = Record((0.0,) * len(records[0].x), 1.0, 0.0)
        return rows([*records, *[absent] * (size - len(records))], storage, size)

    return padded


def table_of(records: list[Record], storage: str, _size: int) -> np.ndarray:
    return np.array([record.x for record in records])


# ---- the table ----------------------------------------------------------------------------------

LOGISTIC, HUBER, SQUARED = Loss("logistic"), Loss("huber", 1.0), Loss("squared")
PINBALL = Loss("pinball", 0.9, 0.2)
HINGE = Loss("huberized-hinge")
POISSON, GAMMA = Loss("poisson", width=1.0), Loss("gamma", width=1.0)
COUNTS, COSTS = (0.0, 1.0, 2.0), (0.5, 1.0, 2.0)
SIGNS, CLASSES, NUMBERS = (1.0, -1.0), (0.0, 1.0, 2.0), (1.0, -1.0, 7.0, -7.0)
ALL = tuple(STORAGES)


def weights_of(dim: int) -> list[np.ndarray]:
    """Weights at and far from zero, along and against every axis."""
    rng = np.random.default_rng(5)
    across = np.eye(dim)[0] - np.eye(dim)[1]
    far = 1e3 * np.vstack([np.eye(dim), -np.eye(dim), across, -across])
    return [np.zeros(dim), *far, *rng.standard_normal((2, dim))]


def transform_of(query: Any) -> np.ndarray:
    d, dim = query.shape.n_features, query.shape.dim
    transform = np.diag(np.linspace(1.0, 2.0, dim))
    transform[0, d - 1] = 0.3
    return transform


def thin(query: Any) -> np.ndarray:
    """A transform as long as the limit, all of it along one axis."""
    transform = np.zeros((query.shape.dim, query.shape.dim))
    transform[0, 0] = query.limit / (1.001 * math.sqrt(2.0) * NORM)
    return transform


def stretched(query: Any) -> np.ndarray:
    """A transform that takes the rows beyond every radius."""
    return 5.0 * np.eye(query.shape.dim)


def two_transforms(query: Any) -> list[tuple[Any, ...]]:
    return [(transform_of(query),), (stretched(query),)]


def centers(query: Any) -> list[tuple[Any, ...]]:
    """Centers of columns and their scales."""
    around_zero = [(np.zeros(3), np.full(3, scale)) for scale in (1.0, 0.1)]
    return [*around_zero, (np.full(3, 0.3), np.array([0.1, 1.0, 2.0]))]


def at_weights(query: Any) -> list[tuple[Any, ...]]:
    return [(w,) for w in weights_of(query.shape.dim)]


def alone(query: Any) -> list[tuple[Any, ...]]:
    """No arguments."""
    return [()]


def stacks(query: Any) -> list[tuple[Any, ...]]:
    """Coordinates for scores, others for curvatures, weights near and far, scales and parts."""
    score, curvature = transform_of(query), stretched(query)
    least, largest = estimating.scales(query.shape)
    scales = itertools.cycle((largest, 0.2, least) if largest > least else (1.0,))
    parts = itertools.cycle((1.0, 0.3, 4.0, 1.0, 0.01) if query.shape.several_rows else (1.0,))
    return [
        (np.hstack([one, two, w[:, None]]), next(scales), next(parts))
        for one, two in ((score, curvature), (curvature, score))
        for w in (np.zeros(query.shape.dim), *np.random.default_rng(2).normal(size=(3, 4)))
    ]


#: Queries of estimates with a covariance, and what they must reach.  A row cannot have the largest
#: slope and the largest curvature; nor can a whole group, of some losses.  A target between two
#: sizes counts for both.
WEIGHTED = {
    WeightedScores: 0.98,
    WeightedCurvature: 0.98,
    ScoreProducts: 0.98,
    SquaredSlopes: 0.65,
    ResidualSizes: 0.98,
    TargetSizes: 0.7,
    RowLengths: 0.98,
}


def weighted_of(loss: Loss) -> list[tuple[Any, float]]:
    """Those that a loss has: targets are counted with a log link alone, slopes with a scale."""
    left = () if loss.log_link else (TargetSizes,) if loss.even else (TargetSizes, ResidualSizes)
    return [one for one in WEIGHTED.items() if one[0] not in left]


#: Two columns of three in bins, and long rows.
RANGES: dict[str, tuple[Callable[..., Query], tuple[Any, ...]]] = {
    "columns in bins": (ColumnHistogram, (np.array([0, 2]), 5)),
    "long rows": (LongRows, ()),
    "long rows by column": (LongRows, (True,)),
}


def column_ranges(query: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ends of bins, or centers and factors of columns; zeros lie in outer bins and in others."""
    if isinstance(query, ColumnHistogram):
        return [(-np.ones(2), np.ones(2)), (np.array([0.1, -2.0]), np.array([0.3, -0.1]))]
    scaled = (0.0, np.ones(3)), (0.0, np.full(3, 600.0)), (0.3, np.array([200.0, 0.0, 1.0]))
    return [(np.full(3, center), factor) for center, factor in scaled]


_STEPS = np.linspace(0.0, 40.0, 9)
#: Sums over rows along the constant alone.
ALONG_CONSTANT: dict[str, Callable[[Any], Query]] = {
    "slopes along the constant": QuantileSlopes,
    "sum of residuals": ResidualSum,
}


def along_constant(query: Any) -> list[tuple[Any, ...]]:
    """Weights, sizes that corners and clips are in units of, and how many rows count one."""
    sizes = ((1e-6, 1.0), (9.0, 2.0))
    return [(w, *each) for w in weights_of(query.shape.dim) for each in sizes]


def _ridge_alone(query: Any, w: Any, direction: Any, steps: Any, n: int) -> np.ndarray:
    """Scores of no rows."""
    squares = np.array([np.sum((w - a * direction) ** 2) - w @ w for a in steps])
    most = n * WEIGHT * BOUND
    return np.clip(0.5 * query.shape.alpha * n * squares, -most, most)


def group_points(query: Any, alike: bool = False) -> list[tuple[Any, ...]]:
    """Radii at which rows, groups and neither are cut, at weights near and far from zero.

    With `alike`, there are correlations.
    """
    k, dim = query.n_classes, query.shape.dim
    weights = [np.zeros(dim), *1e3 * np.eye(dim)[[0, -1]], weights_of(dim)[-1]]
    if k > 1:
        drawn = np.random.default_rng(2)
        weights = [np.zeros((dim, k)), *(1e3 * drawn.standard_normal((2, dim, k)))]
    radii = [(0.7, 5.0, 2.0, 0.0), (3.0, 1.5, 1.0, 0.3), (1e3, 1e3, 0.5, 1.0)]
    if not alike:
        radii = [(*bounds, None) for *bounds, _ in radii]
    transforms = (transform_of(query), stretched(query))
    return [(t, w, *each) for t in transforms for w in weights for each in radii]


Points = Callable[[Any], list[tuple[Any, ...]]]


def both(reached: float | dict[str, float]) -> dict[str, float]:
    """A share for each relation."""
    return reached if isinstance(reached, dict) else dict.fromkeys(RELATIONS, reached)


def case_of_rows(
    name: str,
    kind: Callable[..., Query],
    given: tuple[Any, ...],
    points: Points,
    loss: Loss,
    targets: tuple[float, ...],
    reached: float | dict[str, float] = 0.99,
    *,
    d: int = 3,
    count: int = 14,
    intercept: float = 1.0,
    alpha: float | None = None,
    empty: Callable[..., Any] = nothing,
    storages: tuple[str, ...] = ALL,
    blocks: bool = False,
) -> Case:
    """The query ``kind(shape, *given)`` of rows in a ball."""
    return Case(
        name + " in blocks" * blocks,
        lambda size: kind(shape_of(loss, size, d, intercept, alpha, blocks), *given),
        points,
        ball(d, targets, count=count),
        problem_of(
            loss, block_rows=BLOCK_ROWS if blocks else None, intercept=intercept, alpha=alpha
        ),
        both(reached),
        storages,
        empty,
    )


def case_of_groups(
    name: str,
    kind: Callable[..., Query],
    given: tuple[Any, ...],
    points: Points,
    loss: Loss,
    targets: tuple[float, ...],
    reached: float | dict[str, float] = 0.99,
    *,
    most: int | None = None,
    order: Callable[[np.ndarray], np.ndarray] = mixed,
    storages: tuple[str, ...] = ("float64",),
    blocks: bool = False,
) -> Case:
    """The same of persons with at most so many rows; in blocks they lie side by side."""
    rows = problem_of(loss, block_rows=BLOCK_ROWS if blocks else None, max_rows_per_group=most)
    return Case(
        name + " in blocks" * blocks,
        lambda size: kind(group_shape(loss, size, most, blocks=blocks), *given),
        points,
        persons(3, targets),
        grouped(rows, in_turn if blocks else order),
        both(reached),
        storages,
    )


def group_cases() -> list[Case]:
    """Queries of persons: whole ones, and rows that count a part of one."""
    cases = [
        case_of_groups("sizes of groups", GroupSizes, (), alone, LOGISTIC, SIGNS, order=in_turn)
    ]
    for most in (None, 3):
        made = partial(case_of_groups, most=most)
        singly = partial(made, storages=("float64", "float32"))
        cases += [
            singly(f"targets in bins, at most {most} rows, {norm}", TargetHistogram, (6, norm),
                   lambda query: [(-1.0, 1.0)], HUBER, NUMBERS)
            for norm in ("l2", "l1")
        ]  # fmt: skip
        cases.append(
            singly(f"tails of targets, at most {most} rows", TargetTails, (3,),
                   lambda query: [(0.0, 0.1, 1.0), (-0.9, 1e-6, 1.9)], HUBER, NUMBERS)
        )  # fmt: skip
        cases += [
            singly(f"{name}, at most {most} rows", kind, (), along_constant, PINBALL, NUMBERS)
            for name, kind in ALONG_CONSTANT.items()
        ]
        cases.append(
            made(
                f"gradient of groups, residuals in other units, at most {most} rows",
                GroupGradient,
                (60.0, 0.5),
                lambda query: [
                    (*point, size) for point in group_points(query) for size in (1e-6, 0.3, 40.0)
                ],
                PINBALL,
                NUMBERS,
                0.9,
            )
        )
        for order, name in ((in_turn, "sorted"), (mixed, "mixed")):
            ways = [(classes, alike) for classes in (1, 3) for alike in (False, order is mixed)]
            cases += [
                made(
                    f"gradient of groups, {classes} classes, at most {most} rows, {name}"
                    + (", consistent" if alike else ""),
                    GroupGradient,
                    (60.0, 0.5, classes),
                    partial(group_points, alike=alike),
                    LOGISTIC,
                    SIGNS if classes == 1 else CLASSES,
                    0.9,
                    order=order,
                    storages=ALL if order is mixed else ("float64",),
                )
                for classes, alike in dict.fromkeys(ways)
            ]
        stored = partial(made, storages=ALL)
        cases += [
            stored(f"moments and lengths of groups, at most {most} rows", ColumnParts,
                   WITH_LENGTHS,
                   lambda query: [(np.zeros(3), np.full(3, scale)) for scale in (1.0, 0.1)],
                   LOGISTIC, SIGNS, {"replace_one": 0.83, "add_or_remove_one": 0.99}),
            *(
                stored(f"moments of groups, {loss.name}, classes {classes}, at most {most} rows",
                       ColumnParts, (1.7, True, classes), centers, loss, targets,
                       {"replace_one": 0.83, "add_or_remove_one": 0.97})
                for loss, targets, classes in (
                    (LOGISTIC, SIGNS, None), (LOGISTIC, CLASSES, 3), (HUBER, NUMBERS, None),
                    (POISSON, COUNTS, None),
                )
            ),
            *(
                stored(f"{name} of groups, at most {most} rows", kind, given, column_ranges,
                       LOGISTIC, SIGNS)
                for name, (kind, given) in RANGES.items()
            ),
            stored(f"Gram of groups, at most {most} rows", Gram, (1.5, 100.0), two_transforms,
                   LOGISTIC, SIGNS),
        ]  # fmt: skip
        for loss, targets in ((LOGISTIC, SIGNS), (HUBER, NUMBERS), (POISSON, COUNTS)):
            cases += [
                stored(f"{kind.__name__} of groups, {loss.name}, at most {most} rows", kind,
                       (0.7, 0.9, 200.0), stacks, loss, targets, min(reached, 0.85))
                for kind, reached in weighted_of(loss)
            ]  # fmt: skip
        cases += _cases_of_counted_rows(most)
    return cases + _cases_of_parts() + _cases_of_single_rows()


def _cases_of_single_rows() -> list[Case]:
    """Persons of one row: what is asked of rows, in coordinates too."""

    def at_ends(query: Any) -> list[tuple[Any, ...]]:
        return [(stretched(query), w) for w in weights_of(4)]

    kinds: list[Kind] = [
        ("gradient in coordinates", CoordinateGradient, (0.7, 60.0), at_ends, HUBER, NUMBERS),
        ("gradient in coordinates, consistent", CoordinateGradient, (0.7, 60.0, True), at_ends,
         LOGISTIC, SIGNS),
        ("relative gradient", RelativeGradient, (0.7, 60.0, 4, 0.9),
         lambda query: [(*point, 0.5) for point in at_ends(query)], POISSON, COUNTS),
        ("Gram", Gram, (1.5, 100.0), two_transforms, LOGISTIC, (1.0,)),
        ("moments", ColumnParts, (1.7,), centers, LOGISTIC, SIGNS),
        ("targets in bins", TargetHistogram, (6,), lambda query: [(-1.0, 1.0)], HUBER, NUMBERS),
        ("scores", WeightedScores, (0.7, 0.9, 200.0), stacks, POISSON, COUNTS),
    ]  # fmt: skip
    made = []
    for name, *rest in kinds:
        case = case_of_groups(f"{name} of persons of one row", *rest, 0.9, most=1,
                              storages=("float64", "csr"))  # fmt: skip
        alone = [one for one in case.records if len(one.rows) == 1]
        made.append(replace(case, records=alone))
    return made


#: How many rows of a group count as one: fewer than some have, and more than any has.
COUNTED = (1.0, 2.5, 100.0)


def _cases_of_counted_rows(most: int | None) -> list[Case]:
    """Sums of a loss with a log link, of which that many rows of a group make up one."""

    def counted(query: Any) -> list[tuple[Any, ...]]:
        return [(rows,) for rows in COUNTED]

    def summed(query: Any) -> list[tuple[Any, ...]]:
        return [(1.5, rows) for rows in COUNTED]

    kinds: list[tuple[str, Any, tuple[Any, ...], Any, float]] = [
        ("targets by size", TargetCounts, (6,), counted, 0.99),
        ("targets by size, l1", TargetCounts, (6, "l1"), counted, 0.99),
        ("sum of targets", TargetSum, (), summed, 0.99),
        ("sum of targets, l1", TargetSum, ("l1",), summed, 0.99),
        *(
            (f"relative gradient, to {longest}", RelativeGradient, (BOUND, 60.0, columns, longest),
             lambda query: [
                (stretched(query)[:, -query.dimension :], rows, w, 0.5)
                for rows in COUNTED for w in weights_of(4)
             ], 0.9)
            for columns, longest in ((4, 2.0), (2, 0.7))
        ),
    ]  # fmt: skip
    return [
        case_of_groups(
            f"{name}, rows that count as one, at most {most} rows",
            kind, given, points, POISSON, COUNTS, reached, most=most,
            storages=ALL if kind is RelativeGradient else ("float64", "csr"),
        )
        for name, kind, given, points, reached in kinds
    ]  # fmt: skip


def _cases_of_parts() -> list[Case]:
    """Sums over weighted rows, of which a group has at most as many as make up one."""
    kinds: list[tuple[str, Any, tuple[Any, ...], Any, Loss, tuple[float, ...], float]] = [
        *((f"gradient, {loss.name}", ClippedGradient, (0.7,), at_weights, loss, targets, 0.89)
          for loss, targets in ((LOGISTIC, SIGNS), (HUBER, NUMBERS), (POISSON, COUNTS),
                                (PINBALL, NUMBERS))),
        ("gradient in l1", partial(ClippedGradient, norm="l1", data_l1_norm=2.5), (),
         at_weights, HUBER, NUMBERS, 0.8),
        ("losses of candidates", CandidateLosses, (3, BOUND, 3.0),
         lambda query: [(3.0 * np.eye(4)[:3],)], LOGISTIC, SIGNS, 0.8),
        ("sums of products", ProductSums, (BOUND,), lambda query: [(0.0, BOUND)],
         SQUARED, (1.0, -9.0), 0.9),
    ]  # fmt: skip
    return [
        case_of_groups(f"{name}, rows that are parts of a group", *rest, most=3, storages=ALL)
        for name, *rest in kinds
    ]


#: The weight of the rows' lengths is 3.
WITH_LENGTHS = (1.7, False, None, 0.3, 3.0)


def _cases_in_blocks() -> list[Case]:
    """Rows that come in blocks, each of which is summed as a problem of its own."""
    rows = partial(case_of_rows, blocks=True, storages=("float64", "csr"))
    by_weight = rows("rows by weight", WeightCounts, (6,), alone, POISSON, COUNTS, count=1)
    cut = rows("gradient, weights cut", ClippedGradient, (0.7,), at_weights, POISSON, COUNTS)
    scales = [(np.zeros(3), np.full(3, scale)) for scale in (1.0, 0.1)]
    return [
        rows("step of descent", GradientStep, (0.7, 2e3), at_weights, HUBER, NUMBERS, count=0,
             alpha=0.3, empty=lambda query, w: w - 0.7 * 0.3 * w),
        rows("column parts and lengths", ColumnParts, WITH_LENGTHS, centers, LOGISTIC, SIGNS,
             {"replace_one": 0.91, "add_or_remove_one": 0.99}),
        replace(by_weight, rows=of_two_weights(by_weight.rows)),
        replace(cut, rows=weights_cut(cut.rows)),
        *(
            case_of_groups(
                f"moments and lengths of groups, at most {most} rows", ColumnParts, WITH_LENGTHS,
                lambda query: scales, LOGISTIC, SIGNS,
                {"replace_one": 0.83, "add_or_remove_one": 0.99}, most=most, blocks=True,
            )
            for most in (None, 3)
        ),
        *(rows(*each, 0.4, count=0) for each in _kinds_in_blocks()),
        *(
            case_of_groups(f"{name} of groups, at most 3 rows", *rest, 0.4, most=3, blocks=True)
            for name, *rest in _kinds_of_groups_in_blocks()
        ),
    ]  # fmt: skip


# A query with its arguments and points, the loss and targets.
Kind = tuple[str, Callable[..., Query], tuple[Any, ...], Points, Loss, tuple[float, ...]]


def _kinds_in_blocks() -> list[Kind]:
    """What is asked of rows in memory, too, where more points and records are tried."""

    def at_ends(query: Any, *units: float) -> list[tuple[Any, ...]]:
        return [(stretched(query), w, *units) for w in weights_of(4)[:2]]

    return [
        ("gradient, consistent", CoordinateGradient, (0.7, 60.0, True), at_ends, LOGISTIC, SIGNS),
        ("gradient, told whether consistent", CoordinateGradient, (0.7, 60.0, None),
         lambda query: [(W, flag, w) for W, w in at_ends(query) for flag in (True, False)],
         LOGISTIC, SIGNS),
        ("relative gradient", RelativeGradient, (0.7, 60.0, 4),
         lambda query: at_ends(query, 1.0), HUBER, NUMBERS),
        ("Gram", Gram, (1.5, 100.0), two_transforms, LOGISTIC, (1.0,)),
        ("targets by size", TargetCounts, (6,), alone, POISSON, COUNTS),
        ("targets in bins", TargetHistogram, (6,), lambda query: [(-1.0, 1.0)], HUBER, NUMBERS),
        ("tails of targets", TargetTails, (3,), lambda query: [(0.0, 0.1, 1.0)], HUBER, NUMBERS),
        *((name, kind, (), lambda query: along_constant(query)[:4], PINBALL, NUMBERS)
          for name, kind in ALONG_CONSTANT.items()),
        *((name, *kind, column_ranges, LOGISTIC, SIGNS) for name, kind in RANGES.items()),
        *((kind.__name__, kind, (0.7, 0.9, 200.0), stacks, POISSON, COUNTS)
          for kind in WEIGHTED),
    ]  # fmt: skip


def _kinds_of_groups_in_blocks() -> list[Kind]:
    """The same of groups."""
    return [
        ("gradient", GroupGradient, (60.0, 0.5), lambda query: group_points(query)[::7], LOGISTIC,
         SIGNS),
        ("Gram", Gram, (1.5, 100.0), two_transforms, LOGISTIC, SIGNS),
        ("targets in bins", TargetHistogram, (6,), lambda query: [(-1.0, 1.0)], HUBER, NUMBERS),
        ("tails of targets", TargetTails, (3,), lambda query: [(0.0, 0.1, 1.0)], HUBER, NUMBERS),
        ("relative gradient", RelativeGradient, (BOUND, 60.0, 4),
         lambda query: [(stretched(query), 2.5, w, 0.5) for w in weights_of(4)[:2]],
         POISSON, COUNTS),
        *((kind.__name__, kind, (0.7, 0.9, 200.0), stacks, HUBER, NUMBERS)
          for kind, _ in weighted_of(HUBER)),
    ]  # fmt: skip


def _cases() -> list[Case]:
    return [
        *_cases_of_columns(),
        *_cases_of_gradients(),
        *_cases_of_targets(),
        *_cases_of_weights(),
        *_cases_of_points(),
        *_cases_of_losses(),
        *_cases_of_batches(),
        *_cases_of_tables(),
        *_cases_in_blocks(),
    ]


def _cases_of_columns() -> list[Case]:
    """Moments of columns, and the queries of estimates with a covariance."""
    cases = [
        # A row on an axis has all that a row can have.
        case_of_rows(
            f"column parts, {loss.name}, radius, squares, classes, weights {chosen}",
            ColumnParts, chosen, centers, loss, targets, intercept=intercept,
        )
        for chosen, loss, targets, intercept in (
            ((1.0, True), LOGISTIC, SIGNS, 1.0),
            ((1.7, True), LOGISTIC, SIGNS, 0.0),
            ((1.7, False, 3), LOGISTIC, CLASSES, 1.0),
            ((1.0, False), HUBER, (1.0,), 0.0),
            ((1.7, False, None, 3.0), LOGISTIC, SIGNS, 1.0),
            ((1.0, True, 3, 3.0), LOGISTIC, CLASSES, 1.0),
        )
    ]  # fmt: skip
    cases += [
        # One number has all that it can move by from a row of zeros, which the others do not.
        case_of_rows(f"column parts and lengths {chosen}", ColumnParts, chosen, centers, LOGISTIC,
                     SIGNS, {"replace_one": 0.91, "add_or_remove_one": 0.99})
        for chosen in (WITH_LENGTHS, (1.0, True, 0, 0.3, 3.0))
    ]  # fmt: skip
    cases.append(case_of_rows("Gram", Gram, (1.5, 100.0), two_transforms, LOGISTIC, (1.0,)))
    shapes = partial(ColumnParts, n_classes=0)
    cases += [
        case_of_rows(f"shapes of columns, radius {r}", shapes, (r,), centers, LOGISTIC, (1.0,))
        for r in (1.0, 1.7)
    ]
    cases += [
        case_of_rows(name, kind, given, column_ranges, LOGISTIC, SIGNS)
        for name, (kind, given) in RANGES.items()
    ]
    for loss, targets in (
        *((LOGISTIC, SIGNS), (SQUARED, NUMBERS), (HUBER, NUMBERS)),
        *((POISSON, COUNTS), (GAMMA, COSTS), (Loss("tweedie", 1.5, 1.0), COUNTS)),
        (Loss("negative-binomial", 0.5, 1.0), COUNTS),
    ):
        cases += [
            case_of_rows(f"{kind.__name__}, {loss.name}", kind, (0.7, 0.9, 200.0), stacks, loss,
                         targets, reached)
            for kind, reached in weighted_of(loss)
        ]  # fmt: skip
    return cases


def _cases_of_gradients() -> list[Case]:
    cases = []
    for loss, targets, consistent in (
        (LOGISTIC, SIGNS, False), (LOGISTIC, SIGNS, True), (HUBER, NUMBERS, False)
    ):  # fmt: skip
        for clip in (0.7, 50.0):
            cases.append(
                case_of_rows(
                    f"gradient in coordinates, {loss.name}, clip {clip}"
                    + (", consistent" if consistent else ""),
                    CoordinateGradient,
                    (clip, 60.0, consistent),
                    lambda query: [
                        (transform, w)
                        for transform in (transform_of(query), stretched(query), thin(query))
                        for w in weights_of(4)
                    ],
                    loss,
                    targets,
                    0.99 if clip < 1.0 else 0.7,
                )
            )
            if not consistent:
                name = f"gradient, {loss.name}, clip {clip}"
                cases.append(
                    case_of_rows(name, ClippedGradient, (clip,), at_weights, loss, targets)
                )
    cases.append(
        case_of_rows(
            "gradient in coordinates, told whether consistent",
            CoordinateGradient,
            (0.7, 60.0, None),
            lambda query: [
                (transform, consistent, w)
                for transform in (transform_of(query), stretched(query), thin(query))
                for consistent in (True, False)
                for w in weights_of(4)
            ],
            LOGISTIC,
            SIGNS,
            0.99,
        )
    )
    cases.append(
        case_of_rows(
            "gradient in two coordinates, consistent",
            CoordinateGradient,
            (0.3, 60.0, True, 2),
            lambda query: [
                (transform[:, -2:], w)
                for transform in (transform_of(query), stretched(query))
                for w in weights_of(4)
            ],
            LOGISTIC,
            SIGNS,
        )
    )
    cases += [
        case_of_rows(
            f"gradient in coordinates of a narrower corner, {loss.name}",
            CoordinateGradient,
            (0.7, 60.0),
            lambda query: [
                (stretched(query), w, corner) for w in weights_of(4) for corner in (1e-3, 1.0, 9.0)
            ],
            loss,
            targets,
        )
        for loss, targets in ((HINGE, SIGNS), (Loss("pinball", 0.9), NUMBERS))
    ]
    cases += [
        case_of_rows(
            f"gradient in l1, {loss.name}, {options}",
            partial(ClippedGradient, norm="l1", **options),
            (),
            at_weights,
            loss,
            SIGNS if loss is LOGISTIC else NUMBERS,
        )
        for loss, options in (
            (LOGISTIC, {}),
            (LOGISTIC, {"clip_norm": 0.7}),
            (LOGISTIC, {"data_l1_norm": 2.5}),
            (HUBER, {"data_l1_norm": 2.5}),
        )
    ]
    cases += [
        case_of_rows(
            f"step of descent, {loss.name}", GradientStep, (0.7, 2e3), at_weights, loss, targets,
            alpha=0.3, empty=lambda query, w: w - 0.7 * 0.3 * w,
        )
        for loss, targets in ((LOGISTIC, SIGNS), (HUBER, NUMBERS))
    ]  # fmt: skip
    cases += [
        case_of_rows(
            "gradient of classes" + (", consistent" if consistent else ""),
            ClassGradient,
            (0.7, 60.0, 3, consistent),
            lambda query: [
                (stretched(query), w)
                for w in (
                    np.zeros((3, 3)),
                    *(1e3 * np.random.default_rng(k).standard_normal((3, 3)) for k in range(6)),
                )
            ],
            LOGISTIC,
            CLASSES,
            d=2,
        )
        for consistent in (False, True)
    ]
    return cases


def weights_cut(rows: Callable[..., Problem]) -> Callable[..., Problem]:
    """The rows with weights that are cut far below their bound, and stretched to it."""

    def cut(records: list[Record], *given: Any) -> Problem:
        light = [replace(record, weight=record.weight / 300.0) for record in records]
        return rows(light, *given).with_weights_cut(WEIGHT / 400.0)

    return cut


def of_two_weights(rows: Callable[..., Problem]) -> Callable[..., Problem]:
    """The rows, of which those of higher targets weigh an eighth."""

    def of(records: Sequence[Record], *given: Any) -> Problem:
        light = [replace(r, weight=r.weight / 8.0) if r.y > 0.0 else r for r in records]
        return rows(light, *given)

    return of


def _cases_of_weights() -> list[Case]:
    plain = [
        case_of_rows("rows by weight", WeightCounts, (6,), alone, POISSON, COUNTS, count=1),
        case_of_rows("targets by size, weights cut", TargetCounts, (6,), alone, POISSON, COUNTS,
                     count=1),
        case_of_rows("gradient, weights cut", ClippedGradient, (0.7,), at_weights, POISSON, COUNTS),
    ]  # fmt: skip
    return [
        replace(plain[0], rows=of_two_weights(plain[0].rows)),
        *(replace(case, rows=weights_cut(case.rows)) for case in plain[1:]),
    ]


def _cases_of_targets() -> list[Case]:
    cases = [
        # A target of 0 and one beyond the top.
        case_of_rows("sum of targets", TargetSum, (), lambda query: [(1.5,), (3.0,)], POISSON,
                     COUNTS, count=1),
        case_of_rows("tails of targets", TargetTails, (3,),
                     lambda query: [(0.0, 0.1, 1.0), (-0.9, 1e-6, 1.9)], HUBER, NUMBERS, count=1),
        case_of_rows("sums of products", ProductSums, (BOUND,),
                     lambda query: [(0.0, BOUND), (0.0, 1e-3), (5.0, 2.0)], SQUARED,
                     (1.0, -1.0, 9.0, -9.0), d=2, count=6, intercept=0.0),
    ]  # fmt: skip
    for loss, targets in (
        (POISSON, COUNTS), (GAMMA, (1.0, 2.0)), (Loss("tweedie", 1.5, width=1.0), COUNTS)
    ):  # fmt: skip
        name = f"targets by size, {loss.name}"
        cases.append(case_of_rows(name, TargetCounts, (6,), alone, loss, targets, count=1))
        cases += [
            case_of_rows(
                f"relative gradient, {loss.name}, {columns} columns, to {longest}",
                RelativeGradient,
                (0.7, 60.0, columns, longest),
                lambda query: [
                    (transform[:, -query.dimension :], w, *units)
                    for transform in (transform_of(query), stretched(query))
                    for w in weights_of(4)
                    for units in ((1e-3,), (1.0,), (30.0,), (1e-3, 1e-2), (1.0, 30.0))
                ],
                loss,
                targets,
                # Two slopes that pull in opposite directions need a target of zero.
                {"replace_one": 0.5 if loss is GAMMA else 0.99, "add_or_remove_one": 0.99},
                count=6,
            )
            for columns, longest in ((4, 2.0), (4, 0.3), (4, math.inf), (2, math.inf), (2, 0.94))
        ]
    cases += [
        case_of_rows(
            f"relative gradient of residuals in other units, {loss.name}",
            RelativeGradient,
            (0.7, 60.0, 4),
            lambda query: [
                (stretched(query), w, unit, size)
                for w in weights_of(4)
                for unit, size in ((1e-3, 1e-2), (1.0, 1e-3), (1.0, 1.0), (30.0, 30.0))
            ],
            loss,
            NUMBERS,
            count=6,
        )
        for loss in (HUBER, Loss("pinball", 0.9))
    ]
    cases += [
        case_of_rows(f"targets in bins, {norm}", TargetHistogram, (6, norm),
                     lambda query: [(-1.0, 1.0), (0.9, 1.1), (1e-3, 8.0)], HUBER, NUMBERS, count=1)
        for norm in ("l2", "l1")
    ]  # fmt: skip
    return cases + [
        case_of_rows(name, kind, (), along_constant, PINBALL, NUMBERS, count=3)
        for name, kind in ALONG_CONSTANT.items()
    ]


def _cases_of_points() -> list[Case]:
    """Minimizers and iterates: means over the rows, whose number is public."""

    def case_of_means(
        name: str,
        make: Callable[[int], Query],
        loss: Loss,
        targets: tuple[float, ...],
        reached: float | dict[str, float] = 0.99,
        points: Callable[[Query], list[tuple[Any, ...]]] = alone,
    ) -> Case:
        rows = ball(2, targets, count=4)
        return Case(name, make, points, rows, mean_of(loss), both(reached), ALL)

    def minimizer(size: int, name: str, loss: Loss) -> CertifiedMinimizer:
        public = objective_shape(name, shape_of(loss, size, 2), 200.0)
        return CertifiedMinimizer(public, 1e-2 if loss.smoothed else 1e-8)

    # A ridge beside which margins stay on the steep side of a hinge.
    cases = [
        case_of_means(
            f"minimizer, {name}, {loss.name}", partial(minimizer, name=name, loss=loss), loss,
            targets, {"replace_one": replaced, "add_or_remove_one": removed},
        )
        for name, loss, targets, replaced, removed in (
            ("erm", HINGE, SIGNS, 0.99, 0.99),
            ("erm", Loss("hinge"), SIGNS, 0.99, 0.99),
            ("erm", LOGISTIC, SIGNS, 0.49, 0.49),
            ("erm", HUBER, NUMBERS, 0.99, 0.99),
            ("tilted", HINGE, SIGNS, 0.99, 0.7),
            ("adversarial", HINGE, SIGNS, 0.95, 0.92),
        )
    ]  # fmt: skip
    cases.append(
        case_of_means(
            "minimizer in other units",
            lambda size: MinimizerInUnits(ErmShape(shape_of(HUBER, size, 2), 200.0), 1e-6, 1e3),
            HUBER,
            NUMBERS,
            points=lambda query: [(0.0, 1.0), (0.7, 0.05), (-0.3, 1e-3)],
        )
    )

    def iterate(size: int, *given: Any) -> DescentIterate:
        return DescentIterate(shape_of(HINGE, size, 2), *given)

    for given in ((0.0, 1, 0.1), (0.0, 4, 1e-3), (2.0, 4, 1e-3), (2.0, 30, 0.1)):
        alpha, iterations, step = given
        cases.append(
            case_of_means(
                f"descent, alpha {alpha}, {iterations} steps of {step}",
                lambda size, given=given: iterate(size, *given),
                HINGE,
                SIGNS,
                0.99 if iterations < 30 else 0.29,
            )
        )
    return cases


def _cases_of_losses() -> list[Case]:
    candidates = np.vstack([np.zeros(4), 3.0 * np.eye(4), -3.0 * np.eye(4)])
    given = len(candidates), BOUND, 3.0
    cases = []
    for loss, targets in ((LOGISTIC, SIGNS), (HUBER, NUMBERS)):
        cases += [
            case_of_rows(
                f"losses of candidates, {loss.name}", CandidateLosses, given,
                lambda query: [(candidates,)], loss, targets, alpha=0.3,
                empty=lambda query, w: query.ridge * np.sum(w * w, axis=1),
            ),
            case_of_rows(
                f"losses at steps, {loss.name}", LineSearchLosses, (len(_STEPS), BOUND),
                lambda query: (
                    [(-20.0 * axis, -axis, _STEPS, query_size(query)) for axis in np.eye(4)]
                    + [(w, np.array([0.6, 0.0, 0.8, 0.0]), _STEPS, 1) for w in weights_of(4)]
                ),
                loss, targets, alpha=1e-3, empty=_ridge_alone,
            ),
        ]  # fmt: skip
    return cases


def _cases_of_batches() -> list[Case]:
    def batch(shape: ProblemShape, clip: float, differences: bool) -> BatchSum:
        return BatchSum(shape, "fixed-size", shape.n_samples, clip, differences=differences)

    def points(query: Any) -> list[tuple[Any, ...]]:
        if not query.differences:
            return [(w, ALL_ROWS) for w in weights_of(4)]
        return [(w, ALL_ROWS, -w) for w in weights_of(4)]

    cases = []
    for loss, differences, clip in itertools.product(
        (LOGISTIC, HUBER), (False, True), (0.7, math.inf)
    ):
        # The slope of the logistic loss has one sign, so that two differ by half as much.
        half = differences and clip == math.inf and loss is LOGISTIC
        cases.append(
            case_of_rows(
                f"batch, {loss.name}, differences {differences}, clip {clip}",
                batch,
                (clip, differences),
                points,
                loss,
                SIGNS if loss is LOGISTIC else NUMBERS,
                0.49 if half else 0.99,
                storages=("float64",),
            )
        )
    return cases


def _cases_of_tables() -> list[Case]:
    """Columns of tables, of rows and of rows that belong to persons."""
    levels, nan = (-1.0, 1.0, 3.0), math.nan
    pairs = [Record((a, b), 0.0) for a in (*levels, 9.0, 1.7) for b in levels]
    cases = [
        Case(
            f"{name} for {relation}",
            lambda size, relation=relation: ColumnSums(
                size, np.full(2, -1.0), np.full(2, 3.0), relation
            ),
            alone,
            records,
            rows,
            dict.fromkeys(RELATIONS, 0.0) | {relation: 0.99},
        )
        for relation in RELATIONS
        for name, records, rows in (
            ("column sums", pairs, table_of),
            ("column sums of groups", table_people(levels, 2), grouped_columns),
        )
    ]
    places = [Record((a, b), 0.0) for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0, nan)]
    cases += [
        Case(
            name,
            lambda size: CountsBeyond(2),
            lambda query: [
                (np.array([[-0.5, 0.5], [0.5, -0.5]]),),
                (np.array([[0.5, 0.5], [-0.5, -0.5]]),),
            ],
            records,
            rows,
            both(reached),
        )
        for name, records, rows, reached in (
            ("counts beyond places", places, table_of, 1.0),
            ("counts of groups beyond places", table_people((-1.0, 0.0, 1.0, nan), 2),
             grouped_columns, 0.99),
        )
    ]  # fmt: skip
    values = [Record((v,), 0.0) for v in (-1.0, 0.0, 0.1, 0.5, 0.99, 1.0, 7.0)]
    middle = Record((0.3,), 0.0)
    cases += [
        Case(
            name,
            lambda size: RankScores(5),
            lambda query: [(0, np.linspace(0.0, 1.0, 5), target) for target in (0, 1, 3)],
            records,
            rows,
            both(reached),
            empty=lambda query, column, ends, target: np.full(len(ends), -float(target)),
            others=(other,) * 2,
        )
        for name, records, rows, reached, other in (
            ("ranks", values, table_of, 1.0, middle),
            ("ranks of groups", table_people((-1.0, 0.1, 0.99, 7.0), 1), grouped_columns, 0.99,
             Person((middle,))),
        )
    ]  # fmt: skip
    cases += [
        Case(
            f"classes, {classes} in {norm}",
            lambda size, norm=norm, classes=classes: ClassCounts(size, classes, norm),
            alone,
            [Record((0.0,), float(label)) for label in range(classes)],
            lambda records, storage, size: np.array([int(r.y) for r in records]),
            both(0.99),
        )
        for norm in ("l1", "l2")
        for classes in (2, 4)
    ]
    cases.append(
        Case(
            "scores",
            lambda size: ScoreSum(size, "l2"),
            lambda query: [(lambda X, y: X[:, 0],)],
            [Record((v,), 0.0) for v in (-1.0, 0.0, 0.5, 1.0, 7.0, nan)],
            lambda records, *rest: (table_of(records, *rest), np.zeros(len(records))),
            both(1.0),
        )
    )
    return cases


def grouped_columns(people: list[Person], _storage: str, _size: int) -> GroupedColumns:
    """Persons as the columns of a table, each of which counts the mean over her rows."""
    sizes = np.array([len(one.rows) for one in people])
    X = np.array([record.x for one in people for record in one.rows])
    return GroupedColumns(X, np.repeat(sizes, sizes))


def table_people(values: tuple[float, ...], columns: int) -> list[Person]:
    """Persons of one row, of many alike, and of opposed ones."""
    rows = [Record(x, 0.0) for x in itertools.product(values, repeat=columns)]
    pairs = [Person((one, two, two)) for one, two in itertools.pairwise(rows)]
    return [*(Person((row,) * m) for row in rows for m in (1, 7)), *pairs]


CASES = [*_cases(), *group_cases()]
