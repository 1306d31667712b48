"""The README's examples run; what it and the page on benchmarks say of the package holds."""

import re
import statistics
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from bench import kernel_cases
from bench.harness import Document, Record
from bench.suites import baseline, frontier
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


def _document(suite: str) -> Document:
    return Document.from_json((RESULTS / f"{suite}.json").read_text(encoding="utf-8"))


def _records(suite: str) -> list[Record]:
    document = _document(suite)
    assert not document.quick, f"{suite}.json is of a quick run"
    return document.records


def _range(values: Iterable[float]) -> str:
    found = sorted(values)
    return " to ".join(f"{value:.2g}" for value in (found[0], found[-1]))


def _machine(suite: str) -> str:
    """The processor of a committed result, as the pages call it."""
    return re.sub(r"\(R\)| Processor", "", str(_document(suite).environment["cpu"]))


def _kernels() -> str:
    """clipped gradient and objective › speed › reading X"""
    best = "dpfast avx512"
    speeds = [
        r.speed[kernel_cases.READ]
        for r in _records("kernels")
        if (r.group, r.competitor) == (kernel_cases.GRADIENT, best)
    ]
    return (
        f"read dense float64 rows for a gradient at {_range(speeds)} of the speed of memory "
        f"({_machine('kernels')})"
    )


def _solvers() -> str:
    """solver › speed › the same in NumPy, at 100,000 rows, on both machines"""
    n = 100_000
    speeds = [
        [
            r.speed[baseline.TWIN]
            for r in _records(f"{machine}baseline")
            if (r.group, r.competitor, r.case["n"]) == (baseline.SOLVER, baseline.OURS, n)
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
    """fit › speed › scikit-learn, from 100,000 rows on, on both machines"""
    shares = {
        (machine, name): [
            1.0 / r.speed[baseline.SKLEARN]
            for r in _records(f"{machine}baseline")
            if r.group == "fit" and r.competitor == name and r.case["n"] >= 100_000
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
    """Adult › log_loss, at epsilon = 1 under add_or_remove_one"""
    found = {
        r.competitor: r.values
        for r in _records("peers")
        if r.group == "Adult" and r.case.get("epsilon", 1.0) == 1.0
    }
    ours, opacus, free = (
        found[name] for name in ("dpfast, add_or_remove_one", "opacus", "scikit-learn")
    )
    return (
        f"On Adult at ε = 1, δ = 1e-6 under `add_or_remove_one`, dpfast has a test log-loss of "
        f"{ours['log_loss']:.3f}, opacus {opacus['log_loss']:.3f}; without privacy, scikit-learn "
        f"has {free['log_loss']:.3f}"
    )


def _frontier() -> str:
    """all cells › auto's excess over the best one's"""
    lines = frontier.frontier(_records("frontier"))
    kept = sum(line["ratio"] <= 1.1 or line["behind"] <= 0.0 for line in lines)
    ratio = statistics.median(line["ratio"] for line in lines)
    return (
        f"in {kept} of {len(lines)} cells (problem, relation, ε) it is within 10 % of the best "
        f"solver that was tuned on the answers, or better; in the median its excess loss is "
        f"{ratio:.2f} times as large"
    )


def _persons() -> str:
    """made panels › excess of whole persons over that of rows, where labels are not alike"""
    excess: dict[tuple[object, ...], dict[str, float]] = {}
    for r in _records("persons"):
        if r.group == "made panels" and not r.case["labels"]:
            case = r.case["rows"], r.case["alike"], r.case["epsilon"]
            excess.setdefault(case, {})[r.competitor] = r.values["excess"]
    shares = {
        rows: _range(
            found["whole persons"] / found["at most m rows"]
            for (number, *_), found in excess.items()
            if number == rows
        )
        for rows in (5, 20)
    }
    return (
        f"the excess loss is {shares[5]} times that of paying for every row; with 20 rows, "
        f"{shares[20]} times"
    )


def _price() -> str:
    """dense › processor time of the default solver in units of lbfgs"""
    times = _range(
        1.0 / r.speed["scikit-learn"]
        for r in _records("price")
        if r.group in ("in the unit ball", "standardized") and r.competitor == "dp-whitened-gd"
    )
    return f"A fit takes {times} times the processor time of scikit-learn's lbfgs"


@pytest.mark.parametrize("claim", (_persons, _price))
def test_numbers_of_the_front_page_are_those_of_the_committed_results(
    claim: Callable[[], str],
) -> None:
    for path in (README, ROOT / "docs" / "index.md"):
        assert claim() in " ".join(path.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("path", [README, ROOT / "docs" / "index.md"], ids=lambda p: p.name)
def test_times_of_the_front_page_carry_their_machine(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split())
    (sentence,) = re.findall(re.escape(_price()) + r".*?\(\[price\]", text)
    assert _machine("price") in sentence


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
        assert (RESULTS / figure).with_suffix(".json").exists(), figure
