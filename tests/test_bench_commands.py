"""The benchmarks as one command: what a failure costs, and two results compared."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

import bench.__main__ as cli
from bench import compare
from bench.harness import Document, Record, Run
from bench.suites import GROUPS, SUITES

# ---- several suites -----------------------------------------------------------------------------


def test_groups_are_of_suites() -> None:
    assert GROUPS["all"] == tuple(SUITES)
    assert set(GROUPS["papers"]) == {
        "zhang2017", "lee2018", "lowy2021", "kuru2020", "rrpsgd",
    }  # fmt: skip
    assert not set(GROUPS) & set(SUITES)


def test_a_failing_suite_takes_no_other_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, Run]] = []

    def run_suite(name: str, settings: Run) -> Document:
        ran.append((name, settings))
        if name == "kernels":
            raise ValueError("why")
        return document([])

    monkeypatch.setattr(cli, "run_suite", run_suite)
    monkeypatch.setattr(cli.report, "write", lambda one, suite, output: [output / one.suite])
    words = ["persons", "kernels", "--quick", "--repeat", "2", "--output", str(tmp_path)]
    assert cli.main([*words, "--data", str(tmp_path), "--python", sys.executable]) == 1
    # In the order of the table, each with notes of its own.
    assert [name for name, _ in ran] == ["kernels", "persons"]
    for _, settings in ran:
        assert settings.quick and settings.repeat == 2 and settings.data == tmp_path
        assert settings.pythons == (Path(sys.executable),)
    assert ran[0][1].notes is not ran[1][1].notes
    printed = capsys.readouterr()
    assert "ValueError: why" in printed.err and "Failed: kernels." in printed.out
    assert f"wrote {tmp_path / 'baseline'}" in printed.out
    ran.clear()
    assert cli.main(["papers", "--output", str(tmp_path)]) == 0
    assert tuple(name for name, _ in ran) == GROUPS["papers"]


# ---- comparing ----------------------------------------------------------------------------------


def document(records: list[Record], **environment: object) -> Document:
    machine = {"date": "today", "cpu": "x", "cores": 2, "load_average": 0.1, **environment}
    return Document("baseline", False, 3, {}, machine, {}, [], records)


def timed(seconds: float, median: float, competitor: str = "a", **case: float) -> Record:
    values = {"seconds": seconds, "median_seconds": median, "rounds": 3}
    return Record("fit", {"n": 10, **case}, competitor, values)


def test_times_differ_beyond_what_they_waver_by() -> None:
    first = document([timed(1.0, 1.05), timed(1.0, 1.5, "b"), timed(2.0, 2.0, "c")])
    second = document([timed(1.2, 1.26), timed(1.4, 1.5, "b"), timed(1.0, 1.0, "c")])
    found = {d.record.competitor: d for d in compare.compare(first, second)}
    assert [found[k].verdict for k in "abc"] == ["worse", "same", "better"]
    assert found["a"].ratio == pytest.approx(1.2) and found["a"].noise == pytest.approx(0.1)
    assert found["c"].noise == compare.LEAST_NOISE
    # The other way round, slower is faster.
    back = {d.record.competitor: d.verdict for d in compare.compare(second, first)}
    assert back == {"a": "better", "b": "same", "c": "worse"}
    failing = compare.failures(list(found.values()), 1.1)
    assert [d.record.competitor for d in failing] == ["a"]
    assert compare.failures(list(found.values()), 1.3) == []


def test_a_little_slower_is_noise_however_steady() -> None:
    (same,) = compare.compare(document([timed(1.0, 1.0)]), document([timed(1.029, 1.029)]))
    assert same.verdict == "same"
    (worse,) = compare.compare(document([timed(1.0, 1.0)]), document([timed(1.032, 1.032)]))
    assert worse.verdict == "worse"


@pytest.mark.parametrize(
    ("name", "error", "value", "verdict"),
    [
        ("accuracy", "accuracy_standard_error", 0.85, "better"),
        ("accuracy", "accuracy_standard_error", 0.75, "worse"),
        ("accuracy", "accuracy_standard_error", 0.84, "same"),
        ("log_loss", "log_loss_standard_error", 0.85, "worse"),
        ("excess", "excess_standard_error", 0.75, "better"),
    ],
)
def test_scores_differ_by_standard_errors(
    name: str, error: str, value: float, verdict: str
) -> None:
    before, after = (
        Record("g", {"epsilon": 1.0, "chosen": chosen}, "a", {name: v, error: 0.01})
        for v, chosen in ((0.8, "one"), (value, "another"))
    )
    # 0.85 and 0.75 are 3.5 standard errors away, 0.84 is 2.8.
    (found,) = compare.compare(document([before]), document([after]))
    assert found.verdict == verdict and found.what == name


def test_the_table_shows_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = document([timed(1.0, 1.0), timed(1.0, 1.0, "b"), timed(1.0, 1.0, "gone")])
    second = document([timed(2.0, 2.0), timed(1.0, 1.0, "b")], cpu="y", load_average=9.0)
    paths = []
    for name, one in (("first", first), ("second", second)):
        paths.append(str(tmp_path / f"{name}.json"))
        Path(paths[-1]).write_text(one.to_json(), "utf-8")
    assert cli.main(["compare", *paths]) == 0
    printed = capsys.readouterr().out
    assert "worse" in printed and "2.000" in printed
    assert "0 better and 1 worse" in printed and "geometric mean of after/before: 1.414" in printed
    assert "1 records only in the first file, 0 only in the second" in printed
    assert "cpu is x in the first file and y in the second" in printed
    assert "busy for the second file" in printed
    assert cli.main(["compare", *paths, "--fail-above", "1.5"]) == 1
    assert cli.main(["compare", *paths[::-1], "--fail-above", "1.5"]) == 0
    everything = compare.shown(first, second, compare.compare(first, second), everything=True)
    assert everything.count("| same |") == 1 and "| same |" not in printed


def test_two_suites_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = document([])
    with pytest.raises(ValueError, match="one suite; got 'baseline' and 'price'"):
        compare.compare(one, dataclasses.replace(one, suite="price"))
    path = tmp_path / "x.json"
    path.write_text("{}", "utf-8")
    with pytest.raises(SystemExit) as exit_:
        cli.main(["compare", str(path), str(path)])
    assert exit_.value.code == 2 and "benchmark result" in capsys.readouterr().err


# ---- rendering ----------------------------------------------------------------------------------


def test_reports_are_rendered_from_old_results(tmp_path: Path) -> None:
    values = {"excess": 0.25, "excess_standard_error": 0.125, "runs": 2.0}
    case = {"rows": 5, "alike": 0.5, "labels": 0.0, "epsilon": 1.0}
    records = [
        Record("made panels", case, name, values) for name in ("whole persons", "at most m rows")
    ]
    one = Document("persons", True, 1, {"persons": 9}, {}, {}, [], records)
    path = tmp_path / "persons.json"
    path.write_text(one.to_json(), "utf-8")
    assert cli.main(["render", str(path)]) == 0
    assert "0.25000 ± 0.12500" in (tmp_path / "persons.md").read_text("utf-8")
    assert json.loads(path.read_text("utf-8")) == json.loads(one.to_json())


def test_a_run_says_how_long_it_took_and_how_busy_the_machine_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SUITES["persons"], "run", lambda settings, sizes: [])
    environment = cli.run_suite("persons", Run(quick=True)).environment
    assert environment["minutes"] >= 0.0
    assert {"load_average", "load_average_at_end"} <= set(environment)
