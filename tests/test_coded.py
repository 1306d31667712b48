"""Rows in codes are, in every sum, the rows that they stand for."""

import pickle

import numpy as np
import pytest
import scipy.sparse

import dpfast
from dpfast import _kernels
from dpfast.chunks import add_up
from dpfast.coded import CodedMatrix
from dpfast.queries import _linear

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

    def test_norms_are_bounds_and_those_of_csr(self, both):
        matrix, dense = both
        rows = _kernels.CodedRows(matrix.kernel, 100, 900, np.ones(800))
        norms = np.empty(500)
        rows.row_norms(17, 517, norms)
        exact = np.linalg.norm(dense[117:617].astype(np.longdouble), axis=1)
        assert (norms >= exact).all()
        np.testing.assert_allclose(norms, exact.astype(float), rtol=1e-12)
        with pytest.raises(ValueError, match="must have 500 entries"):
            rows.row_norms(17, 517, np.empty(501))

    def test_norms_of_tiny_entries_are_bounds(self):
        numbers = np.array([1e-170, -3e-200, 0.0, 0.5])
        matrix = CodedMatrix([(numbers, None), (numbers[::-1].copy(), None)])
        norms = np.empty(4)
        _kernels.CodedRows(matrix.kernel, 0, 4, np.ones(4)).row_norms(0, 4, norms)
        np.testing.assert_allclose(norms, [0.5, 3e-200, 3e-200, 0.5], rtol=1e-12)
        assert (norms >= np.array([0.5, 3e-200, 3e-200, 0.5])).all()

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
            # Nothing cancels: the rounding of some thousand additions, and of none in most.
            expected = take(csr)
            largest = np.abs(expected).max()
            np.testing.assert_allclose(take(ours), expected, rtol=0, atol=1e-13 * largest)

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
        np.testing.assert_allclose(*found, rtol=0, atol=1e-10)

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
            np.testing.assert_allclose(found[0].coef_, found[1].coef_, rtol=0, atol=1e-10)
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


