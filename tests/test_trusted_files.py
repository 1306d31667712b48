"""docs/architecture.md says which files the guarantee rests on, and how many lines they have.

``python tests/test_trusted_files.py`` writes the numbers anew.
"""

import ast
import re
from pathlib import Path

import pytest

import dpfast

PACKAGE = Path(dpfast.__file__).parent
ROOT = PACKAGE.parent
PAGE = ROOT / "docs" / "architecture.md"
GENERATED = {"_kernels.c"}


def table():
    """Files and stated lines of each row of the table, by its group."""
    text = PAGE.read_text().split("## What must be right for the guarantee to hold")[1]
    groups: dict[str, list[tuple[list[str], int]]] = {}
    for line in text.split("\n## ")[0].splitlines():
        if heading := re.fullmatch(r"\| \*\*(.+)\*\* \| \|", line):
            rows = groups.setdefault(heading[1], [])
        elif row := re.fullmatch(r"\| (`.+) \| ([\d,]+) \|", line):
            rows.append((re.findall(r"`([^`]+)`", row[1]), int(row[2].replace(",", ""))))
    return groups


def sources():
    """The package's sources, those in C included, by the names that the table gives them."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxi") and path.name not in GENERATED:
            yield path.relative_to(PACKAGE).as_posix(), path
    for path in sorted((ROOT / "csrc").glob("*.[ch]")):
        yield f"csrc/{path.name}", path


def matches(pattern, name):
    """How well a pattern of the table fits a file: its length, or 0."""
    if pattern.endswith("/"):
        return len(pattern) if name.startswith(pattern) else 0
    if "*" in pattern:
        fits = re.fullmatch(re.escape(pattern).replace(r"\*", "[^/]*"), name)
        return pattern.index("*") if fits else 0
    return 1000 if name == pattern else 0


def counted():
    """Lines of every row, each file counted in the row that names it most closely."""
    rows = [tuple(patterns) for group in table().values() for patterns, _ in group]
    lines = dict.fromkeys(rows, 0)
    for name, path in sources():
        fits = {row: max(matches(pattern, name) for pattern in row) for row in rows}
        best = max(fits, key=lambda row: fits[row])
        assert fits[best] > 0, f"{name} is in no row of the table of trusted files"
        lines[best] += len(path.read_text().splitlines())
    return lines


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
def test_the_table_of_trusted_files_is_true():
    found = counted()
    wrong = [
        f"{', '.join(patterns)}: {found[tuple(patterns)]} lines, {stated} stated"
        for group in table().values()
        for patterns, stated in group
        if abs(found[tuple(patterns)] - stated) > max(150, 0.1 * stated)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
def test_the_table_names_only_what_there_is():
    names = [name for name, _ in sources()]
    for patterns in counted():
        for pattern in patterns:
            assert any(matches(pattern, name) for name in names), pattern


def test_a_pattern_fits_most_closely():
    assert matches("solvers/_driver.py", "solvers/_driver.py") > matches(
        "solvers/", "solvers/_driver.py"
    )
    assert matches("solvers/papers/", "solvers/papers/a.py") > matches(
        "solvers/*.py", "solvers/papers/a.py"
    )
    assert not matches("_kernels_*.pxi", "_kernels.pyx")


# What trusted files may ask of the others: points that they certify, amounts of noise that the
# ledger prices and limits that filters confirm, checks of arguments, errors.
ASKED = ("optimizers/", "privacy/calibration.py", "_validation.py", "errors.py", "__init__.py")


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
def test_what_is_asked_priced_and_computed_rests_on_nothing_else():
    groups = table()
    untrusted = [tuple(patterns) for patterns, _ in groups["Not trusted"]]
    rows = [tuple(patterns) for group in groups.values() for patterns, _ in group]

    def row_of(name):
        return max(rows, key=lambda row: max(matches(pattern, name) for pattern in row))

    trusted = [tuple(p) for g in ("Asked and answered", "Priced", "Computed") for p, _ in groups[g]]
    names = dict(sources())
    for name, path in names.items():
        if path.suffix == ".py" and row_of(name) in trusted:
            for other in imported(path, names):
                if not any(matches(pattern, other) for pattern in ASKED):
                    assert row_of(other) not in untrusted, f"{name} imports {other}"


def imported(path, names):
    """The package's files that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            module = (node.module or "").split(".")
            if module[0] == "dpfast":
                inside = "/".join(module[1:])
                places = (f"{inside}/{alias.name}.py", f"{inside}.py", f"{inside}/__init__.py")
                yield from [place for place in places if place in names][:1]


def write():
    """Put the present numbers into the page."""
    found, lines = counted(), PAGE.read_text().splitlines()
    for number, line in enumerate(lines):
        patterns = tuple(re.findall(r"`([^`]+)`", line))
        if patterns in found and (row := re.fullmatch(r"(\| .+ \| )[\d,]+ \|", line)):
            lines[number] = f"{row[1]}{round(found[patterns], -2):,} |"
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write()
