"""The README's examples run; what it and the page on benchmarks say of the package holds."""

import re
import statistics
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from bench.report import number, read_tables
from bench.suites import baseline
from dpfast.losses import loss_names
from dpfast.solvers import SOLVERS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8") if README.exists() else ""
HOME = (
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    if TEXT
    else ""
)

pytestmark = pytest.mark.skipif(not TEXT, reason="the README is not part of an installed package")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, flags=re.S))
def test_example_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_first_example_is_short():
    first = re.search(r"```python\n(.*?)```", TEXT, flags=re.S).group(1)
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


def test_it_is_short():
    assert len(re.sub(r"\]\([^)]*\)", "]", TEXT).split()) <= 750


def test_tables_are_complete():
    text = (ROOT / "docs" / "guide" / "solvers.md").read_text(encoding="utf-8")
    for name in (*SOLVERS, *loss_names()):
        assert f"`{name}`" in text, f"{name} is missing from the tables of docs/guide/solvers.md"


def test_links_are_absolute_and_lead_somewhere():
    """On the package index the README stands alone."""
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(targets) > 20
    for target in targets:
        assert target.startswith((f"{HOME}/blob/main/", f"{HOME}/raw/main/")), target
        path, _, anchor = re.sub(r".*?/(blob|raw)/main/", "", target).partition("#")
        assert (ROOT / path).is_file(), target
        if anchor:
            text = (ROOT / path).read_text(encoding="utf-8")
            titles = re.findall(r"^#+ (.*)$", text, flags=re.M)
            assert anchor in {title.lower().replace(" ", "-") for title in titles}, target


# ---- numbers ------------------------------------------------------------------------------------

RESULTS = ROOT / "bench" / "results"


# The second machine, in a folder of its own.
OTHER = "amd-epyc/"


def _tables(suite: str) -> dict[str, list[dict[str, str]]]:
    text = (RESULTS / f"{suite}.md").read_text(encoding="utf-8")
    assert "A quick run" not in text, f"{suite}.md is of a quick run"
    return read_tables(text)


def _range(values: Iterable[float]) -> str:
    found = sorted(values)
    return " to ".join(f"{value:.2g}" for value in (found[0], found[-1]))


def _machine(suite: str) -> str:
    """The processor of a committed report, as the pages call it."""
    facts = {row["what"]: row["value"] for row in _tables(suite)["Where this was measured"]}
    return re.sub(r"\(R\)| Processor", "", facts["cpu"])


def _kernels() -> str:
    """Clipped gradient and objective › share of read limit"""
    shares = [
        number(row["share of read limit"])
        for row in _tables("kernels")["Clipped gradient and objective"]
        if row["competitor"] == "dpfast avx512"
    ]
    return (
        f"read dense float64 rows for a gradient at {_range(shares)} of the speed of memory "
        f"({_machine('kernels')})"
    )


def _solvers() -> str:
    """Every solver against itself in NumPy, 100,000 x 20 › speed, on both machines"""
    n = 100_000
    speeds = [
        [
            number(row["speed"])
            for row in _tables(f"{machine}baseline")[
                f"Every solver against itself in NumPy, {n:,} x 20"
            ]
        ]
        for machine in (OTHER, "")
    ]
    (count, found, median), (other_count, other_found, other_median) = (
        (len(one), _range(one), f"{statistics.median(one):.2g}") for one in speeds
    )
    return (
        f"On {n:,} rows, {count} solvers are {found} times as fast as with NumPy, {median} times "
        f"in the median, on an {_machine(OTHER + 'baseline')}. On an {_machine('baseline')}, where "
        f"NumPy still summed losses that nobody reads, {other_count} were {other_found} times as "
        f"fast, {other_median} times in the median"
    )


def _fits() -> str:
    """Time of a fit › time relative to scikit-learn, from 100,000 rows on, on both machines"""
    shares = {
        (machine, name): [
            number(row["time relative to scikit-learn"])
            for row in _tables(f"{machine}baseline")["Time of a fit"]
            if row["competitor"] == name and number(row["rows"]) >= 100_000
        ]
        for machine in ("", OTHER)
        for name in (baseline.OURS, baseline.OUTPUT)
    }
    (output,), (ours,) = shares[OTHER, baseline.OUTPUT], shares[OTHER, baseline.OURS]
    return (
        f"From 100,000 rows on, output perturbation takes {_range(shares['', baseline.OUTPUT])} "
        f"times as long as scikit-learn's non-private fit, the default solver "
        f"{_range(shares['', baseline.OURS])} times, on the {_machine('baseline')}; on the "
        f"{_machine(OTHER + 'baseline')}, at 100,000 rows, {output:.2g} and {ours:.2g} times"
    )


