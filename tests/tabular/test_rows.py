"""Rows of a table in compact codes: how much memory they take, and where they lie."""

import errno
import gc
import os
import tempfile
import tracemalloc
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dpfast import TableModel
from dpfast.coded import CodedMatrix
from dpfast.errors import DataError
from dpfast.tabular import TableSchema, rows
from dpfast.tabular.frames import plain_chunk
from dpfast.tabular.rows import RowCoder, TableRows, encode

BOUNDS = {"x": [0, 1], "city": ["a", "b", "c"], "y": ["n", "p"], "w": [0, 2], "target": "y"}


def chunks(n, size=1000):
    rng = np.random.default_rng(0)
    for start in range(0, n, size):
        m = min(size, n - start)
        yield {
            "x": rng.random(m),
            "city": rng.choice(["a", "b", "c"], m).tolist(),
            "y": rng.choice(["n", "p"], m).tolist(),
            "w": rng.integers(0, 3, m),
        }


def stored(n, **roles):
    schema = TableSchema.from_bounds({**BOUNDS, **roles})
    return TableRows(RowCoder(schema, fit=True), chunks(n))


ENTRIES = [
    0.1, 1, True, np.True_, np.float32(0.1), np.float16(0.1), Decimal("0.10"), 2**60 + 1,
    np.uint64(2**64 - 1), 10**19, 10**400, Decimal("0.33333333333333333333333"), "0.1", "true",
    date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 678901), pd.Timestamp("2020-01-02 03:04:05.9"),
]  # fmt: skip
OTHERS = ["x", "", None, 0.5, True, Decimal("0.5"), np.float32(0.5), date(2020, 5, 5), "2020-05-05"]
COLUMNS = [
    {"range": [0, 200], "missing": "indicator"},
    {"dates": ["2019-01-01", "2021-01-01"], "missing": "indicator"},
    ["0.1", "1", "x", "true", "2020-01-02", "2020-01-02 00:00:00", str(2**60), str(2**60 + 1),
     "1e19", "0.33333333333333333333333"],
]  # fmt: skip


@pytest.mark.parametrize("declared", COLUMNS, ids=["range", "dates", "categories"])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{type(entry).__name__}-{entry!s:.9}")
def test_an_entry_means_the_same_whichever_others_a_column_has(declared, entry):
    """One record of another type made another category, or number, of all others' entries."""
    schema = TableSchema.from_bounds({"x": declared, "y": ["n", "p"], "target": "y"})
    found = set()
    for others in ([], *([other] for other in OTHERS)):
        for column in ([entry, *others], pd.Series([entry, *others], dtype=object)):
            try:
                (code, *_) = RowCoder(schema, fit=False).codes(plain_chunk({"x": column}))["x0"]
            except DataError:
                continue  # which says that it is refused
            found.add(code.tobytes())
    assert len(found) <= 1


@pytest.mark.parametrize("missing", [[-9.0], ["-9"], ["-9.00"], ["-.9e1"]], ids=str)
def test_a_number_that_stands_for_none_does_so_however_it_is_written(missing):
    entry = {"range": [-20, 20], "missing": "indicator", "missing_values": missing}
    schema = TableSchema.from_bounds({"x": entry, "y": ["n", "p"], "target": "y"})
    for column in ([-9], [-9.0, 3.5], [-9, ""], [-9.0, "3"], ["-9"], ["-9.0"], np.array([-9])):
        found = RowCoder(schema, fit=False).codes(plain_chunk({"x": column}))["x0"]
        assert np.isnan(found[0])


