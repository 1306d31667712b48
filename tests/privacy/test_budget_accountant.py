"""One budget over many fits: charged first, shared by processes, never damaged, never overspent."""

import copy
import json
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from declared import release
from forks import started
from hostile_files import damaged, replaced
from hypothesis import given, settings
from hypothesis import strategies as st
from threads import in_threads

from dpfast import Budget, BudgetAccountant, BudgetExceeded, Ledger, LogisticRegression
from dpfast._files import checksum, read_text
from dpfast.errors import BudgetFileError, UnsupportedEvent
from dpfast.mechanisms.gaussian import Gaussian
from dpfast.privacy import (
    GaussianEvent,
    L2LaplaceEvent,
    SelectionEvent,
    ZCDPEvent,
    budget_mu,
)
from dpfast.privacy.events import event_from_dict
from dpfast.random import SecureGenerator

COMMON = {"neighboring_relation": "replace_one", "where": "step"}
BUDGET = Budget(rho=1.0)


def zcdp(rho, **settings):
    return ZCDPEvent(rho=rho, **{**COMMON, **settings})


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return tmp_path / "budget.json" if request.param == "file" else None


def test_fits_are_charged_until_the_budget_is_used_up(path, classification):
    X, y = classification
    model = LogisticRegression(
        epsilon=0.4, delta=0.0, solver="output-perturbation", data_norm=2.0, classes=[-1, 1]
    )
    with BudgetAccountant(Budget(1.0), path) as accountant:
        first = model.fit(X, y).privacy_.events
        assert accountant.events == first
        model.fit(X, y)
        assert accountant.remaining() == pytest.approx(0.2)
        with pytest.raises(BudgetExceeded, match="Nothing was spent"):
            model.fit(X, y)
        assert accountant.events == first * 2
    model.fit(X, y)
    assert accountant.events == first * 2
    assert accountant.guarantee().epsilon == 1.0
    assert "80% of Budget(epsilon=1.0" in accountant.to_text()
    assert "80%" in accountant._repr_html_()


def test_a_fit_that_is_refused_midway_says_that_it_had_paid(path):
    """If its accesses are chosen along the way: two at the same time are admitted and pay."""
    event = zcdp(0.3)
    with BudgetAccountant(BUDGET, path):
        one, other = (Ledger(Budget(rho=0.6), adaptive=True) for _ in range(2))
        for ledger in (one, other):
            ledger.check(event, event)
        for ledger in (one, other, one):
            ledger.spend(event)
        with pytest.raises(BudgetExceeded, match="What this fit paid for before stays") as caught:
            other.spend(event)
    assert "Nothing was spent" not in str(caught.value)


def test_fits_that_are_fixed_beforehand_have_a_total(path, classification):
    X, y = classification
    model = LogisticRegression(
        epsilon=0.4, delta=0.0, solver="output-perturbation", data_norm=2.0, classes=[-1, 1]
    )
    with BudgetAccountant(Budget(1.0), path, adaptive=False) as accountant:
        model.fit(X, y)
        model.fit(X, y)
    assert accountant.guarantee().epsilon == pytest.approx(0.8)
    for text in (accountant.to_text(), accountant._repr_html_(), str(accountant.guarantee())):
        assert "fixed beforehand" in text


def test_a_refused_release_does_not_touch_the_data(path):
    mechanism = Gaussian(1.0, sensitivity=1.0, dimension=2, neighboring_relation="replace_one")
    ledger = Ledger(Budget(rho=100.0))
    with BudgetAccountant(Budget(rho=0.1), path), pytest.raises(BudgetExceeded):
        release(
            mechanism,
            lambda: pytest.fail("data was touched"),
            rng=SecureGenerator(),
            ledger=ledger,
            where="x",
        )
    assert ledger.events == ()


def test_what_fails_after_the_charge_stays_charged(path):
    mechanism = Gaussian(1.0, sensitivity=1.0, dimension=2, neighboring_relation="replace_one")

    def interrupted():
        raise KeyboardInterrupt

    ledger = Ledger(Budget(rho=1.0))
    with BudgetAccountant(BUDGET, path) as accountant:
        with pytest.raises(KeyboardInterrupt):
            release(mechanism, interrupted, rng=SecureGenerator(), ledger=ledger, where="x")
        assert ledger.events == accountant.events == (mechanism.event("x"),)


