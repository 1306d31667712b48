"""A planned fit is paid for in one charge, before its first access: all of it, or nothing."""

import json
import random
import threading
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from forks import started
from threads import in_threads

from dpfast import (
    Budget,
    BudgetAccountant,
    BudgetExceeded,
    Ledger,
    LogisticRegression,
    Problem,
    plan,
    solve,
)
from dpfast._files import checksum
from dpfast.curator import Curator
from dpfast.preprocessing import PrivateQuantileScaler, PrivateRangeScaler
from dpfast.privacy import GDPEvent, ZCDPEvent, budget_accountant, gaussian_mu
from dpfast.privacy.ledger import kinds

FIT = Budget(rho=0.5)
TIGHT = Budget(rho=0.75)
"""Room for one fit, and for half of another."""


def zcdp(rho, where="step"):
    return ZCDPEvent(rho=rho, neighboring_relation="replace_one", where=where)


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return tmp_path / "budget.json" if request.param == "file" else None


@pytest.fixture
def problem(classification):
    return Problem(*classification, "logistic", data_norm=2.0)


def fitted(problem, solver="dp-gd"):
    return solve(problem, solver, FIT, iterations=4)


@pytest.mark.parametrize("adaptive", [True, False])
def test_of_two_fits_at_the_same_time_one_is_made_and_the_other_spends_nothing(
    path, adaptive, problem, monkeypatch
):
    """Both were admitted before either paid, and both ask for every access together."""
    together, release, answer = threading.Barrier(2), Curator.release, Curator._answer
    made, refused, looks = [], [], Counter()

    def in_step(self, *asked):
        with suppress(threading.BrokenBarrierError):
            together.wait(60)
        return release(self, *asked)

    def watched(self, *asked):
        looks[threading.get_ident()] += 1
        return answer(self, *asked)

    def work():
        try:
            made.append(fitted(problem).privacy)
        except BudgetExceeded as error:
            refused.append(str(error))
        finally:
            together.abort()

    monkeypatch.setattr(Curator, "release", in_step)
    monkeypatch.setattr(Curator, "_answer", watched)
    with BudgetAccountant(TIGHT, path, adaptive=adaptive) as account:
        in_threads(work, 2)
    (report,), (message,) = made, refused
    assert "Nothing was spent" in message and "stays spent" not in message
    assert kinds(account.events) == kinds(report.events) and account.charges == 1
    assert list(looks.values()) == [4]


_FIT = """
import sys
import numpy as np
from dpfast import Budget, BudgetAccountant, BudgetExceeded, Problem, solve
from dpfast.curator import Curator
release = Curator.release
def when_told(self, *asked):
    print("asks", flush=True)
    sys.stdin.readline()
    return release(self, *asked)
Curator.release = when_told
X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 50, axis=0)
problem = Problem(X, np.repeat([1.0, -1.0], 50), "logistic", data_norm=1.0)
with BudgetAccountant(Budget(rho=0.75), sys.argv[1]):
    try:
        solve(problem, "dp-gd", Budget(rho=0.5), iterations=4)
        print("made", flush=True)
    except BudgetExceeded as error:
        print("stays spent" if "stays spent" in str(error) else "refused", flush=True)
"""


def test_of_two_processes_one_fits_and_the_other_spends_nothing(tmp_path):
    """One access of this, one of that, in turns."""
    account = BudgetAccountant(TIGHT, tmp_path / "budget.json")
    processes = [started(_FIT, account.path) for _ in range(2)]
    said = [[process.stdout.readline().strip()] for process in processes]
    assert said == [["asks"], ["asks"]]  # both were admitted
    assert account.events == ()
    while any(lines[-1] == "asks" for lines in said):
        for process, lines in zip(processes, said, strict=True):
            if lines[-1] == "asks":
                process.stdin.write("go\n")
                process.stdin.flush()
                lines.append(process.stdout.readline().strip())
                assert account.charges == 1
    for process in processes:
        process.communicate()
    assert said == [["asks"] * 4 + ["made"], ["asks", "refused"]]
    assert account.remaining() == pytest.approx(1.0 / 3.0)


