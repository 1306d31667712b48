"""The import directions of the package and of the C sources, read from the files themselves."""

import ast
import re
from pathlib import Path

import pytest

import dpfast
from dpfast.losses import loss_names

PACKAGE = Path(dpfast.__file__).parent
ROOT = PACKAGE.parent

# From the top: a module may import from rows below its own, and within its own room.
LAYERS = [
    {"cli"},
    {"plotting"},
    {"tabular"},
    {"model_selection"},
    {"estimators", "preprocessing"},
    {"solvers"},
    {"fused"},
    {"queries"},
    {"optimizers"},
    {"objectives"},
    {"blocks"},
    {"problem"},
    {"shape"},
    {"curator"},
    {"rows", "losses", "mechanisms", "datasets", "theory", "column_blocks"},
    {"privacy"},
    {"random"},
    {"_files", "_show_versions"},
    {"_validation", "errors", "_kernels", "_version", "_compiled"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = sorted(p for p in PACKAGE.rglob("*.py"))


def room(module):
    """`dpfast.privacy.ledger` -> `privacy`."""
    return module.split(".")[1]


def imports(path):
    """Modules of dpfast that a file imports, as dotted names."""
    package = "dpfast." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "dpfast")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{package}: use absolute imports"
            if node.module == "dpfast":
                yield from (f"dpfast.{a.name}" for a in node.names)
            elif (node.module or "").startswith("dpfast."):
                yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts == ("__init__",):
        return  # re-exports from everywhere
    own = parts[0]
    assert own in RANK, f"{own} has no place in the layers: add it to LAYERS"
    for module in imports(path):
        if module == "dpfast":
            pytest.fail(f"{path.name} imports the package itself")
        other = room(module)
        assert other in RANK, f"{path.name} imports {module}, which has no place in the layers"
        if other != own:
            assert RANK[other] > RANK[own], f"{own} must not import {module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_losses_are_told_apart_by_their_facts(path):
    """No name of a loss is compared with, or stands in a list: facts belong in csrc/loss_list.h."""
    if path.relative_to(PACKAGE).parts[0] in ("cli", "tabular"):
        return  # families of estimators have names, too, and some are those of their losses
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare | ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Match):
            inside = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
            assert inside.isdisjoint(loss_names()), f"{path.name}:{node.lineno} names a loss"


def test_the_package_front_has_no_logic():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    assert all(isinstance(node, allowed) for node in tree.body)


CSRC = ROOT / "csrc"


@pytest.mark.skipif(not CSRC.is_dir(), reason="C sources are not part of an installed package")
def test_c_sources_know_nothing_of_python_or_the_heap():
    for path in [*CSRC.glob("*.c"), *CSRC.glob("*.h")]:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        assert "Python.h" not in text, path.name
        assert not re.search(
            r"\b(malloc|calloc|realloc|free|alloca|printf|abort|exit)\s*\(", text
        ), path.name


@pytest.mark.skipif(not CSRC.is_dir(), reason="C sources are not part of an installed package")
def test_c_includes_have_no_cycles():
    headers = {
        path.name: set(re.findall(r'#include "([^"]+)"', path.read_text()))
        for path in [*CSRC.glob("*.c"), *CSRC.glob("*.h")]
    }

    def visit(name, trail):
        assert name not in trail, " -> ".join([*trail, name])
        for other in headers[name]:
            assert other in headers, f"{name} includes {other}, which is not in csrc"
            visit(other, [*trail, name])

    for name in headers:
        visit(name, [])
    public = {name for name, used in headers.items() if "dpfast.h" in used}
    assert "dense_ops.h" in public
    for name in ("status.h", "dispatch.h", "random.h", "simd.h", "vecmath.h", "loss_list.h"):
        assert "dpfast.h" not in headers[name], f"{name} is below the public header"
