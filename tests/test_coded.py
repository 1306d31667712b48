"""Rows in codes are, in every sum, the rows that they stand for: to the last bit those in CSR."""

import pickle

import numpy as np
import pytest
import scipy.sparse

import dpfast
from dpfast import _kernels
from dpfast.chunks import add_up
from dpfast.coded import CodedMatrix

N = 3000


def table(k, rng):
    """One-hot levels, one that is spread over all columns, one of two entries, and an empty one."""
    ends = np.zeros((3, k))
    ends[0] = 1.0 / k
    ends[1, [0, -1]] = 1.0, -0.5
    return np.vstack([np.eye(k), ends])


def parts(n=N, seed=0):
    """Codes of all types and numbers of both, and the matrix that they stand for."""
    rng = np.random.default_rng(seed)
    found, columns = [], []
    for dtype, k in ((np.uint8, 4), (np.float64, 0), (np.uint16, 300), (np.float32, 0),
                     (np.uint32, 2), (np.uint8, 1)):  # fmt: skip
        if k:
            levels = table(k, rng)
            codes = rng.integers(0, len(levels), n).astype(dtype)
            found.append((codes, levels))
            columns.append(levels[codes])
        else:
            numbers = rng.uniform(-1, 1, n).astype(dtype)
            numbers[::7] = 0.0
            found.append((numbers, None))
            columns.append(numbers[:, None].astype(np.float64))
    return found, np.hstack(columns)


@pytest.fixture(scope="module")
def both():
    found, dense = parts()
    return CodedMatrix(found), dense


class TestMatrix:
    def test_it_is_what_the_levels_say(self, both):
        matrix, dense = both
        assert matrix.shape == dense.shape
        np.testing.assert_array_equal(matrix.toarray(), dense)
        assert matrix.tocsr().has_canonical_format
        np.testing.assert_array_equal(matrix.tocsr(17, 17 + 100).toarray(), dense[17:117])

    def test_it_takes_a_few_bytes_a_value(self, both):
        matrix, dense = both
        assert matrix.nbytes == N * (1 + 8 + 2 + 4 + 4 + 1) < dense.nbytes / 100

    def test_columns_of_more_than_16_bits(self):
        codes = np.array([69_999, 0, 65_536], dtype=np.uint32)
        matrix = CodedMatrix([(codes, scipy.sparse.eye_array(70_000)), (np.ones(3), None)])
        _, columns, _ = matrix.kernel.entries(0, 3)
        assert columns.tolist() == [69_999, 70_000, 0, 70_000, 65_536, 70_000]
        assert matrix[:2].kernel.entries(0, 2)[1].dtype == np.int32

    def test_rows_products_stacks_and_pickles(self, both):
        matrix, dense = both
        rows = np.array([5, 2999, 5, 0])
        np.testing.assert_array_equal(matrix[rows].toarray(), dense[rows])
        w = np.random.default_rng(1).standard_normal(dense.shape[1])
        np.testing.assert_allclose(matrix @ w, dense @ w, rtol=0, atol=1e-12)
        halves = CodedMatrix.stack([matrix[:1000], matrix[1000:]])
        np.testing.assert_array_equal(halves.toarray(), dense)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(matrix)).toarray(), dense)

    @pytest.mark.parametrize(
        ("codes", "levels", "error", "text"),
        [
            (np.array([0, 3], dtype=np.uint8), np.eye(3), ValueError, "codes"),
            (np.array([0, 1]), np.eye(3), TypeError, "uint8, uint16, uint32"),
            (np.array([0, 1], dtype=np.int8), np.eye(3), TypeError, "int8"),
            (np.array([0.0, np.nan]), None, ValueError, "finite"),
            (np.array([0.0, 1e200]), None, ValueError, "finite"),
            (np.array([0, 1]), None, TypeError, "float64, float32"),
            (np.zeros((2, 2)), None, TypeError, "shape"),
            (np.zeros(0), None, TypeError, "shape"),
            (np.zeros(3), None, ValueError, "2 entries"),
            (np.array([0, 1], dtype=np.uint8), np.array([[np.inf]]), ValueError, "finite"),
            (np.array([0, 1], dtype=np.uint8), np.zeros((0, 2)), ValueError, "levels"),
        ],
    )
    def test_what_cannot_be_rows_is_refused(self, codes, levels, error, text):
        first = np.array([0, 1], dtype=np.uint8), np.eye(2)
        with pytest.raises(error, match=text):
            CodedMatrix([first, (codes, levels)])
        with pytest.raises(ValueError, match="at least one"):
            CodedMatrix([])

    def test_codes_that_change_afterwards_are_an_error_and_no_wrong_access(self):
        codes = np.zeros(1000, dtype=np.uint8)
        matrix = CodedMatrix([(codes, np.vstack([np.eye(3), np.ones(3)]))])
        for wrong in (4, 255, 3):  # the last is a level, of more entries than were counted
            codes[500] = wrong
            with pytest.raises(ValueError, match="rows in codes"):
                matrix.tocsr()
            codes[500] = 0
        numbers = np.zeros(10)
        matrix = CodedMatrix([(numbers, None)])
        numbers[3] = np.nan
        with pytest.raises(FloatingPointError):
            matrix.tocsr()

    def test_levels_that_are_no_rows_are_refused_by_the_kernels(self):
        codes, one = np.zeros(2, dtype=np.uint8), np.ones(1)

        def kernel(width, offsets, columns, values):
            levels = width, np.array(offsets), np.array(columns, dtype=np.int32), np.array(values)
            return _kernels.CodedParts([(codes, levels)])

        assert kernel(2, [0, 2], [0, 1], [1.0, 2.0]).n_features == 2
        for wrong in (
            (2, [0, 2], [1, 0], [1.0, 2.0]),  # not in order
            (2, [0, 2], [1, 1], [1.0, 2.0]),  # twice
            (1, [0, 2], [0, 1], [1.0, 2.0]),  # beyond the columns
            (2, [0, 2], [-1, 1], [1.0, 2.0]),
            (2, [1, 2], [0, 1], [1.0, 2.0]),  # not from the first
            (2, [0, 3], [0, 1], [1.0, 2.0]),  # more than there are
            (2, [0, 2, 1, 2], [0, 1], [1.0, 2.0]),  # falling
            (2, [0, 2], [0, 1], [1.0, np.nan]),
            (0, [0, 0], [], []),
        ):
            with pytest.raises(ValueError):
                kernel(*wrong)
        with pytest.raises(ValueError):
            _kernels.CodedParts([(codes[::2], (1, np.array([0]), np.zeros(0, np.int32), one))])
        with pytest.raises(_kernels.LayoutError):
            _kernels.CodedParts([(np.zeros(4)[::2], None)])
        matrix = CodedMatrix([(codes, np.eye(1))])
        with pytest.raises(ValueError, match="outside"):
            matrix.kernel.entries(0, 3)