@pytest.mark.parametrize("limit", [10**9, 100])
def test_rows_come_back_as_they_were(limit, monkeypatch):
    monkeypatch.setattr(rows, "_MEMORY_BYTES", limit)
    found = stored(2500, weight="w")
    X, y, more = found.dense()
    whole = list(chunks(2500))
    np.testing.assert_allclose(X[:, 0], 2 * np.concatenate([c["x"] for c in whole]) - 1)
    assert y.tolist() == [label == "p" for chunk in whole for label in chunk["y"]]
    assert more["sample_weight"].tolist() == [w for chunk in whole for w in chunk["w"]]
    pieces = list(found.pieces(500, 2200, 600))
    assert [len(piece.X) for piece in pieces] == [600, 600, 500]
    np.testing.assert_array_equal(
        np.concatenate([piece.X for piece in pieces]), X[500:2200].astype(np.float32)
    )
    np.testing.assert_array_equal(np.concatenate([piece.y for piece in pieces]), y[500:2200])


def test_codes_are_compact():
    found = stored(10)
    # A number, a category of three, a weight that is none, a class.
    assert found.records(0, 1).itemsize == 8 + 1 + 8 + 2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_the_file_has_no_name_and_goes(monkeypatch):
    def open_files():
        names = {}
        for number in os.listdir("/proc/self/fd"):
            try:
                names[number] = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
        return names

    monkeypatch.setattr(rows, "_MEMORY_BYTES", 100)
    gc.collect()
    before = open_files()
    found = stored(5000)
    (new,) = [name for number, name in open_files().items() if before.get(number) != name]
    assert new.endswith("(deleted)") or "#" in new
    other = found.with_schema(found.schema)
    del found
    gc.collect()
    assert len(other.records(0, 10)) == 10  # still needed
    del other
    gc.collect()
    assert len(open_files()) == len(before)


def test_a_full_directory_for_temporary_files_is_named():
    class Full:
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    records = rows._Records(np.dtype(np.float64))
    records._file = Full()
    with pytest.raises(OSError, match=r"No space left .*set TMPDIR") as caught:
        records.append(np.zeros(3))
    assert caught.value.filename == tempfile.gettempdir()


@pytest.mark.parametrize("in_memory", [True, False])
def test_memory_does_not_grow_with_the_rows_but_for_blocks(tmp_path, in_memory, monkeypatch):
    """Reading and fitting a CSV file four times as large."""
    from dpfast.tabular import fitting

    monkeypatch.setattr(rows, "_MEMORY_BYTES", 2**16)
    monkeypatch.setattr("dpfast._table_files._TEXT_BYTES", 2**14)
    monkeypatch.setattr(fitting, "_BLOCK_ENTRIES", 2**14)
    names = [f"x{j}" for j in range(12)]
    bounds = {**{name: [0, 1] for name in names}, "y": ["n", "p"], "target": "y"}
    model = TableModel(bounds, random_state=0, in_memory=in_memory)
    rng = np.random.default_rng(0)
    peaks = []
    for n in (4_000, 16_000):
        path = tmp_path / f"{n}.csv"
        with open(path, "w") as stream:
            stream.write(",".join([*names, "y"]) + "\n")
            for _ in range(n // 4_000):
                X = rng.random((4_000, 12)).round(4).astype(str).tolist()
                stream.writelines(f"{','.join(row)},{'np'[len(row[0]) % 2]}\n" for row in X)
        if not peaks:
            model.fit(path)  # what is kept once is kept
        gc.collect()
        tracemalloc.start()
        model.fit(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] > 2.0 * peaks[0]) == in_memory
    if not in_memory:
        assert peaks[1] < 1.2 * peaks[0] + 2**19


def test_encoding_is_that_of_the_schema():
    schema = TableSchema.from_bounds(BOUNDS)
    (chunk,) = chunks(500)
    records = RowCoder(schema, fit=True).codes(chunk)
    np.testing.assert_array_equal(encode(schema, records), schema.transform(chunk))


