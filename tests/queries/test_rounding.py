"""What rounding moves contributions and sums by is no more than is charged for it.

Rounding of real rows stays far below what it could be: their sums would keep a hundredth of the
charge, too.  So one test moves the images of rows, in the direction that moves a contribution most.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from queries.contract import allowed

from dpfast import Loss, Problem, ProblemShape
from dpfast.queries import (
    ResidualSizes,
    RowLengths,
    ScoreProducts,
    SquaredSlopes,
    WeightedCurvature,
    WeightedScores,
    estimating,
)
from dpfast.queries.coordinates import reach_of, triangle_of

EXTENDED = np.longdouble
STEP = 1e-8  # of images, where a slope is taken
KINDS = (WeightedScores, WeightedCurvature, ScoreProducts, SquaredSlopes, ResidualSizes, RowLengths)
STEEP = (WeightedScores, ScoreProducts, SquaredSlopes, ResidualSizes)
SQUARED, LOGISTIC, POISSON = Loss("squared"), Loss("logistic"), Loss("poisson", width=1.0)
D, NORM, DRAWN = 5, 2.0, 200
ROWS_OF_A_PERSON = 3
LOSSES = (
    SQUARED,
    LOGISTIC,
    POISSON,
    Loss("gamma", width=1.0),
    Loss("negative-binomial", width=2.0),
)


def query_of(kind, loss, n, persons, d=D):
    shape = ProblemShape(n, d, NORM, loss, unit="group" if persons else "row")
    root, limit = math.sqrt(shape.dim), estimating.stack_limit(shape)
    return kind(shape, 2.0 * root, 8.0 * shape.dim, limit)


def charged(query):
    """What a contribution is charged for, per unit of its images' error and of its bound."""
    nothing_moves = estimating._added(query.shape) * query._single
    unit = 1.01 * estimating.UNIT * (query.shape.dim + 8) * query.shape.n_samples
    return (query.rounding_error() - nothing_moves) / (query._single * query.limit * unit)


def drawn_records(query, rng):
    """Images near all kinks: lengths near 1 and both bounds, margins, and slopes near the scale."""
    shape, rows = query.shape, 2 if query.shape.several_rows else 1
    loss, least = shape.loss, estimating.scales(shape)[0]

    def images(bound):
        directions = rng.standard_normal((rows, shape.dim))
        size = rng.choice([1.0, bound]) * math.exp(rng.normal(0.0, 0.3))
        return directions * (size / np.linalg.norm(directions, axis=1))[:, None]

    G, H = images(query.score_radius), images(math.sqrt(query.curvature_bound))
    margin, size = rng.normal(0.0, 1.0, rows), least * rng.choice([0.75, 0.81, 1.0, 1.2])
    share = rng.choice([0.3, 1.0], rows)
    if loss.log_link:  # steepest at the highest means
        margin = loss.width - rng.choice([0.01, 0.5, 2.0]) * rng.random(rows)
    y = margin + size
    if loss.log_link:  # the slope is κ (1 - y exp(-margin))
        y = np.exp(margin) * (1.0 + size / share / estimating.largest_curvature(loss, margin))
    if loss.kind == "classification":
        y = rng.choice([-1.0, 1.0], rows)
    wide = [G, H] if query._bends else [G]
    first = np.zeros(1, np.int64) if shape.several_rows else None
    z = np.hstack([*wide, margin[:, None]])
    return estimating.Records(z, np.clip(y, *loss.target_range), share, 1.0, first)


def moved(query, records):
    """Slope of a contribution where each row's images move in the worst direction, or a bound."""
    scale = estimating.scales(query.shape)[0]

    def value(z):
        found = query.contribution(replace(records, z=z), scale)
        return triangle_of(found) if found.ndim == 2 else found

    there, slopes = value(records.z), []
    for place in np.ndindex(records.z.shape):
        z = records.z.copy()
        z[place] += STEP
        slopes.append((value(z) - there) / STEP)
    by_row = np.array(slopes).reshape(*records.z.shape, -1)
    return sum(np.linalg.norm(slopes_of_row, 2) for slopes_of_row in by_row)


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        pytest.param(kind, loss, id=f"{kind.__name__}-{loss.name}")
        for kind in KINDS
        for loss in LOSSES
        if not (loss is LOGISTIC and kind in (ResidualSizes, SquaredSlopes))  # ask for a scale
    ],
)
def test_no_contribution_moves_more_than_is_charged_with_its_images(kind, loss, persons):
    query, rng = query_of(kind, loss, 1000, persons, d=1), np.random.default_rng(5)
    worst = max(moved(query, drawn_records(query, rng)) for _ in range(20)) / query._single
    assert worst <= charged(query)
    if not persons and estimating.scaled(loss) and kind in STEEP:
        assert worst > charged(query) / 5.0, "the test would hardly see too small a charge"


