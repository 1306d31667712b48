"""Sums of clipped gradients, and steps along them."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from dpfast import Problem, ProblemShape
from dpfast.queries import ClippedGradient, GradientStep, GroupGradient
from dpfast.queries.coordinates import column_transform, reach_of


def test_clipping_in_l1_and_sums_of_samples(classification):
    X, y = classification
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    w = np.arange(7.0) / 5
    rows = np.array([3, 100, 7, 499])
    for matrix in (X, X.astype(np.float32), np.asfortranarray(X), scipy.sparse.csr_array(X),
                   scipy.sparse.csc_array(X)):  # fmt: skip
        with pytest.warns() if getattr(matrix, "format", "") == "csc" else _nothing():
            problem = Problem(matrix, y, data_norm=1.5, intercept=0.5)
        for order, which in itertools.product((1, 2), (None, rows)):
            if which is None:
                got, _ = problem.clipped_gradient(w, 0.4, clip_order=order)
            else:
                got = problem.sampled_gradient(which, w, 0.4, order)
            Z = np.asarray(X if matrix.dtype == np.float64 else X.astype(np.float32), np.float64)
            Z = Z * np.minimum(1.0, 1.5 / np.linalg.norm(Z, axis=1))[:, None]
            Z = np.column_stack([Z, np.full(len(Z), 0.5)])
            G = (-y / (1 + np.exp(y * (Z @ w))))[:, None] * Z
            G *= np.minimum(1.0, 0.4 / np.linalg.norm(G, order, axis=1))[:, None]
            expected = (G if which is None else G[which]).sum(axis=0)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="rows must be in"):
        problem.sampled_gradient(np.array([500]), w, 0.4)


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


SHAPE = ProblemShape(100, 3, 1.0)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (ProblemShape(100, 3, 1.0, "squared"), {}, "clip_norm must be given for the loss 'squ"),
        (SHAPE, {"data_l1_norm": 1.0}, "data_l1_norm must be None for Gaussian noise"),
        (
            SHAPE,
            {"norm": "l1", "data_l1_norm": 1.0, "clip_norm": 0.5},
            "clip_norm and data_l1_norm cannot both be given",
        ),
    ],
)
def test_gradients_without_one_bound_are_refused(shape, options, message):
    with pytest.raises(ValueError, match=message):
        ClippedGradient(shape, **options)


def test_a_sample_is_charged_for_its_own_rows():
    whole, sample = (ClippedGradient(SHAPE, 0.5, n_rows=rows) for rows in (None, 10))
    assert sample.sensitivity("replace_one") == whole.sensitivity("replace_one") == 1.0
    assert sample.rounding_error() == pytest.approx(0.1 * whole.rounding_error())
    assert sample.bound == pytest.approx(0.1 * whole.bound)


def test_a_step_is_that_of_its_formula(classification):
    X, y = classification
    problem, w = Problem(X, y, data_norm=2.0, alpha=0.3), np.linspace(-1.0, 1.0, 7)
    query = GradientStep(problem.shape, 0.5, 2.0)
    gradient = problem.value_and_gradient(w)[1]
    np.testing.assert_allclose(query.evaluate(problem, w), w - 0.5 * gradient, rtol=1e-12)
    assert np.all(np.abs(query.evaluate(problem, w)) <= query.bound)
    slack = GradientStep(problem.shape, 0.5, 2.0, 0.25).rounding_error() - query.rounding_error()
    assert slack == pytest.approx(0.25)
    with pytest.raises(ValueError, match="weights must be no longer than 2"):
        query.evaluate(problem, 3.0 * w)


def test_a_row_of_no_length_with_a_huge_slope_does_not_round_the_other_persons():
    """Its gradient is nothing in the coordinates, but not in the columns that are added up."""
    rng = np.random.default_rng(0)
    X, center = rng.uniform(-0.9, 0.9, (300, 1)), 0.6
    X[0] = center
    found = []
    for y in (0.0, 1e50):
        problem = Problem(
            X, np.append(y, np.ones(299)), "squared", data_norm=1.0, groups=range(300)
        )
        transform = column_transform(problem.shape, np.full(1, center), np.ones(1))
        query = GroupGradient(problem.shape, 2.0 * reach_of(problem.shape, transform), 0.5)
        transform[1, 1] = 0.0  # a constant has no length of its own
        found.append(query.evaluate(problem, transform, np.zeros(2), 1.0, 1.0, 1.0, None))
    assert np.linalg.norm(found[1] - found[0]) <= 2.0 * query.rounding_error() < 1e-6
