"""The table of other people's bugs (docs/other_bugs.md): every row names tests, and they exist."""

import ast
import importlib
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast import LinearRegression, Problem, ProblemShape

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "other_bugs.md"


@lru_cache
def names_in(path):
    return set(re.findall(r"^ *def (test_\w+)\(", path.read_text(encoding="utf-8"), flags=re.M))


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not part of a package")
def test_every_row_names_tests_that_exist():
    rows = PAGE.read_text(encoding="utf-8").split("| --- | --- | --- |\n")[1].strip().splitlines()
    assert len(rows) >= 20
    for row in rows:
        cells = row.strip("|").split(" | ")
        assert len(cells) == 3
        named = re.findall(r"`tests/([\w/]+\.py)::(\w+)`", cells[2])
        assert named, f"no test beside {cells[1]!r}"
        for file, test in named:
            assert test in names_in(TESTS / file), f"{file} has no {test}"


@pytest.mark.parametrize("intercept", [0.0, 1.0])
def test_curvature_grows_with_the_square_of_the_row_norm(intercept):
    """The Hessian of one row at the bound of its norm, by finite differences of the gradient."""
    for norm in (0.5, 3.0):
        problem = Problem([[norm]], [1.0], data_norm=norm, intercept=intercept)
        row = np.array([norm, intercept]) if intercept else np.array([norm])
        direction = row / np.linalg.norm(row)
        ahead, behind = (problem.clipped_gradient(step * direction)[0] for step in (1e-4, -1e-4))
        curvature = float(np.linalg.norm(ahead - behind)) / 2e-4
        shape = ProblemShape(1, 1, norm, intercept=intercept)
        assert curvature == pytest.approx(shape.smoothness, rel=1e-6)
        assert shape.smoothness == pytest.approx(0.25 * (norm**2 + intercept**2))


def regression(seed=0, factor=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (200, 2))
    return factor * X, X.sum(axis=1)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_bounds_that_begin_at_zero_bring_noise(fit_intercept):
    X, y = regression()
    first, second = (
        LinearRegression(
            epsilon=1.0, delta=1e-6, data_norm=2.0, target_bounds=(0.0, 2.0),
            fit_intercept=fit_intercept,
        ).fit(X, y)
        for _ in range(2)
    )  # fmt: skip
    assert np.all(first.coef_ != second.coef_)
    for model in (first, second):
        assert 0.0 < model.privacy_.epsilon <= 1.0
        noise = [event.noise for event in model.privacy_.events]
        assert noise and min(noise) > 0.0


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rows_are_clipped_without_an_intercept(fit_intercept):
    """Rows beyond the bound count as those on it: a hundred times longer, the same model."""
    fits = []
    for factor in (1.0, 100.0):
        X, y = regression(factor=factor)
        X *= 1.0 if factor > 1.0 else 3.0 / np.linalg.norm(X, axis=1)[:, None]
        model = LinearRegression(
            epsilon=1.0, delta=1e-6, data_norm=0.01, target_bounds=(0.0, 2.0),
            fit_intercept=fit_intercept, random_state=1,
        ).fit(X, y)  # fmt: skip
        fits.append(np.append(model.coef_.ravel(), model.intercept_))
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-6)


def test_only_public_names_of_scikit_learn_are_used():
    """No module with an underscore, and no such name that a module does not list in `__all__`."""
    for path in Path(dpfast.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "sklearn" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                modules, names = [alias.name for alias in node.names], []
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules, names = [node.module], [alias.name for alias in node.names]
            else:
                continue
            for module in modules:
                if module.split(".")[0] == "sklearn":
                    assert "._" not in module, f"{path.name} imports {module}"
                    listed = getattr(importlib.import_module(module), "__all__", ())
                    private = [n for n in names if n.startswith("_") and n not in listed]
                    assert not private, f"{path.name} imports {private} of {module}"
