"""The benchmarks run, agree with themselves, and report what they measured."""

from __future__ import annotations

import gzip
import json
import math
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bench.__main__ as cli
from bench import (
    competitors,
    counts,
    hostile,
    hostile_losses,
    machine,
    priors,
    problems,
    report,
    rivals,
)
from bench.competitors import COMPETITORS, Task, majority
from bench.harness import Document, Record, Run, interleave, one_thread, timing_records
from bench.papers import zhang2017_tables
from bench.suites import (
    GROUPS,
    SUITES,
    baseline,
    frontier,
    inference,
    kernels,
    kuru2020,
    lee2018,
    lowy2021,
    peers,
    persons,
    price,
    rrpsgd,
    zhang2017,
)
from dpfast import Problem, _kernels
from dpfast.cli._numpy_kernels import in_numpy

TINY = {
    "kernels": kernels.Sizes(
        columns=(3, 70),
        megabytes=0.05,
        read_megabytes=(0.1,),
        draws=200,
        sparse_rows=200,
        line_search_rows=300,
        step_megabytes=0.05,
    ),
    "baseline": baseline.Sizes(
        shapes=((300, 4),),
        solver_shapes=((300, 3),),
        longest_seconds=0.0,
        solvers=("output-perturbation", "dp-gd"),
    ),
    "frontier": frontier.Sizes(
        epsilons=(8.0,),
        runs=2,
        tuning_runs=1,
        both=False,
        real=False,
        wide=False,
        families=("few rows",),
        largest=300,
        solvers=("dp-whitened-gd", "dp-adassp"),
        tries=1,
        others=(2.0,),
    ),
    "inference": inference.Sizes(
        3,
        3000,
        (8.0,),
        rows=2000,
        wide_rows=2000,
        persons=1000,
        families=("power", "no signal", "linear, plain", "huber, outliers", "persons, 0.5 alike"),
        real=False,
    ),
    "kuru2020": kuru2020.Sizes(
        400, 3, (400, 50), (6,), (1.0,), 2, 1, (3, 6), (1.0,), cost_shapes=((300, 3),)
    ),
    "lee2018": lee2018.Sizes(
        (0.5,), 1, 1, (0.5,), {}, ((300, 4),), 400, effects=1, effect_repeats=1, descents=1
    ),
    "lowy2021": lowy2021.Sizes(
        rows=(200,),
        general=(8.0,),
        runs=3,
        samples=1,
        population=300,
        rival_runs=1,
        tilts=(0.0, 1.0),
        fair_epsilons=(4.0,),
        fair_ridges=(0.1,),
        radii={"l2": (0.0, 0.1)},
        robust_epsilons=(4.0,),
        robust_ridges=(0.1,),
        splits=1,
        draws=2,
        largest=400,
    ),
    "peers": peers.Sizes(epsilons=(1.0,), seeds=1, rows=300, names=("majority",)),
    "persons": persons.Sizes(
        persons=300, rows=(2,), alike=(0.5,), epsilons=(4.0,), runs=2, shape=(900, 4)
    ),
    "price": price.Sizes(
        dense=((300, 3),),
        sparse=((200, 40, 4),),
        codes=((200, 3, 2),),
        epsilons=(1.0,),
        solvers=("auto", "output-perturbation"),
        read_entries=100,
        group_seconds=0.0,
    ),
    "rrpsgd": rrpsgd.Sizes((60, 3), 2),
    "zhang2017": zhang2017.Sizes(2, 2, 500, (0.5, 2.0), {"RAND HIE": 1}, {"RAND HIE": 1}, 1, 1),
}


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    before = _kernels.isa_name()
    found = {
        name: cli.run_suite(name, Run(quick=True, repeat=2, say=lambda text: None), sizes)
        for name, sizes in TINY.items()
    }
    assert _kernels.isa_name() == before, "the suites must put the instruction set back"
    return found


# ---- suites -------------------------------------------------------------------------------------


def test_every_suite_is_tried_here() -> None:
    assert set(TINY) == set(SUITES)


@pytest.mark.parametrize("name", sorted(TINY))
def test_json_is_read_back(name: str, documents: dict[str, Document]) -> None:
    document = documents[name]
    text = document.to_json()
    again = Document.from_json(text)
    assert again.to_json() == text
    assert again.suite == name and again.quick and again.records
    assert (
        again.environment["dpfast"]["instruction_set"] in again.environment["dpfast"]["supported"]
    )
    for record in again.records:
        assert all(math.isfinite(value) for value in record.values.values())


@pytest.mark.parametrize("name", ["kernels", "baseline", "price"])
def test_speeds_are_quotients_of_the_seconds(name: str, documents: dict[str, Document]) -> None:
    records = documents[name].records
    seconds = {
        (r.group, json.dumps(r.case), r.competitor): r.values["seconds"]
        for r in records
        if "seconds" in r.values
    }
    compared = 0
    for r in records:
        for other, speed in r.speed.items():
            theirs = seconds[r.group, json.dumps(r.case), other]
            assert speed == pytest.approx(theirs / r.values["seconds"], rel=1e-12)
            compared += 1
        if "seconds" in r.values:
            assert 0.0 < r.values["seconds"] <= r.values["median_seconds"]
    assert compared >= len(seconds) / 2


