"""DP-SVRG."""

import math

import numpy as np
import pytest

from dpfast import Budget, Ledger, Loss, Problem, ProblemShape, _kernels, plan, solve
from dpfast.fused import State, Walk
from dpfast.privacy import GaussianEvent, SubsampledGaussianEvent
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out

SHAPE = ProblemShape(n_samples=5000, n_features=6, data_norm=1.0)
BUDGET = Budget(1.0, 1e-6)


def test_noiseless_steps_are_svrgs(noiseless, classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=0.05)
    settled = plan(problem, "dp-svrg", BUDGET, epochs=2, steps_per_epoch=15, batch=20, step=0.5,
                   difference_clip_norm=0.3)  # fmt: skip
    w = carry_out(settled, problem, SecureGenerator(9), Ledger(BUDGET)).w
    rows, rng = np.column_stack([X, np.ones(500)]), SecureGenerator(9)

    def slopes(at, v):
        return -y[at] / (1.0 + np.exp(y[at] * (rows[at] @ v)))

    expected = np.zeros(7)
    for _ in range(2):
        snapshot, everyone = expected.copy(), np.arange(500)
        full = rows.T @ slopes(everyone, snapshot) / 500
        with rng.stream() as stream:
            for _ in range(15):
                at = _kernels.draw_batch(stream, "fixed-size", 500, 20, 20)
                limit = 0.3 / np.linalg.norm(rows[at], axis=1)
                change = np.clip(slopes(at, expected) - slopes(at, snapshot), -limit, limit)
                expected = (1 - 0.5 * 0.05) * expected - 0.5 * (rows[at].T @ change / 20 + full)
    np.testing.assert_allclose(w, expected, atol=1e-6)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_both_kinds_of_releases_are_charged(relation):
    settled = plan(SHAPE, "dp-svrg", BUDGET, neighboring_relation=relation, epochs=3)
    snapshots, differences = settled.events[::2], settled.events[1::2]
    assert all(isinstance(event, GaussianEvent) for event in snapshots)
    assert all(isinstance(event, SubsampledGaussianEvent) for event in differences)
    assert len(snapshots) == len(differences) == 3
    records = {"replace_one": 2, "add_or_remove_one": 1}[relation]
    assert snapshots[0].sensitivity == pytest.approx(records * SHAPE.lipschitz, rel=1e-3)
    clip = settled.settings.difference_clip_norm
    assert clip <= 2 * SHAPE.lipschitz
    assert differences[0].sensitivity == pytest.approx(records * clip, rel=1e-3)
    assert differences[0].sensitivity >= records * clip


def test_a_difference_is_never_longer_than_its_clip_norm():
    # Rows as long as they may be, a snapshot on the other side: the slope changes by 2.
    problem = Problem(np.full((4, 1), 3.0), np.ones(4), Loss("huber", 1.0), data_norm=3.0,
                      intercept=0.0)  # fmt: skip
    problem._prepare_clipping()
    kernel = problem._rows.chunk(0, 4)[0]
    for clip in (0.1, 1.0, 5.0, 7.0):
        w = np.array([100.0])
        _kernels.private_epoch(
            kernel, problem.shape.loss.spec, w, 1.0, sampling="given", noise="none",
            indices=np.array([2]), batch_start=np.array([0, 1]), divisor=1.0, clip_norm=clip,
            snapshot=np.array([-100.0]),
        )  # fmt: skip
        moved = abs(w[0] - 100.0)
        assert moved == pytest.approx(min(clip, 6.0), rel=1e-6)
        assert moved <= clip + 1e-13


@pytest.mark.parametrize("times", [0.5, 1.0, 1.5, 2.0, 3.0])
def test_whole_steps_obey_the_difference_clip_norm(noiseless, times):
    """Differences may be twice as long as gradients: a clip norm of L has to be enforced."""
    n = 10
    problem = Problem(np.full((n, 1), 3.0), np.ones(n), Loss("huber", 1.0), data_norm=3.0,
                      intercept=0.0)  # fmt: skip
    settled = plan(problem, "dp-svrg", BUDGET, epochs=1, steps_per_epoch=1, batch="full", step=1.0,
                   difference_clip_norm=times * 3.0)  # fmt: skip
    w = np.array([100.0])
    walk = Walk(lambda a, b: 1.0, snapshot=np.array([-100.0]))
    state = settled.settings.differences[0].answer(problem, SecureGenerator(0), State(w), walk)
    # The sum over the batch, divided by its size.
    assert abs(state.w[0] - 100.0) == pytest.approx(min(times * 3.0, 6.0), rel=1e-6)
    charged = settled.events[1].sensitivity
    assert charged >= 2 * min(times * 3.0, 6.0)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_snapshots_get_their_share(share):
    settled = plan(SHAPE, "dp-svrg", Budget(0.1, 1e-6), epochs=4, snapshot_share=share)
    snapshot, difference = settled.events[0], settled.events[1]
    of_snapshots = 4 / snapshot.noise_multiplier**2
    rate = difference.sampling_rate
    of_differences = 4 * difference.count * (rate / difference.noise_multiplier) ** 2
    assert of_snapshots / (of_snapshots + of_differences) == pytest.approx(share, rel=1e-3)


def test_it_learns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 5))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X @ [3.0, -2.0, 1.0, 0.0, 0.0] > 0, 1.0, -1.0)
    result = solve(Problem(X, y, data_norm=1.0), "dp-svrg", Budget(2.0, 1e-6), random_state=0)
    assert np.mean(np.sign(X @ result.w[:5] + result.w[5]) == y) > 0.93


def test_wrong_options_are_refused():
    for options, message in [
        ({"sampling": "poisson"}, "sampling must be 'fixed-size' with neighboring_relation="),
        ({"epochs": 0}, "epochs must be"),
        ({"steps_per_epoch": 0}, "steps_per_epoch must be"),
        ({"snapshot_share": 1.0}, "snapshot_share must be"),
        ({"difference_clip_norm": 0.0}, "difference_clip_norm must be"),
        ({"step": math.inf}, "step must be"),
        ({"noise": "none"}, "noise must be one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            plan(SHAPE, "dp-svrg", BUDGET, **options)
    hinge = ProblemShape(100, 3, 1.0, Loss("hinge"))
    with pytest.raises(ValueError, match="loss must be smooth for dp-svrg; got 'hinge'"):
        plan(hinge, "dp-svrg", BUDGET)
