"""Every query keeps what it states, on worst-case and random neighbors."""

import inspect
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from queries.contract import ALL_ROWS, CASES, RELATIONS, check, relations_of, values

import dpfast.queries
from dpfast import Loss, Problem, ProblemShape
from dpfast.fused import BallSample, PerturbedMinimizer
from dpfast.losses import loss_names
from dpfast.mechanisms import Query
from dpfast.objectives import objective_shape
from dpfast.queries import (
    CertifiedMinimizer,
    ClippedGradient,
    ColumnHistogram,
    ColumnParts,
    CoordinateGradient,
    DescentIterate,
    GradientStep,
    GroupGradient,
    LineSearchLosses,
    LongRows,
    ProductSums,
    QuantileSlopes,
    RankScores,
    RelativeGradient,
    TargetHistogram,
    TargetSum,
    TargetTails,
)
from dpfast.queries.coordinates import InCoordinates


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_neighbors_are_no_farther_apart_than_stated(case):
    check(case, *relations_of(case))


# Of the losses with a parameter another one, and a corner of another width.
OTHERS = {
    "pinball": (Loss("pinball", 0.95, 0.01), Loss("pinball", 0.05, 0.5)),
    "huber": (Loss("huber", 0.05), Loss("huber", 1.0)),
}


def cases_of_any_parameter():
    """Cases of queries that say so, with rows of such losses."""
    for case in CASES:
        query = case.make(2)
        loss = getattr(getattr(query, "shape", None), "loss", None)
        if query.any_parameter and loss is not None and loss.name in OTHERS:
            for other in OTHERS[loss.name]:
                yield pytest.param(case, other, id=f"{case.name}, {other.parameter}")


@pytest.mark.parametrize(("case", "loss"), cases_of_any_parameter())
def test_rows_with_other_parameters_of_the_loss_are_no_farther_apart(case, loss):
    """A descent of few rows looks for another quantile than the rows' loss has."""
    other = replace(
        case,
        rows=lambda *given: case.rows(*given).with_loss(loss),
        reached=dict.fromkeys(case.reached, 0.0),
    )
    check(other, *relations_of(case))


def test_queries_with_slopes_are_tried_with_other_parameters():
    tried = {type(case.values[0].make(2)) for case in cases_of_any_parameter()}
    assert {GroupGradient, QuantileSlopes, RelativeGradient} <= tried


OF_PARTS = [case for case in CASES if case.make(2).fewer_rows]


@pytest.mark.parametrize("case", OF_PARTS, ids=lambda case: case.name)
def test_parts_of_the_rows_are_no_farther_apart(case):
    check(replace(case, make=lambda size: case.make(2 * size)), *relations_of(case))


def test_queries_serve_parts_of_the_rows_only_if_they_say_so():
    assert {type(case.make(2)) for case in OF_PARTS} == {ClippedGradient, LineSearchLosses}
    assert not Query.fewer_rows  # as must be of means, which a row of few moves farther


def test_every_query_has_a_case():
    known = {type(case.make(1)) for case in CASES}
    known |= {parent for kind in known for parent in kind.__mro__}
    public = {kind for _, kind in inspect.getmembers(dpfast.queries, inspect.isclass)}
    assert {kind for kind in public if issubclass(kind, Query)} <= known


def farthest_points(case, query):
    """The first arguments of a case, with each array as long as the query takes any."""
    # Moments have their scale, of at least 0.1, to be far from besides.
    share = 0.09 if isinstance(query, ColumnParts) else 0.999
    length = share * min(query.largest_argument, 1e300)
    for point in case.arguments(query)[:2]:
        for place, argument in enumerate(point):
            if not (isinstance(argument, np.ndarray) and argument.dtype == np.float64):
                continue
            if place < query.fixed and type(query).check is not Query.check:
                continue  # bounded by more than that
            if isinstance(query, ColumnParts) and place == 1:
                continue  # scales are bounded from below
            if isinstance(query, ColumnHistogram | LongRows):
                continue  # either argument bounds the other
            for largest in (np.eye(argument.size)[0], np.full(argument.size, argument.size**-0.5)):
                far = length * largest.reshape(argument.shape)
                if isinstance(query, LineSearchLosses) and place > 0:
                    far /= np.linalg.norm(point[3 - place])  # the ends of steps are bounded
                if isinstance(query, RankScores):
                    far = np.sort(far)  # ends are in order
                yield (*point[:place], far, *point[place + 1 :])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_largest_arguments_have_finite_values_on_all_rows(case):
    """So that whether an error is raised says nothing of the rows."""
    query = case.make(2)
    with np.errstate(over="ignore"):
        points = list(farthest_points(case, query))
        for point in points:
            given = [np.arange(2) if part is ALL_ROWS else part for part in point]
            query.check_point(*given[query.fixed :])
        for record in case.records if points else ():
            assert np.isfinite(values(case, query, [record, case.records[0]], points)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e151])
