"""The gradients of groups of rows against their slow twin, on every instruction set."""

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from reference.dense import rows_with_intercept
from reference.groups import group_gradient

from dpfast import Loss, _kernels

LOSSES = [Loss("logistic"), Loss("huber", 0.7), Loss("pinball", 0.9, 0.5)]
# Groups of one row, of a few, beside the blocks, and longer than their products have room for.
SIZES = {
    "ones": [1] * 37,
    "few": [1, 2, 5, 1, 3, 3, 0, 1, 7],
    "blocks": [1000, 20, 30, 1, 1030, 2],
    "long": [2, 40, 1, 1500, 3, 41],
}


def made(sizes, d, storage="float64", intercept=1.0, seed=0, scaled=True):
    """Rows in groups, some of which pull alike and some against each other, and their kernel."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.standard_normal((n, d))
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    for g, (first, last) in enumerate(pairwise(start)):
        if g % 3 == 1 and last > first:
            X[first:last] = X[first]
        if g % 3 == 2:
            X[first + 1 : last : 2] *= -1.0
    if storage == "csr":
        X[rng.random((n, d)) < 0.5] = 0.0
    if storage == "float32":
        X = X.astype(np.float32)
    row_scale = rng.uniform(0.2, 1.0, n) if scaled else None
    weight = rng.uniform(0.0, 2.0, n) if scaled else None
    target = rng.choice([-1.0, 1.0], n)
    rows = rows_with_intercept(X, row_scale, intercept)
    transform = np.eye(rows.shape[1]) + 0.3 * rng.standard_normal((rows.shape[1],) * 2)
    if storage == "csr":
        matrix = scipy.sparse.csr_array(X)
        kernel = _kernels.CsrRows(matrix.indptr, matrix.indices, matrix.data, d, target, intercept)
    else:
        kernel = _kernels.DenseRows(X, target, intercept)
    kernel.set_row_scale(row_scale)
    kernel.set_weight(weight)
    lengths = np.linalg.norm(rows @ transform, axis=1)
    with np.errstate(divide="ignore"):
        kernel.set_inverse_norm((1.0 / lengths).astype(np.float32))
    return rows, target, weight, start, transform, kernel


def room(start, most):
    sizes = np.diff(start)
    held = np.where((sizes > 1) & (sizes <= most), sizes * (sizes + 1) // 2, 0)
    return np.concatenate([[0], np.cumsum(held)]).astype(np.int64)


def kernel_gradient(
    kernel, groups, w, loss, labels, clip, row_clip=math.inf, mass=math.inf, gauge=1.0, edges=None,
    correlation=None,
):  # fmt: skip
    """The kernel's sum over ranges of groups; with a correlation, weighed without the labels."""
    edges = edges or [0, groups.n_groups]
    how = {
        "norm": clip, "row_norm": row_clip, "mass": mass, "gauge": gauge, "relative": 1e-13,
        "absolute": 1e-13, "consistent": correlation is not None, "correlation": correlation or 0.0,
    }  # fmt: skip
    total, share = np.zeros_like(w), 0.0
    for first, last in pairwise(edges):
        out = np.full_like(w, np.nan)
        at, end = np.asarray(groups.start)[[first, last]]
        share += _kernels.group_gradient(
            kernel, at, groups, first, last, loss, None if labels is None else labels[at:end], w,
            how, out,
        )  # fmt: skip
        total += out
    return total, share


TWINS = {}


def twin_of(key, *arguments):
    """The slow twin's sum, once for all instruction sets."""
    if key not in TWINS:
        TWINS[key] = group_gradient(*arguments)
    return TWINS[key]


