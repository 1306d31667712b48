"""Accounts of people who have nobody in common: paid for once, each limited by itself."""

import contextvars
import copy
import json
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from forks import in_child, needs_fork
from joblib import Parallel, delayed, parallel_backend
from threads import in_threads

from dpfast import Budget, BudgetAccountant, BudgetExceeded, LogisticRegression
from dpfast.errors import BudgetFileError, UnsupportedEvent
from dpfast.privacy import GDPEvent, Ledger, gaussian_epsilon, gaussian_mu
from dpfast.privacy.events import ExponentialEvent

WHOLE = Budget(mu=1.0)
PART = Budget(mu=0.5)
RELATION = "replace_one"


def event(mu, relation=RELATION):
    return GDPEvent(mu=mu, neighboring_relation=relation, where="gradient")


def spend(mu, relation=RELATION):
    Ledger(Budget(mu=10.0)).spend(event(mu, relation))


def test_the_account_pays_once_and_every_part_has_all_of_it():
    account = BudgetAccountant(WHOLE)
    parts = account.disjoint("months", PART)
    assert account.remaining() == pytest.approx(0.75)
    with account:
        for month in range(12):
            with parts[f"m{month}"]:
                spend(0.3)
                spend(0.39)
    assert account.remaining() == pytest.approx(0.75)
    assert [parts[f"m{month}"].remaining() for month in range(12)] == pytest.approx([0.0316] * 12)
    assert account.disjoint("months", PART)["m3"] is parts["m3"]
    assert len(account.events) == 1
    assert account.events[0].mu == 0.5


def test_a_part_is_refused_what_is_beyond_its_budget():
    parts = BudgetAccountant(WHOLE).disjoint("months", PART)
    with parts["a"]:
        spend(0.4)
        with pytest.raises(BudgetExceeded):
            spend(0.4)
    with parts["a"], pytest.raises(BudgetExceeded):
        spend(0.4)
    with parts["b"]:
        spend(0.4)


def test_what_is_not_done_in_a_part_is_charged_as_ever():
    account = BudgetAccountant(WHOLE)
    parts = account.disjoint("months", PART)
    with account:
        spend(0.5)
        with parts["a"]:
            spend(0.5)
        spend(0.5)
    assert account.remaining() == pytest.approx(0.25)


def test_other_accounts_pay_for_parts_too():
    outer, account = BudgetAccountant(WHOLE), BudgetAccountant(WHOLE)
    parts = account.disjoint("months", PART)
    with outer, account:
        for part in "abc":
            with parts[part]:
                spend(0.5)
    assert outer.remaining() == pytest.approx(0.25)
    assert account.remaining() == pytest.approx(0.75)


def test_parts_within_parts_all_pay():
    parts = BudgetAccountant(WHOLE).disjoint("months", PART)
    with parts["a"], parts["b"]:
        spend(0.5)
    assert parts["a"].remaining() == parts["b"].remaining() == pytest.approx(0.0)


def test_other_threads_are_not_in_the_part():
    account = BudgetAccountant(WHOLE)
    parts = account.disjoint("months", PART)
    with account, parts["a"]:
        thread = threading.Thread(target=spend, args=(0.5,))
        thread.start()
        thread.join()
    assert account.remaining() == pytest.approx(0.5)
    assert parts["a"].remaining() == 1.0


def test_threads_and_workers_that_opened_nothing_are_refused(tmp_path):
    """Whoever pays for them must be open: they would be missing from every total."""
    account = BudgetAccountant(WHOLE, tmp_path / "account.json")
    parts = account.disjoint("months", PART)
    with parts["a"]:
        for backend in ("threading", "loky"):
            with parallel_backend(backend), pytest.raises(RuntimeError, match="Nothing was spent"):
                Parallel(n_jobs=2)(delayed(spend)(0.1) for _ in range(2))
        assert parts["a"].events == ()
        with account, parallel_backend("threading"):
            Parallel(n_jobs=2)(delayed(spend)(0.1) for _ in range(2))
        assert len(account.events) == 3
    with parallel_backend("threading"):
        Parallel(n_jobs=2)(delayed(spend)(0.1) for _ in range(2))


def test_threads_that_open_parts_at_once_get_the_same():
    """Two accounts of one part would have its budget each."""
    account, both = BudgetAccountant(WHOLE), threading.Barrier(2, timeout=10)
    parts = account.disjoint("months", PART)
    opened, found = parts._opened, []

    def slowly(part):
        both.wait()
        return opened(part)

    parts._opened = slowly
    in_threads(lambda: found.append(parts["a"]), 2)
    assert found[0] is found[1]


