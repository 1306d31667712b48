"""The price of objective perturbation against exact densities of minimizers."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.losses import Loss
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    GaussianEvent,
    L2LaplaceObjectiveEvent,
    Ledger,
    ObjectivePerturbationEvent,
    RenyiFilter,
    gaussian_delta,
    gaussian_epsilon,
)
from dpfast.privacy.events import LaplaceEvent

ACCOUNTANT = ACCOUNTANTS["objective"]
EPSILONS = np.geomspace(0.05, 5.0, 8)
RELATIONS = ("add_or_remove_one", "replace_one")
LENGTHS = (1.0, 0.5, 0.3, 0.8, 0.6, 0.01)
MONOTONE = ("logistic", "huberized-hinge", "squared-hinge")


def real_delta(epsilon, mu):
    """gaussian_delta for any real epsilon, by its definition."""
    t = epsilon / mu
    return norm.sf(t - mu / 2) - np.exp(epsilon + norm.logsf(t + mu / 2))


class Densities:
    """Density of the minimizer on a grid, for a few rows and their losses."""

    def __init__(self, loss, ridge, noise, dim, laplace=False):
        self.loss, self.ridge, self.noise, self.laplace = loss, ridge, noise, laplace
        reach = (9.0 * noise + 4.0 * loss.lipschitz) / ridge
        if dim == 1:
            # Gauss-Legendre between the kinks of all rows used here.
            width, slope = loss.width or 0.0, loss.parameter or 0.0
            margins = [1.0 + t for t in (width, -width, slope, -slope, -0.5 * slope)] + [1.0]
            kinks = [s * m / x for m in margins for x in LENGTHS for s in (-1.0, 1.0)]
            edges = np.unique(np.clip([*np.linspace(-reach, reach, 1001), *kinks], -reach, reach))
            nodes, weights = np.polynomial.legendre.leggauss(4)
            half = 0.5 * np.diff(edges)[:, None]
            self.w = (edges[:-1, None] + half * (1.0 + nodes)).reshape(-1, 1)
            self.cell = (half * weights).ravel()
            self.accuracy = 1e-6
        else:
            axis = np.linspace(-reach, reach, 201)
            self.w = np.stack([g.ravel() for g in np.meshgrid(axis, axis, indexing="ij")], axis=1)
            self.cell = np.full(len(self.w), (axis[1] - axis[0]) ** 2)
            self.accuracy = 1e-6 if loss.name == "logistic" else 5e-3

    def __call__(self, rows):
        """Of ``rows``, a list of (x, y)."""
        dim = self.w.shape[1]
        b = -self.ridge * self.w
        hessian = np.tile(self.ridge * np.eye(dim), (len(self.w), 1, 1))
        for x, y in rows:
            x = np.asarray(x, dtype=float)
            _, slope, curvature = self.loss(self.w @ x, np.full(len(self.w), y))
            b -= slope[:, None] * x
            hessian += curvature[:, None, None] * np.outer(x, x)
        jacobian = hessian[:, 0, 0]
        if dim == 2:
            jacobian = jacobian * hessian[:, 1, 1] - hessian[:, 0, 1] ** 2
        if self.laplace:
            return -np.linalg.norm(b, axis=1) / self.noise + np.log(jacobian)
        return norm.logpdf(b, scale=self.noise).sum(axis=1) + np.log(jacobian)

    def deltas(self, first, second, epsilons=EPSILONS):
        """Exact delta at each epsilon, the larger of both directions."""
        p, q = self(first), self(second)
        # The grid holds all of the mass and resolves it.
        for density in (p, q):
            assert np.exp(density) @ self.cell == pytest.approx(1.0, abs=self.accuracy)
        return np.array(
            [
                max(
                    np.maximum(np.exp(a) - np.exp(e + c), 0.0) @ self.cell
                    for a, c in ((p, q), (q, p))
                )
                for e in epsilons
            ]
        )


def event_for(loss, ridge, stddev, relation, **changes):
    settings = {
        "lipschitz": loss.lipschitz,
        "smoothness": loss.smoothness,
        "ridge": ridge,
        "dimension": 1,
        "stddev": stddev,
        "monotone": loss.name in MONOTONE,
        "neighboring_relation": relation,
        "where": "objective",
    }
    return ObjectivePerturbationEvent(**{**settings, **changes})


LOSSES = {
    "logistic": Loss("logistic"),
    "hinge": Loss("huberized-hinge", width=0.5),
    "steep hinge": Loss("huberized-hinge", width=0.1),
    "squared hinge": Loss("squared-hinge", 1.0),
    "huber": Loss("huber", 0.5),
    "pinball": Loss("pinball", 0.9, width=0.3),
}
# Ridge and noise as multiples of curvature and slope bounds.
SETTINGS = [(0.3, 1.0), (1.0, 0.5), (1.0, 3.0), (10.0, 5.0), (100.0, 2.0)]
OTHERS = [[], [((0.8,), -1.0), ((-0.6,), -1.0)]]


def neighbors_on_a_line(relation):
    """Rows of norm at most 1 whose gradients differ as much as they can, and some that do not."""
    if relation == "add_or_remove_one":
        return [([((1.0,), y)], []) for y in (1.0, -1.0)] + [([((0.5,), 1.0)], [])]
    return [
        ([((1.0,), 1.0)], [((1.0,), -1.0)]),
        ([((1.0,), 1.0)], [((-1.0,), 1.0)]),
        ([((1.0,), 1.0)], [((0.3,), -1.0)]),
    ]


def violations(loss, relation, **changes):
    """Largest ratio of the exact and the claimed delta over settings, neighbors and epsilons."""
    worst = 0.0
    for ridge_share, noise_share in SETTINGS:
        ridge, stddev = ridge_share * loss.smoothness, noise_share * loss.lipschitz
        grid = Densities(loss, ridge, stddev, 1)
        event = event_for(loss, ridge, stddev, relation, **changes)
        claimed = np.array([ACCOUNTANT.delta([event], e) for e in EPSILONS])
        for first, second in neighbors_on_a_line(relation):
            for others in OTHERS:
                exact = grid.deltas(first + others, second + others)
                worst = max(worst, np.max((exact - 1e-5) / np.maximum(claimed, 1e-9)))
    return worst


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_exact_densities_on_a_line(loss, relation):
    assert violations(LOSSES[loss], relation) <= 1.002


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_densities_catch_a_wrong_price(relation):
    """Half the slope bound; a Jacobian that is left out."""
    loss = LOSSES["steep hinge"]
    assert violations(loss, relation, lipschitz=0.5 * loss.lipschitz) > 1.5
    assert violations(loss, relation, smoothness=1e-6) > 1.5


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_price_is_attained_where_the_slope_is_constant(relation):
    """Short rows stay on the steep side of a hinge, where there is no curvature either."""
    loss = Loss("huberized-hinge", width=0.5)
    size, ridge, stddev = 0.01, 1.0, 0.05
    grid = Densities(loss, ridge, stddev, 1)
    event = event_for(loss, ridge, stddev, relation, lipschitz=size, smoothness=size**2)
    pair = ([((size,), 1.0)], [((size,), -1.0)] if relation == "replace_one" else [])
    epsilons = (0.05, 0.2, 0.5)
    exact = grid.deltas(*pair, epsilons)
    claimed = [ACCOUNTANT.delta([event], e) for e in epsilons]
    # Beside exact ones there are the corners of one record, small terms under replace_one.
    for e, found, bound in zip(epsilons, exact, claimed, strict=True):
        assert found <= bound * 1.001
        mu = event.sensitivity / stddev
        assert found == pytest.approx(gaussian_delta(e, mu), rel=2e-2)
    assert claimed[-1] <= 1.05 * exact[-1]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber"])
def test_exact_densities_in_the_plane(loss, relation):
    loss = LOSSES[loss]
    # Jumps of the curvature, which a grid resolves badly, are small beside the larger ridge.
    settings = [(1.0, 0.5), (10.0, 1.0)] if loss.name == "logistic" else [(20.0, 1.0)]
    for ridge_share, noise_share in settings:
        ridge, stddev = ridge_share * loss.smoothness, noise_share * loss.lipschitz
        grid = Densities(loss, ridge, stddev, 2)
        event = event_for(loss, ridge, stddev, relation)
        claimed = np.array([ACCOUNTANT.delta([event], e) for e in EPSILONS])
        others = [((0.0, 1.0), 1.0), ((0.6, -0.6), -1.0)]
        for angle in (0.0, 1.0, 2.5):
            first = [((1.0, 0.0), 1.0)]
            second = [((math.cos(angle), math.sin(angle)), -1.0)]
            exact = grid.deltas(
                first + others, (second if relation == "replace_one" else []) + others
            )
            assert np.all(exact <= 1.002 * claimed + grid.accuracy)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("loss", LOSSES)
def test_pure_price_bounds_the_density_ratio(loss, dim, relation):
    loss = LOSSES[loss]
    largest = 0.0
    for ridge_share, noise_share in [(0.3, 1.0), (10.0, 1.0), (100.0, 4.0)]:
        ridge, scale = ridge_share * loss.smoothness, noise_share * loss.lipschitz
        grid = Densities(loss, ridge, scale, dim, laplace=True)
        event = L2LaplaceObjectiveEvent(
            lipschitz=loss.lipschitz, smoothness=loss.smoothness, ridge=ridge, dimension=dim,
            scale=scale, neighboring_relation=relation, where="objective",
        )  # fmt: skip
        for angle in (0.0, 1.0, math.pi):
            first, second = [((1.0, 0.0)[:dim], 1.0)], []
            if relation == "replace_one":
                second = [((math.cos(angle), math.sin(angle))[:dim], -1.0)]
            difference = np.abs(grid(first) - grid(second)).max()
            assert difference <= event.epsilon * (1.0 + 1e-9)
            largest = max(largest, difference / event.epsilon)
    assert largest > 0.45


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mu", [0.02, 0.5, 2.0])
def test_beside_a_gaussian_release(relation, mu):
    """The exact delta of both releases: the Gaussian one's, at what the density ratio leaves."""
    loss = LOSSES["steep hinge"]
    gaussian = GaussianEvent(
        sensitivity=mu, stddev=1.0, dimension=1, neighboring_relation=relation, where="output"
    )
    for ridge_share, noise_share in SETTINGS:
        ridge, stddev = ridge_share * loss.smoothness, noise_share * loss.lipschitz
        grid = Densities(loss, ridge, stddev, 1)
        event = event_for(loss, ridge, stddev, relation)
        for first, second in neighbors_on_a_line(relation):
            for p, q in ((grid(first), grid(second)), (grid(second), grid(first))):
                for e in EPSILONS[::3]:
                    exact = (np.exp(p) * real_delta(e - (p - q), mu)) @ grid.cell
                    assert exact <= 1.002 * ACCOUNTANT.delta([event, gaussian], e) + 1e-5