def test_kernel_suite_covers_operations_instruction_sets_and_samplers(
    documents: dict[str, Document],
) -> None:
    seen = {(r.group, r.case.get("d"), r.competitor) for r in documents["kernels"].records}
    ours = [f"dpfast {isa}" for isa in _kernels.supported_isas()]
    for operation in kernels.OPERATIONS:
        for d in TINY["kernels"].columns:
            expected = [kernels.READ, kernels.BLOCKS, *ours]
            if operation == kernels.GRADIENT:
                expected.append(kernels.WHOLE)
            assert {(operation, d, rival) for rival in expected} <= seen
            assert {(kernels.GRADIENT32, d, rival) for rival in [*ours, kernels.FLOAT64]} <= seen
    assert {("line search", 20, rival) for rival in (kernels.RECOMPUTED, kernels.BLOCKS)} <= seen
    kinds = {r.case.get("kind") for r in documents["kernels"].records if r.group == kernels.SPARSE}
    assert kinds == {"values", "one-hot"}
    draws = {r.case["draw"] for r in documents["kernels"].records if r.group == kernels.SAMPLERS}
    assert any("discrete Gaussian" in draw for draw in draws)
    assert any("l2-Laplace" in draw for draw in draws)


def test_twins_in_numpy_agree(documents: dict[str, Document]) -> None:
    twins = [r for r in documents["baseline"].records if "difference" in r.values]
    assert [r.case["solver"] for r in twins] == ["output-perturbation", "dp-gd"]
    assert all(r.values["difference"] < 1e-6 for r in twins)


def test_frontier_measures_excess_above_the_minimum(documents: dict[str, Document]) -> None:
    records = documents["frontier"].records
    names = {r.group for r in records}
    assert names == {
        "few rows",
        "three classes",
        *(f"synthetic regression, {k}" for k in ("squared", "huber", "pinball")),
    }
    for r in records:
        assert r.values["excess"] > -1e-9 and r.values["excess_standard_error"] >= 0.0
    solvers = {(r.group, r.case["chosen"]) for r in records if r.competitor == frontier.AUTO}
    assert ("few rows", "dp-whitened-gd") in solvers
    assert ("synthetic regression, squared", "dp-adassp") in solvers
    # With a large budget, auto is better than any constant.
    for line in frontier.frontier(records):
        if line["epsilon"] == 8.0:
            assert line["auto"].values["excess"] < line["majority"].values["excess"]
    assert {r.competitor for r in records if r.group == "few rows"} == {
        frontier.AUTO, frontier.MAJORITY, frontier.PUBLISHED, "dp-whitened-gd",
    }  # fmt: skip


def test_frontier_compares_with_the_best_of_the_others() -> None:
    def record(competitor: str, excess: float, **more: float) -> Record:
        case = {"relation": "replace_one", "delta": 1e-6, "epsilon": 1.0, "real": 1, "chosen": "x"}
        if competitor == frontier.MAJORITY:
            case = {"relation": "replace_one", "delta": 1e-6}
        return Record(
            "t", case, competitor, {"excess": excess, "excess_standard_error": 0.0, **more}
        )

    records = [
        record(frontier.MAJORITY, 0.1),
        record(frontier.AUTO, 0.03, excess_standard_error=0.003),
        record("dp-nag", 0.02, excess_standard_error=0.004),
        record("dp-sgd", 0.05),
    ]
    (line,) = frontier.frontier(records)
    assert line["best"].competitor == "dp-nag"
    assert line["ratio"] == pytest.approx(1.5) and line["behind"] == pytest.approx(2.0)
    assert not frontier._worse_than_majority(line)
    records[1] = record(frontier.AUTO, 0.11, excess_standard_error=0.004)
    assert frontier._worse_than_majority(frontier.frontier(records)[0])


def test_published_objective_perturbation_adds_the_noise_of_the_papers() -> None:
    """Rows of zeros: the minimizer is -b/Lambda but for the intercept, whose rows are certain."""
    problem = Problem(np.zeros((50, 30)), np.ones(50), data_norm=1.0)
    slope, curvature, epsilon, delta = math.sqrt(2.0), 0.5, 1.0, 1e-6
    drawn = [frontier._published(problem, epsilon, delta, s)[:30] for s in range(20)]
    scale = slope * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
    # 600 normals: the mean square is within 30 % except with probability below 1e-6.
    assert np.mean(np.square(drawn)) * (2 * curvature / epsilon) ** 2 == pytest.approx(
        scale**2, rel=0.3
    )
    ridge = curvature / math.expm1(epsilon / 4)
    norms = [np.linalg.norm(frontier._published(problem, epsilon, 0.0, s)[:30]) for s in range(20)]
    assert np.mean(norms) * ridge == pytest.approx(
        31 * 2 * slope / (epsilon / 2) * math.sqrt(30 / 31), rel=0.3
    )


# ---- reports ------------------------------------------------------------------------------------

_UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def _cells(page: str) -> list[list[str]]:
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.parametrize("name", ["kernels", "baseline"])
def test_report_shows_the_times_and_speeds_of_the_json(
    name: str, documents: dict[str, Document], tmp_path: Path
) -> None:
    report.write(documents[name], SUITES[name], tmp_path)
    records = Document.from_json((tmp_path / f"{name}.json").read_text("utf-8")).records
    page = (tmp_path / f"{name}.md").read_text("utf-8")
    durations = [
        float(m[1].replace(",", "")) * _UNITS[m[2]]
        for m in re.finditer(r"\| ([\d.,]+) (s|ms|µs|ns) (?=\|)", page)
    ]
    speeds = [float(m[1].replace(",", "")) for m in re.finditer(r"\| ([\d.,]+) x (?=\|)", page)]
    for record in records:
        if "nanoseconds_per_draw" in record.values:
            shown = [
                float(c[2].replace(",", "")) for c in _cells(page) if c[1] == record.competitor
            ]
            each = record.values["nanoseconds_per_draw"]
            # The JSON has six digits, of which four are shown.
            assert any(math.isclose(each, value, rel_tol=6e-4) for value in shown)
        elif "seconds" in record.values:
            assert any(math.isclose(record.values["seconds"], d, rel_tol=6e-3) for d in durations)
        for other, speed in record.speed.items():
            if other == kernels.READ or (name, other) == ("baseline", "scikit-learn"):
                continue  # shown as shares
            assert any(math.isclose(speed, s, rel_tol=6e-3, abs_tol=6e-3) for s in speeds)


