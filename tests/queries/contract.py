"""The contract of a query, checked on the query itself: a case a kind, and what to hold it to.

A case says which rows could be a record, worst ones among them, and which arguments the query is
asked with.  `check` compares the query's values on neighbors, that differ in one record, with what
the query states of them; whoever states too little fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from dpfast import Loss, Problem, ProblemShape
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
    WeightedCurvature,
    WeightedScores,
    estimating,
)
from dpfast.queries.columns import GroupedColumns

RELATIONS = ("replace_one", "add_or_remove_one")
NORM, BOUND, WEIGHT = 2.0, 0.8, 2.5
SIZES = (1, 2, 3, 5, 40)
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
    empty: Callable[..., Any] = lambda query, *point: np.zeros(query.dimension)
    others: tuple[Record, ...] = ()


def value(case: Case, query: Query, records: list[Record], point: tuple[Any, ...], storage: str):
    """The query's value; of no record, that of an empty sum."""
    if not records:
        return np.asarray(case.empty(query, *point))
    point = tuple(np.arange(len(records)) if part is ALL_ROWS else part for part in point)
    return np.asarray(query.evaluate(case.rows(records, storage, query_size(query)), *point))


def query_size(query: Query) -> int:
    shape = getattr(query, "shape", None)
    return shape.n_samples if shape is not None else query.n_samples  # type: ignore[attr-defined]


def distance(query: Query, one: np.ndarray, two: np.ndarray) -> float:
    """What the query's sensitivity is to bound."""
    change = one - two
    if query.norm == "range":
        return float(np.ptp(np.append(change, 0.0)))
    return float(np.linalg.norm(change, 1 if query.norm == "l1" else 2))


def allowed(query: Query, relation: str) -> float:
    """The stated sensitivity, and what rounding may add to it as the mechanisms charge it."""
    error = query.rounding_error()
    if query.norm == "range":
        return query.sensitivity(relation) + 4.0 * error
    if query.norm == "l1":
        return query.sensitivity(relation) + 2.0 * math.sqrt(query.dimension) * error
    return query.sensitivity(relation) + 2.0 * error


def neighbors(records: list[Record], relation: str) -> Iterator[tuple[list[Record], list[Record]]]:
    """The differing record of two neighbors, as lists of at most one."""
    if relation == "add_or_remove_one":
        yield from (([record], []) for record in records)
    else:
        yield from (([one], [two]) for one, two in itertools.combinations(records, 2))


def check(case: Case, relation: str) -> None:
    """Hold the query to what it states, and where it says so to having said no more.

    Raises
    ------
    AssertionError
    """
    query = case.make(1 + len(case.others))
    farthest: float = 0.0
    worst: tuple[Any, ...] = ()
    for point in case.arguments(query):
        known: dict[tuple[Record, ...], np.ndarray] = {}
        for one, two in neighbors(case.records, relation):
            for side in (one, two):
                if tuple(side) not in known:
                    rows = [*case.others, *side]
                    known[tuple(side)] = value(case, query, rows, point, "float64")
            apart = distance(query, known[tuple(one)], known[tuple(two)])
            if apart > farthest:
                farthest, worst = apart, (one, two, point)
    assert worst, f"{case.name}: all records look alike"
    limit = allowed(query, relation)
    assert farthest <= limit, f"{case.name}: {farthest:.6g} apart, {limit:.6g} stated"
    least = case.reached[relation] * query.sensitivity(relation)
    assert farthest >= least, f"{case.name}: {farthest:.6g} reached, {least:.6g} expected"
    # The worst pair, and any two, among others, however many they are and however they are stored.
    rng = np.random.default_rng(7)
    pairs = list(neighbors(case.records, relation))
    for size, storage in itertools.product(SIZES, case.storages):
        query = case.make(size)
        others = [case.records[k] for k in rng.integers(len(case.records), size=size - 1)]
        place = int(rng.integers(size))
        drawn = [pairs[k] for k in rng.integers(len(pairs), size=_DRAWN)]
        points = case.arguments(query)
        for one, two, point in (
            worst, *((*pair, points[rng.integers(len(points))]) for pair in drawn)
        ):  # fmt: skip
            values = [
                value(case, query, [*others[:place], *side, *others[place:]], point, storage)
                for side in (one, two)
            ]
            apart, limit = distance(query, *values), allowed(query, relation)
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


