import gzip
import inspect

import numpy as np
import pytest
from sklearn.utils import Bunch

from dpfast.datasets import load_ipums, load_randhie


def test_shape_and_published_counts():
    data = load_randhie()
    assert isinstance(data, Bunch)
    assert data.data.shape == (20190, 9)
    assert data.data.dtype == np.float64
    assert data.data.flags.c_contiguous
    assert data.target.dtype == np.int64
    assert data.feature_names == [
        *("lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp")
    ]
    assert data.target_names == ["no_visit", "visit"]
    assert data.classes == (0, 1)


def test_means_of_the_published_table():
    # statsmodels documents the same file; its means identify each column.
    data = load_randhie(target="visits")
    means = dict(zip(data.feature_names, data.data.mean(axis=0), strict=True))
    assert data.target.mean() == pytest.approx(2.860426, abs=1e-6)
    assert data.target.max() == 77
    assert means["lncoins"] == pytest.approx(1.774071, abs=1e-5)
    assert means["lpi"] == pytest.approx(4.707894, abs=1e-5)
    assert means["disea"] == pytest.approx(11.244492, abs=1e-5)
    assert data.classes is None


def test_any_visit_is_a_positive_count():
    visits = load_randhie(target="visits").target
    np.testing.assert_array_equal(load_randhie().target, visits > 0)


def test_return_X_y():
    X, y = load_randhie(return_X_y=True)
    data = load_randhie()
    np.testing.assert_array_equal(X, data.data)
    np.testing.assert_array_equal(y, data.target)


def test_bounds_follow_the_columns_and_hold():
    data = load_randhie()
    assert list(data.bounds) == data.feature_names
    low, high = np.array(list(data.bounds.values())).T
    assert (low < high).all()
    # The file has six decimals, so ln 101 is written 4.615120 where the bound is 4.6151205....
    assert (data.data >= low).all()
    assert (data.data <= high + 5e-7).all()


def test_description_names_every_column_and_the_licence():
    data = load_randhie()
    for name in [*data.feature_names, "mdvis", "Public domain", "person-year"]:
        assert name in data.DESCR


def test_a_caller_cannot_change_the_next_callers_bounds():
    load_randhie().bounds["disea"] = (0.0, 1.0)
    assert load_randhie().bounds["disea"] == (0.0, 60.0)


@pytest.mark.parametrize("target", ["mdvis", ""])
def test_unknown_target(target):
    with pytest.raises(ValueError, match="target must be one of 'any_visit', 'visits'"):
        load_randhie(target=target)


def test_arguments_are_keywords():
    assert all(
        parameter.kind is parameter.KEYWORD_ONLY
        for parameter in inspect.signature(load_randhie).parameters.values()
    )


class TestIpums:
    """Made-up rows: those of IPUMS may not be passed on."""

    def written(self, tmp_path, rows, name="rows.dat", separator=" "):
        path = tmp_path / name
        text = "".join(separator.join(map(str, row)) + "\n" for row in rows)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path

    @pytest.mark.parametrize(("width", "name"), [(53, "IPUMS-BR"), (58, "IPUMS-US")])
    @pytest.mark.parametrize("file", ["rows.dat", "rows.csv.gz"])
    @pytest.mark.parametrize("separator", [" ", ",", "  "])
    def test_rows_are_read(self, tmp_path, width, name, file, separator):
        rng = np.random.default_rng(0)
        rows = rng.integers(0, 90, (7, width))
        rows[:, -1] = [0, 1, 1, 0, 1, 0, 0]
        path = self.written(tmp_path, rows, file, separator)
        data = load_ipums(path)
        np.testing.assert_array_equal(data.data, rows[:, :-1])
        np.testing.assert_array_equal(data.target, rows[:, -1])
        assert (data.name, data.classes, data.bounds) == (name, (0, 1), None)
        assert "do not allow" in data.DESCR
        X, y = load_ipums(str(path), return_X_y=True)
        np.testing.assert_array_equal(X, data.data)
        np.testing.assert_array_equal(y, data.target)

    def test_other_files_are_refused(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="extract them at"):
            load_ipums(tmp_path / "absent.dat")
        with pytest.raises(ValueError, match=r"53 .* or 58 .* numbers a line.*got 3"):
            load_ipums(self.written(tmp_path, [[1, 2, 0]]))
        with pytest.raises(ValueError, match="no header"):
            load_ipums(self.written(tmp_path, [["age"] * 53]))
        with pytest.raises(ValueError, match="the last of a line must be 0 or 1"):
            load_ipums(self.written(tmp_path, [[0] * 52 + [2]]))
        with pytest.raises(ValueError, match="finite numbers"):
            load_ipums(self.written(tmp_path, [["nan"] + [0] * 52]))
