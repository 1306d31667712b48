"""Whole solvers on neighbors, with the same releases forced upon both."""

import numpy as np
import pytest
import scipy.sparse
from replay import replay

from dpfast import Budget, Loss, Problem, plan
from dpfast.queries import RelativeGradient
from dpfast.solvers import SOLVERS, Plan
from dpfast.solvers.along_prior import AlongSettings, run_along
from dpfast.solvers.multinomial import plan_multinomial, run_multinomial
from dpfast.solvers.prior import Coefficients, plan_refit, run_refit
from dpfast.solvers.public_rows import from_rows, plan_with_rows, run_with_rows

RELATIONS = ("replace_one", "add_or_remove_one")
BUDGETS = (Budget(2.0, 1e-6), Budget(2.0), Budget(rho=0.2), Budget(mu=1.0))
LOSSES = ("logistic", "huber", "squared", "sigmoid")
# Of many equal accesses a few say as much.
FEW = {
    "dp-svrg": {"epochs": 2}, "dp-agd": {"splits": 12}, "privgene": {"generations": 3},
    "exponential": {"alpha": 0.5}, "localized-exponential": {"alpha": 0.5},
}  # fmt: skip
for name in ("dp-gd", "dp-hb", "dp-nag", "dp-nag-opt", "dp-masg", "dp-masg-opt"):
    FEW[name] = {"iterations": 5}


# Their objectives are means over the public number of rows, or their batches are shares of it: the
# absent one contributes nothing.
MEANS = (
    "output-perturbation", "objective-perturbation", "exponential", "localized-exponential",
    "dp-sgd", "dp-svrg",
)  # fmt: skip


def neighbors(loss, relation, *, sparse=False, seed=0, classes=0, mean=False, targets=None):
    """Two problems that differ in a long row of another kind than the rest.

    Targets of a log link are two, the ends of their range if not given.
    """
    rng = np.random.default_rng(seed)
    n, d = 60, 3
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = rng.choice([-1.0, 1.0], n)
    X[7], y[7] = [9.0, 0.0, 0.0], 1.0
    weight = rng.uniform(0.0, 3.0, n)
    weight[7] = 3.0
    other_X, other_y, other_weight = X.copy(), y.copy(), weight.copy()
    if relation == "replace_one":
        other_X[7], other_y[7] = [-9.0, 0.0, 0.0], -1.0
    elif mean:
        other_weight[7] = 0.0
    kept = np.arange(n) != (7 if relation == "add_or_remove_one" and not mean else -1)
    made = []
    for rows, target, w in (
        (X, y, weight), (other_X[kept], other_y[kept], other_weight[kept])
    ):  # fmt: skip
        if isinstance(loss, Loss):
            target = np.where(target > 0, *(targets or loss.target_range[::-1]))
        problem = Problem(
            scipy.sparse.csr_array(rows) if sparse else rows, target, loss, data_norm=1.5,
            sample_weight=w, max_weight=2.0,
        )  # fmt: skip
        if classes:
            number = np.arange(n)[kept] if made else np.arange(n)
            problem = problem.with_labels((number + (target > 0)) % classes)
        made.append(problem)
    return made


def cases():
    for name, solver in SOLVERS.items():
        for relation in solver.relations:
            budget = next(b for b in BUDGETS if b.kind in solver.budgets)
            loss = next(k for k in LOSSES if serves(solver, Loss(k)))
            yield pytest.param(name, relation, budget, loss, id=f"{name}-{relation}")


def serves(solver, loss):
    from dpfast import ProblemShape

    try:
        plan(ProblemShape(60, 3, 1.5, loss), solver.name, next(
            b for b in BUDGETS if b.kind in solver.budgets
        ), neighboring_relation=solver.relations[0], **FEW.get(solver.name, {}))  # fmt: skip
    except (ValueError, TypeError):
        return False
    return True


@pytest.mark.parametrize(("name", "relation", "budget", "loss"), list(cases()))
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_solvers_ask_what_was_released_for_and_pay_for_what_they_see(
    name, relation, budget, loss, sparse
):
    data, neighbor = neighbors(loss, relation, sparse=sparse, mean=name in MEANS)
    settled = plan(data, name, budget, neighboring_relation=relation, **FEW.get(name, {}))
    assert isinstance(settled, Plan)
    replay(settled, data, neighbor)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie", "negative-binomial"])
