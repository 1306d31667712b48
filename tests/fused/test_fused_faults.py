"""A fused access that states too little is caught by what its steps do to neighbors: the table.

Replay cannot look into these accesses.  So each has a measure here: how much its secret steps, made
without noise on the two data sets that are farthest apart, give away beside the noise that is
drawn.  Half of a sensitivity, the other relation's, and a clip that lets twice as much through are
put into each that can have them, and the measure must pass what is charged.
"""

import inspect
import math
from copy import copy

import numpy as np
import pytest

import dpfast.fused
from dpfast import Loss, Problem
from dpfast.fused import (
    BallSample,
    LastIterate,
    PerturbedMinimizer,
    SampledGradient,
    SampledSteps,
    ball_sample,
    perturbed_minimizer,
)
from dpfast.mechanisms import Access
from dpfast.queries import BatchSum, ClippedGradient, GradientStep
from dpfast.shape import ProblemShape

RELATIONS = ("replace_one", "add_or_remove_one")
# Of losses of two sides, a record and the same with the opposite target are farthest apart.
LOSS, N, WEIGHT, ZERO = Loss("huber", 0.5), 4, 2.0, np.zeros(1)
SAMPLE = np.arange(N)


def neighbors(relation, **settings):
    """All rows but one are zeros; the one is as long as allowed, and weighs as much."""
    X = np.zeros((N, 1))
    X[0] = 1.5
    for target, weight in ((1.0, WEIGHT), (-1.0, WEIGHT if relation == "replace_one" else 0.0)):
        yield Problem(
            X, np.full(N, target), LOSS, data_norm=1.5, intercept=0.0, max_weight=WEIGHT,
            sample_weight=np.r_[weight, np.ones(N - 1)], **settings,
        )  # fmt: skip


def apart(relation, value, **settings):
    first, second = (value(problem) for problem in neighbors(relation, **settings))
    return float(np.linalg.norm(first - second))


def shape(relation, **settings):
    return next(neighbors(relation, **settings)).shape


# ---- what is given away, and what is charged -----------------------------------------------------


def ball_samples(relation):
    """The range of a record's loss over the ball, which is reached along its row."""
    ball = BallSample(ProblemShape(N, 1, 1.0, intercept=0.0, alpha=0.02), 2.0, relation, radius=3.0)
    w = np.linspace(-3.0, 3.0, 4001)
    changes = {"replace_one": np.logaddexp(0.0, -w) - np.logaddexp(0.0, w)}.get(
        relation, np.logaddexp(0.0, -w)
    )
    return float(np.ptp(changes)) * ball.scale / N, ball.events()[0].epsilon


def last_iterates(relation):
    """The distance of one step's ends over its noise, times what the iterations make of it."""
    given = shape(relation, alpha=0.1)
    access = LastIterate(
        given, relation, mu=0.5, step=0.3, iterations=7, radius=2.0, start=np.zeros(1)
    )
    far = apart(relation, lambda rows: access._step.prepare(rows, ZERO), alpha=0.1)
    return far / access._mechanism.stddev * access._factor, access.events()[0].mu


def perturbed_minimizers(relation):
    """The distance of gradients, and of points that are certified; whichever is charged less."""
    given = shape(relation, alpha=0.1)
    access = PerturbedMinimizer(
        given, relation, noise="gaussian", scale=3.0, tolerance=1e-3, output_noise=0.1
    )
    linear, output = access.events()
    far = apart(relation, lambda rows: rows.clipped_gradient(ZERO)[0])
    # Where the losses are flat the ridge alone holds a point: its gradient is α times its distance.
    points = 2.0 * access.tolerance / 0.1
    return max(far / linear.sensitivity, points / output.sensitivity), 1.0


def sampled_gradients(relation):
    """The distance of sums over a sample of all rows, in units of the noise."""
    access = SampledGradient(
        shape(relation), N, 0.5, noise="gaussian", neighboring_relation=relation, clip_norm=0.4
    )
    far = apart(relation, lambda rows: access._sum.over_sample(rows, ZERO, SAMPLE))
    (event,) = access.events()
    return far / access._mechanism.stddev, event.sensitivity / event.stddev


