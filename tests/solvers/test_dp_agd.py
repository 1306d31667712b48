"""Gradient descent with a privacy budget that is divided along the way."""

import dataclasses
import math

import numpy as np
import pytest
from declared import Unlimited

from dpfast import Budget, BudgetExceeded, Ledger, Problem, ProblemShape, plan, solve
from dpfast.curator import Curator
from dpfast.mechanisms import Exponential, NoisyMax
from dpfast.privacy import budget_filter, records_apart
from dpfast.privacy.auditing import audit_epsilon, audit_mu
from dpfast.queries import gradient as gradient_queries
from dpfast.queries import losses as loss_queries
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out
from dpfast.solvers.papers import dp_agd

RELATIONS = ("replace_one", "add_or_remove_one")
SHAPE = ProblemShape(5000, 6, 1.0, intercept=0.0)


def make(classification, loss="logistic", **options):
    X, y = classification
    return Problem(X, y, loss, data_norm=2.0, **options)


def run(problem, budget, ledger=None, seed=0, **options):
    """A run on a ledger of the test's own."""
    settled = plan(problem, "dp-agd", budget, **options)
    ledger = Ledger(budget, adaptive=True) if ledger is None else ledger
    outcome = carry_out(settled, problem, SecureGenerator(seed), ledger)
    return settled, outcome, ledger


def rho_of(event):
    if event.mechanism == "gaussian":
        return event.count * 0.5 * (event.sensitivity / event.stddev) ** 2
    return event.count * event.epsilon**2 / (8.0 if event.mechanism == "exponential" else 2.0)


# ---- the budget ---------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 8.0])
def test_the_budget_is_kept_and_used(calibration, relation, epsilon, classification):
    budget = Budget(epsilon, 1e-6)
    settled, outcome, ledger = run(
        make(classification), budget, neighboring_relation=relation, calibration=calibration,
        splits=12,
    )  # fmt: skip
    spent = sum(rho_of(event) for event in ledger.events)
    limit = budget_filter(budget).limit
    assert spent <= limit * (1 + 1e-12)
    assert spent == pytest.approx(ledger.totals()["rho"], rel=1e-9)
    # What is left does not pay for another iteration.
    assert spent > 0.8 * min(limit, settled.settings.limit)
    assert ledger.guarantee().epsilon <= epsilon
    assert outcome.history["budget_used"][-1] == pytest.approx(spent / limit, rel=1e-9)