def test_log_links(name, relation):
    loss = Loss(name, width=1.0)
    data, neighbor = neighbors(loss, relation)
    settled = plan(data, "dp-whitened-gd", BUDGETS[0], neighboring_relation=relation)
    found = replay(settled, data, neighbor)
    assert max(apart / charge for apart, charge in found) > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_public_rows_beforehand(loss, relation):
    data, neighbor = neighbors(loss, relation)
    rng = np.random.default_rng(3)
    # Short ones, in whose coordinates private rows are long enough to be clipped.
    public = rng.uniform(-0.5, 0.5, (20, data.shape.n_features))
    known = from_rows(data.shape, public, np.sign(rng.standard_normal(20)))
    settled = plan_with_rows(data.shape, known, BUDGETS[0], neighboring_relation=relation)
    found = replay(settled, data, neighbor, run_with_rows)
    assert max(apart / charge for apart, charge in found) > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize(
    ("sign", "variance", "mu"),
    [(1.0, 0.1, 0.4), (-1.0, 0.1, 0.4), (-9.0, 1e-6, 40.0), (-9.0, 1e-6, 1.2), (1.0, 1e4, 40.0)],
    ids=["right", "wrong", "left", "left for gradients that labels cut", "vague"],
)
def test_coefficients_that_are_known(loss, relation, sign, variance, mu):
    data, neighbor = neighbors(loss, relation)
    w = sign * np.array([1.0, 0.0, -0.5, 0.2])
    known = Coefficients(w, variance * np.eye(4), 3.0)
    settled = plan_refit(data.shape, known, Budget(mu=mu), neighboring_relation=relation)
    found = replay(settled, data, neighbor, run_refit)
    assert max(apart / charge for apart, charge in found) > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("labels", ["told", "noise"])
