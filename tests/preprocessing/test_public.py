import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpfast.column_blocks import ColumnBlock
from dpfast.errors import UndeclaredValueWarning
from dpfast.preprocessing import (
    BoundedScaler,
    PublicOneHotEncoder,
    RowNormClipper,
    one_hot,
    scale_to_range,
)


@parametrize_with_checks(
    [BoundedScaler(bounds=(-10, 10)), RowNormClipper(), PublicOneHotEncoder([0, 1, 2])]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


class TestBoundedScaler:
    def test_values(self):
        X = [[0.0, 17.0], [5.0, 53.5], [10.0, 90.0], [-3.0, 1000.0]]
        result = BoundedScaler([(0, 10), (17, 90)]).fit_transform(X)
        np.testing.assert_allclose(result, [[-1, -1], [0, 0], [1, 1], [-1, 1]])

    def test_feature_range(self):
        result = BoundedScaler((0, 4), feature_range=(2, 3)).fit_transform([[0.0], [1.0], [9.0]])
        np.testing.assert_allclose(result.ravel(), [2.0, 2.25, 3.0])

    def test_same_result_whatever_the_other_rows(self):
        scaler = BoundedScaler([(0, 1), (0, 5)])
        one = scaler.fit_transform([[0.3, 2.0]])
        many = clone(scaler).fit_transform([[0.3, 2.0], [-1e9, 1e9], [0.0, 0.0]])
        np.testing.assert_array_equal(one[0], many[0])

    def test_dict_follows_the_names_and_not_the_order(self):
        frame = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 10.0]})
        scaler = BoundedScaler({"b": (0, 10), "a": (0, 1)}).set_output(transform="pandas")
        result = scaler.fit_transform(frame)
        assert list(result.columns) == ["a", "b"]
        np.testing.assert_array_equal(result["a"], [-1.0, 1.0])
        np.testing.assert_array_equal(result["b"], [-1.0, 1.0])

    def test_polars(self):
        frame = pl.DataFrame({"a": [0.0, 1.0], "b": [0.0, 10.0]})
        result = BoundedScaler({"b": (0, 10), "a": (0, 1)}).fit_transform(frame)
        np.testing.assert_array_equal(result, [[-1.0, -1.0], [1.0, 1.0]])

    def test_array_of_bounds(self):
        bounds = np.array([[0, 1], [0, 5]], dtype=np.float32)
        np.testing.assert_array_equal(BoundedScaler(bounds).fit_transform([[1.0, 5.0]]), [[1, 1]])

    def test_keeps_float32(self):
        X = np.array([[0.25]], dtype=np.float32)
        result = BoundedScaler((0, 1)).fit_transform(X)
        assert result.dtype == np.float32
        assert result[0, 0] == -0.5

    def test_input_is_not_changed(self):
        X = np.array([[5.0], [20.0]])
        BoundedScaler((0, 10)).fit_transform(X)
        np.testing.assert_array_equal(X, [[5.0], [20.0]])

    def test_bounds_equal_in_float32(self):
        X = np.array([[1.0]], dtype=np.float32)
        result = BoundedScaler((1.0, 1.0 + 1e-12)).fit_transform(X)
        assert result[0, 0] == -1.0

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ((1, 0), "low < high"),
            ((1, 1), "low < high"),
            ((-1e308, 1e308), "finite width"),
            ((0, float("inf")), "must be a finite real number"),
            ((float("nan"), 1), "must be a finite real number"),
            ((False, True), "must be a finite real number"),
            ([(0, 1)], "as many entries as X has columns, 2; got 1"),
            ([], "as many entries as X has columns, 2; got 0"),
            ([(0, 1), (0, 1, 2)], "bounds of column 'x1' must be a pair of numbers"),
            ([(0, 1), "ab"], "bounds of column 'x1' must be a pair of numbers"),
            ([(0, 1), (0, [1])], "bounds of column 'x1' must be a pair of numbers"),
            ({"x0": (0, 1), "x1": (0, 1)}, "X has no column names"),
            (None, "must be a sequence with one entry for each column of X, or a dict"),
            ("ab", "must be a sequence with one entry for each column of X, or a dict"),
        ],
    )
    def test_wrong_bounds(self, bounds, message):
        with pytest.raises((TypeError, ValueError), match=message):
            BoundedScaler(bounds).fit([[0.0, 0.0]])

    def test_dict_must_match_the_columns(self):
        frame = pd.DataFrame({"a": [0.0], "b": [0.0]})
        with pytest.raises(ValueError, match=r"no entry for \['b'\], no column for \['c'\]"):
            BoundedScaler({"a": (0, 1), "c": (0, 1)}).fit(frame)

    def test_wrong_feature_range(self):
        with pytest.raises(ValueError, match="feature_range must have low < high"):
            BoundedScaler((0, 1), feature_range=(1, -1)).fit([[0.0]])

    def test_other_number_of_columns(self):
        scaler = BoundedScaler((0, 1)).fit([[0.0]])
        with pytest.raises(ValueError, match="features"):
            scaler.transform([[0.0, 0.0]])

    @given(
        x=st.floats(allow_nan=False),
        low=st.floats(-1e300, 1e300),
        width=st.floats(1e-300, 1e300),
        ends=st.tuples(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6)),
    )
    @settings(max_examples=300)
    def test_result_is_in_the_range_exactly(self, x, low, width, ends):
        high = low + width
        if not low < high:
            return
        start, stop = ends[0], ends[0] + ends[1]
        with np.errstate(over="ignore"):
            result = scale_to_range(np.array([[x]]), low, high, (start, stop))[0, 0]
        assert start <= result <= stop
        if x <= low:
            assert result == start
        if x >= high:
            assert result == pytest.approx(stop)


