"""The support vector classifier: its loss, its accuracy, its own parameter."""

import numpy as np
import pytest
import scipy.optimize

from dpfast import Budget, LinearSVC, ProblemShape


def huberized_hinge(z, width):
    return np.where(
        z > 1 + width, 0.0, np.where(z < 1 - width, 1 - z, (1 + width - z) ** 2 / (4 * width))
    )


@pytest.mark.parametrize("width", [0.5, 0.2])
def test_without_noise_it_minimizes_the_huberized_hinge(noiseless, classification, width):
    X, y = classification
    model = LinearSVC(
        epsilon=1e4, alpha=0.05, width=width, data_norm=2.0, classes=[-1, 1],
        solver="output-perturbation",
    ).fit(X, y)  # fmt: skip
    rows = np.hstack([X, np.ones((500, 1))])

    def objective(w):
        return huberized_hinge(y * (rows @ w), width).mean() + 0.025 * w @ w

    w = np.append(model.coef_[0], model.intercept_)
    best = scipy.optimize.minimize(objective, np.zeros(7), tol=1e-12)
    assert objective(w) <= best.fun + 1e-8
    np.testing.assert_allclose(w, best.x, atol=1e-4)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_it_learns_with_epsilon_one(classification, delta):
    X, y = (np.tile(part, (8,) + (1,) * (part.ndim - 1)) for part in classification)
    model = LinearSVC(delta=delta, data_norm=2.0, classes=[-1, 1], random_state=0).fit(X, y)
    assert model.coef_.shape == (1, 6)
    assert model.score(X, y) > 0.75 > max(np.mean(y > 0), np.mean(y < 0)) + 0.1
    margins = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), np.where(margins > 0, 1, -1))


@pytest.mark.parametrize(
    ("width", "error"),
    [(0.0, ValueError), (-1.0, ValueError), (np.nan, ValueError), ("1", TypeError)],
)
def test_bad_width(classification, width, error):
    with pytest.raises(error, match="width must be"):
        LinearSVC(width=width, data_norm=2.0, classes=[-1, 1]).fit(*classification)


@pytest.mark.parametrize(("classes", "width"), [([0, 1], None), ([0, 1], 0.5), ([0, 1, 2], None)])
def test_the_corner_narrows_for_two_classes_and_the_default_width(classes, width):
    model = LinearSVC(delta=1e-6, data_norm=2.0, classes=classes, width=width, random_state=0)
    shape = ProblemShape(10**5, 6, 2.0, model._loss())
    chosen = model._planned(shape, Budget(1.0, 1e-6))[0].settings.width
    assert chosen < 0.02 if (len(classes), width) == (2, None) else chosen == 0.5
    rng = np.random.default_rng(0)
    y = np.arange(900) % len(classes)
    assert model.fit(rng.uniform(-0.5, 0.5, (900, 6)), y).coef_.shape[1] == 6
