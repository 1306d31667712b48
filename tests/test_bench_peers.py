"""Competitors in processes of their own, and their scores."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import peer_process, problems
from bench.competitors import COMPETITORS, Task, _descent, dpfast_native, missing
from bench.harness import Document, Run
from bench.suites import peers

ROOT = Path(__file__).parent.parent

# ---- scores -------------------------------------------------------------------------------------


def test_auc_by_hand() -> None:
    y = np.array([1.0, 1.0, -1.0, -1.0])
    assert peers.auc(np.array([3.0, 2.0, 1.0, 0.0]), y) == 1.0
    assert peers.auc(np.array([0.0, 1.0, 2.0, 3.0]), y) == 0.0
    # Of four pairs two are right and one is a tie.
    assert peers.auc(np.array([3.0, 1.0, 1.0, 2.0]), y) == pytest.approx(2.5 / 4)
    assert peers.auc(np.zeros(4), y) == 0.5 == peers.auc(np.arange(4.0), np.ones(4))


def test_summary_is_of_the_held_out_rows() -> None:
    test = problems.Dataset("t", np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), 1.0)
    values = peers.summary([(np.array([1.0, 0.0]), test), (np.array([-1.0, 0.0]), test)])
    assert values["accuracy"] == values["auc"] == 0.5
    assert values["accuracy_standard_error"] == pytest.approx(0.5)
    losses = [math.log1p(math.exp(-1.0)), math.log1p(math.exp(1.0))]
    assert values["log_loss"] == pytest.approx(sum(losses) / 2)
    assert peers.summary([(np.array([math.nan, 0.0]), test)]) == {}


# ---- promises -----------------------------------------------------------------------------------


def test_every_competitor_says_what_it_promises() -> None:
    for name, competitor in COMPETITORS.items():
        assert competitor.RELATION in ("none", "replace_one", "add_or_remove_one"), name
        private = competitor.RELATION != "none"
        assert private != competitor.GUARANTEE.startswith("none"), name
        if private:
            assert competitor.RELATION in competitor.GUARANTEE, name
            assert competitor.DELTA is competitor.GUARANTEE.startswith("(epsilon, delta)"), name


@pytest.mark.parametrize(
    ("name", "relation", "delta"),
    [
        ("dpfast", "replace_one", 1e-6),
        ("dpfast, add_or_remove_one", "add_or_remove_one", 1e-6),
        ("dpfast, pure", "replace_one", 0.0),
    ],
)
def test_dpfast_keeps_what_its_entries_say(
    name: str, relation: str, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dpfast

    seen: list[Any] = []

    class Spy(dpfast.LogisticRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            fitted = super().fit(X, y)
            seen.append(self.privacy_)
            return fitted

    monkeypatch.setattr(dpfast, "LogisticRegression", Spy)
    data = problems.synthetic(500, 3)
    COMPETITORS[name].fit(Task(data.X, data.y, 1.0, 0.7, 1e-6))
    (report,) = seen
    assert report.neighboring_relation == relation
    assert report.epsilon <= 0.7 and report.delta <= delta
    assert COMPETITORS[name].DELTA is (delta > 0.0)


def test_hand_written_descents_stay_within_their_budget() -> None:
    for epsilon in (0.1, 1.0, 8.0):
        scale = _descent.noise_scale(epsilon, 1e-6)
        rho = _descent.STEPS * _descent.CLIP_NORM**2 / (2.0 * scale**2)
        spent = rho + 2.0 * math.sqrt(rho * math.log(1e6))
        assert epsilon * (1.0 - 1e-9) <= spent <= epsilon * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "name",
    ["diffprivlib", "opacus", "OpenDP, descent by hand", "PyTorch, by hand", "JAX, by hand",
     "lightning"],
)  # fmt: skip
def test_other_libraries_learn_where_they_are_installed(name: str) -> None:
    competitor = COMPETITORS[name]
    reason = missing(name)
    if reason is not None:
        pytest.skip(reason)
    data = problems.synthetic(3000, 3)
    w = competitor.fit(Task(data.X, data.y, 1.0, epsilon=20.0, delta=1e-6))
    assert w.shape == (4,)
    assert np.mean((data.X @ w[:-1] + w[-1]) * data.y > 0.0) > 0.7


# ---- processes ----------------------------------------------------------------------------------


def test_a_process_fits_at_every_budget_and_seed(tmp_path: Path) -> None:
    data = problems.synthetic(200, 3)
    file = tmp_path / "rows.npz"
    arrays = {f"{part}{k}": getattr(data, part) for part in "Xy" for k in range(2)}
    np.savez(file, data_norm=1.0, **arrays)
    wanted = peer_process.Settings((0.5, 2.0), 1e-6, 2, 60.0)
    with np.load(file) as loaded:
        found = peer_process.fits("dpfast", loaded, wanted)
        again = peer_process.fits("majority", loaded, wanted)
        short = peer_process.fits("majority", loaded, peer_process.Settings((1.0,), 0.1, 2, -1.0))
    assert [(f["epsilon"], f["seed"]) for f in found["fits"]] == [
        (0.5, 0), (2.0, 0), (0.5, 1), (2.0, 1),
    ]  # fmt: skip
    # Without a promise, the budget does not matter.
    assert [(f["epsilon"], f["seed"]) for f in again["fits"]] == [(0.5, 0), (0.5, 1)]
    assert [f["seed"] for f in short["fits"]] == [0]
    task = Task(data.X, data.y, 1.0, 2.0, 1e-6, seed=1)
    assert found["fits"][3]["weights"] == dpfast_native.fit(task).tolist()
    assert found["peak_bytes"] >= found["growth_bytes"] >= 0 and found["first_seconds"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets the peak start again")
def test_the_peak_is_that_of_the_fits() -> None:
    """In a process of its own: other tests leave memory behind that is used again."""
    code = (
        "import numpy as np; from bench import peer_process as p; np.ones(2**24);"
        "before = p.start_peak(); np.ones(2**22); print(p.peak_bytes() - before)"
    )
    # An earlier, higher peak does not count.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 0.9 * 2**25 < float(done.stdout) < 1.5 * 2**25


def test_processes_of_other_interpreters_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first interpreter that has a library runs it; what nobody has is said."""
    answers = {
        sys.executable: {"dpfast": None, "opacus": "opacus is not installed", "JAX, by hand": "no"},
        "other": {"opacus": None, "JAX, by hand": "no jax there either"},
        "broken": "No module named 'numpy'",
    }
    asked: list[tuple[str, list[str]]] = []

    def ask(python: str, words: list[str]) -> Any:
        asked.append((python, words[1:]))
        return answers[python]

    monkeypatch.setattr(peers, "_ask", ask)
    settings = Run(say=lambda text: None, pythons=(Path("broken"), Path("other")))
    found = peers.interpreters(["dpfast", "opacus", "JAX, by hand"], settings)
    assert found == {"dpfast": sys.executable, "opacus": "other"}
    assert asked[1:] == [(python, ["opacus", "JAX, by hand"]) for python in ("broken", "other")]
    assert settings.notes == [
        "broken of --python left out: No module named 'numpy'.",
        "JAX, by hand left out: no.",
    ]


