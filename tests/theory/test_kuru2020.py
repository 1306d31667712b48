"""Bounds of noisy first-order methods against simulations, and the paper's slips."""

import math

import numpy as np
import pytest

from bench.papers import kuru2020 as bounds
from dpfast.theory import kuru2020 as theory

MU, L, DIM = 0.05, 1.0, 4
CURVATURES = np.array([MU, 0.2, 0.7, L])


def simulate(method, stages, variance, w0, runs=1500, seed=0):
    """Mean error on a quadratic, written from the definitions."""
    rng = np.random.default_rng(seed)
    x = np.tile(w0, (runs, 1))
    t = 0
    for stage in stages:
        before = x
        for _ in range(stage.length):
            noise = math.sqrt(variance[t]) * rng.standard_normal(x.shape)
            ahead = x + stage.momentum * (x - before)
            at = x if method == "heavy-ball" else ahead
            before, x = x, ahead - stage.step * (CURVATURES * at + noise)
            t += 1
    return float(np.mean(0.5 * np.sum(CURVATURES * x**2, axis=1)))


def quadratic_response(iterations, step, momentum, curvatures, *, nesterov=False):
    """The exact answer on a quadratic, from the worst direction of the start."""
    starts, noises = theory.quadratic_paths(
        iterations, step, momentum, curvatures, nesterov=nesterov
    )
    return theory.Response(float(starts[:, iterations].max()), noises.sum(axis=0)[::-1])


def cases():
    for T in (1, 3, 40):
        yield "descent", (theory.Stage(T, 0.8 / L, 0.0),)
        yield "nesterov", theory.single_stage(T, 0.5 / L, MU)
        yield "heavy-ball", (theory.Stage(T, 0.3 / L, theory.largest_momentum(0.3 / L, MU, L)),)
        yield "heavy-ball", (theory.Stage(T, 0.5 / L, 0.4),)
        yield "heavy-ball", (theory.Stage(T, 0.1 / L, 0.85),)
        yield "multistage", theory.multistage(T, 1.0 / L, MU, L, first=5)


def responses(method, stages):
    T, stage = sum(s.length for s in stages), stages[0]
    if method == "descent":
        return [theory.descent_decay(stage.step, MU, L, CURVATURES.sum()).response(T)]
    if method == "heavy-ball":
        found = theory.heavy_ball_certificates(stage.step, stage.momentum, MU, L)
        assert found
        return [c.decay(stage.step, MU, L, DIM).response(T) for c in found]
    found = [theory.accelerated_response(stages, MU, L, DIM)]
    if method == "nesterov":
        found.append(theory.nesterov_decay(stage.step, MU, L, DIM).response(T))
    return found


@pytest.mark.parametrize(
    ("method", "stages"), list(cases()), ids=[f"{k}-{m}" for k, (m, _) in enumerate(cases())]
)
@pytest.mark.parametrize("noisy", [0.0, 0.3])
def test_measured_error_is_below_every_bound(method, stages, noisy):
    T = sum(stage.length for stage in stages)
    variance = noisy * np.linspace(2.0, 0.5, T)
    for w0 in (np.ones(DIM), np.eye(DIM)[0] * 3.0, np.eye(DIM)[-1]):
        start = 0.5 * float(np.sum(CURVATURES * w0**2))
        measured = simulate(method, stages, variance, w0, runs=1 if noisy == 0.0 else 1500)
        for response in responses(method, stages):
            assert response.noise.shape == (T,)
            # The mean of 1500 runs is within some percent of its expectation.
            assert measured <= 1.1 * response.bound(start, variance) + 1e-15


@pytest.mark.parametrize(("nesterov", "momentum"), [(False, 0.0), (False, 0.6), (True, 0.6)])
def test_the_quadratic_response_is_exact(nesterov, momentum):
    stages = (theory.Stage(30, 0.4, momentum),)
    response = quadratic_response(30, 0.4, momentum, CURVATURES, nesterov=nesterov)
    method = "nesterov" if nesterov else "heavy-ball"
    variance = np.linspace(0.2, 1.0, 30)
    noise = simulate(method, stages, variance, np.zeros(DIM), runs=30_000)
    assert noise == pytest.approx(float(response.noise @ variance), rel=0.04)
    errors = [
        simulate(method, stages, 0.0 * variance, np.eye(DIM)[k], runs=1) / (0.5 * CURVATURES[k])
        for k in range(DIM)
    ]
    assert max(errors) == pytest.approx(response.initial, rel=1e-9)


def test_the_recursion_of_the_paper_fails_where_the_lyapunov_function_holds():
    """(28) at t = 1 on a quadratic of curvature mu, with step 1/L."""
    step = 1.0 / L
    q = math.sqrt(MU * step)
    exact = quadratic_response(1, step, theory.nesterov_momentum(step, MU), [MU],
                                      nesterov=True).initial  # fmt: skip
    assert exact == pytest.approx((1 - q * q) ** 2)
    assert exact > 1 - q
    for T in range(1, 200):
        stages = theory.single_stage(T, step, MU)
        exact = quadratic_response(T, step, stages[0].momentum, CURVATURES, nesterov=True)
        assert exact.initial <= theory.accelerated_response(stages, MU, L, DIM).initial