def test_report_shows_the_scores_of_the_json(
    documents: dict[str, Document], tmp_path: Path
) -> None:
    written = report.write(documents["peers"], SUITES["peers"], tmp_path)
    assert [path.suffix for path in written] == [".json", ".md", ".png"]
    page = written[1].read_text("utf-8")
    for record in Document.from_json(written[0].read_text("utf-8")).records:
        values = record.values
        for text in (
            f"{100 * values['accuracy']:.2f} ± {100 * values['accuracy_standard_error']:.2f} %",
            f"{values['log_loss']:.4f} ± {values['log_loss_standard_error']:.4f}",
        ):
            row = [c for c in _cells(page) if c[0] == record.competitor and text in c]
            assert row, f"{text} of {record.competitor} is not in the report"
    assert "left out" in page
    assert "RAND HIE" in page and "quick run" in page


def test_tables_of_a_report_are_read_back(documents: dict[str, Document]) -> None:
    for name, document in documents.items():
        suite = SUITES[name]
        found = report.read_tables(report.markdown(document, suite, {}))
        for table in {table.title: table for table in suite.tables(document)}.values():
            rows = [[cell.replace("|", "/").strip() for cell in row] for row in table.rows]
            assert found[table.title] == [dict(zip(table.header, r, strict=True)) for r in rows]
        facts = {row["what"]: row["value"] for row in found["Where this was measured"]}
        assert facts["cpu"] == str(document.environment["cpu"])
    assert [report.number(text) for text in ("1,000", "0.5 ± 0.1", "7 %", "86%", "-2")] == [
        1000.0, 0.5, 7.0, 86.0, -2.0,
    ]  # fmt: skip


def test_figures_are_pictures(documents: dict[str, Document], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, document in documents.items():
        picture = report.write(document, SUITES[name], tmp_path)[-1].read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 200_000


def test_report_without_matplotlib_has_no_figure(
    documents: dict[str, Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    written = report.write(documents["baseline"], SUITES["baseline"], tmp_path)
    assert [path.suffix for path in written] == [".json", ".md"]
    assert "![" not in written[1].read_text("utf-8")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (12.34, "12.3 s"),
        (0.9996, "1.00 s"),
        (0.0999, "99.9 ms"),
        (1.234e-4, "123 µs"),
        (0, "0.00 ns"),
    ],
)
def test_durations_have_three_digits(seconds: float, shown: str) -> None:
    assert report.duration(seconds) == shown


def test_absent_reference_is_a_dash() -> None:
    record = Record("g", {}, "a", {"seconds": 2.0}, {"b": 0.5})
    assert report.speed(record, "a") == "1.00 x" and report.speed(record, "b") == "0.50 x"
    assert report.time_share(record, "b") == "2.00"
    assert report.speed(record, "c") == report.time_share(record, "c") == "-"


def test_results_name_neither_places_nor_people(documents: dict[str, Document]) -> None:
    text = documents["kernels"].to_json()
    assert str(machine.ROOT) not in text
    assert str(Path.home()) not in text or str(Path.home()) == "/"
    assert sys.prefix not in text


# ---- targets ------------------------------------------------------------------------------------


def _judged(records: list[Record]) -> tuple[str, list[list[str]]]:
    environment = {"dpfast": {"instruction_set": "avx2"}}
    table = kernels.targets(Document("kernels", False, 1, {}, environment, {}, [], records))
    return table.text, [list(row) for row in table.rows]


def test_targets_are_judged_by_the_speed_of_the_chosen_instruction_set() -> None:
    case = {"n": 10, "d": 20}
    speed = {kernels.READ: 0.55, kernels.WHOLE: 3.99}
    text, rows = _judged(
        [
            Record(kernels.GRADIENT, case, "dpfast avx2", {"seconds": 1.0}, speed),
            Record(kernels.GRADIENT, case, "dpfast baseline", {"seconds": 9.0}, {kernels.READ: 9}),
        ]
    )
    assert len(rows) == len(kernels.TARGETS)
    found = {row[3]: row[-2:] for row in rows if row[:2] == [kernels.GRADIENT, "d = 20"]}
    assert found == {"x reading X": ["0.55", "yes"], "x NumPy, whole arrays": ["3.99", "**no**"]}
    assert sum(row[-1] != "not measured" for row in rows) == 2
    assert text.startswith("1 of 2 targets are met.")


def test_limits_are_upper_bounds() -> None:
    draw = {"draw": "discrete Gaussian, scale 2^31"}
    for nanoseconds, verdict in ((200.0, "yes"), (200.1, "**no**")):
        values = {"nanoseconds_per_draw": nanoseconds}
        _, rows = _judged([Record(kernels.SAMPLERS, draw, "dpfast", values)])
        assert [row[-1] for row in rows if row[-1] != "not measured"] == [verdict]


def test_every_target_matches_a_record_of_a_full_run(documents: dict[str, Document]) -> None:
    """Names of groups and competitors; not all columns are in a tiny run."""
    seen = {(r.group, r.competitor) for r in documents["kernels"].records}
    best = f"dpfast {documents['kernels'].environment['dpfast']['instruction_set']}"
    for target in kernels.TARGETS:
        if target.group == kernels.THREADS and machine.usable_cores() < 2:
            continue
        competitor = best if target.competitor == "best" else target.competitor
        assert (target.group, competitor) in seen
        if target.against and (target.against != kernels.SAGA or rivals.saga_missing() is None):
            assert (target.group, target.against) in seen


# ---- harness ------------------------------------------------------------------------------------


def test_contestants_take_turns_after_two_untimed_calls() -> None:
    calls: list[str] = []
    contestants = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    timings = interleave(contestants, repeat=4, shortest_sample=0.0)
    assert "".join(calls) == "aabbcc" + "abc" + "bca" + "cab" + "abc"
    assert set(timings) == set("abc") and all(t.rounds == 4 for t in timings.values())


def test_quick_calls_are_looped_and_slow_groups_are_cut() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1

    timing = interleave({"a": call}, repeat=2, shortest_sample=1e-3)["a"]
    assert count > 20
    assert timing.seconds < 1e-4
    assert interleave({"a": call}, repeat=9, group_seconds=0.0)["a"].rounds == 3
    with pytest.raises(ValueError, match="repeat must be at least 1; got 0"):
        interleave({"a": call}, repeat=0)


def test_minimum_and_median_are_of_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([9.0, 3.0, 1.0, 2.0])  # untimed, and slow enough; then the rounds
    monkeypatch.setattr("bench.harness._sample", lambda *arguments: next(durations))
    timing = interleave({"a": lambda: None}, repeat=3)["a"]
    assert (timing.seconds, timing.median, timing.rounds) == (1.0, 2.0, 3)
    records = timing_records("g", {"n": 1}, {"a": timing}, ["a", "absent"])
    assert records[0].speed == {}


def test_blas_is_held_to_one_thread() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with one_thread():
        assert all(pool["num_threads"] == 1 for pool in threadpoolctl.threadpool_info())


def test_missing_threadpoolctl_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.warns(RuntimeWarning, match="threadpoolctl is not installed"), one_thread():
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "format"),
        ({"version": 0}, "version must be 1; got 0"),
        ({"extra": 1}, "fields must be"),
        ({"records": [{"group": "g"}]}, "record is malformed"),
    ],
)
def test_foreign_json_is_refused(
    change: dict[str, object], message: str, documents: dict[str, Document]
) -> None:
    body = json.loads(documents["baseline"].to_json()) | change
    with pytest.raises(ValueError, match=message):
        Document.from_json(json.dumps(body))


