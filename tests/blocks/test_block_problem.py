"""Problems over blocks: the same sums, bounds and solutions as over one array."""

import fractions
import functools
import warnings

import numpy as np
import pytest
import scipy.sparse

from dpfast import Budget, Ledger, Problem, ProblemShape, plan, solve
from dpfast.blocks import BlockProblem, from_batches, from_npy
from dpfast.errors import DataError
from dpfast.losses import Loss
from dpfast.objectives import Adversarial, Erm, Tilted
from dpfast.random import SecureGenerator
from dpfast.shape import BlockSizes, _additions
from dpfast.solvers import SOLVERS, carry_out
from dpfast.sums import RowAccess, RowSums

FULL_BATCH = [
    ("output-perturbation", {"optimizer": "newton"}),
    ("output-perturbation", {"optimizer": "lbfgs"}),
    ("output-perturbation", {"optimizer": "gd", "alpha": 0.1}),
    ("output-perturbation", {"optimizer": "agd", "alpha": 0.1}),
    ("output-perturbation", {"mode": "iterate", "iterations": 20}),
    ("objective-perturbation", {}),
    ("dp-whitened-gd", {}),
    ("dp-adassp", {}),
    ("dp-agd", {"max_iterations": 8}),
    ("dp-gd", {"iterations": 10}),
    ("dp-gd", {"iterations": 10, "analysis": "last-iterate", "step": 1.0}),
    ("dp-hb", {"iterations": 10}),
    ("dp-nag", {"iterations": 10}),
    ("dp-nag-opt", {"iterations": 10}),
    ("dp-masg", {"iterations": 10}),
    ("dp-masg-opt", {"iterations": 10}),
    ("auto", {}),
]


def both(rows, loss="logistic", block_rows=60, **settings):
    X, y, _ = rows
    source = from_npy(X, y, block_rows=block_rows)
    return (
        Problem(X, y, loss, data_norm=2.0, **settings),
        BlockProblem(source, loss, data_norm=2.0, **settings),
    )


@pytest.mark.parametrize(("solver", "options"), FULL_BATCH)
def test_every_full_batch_solver_finds_the_same(solver, options, rows):
    loss = SOLVERS[solver].loss if solver in SOLVERS else "logistic"
    whole, blocks = both(rows, loss)
    results = [
        solve(problem, solver, Budget(5.0, 1e-6), random_state=7, **options)
        for problem in (whole, blocks)
    ]
    np.testing.assert_allclose(results[1].w, results[0].w, rtol=1e-10, atol=1e-12)
    assert results[1].privacy.events == results[0].privacy.events


def test_a_hinge_is_certified_over_blocks(rows):
    whole, blocks = both(rows, "hinge")
    for optimizer in ("auto", "subgradient"):
        options = {"alpha": 0.5, "optimizer": optimizer, "tolerance": 0.3}
        if optimizer == "auto":
            del options["tolerance"]
        first, second = (
            solve(p, "output-perturbation", Budget(5.0, 1e-6), random_state=7, **options).w
            for p in (whole, blocks)
        )
        np.testing.assert_allclose(second, first, rtol=1e-10)


@pytest.mark.parametrize("block_rows", [7, 59, 500, 1000])
def test_every_sum_is_that_of_one_array(block_rows, rows):
    whole, blocks = both(rows, block_rows=block_rows)
    rng = np.random.default_rng(1)
    w, direction = rng.standard_normal((2, 6))
    for options in ({}, {"clip_norm": 0.3, "loss_clip": 0.5}, {"clip_norm": 0.3, "clip_order": 1}):
        expected, found = (p.clipped_gradient(w, **options) for p in (whole, blocks))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    for quantity in (
        lambda p: p.objective(w, 0.5),
        lambda p: p.line_search_losses(w, direction, [0.0, 0.5, 2.0], 0.7),
        lambda p: p.value_and_gradient(w, 0.1)[1],
        lambda p: p.hessian(w, 0.1),
        lambda p: p.gram(),
        lambda p: p.margins(w),
        lambda p: p.clipped_by_lengths(row_lengths).clipped_gradient(w, 0.2)[0],
        lambda p: p.clipped_by_lengths(row_lengths, 1.2).clipped_gradient(w, 0.2)[0],
        lambda p: p.with_loss(Loss("squared-hinge")).objective(w),
    ):
        np.testing.assert_allclose(quantity(blocks), quantity(whole), rtol=1e-12, atol=1e-12)


def row_lengths(problem):
    return np.abs(problem.margins(np.ones(problem.shape.dim))) + 1.0


