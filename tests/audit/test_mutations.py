"""Bugs that libraries of this field have had, put into this one: each must be caught.

A detector is either an audit (statistical, seeds fixed: the same verdict every time; the honest
library passes it with the same seeds) or a contract, which has no chance in it. The docstring of
each test says which.
"""

import dataclasses
import math

import numpy as np
import pytest
from audit.worst_cases import Cell, Pair, WorstCase, canaries, cells, perturbed, whole_fits
from solvers import test_contract

from dpfast import Budget, Problem, ProblemShape, plan, solve
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.optimizers import OPTIMIZERS
from dpfast.optimizers.certificates import Witness
from dpfast.privacy import SAMPLINGS, Ledger, SubsampledGaussianEvent, audit_epsilon
from dpfast.privacy.events import records_apart
from dpfast.queries import gradient
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out

pytestmark = pytest.mark.audit


def cell(name):
    (found,) = (cell for cell in cells() if str(cell) == name)
    return found


def refuted(audited, samples):
    """Whether an audit refutes what the ledger of the run claims."""
    result = audited.audit(samples)
    above_mu = result["measured_mu"] is not None and result["measured_mu"] > result["claimed_mu"]
    return above_mu or result["measured_epsilon"] > result["claimed_epsilon"]


def fails(test, *args):
    """Whether a test of the contract fails, or the library itself refuses to go on."""
    try:
        test(*args)
    except (AssertionError, ValueError, pytest.fail.Exception):
        return True
    return False


OUTPUT = "output-perturbation-certificate-huberized-hinge-{}-approximate"
EDGE = "output-perturbation-edge of the certificate-huberized-hinge-replace_one-approximate"
GRADIENT = "dp-gd-gradients-huberized-hinge-{}-approximate"


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_sensitivity_halved(relation, monkeypatch):
    """Audit: of a minimizer, and of a gradient."""
    audited = (cell(OUTPUT.format(relation)), 3000), (cell(GRADIENT.format(relation)), 5000)
    assert not any(refuted(*one) for one in audited)
    honest = ProblemShape.minimizer_sensitivity
    monkeypatch.setattr(ProblemShape, "minimizer_sensitivity", lambda *a: 0.5 * honest(*a))
    monkeypatch.setattr(gradient, "records_apart", lambda r: 0.5 * records_apart(r))
    assert all(refuted(*one) for one in audited)


def test_relation_confused(monkeypatch):
    """Audit: what is right for an added record is refuted for a replaced one, and only there."""
    monkeypatch.setattr(gradient, "records_apart", lambda relation: 1)
    assert refuted(cell(GRADIENT.format("replace_one")), 5000)
    assert not refuted(cell(GRADIENT.format("add_or_remove_one")), 5000)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_relation_confused_in_the_accounting_of_samples(sampling):
    """Contract: an event of amplification by sampling exists for the proved relation alone."""
    (other,) = {"replace_one", "add_or_remove_one"} - {SAMPLINGS[sampling]}
    with pytest.raises(ValueError, match="must go with neighboring_relation"):
        SubsampledGaussianEvent(
            sensitivity=1.0, stddev=1.0, dimension=1, batch=1, n_samples=10, where="",
            sampling=sampling, neighboring_relation=other,
        )  # fmt: skip


def test_ledger_skipped(monkeypatch, classification):
    """Contract (no report without events) and audit (of what the empty ledger claims, 0)."""
    honest = Curator.release

    def for_free(self, access, *arguments):
        with monkeypatch.context() as free:
            free.setattr(Ledger, "spend_all", lambda self, events: None)
            return honest(self, access, *arguments)

    monkeypatch.setattr(Curator, "release", for_free)
    contract = test_contract.TestEveryFit().test_ledger_holds_the_planned_events

    def given():
        problem = test_contract.problem_for("dp-gd", *classification)
        return [solve(problem, "dp-gd", Budget(1.0, 1e-6))], "replace_one"

    assert fails(lambda: contract(*given()))
    assert refuted(cell(OUTPUT.format("replace_one")), 2000)
    monkeypatch.undo()
    assert not fails(lambda: contract(*given()))


