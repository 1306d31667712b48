"""Who pays: links to one file, forks, threads, child processes, and choices by results."""

import contextlib
import errno
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_score

from dpfast import Budget, BudgetAccountant, BudgetExceeded, Ledger, LogisticRegression
from dpfast._files import atomic_writer, checksum
from dpfast.errors import BudgetFileError
from dpfast.privacy import (
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    ObjectivePerturbationEvent,
    PureSelectionEvent,
    RenyiFilter,
    SubsampledGaussianEvent,
    ZCDPEvent,
    budget_accountant,
    gaussian_mu,
    smallest_noise,
    zcdp_rho,
)
from dpfast.privacy.open_accounts import ENTERED, active_accountants

COMMON = {"neighboring_relation": "replace_one", "where": "step"}
BUDGET = Budget(rho=1.0)
STEP = ZCDPEvent(rho=0.125, **COMMON)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"


def spend_all_of(*accounts):
    """How many charges of an eighth are admitted, by whoever of them still admits one."""
    admitted = 0
    for account in accounts * 20:
        with contextlib.suppress(BudgetExceeded):
            account.charge([STEP])
            admitted += 1
    return admitted


class TestNames:
    """One budget file is one budget, under whatever name."""

    @pytest.mark.parametrize("existing", [True, False])
    def test_a_symbolic_link_is_the_file(self, path, tmp_path, existing):
        (tmp_path / "elsewhere").mkdir()
        link = tmp_path / "elsewhere" / "link.json"
        if existing:
            BudgetAccountant(BUDGET, path)
        link.symlink_to(path)
        accounts = BudgetAccountant(BUDGET, link), BudgetAccountant(BUDGET, path)
        assert accounts[0].path == accounts[1].path == path.resolve()
        assert spend_all_of(*accounts) == 8 == len(accounts[0].events) == len(accounts[1].events)
        assert link.is_symlink() and not path.is_symlink()

    def test_a_link_to_the_folder_is_the_folder(self, path, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
        accounts = (
            BudgetAccountant(BUDGET, tmp_path / "link" / path.name),
            BudgetAccountant(BUDGET, path),
        )
        assert spend_all_of(*accounts) == 8
        with accounts[0], pytest.raises(RuntimeError, match="twice"), accounts[1]:
            pass

    def test_a_file_of_two_names_is_refused(self, path, tmp_path):
        account = BudgetAccountant(BUDGET, path)
        account.charge([STEP])
        other = tmp_path / "other.json"
        os.link(path, other)
        text = path.read_text()
        for name in (path, other):
            with pytest.raises(BudgetFileError, match="2 hard links"):
                BudgetAccountant(BUDGET, name)
        with pytest.raises(BudgetFileError, match="2 hard links"):
            account.charge([STEP])
        assert path.read_text() == other.read_text() == text
        other.unlink()
        account.charge([STEP])
        assert len(account.events) == 2

    def test_a_link_that_is_put_in_its_place_is_refused(self, path, tmp_path):
        account = BudgetAccountant(BUDGET, path)
        account.charge([STEP])
        path.rename(tmp_path / "moved.json")
        path.symlink_to(tmp_path / "moved.json")
        with pytest.raises(BudgetFileError, match="got a link"):
            account.charge([STEP])


class TestCopies:
    """A budget that was spent does not come back with an older file, or with a new one."""

    @pytest.mark.parametrize("charged", [True, False])
    def test_a_file_that_is_deleted_and_begun_anew_is_noticed(self, path, charged):
        account = BudgetAccountant(BUDGET, path)
        if charged:
            account.charge([STEP])
        path.unlink()
        if charged:
            with pytest.raises(BudgetFileError, match="its lock file has seen 1 charge"):
                BudgetAccountant(BUDGET, path)
            assert not path.exists()
            path.with_name(f"{path.name}.lock").unlink()
        again = BudgetAccountant(BUDGET, path)
        again.charge([STEP])
        with pytest.raises(BudgetFileError, match="deleted and begun anew"):
            account.charge([STEP])
        with pytest.raises(BudgetFileError, match="deleted and begun anew"):
            account.remaining()
        assert len(again.events) == 1

    def test_other_processes_notice_an_older_copy(self, path):
        account = BudgetAccountant(BUDGET, path)
        account.charge([STEP])
        older = path.read_text()
        account.charge([STEP])
        newer = path.read_text()
        path.write_text(older)
        with pytest.raises(BudgetFileError, match="older copy"):
            BudgetAccountant(BUDGET, path)
        path.write_text(newer)
        assert len(BudgetAccountant(BUDGET, path).events) == 2

    def test_charges_are_counted(self, path):
        account = BudgetAccountant(BUDGET, path)
        assert account.charges == 0
        account.charge([STEP, STEP])
        BudgetAccountant(BUDGET, path).charge([STEP])
        assert account.charges == json.loads(path.read_text())["account"]["charges"] == 2

    def test_a_file_that_died_before_the_lock_file_was_written_is_taken(self, path):
        account = BudgetAccountant(BUDGET, path)
        witness = (path.parent / "budget.json.lock").read_bytes()
        account.charge([STEP])
        (path.parent / "budget.json.lock").write_bytes(witness)
        assert len(BudgetAccountant(BUDGET, path).events) == 1


class TestLockFile:
    """Whoever deletes the lock file lets two in at once: what either is told was charged, is."""

    def test_of_two_that_hold_locks_at_once_one_is_refused_and_the_other_is_in_the_file(self, path):
        account, other = (BudgetAccountant(BUDGET, path) for _ in range(2))

        def meanwhile():
            Path(f"{path}.lock").unlink()
            other.charge([STEP, STEP])

        with pytest.raises(BudgetFileError, match="was deleted while it was held"):
            account.charge([STEP], meanwhile)
        assert account.events == other.events == (STEP, STEP)
        account.charge([STEP])
        assert len(other.events) == 3

    def test_one_that_goes_while_the_file_is_written_ends_the_fit(self, path, monkeypatch):
        account = BudgetAccountant(BUDGET, path)

        @contextlib.contextmanager
        def and_delete(target):
            with atomic_writer(target) as stream:
                yield stream
            Path(f"{path}.lock").unlink()

        with monkeypatch.context() as patch:
            patch.setattr(budget_accountant, "atomic_writer", and_delete)
            with pytest.raises(BudgetFileError, match="the charge may be in the file"):
                account.charge([STEP])
        assert len(account.events) == 1

    def test_whoever_waited_for_a_deleted_one_takes_the_new_one(self, path, monkeypatch):
        account, other = (BudgetAccountant(BUDGET, path) for _ in range(2))
        wait, waited = budget_accountant.wait_for_lock, []

        def late(lock):
            if not waited:
                waited.append(lock)
                Path(f"{path}.lock").unlink()
                other.charge([STEP])
            wait(lock)

        monkeypatch.setattr(budget_accountant, "wait_for_lock", late)
        account.charge([STEP])
        assert len(account.events) == len(other.events) == 2

    def test_a_full_disk_loses_no_count_of_charges(self, path, monkeypatch):
        account = BudgetAccountant(BUDGET, path)
        account.charge([STEP])
        older = path.read_text()
        account.charge([STEP])

        class Full(io.FileIO):
            def write(self, text):
                raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(budget_accountant, "open_lock", lambda name: Full(f"{name}.lock", "r+b"))
            with pytest.raises(OSError, match="No space left"):
                account.charge([STEP])
        path.write_text(older)
        with pytest.raises(BudgetFileError, match="older copy"):
            BudgetAccountant(BUDGET, path)


class TestKey:
    KEY = b"sixteen bytes and some more"

    def changed(self, path, change):
        """Rewrite the file as somebody would who knows all but the key."""
        record = json.loads(path.read_text())
        change(record)
        record.pop("sha256")
        path.write_text(json.dumps({**record, "sha256": checksum(record)}))

    def test_what_was_spent_cannot_be_changed_without_the_key(self, path):
        account = BudgetAccountant(BUDGET, path, key=self.KEY)
        account.charge([STEP, STEP])
        text = path.read_text()

        def forget(record):
            record["events"].pop()

        def cheaper(record):
            record["events"][0]["rho"] = 1e-3

        def recount(record):
            record["account"]["charges"] = 5

        for change in (forget, cheaper, recount):
            self.changed(path, change)
            with pytest.raises(BudgetFileError, match="not signed with this key"):
                BudgetAccountant(BUDGET, path, key=self.KEY)
            with pytest.raises(BudgetFileError, match="not signed with this key"):
                account.charge([STEP])
            path.write_text(text)
        assert BudgetAccountant(BUDGET, path, key=self.KEY).events == (STEP, STEP)
        assert Ledger.from_json(text).events == (STEP, STEP)

    @pytest.mark.parametrize("begun", [b"sixteen bytes and other ones", None])
    def test_another_key_or_none_is_refused(self, path, begun):
        BudgetAccountant(BUDGET, path, key=begun).charge([STEP])
        with pytest.raises(BudgetFileError):
            BudgetAccountant(BUDGET, path, key=self.KEY)
        if begun is not None:
            with pytest.raises(BudgetFileError, match=r"a key; got .* no key"):
                BudgetAccountant(BUDGET, path)

    def test_without_the_signature_it_is_not_begun_with_a_key(self, path):
        BudgetAccountant(BUDGET, path, key=self.KEY).charge([STEP])
        self.changed(path, lambda record: record["account"].pop("hmac"))
        with pytest.raises(BudgetFileError, match=r"no key; got .* a key"):
            BudgetAccountant(BUDGET, path, key=self.KEY)

    @pytest.mark.parametrize("key", [b"short", "sixteen bytes and some more"])
    def test_bad_keys(self, path, key):
        with pytest.raises(ValueError, match="key must be at least 16 bytes"):
            BudgetAccountant(BUDGET, path, key=key)
        with pytest.raises(ValueError, match="with a path"):
            BudgetAccountant(BUDGET, key=self.KEY)


def in_child(action):
    """The exit code of a forked child that does `action`: 0, or 1 if that is refused."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        code = 2
        try:
            action()
            code = 0
        except RuntimeError:
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
class TestForks:
    @pytest.mark.parametrize(
        "spend",
        [
            lambda ledger: ledger.spend(STEP),
            lambda ledger: ledger.spend_all([STEP]),
            lambda ledger: ledger.spend_alone([STEP]),
            lambda ledger: ledger.check(STEP),
            lambda ledger: ledger.can_afford(STEP),
        ],
        ids=["spend", "spend_all", "spend_alone", "check", "can_afford"],
    )
    @pytest.mark.parametrize("adaptive", [False, True])
    def test_a_ledger_is_not_spent_twice(self, spend, adaptive):
        ledger = Ledger(BUDGET, adaptive=adaptive)
        ledger.spend(STEP)
        assert in_child(lambda: spend(ledger)) == 1
        assert in_child(lambda: spend(Ledger(BUDGET))) == 0
        ledger.spend(STEP)
        assert len(ledger.events) == 2

    @pytest.mark.parametrize("made", [Ledger, BudgetAccountant])
    def test_a_process_number_given_out_again_is_noticed(self, made):
        kept, own = made(BUDGET), os.getpid()

        def pretend():
            os.getpid = lambda: own
            (kept.spend_all if made is Ledger else kept.charge)([STEP])

        assert in_child(pretend) == 1

    def test_a_block_of_the_parent_covers_its_forked_children(self, path):
        with BudgetAccountant(BUDGET, path) as account:
            assert in_child(lambda: Ledger(BUDGET).spend(STEP)) == 0
            assert account.events == (STEP,)
        with BudgetAccountant(BUDGET):
            assert in_child(lambda: Ledger(BUDGET).spend(STEP)) == 1


class TestThreads:
    def within(self, *contexts):
        """Spend in a new thread, within blocks of its own."""
        errors = []

        def work():
            try:
                with contextlib.ExitStack() as stack:
                    for context in contexts:
                        stack.enter_context(context)
                    Ledger(BUDGET).spend(STEP)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return errors

    def test_an_account_of_the_thread_does_not_hide_the_one_around_it(self):
        with BudgetAccountant(BUDGET) as outer:
            inner = BudgetAccountant(BUDGET)
            assert not self.within(inner)
            assert outer.events == inner.events == (STEP,)
            (error,) = self.within(outer)
            assert "Open it once, around all fits" in str(error)
            (error,) = self.within(BudgetAccountant(Budget(rho=0.01)))
            assert isinstance(error, BudgetExceeded)
            assert outer.events == (STEP,)
        assert not ENTERED

    def test_an_account_for_one_thread_leaves_others_alone(self):
        with BudgetAccountant(BUDGET, all_threads=False) as own:
            inner = BudgetAccountant(BUDGET, all_threads=False)
            assert not self.within(inner)
            assert own.events == () and inner.events == (STEP,)
            Ledger(BUDGET).spend(STEP)
            assert own.events == inner.events == (STEP,)

    def test_a_block_that_ends_elsewhere_meanwhile_hides_no_other(self):
        class EndsMeanwhile(BudgetAccountant):
            """Another thread leaves its block just when it is asked about."""

            @property
            def identity(self):
                if looked.is_set() and self in ENTERED:
                    looked.clear()
                    self.__exit__(None, None, None)
                return super().identity

        looked = threading.Event()
        first = EndsMeanwhile(BUDGET, all_threads=False)
        first.__enter__()
        with BudgetAccountant(BUDGET) as outer:
            looked.set()
            Ledger(BUDGET).spend(STEP)
            assert not looked.is_set() and outer.events == (STEP,)

    def test_blocks_may_end_in_any_order(self):
        one, two = BudgetAccountant(BUDGET), BudgetAccountant(BUDGET)
        one.__enter__()
        two.__enter__()
        one.__exit__(None, None, None)
        Ledger(BUDGET).spend(STEP)
        two.__exit__(None, None, None)
        Ledger(BUDGET).spend(STEP)
        assert one.events == () and two.events == (STEP,)
        assert active_accountants() == ()


def model():
    return LogisticRegression(
        epsilon=0.1, delta=0.0, solver="output-perturbation", data_norm=2.0, classes=[-1, 1]
    )


def spend_in_worker():
    Ledger(BUDGET).spend(STEP)
    return os.getpid()


_GRANDCHILD = """
import sys
from dpfast import Budget, Ledger
from dpfast.privacy import ZCDPEvent
event = ZCDPEvent(rho=0.125, neighboring_relation="replace_one", where="step")
Ledger(Budget(rho=1.0)).spend(event)
print("spent")
"""


class TestChildProcesses:
    """Fits of workers are counted, or refused: never missing from a total."""

    def test_with_a_file_they_are_counted(self, path, classification):
        X, y = classification
        workers = set(Parallel(n_jobs=2)(delayed(spend_in_worker)() for _ in range(4)))
        assert os.getpid() not in workers  # which were there before the block, then
        with BudgetAccountant(Budget(1.0), path) as account:
            cross_val_score(model(), X, y, cv=3, n_jobs=2, error_score="raise")
            assert len(account.events) == 3
            calibrated = CalibratedClassifierCV(model(), cv=2)
            cross_val_score(calibrated, X, y, cv=2, n_jobs=2, error_score="raise")
            assert len(account.events) == 7
            with pytest.raises(BudgetExceeded):
                cross_val_score(model(), X, y, cv=4, n_jobs=2, error_score="raise")
            assert len(account.events) == 10
        cross_val_score(model(), X, y, cv=2, n_jobs=2, error_score="raise")
        assert len(account.events) == 10

    def test_in_memory_or_signed_they_are_refused(self, path):
        signed = BudgetAccountant(BUDGET, path, key=b"sixteen bytes and some more")
        for account in (BudgetAccountant(BUDGET), signed):
            with account, pytest.raises(RuntimeError, match="its total would be too low"):
                Parallel(n_jobs=2)(delayed(spend_in_worker)() for _ in range(2))
            assert account.events == ()
        Parallel(n_jobs=2)(delayed(spend_in_worker)() for _ in range(2))

    def test_a_worker_that_opens_the_account_itself_pays_once(self, path):
        def work():
            with BudgetAccountant(BUDGET, path):
                Ledger(BUDGET).spend(STEP)

        with BudgetAccountant(BUDGET, path) as account:
            Parallel(n_jobs=2)(delayed(work)() for _ in range(2))
            assert len(account.events) == 2

    @pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
    def test_however_they_are_started(self, path, method):
        context = multiprocessing.get_context(method)
        with BudgetAccountant(BUDGET, path) as account:
            child = context.Process(target=spend_in_worker)
            child.start()
            child.join()
            assert child.exitcode == 0
            assert len(account.events) == 1

    def test_a_program_that_is_called(self, path):
        call = [sys.executable, "-c", _GRANDCHILD]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with BudgetAccountant(BUDGET, path) as account:
            subprocess.run(call, check=True, env=environment)
            assert len(account.events) == 1
            with BudgetAccountant(BUDGET):
                done = subprocess.run(call, env=environment, capture_output=True, text=True)
            assert "its total would be too low" in done.stderr and "spent" not in done.stdout
        assert len(account.events) == 1

    def test_what_a_dead_process_left_behind_binds_nobody(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setattr(os, "getppid", lambda: 12345)
        with BudgetAccountant(BUDGET):
            (folder,) = tmp_path.iterdir()
            (left,) = (name for name in folder.iterdir() if name.suffix == "")
            text, name = left.read_text(), f"{left.name.rpartition('-')[0]}-12345"
        (folder / name).write_text(text)
        (folder / f"{name}.lock").write_text("")
        Ledger(BUDGET).spend(STEP)

    def test_what_a_live_process_said_holds_without_its_lock_file(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with BudgetAccountant(BUDGET):
            (folder,) = tmp_path.iterdir()
            (lock,) = folder.glob("*.lock")
            lock.unlink()  # as who clears old files from the directory for temporary ones
            monkeypatch.setattr(os, "getppid", os.getpid)  # as a child sees it
            with pytest.raises(RuntimeError, match="its total would be too low"):
                Ledger(BUDGET).spend(STEP)

    def test_where_nothing_can_be_written_it_is_said(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
        with (
            pytest.warns(RuntimeWarning, match="will not be counted"),
            BudgetAccountant(BUDGET) as account,
        ):
            Ledger(BUDGET).spend(STEP)
        assert account.events == (STEP,)

    def test_a_block_that_was_not_entered_is_not_open(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        account = BudgetAccountant(BUDGET)
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning), account:
                pass
        Ledger(BUDGET).spend(STEP)
        assert account.events == ()
        with account:
            Ledger(BUDGET).spend(STEP)
        assert account.events == (STEP,)


class TestChoices:
    """Which fits to make may be decided by results: the guarantee is the budget all the same."""

    BUDGET = Budget(1.0, 1e-5)

    def largest(self, make, mu, **settings):
        """The largest size of a second release that is admitted after a Gaussian one."""

        def room(size):
            account = BudgetAccountant(self.BUDGET, **settings)
            account.charge([GDPEvent(mu=mu, **COMMON)])
            return 1.0 if account.can_afford(make(size)) else -1.0

        return brentq(room, 1e-6, 3.0, xtol=1e-7) - 2e-7

    def delta_of_best_choice(self, mu, **settings):
        """Of a Gaussian release, and then the release that is worse for the loss it had."""
        second = self.largest(lambda size: GDPEvent(mu=size, **COMMON), mu, **settings)
        pure = self.largest(
            lambda size: L2LaplaceEvent(sensitivity=size, scale=1.0, dimension=2, **COMMON),
            mu,
            **settings,
        )
        z = np.linspace(-12.0, 12.0, 40_001)
        left = 1.0 - (mu * z + 0.5 * mu * mu)
        gaussian = norm.cdf(second / 2 - left / second) - np.exp(left) * norm.cdf(
            -second / 2 - left / second
        )
        response = np.clip((np.exp(pure) - np.exp(left)) / (1.0 + np.exp(pure)), 0.0, None)
        response = np.maximum(response, 1.0 - np.exp(left))
        deltas = [np.trapezoid(norm.pdf(z) * d, z) for d in (gaussian, response)]
        chosen = np.trapezoid(norm.pdf(z) * np.maximum(gaussian, response), z)
        return chosen, max(deltas)

    def test_a_choice_by_results_costs_more_than_what_is_fixed_beforehand(self):
        mus = np.linspace(0.02, 0.26, 7)
        fixed = [self.delta_of_best_choice(mu, adaptive=False) for mu in mus]
        assert all(either <= 1e-5 * (1.0 + 1e-3) for _, either in fixed)
        assert max(chosen for chosen, _ in fixed) > 1.25e-5
        for mu in mus[:-1]:
            chosen, _ = self.delta_of_best_choice(mu)
            assert chosen <= 1e-5

    def test_adaptive_is_the_default_and_the_budget_its_guarantee(self, path):
        for account in (BudgetAccountant(self.BUDGET), BudgetAccountant(self.BUDGET, path)):
            assert account.adaptive is True
            assert account.guarantee().epsilon == 0.0
            account.charge([GDPEvent(mu=0.01, **COMMON)])
            guarantee = account.guarantee()
            assert (guarantee.epsilon, guarantee.delta, guarantee.adaptive) == (1.0, 1e-5, True)
            assert "chosen along the way" in account.to_text()
            assert "the whole budget" in str(guarantee)
            assert 0.99 < account.remaining() < 1.0

    @pytest.mark.parametrize(
        "event",
        [
            GDPEvent(mu=gaussian_mu(1.0, 1e-5), **COMMON),
            ExponentialEvent(epsilon=1.0, **COMMON),
            GaussianEvent(sensitivity=1.0, stddev=4.0, dimension=2, **COMMON),
        ],
        ids=["gaussian", "pure", "a little less"],
    )
    def test_a_first_fit_of_the_whole_budget_is_admitted_and_the_last(self, event, path):
        for account in (BudgetAccountant(self.BUDGET), BudgetAccountant(self.BUDGET, path)):
            with account:
                Ledger(self.BUDGET).spend(event)
                tiny = GDPEvent(mu=1e-9, **COMMON)
                for refused in (tiny, event):
                    assert not Ledger(self.BUDGET).can_afford(refused)
                    with pytest.raises(BudgetExceeded, match="the first fit takes all of"):
                        Ledger(self.BUDGET).spend(refused)
            assert account.events == (event,) and account.remaining() == 0.0
        assert BudgetAccountant(self.BUDGET, path).events == (event,)

    def test_of_a_large_first_fit_the_rest_of_its_plan_and_nothing_else(self, path):
        """Whoever stops in the middle, by what was released, has no other use for the rest."""
        mu = gaussian_mu(1.0, 1e-5)
        step = GDPEvent(mu=mu / 2.0, **COMMON)
        for account in (BudgetAccountant(self.BUDGET), BudgetAccountant(self.BUDGET, path)):
            with account:
                ledger = Ledger(self.BUDGET)
                ledger.check(*[step] * 4)
                ledger.spend_all([step] * 2)
                other = GDPEvent(mu=mu / 4.0, **COMMON)
                assert not Ledger(self.BUDGET).can_afford(other)
                with pytest.raises(BudgetExceeded, match="the first fit takes all of"):
                    Ledger(self.BUDGET).spend(other)
                ledger.spend(step)
                ledger.spend(step)
                with pytest.raises(BudgetExceeded):
                    Ledger(self.BUDGET).spend(step)
            assert account.events == (step,) * 4

    def test_a_plan_that_is_not_kept_to_is_no_plan(self):
        with BudgetAccountant(self.BUDGET) as account:
            ledger = Ledger(self.BUDGET)
            ledger.check(GDPEvent(mu=gaussian_mu(1.0, 1e-5), **COMMON))
            ledger.spend(GDPEvent(mu=0.1, **COMMON))
            Ledger(self.BUDGET).spend(GDPEvent(mu=0.1, **COMMON))
        assert len(account.events) == 2

    def test_every_kind_of_event_is_admitted(self):
        """By the one filter; which kind comes first makes no difference."""
        objective = ObjectivePerturbationEvent(
            lipschitz=1.0, smoothness=0.25, ridge=50.0, dimension=3, stddev=60.0, monotone=True,
            **COMMON,
        )  # fmt: skip
        sampled = SubsampledGaussianEvent(
            sensitivity=1.0, stddev=20.0, dimension=3, batch=10, n_samples=1000,
            sampling="fixed-size", count=10, **COMMON,
        )  # fmt: skip
        search = PureSelectionEvent(
            repetitions="poisson", mean_runs=3.0, shape=1.0, epsilon_of_run=0.02, **COMMON
        )
        kinds = [objective, sampled, search, GDPEvent(mu=0.05, **COMMON)]
        for first in range(len(kinds)):
            account = BudgetAccountant(self.BUDGET)
            for event in kinds[first:] + kinds[:first]:
                account.charge([event])
            assert len(account.events) == len(kinds)

    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
    @pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.1])
    def test_the_filter_buys_what_zcdp_does(self, epsilon, delta):
        rho = zcdp_rho(epsilon, delta)
        limited = RenyiFilter(epsilon, delta)
        limited.spend(ZCDPEvent(rho=rho, **COMMON))
        assert not limited.can_afford(ZCDPEvent(rho=1e-6 * rho, **COMMON))
        twin = RenyiFilter(epsilon, delta)
        twin.spend(GDPEvent(mu=(2.0 * rho) ** 0.5 * (1.0 - 1e-12), **COMMON))
        pure = RenyiFilter(epsilon, delta)  # cheaper than its bound in zCDP
        pure.spend(ExponentialEvent(epsilon=(2.0 * rho) ** 0.5, **COMMON))
        assert pure.spent < limited.spent


class TestPrice:
    """The table of docs/guide/several_fits.md."""

    PAGE = Path(__file__).parents[2] / "docs" / "guide" / "several_fits.md"

    def fits(self, budget):
        """What a fit is charged that has a fifth of the budget, in the order of the table."""
        part = Budget(budget.epsilon / 5, budget.delta / 5)

        def sampled(noise):
            return [
                SubsampledGaussianEvent(
                    sensitivity=1.0, stddev=noise, dimension=5, batch=100, n_samples=10_000,
                    sampling="fixed-size", count=500, **COMMON,
                )
            ]  # fmt: skip

        def objective(noise):
            return [
                ObjectivePerturbationEvent(
                    lipschitz=1.0, smoothness=0.25, ridge=5.0 / budget.epsilon, dimension=5,
                    stddev=noise, monotone=True, **COMMON,
                )
            ]  # fmt: skip

        yield [GDPEvent(mu=gaussian_mu(part.epsilon, part.delta), **COMMON)]
        yield sampled(smallest_noise(sampled, part))
        yield objective(smallest_noise(objective, part))
        yield [L2LaplaceEvent(sensitivity=part.epsilon, scale=1.0, dimension=5, **COMMON)]
        yield [ExponentialEvent(epsilon=part.epsilon, **COMMON)]

    @pytest.mark.parametrize(
        ("row", "budget", "noise"),
        [
            ("0.1, 10⁻⁶", Budget(0.1, 1e-6), "1.087"),
            ("1, 10⁻⁶", Budget(1.0, 1e-6), "1.072"),
            ("1, 10⁻⁹", Budget(1.0, 1e-9), "1.052"),
            ("8, 10⁻⁶", Budget(8.0, 1e-6), "1.056"),
        ],
    )
    def test_the_table_is_true(self, row, budget, noise):
        page = self.PAGE.read_text(encoding="utf-8")
        counts = {}
        for adaptive in (False, True):
            counts[adaptive] = []
            for events in self.fits(budget):
                account = BudgetAccountant(budget, adaptive=adaptive)
                with pytest.raises(BudgetExceeded):
                    while True:
                        account.charge(events)
                counts[adaptive].append(account.charges)
        lines = (
            f"| {row} | fixed beforehand | {' | '.join(map(str, counts[False]))} |\n"
            f"| | chosen along the way | {' | '.join(map(str, counts[True]))} |\n"
        )
        assert lines in page
        more = gaussian_mu(budget.epsilon, budget.delta) / np.sqrt(
            2.0 * zcdp_rho(budget.epsilon, budget.delta)
        )
        assert f"{more:.3f}" == noise and noise in page
