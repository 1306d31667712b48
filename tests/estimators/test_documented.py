"""Descriptions that stand once are in the docstring of every estimator that names them."""

import inspect
import re

import pytest

from dpfast.estimators import _documented
from dpfast.tabular import FAMILIES


@pytest.mark.parametrize("estimator", FAMILIES.values())
def test_every_parameter_is_described(estimator):
    text = inspect.getdoc(estimator)
    assert not re.search(r"(?m)^\{", text)
    parameters = text.split("Parameters\n")[1].split("\n\nAttributes")[0]
    described = set(re.findall(r"(?m)^(\w+) :", parameters))
    assert described == set(estimator().get_params())


def test_every_description_is_used():
    named = "".join(inspect.getsource(inspect.getmodule(kind)) for kind in FAMILIES.values())
    assert all(f"    {{{name}}}\n" in named for name in _documented._BY_NAME)


def test_an_estimator_without_a_docstring_stays_so():
    assert _documented.documented(type("Bare", (), {})).__doc__ is None
