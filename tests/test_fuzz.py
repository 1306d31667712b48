"""Any parameters, any data, any table: a finite model within its budget, or an error in time."""

import csv
import gzip
import warnings

import numpy as np
import pytest
import scipy.sparse
from hostile_files import VALUES, damaged, replaced
from hypothesis import given, settings
from hypothesis import strategies as st

import dpfast
from dpfast import Budget, BudgetAccountant
from dpfast._table_files import read_csv, table_chunks
from dpfast.cli import main
from dpfast.errors import DataError, DpfastError
from dpfast.privacy.ledger import kinds
from dpfast.tabular import TableModel, TableSchema, read_bounds

ENTRIES = st.floats(-2.0, 2.0) | st.sampled_from(
    [0.0, -0.0, 1e308, -1e308, 5e-324, 1e-310, 1e150, np.nan, np.inf, -np.inf]
)
WELL = st.floats(-2.0, 2.0)
ODD = st.sampled_from([None, 0, -1, 1e-300, 1e300, 10**400, True, "auto", "x", [], (0, 1), b"", {}])


@st.composite
def matrices(draw):
    n, d = draw(st.integers(0, 6)), draw(st.integers(0, 4))
    entries = draw(st.sampled_from([WELL, ENTRIES]))
    X = np.array(draw(st.lists(entries, min_size=n * d, max_size=n * d))).reshape(n, d)
    kind = draw(st.sampled_from(["float64", "float32", "fortran", "csr", "list", "object", "3d"]))
    with np.errstate(over="ignore"):
        return {
            "float64": lambda: X,
            "float32": lambda: X.astype(np.float32),
            "fortran": lambda: np.asfortranarray(X),
            "csr": lambda: scipy.sparse.csr_array(X) if X.size else X,
            "list": X.tolist,
            "object": lambda: X.astype(object),
            "3d": lambda: X[None],
        }[kind]()


def targets(n):
    label = st.sampled_from([-1, 1]) | st.sampled_from([-1, 1, 0.5, "a", None, np.nan, 10**30])
    return st.lists(label, min_size=n, max_size=n) | st.lists(label, max_size=7)


PARAMETERS = {
    "epsilon": st.floats(1e-6, 1e6) | ODD,
    "delta": st.sampled_from([0.0, 1e-6, 1e-300, 0.999]) | ODD,
    "solver": st.sampled_from(["auto", "output-perturbation", "dp-gd", "dp-nag", "newton"]),
    "alpha": st.floats(1e-9, 1e9) | ODD,
    "data_norm": st.floats(1e-30, 1e30) | ODD,
    "fit_intercept": st.booleans() | ODD,
    "intercept_scaling": st.floats(1e-9, 1e9) | ODD,
    "neighboring_relation": st.sampled_from(["replace_one", "add_or_remove_one"]) | ODD,
    "n_jobs": st.integers(1, 2) | ODD,
    "classes": st.sampled_from([[-1, 1], [1, -1], ["a", 1], [1], [[1], [2, 3]]]) | ODD,
    "target_bounds": st.sampled_from([(-1, 1), (1, -1), (0, 1e300), (0, np.inf)]) | ODD,
}


