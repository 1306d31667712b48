"""Where blocks come from: every kind of storage gives the same rows, and says what is wrong."""

import itertools
import os
import pickle
import re
import threading
import traceback
import warnings
import weakref
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from dpfast import (
    Budget,
    BudgetAccountant,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Problem,
    solve,
)
from dpfast.blocks import (
    BlockProblem,
    _source,
    from_batches,
    from_csv,
    from_dataset,
    from_npy,
    from_parquet,
)
from dpfast.errors import DataError, QuestionableSettingWarning

ROWS = 230


@pytest.fixture
def table():
    """Rows whose entries a CSV file holds exactly, in float32 as in float64."""
    rng = np.random.default_rng(0)
    X = (rng.integers(-300, 300, (ROWS, 3)) / 128).astype(np.float32)
    return X, np.where(X.sum(axis=1) + rng.logistic(size=ROWS) > 0, 1.0, -1.0)


@pytest.fixture(params=[False, True], ids=["one thread", "read ahead"])
def threads(request, monkeypatch):
    """Whether a thread reads ahead, which it does not for tiny blocks."""
    monkeypatch.setattr(_source, "_AHEAD_BYTES", 0 if request.param else 2**60)
    yield
    assert not [t for t in threading.enumerate() if t.name == "dpfast-read-ahead"]


def stored(kind, table, folder):
    """A source of 50 rows a block, but for what is in them stored in different ways."""
    X, y = table
    if kind == "npy":
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        return from_npy(folder / "X.npy", folder / "y.npy", block_rows=50)
    if kind == "fortran npy":
        np.save(folder / "X.npy", np.asfortranarray(X))
        return from_npy(folder / "X.npy", y, block_rows=50)
    if kind == "memory map":
        np.save(folder / "X.npy", X)
        return from_npy(np.load(folder / "X.npy", mmap_mode="r"), y, block_rows=50)
    if kind == "batches":
        cuts = [0, 1, 120, 120, 170, ROWS]

        def batches():
            for low, high in itertools.pairwise(cuts):
                yield X[low:high], y[low:high]

        return from_batches(batches, block_rows=50)
    if kind == "sparse batches":

        def batches():
            for low in range(0, ROWS, 33):
                yield scipy.sparse.coo_array(X[low : low + 33]), y[low : low + 33]

        return from_batches(batches, block_rows=50)
    pyarrow = pytest.importorskip("pyarrow")
    names = ["a", "b", "c"]
    columns = dict(zip(names, X.T, strict=True)) | {"y": y, "text": ["no"] * ROWS}
    data = pyarrow.table(columns)
    if kind == "csv":
        from pyarrow import csv

        csv.write_csv(data.drop(["text"]), folder / "rows.csv")
        return from_csv(folder / "rows.csv", "y", block_rows=50)
    from pyarrow import dataset, parquet

    if kind == "dataset":
        return from_dataset(dataset.dataset(data), "y", names, block_rows=50)
    # Row groups of another length than blocks, in two files.
    parquet.write_table(data[:100], folder / "1.parquet", row_group_size=30)
    parquet.write_table(data[100:], folder / "2.parquet", row_group_size=80)
    return from_parquet(folder, "y", names, block_rows=50)