@needs_fork
def test_without_a_file_a_child_has_no_part_of_its_own():
    """Two children that open one part would have its budget each."""
    parts = BudgetAccountant(Budget(mu=0.5)).disjoint("months", Budget(mu=0.3))

    def opened() -> bytes:
        with pytest.raises(RuntimeError, match="was made in another process"):
            parts["2024-01"]
        return b"refused"

    assert in_child(opened) == b"refused"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            copied(parts)


def test_a_copied_context_does_not_outlive_the_block():
    account = BudgetAccountant(WHOLE)
    parts = account.disjoint("months", PART)
    with parts["a"]:
        copied = contextvars.copy_context()
    with account:
        copied.run(spend, 0.5)
    assert account.remaining() == pytest.approx(0.5)


def test_a_budget_that_the_account_has_not_is_refused():
    account = BudgetAccountant(Budget(mu=0.4))
    with pytest.raises(BudgetExceeded):
        account.disjoint("months", PART)
    assert account.events == ()
    account.disjoint("others", Budget(mu=0.4))
    assert account.remaining() == pytest.approx(0.0)


def test_epsilon_and_delta_are_limited_in_gdp():
    account = BudgetAccountant(Budget(1.0, 1e-6))
    parts = account.disjoint("months", Budget(1.0, 1e-6))
    assert account.events[0].mu == pytest.approx(gaussian_mu(1.0, 1e-6), rel=1e-6)
    assert account.guarantee().epsilon <= 1.0
    with parts["a"]:
        Ledger(Budget(1.0, 1e-6)).spend(event(gaussian_mu(1.0, 1e-6) * (1 - 1e-9)))
    assert gaussian_epsilon(parts["a"].events[0].mu, 1e-6) <= 1.0
    with parts["b"], pytest.raises(UnsupportedEvent):
        Ledger(Budget(1.0, 1e-6)).spend(
            ExponentialEvent(epsilon=0.1, neighboring_relation=RELATION, where="choice")
        )
    # The account itself has nothing left, and everything that may still be fitted is in parts.
    with account, pytest.raises(BudgetExceeded):
        spend(0.01)


@pytest.mark.parametrize(("part", "unit"), [(Budget(rho=0.2), "auto"), (Budget(1.0, 1e-6), "zcdp")])
def test_rho_prices_pure_releases_too(part, unit):
    account = BudgetAccountant(Budget(rho=1.0))
    parts = account.disjoint("months", part, accountant=unit)
    before = account.remaining()
    with account, parts["a"]:
        Ledger(Budget(1.0)).spend(
            ExponentialEvent(epsilon=0.2, neighboring_relation=RELATION, where="choice")
        )
    assert account.remaining() == before < 1.0
    assert 0.0 < parts["a"].remaining() < 1.0


def test_neighbors_must_be_those_that_were_paid_for():
    account = BudgetAccountant(WHOLE)
    parts = account.disjoint("months", PART, "replace_one_group")
    with parts["a"]:
        spend(0.3, "replace_one_group")
        with pytest.raises(ValueError, match="must be 'replace_one_group', for which the parts"):
            spend(0.3)
    with parts["b"], pytest.raises(ValueError, match="Nothing was spent"):
        Ledger(WHOLE).check(event(0.1))
    assert parts["b"].events == ()


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"budget": Budget(mu=0.4)}, "were begun with"),
        ({"neighboring_relation": "add_or_remove_one"}, "were begun with"),
        ({"name": "a/b"}, "letters, digits"),
        ({"name": ""}, "letters, digits"),
        ({"name": 3}, "must be a text"),
        ({"budget": 0.5}, "must be a Budget"),
        ({"neighboring_relation": "both"}, "neighboring_relation"),
        ({"accountant": "rdp", "budget": Budget(1.0, 1e-6)}, "accountant must be"),
        ({"budget": Budget(1.0)}, "budget must have a delta, a rho"),
    ],
)
def test_arguments(changed, match):
    account = BudgetAccountant(WHOLE)
    settings = {"name": "months", "budget": PART}
    account.disjoint(**settings)
    with pytest.raises((TypeError, ValueError), match=match):
        account.disjoint(**{**settings, **changed})
    assert len(account.events) == 1


def test_no_other_event_passes_for_the_payment():
    """One fit would pay for parts that are worth it once more."""
    account = BudgetAccountant(WHOLE)
    account.disjoint("months", PART)
    (paid,) = account.events
    for named in (paid, replace(paid, where="parts 'years'")):
        for spend_it in (account.charge, lambda events: account.check(*events)):
            with pytest.raises(ValueError, match=r"disjoint\(\) pays.* Nothing was spent"):
                spend_it([named])
    with account, pytest.raises(ValueError, match="Nothing was spent"):
        Ledger(WHOLE).spend(paid)
    assert account.events == (paid,)
    account.charge([replace(paid, where="parts of months")])