def test_the_heavy_ball_has_its_own_rate():
    """The paper's (26) is Nesterov's: it misses the heavy ball's speed, on both sides."""
    step, momentum = 1.0, 0.9
    for curvatures in ([MU], [L], [MU, L]):
        heavy = bounds.heavy_ball_rate(step, momentum, curvatures)
        paper = bounds.nesterov_rate(step, momentum, curvatures)
        T = 400
        for rate, nesterov in ((heavy, False), (paper, True)):
            measured = quadratic_response(T, step, momentum, curvatures, nesterov=nesterov)
            # Amplitudes are rho^T up to a factor that grows slower than T.
            if rate > 0.0:
                assert math.log(max(measured.initial, 1e-300)) / (2 * T) == pytest.approx(
                    math.log(rate), abs=0.03
                )
    assert bounds.heavy_ball_rate(step, momentum, [L]) == pytest.approx(math.sqrt(momentum))
    assert bounds.nesterov_rate(step, momentum, [L]) == 0.0
    # Polyak's parameters reach his rate.
    root = math.sqrt(MU / L)
    best = 4 / (math.sqrt(MU) + math.sqrt(L)) ** 2, ((1 - root) / (1 + root)) ** 2
    assert bounds.heavy_ball_rate(*best, [MU, L]) == pytest.approx(
        (1 - root) / (1 + root), rel=1e-6
    )
    assert bounds.nesterov_rate(*best, [MU, L]) > 1.0


def test_stationary_noise_of_the_heavy_ball():
    step, momentum = 0.5, 0.7
    response = quadratic_response(3000, step, momentum, CURVATURES)
    stationary = bounds.heavy_ball_noise(step, momentum, CURVATURES)
    assert response.noise.sum() == pytest.approx(0.5 * float(CURVATURES @ stationary), rel=1e-9)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("step", [0.1, 0.5, 1.9])
def test_the_bound_for_quadratics_holds_and_is_reached(step, momentum):
    variance, initial = 0.3, 5.0
    for T in (0, 1, 2, 7, 60, 5000):
        exact = quadratic_response(T, step, momentum, CURVATURES)
        bound = bounds.heavy_ball_quadratic_bound(
            T, step, momentum, CURVATURES, initial_error=initial, variance=variance
        )
        assert exact.bound(initial, variance) <= bound * (1 + 1e-12)
    # In the long run nothing but the noise is left, and of that the bound gives no more away.
    assert exact.bound(initial, variance) == pytest.approx(bound, rel=1e-6)
    with pytest.raises(ValueError, match="rate below 1"):
        bounds.heavy_ball_quadratic_bound(
            5, 4.5, momentum, CURVATURES, initial_error=initial, variance=variance
        )


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.5])
def test_certificates_solve_the_matrix_inequality(momentum):
    step = 0.5
    found = theory.heavy_ball_certificates(step, momentum, MU, L)
    lookahead = theory.lookahead_certificate(step, momentum, MU, L)
    for certificate in found:
        P = certificate.P
        scale = np.abs(P).max() + 1.0
        assert np.linalg.eigvalsh(P)[0] >= -1e-13 * scale
        # No certificate is faster than the worst quadratic.
        assert certificate.rate_squared >= bounds.heavy_ball_rate(step, momentum, [MU, L]) ** 2
        if lookahead is not None and np.array_equal(P, lookahead.P):
            continue  # its proof takes inequalities that (22) has no room for
        constant, M = theory.heavy_ball_inequality(step, momentum, MU, L, certificate.rate_squared)
        theta = np.array([P[0, 0], P[0, 1], P[1, 1], certificate.c0])
        assert np.linalg.eigvalsh(constant + np.tensordot(theta, M, 1))[0] >= -1e-13 * scale
    # The grid finds rates that the closed form does not reach.
    assert min(c.rate_squared for c in found) < found[0].rate_squared - 0.1 * MU * step


def bent(rng):
    """A function of one variable, µ-strongly convex and L-smooth, with kinks in its gradient."""
    knots = np.sort(rng.uniform(-3.0, 3.0, 6))
    curvatures = np.where(rng.random(7) < 0.5, MU, L)
    grid = np.sort(np.concatenate([np.linspace(-30.0, 30.0, 4001), knots]))
    curvature = curvatures[np.searchsorted(knots, 0.5 * (grid[1:] + grid[:-1]))]
    slope = np.concatenate([[0.0], np.cumsum(curvature * np.diff(grid))])
    slope -= np.interp(0.0, grid, slope)  # the minimizer is 0
    value = np.concatenate([[0.0], np.cumsum(0.5 * (slope[1:] + slope[:-1]) * np.diff(grid))])
    value -= np.interp(0.0, grid, value)

    def evaluate(x):
        k = np.clip(np.searchsorted(grid, x) - 1, 0, len(grid) - 2)
        away = x - grid[k]
        return value[k] + away * (slope[k] + 0.5 * curvature[k] * away), (
            slope[k] + curvature[k] * away
        )

    return evaluate


