"""A query that states too little is caught by its contract: the table of faults.

Half of a sensitivity, the sensitivity of the other relation, a clip that lets twice as much
through, rows that are longer than they are said to be: each is put into each query that can have
it, and the contract must refuse it, by the distance that it measures.
"""

import inspect
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from queries import contract
from queries.contract import (
    CASES,
    RELATIONS,
    check,
    check_alone,
    relations_of,
)

import dpfast.queries
from dpfast.mechanisms import Query

KINDS = {
    name: kind
    for name, kind in inspect.getmembers(dpfast.queries, inspect.isclass)
    if issubclass(kind, Query)
}


def doubled(*names):
    """The same query with limits that are twice as large, where they limit anything."""

    def looser(query):
        other = copy(query)
        for name in names:
            vars(other)[name] = 2.0 * getattr(query, name)
        return other

    return looser


def flatter(query):
    """The minimizer with half of the ridge that its distance rests on."""
    other = copy(query)
    vars(other)["shape"] = replace(query.shape, alpha=0.5 * query.shape.alpha)
    return other


def more_steps(query):
    other = copy(query)
    vars(other)["iterations"] = 2 * query.iterations
    return other


def longer_groups(query):
    """Groups that may be twice as long as they are said to be."""
    other = copy(query)
    vars(other)["_clip"] = lambda row, norm, *more: query._clip(2.0 * row, 2.0 * norm, *more)
    return other


#: What bounds a record's influence inside of the query, let out; None where rows are only counted.
LOOSE = {
    "BatchSum": doubled("clip_norm"),
    "CandidateLosses": doubled("loss_clip"),
    "CertifiedMinimizer": flatter,
    "ClassCounts": None,
    "ClassGradient": doubled("clip_norm"),
    "ClippedGradient": doubled("clip_norm"),
    "ColumnHistogram": None,
    "ColumnParts": doubled("radius"),
    "ColumnSums": doubled("weight"),
    "CoordinateGradient": doubled("clip_norm"),
    "CountsBeyond": None,
    "DescentIterate": more_steps,
    "GradientStep": doubled("step"),
    "Gram": doubled("radius"),
    "GroupGradient": longer_groups,
    "GroupSizes": None,
    "LineSearchLosses": doubled("loss_clip"),
    "LongRows": None,
    "MinimizerInUnits": flatter,
    "ProductSums": doubled("target_bound"),
    "RankScores": None,
    "RelativeGradient": doubled("clip_norm"),
    "ResidualSizes": None,
    "RowLengths": None,
    "ScoreProducts": doubled("score_radius"),
    "ScoreSum": None,
    "SquaredSlopes": None,
    "TargetCounts": None,
    "TargetSum": None,
    "TargetSizes": None,
    "TargetTails": None,
    "WeightCounts": None,
    "WeightedCurvature": doubled("curvature_bound", "score_radius"),
    "WeightedScores": doubled("score_radius"),
    "QuantileSlopes": None,
    "ResidualSum": None,
    "TargetHistogram": None,
}
#: Those that rest on the rows' own bound.
ON_THE_NORM = (
    "BatchSum", "CertifiedMinimizer", "ClippedGradient", "DescentIterate", "GradientStep",
    "MinimizerInUnits", "ProductSums",
)  # fmt: skip


def cases_of(kind, relation):
    for case in CASES:
        own = next(k for k in type(case.make(1)).__mro__ if k in KINDS.values())
        if own is kind and relation in relations_of(case):
            yield replace(case, storages=("float64",))


def caught(kind, relation):
    """Whether the contract finds records that are farther apart than stated."""
    for how in (check_alone, check):  # most are caught by what takes least
        for case in cases_of(kind, relation):
            try:
                how(case, relation)
            except AssertionError as error:
                if "stated" in str(error) or ">" in str(error):
                    return True
    return False


#: Values of honest queries, by case: what they state does not change them.
HONEST = {}


def remember(monkeypatch, known):
    """Have the contract compute the values of records beside none once a case, for all checks."""
    compute = contract.values_alone

    def once(case):
        if case.name not in known:
            known[case.name] = compute(case)
        return known[case.name]

    monkeypatch.setattr(contract, "values_alone", once)