def test_nan_is_never_written(documents: dict[str, Document]) -> None:
    bad = Record("g", {}, "a", {"seconds": math.nan})
    document = Document("kernels", True, 1, {}, {}, {}, [], [bad])
    with pytest.raises(ValueError, match="JSON compliant"):
        document.to_json()


# ---- competitors --------------------------------------------------------------------------------


def _rival_problem(kind: str) -> tuple[Any, np.ndarray, np.ndarray]:
    if kind == "dense":
        data = problems.synthetic(5000, 9)
        return data.X, data.y, np.linalg.norm(data.X, axis=1)
    X, y = rivals.categorical(700, ones=kind == "one-hot")
    return X, y, np.linalg.norm(X.toarray(), axis=1)


@pytest.mark.parametrize("kind", ["dense", "values", "one-hot"])
def test_whole_arrays_agree_with_the_kernels(kind: str) -> None:
    X, y, norms = _rival_problem(kind)
    assert norms.max() <= (1.0 if kind == "dense" else math.sqrt(14.0))
    w = 2.0 * np.random.default_rng(0).standard_normal(X.shape[1] + 1)
    inverse_norm = rivals.inverse_norms(X)
    np.testing.assert_allclose(inverse_norm, 1.0 / np.hypot(norms, 1.0), rtol=1e-12)
    problem = Problem(X, y, data_norm=4.0)
    gradient, loss = rivals.clipped_gradient(X, y, inverse_norm, w, 0.5, 1.0)
    expected, expected_loss = problem.clipped_gradient(w, 0.5, 1.0)
    # The kernels clip by inverse norms rounded down to float32.
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * 0.5 * len(y))
    assert loss == pytest.approx(expected_loss, rel=1e-10)
    assert np.linalg.norm(gradient - problem.clipped_gradient(w)[0]) > 1.0

    direction, steps = w[::-1].copy(), np.array([0.0, 0.1, 2.0])
    expected_losses = [problem.objective(w - step * direction, 1.0) for step in steps]
    found = rivals.line_search(X, y, w, direction, steps, 1.0)
    np.testing.assert_allclose(found, expected_losses)


@pytest.mark.skipif(rivals.saga_missing() is not None, reason="no SAGA to compare with")
def test_saga_minimizes_the_same_objective() -> None:
    data = problems.synthetic(2000, 4)
    w = rivals.saga(data.X, data.y, 0.1, 100)
    _, gradient = Problem(data.X, data.y, data_norm=1.0).value_and_gradient(w, 0.1)
    gradient[-1] -= 0.1 * w[-1]  # its intercept is outside the ridge
    assert np.linalg.norm(gradient) < 1e-6


def test_row_blocks_in_numpy_sum_the_losses_too() -> None:
    data = problems.synthetic(1000, 5)
    with in_numpy():
        twin = Problem(data.X, data.y, data_norm=1.0)
    w = np.ones(6)
    gradient, loss = kernels._in_numpy(partial(twin.clipped_gradient, w, 0.5, 1.0))
    expected, losses = Problem(data.X, data.y, data_norm=1.0).clipped_gradient(w, 0.5, 1.0)
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * 0.5 * 1000)
    assert loss == pytest.approx(losses, rel=1e-10)


