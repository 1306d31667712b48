"""The proofs by machine: no file is left out, and the page says what is proved."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROVE = ROOT / ".ci" / "prove"
pytestmark = pytest.mark.skipif(not PROVE.is_file(), reason="needs the repository")


def steps():
    return re.search(r'^all="([^"]*)"', PROVE.read_text(), re.MULTILINE).group(1).split()


def test_every_scalar_c_file_is_analyzed_or_proved():
    told = PROVE.read_text() + "".join(
        file.read_text() for file in (ROOT / "tests" / "prove").glob("wp_*.c")
    )
    files = [file.name for file in (ROOT / "csrc").glob("*.c") if "_avx" not in file.name]
    assert len(files) > 15
    assert [file for file in files if not re.search(rf"\b{re.escape(file)}\b", told)] == []


def test_every_function_of_a_header_is_in_a_harness():
    told = "".join(file.read_text() for file in (ROOT / "tests" / "prove").glob("*.[ch]"))
    outside = re.compile(
        r"^(?!static|typedef|DPFAST_INLINE|[ #*/]).*?\b(dpfast_\w+)\(", re.MULTILINE
    )
    declared = [
        name for file in (ROOT / "csrc").glob("*.h") for name in outside.findall(file.read_text())
    ]
    assert len(declared) > 50
    assert [name for name in declared if not re.search(rf"\b{name}\(", told)] == []


def test_every_harness_is_a_step():
    known = {step.split("_")[0] for step in steps()} | set(steps())
    for file in (ROOT / "tests" / "prove").glob("*.c"):
        name = file.stem.removeprefix("eva_")
        assert name in known or f"{name}_dense" in known


def test_the_page_names_every_step_and_every_admission():
    page = (ROOT / "docs" / "proofs.md").read_text()
    for step in steps():
        assert step in page or step.rsplit("_", 1)[0] + "_…" in page
    for file in (ROOT / "csrc").iterdir():
        if re.search(r"/\*@\s*admit", file.read_text()):
            assert f"`{file.name}`" in page


def quoted(text):
    """File and text of the lines that a file for the solver says in its own language."""
    return re.findall(r"^; ([\w/.]+\.(?:py|c|h)): (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("step", ["floats", "rounding"])
def test_the_lines_that_are_proved_stand_in_the_files(step):
    lines = quoted((ROOT / "tests" / "prove" / f"{step}.smt2").read_text())
    assert len(lines) > 10
    for file, line in lines:
        assert " ".join(line.split()) in " ".join((ROOT / file).read_text().split()), line


def answers(text, tmp_path):
    (tmp_path / "query.smt2").write_text(text)
    ran = subprocess.run(["z3", tmp_path / "query.smt2"], capture_output=True, text=True)
    return ran.stdout.split()


#: Each of these constants in rounding.smt2 is needed: with the other, a norm or a factor is wrong.
SLACK = [
    ("(+ k 1.0) u", "(+ k 0.5) u"),
    ("(/ d 2.0) 4.0)", "(/ d 2.0) 1.0)"),
    ("(/ d 2.0) 4.0)", "(/ d 4.0) 4.0)"),
    ("(+ d 8.0) u", "(+ d 2.0) u"),
    ("(* 16.0 u)", "(* 1.0 u)"),
    ("(* 32.0 u)", "(* 3.0 u)"),
    ("(- 1.0 (* 8.0 u)) (+ 1.0 e)", "(- 1.0 (* 5.0 u)) (+ 1.0 e)"),
    ("(- 1.0 (* 8.0 u)) d", "(- 1.0 (* 1.0 u)) d"),
    ("(+ 1.0 e) up (+ 1.0 f)", "(+ 1.0 e) (+ 1.0 f)"),
    ("(- 1.0 (* 4.0 u)) (+ 1.0 f) norm", "(- 1.0 (* 1.0 u)) (+ 1.0 f) norm"),
    ("(- 1.0 (* 4.0 u)) (+ 1.0 e)", "(- 1.0 (* 1.0 u)) (+ 1.0 e)"),
    ("(- 1.0 (* 4.0 u)) (+ 1.0 f) (+ 1.0 g)", "(- 1.0 (* 1.0 u)) (+ 1.0 f) (+ 1.0 g)"),
]


@pytest.mark.skipif(shutil.which("z3") is None, reason="needs Z3")
@pytest.mark.parametrize("right, wrong", SLACK)
def test_less_room_for_rounding_is_refuted(right, wrong, tmp_path):
    text = (ROOT / "tests" / "prove" / "rounding.smt2").read_text()
    assert right in text
    assert "sat" in answers(text.replace(right, wrong), tmp_path)


@pytest.mark.skipif(shutil.which("z3") is None, reason="needs Z3")
def test_the_premises_of_rounding_can_be_met(tmp_path):
    """Without its last assertion, that the claim fails, every query has a solution."""
    text = (ROOT / "tests" / "prove" / "rounding.smt2").read_text()
    ask = "(check-sat-using qfnra-nlsat)"
    claims = rf"\(assert \(not .*\n(?: .*\n)*{re.escape(ask)}"
    queries = text.count(ask)
    assert answers(re.sub(claims, ask, text), tmp_path) == ["sat"] * queries
    assert answers(text, tmp_path) == ["unsat"] * queries


def test_without_the_tools_nothing_is_proved_and_it_is_said(tmp_path):
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    ran = subprocess.run(
        [tmp_path / "bash", PROVE], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ran.returncode == 0
    assert ran.stdout.startswith("skipped: nothing is proved without frama-c")


@pytest.mark.skipif(
    not all(map(shutil.which, ("frama-c", "why3", "cvc4", "z3"))), reason="needs .ci/prove's tools"
)
def test_a_step_that_is_not_proved_fails(tmp_path):
    """A copy whose keystream writes one word too many."""
    for part in (".ci", "csrc", "tests/prove"):
        shutil.copytree(ROOT / part, tmp_path / part)
    command = ["bash", tmp_path / ".ci" / "prove", "chacha20"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    file = tmp_path / "csrc" / "chacha20.c"
    text = file.read_text()
    assert text.count("i < 16") > 0
    file.write_text(text.replace("i < 16", "i <= 16", 1))
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode != 0
    assert "NOT PROVED" in ran.stdout