@pytest.mark.parametrize("cause", ["exhausted", "iterations", "zero gradient"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_way_to_stop_stays_within(cause, relation, classification, monkeypatch):
    budget, options = Budget(rho=0.01), {"neighboring_relation": relation, "splits": 15}
    problem = make(classification)
    if cause == "iterations":
        options["max_iterations"] = 3
    if cause == "zero gradient":
        # Rows without values and an exact sum: the one way to meet a zero.
        problem = Problem(np.zeros((10, 3)), np.ones(10), data_norm=1.0, intercept=0.0)
        monkeypatch.setattr(
            SecureGenerator, "discrete_gaussian", lambda self, s, n: np.zeros(n, dtype=np.int64)
        )
    settled, outcome, ledger = run(problem, budget, **options)
    spent = ledger.totals()["rho"]
    assert 0.0 < spent <= 0.01
    steps = outcome.history["step"]
    if cause == "iterations":
        assert np.count_nonzero(steps) == 3
        assert settled.events[0].count == 3
    elif cause == "zero gradient":
        assert len(ledger.events) == 1 and len(steps) == 0
        assert not outcome.w.any()
    else:
        assert len(steps) >= 5


class Watched(Ledger):
    """Remembers the order of questions, payments and looks at the data."""

    def __init__(self, *args, limit=10**9, **kwargs):
        super().__init__(*args, **kwargs)
        self.diary, self.limit = [], limit

    def can_afford(self, *events):
        asked = sum(kind == "ask" for kind, _ in self.diary)
        answer = asked < self.limit and super().can_afford(*events)
        self.diary.append(("ask", (events, answer)))
        return answer

    def spend_all(self, events):
        events = list(events)
        super().spend_all(events)
        self.diary += [("spend", event) for event in events]


def watch(problem, ledger, monkeypatch):
    for name in ("clipped_gradient", "line_search_losses"):
        honest = getattr(problem, name)

        def look(*args, honest=honest, name=name, **kwargs):
            ledger.diary.append(("look", name))
            return honest(*args, **kwargs)

        monkeypatch.setattr(problem, name, look)


def test_the_ledger_is_asked_before_every_access(classification, monkeypatch):
    problem, budget = make(classification), Budget(0.5, 1e-6)
    ledger = Watched(budget, adaptive=True)
    watch(problem, ledger, monkeypatch)
    run(problem, budget, ledger, splits=20)
    kinds = [kind for kind, _ in ledger.diary]
    assert kinds.count("spend") >= 10
    for at, (kind, value) in enumerate(ledger.diary):
        if kind == "spend":
            assert kinds[at - 1] == "ask"
            events, answer = ledger.diary[at - 1][1]
            assert answer and value == events[0]
        elif kind == "look":
            assert kinds[at - 1] == "spend"
    # It ends by a question that was answered with no, and with nothing after it.
    assert kinds[-1] == "ask" and ledger.diary[-1][1][1] is False


@pytest.mark.parametrize("limit", range(2, 10))
def test_a_no_is_the_end(limit, classification, monkeypatch):
    problem, budget = make(classification), Budget(0.5, 1e-6)
    ledger = Watched(budget, adaptive=True, limit=limit)
    watch(problem, ledger, monkeypatch)
    run(problem, budget, ledger, splits=20)
    # The first question is whether it can begin.
    assert sum(kind == "spend" for kind, _ in ledger.diary) == limit - 1
    assert ledger.diary[-1][0] == "ask" and ledger.diary[-1][1][1] is False


def test_an_ordinary_ledger_is_refused_before_data(classification):
    problem, budget = make(classification), Budget(0.5, 1e-6)
    ledger = Ledger(budget)
    with pytest.raises(ValueError, match="ledger must be Ledger"):
        run(problem, budget, ledger)
    assert ledger.events == ()
    with pytest.raises(BudgetExceeded):
        run(problem, budget, Ledger(Budget(1e-6, 1e-12), adaptive=True))


# ---- audits -------------------------------------------------------------------------------------


def steep(sign, n=2):
    """All rows zero but one, on the steep side of a hinge: the worst record for every gradient."""
    X = np.zeros((n, 1))
    X[0] = sign
    return Problem(X, np.ones(n), "huberized-hinge", data_norm=1.0, intercept=0.0)


def averaged(settled, problem, rng, prices):
    """The gradient at zero, measured once for each price."""
    query = settled.settings.accesses.query
    # What a run costs is tested elsewhere.
    curator = Curator(problem, Unlimited(), rng)
    at, found = curator.fix(query, np.zeros(query.dimension)), dp_agd._Average(query.dimension)
    for price in prices:
        measurement = dp_agd._measurement(query, settled.neighboring_relation, price)
        found.add(curator.release(measurement, at), price)
    return found


def neighbors(relation):
    return steep(1.0), steep(-1.0 if relation == "replace_one" else 0.0)


def halve(monkeypatch, module=gradient_queries):
    monkeypatch.setattr(module, "records_apart", lambda relation: 0.5 * records_apart(relation))


@pytest.mark.audit
@pytest.mark.parametrize(
    ("epsilon", "delta", "runs", "relation", "parts"),
    [(0.5, 0.3, 1200, "replace_one", 1), (2.0, 0.05, 700, "add_or_remove_one", 2)],
)
def test_gradients_keep_their_claim(epsilon, delta, runs, relation, parts, monkeypatch):
    """All of the budget at one point, averaged: close to the claim, and past it if halved."""
    rho = budget_filter(Budget(epsilon, delta)).limit
    claim = math.sqrt(2.0 * rho)

    def audited():
        found = []
        for problem, seed in zip(neighbors(relation), (21, 22), strict=True):
            settled = plan(problem, "dp-agd", Budget(rho=rho), neighboring_relation=relation,
                           clip_norm=1.0)  # fmt: skip
            rng, shares = SecureGenerator(seed), ((1.0,), (0.7, 0.3))[parts - 1]
            found.append([
                -averaged(settled, problem, rng, [share * rho for share in shares]).value[0]
                for _ in range(runs)
            ])  # fmt: skip
        return audit_mu(*found).value

    assert 0.25 * claim < audited() <= claim
    halve(monkeypatch)
    assert audited() > claim


@pytest.mark.audit
@pytest.mark.parametrize(("epsilon", "delta", "runs"), [(0.5, 0.1, 8000), (2.0, 0.01, 3000)])
def test_choices_keep_their_claim(epsilon, delta, runs, monkeypatch):
    """One record prefers the far candidate by its whole loss, the other the near one.

    What the other records say (an offset) makes the far one unlikely, where ratios are largest.
    """
    budget = Budget(rho=budget_filter(Budget(epsilon, delta)).limit)
    K, steps = 1.0, np.array([0.0, 40.0])
    scores = [
        loss_queries.LineSearchLosses(problem.shape, 2, K).evaluate(
            problem, np.array([-20.0]), np.array([-1.0]), steps, 2
        )
        for problem in neighbors("replace_one")
    ]

    def audited():
        settled = plan(steep(1.0), "dp-agd", budget, splits=1, selection_share=0.98, candidates=2,
                       loss_clip=K)  # fmt: skip
        choice = settled.settings.accesses.choice
        offset = np.array([0.0, 1.0 + choice.scale])
        rng = SecureGenerator(5)
        found = [[choice._chosen(score + offset, rng) for _ in range(runs)] for score in scores]
        return audit_epsilon(*found).value, settled.events[1].epsilon

    value, claim = audited()
    assert claim == pytest.approx(math.sqrt(8 * 0.98 * budget.rho), rel=1e-6)
    assert 0.2 * claim < value <= claim
    halve(monkeypatch, loss_queries)
    value, same = audited()
    assert same == claim < value


@pytest.mark.slow
@pytest.mark.audit
@pytest.mark.parametrize(
    ("epsilon", "delta", "relation"), [(0.5, 0.3, "replace_one"), (2.0, 0.05, "add_or_remove_one")]
)
def test_audits_catch_whole_runs_with_half_the_noise(epsilon, delta, relation, monkeypatch):
    """Nearly all of the budget in one gradient, seen through weights and history from outside."""
    budget = Budget(rho=budget_filter(Budget(epsilon, delta)).limit)
    claim = math.sqrt(2.0 * budget.rho)

    def audited():
        found = []
        for problem, seed in zip(neighbors(relation), (41, 42), strict=True):
            settled = plan(problem, "dp-agd", budget, neighboring_relation=relation, splits=1,
                           selection_share=1e-3, candidates=20, clip_norm=1.0,
                           max_iterations=1)  # fmt: skip
            rng, values = SecureGenerator(seed), []
            for _ in range(1500):
                outcome = carry_out(settled, problem, rng, Ledger(budget, adaptive=True))
                values.append(np.sign(outcome.w[0]) * outcome.history["gradient_norm"][0])
            found.append(values)
        return audit_mu(*found).value

    assert 0.25 * claim < audited() <= claim
    halve(monkeypatch)
    assert audited() > claim


# ---- blocks of rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("cause", ["exhausted", "iterations"])
def test_a_round_over_blocks_costs_one_look_at_each(relation, cause, classification, monkeypatch):
    """Every row is looked at once a round for a gradient and once for a choice, and paid before."""
    problem, budget = make(classification), Budget(0.5, 1e-6)
    ledger = Watched(budget, adaptive=True)
    parts, honest = [], Problem.part

    def part(self, start, stop):
        made = honest(self, start, stop)
        parts.append((start, stop))
        watch(made, ledger, monkeypatch)
        return made

    monkeypatch.setattr(Problem, "part", part)
    options = {"max_iterations": 7} if cause == "iterations" else {}
    settled, outcome, _ = run(problem, budget, ledger, neighboring_relation=relation, batch=120,
                              splits=20, **options)  # fmt: skip
    assert parts == [(100 * k, 100 * (k + 1)) for k in range(5)]
    assert settled.events[0].count == (4 if cause == "exhausted" else 2)
    looks, gradients, choices = 0, 0, 0
    for kind, value in ledger.diary:
        looks += kind == "look"
        if kind == "spend":
            gradients += value.mechanism == "gaussian"
            choices += value.mechanism == "exponential"
        # Never more looks than what stands in the ledger covers.
        assert looks <= 5 * gradients + 5 * choices and gradients - choices in (0, 1)
    assert looks == 2 * len(outcome.history["step"])
    spent = sum(rho_of(event) for event in ledger.events)
    limit = budget_filter(budget).limit
    assert spent <= limit * (1 + 1e-12)
    assert spent == pytest.approx(ledger.totals()["rho"], rel=1e-9)
    assert (spent > 0.7 * limit) == (cause == "exhausted")


def test_a_block_is_looked_at_once_a_round(classification, monkeypatch):
    problem, budget = make(classification), Budget(0.5, 1e-6)
    accesses = plan(problem, "dp-agd", budget, batch=120).settings.accesses
    curator = Curator(problem, Ledger(budget, adaptive=True), SecureGenerator(0))
    edges = [0, 100, 200, 300, 400, 500]
    part, other, *_ = curator.disjoint(edges, accesses.gradient, accesses.choice)
    part.release(accesses.gradient, np.zeros(7))
    monkeypatch.setattr(
        Problem, "clipped_gradient", lambda *args, **kwargs: pytest.fail("the data was touched")
    )
    with pytest.raises(ValueError, match="the next is 'step size'"):
        part.release(accesses.gradient, np.zeros(7))
    monkeypatch.undo()
    other.release(accesses.gradient, np.zeros(7))


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbors_look_alike_on_all_blocks_but_one(relation, classification):
    """What makes a round cost one look: the other blocks' sums do not know of the record."""
    X, y = classification
    other, weight = X.copy(), np.ones(500)
    if relation == "replace_one":
        other[333] *= -3.0
    else:
        weight[333] = 0.0
    given = {"data_norm": 2.0, "sample_weight": np.ones(500), "max_weight": 1.0}
    whole = Problem(X, y, **given)
    neighbor = Problem(other, y, **given | {"sample_weight": weight})
    w, steps = np.linspace(-1.0, 1.0, 7), np.array([0.0, 0.5, 1.0])
    shape = dataclasses.replace(whole.shape, n_samples=100, alpha=0.1)
    gradient = gradient_queries.ClippedGradient(shape, 0.7)
    scores = loss_queries.LineSearchLosses(shape, 3, 50.0)
    for start in range(0, 500, 100):
        parts = [problem.part(start, start + 100) for problem in (whole, neighbor)]
        sums = [gradient.evaluate(part, w) for part in parts]
        same = [
            np.array_equal(*sums),
            np.array_equal(*(scores.evaluate(part, w, w, steps, 100) for part in parts)),
        ]
        assert same == [start != 300] * 2
        assert np.linalg.norm(sums[0] - sums[1]) <= gradient.sensitivity(relation) * (1 + 1e-9)


def test_parts_add_up_to_the_whole(classification):
    import scipy.sparse

    X, y = classification
    w, weights = np.linspace(-1.0, 1.0, 7), np.linspace(0.1, 1.0, 500)
    for rows in (X, np.float32(X), scipy.sparse.csr_array(X)):
        problem = Problem(rows, y, data_norm=1.0, sample_weight=weights, max_weight=1.0)
        for ready in (False, True):  # before and after the norms are known to the whole
            parts = [problem.part(start, stop) for start, stop in ((0, 123), (123, 500))]
            sums = [part.clipped_gradient(w, 0.4, 0.9) for part in parts]
            if ready:
                gradient, loss = problem.clipped_gradient(w, 0.4, 0.9)
                np.testing.assert_allclose(sums[0][0] + sums[1][0], gradient, rtol=1e-12)
                assert sums[0][1] + sums[1][1] == pytest.approx(loss, rel=1e-12)
            problem.clipped_gradient(w, 0.4)
    with pytest.raises(ValueError, match="stop must be"):
        problem.part(5, 5)


def test_many_blocks_come_close_to_the_optimum(classification):
    from optimizers.test_optimizers import reference_minimizer

    problem = make(classification, alpha=0.01)
    best = problem.value_and_gradient(reference_minimizer(*classification, 0.01))[0]
    start = problem.value_and_gradient(np.zeros(7))[0]
    result = solve(problem, "dp-agd", Budget(1e4, 1e-6), batch=100, splits=100, random_state=0)
    assert problem.value_and_gradient(result.w)[0] < best + 0.1 * (start - best)


# ---- mistakes of the published code -------------------------------------------------------------


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_the_noise_of_the_minimum_has_the_right_sign(noise):
    """One of 21 candidates gets worse by one record: at most e^-eps of its chances may go.

    Exponential noise of the wrong sign takes 20 eps: nothing would be left of them.
    """
    settled = plan(
        SHAPE, "dp-agd", Budget(20.0, 1e-6), neighboring_relation="add_or_remove_one",
        calibration="paper", candidates=21, splits=10, noise=noise,
    )  # fmt: skip
    choice = settled.settings.accesses.choice
    assert isinstance(choice, NoisyMax)
    epsilon = settled.events[1].epsilon
    assert epsilon == pytest.approx(1.0, rel=1e-6)
    rng = SecureGenerator(3)
    counts = []
    for first in (0.0, 3.0):
        scores = np.zeros(21)
        scores[0] = first
        picks = [choice._chosen(scores, rng) for _ in range(4000)]
        counts.append(np.bincount(picks, minlength=21) / 4000)
    assert counts[0] == pytest.approx(np.full(21, 1 / 21), abs=0.017)
    assert counts[1][0] > math.exp(-epsilon) / 21 - 5 * math.sqrt(0.02 / 4000)
    assert counts[1][0] < 0.9 / 21


def test_the_step_taken_is_the_one_chosen(noiseless, classification):
    problem = make(classification)
    _, outcome, _ = run(problem, Budget(1e4, 1e-6), max_iterations=1, clip_norm=9.0, loss_clip=50.0,
                        max_step=6.0, step_ratio=0.8)  # fmt: skip
    slope = problem.clipped_gradient(np.zeros(7))[0]
    direction = slope / np.linalg.norm(slope)
    steps = dp_agd.candidate_steps(6.0, 20, 0.8)
    values = [problem.objective(-a * direction) for a in steps]
    best = steps[int(np.argmin(values))]
    assert steps[0] < best < steps[-1]
    assert outcome.history["step"].tolist() == [best]
    np.testing.assert_allclose(outcome.w, -best * direction, rtol=1e-9)


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_every_access_is_charged_once(calibration, classification):
    settled, outcome, ledger = run(
        make(classification), Budget(0.3, 1e-6), calibration=calibration, splits=15, gamma=0.5
    )
    first, choice = settled.events
    gradients = [event for event in ledger.events if event.mechanism == "gaussian"]
    choices = [event for event in ledger.events if event.mechanism != "gaussian"]
    history = outcome.history
    assert len(choices) == len(history["step"])
    again = np.concatenate([[False], history["step"][:-1] == 0.0])
    assert again.any()
    # A new point costs the price that was reached, another measurement the difference.
    price, expected = rho_of(first) / first.count, []
    for repeated in again:
        expected.append(0.5 * price if repeated else price)
        price += 0.5 * price if repeated else 0.0
    np.testing.assert_allclose([rho_of(e) for e in gradients[: len(expected)]], expected, rtol=1e-6)
    assert len(gradients) <= len(expected) + 1
    np.testing.assert_allclose(
        sum(map(rho_of, choices)), len(choices) * rho_of(choice) / choice.count, rtol=1e-9
    )
    assert {type(e) for e in choices} == {type(choice)}


# ---- the algorithm ------------------------------------------------------------------------------


def test_measurements_are_averaged_before_they_are_normalized():
    found = dp_agd._Average(7)
    found.add(np.full(7, 10.0), 0.01)
    found.add(np.full(7, -2.0), 0.03)
    found.add(np.arange(7.0), 0.06)
    np.testing.assert_allclose(found.value, (0.1 - 0.06 + 0.06 * np.arange(7.0)) / 0.1)
    assert found.price == pytest.approx(0.1)


def test_an_average_is_as_good_as_one_measurement_of_its_price(classification):
    """Variance (k C)^2 / (2 rho) a coordinate, within 5 standard errors; 2/3 of it is rejected."""
    problem = make(classification)
    settled = plan(problem, "dp-agd", Budget(rho=1.0), clip_norm=0.7)
    rng, values = SecureGenerator(4), []
    for _ in range(150):
        found = averaged(settled, problem, rng, (0.02, 0.002, 0.005)).value
        values.append(found - problem.clipped_gradient(np.zeros(7), 0.7)[0])
    expected = (2 * 0.7) ** 2 / (2 * 0.027)
    assert np.mean(np.square(values)) == pytest.approx(expected, rel=5 * math.sqrt(2 / 1050))


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_without_noise_it_minimizes(momentum, noiseless, classification):
    from optimizers.test_optimizers import reference_minimizer

    result = solve(
        make(classification), "dp-agd", Budget(1e4, 1e-6), alpha=0.01, splits=400, clip_norm=1e3,
        loss_clip=50.0, step_ratio=0.6, momentum=momentum,
    )  # fmt: skip
    np.testing.assert_allclose(result.w, reference_minimizer(*classification, 0.01), atol=2e-4)


def test_little_noise_brings_a_small_objective(classification):
    from optimizers.test_optimizers import reference_minimizer

    problem = make(classification, alpha=0.01)
    best = problem.value_and_gradient(reference_minimizer(*classification, 0.01))[0]
    values = []
    for epsilon in (0.01, 1.0, 100.0):
        runs = [
            solve(problem, "dp-agd", Budget(epsilon, 1e-6), clip_norm=2.0, random_state=seed)
            for seed in range(5)
        ]
        values.append(np.mean([problem.value_and_gradient(r.w)[0] for r in runs]))
    assert values[2] < values[1] < values[0]
    assert values[2] < best + 0.02


def test_an_iteration_reads_the_rows_twice(noiseless, classification, monkeypatch):
    problem = make(classification)
    calls = {"clipped_gradient": 0, "margins": 0}
    gradient, margins = problem.clipped_gradient, problem._fill_margins

    def counted_gradient(*args, **kwargs):
        calls["clipped_gradient"] += 1
        return gradient(*args, **kwargs)

    def counted_margins(start, stop, pairs):  # all rows are one chunk here
        calls["margins"] += len(pairs)
        return margins(start, stop, pairs)

    monkeypatch.setattr(problem, "clipped_gradient", counted_gradient)
    monkeypatch.setattr(problem, "_fill_margins", counted_margins)
    _, outcome, _ = run(problem, Budget(1e4, 1e-6), max_iterations=12, clip_norm=9.0,
                        loss_clip=50.0, step_ratio=0.8)  # fmt: skip
    choices = len(outcome.history["step"])
    iterations = np.count_nonzero(outcome.history["step"])
    assert iterations == 12
    assert calls["clipped_gradient"] == iterations
    # The start's margins once, then those of each direction.
    assert calls["margins"] == choices + 1


@pytest.mark.parametrize(
    ("loss", "ratio", "shrink"),
    [("logistic", 0.8, 0.8), ("logistic", 1.0, 1.0), ("hinge", 0.9, 0.5)],
)
def test_the_largest_candidate_follows_the_steps(loss, ratio, shrink, classification):
    _, outcome, _ = run(
        make(classification, loss), Budget(5.0, 1e-6), splits=60, max_step=4.0, step_ratio=ratio
    )
    taken, expected = [], 4.0
    for step, largest in zip(outcome.history["step"], outcome.history["max_step"], strict=True):
        assert largest == pytest.approx(expected)
        if step > 0.0:
            taken.append(step)
            if len(taken) % 10 == 0:
                expected = 1.1 * max(taken[-10:])
        else:
            expected *= shrink
    assert len(taken) >= 10


def test_noisy_directions_have_short_steps():
    ratios = [
        plan(SHAPE, "dp-agd", Budget(epsilon, 1e-6), splits=100).settings.step_ratio
        for epsilon in (0.1, 0.4, 1.0, 50.0)
    ]
    assert ratios[0] == 0.8 and ratios[-1] == 0.9
    assert ratios == sorted(ratios) and any(0.8 < ratio < 0.9 for ratio in ratios)


@pytest.mark.parametrize("loss", ["hinge", "huber", "squared", "pinball", "sigmoid"])
def test_other_losses(loss, classification):
    problem = make(classification, loss)
    runs = [
        solve(problem, "dp-agd", Budget(5.0, 1e-5), random_state=seed, neighboring_relation=r)
        for seed in (0, 1)
        for r in RELATIONS
    ]
    start = problem.objective(np.zeros(7))
    assert np.mean([problem.objective(r.w) for r in runs]) < 0.95 * start
    assert all(r.privacy.epsilon <= 5.0 for r in runs)


def test_paper_prices():
    settled = plan(SHAPE, "dp-agd", Budget(1.2, 1e-6), calibration="paper")
    part = 1.2 / 120
    gradient, choice = settled.events
    assert choice.epsilon == pytest.approx(part, rel=1e-6)
    sigma = math.sqrt(2 * math.log(1.25e6)) / part
    assert gradient.noise_multiplier == pytest.approx(sigma, rel=1e-6)
    accesses = plan(SHAPE, "dp-agd", Budget(rho=0.1)).settings.accesses
    assert isinstance(accesses.choice, Exponential)


@pytest.mark.parametrize("budget", [Budget(0.1, 1e-8), Budget(1.6, 1e-6)])
def test_the_papers_settings_spend_the_rho_of_its_equation_5_and_no_more(classification, budget):
    _, _, ledger = run(make(classification), budget, calibration="paper")
    spent = [rho_of(event) for event in ledger.events]

    def epsilon(rho):
        return rho + 2.0 * math.sqrt(rho * math.log(1.0 / budget.delta))

    assert epsilon(sum(spent)) <= budget.epsilon
    # What is left does not pay for the dearest gradient and a choice.
    assert epsilon(sum(spent) + 1.2 * max(spent) + spent[1]) > budget.epsilon
    assert budget_filter(budget, "auto").limit > 1.2 * sum(spent)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be"),
        ({"batch": 10**6}, "batch must be"),
        ({"batch": 100, "calibration": "paper"}, "batch must be None for calibration='paper'"),
        ({"accountant": "gdp"}, "accountant must be one of"),
        ({"splits": 0}, "splits must be an integer"),
        ({"gamma": 0.0}, "gamma must be a real number"),
        ({"clip_norm": math.nan}, "clip_norm must be a real number"),
        ({"loss_clip": math.inf}, "loss_clip must be a real number"),
        ({"candidates": 1}, "candidates must be an integer"),
        ({"max_step": 0.0}, "max_step must be a real number"),
        ({"step_ratio": 1.1}, "step_ratio must be a real number"),
        ({"selection_share": 1.0}, "selection_share must be a real number"),
        ({"momentum": 1.0}, "momentum must be a real number"),
        ({"calibration": "loose"}, "calibration must be one of"),
        ({"calibration": "paper", "selection_share": 0.5}, "selection_share must be None"),
        ({"noise": "gumbel"}, "noise must be one of"),
        ({"max_iterations": 0}, "max_iterations must be an integer"),
        ({"alpha": -1.0}, "alpha must be a real number"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_options_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        plan(SHAPE, "dp-agd", Budget(1.0, 1e-6), **options)


def test_paper_prices_need_an_epsilon():
    with pytest.raises(ValueError, match=r"budget must be Budget\(epsilon, delta\)"):
        plan(SHAPE, "dp-agd", Budget(rho=0.1), calibration="paper")