KINDS = ["npy", "fortran npy", "memory map", "batches", "sparse batches", "csv", "dataset",
         "parquet"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_storage_gives_the_same_fit(kind, table, tmp_path, monkeypatch):
    monkeypatch.setattr(_source, "_AHEAD_BYTES", 0)  # so that a thread reads ahead
    X, y = table
    source = stored(kind, table, tmp_path)
    assert source.sizes == (50, 50, 50, 50, 30)
    assert source.n_features == 3
    first, second = (
        solve(problem, "dp-gd", Budget(5.0, 1e-6), random_state=3, iterations=5).w
        for problem in (Problem(X, y, data_norm=2.0), BlockProblem(source, data_norm=2.0))
    )
    np.testing.assert_allclose(second, first, rtol=1e-10)
    blocks = list(source.blocks())
    assert [block.number for block in blocks] == [0, 1, 2, 3, 4]
    rows = [b.X.toarray() if scipy.sparse.issparse(b.X) else b.X for b in blocks]
    np.testing.assert_array_equal(np.vstack(rows), X)
    if kind != "csv":
        assert all(block.X.dtype == np.float32 for block in blocks)
    (chosen,) = source.map(rows_and_targets, [2])
    np.testing.assert_array_equal(chosen[1], y[100:150])


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["arrays", "batches"])
def test_what_a_mask_hides_is_not_shown(kind, place):
    parts = [np.ones((9, 2)), np.ones(9), np.ones(9)]
    parts[place] = np.ma.masked_array(parts[place], mask=False)
    parts[place][3] = np.ma.masked
    with pytest.raises(ValueError, match="must hold numbers or labels without a mask"):
        from_npy(*parts) if kind == "arrays" else from_batches(lambda: [tuple(parts)])


def test_lists_of_rows_are_float64_whatever_is_among_them():
    """One entry decided how all others of its batch are added up."""
    rows = np.ones((4, 2), dtype=np.float32).tolist()
    narrow = [[np.float32(x) for x in row] for row in rows]
    for X in (rows, narrow):
        (block,) = from_batches(lambda X=X: [(X, [1.0, -1.0, 1.0, 1.0])]).blocks()
        assert block.X.dtype == np.float64


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("block_rows", [2, 4, 8])
def test_batches_may_fill_the_same_arrays_anew(block_rows, sparse):
    """Rows that changed while they were summed, or labels of other rows, had any sensitivity."""
    rng = np.random.default_rng(0)
    table = rng.uniform(1.0, 2.0, (16, 5))
    table[:, 4] = np.repeat(np.arange(6), 3)[:16]
    buffer = np.empty((4, 5))
    whose = np.empty(4, dtype=np.int64)

    def batches():
        for start in range(0, 16, 4):
            buffer[:], whose[:] = table[start : start + 4], table[start : start + 4, 4]
            X = buffer[:, :2]
            if sparse:
                X = scipy.sparse.csr_array((X.ravel(), [0, 1] * 4, range(0, 9, 2)), (4, 2))
            yield X, buffer[:, 2], buffer[:, 3], whose

    source = from_batches(batches, block_rows=block_rows)
    blocks = list(source.blocks())
    found = [
        np.column_stack([block.X.toarray() if sparse else block.X, block.y, block.weight])
        for block in blocks
    ]
    np.testing.assert_array_equal(np.vstack(found), table[:, :4])
    assert source.n_groups == 6
    np.testing.assert_array_equal(np.concatenate([b.groups for b in blocks]), table[:, 4])


def rows_and_targets(block):
    return block.X, block.y


@pytest.mark.parametrize("values", ["1.25\n", "1\n"], ids=["longer", "of another type"])
def test_the_digest_of_a_text_file_does_not_depend_on_its_values(values, tmp_path):
    path = tmp_path / "rows.csv"
    digests = []
    for last in ("2.5\n", values):
        path.write_text("a,y\n1,0\n3,1\n0," + last)
        os.utime(path, ns=(10**18, 10**18))
        digests.append(from_csv(path, "y").digest())
    assert digests[0] == digests[1]
    os.utime(path, ns=(10**18, 10**18 + 1))
    assert from_csv(path, "y").digest() != digests[0]


def test_nor_does_that_of_a_table_depend_on_types_that_follow_from_values(tmp_path):
    """One number of another type, which a checkpoint told."""
    dataset = pytest.importorskip("pyarrow.dataset")
    parquet = pytest.importorskip("pyarrow.parquet")
    text, binary, digests = tmp_path / "rows.csv", tmp_path / "rows.parquet", []
    for last in ("1", "1.5"):
        text.write_text(f"a,y\n1,0\n2,1\n{last},1\n")
        read = dataset.dataset(text, format="csv")
        parquet.write_table(read.to_table(), binary)
        for path in (text, binary):
            os.utime(path, ns=(10**18, 10**18))
        digests.append((from_dataset(read, "y").digest(), from_parquet(binary, "y").digest()))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("role", ["y", "groups"])
