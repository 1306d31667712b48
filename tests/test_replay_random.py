"""Random fits on random neighbors, with the same releases forced upon both; see `replay`.

What the others hold fixed is drawn here together: loss, solver, budget, relation, storage, chunks,
weights, persons, bounds, and the hostile record that neighbors differ in.  With DPFAST_REPLAYS set
to a number, so many are drawn.
"""

import os
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from queries.contract import in_codes
from replay import replay
from test_replay import BUDGETS, FEW, MEANS, RELATIONS

import dpfast.shape
from dpfast import Budget, Loss, Problem, plan
from dpfast.blocks import BlockProblem, from_npy
from dpfast.losses import loss_names
from dpfast.solvers import SOLVERS
from dpfast.solvers.multinomial import plan_multinomial, run_multinomial

COUNT = int(os.environ.get("DPFAST_REPLAYS", "25"))
STORAGES = {
    "float64": np.array,
    "float32": lambda X: np.clip(X, -1e30, 1e30).astype(np.float32),
    "long double": lambda X: X.astype(np.longdouble),
    "integers": lambda X: np.clip(np.rint(np.clip(X, -99.0, 99.0) * 3.0), -128, 127).astype(
        np.int8
    ),
    "fortran": np.asfortranarray,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "codes": in_codes,
    "blocks": np.array,
}
WEIGHTS = np.array([0.0, 1e-300, 0.5, 1.0, 99.0])


def drawn(choices, rng):
    return choices[int(rng.integers(len(choices)))]


def hostile(rng, d):
    """A row that is empty, far outside, all but zero, along an axis, or as any other."""
    axis = np.eye(d)[rng.integers(d)] * drawn((9.0, -9.0), rng)
    size = 10.0 ** float(rng.integers(-9, 9))
    rows = (np.zeros(d), np.full(d, -0.0), np.full(d, 1e308), np.full(d, -1e200))
    return drawn((*rows, np.full(d, -1e-310), axis, rng.normal(size=d) * size), rng)


def targets(rng, loss, count):
    """Ordinary ones, or all the same at an end of what the loss takes."""
    low, high = loss.target_range
    if loss.kind == "classification":
        return np.where(rng.random(count) < rng.choice([0.0, 0.2, 1.0]), 1.0, -1.0)
    ends = max(low, -1e90), min(high, 1e90)
    ordinary = rng.uniform(max(low, -1.0), min(high, 3.0), count)
    return drawn((ordinary, ordinary, *(np.full(count, end) for end in ends)), rng)


def rows_of(rng, loss, d, most, count):
    """Rows, targets, weights and labels of one record; of one row many times, or of many."""
    one = hostile(rng, d)
    X = [one if rng.random() < 0.5 else hostile(rng, d) for _ in range(count)]
    weight = most * rng.choice(WEIGHTS, count)
    return np.reshape(X, (count, d)), targets(rng, loss, count), weight, rng.integers(0, 3, count)