class TestKernels:
    """Sums by levels against the rows written out, on every instruction set."""

    @pytest.fixture(params=[1, 2, 511, 513, 2000])
    def rows(self, request, isa, both):
        matrix, dense = both
        start, stop = 37, 37 + request.param
        rng = np.random.default_rng(7)
        y = np.sign(rng.standard_normal(request.param))
        kernel = _kernels.CodedRows(matrix.kernel, start, stop, y, 0.5)
        whole = np.column_stack([dense[start:stop], np.full(stop - start, 0.5)])
        return kernel, whole, rng, y

    def test_tables(self, rows):
        kernel, whole, rng, _ = rows
        n, d = len(whole), whole.shape[1] - 1
        w, s = rng.standard_normal(d), rng.standard_normal(n)
        first, last = n // 3, n
        found = kernel.gather(first, last, kernel.parts.table(w))
        np.testing.assert_allclose(found, whole[first:last, :d] @ w, rtol=0, atol=1e-12)
        found = kernel.parts.fold(kernel.scatter(first, last, s[first:last]))
        np.testing.assert_allclose(found, whole[first:last, :d].T @ s[first:last], atol=1e-11)

    @pytest.mark.parametrize("loss", ["logistic", "squared"])
    def test_gradients_and_margins(self, rows, loss):
        kernel, whole, rng, y = rows
        n = len(whole)
        scale, weight = rng.uniform(0.5, 1.0, (2, n))
        inverse = rng.uniform(0.2, 2.0, n).astype(np.float32)
        w = rng.standard_normal(whole.shape[1])
        csr = _kernels.CsrRows(*kernel.entries(0, n), whole.shape[1] - 1, y, 0.5)
        for part in (kernel, csr):
            part.set_row_scale(scale)
            part.set_weight(weight)
            part.set_inverse_norm(inverse)
        spec, found = dpfast.losses.Loss(loss).spec, []
        for part in (kernel, csr):
            gradient, margins = np.empty(len(w)), np.empty(n - n // 2)
            total = part.gradient(n // 2, n, spec, w, 0.3, 2.0, gradient)
            part.margins(n // 2, n, w, margins)
            found.append([*gradient, *margins, total, part.objective(0, n, spec, w, 1.5)])
        np.testing.assert_allclose(*found, rtol=0, atol=1e-11)

    def test_what_is_not_finite_or_of_another_length_is_refused(self, rows):
        kernel, whole, *_ = rows
        n, dim = whole.shape
        w, out = np.zeros(dim), np.empty(dim)
        loss = dpfast.losses.Loss("logistic").spec
        w[3] = np.nan
        with pytest.raises(FloatingPointError):
            kernel.gradient(0, n, loss, w, 1.0, 1.0, out)
        with pytest.raises(FloatingPointError):
            kernel.objective(0, n, loss, w, 1.0)
        with pytest.raises(FloatingPointError):
            kernel.margins(0, n, w, np.empty(n))
        for call in (
            lambda: kernel.gradient(0, n, loss, w[1:], 1.0, 1.0, out),
            lambda: kernel.gradient(0, n, loss, w, 1.0, 1.0, out[1:]),
            lambda: kernel.gradient(0, n + 1, loss, w, 1.0, 1.0, out),
            lambda: kernel.gradient(-1, n, loss, w, 1.0, 1.0, out),
            lambda: kernel.gradient(0, n, loss, w, 0.0, 1.0, out),
            lambda: kernel.objective(0, n + 1, loss, w, 1.0),
            lambda: kernel.margins(0, n, np.zeros(dim), np.empty(n + 1)),
            lambda: kernel.gather(0, n, np.zeros(3)),
            lambda: kernel.scatter(0, n, np.zeros(n + 1)),
            lambda: kernel.parts.table(np.zeros(3)),
            lambda: kernel.parts.fold(np.zeros(3)),
            lambda: _kernels.CodedRows(kernel.parts, 0, N + 1, np.ones(N + 1)),
            lambda: _kernels.CodedRows(kernel.parts, 0, n, np.ones(n + 1)),
            lambda: _kernels.CodedRows(kernel.parts, 5, 5, np.ones(0)),
        ):
            with pytest.raises(ValueError):
                call()

    def test_levels_that_share_a_column_by_many_are_written_out(self):
        """The chain of additions behind a sum by levels would be longer than what is charged."""
        codes = np.arange(6, dtype=np.uint8)
        assert CodedMatrix([(codes, np.vstack([np.eye(2)] * 3))]).kernel.plain
        assert not CodedMatrix([(codes, np.ones((6, 1)))]).kernel.plain
        problem = dpfast.Problem(CodedMatrix([(codes, np.ones((6, 1)))]), np.ones(6), data_norm=1.0)
        assert type(next(problem.chunks())[0]) is _kernels.CsrRows

    def test_groups_have_the_same_margins_wherever_they_are(self, both):
        groups = np.arange(N) // 2
        y = np.ones(N)
        problem = dpfast.Problem(both[0], y, data_norm=2.0, groups=groups)
        assert type(next(problem.chunks())[0]) is _kernels.CsrRows


def test_a_row_is_as_long_whichever_rows_it_is_among():
    """One row without entries changed the last bits of how all others were scaled.

    Weights that cancel make a whole margin of those: so one record changed every row's slope.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        row = rng.uniform(1.0, 3.0, 3)
        levels = np.array([row, np.zeros(3), [1.0, 0.0, 0.0]])
        one, other = (
            dpfast.Problem(
                CodedMatrix([(np.array([first, 0, 0], dtype=np.uint8), levels)]),
                np.ones(3),
                data_norm=1.0,
            )
            for first in (1, 2)
        )
        w = np.append(1e16 * row / (row @ row), 0.0)
        w[3] = -one.margins(w)[1]
        np.testing.assert_array_equal(one.margins(w)[1:], other.margins(w)[1:])


class TestQueries:
    """Sums of parts and lengths by levels are those of stored entries."""

    @pytest.mark.parametrize("scaled", [False, True])
    def test_columns_and_gram(self, both, scaled):
        norm = 0.7 if scaled else 3.0
        d = both[0].shape[1]
        rng = np.random.default_rng(8)
        affine = _linear.Affine(rng.uniform(0.5, 2.0, d), 0.02 * rng.standard_normal(d), 1.5)
        found = []
        for X in (both[0], both[0].tocsr()):
            problem = dpfast.Problem(X, np.ones(N), data_norm=norm)
            assert _linear._by_stored_entries(problem, affine)
            sums = _linear.part_sums(problem, columns=affine, squares=True)
            found.append(
                (sums, np.triu(_linear.gram(problem, coordinates=affine, radius=1.5, largest=21.0)))
            )
        for ours, csr in zip(*found, strict=True):
            np.testing.assert_allclose(ours, csr, rtol=0, atol=1e-12 * np.abs(csr).max())
        columns = np.arange(0, d, 3)
        low = np.linspace(-0.5, 0.0, len(columns))
        counts = [
            _linear.column_counts(
                dpfast.Problem(X, np.ones(N), data_norm=norm),
                columns=columns, low=low, high=low + 1.1, bins=4,
            )
            for X in (both[0], both[0].tocsr())
        ]  # fmt: skip
        np.testing.assert_array_equal(*counts)
        kernel, *_ = next(dpfast.Problem(both[0], np.ones(N), data_norm=norm).chunks())
        assert _linear._in_codes(kernel, 0, 10) != scaled
        factors = np.empty(500)
        _kernels.shortening(kernel, 0, 500, affine.factor, affine.shift, 1.5, factors)
        by_level = _linear._coded_factors(kernel, 0, 500, affine)
        if not scaled:
            np.testing.assert_allclose(by_level, factors, rtol=1e-13)