@pytest.mark.parametrize(("step", "momentum"), [(0.5, 0.3), (0.2, 0.7), (0.1, 0.85), (0.02, 0.95)])
def test_certificates_hold_beyond_quadratics(step, momentum):
    """The Lyapunov function falls by its rate from any state, and by no better rate from all."""
    rng = np.random.default_rng(5)
    found = theory.heavy_ball_certificates(step, momentum, MU, L)
    assert theory.lookahead_certificate(step, momentum, MU, L) is not None
    worst = np.zeros(len(found))
    for _ in range(60):
        function = bent(rng)
        x, before = 3.0 * rng.standard_normal((2, 500))
        before = np.where(rng.random(500) < 0.5, before, x + 0.1 * before)
        slope = function(x)[1]
        after = x - step * slope + momentum * (x - before)
        for k, certificate in enumerate(found):
            P = certificate.P

            now, then = (
                P[0, 0] * at * at
                + 2 * P[0, 1] * at * last
                + P[1, 1] * last * last
                + function(at)[0]
                for at, last in ((x, before), (after, x))
            )
            assert np.all(then <= certificate.rate_squared * now + 1e-9 * (1.0 + now))
            worst[k] = max(worst[k], np.max((then / now)[now > 1e-3]))
    # The fastest is not slack by more than this, so that a rate that is too good would show.
    fastest = int(np.argmin([certificate.rate_squared for certificate in found]))
    assert 1.0 - worst[fastest] < 4.0 * (1.0 - found[fastest].rate_squared)


def test_the_lookahead_certificate_is_faster_and_quieter():
    """On the paper's problem, against the closed form that gradient steps of size alpha obey."""
    mu, smoothness, dim = 0.02, 5.02, 20
    step = 0.02 / smoothness
    simple = theory.simple_certificate(step, 0.98, mu, smoothness)
    found = theory.lookahead_certificate(step, 0.98, mu, smoothness)
    assert 1.0 - found.rate_squared > 40.0 * (1.0 - simple.rate_squared)
    lengths = np.array([10, 1000, 100_000])
    quiet, loud = (c.decay(step, mu, smoothness, dim).total(lengths)[-1] for c in (found, simple))
    assert quiet < loud / 40.0
    for momentum in (math.sqrt(1.0 - 0.02) + 1e-6, 0.999):
        assert theory.lookahead_certificate(step, momentum, mu, smoothness) is None
    assert theory.lookahead_certificate(1.0 / smoothness, 0.5, mu, smoothness) is None


def test_sums_of_decays():
    decay = theory.Decay(2.0, 0.9, 0.3)
    for exponent in (1.0, 0.5, 1.0 / 3.0):
        sums = [np.sum(decay.response(T).noise ** exponent) for T in (1, 5, 80)]
        np.testing.assert_allclose(decay.total(np.array([1, 5, 80]), exponent), sums, rtol=1e-12)
    np.testing.assert_allclose(
        decay.initial(np.array([1, 80])), [decay.response(T).initial for T in (1, 80)], rtol=1e-12
    )
    assert theory.Decay(1.0, 0.0, 0.3).total(np.array([1, 4])).tolist() == [0.3, 0.3]


@pytest.mark.parametrize("power", [1, 2])
def test_shares_minimize_the_noise(power):
    rng = np.random.default_rng(3)
    a = np.exp(rng.normal(size=12))
    shares = theory.optimal_shares(a, power, ratio=1.0)
    assert shares.sum() == pytest.approx(1.0)
    best = float(np.sum(a / shares**power))
    assert best == pytest.approx(np.sum(a ** (1 / (power + 1))) ** (power + 1))
    assert best < np.sum(a * 12.0**power)
    for _ in range(200):
        other = shares * np.exp(0.1 * rng.normal(size=12))
        other /= other.sum()
        assert np.sum(a / other**power) >= best


def test_grouped_shares_cost_little():
    a = 0.97 ** np.arange(300)[::-1]
    grouped = theory.optimal_shares(a, 2)
    assert len(np.unique(grouped)) <= 40
    least = np.sum(a ** (1 / 3)) ** 3
    assert np.sum(a / grouped**2) <= 1.01 * least


def test_stages_follow_the_paper():
    stages = theory.multistage(10_000, 1.0 / 20, 1.0, 20.0, p=1, first=7)
    unit = math.ceil(math.sqrt(20) * math.log(8))
    assert [s.length for s in stages[:4]] == [7, 4 * unit, 8 * unit, 16 * unit]
    assert [s.step for s in stages[:3]] == [1 / 20, 1 / 20 / 16, 1 / 20 / 64]
    assert sum(s.length for s in stages) == 10_000