@pytest.mark.parametrize("r", [-1.0, -0.5, 0.0, 0.7, 1.0])
@pytest.mark.parametrize("monotone", [True, False])
def test_corners_bound_the_expectation_over_the_plane(r, monotone):
    """Of the maximum over the parallelogram's corners, integrated numerically, at any angle."""
    s = 0.8
    axis = np.linspace(-9.0, 9.0, 401)
    u, v = np.meshgrid(axis, axis)
    weight = norm.pdf(u) * norm.pdf(v) * (axis[1] - axis[0]) ** 2
    ends = (0.0, s) if monotone else (-s, s)
    a, b = np.array([1.0, 0.0]), np.array([r, math.sqrt(1.0 - r * r)])
    corners = [t * a + o * b for t in ends for o in ends]
    loss = np.max([c[0] * u + c[1] * v + 0.5 * c @ c for c in corners], axis=0)
    event = event_for(LOSSES["logistic"], 1e12, 1.0 / s, "replace_one", monotone=monotone)
    for e in (0.1, 1.0, 3.0):
        found = (weight * np.maximum(-np.expm1(e - loss), 0.0)).sum()
        assert found <= 1.001 * ACCOUNTANT.delta([event], e)
        if r == 1.0 and e == 3.0:
            assert ACCOUNTANT.delta([event], e) <= 1.6 * found


