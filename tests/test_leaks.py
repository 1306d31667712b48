"""What is public and taken from private data is warned about, reported, and can be refused.

A new place that infers something gets a row here.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from refusals import refused

import dpfast
from dpfast import Budget, LogisticRegression, PrivacyLeakWarning, Problem, solve


def rows(n=200):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def problem_norm(data_norm, strict):
    X, y = rows()
    problem = Problem(X, y, data_norm=data_norm, strict=strict)
    return solve(problem, budget=Budget(1.0, 1e-6)).privacy


def problem_weight(max_weight, strict):
    X, y = rows()
    problem = Problem(
        X,
        y,
        data_norm=1.0,
        sample_weight=np.linspace(0.5, 1.0, len(y)),
        max_weight=max_weight,
        strict=strict,
    )
    return solve(problem, budget=Budget(1.0, 1e-6)).privacy


def declared(name, value, strict, cls):
    """The report of an estimator, of whose two declarations one has this value."""
    X, y = rows()
    bounds = {"target_bounds": value} if name == "target_bounds" else {"classes": value}
    positive = cls().__sklearn_tags__().target_tags.positive_only
    model = cls(data_norm=1.0, strict=strict, **bounds)
    return model.fit(X, np.exp(y) if positive else y).privacy_


# What is inferred: how to make it with a declared or with no value, and a valid declaration.
PLACES = {
    "Problem-data_norm": (problem_norm, "data_norm", 1.0),
    "Problem-max_weight": (problem_weight, "max_weight", 1.0),
    "LogisticRegression-data_norm": (
        lambda value, strict: (
            (
                LogisticRegression(data_norm=value, classes=[-1, 1], strict=strict).fit(*rows())
            ).privacy_
        ),
        "data_norm",
        1.0,
    ),
}
ESTIMATORS = sorted(
    name
    for name in dpfast.__all__
    if hasattr(getattr(dpfast, name), "get_params")
    and "strict" in getattr(dpfast, name)().get_params()
)
for name in ESTIMATORS:
    cls = getattr(dpfast, name)
    labels = "classes" in cls().get_params()
    what, bounds = ("classes", [-1, 1]) if labels else ("target_bounds", (0.1, 3.0))
    make = partial(declared, what, cls=cls)
    PLACES[f"{name}-{what}"] = make, "class" if labels else what, bounds


@pytest.mark.parametrize("place", PLACES)
def test_an_inferred_value_warns_and_stands_in_the_report(place):
    make, name, _ = PLACES[place]
    with pytest.warns(PrivacyLeakWarning, match=name) as caught:
        report = make(None, False)
    assert sum(issubclass(w.category, PrivacyLeakWarning) for w in caught) == 1
    (note,) = report.notes
    assert name in note
    assert "not covered by the guarantee" in str(report)


@pytest.mark.parametrize("place", PLACES)
def test_strict_refuses_it_before_anything_is_spent(place):
    make, name, _ = PLACES[place]
    with refused(ValueError, rf"{name}.* must be given when strict=True"):
        make(None, True)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_declared_value_is_silent(place, strict):
    make, _, value = PLACES[place]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        assert make(value, strict).notes == ()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_estimator_infers_anything_when_strict(name):
    X, y = rows()
    with refused(ValueError, "must be given when strict=True"):
        getattr(dpfast, name)(strict=True).fit(X, y)
