"""Fits that are interrupted go on without paying twice, and never get an answer for nothing."""

import contextlib
import functools
import json
import re
import threading

import numpy as np
import pytest
from hostile_files import damaged, replaced

from dpfast import (
    Budget,
    BudgetAccountant,
    BudgetExceeded,
    CoefficientPrior,
    Ledger,
    LogisticRegression,
    Loss,
    Problem,
    solve,
)
from dpfast._files import checksum
from dpfast.blocks import BlockProblem, from_npy
from dpfast.errors import CheckpointError, DataError
from dpfast.estimators._targets import Affine
from dpfast.privacy import GaussianEvent, ZCDPEvent
from dpfast.privacy.checkpoint import Checkpoint, fingerprint
from dpfast.privacy.ledger import kinds
from dpfast.random import SecureGenerator

SOLVERS = {
    "dp-gd": {"iterations": 4},
    "dp-masg-opt": {"iterations": 4},
    "dp-agd": {"max_iterations": 3},
    "dp-whitened-gd": {},
    "dp-adassp": {},
    "objective-perturbation": {},
    "output-perturbation": {},
}
STEP = ZCDPEvent(rho=0.1, neighboring_relation="replace_one", where="step")
HIDDEN = {"iterations": 4, "analysis": "last-iterate", "step": 1.0}


@pytest.fixture
def source():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    return from_npy(X, np.where(X.sum(axis=1) > 0, 1.0, -1.0), block_rows=60)


def rewrite(path, log):
    """As somebody who changes the file would, with the checksum that goes with it."""
    rest = {name: value for name, value in log.items() if name != "sha256"}
    path.write_text(json.dumps({**rest, "sha256": checksum(json.dumps(rest))}))


class Interrupted(BaseException):
    """As Ctrl-C, or the end of the process."""


def interrupted(*_):
    raise Interrupted