def test_all_of_it_is_paid_before_the_first_look(path, problem, monkeypatch):
    """Also if the fit ends there; and what is refused before it looks costs nothing."""
    events = plan(problem, "dp-gd", FIT, iterations=4).events
    with BudgetAccountant(TIGHT, path) as account:
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="before"):
            patch.setattr(Curator, "release", _raising(RuntimeError("before")))
            fitted(problem)
        assert account.events == ()
        monkeypatch.setattr(Curator, "_answer", _raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            fitted(problem)
        assert account.events == events and account.charges == 1


FITS = {
    "classes": {"solver": "dp-gd"},
    "a solver that asks again": {"solver": "localized-exponential", "delta": 0.0},
    "counted classes": {"class_weight": "balanced"},
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_of_several_parts_is_paid_for_in_one_charge(name):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (90, 2)), np.arange(90) % 3
    model = LogisticRegression(data_norm=2.0, classes=[0, 1, 2], **FITS[name])
    with BudgetAccountant(Budget(9.0, 1e-5), adaptive=False) as account:
        model.fit(X, y)
    assert account.charges == 1
    assert kinds(account.events) == kinds(model.privacy_.events)


@pytest.mark.parametrize("scaler", [PrivateRangeScaler, PrivateQuantileScaler])
def test_a_scaler_is_paid_for_in_one_charge(scaler):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 2))
    with BudgetAccountant(Budget(9.0, 1e-5)) as account:
        made = scaler(bounds=(-9.0, 9.0), epsilon=4.0).fit(X)
    assert account.charges == 1
    assert kinds(account.events) == kinds(made.privacy_.events)


def _raising(error):
    def then(*_):
        raise error

    return then


@pytest.mark.parametrize("order", [1, -1])
def test_no_account_pays_for_the_refusal_of_another(path, order, tmp_path, monkeypatch):
    """Whichever comes first, and although both said yes when they were asked."""
    ample = BudgetAccountant(Budget(rho=9.0), path)
    full = BudgetAccountant(TIGHT, path and tmp_path / "full.json")
    full.charge([zcdp(0.5)])
    ledger = Ledger(FIT, accounts=[ample, full][::order])
    with monkeypatch.context() as patch:
        patch.setattr(BudgetAccountant, "check", lambda *_: None)
        ledger.check(zcdp(0.25), zcdp(0.25))
        with pytest.raises(BudgetExceeded, match="Nothing was spent"):
            ledger.spend(zcdp(0.25))
    assert ample.events == ledger.events == () and ample.charges == 0
    assert full.events == (zcdp(0.5),)


@pytest.mark.parametrize("locked", ["a.json", "b.json"])
def test_a_file_that_cannot_be_written_is_named(locked, tmp_path, monkeypatch):
    pair = [BudgetAccountant(TIGHT, tmp_path / name) for name in ("a.json", "b.json")]
    opened = budget_accountant.open_lock

    def refuse(path):
        if path.name == locked:
            raise PermissionError(13, "Permission denied", f"{path}.lock")
        return opened(path)

    with monkeypatch.context() as patch:
        patch.setattr(budget_accountant, "open_lock", refuse)
        with pytest.raises(PermissionError, match=rf"must be writable.*{locked}'"):
            Ledger(FIT, accounts=pair).spend(zcdp(0.25))
    assert [account.charges for account in pair] == [0, 0]


