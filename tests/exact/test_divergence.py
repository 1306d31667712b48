"""Whole mechanisms on small grids: their hockey-stick divergence never passes what is charged.

The mechanisms are the library's own, calibrated and charged as always, on a grid that is so coarse
that every output can be listed: the laws of the noise are those that test_laws finds.  Neighbors
are at the corners of what the declared sensitivity allows, at positions between the grid's points
where rounding moves them apart as far as it can.  delta(epsilon) = sum max(0, P - exp(epsilon) Q)
is compared with the ledger's claim at the delta of the budget, and for choices at epsilon itself.
"""

import itertools
import math

import numpy as np
import pytest
from declared import calibrate
from reference.selection import selection_law

from dpfast import Budget, Ledger
from dpfast.mechanisms import Exponential, Gaussian, Laplace, NoisyMax, _grid
from dpfast.privacy import (
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PureSelectionEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
)
from dpfast.privacy.selection import law_parameter

RELATIONS = ("replace_one", "add_or_remove_one")
ROUNDING = 1e-11  # of the sums of floats below


def divergence(p, q, epsilon):
    """The larger of the two directions."""
    e = math.exp(epsilon)
    return max(np.maximum(p - e * q, 0.0).sum(), np.maximum(q - e * p, 0.0).sum())


def assert_claim(pairs, guarantee, *, of=0.0):
    """No pair of laws passes the claim, and one comes up to a part `of` of its epsilon."""
    delta = guarantee.delta + ROUNDING
    assert max(divergence(p, q, guarantee.epsilon) for p, q in pairs) <= delta
    assert of == 0.0 or max(divergence(p, q, of * guarantee.epsilon) for p, q in pairs) > delta


def claim(events, budget):
    ledger = Ledger(budget)
    ledger.spend_all(events)
    return ledger.guarantee()


@pytest.fixture
def grid(monkeypatch):
    """Sets how many bits a noise scale has on the grid."""

    def bits(resolution):
        def for_noise(cls, name, scale, bound, wanted=None):
            return finest(cls, name, scale, bound, resolution)

        finest = _grid.Grid.for_noise.__func__
        monkeypatch.setattr(_grid.Grid, "for_noise", classmethod(for_noise))
        monkeypatch.setattr(_grid, "_MINIMUM_RESOLUTION", 1)

    return bits


def gaussian_law(x, scale):
    p = np.exp(-0.5 * (x / scale) ** 2)
    return p / p.sum()


def laplace_law(x, scale):
    return np.exp(-np.abs(x) / scale) * math.tanh(0.5 / scale)


def on_grid(mechanism, values):
    """The points to which values are rounded, in steps."""
    return mechanism._grid.round(np.asarray(values, dtype=np.float64))


def shifted(law, scale, centers, reach):
    """The laws of noise around some points, on one range."""
    x = np.arange(min(centers) - reach, max(centers) + reach + 1)
    return [law(x - center, scale) for center in centers]


# ---- Additive noise -----------------------------------------------------------------------------

STARTS = (0.0, 0.25, 0.499, 0.5, 0.501)  # between the grid's points


def pairs_of_values(mechanism, sensitivity):
    step = mechanism.grid_step
    for start in STARTS:
        for sign in (1.0, -1.0):
            yield on_grid(mechanism, [start * step, start * step + sign * sensitivity])