@pytest.mark.parametrize("stored", [False, True], ids=["array", "file"])
def test_nor_on_the_longest_text_among_labels_or_ids(stored, role, tmp_path):
    """NumPy's type of texts is as long as the longest of them."""
    digests = []
    for last in ("no", "a rare one"):
        text = np.array(["yes", "yes", last])
        if stored:
            np.save(tmp_path / "text.npy", text)
            os.utime(tmp_path / "text.npy", ns=(10**18, 10**18))
        beside = {"y": np.ones(3), role: tmp_path / "text.npy" if stored else text}
        digests.append(from_npy(np.eye(3), **beside).digest())
    assert digests[0] == digests[1]


@pytest.mark.parametrize("kind", ["npy", "parquet", "csv"])
def test_sources_of_files_can_be_sent_to_other_processes(kind, table, tmp_path):
    source = stored(kind, table, tmp_path)
    again = pickle.loads(pickle.dumps(source))
    assert again.digest() == source.digest()
    np.testing.assert_array_equal(next(again.blocks()).X, next(source.blocks()).X)


def test_no_row_of_parquet_files_counts_twice(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import dataset, parquet

    paths = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.parquet")]
    for path in paths[:2]:
        parquet.write_table(pyarrow.table({"a": [1.0], "y": [0]}), path)
    assert from_parquet(paths[:2], "y").n_samples == 2
    first, second = (dataset.dataset(path) for path in paths[:2])
    assert from_dataset(dataset.dataset([first, second]), "y").n_samples == 2
    for link in (paths[2].symlink_to, paths[2].hardlink_to):
        link(paths[0])
        for twice in (paths, tmp_path):
            with pytest.raises(ValueError, match="path must name each file once"):
                from_parquet(twice, "y")
        for twice in (dataset.dataset(tmp_path), dataset.dataset([first, second, first])):
            with pytest.raises(ValueError, match="dataset must name each file once"):
                from_dataset(twice, "y")
        paths[2].unlink()


@pytest.mark.parametrize(
    ("name", "sign", "files"),
    [
        ("Delta Lake", "_delta_log/0.json", "."),
        ("Apache Hudi", ".hoodie/hoodie.properties", "2024/05"),
        ("Apache Iceberg", "metadata/v1.metadata.json", "data"),
    ],
)
def test_files_of_tables_that_keep_former_rows_are_refused(tmp_path, name, sign, files):
    """A row that was changed or deleted would count beside what it was changed to."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import dataset, parquet

    folder = tmp_path / files
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({"a": [1.0], "y": [0]}), folder / "a.parquet")
    assert from_parquet(folder, "y").n_samples == 1
    (tmp_path / sign).parent.mkdir()
    (tmp_path / sign).write_text("{}")
    with pytest.raises(DataError, match=f"a table of {name}, whose files also hold rows"):
        from_parquet(folder, "y")
    opened = dataset.dataset(tmp_path, format="parquet", exclude_invalid_files=True)
    for twice in (opened, dataset.dataset([opened])):
        with pytest.raises(DataError, match=f"a table of {name}, whose files also hold rows"):
            from_dataset(twice, "y")
    assert from_dataset(dataset.dataset(opened.to_table()), "y").n_samples == 1


def test_names_labels_and_weights_of_a_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(1)
    X, weight = rng.standard_normal((300, 2)), rng.random(300)
    labels = np.where(X[:, 0] + rng.logistic(size=300) > 0, "yes", "no")
    data = pyarrow.table(
        {"y": pyarrow.array(labels).dictionary_encode(), "a": X[:, 0], "w": weight, "b": X[:, 1]}
    )
    parquet.write_table(data, tmp_path / "t.parquet", row_group_size=70)
    source = from_parquet(tmp_path / "t.parquet", "y", sample_weight="w", block_rows=100)
    settings = {"data_norm": 2.0, "classes": ["no", "yes"], "max_weight": 1.0, "random_state": 1}
    model = LogisticRegression(**settings).fit(source)
    expected = LogisticRegression(**settings).fit(X, labels, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    unlabeled = from_parquet(tmp_path / "t.parquet", columns=["a", "b"])
    np.testing.assert_array_equal(model.predict(unlabeled), expected.predict(X))


@pytest.mark.parametrize("kind", ["parquet", "csv", "dataset"])
def test_an_id_that_would_be_a_feature_unasked_is_told_of(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, dataset, parquet

    names = ("patient_id", "stayID", "Id", "paid", "grid", "y")
    table = pyarrow.table({name: [0.0, 1.0] for name in names})
    parquet.write_table(table, tmp_path / "t.parquet")
    csv.write_csv(table, tmp_path / "t.csv")
    read, data = {
        "parquet": (from_parquet, tmp_path / "t.parquet"),
        "csv": (from_csv, tmp_path / "t.csv"),
        "dataset": (from_dataset, dataset.dataset(tmp_path / "t.parquet")),
    }[kind]
    with pytest.warns(QuestionableSettingWarning) as told:
        assert read(data, "y").n_features == 5
    (message,) = (str(one.message) for one in told)
    assert "columns was not given, so 'patient_id', 'stayID', 'Id' are features." in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(data, "y", ["patient_id", "paid"])  # who names it means it
        read(data, "stayID", ["paid"])


# ---- reading ahead ------------------------------------------------------------------------------


def test_two_blocks_are_in_memory_at_most(threads):
    """Counted when a block is made: those before it that are still alive."""
    alive, most = [], []

    def batches():
        for number in range(8):
            X = np.full((50, 2), float(number))
            alive.append(weakref.ref(X))
            most.append(sum(ref() is not None for ref in alive))
            yield X, np.ones(50)
            del X

    source = from_batches(batches, n_samples=400, block_rows=50)
    alive.clear()
    most.clear()
    list(source.map(rows_sum))
    assert max(most) <= 2


def rows_sum(block):
    return float(block.X.sum())


def test_an_interrupted_pass_leaves_no_thread_and_the_next_one_is_whole(table, tmp_path, threads):
    source = stored("npy", table, tmp_path)

    def stop(block):
        if block.number == 2:
            raise KeyboardInterrupt
        return block.number

    results = source.map(stop)
    assert next(results) == 0
    with pytest.raises(KeyboardInterrupt):
        list(results)
    abandoned = source.map(rows_sum)
    next(abandoned)
    abandoned.close()
    assert len(list(source.map(rows_sum))) == 5


@pytest.mark.filterwarnings("error")
def test_numpy_warns_of_a_generator_as_in_the_thread_of_the_caller():
    """A fit switches these warnings off: they would tell of the rows."""

    def blocks():
        yield np.float64(1e308) * np.float64(10.0)

    with np.errstate(over="ignore"):
        assert list(_source._ahead(blocks())) == [np.inf]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        list(_source._ahead(blocks()))


def test_an_error_of_the_reader_reaches_the_caller(threads):
    def batches():
        yield np.ones((50, 2)), np.ones(50)
        raise OSError("the disk is gone")

    source = from_batches(batches, n_samples=100, block_rows=50)
    with pytest.raises(OSError, match="the disk is gone"):
        list(source.map(rows_sum))


# ---- data that are wrong ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "match"),
    [
        ([(60, 2)], r"there must be 100 rows in every pass.*got only 60"),
        ([(60, 2), (41, 2)], r"batch 1: there must be 100 rows in every pass.*got more than 100"),
        ([(60, 2), (40, 3)], r"there must be 2 columns, as before; got 3"),
        ([(50, 3), (50, 3)], r"must have 50 rows and 2 columns, as was found when.*got 50 and 3"),
    ],
)
def test_a_second_pass_with_other_rows_is_noticed(second, match, threads):
    shapes = [[(60, 2), (40, 2)], [(60, 2), (40, 2)], second]

    def batches():
        for shape in shapes.pop(0):
            yield np.ones(shape), np.ones(shape[0])

    source = from_batches(batches, block_rows=50)
    problem = BlockProblem(source, data_norm=1.0)
    with pytest.raises(DataError, match=match):
        problem.objective(np.zeros(3))


@pytest.mark.parametrize(
    ("batch", "error", "match"),
    [
        (np.ones((3, 2)), TypeError, r"must be a tuple \(X, y\)"),
        ((np.ones(3), np.ones(3)), DataError, "X must be a two-dimensional array"),
        ((np.ones((3, 2)), np.ones(2)), DataError, r"y must have shape \(3,\)"),
        ((np.ones((3, 2)), np.ones(3), np.ones(2)), DataError, "sample_weight must have shape"),
        ((np.array([["a"]]), np.ones(1)), DataError, "array of real numbers"),
    ],
)
def test_batches_of_another_form(batch, error, match):
    with pytest.raises(error, match=match):
        from_batches(lambda: [batch])


def test_arguments(table, tmp_path):
    X, y = table
    with pytest.raises(TypeError, match="An iterator alone can be read only once"):
        from_batches(iter([(X, y)]))
    with pytest.raises(ValueError, match="at least one batch with a row; got none"):
        from_batches(list)
    with pytest.raises(ValueError, match="n_features must be 3, as in the first batch; got 4"):
        from_batches(lambda: [(X, y)], n_features=4)
    with pytest.raises(ValueError, match="block_rows must be"):
        from_npy(X, y, block_rows=0)
    with pytest.raises(TypeError, match="read_ahead must be True or False"):
        from_npy(X, y, read_ahead=1)
    with pytest.raises(TypeError, match=r"X must be an array or the name of a \.npy file"):
        from_npy([[1.0]], y)
    with pytest.raises(ValueError, match="y must have 230 entries, as X has rows; got 3"):
        from_npy(X, y[:3])
    with pytest.raises(ValueError, match="X must have 2 dimensions"):
        from_npy(y, y)
    with pytest.raises(TypeError, match="X must hold real numbers"):
        from_npy(X.astype(str), y)
    (tmp_path / "no.npy").write_text("nothing")
    with pytest.raises(DataError, match=r"no\.npy is not an array in NumPy's format"):
        from_npy(tmp_path / "no.npy", y)
    np.savez(tmp_path / "two.npz", X=X)
    with pytest.raises(DataError, match="it is an archive"):
        from_npy(tmp_path / "two.npz", y)
    np.save(tmp_path / "X.npy", X)
    source = from_npy(tmp_path / "X.npy", y, block_rows=50)
    with open(tmp_path / "X.npy", "r+b") as stream:
        stream.truncate(1000)
    with pytest.raises(DataError, match="the file ends before its last row"):
        list(source.blocks())


def test_parquet_that_is_wrong(table, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = table
    data = pyarrow.table({"a": X[:, 0], "b": X[:, 1].astype(float), "t": ["x"] * ROWS, "y": y})
    path = tmp_path / "a.parquet"
    parquet.write_table(data, path)
    with pytest.raises(DataError, match=r"a\.parquet, column 't': must hold numbers; got string"):
        from_parquet(path, "y")
    with pytest.raises(DataError, match=r"a\.parquet has no columns \['z'\]"):
        from_parquet(path, "z")
    with pytest.raises(TypeError, match="columns must be a list of names"):
        from_parquet(path, "y", "a")
    with pytest.raises(ValueError, match="columns must be different from each other and from"):
        from_parquet(path, "y", ["a", "y"])
    with pytest.raises(TypeError, match="target must be the name of a column"):
        from_parquet(path, 3)
    with pytest.raises(DataError, match="has no files that end in"):
        (tmp_path / "empty").mkdir()
        from_parquet(tmp_path / "empty", "y")
    assert next(from_parquet(path, "y", ["a", "b"]).blocks()).X.dtype == np.float64
    other = data.set_column(1, "b", [X[:, 1]])
    parquet.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet, column 'b': must be double, as in"):
        from_parquet([path, tmp_path / "b.parquet"], "y", ["a", "b"])
    holes = data.set_column(0, "a", [pyarrow.array([None, *X[1:, 0]], pyarrow.float32())])
    parquet.write_table(holes, path)
    with pytest.raises(DataError, match=r"row group 0, column 'a': a value is missing"):
        list(from_parquet(path, "y", ["a"]).blocks())
    parquet.write_table(data.set_column(1, "b", [X[:, 1].astype(float) * np.nan]), path)
    problem = BlockProblem(from_parquet(path, "y", ["a", "b"]), data_norm=1.0)
    with pytest.raises(DataError, match=r"row group 0, column 'b': X must hold finite numbers"):
        problem.objective(np.zeros(3))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="is not a complete Parquet file"):
        from_parquet(path, "y", ["a"])


def test_csv_that_is_wrong(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1.5,0\nnone,1\n")
    with pytest.raises(DataError, match=r"a\.csv, column 'a': .*error.*must hold num") as caught:
        list(from_csv(path, "y").blocks())
    assert "none" not in str(caught.value) and caught.value.__suppress_context__
    path.write_text("b,a,y\n1,2,0\n1,none,1\n")
    with pytest.raises(DataError, match=r"column 'a': (Row #3: )?CSV conv"):
        list(from_csv(path, "y", ["a"]).blocks())
    path.write_text("a;y\n1;0\n")
    with pytest.raises(DataError, match=r"has no columns \['y'\]"):
        from_csv(path, "y")
    path.write_text("a,y\n")
    with pytest.raises(DataError, match=r"a\.csv has columns but no rows"):
        from_csv(path, "y")
    path.write_text("a,y\n1.5,0\n,1\n")
    with pytest.raises(DataError, match=r"column 'a': a value is missing"):
        list(from_csv(path, "y").blocks())


def test_numbers_may_be_names_if_they_are_given(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.csv"
    path.write_text("0,1,y\n1.5,2,0\n")
    assert from_csv(path, "y", ["1", "0"]).feature_names == ("1", "0")
    path.write_text("1,y\n1.5,0\n")
    assert from_csv(path, "1").feature_names == ("y",)


def test_errors_about_lines_quote_none(tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import dataset

    path = tmp_path / "a.csv"
    for lines, message in (
        ("a,y\n1.5,0\n77,1,3\n", "Expected 2 columns, got 3"),
        ("77,1\n77,0\n", r"must hold the names of the columns; .* by columns=\[\.\.\.\]"),
    ):
        path.write_text(lines)
        with pytest.raises(DataError, match=rf"a\.csv.* {message}\.$") as caught:
            list(from_csv(path, "y").blocks())
        assert "77" not in str(caught.value).replace(str(tmp_path), "")
    # A value is called like a column, or stands there twice.
    for line, roles in (
        ("77,y,5", ("y", ["a", "b"])), ("77,77,5", ("y",)), ("77,77,5", ()), ("77,77,y", ("y",)),
        ("77,5,y", ("y",)), ("77,5", ()), ("77,nan,y", ("y",)), ("77,y,77", ("y", ["a"])),
    ):  # fmt: skip
        path.write_text(f"{line}\n{line}\n")
        with pytest.raises(
            DataError, match=r"not shown: they are a rec|must hold the na"
        ) as caught:
            from_csv(path, *roles)
        assert "77" not in str(caught.value).replace(
            str(tmp_path), ""
        ) and "no columns ['a', 'b']" not in str(caught.value)
    path.write_text("a,y\n" + "1.5,0\n" * 300_000 + "secret,1\n")
    source = from_dataset(dataset.dataset(path, format="csv"), "y")
    with pytest.raises(DataError, match=r"the dataset: .*conversion error") as caught:
        list(source.blocks())
    assert "secret" not in str(caught.value)


def test_nor_do_those_about_records_of_a_data_set_and_about_text_that_is_none(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, dataset, parquet

    path = tmp_path / "a.csv"
    path.write_text("a,y\n" + "1.5,0\n" * 30 + "77\n")
    form = dataset.CsvFileFormat(read_options=csv.ReadOptions(block_size=64))
    text = pyarrow.py_buffer(b"a77\xff")
    ends = pyarrow.py_buffer(np.array([0, 1, 4], dtype=np.int32))
    column = pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, ends, text])
    binary = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"a": [1.0, 2.0], "who": column}), binary)
    for read, message in (
        (lambda: from_dataset(dataset.dataset(path, format=form), "y"), "Expected 2 columns"),
        (lambda: from_parquet(binary, columns=["a"], groups="who"), "'who': texts must be UTF-8"),
        (lambda: list(from_parquet(binary, "who", ["a"]).blocks()), "'who': texts must be UTF-8"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            read()
        told = "".join(traceback.format_exception(caught.value))
        assert "77\n" not in told and "Wrapping" not in told and "codec" not in told


@pytest.mark.parametrize("entry", ["secret", b"secret", 10**400, date(2031, 7, 9), 2031j])
@pytest.mark.parametrize(
    "model",
    [LinearRegression(target_bounds=(0.0, 1.0)), PoissonRegressor(target_bounds=(0.0, 9.0))],
    ids=lambda model: type(model).__name__,
)
def test_targets_that_are_no_numbers_are_not_quoted(model, entry, table):
    X = table[0]
    y = np.zeros(len(X), dtype=object)
    y[7] = entry
    source = from_batches(lambda: iter([(X, y)]))
    with pytest.raises((DataError, TypeError), match="batch 0: y must hold") as caught:
        model.set_params(data_norm=2.0).fit(source)
    said = "".join(traceback.format_exception(caught.value))
    assert "secret" not in said and "2031" not in said


def test_a_source_without_targets_is_refused_before_anything_is_spent(table):
    X, _ = table
    model = LogisticRegression(data_norm=2.0, classes=[0, 1])
    with BudgetAccountant(Budget(1.0, 1e-6)) as accountant:
        for source in (from_npy(X), from_batches(lambda: [(X, None)])):
            with pytest.raises(ValueError, match="source must have targets"):
                model.fit(source)
    assert accountant.events == ()


def test_predictions_take_no_columns_in_another_order(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.random(200), "b": rng.random(200), "y": np.arange(200) % 2})
    parquet.write_table(table, tmp_path / "a.parquet")
    model = LogisticRegression(data_norm=2.0, classes=[0, 1], random_state=0)
    model.fit(from_parquet(tmp_path / "a.parquet", "y"))
    expected = model.predict_proba(from_parquet(tmp_path / "a.parquet", columns=["a", "b"]))
    assert expected.shape == (200, 2)
    with pytest.raises(
        ValueError, match=r"must have the columns \['a', 'b'\], in the order of fit"
    ):
        model.predict(from_parquet(tmp_path / "a.parquet", columns=["b", "a"]))


def test_the_digest_is_that_of_schema_and_files(table, tmp_path):
    source = stored("npy", table, tmp_path)
    digest = source.digest()
    assert digest == from_npy(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=50).digest()
    X, y = table
    np.save(tmp_path / "X.npy", X[:200])
    np.save(tmp_path / "y.npy", y[:200])
    assert from_npy(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=50).digest() != digest
    arrays = from_npy(X, y).digest()
    assert from_npy(X + 1.0, y).digest() == arrays  # values are not looked at
    assert from_npy(X[:, :2], y).digest() != arrays
    assert from_npy(X, y, block_rows=10).digest() != arrays
    named = [from_batches(lambda: [(X, y)], name=name).digest() for name in ("one", "two", "one")]
    assert named[0] == named[2] != named[1]


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "large_data.md"


@pytest.mark.skipif(not GUIDE.is_file(), reason="the documentation is not part of a package")
def test_the_guide_runs(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)
    names = {}
    exec(code, names)
    assert np.mean(names["labels"] == names["y"]) > 0.7
    assert (tmp_path / "rows.checkpoint").is_file()