class TestCodes:
    """Rows whose categories stay codes: chosen by the declaration alone, and the same rows."""

    def test_which_rows_are_held_in_codes_follows_from_the_declaration(self):
        narrow = {"age": [0, 1], "sex": ["f", "m"], "y": ["n", "p"], "target": "y"}
        wide = {**narrow, "town": [str(k) for k in range(9)]}
        assert not TableSchema.from_bounds(narrow).in_codes  # 3 columns of 2 entries
        assert TableSchema.from_bounds(wide).in_codes  # 12 of 3
        assert TableSchema.from_bounds(narrow).row_bytes == 8 * 3
        assert TableSchema.from_bounds(wide).row_bytes == 4 + 1 + 1

    def test_parts_are_what_is_written(self):
        schema = TableSchema.from_bounds(BOUNDS)
        (chunk,) = chunks(500)
        records = RowCoder(schema, fit=True).codes(chunk)
        matrix = CodedMatrix(rows.coded_parts(schema, records))
        np.testing.assert_array_equal(matrix.toarray(), encode(schema, records, np.float32))

    @pytest.mark.parametrize("other", [True, False])
    @pytest.mark.parametrize("missing", [None, "indicator", "c3"])
    @pytest.mark.parametrize("reference", [{}, {"reference": "c3"}], ids=str)
    def test_levels_of_many_categories(self, other, missing, reference):
        names = [f"c{k}" for k in range(300)]
        column = {"categories": names, "other": other, **reference}
        column = column if missing is None else {**column, "missing": missing}
        schema = TableSchema.from_bounds({"x": column, "y": ["n", "p"], "target": "y"})
        codes = np.arange(302, dtype=np.uint16)
        if missing is None:
            codes = codes[:301]
        (x,) = schema.features
        expected = np.empty((len(codes), len(schema.feature_names)))
        x.write(codes, expected)
        # Shares of 1/300 are kept as they are: only numbers are rounded.
        np.testing.assert_array_equal(CodedMatrix(x.parts(codes)).toarray(), expected)

    @pytest.mark.parametrize("learn", [False, True])
    def test_the_model_is_that_of_dense_rows(self, tmp_path, learn, monkeypatch):
        """But for the last bits of numbers; from memory, in blocks, and with learned ranges."""
        rng = np.random.default_rng(0)
        n = 4000
        table = {
            "x": rng.random(n),
            "town": rng.integers(0, 30, n).astype(str),
            "y": np.where(rng.random(n) < 0.4, "p", "n"),
        }
        towns = [str(k) for k in range(25)]  # the others were never declared
        number = {"range": [0, 50], "learn": learn}
        bounds = {"x": number, "town": towns, "y": ["n", "p"], "target": "y"}

        def coefficients(**settings):
            model = TableModel(bounds, epsilon=3.0, random_state=0, **settings).fit(table)
            return np.append(model.coef_, model.intercept_)

        held = coefficients(in_memory=True)
        blocks = coefficients(in_memory=False)
        monkeypatch.setattr("dpfast.tabular.schema._WIDER", 1e9)
        np.testing.assert_allclose(held, coefficients(in_memory=True), rtol=0, atol=1e-4)
        np.testing.assert_allclose(blocks, coefficients(in_memory=False), rtol=0, atol=1e-4)

    def test_the_plan_says_it(self):
        towns = [str(k) for k in range(25)]
        model = TableModel({"town": towns, "y": ["n", "p"], "target": "y"}, delta=1e-9)
        assert "held in memory, categories as codes" in str(model.plan(1000))
        assert "read in blocks, categories as codes" in str(model.plan(10**8))

    def test_text_without_pyarrow_gives_the_same_model(self, tmp_path, monkeypatch):
        pytest.importorskip("pyarrow")
        path = tmp_path / "x.csv"
        rng = np.random.default_rng(1)
        draws = zip(
            rng.random(3000), rng.choice([*"fmFM"], 3000), rng.choice([*"np"], 3000), strict=True
        )
        lines = [f"{x:.3f},{s},{y}" for x, s, y in draws]
        path.write_text("\n".join(["x,s,y", *lines]) + "\n")
        bounds = {"x": [0, 1], "s": ["f", "m"], "y": ["n", "p"], "target": "y"}
        fast = TableModel(bounds, random_state=0).fit(path)
        monkeypatch.setattr("dpfast._table_files.find_spec", lambda name: None)
        slow = TableModel(bounds, random_state=0).fit(path)
        np.testing.assert_array_equal(fast.coef_, slow.coef_)
