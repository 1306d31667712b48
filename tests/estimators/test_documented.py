"""Descriptions that stand once, with the class that has the parameter, are in every docstring."""

import inspect
import re
from dataclasses import dataclass

import pytest

from dpfast._documented import _sections, documented
from dpfast.estimators._base import PrivateLinearModel
from dpfast.tabular import FAMILIES


def named(section):
    return re.findall(r"(?m)^(\w+)[ ,]", section)


@pytest.mark.parametrize("estimator", FAMILIES.values())
def test_every_parameter_is_described_once(estimator):
    described = named(_sections(estimator)["Parameters"])
    assert sorted(described) == sorted(estimator().get_params())
    assert len(set(named(_sections(estimator)["Attributes"]))) >= 5


@pytest.mark.parametrize("estimator", FAMILIES.values())
def test_nothing_is_described_that_is_no_parameter(estimator):
    for kind in estimator.__mro__:
        if kind.__module__.startswith("dpfast."):
            assert set(named(_sections(kind).get("Parameters", ""))) <= set(
                inspect.signature(estimator).parameters
            )


@pytest.mark.parametrize("made", [lambda kind: kind, dataclass])
def test_an_estimator_without_a_docstring_stays_so(made):
    """As all are with python -OO; a dataclass has its signature then."""
    bare = made(type("Bare", (PrivateLinearModel,), {}))
    text = bare.__doc__
    assert documented(bare).__doc__ == text