def test_charging_by_hand(path):
    accountant = BudgetAccountant(BUDGET, path)
    accountant.charge([zcdp(0.25), zcdp(0.25)])
    assert accountant.remaining() == 0.5
    assert accountant.can_afford(zcdp(0.5)) and not accountant.can_afford(zcdp(0.5), zcdp(0.1))
    with pytest.raises(BudgetExceeded):
        accountant.charge([zcdp(0.25), zcdp(0.5)])
    assert accountant.events == (zcdp(0.25),) * 2
    with pytest.raises(TypeError):
        accountant.charge([0.1])
    with pytest.raises(ValueError, match="mix"):
        accountant.charge([zcdp(0.1, neighboring_relation="add_or_remove_one")])
    assert len(accountant.events) == 2


def test_plans_are_free(classification):
    X, y = classification
    model = LogisticRegression(
        solver="output-perturbation", data_norm=2.0, classes=[-1, 1], verbose=1
    )
    with BudgetAccountant(Budget(1.0, 1e-6)) as accountant:
        model.fit(X, y)
        assert accountant.events == model.privacy_.events


def test_nested_blocks_all_pay_and_a_refusal_costs_none_of_them():
    with BudgetAccountant(BUDGET) as outer, BudgetAccountant(Budget(rho=0.5)) as inner:
        Ledger(BUDGET).spend(zcdp(0.4))
        assert outer.events == inner.events == (zcdp(0.4),)
        ledger = Ledger(BUDGET)
        assert not ledger.can_afford(zcdp(0.2))
        with pytest.raises(BudgetExceeded):
            ledger.spend(zcdp(0.2))
        assert outer.events == inner.events == (zcdp(0.4),)
        assert ledger.events == ()
    Ledger(BUDGET).spend(zcdp(0.2))
    assert len(outer.events) == 1


def test_a_block_cannot_be_opened_twice(tmp_path):
    with BudgetAccountant(BUDGET) as accountant, pytest.raises(RuntimeError, match="twice"):
        accountant.__enter__()
    path = tmp_path / "budget.json"
    with (
        BudgetAccountant(BUDGET, path),
        pytest.raises(RuntimeError, match="twice"),
        BudgetAccountant(BUDGET, path),
    ):
        pass


def test_an_adaptive_run_is_charged_whole_or_step_by_step():
    with BudgetAccountant(BUDGET, adaptive=False) as plain:
        ledger = Ledger(Budget(rho=0.5), adaptive=True)
        ledger.spend(zcdp(0.1))
        ledger.spend(zcdp(0.1))
    (whole,) = plain.events
    assert (whole.mechanism, whole.rho) == ("zcdp", 0.5)
    with BudgetAccountant(BUDGET) as careful:
        ledger = Ledger(Budget(rho=0.5), adaptive=True)
        ledger.spend(zcdp(0.1))
        ledger.spend(zcdp(0.2))
    assert careful.events == (zcdp(0.1), zcdp(0.2))
    assert careful.guarantee().rho == 1.0
    pure = L2LaplaceEvent(sensitivity=0.1, scale=1.0, dimension=2, **COMMON)
    plain = BudgetAccountant(BUDGET, adaptive=False)
    with plain, pytest.raises(UnsupportedEvent, match="epsilon"):
        Ledger(Budget(1.0), adaptive=True).spend(pure)


def test_a_new_thread_is_not_free():
    """It does not inherit context variables: its fits would go unpaid."""
    with BudgetAccountant(BUDGET) as accountant:
        thread = threading.Thread(target=lambda: Ledger(BUDGET).spend(zcdp(0.25)))
        thread.start()
        thread.join()
        assert accountant.events == (zcdp(0.25),)


def test_threads_cannot_overspend_together(path):
    accountant = BudgetAccountant(BUDGET, path)
    barrier = threading.Barrier(4)
    refused = []

    def work():
        barrier.wait()
        for _ in range(4):
            try:
                accountant.charge([zcdp(0.125)])
            except BudgetExceeded:
                refused.append(1)

    in_threads(work, 4)
    assert len(accountant.events) == 8
    assert len(refused) == 8