def test_weights_targets_and_sparse_rows(rows):
    X, y, weight = rows
    labels = np.where(y > 0, "yes", "no")
    w = np.arange(6.0)
    expected = Problem(X, y, data_norm=2.0, sample_weight=weight, max_weight=0.5)
    for rows_as in (X, scipy.sparse.csr_array(X), np.asfortranarray(X)):
        source = from_npy(rows_as, labels, weight, block_rows=70)
        problem = BlockProblem(
            source, data_norm=2.0, max_weight=0.5, target=functools.partial(signs, "yes")
        )
        np.testing.assert_allclose(
            problem.clipped_gradient(w)[0], expected.clipped_gradient(w)[0], rtol=1e-12
        )
        other = problem.with_target(functools.partial(signs, "no"))
        flipped = expected.with_target(-y)
        np.testing.assert_allclose(other.objective(w), flipped.objective(w), rtol=1e-12)


@pytest.mark.parametrize("made_of", [None, np.abs])
def test_targets_in_a_unit(rows, made_of):
    X, y, _ = rows
    wide, w = Loss("poisson", width=4.0), 0.1 * np.arange(6.0)
    stored = 3.0 * np.abs(y)
    sign = -1.0 if made_of is np.abs else 1.0
    blocks = BlockProblem(
        from_npy(X, sign * stored, block_rows=70), wide, data_norm=2.0, target=made_of
    )
    expected = Problem(X, stored, wide, data_norm=2.0)
    found, whole = (p.in_unit(2.0, Loss("poisson", width=0.3)) for p in (blocks, expected))
    np.testing.assert_allclose(whole.target, np.minimum(stored / 2.0, np.exp(0.3)))
    np.testing.assert_allclose(found.objective(w), whole.objective(w), rtol=1e-12)


def test_weights_that_are_cut(rows):
    X, y, _ = rows
    weight, w = np.random.default_rng(0).uniform(0.0, 2.0, len(X)), 0.1 * np.arange(6.0)
    settings = {"data_norm": 2.0, "max_weight": 8.0}
    blocks = BlockProblem(from_npy(X, y, sample_weight=weight, block_rows=70), **settings)
    cut = 8.0 * np.minimum(weight, 0.5) / 0.5
    expected = Problem(X, y, sample_weight=cut, **settings).objective(w)
    memory = Problem(X, y, sample_weight=weight, **settings)
    for problem in (blocks, memory):
        np.testing.assert_allclose(problem.with_weights_cut(0.5).objective(w), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="weighted rows"):
        Problem(X, y, data_norm=2.0).with_weights_cut(0.5)
    # Once more; and what cannot be is refused before a block is read.
    twice = memory.with_weights_cut(1.0).with_weights_cut(6.0)
    found = blocks.with_weights_cut(1.0).with_weights_cut(6.0)
    np.testing.assert_allclose(found.objective(w), twice.objective(w), rtol=1e-9)
    assert abs(twice.objective(w) - memory.with_weights_cut(6.0).objective(w)) > 0.1
    with pytest.raises(ValueError, match="at must be a real number"):
        blocks.with_weights_cut(0.0)
    with pytest.raises(ValueError, match="weighted rows"):
        BlockProblem(from_npy(X, y, block_rows=70), data_norm=2.0).with_weights_cut(0.5)


def signs(positive, labels):
    return np.where(labels == positive, 1.0, -1.0)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((60_000, 40)), np.sign(rng.standard_normal(60_000))
    source = from_npy(X, y, block_rows=30_000)
    first, second = (
        BlockProblem(source, data_norm=5.0, n_jobs=jobs).clipped_gradient(np.ones(41), 0.3)
        for jobs in (1, 3)
    )
    np.testing.assert_array_equal(first[0], second[0])
    assert first[1] == second[1]