def test_absent_libraries_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "saga_missing", lambda: "gone")
    settings = Run(repeat=1, say=lambda text: None)
    records = kernels.stochastic_steps(settings, problems.synthetic(100, 3))
    assert {r.competitor for r in records} == {"dpfast SVRG", "dpfast Katyusha"}
    assert settings.notes == [f"{kernels.SAGA} left out: gone."]


def test_majority_predicts_the_shares() -> None:
    y = np.where(np.arange(1000) < 300, 1.0, -1.0)
    data = problems.Dataset("d", np.zeros((1000, 2)), y, 1.0)
    accuracy, log_loss = peers.evaluate(majority.fit(Task(data.X, y, 1.0)), data)
    assert accuracy == 0.7
    entropy = -(0.3 * math.log(0.3) + 0.7 * math.log(0.7))
    assert log_loss == pytest.approx(entropy, abs=1e-6)
    assert np.all(np.isfinite(majority.fit(Task(data.X, np.ones(1000), 1.0))))


def test_evaluate_by_hand() -> None:
    test = problems.Dataset("d", np.array([[1.0], [2.0], [0.0]]), np.array([1.0, -1.0, -1.0]), 2.0)
    accuracy, log_loss = peers.evaluate(np.array([1.0, 0.0]), test)
    assert accuracy == pytest.approx(2 / 3)
    losses = [math.log1p(math.exp(-1.0)), math.log1p(math.exp(2.0)), math.log(2.0)]
    assert log_loss == pytest.approx(sum(losses) / 3)


def test_absent_competitors_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMPETITORS["scikit-learn"], "MODULE", "no_such.module")
    said: list[str] = []
    assert list(competitors.present(["dpfast", "scikit-learn"], said.append)) == ["dpfast"]
    assert said == [
        "scikit-learn left out: no_such cannot be imported (No module named 'no_such')."
    ]


@pytest.mark.parametrize("name", sorted(COMPETITORS))
def test_competitors_keep_the_contract(name: str) -> None:
    competitor = COMPETITORS[name]
    data = problems.synthetic(400, 3)
    task = Task(data.X, data.y, 1.0, alpha=0.1)
    assert name == competitor.NAME and competitor.GUARANTEE
    if (reason := competitors.missing(name)) is not None:
        assert not name.startswith(("dpfast", "scikit-learn", "majority"))
        pytest.skip(reason)
    w = competitor.fit(task)
    assert w.shape == (4,) and np.all(np.isfinite(w))


# ---- problems -----------------------------------------------------------------------------------


def test_synthetic_rows_are_in_the_unit_ball_and_repeat() -> None:
    data, again = problems.synthetic(5000, 8, seed=3), problems.synthetic(5000, 8, seed=3)
    norms = np.linalg.norm(data.X, axis=1)
    assert norms.max() < 1.0 and norms.max() > 0.99
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    assert np.array_equal(data.X, again.X) and np.array_equal(data.y, again.y)
    assert not np.array_equal(data.X, problems.synthetic(5000, 8, seed=4).X)


def test_splits_part_the_rows() -> None:
    X = np.arange(10.0)[:, np.newaxis]
    train, test = problems.Dataset("d", X, np.ones(10), 9.0).split(seed=0)
    assert (len(train.X), len(test.X)) == (8, 2)
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(10))


def test_real_tables_keep_their_bounds(tmp_path: Path) -> None:
    randhie = problems.randhie()
    assert randhie.X.shape == (20190, 9)
    assert np.linalg.norm(randhie.X, axis=1).max() <= randhie.data_norm

    header = "age,job=a,job=b,balance,pdays!=-1,y"
    with gzip.open(tmp_path / "bank_dpagd.csv.gz", "wt", encoding="utf-8") as stream:
        stream.write(f"{header}\n59,0,1,45000,1,1\n18,1,0,-99999,0,0\n")
    loaders = {"Adult": problems.adult, "Bank": problems.bank}
    settings, nowhere = (Run(data=data, say=lambda text: None) for data in (tmp_path, None))
    assert [data.name for data in settings.tables(loaders)] == ["Bank"]
    assert settings.notes == ["Adult left out: adult_train.csv is not there."]
    assert not list(nowhere.tables(loaders)) and len(nowhere.notes) == 2
    bank = problems.bank(tmp_path)
    np.testing.assert_allclose(bank.X, [[0.0, 0, 1, 0.0, 1], [-1.0, 1, 0, -1.0, 0]])
    np.testing.assert_array_equal(bank.y, [1.0, -1.0])
    assert bank.data_norm == pytest.approx(3.0)  # seven numeric columns by design, job, pdays


