"""DP-SGD."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from reference import private_epochs as twin

from dpfast import Budget, Ledger, Loss, Problem, ProblemShape, _kernels, plan, solve
from dpfast.errors import UnsupportedEvent
from dpfast.privacy.accountants import ACCOUNTANTS
from dpfast.privacy.accountants.pld import _grid_step
from dpfast.queries.batches import poisson_capacity
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out

SHAPE = ProblemShape(n_samples=5000, n_features=6, data_norm=1.0)
BUDGET = Budget(1.0, 1e-6)


@pytest.mark.parametrize("schedule", ["constant", "1/sqrt(t)", "1/t"])
@pytest.mark.parametrize("average", ["tail", "uniform", "none"])
def test_noiseless_full_batches_are_gradient_descent(noiseless, classification, schedule, average):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=0.1)
    steps, size = 33, 0.4
    result = solve(
        problem, "dp-sgd", BUDGET, batch="full", steps=steps, step=size, schedule=schedule,
        average=average, momentum=0.5, w_radius=0.6, clip_norm=3.0,
    )  # fmt: skip
    t = np.arange(1.0, steps + 1)
    sizes = size * {"constant": t**0, "1/sqrt(t)": t**-0.5, "1/t": 1 / t}[schedule]
    weight = {"tail": (t > 16) / 17.0, "uniform": t**0 / 33.0, "none": t == 33}[average]
    rows = np.column_stack([X, np.ones(len(y))])
    w, velocity, total = np.zeros(7), np.zeros(7), np.zeros(7)
    for h, share in zip(sizes, weight, strict=True):
        slopes = -y / (1.0 + np.exp(y * (rows @ w)))
        velocity = 0.5 * velocity + rows.T @ slopes / len(y)
        w = (1 - h * 0.1) * w - h * velocity
        w *= min(1.0, 0.6 / np.linalg.norm(w))
        total += share * w
    np.testing.assert_allclose(result.w, total, atol=1e-12)


@pytest.mark.parametrize(
    ("relation", "sampling"), [("add_or_remove_one", "poisson"), ("replace_one", "fixed-size")]
)
def test_noiseless_steps_follow_the_drawn_batches(noiseless, classification, relation, sampling):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    settled = plan(problem, "dp-sgd", BUDGET, neighboring_relation=relation, steps=20, step=0.5,
                   batch=25, average="none", clip_norm=0.7)  # fmt: skip
    assert settled.parameters["sampling"] == sampling
    w = carry_out(settled, problem, SecureGenerator(4), Ledger(BUDGET)).w
    capacity = poisson_capacity(25, 500)
    rng = SecureGenerator(4)
    with rng.stream() as stream:
        drawn = [_kernels.draw_batch(stream, sampling, 500, 25, capacity) for _ in range(20)]
    expected, _, _ = twin.private_epoch(
        np.column_stack([X, np.ones(500)]), y, np.ones(500),
        lambda z, t: -t / (1.0 + np.exp(t * z)), np.zeros(7), drawn, np.full(20, 0.5),
        divisor=25, clip_norm=0.7,
    )  # fmt: skip
    np.testing.assert_allclose(w, expected, atol=1e-6)


def test_dp_accounting_finds_the_same_price():
    rdp = pytest.importorskip("dp_accounting.rdp")
    dp_accounting = pytest.importorskip("dp_accounting")
    settled = plan(SHAPE, "dp-sgd", BUDGET, neighboring_relation="add_or_remove_one", epochs=3)
    ledger = Ledger(BUDGET)
    for event in settled.events:
        ledger.spend(event)
    orders = np.array([1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128])
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    library = rdp.RdpAccountant(orders, relation)
    library.compose(ledger.to_dp_event())
    theirs = library.get_epsilon(BUDGET.delta)
    moments = np.array([ACCOUNTANTS["rdp"].log_moment(ledger.events, a - 1.0) for a in orders])
    excess = orders - 1.0
    ours = (moments - np.log(BUDGET.delta) - np.log(orders)) / excess + np.log1p(-1.0 / orders)
    assert min(ours) == pytest.approx(theirs, rel=1e-6)
    # The ledger minimizes over all orders.
    assert ledger.guarantee().epsilon <= theirs
    assert 0.99 < ledger.guarantee().epsilon <= 1.0


@pytest.mark.slow
def test_privacy_loss_distributions_ask_for_less_noise():
    pytest.importorskip("dp_accounting.pld")
    budget, shape = Budget(1.0, 1e-4), dataclasses.replace(SHAPE, n_samples=400)
    settings = {"neighboring_relation": "add_or_remove_one", "epochs": 1}
    tight, renyi = (
        plan(shape, "dp-sgd", budget, accountant=name, **settings) for name in ("pld", "rdp")
    )
    ratio = tight.parameters["noise_multiplier"] / renyi.parameters["noise_multiplier"]
    assert 0.5 < ratio < 0.99
    ledger = Ledger(budget, "pld")
    ledger.spend_all(tight.events)
    assert 0.999 < ledger.guarantee().epsilon <= 1.0


@pytest.mark.slow
def test_the_library_finds_the_same_price_by_privacy_loss_distributions():
    """At delta = 1e-4: at small ones ours adds what the library's transforms may be wrong by."""
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    budget, pld = Budget(1.0, 1e-4), ACCOUNTANTS["pld"]
    shape = dataclasses.replace(SHAPE, n_samples=400)
    settled = plan(shape, "dp-sgd", budget, accountant="pld", epochs=1, clip_norm=1.0,
                   neighboring_relation="add_or_remove_one")  # fmt: skip
    ledger = Ledger(budget, "pld")
    ledger.spend_all(settled.events)
    library = PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        value_discretization_interval=_grid_step(pld._kinds(list(ledger.events))),
    )
    library.compose(ledger.to_dp_event())
    ours = ledger.guarantee().epsilon
    assert ours <= 1.0
    assert library.get_epsilon(budget.delta) == pytest.approx(ours, rel=1e-6)