def compare(sizes, d, storage, intercept, loss, n_classes=1, most=35, transformed=True):
    rows, target, weight, start, transform, kernel = made(sizes, d, storage, intercept)
    rng = np.random.default_rng(2)
    w = rng.standard_normal((n_classes, rows.shape[1])) / math.sqrt(d)
    labels = None
    if n_classes > 1:
        loss, labels = None, rng.integers(n_classes, size=len(rows)).astype(np.float64)
    spec = None if loss is None else loss.spec
    if not transformed:
        transform = np.eye(rows.shape[1])
        with np.errstate(divide="ignore"):
            kernel.set_inverse_norm((1.0 / np.linalg.norm(rows, axis=1)).astype(np.float32))
    groups = _kernels.RowGroups(
        start, room(start, most), np.ascontiguousarray(transform) if transformed else None
    )
    groups.set_products(0, groups.n_groups, np.ascontiguousarray(rows @ transform))
    length = math.sqrt(rows.shape[1])
    ways = [
        (1e9, math.inf, math.inf, 1.0, None),
        (0.8 * length, 0.5 * length, math.inf, 1.3, None),
        (2.0 * length, math.inf, 3.0, 2.0, None),
        (1e9, math.inf, 0.2, 1.0, None),  # less than slopes of single rows
    ]
    if n_classes > 1 or loss.multiclass:
        ways += [(1.5 * length, 0.5 * length, math.inf, 1.3, 0.0), (length, 9.0, 3.0, 1.3, 0.3)]
    case = tuple(sizes), d, storage, intercept, loss, n_classes, transformed
    for clip, row_clip, mass, gauge, correlation in ways:
        expected, share = twin_of(
            (*case, clip, row_clip, mass, gauge, correlation), rows,
            labels if n_classes > 1 else target, start, w, loss, transform, clip, row_clip,
            mass, gauge, weight, correlation,
        )  # fmt: skip
        scale = 1e-6 * np.abs(rows).sum()
        for edges in (None, [0, len(sizes) // 2, len(sizes)]):
            found, got = kernel_gradient(
                kernel, groups, w, spec, labels, clip, row_clip, mass, gauge, edges, correlation
            )
            # Lengths of rows are float32, those of groups are not.
            np.testing.assert_allclose(found, expected, rtol=0, atol=scale)
            assert got == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("storage", ["float64", "float32", "csr"])
@pytest.mark.parametrize(("d", "intercept"), [(3, 1.0), (17, 0.0)])
def test_gradients_match_the_twin(isa, sizes, storage, d, intercept):
    compare(sizes, d, storage, intercept, LOSSES[0])


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("storage", ["float64", "csr"])
def test_losses_match_the_twin(isa, loss, storage):
    compare(SIZES["few"], 5, storage, 0.5, loss, transformed=False)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("storage", ["float64", "float32", "csr"])
def test_classes_match_the_twin(isa, sizes, storage):
    compare(sizes, 6, storage, 1.0, None, n_classes=3)


@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("storage", ["float64", "float32", "csr"])
def test_groups_of_one_row_are_rows(isa, storage, consistent):
    """To the bit but for the order of additions, with weights and scaled rows."""
    rows, _, _, start, transform, kernel = made([1] * 900, 11, storage)
    with np.errstate(divide="ignore"):
        inverse = (1.0 / np.linalg.norm(rows @ transform, axis=1)).astype(np.float32)
    w = np.random.default_rng(3).standard_normal((1, 12))
    groups = _kernels.RowGroups(start, np.zeros(901, dtype=np.int64))
    alike = 0.5 if consistent else None
    found, share = kernel_gradient(
        kernel, groups, w, LOSSES[0].spec, None, 7.0, 1.5, correlation=alike
    )
    rows = np.empty(12)
    kernel.set_inverse_norm(inverse, consistent)
    kernel.gradient(0, 900, LOSSES[0].spec, w[0], 1.5, math.inf, rows)
    np.testing.assert_allclose(found[0], rows, rtol=0, atol=1e-12 * 900)
    assert share == 900.0


@pytest.mark.parametrize("storage", ["float64", "float32", "csr"])
@pytest.mark.parametrize("d", [3, 70, 300])
def test_slopes_and_factors_do_not_depend_on_the_place(isa, storage, d):
    """Bit by bit, whatever rows come before: every row has a column of its own to show it."""
    m, rng = 6, np.random.default_rng(7)
    own = np.hstack([rng.standard_normal((m, d)), np.eye(m)])
    target, w = rng.choice([-1.0, 1.0], m), rng.standard_normal((1, d + m)) / math.sqrt(d)
    seen = set()
    for before in range(12):
        X = np.vstack([rng.standard_normal((before, d + m)), own])
        X[:before, d:] = 0.0
        n = before + m
        y = np.concatenate([np.ones(before), target])
        if storage == "csr":
            matrix = scipy.sparse.csr_array(X)
            kernel = _kernels.CsrRows(matrix.indptr, matrix.indices, matrix.data, d + m, y, 0.0)
        else:
            X = X.astype(storage)
            kernel = _kernels.DenseRows(X, y, 0.0)
        kernel.set_inverse_norm((1.0 / np.linalg.norm(X, axis=1)).astype(np.float32))
        start = np.concatenate([np.arange(before + 1), [n]]).astype(np.int64)
        groups = _kernels.RowGroups(start, room(start, 10))
        groups.set_products(0, groups.n_groups, np.ascontiguousarray(X, dtype=np.float64))
        found, _ = kernel_gradient(kernel, groups, w, LOSSES[0].spec, None, 0.5)
        seen.add(found[0, d:].tobytes())
    assert len(seen) == 1


def test_a_group_never_passes_its_bound(isa):
    """Alike, opposed and long, at and far from the bound: never an ulp beyond what is charged."""
    rng = np.random.default_rng(5)
    for m in (1, 2, 3, 20, 400):
        X = rng.standard_normal((m, 4)) * 10.0 ** rng.integers(-3, 4)
        for rows in (X, np.tile(X[0], (m, 1)), np.outer((-1.0) ** np.arange(m), X[0])):
            target = rng.choice([-1.0, 1.0], m)
            kernel = _kernels.DenseRows(np.ascontiguousarray(rows), target, 0.0)
            inverse = (1.0 / np.linalg.norm(rows, axis=1) * (1 - 1e-15)).astype(np.float32)
            kernel.set_inverse_norm(np.nextafter(inverse, np.float32(0)))
            start = np.array([0, m], dtype=np.int64)
            for most in (10, 500):
                groups = _kernels.RowGroups(start, room(start, most))
                groups.set_products(0, 1, np.ascontiguousarray(rows))
                w = 3.0 * rng.standard_normal((1, 4))
                for alike in (None, 0.0, 1.0):
                    found, _ = kernel_gradient(
                        kernel, groups, w, LOSSES[0].spec, None, 0.5, 0.5, correlation=alike
                    )
                    assert np.linalg.norm(found) <= 0.5 * (1.0 + 1e-14)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["X", "w"])
def test_what_is_not_finite_is_an_error(isa, value, where):
    X, w = np.ones((9, 3)), np.ones((1, 3))
    (X if where == "X" else w).flat[2] = value
    kernel = _kernels.DenseRows(X, np.ones(9), 0.0)
    kernel.set_inverse_norm(np.ones(9, dtype=np.float32))
    start = np.array([0, 4, 9], dtype=np.int64)
    for most in (2, 10):
        groups = _kernels.RowGroups(start, room(start, most))
        with pytest.raises(FloatingPointError, match="NaN or infinity"):
            kernel_gradient(kernel, groups, w, LOSSES[0].spec, None, 0.5)


def test_sizes_are_checked():
    ints = np.array([0, 2, 3], dtype=np.int64)
    none = np.zeros(3, dtype=np.int64)
    for start, held in (
        (ints[1:], none[1:]), (-ints, none), (ints, none[:2]),
        (ints, np.array([0, 2, 2], dtype=np.int64)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="start"):
            _kernels.RowGroups(start, held)
    groups = _kernels.RowGroups(ints, none)
    with pytest.raises(ValueError, match="must have 3 rows"):
        groups.set_products(0, 2, np.ones((2, 2)))
    with pytest.raises(ValueError, match="outside"):
        groups.set_products(0, 3, np.ones((3, 2)))
    kernel = _kernels.DenseRows(np.ones((3, 2)), np.ones(3), 0.0)
    with pytest.raises(ValueError, match="outside its documented range"):
        kernel_gradient(kernel, groups, np.ones((1, 2)), LOSSES[0].spec, None, 1.0)
    kernel.set_inverse_norm(np.ones(3, dtype=np.float32))
    for loss, alike in ((LOSSES[0], 1.1), (LOSSES[1], 0.0)):
        with pytest.raises(ValueError, match="outside its documented range"):
            kernel_gradient(
                kernel, groups, np.ones((1, 2)), loss.spec, None, 1.0, correlation=alike
            )
    with pytest.raises(ValueError, match="either a loss or labels"):
        kernel_gradient(kernel, groups, np.ones((1, 2)), None, None, 1.0)


def test_the_summation_error_is_within_the_stated_bound(isa):
    rng = np.random.default_rng(6)
    n = 20_000
    X = 100.0 + rng.standard_normal((n, 2))
    kernel = _kernels.DenseRows(X, np.ones(n), 0.0)
    kernel.set_inverse_norm(np.full(n, 1e-4, dtype=np.float32))
    start = np.append(np.sort(rng.choice(np.arange(1, n), 3000, replace=False)), n)
    start = np.concatenate([[0], start]).astype(np.int64)
    groups = _kernels.RowGroups(start, room(start, 100))
    groups.set_products(0, groups.n_groups, X)
    w = np.array([[-0.001, -0.001]])
    found, _ = kernel_gradient(kernel, groups, w, LOSSES[0].spec, None, 1e9)
    margins = np.empty(n)
    kernel.margins(0, n, w[0], margins)
    terms = LOSSES[0].spec.points(margins, np.ones(n))[1][:, None] * X
    depth = _kernels.group_addition_depth(n, groups.longest)
    for j in range(2):
        bound = (depth + 10) * 2.0**-53 * np.abs(terms[:, j]).sum()
        assert abs(found[0, j] - math.fsum(terms[:, j])) <= bound
