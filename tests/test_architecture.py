"""The import directions of the package and of the C sources, read from the files themselves."""

import ast
import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import dpfast
from dpfast.losses import loss_names
from dpfast.solvers import SOLVERS as SOLVER_TABLE
from dpfast.solvers import papers

PACKAGE = Path(dpfast.__file__).parent
ROOT = PACKAGE.parent

# The table of rooms: a module may import from rows below its own, and within its own room.
PAGE = ROOT / "docs" / "architecture.md"


def ranks():
    """Numbers of the rows by what is in them."""
    rooms = PAGE.read_text().split("## Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", rooms, re.MULTILINE)
    return {
        name: rank
        for rank, row in enumerate(rows)
        for name in re.findall(r"`(\w+)(?:/|\.pyx?)`", row)
    }


RANK = ranks() if PAGE.is_file() else {}
MODULES = sorted(p for p in PACKAGE.rglob("*.py"))


def room(module):
    """`dpfast.privacy.ledger` -> `privacy`."""
    return module.split(".")[1]


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path):
    """Modules of dpfast that a file imports, as dotted names."""
    package = "dpfast." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "dpfast")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{package}: use absolute imports"
            if node.module == "dpfast":
                yield from (f"dpfast.{a.name}" for a in node.names)
            elif (node.module or "").startswith("dpfast."):
                yield node.module


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")
@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts in (("__init__",), ("__main__",)):
        return  # re-exports from everywhere, and runs the command line
    own = parts[0]
    assert own in RANK, f"{own} has no row in docs/architecture.md"
    for module in imports(path):
        if module == "dpfast":
            pytest.fail(f"{path.name} imports the package itself")
        other = room(module)
        assert other in RANK, f"{path.name} imports {module}, which has no row there"
        if other != own:
            assert RANK[other] > RANK[own], f"{own} must not import {module}"


# ---- solvers never see the rows ------------------------------------------------------------------

# What carries plans out, and is trusted; everything else in the room is a solver.
DRIVER = {"__init__.py", "_contract.py", "_driver.py", "_requests.py", "_resume.py", "_table.py"}
SOLVERS = sorted(p for p in (PACKAGE / "solvers").rglob("*.py") if p.name not in DRIVER)
# What solvers need: homes of what they import, whichever module they take it from.
FOR_SOLVERS = {
    "__future__", "collections.abc", "dataclasses", "functools", "itertools", "math",
    "types.MappingProxyType", "typing", "numpy", "scipy.linalg", "scipy.optimize", "scipy.sparse",
    "scipy.special", "scipy.stats", "dpfast._typing", "dpfast._validation",
    "dpfast.curator.Curator", "dpfast.errors", "dpfast.fused", "dpfast.losses",
    "dpfast.mechanisms", "dpfast.objectives", "dpfast.optimizers", "dpfast.privacy.ACCOUNTANTS",
    "dpfast.privacy.NEIGHBORING_RELATIONS", "dpfast.privacy.SAMPLINGS", "dpfast.privacy.budget",
    "dpfast.privacy.calibration", "dpfast.privacy.calibration_search",
    "dpfast.privacy.conversions", "dpfast.privacy.events", "dpfast.privacy.filters",
    "dpfast.privacy.papers", "dpfast.privacy.sampled_noise", "dpfast.queries", "dpfast.shape",
    "dpfast.solvers", "dpfast.theory",
}  # fmt: skip
BUT = {
    "dpfast.objectives.general", "dpfast.objectives.python_erm",
    "dpfast.queries.scores", "dpfast.solvers._driver", "dpfast.solvers._resume",
    "numpy.ctypeslib", "numpy.lib.stride_tricks",
}  # fmt: skip
DYNAMIC = {
    "getattr", "hasattr", "setattr", "delattr", "vars", "globals", "locals", "exec", "eval",
    "compile", "open", "breakpoint", "__import__", "__builtins__", "type",
}  # fmt: skip
# Ways around the names: frames hold their callers' variables, and formats look up attributes.
AROUND = {
    "gi_frame", "cr_frame", "ag_frame", "tb_frame", "f_back", "f_locals", "f_globals", "f_builtins",
    "format", "format_map", "ctypeslib", "ctypes",
}  # fmt: skip
# What a curator has, which a solver's own objects must not have: `self` could be either.
OF_THE_CURATOR = {"_rows", "_ledger", "_rng", "_prepared", "_prepare", "_parts", "_answer", "_pay"}
# Of tables that are everybody's.
CHANGES = {"update", "setdefault", "pop", "popitem", "clear"}
# Arrays of these begin with what somebody freed, such as a sum before its noise.
NOT_BLANK = {"empty", "empty_like", "ndarray", "as_strided", "recarray", "chararray"}
# Of NumPy; the process's own memory is a file, too.
FILES = {
    "fromfile", "load", "loadtxt", "genfromtxt", "fromregex", "memmap", "save", "savez", "savetxt",
    "savez_compressed", "tofile", "dump",
}  # fmt: skip
# Modules of these two that have nothing but mathematics; others have even the builtins.
OF_NUMBERS = {
    "numpy", "numpy.linalg", "numpy.polynomial", "numpy.polynomial.hermite_e", "scipy",
    "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats",
}  # fmt: skip


