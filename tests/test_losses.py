"""Every loss: its derivatives by finite differences, its constants by search."""

import numpy as np
import pytest

from dpfast import Loss
from dpfast.losses import loss_names


def grid(loss):
    margins = np.linspace(-12, 12, 4001)
    targets = [-1.0, 1.0] if loss.kind == "classification" else [-3.0, 0.0, 2.5]
    return [(margins, np.full_like(margins, t)) for t in targets]


@pytest.mark.parametrize("name", loss_names())
def test_derivatives_match_finite_differences(name):
    loss = Loss(name)
    for z, y in grid(loss):
        h = 1e-5
        up, down = loss(z + h, y)[0], loss(z - h, y)[0]
        np.testing.assert_allclose(loss(z, y)[1], (up - down) / (2 * h), atol=1e-9)
        up, down = loss(z + h, y)[1], loss(z - h, y)[1]
        np.testing.assert_allclose(loss(z, y)[2], (up - down) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("name", loss_names())
def test_constants_hold_and_are_reached(name):
    loss = Loss(name)
    steepest = max(np.abs(loss(z, y)[1]).max() for z, y in grid(loss))
    most_curved = max(np.abs(loss(z, y)[2]).max() for z, y in grid(loss))
    assert 0.99 * loss.lipschitz <= steepest <= loss.lipschitz
    assert 0.99 * loss.smoothness <= most_curved <= loss.smoothness * (1 + 1e-15)
    assert loss([0.0, 0.0], [-1.0, 1.0])[0].max() <= loss.at_zero


def test_bad_arguments():
    with pytest.raises(ValueError, match="loss must be one of 'logistic'"):
        Loss("logit")
    with pytest.raises(ValueError, match="parameter must be a finite real number; got nan"):
        Loss("logistic", float("nan"))
    with pytest.raises(ValueError, match="target must have 2 entries; got 1"):
        Loss("logistic")([0.0, 1.0], [1.0])
