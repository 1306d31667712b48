"""Every loss: its derivatives by finite differences, its constants by search."""

import pickle

import mpmath
import numpy as np
import pytest
import scipy.stats
from reference import dense as twin
from sklearn.metrics import mean_tweedie_deviance

from dpfast import Loss
from dpfast.losses import loss_names

LOSSES = [
    *(Loss(name) for name in loss_names()),
    Loss("huberized-hinge", width=2.0),
    Loss("squared-hinge", 0.5),
    Loss("huber", 0.1),
    Loss("pinball", 0.05, 1.0),
    Loss("poisson", width=0.5),
    Loss("gamma", width=0.3),
    Loss("gamma", width=5.0),
    Loss("tweedie", 1.1, 1.0),
    Loss("tweedie", 1.9),
    Loss("negative-binomial", 0.01),
    Loss("negative-binomial", 30.0, 1.0),
]
LOG_LINKED = [loss for loss in LOSSES if loss.log_link]  # fmt: skip


def grid(loss):
    # Off the kinks, which are at round numbers.
    margins = np.linspace(-12, 12, 4001) + 1e-4 / np.pi
    low, high = loss.target_range
    targets = [-3.0, 0.0, 2.5] if high == np.inf else [low, 1.0, high]
    return [(margins, np.full_like(margins, t)) for t in targets]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_derivatives_match_finite_differences(loss):
    for z, y in grid(loss):
        h = 1e-6
        up, down = loss(z + h, y), loss(z - h, y)
        scale = 1e-7 * max(1.0, np.abs(loss(z, y)[0]).max() / 10.0)
        np.testing.assert_allclose(loss(z, y)[1], (up[0] - down[0]) / (2 * h), atol=scale)
        np.testing.assert_allclose(loss(z, y)[2], (up[1] - down[1]) / (2 * h), atol=scale)


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
    ends = np.array(loss.target_range)
    if np.all(np.isfinite(ends)):
        largest = loss([0.0, 0.0], ends)[0].max()
        assert largest <= loss.at_zero <= largest * (1 + 1e-14)
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
def test_targets_are_means_of_log_linked_losses_alone(loss):
    low, high = max(loss.target_range[0], 0.1), min(loss.target_range[1], 20.0)
    if loss.log_link:
        low = np.exp(-loss.width) * (1 + 1e-14)
    y = np.linspace(low, high, 30)
    slope = np.abs(loss(np.log(y), y)[1])
    assert loss.log_link == bool(slope.max() <= 1e-12 * high)


@pytest.mark.parametrize("loss", LOG_LINKED, ids=str)
def test_losses_are_half_the_deviance_up_to_terms_of_the_target(loss):
    low, high = loss.target_range
    y = np.geomspace(max(low, high / 50), high, 7)[:, None] * np.ones(9)
    z = np.linspace(-loss.width, loss.width, 9) * np.ones((7, 1))
    value = loss(z.ravel(), y.ravel())[0].reshape(7, 9)
    power = {"poisson": 1.0, "gamma": 2.0}.get(loss.name, loss.parameter)
    if loss.name == "negative-binomial":
        a, count = loss.parameter, 1 / loss.parameter
        expected = -scipy.stats.nbinom.logpmf(0, count, 1 / (1 + a * np.exp(z)))
        expected += y * (np.log1p(a * np.exp(z)) - z)
    else:
        pairs = zip(y.ravel(), np.exp(z.ravel()), strict=True)
        half = [mean_tweedie_deviance([t], [m], power=power) / 2 for t, m in pairs]
        expected = np.reshape(half, (7, 9))
    apart = value - expected
    np.testing.assert_allclose(apart, apart[:, :1] * np.ones(9), rtol=1e-11, atol=1e-11 * high)