@pytest.mark.parametrize(
    ("accountant", "reason"),
    [("pld", "of fixed-size samples under replace_one is not known"), ("gdp", "amplification")],
)
def test_an_accountant_that_cannot_price_the_batches_says_why(accountant, reason):
    with pytest.raises(UnsupportedEvent, match=reason):
        plan(SHAPE, "dp-sgd", BUDGET, accountant=accountant)


def test_gradients_are_clipped_where_the_budget_is_small():
    norms = [
        plan(SHAPE, "dp-sgd", Budget(epsilon, 1e-6)).parameters["clip_norm"]
        for epsilon in (0.1, 50.0)
    ]
    np.testing.assert_allclose(norms, [0.5 * SHAPE.lipschitz, SHAPE.lipschitz])
    regression = dataclasses.replace(SHAPE, loss=Loss("huber"))
    settled = plan(regression, "dp-sgd", Budget(0.1, 1e-6))
    assert settled.parameters["clip_norm"] == regression.lipschitz


@pytest.mark.slow
@pytest.mark.skipif("DPFAST_TEST_DATA" not in os.environ, reason="no directory with Bank")
def test_bank_next_to_opacus():
    """Accuracy over that of the majority, and log-loss on training rows, next to those of opacus.

    Opacus was tuned on its test rows; its majority had 88.30 %.  Here: within two standard errors
    of what it gained, at a smaller log-loss.
    """
    from bench.problems import bank

    data = bank(Path(os.environ["DPFAST_TEST_DATA"]))
    opacus = {0.05: (88.4, 0.406), 0.1: (89.3, 0.398), 0.2: (89.3, 0.368), 0.4: (89.3, 0.347),
              0.8: (89.3, 0.344), 1.6: (89.3, 0.344)}  # fmt: skip
    for epsilon, (accuracy, log_loss) in opacus.items():
        gains, losses = [], []
        for seed in range(6):
            train, test = data.split(seed)
            problem = Problem(train.X, train.y, data_norm=data.data_norm)
            w = solve(problem, "dp-sgd", Budget(epsilon, 1e-8), random_state=seed,
                      neighboring_relation="add_or_remove_one").w  # fmt: skip
            right = np.mean((test.X @ w[:-1] + w[-1] > 0) == (test.y > 0))
            gains.append(100 * (right - max(np.mean(test.y > 0), np.mean(test.y < 0))))
            margins = train.y * (train.X @ w[:-1] + w[-1])
            losses.append(np.mean(np.logaddexp(0.0, -margins)))
        error = np.std(gains, ddof=1) / np.sqrt(6)
        assert np.mean(gains) + 2 * error >= accuracy - 88.30, epsilon
        assert np.mean(losses) < log_loss, epsilon