def test_versions_are_noted_by_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"Python", "numpy", "scikit-learn"} <= set(peer_process.versions())
    answers = {"one": {"Python": "3.11", "jax": "0.1"}, "two": "it crashed"}
    monkeypatch.setattr(peers, "_ask", lambda python, words: answers[python])
    settings = Run(say=lambda text: None)
    peers.note_versions({"a": "one", "b": "two", "c": "one"}, settings)
    assert settings.notes == ["a; c: with Python 3.11, jax 0.1."]


def test_answers_are_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(outcome: tuple[int, str, str]) -> Any:
        monkeypatch.setattr(
            subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, *outcome)
        )
        return peers._ask("python", ["missing"])

    assert run((0, 'chatter\n{"a": null}\n', "")) == {"a": None}
    assert run((1, "", "Traceback\nValueError: x\n")) == "ValueError: x"
    assert run((-9, "", "")) == "exit code -9"
    monkeypatch.undo()
    assert "No such file" in peers._ask("/does/not/exist", ["missing"])


def test_the_suite_without_other_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(python: str, words: list[str]) -> Any:
        if words[0] == "missing":
            return dict.fromkeys(words[1:])
        if words[1] == "scikit-learn":
            return "it crashed"
        body = json.loads(words[3])
        with np.load(words[2]) as arrays:
            return peer_process.fits(
                words[1], arrays, peer_process.Settings(**{**body, "epsilons": (1.0,)})
            )

    monkeypatch.setattr(peers, "_ask", ask)
    monkeypatch.setattr(peers, "note_versions", lambda found, settings: None)
    names = ("dpfast", "scikit-learn", "majority")
    sizes = peers.Sizes(epsilons=(1.0,), seeds=2, names=names, rows=400)
    settings = Run(say=lambda text: None)
    records = peers.run(settings, sizes)
    assert [r.competitor for r in records] == ["dpfast", "majority"]
    assert "scikit-learn left out on RAND HIE: it crashed." in settings.notes
    assert records[0].case["delta"] == 1e-6 and "epsilon" not in records[1].case
    document = Document(
        "peers", True, 1, {"delta": 1e-6}, {}, dict.fromkeys(names, ""), [], records
    )
    page = peers.tables(document)
    assert [row[3:] for row in page[0].rows] == [
        ("dpfast", "yes"), ("-", "no"), ("-", "yes"),
    ]  # fmt: skip
    assert len(page[1].rows) == 2


# ---- sparse rows --------------------------------------------------------------------------------


def test_sparse_rows_are_as_sparse_as_they_should_be() -> None:
    X, y = problems.sparse_rows(300, 40, 4)
    assert X.has_canonical_format and np.all(np.diff(X.indptr) == 4)
    assert np.linalg.norm(X.toarray(), axis=1).max() <= 1.0
    assert X.indices.min() == 0 and X.indices.max() == 39 and set(y) == {-1.0, 1.0}
