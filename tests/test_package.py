"""What the package is to those who install, import, type-check and cite it."""

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dpfast

ROOT = Path(__file__).parent.parent
PACKAGE = Path(dpfast.__file__).parent

# Scikit-learn imports pandas and pyarrow itself where they are installed.
PROGRAM = """
import sys
import numpy, scipy.linalg, scipy.optimize, scipy.sparse, scipy.special, scipy.stats
import sklearn.base, sklearn.utils.multiclass, sklearn.utils.validation

before = set(sys.modules)
import dpfast

brought = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(brought - {"dpfast"} - sys.stdlib_module_names))

def refuse(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        raise SystemExit(f"the network is used: {event} {arguments}")

from dpfast.cli import demo, main

demo._REPEATS, demo._EPSILONS = 1, (1.0,)
sys.addaudithook(refuse)
code = main(["demo", "--json"])
if sys.argv[1:]:
    import socket
    socket.getaddrinfo("localhost", 80)
sys.exit(code)
"""


def run_program(*arguments):
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent)


def test_importing_brings_no_optional_package_and_the_demo_no_network():
    done = run_program()
    assert done.returncode == 0, done.stdout + done.stderr
    brought, _, report = done.stdout.partition("\n")
    # What Cython's modules share is a module, too.
    assert {name for name in brought.split() if not name.startswith("_cython_")} <= {"sklearn"}
    assert '"private"' in report


@pytest.mark.slow
def test_the_network_would_be_noticed():
    done = run_program("look up a name")
    assert done.returncode != 0
    assert "the network is used: socket.getaddrinfo" in done.stderr


def test_types_and_data_are_part_of_the_package():
    for name in ("py.typed", "_kernels.pyi"):
        assert (PACKAGE / name).is_file()
    assert any((PACKAGE / "data").iterdir())


def test_the_version_stands_in_one_place():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", dpfast.__version__)
    assert importlib.metadata.version("dpfast") == dpfast.__version__


def test_an_installed_package_holds_no_sources():
    if (ROOT / "setup.py").exists():
        pytest.skip("the source tree has them")
    assert not [*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxi"), *PACKAGE.rglob("*.c")]


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree")
def test_pythons_are_named_alike():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = [
        entry.rpartition(" ")[2]
        for entry in project["project"]["classifiers"]
        if entry.startswith("Programming Language :: Python :: 3.")
    ]
    assert project["project"]["dynamic"] == ["version"]
    assert project["project"]["requires-python"] == f">={named[0]}"
    built = project["tool"]["cibuildwheel"]["build"]
    for version in named:
        assert f"cp{version.replace('.', '')}-*" in built


@pytest.mark.skipif(not (ROOT / "CHANGELOG.md").exists(), reason="needs the source tree")
def test_the_changelog_has_its_form():
    """https://keepachangelog.com: versions, newest first, each in sections of known names."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.*)$", text, flags=re.M)
    assert versions[0] == "[Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version), version
    sections = set(re.findall(r"^### (.*)$", text, flags=re.M))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.skipif(not (ROOT / "CITATION.cff").exists(), reason="needs the source tree")
def test_the_four_papers_can_be_cited():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert text.startswith("cff-version: 1.2.0\n")
    papers = re.findall(r"^  - type: (\S+)\n    title: \"(.+)\"$", text, flags=re.M)
    assert len(papers) == 4
    for author in ("Zhang", "Lee", "Lowy", "Kuru"):
        assert f"family-names: {author}" in text