def problem_of(loss: Loss, **settings: Any) -> Callable[[list[Record], str, int], Problem]:
    """Rows as a problem whose public bounds are those of the queries."""

    def rows(records: list[Record], storage: str, _size: int, **more: Any) -> Problem:
        labels = [max(record.y, 0.0) for record in records]
        targets = [record.y for record in records]
        if loss.kind == "classification":
            targets = [1.0 if y > 0 else -1.0 for y in targets]
        X = np.array([record.x for record in records])
        if storage == "float32":
            X = np.clip(X, -1e30, 1e30)
        weight = np.array([record.weight for record in records])
        problem = Problem(
            STORAGES[storage](X), targets, loss, data_norm=NORM, sample_weight=weight,
            max_weight=WEIGHT, **settings, **more,
        )  # fmt: skip
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


def group_shape(loss: Loss, size: int, most: int | None, alpha: float | None = None) -> Any:
    return ProblemShape(
        size, 3, NORM, loss, 1.0, alpha, WEIGHT, unit="group", max_rows_per_group=most
    )


def shape_of(
    loss: Loss, size: int, d: int, intercept: float = 1.0, alpha: float | None = None
) -> ProblemShape:
    return ProblemShape(size, d, NORM, loss, intercept, alpha, WEIGHT)


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


def stacks(query: Any) -> list[tuple[Any, ...]]:
    """Coordinates for scores, others for curvatures, weights near and far, scales and parts."""
    score, curvature = transform_of(query), stretched(query)
    least, largest = estimating.scales(query.shape.loss)
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
    """Those that a loss has: targets are counted with a log link alone."""
    return [one for one in WEIGHTED.items() if loss.log_link or one[0] is not TargetSizes]


#: Two columns of three in bins, and long rows.
RANGES: dict[str, Callable[[Any], Query]] = {
    "columns in bins": lambda shape: ColumnHistogram(shape, np.array([0, 2]), 5),
    "long rows": LongRows,
}