def test_accounts_in_two_orders_do_not_wait_for_each_other(path, tmp_path):
    large = Budget(rho=99.0)
    pair = [
        BudgetAccountant(large, path),
        BudgetAccountant(large, path and tmp_path / "other.json"),
    ]
    both = threading.Barrier(2)

    def work(accounts):
        both.wait()
        for _ in range(20):
            Ledger(FIT, accounts=accounts).spend(zcdp(0.25))

    threads = [
        threading.Thread(target=work, args=(accounts,), daemon=True)
        for accounts in (pair, pair[::-1])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert [len(account.events) for account in pair] == [40, 40]


def test_an_account_that_is_given_twice_pays_once(path):
    account = BudgetAccountant(TIGHT, path)
    Ledger(FIT, accounts=[account, account]).spend(zcdp(0.5))
    assert account.events == (zcdp(0.5),)


def test_what_goes_beyond_the_plan_is_paid_for_too():
    with BudgetAccountant(Budget(rho=9.0)) as account:
        ledger = Ledger(Budget(rho=9.0))
        ledger.check(zcdp(0.5), zcdp(0.25), zcdp(0.25))
        ledger.spend(zcdp(0.25, "elsewhere"))
        assert account.charges == 1
        ledger.spend(zcdp(0.125))
        ledger.spend_all([zcdp(0.25), zcdp(0.5)])
        assert account.charges == 2
        ledger.spend(zcdp(0.25))
    assert sum(event.rho for event in account.events) == 1.0 + 0.125 + 0.25


def test_an_account_that_is_opened_later_pays_for_the_rest():
    ledger = Ledger(Budget(rho=9.0))
    ledger.check(*[zcdp(0.5)] * 3, zcdp(0.25))
    ledger.spend(zcdp(0.5))
    with BudgetAccountant(Budget(rho=9.0)) as account:
        ledger.spend(zcdp(0.25))
        assert kinds(account.events) == {zcdp(0.5).kind: 2, zcdp(0.25).kind: 1}
        ledger.spend_all([zcdp(0.5)] * 2)
        assert account.charges == 1


def test_who_paid_for_one_plan_has_not_paid_for_another():
    class Full:
        replaying = False

        def paid(self, events):
            return None

        def spend(self, events, accounts):
            raise OSError

    with BudgetAccountant(Budget(rho=9.0)) as account:
        ledger = Ledger(Budget(rho=9.0))
        ledger.check(zcdp(0.5))
        ledger.log = Full()
        with pytest.raises(OSError):
            ledger.spend(zcdp(0.5))
        ledger.log = None
        ledger.check(zcdp(0.25), zcdp(0.5))
        ledger.spend_all([zcdp(0.5), zcdp(0.25)])
    assert [event.rho for event in account.events] == [0.5, 0.25, 0.5]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_asked_for_no_account_has_less_than_was_spent(seed):
    """Plans that are kept, left or forgotten, in blocks that open and close at any time."""
    draw, large, kept = random.Random(seed), Budget(rho=1e6), Budget(rho=1e3)
    kind = [zcdp(0.5**k, where) for k in range(3) for where in "ab"]
    accounts = [BudgetAccountant(large, adaptive=draw.random() < 0.5) for _ in range(3)]
    while_open = {account: Counter() for account in accounts}
    for _ in range(8):
        ledger = Ledger(kept, adaptive=draw.random() < 0.2)
        opened = []
        for _ in range(12):
            some = draw.choices(kind, k=draw.randint(0, 5))
            account = draw.choice(accounts)
            match draw.randint(0, 4):
                case 0:
                    (opened.remove if account in opened else opened.append)(account)
                case 1:
                    ledger.check(*some)
                case _:
                    ledger._accounts = tuple(opened)
                    ledger.spend_all(some)
                    for each in opened:
                        whole = ledger.adaptive and not each.adaptive and some
                        while_open[each].update([(ledger,)] if whole else kinds(some))
    for account, spent in while_open.items():
        charged = kinds(account.events)
        wholes = sum(isinstance(event, tuple) for event in spent)
        assert wholes == sum(event.rho == kept.rho for event in account.events)
        assert all(n <= charged[event] for event, n in spent.items() if type(event) is not tuple)


def test_a_fit_alone_in_its_account_is_all_of_it(tmp_path):
    """What version 0.2.0 wrote of its plan is taken, and admits nothing."""
    budget, path = Budget(1.0, 1e-5), tmp_path / "budget.json"
    mu = gaussian_mu(1.0, 1e-5)
    half = GDPEvent(mu=mu / np.sqrt(2.0) * (1 - 1e-9), neighboring_relation="replace_one", where="")
    with BudgetAccountant(budget, path) as account:
        ledger = Ledger(budget)
        ledger.check(half, half)
        ledger.spend(half)
        assert account.events == (half, half)
        for refused in (half, GDPEvent(mu=1e-9, neighboring_relation="replace_one", where="")):
            assert not account.can_afford(refused)
        ledger.spend(half)
    record = json.loads(path.read_text())
    record["events"].pop()
    record["account"]["plan"] = [half.to_dict()] * 2
    record.pop("sha256")
    path.write_text(json.dumps({**record, "sha256": checksum(record)}))
    old = BudgetAccountant(budget, path)
    assert old.remaining() == 0.0 and not old.can_afford(half)