def test_arguments_that_may_have_no_value_are_refused_before_anything_is_spent(bad):
    for case in CASES:
        query = case.make(2)
        first = case.arguments(query)[0]
        for place, argument in enumerate(first):
            if not (isinstance(argument, np.ndarray) and argument.dtype == np.float64):
                continue
            if np.isinf(query.largest_argument) and not np.isnan(bad):
                continue  # places that values are compared with
            changed = argument.copy()
            changed.flat[0] = bad
            # Lists and objects are made numbers of by whoever computes with them.
            for form in (changed, changed.tolist(), changed.astype(object)):
                with pytest.raises(ValueError, match="finite and of norm at most"):
                    query.check_point(*first[:place], form, *first[place + 1 :])


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e-160, np.nan])
def test_scales_that_take_rows_beyond_floating_point_are_refused(scale):
    for case in CASES:
        query = case.make(2)
        if isinstance(query, ColumnParts):
            with pytest.raises(ValueError, match=r"scale must be|must be finite"):
                query.check_point(np.zeros(3), np.array([1.0, 1.0, scale]))
        if isinstance(query, RelativeGradient):
            with pytest.raises(ValueError, match="unit must be between"):
                query.check_point(np.zeros(4), scale)
            with pytest.raises(ValueError, match="the residuals' unit must be between"):
                query.check_point(np.zeros(4), 1.0, scale)
        elif type(query) is CoordinateGradient and query.optional:
            with pytest.raises(ValueError, match="corner's unit must be between"):
                query.check_point(np.zeros(4), scale)


def test_coordinates_in_which_lengths_underflow_are_refused():
    """Squares of 1e-180 are 0: rows of no length would not be clipped."""
    tried = set()
    for case in CASES:
        query = case.make(2)
        if isinstance(query, InCoordinates) and type(query) not in tried:
            transform, *others = case.arguments(query)[0][: query.fixed]
            with pytest.raises(ValueError, match="a reach of at least"):
                query.check(1e-180 * transform, *others)
            tried.add(type(query))
    assert {CoordinateGradient, GroupGradient, RelativeGradient} <= tried


@pytest.mark.parametrize(("clip_norm", "longest"), [(1e-220, math.inf), (1e-130, 1e100)])
def test_clamps_of_slopes_that_underflow_are_refused(clip_norm, longest):
    """In units of 1e-100 they would be some per cent too far, or none."""
    query = RelativeGradient(SQUARED, clip_norm, 60.0, 1, longest)
    query.check_point(np.zeros(1), 1.0)
    with pytest.raises(ValueError, match="at which slopes are clamped"):
        query.check_point(np.zeros(1), 1e-100)


SQUARED = ProblemShape(3, 1, 1.0, "squared", 0.0)


@pytest.mark.parametrize(
    ("query", "point"),
    [
        *((TargetHistogram(SQUARED, 6), (low, high)) for low, high in (
            (1.0, -1.0), (0.5, 0.5), (np.nan, 1.0), (-1.0, np.inf), (-1e308, 1e308))),
        *((TargetTails(SQUARED, 4), point) for point in (
            (np.nan, 0.1, 1.0), (np.inf, 0.1, 1.0), (0.0, 0.1, np.inf), (0.0, np.nan, 1.0),
            (0.0, 0.1, 0.1))),
        *((ProductSums(SQUARED, 1.0), point) for point in (
            (0.0, 0.0), (0.0, -1.0), (0.0, np.nan), (np.nan, 1.0), (np.inf, 1.0), (0.0, 1e-320),
            (0.0, np.inf))),
        *((RankScores(3), point) for point in (
            (0, np.array([0.0, 2.0, 1.0]), 5), (0, np.array([2.0, 1.0, 0.0]), 5),
            (0, np.arange(3.0), np.inf), (0, np.arange(3.0), np.nan))),
        *((LineSearchLosses(SQUARED, 2, 1.0), (np.zeros(1), np.ones(1), np.arange(2.0), n))
          for n in (-1, 4, 1e16, np.inf, np.nan)),
    ],
)  # fmt: skip
def test_places_that_are_none_are_refused_before_anything_is_spent(query, point):
    with pytest.raises(ValueError, match="Nothing was spent"):
        query.check_point(*point)