def column_ranges(query: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ends of bins, or centers and factors of columns; zeros lie in outer bins and in others."""
    if isinstance(query, ColumnHistogram):
        return [(-np.ones(2), np.ones(2)), (np.array([0.1, -2.0]), np.array([0.3, -0.1]))]
    scaled = (0.0, np.ones(3)), (0.0, np.full(3, 200.0)), (0.3, np.array([50.0, 0.0, 1.0]))
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


def group_points(query: Any) -> list[tuple[Any, ...]]:
    """Radii at which rows, groups and neither are cut, at weights near and far from zero."""
    k, dim = query.n_classes, query.shape.dim
    weights = [np.zeros(dim), *1e3 * np.eye(dim)[[0, -1]], weights_of(dim)[-1]]
    if k > 1:
        drawn = np.random.default_rng(2)
        weights = [np.zeros((dim, k)), *(1e3 * drawn.standard_normal((2, dim, k)))]
    radii = ((0.7, 5.0, 2.0, 0.0), (3.0, 1.5, 1.0, 0.3), (1e3, 1e3, 0.5, 1.0))
    transforms = (transform_of(query), stretched(query))
    return [(t, w, *each) for t in transforms for w in weights for each in radii]


def group_cases() -> list[Case]:
    """Queries of persons: whole ones, and rows that count a part of one."""
    people, both = persons(3, SIGNS), dict.fromkeys(RELATIONS, 0.99)
    problem = problem_of(LOGISTIC)
    cases = [
        Case(
            "sizes of groups",
            lambda size: GroupSizes(group_shape(LOGISTIC, size, None)),
            lambda query: [()],
            people,
            grouped(problem),
            both,
        )
    ]
    for most in (None, 3):
        cases += [
            Case(
                f"targets in bins, at most {most} rows, {norm}",
                lambda size, most=most, norm=norm: TargetHistogram(
                    group_shape(HUBER, size, most), 6, norm
                ),
                lambda query: [(-1.0, 1.0)],
                persons(3, NUMBERS),
                grouped(problem_of(HUBER, max_rows_per_group=most), mixed),
                both,
            )
            for norm in ("l2", "l1")
        ]
        cases += [
            Case(
                f"{name}, at most {most} rows",
                lambda size, most=most, kind=kind: kind(group_shape(PINBALL, size, most)),
                along_constant,
                persons(3, NUMBERS),
                grouped(problem_of(PINBALL, max_rows_per_group=most), mixed),
                both,
            )
            for name, kind in ALONG_CONSTANT.items()
        ]
        cases.append(
            Case(
                f"gradient of groups, residuals in other units, at most {most} rows",
                lambda size, most=most: GroupGradient(group_shape(PINBALL, size, most), 60.0, 0.5),
                lambda query: [
                    (*point, size) for point in group_points(query) for size in (1e-6, 0.3, 40.0)
                ],
                persons(3, NUMBERS),
                grouped(problem_of(PINBALL, max_rows_per_group=most), mixed),
                dict.fromkeys(RELATIONS, 0.9),
            )
        )
        limited = partial(problem, max_rows_per_group=most)
        orders = (grouped(limited, order) for order in (in_turn, mixed))
        for rows, name in zip(orders, ("sorted", "mixed"), strict=True):
            ways = [(classes, alike) for classes in (1, 3) for alike in (False, name == "mixed")]
            for classes, alike in dict.fromkeys(ways):
                cases.append(
                    Case(
                        f"gradient of groups, {classes} classes, at most {most} rows, {name}"
                        + (", consistent" if alike else ""),
                        lambda size, most=most, classes=classes, alike=alike: GroupGradient(
                            group_shape(LOGISTIC, size, most), 60.0, 0.5, classes, alike
                        ),
                        group_points,
                        people if classes == 1 else persons(3, CLASSES),
                        rows,
                        dict.fromkeys(RELATIONS, 0.9),
                        ALL if name == "mixed" else ("float64",),
                    )
                )
        cases += [
            Case(
                f"moments of groups, at most {most} rows",
                lambda size, most=most: ColumnParts(group_shape(LOGISTIC, size, most), 1.7),
                lambda query: [(np.zeros(3), np.full(3, scale)) for scale in (1.0, 0.1)],
                people,
                rows,
                {"replace_one": 0.83, "add_or_remove_one": 0.99},
                ALL,
            ),
            *(
                Case(
                    f"{name} of groups, at most {most} rows",
                    lambda size, most=most, query=query: query(group_shape(LOGISTIC, size, most)),
                    column_ranges,
                    people,
                    rows,
                    both,
                    ALL,
                )
                for name, query in RANGES.items()
            ),
            Case(
                f"Gram of groups, at most {most} rows",
                lambda size, most=most: Gram(group_shape(LOGISTIC, size, most), 1.5, 100.0),
                lambda query: [(transform_of(query),), (stretched(query),)],
                people,
                rows,
                both,
                ALL,
            ),
        ]
        for loss, targets in ((LOGISTIC, SIGNS), (HUBER, NUMBERS), (POISSON, COUNTS)):
            limited = partial(problem_of(loss), max_rows_per_group=most)
            cases += [
                Case(
                    f"{kind.__name__} of groups, {loss.name}, at most {most} rows",
                    lambda size, loss=loss, kind=kind, most=most: kind(
                        group_shape(loss, size, most), 0.7, 0.9, 200.0
                    ),
                    stacks,
                    persons(3, targets),
                    grouped(limited, mixed),
                    dict.fromkeys(RELATIONS, min(reached, 0.85)),
                    ALL,
                )
                for kind, reached in weighted_of(loss)
            ]
    return cases + _cases_of_parts()


def _cases_of_parts() -> list[Case]:
    """Sums over weighted rows, of which a group has at most as many as make up one."""
    made = []
    kinds: list[tuple[str, Loss, tuple[float, ...], Callable[[Any], Query], Any, float]] = [
        ("gradient", LOGISTIC, SIGNS, lambda shape: ClippedGradient(shape, 0.7),
         lambda query: [(w,) for w in weights_of(4)], 0.9),
        ("targets by size", POISSON, (0.0, 1.0, 2.0), lambda shape: TargetCounts(shape, 6),
         lambda query: [()], 0.99),
        ("targets by size, l1", POISSON, (0.0, 1.0, 2.0),
         lambda shape: TargetCounts(shape, 6, "l1"), lambda query: [()], 0.99),
        ("sum of targets, l1", POISSON, (0.0, 1.0, 2.0), lambda shape: TargetSum(shape, "l1"),
         lambda query: [(1.5,)], 0.99),
        ("sum of targets", POISSON, (0.0, 1.0, 2.0), lambda shape: TargetSum(shape),
         lambda query: [(1.5,)], 0.99),
        ("relative gradient", POISSON, (0.0, 1.0, 2.0),
         lambda shape: RelativeGradient(shape, BOUND, 60.0, 4, 2.0),
         lambda query: [(stretched(query), w, 0.5) for w in weights_of(4)], 0.9),
        ("losses of candidates", LOGISTIC, SIGNS,
         lambda shape: CandidateLosses(shape, 3, BOUND, 3.0),
         lambda query: [(3.0 * np.eye(4)[:3],)], 0.8),
        ("tails of targets", HUBER, NUMBERS, lambda shape: TargetTails(shape, 3),
         lambda query: [(0.1, 0.01, 1.1)], 0.99),
        ("sums of products", SQUARED, (1.0, -9.0), lambda shape: ProductSums(shape, BOUND),
         lambda query: [(0.0, BOUND)], 0.9),
    ]  # fmt: skip
    for name, loss, targets, query, points, reached in kinds:
        made.append(
            Case(
                f"{name}, rows that are parts of a group",
                lambda size, loss=loss, query=query: query(group_shape(loss, size, 3)),
                points,
                persons(3, targets),
                grouped(problem_of(loss, max_rows_per_group=3), mixed),
                dict.fromkeys(RELATIONS, reached),
                ALL,
            )
        )
    return made


def _cases() -> list[Case]:
    cases = [
        Case(
            f"column parts, {loss.name}, radius, squares, classes, weight of counts {chosen}",
            lambda size, chosen=chosen, loss=loss, intercept=intercept: ColumnParts(
                shape_of(loss, size, 3, intercept), *chosen
            ),
            lambda query: (
                [(np.zeros(3), np.full(3, scale)) for scale in (1.0, 0.1)]
                + [(np.full(3, 0.3), np.array([0.1, 1.0, 2.0]))]
            ),
            ball(3, targets),
            problem_of(loss, intercept=intercept),
            # A row on an axis has all that a row can have.
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
        for chosen, loss, targets, intercept in (
            ((1.0, True), LOGISTIC, SIGNS, 1.0),
            ((1.7, True), LOGISTIC, SIGNS, 0.0),
            ((1.7, False, 3), LOGISTIC, CLASSES, 1.0),
            ((1.0, False), HUBER, (1.0,), 0.0),
            ((1.7, False, None, 3.0), LOGISTIC, SIGNS, 1.0),
            ((1.0, True, 3, 3.0), LOGISTIC, CLASSES, 1.0),
        )
    ]
    cases += [
        Case(
            "Gram",
            lambda size: Gram(shape_of(LOGISTIC, size, 3), 1.5, 100.0),
            lambda query: [(transform_of(query),), (stretched(query),)],
            ball(3, (1.0,)),
            problem_of(LOGISTIC),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
    ]
    cases += [
        Case(
            f"shapes of columns, radius {radius}",
            lambda size, radius=radius: ColumnParts(
                shape_of(LOGISTIC, size, 3), radius, n_classes=0
            ),
            lambda query: (
                [(np.zeros(3), np.full(3, scale)) for scale in (1.0, 0.1)]
                + [(np.full(3, 0.3), np.array([0.1, 1.0, 2.0]))]
            ),
            ball(3, (1.0,)),
            problem_of(LOGISTIC),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
        for radius in (1.0, 1.7)
    ]
    for loss, targets in (
        *((LOGISTIC, SIGNS), (SQUARED, NUMBERS), (HUBER, NUMBERS)),
        *((POISSON, COUNTS), (GAMMA, COSTS), (Loss("tweedie", 1.5, 1.0), COUNTS)),
        (Loss("negative-binomial", 0.5, 1.0), COUNTS),
    ):
        for kind, reached in weighted_of(loss):
            cases.append(
                Case(
                    f"{kind.__name__}, {loss.name}",
                    lambda size, loss=loss, kind=kind: kind(
                        shape_of(loss, size, 3), 0.7, 0.9, 200.0
                    ),
                    stacks,
                    ball(3, targets),
                    problem_of(loss),
                    dict.fromkeys(RELATIONS, reached),
                    ALL,
                )
            )
    for loss, targets, consistent in (
        (LOGISTIC, SIGNS, False), (LOGISTIC, SIGNS, True), (HUBER, NUMBERS, False)
    ):  # fmt: skip
        for clip in (0.7, 50.0):
            cases.append(
                Case(
                    f"gradient in coordinates, {loss.name}, clip {clip}"
                    + (", consistent" if consistent else ""),
                    lambda size, loss=loss, clip=clip, consistent=consistent: CoordinateGradient(
                        shape_of(loss, size, 3), clip, 60.0, consistent
                    ),
                    lambda query: [
                        (transform, w)
                        for transform in (transform_of(query), stretched(query), thin(query))
                        for w in weights_of(4)
                    ],
                    ball(3, targets),
                    problem_of(loss),
                    dict.fromkeys(RELATIONS, 0.99 if clip < 1.0 else 0.7),
                    ALL,
                )
            )
            if consistent:
                continue
            cases.append(
                Case(
                    f"gradient, {loss.name}, clip {clip}",
                    lambda size, loss=loss, clip=clip: ClippedGradient(
                        shape_of(loss, size, 3), clip
                    ),
                    lambda query: [(w,) for w in weights_of(4)],
                    ball(3, targets),
                    problem_of(loss),
                    dict.fromkeys(RELATIONS, 0.99),
                    ALL,
                )
            )
    cases.append(
        Case(
            "gradient in two coordinates, consistent",
            lambda size: CoordinateGradient(shape_of(LOGISTIC, size, 3), 0.3, 60.0, True, 2),
            lambda query: [
                (transform[:, -2:], w)
                for transform in (transform_of(query), stretched(query))
                for w in weights_of(4)
            ],
            ball(3, SIGNS),
            problem_of(LOGISTIC),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
    )
    for loss, targets in ((HINGE, SIGNS), (Loss("pinball", 0.9), NUMBERS)):
        cases.append(
            Case(
                f"gradient in coordinates of a narrower corner, {loss.name}",
                lambda size, loss=loss: CoordinateGradient(shape_of(loss, size, 3), 0.7, 60.0),
                lambda query: [
                    (stretched(query), w, corner)
                    for w in weights_of(4)
                    for corner in (1e-3, 1.0, 9.0)
                ],
                ball(3, targets),
                problem_of(loss),
                dict.fromkeys(RELATIONS, 0.99),
                ALL,
            )
        )
    for loss, targets in ((POISSON, (0.0, 1.0, 2.0)), (GAMMA, (1.0, 2.0))):
        cases.append(
            Case(
                f"targets by size, {loss.name}",
                lambda size, loss=loss: TargetCounts(shape_of(loss, size, 3), 6),
                lambda query: [()],
                ball(3, targets, count=1),
                problem_of(loss),
                dict.fromkeys(RELATIONS, 0.99),
                ALL,
            )
        )
        if loss is POISSON:  # a target of 0 and one beyond the top
            cases.append(
                Case(
                    "sum of targets",
                    lambda size: TargetSum(shape_of(POISSON, size, 3)),
                    lambda query: [(1.5,), (3.0,)],
                    ball(3, targets, count=1),
                    problem_of(POISSON),
                    dict.fromkeys(RELATIONS, 0.99),
                    ALL,
                )
            )
        for columns, longest in ((4, 2.0), (4, math.inf), (2, math.inf)):
            cases.append(
                Case(
                    f"relative gradient, {loss.name}, {columns} columns, to {longest}",
                    lambda size, loss=loss, columns=columns, longest=longest: RelativeGradient(
                        shape_of(loss, size, 3), 0.7, 60.0, columns, longest
                    ),
                    lambda query: [
                        (transform[:, -query.dimension :], w, *units)
                        for transform in (transform_of(query), stretched(query))
                        for w in weights_of(4)
                        for units in ((1e-3,), (1.0,), (30.0,), (1e-3, 1e-2), (1.0, 30.0))
                    ],
                    ball(3, targets, count=6),
                    problem_of(loss),
                    # Two slopes that pull in opposite directions need a target of zero.
                    {"replace_one": 0.99 if loss is POISSON else 0.5, "add_or_remove_one": 0.99},
                    ALL,
                )
            )
    for loss in (HUBER, Loss("pinball", 0.9)):
        cases.append(
            Case(
                f"relative gradient of residuals in other units, {loss.name}",
                lambda size, loss=loss: RelativeGradient(shape_of(loss, size, 3), 0.7, 60.0, 4),
                lambda query: [
                    (stretched(query), w, unit, size)
                    for w in weights_of(4)
                    for unit, size in ((1e-3, 1e-2), (1.0, 1e-3), (1.0, 1.0), (30.0, 30.0))
                ],
                ball(3, NUMBERS, count=6),
                problem_of(loss),
                dict.fromkeys(RELATIONS, 0.99),
                ALL,
            )
        )
    for loss, options in (
        (LOGISTIC, {}),
        (LOGISTIC, {"clip_norm": 0.7}),
        (LOGISTIC, {"data_l1_norm": 2.5}),
        (HUBER, {"data_l1_norm": 2.5}),
    ):
        cases.append(
            Case(
                f"gradient in l1, {loss.name}, {options}",
                lambda size, loss=loss, options=options: ClippedGradient(
                    shape_of(loss, size, 3), norm="l1", **options
                ),
                lambda query: [(w,) for w in weights_of(4)],
                ball(3, SIGNS if loss is LOGISTIC else NUMBERS),
                problem_of(loss),
                dict.fromkeys(RELATIONS, 0.99),
                ALL,
            )
        )
    cases += [
        Case(
            f"step of descent, {loss.name}",
            lambda size, loss=loss: GradientStep(shape_of(loss, size, 3, alpha=0.3), 0.7, 2e3),
            lambda query: [(w,) for w in weights_of(4)],
            ball(3, targets),
            problem_of(loss),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
            lambda query, w: w - 0.7 * 0.3 * w,
        )
        for loss, targets in ((LOGISTIC, SIGNS), (HUBER, NUMBERS))
    ]
    for consistent in (False, True):
        cases.append(
            Case(
                "gradient of classes" + (", consistent" if consistent else ""),
                lambda size, consistent=consistent: ClassGradient(
                    shape_of(LOGISTIC, size, 2), 0.7, 60.0, 3, consistent
                ),
                lambda query: [
                    (stretched(query), w)
                    for w in (
                        np.zeros((3, 3)),
                        *(1e3 * np.random.default_rng(k).standard_normal((3, 3)) for k in range(6)),
                    )
                ],
                ball(2, CLASSES),
                problem_of(LOGISTIC),
                dict.fromkeys(RELATIONS, 0.99),
                ALL,
            )
        )
    cases += [
        Case(
            name,
            lambda size, query=query: query(shape_of(LOGISTIC, size, 3)),
            column_ranges,
            ball(3, SIGNS),
            problem_of(LOGISTIC),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
        for name, query in RANGES.items()
    ]
    cases += [
        Case(
            f"targets in bins, {norm}",
            lambda size, norm=norm: TargetHistogram(shape_of(HUBER, size, 3), 6, norm),
            lambda query: [(-1.0, 1.0), (0.9, 1.1), (1e-3, 8.0)],
            ball(3, NUMBERS, count=1),
            problem_of(HUBER),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
        for norm in ("l2", "l1")
    ]
    cases += [
        Case(
            name,
            lambda size, kind=kind: kind(shape_of(PINBALL, size, 3)),
            along_constant,
            ball(3, NUMBERS, count=3),
            problem_of(PINBALL),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
        for name, kind in ALONG_CONSTANT.items()
    ]
    cases.append(
        Case(
            "tails of targets",
            lambda size: TargetTails(shape_of(HUBER, size, 3), 3),
            lambda query: [(0.0, 0.1, 1.0), (-0.9, 1e-6, 1.9)],
            ball(3, NUMBERS, count=1),
            problem_of(HUBER),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
    )
    cases.append(
        Case(
            "sums of products",
            lambda size: ProductSums(shape_of(SQUARED, size, 2, intercept=0.0), BOUND),
            lambda query: [(0.0, BOUND), (0.0, 1e-3), (5.0, 2.0)],
            ball(2, (1.0, -1.0, 9.0, -9.0), count=6),
            problem_of(SQUARED, intercept=0.0),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
    )
    # A ridge beside which margins stay on the steep side of a hinge.
    for name, loss, targets, replaced, removed in (
        ("erm", Loss("huberized-hinge"), SIGNS, 0.99, 0.99),
        ("erm", Loss("hinge"), SIGNS, 0.99, 0.99),
        ("erm", LOGISTIC, SIGNS, 0.49, 0.49),
        ("erm", HUBER, NUMBERS, 0.99, 0.99),
        ("tilted", Loss("huberized-hinge"), SIGNS, 0.99, 0.7),
        ("adversarial", Loss("huberized-hinge"), SIGNS, 0.95, 0.92),
    ):

        def minimizer(size: int, name: str = name, loss: Loss = loss) -> CertifiedMinimizer:
            public = objective_shape(name, shape_of(loss, size, 2), 200.0)
            tolerance = 1e-2 if loss.smoothed else 1e-8
            return CertifiedMinimizer(public, tolerance)

        cases.append(
            Case(
                f"minimizer, {name}, {loss.name}",
                minimizer,
                lambda query: [()],
                ball(2, targets, count=4),
                mean_of(loss),
                {"replace_one": replaced, "add_or_remove_one": removed},
                ALL,
            )
        )
    cases.append(
        Case(
            "minimizer in other units",
            lambda size: MinimizerInUnits(ErmShape(shape_of(HUBER, size, 2), 200.0), 1e-6, 1e3),
            lambda query: [(0.0, 1.0), (0.7, 0.05), (-0.3, 1e-3)],
            ball(2, NUMBERS, count=4),
            mean_of(HUBER),
            dict.fromkeys(RELATIONS, 0.99),
            ALL,
        )
    )
    for alpha, iterations, step in ((0.0, 1, 0.1), (0.0, 4, 1e-3), (2.0, 4, 1e-3), (2.0, 30, 0.1)):

        def iterate(
            size: int, alpha: float = alpha, iterations: int = iterations, step: float = step
        ) -> DescentIterate:
            shape = shape_of(Loss("huberized-hinge"), size, 2)
            return DescentIterate(shape, alpha, iterations, step)

        cases.append(
            Case(
                f"descent, alpha {alpha}, {iterations} steps of {step}",
                iterate,
                lambda query: [()],
                ball(2, SIGNS, count=4),
                mean_of(Loss("huberized-hinge")),
                dict.fromkeys(RELATIONS, 0.99 if iterations < 30 else 0.29),
                ALL,
            )
        )
    candidates = np.vstack([np.zeros(4), 3.0 * np.eye(4), -3.0 * np.eye(4)])
    for loss, targets in ((LOGISTIC, SIGNS), (HUBER, NUMBERS)):
        cases.append(
            Case(
                f"losses of candidates, {loss.name}",
                lambda size, loss=loss: CandidateLosses(
                    shape_of(loss, size, 3, alpha=0.3), len(candidates), BOUND, 3.0
                ),
                lambda query: [(candidates,)],
                ball(3, targets),
                problem_of(loss, alpha=0.3),
                dict.fromkeys(RELATIONS, 0.99),
                ALL,
                lambda query, w: query.ridge * np.sum(w * w, axis=1),
            )
        )
        cases.append(
            Case(
                f"losses themselves of candidates, {loss.name}",
                lambda size, loss=loss: CandidateLosses(
                    shape_of(loss, size, 3), len(candidates), BOUND, 3.0, norm="l2"
                ),
                lambda query: [(candidates,)],
                ball(3, targets),
                problem_of(loss),
                dict.fromkeys(RELATIONS, 0.5),
                ALL,
            )
        )
        cases.append(
            Case(
                f"losses at steps, {loss.name}",
                lambda size, loss=loss: LineSearchLosses(
                    shape_of(loss, size, 3, alpha=1e-3), len(_STEPS), BOUND
                ),
                lambda query: (
                    [(-20.0 * axis, -axis, _STEPS, query_size(query)) for axis in np.eye(4)]
                    + [(w, np.array([0.6, 0.0, 0.8, 0.0]), _STEPS, 1) for w in weights_of(4)]
                ),
                ball(3, targets),
                problem_of(loss),
                dict.fromkeys(RELATIONS, 0.99),
                ALL,
                _ridge_alone,
            )
        )
    for loss, differences, clip in itertools.product(
        (LOGISTIC, HUBER), (False, True), (0.7, math.inf)
    ):

        def batch(
            size: int, loss: Loss = loss, differences: bool = differences, clip: float = clip
        ) -> BatchSum:
            shape = shape_of(loss, size, 3)
            return BatchSum(shape, "fixed-size", size, clip, differences=differences)

        def points(query: Any, differences: bool = differences) -> list[tuple[Any, ...]]:
            if not differences:
                return [(w, ALL_ROWS) for w in weights_of(4)]
            return [(w, ALL_ROWS, -w) for w in weights_of(4)]

        # The slope of the logistic loss has one sign, so that two differ by half as much.
        half = differences and clip == math.inf and loss is LOGISTIC
        cases.append(
            Case(
                f"batch, {loss.name}, differences {differences}, clip {clip}",
                batch,
                points,
                ball(3, SIGNS if loss is LOGISTIC else NUMBERS),
                problem_of(loss),
                dict.fromkeys(RELATIONS, 0.49 if half else 0.99),
                ("float64",),
            )
        )
    for relation in RELATIONS:
        only = dict.fromkeys(RELATIONS, 0.0) | {relation: 0.99}
        cases.append(
            Case(
                f"column sums for {relation}",
                lambda size, relation=relation: ColumnSums(
                    size, np.full(2, -1.0), np.full(2, 3.0), relation
                ),
                lambda query: [()],
                [Record((a, b), 0.0) for a in (-1.0, 1.0, 3.0, 9.0, 1.7) for b in (-1.0, 3.0, 1.0)],
                table_of,
                only,
            )
        )
    cases.append(
        Case(
            "counts beyond places",
            lambda size: _Counted(2, size),
            lambda query: [
                (np.array([[-0.5, 0.5], [0.5, -0.5]]),),
                (np.array([[0.5, 0.5], [-0.5, -0.5]]),),
            ],
            [Record((a, b), 0.0) for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0, math.nan)],
            table_of,
            dict.fromkeys(RELATIONS, 1.0),
        )
    )
    for norm in ("l1", "l2"):
        for classes in (2, 4):
            cases.append(
                Case(
                    f"classes, {classes} in {norm}",
                    lambda size, norm=norm, classes=classes: ClassCounts(size, classes, norm),
                    lambda query: [()],
                    [Record((0.0,), float(label)) for label in range(classes)],
                    lambda records, storage, size: np.array([int(r.y) for r in records]),
                    dict.fromkeys(RELATIONS, 0.99),
                )
            )
    cases.append(
        Case(
            "ranks",
            lambda size: _Sized(5, size),
            lambda query: [(0, np.linspace(0.0, 1.0, 5), target) for target in (0, 1, 3)],
            [Record((v,), 0.0) for v in (-1.0, 0.0, 0.1, 0.5, 0.99, 1.0, 7.0)],
            table_of,
            dict.fromkeys(RELATIONS, 1.0),
            empty=lambda query, column, ends, target: np.full(len(ends), -float(target)),
            others=(Record((0.3,), 0.0),) * 2,
        )
    )
    cases.append(
        Case(
            "scores",
            lambda size: ScoreSum(size, "l2"),
            lambda query: [(lambda X, y: X[:, 0],)],
            [Record((v,), 0.0) for v in (-1.0, 0.0, 0.5, 1.0, 7.0, math.nan)],
            lambda records, *rest: (table_of(records, *rest), np.zeros(len(records))),
            dict.fromkeys(RELATIONS, 1.0),
        )
    )
    return cases


class _Sized(RankScores):
    """With a number of rows, which this query has no use for."""

    def __init__(self, candidates: int, size: int) -> None:
        super().__init__(candidates)
        self.n_samples = size


class _Counted(CountsBeyond):
    """With a number of rows, which this query has no use for."""

    def __init__(self, n_columns: int, size: int) -> None:
        super().__init__(n_columns)
        self.n_samples = size


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


def table_cases() -> list[Case]:
    """Columns of tables whose rows belong to persons."""
    cases = []
    for relation in RELATIONS:
        cases.append(
            Case(
                f"column sums of groups for {relation}",
                lambda size, relation=relation: ColumnSums(
                    size, np.full(2, -1.0), np.full(2, 3.0), relation
                ),
                lambda query: [()],
                table_people((-1.0, 1.0, 3.0), 2),
                grouped_columns,
                dict.fromkeys(RELATIONS, 0.0) | {relation: 0.99},
            )
        )
    cases.append(
        Case(
            "counts of groups beyond places",
            lambda size: _Counted(2, size),
            lambda query: [
                (np.array([[-0.5, 0.5], [0.5, -0.5]]),),
                (np.array([[0.5, 0.5], [-0.5, -0.5]]),),
            ],
            table_people((-1.0, 0.0, 1.0, math.nan), 2),
            grouped_columns,
            dict.fromkeys(RELATIONS, 0.99),
        )
    )
    cases.append(
        Case(
            "ranks of groups",
            lambda size: _Sized(5, size),
            lambda query: [(0, np.linspace(0.0, 1.0, 5), target) for target in (0, 1, 3)],
            table_people((-1.0, 0.1, 0.99, 7.0), 1),
            grouped_columns,
            dict.fromkeys(RELATIONS, 0.99),
            empty=lambda query, column, ends, target: np.full(len(ends), -float(target)),
            others=(Person((Record((0.3,), 0.0),)),) * 2,
        )
    )
    return cases


CASES = [*_cases(), *group_cases(), *table_cases()]