def is_for_solvers(name):
    """Whether a dotted name, or what holds it, is in the list."""
    holders = {name[:end] for end in (*(m.start() for m in re.finditer(r"\.", name)), None)}
    return bool(holders & FOR_SOLVERS) and not holders & BUT


def foreign(module, name):
    """What a name of a module is at home as, if that is not for solvers."""
    holder = importlib.import_module(module)
    try:
        found = getattr(holder, name)
    except AttributeError:
        found = importlib.import_module(f"{module}.{name}")
    if name in FILES:
        return f"{module}.{name}"
    if inspect.ismodule(found):
        home = found.__name__
        if home.split(".")[0] in ("numpy", "scipy") and home not in OF_NUMBERS:
            return home
    else:
        home = getattr(found, "__module__", None)
        home = f"{module if home in (None, 'builtins') else home}.{name}"
    return None if is_for_solvers(home) else home


def modules_in(tree):
    """What a source calls its modules, which have all that they import themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                with contextlib.suppress(ImportError):
                    whole = importlib.import_module(alias.name)
                    root = importlib.import_module(alias.name.split(".")[0])
                    yield alias.asname or root.__name__, whole if alias.asname else root
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                with contextlib.suppress(ImportError):
                    yield (
                        alias.asname or alias.name,
                        importlib.import_module(f"{node.module}.{alias.name}"),
                    )


def module_of(node, modules):
    """The module that an expression is, if it is one."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute):
        holder = module_of(node.value, modules)
        found = None if holder is None else getattr(holder, node.attr, None)
        return found if inspect.ismodule(found) else None
    return None


def trespasses(source):
    """What a solver's source must not do: reach the rows, the ledger or the noise, or pretend.

    A solver asks its curator, and what it asks for is made of queries and mechanisms as they are.
    """
    tree = ast.parse(source)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    free = own | {"Generic", "Protocol", "NamedTuple", "Enum", "Exception"}
    only_for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for part in node.body
        for inner in ast.walk(part)
    }
    shared = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    modules = dict(modules_in(tree))
    # The type of something, and what is one.
    plain = {
        id(node.func if isinstance(node, ast.Call) else node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and len(node.args) == 1)
        if ast.unparse(node.func if isinstance(node, ast.Call) else node.value) == "type"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] not in ("math", "numpy", "scipy"):
                    yield f"imports all of {alias.name}"
        if isinstance(node, ast.ImportFrom) and id(node) not in only_for_types:
            for alias in node.names:
                if alias.name == "*":
                    yield f"imports all of {node.module}"
                elif (home := foreign(node.module, alias.name)) is not None:
                    yield f"imports {home}"
                elif alias.name in NOT_BLANK:
                    yield f"takes memory as it is by {alias.name}"
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                root = base.value if isinstance(base, ast.Subscript) else base
                if not isinstance(root, ast.Name) or root.id not in free:
                    yield f"{node.name} is a subclass of {ast.unparse(base)}"
        if isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            mine = mine and node.attr not in OF_THE_CURATOR and not node.attr.startswith("__")
            named = node.attr == "__name__" and isinstance(node.ctx, ast.Load)
            holder = module_of(node.value, modules)
            known = holder is not None and hasattr(holder, node.attr)
            if known and (home := foreign(holder.__name__, node.attr)) is not None:
                yield f"reaches {home}"
            if node.attr in NOT_BLANK:
                yield f"takes memory as it is by {ast.unparse(node)}"
            around = node.attr in AROUND | FILES
            if around or (node.attr.startswith("_") and not mine and not named):
                yield f"touches {ast.unparse(node)}"
            elif not isinstance(node.ctx, ast.Load) and not mine:
                yield f"changes {ast.unparse(node)}"
        if isinstance(node, ast.Attribute | ast.Subscript):
            whose = isinstance(node.value, ast.Name) and node.value.id in shared
            changes = isinstance(node, ast.Attribute) and node.attr in CHANGES
            stores = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            if whose and (changes or stores):
                yield f"changes {ast.unparse(node)}"
        if isinstance(node, ast.MatchClass) and any(n.startswith("_") for n in node.kwd_attrs):
            yield f"touches {ast.unparse(node)}"
        if isinstance(node, ast.Name) and node.id in DYNAMIC and id(node) not in plain:
            yield f"takes {node.id}"
        # What computes on rows, or looks on, is the package's, or the user's who holds them.
        if isinstance(node, ast.Constant) and node.value == "callback":
            yield "asks for a callback"
        if isinstance(node, ast.keyword) and node.arg == "optimizer":
            given = node.value
            if isinstance(given, ast.Lambda) or (isinstance(given, ast.Name) and given.id in made):
                yield f"optimizes by {ast.unparse(given)}"
        if isinstance(node, ast.Call):
            given = {keyword.arg for keyword in node.keywords}
            # What a function of NumPy leaves out it does not write, either.
            partly = ast.unparse(node.func).startswith("np.") and given & {"where", "out"} == {
                "where"
            }
            if partly:
                yield f"takes memory as it is by {ast.unparse(node.func)}"


