"""Every query keeps what it states, on worst-case and random neighbors."""

import inspect

import pytest
from queries.contract import CASES, RELATIONS, check

import dpfast.queries
from dpfast.mechanisms import Query


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