def sampled_steps(relation):
    """The same of a batch of all rows."""
    query = BatchSum(
        shape(relation), "poisson" if relation == RELATIONS[1] else "fixed-size", N, 0.4
    )
    access = SampledSteps(query, 2.0, relation, n_steps=3)
    far = apart(relation, lambda rows: query(rows, ZERO, SAMPLE))
    (event,) = access.events()
    return far / access.stddev, event.sensitivity / event.stddev


# ---- faults --------------------------------------------------------------------------------------


def half_of(kind):
    honest = kind.sensitivity
    return kind, "sensitivity", lambda self, relation: 0.5 * honest(self, relation)


def other_relation(kind):
    honest = kind.sensitivity
    return kind, "sensitivity", lambda self, relation: honest(self, RELATIONS[1])


def half_of_a_record():
    honest = perturbed_minimizer.linear_event

    def event(given, relation, noise, ridge, scale):
        made = honest(given, relation, noise, ridge, scale)
        object.__setattr__(made, "lipschitz", 0.5 * made.lipschitz)
        return made

    return perturbed_minimizer, "linear_event", event


def half_of_a_price():
    honest = ball_sample._problem_price

    def price(*arguments):
        range_, rounding = honest(*arguments)
        return 0.5 * range_, rounding

    return ball_sample, "_problem_price", price


def half_of_a_deviation():
    """The output's sensitivity by half of the tolerance."""
    honest = perturbed_minimizer.Gaussian

    def mechanism(noise, *, sensitivity, **settings):
        return honest(noise, sensitivity=0.5 * sensitivity, **settings)

    return perturbed_minimizer, "Gaussian", mechanism


def one_record(module):
    return module, "records_apart", lambda relation: 1


def looser(kind, method):
    honest = getattr(kind, method)

    def call(self, *arguments):
        loose = copy(self)
        vars(loose)["clip_norm"] = 2.0 * self.clip_norm
        return honest(loose, *arguments)

    return kind, method, call


BOTH, REPLACED = RELATIONS, RELATIONS[:1]
#: Of each access the measure, the relations that it serves, and faults with theirs.
TABLE = {
    BallSample: (ball_samples, BOTH, [
        (half_of_a_price, BOTH), (lambda: one_record(ball_sample), REPLACED),
    ]),
    LastIterate: (last_iterates, BOTH, [
        (lambda: half_of(GradientStep), BOTH), (lambda: other_relation(GradientStep), REPLACED),
    ]),
    PerturbedMinimizer: (perturbed_minimizers, BOTH, [
        (half_of_a_record, BOTH), (half_of_a_deviation, BOTH),
    ]),
    SampledGradient: (sampled_gradients, REPLACED, [
        (lambda: half_of(ClippedGradient), REPLACED),
        (lambda: other_relation(ClippedGradient), REPLACED),
        (lambda: looser(ClippedGradient, "over_sample"), REPLACED),
    ]),
    SampledSteps: (sampled_steps, BOTH, [
        (lambda: half_of(BatchSum), BOTH), (lambda: other_relation(BatchSum), REPLACED),
        (lambda: looser(BatchSum, "__call__"), BOTH),
    ]),
}  # fmt: skip


def test_the_table_is_complete():
    kinds = {
        kind
        for _, kind in inspect.getmembers(dpfast.fused, inspect.isclass)
        if issubclass(kind, Access)
    }
    assert set(TABLE) == kinds


HONEST = [(kind, relation) for kind, (_, served, _) in TABLE.items() for relation in served]
FAULTS = [
    (kind, number, relation)
    for kind, (_, _, faults) in TABLE.items()
    for number, (_, relations) in enumerate(faults)
    for relation in relations
]


@pytest.mark.parametrize(("kind", "relation"), HONEST)
def test_what_is_given_away_is_charged_and_reached(kind, relation):
    given, charged = TABLE[kind][0](relation)
    assert 0.9 * charged < given <= charged
    assert math.isfinite(charged)


@pytest.mark.parametrize(("kind", "number", "relation"), FAULTS)
def test_a_fault_is_seen(kind, number, relation, monkeypatch):
    measure, _, faults = TABLE[kind]
    monkeypatch.setattr(*faults[number][0]())
    given, charged = measure(relation)
    assert given > 1.01 * charged