class TestRowNormClipper:
    @given(
        row=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5),
        radius=st.floats(1e-30, 1e30),
        single=st.booleans(),
    )
    @settings(max_examples=200)
    def test_no_row_is_left_outside(self, row, radius, single):
        X = np.array([row])
        if single:
            X = np.clip(X, -1e38, 1e38).astype(np.float32)
        result = RowNormClipper(radius).fit_transform(X)
        assert result.dtype == X.dtype
        # In exact arithmetic.
        assert sum(Fraction(float(x)) ** 2 for x in result[0]) <= Fraction(radius) ** 2
        exact = sum(Fraction(float(x)) ** 2 for x in X[0])
        if exact <= Fraction(radius) ** 2 * Fraction(1.0 - 1e-14):
            np.testing.assert_array_equal(result, X)
        else:
            length = float(sum(Fraction(float(x)) ** 2 for x in result[0])) ** 0.5
            assert length == pytest.approx(radius, rel=1e-6 if single else 1e-13)

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize(
        ("entry", "radius", "dtype"),
        [(1e308, 2.53e-16, np.float64), (-1.7e308, 1e-30, np.float64), (1e38, 1e-7, np.float32)],
    )
    def test_the_way_to_the_ball_is_longer_than_a_factor(self, entry, radius, dtype, sparse):
        """A subnormal factor has few bits: rounded up, it leaves rows twice as long as allowed."""
        X = np.array([[entry, 0.5 * entry, 0.0]], dtype=dtype)
        result = RowNormClipper(radius).fit_transform(scipy.sparse.csr_array(X) if sparse else X)
        found = result.toarray()[0] if sparse else result[0]
        assert sum(Fraction(float(x)) ** 2 for x in found) <= Fraction(radius) ** 2
        exact = np.sign(entry) * radius * np.array([1.0, 0.5, 0.0]) / 1.25**0.5
        np.testing.assert_allclose(found, exact, rtol=1e-6)

    def test_entries_of_one_place_are_one_number(self):
        start = np.array([0, 2, 4])
        X = scipy.sparse.csr_array((np.array([0.7, 0.7, 2.0, 3.0]), np.array([0, 0, 1, 0]), start))
        found = RowNormClipper(1.0).fit_transform(X)
        np.testing.assert_allclose(found.toarray(), [[1.0, 0.0], np.array([3.0, 2.0]) / 13**0.5])
        assert X.nnz == 4  # the caller's stays as it is

    def test_directions_and_sparse_rows(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(50, 4)) * (rng.random((50, 4)) < 0.5)
        X[0] = 0.0
        clipper = RowNormClipper(0.7).fit(X)
        expected = X * np.minimum(1.0, 0.7 / np.maximum(np.linalg.norm(X, axis=1), 1e-9))[:, None]
        np.testing.assert_allclose(clipper.transform(X), expected, atol=1e-12)
        for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array):
            result = clipper.transform(kind(X))
            assert result.format == "csr"
            np.testing.assert_array_equal(result.toarray(), clipper.transform(X))

    @pytest.mark.parametrize("data_norm", [0.0, -1.0, np.inf, np.nan, "1", None])
    def test_bad_radius(self, data_norm):
        with pytest.raises((TypeError, ValueError), match="data_norm must be a real number"):
            RowNormClipper(data_norm).fit([[1.0]])