@pytest.mark.parametrize("name", ["budget.json", "budget.json.gz"])
def test_the_file_survives_and_is_a_ledger(tmp_path, name):
    path = tmp_path / name
    budget = Budget(1.0, 1e-6)
    event = GaussianEvent(sensitivity=0.05, stddev=1.0 / 3.0, dimension=2, **COMMON)
    BudgetAccountant(budget, path).charge([event])
    again = BudgetAccountant(budget, path)
    assert again.events == (event,)
    assert Ledger.from_json(read_text(path)).events == (event,)
    assert json.loads(again.to_json()) == json.loads(read_text(path))
    # Two objects on one file see each other's charges.
    other = BudgetAccountant(budget, os.path.relpath(path))
    small = GaussianEvent(sensitivity=0.01, stddev=1.0, dimension=2, **COMMON)
    other.charge([small])
    assert again.events == (event, small)
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, f"{name}.lock"]


@pytest.mark.parametrize(
    ("budget", "settings"),
    [
        (Budget(rho=2.0), {}),
        (Budget(mu=1.0), {}),
        (BUDGET, {"adaptive": False}),
        (BUDGET, {"accountant": "zcdp"}),
    ],
    ids=["size", "unit", "adaptive", "accountant"],
)
def test_the_file_of_another_budget_is_refused(tmp_path, budget, settings):
    path = tmp_path / "budget.json"
    BudgetAccountant(BUDGET, path)
    with pytest.raises(BudgetFileError, match=r"was begun with budget=Budget\(rho=1.0"):
        BudgetAccountant(budget, path, **settings)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("0.25", "NaN"),
        lambda text: text.replace("0.25", "25.0"),
        lambda text: text.replace("zcdp", "free"),
        lambda text: text.replace('"budget"', '"budge"'),
        lambda text: "[]",
        lambda text: None,
    ],
    ids=["empty", "half", "nan", "overspent", "mechanism", "key", "list", "gone"],
)
def test_a_damaged_file_stops_everything_and_stays_as_it_is(tmp_path, damage):
    path = tmp_path / "budget.json"
    accountant = BudgetAccountant(BUDGET, path)
    accountant.charge([zcdp(0.25)])
    text = damage(path.read_text())
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(BudgetFileError, match="Nothing was spent now"):
        accountant.charge([zcdp(0.25)])
    with pytest.raises(BudgetFileError):
        accountant.remaining()
    if text is not None:
        assert path.read_text() == text
        with pytest.raises(BudgetFileError):
            BudgetAccountant(BUDGET, path)


def test_an_older_copy_of_the_file_is_noticed(tmp_path):
    path = tmp_path / "budget.json"
    accountant = BudgetAccountant(BUDGET, path)
    accountant.charge([zcdp(0.25)])
    before = path.read_text()
    accountant.charge([zcdp(0.5)])
    path.write_text(before)
    with pytest.raises(BudgetFileError, match="older copy"):
        accountant.charge([zcdp(0.25)])
    assert path.read_text() == before


FILE_EVENTS = (
    zcdp(0.25),
    GaussianEvent(sensitivity=0.05, stddev=1.0 / 3.0, dimension=2, count=3, **COMMON),
    SelectionEvent(
        alternatives=((zcdp(0.001),),), repetitions="poisson", mean_runs=2.0, shape=1.0, **COMMON
    ),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 0, 2**63, 1e308, 5e-324, 1e-300, "replace_one", "gdp", ""])
    | st.floats(allow_nan=False, allow_infinity=False)
)


def places(record):
    """Every object and list of a JSON document."""
    if isinstance(record, dict | list):
        yield record
        for child in record.values() if isinstance(record, dict) else record:
            yield from places(child)


@given(data=st.data())
@settings(max_examples=50)
def test_mutated_files_never_crash_and_never_leave_more(tmp_path_factory, data):
    """Without a new checksum all are refused; with one, what loads has the mutated numbers."""
    path = tmp_path_factory.mktemp("budget") / "budget.json"
    budget = Budget(8.0, 1e-6)
    BudgetAccountant(budget, path).charge(FILE_EVENTS)
    text = path.read_text()
    record = json.loads(text)
    place = data.draw(st.sampled_from(list(places(record))), label="place")
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    key = data.draw(st.sampled_from(keys), label="key")
    if data.draw(st.booleans(), label="remove"):
        del place[key]
    else:
        place[key] = data.draw(LEAVES | st.lists(LEAVES, max_size=2), label="value")
    path.write_text(json.dumps(record))
    if json.dumps(record) != json.dumps(json.loads(text)):
        with pytest.raises(BudgetFileError):
            BudgetAccountant(budget, path)
    record.pop("sha256", None)
    path.write_text(json.dumps({**record, "sha256": checksum(record)}))
    try:
        kept = BudgetAccountant(budget, path)
    except BudgetFileError:
        return
    assert 0.0 <= kept.remaining() <= 1.0
    assert [event.to_dict() for event in kept.events] == [
        event_from_dict(event).to_dict() for event in record["events"]
    ]