def test_one_sided_losses_need_no_factor_of_two():
    event = event_for(LOSSES["logistic"], 1.0, 2.0, "add_or_remove_one")
    level = 1.0 - event.log_jacobian
    assert ACCOUNTANT.delta([event], 1.0) == pytest.approx(gaussian_delta(level, 0.5), rel=1e-8)
    both = dataclasses.replace(event, monotone=False)
    assert ACCOUNTANT.delta([both], 1.0) == pytest.approx(2 * gaussian_delta(level, 0.5), rel=1e-8)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.3])
@pytest.mark.parametrize("stddev", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("count", [1, 3])
def test_epsilon_is_the_smallest_that_is_safe(delta, stddev, relation, count):
    event = event_for(LOSSES["logistic"], 5.0, stddev, relation, count=count)
    epsilon = ACCOUNTANT.epsilon([event], delta)
    assert epsilon >= count * event.log_jacobian
    assert ACCOUNTANT.delta([event], epsilon) <= delta
    if epsilon > 1.0001 * count * event.log_jacobian:
        assert ACCOUNTANT.delta([event], epsilon * (1 - 1e-6)) > delta


def test_events_add_up():
    event = event_for(LOSSES["logistic"], 50.0, 4.0, "replace_one")
    gaussian = GaussianEvent(
        sensitivity=0.5, stddev=1.0, dimension=1, neighboring_relation="replace_one", where="x"
    )
    one, two, three = (ACCOUNTANT.epsilon([event] * k, 1e-6) for k in (1, 2, 3))
    assert one < two < three < 3 * one
    # Never below what Gaussian releases of the same size cost, and hardly above.
    assert two >= gaussian_epsilon(math.sqrt(0.5), 1e-6)
    assert two <= gaussian_epsilon(math.sqrt(0.5), 1e-6) + 2 * event.log_jacobian + 0.1
    assert ACCOUNTANT.epsilon([event, event], 1e-6) == pytest.approx(
        ACCOUNTANT.epsilon([dataclasses.replace(event, count=2)], 1e-6), rel=1e-12
    )
    assert ACCOUNTANT.epsilon([event, gaussian], 1e-6) > one
    # A crowd of them is cut to its farthest corner: dearer, never cheaper.
    crowd = [dataclasses.replace(event, stddev=4.0 + 0.01 * k) for k in range(12)]
    assert ACCOUNTANT.epsilon(crowd, 1e-6) > ACCOUNTANT.epsilon(crowd[:6], 1e-6)
    assert ACCOUNTANT.epsilon([event], 0.0) == math.inf
    assert ACCOUNTANT.delta([event], 0.5 * event.log_jacobian) == 1.0


def test_ledgers_price_it():
    event = event_for(LOSSES["logistic"], 50.0, 20.0, "replace_one")
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(event)
    assert ledger.guarantee().accountant == "objective"
    assert ledger.guarantee().epsilon == ACCOUNTANT.epsilon([event], 1e-6)
    assert Ledger.from_json(ledger.to_json()).events == (event,)
    for budget in (Budget(1.0), Budget(mu=1.0), Budget(rho=1.0)):
        with pytest.raises(UnsupportedEvent):
            Ledger(budget).spend(event)
    with pytest.raises(UnsupportedEvent, match="laplace"):
        ACCOUNTANT.epsilon(
            [LaplaceEvent(sensitivity=1.0, scale=1.0, dimension=1, where="x",
                          neighboring_relation="replace_one")], 1e-6)  # fmt: skip


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("smoothness", "ridge"), [(1e-200, 1e200), (5e-324, 1e308)])
def test_a_jacobian_that_underflows_leaves_the_rest_of_the_price(relation, smoothness, ridge):
    loss = Loss("logistic")
    event = event_for(loss, ridge, 0.5 * loss.lipschitz, relation, smoothness=smoothness)
    least = GaussianEvent(
        sensitivity=event.sensitivity, stddev=event.stddev, dimension=1,
        neighboring_relation=relation, where="the linear term alone",
    )  # fmt: skip
    others = GaussianEvent(
        sensitivity=1.0, stddev=3.0, dimension=1, neighboring_relation=relation, where="another"
    )
    for beside in ([], [others]):
        for epsilon in (0.5, 2.0):
            expected = ACCOUNTANTS["gdp"].delta([least, *beside], epsilon)
            assert ACCOUNTANT.delta([event, *beside], epsilon) >= expected > 1e-3
        price = ACCOUNTANT.epsilon([event, *beside], 1e-6)
        assert price >= ACCOUNTANTS["gdp"].epsilon([least, *beside], 1e-6) > 1.0
    with pytest.raises(BudgetExceeded):
        Ledger(Budget(1.0, 1e-6)).spend(event)


def test_ever_so_many_objectives_end_in_an_answer():
    event = event_for(Loss("logistic"), 1.0, 1.0, "replace_one", count=2**60)
    assert ACCOUNTANT.epsilon([event], 1e-6) == math.inf


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_the_log_moment_of_a_filter_is_above_the_exact_one(loss, setting, relation):
    loss = LOSSES[loss]
    ridge, stddev = setting[0] * loss.smoothness, setting[1] * loss.lipschitz
    density = Densities(loss, ridge, stddev, 1)
    event = event_for(loss, ridge, stddev, relation)
    row, other = ((1.0,), 1.0), ((-1.0,), 1.0)
    neighbors = [[]] if relation == "add_or_remove_one" else [[other], [((1.0,), -1.0)]]
    laws = [(density([row]), density(rows)) for rows in neighbors]
    for budget in ((0.5, 1e-3), (4.0, 1e-2), (8.0, 0.3)):
        limited = RenyiFilter(*budget)
        excess, bound = limited._excess, limited.price(event)
        for one, two in laws:
            for p, q in ((one, two), (two, one)):
                exponent = (1.0 + excess) * p - excess * q + np.log(density.cell)
                exact = logsumexp(exponent)
                assert exact <= bound + 1e-5
                assert bound < np.inf