@pytest.mark.parametrize("prior", ["none", "public rows"])
def test_fewer_rows_than_weights(relation, labels, prior):
    rng, columns = np.random.default_rng(5), 60 if prior == "none" else 90
    X = rng.uniform(-0.2, 0.2, (60, columns)) + rng.choice([-1.0, 1.0], (60, 1))
    y = np.sign(X.sum(axis=1)) if labels == "told" else rng.choice([-1.0, 1.0], 60)
    X[7], y[7] = 9.0, 1.0
    other, sign, kept = X.copy(), y.copy(), np.arange(60) >= 0
    other[7], sign[7] = -9.0, 1.0
    kept[7] = relation == "replace_one"
    data = Problem(X, y, "logistic", data_norm=8.0)
    neighbor = Problem(other[kept], sign[kept], "logistic", data_norm=8.0)
    mu = 1.9 if prior == "none" else 3.6
    budget = Budget(mu=mu if relation == "replace_one" else 0.5 * mu)
    if prior == "public rows":
        known = from_rows(data.shape, X[8:40], y[8:40])
        settled = plan_with_rows(data.shape, known, budget, neighboring_relation=relation)
    else:
        settled = plan(data, "dp-whitened-gd", budget, neighboring_relation=relation)
        assert "one direction" in settled.settings.regime
    assert prior == "none" or isinstance(settled.settings, AlongSettings)
    run = SOLVERS["dp-whitened-gd"].run if prior == "none" else run_along
    found = replay(settled, data, neighbor, run)
    shares = [apart / charge for apart, charge in found]
    assert max(shares) > 0.3
    assert labels == "noise" or max(shares[-5:]) > 0.3  # along the direction


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_few_rows_a_weight(relation):
    """The end of the descent is confirmed by gradients in three numbers."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-0.2, 0.2, (60, 80)) + rng.choice([-1.0, 1.0], (60, 1))
    y, other, kept = np.sign(X.sum(axis=1)), X.copy(), np.arange(60) >= 0
    X[7], y[7], other[7], kept[7] = 9.0, 1.0, -9.0, relation == "replace_one"
    data = Problem(X, y, "logistic", data_norm=9.0)
    neighbor = Problem(other[kept], y[kept], "logistic", data_norm=9.0)
    budget = Budget(mu=5.4 if relation == "replace_one" else 2.7)
    settled = plan(data, "dp-whitened-gd", budget, neighboring_relation=relation)
    assert any(access.query.dimension == 3 for access, _ in settled.accesses[-1:])
    found = replay(settled, data, neighbor)
    assert max(apart / charge for apart, charge in found[-5:]) > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
def test_several_classes(relation):
    data, neighbor = neighbors("logistic", relation, classes=3)
    settled = plan_multinomial(data.shape, 3, BUDGETS[0], neighboring_relation=relation)
    found = replay(settled, data, neighbor, run_multinomial)
    assert max(apart / charge for apart, charge in found) > 0.3


# ---- persons ------------------------------------------------------------------------------------

PERSONS = ("one row against many", "many alike against many opposed", "all rows but a few")


def persons(
    kind, loss, relation, *, sparse=False, classes=0, most=None, weighted=False, mean=False,
    targets=None,
):  # fmt: skip
    """Two problems that differ in all rows of one person, whose rows lie between the others'.

    With `mean`, an absent person has a row of no weight.
    """
    rng = np.random.default_rng(4)
    n, d = 160, 3
    ids = rng.integers(0, 60, n)
    ids[:60] = np.arange(60)
    X, y = rng.uniform(-1.0, 1.0, (n, d)), rng.choice([-1.0, 1.0], n)
    one = np.array([[9.0, 0.0, 0.0]])
    many = {"all rows but a few": 900}.get(kind, 30)
    sides = [(np.repeat(one, many, axis=0), np.ones(many))]
    single = kind == "one row against many" or mean
    sides.append((one, -np.ones(1)) if single else (sides[0][0], -np.ones(many)))
    if relation == "add_or_remove_one" and not mean:
        sides[1] = (one[:0], np.ones(0))
    made = []
    for rows, target in sides:
        owner = np.append(ids[ids != 7], np.full(len(target), 7))
        points = np.vstack([X[ids != 7], rows])
        labels = np.append(y[ids != 7], target)
        # Everybody's rows stay in their order.
        places = np.argsort(np.append(np.arange(np.sum(ids != 7)), np.linspace(0, 90, len(rows))))
        if isinstance(loss, Loss):
            labels = np.where(labels > 0, *(targets or loss.target_range[::-1]))
        weight = np.full(len(owner), 2.0) if not weighted else 0.5 + owner % 3
        weight[owner == 7] = 0.0 if mean and made and relation == "add_or_remove_one" else 2.0
        points = points[places]
        problem = Problem(
            scipy.sparse.csr_array(points) if sparse else points, labels[places], loss,
            data_norm=1.5, groups=owner[places], max_rows_per_group=most,
            sample_weight=weight[places], max_weight=2.0,
        )  # fmt: skip
        if classes:
            problem = problem.with_labels(((owner + (labels > 0)) % classes)[places])
        made.append(problem)
    return made


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", PERSONS)
@pytest.mark.parametrize(
    "how",
    [{}, {"sparse": True, "weighted": True}, {"most": 5, "weighted": True}, {"most": 5}],
    ids=["dense", "sparse", "limited, weighted", "limited"],
)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_whole_persons_are_protected_by_what_is_paid(kind, relation, how, loss):
    data, neighbor = persons(kind, loss, relation, **how)
    settled = plan(data, "auto", BUDGETS[0], neighboring_relation=relation)
    assert settled.solver == "dp-whitened-gd"
    found = replay(settled, data, neighbor)
    gradients = [apart / charge for apart, charge in found[-settled.settings.iterations :]]
    assert max(gradients) > (0.6 if kind == "one row against many" else 0.95)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("kind", [None, *PERSONS])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_a_ridge_of_ones_own(kind, loss, relation, alpha):
    """It changes the coordinates by what was released; gradients are clipped in these as in any."""
    data, neighbor = persons(kind, loss, relation) if kind else neighbors(loss, relation)
    settled = plan(data, "dp-whitened-gd", BUDGETS[0], neighboring_relation=relation, alpha=alpha)
    found = replay(settled, data, neighbor)
    gradients = [apart / charge for apart, charge in found[-settled.settings.iterations :]]
    assert max(gradients) > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", PERSONS)
@pytest.mark.parametrize("most", [None, 5])
def test_whole_persons_of_counts(kind, relation, most):
    data, neighbor = persons(kind, Loss("poisson", width=1.0), relation, most=most, weighted=True)
    settled = plan(data, "auto", BUDGETS[0], neighboring_relation=relation)
    found = replay(settled, data, neighbor)
    assert max(apart / charge for apart, charge in found) > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", [None, *PERSONS])
def test_costs_whose_lines_begin_below_a_learned_mean(kind, relation, monkeypatch):
    """Gradients are of a loss that depends on what was released."""
    loss, few, sizes = Loss("tweedie", 1.5, width=3.0), (0.02, 0.0), []
    seen = RelativeGradient.check_point

    def noted(self, *point):
        sizes.extend(point[2:])
        seen(self, *point)

    monkeypatch.setattr(RelativeGradient, "check_point", noted)
    if kind is None:
        data, neighbor = neighbors(loss, relation, targets=few)
    else:
        data, neighbor = persons(kind, loss, relation, weighted=True, targets=few)
    settled = plan(data, "dp-whitened-gd", Budget(mu=20.0), neighboring_relation=relation)
    found = replay(settled, data, neighbor)
    assert len(sizes) > settled.settings.iterations and min(sizes) > 1.2
    assert max(apart / charge for apart, charge in found[-settled.settings.iterations :]) > 0.25


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", PERSONS)
def test_whole_persons_whose_columns_and_targets_have_ranges(kind, relation):
    """Of which the loss's corner is in units; it takes much budget to look for so few."""
    data, neighbor = persons(kind, "pinball", relation, weighted=True)
    budget = Budget(60.0, 1e-6)
    settled = plan(data, "auto", budget, neighboring_relation=relation)
    assert settled.settings.learning.ranges and settled.settings.target_range
    found = replay(settled, data, neighbor)
    assert max(apart / charge for apart, charge in found[: -settled.settings.iterations]) > 0.5


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", PERSONS)
def test_whole_persons_of_several_classes(kind, relation):
    data, neighbor = persons(kind, "logistic", relation, classes=3)
    settled = plan_multinomial(data.shape, 3, BUDGETS[0], neighboring_relation=relation)
    found = replay(settled, data, neighbor, run_multinomial)
    assert max(apart / charge for apart, charge in found) > 0.5


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", PERSONS)
@pytest.mark.parametrize("loss", ["logistic", "squared", Loss("poisson", width=1.0)], ids=str)
@pytest.mark.parametrize("most", [None, 5])
def test_whole_persons_of_estimates(kind, loss, relation, most):
    data, neighbor = persons(kind, loss, relation, most=most)
    settled = plan(data, "dp-newton", BUDGETS[0], neighboring_relation=relation, cov_type="cluster")
    found = replay(settled, data, neighbor)
    assert max(apart / charge for apart, charge in found) > 0.5


def weighers():
    for name, solver in SOLVERS.items():
        for relation in solver.relations:
            if solver.weighs_groups:
                loss = next(
                    k for k in ("squared", "poisson", "logistic") if serves(solver, Loss(k))
                )
                yield pytest.param(name, loss, relation, id=f"{name}-{relation}")


@pytest.mark.parametrize(("name", "loss", "relation"), list(weighers()))
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_rows_that_count_a_part_of_a_person(name, loss, relation, sparse):
    kind = Loss("poisson", width=1.0) if loss == "poisson" else loss
    budget = next(b for b in BUDGETS if b.kind in SOLVERS[name].budgets)
    data, neighbor = persons(PERSONS[1], kind, relation, sparse=sparse, most=5, mean=name in MEANS)
    settled = plan(data, name, budget, neighboring_relation=relation, **FEW.get(name, {}))
    replay(settled, data, neighbor)