def fit(source, path, solver="dp-gd", seed=3, stop=None, budget=None, options=None):
    """Fit; with `stop`, be interrupted when so many blocks were worked on."""
    loss = "squared" if solver == "dp-adassp" else "logistic"
    blocks = 0

    def watch(rows):
        nonlocal blocks
        blocks += 1
        if blocks == stop:
            raise Interrupted

    source.watch = watch
    problem = BlockProblem(source, loss, data_norm=2.0)
    try:
        return solve(
            problem,
            solver,
            budget or Budget(2.0, 1e-6),
            random_state=seed,
            checkpoint=path,
            **(SOLVERS[solver] if options is None else options),
        ), blocks
    finally:
        source.watch = None


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_result_is_that_of_a_fit_that_was_not_interrupted(solver, source, tmp_path):
    whole, blocks = fit(source, tmp_path / "whole", solver)
    # In the middle of the first pass, later, and just before the end.
    stops = sorted({2, max(3, blocks // 2), max(4, blocks - 1)})
    path = tmp_path / "part"
    done = 0
    for stop in stops:
        if stop - done < 1:
            continue
        with contextlib.suppress(Interrupted):
            fit(source, path, solver, stop=stop - done)
        accesses = json.loads(path.read_text())["accesses"]
        done = 4 * sum(access["answer"] is not None for access in accesses)
    result, _ = fit(source, path, solver)
    np.testing.assert_array_equal(result.w, whole.w)
    assert result.privacy.events == whole.privacy.events
    assert result.privacy.epsilon == whole.privacy.epsilon
    for name, values in whole.history.items():
        np.testing.assert_array_equal(result.history[name], values)


def test_answers_are_not_asked_for_again(source, tmp_path):
    path = tmp_path / "log"
    with pytest.raises(Interrupted):
        fit(source, path, stop=10)  # 4 blocks a pass: in the third
    log = json.loads(path.read_text())
    assert [access["answer"] is not None for access in log["accesses"]] == [True, True, False]
    result, blocks = fit(source, path)
    assert blocks == 2 * 4
    assert len(result.privacy.events) == 4
    assert json.loads(path.read_text())["accesses"][:2] == log["accesses"][:2]


def test_a_complete_fit_is_not_made_again(source, tmp_path):
    """Nor is another set of weights to be had for what was paid."""
    for options in (SOLVERS["dp-gd"], HIDDEN):
        path = tmp_path / f"log{len(options)}"
        first, _ = fit(source, path, seed=None, options=options)
        second, blocks = fit(source, path, seed=None, options=options)
        assert blocks == 0
        np.testing.assert_array_equal(first.w, second.w)
        assert first.privacy.events == second.privacy.events


def test_noise_that_was_not_released_is_drawn_afresh(source, tmp_path):
    """From the operating system: of the answers that were recorded, not one changes."""
    path, copy = tmp_path / "log", tmp_path / "copy"
    with pytest.raises(Interrupted):
        fit(source, path, seed=None, stop=6)
    copy.write_bytes(path.read_bytes())
    first, second = (fit(source, p, seed=None)[0] for p in (path, copy))
    assert np.all(first.w != second.w)
    assert first.history["gradient_norm"][0] == second.history["gradient_norm"][0]
    assert first.history["gradient_norm"][1] != second.history["gradient_norm"][1]


def test_the_file_holds_neither_data_nor_noise(source, tmp_path, monkeypatch):
    """Everything in it is public, an event, or an answer that was released."""
    path = tmp_path / "log"
    with pytest.raises(Interrupted):
        fit(source, path, seed=None, stop=7, options=HIDDEN)
    log = json.loads(path.read_text())
    assert set(log) == {"schema", "version", "fit", "accesses", "outcome", "sha256"}
    assert log["outcome"] is None
    (access,) = log["accesses"]  # of the iterates within, none
    assert access["answer"] is None
    assert set(access) == {"events", "paid", "answer"}


def test_what_is_fitted_to_what_is_hashed_with_a_salt(source, tmp_path):
    """Two files of one fit have no hash in common, and none is that of the source itself."""
    fits = []
    for name in ("one", "two"):
        with pytest.raises(Interrupted):
            fit(source, tmp_path / name, seed=None, stop=6)
        fits.append(json.loads((tmp_path / name).read_text())["fit"])
    for name in ("data", "problem", "plan", "salt"):
        assert fits[0][name] != fits[1][name]
        assert re.fullmatch(r"[0-9a-f]{32,64}", fits[0][name])
    assert fits[0]["data"] != source.digest()
    fit(source, tmp_path / "one", seed=None)


def test_the_event_is_in_the_file_before_the_data_are_touched(source, tmp_path):
    path = tmp_path / "log"
    seen = []
    source.watch = lambda rows: seen.append(len(json.loads(path.read_text())["accesses"]))
    problem = BlockProblem(source, data_norm=2.0)
    solve(problem, "dp-gd", Budget(1.0, 1e-6), checkpoint=path, iterations=3)
    assert seen == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]


def test_an_answer_is_in_the_file_before_it_is_used(source, tmp_path, monkeypatch):
    """If it cannot be written, nobody gets it."""
    path = tmp_path / "log"
    write = Checkpoint._write

    def failing(self):
        if self._entries and self._entries[-1]["answer"] is not None:
            raise OSError("no space left")
        write(self)

    monkeypatch.setattr(Checkpoint, "_write", failing)
    with pytest.raises(OSError, match="no space left"):
        fit(source, path)
    monkeypatch.setattr(Checkpoint, "_write", write)
    (access,) = json.loads(path.read_text())["accesses"]
    assert access["answer"] is None
    np.testing.assert_array_equal(fit(source, path)[0].w, fit(source, tmp_path / "other")[0].w)


def test_another_fit_cannot_go_on(source, tmp_path):
    path = tmp_path / "log"
    with pytest.raises(Interrupted):
        fit(source, path, stop=6)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((201, 3))
    other = from_npy(X, np.sign(X[:, 0]), block_rows=60)
    for change, what in (
        ({"source": other}, "data, plan, problem differ"),
        ({"options": {"iterations": 5}}, "plan differs"),
        ({"budget": Budget(3.0, 1e-6)}, "plan differs"),
        ({"solver": "dp-hb", "options": {"iterations": 4}}, "plan differs"),
        ({"seed": None}, "random_state given differs"),
    ):
        with pytest.raises(CheckpointError, match=f"the checkpoint of another fit: {what}"):
            fit(**{"source": source, "path": path, **change})
    finer = from_npy(source._reader._X, source._reader._y, block_rows=50)
    with pytest.raises(CheckpointError, match="another fit: data"):
        fit(finer, path)
    fit(source, path)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": "else", "version": 2}', '{"schema": "dpfast.checkpoint"}']
)
def test_what_is_no_checkpoint_is_refused_and_kept(text, source, tmp_path):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(CheckpointError, match="is not a checkpoint of this version"):
        fit(source, path)
    assert path.read_text() == text


@pytest.fixture
def stopped(source, tmp_path):
    """The checkpoint of a fit that was interrupted in its third pass."""
    with pytest.raises(Interrupted):
        fit(source, tmp_path / "log", stop=10)
    return tmp_path / "log"


def test_every_damaged_file_is_refused(source, stopped):
    text = stopped.read_text()
    digit = re.search(r'"data": \[-?\d', text).end() - 1
    contents = [
        *list(damaged(text))[::7],
        *(changed.encode() for changed in list(replaced(text))[::5]),
        (text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :]).encode(),
    ]
    for content in contents:
        stopped.write_bytes(content)
        with (
            pytest.raises(CheckpointError, match="is not a checkpoint of this version"),
            Checkpoint.open(stopped, json.loads(text)["fit"]),
        ):
            pass
    stopped.write_text(text)
    fit(source, stopped)


