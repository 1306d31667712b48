"""Every loss: its derivatives by finite differences, its constants by search."""

import pickle

import numpy as np
import pytest
from reference import dense as twin

from dpfast import Loss
from dpfast.losses import loss_names

LOSSES = [
    *(Loss(name) for name in loss_names()),
    Loss("huberized-hinge", width=2.0), Loss("squared-hinge", 0.5), Loss("huber", 0.1),
    Loss("pinball", 0.05, 1.0),
]  # fmt: skip


def grid(loss):
    # Off the kinks, which are at round numbers.
    margins = np.linspace(-12, 12, 4001) + 1e-4 / np.pi
    targets = [-1.0, 1.0] if loss.kind == "classification" else [-3.0, 0.0, 2.5]
    return [(margins, np.full_like(margins, t)) for t in targets]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_derivatives_match_finite_differences(loss):
    for z, y in grid(loss):
        h = 1e-6
        up, down = loss(z + h, y), loss(z - h, y)
        np.testing.assert_allclose(loss(z, y)[1], (up[0] - down[0]) / (2 * h), atol=1e-7)
        np.testing.assert_allclose(loss(z, y)[2], (up[1] - down[1]) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_constants_hold_and_are_reached(loss):
    values, slopes, curvatures = (
        np.concatenate(parts) for parts in zip(*(loss(z, y) for z, y in grid(loss)), strict=True)
    )
    if np.isfinite(loss.lipschitz):
        assert 0.99 * loss.lipschitz <= np.abs(slopes).max() <= loss.lipschitz
    if np.isfinite(loss.smoothness):
        assert 0.99 * loss.smoothness <= np.abs(curvatures).max()
        assert np.abs(curvatures).max() <= loss.smoothness * (1 + 1e-15)
    assert np.all(values >= 0)
    if loss.kind == "classification":
        at_zero = loss([0.0, 0.0], [-1.0, 1.0])[0]
        np.testing.assert_allclose(at_zero, loss.at_zero, rtol=1e-15)
    else:
        assert loss.at_zero == np.inf


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_facts_are_those_of_the_values(loss):
    margins, flipped = grid(loss)[0][0], loss.kind == "classification"
    values, slopes, curvatures = zip(*(loss(z, y) for z, y in grid(loss)), strict=True)
    assert loss.convex == bool(np.all(np.concatenate(curvatures) >= 0))
    mirrored = flipped and np.allclose(
        loss(margins, -np.ones_like(margins))[0],
        loss(-margins, np.ones_like(margins))[0],
        rtol=1e-14,
    )
    assert loss.monotone == (mirrored and bool(np.all(np.diff(values[1]) <= 0)))
    cut = [np.clip(z - y, -loss.lipschitz, loss.lipschitz) for z, y in grid(loss)]
    assert loss.even == np.allclose(slopes, cut, rtol=1e-12, atol=1e-15)
    squares = [0.5 * (z - y) ** 2 for z, y in grid(loss)]
    assert loss.quadratic == np.allclose(values, squares, rtol=1e-12)
    entropy = [np.logaddexp(0.0, -y * z) for z, y in grid(loss)]
    assert loss.multiclass == np.allclose(values, entropy, rtol=1e-12)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.smoothed], ids=str)
def test_kinks_are_rounded_off_within_the_width(loss):
    for z, y in grid(loss):
        for width in (0.5, 0.01):
            smooth = Loss(loss.smoothed, width=width)
            apart = smooth(z, y)[0] - loss(z, y)[0]
            assert np.all((apart >= 0) & (apart <= width / 4 * (1 + 1e-12)))
            assert np.isfinite(smooth.smoothness)


def test_a_kink_stands_with_what_rounds_it_off():
    assert {loss.name for loss in LOSSES if loss.smoothed} == {"hinge"}
    assert all(np.isfinite(loss.smoothness) or loss.smoothed for loss in LOSSES)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_points_match_the_twin(loss):
    for z, y in grid(loss):
        expected = np.array([twin.points(loss, *pair) for pair in zip(z, y, strict=True)]).T
        np.testing.assert_allclose(loss(z, y), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_nan_stays_nan(loss):
    assert np.all(np.isnan(loss([np.nan], [1.0])))


def test_bad_arguments():
    with pytest.raises(ValueError, match="loss must be one of 'logistic'"):
        Loss("logit")
    with pytest.raises(ValueError, match="parameter must be None for the loss 'logistic'; got 1"):
        Loss("logistic", 1.0)
    with pytest.raises(ValueError, match="width must be None for the loss 'huber'"):
        Loss("huber", 1.0, 0.1)
    for value in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="parameter must be a real number > 0; got"):
            Loss("huber", value)
    for value in (0.0, 1.0):
        with pytest.raises(ValueError, match=r"parameter must be a real number in \(0, 1\); got"):
            Loss("pinball", value)
    with pytest.raises(ValueError, match="target must have 2 entries; got 1"):
        Loss("logistic")([0.0, 1.0], [1.0])


def test_a_loss_can_be_pickled():
    loss = pickle.loads(pickle.dumps(Loss("pinball", 0.9, 0.2)))
    assert loss == Loss("pinball", 0.9, 0.2)
    assert pickle.loads(pickle.dumps(loss.spec)).constants() == loss.spec.constants()