def test_names_of_parts():
    parts = BudgetAccountant(WHOLE).disjoint("months", PART)
    with pytest.raises(ValueError, match="part must have letters"):
        parts["../x"]
    assert parts["2024-01"] is parts["2024-01"]


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "error"),
        [("", ValueError), ("a b", ValueError), ("../x", ValueError), (3, TypeError)],
    )
    def test_a_part_that_is_refused_leaves_no_file(self, tmp_path, name, error):
        parts = BudgetAccountant(WHOLE, tmp_path / "year.json").disjoint("months", PART)
        with pytest.raises(error, match="part must"):
            parts[name]
        assert {each.name for each in tmp_path.iterdir()} == {"year.json", "year.json.lock"}

    def test_parts_are_kept_and_never_paid_twice(self, tmp_path):
        path = tmp_path / "year.json"
        with BudgetAccountant(WHOLE, path).disjoint("months", PART)["jan"]:
            spend(0.4)
        again = BudgetAccountant(WHOLE, path)
        parts = again.disjoint("months", PART)
        assert again.remaining() == pytest.approx(0.75)
        assert parts["jan"].remaining() == pytest.approx(1.0 - 0.64)
        with again, parts["jan"], pytest.raises(BudgetExceeded):
            spend(0.4)
        with again, parts["feb"]:
            spend(0.5)
        assert again.remaining() == pytest.approx(0.75)
        assert sorted(each.name for each in tmp_path.glob("*.feb")) == ["year.json.months.feb"]
        with pytest.raises(ValueError, match="were begun with"):
            BudgetAccountant(WHOLE, path).disjoint("months", Budget(mu=0.1))

    @pytest.mark.parametrize("key", [None, b"0123456789abcdef"])
    def test_a_part_keeps_its_neighbors_whoever_opens_its_file(self, tmp_path, key):
        path, part = tmp_path / "year.json", tmp_path / "year.json.months.jan"
        account = BudgetAccountant(WHOLE, path, key=key)
        account.disjoint("months", PART)["jan"]
        with BudgetAccountant(PART, part, "gdp", key=key):
            with pytest.raises(ValueError, match="must be 'replace_one', for which the parts"):
                spend(0.1, "add_or_remove_one")
            spend(0.1)

    def test_what_was_spent_before_is_between_the_same_neighbors(self, tmp_path):
        with BudgetAccountant(PART, tmp_path / "year.json.months.jan", "gdp"):
            spend(0.1, "add_or_remove_one")
        parts = BudgetAccountant(WHOLE, tmp_path / "year.json").disjoint("months", PART)
        with pytest.raises(ValueError, match="must be 'replace_one', for which the parts"):
            parts["jan"]

    def test_in_another_process(self, tmp_path):
        """A part that a child process opens is charged, and the parent's open account is not."""
        path = tmp_path / "year.json"
        code = (
            "import sys; from dpfast import Budget, BudgetAccountant, Ledger\n"
            "from dpfast.privacy import GDPEvent\n"
            f"account = BudgetAccountant(Budget(mu=1.0), {str(path)!r})\n"
            "with account.disjoint('months', Budget(mu=0.5))['jan']:\n"
            "    Ledger(Budget(mu=9.0)).spend(GDPEvent(mu=0.5, neighboring_relation='replace_one',"
            " where='x'))\n"
        )
        with BudgetAccountant(WHOLE, path) as account:
            parts = account.disjoint("months", PART)
            subprocess.run([sys.executable, "-c", code], check=True)
            assert account.remaining() == pytest.approx(0.75)
            assert parts["jan"].remaining() == pytest.approx(0.0)

    def test_signed_parts(self, tmp_path):
        path, key = tmp_path / "year.json", b"0123456789abcdef"
        with BudgetAccountant(WHOLE, path, key=key).disjoint("months", PART)["jan"]:
            spend(0.4)
        part = tmp_path / "year.json.months.jan"
        assert "hmac" in json.loads(part.read_text())["account"]
        with pytest.raises(BudgetFileError):
            BudgetAccountant(PART, part, "gdp")


def test_monthly_fits_of_disjoint_people():
    """Twelve fits at the full budget are as private together as one."""
    rng = np.random.default_rng(0)
    account = BudgetAccountant(Budget(1.0, 1e-6))
    parts = account.disjoint("months", Budget(1.0, 1e-6))
    with account:
        for month in range(3):
            X = rng.uniform(-1, 1, (500, 3))
            y = X[:, 0] + rng.logistic(size=500) > 0
            model = LogisticRegression(
                epsilon=1.0, delta=1e-6, data_norm=2.0, classes=[False, True], random_state=month
            )
            with parts[f"m{month}"]:
                model.fit(X, y)
                with pytest.raises(BudgetExceeded):
                    model.fit(X, y)
    assert account.guarantee().epsilon <= 1.0
    assert len(account.events) == 1
