"""The minimizer with a secret linear term: its law, its charges, what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from dpfast import Budget, BudgetExceeded, Ledger, Problem, ProblemShape, plan
from dpfast.curator import Curator
from dpfast.fused import PerturbedMinimizer
from dpfast.losses import Loss
from dpfast.objectives import Erm, LinearTerm
from dpfast.optimizers import OPTIMIZERS
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out

NAME = "objective-perturbation"
SHAPE = ProblemShape(n_samples=1000, n_features=4, data_norm=1.0)
BUDGETS = [Budget(1.0, 1e-6), Budget(1.0)]


@pytest.mark.parametrize("noise", ["gaussian", "l2-laplace"])
def test_the_linear_term_has_the_declared_law(noise):
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-6; 2/3 and 3/2 of the scale are refused."""
    shape = ProblemShape(1000, 40_000, 1.0, intercept=0.0)
    if noise == "l2-laplace":
        shape = ProblemShape(1000, 3, 1.0, intercept=0.0)
    settled = plan(shape, NAME, Budget(1.0, 1e-6), alpha=1.0, noise=noise)
    rng, scale = SecureGenerator(3), settled.events[0].noise
    if noise == "gaussian":
        sample, law = settled.settings.access.draw(rng), "norm"
    else:
        draws = [settled.settings.access.draw(rng) for _ in range(4000)]
        sample, law = np.linalg.norm(draws, axis=1), "gamma"
    shapes = () if noise == "gaussian" else (3.0,)

    def p_value(factor):
        return kstest(sample / (scale * factor), law, args=shapes).pvalue

    assert p_value(1.0) > 1e-6
    assert p_value(2 / 3) < 1e-6 and p_value(1.5) < 1e-6


def test_the_linear_term_is_finer_than_its_coarse_part():
    """Draws differ below a step of one exact sampler, so they resolve the ideal law."""
    settled = plan(SHAPE, NAME, Budget(1.0, 1e-6), noise="gaussian")
    unit = settled.settings.linear_noise / 2**32
    draws = [settled.settings.access.draw(SecureGenerator(k)) for k in range(50)]
    steps = np.concatenate(draws) / unit
    assert np.abs(steps - np.rint(steps)).max() > 0.25


def test_only_losses_with_a_known_sign_are_one_sided():
    for loss, monotone in [("logistic", True), ("huberized-hinge", True), ("squared-hinge", True),
                           ("huber", False), ("pinball", False)]:  # fmt: skip
        shape = ProblemShape(1000, 4, 1.0, loss)
        settled = plan(shape, NAME, Budget(1.0, 1e-6), noise="gaussian")
        assert settled.events[0].monotone == monotone
        target = [1.0, -1.0] if shape.loss.kind == "classification" else [-3.0, 0.0, 3.0]
        margins = np.linspace(-9.0, 9.0, 2001)
        slopes = [np.sign(shape.loss(margins, np.full(2001, y))[1]) for y in target]
        assert all(len(set(s) - {0.0}) == 1 for s in slopes) == monotone