# ---- rounding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "sizes"), [(10**6, (1000,)), (10**6, (10, 3)), (500, (60, 20)), (10**9, (10**6, 7))]
)
def test_the_chain_of_additions_is_that_of_the_layout(n, sizes):
    """In a block, its own chain; over the blocks, one each: counted here addition by addition."""
    count = -(-n // max(sizes))
    shape = ProblemShape(n, 5, 1.0, blocks=BlockSizes(count, sizes))
    longest = max(_additions(ProblemShape(rows, 5, 1.0)) for rows in sizes)
    assert shape.additions() >= longest + count
    plain = ProblemShape(n, 5, 1.0)
    assert shape.additions() == max(plain.additions(), longest + count)
    for bound in ("gradient_sum_error", "gram_additions"):
        assert getattr(shape, bound)() >= getattr(plain, bound)()
    assert shape.loss_sum_error(1.0) >= plain.loss_sum_error(1.0)
    assert shape.gradient_error(1.0) >= plain.gradient_error(1.0)


def test_many_tiny_blocks_are_charged_more(rows):
    """A sum over single rows is a longer chain than one array's; the noise knows."""
    X, y, _ = rows
    source = from_npy(np.tile(X, (4, 1)), np.tile(y, 4), block_rows=1)
    tiny = BlockProblem(source, data_norm=2.0).shape
    assert tiny.additions() >= 2000 + _additions(ProblemShape(1, 5, 2.0))
    charged = [
        plan(shape, "dp-gd", Budget(1.0, 1e-6), iterations=1).events[0].sensitivity
        for shape in (tiny, ProblemShape(2000, 5, 2.0))
    ]
    # Both hold for their layout; here the one array is charged for a chunk of all rows.
    assert charged[0] >= charged[1]


def test_sums_stay_within_the_bound_at_worst():
    """Magnitudes that make every addition round: the error stays below what is charged."""
    rng = np.random.default_rng(3)
    X = (rng.random((3000, 1)) * 2.0 ** -rng.integers(0, 30, (3000, 1))).clip(2.0**-40)
    y = np.ones(3000)
    source = from_npy(X, y, block_rows=7)
    problem = BlockProblem(source, "huber", data_norm=1.0, intercept=0.0)
    found = problem.clipped_gradient(np.zeros(1))[0][0]
    exact = -sum(fractions.Fraction(float(x)) for x in X[:, 0])
    assert abs(fractions.Fraction(float(found)) - exact) <= problem.shape.gradient_sum_error()


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "options", "match"),
    [
        ("dp-sgd", {}, "solver must be one of full batches.*'dp-sgd', which looks at the rows"),
        ("dp-svrg", {}, "solver must be one of full batches"),
        ("rrpsgd", {}, "solver must be one of full batches"),
        ("dp-gd", {"batch": 10}, "batch must be None for rows in blocks"),
        ("dp-agd", {"batch": 10}, "batch must be None for rows in blocks"),
        ("output-perturbation", {"optimizer": "svrg"}, "optimizer must be one of full batches"),
        ("output-perturbation", {"optimizer": "katyusha"}, "optimizer must be one of full"),
        ("output-perturbation", {"optimizer": "sgd"}, "optimizer must be one of full batches"),
        ("objective-perturbation", {"optimizer": "svrg"}, "optimizer must be one of full"),
        ("output-perturbation", {"objective": "tilted"}, "objective must be 'erm'"),
    ],
)
def test_what_needs_single_rows_is_refused_before_anything_is_read(solver, options, match):
    reads = []

    def batches():
        reads.append(1)
        yield np.ones((30, 2)), np.ones(30)

    problem = BlockProblem(from_batches(batches, n_samples=30), data_norm=1.0)
    reads.clear()
    with pytest.raises(ValueError, match=match):
        solve(problem, solver, Budget(1.0, 1e-6), **options)
    assert not reads


def test_what_needs_single_rows_is_refused(rows):
    problem = both(rows)[1]
    assert not isinstance(problem, RowAccess)
    assert isinstance(problem, RowSums)
    w = np.zeros(problem.shape.dim)
    for work in (
        lambda: Tilted(problem, 0.1),
        lambda: Adversarial(problem, 0.1),
        lambda: Erm(problem, 0.1).snapshot(w),
        lambda: Erm(problem, 0.1).sgd_epoch(w, np.arange(3), 0.1),
    ):
        with pytest.raises(TypeError, match=r"problem must have its rows in memory for .* blocks"):
            work()
    with pytest.raises(TypeError, match="y must be a function"):
        problem.with_target(np.ones(500))


def test_arguments(rows):
    X, y, weight = rows
    source = from_npy(X, y)
    with pytest.raises(ValueError, match="data_norm must be given for rows in blocks; got None"):
        BlockProblem(source)
    with pytest.raises(TypeError, match=r"source must hold blocks of rows.*got ndarray"):
        BlockProblem(X, data_norm=1.0)
    with pytest.raises(ValueError, match="max_weight must be None for rows without weights"):
        BlockProblem(source, data_norm=1.0, max_weight=1.0)
    with pytest.raises(ValueError, match="max_weight must be given for rows with weights"):
        BlockProblem(from_npy(X, y, weight), data_norm=1.0)
    with pytest.raises(ValueError, match="source must have targets"):
        BlockProblem(from_npy(X), data_norm=1.0)
    with pytest.raises(ValueError, match="count must be"):
        BlockSizes(0, (1,))
    with pytest.raises(ValueError, match="distinct must hold"):
        BlockSizes(1, ())


def test_bad_rows_are_named_and_the_fit_is_paid_for(rows):
    X, y, _ = rows
    X[321, 3] = np.nan
    problem = BlockProblem(from_npy(X, y, block_rows=60), data_norm=2.0)
    settled = plan(problem, "dp-gd", Budget(1.0, 1e-6), iterations=3)
    ledger = Ledger(settled.budget)
    with pytest.raises(
        DataError, match=r"X, rows 300 to 359, column 3: X must hold finite numbers only"
    ):
        carry_out(settled, problem, SecureGenerator(1), ledger)
    assert len(ledger.events) == 3


def test_workers_warn_of_no_number():
    """Theirs is another process, or another machine, where NumPy would warn of what overflows."""
    problem = BlockProblem(from_npy(np.ones((2, 1)), np.ones(2), block_rows=1), data_norm=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(problem.map_blocks(lambda _: float(np.exp(np.float64(1e3))))) == [np.inf] * 2