def test_a_sum_of_targets_is_not_stated_where_they_may_be_below_zero():
    with pytest.raises(ValueError, match="targets are not below 0"):
        TargetSum(SQUARED)


def test_a_row_is_counted_by_itself_where_rounding_swaps_edges():
    """Distances so close that computed ones are not in order: rows still count one by one."""
    least, greatest, steps = 4045.8902283971674, 4045.8902283971693, 7
    far = np.geomspace(least, greatest, steps + 1)
    assert np.any(np.diff(far) < 0.0)
    query = TargetTails(SQUARED, steps)
    query.check_point(0.0, least, greatest)
    ends = [np.nextafter(far, to) for to in (0.0, np.inf)] + [far]
    targets = np.concatenate([sign * end for sign in (1.0, -1.0) for end in ends])

    def counts(y):
        problem = Problem(np.zeros((len(y), 1)), y, "squared", data_norm=1.0, intercept=0.0)
        return query(problem, 0.0, least, greatest)

    alone = {y: counts(np.array([y])) for y in targets}
    for pair in itertools.product(targets, repeat=2):
        np.testing.assert_array_equal(counts(np.array(pair)), alone[pair[0]] + alone[pair[1]])


@pytest.mark.parametrize("data_norm", [1.0, 1e5, 1e100])
@pytest.mark.parametrize("weight", [1.0, 1e100])
@pytest.mark.parametrize("loss", loss_names())
def test_weights_for_which_some_rows_have_no_sum_are_refused(loss, weight, data_norm):
    """Margins whose squares, or exponentials, are beyond float64 are so on some rows only."""
    X, y = np.array([[data_norm], [0.0]]), np.ones(2)
    problem = Problem(
        X, y, loss, data_norm=data_norm, sample_weight=[weight, weight], max_weight=weight
    )
    gradient = ClippedGradient(problem.shape, 1.0)
    losses = LineSearchLosses(problem.shape, 2, 1.0)
    for sign in (-1.0, 1.0):
        w = np.array([sign * 0.999 * gradient.largest_argument, 0.0])
        gradient.check_point(w)
        points = w, w, np.array([0.25, 0.5]), 2
        losses.check_point(*points)
        assert np.isfinite(gradient.evaluate(problem, w)).all()
        assert np.isfinite(losses.evaluate(problem, *points)).all()
    with pytest.raises(ValueError, match="Nothing was spent"):
        gradient.check_point(1.1 * w)
    with pytest.raises(ValueError, match="Nothing was spent"):
        losses.check_point(w, w, np.array([0.5, 2.0]), 2)


PARTS = [case for case in CASES if case.name.endswith("rows that are parts of a group")]


@pytest.mark.parametrize("case", PARTS, ids=lambda case: case.name)
@pytest.mark.parametrize("relation", RELATIONS)
def test_sums_of_weighted_rows_state_nothing_of_groups_of_any_size(case, relation):
    """Without a largest number of rows each row of a group would count as a record."""
    query = case.make(5)
    assert query.shape.max_rows_per_group == 3
    vars(query)["shape"] = replace(query.shape, max_rows_per_group=None)
    with pytest.raises(ValueError, match="max_rows_per_group must be given"):
        query.sensitivity(relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_minimizers_and_steps_state_nothing_of_groups_of_any_size(relation):
    shape = ProblemShape(9, 2, 1.0, alpha=0.1, unit="group")
    risk = objective_shape("erm", shape, 0.1)
    tilted = objective_shape("tilted", shape, 0.1, tilt=1.0)
    for query in (
        CertifiedMinimizer(risk, 1e-3), DescentIterate(shape, 0.1, 3, 0.5),
        GradientStep(shape, 0.1, 1.0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="max_rows_per_group must be given"):
            query.sensitivity(relation)
    with pytest.raises(ValueError, match="objective must be 'erm'"):
        CertifiedMinimizer(tilted, 1e-3).sensitivity(relation)
    with pytest.raises(ValueError, match="max_rows_per_group must be given"):
        BallSample(shape, 1.0, relation, radius=1.0)
    with pytest.raises(ValueError, match="groups of one row"):
        PerturbedMinimizer(
            replace(shape, max_rows_per_group=2), relation,
            noise="gaussian", scale=1.0, tolerance=1e-3, output_noise=1.0,
        )  # fmt: skip