@pytest.mark.parametrize("solver", ["output-perturbation", "dp-nag", "dp-whitened-gd", "privgene"])
def test_spent_after_the_data_was_touched(solver, monkeypatch):
    """Contract: with an empty ledger no data is touched.

    (diffprivlib's accountant checks before a fit and spends after it.)
    """
    contract = test_contract.TestEverySolver().test_an_empty_ledger_stops_it_before_data
    budget = Budget(1.0, 1e-6)
    given = plan(test_contract.SHAPES[solver], solver, budget), budget
    assert not fails(contract, *given)
    honest = Curator.release

    def look_first(self, access, *arguments):
        self._answer(access, *self._fixed(access.query, arguments))
        return honest(self, access, *arguments)

    monkeypatch.setattr(Curator, "release", look_first)
    # privgene asks whether it can afford everything before its first choice.
    monkeypatch.setattr(Ledger, "check", lambda self, *events, **named: None)
    assert fails(contract, *given)


@pytest.mark.parametrize("lie", ["late", "half"])
def test_an_account_that_is_paid_late_or_in_part(lie, monkeypatch, classification):
    """Contract: at the first look it has all that is reported in the end."""
    contract = test_contract.test_an_account_has_paid_for_all_of_it_before_the_first_look
    bills, whole = Ledger._bills, Ledger._whole

    def late(self, new):
        return bills(self, new) if self._events else {}

    def half(self, relation):
        return whole(self, relation)[: len(self._plan) // 2] or self._plan[:1]

    with monkeypatch.context() as honest:
        assert not fails(contract, "dp-whitened-gd", classification, honest)
    name, liar = ("_bills", late) if lie == "late" else ("_whole", half)
    monkeypatch.setattr(Ledger, name, liar)
    with monkeypatch.context() as watching:
        assert fails(contract, "dp-whitened-gd", classification, watching)


def test_noise_reused(monkeypatch, classification):
    """Contract (no two fits share noise) and audit (of releases whose noise is always the same)."""
    honest, drawn = SecureGenerator.discrete_gaussian, {}

    def again(self, scale, n):
        if (scale, n) not in drawn:
            drawn[scale, n] = honest(self, scale, n)
        return drawn[scale, n]

    contract = test_contract.TestEveryFit().test_every_weight_is_noisy
    problem, budget = test_contract.problem_for("dp-gd", *classification), Budget(1.0, 1e-6)

    def runs():
        return [solve(problem, "dp-gd", budget) for _ in range(3)]

    assert not fails(contract, runs())
    monkeypatch.setattr(SecureGenerator, "discrete_gaussian", again)
    assert fails(contract, runs())
    assert refuted(cell(EDGE), 500)


def _with_intercept(loss, relation, kind):
    """A canary that is absent contributes nothing, to the intercept neither: its weight is 0."""
    X, y, present = np.zeros((40, 1)), np.full(40, 1e6), np.zeros(40)
    X[0] = present[0] = 1.0
    first, second = (
        Problem(X, y, "huber", data_norm=1.0, sample_weight=weight, max_weight=1.0)
        for weight in (present, np.zeros(40))
    )
    options = {"alpha": 2.0, "noise": "gaussian"}
    return Pair(first, second, options, lambda outcome: outcome.w.sum())


@pytest.mark.parametrize("forgotten", [False, True])
def test_intercept_left_out_of_the_norm(forgotten, monkeypatch):
    """Audit, with rows at the bound of the norm and a column of ones beside them.

    (DP-AGD's objective perturbation appends the intercept to rows that were normalized before;
    diffprivlib does not count it.)
    """
    case = WorstCase("output-perturbation", "intercept", ("huber",), _with_intercept, perturbed)
    audited = Cell(case, "huber", "add_or_remove_one", "approximate")
    if forgotten:
        monkeypatch.setattr(ProblemShape, "row_norm", property(lambda self: self.data_norm))
    assert refuted(audited, 2500) == forgotten


@pytest.mark.parametrize("ignored", [False, True])
def test_certificate_ignored(ignored, monkeypatch):
    """Audit of an optimizer that stops anywhere and claims a certificate.

    (lowy2021 bound its error in expectation only.)  The witness refuses its point, and a
    deterministic optimizer takes its place.
    """

    def wander(objective, *, tolerance, w0=None, **settings):
        exact = OPTIMIZERS["newton"](objective, tolerance=1e-13)
        return dataclasses.replace(exact, w=3.0 * exact.w, certificate=0.0, converged=True)

    def pair(loss, relation, kind):
        first, second = canaries(loss, relation, columns=1, rest=39)
        return Pair(first, second, {"alpha": 2.0, "optimizer": "gd", "noise": "gaussian"})

    monkeypatch.setitem(OPTIMIZERS, "gd", wander)
    case = WorstCase("output-perturbation", "wandering", ("huberized-hinge",), pair, perturbed)
    audited = Cell(case, "huberized-hinge", "replace_one", "approximate")
    if ignored:
        monkeypatch.setattr(Witness, "certifies", lambda *given: True)
    assert refuted(audited, 2000) == ignored


def _without_empty_rows(honest):
    def init(self, X, y, *args, **named):
        kept = np.asarray(X).any(axis=1)
        honest(self, np.asarray(X)[kept], np.asarray(y)[kept], *args, **named)

    return init


def test_n_taken_from_filtered_rows(monkeypatch):
    """Contract (neighbors have one shape, so one plan) and audit (of the width of the noise).

    Absent records are dropped before n is counted, so that their number, and with it the noise,
    says whether one is missing.
    """
    budget = Budget(0.5)

    def shapes_and_widths():
        X, y = np.array([[1.0], [1.0]]), np.ones(2)
        problems = [
            Problem(Z, y, "huberized-hinge", data_norm=1.0, intercept=0.0)
            for Z in (X, X * [[0.0], [1.0]])
        ]
        widths = []
        for seed, problem in enumerate(problems):
            settled = plan(problem, "dp-gd", budget, alpha=1.0, iterations=1, step=1e-6,
                           neighboring_relation="add_or_remove_one")  # fmt: skip
            rng = SecureGenerator(seed)
            widths.append(-np.abs(whole_fits(settled, problem, rng, Pair(*problems), 1000)))
        refutes = audit_epsilon(*widths, confidence=0.999).value > budget.epsilon
        return problems[0].shape == problems[1].shape, refutes

    assert shapes_and_widths() == (True, False)
    monkeypatch.setattr(Problem, "__init__", _without_empty_rows(Problem.__init__))
    assert shapes_and_widths() == (False, True)


def test_noise_scale_taken_for_a_standard_deviation(monkeypatch):
    """Audit: Laplace noise of deviation b where the scale b was asked for (DPAccGradMethods)."""
    audited = cell("dp-gd-gradients-huberized-hinge-replace_one-pure")
    assert not refuted(audited, 10_000)
    honest = SecureGenerator.discrete_laplace
    monkeypatch.setattr(
        SecureGenerator,
        "discrete_laplace",
        lambda self, scale, n: honest(self, math.floor(scale / math.sqrt(2.0)), n),
    )
    assert refuted(audited, 10_000)


@pytest.mark.parametrize("halved", [False, True])
def test_the_event_states_the_noise_that_is_drawn(halved, monkeypatch):
    """Contract: what the sampler is asked for is what the ledger says."""
    problem, _ = canaries("huber", "replace_one", columns=1, rest=3)
    budget, drawn = Budget(1.0, 1e-6), []
    settled = plan(problem, "dp-gd", budget, iterations=3, alpha=1.0)
    if halved:
        honest = Gaussian._noise
        monkeypatch.setattr(
            Gaussian, "_noise", lambda self, rng: (_halve(self), honest(self, rng))[1]
        )
    monkeypatch.setattr(
        SecureGenerator,
        "discrete_gaussian",
        lambda self, scale, n: drawn.append(scale) or np.zeros(n, dtype=np.int64),
    )
    steps = [mechanism.grid_step for mechanism in settled.settings.accesses]
    ledger = Ledger(budget)
    carry_out(settled, problem, SecureGenerator(1), ledger)
    stated = [event.stddev for event in ledger.events for _ in range(event.count)]
    found = [scale * step for scale, step in zip(drawn, steps, strict=True)]
    assert (found == stated) is not halved


@pytest.mark.parametrize("forgotten", [False, True])
def test_rows_of_a_person_that_has_more_of_them_than_was_learned(forgotten, monkeypatch):
    """Audit: rows that count as was learned of all persons, whatever their own person has."""
    honest = Problem.with_rows_per_group

    def by_the_learned_number_alone(self, rows):
        sizes = self._groups.sizes
        longer = np.repeat(np.maximum(1.0, sizes / rows), sizes)
        problem = honest(self, rows)
        return problem._weighing(problem.sample_weight * longer)

    if forgotten:
        monkeypatch.setattr(Problem, "with_rows_per_group", by_the_learned_number_alone)
    audited = cell("dp-whitened-gd-counts of persons-poisson-replace_one-approximate")
    assert refuted(audited, 120) == forgotten


def _halve(mechanism):
    vars(mechanism)["integer_scale"] //= 2