@pytest.mark.parametrize("path", SOLVERS, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_solvers_see_what_was_released_and_nothing_else(path):
    assert list(trespasses(path.read_text())) == []


USERS = {
    "output-perturbation", "objective-perturbation", "dp-whitened-gd", "dp-adassp", "dp-gd",
    "dp-sgd", "dp-newton",
}  # fmt: skip


def test_the_papers_solvers_lie_apart():
    """Seven that users run, and eleven that are there to be compared with."""
    apart = set()
    for module in pkgutil.iter_modules(papers.__path__, f"{papers.__name__}."):
        members = vars(importlib.import_module(module.name))
        made = (*members.get("SOLVERS", ()), members.get("SOLVER"))
        apart |= {solver.name for solver in made if solver is not None}
    assert set(SOLVER_TABLE) - apart == USERS
    assert len(apart) == 11 and apart < set(SOLVER_TABLE)


def test_the_driver_is_what_it_is_said_to_be():
    assert {p.name for p in (PACKAGE / "solvers").glob("*.py")} >= DRIVER
    assert not {p.name for p in (PACKAGE / "solvers" / "papers").glob("*.py")} & DRIVER - {
        "__init__.py"
    }


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import dpfast.problem", "imports all of dpfast.problem"),
        ("import os", "imports all of os"),
        ("import dataclasses", "imports all of dataclasses"),
        ("from threading import Thread", "imports threading.Thread"),
        ("from dataclasses import sys", "imports sys"),
        ("from operator import attrgetter", "imports operator.attrgetter"),
        ("from types import FunctionType", "imports types.FunctionType"),
        ("from dpfast.fused.ball_sample import SecureGenerator", "imports dpfast.random"),
        ("from dpfast.queries.coordinates import _kernels", "imports dpfast._kernels"),
        ("from dpfast.queries.minimizer import RowSums", "imports dpfast.sums.RowSums"),
        ("from numpy import ctypeslib", "imports numpy.ctypeslib"),
        ("np.ctypeslib.as_array(pointer)", "touches np.ctypeslib"),
        ("from dpfast.problem import Problem", "imports dpfast.problem"),
        ("from dpfast import problem", "imports dpfast.problem"),
        ("from dpfast import rows as r", "imports dpfast.rows"),
        ("from dpfast import _kernels", "imports dpfast._kernels"),
        ("from dpfast.blocks._problem import BlockProblem", "imports dpfast.blocks._problem"),
        ("from dpfast.privacy.ledger import Ledger", "imports dpfast.privacy.ledger"),
        ("from dpfast.privacy import Budget, Ledger", "imports dpfast.privacy.ledger.Ledger"),
        ("from dpfast.privacy import checkpoint", "imports dpfast.privacy.checkpoint"),
        ("from dpfast.random import SecureGenerator", "imports dpfast.random"),
        ("def run():\n    from dpfast import random", "imports dpfast.random"),
        ("from dpfast.curator import Curator, Fixed", "imports dpfast.curator.Fixed"),
        ("import gc", "imports all of gc"),
        ("from dpfast.queries import ScoreSum", "imports dpfast.queries.scores.ScoreSum"),
        ("class Mine(Query): pass", "Mine is a subclass of Query"),
        ("class Mine(Access[Vector]): pass", "Mine is a subclass of Access[Vector]"),
        ("class Mine(Gaussian): pass", "Mine is a subclass of Gaussian"),
        ("class Mine(mechanisms.Gaussian): pass", "Mine is a subclass of mechanisms.Gaussian"),
        ("from dpfast.objectives import PythonErmShape", "imports dpfast.objectives.python_erm"),
        ("def f(risk): pass\nCertifiedMinimizer(s, t, optimizer=f)", "optimizes by f"),
        ("options = {'callback': print}", "asks for a callback"),
        ("import dpfast.shape", "imports all of dpfast.shape"),
        ("from dpfast.privacy import *", "imports all of dpfast.privacy"),
        ("class Mine(Curator): pass", "Mine is a subclass of Curator"),
        ("curator._rows", "touches curator._rows"),
        ("curator._ledger._accounts", "touches curator._ledger._accounts"),
        ("Gaussian._calibrate(b, 1.0)", "touches Gaussian._calibrate"),
        ("access.__dict__['scale'] = 1", "touches access.__dict__"),
        ("access.query = other", "changes access.query"),
        ("access.where += 'x'", "changes access.where"),
        ("plan.settings.gradient.query.radius, b = 1, 2", "changes plan.settings.gradient.query"),
        ("del mechanism.scale", "changes mechanism.scale"),
        ("setattr(mechanism, 'scale', 1)", "takes setattr"),
        ("object.__setattr__(plan, 'accesses', ())", "touches object.__setattr__"),
        ("getattr(curator, '_rows')", "takes getattr"),
        ("getattr(plan.shape, 'problem', None)", "takes getattr"),
        ("hasattr(curator, name)", "takes hasattr"),
        ("exec('1')", "takes exec"),
        ("type('Mine', (Query,), {})", "takes type"),
        ("list(map(getattr, [curator], ['_rows']))", "takes getattr"),
        ("'{0._rows}'.format(curator)", "touches '{0._rows}'.format"),
        ("class Mine:\n    def peek(self): return self._rows", "touches self._rows"),
        ("class Mine:\n    def peek(self): return self.__dict__", "touches self.__dict__"),
        ("match curator:\n    case Curator(_rows=rows): pass", "touches Curator(_rows=rows)"),
        ("frames.gi_frame.f_back.f_locals", "touches frames.gi_frame"),
        (
            "from dpfast.optimizers import OPTIMIZERS\nOPTIMIZERS['gd'] = f",
            "changes OPTIMIZERS['gd']",
        ),
        ("from dpfast.privacy import SAMPLINGS\nSAMPLINGS.update(a=b)", "changes SAMPLINGS.update"),
        ("np.empty(3)", "takes memory as it is by np.empty"),
        ("make = np.empty", "takes memory as it is by np.empty"),
        ("from numpy import empty as zeros", "takes memory as it is by empty"),
        ("np.recarray((3,), dtype=d)", "takes memory as it is by np.recarray"),
        ("np.fromfile('/proc/self/mem')", "touches np.fromfile"),
        ("from numpy import load", "imports numpy.load"),
        ("import numpy as np\nnp.ma.core.builtins.getattr(a, b)", "reaches numpy.ma"),
        ("import numpy as np\nm = np.testing\nm.runstring(a, {})", "reaches numpy.testing"),
        ("from numpy import ma", "imports numpy.ma"),
        ("from scipy.optimize import linesearch", "imports scipy.optimize.linesearch"),
        ("from dpfast import queries\nqueries.ScoreSum(1, 'l2')", "reaches dpfast.queries.scores"),
        (
            "from dpfast import objectives\nobjectives.PythonErmShape(p, f)",
            "reaches dpfast.objectives.python_erm",
        ),
        (
            "from dpfast.fused import ball_sample as b\nb.SecureGenerator(0)",
            "reaches dpfast.random",
        ),
        ("numpy.empty_like(w)", "takes memory as it is by numpy.empty_like"),
        ("np.ndarray((3,))", "takes memory as it is by np.ndarray"),
        ("np.divide(a, b, where=b > 0.0)", "takes memory as it is by np.divide"),
    ],
)
def test_a_trespass_is_seen(source, found):
    assert any(found in trespass for trespass in trespasses(source))


