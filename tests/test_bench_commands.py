"""The benchmarks as one command: what runs when, what a failure costs, and two results compared."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

import bench.__main__ as cli
from bench import compare, harness, schedule
from bench.harness import Document, Record, Run
from bench.schedule import Job, Progress
from bench.suites import GROUPS, SCHEDULE, SUITES

fcntl = pytest.importorskip("fcntl", reason="suites do not run at once where files have no locks")


# ---- schedule -----------------------------------------------------------------------------------


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_failing_suite_takes_no_other_along(tmp_path: Path) -> None:
    # Each waits for nobody, so this holds whatever runs first.
    jobs = [
        Job("bad", python("print('  why'); raise SystemExit(3)"), 2.0, timed=False),
        Job("gone", ["/does/not/exist"], 1.0, timed=False),
        Job("good", python(f"open({str(tmp_path / 'out')!r}, 'w').write('x')"), 1.0, timed=False),
        Job("timed", python("print('  a line')"), 1.0, timed=True),
    ]
    said: list[str] = []
    codes = schedule.run(jobs, 2, said.append)
    assert codes == {"bad": 3, "gone": 127, "good": 0, "timed": 0}
    assert (tmp_path / "out").read_text() == "x"
    text = "\n".join(said)
    assert "bad: FAILED with exit code 3" in text and "  [bad] why" in text
    assert "  [timed] a line" in text and "good: done" in text
    # What is timed begins when everything else has ended.
    ends = [text.index(end) for end in ("bad: FAILED", "gone: FAILED", "good: done")]
    assert max(ends) < text.index("timed: begins")


def test_an_interrupted_run_ends_what_runs(tmp_path: Path) -> None:
    """Else this would wait for ever."""
    code = "import time; print('  up', flush=True); time.sleep(1e6)"
    jobs = [
        Job("endless", python(code), 1.0, timed=True),
        Job("next", python(f"open({str(tmp_path / 'next')!r}, 'w')"), 1.0, timed=True),
    ]

    def say(line: str) -> None:
        if line == "  [endless] up":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        schedule.run(jobs, 1, say)
    assert not (tmp_path / "next").exists()


def test_time_left_follows_the_pace() -> None:
    now = 0.0
    jobs = [
        Job("a", [], 10.0, timed=False),
        Job("b", [], 6.0, timed=False),
        Job("c", [], 4.0, timed=False),
        Job("d", [], 5.0, timed=True),
    ]
    progress = Progress(jobs, 2, clock=lambda: now)
    assert progress.seconds_left() == 60 * (10 + 5)
    assert schedule.expected_minutes([jobs[0], jobs[3]], 2) == 15.0
    progress.start("a")
    progress.start("b")
    now = 3 * 60.0
    assert progress.end("b") == 180.0
    # Twice as fast as expected: 2 of a's minutes are left, 2 of c, 2.5 of d.
    assert progress.seconds_left() == 60 * (2 + 2.5)
    progress.start("c")
    now = 100 * 60.0  # later than expected: nothing negative
    assert progress.seconds_left() == 60 * 2.5
    assert [schedule.shown(s) for s in (12.4, 95.0, 3600.0, 5400.0)] == [
        "12 s", "2 min", "1 h 00 min", "1 h 30 min",
    ]  # fmt: skip


def test_the_whole_run_is_planned_within_its_limits() -> None:
    jobs = {
        quick: [
            Job(name, [], s.quick_minutes if quick else s.minutes, s.timed)
            for name, s in SCHEDULE.items()
        ]
        for quick in (True, False)
    }
    assert schedule.expected_minutes(jobs[False], 2) <= 150.0
    assert schedule.expected_minutes(jobs[True], 2) <= 6.0


def test_groups_are_of_suites() -> None:
    assert GROUPS["all"] == tuple(SUITES) == tuple(SCHEDULE)
    assert {"zhang2017", "lee2018", "kuru2020"} <= set(GROUPS["papers"])
    assert not set(GROUPS) & set(SUITES)
    assert cli._chosen([]) == list(SUITES)
    assert cli._chosen(["papers", "kernels"]) == [
        name for name in SUITES if name == "kernels" or name in GROUPS["papers"]
    ]


def test_several_suites_are_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Job] = []

    def run(jobs: list[Job], workers: int, say: object) -> dict[str, int]:
        seen.extend(jobs)
        assert workers == 3
        return {job.name: int(job.name == "sgd") for job in jobs}

    monkeypatch.setattr(schedule, "run", run)
    words = ["sgd", "datasets", "--quick", "--jobs", "3", "--repeat", "2"]
    words += ["--data", str(tmp_path), "--output", str(tmp_path), "--python", sys.executable]
    assert cli.main(words) == 1
    assert [job.name for job in seen] == ["datasets", "sgd"]
    assert [job.minutes for job in seen] == [SCHEDULE[j.name].quick_minutes for j in seen]
    assert [job.timed for job in seen] == [False, True]
    for job in seen:
        again = cli._parse(list(job.command[3:]))
        assert again.suite == [job.name] and again.quick and not again.large
        assert (again.repeat, again.data, again.output) == (2, tmp_path, tmp_path)
        assert again.python == [Path(sys.executable)]
    assert "Failed: sgd." in capsys.readouterr().out


# ---- an undisturbed machine ---------------------------------------------------------------------


def locked(folder: Path, name: str, how: int) -> bool:
    """Whether a lock of this kind can be had at once."""
    with open(folder / name, "a") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_timing_keeps_the_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_turns", str(tmp_path))
    monkeypatch.setattr(harness, "_shared", None)
    harness.give_way()
    assert locked(tmp_path, "machine", fcntl.LOCK_SH)  # two may work
    assert not locked(tmp_path, "machine", fcntl.LOCK_EX)  # nobody may time
    assert locked(tmp_path, "gate", fcntl.LOCK_EX)
    with harness.undisturbed():
        for name in ("machine", "gate"):
            assert not locked(tmp_path, name, fcntl.LOCK_SH)
        with harness.undisturbed():  # such as `interleave` in a suite that asked for it
            harness.give_way()
        assert not locked(tmp_path, "machine", fcntl.LOCK_SH)
    assert locked(tmp_path, "gate", fcntl.LOCK_EX)
    assert not locked(tmp_path, "machine", fcntl.LOCK_EX)
    harness._release()
    assert locked(tmp_path, "machine", fcntl.LOCK_EX)


def test_a_suite_on_its_own_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_turns", None)
    monkeypatch.chdir(tmp_path)
    harness.give_way()
    with harness.undisturbed():
        pass
    assert harness._shared is None and not list(tmp_path.iterdir())


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
    found = {d.competitor: d for d in compare.compare(first, second)}
    assert [found[k].verdict for k in "abc"] == ["worse", "same", "better"]
    assert found["a"].ratio == pytest.approx(1.2) and found["a"].noise == pytest.approx(0.1)
    assert found["c"].noise == compare.LEAST_NOISE
    # The other way round, slower is faster.
    back = {d.competitor: d.verdict for d in compare.compare(second, first)}
    assert back == {"a": "better", "b": "same", "c": "worse"}
    failing = compare.failures(list(found.values()), 1.1)
    assert [d.competitor for d in failing] == ["a"]
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
        ("excess", "standard_error", 0.75, "better"),
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
    assert "busy when the second file" in printed
    assert cli.main(["compare", *paths, "--fail-above", "1.5"]) == 1
    assert cli.main(["compare", *paths[::-1], "--fail-above", "1.5"]) == 0
    screen = Console(record=True, width=200)
    compare.show(first, second, compare.compare(first, second), everything=True, console=screen)
    assert screen.export_text().count("same") == 1


def test_two_suites_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = document([])
    with pytest.raises(ValueError, match="one suite; got 'baseline' and 'sgd'"):
        compare.compare(one, dataclasses.replace(one, suite="sgd"))
    path = tmp_path / "x.json"
    path.write_text("{}", "utf-8")
    with pytest.raises(SystemExit) as exit_:
        cli.main(["compare", str(path), str(path)])
    assert exit_.value.code == 2 and "benchmark result" in capsys.readouterr().err


# ---- rendering ----------------------------------------------------------------------------------


def test_reports_are_rendered_from_old_results(tmp_path: Path) -> None:
    values = {"accuracy": 0.7, "log_loss": 0.6, "seeds": 2}
    values |= {f"{name}_standard_error": 0.01 for name in ("accuracy", "log_loss")}
    record = Record("RAND HIE", {"n": 10, "d": 2, "epsilon": 1.0}, "dpfast", values)
    one = Document("datasets", True, 1, {"delta": 1e-6}, {}, {}, [], [record])
    path = tmp_path / "datasets.json"
    path.write_text(one.to_json(), "utf-8")
    assert cli.main(["render", str(path)]) == 0
    assert "70.00 ± 1.00 %" in (tmp_path / "datasets.md").read_text("utf-8")
    assert json.loads(path.read_text("utf-8")) == json.loads(one.to_json())


def test_a_run_says_how_long_it_took_and_how_busy_the_machine_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SUITES["datasets"], "run", lambda settings, sizes: [])
    environment = cli.run_suite("datasets", Run(quick=True)).environment
    assert environment["minutes"] >= 0.0
    assert {"load_average", "load_average_at_end"} <= set(environment)