@given(data=st.data())
@settings(max_examples=50)
def test_any_fit_is_finite_and_paid_for_or_refused_in_time(data):
    name = data.draw(st.sampled_from(["LogisticRegression", "LinearSVC", "HuberRegressor"]))
    estimator = getattr(dpfast, name)
    known = estimator().get_params()
    public = {"data_norm": 1.0, "random_state": 0, "solver": "output-perturbation"}
    public |= {"classes": [-1, 1]} if "classes" in known else {"target_bounds": (-1, 1)}
    odd = data.draw(st.lists(st.sampled_from(sorted(PARAMETERS)), max_size=2, unique=True))
    chosen = {key: data.draw(PARAMETERS[key], label=key) for key in odd if key in known}
    X = data.draw(matrices(), label="X")
    y = data.draw(targets(len(X) if isinstance(X, list) else X.shape[0]), label="y")
    model = estimator(**{**public, **chosen})
    with (
        BudgetAccountant(Budget(1e6, 0.9995)) as account,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
        except (DpfastError, TypeError, ValueError) as error:
            assert account.events == (), f"spent, then: {error}"
            return
    assert kinds(account.events) == kinds(model.privacy_.events) != {}
    assert model.privacy_.epsilon <= model.epsilon
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()


CELLS = st.sampled_from(["1", "0", "5.5", "-3", "nan", "inf", "1e999", "", "a", "b", '"', "0x1"])


@given(data=st.data())
@settings(max_examples=30)
def test_any_table_ends_in_a_model_or_in_one_line(tmp_path_factory, capsys, data):
    folder = tmp_path_factory.mktemp("table")
    header = data.draw(st.lists(st.sampled_from(["x", "c", "y", "z", " x", ""]), max_size=4))
    if data.draw(st.booleans(), label="right header"):
        header = ["x", "c", "y"]
    good = st.tuples(st.sampled_from("0159"), st.sampled_from("ab"), st.sampled_from("np"))
    some = st.lists(CELLS, max_size=4)
    rows = data.draw(st.lists(good, max_size=4)) + data.draw(st.lists(some, max_size=1))
    with open(folder / "t.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    (folder / "b.json").write_text(BOUNDS)
    fit_ends_in_a_model_or_in_one_line(folder, capsys)


BOUNDS = '{"x": [0, 10], "c": ["a", "b"], "y": ["n", "p"]}'
TABLE = "x,c,y\n1,a,n\n5,b,p\n"


def fit_ends_in_a_model_or_in_one_line(folder, capsys):
    """Of t.csv with b.json; True for a model."""
    (folder / "m.json").unlink(missing_ok=True)
    code = main(
        [
            *("fit", str(folder / "t.csv"), "--bounds", str(folder / "b.json"), "--target", "y"),
            *("--epsilon", "1", "--delta", "0", "-o", str(folder / "m.json")),
            *("--solver", "output-perturbation"),
        ]
    )
    shown = capsys.readouterr()
    if code == 0:
        assert TableModel.load(folder / "m.json").privacy_.epsilon <= 1.0
        return True
    assert code == 2
    assert shown.err.splitlines()[-1].startswith("error: ")
    assert not (folder / "m.json").exists()
    return False


@pytest.mark.parametrize("value", VALUES)
def test_any_value_in_the_bounds_ends_in_a_model_or_in_one_line(tmp_path, capsys, value):
    """In the place of a range, of a category, and of everything."""
    (tmp_path / "t.csv").write_text(TABLE)
    for old in ("[0, 10]", '"b"', BOUNDS):
        (tmp_path / "b.json").write_text(BOUNDS.replace(old, VALUES[value]))
        fitted = fit_ends_in_a_model_or_in_one_line(tmp_path, capsys)
        # A text is a category, but for a null character.
        assert fitted == (old == '"b"' and value == "half a character")


def test_every_damaged_bounds_file_is_refused(tmp_path):
    path = tmp_path / "b.json"
    for content in damaged(BOUNDS):
        path.write_bytes(content)
        with pytest.raises(DataError):
            read_bounds(path)
    for text in replaced(BOUNDS):
        path.write_text(text)
        try:
            schema = TableSchema.from_bounds(read_bounds(path), target="y")
        except DataError:
            continue
        assert schema.row_norm_bound <= 3.0


def test_every_damaged_table_is_read_as_what_it_says_or_refused(tmp_path):
    """A text that is cut off may be a shorter table; a compressed one is known to be cut off."""
    text = TABLE.encode()
    for length in range(len(text)):
        path = tmp_path / "t.csv"
        path.write_bytes(text[:length])
        try:
            table = read_csv(path, ["x", "c", "y"])
        except DataError:
            continue
        for column, true in zip(table.values(), ("1", "a", "n"), strict=True):
            assert column[0] in (true, "")
        path.write_bytes(text[:length] + b"\xff" + text[length + 1 :])
        with pytest.raises(DataError, match="UTF-8"):
            read_csv(path, ["x", "c", "y"])
    packed = gzip.compress(text, mtime=0)
    for length in range(len(packed)):
        (tmp_path / "t.csv.gz").write_bytes(packed[:length])
        with pytest.raises(DataError):
            read_csv(tmp_path / "t.csv.gz", ["x", "c", "y"])


def test_every_parquet_file_that_was_cut_off_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"x": [1, 5], "y": ["n", "p"]}), path)
    whole = path.read_bytes()
    (chunk,) = table_chunks(path, ["x", "y"])
    assert len(chunk["x"]) == 2
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            list(table_chunks(path, ["x", "y"]))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 20, b"\x00" * 64, b"x,y\n1,n\n"])
def test_a_file_that_is_no_parquet_file(tmp_path, capsys, content):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(content)
    (tmp_path / "b.json").write_text('{"x": [0, 1], "y": ["n", "p"]}')
    code = main(
        [
            *("fit", str(tmp_path / "t.parquet"), "--bounds", str(tmp_path / "b.json")),
            *("--target", "y", "--epsilon", "1", "--delta", "0", "-o", str(tmp_path / "m.json")),
        ]
    )
    assert code == 2
    assert capsys.readouterr().err.startswith("error: ")