def _peers() -> str:
    """Adult › log-loss, at epsilon = 1 under add_or_remove_one"""
    found = {
        row["competitor"]: number(row["log-loss"])
        for row in _tables("peers")["Adult"]
        if row["epsilon"] in ("1", "-")
    }
    ours, opacus, free = (
        found[name] for name in ("dpfast, add_or_remove_one", "opacus", "scikit-learn")
    )
    return (
        f"On Adult at ε = 1, δ = 1e-6 under `add_or_remove_one`, dpfast has a test log-loss of "
        f"{ours:.3f}, opacus {opacus:.3f}; without privacy, scikit-learn has {free:.3f}"
    )


def _frontier() -> str:
    """In short › cells; all problems › ratio of auto's excess to the best one's"""
    tables = _tables("frontier")
    short = {row["what"]: row["cells"] for row in tables["In short"]}
    cells = short["cells (problem, relation, epsilon)"]
    kept = short["auto within 10 % of the oracle's best solver, or better"]
    ratios = [number(row["ratio"]) for rows in tables.values() for row in rows if "ratio" in row]
    assert len(ratios) == number(cells)
    return (
        f"in {kept} of {cells} cells (problem, relation, ε) it is within 10 % of the best "
        f"solver that was tuned on the answers, or better; in the median its excess loss is "
        f"{statistics.median(ratios):.2f} times as large"
    )


def _persons() -> str:
    """Made panels › share of the rows' excess that whole persons have, where labels differ"""
    shares = {
        rows: _range(
            number(row["share"])
            for row in _tables("persons")["Made panels"]
            if row["labels alike"] == "0" and row["rows a person"] == str(rows)
        )
        for rows in (5, 20)
    }
    return (
        f"the loss above the best model's is {shares[5]} times that of paying for every row; "
        f"with 20 rows, {shares[20]} times"
    )


def _price() -> str:
    """Dense rows › processor time of the default solver in units of lbfgs"""
    tables = _tables("price")
    times = _range(
        number(row["dp-whitened-gd"])
        for title in ("Rows in the unit ball", "Rows standardized")
        for row in tables[title]
    )
    return f"A fit takes {times} times the processor time of scikit-learn's lbfgs"


def _intervals() -> str:
    """Coverage and width at epsilon = 1, of logistic models with even classes"""
    even = ("plain", "correlated", "heavy-tailed", "misspecified", "strong", "no signal", "power")
    rows = [
        row
        for row in _tables("inference")["epsilon = 1"]
        if row["table"] in even and row["competitor"] == "robust"
    ]
    held = sorted(f"{100.0 * number(row['coverage']):.0f}" for row in rows)
    return (
        f"hold {held[0]} to {held[-1]}% of the time and are "
        f"{_range(number(row['width']) for row in rows)} times as wide as without privacy"
    )


@pytest.mark.parametrize("claim", (_persons, _price, _intervals))
def test_numbers_of_the_front_page_are_those_of_the_committed_results(
    claim: Callable[[], str],
) -> None:
    assert claim() in " ".join(README.read_text(encoding="utf-8").split())


def test_times_of_the_front_page_carry_their_machine() -> None:
    text = " ".join(README.read_text(encoding="utf-8").split())
    (sentence,) = re.findall(re.escape(_price()) + r".*?\(\[price\]", text)
    assert _machine("price") in sentence


def test_the_table_of_intervals_is_that_of_the_report() -> None:
    text = (ROOT / "docs" / "guide" / "standard_errors.md").read_text(encoding="utf-8")
    of = {
        (row["table"], title[-1]): row
        for title, rows in _tables("inference").items()
        for row in rows
        if row.get("competitor") in ("robust", "cluster")
    }
    shown = re.findall(r"^\| ([^|]+) \| [\d,]+ × \d+ \| (.+) \|$", text, flags=re.M)
    assert {name for name, _ in shown} == {name for name, _ in of}
    for name, cells in shown:
        rows = [of.get((name, epsilon), {}) for epsilon in "12"]
        assert cells == " | ".join(
            " / ".join(row.get(key, "").lstrip(drop) or "–" for row in rows)
            for key, drop in (("coverage", "0"), ("width", ""), ("refused", ""))
        )


CLAIMS = (_kernels, _solvers, _fits, _peers, _frontier)
PAGE = ROOT / "docs" / "benchmarks.md"
SECTION = " ".join(PAGE.read_text(encoding="utf-8").split()) if TEXT else ""


@pytest.mark.parametrize("claim", CLAIMS)
def test_numbers_are_those_of_the_committed_results(claim: Callable[[], str]) -> None:
    assert claim() in SECTION


def test_every_number_of_the_benchmarks_is_checked() -> None:
    left = SECTION
    for claim in CLAIMS:
        left = left.replace(claim(), "")
    left = re.sub(r"\]\([^)]*\)|`[^`]*`", "", left)  # targets of links, code
    assert not re.findall(r"\d+", left), left


def test_figures_are_drawn_from_committed_results() -> None:
    figures = re.findall(r"!\[[^\]]*\]\([^)]*bench/results/([^)]*)\)", SECTION)
    assert len(figures) == 3
    for figure in figures:
        assert (RESULTS / figure).with_suffix(".md").exists(), figure
