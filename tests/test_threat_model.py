"""Every statement of the threat model names tests that exist, or says what is not tested."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guide" / "threat_model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")

pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="the documentation is not part of an installed package"
)


def statements():
    text = PAGE.read_text(encoding="utf-8")
    return [" ".join(item.split()) for item in re.findall(r"^- (.*(?:\n  .*)*)", text, flags=re.M)]


def names_in(path):
    """Names of the tests of a file, those of classes as Class::test."""
    names = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        for child in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(child, ast.FunctionDef) and child.name.startswith("test"):
                prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
                names.add(prefix + child.name)
    return names


def test_every_statement_has_tests_or_a_gap():
    found = statements()
    assert len(found) > 25
    for statement in found:
        tests = NAMED.findall(statement)
        assert ("Tests:" in statement) == bool(tests), statement
        assert tests or "Gap:" in statement, statement
    # Every line but headings and the preamble belongs to a statement.
    body = PAGE.read_text(encoding="utf-8").split("\n## ", 1)[1].splitlines()[1:]
    assert all(re.match(r"#|- |  \S|$", line) for line in body)


def test_every_test_that_is_named_exists():
    named = {pair for statement in statements() for pair in NAMED.findall(statement)}
    known = {path: names_in(path) for path, _ in named}
    assert [f"{path}::{name}" for path, name in sorted(named) if name not in known[path]] == []
