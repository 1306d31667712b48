"""Every query keeps what it states, on worst-case and random neighbors."""

import inspect

import numpy as np
import pytest
from queries.contract import CASES, RELATIONS, check, value

import dpfast.queries
from dpfast.mechanisms import Query
from dpfast.queries import (
    ColumnHistogram,
    ColumnParts,
    CoordinateGradient,
    LongRows,
    RelativeGradient,
)


def pairs():
    for case in CASES:
        for relation in RELATIONS:
            if case.name.startswith("column sums") and relation not in case.name:
                continue  # stated for the other relation alone
            yield pytest.param(case, relation, id=f"{case.name}-{relation}")


@pytest.mark.parametrize(("case", "relation"), list(pairs()))
def test_neighbors_are_no_farther_apart_than_stated(case, relation):
    check(case, relation)


def test_every_query_has_a_case():
    known = {type(case.make(1)) for case in CASES}
    known |= {parent for kind in known for parent in kind.__mro__}
    public = {kind for _, kind in inspect.getmembers(dpfast.queries, inspect.isclass)}
    assert {kind for kind in public if issubclass(kind, Query)} <= known


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_largest_arguments_have_finite_values_on_all_rows(case):
    """So that whether an error is raised says nothing of the rows."""
    query = case.make(2)
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
                with np.errstate(over="ignore"):
                    # Moments have their scale, of at least 0.1, to be far from besides.
                    length = (0.09 if isinstance(query, ColumnParts) else 0.999) * min(
                        query.largest_argument, 1e300
                    )
                    far = length * largest.reshape(argument.shape)
                    changed = (*point[:place], far, *point[place + 1 :])
                    query.check_point(*changed[query.fixed :])
                    for record in case.records:
                        got = value(case, query, [record, case.records[0]], changed, "float64")
                        assert np.isfinite(got).all()


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
            with pytest.raises(ValueError, match="finite and of norm at most"):
                query.check_point(*first[:place], changed, *first[place + 1 :])


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
        elif type(query) is CoordinateGradient:
            with pytest.raises(ValueError, match=r"corner's unit must be between|with a corner"):
                query.check_point(np.zeros(4), scale)