GAUSSIAN_BUDGETS = [
    Budget(0.3, 1e-4),
    Budget(1.0, 1e-6),
    Budget(4.0, 1e-2),
    Budget(rho=0.1, delta=1e-5),
    Budget(mu=0.7, delta=1e-5),
]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("budget", GAUSSIAN_BUDGETS, ids=str)
def test_gaussian_noise(grid, budget, relation):
    grid(10)
    mechanism = calibrate(
        Gaussian, budget, sensitivity=0.7, dimension=1, neighboring_relation=relation
    )
    assert mechanism.integer_scale <= 1024
    pairs = [
        shifted(gaussian_law, mechanism.integer_scale, centers, 9 * mechanism.integer_scale)
        for centers in pairs_of_values(mechanism, 0.7)
    ]
    assert_claim(pairs, claim([mechanism.event("x")], budget), of=0.9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_laplace_noise(grid, epsilon, delta, relation):
    grid(7)
    budget = Budget(epsilon, delta)
    mechanism = calibrate(
        Laplace, budget, sensitivity=0.7, dimension=1, neighboring_relation=relation
    )
    pairs = [
        shifted(laplace_law, mechanism.integer_scale, centers, 40 * mechanism.integer_scale)
        for centers in pairs_of_values(mechanism, 0.7)
    ]
    assert_claim(pairs, claim([mechanism.event("x")], budget), of=0.9)


def product(first, second):
    """The law of two independent outputs."""
    return np.multiply.outer(first, second).ravel()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("start", STARTS)
def test_laplace_noise_on_two_coordinates(grid, share, start):
    grid(5)
    mechanism = calibrate(
        Laplace, Budget(1.0), sensitivity=1.0, dimension=2, neighboring_relation="replace_one"
    )
    step, scale = mechanism.grid_step, mechanism.integer_scale
    first = on_grid(mechanism, [start * step, start * step + share])
    second = on_grid(mechanism, [start * step, start * step - (1.0 - share)])
    laws = [shifted(laplace_law, scale, centers, 30 * scale) for centers in (first, second)]
    pair = [product(laws[0][side], laws[1][side]) for side in (0, 1)]
    assert_claim([pair], claim([mechanism.event("x")], Budget(1.0)), of=0.8)


@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 4])
def test_gaussian_noise_on_two_coordinates(grid, angle):
    grid(7)
    budget = Budget(1.0, 1e-4)
    mechanism = calibrate(
        Gaussian, budget, sensitivity=1.0, dimension=2, neighboring_relation="replace_one"
    )
    moves = (math.cos(angle), math.sin(angle))
    laws = [
        shifted(
            gaussian_law,
            mechanism.integer_scale,
            on_grid(mechanism, [0.0, move]),
            6 * mechanism.integer_scale,
        )
        for move in moves
    ]
    pair = [product(laws[0][side], laws[1][side]) for side in (0, 1)]
    # Noise of 128 steps instead of 2^31: what is charged for the grid makes it larger.
    assert_claim([pair], claim([mechanism.event("x")], budget), of=0.4)


@pytest.mark.parametrize("accountant", ["optimal", "rdp"])
@pytest.mark.parametrize("count", [2, 3])
def test_several_releases_with_laplace_noise(count, accountant):
    """Of a number that moves by 3 steps, each time with noise of scale 4."""
    budget = Budget(5.0, 1e-3)
    event = LaplaceEvent(
        sensitivity=3.0, scale=4.0, dimension=1, neighboring_relation="replace_one", where="x"
    )
    p, q = shifted(laplace_law, 4, (0, 3), 60)
    whole_p, whole_q = p, q
    for _ in range(count - 1):
        whole_p, whole_q = product(whole_p, p), product(whole_q, q)
    ledger = Ledger(budget, accountant=accountant)
    ledger.spend_all([event] * count)
    assert_claim([(whole_p, whole_q)], ledger.guarantee())


# ---- Random samples -----------------------------------------------------------------------------

# One record moves the sum over a sample by so many steps of the grid.
MOVE, SCALES = 256, (512, 1024)


def sampled(law, scale, rate, sampling):
    """The laws of a sum over a random sample: a record is absent or present, or is another one."""
    without, present, other = shifted(law, scale, (0, MOVE, -MOVE), 30 * scale)
    mixed = (1.0 - rate) * without + rate * present
    if sampling == "poisson":
        return without, mixed
    return mixed, (1.0 - rate) * without + rate * other


def sampling_of(sampling, batch):
    poisson = sampling == "poisson"
    return {
        "batch": batch,
        "n_samples": 10,
        "sampling": sampling,
        "neighboring_relation": "add_or_remove_one" if poisson else "replace_one",
        "sensitivity": MOVE * (1.0 if poisson else 2.0),
        "dimension": 1,
        "where": "x",
    }


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
@pytest.mark.parametrize("batch", [1, 5, 9])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
def test_gaussian_noise_on_samples(sampling, batch, scale, delta):
    settings = sampling_of(sampling, batch)
    settings["sensitivity"] *= 1.0 + (64 / scale) ** 2  # as Gaussian charges
    event = SubsampledGaussianEvent(stddev=float(scale), **settings)
    pair = sampled(gaussian_law, scale, batch / 10, sampling)
    assert_claim([pair], claim([event], Budget(50.0, delta)))


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
@pytest.mark.parametrize("batch", [1, 5, 9])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_laplace_noise_on_samples(sampling, batch, scale, delta):
    event = SubsampledLaplaceEvent(scale=float(scale), **sampling_of(sampling, batch))
    pair = sampled(laplace_law, scale, batch / 10, sampling)
    of = 0.9 if sampling == "poisson" and delta == 0.0 else 0.0
    assert_claim([pair], claim([event], Budget(50.0, delta)), of=of)


# ---- Choices ------------------------------------------------------------------------------------


def pairs_of_choices(mechanism, candidates, low, high):
    """The laws at scores and at those of neighbors, which move by `low` or `high`."""
    step = mechanism.grid_step
    sign = -1 if mechanism.minimum else 1
    for start in (0.0, 0.5, 0.501):
        others = candidates - 1
        for at in ([0.0] * candidates, [0.0] * others + [high], [high] + [-low] * others):
            scores = np.array(at) + start * step
            for moves in itertools.product((low, high), repeat=candidates):
                yield [
                    selection_law(
                        sign * on_grid(mechanism, values),
                        mechanism.integer_scale,
                        mechanism.noise_kind,
                    )
                    for values in (scores, scores + moves)
                ]


