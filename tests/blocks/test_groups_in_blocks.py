"""Groups of rows, such as persons, whose rows come in blocks: persons are never cut in two."""

import os
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from replay import outcomes

from dpfast import Budget, LogisticRegression, Loss, PoissonRegressor, Problem, plan, solve
from dpfast.blocks import (
    BlockProblem,
    from_batches,
    from_csv,
    from_dask,
    from_dataset,
    from_npy,
    from_parquet,
)
from dpfast.blocks._groups import GroupBlocks, group_starts
from dpfast.errors import DataError
from dpfast.groups import index_groups
from dpfast.queries import (
    ClippedGradient,
    ColumnParts,
    Gram,
    GroupGradient,
    GroupSizes,
    ScoreProducts,
    WeightedCurvature,
    WeightedScores,
)
from dpfast.shape import BlockSizes

BUDGET = Budget(1.0, 1e-6)
KINDS = ["npy", "sparse", "batches", "parquet", "csv", "dataset"]
SETTINGS = {"data_norm": 1.5, "classes": [0, 1], "random_state": 1}


def persons(n=300, most=9, seed=0, d=3):
    """Rows of persons side by side, their labels, and whose they are: texts in no order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, n)
    ids = np.repeat([f"p{number * 7919 % 10007}" for number in range(n)], sizes)
    X = rng.uniform(-0.8, 0.8, (len(ids), d)).astype(np.float32)
    return X, (X[:, 0] + 0.5 * rng.standard_normal(len(ids)) > 0).astype(int), ids


def batches(X, y, ids, rows):
    for at in range(0, len(y), rows):
        some = slice(at, at + rows)
        yield X[some], y[some], None, ids[some]


def stored(kind, table, folder, block_rows=100):
    """A source of the table, in which batches, row groups and files cut persons in two."""
    X, y, ids = table
    if kind == "npy":
        for name, part in (("X", X), ("y", y), ("ids", ids)):
            np.save(folder / f"{name}.npy", part)
        paths = [folder / f"{name}.npy" for name in ("X", "y")]
        return from_npy(*paths, groups=folder / "ids.npy", block_rows=block_rows)
    if kind == "sparse":
        matrix = scipy.sparse.csr_array(X)
        return from_npy(matrix, y, groups=ids, block_rows=block_rows)
    if kind == "batches":
        return from_batches(partial(batches, *table, 37), name="t", block_rows=block_rows)
    pyarrow = pytest.importorskip("pyarrow")
    whole = pyarrow.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": y, "who": ids})
    if kind == "csv":
        from pyarrow import csv

        csv.write_csv(whole, folder / "t.csv")
        return from_csv(folder / "t.csv", "y", groups="who", block_rows=block_rows)
    from pyarrow import dataset, parquet

    for number, part in enumerate((whole[:333], whole[333:])):
        parquet.write_table(part, folder / f"{number}.parquet", row_group_size=71)
    if kind == "parquet":
        return from_parquet(folder, "y", groups="who", block_rows=block_rows)
    found = dataset.dataset(sorted(folder.glob("*.parquet")))
    return from_dataset(found, "y", groups="who", block_rows=block_rows)


@pytest.mark.parametrize("kind", KINDS)
def test_every_storage_gives_the_fit_of_rows_in_memory(kind, tmp_path):
    table = X, y, ids = persons()
    source = stored(kind, table, tmp_path)
    assert source.n_groups == 300
    model = LogisticRegression(**SETTINGS).fit(source)
    expected = LogisticRegression(**SETTINGS).fit(X, y, groups=ids)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0.01)
    assert model.privacy_.unit == "group"
    assert model.privacy_.neighboring_relation == "replace_one_group"
    again = list(source.blocks())
    assert len(again) > 10
    assert all(len(block.groups) == block.X.shape[0] for block in again)
    owners = [set(block.groups.tolist()) for block in again]
    assert sum(map(len, owners)) == 300 == len(set.union(*owners))


@pytest.mark.parametrize("most", [None, 6])
@pytest.mark.parametrize("block_rows", [1, 90, 10**4])
def test_queries_find_the_sums_of_rows_in_memory(most, block_rows):
    X, y, ids = persons()
    y = 2.0 * y - 1.0
    memory = Problem(X, y, data_norm=1.0, groups=ids, max_rows_per_group=most)
    blocks = BlockProblem(
        from_npy(X, y, groups=ids, block_rows=block_rows), data_norm=1.0, max_rows_per_group=most
    )
    shape = memory.shape
    cornered = replace(shape, loss=Loss("huberized-hinge"))
    transform = np.random.default_rng(1).standard_normal((4, 4))
    w = np.array([0.5, -1.0, 0.2, 0.1])
    cases = [
        (GroupGradient(cornered, 1e3, 0.5), (transform,), (w, 1.3, 2.0, 1.1, None, 0.1)),
        (GroupSizes(shape), (), ()),
        (GroupGradient(shape, 1e3, 0.5), (transform,), (w, 1.3, 2.0, 1.1, None)),
        (GroupGradient(shape, 1e3, 0.5), (transform,), (w, 1.3, 2.0, 1.1, 0.3)),
        (ColumnParts(shape, 1.5), (), (np.full(3, 0.1), np.full(3, 0.4))),
        (Gram(shape, 1.5, 1e3), (transform,), ()),
        (ClippedGradient(shape, 0.7), (w,), ()),
    ]
    stack = np.column_stack([transform, 2.0 * transform, w])
    for kind in (WeightedScores, WeightedCurvature, ScoreProducts):
        cases.append((kind(shape, 0.5, 0.3, 1e3), (stack,), (1.0, 0.5)))
    for query, fixed, point in cases:
        one, two = (query(query.prepare(rows, *fixed), *point) for rows in (memory, blocks))
        np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match="groups must be measured first"):
        blocks.group_gradient(w[None], None)


# Noise differs a little: rounding is charged for more additions.
@pytest.mark.parametrize(
    ("solver", "most"),
    [("dp-whitened-gd", 4), ("dp-gd", 4), ("output-perturbation", 3), ("dp-gd", 1), ("auto", 1)],
)
def test_solvers_find_the_same(solver, most):
    X, y, ids = persons()
    y = 2.0 * y - 1.0
    source = from_npy(X, y, groups=ids, block_rows=150)
    memory = Problem(X, y, data_norm=1.0, groups=ids, max_rows_per_group=most)
    blocks = BlockProblem(source, data_norm=1.0, max_rows_per_group=most)
    one, two = (solve(each, solver, BUDGET, random_state=2).w for each in (memory, blocks))
    np.testing.assert_allclose(two, one, rtol=0.01)


@pytest.mark.parametrize("most", [9, None])
def test_a_log_link_counts_parts_of_persons(most):
    X, y, ids = persons()
    settings = {"data_norm": 1.5, "target_bounds": (0, 4), "random_state": 1}
    settings["max_rows_per_group"] = most
    blocks = PoissonRegressor(**settings).fit(from_npy(X, y, groups=ids, block_rows=200))
    memory = PoissonRegressor(**settings).fit(X, y, groups=ids)
    np.testing.assert_allclose(blocks.coef_, memory.coef_, rtol=0.01)


def test_of_a_very_long_person_the_same_rows_are_read_as_in_memory():
    rng = np.random.default_rng(0)
    ids = np.repeat([3, 1, 2], [40, 2600, 30])
    X = rng.uniform(-0.5, 0.5, (len(ids), 2))
    y = np.where(rng.random(len(ids)) < 0.5, -1.0, 1.0)
    source = from_batches(partial(batches, X, y, ids, 611), block_rows=64)
    assert source.sizes == (1040, 30)
    problems = (
        Problem(X, y, data_norm=1.0, groups=ids),
        BlockProblem(source, data_norm=1.0),
    )
    one, two = (np.sort(problem.margins([1.0, 2.0, 3.0])) for problem in problems)
    np.testing.assert_allclose(one, two)


def test_dask_partitions_hold_whole_persons():
    array = pytest.importorskip("dask.array")
    X, y, ids = persons()
    codes = np.unique(ids, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    X, y, codes = X[order], y[order], codes[order]
    cuts = [int(np.searchsorted(codes, at)) for at in (0, 90, 200, 300)]
    chunks = tuple(np.diff(cuts).tolist())
    parts = [array.from_array(X, chunks=(chunks, 3))]
    parts += [array.from_array(part, chunks=(chunks,)) for part in (y, codes)]
    model = LogisticRegression(**SETTINGS).fit(parts[0], parts[1], groups=parts[2])
    expected = LogisticRegression(**SETTINGS).fit(X, y, groups=codes)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0.01)
    source = from_dask(parts[0], parts[1], groups=parts[2])
    assert source.layout == BlockSizes(3, (300_000,))
    texts = array.from_array(codes.astype(object), chunks=(chunks,)).map_blocks(
        lambda part, block_id: part if block_id[0] else part.astype(str), dtype=object
    )
    with pytest.raises(TypeError, match="ids of one type; got int and str"):
        from_dask(parts[0], parts[1], groups=texts)
    cut = array.from_array(codes, chunks=(500,)), array.from_array(X, chunks=(500, 3))
    with pytest.raises(DataError, match="all rows of a group must be in one partition"):
        from_dask(cut[1], array.from_array(y, chunks=(500,)), groups=cut[0])


# ---- what is public -----------------------------------------------------------------------------


def test_nothing_public_depends_on_the_number_of_rows():
    facts = []
    for most in (2, 30):
        table = persons(most=most)
        source = from_batches(partial(batches, *table, 37), name="t", block_rows=100)
        problem = BlockProblem(source, data_norm=1.0)
        settled = plan(problem, "auto", BUDGET)
        facts.append((problem.shape, str(settled), source.digest(), repr(source)))
    assert facts[0] == facts[1]


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_the_digest_of_a_file_knows_persons_and_no_rows(kind, tmp_path):
    digests = []
    for most in (2, 30):
        stored(kind, persons(most=most), tmp_path)
        for path in tmp_path.iterdir():
            os.utime(path, ns=(10**18, 10**18))
        source = (
            from_npy(tmp_path / "X.npy", tmp_path / "y.npy", groups=tmp_path / "ids.npy")
            if kind == "npy"
            else from_csv(tmp_path / "t.csv", "y", groups="who")
        )
        digests.append(source.digest())
    assert digests[0] == digests[1]


def test_rounding_is_charged_for_the_most_blocks_that_there_can_be():
    X, y, ids = persons()
    source = from_npy(X, y, groups=ids, block_rows=50)
    assert source.layout == BlockSizes(300 * 1000 // 50 + 1, (1050,))
    assert len(source.sizes) <= source.layout.count
    assert max(source.sizes) <= source.layout.distinct[0]
    problem = BlockProblem(source, "logistic", data_norm=1.0)
    assert problem.shape.additions() >= source.layout.count


@pytest.mark.parametrize("block_rows", [1, 7, 1000, 10**6])
def test_blocks_are_of_whole_groups(block_rows):
    sizes = np.random.default_rng(0).integers(1, 2500, 40)
    start = np.append(0, np.cumsum(sizes))
    blocks = GroupBlocks(start, block_rows)
    layout = BlockSizes.of_groups(40, block_rows)
    assert set(blocks.begins) <= set(start.tolist())
    assert sum(blocks.sizes) == np.minimum(sizes, 1000).sum()
    assert all(rows >= block_rows for rows in blocks.sizes[:-1])
    assert len(blocks.sizes) <= layout.count
    assert max(blocks.sizes) <= layout.distinct[0]


@pytest.mark.parametrize("solver", ["auto", "dp-gd", "dp-newton"])
def test_swapped_persons_are_as_far_apart_as_charged(solver):
    """Replay over blocks: a person of one row becomes one of many, which shifts every block."""
    X, y, ids = persons()
    y = 2.0 * y - 1.0
    most = 5 if solver == "dp-gd" else None
    estimates = solver == "dp-newton"
    how = {"cov_type": "cluster"} if estimates else {}
    whole = BlockProblem(
        from_npy(X, y, groups=ids, block_rows=90), data_norm=1.0, max_rows_per_group=most
    )
    person = np.flatnonzero(ids == ids[400])
    first, last = person[0], person[-1] + 1
    for rows in (1, 700):
        X2 = np.concatenate([X[:first], np.full((rows, 3), 0.57, np.float32), X[last:]])
        y2 = np.concatenate([y[:first], np.ones(rows), y[last:]])
        ids2 = np.concatenate([ids[:first], np.repeat(ids[first], rows), ids[last:]])
        swapped = BlockProblem(
            from_npy(X2, y2, groups=ids2, block_rows=90), data_norm=1.0, max_rows_per_group=most
        )
        assert swapped.shape == whole.shape
        settled = plan(whole, solver, Budget(40.0, 1e-6) if estimates else BUDGET, **how)
        (one, two), looks = outcomes(settled, whole, swapped)
        assert one == two and isinstance(one[0], bytes)
        assert looks
        reached = 0.0
        for access, exact, other in looks:
            distance = np.linalg.norm(np.asarray(exact) - np.asarray(other))
            assert distance <= access.charged_sensitivity * (1.0 + 1e-9)
            reached = max(reached, distance / access.charged_sensitivity)
        assert reached > (0.05 if solver == "dp-gd" else 0.4)


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_lie_apart_are_refused_before_anything_is_paid(kind, tmp_path):
    X, y, ids = persons()
    ids[-1] = ids[0]
    with pytest.raises(DataError, match=r"must lie side by side.*Sort the rows by group"):
        stored(kind, (X, y, ids), tmp_path)


@pytest.mark.parametrize(
    ("ids", "error", "match"),
    [
        (np.array([1.0, 2.0, 2.0]), TypeError, "floating-point"),
        (np.array(["a", None, "b"], dtype=object), ValueError, "at least one is missing"),
        (np.array(["a", np.nan, "b"], dtype=object), ValueError, "at least one is missing"),
        (np.array([1, 2.5, 3], dtype=object), TypeError, "floating-point"),
        (np.array([1, np.float32(2), 3], dtype=object), TypeError, "floating-point"),
        (np.array(["a", "", "b"]), ValueError, "at least one is missing"),
        (np.array(["2020-01-01", "NaT", "2020-01-02"], "M8[s]"), ValueError, "one is missing"),
        (np.ma.array([1, 2, 3], mask=[False, False, True]), ValueError, "at least one is missing"),
        (np.array([1, 2]), (ValueError, DataError), r"groups must have .*3"),
        (np.ones((3, 1), dtype=int), (ValueError, DataError), "groups must have"),
    ],
)
def test_bad_ids(ids, error, match):
    X, y = np.ones((3, 1)), np.array([1, 0, 1])
    with pytest.raises(error, match=match):
        from_npy(X, y, groups=ids)
    with pytest.raises(error, match=match):
        from_batches(lambda: iter([(X, y, None, ids)]))


def test_integers_are_the_same_persons_in_arrays_of_whichever_type():
    pieces = [np.array([1, 1]), np.array([-2, 3], dtype=object), np.array([1], dtype=np.uint8)]
    with pytest.raises(DataError, match="must lie side by side"):
        group_starts(pieces, "here")
    pieces[-1] = np.array([2**64 - 3], dtype=np.uint64)
    np.testing.assert_array_equal(group_starts(pieces, "here"), [0, 2, 3, 4, 5])


@pytest.mark.parametrize(
    "ids",
    [
        [Decimal("7"), Decimal("8"), Decimal("7.0")],
        [(1, True), (2, 1), (np.int64(1), 1)],
        [datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC),
         datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))],
        [datetime(2026, 1, 1), datetime(2026, 2, 1), datetime(2026, 1, 1, fold=1)],
    ],
    ids=["decimals", "tuples", "times", "folds"],
)  # fmt: skip
def test_equal_ids_are_one_person_however_they_are_written(ids):
    array = np.fromiter(ids, dtype=object, count=3)
    assert index_groups(array, 3, 9).count == 2
    with pytest.raises(DataError, match="must lie side by side"):
        group_starts([array], "here")


def test_ids_that_may_be_written_in_several_ways_are_refused():
    """Equal sets have their entries in any order: rows of one person counted as those of two."""
    ids = np.fromiter([frozenset({8, 0}), frozenset({1}), frozenset({0, 8})], object, count=3)
    assert repr(ids[0]) != repr(ids[2])
    with pytest.raises(TypeError, match=r"ids that are written in one way.*got frozenset"):
        group_starts([ids], "here")


@pytest.mark.parametrize("ids", [["1", "1", "a"], np.array([1, 1, 9], "M8[s]")])
def test_batches_with_ids_of_two_types_are_refused(ids):
    X, y = np.ones((3, 1)), np.array([1, 0, 1])
    batches = [(X, y, None, np.array([0, 0, 1])), (X, y, None, np.asarray(ids))]
    with pytest.raises(
        TypeError, match=r"groups must hold ids of one type; got (datetime|int) and (int|str)"
    ):
        from_batches(lambda: iter(batches))


def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    ids = np.array(["a", pandas.NA, "b"], dtype=object)
    with pytest.raises(ValueError, match="at least one is missing"):
        group_starts([ids], "here")


def test_missing_and_wrong_columns(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {"x": [1.0, 2.0, 3.0], "y": [0, 1, 0], "who": [1, None, 3], "real": [1.0, 2.0, 3.0],
             "blank": ["a", "", "b"]}  # fmt: skip
    parquet.write_table(pyarrow.table(table), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"'who': a value is missing. Give every row an id"):
        from_parquet(tmp_path / "t.parquet", "y", ["x"], groups="who")
    with pytest.raises(TypeError, match="got floating-point numbers"):
        from_parquet(tmp_path / "t.parquet", "y", ["x"], groups="real")
    with pytest.raises(ValueError, match="at least one is missing"):
        from_parquet(tmp_path / "t.parquet", "y", ["x"], groups="blank")
    with pytest.raises(DataError, match="has no columns"):
        from_parquet(tmp_path / "t.parquet", "y", ["x"], groups="nobody")
    with pytest.raises(ValueError, match="columns must be different"):
        from_parquet(tmp_path / "t.parquet", "y", ["x", "who"], groups="who")
    (tmp_path / "t.csv").write_text("x,y,who\n1,0,a\n2,1,\n3,0,b\n")
    with pytest.raises(DataError, match="a value is missing"):
        from_csv(tmp_path / "t.csv", "y", groups="who")


def test_ids_in_csv_are_texts(tmp_path):
    """01 and 1 are two persons, and what looks like a number first may be a text later."""
    lines = [f"{0.01 * row},{row % 2},{who}" for row, who in enumerate(["01", "1", "1", "x"])]
    (tmp_path / "t.csv").write_text("\n".join(["a,y,who", *lines]) + "\n")
    assert from_csv(tmp_path / "t.csv", "y", groups="who").n_groups == 3


def test_persons_that_change_between_passes_are_noticed():
    X, y, ids = persons()
    given = [ids]
    source = from_batches(lambda: batches(X, y, given[0], 50), block_rows=100)
    model = LogisticRegression(**SETTINGS)
    given[0] = np.roll(ids, 1)
    with pytest.raises(DataError, match="groups must begin at the same rows in every pass"):
        model.fit(source)


def test_some_batches_without_groups():
    X, y, ids = persons(20)
    half = len(y) // 2
    parts = [(X[:half], y[:half], None, ids[:half]), (X[half:], y[half:])]
    with pytest.raises(DataError, match="either all batches must have groups or none"):
        from_batches(lambda: iter(parts))


def test_a_source_can_be_sent_to_other_processes(tmp_path):
    source = stored("npy", persons(), tmp_path)
    again = pickle.loads(pickle.dumps(source))
    assert again.digest() == source.digest()
    np.testing.assert_array_equal(next(again.blocks()).groups, next(source.blocks()).groups)


def test_a_limit_needs_groups():
    X, y, _ = persons(20)
    with pytest.raises(ValueError, match="must be None for rows without groups"):
        BlockProblem(from_npy(X, 2.0 * y - 1.0), data_norm=1.0, max_rows_per_group=3)