@pytest.mark.parametrize("loss", LOG_LINKED, ids=str)
def test_scaled_targets_move_the_margin_alone(loss):
    s = 0.7
    power = {"poisson": 1.0, "gamma": 2.0, "negative-binomial": 1.0}.get(loss.name, loss.parameter)
    parameter = loss.parameter
    if loss.name == "negative-binomial":
        parameter = loss.parameter / s
    z = np.linspace(-loss.width, loss.width, 11) * 0.8
    y = np.full_like(z, np.sqrt(max(loss.target_range[0], 0.1)))
    other = Loss(loss.name, parameter, loss.width + 1.0)
    np.testing.assert_allclose(
        other(z + np.log(s), s * y)[1], s ** (2.0 - power) * loss(z, y)[1], rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("loss", LOG_LINKED, ids=str)
@pytest.mark.parametrize("z", [-1e300, -1e5, -709.5, -40.0, 0.0, 40.0, 709.5, 1e5, 1e300])
def test_points_at_the_extremes(loss, z):
    """Against 60 digits; the slope keeps its bound, nothing overflows or loses its digits."""
    for y in (loss.target_range[0], 1.0, loss.target_range[1]):
        value, slope, curvature = (float(part[0]) for part in loss([z], [y]))
        with mpmath.workdps(60):
            expected = exact_points(loss, mpmath.mpf(z), mpmath.mpf(y))
        # A straight line may be the difference of two.
        far = 1e-14 * loss.lipschitz * abs(z)
        assert value == pytest.approx(float(expected[0]), rel=1e-13, abs=far)
        assert slope == pytest.approx(float(expected[1]), rel=1e-13, abs=1e-15 * loss.lipschitz)
        assert curvature == pytest.approx(float(expected[2]), rel=1e-13, abs=1e-300)
        assert np.isfinite(value) and value >= 0.0
        assert abs(slope) <= loss.lipschitz and 0.0 <= curvature <= loss.smoothness


def exact_points(loss, z, y):
    w, exp = mpmath.mpf(loss.width), mpmath.exp
    high, low = min(z, w), max(z, -w)
    if loss.name == "negative-binomial":
        a = mpmath.mpf(loss.parameter)
        # 1/m rather than m where that is huge
        m = exp(z) if z < 0 else 1 / exp(-z)
        rise = mpmath.log1p(a * exp(min(z, mpmath.mpf(10000)))) if z < 10000 else z + mpmath.log(a)
        value = (y + 1 / a) * rise - y * z + w * y
        return value, (1 - y / m) / (1 / m + a), (1 + a * y) / (1 / m + a) / (1 + a * m)
    if loss.name == "poisson":
        value = exp(high) * (1 + z - high) + y * (w - z)
        return value, exp(high) - y, exp(z) if z <= w else 0
    if loss.name == "gamma":
        value = z + w + y * exp(-low) * (1 + low - z)
        return value, 1 - y * exp(-low), y * exp(-z) if z >= -w else 0
    a, b = 2 - mpmath.mpf(loss.parameter), mpmath.mpf(loss.parameter) - 1
    value = exp(a * high) * (1 / a + z - high) + y * exp(-b * low) * (1 / b + low - z)
    curvature = (a * exp(a * z) if z <= w else 0) + y * (b * exp(-b * z) if z >= -w else 0)
    return value, exp(a * high) - y * exp(-b * low), curvature


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_points_match_the_twin(loss):
    for z, y in grid(loss):
        expected = np.array([twin.points(loss, *pair) for pair in zip(z, y, strict=True)]).T
        scale = max(1.0, np.abs(expected).max() / 1e3)
        np.testing.assert_allclose(loss(z, y), expected, rtol=1e-13, atol=1e-13 * scale)


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
    with pytest.raises(ValueError, match=r"lowest must be 0.0 for the loss 'huber'; got 0\.1"):
        Loss("huber", lowest=0.1)
    with pytest.raises(ValueError, match=r"lowest must be a real number <= 20\."):
        Loss("poisson", lowest=21.0)
    with pytest.raises(ValueError, match="target must have 2 entries; got 1"):
        Loss("logistic")([0.0, 1.0], [1.0])


def test_the_lowest_target_is_part_of_the_range():
    assert Loss("poisson", lowest=0.5).target_range == (0.5, Loss("poisson").target_range[1])
    assert Loss("gamma", lowest=1e-9).target_range == Loss("gamma").target_range


def test_a_loss_can_be_pickled():
    loss = pickle.loads(pickle.dumps(Loss("pinball", 0.9, 0.2)))
    assert loss == Loss("pinball", 0.9, 0.2)
    assert pickle.loads(pickle.dumps(loss.spec)).constants() == loss.spec.constants()


@pytest.mark.parametrize(("name", "power"), [("poisson", 1.0), ("tweedie", 1.5), ("gamma", 2.0)])
def test_an_exposure_is_a_weight_of_the_rate(name, power):
    """The loss at an offset is the weighted one of the rate, up to a constant in the margin."""
    loss = Loss(name, power if name == "tweedie" else None, width=6.0)
    z, t, exposure = np.linspace(-1.5, 1.5, 7), 1.3, 2.5
    offset = loss(z + np.log(exposure), np.full(7, t))[0]
    weighted = exposure ** (2.0 - power) * loss(z, np.full(7, t / exposure))[0]
    np.testing.assert_allclose(np.ptp(offset - weighted), 0.0, atol=1e-12)
    assert np.ptp(weighted) > 0.1


def test_the_quantile_that_a_loss_looks_for():
    found = {name: Loss(name, *given).quantile for name, *given in (("pinball", 0.9), ("huber",))}
    assert found == {"pinball": 0.9, "huber": None}
    assert all(Loss(name).quantile is None for name in ("logistic", "squared", "poisson", "gamma"))