def test_what_solvers_may_do_is_no_trespass():
    source = """
from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget
if TYPE_CHECKING:
    from dpfast.random import SecureGenerator
class _Law: pass
class _Other(_Law):
    def __init__(self): self._w = 0.0
class Kept(Generic[S]): pass
def run(plan, curator):
    w = curator.release(plan.settings.mechanism)
    w[0] += 1.0
    return Outcome(w, type(w).__name__)
"""
    assert list(trespasses(source)) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_losses_are_told_apart_by_their_facts(path):
    """No name of a loss is compared with, or stands in a list: facts belong in csrc/loss_list.h."""
    if path.relative_to(PACKAGE).parts[0] in ("cli", "tabular"):
        return  # families of estimators have names, too, and some are those of their losses
    # Names of laws and letters stand for other things, too.
    names = set(loss_names()) - {"poisson", "gamma", "negative-binomial"}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Compare | ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Match):
            inside = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
            assert inside.isdisjoint(names), f"{path.name}:{node.lineno} names a loss"


def test_no_number_is_subnormal():
    """Where a library has made the processor take them for zero, `brentq` would refuse to work."""
    nodes = (node for path in MODULES for node in ast.walk(tree_of(path)))
    numbers = (getattr(node, "value", None) for node in nodes)
    floats = [number for number in numbers if isinstance(number, float)]
    assert not any(0.0 < number < sys.float_info.min for number in floats)


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