def problems(matrix, loss="logistic", **settings):
    """The same problem over rows in codes and in CSR."""
    rng = np.random.default_rng(2)
    y = np.sign(rng.standard_normal(N)) if loss == "logistic" else rng.uniform(-1, 1, N)
    settings = {"data_norm": 1.5, **settings}
    return [dpfast.Problem(X, y, loss, **settings) for X in (matrix, matrix.tocsr())]


class TestSums:
    @pytest.mark.parametrize("loss", ["logistic", "squared"])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_all_sums_are_those_of_csr(self, both, loss, weighted, n_jobs, monkeypatch):
        monkeypatch.setattr("dpfast.problem._THREADING_BYTES", 0)
        matrix, _ = both
        rng = np.random.default_rng(3)
        weights = {"sample_weight": rng.random(N), "max_weight": 0.8} if weighted else {}
        ours, csr = problems(matrix, loss, n_jobs=n_jobs, **weights)
        w, direction = rng.standard_normal((2, ours.shape.dim))
        rows = rng.integers(0, N, 500)
        assert ours.sparse
        assert ours.shape == csr.shape
        for take in (
            lambda p: p.clipped_gradient(w, 0.3, 2.0)[0],
            lambda p: p.clipped_gradient(w, 0.3, clip_order=1)[0],
            lambda p: p.objective(w, 0.7),
            lambda p: p.margins(w),
            lambda p: p.line_search_losses(w, direction, np.array([0.1, 1.0])),
            lambda p: p.hessian(w),
            lambda p: p.hessian(w, max_rows=200),
            lambda p: add_up(p.map_rows(lambda z: z.T @ z)),
            lambda p: p.sampled_gradient(rows, w, 0.3),
            lambda p: p.part(100, 1300).clipped_gradient(w, 0.3)[0],
            lambda p: p.with_target(-p.target).objective(w),
            lambda p: p.weighted_by(np.ones(N), 1.0).objective(w),
            lambda p: p.kernel_rows().entries(0, N)[2],
        ):
            np.testing.assert_array_equal(take(ours), take(csr))

    def test_sums_over_groups(self, both):
        matrix, _ = both
        groups = np.random.default_rng(4).integers(0, 700, N)
        ours, csr = problems(matrix, groups=groups, max_rows_per_group=5)
        w = np.random.default_rng(5).standard_normal(ours.shape.dim)
        np.testing.assert_array_equal(
            ours.clipped_gradient(w, 0.3)[0], csr.clipped_gradient(w, 0.3)[0]
        )

    @pytest.mark.parametrize("solver", ["auto", "dp-sgd", "objective-perturbation", "dp-agd"])
    def test_solvers_give_the_same_weights(self, both, solver):
        found = [
            dpfast.solve(problem, solver, dpfast.Budget(1.0, 1e-6), random_state=0).w
            for problem in problems(both[0])
        ]
        np.testing.assert_array_equal(*found)

    def test_several_classes_and_groups_by_estimators(self, both):
        matrix, rng = both[0], np.random.default_rng(6)
        y, groups = rng.integers(0, 3, N), rng.integers(0, 1500, N)
        for arguments in ({}, {"groups": groups}):
            found = [
                dpfast.LogisticRegression(
                    classes=[0, 1, 2], data_norm=2.0, random_state=0,
                    max_rows_per_group=4 if arguments else None,
                ).fit(X, y, **arguments)
                for X in (matrix, matrix.tocsr())
            ]  # fmt: skip
            np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
            np.testing.assert_allclose(
                found[0].decision_function(matrix), found[1].decision_function(matrix.tocsr())
            )


class TestEstimators:
    def test_a_second_fit_to_rows_in_codes_is_noticed(self, both):
        y = np.arange(N) % 2
        model = dpfast.LogisticRegression(classes=[0, 1], data_norm=2.0, random_state=0)
        model.fit(both[0], y)
        with pytest.warns(dpfast.errors.RepeatedFitWarning):
            model.fit(both[0], y)

    def test_lengths_and_columns_are_checked(self, both):
        model = dpfast.LogisticRegression(classes=[0, 1], data_norm=2.0, random_state=0)
        with pytest.raises(ValueError, match="3000 entries"):
            model.fit(both[0], np.arange(5) % 2)
        model.fit(both[0], np.arange(N) % 2)
        with pytest.raises(ValueError, match="as in fit"):
            model.predict(CodedMatrix([(np.zeros(3), None)]))