def dense_encoder(*parameters, **settings):
    return PublicOneHotEncoder(*parameters, sparse_output=False, **settings)


class TestPublicOneHotEncoder:
    def test_values_and_names(self):
        encoder = dense_encoder([["no", "yes"], ["a"]])
        result = encoder.fit_transform([["yes", "a"], ["no", "b"], ["?", "a"]])
        np.testing.assert_array_equal(result, [[0, 1, 0, 1, 0], [1, 0, 0, 0, 1], [0, 0, 1, 1, 0]])
        assert result.dtype == np.float64
        assert list(encoder.get_feature_names_out()) == [
            *("x0_no", "x0_yes", "x0_<other>", "x1_a", "x1_<other>")
        ]

    def test_one_list_for_all_columns(self):
        encoder = dense_encoder(["no", "yes"])
        result = encoder.fit_transform([["yes", "no"], ["no", "?"]])
        np.testing.assert_array_equal(result, [[0, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1]])

    def test_ignore(self):
        encoder = dense_encoder([["no", "yes"]], handle_unknown="ignore")
        np.testing.assert_array_equal(encoder.fit_transform([["yes"], ["?"]]), [[0, 1], [0, 0]])
        assert len(encoder.get_feature_names_out()) == 2

    def test_each_column_has_norm_one(self):
        rng = np.random.default_rng(0)
        X = rng.choice(["a", "b", "c", "d", ""], size=(200, 3))
        result = dense_encoder([["a", "b"], ["c"], ["d", "a"]]).fit_transform(X)
        np.testing.assert_array_equal((result**2).sum(axis=1), 3.0)

    def test_nothing_depends_on_the_values(self):
        encoder = dense_encoder([["a", "b"]])
        assert encoder.fit_transform([["z"]]).shape == encoder.fit_transform([["a"]]).shape

    def test_numbers_and_missing_values(self):
        result = dense_encoder([[1, 2]]).fit_transform([[1.0], [2.0], [np.nan], [1.5]])
        np.testing.assert_array_equal(result, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])

    @pytest.mark.parametrize("kind", ["category", "boolean", object])
    def test_truth_values_of_pandas_with_missing_ones(self, kind):
        frame = pd.DataFrame({"own": pd.Series([True, False, None], dtype=kind)})
        with pytest.warns(UndeclaredValueWarning, match="1 in 'own'") as caught:
            found = dense_encoder([[False, True]]).fit_transform(frame)
        assert [warning.filename for warning in caught] == [__file__]
        np.testing.assert_array_equal(found, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])

    def test_booleans(self):
        result = one_hot(np.array([True, False]), [False, True], other=False)
        np.testing.assert_array_equal(result, [[0, 1], [1, 0]])

    @pytest.mark.parametrize("library", [pd, pl])
    def test_data_frame_by_name(self, library):
        frame = library.DataFrame({"age": [1, 2], "sex": ["f", None]})
        encoder = dense_encoder({"sex": ["f", "m"], "age": [1, 2]}).fit(frame)
        np.testing.assert_array_equal(
            encoder.transform(frame), [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 1]]
        )
        assert encoder.get_feature_names_out()[0] == "age_1"
        with pytest.raises(ValueError, match="input_features"):
            encoder.get_feature_names_out(["sex", "age"])

    def test_long_text_is_compared_whole(self):
        result = one_hot(["a" * 300, "a" * 299], ["a" * 299])
        np.testing.assert_array_equal(result, [[0, 1], [1, 0]])

    def test_numbers_against_text_categories(self):
        result = dense_encoder([["1", "2"]]).fit_transform([[1.0], [2.0]])
        np.testing.assert_array_equal(result, [[1, 0, 0], [0, 1, 0]])
        with pytest.raises(ValueError, match=r"Column 'x0': .* must hold text; got float64"):
            dense_encoder([["no", "yes"]]).fit_transform([[1.0]])

    @pytest.mark.parametrize(
        ("categories", "value"),
        [(["False", "True"], "TRUE"), (["0", "1"], "1.0"), (["a", "B"], "b")],
    )
    def test_what_means_the_same_is_the_same(self, categories, value):
        X = np.array([[value]], dtype=object)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = dense_encoder([categories]).fit_transform(X)
        np.testing.assert_array_equal(result, [[0, 1, 0]])

    @pytest.mark.parametrize("handle_unknown", ["other", "ignore"])
    def test_unknown_values_are_counted(self, handle_unknown):
        X = np.array([["a", "x"], ["b", "y"], ["b", "z"]], dtype=object)
        encoder = dense_encoder([["a"], ["x", "z"]], handle_unknown=handle_unknown).fit(X)
        with pytest.warns(UndeclaredValueWarning, match="of 3: 2 in 'x0', 1 in 'x1'"):
            encoder.transform(X)

    def test_blocks_of_columns(self):
        X = np.array([["a", "x"]], dtype=object)
        encoder = dense_encoder([["a"], ["x", "z"]]).fit(X)
        assert encoder.column_blocks_ == (
            ColumnBlock("one-hot", 0, 2),
            ColumnBlock("one-hot", 2, 5),
        )

    def test_integers_against_text_categories(self):
        np.testing.assert_array_equal(one_hot([1, 3], ["1", "2"]), [[1, 0, 0], [0, 0, 1]])

    def test_a_number_means_the_same_beside_text(self):
        encoder = dense_encoder([["0.1", "0.10000000149011612"]])
        number = np.float32(0.1)
        alone, *others = (
            encoder.fit_transform(pd.DataFrame({"a": column}))
            for column in ([number], [number, "z"], [number, 0.5])
        )
        for found in others:
            np.testing.assert_array_equal(found[:1], alone)

    @pytest.mark.parametrize("entry", ["z", 2.5, True, 2**70, None, np.float64(0.5)])
    def test_what_an_entry_of_a_list_means_is_its_own(self, entry):
        """In one array with a text numpy.float32(0.1) was 0.1, and with a number another one."""
        column = [np.float32(0.1), np.float32(0.5), np.float32(0.1)]
        categories = ["0.1", "0.10000000149011612", "0.5"]
        expected = one_hot(column, categories)[:2]
        changed = [*column[:2], entry]
        np.testing.assert_array_equal(one_hot(changed, categories)[:2], expected)
        found = dense_encoder([categories]).fit_transform([[x] for x in changed])
        np.testing.assert_array_equal(found[:2], expected)

    @pytest.mark.parametrize("other", [None, 5, -1, 2**63])
    def test_large_codes_are_not_rounded_by_another_entry(self, other):
        codes = [900000000000207008, 900000000000207009]
        encoder = dense_encoder([list(map(str, codes))])
        columns = [[[code] for code in [*codes, -1, other]]]
        if other != 2**63:
            entries = [*codes, -1, other]
            columns += [pd.DataFrame({"a": pd.array(entries, dtype="Int64")})]
            columns += [pl.DataFrame({"a": entries})]
        for column in columns:
            np.testing.assert_array_equal(encoder.fit_transform(column)[:2], np.eye(3)[:2])

    @pytest.mark.parametrize("other", ["z", 2, 0.5, None])
    def test_what_is_missing_is_so_beside_text_and_numbers(self, other):
        """A text makes a column of numbers one of objects, in which no value was "nan"."""
        encoder = dense_encoder([["0.5", "nan"]])
        for missing in (None, np.nan):
            frame = pd.DataFrame({"a": [0.5, missing, other]})
            np.testing.assert_array_equal(encoder.fit_transform(frame)[:2], np.eye(3)[:2])

    @pytest.mark.parametrize("other", ["z", None, 2])
    def test_zeros_at_the_end_of_a_text_are_its_own(self, other):
        encoder = dense_encoder([["a\0", "a"]])
        np.testing.assert_array_equal(encoder.fit_transform([["a\0"], [other]])[:1], np.eye(3)[:1])

    def test_what_would_change_the_others_is_refused_and_not_quoted(self):
        encoder, column = dense_encoder([["1", "2"]]), np.array([1.25, 1j])
        frame = pd.DataFrame({"a": column})
        for X in (column[:, None], np.array([[1.25], [b"a"]]), frame, frame.astype("category")):
            with pytest.raises(ValueError, match="not supported") as caught:
                encoder.fit_transform(X)
            assert "1.25" not in str(caught.value)

    def test_text_against_number_categories(self):
        with pytest.raises(ValueError, match=r"Column 'x0': .* must hold numbers"):
            dense_encoder([[1, 2]]).fit_transform(np.array([["x"]], dtype=object))

    @pytest.mark.parametrize(
        ("categories", "message"),
        [
            ([[]], "non-empty list"),
            ("ab", "categories must be a sequence with one entry for each column of X"),
            (3, "categories must be a sequence with one entry for each column of X"),
            (["ab", ["c"]], "as many entries as X has columns, 1"),
            ([], "as many entries as X has columns, 1"),
            (["a", 1], "all text or all numbers"),
            ([["a", 1]], "all text or all numbers"),
            ([[1.0, float("nan")]], "all text or all numbers"),
            ([[None]], "all text or all numbers"),
            ([["a", "a"]], "differ"),
            ([[1, 1.0]], "differ"),
            ([[2**53, 2**53 + 1]], "differ"),
            ([["a"], ["b"]], "as many entries as X has columns, 1"),
            ({"x0": ["a"]}, "no column names"),
        ],
    )
    def test_wrong_categories(self, categories, message):
        with pytest.raises((TypeError, ValueError), match=message):
            dense_encoder(categories).fit(np.array([["a"]], dtype=object))

    def test_there_is_no_choice_that_raises_on_data(self):
        with pytest.raises(ValueError, match="handle_unknown must be one of 'other', 'ignore'"):
            dense_encoder([["a"]], handle_unknown="error").fit([["a"]])

    @pytest.mark.parametrize("handle_unknown", ["other", "ignore"])
    @pytest.mark.parametrize("kind", [object, "str", "category", "array"])
    def test_every_container_and_output_is_that_of_scikit_learn(self, kind, handle_unknown):
        rng = np.random.default_rng(0)
        categories = [["a", "b", "c"], ["u"], ["x", "1", "True"]]
        columns = {f"c{j}": rng.choice([*own, "?"], 500) for j, own in enumerate(categories)}
        X = pd.DataFrame(columns, dtype=object)
        if kind == "array":
            X = X.to_numpy()
        elif kind is not object:
            X = X.astype(kind)
        expected = OneHotEncoder(categories=categories, handle_unknown="ignore").fit_transform(X)
        found = []
        for sparse_output in (False, True):
            encoder = PublicOneHotEncoder(categories, handle_unknown, sparse_output)
            with pytest.warns(UndeclaredValueWarning, match="in 'c0'|in 'x0'"):
                found.append(encoder.fit_transform(X))
        assert scipy.sparse.issparse(found[1])
        np.testing.assert_array_equal(found[1].toarray(), found[0])
        known = found[0]
        if handle_unknown == "other":
            others = [block.stop - 1 for block in encoder.column_blocks_]
            np.testing.assert_array_equal(found[0].sum(axis=1), 3)
            known = np.delete(found[0], others, axis=1)
        np.testing.assert_array_equal(known, expected.toarray())

    def test_columns_of_a_frame_are_read_by_their_own_types(self):
        X = pd.DataFrame(
            {
                "n": [1, 2, 7],
                "t": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]),
                "s": pd.array(["a", None, "b"], dtype="str"),
                "k": pd.Categorical([3, 5, None]),
            }
        )
        categories = {
            "n": [1, 2],
            "t": ["2024-01-02 00:00:00"],
            "s": ["a", "nan"],
            "k": [5.0, 3.0],
        }
        with pytest.warns(UndeclaredValueWarning, match="1 in 'n', 2 in 't', 1 in 's', 1 in 'k'"):
            found = dense_encoder(categories, "ignore").fit_transform(X)
        assert found.tolist() == [
            [1, 0, 0, 1, 0, 0, 1],
            [0, 1, 1, 0, 1, 1, 0],
            [0, 0, 0, 0, 0, 0, 0],
        ]

    def test_sparse_by_default_as_scikit_learns(self):
        encoder = PublicOneHotEncoder(["a", "b"])
        assert scipy.sparse.issparse(encoder.fit_transform([["a"]]))
        with pytest.raises(ValueError, match="sparse"):
            encoder.set_output(transform="pandas").fit_transform(pd.DataFrame({"x": ["a"]}))

    def test_scikit_learn_habits(self):
        encoder = dense_encoder([["a", "b"]])
        with pytest.raises(NotFittedError):
            encoder.transform([["a"]])
        assert clone(encoder).get_params() == encoder.get_params()
        fitted = pickle.loads(pickle.dumps(encoder.fit([["a"]])))
        np.testing.assert_array_equal(fitted.transform([["b"]]), [[0, 1, 0]])
        with pytest.raises(ValueError, match="features"):
            fitted.transform([["a", "b"]])


def test_in_a_pipeline():
    frame = pd.DataFrame({"age": [20.0, 55.0], "sex": ["f", "m"]})
    columns = make_column_transformer(
        (BoundedScaler([(20, 90)]), ["age"]), (PublicOneHotEncoder([["f", "m"]]), ["sex"])
    )
    result = make_pipeline(columns).fit_transform(frame)
    np.testing.assert_array_equal(result, [[-1, 1, 0, 0], [0, 0, 1, 0]])