@pytest.mark.parametrize("minimum", [False, True])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "gumbel"])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_noisy_max(grid, epsilon, monotone, noise, minimum):
    grid(6)
    mechanism = calibrate(
        NoisyMax,
        Budget(epsilon),
        sensitivity=1.0,
        candidates=3,
        noise_kind=noise,
        monotone=monotone,
        minimum=minimum,
        neighboring_relation="add_or_remove_one" if monotone else "replace_one",
    )
    pairs = list(pairs_of_choices(mechanism, 3, 0.0 if monotone else -1.0, 1.0))
    assert_claim(pairs, claim([mechanism.event("x")], Budget(epsilon)), of=0.5)


EXPONENTIAL_BUDGETS = [Budget(0.3), Budget(2.0), Budget(1.0, 1e-4), Budget(rho=0.2, delta=1e-3)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("budget", EXPONENTIAL_BUDGETS, ids=str)
@pytest.mark.parametrize("candidates", [2, 4])
def test_the_exponential_mechanism(grid, budget, relation, candidates):
    """With two candidates, randomized response."""
    grid(6)
    length = 1.0 if relation == "add_or_remove_one" else 2.0
    mechanism = calibrate(
        Exponential,
        budget,
        score_range=length,
        candidates=candidates,
        neighboring_relation=relation,
    )
    pairs = list(pairs_of_choices(mechanism, candidates, 1.0 - length, 1.0))
    assert_claim(pairs, claim([mechanism.event("x")], budget))


def randomized_response(k, epsilon):
    """The laws of a choice among k of which the first, or the last, is the likeliest."""
    law = np.exp(np.where(np.arange(k) == 0, epsilon, 0.0))
    return law / law.sum(), law[::-1] / law.sum()


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("delta", [1e-1, 1e-3])
def test_several_choices_among_k(k, count, delta):
    """The claim is that of the exponential mechanism, of a range that is twice as long."""
    law = randomized_response(k, 0.6)
    event = ExponentialEvent(epsilon=1.2, neighboring_relation="replace_one", where="x")
    whole = law
    for _ in range(count - 1):
        whole = tuple(product(p, q) for p, q in zip(whole, law, strict=True))
    assert_claim([whole], claim([event] * count, Budget(20.0, delta)))


# ---- The best of a random number of runs --------------------------------------------------------


def generating_function(repetitions, mean_runs, shape):
    """E[x^K]."""
    parameter = law_parameter(repetitions, mean_runs, shape)
    if repetitions == "poisson":
        return lambda x: np.expm1(parameter * x) / math.expm1(parameter)
    if shape == 1.0:
        return lambda x: np.log1p(-(1.0 - parameter) * x) / math.log(parameter)
    eta = shape - 1.0
    return lambda x: ((1.0 - (1.0 - parameter) * x) ** -eta - 1.0) / (parameter**-eta - 1.0)


def best_of(law, function):
    """The law of the last of K choices in order."""
    reached = np.concatenate([[0.0], np.cumsum(law)])
    return np.diff(function(np.minimum(reached, 1.0)))


LAWS = [
    (repetitions, mean, shape)
    for repetitions, shapes in (("poisson", (1.0,)), ("negative-binomial", (0.5, 1.0, 2.0)))
    for mean in (1.5, 10.0)
    for shape in shapes
]


@pytest.mark.parametrize(("repetitions", "mean", "shape"), LAWS)
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_best_of_several_choices_among_k(repetitions, mean, shape, epsilon):
    settings = {
        "repetitions": repetitions,
        "mean_runs": mean,
        "shape": shape,
        "neighboring_relation": "replace_one",
        "where": "x",
    }
    function = generating_function(repetitions, mean, shape)
    pairs = [[best_of(law, function) for law in randomized_response(k, epsilon)] for k in (2, 3, 6)]
    pure = PureSelectionEvent(epsilon_of_run=epsilon, **settings)
    assert_claim(pairs, claim([pure], Budget(50.0)), of=0.3)
    one = GaussianEvent(
        sensitivity=epsilon * 1024 * (1.0 + (64 / 1024) ** 2),
        stddev=1024.0,
        dimension=1,
        neighboring_relation="replace_one",
        where="x",
    )
    search = SelectionEvent(alternatives=((one,),), **settings)
    noise = shifted(gaussian_law, 1024, (0, round(epsilon * 1024)), 9 * 1024)
    pair = [best_of(law, function) for law in noise]
    for delta in (1e-2, 1e-5):
        assert_claim([pair], claim([search], Budget(100.0, delta)))
