"""Fits give the numbers that are written down, on every machine; see tests/golden/write.py.

A change that means to change them writes the file anew and says why.  :mod:`golden.compare` is the
finer test for changes that mean to change nothing: to the bit, twenty times as many cases.
"""

import copy
import functools
import json
import math

import pytest
from golden import cases, compare, write
from threadpoolctl import threadpool_limits

from dpfast import Budget, Problem, _kernels, solve

GOLDEN = json.loads(write.FILE.read_text())
GROUPS = sorted({tuple(name.split("/")[:2]) for name in GOLDEN})
WRITE = "Write the file anew (python -m tests.golden.write) if that is meant."


@functools.cache
def runs():
    return cases.all_cases(GOLDEN.__contains__, check=False)


@pytest.fixture
def as_written():
    """The baseline kernels and one BLAS thread."""
    before = _kernels.isa_name()
    _kernels.force_isa("baseline")
    with threadpool_limits(1):
        yield
    _kernels.force_isa(before)


@pytest.mark.parametrize("group", GROUPS, ids="/".join)
def test_fits_give_the_numbers_written_down(group, as_written):
    changed = []
    for name in (name for name in GOLDEN if tuple(name.split("/")[:2]) == group):
        assert name in runs(), f"there is no case {name!r} any more. {WRITE}"
        outcome = cases.record(runs()[name])
        if "outcome" not in outcome:
            changed.append(f"{name}: refused, {outcome['refused']}")
            continue
        found = json.loads(json.dumps(write.summary(outcome["outcome"])))
        if not write.apart(found, GOLDEN[name]) <= 1e-9:
            changed.append(f"{name}: {json.dumps(GOLDEN[name])} became {json.dumps(found)}")
    assert not changed, "\n".join([*changed, WRITE])


def test_every_solver_is_in_the_file():
    assert {name for _, name in GROUPS} >= set(cases.SOLVER_NAMES)


@pytest.mark.parametrize("field", ["w", "epsilon", "events"])
def test_the_file_is_held_to_nine_digits(field):
    kept = {"w": [0.3, -2.0], "epsilon": 0.7, "events": {"gradient: gaussian": [12, [0.5, 3.0]]}}
    for factor, equal in ((1.0 + 1e-10, True), (1.0 + 1e-8, False)):
        changed = copy.deepcopy(kept)
        if field == "w":
            changed["w"][1] *= factor
        elif field == "epsilon":
            changed["epsilon"] *= factor
        else:
            changed["events"]["gradient: gaussian"][1][1] *= factor
        assert (write.apart(changed, kept) <= 1e-9) is equal
    del changed[field]
    assert write.apart(changed, kept) == math.inf
    assert write.apart({"count": 100}, {"count": 101}) == math.inf


def outcome(data_norm=2.0, seed=7):
    rows = cases.data()
    problem = Problem(rows.X, rows.label, data_norm=data_norm)
    return cases.plain(solve(problem, "dp-gd", Budget(1.0, 1e-6), random_state=seed))


def test_the_comparison_sees_the_last_bit():
    same = compare.differences(outcome(), outcome())
    assert same == []
    # The bound, and with it the sensitivity, by 5e-13.
    fields = dict(compare.differences(outcome(), outcome(2.0 * (1.0 + 5e-13))))
    assert {"privacy.ledger.events[0].sensitivity", "plan.events[0].sensitivity"} <= fields.keys()
    assert {"w"} <= dict(compare.differences(outcome(), outcome(seed=8))).keys()
    first = outcome()
    second = copy.deepcopy(first)
    second["w"]["values"][0] *= 1.0 + 2.0**-52
    second["history"]["added"] = 1
    del second["plan"]["expected"]
    second["privacy"]["ledger"]["events"].pop()
    fields = dict(compare.differences(first, second))
    assert {"w", "history.added", "privacy.ledger.events.length"} <= fields.keys()
    assert any(path.startswith("plan.expected") for path in fields)
    assert fields["w"].startswith("1 of 5 entries differ")


@pytest.mark.parametrize(
    ("first", "second"), [(0.0, -0.0), (1, 1.0), (True, 1), (None, 0), ("a", "b"), ([1], [1, 1])]
)
def test_what_is_nearly_equal_differs(first, second):
    assert compare.differences({"x": first}, {"x": second})
    assert not compare.differences({"x": [float("nan")]}, {"x": [float("nan")]})