def test_every_damaged_file_is_refused(tmp_path):
    path = tmp_path / "budget.json"
    BudgetAccountant(BUDGET, path).charge([zcdp(0.25)])
    text = path.read_bytes().rstrip()
    contents = [*damaged(text.decode()), *(t.encode() for t in replaced(text.decode()))]
    for index in range(len(text)):
        flipped = bytearray(text)
        flipped[index] ^= 1 << (index % 7)
        contents.append(bytes(flipped))
    for content in contents:
        if content.lower() == text.lower():  # 1E-06 is 1e-06
            continue
        path.write_bytes(content)
        with pytest.raises(BudgetFileError):
            BudgetAccountant(BUDGET, path)


def test_a_file_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        BudgetAccountant(BUDGET, tmp_path / "nowhere" / "budget.json")
    accountant = BudgetAccountant(BUDGET, tmp_path / "budget.json")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", "budget.json")

    monkeypatch.setattr("dpfast._files.os.replace", refuse)
    with pytest.raises(PermissionError, match="must be writable"):
        accountant.charge([zcdp(0.25)])
    monkeypatch.undo()
    assert accountant.events == ()
    accountant.charge([zcdp(0.25)])


@pytest.mark.parametrize(
    ("budget", "accountant", "error"),
    [(1.0, "auto", TypeError), (Budget(1.0), "gdp", ValueError)],
)
def test_bad_constructions_leave_no_file(tmp_path, budget, accountant, error):
    with pytest.raises(error):
        BudgetAccountant(budget, tmp_path / "budget.json", accountant)
    assert list(tmp_path.iterdir()) == []


def test_an_accountant_cannot_be_duplicated():
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="twice"):
            duplicate(BudgetAccountant(BUDGET))


def _spend_in_child(accountant):
    """Exit codes: 0 charged, 1 refused as a duplicate."""
    try:
        accountant.charge([zcdp(0.25)])
    except RuntimeError:
        os._exit(1)
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_pays_into_the_file_or_is_refused(path):
    accountant = BudgetAccountant(BUDGET, path)
    accountant.charge([zcdp(0.25)])
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_spend_in_child, args=(accountant,))
    child.start()
    child.join()
    assert child.exitcode == (1 if path is None else 0)
    assert len(accountant.events) == (1 if path is None else 2)
    accountant.charge([zcdp(0.25)])


_SPENDER = """
import sys
from dpfast import Budget, BudgetAccountant, BudgetExceeded
from dpfast.privacy import ZCDPEvent
accountant = BudgetAccountant(Budget(rho=1.0), sys.argv[1])
event = ZCDPEvent(rho=1 / 64, neighboring_relation="replace_one", where="step")
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        accountant.charge([event])
        print("spent", flush=True)
except BudgetExceeded:
    print("full", flush=True)
"""


def test_processes_cannot_overspend_and_a_killed_one_damages_nothing(tmp_path):
    """Only what holds under every schedule: the killed one may have told of any number, even 0."""
    path = tmp_path / "budget.json"
    accountant = BudgetAccountant(BUDGET, path)
    processes = [started(_SPENDER, path) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = processes[0].stdout.readline().count("spent\n")
    processes[0].kill()
    for process in processes:
        out, _ = process.communicate()
        told += out.count("spent\n")
    assert out.endswith("full\n")
    assert processes[1].returncode == 0
    assert len(accountant.events) == 64
    assert told <= 64
    with pytest.raises(BudgetExceeded):
        accountant.charge([zcdp(1 / 64)])


def test_an_account_of_whole_fits_is_exact():
    """Ten fits that each use a tenth of the squared mu fill the budget, and no eleventh fits."""
    budget = Budget(1.0, 1e-6)
    share = GaussianEvent(
        sensitivity=budget_mu(budget) / np.sqrt(10.0), stddev=1.0, dimension=2, **COMMON
    )
    with BudgetAccountant(budget, adaptive=False) as accountant:
        for _ in range(10):
            Ledger(budget).spend(share)
        with pytest.raises(BudgetExceeded):
            Ledger(budget).spend(share)
    assert 1.0 - 1e-6 < accountant.guarantee().epsilon <= 1.0
