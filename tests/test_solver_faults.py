"""A fault in a solver costs accuracy, never privacy: solvers with one operation changed, replayed.

A fault is put into the code of one function of one solver: another sign, a factor of two, a
loop that is cut short, a second look at what was released.  The faulty solver plans and runs on two
neighbors, with the releases of the first run forced upon the second.  Whatever it does then,
refusing to go on included, must be the same on both; what it asks for must be no farther apart
than it pays for; and it must pay within the budget.
"""

import __future__

import ast
import inspect
import random
import sys
import textwrap
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType, MappingProxyType

import numpy as np
import pytest
from replay import charged, distance, outcomes
from test_replay import BUDGETS, FEW, LOSSES, MEANS, PERSONS, neighbors, persons, serves

import dpfast.fused
from dpfast import Budget, Loss, ProblemShape, plan
from dpfast.fused import LastIterate, SampledGradient, State, Walk
from dpfast.mechanisms import MECHANISMS, Exponential, NoisyMax
from dpfast.queries import LineSearchLosses
from dpfast.solvers import SOLVERS
from dpfast.solvers.multinomial import plan_multinomial, run_multinomial

FOLDER = str(Path(inspect.getfile(inspect.unwrap(plan))).parent)
DRIVER = ("__init__.py", "_contract.py", "_driver.py", "_requests.py", "_resume.py", "_table.py")
FAULTS_EACH = 15


class Fault(ast.NodeTransformer):
    """Changes the operation with a given number, of those that can be."""

    def __init__(self, number):
        self.number, self.count, self.line = number, 0, None

    def _due(self, node):
        self.count += 1
        if self.count - 1 == self.number:
            self.line = node.lineno
            return True
        return False

    def visit_BinOp(self, node):
        self.generic_visit(node)
        other = {ast.Add: ast.Sub, ast.Sub: ast.Add}.get(type(node.op))
        if other is not None and self._due(node):  # the wrong sign
            return ast.copy_location(ast.BinOp(node.left, other(), node.right), node)
        if isinstance(node.op, ast.Mult | ast.Div) and self._due(node):  # twice the step
            return _times_two(node)
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and self._due(node):
            return node.operand
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        named = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if named == "release" and self._due(node):  # a second look
            return _last_of_two(node)
        if isinstance(node.func, ast.Name) and node.func.id == "range" and self._due(node):
            rest = ast.Slice(None, None, ast.Constant(2))  # every other step
            return ast.copy_location(ast.Subscript(node, rest, ast.Load()), node)
        return node


def _times_two(node):
    return ast.copy_location(ast.BinOp(ast.Constant(2), ast.Mult(), node), node)


def _last_of_two(node):
    pair = ast.Tuple([node, node], ast.Load())
    return ast.copy_location(ast.Subscript(pair, ast.Constant(1), ast.Load()), node)


def faulty(function, number):
    """The code of a function with its fault of this number, and its line; None: it has fewer."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    fault = Fault(number)
    (definition,) = tree.body
    definition.decorator_list = []
    definition.body = [fault.visit(statement) for statement in definition.body]
    if fault.line is None:
        return None
    ast.fix_missing_locations(tree)
    spaces = {}
    flags = __future__.annotations.compiler_flag
    exec(compile(tree, "faulty", "exec", flags), dict(function.__globals__), spaces)
    return spaces[function.__name__].__code__, fault.line


@contextmanager
def in_place(function, code):
    honest = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = honest


def functions_of(do):
    """The functions of solvers that `do` calls, as far as their code can be exchanged."""
    found = {}

    def profile(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(FOLDER):
            found.setdefault(code, None)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        do()
    finally:
        sys.setprofile(before)
    known = dict(_module_functions())
    return [known[code] for code in found if code in known]


def _module_functions():
    """Functions and methods of the solvers' modules by their code."""
    for _, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if not file.startswith(FOLDER) or Path(file).name in DRIVER:
            continue
        for value in vars(module).values():
            members = vars(value).values() if inspect.isclass(value) else [value]
            for member in members:
                member = getattr(member, "fget", None) or getattr(member, "func", member)
                member = getattr(member, "__func__", member)
                if inspect.isfunction(member) and member.__code__.co_filename == file:
                    # Without cells of a closure, and without loops that may never end.
                    source = inspect.getsource(member)
                    if not member.__code__.co_freevars and "while " not in source:
                        yield member.__code__, member


def faults_of(functions, name):
    """A few faults, always the same ones."""
    all_of_them = []
    for function in functions:
        number = 0
        while (made := faulty(function, number)) is not None:
            all_of_them.append((function, *made))
            number += 1
    random.Random(name).shuffle(all_of_them)
    return all_of_them[:FAULTS_EACH]


