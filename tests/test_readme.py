"""The README's examples run, and its statements about the package hold."""

import re
from pathlib import Path

import pytest

from dpfast.losses import loss_names
from dpfast.solvers import SOLVERS

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8") if README.exists() else ""

pytestmark = pytest.mark.skipif(not TEXT, reason="the README is not part of an installed package")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, flags=re.S))
def test_example_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_first_example_is_short():
    first = re.search(r"```python\n(.*?)```", TEXT, flags=re.S).group(1)
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


def test_tables_are_complete():
    for name in (*SOLVERS, *loss_names()):
        assert f"`{name}`" in TEXT, f"{name} is missing from the README's tables"


def test_files_that_are_named_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        if not target.startswith("http"):
            assert (README.parent / target).exists(), target