def test_other_tables_keep_their_bounds(tmp_path: Path) -> None:
    names = [*problems._WINE_NUMERIC]
    with gzip.open(tmp_path / "wine_quality.csv.gz", "wt", encoding="utf-8") as stream:
        stream.write(",".join(["color", *names, "quality"]) + "\n")
        for color, end, quality in (("red", 0, 5), ("white", 1, 8)):
            values = [str(bound[end]) for bound in problems._WINE_NUMERIC.values()]
            stream.write(",".join([color, *values, str(quality)]) + "\n")
    wine = problems.wine(tmp_path)
    np.testing.assert_allclose(wine.X, [[1.0] + [-1.0] * 11, [-1.0] + [1.0] * 11])
    np.testing.assert_array_equal(wine.y, [-1.0, 1.0])
    np.testing.assert_allclose(problems.wine(tmp_path, target="quality").y, [0.0, 0.6])

    (tmp_path / "letter.csv").write_text("a,b,letter\n0,15,M\n15,7.5,N\n", encoding="utf-8")
    found = problems.letter(tmp_path)
    np.testing.assert_allclose(found.X, [[-1.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(found.y, [1.0, -1.0])

    (tmp_path / "a9a.svm").write_text("+1 1:1 123:1\n-1 2:1\n", encoding="utf-8")
    found = problems.a9a(tmp_path)
    assert found.X.shape == (2, 123) and found.X.sum() == 3.0
    np.testing.assert_array_equal(found.y, [1.0, -1.0])

    np.savez(tmp_path / "mnist_5k.npz", X=np.full((2, 784), 255, np.uint8), y=np.uint8([4, 5]))
    found = problems.mnist(tmp_path)
    assert found.X.max() == 1.0 and found.data_norm == 10.0
    np.testing.assert_array_equal(found.y, [-1.0, 1.0])


def test_tables_of_zhang2017_have_the_papers_columns(tmp_path: Path) -> None:
    header = "limit_bal,sex,education,marriage,age,default"
    rows = [f"{1000 * k},{k % 2 + 1},{k % 7},{k % 4},{20 + k},{int(k > 9)}" for k in range(28)]
    (tmp_path / "credit_default.csv").write_text("\n".join([header, *rows]) + "\n")
    X, y = zhang2017_tables.LOADERS["Credit Card"](tmp_path)
    # Two sexes, seven educations and four states of marriage as 0/1 columns, and the constant.
    assert X.shape == (28, 2 + 2 + 7 + 4 + 1)
    assert np.all(X[:, -1] == 1.0)
    assert (X[:, 1:3].sum(axis=1) == 1.0).all()
    assert y.sum() == 28 - 2 * 10
    header = "dteday,season,hr,temp,casual,registered,cnt"
    rows = [f"2011-01-01,{k % 4},{k % 24},0.{k:02d},1,{k},{k + 1}" for k in range(48)]
    (tmp_path / "bike_hour.csv").write_text("\n".join([header, *rows]) + "\n")
    X, y = zhang2017_tables.LOADERS["Bike"](tmp_path)
    assert X.shape == (48, 4 + 24 + 1 + 1)
    assert y.tolist() == list(range(1, 49))

    settings = Run(quick=True, data=tmp_path, say=lambda text: None)
    sizes = replace(TINY["zhang2017"], scalings=3)
    records = zhang2017._scalings(settings, sizes)
    assert len(records) == 3 * len(zhang2017._SCALING_EPSILONS)
    assert {r.case["table"] for r in records} == {"Credit Card"}
    assert all(r.values["mean_square_norm"] <= 1.0 for r in records)


@pytest.mark.parametrize("scaling", sorted(zhang2017_tables.SCALINGS))
def test_scalings_keep_rows_in_the_unit_ball(scaling: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([1e6 * rng.random(50), rng.random((50, 2)) < 0.3, np.ones(50)])
    norms = np.linalg.norm(zhang2017_tables.scaled(X, scaling), axis=1)
    assert norms.max() < 1.0
    if "√d" not in scaling:
        assert norms.max() == pytest.approx(1.0, abs=1e-9)


def test_table_3_is_whole() -> None:
    """Forty cells, and the smallest and largest numbers as printed."""
    cells = zhang2017_tables.PUBLISHED
    assert len(cells) * len(zhang2017_tables.EPSILONS) == 40
    errors = [e for row in cells.values() for e in row.error]
    assert (min(errors), max(errors)) == (0.0005, 5.4659)
    for row in cells.values():
        for numbers in (row.error, row.sgd_error, row.seconds, row.sgd_seconds):
            assert len(numbers) == 4


def test_kddcup99_keeps_its_bound(tmp_path: Path) -> None:
    lines = []
    for protocol, count, rate, label in (
        ("tcp", 0, "0.00", "normal."),
        ("udp", 2**31 - 1, "1.00", "smurf."),
        ("tcp", 511, "0.50", "ipsweep."),
    ):
        fields = [str(count)] * 42
        fields[1:4], fields[41] = [protocol, "http", "SF"], label
        for j in problems._KDD_RATES:
            fields[j] = rate
        lines.append(",".join(fields))
    (tmp_path / "kddcup.data").write_text("\n".join([*lines, ""]), encoding="utf-8")
    found = problems.kddcup99(tmp_path)
    assert found.X.shape == (3, 38 + 2 + 1 + 1)
    assert found.X.min() == 0.0 and found.X.max() == 1.0
    assert np.linalg.norm(found.X, axis=1).max() <= found.data_norm
    np.testing.assert_array_equal(found.y, [-1.0, 1.0, -1.0])  # of the two attacks one is a denial
    assert len(problems.kddcup99(tmp_path, largest=2).y) == 2


def test_lee2018_takes_the_papers_coding_of_adult(tmp_path: Path) -> None:
    (tmp_path / "a9a.svm").write_text("+1 1:1 123:1\n-1 2:1\n", encoding="utf-8")
    (tmp_path / "a9a.t.svm").write_text("+1 3:1\n", encoding="utf-8")
    notes: list[str] = []
    settings = Run(data=tmp_path, say=notes.append)
    (adult,) = lee2018._tables(settings, lee2018.Sizes())
    assert (adult.name, adult.X.shape, adult.data_norm) == ("Adult", (3, 123), math.sqrt(14.0))
    np.testing.assert_array_equal(adult.y, [1.0, -1.0, 1.0])
    assert len(notes) == 4 and "IPUMS-US, which may not be passed on, left out" in notes[1]
    assert "KDDCup99 left out" in notes[3]


def test_adult_is_encoded_by_its_bounds(tmp_path: Path) -> None:
    bounds = json.loads((machine.ROOT / "docs/examples/adult_bounds.json").read_text("utf-8"))
    del bounds["target"]
    lists = [e if isinstance(e, list) else e["categories"] for e in bounds.values()]
    rows = [",".join(str(entry[number]) for entry in lists) for number in (0, 1)]
    for name in ("adult_train.csv", "adult_test.csv"):
        (tmp_path / name).write_text("\n".join([",".join(bounds), *rows, ""]), encoding="utf-8")
    adult = problems.adult(tmp_path)
    np.testing.assert_array_equal(adult.y, [-1.0, 1.0, -1.0, 1.0])
    np.testing.assert_allclose(np.linalg.norm(adult.X, axis=1), math.sqrt(len(bounds) - 1))
    assert adult.data_norm == pytest.approx(math.sqrt(len(bounds) - 1))


# ---- command line -------------------------------------------------------------------------------


def test_command_line_runs_a_quick_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "QUICK", TINY["peers"])
    assert cli.main(["peers", "--quick", "--repeat", "1", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "RAND HIE" in printed and "Adult left out" in printed
    assert Document.from_json((tmp_path / "peers.json").read_text("utf-8")).repeat == 1


@pytest.mark.parametrize(("more", "place"), [([], "results"), (["--quick"], "tried")])
def test_quick_runs_do_not_replace_results(
    more: list[str], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_RESULTS", tmp_path / "results")
    monkeypatch.setattr(cli, "_TRIED", tmp_path / "tried")
    places: list[Path] = []
    monkeypatch.setattr(cli, "run_suite", lambda *_: None)
    monkeypatch.setattr(cli, "_written", lambda _, output: places.append(output))
    assert cli.main(["peers", *more]) == 0
    assert places == [tmp_path / place]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], f"suite must be any of {', '.join((*SUITES, *GROUPS))}; got nonsense"),
        (["--repeat", "0"], "--repeat must be at least 1; got 0"),
        (["--data", "/does/not/exist"], "--data must be a directory"),
    ],
)
def test_command_line_refuses(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


# ---- bounds, tilted and adversarial -------------------------------------------------------------


def test_errors_stay_below_the_bounds_of_their_table(documents: dict[str, Document]) -> None:
    """Seeds are fixed: three runs of each case, one of each population."""
    records = documents["lowy2021"].records
    found = [r for r in records if r.group == "bound"]
    seen = {(r.case["table"], r.case["class"]) for r in found}
    tilted = {(table, name) for table in (1, 2) for name in ("TERM", "smooth TERM")}
    assert seen == tilted | {(table, name) for table in range(1, 7) for name in "FHGJ"}
    for r in found:
        assert -1e-5 < r.values["error"] < r.values["bound"]
        assert r.values["error_standard_error"] >= 0.0
    # Zhang et al. have constants, so that their rows are bounds too.
    rates = [r for r in records if r.group == "rate" and "bound" in r.values]
    assert any("Zhang" in r.competitor for r in rates)


def test_robust_accuracy_is_that_of_the_worst_shift() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((200, 3)), np.array([1.0, -2.0, 0.5, 0.1])
    test = problems.Dataset("d", X, np.where(rng.random(200) < 0.5, -1.0, 1.0), 9.0)
    direction = {"l2": w[:3] / np.linalg.norm(w[:3]), "linf": np.sign(w[:3])}
    for norm, step in direction.items():
        for radius in (0.0, 0.3):
            moved = X - radius * test.y[:, np.newaxis] * step
            right = test.y * (moved @ w[:3] + w[3]) > 0.0
            assert lowy2021._robust_accuracy(w, test, radius, norm) == np.mean(right)


def test_groups_add_up() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 2)), np.where(np.arange(50) < 20, 1.0, -1.0)
    test = problems.Dataset("d", X, y, 9.0)
    found = lowy2021._by_group(np.ones(3), test, {"first": y > 0.0, "last": y < 0.0})
    for metric in ("log_loss", "accuracy"):
        mean = 0.4 * found[f"{metric}: first"] + 0.6 * found[f"{metric}: last"]
        assert found[metric] == pytest.approx(mean, rel=1e-12)


def test_text_columns_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a,sex,race\n1, F,x\n2, M,y\n", encoding="utf-8")
    found = problems.text_columns(tmp_path, "people.csv", ("race", "sex"))
    assert found["sex"].tolist() == ["F", "M"] and found["race"].tolist() == ["x", "y"]


# ---- priors ------------------------------------------------------------------------------------


def test_monthly_fits_are_measured_against_independent_ones():
    data = problems.synthetic(2000, 3)
    alone, cheaper, chain, months = priors.monthly(data, 20.0, 1)
    assert 0.0 < alone < cheaper
    assert chain < cheaper
    assert months.shape == (12,)


def test_priors_are_measured_against_fits_without_them():
    data = problems.randhie()
    rows = np.random.default_rng(0).permutation(len(data.y))[:3000]
    few = problems.Dataset("few", data.X[rows], data.y[rows], data.data_norm)
    excesses = priors.measure(few, [2.5], 3, 0)
    assert excesses.shape == (len(priors.KINDS), 1, 3, 3)
    found = dict(zip(priors.KINDS, excesses[:, 0].mean(axis=-1), strict=True))
    assert all((excesses > -1e-9).all() for excesses in found.values())
    alone, public, both = found["same"]
    assert both < 0.9 * alone
    # Fits without a prior are the same; public rows with other labels are not.
    assert found["opposite"][0] == alone and found["opposite"][1] > public


# ---- tables that break defaults ----------------------------------------------------------------


def test_losses_on_hostile_tables_are_above_their_minimum(capsys):
    names = ["500 rows", "60 rows", "one-hot, few rows"]
    hostile.main(["--repetitions", "3", "--epsilons", "0.05", "30", "--names", *names])
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines()]
    found = {(line[2].strip(), float(line[3])): float(line[4].split("±")[0]) for line in lines}
    assert {name for name, _ in found} == set(names)
    for name in names:
        assert 0.0 <= found[name, 30.0] < 0.1 * found[name, 0.05]
    # By the cross entropy of the share of positives; a noisy one is worse.
    exact, learned = (float(part) for part in lines[0][5].split(","))
    (table,) = hostile.made(names=["500 rows"])
    least = problems.least_loss(hostile.problem_of(table))
    share = np.mean(table.y > 0.0)
    entropy = -share * np.log(share) - (1.0 - share) * np.log(1.0 - share)
    assert exact == pytest.approx(entropy - least, abs=1e-5) and learned > exact


