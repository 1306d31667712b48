"""Problems of every layout, with the rows written out for the slow twins."""

import numpy as np
import pytest
import scipy.sparse

from dpfast import Problem

LAYOUTS = ["float64", "float32", "csr", "csr-ones", "fortran"]


class Case:
    """A problem and its rows, targets and weights, written out."""

    def __init__(self, layout, loss, weighted=False, intercept=0.7, n=150, d=6, n_jobs=None):
        rng = np.random.default_rng(3)
        X = rng.standard_normal((n, d))
        if layout.startswith("csr"):
            X = X * (rng.random((n, d)) < 0.5)
        if layout == "csr-ones":
            X = (X != 0.0).astype(float)
        if layout == "float32":
            X = X.astype(np.float32)
        self.weight = rng.uniform(0.0, 2.0, n) if weighted else None
        data_norm = 2.0
        norms = np.linalg.norm(X.astype(float), axis=1)
        scaled = X.astype(float) * np.minimum(1.0, data_norm / np.maximum(norms, 1e-300))[:, None]
        self.rows = np.hstack([scaled, np.full((n, 1), intercept)]) if intercept else scaled
        self.target = (
            rng.choice([-1.0, 1.0], n)
            if loss not in ("huber", "pinball")
            else scaled @ np.linspace(-1, 1, d) + rng.standard_normal(n)
        )
        stored = {"csr": scipy.sparse.csr_array, "csr-ones": scipy.sparse.csr_array,
                  "fortran": np.asfortranarray}.get(layout, np.asarray)(X)  # fmt: skip
        weights = {"sample_weight": self.weight, "max_weight": 2.0} if weighted else {}
        self.problem = Problem(
            stored, self.target, loss, data_norm=data_norm, intercept=intercept, n_jobs=n_jobs,
            **weights,
        )  # fmt: skip
        self.loss = self.problem.shape.loss


@pytest.fixture
def case():
    return Case


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param
