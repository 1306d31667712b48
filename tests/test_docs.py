"""The documentation names what there is. (That it builds without warnings, .ci/run checks.)"""

import ast
import importlib.util
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
import sklearn.linear_model

import dpfast
from dpfast import LogisticRegression, TableModel, cli
from dpfast.solvers import SOLVERS
from dpfast.tabular import FAMILIES, TableSchema, schema

DOCS = Path(__file__).parent.parent / "docs"
pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="the documentation is not part of an installed package"
)


def page(name):
    return (DOCS / "guide" / name).read_text(encoding="utf-8")


def test_every_command_and_exit_code_is_described():
    text = page("command_line.md")
    for module in cli.COMMANDS:
        assert f"`dpfast {module.__name__.rsplit('.', 1)[1]}" in text
    documented = re.findall(r"^\* (\d+) ", cli.__doc__, flags=re.M)
    assert documented == re.findall(r"^\| (\d+) \|", text, flags=re.M)


def test_everything_public_has_an_entry_in_the_api():
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    (pages,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "API"
    )
    listed, modules = set(), set()
    for _, entries in ast.literal_eval(pages).values():
        for module, names in entries.items():
            modules.add(module)
            if names is not None:
                listed |= set(names)
            elif importlib.util.find_spec(module) is not None:
                listed |= set(vars(importlib.import_module(module)))
    assert set(dpfast.__all__) - {"__version__"} <= listed
    assert {"dpfast.estimators", "dpfast.preprocessing", "dpfast.plotting"} <= modules


@pytest.mark.parametrize("module", ["", ".mechanisms", ".objectives", ".privacy", ".queries"])
def test_documented_parameters_are_those_of_the_signature(module):
    """Whoever reads a docstring passes parameters by the names that it gives."""
    public = importlib.import_module("dpfast" + module)
    found = 0
    for name in public.__all__:
        thing = getattr(public, name)
        text = inspect.getdoc(thing) or ""
        if not callable(thing) or "\nParameters\n---" not in text:
            continue
        section = text.split("\nParameters\n", 1)[1].split("\n\n", 1)[0]
        documented = {
            word.lstrip("*")
            for line in re.findall(r"^(\S.*?) :", section, flags=re.M)
            for word in line.split(", ")
        }
        signature = inspect.signature(thing).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in signature.values()):
            assert documented <= set(signature), name
            found += 1
    assert found >= 5


def test_the_table_of_solvers_says_what_they_serve():
    written = {"pure": "pure ε", "approximate": "(ε, δ)", "zcdp": "zCDP", "gdp": "GDP"}
    rows = re.findall(r"^\| (`[a-z].+?) \| (.+?) \|", page("solvers.md"), flags=re.M)
    found = set()
    for names, guarantee in rows:
        for name in set(re.findall(r"`([\w-]+)`", names)) & set(SOLVERS):
            budgets, relations = SOLVERS[name].budgets, SOLVERS[name].relations
            said = [kind for kind, words in written.items() if words in guarantee]
            assert sorted(said if "every kind" not in guarantee else written) == sorted(budgets)
            assert ("both relations" in guarantee) == (len(relations) == 2), name
            found.add(name)
    assert found == set(SOLVERS)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_s_page_names_what_it_releases(name):
    """Whose docstring proves what a record can change."""
    named = re.findall(r"`~?(dpfast\.(?:queries|fused|mechanisms)[\w.]*)`", SOLVERS[name].doc)
    assert named
    for target in named:
        module, _, last = target.rpartition(".")
        assert hasattr(importlib.import_module(module), last), target


def test_suites_that_are_named_exist():
    suites = {path.stem for path in (DOCS.parent / "bench" / "suites").glob("[a-z]*.py")}
    named = re.findall(r"python -m bench ([a-z0-9 ]+)", page("papers.md"))
    assert named
    assert {word for words in named for word in words.split()} <= {*suites, "papers"}


