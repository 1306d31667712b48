"""The four forms of a budget, and what is refused."""

import math

import numpy as np
import pytest

from dpfast.privacy import Budget


@pytest.mark.parametrize(
    ("budget", "kind", "unit", "limit", "delta"),
    [
        (Budget(1.0), "pure", "epsilon", 1.0, 0.0),
        (Budget(2), "pure", "epsilon", 2.0, 0.0),
        (Budget(1.0, 1e-6), "approximate", "epsilon", 1.0, 1e-6),
        (
            Budget(epsilon=np.float64(1.0), delta=np.float32(0.5)),
            "approximate",
            "epsilon",
            1.0,
            0.5,
        ),
        (Budget(rho=0.5), "zcdp", "rho", 0.5, 1e-6),
        (Budget(rho=0.5, delta=1e-9), "zcdp", "rho", 0.5, 1e-9),
        (Budget(mu=1.5), "gdp", "mu", 1.5, 1e-6),
    ],
)
def test_kinds(budget, kind, unit, limit, delta):
    assert (budget.kind, budget.unit, budget.limit, budget.delta) == (kind, unit, limit, delta)
    assert type(budget.limit) is float
    assert Budget(**budget.to_dict()) == budget
    assert eval(repr(budget)) == budget


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({}, ValueError, "exactly one"),
        ({"epsilon": 1.0, "rho": 1.0}, ValueError, "exactly one"),
        ({"mu": 1.0, "rho": 1.0}, ValueError, "exactly one"),
        ({"delta": 1e-6}, ValueError, "exactly one"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"epsilon": math.nan}, ValueError, "epsilon"),
        ({"epsilon": math.inf}, ValueError, "epsilon .* without privacy, use scikit-learn"),
        ({"epsilon": 1e7}, ValueError, "epsilon"),
        ({"epsilon": True}, TypeError, "epsilon"),
        ({"epsilon": "1"}, TypeError, "epsilon"),
        ({"epsilon": 1.0, "delta": -1e-9}, ValueError, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, ValueError, "delta"),
        ({"epsilon": 1.0, "delta": math.nan}, ValueError, "delta"),
        ({"epsilon": 1.0, "delta": 1e-305}, ValueError, "delta"),
        ({"epsilon": 1.0, "delta": False}, TypeError, "delta"),
        ({"epsilon": 1.0, "delta": "1e-6"}, TypeError, "delta"),
        ({"rho": 0.0}, ValueError, "rho"),
        ({"rho": math.inf}, ValueError, "rho"),
        ({"rho": 1.0, "delta": 0.0}, ValueError, "delta"),
        ({"mu": -1.0}, ValueError, "mu"),
        ({"mu": 1e4}, ValueError, "mu"),
    ],
)
def test_bad_values_name_the_argument(arguments, error, says):
    with pytest.raises(error, match=says):
        Budget(**arguments)


def test_a_budget_cannot_be_changed():
    budget = Budget(1.0)
    with pytest.raises(AttributeError):
        budget.epsilon = 2.0
