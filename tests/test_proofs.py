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


def test_without_the_tools_nothing_is_proved_and_it_is_said(tmp_path):
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    ran = subprocess.run(
        [tmp_path / "bash", PROVE], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ran.returncode == 0
    assert ran.stdout.startswith("skipped: nothing is proved without frama-c")


@pytest.mark.skipif(shutil.which("frama-c") is None, reason="needs Frama-C")
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