def case(name):
    solver = SOLVERS[name]
    relation = solver.relations[0]
    budget = next(b for b in BUDGETS if b.kind in solver.budgets)
    loss = next(k for k in LOSSES if serves(solver, Loss(k)))
    data, neighbor = neighbors(loss, relation, mean=name in MEANS)

    def settle():
        return plan(data, name, budget, neighboring_relation=relation, **FEW.get(name, {}))

    return settle, data, neighbor, None


def several_classes(_name):
    data, neighbor = neighbors("logistic", "replace_one", classes=3)
    return partial(plan_multinomial, data.shape, 3, BUDGETS[0]), data, neighbor, run_multinomial


def by_default(pair, _name):
    """What the default does of other losses and records than the first case of its solver."""
    data, neighbor = pair()
    return partial(plan, data, "dp-whitened-gd", BUDGETS[0]), data, neighbor, None


KINDS = {
    **dict.fromkeys(SOLVERS, case),
    "several classes": several_classes,
    "counts": partial(by_default, partial(neighbors, Loss("poisson", width=1.0), "replace_one")),
    "persons": partial(by_default, partial(persons, PERSONS[0], "logistic", "replace_one")),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_fault_costs_accuracy_alone(name):
    settle, data, neighbor, run = KINDS[name](name)
    (honest, _), _ = outcomes(settle(), data, neighbor, run)
    functions = functions_of(lambda: outcomes(settle(), data, neighbor, run))
    faults = faults_of(functions, name)
    assert len(faults) >= 3
    changed = 0
    for function, code, line in faults:
        where = f"{name}: {function.__qualname__}, line {line}"
        with in_place(function, code):
            try:
                settled = settle()
            except Exception:
                changed += 1  # from public quantities alone
                continue
            results, accesses = outcomes(settled, data, neighbor, run)
        (first, used), (second, same_used) = results
        assert first == second, f"{where}: {first} is not {second}"
        assert used == same_used and used <= 1.0 + 1e-9, f"{where}: {used}"
        for access, one, two in accesses:
            apart = distance(access, one - two)
            assert apart <= charged(access), f"{where}: {access.where!r}, {apart}"
        changed += first != honest
    assert changed >= len(faults) // 4  # there are faults in places that do not matter here


def held(thing, seen):
    """An access and all objects of the package that it holds, however deep."""
    if id(thing) in seen or not type(thing).__module__.startswith("dpfast."):
        return
    if not isinstance(thing, type) and hasattr(thing, "__dict__"):
        seen[id(thing)] = thing
        for value in vars(thing).values():
            for each in value if isinstance(value, tuple) else (value,):
                held(each, seen)


SAFE = (int, float, bool, str, type(None), tuple, MappingProxyType, FunctionType)


def test_nothing_of_an_access_can_be_changed():
    """Neither what a price was computed from, nor what computes the answer."""
    shape, relation = ProblemShape(50, 2, 1.0, alpha=0.1), "replace_one"
    accesses = [
        LastIterate(shape, relation, mu=1.0, step=0.1, iterations=3, radius=2.0, start=np.zeros(3)),
        SampledGradient(shape, 5, 0.1, noise="laplace", neighboring_relation=relation),
        Exponential.calibrate(Budget(1.0), LineSearchLosses(shape, 3, 1.0), relation),
        NoisyMax.calibrate(Budget(1.0), LineSearchLosses(shape, 3, 1.0), relation),
    ]
    for name, kind in KINDS.items():
        accesses += [access for access, _ in kind(name)[0]().accesses]
    seen = {}
    for access in accesses:
        held(access, seen)
    tried = {type(thing) for thing in seen.values()}
    fused = {getattr(dpfast.fused, name) for name in dpfast.fused.__all__} - {State, Walk}
    assert tried >= fused | {*MECHANISMS.values()}
    for thing in seen.values():
        for name, value in {**vars(type(thing)), **vars(thing)}.items():
            if isinstance(value, np.ndarray):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    value.setflags(write=True)
            held_too = isinstance(value, (*SAFE, np.ndarray)) or id(value) in seen
            assert held_too or name not in vars(thing), (thing, name)
        for name in {"of_its_own", *vars(thing), *dir(type(thing))}:
            if not name.startswith("__"):
                with pytest.raises(AttributeError):
                    setattr(thing, name, 1e9)
                with pytest.raises(AttributeError):
                    delattr(thing, name)


def test_a_fault_of_each_kind_is_made():
    def function(curator, x):
        for _ in range(4):
            x = -2.0 * curator.release(x) - 1.0
        return x

    class Curator:
        def __init__(self):
            self.asked = 0

        def release(self, x):
            self.asked += 1
            return x

    honest = function(Curator(), 1.0)
    found, asked = [], []
    number = 0
    while (made := faulty(function, number)) is not None:
        curator = Curator()
        with in_place(function, made[0]):
            found.append(function(curator, 1.0))
        asked.append(curator.asked)
        number += 1
    assert number == 5
    assert asked.count(8) == 1 and asked.count(2) == 1
    assert np.count_nonzero(np.array(found) != honest) == 4