def sides(rng, loss, d, n, most, grouped, relation):
    """Rows, targets, weights, labels and owners of two neighbors."""
    X = rng.uniform(-1.0, 1.0, (n, d))
    X[:, 0] = drawn((X[:, 0], rng.integers(0, 2, n)), rng)
    common = X, targets(rng, loss, n), most * rng.uniform(0.0, 1.5, n), rng.integers(0, 3, n)
    owner = rng.integers(0, max(2, n // 3), n) if grouped else np.arange(n)
    who = drawn(owner, rng)
    kept, made = owner != who, []
    for absent in (False, relation == "add_or_remove_one"):
        count = (
            int(rng.choice([1, 2, 3, 40, 1100], p=[0.3, 0.3, 0.2, 0.15, 0.05])) if grouped else 1
        )
        own = rows_of(rng, loss, d, most, 0 if absent else count)
        name = np.full(len(own[1]), drawn((who, 10**6), rng) if grouped else who)
        places = np.append(
            np.arange(kept.sum()), np.linspace(0.0, who if not grouped else n, len(name))
        )
        if not grouped:
            places[kept.sum() :] = who - 0.5  # where it was
        parts = [np.concatenate([part[kept], new]) for part, new in zip(common, own, strict=True)]
        parts.append(np.append(owner[kept], name))
        made.append([part[np.argsort(places, kind="stable")] for part in parts])
    return made


def problem_of(parts, loss, storage, grouped, labeled, weighted, limit, bounds):
    X, y, weight, labels, owner = parts
    beside = {"max_rows_per_group": limit} if grouped else {}
    if weighted is not None:
        beside["max_weight"] = weighted
    if storage == "blocks":
        order = np.argsort(owner, kind="stable") if grouped else np.arange(len(y))
        given = (weight[order] if weighted is not None else None,)
        groups = owner[order] if grouped else None
        source = from_npy(X[order], y[order], *given, groups=groups, block_rows=37)
        return BlockProblem(source, loss, **beside, **bounds)
    if weighted is not None:
        beside["sample_weight"] = weight
    if grouped:
        beside["groups"] = owner
    problem = Problem(STORAGES[storage](X), y, loss, **beside, **bounds)
    return problem.with_labels(labels) if labeled else problem


@pytest.fixture
def short_chunks(monkeypatch):
    """Chunks of few rows, or as ever."""

    def chunks(short):
        monkeypatch.setattr(dpfast.shape, "_CHUNK_BYTES", 2**12 if short else 2**22)
        monkeypatch.setattr(dpfast.shape, "_DENSE_BYTES", 2**12 if short else 2**18)
        for known in vars(dpfast.shape).values():
            if hasattr(known, "cache_clear"):
                known.cache_clear()

    yield chunks
    monkeypatch.undo()
    chunks(False)


@pytest.mark.filterwarnings("ignore::dpfast.errors.ConversionWarning")
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_fits(seed, short_chunks):
    rng = np.random.default_rng(seed)
    relation, storage, grouped = drawn(RELATIONS, rng), drawn([*STORAGES], rng), rng.random() < 0.4
    labeled = storage != "blocks" and rng.random() < 0.15
    loss = Loss("logistic" if labeled or rng.random() < 0.3 else drawn(loss_names(), rng))
    if loss.log_link:
        loss = Loss(loss.name, width=drawn((0.3, 1.0, 3.0), rng))
    solver = "auto" if rng.random() < 0.5 else drawn([*SOLVERS], rng)
    budget = drawn((*BUDGETS, Budget(1e-3, 1e-6), Budget(30.0, 1e-6), Budget(300.0, 1e-9)), rng)
    d, n = drawn((1, 2, 5, 40, 130), rng), drawn((3, 20, 60, 300), rng)
    short_chunks(rng.random() < 0.5)
    weighted = drawn((None, 2.0, 1e-10, 1e8), rng)
    limit = drawn((None, 1, 3), rng) if grouped else None
    bounds = {
        "data_norm": drawn((1e-9, 0.3, 1.5, 1e6), rng),
        "intercept": drawn((0.0, 0.1, 1.0, 20.0), rng),
    }
    pair = sides(rng, loss, d, n, weighted or 1.0, grouped, relation)
    made = partial(
        problem_of, loss=loss, storage=storage, grouped=grouped, labeled=labeled, weighted=weighted,
        limit=limit, bounds=bounds,
    )  # fmt: skip
    data, neighbor = map(made, pair)
    run = None
    try:
        if labeled:
            run, settled = (
                run_multinomial,
                plan_multinomial(data.shape, 3, budget, neighboring_relation=relation),
            )
        else:
            how = FEW.get(solver, {})
            settled = plan(data, solver, budget, neighboring_relation=relation, **how)
    except ValueError:
        return  # not every solver serves all of this
    # Their objectives are means over the public number of rows.
    if settled.solver not in MEANS or relation == "replace_one":
        replay(settled, data, neighbor, run)