def far_stack(query, base, rng):
    """As far as the limit allows: large entries, whose products with rows near `base` cancel."""
    dim, unit = query.shape.dim, base / np.linalg.norm(base)

    def away(columns, reach):
        entries = rng.standard_normal((dim, columns))
        entries -= np.outer(unit, unit @ entries)
        return entries * (reach / reach_of(query.shape, entries))

    whole = [away(dim, 0.6), away(dim, 0.6), away(1, 0.5)]
    return np.hstack(whole) * query.limit


def contribution(query, z, y, scale):
    """Of one record, a row or a person with equal ones, in the precision of its images."""
    size = ROWS_OF_A_PERSON if query.shape.several_rows else 1
    first = np.zeros(1, np.int64) if query.shape.several_rows else None
    alike = np.tile(z, (size, 1)), np.full(size, y), np.ones(size, z.dtype)
    rows = estimating.Records(*alike, 1.0, first)
    value = query.contribution(rows, scale)
    return (triangle_of(value) if value.ndim == 2 else value).astype(EXTENDED)


def worst_rows(query, seed):
    """Two rows that rounding moves most, their targets, the stack, the scale, and exact values."""
    rng, shape = np.random.default_rng(seed), query.shape
    base = np.append(rng.choice([-0.99, 0.99], D) * NORM / math.sqrt(D), shape.intercept)
    stack, scale = far_stack(query, base, rng), estimating.scales(shape)[0]
    away = rng.standard_normal((DRAWN, D)) * np.exp(rng.uniform(-3.0, 1.5, (DRAWN, 1)))
    X = base[:D] + away / np.abs(stack).max()
    X *= np.minimum(1.0, NORM / np.linalg.norm(X, axis=1))[:, None]
    rows = np.column_stack([X, np.full(DRAWN, shape.intercept)])
    exact, computed = rows.astype(EXTENDED) @ stack.astype(EXTENDED), rows @ stack
    y = rng.choice([-1.0, 1.0], DRAWN)
    if estimating.scaled(shape.loss):  # slopes around the scale, where curvatures fall
        middle = np.exp(computed[:, -1]) if shape.loss.log_link else computed[:, -1]
        y = np.clip(middle + scale * rng.uniform(-1.3, 1.3, DRAWN), *shape.loss.target_range)
    if shape.loss.log_link or isinstance(query, ResidualSizes | RowLengths):
        exact = exact.astype(np.float64)  # the loss, and counts, know no other numbers
    known = [contribution(query, exact[k], y[k], scale) for k in range(DRAWN)]
    moved = [contribution(query, computed[k], y[k], scale) - known[k] for k in range(DRAWN)]
    worst = np.argsort(np.linalg.norm(np.array(moved, dtype=np.float64), axis=1))[-2:]
    return X[worst], y[worst], stack, scale, np.array(known)[worst]


def summed(query, X, y, stack, scale):
    """Over records, of which a person has several equal rows."""
    groups = None
    if query.shape.several_rows:
        X, y = (np.repeat(part, ROWS_OF_A_PERSON, axis=0) for part in (X, y))
        groups = np.arange(len(y)) // ROWS_OF_A_PERSON
    problem = Problem(X, y, query.shape.loss, data_norm=NORM, groups=groups)
    return query(query.prepare(problem, stack), scale, 1.0)


def check_sums(kind, loss, n, persons=False):
    """Records that err alike, with one that errs otherwise, and without it."""
    query = query_of(kind, loss, n, persons)
    (first, second), (y, other), stack, scale, exact = worst_rows(query, seed=3)
    query.check(stack)
    X, targets, place = np.tile(first, (n, 1)), np.full(n, y), n // 2 + 1
    alike = summed(query, X, targets, stack, scale)
    X[place], targets[place] = second, other
    beside = summed(query, X, targets, stack, scale)
    X, targets = np.delete(X, place, axis=0), np.delete(targets, place)
    without = summed(query, X, targets, stack, scale)
    errors = [
        float(np.linalg.norm((found - known).astype(np.float64)))
        for found, known in (
            (alike, n * exact[0]),
            (beside, (n - 1) * exact[0] + exact[1]),
            (without, (n - 1) * exact[0]),
        )
    ]
    assert max(errors) <= query.rounding_error()
    assert np.linalg.norm(alike - beside) <= allowed(query, "replace_one")
    assert np.linalg.norm(without - beside) <= allowed(query, "add_or_remove_one")


CASES = [
    (kind, loss)
    for kind in KINDS
    for loss in (SQUARED, LOGISTIC, POISSON)
    if not (loss is LOGISTIC and kind in (ResidualSizes, SquaredSlopes))
]
IDS = [f"{kind.__name__}-{loss.name}" for kind, loss in CASES]


@pytest.mark.parametrize(("kind", "loss"), CASES, ids=IDS)
def test_sums_of_many_rows_are_within_the_rounding_that_is_charged(kind, loss):
    # Errors of equal rows add up: hardly any table has larger ones.
    check_sums(kind, loss, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
@pytest.mark.parametrize("n", [10**6, 10**7])
@pytest.mark.parametrize(("kind", "loss"), CASES, ids=IDS)
def test_sums_of_up_to_ten_million_rows_are_within_the_rounding_that_is_charged(
    kind, loss, n, persons
):
    check_sums(kind, loss, n, persons)