def test_advanced_composition_costs_more_noise_and_the_ledger_less_epsilon():
    tight, advanced = (
        plan(SHAPE, "dp-sgd", BUDGET, epochs=5, calibration=name)
        for name in ("accountant", "advanced")
    )
    assert advanced.parameters["noise_multiplier"] > 4 * tight.parameters["noise_multiplier"]
    ledger = Ledger(BUDGET)
    for event in advanced.events:
        ledger.spend(event)
    assert ledger.guarantee().epsilon < 0.3


def test_steps_are_paid_for_before_they_look(classification, monkeypatch):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    settled = plan(problem, "dp-sgd", BUDGET, steps=100)
    seen = []
    ledger = Ledger(BUDGET)

    def stop(*args, **named):
        seen.append(len(ledger.events))
        if len(seen) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(_kernels, "private_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        carry_out(settled, problem, SecureGenerator(0), ledger)
    assert seen == [1, 2, 3]
    assert ledger.events == settled.events[:3]


def test_layouts_agree(classification):
    X, y = classification
    X = np.round(X, 2).astype(np.float32).astype(np.float64)
    wide = np.zeros((500, 12))
    wide[:, ::2] = X
    results = [
        solve(Problem(rows, y, data_norm=2.0), "dp-sgd", BUDGET, random_state=3, clip_norm=0.5).w
        for rows in (X, X.astype(np.float32), scipy.sparse.csr_array(X), wide[:, ::2])
    ]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-6)


def test_it_learns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 5))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(X @ [3.0, -2.0, 1.0, 0.0, 0.0] > 0, 1.0, -1.0)
    for relation in ("replace_one", "add_or_remove_one"):
        result = solve(Problem(X, y, data_norm=1.0), "dp-sgd", Budget(2.0, 1e-6), random_state=0,
                       neighboring_relation=relation)  # fmt: skip
        assert np.mean(np.sign(X @ result.w[:5] + result.w[5]) == y) > 0.93
        assert result.privacy.epsilon <= 2.0


@pytest.mark.parametrize("alpha", [None, 0.05])
def test_the_sgd_of_bassily_et_al(alpha):
    papers = pytest.importorskip("bench.papers.zhang2017")
    shape = dataclasses.replace(SHAPE, n_samples=300, alpha=alpha)
    options = papers.bassily_options(shape)
    assert options["steps"] == 1800
    settled = plan(shape, "dp-sgd", BUDGET, **options)
    assert settled.parameters["batch"] == 50
    assert sum(event.count for event in settled.events) == 1800
    assert np.isfinite(settled.parameters["w_radius"])


def test_a_plan_says_what_it_will_do():
    settled = plan(SHAPE, "dp-sgd", BUDGET, neighboring_relation="add_or_remove_one")
    assert settled.parameters["batch"] == 71
    assert 1.0 <= settled.parameters["epochs"] <= 20.0
    assert "sampling = poisson" in str(settled)
    assert "noise = discrete" in str(settled)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": "poisson"}, "sampling must be 'fixed-size' with neighboring_relation="),
        ({"sampling": "shuffle"}, "sampling must be one of"),
        ({"batch": 0}, "batch must be"),
        ({"batch": 5001}, "batch must be"),
        ({"steps": 0}, "steps must be"),
        ({"epochs": 0.0}, "epochs must be"),
        ({"step": float("nan")}, "step must be"),
        ({"momentum": 1.0}, "momentum must be"),
        ({"schedule": "cosine"}, "schedule must be one of"),
        ({"average": "last"}, "average must be one of"),
        ({"noise": "laplace"}, "noise must be one of"),
        ({"calibration": "paper"}, "calibration must be one of"),
        ({"clip_norm": -1.0}, "clip_norm must be"),
        ({"w_radius": 0.0}, "w_radius must be"),
        ({"minimizer_norm": 0.0}, "minimizer_norm must be"),
        ({"alpha": 0.0}, "alpha must be"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plan(SHAPE, "dp-sgd", BUDGET, **options)