def test_an_answer_that_rests_on_a_lost_one_is_not_gone_on_from(source, stopped):
    """It would be the second draw for one payment."""
    log = json.loads(stopped.read_text())
    log["accesses"][0]["answer"] = None
    rewrite(stopped, log)
    with pytest.raises(CheckpointError, match="It cannot go on; what it spent is lost"):
        fit(source, stopped)


def test_a_log_in_which_accounts_paid_by_access_is_refused(source, stopped):
    """In version 1 of the file: whoever paid for the first access has not paid for the others."""
    rewrite(stopped, json.loads(stopped.read_text()) | {"version": 1})
    with pytest.raises(CheckpointError, match="not a checkpoint of this version"):
        fit(source, stopped)


def test_other_events_than_those_paid_for_are_refused(source, stopped):
    log = json.loads(stopped.read_text())
    log["accesses"][1]["events"][0]["stddev"] *= 2.0
    rewrite(stopped, log)
    with pytest.raises(CheckpointError, match="is not the one that was paid for"):
        fit(source, stopped)


def test_of_two_fits_that_hold_the_file_at_once_one_ends_without_an_answer(source, tmp_path):
    """Whoever deletes the lock file lets a second fit answer under the same payments."""
    path, answers = tmp_path / "log.json", []

    def answer(log, value):
        log.spend([STEP], [])
        return value

    def second():
        (tmp_path / "log.json.lock").unlink()
        with Checkpoint.open(path, {"fit": 1}) as log:
            answers.append(log.release(lambda: None, lambda: answer(log, 2), SecureGenerator()))
        return 1

    with (
        Checkpoint.open(path, {"fit": 1}) as log,
        pytest.raises(CheckpointError, match="it was deleted"),
    ):
        log.release(lambda: None, lambda: answer(log, second()), SecureGenerator())
    assert answers == [2]
    with Checkpoint.open(path, {"fit": 1}) as log:
        assert log.release(lambda: None, lambda: 3, SecureGenerator()) == 2