@pytest.mark.parametrize("loss", ["svm", "median", "q90"])
def test_the_minimum_of_a_loss_with_a_kink_does_not_depend_on_units(loss):
    rng = np.random.default_rng(14)
    Z = np.column_stack([np.ones(250), rng.standard_normal((250, 8))])
    y = Z.sum(axis=1) + np.exp(rng.standard_normal(250))
    y = (y > np.median(y)).astype(float) if loss == "svm" else y
    least = hostile_losses._least(loss, y, Z)
    units, unit = 10.0 ** rng.uniform(-8.0, 8.0, 9), 1.0 if loss == "svm" else 1e-6
    assert hostile_losses._least(loss, unit * y, Z * units) == pytest.approx(unit * least, rel=1e-9)
    w = np.linalg.lstsq(Z, 2.0 * y - 1.0 if loss == "svm" else y)[0]
    fits = [hostile_losses.loss_of(loss, y, factor * (Z @ w))[0] for factor in (1.0, 1.5, 2.0)]
    assert 0.5 * min(fits) < least < min(fits)


def test_hostile_tables_of_other_losses(capsys):
    """Least squares, a rounded pinball loss, and three classes."""
    losses = {"60 rows": "squares", "50 rows": "median", "three, 300 rows": "classes"}
    for name, loss in losses.items():
        options = ["--repetitions", "3", "--epsilons", "30", "--losses", loss, "--names", name]
        hostile_losses.main(options)
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines()]
    assert [line[2].strip() for line in lines] == list(losses)
    for line in lines:
        excess = float(line[5].split("±")[0])
        constant = float(line[6].split(",")[0])
        assert -1e-9 < excess < constant


