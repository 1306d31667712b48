"""Rows of a table in compact codes: how much memory they take, and where they lie."""

import gc
import os
import tracemalloc

import numpy as np
import pytest

from dpfast import TableModel
from dpfast.tabular import TableSchema, rows
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


@pytest.mark.parametrize("in_memory", [True, False])
def test_memory_does_not_grow_with_the_rows_but_for_blocks(tmp_path, in_memory, monkeypatch):
    """Reading and fitting a CSV file four times as large."""
    from dpfast.tabular import fitting

    monkeypatch.setattr(rows, "_MEMORY_BYTES", 2**18)
    monkeypatch.setattr(fitting, "_BLOCK_ENTRIES", 2**16)
    names = [f"x{j}" for j in range(12)]
    bounds = {**{name: [0, 1] for name in names}, "y": ["n", "p"], "target": "y"}
    model = TableModel(bounds, random_state=0, in_memory=in_memory)
    rng = np.random.default_rng(0)
    peaks = []
    for n in (20_000, 80_000):
        path = tmp_path / f"{n}.csv"
        with open(path, "w") as stream:
            stream.write(",".join([*names, "y"]) + "\n")
            for _ in range(n // 10_000):
                X = rng.random((10_000, 12)).round(4).astype(str).tolist()
                stream.writelines(f"{','.join(row)},{'np'[len(row[0]) % 2]}\n" for row in X)
        model.fit(path)  # what is kept once is kept
        gc.collect()
        tracemalloc.start()
        model.fit(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] > 2.0 * peaks[0]) == in_memory
    if not in_memory:
        assert peaks[1] < 1.2 * peaks[0] + 2**20


def test_encoding_is_that_of_the_schema():
    schema = TableSchema.from_bounds(BOUNDS)
    (chunk,) = chunks(500)
    records = RowCoder(schema, fit=True).codes(chunk)
    np.testing.assert_array_equal(encode(schema, records), schema.transform(chunk))
