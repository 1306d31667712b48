"""Where public rows and a descent meet: conjugate formulas, and a rehearsal that is one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dpfast import Budget, Problem
from dpfast.queries.coordinates import column_transform
from dpfast.solvers import _power_prior
from dpfast.solvers._power_prior import Course, PublicLaw, weigh
from dpfast.solvers._whitened_descent import way_and_noise
from dpfast.solvers.prior import _Rehearsal, from_rows, plan_with_prior


@pytest.fixture
def law():
    mean, own = np.array([1.0, -2.0, 0.5, 0.3]), np.diag([1.0, 1.0, 1.0, 0.1])
    return PublicLaw(mean, own + np.diag([40.0, 60.0, 50.0, 70.0]), own, 3)


def course(deviation=0.1, missed=0.0):
    return Course(np.diag([0.8, 0.5, 0.9, 1.0]), np.full(4, missed), deviation**2 * np.eye(4))


def test_one_power_is_the_product_of_two_normal_laws(law, monkeypatch):
    monkeypatch.setattr(_power_prior, "_POWERS", (1.0,))
    v = np.array([0.9, -0.8, 0.2, 0.1])
    found, power = weigh(v, course(), law)
    M, precision = course().matrix, law.precision + 100.0 * course().matrix ** 2
    assert_allclose(found, np.linalg.solve(precision, law.precision @ law.mean + 100.0 * M @ v))
    assert power == 1.0


def test_what_the_rehearsal_missed_is_taken_off(law, monkeypatch):
    monkeypatch.setattr(_power_prior, "_POWERS", (1.0,))
    v = np.array([0.9, -0.8, 0.2, 0.1])
    assert_allclose(weigh(v + 0.3, course(missed=0.3), law)[0], weigh(v, course(), law)[0])


def test_public_rows_count_as_far_as_the_descent_agrees(law):
    M = course().matrix
    agrees, high = weigh(M @ law.mean, course(), law)
    differs, low = weigh(-M @ law.mean, course(0.01), law)
    assert high > 0.5 and low < 0.05
    assert_allclose(agrees, law.mean, rtol=0.1)
    assert_allclose(differs, -law.mean, rtol=0.1)


def test_a_law_that_counts_for_nothing_is_what_was_known_beforehand(law):
    mean, covariance = law.tempered(0.0, 4.0)
    assert_allclose(mean, 0.0, atol=1e-15)
    assert_allclose(np.diag(covariance), [0.25, 0.25, 0.25, 10.0])
    assert_allclose(law.tempered(1.0, 1.0)[0], law.mean)
    assert law.share(law.mean) == pytest.approx(1.0)


def settled(loss, rows=400):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (rows, 3)), rng.choice([-1.0, 1.0], rows)
    problem = Problem(X, y, loss, data_norm=2.0)
    prior = from_rows(problem.shape, X, y)
    return problem, prior, plan_with_prior(problem.shape, prior, Budget(mu=0.05)).settings


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_the_rehearsal_answers_as_the_query_would(loss):
    """On the same rows; its lengths are upper bounds."""
    problem, prior, settings = settled(loss)
    query = settings.descent.gradient.query
    transform = column_transform(problem.shape, np.full(3, 0.2), np.array([0.1, 0.5, 2.0]))
    rehearsal = _Rehearsal(problem.shape, prior, 1.0)
    w = np.array([0.5, -1.0, 2.0, 0.1])
    told = rehearsal.release(settings.descent.gradient, rehearsal.fix(query, transform), w)
    assert_allclose(told, query(query.prepare(problem, transform), w), rtol=1e-6)


def test_the_way_of_a_descent_is_that_of_a_quadratic():
    descent = settled("logistic")[2].descent
    way, noise = way_and_noise(descent, 400, np.array([0.0, 1.0, 6.0]))
    assert way[0] == 0.0 and 0.2 < way[1] < way[2] < 1.05
    assert noise[0] > noise[1] > noise[2] > 0.0