def test_the_calls_of_the_papers_algorithms_run():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (200, 2))
    problem = dpfast.Problem(X, np.where(X[:, 0] > 0, 1, -1), "logistic", data_norm=1.0)
    names = {"solve": dpfast.solve, "Budget": dpfast.Budget, "problem": problem}
    found = set()
    for cell in re.findall(r'^\|.*\| (`"[a-z].*?) \|$', page("papers.md"), flags=re.M):
        call, *others = re.findall(r"`(.+?)`", cell)
        solver, options = call.split(", ", 1)
        for name in (solver, *others):
            result = eval(f"solve(problem, {name}, {options})", names)
            assert np.isfinite(result.w).all() and result.w.any()
            found.add(name.strip('"'))
    papers = {name for name in SOLVERS if "papers" in SOLVERS[name].run.__module__}
    assert found >= (papers - {"privgene", "dp-svrg"}) | {"output-perturbation"}


SELF_CONTAINED = ("papers", "persons", "priors", "rare_events", "several_fits", "standard_errors")


@pytest.mark.filterwarnings("ignore::dpfast.errors.RepeatedFitWarning")
@pytest.mark.parametrize("name", SELF_CONTAINED)
def test_what_a_guide_prints_runs_as_it_is_copied(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page(f"{name}.md"), flags=re.S):
        exec(compile(code, name, "exec"), names)
    assert any(isinstance(value, dpfast.LogisticRegression) for value in names.values())


def test_parameters_that_are_named_exist():
    known = {
        name
        for estimator in (dpfast.LogisticRegression, dpfast.HuberRegressor, dpfast.LinearSVC,
                          dpfast.QuantileRegressor, dpfast.TweedieRegressor,
                          dpfast.NegativeBinomialRegressor)
        for name in inspect.signature(estimator).parameters
    }  # fmt: skip
    for table in re.findall(r"^\| [^|]+ \| ([^|]+) \|", page("migration.md"), flags=re.M):
        for code in re.findall(r"`(?:[A-Z]\w+)\(([a-z_]+)=", table):
            assert code in known, code


def test_the_page_on_tables_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", page("your_table.md"), flags=re.S)
    exec(compile(code, "your_table.md", "exec"), {})
    assert "Differential privacy with epsilon" in capsys.readouterr().out
    assert TableModel.load(tmp_path / "model.json").classes_.tolist() == ["no", "yes"]


def test_every_entry_on_the_page_on_tables_is_one():
    text = page("your_table.md")
    rows = re.findall(r"^\| (`[\[{].*?`(?:, `\[.*?`)?) \|", text, flags=re.M)
    entries = [json.loads(code) for row in rows for code in re.findall(r"`(.+?)`", row)]
    assert len(entries) == 14
    for entry in entries:
        bounds = {"columns": {"a": entry, "y": ["no", "yes"]}, "target": "y"}
        assert TableSchema.from_bounds(bounds).features[0].name == "a"
    for role in re.findall(r'^\| `"(\w+)"` \|', text, flags=re.M):
        assert role in schema._ROLES
    for family in FAMILIES:
        assert f"| `{family}`" in text


def test_suspicions_in_the_table_follow_from_the_formula():
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+) % \| ([\d.]+) % \|$",
                      page("choose_epsilon.md"), flags=re.M)  # fmt: skip
    assert len(rows) == 6
    for epsilon, factor, rare, even in rows:
        e = 2.718281828459045 ** float(epsilon)
        assert float(factor.replace(",", "")) == pytest.approx(e, rel=5e-3)
        for prior, shown in ((0.01, rare), (0.5, even)):
            assert float(shown) == pytest.approx(
                100 * prior * e / (1 - prior + prior * e), abs=0.06
            )


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_elsewhere_are_those_of_the_page_of_questions(classes):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2000, 2))
    y = np.digitize(X[:, 0], np.linspace(-1.0, 1.0, classes + 1)[1:-1])
    model = LogisticRegression(data_norm=0.8, classes=range(classes), random_state=0).fit(X, y)
    names = {"sklearn": sklearn, "model": model}
    exec(re.findall(r"```python\n(scorer.*?)```", page("faq.md"), flags=re.S)[0], names)
    short = X * np.minimum(1.0, 0.8 / np.linalg.norm(X, axis=1, keepdims=True))
    r = model.least_probability_
    found = (names["scorer"].predict_proba(short) + r) / (1.0 + classes * r)
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-12)