def test_threads_that_ask_at_once_are_answered_in_the_place_that_they_pay_for(tmp_path):
    event = GaussianEvent(
        sensitivity=1.0, stddev=9.0, dimension=1, neighboring_relation="replace_one", where="here"
    )
    with Checkpoint.open(tmp_path / "c", {}) as log:
        ledger, waits = Ledger(Budget(mu=1.0)), threading.Event()
        ledger.log = log

        def first():
            waits.wait(0.2)  # until the other has been answered, if it is let in
            ledger.spend(event)
            return np.zeros(1)

        def other():
            ledger.spend(event)
            return np.ones(1)

        def ask(make):
            log.release(lambda: ledger.spend(event), make, SecureGenerator())
            waits.set()

        threads = [threading.Thread(target=ask, args=(make,)) for make in (first, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    accesses = json.loads((tmp_path / "c").read_text())["accesses"]
    assert sorted(access["answer"]["data"] for access in accesses) == [[0.0], [1.0]]


class TestAccounts:
    """A BudgetAccountant around the fit pays for every access once."""

    BUDGET = Budget(1.0, 1e-6)

    def test_with_a_file_in_another_process(self, source, tmp_path):
        for process in range(2):  # as by two processes: nothing is kept but files
            with BudgetAccountant(self.BUDGET, path=tmp_path / "budget") as account:
                if process == 0:
                    with pytest.raises(Interrupted):
                        fit(source, tmp_path / "log", stop=10, budget=self.BUDGET)
                    paid = account.events
                else:
                    result, _ = fit(source, tmp_path / "log", budget=self.BUDGET)
                    assert account.events == paid and account.charges == 1
                    assert kinds(paid) == kinds(result.privacy.events)
        with BudgetAccountant(self.BUDGET, path=tmp_path / "budget") as account:
            fit(source, tmp_path / "log", budget=self.BUDGET)  # complete: nothing to pay
            with pytest.raises(BudgetExceeded):
                fit(source, tmp_path / "new", budget=self.BUDGET)

    @pytest.mark.parametrize("adaptive", [True, False])
    def test_in_memory_and_adaptive(self, source, tmp_path, adaptive):
        with BudgetAccountant(self.BUDGET, adaptive=adaptive) as account:
            with pytest.raises(Interrupted):
                fit(source, tmp_path / "log", "dp-agd", stop=10, budget=self.BUDGET)
            spent = account.events
            result, _ = fit(source, tmp_path / "log", "dp-agd", budget=self.BUDGET)
            # Fixed beforehand is the whole of it, at the first access.
            assert account.events == (result.privacy.events if adaptive else spent)

    def test_a_complete_fit_that_an_account_has_not_paid_for(self, source, tmp_path):
        """It is the first one of the account, and takes all of it."""
        result, _ = fit(source, tmp_path / "log", budget=self.BUDGET)
        with BudgetAccountant(self.BUDGET) as account:
            fit(source, tmp_path / "log", budget=self.BUDGET)
            assert account.events == result.privacy.events

    def test_one_that_ended_before_it_wrote_down_who_paid(self, source, tmp_path, monkeypatch):
        """Has spent more than it used: it pays again, or is refused."""
        for budget in (self.BUDGET, Budget(4.0, 1e-6)):
            log = tmp_path / f"log {budget.epsilon}"
            with BudgetAccountant(budget, adaptive=False) as account:
                with monkeypatch.context() as patch, pytest.raises(Interrupted):
                    patch.setattr(Checkpoint, "spend", interrupted)
                    fit(source, log, budget=self.BUDGET)
                assert json.loads(log.read_text())["accesses"] == []
                paid = kinds(account.events)
                if budget == self.BUDGET:
                    with pytest.raises(BudgetExceeded):
                        fit(source, log, budget=self.BUDGET)
                    assert kinds(account.events) == paid
                else:
                    fit(source, log, budget=self.BUDGET)
                    assert kinds(account.events) == paid + paid

    def test_a_new_file_is_another_account(self, source, tmp_path):
        """Deleted and begun anew under the same name, it has not paid for what the old one has."""
        path = tmp_path / "budget"
        with BudgetAccountant(self.BUDGET, path), pytest.raises(Interrupted):
            fit(source, tmp_path / "log", stop=10, budget=self.BUDGET)
        for name in (path, path.with_name("budget.lock")):
            name.unlink()
        with BudgetAccountant(self.BUDGET, path) as account:
            result, _ = fit(source, tmp_path / "log", budget=self.BUDGET)
            assert account.events == result.privacy.events

    def test_an_account_that_has_not_paid_does(self, source, tmp_path):
        with pytest.raises(Interrupted):
            fit(source, tmp_path / "log", stop=10, budget=self.BUDGET)
        with BudgetAccountant(self.BUDGET) as account:
            result, _ = fit(source, tmp_path / "log", budget=self.BUDGET)
            assert account.events == result.privacy.events


def test_estimators_hand_it_on(source, tmp_path):
    model = LogisticRegression(
        data_norm=2.0, classes=[-1.0, 1.0], solver="dp-gd", random_state=1,
        solver_options={"iterations": 3},
    )  # fmt: skip
    coef = model.fit(source, checkpoint=tmp_path / "two.gz").coef_
    source.watch = lambda rows: pytest.fail("the rows were read again")
    np.testing.assert_array_equal(model.fit(source, checkpoint=tmp_path / "two.gz").coef_, coef)
    source.watch = None
    more = LogisticRegression(
        data_norm=2.0, classes=[-1.0, 0.0, 1.0], solver="dp-gd", random_state=1,
        solver_options={"iterations": 2},
    )  # fmt: skip
    blocks = []

    def stop(rows):
        blocks.append(rows)
        if len(blocks) == 13:  # in the second pass of the second class
            raise Interrupted

    source.watch = stop
    with pytest.raises(Interrupted):
        more.fit(source, checkpoint=tmp_path / "three")
    source.watch = None
    coef = more.fit(source, checkpoint=tmp_path / "three").coef_
    np.testing.assert_array_equal(coef, more.fit(source, checkpoint=tmp_path / "whole").coef_)
    X, y = source._reader._X, source._reader._y
    with pytest.raises(ValueError, match="checkpoint must be None for rows in memory"):
        model.fit(X, y, checkpoint=tmp_path / "x")
    with pytest.raises(ValueError, match="checkpoint must be None for rows in memory"):
        solve(Problem(X, y, data_norm=2.0), "dp-gd", Budget(1.0, 1e-6), checkpoint="x")


def test_it_keeps_what_was_told_of_columns(source, tmp_path):
    model = LogisticRegression(50.0, data_norm=2.0, classes=[-1.0, 1.0], random_state=1)
    ranges = model.fit(source, checkpoint=tmp_path / "log").column_ranges_
    assert np.isfinite(ranges).any()
    source.watch = lambda rows: pytest.fail("the rows were read again")
    again = model.fit(source, checkpoint=tmp_path / "log").column_ranges_
    np.testing.assert_array_equal(again, ranges)


def test_a_fit_goes_on_with_its_own_prior_alone(source, tmp_path):
    """The gradients in the file are those at what the first one expected."""
    settings = {"epsilon": 5.0, "data_norm": 2.0, "classes": [-1.0, 1.0], "random_state": 1}
    d = source.n_features + 1
    one, other = (CoefficientPrior([c] * (d - 1), covariance=[0.04] * d) for c in (0.1, -0.1))
    LogisticRegression(**settings, prior=one).fit(source, checkpoint=tmp_path / "log")
    with pytest.raises(CheckpointError, match="another fit: plan differ"):
        LogisticRegression(**settings, prior=other).fit(source, checkpoint=tmp_path / "log")
    LogisticRegression(**settings, prior=one).fit(source, checkpoint=tmp_path / "log")


def test_a_solver_that_draws_between_its_releases_has_none(source, tmp_path):
    problem = BlockProblem(source, data_norm=2.0)
    with pytest.raises(ValueError, match="checkpoint must be None for solver='privgene'"):
        solve(problem, "privgene", Budget(1.0, 1e-6), checkpoint=tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_bad_rows_found_on_the_way_leave_what_was_paid(tmp_path):
    X = np.ones((100, 2))
    X[70, 1] = np.inf
    source = from_npy(X, np.ones(100), block_rows=50)
    for _ in range(2):
        with pytest.raises(DataError, match="rows 50 to 99, column 1"):
            fit(source, tmp_path / "log")
        (access,) = json.loads((tmp_path / "log").read_text())["accesses"]
        assert access["answer"] is None


def test_fingerprints_know_values_and_not_addresses():
    def first():
        pass

    def second():
        pass

    assert fingerprint(first) == fingerprint(first) != fingerprint(second)
    assert fingerprint({"a": 1, "b": 2.0}) == fingerprint({"b": 2.0, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint(functools.partial(first, 1)) == fingerprint(functools.partial(first, 1))
    assert fingerprint(functools.partial(first, 1)) != fingerprint(functools.partial(first, 2))
    loss = Loss("huber")
    narrow, wide = (Affine.of(loss, -a, a, centered=True) for a in (1.0, 2.0))
    assert fingerprint(narrow) == fingerprint(Affine.of(loss, -1.0, 1.0, centered=True))
    assert fingerprint(narrow) != fingerprint(wide)