def test_the_released_point_is_near_the_exact_minimizer(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    for budget, noise in zip(BUDGETS, ("gaussian", "l2-laplace"), strict=True):
        settled = plan(problem, NAME, budget, noise=noise)
        output = settled.events[1]
        b = settled.settings.access.draw(SecureGenerator(5))
        alpha = settled.shape.alpha
        exact = OPTIMIZERS["newton"](LinearTerm(Erm(problem, alpha), b / 500), tolerance=1e-12).w
        released = carry_out(settled, problem, SecureGenerator(5), Ledger(budget)).w
        assert 0.0 < np.linalg.norm(released - exact) < 20 * output.noise + output.sensitivity


NUMBERS = ProblemShape(300, 3, 2.0, "huber", alpha=0.05)


def with_numbers(center=0.0, half=1.0):
    """Numbers in a narrow range, in units of it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (300, 3))
    y = 0.8 + 0.01 * (X @ [1.0, -1.0, 0.5] + rng.standard_normal(300))
    return Problem(X, (y - center) / half, "huber", data_norm=2.0)


@pytest.mark.parametrize("optimizer", ["auto", "lbfgs"])
@pytest.mark.parametrize("loss", ["huber", "pinball"])
def test_other_units_are_those_of_targets_that_were_scaled(loss, optimizer):
    """A release at a center and a half is that of the problem with the targets moved and scaled."""
    center, half = 0.8, 0.03
    loss = Loss(loss, 0.3, 0.2) if loss == "pinball" else Loss(loss)
    shape = replace(NUMBERS, loss=loss)
    settings = {"noise": "l2-laplace", "scale": 0.5, "tolerance": 1e-9, "output_noise": 1e-6}
    more = np.array([0.0, 0.3, 0.0, 0.0])
    access = PerturbedMinimizer(
        shape, "replace_one", more_ridge=more, farthest=100.0, optimizer=optimizer, **settings
    )
    moved = access.answer(with_numbers().with_loss(loss), SecureGenerator(1), center, half)
    plain = PerturbedMinimizer(shape, "replace_one", more_ridge=more, **settings)
    scaled = plain.answer(with_numbers(center, half).with_loss(loss), SecureGenerator(1))
    np.testing.assert_allclose(moved, scaled, atol=2e-5)
    # What is charged does not depend on the units; for rounding it is a bit more.
    assert access.events()[0] == plain.events()[0]
    first, other = access.events()[1].sensitivity, plain.events()[1].sensitivity
    assert other < first < 1.001 * other + 2.0**-45 * 100.0


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("loss", [Loss("huber", 0.5), Loss("pinball", 0.3, 0.2)])
@pytest.mark.parametrize(("center", "half"), [(0.0, 1.0), (0.8, 0.01), (-0.5, 1e-4)])
def test_in_any_units_neighbors_are_as_near_as_charged(loss, relation, center, half):
    """Gradients and curvature of the longest rows, on either side of their targets, in w'."""
    shape = ProblemShape(2, 2, 2.0, loss, alpha=0.05)
    event = made(shape, relation, noise="l2-laplace", farthest=1e4).events()[0]
    stretch = loss.zoomed(half).lipschitz / loss.lipschitz
    long, start = np.array([np.sqrt(2.0), -np.sqrt(2.0)]), np.array([0.0, 0.0, center])

    def gradient(targets):
        rows = np.array([long] * len(targets))
        view = Problem(rows, np.array(targets), loss, data_norm=2.0).with_loss(loss.zoomed(half))
        w = start + half * np.array([0.3, 0.1, -0.2])
        bend = view.hessian(w, 0.0) * len(targets) * half / stretch
        return view.clipped_gradient(w)[0] / stretch, np.linalg.eigvalsh(bend)[-1]

    (one, bend), (other, _), (both, _) = (gradient(y) for y in ([-1.0], [1.0], [-1.0, 1.0]))
    far = one - other if relation == "replace_one" else both - other
    # On one side the slopes of the pinball loss are less steep.
    assert 0.4 * event.sensitivity <= np.linalg.norm(far) <= event.sensitivity
    assert bend <= event.smoothness


def test_targets_in_a_unit_are_those_of_the_loss():
    counts = replace(NUMBERS, loss=Loss("poisson", width=1.0))
    access = made(counts, in_unit=True)
    for point in ((), (0.0,), (np.inf,), (np.nan,), (1.0, 1.0)):
        with pytest.raises(ValueError, match="unit must be positive"):
            access.check(*point)
    for shape, given in ((NUMBERS, {}), (counts, {"farthest": 1.0})):
        with pytest.raises(ValueError, match="in_unit must be False"):
            made(shape, **given, in_unit=True)
    wide = Loss("poisson", width=5.0)
    problem = Problem(np.ones((3, 1)), [0.0, 2.0, 140.0], wide, data_norm=1.0)
    for unit, targets in ((1.0, [0.0, 2.0, np.e]), (1e-310, [0.0, np.e, np.e])):
        np.testing.assert_allclose(problem.in_unit(unit, counts.loss).target, targets)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("loss", [Loss("poisson", width=1.5), Loss("gamma", width=1.0, lowest=0.0)])
@pytest.mark.parametrize("unit", [1e-300, 0.02, 1.0, 50.0])
def test_with_targets_in_any_unit_neighbors_are_as_near_as_charged(loss, relation, unit):
    """The longest rows with the lowest and the highest target, far out and where the loss bends."""
    shape = ProblemShape(2, 2, 2.0, loss, alpha=0.05, max_weight=1.5)
    event = made(shape, relation, noise="l2-laplace", in_unit=True).events()[0]
    declared = replace(loss, width=8.0)
    low, high = declared.target_range
    long = np.array([np.sqrt(2.0), -np.sqrt(2.0)])
    farthest = most = 0.0
    for margin in np.linspace(-4.0, 4.0, 33):
        w, gradients = np.array([0.0, 0.0, margin]), [np.zeros(3)]
        for row, target in ((r, y) for r in (long, -long) for y in (low, high)):
            view = Problem(
                row[None], [target], declared, data_norm=2.0, max_weight=1.5, sample_weight=[9.0]
            ).in_unit(unit, loss)
            gradients.append(view.clipped_gradient(w)[0])
            most = max(most, float(np.linalg.eigvalsh(view.hessian(w, 0.0))[-1]))
        others = gradients[1:] if relation == "replace_one" else gradients[:1]
        far = [float(np.linalg.norm(a - b)) for a in gradients[1:] for b in others]
        farthest = max(farthest, *far)
    assert 0.4 * event.sensitivity <= farthest <= event.sensitivity
    assert most <= event.smoothness


def test_units_that_are_not_covered_are_refused():
    access = made(NUMBERS, farthest=100.0)
    access.check(0.5, 0.1)
    for point, message in [
        ((), "taken with farthest"), ((0.5,), "taken with farthest"),
        ((0.5, 0.001), "center at most 100 times"), ((0.5, 0.0), "half must be positive"),
        ((np.nan, 1.0), "center at most"), ((0.0, np.inf), "half must be positive"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            access.check(*point)
    with pytest.raises(ValueError, match="taken with farthest"):
        made(NUMBERS).check(0.5, 0.1)
    with pytest.raises(ValueError, match="without an intercept"):
        made(replace(NUMBERS, intercept=0.0), farthest=100.0).check(0.5, 0.1)
    with pytest.raises(ValueError, match="farthest must be None for the loss 'logistic'"):
        made(farthest=100.0)
    # Where it starts is rounded in proportion to the ridge there, which is not charged.
    with pytest.raises(ValueError, match="more_ridge must be 0 for the intercept"):
        made(NUMBERS, farthest=100.0, more_ridge=1e9)


def made(shape=None, relation="replace_one", **changes):
    settings = {"noise": "gaussian", "scale": 2.0, "tolerance": 1e-6, "output_noise": 0.1}
    return PerturbedMinimizer(shape or SHAPE.with_alpha(0.1), relation, **{**settings, **changes})


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("noise", ["gaussian", "l2-laplace"])
def test_what_is_charged_follows_from_the_choices(noise, relation):
    """Slope and curvature of a record, the ridge of the sum, twice the distance that is left."""
    access = made(relation=relation, noise=noise)
    linear, output = access.events()
    assert SHAPE.lipschitz <= linear.lipschitz <= SHAPE.lipschitz * (1 + 1e-12)
    assert SHAPE.smoothness <= linear.smoothness <= SHAPE.smoothness * (1 + 1e-12)
    assert 0.1 * 1000 * (1 - 1e-12) <= linear.ridge <= 0.1 * 1000
    assert (linear.noise, output.noise) == (2.0, pytest.approx(0.1))
    assert linear.neighboring_relation == output.neighboring_relation == relation
    distance = 1e-6 / 0.1
    assert 2 * distance <= output.sensitivity <= 2 * distance * 1.001
    tight, loose = made(noise=noise, tolerance=1e-9), made(noise=noise, tolerance=1e-3)
    assert tight.events()[1].sensitivity < 0.01 * output.sensitivity
    assert loose.events()[1].sensitivity > 900.0 * output.sensitivity
    # Twice as many accesses are twice as many events.
    assert access.events(2) == access.events() * 2


def test_it_pays_for_both_at_once_or_for_none(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    access = made(problem.shape.with_alpha(0.1))
    ledger = Ledger(Budget(50.0, 1e-6))
    Curator(problem, ledger, SecureGenerator(0)).release(access)
    assert ledger.events == access.events()
    # The budget pays for the first event, not for both.
    dear, ledger = made(problem.shape.with_alpha(0.1), output_noise=1e-8), Ledger(ledger.budget)
    ledger.check(dear.events()[0])
    with pytest.raises(BudgetExceeded):
        Curator(problem, ledger, SecureGenerator(0)).release(dear)
    assert ledger.events == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": "laplace"}, "noise must be one of"),
        ({"scale": 0.0}, "scale must be"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"output_noise": -1.0}, "stddev must be"),
        ({"optimizer": "svrg"}, "optimizer must work on whole objectives"),
        ({"shape": SHAPE}, "alpha must be"),
        ({"shape": ProblemShape(9, 2, 1.0, "hinge", alpha=0.1)}, "loss must be smooth"),
        ({"shape": ProblemShape(9, 2, 1.0, "sigmoid", alpha=0.1)}, "loss must be convex"),
        ({"shape": ProblemShape(9, 2, 1.0, "squared", alpha=0.1)}, "loss must be of bounded slope"),
    ],
)
def test_what_the_proof_needs_is_asked_for(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        made(**changes)