@pytest.mark.parametrize("loss", ["squares", "huber", "median", "q90", "svm", "classes"])
def test_losses_of_margins_and_their_slopes(loss):
    """Against differences."""
    rng = np.random.default_rng(0)
    classes = loss in ("classes", "svm")
    y = rng.integers(0, 3 if loss == "classes" else 2, 30).astype(float)
    y = y if classes else rng.standard_normal(30)
    margins, move = rng.standard_normal((2, 30, 3) if loss == "classes" else (2, 30))
    _, slopes = hostile_losses.loss_of(loss, y, margins)
    step = 1e-6
    high, low = (hostile_losses.loss_of(loss, y, margins + s * move)[0] for s in (step, -step))
    assert (high - low) / (2.0 * step) == pytest.approx(float(np.sum(slopes * move)), abs=1e-6)


def test_declared_columns_of_hostile_tables():
    (table,) = hostile.made(names=["one-hot, few rows"])
    declared = hostile.problem_of(table).shape.columns
    hot = [(block.start, block.stop) for block in declared if block.kind == "one-hot"]
    assert hot == sorted(table.indicators) and len(declared) == len(hot) + 2
    undeclared = replace(table, name="undeclared")
    assert hostile.problem_of(undeclared).shape.columns == ()


@pytest.mark.parametrize("narrow", [1.0, 1e-3])
def test_the_least_loss_does_not_depend_on_units(narrow):
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((400, 3)) / 4.0, -1.0, 1.0)
    y = np.where(rng.random(400) < 1.0 / (1.0 + np.exp(-8.0 * X[:, 0])), 1.0, -1.0)
    least = [
        problems.least_loss(Problem(X * scale, y, "logistic", data_norm=2.0))
        for scale in (1.0, np.array([narrow, 1.0, narrow]))
    ]
    assert least[1] == pytest.approx(least[0], abs=1e-9) and 0.2 < least[0] < 0.6


# ---- counts ------------------------------------------------------------------------------------


def test_counts_are_measured_by_what_is_explained(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(ends, 4000) for name, ends in problems._CLAIMS.items()}
    columns["numclaims"] = rng.poisson(np.exp(0.3 * columns["agecat"] - 1.0))
    columns["policyID"] = np.arange(4000) // 2
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "claims_panel.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(counts, "TABLES", (counts.claims,))
    monkeypatch.setattr(counts, "_EPSILONS", (0.1, 8.0))
    counts.main(["--data", str(tmp_path), "--repetitions", "3"])
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines()]
    shares = [float(line[4]) for line in lines]
    assert shares[0] < shares[1] and 0.9 < shares[1] < 1.001
    assert lines[0][2].strip() == "(4000, 3)"
    counts.main(["--data", str(tmp_path), "--repetitions", "3", "--persons"])
    of_persons = [float(line.split("|")[4]) for line in capsys.readouterr().out.splitlines()]
    assert of_persons[0] < of_persons[1] <= shares[1]