def unseen(monkeypatch, kind):
    """The relations under which the contract does not see what was put into the queries."""
    remember(monkeypatch, {})
    return [relation for relation in RELATIONS if not caught(kind, relation)]


def test_every_case_has_a_name_of_its_own():
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_table_is_complete():
    assert set(LOOSE) == set(KINDS)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", KINDS)
def test_half_of_a_sensitivity(name, relation, monkeypatch):
    kind = KINDS[name]
    honest = kind.sensitivity
    monkeypatch.setattr(kind, "sensitivity", lambda self, which: 0.5 * honest(self, which))
    remember(monkeypatch, HONEST)
    assert caught(kind, relation)


@pytest.mark.parametrize("name", KINDS)
def test_the_sensitivity_of_the_other_relation(name, monkeypatch):
    """Wherever a replaced record does more than an absent one; ColumnSums refuses the other."""
    kind = KINDS[name]
    honest = kind.sensitivity
    queries = [case.make(5) for case in cases_of(kind, "replace_one")]
    try:
        more = any(honest(q, "replace_one") > honest(q, "add_or_remove_one") for q in queries)
    except ValueError:
        assert kind is dpfast.queries.ColumnSums
        return
    if more:
        other = "add_or_remove_one"
        monkeypatch.setattr(kind, "sensitivity", lambda self, which: honest(self, other))
        remember(monkeypatch, HONEST)
        assert caught(kind, "replace_one")


def put_in(monkeypatch, kind, looser):
    """Have the queries of a kind evaluated by their looser twins."""
    prepare, call = kind.prepare, kind.__call__
    monkeypatch.setattr(kind, "prepare", lambda self, *args: prepare(looser(self), *args))
    monkeypatch.setattr(kind, "__call__", lambda self, *args: call(looser(self), *args))


@pytest.mark.parametrize("name", [name for name, looser in LOOSE.items() if looser])
def test_a_clip_that_lets_twice_as_much_through(name, monkeypatch):
    put_in(monkeypatch, KINDS[name], LOOSE[name])
    assert not unseen(monkeypatch, KINDS[name])


@pytest.mark.parametrize("name", [name for name, looser in LOOSE.items() if not looser])
def test_a_record_that_counts_twice(name, monkeypatch):
    kind = KINDS[name]
    call = kind.__call__

    monkeypatch.setattr(kind, "__call__", lambda self, *args: 2.0 * np.asarray(call(self, *args)))
    assert not unseen(monkeypatch, kind)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["RelativeGradient", "TargetCounts", "TargetSum"])
def test_groups_that_count_more_the_more_rows_they_have(name, relation, monkeypatch):
    honest = contract.Problem.with_rows_per_group

    def by_the_learned_number_alone(self, rows):
        problem = honest(self, rows)
        longer = np.repeat(np.maximum(1.0, self._groups.sizes / rows), self._groups.sizes)
        return problem._weighing(problem.sample_weight * longer)

    monkeypatch.setattr(contract.Problem, "with_rows_per_group", by_the_learned_number_alone)
    case = next(c for c in cases_of(KINDS[name], relation) if "count as one" in c.name)
    with pytest.raises(AssertionError):
        check(case, relation)


def test_an_absent_row_in_one_of_two_counts(monkeypatch):
    """Where places have crossed, it is in both."""
    kind = dpfast.queries.CountsBeyond
    monkeypatch.setattr(kind, "sensitivity", lambda self, which: np.sqrt(self.dimension / 2))
    assert caught(kind, "add_or_remove_one")


@pytest.mark.parametrize("name", ON_THE_NORM)
def test_rows_longer_than_stated(name, monkeypatch):
    honest = contract.Problem
    monkeypatch.setattr(
        contract, "Problem",
        lambda *args, data_norm, **settings: honest(*args, data_norm=2.0 * data_norm, **settings),
    )  # fmt: skip
    assert caught(KINDS[name], "add_or_remove_one")
