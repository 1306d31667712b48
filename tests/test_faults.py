"""Interrupts, exceptions and deaths of the process at every step: the budget is never overspent.

No signals and no waiting: a profile function raises, or ends the process, when a chosen step has
been done, which is where Python itself would raise a KeyboardInterrupt. Whatever happened, a budget
file is whole and says at least what was spent, no lock stays behind, and a model never carries the
report of another fit. Where the operating system can be made to refuse (memory, room on the disk),
it does, in a process of its own.
"""

import errno
import fcntl
import gc
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from forks import in_child
from threads import in_threads

from dpfast import (
    Budget,
    BudgetAccountant,
    BudgetExceeded,
    Ledger,
    LogisticRegression,
    Problem,
    _blas,
)
from dpfast.cli import fit as fit_command
from dpfast.cli import main
from dpfast.curator import Curator
from dpfast.errors import BudgetFileError
from dpfast.mechanisms import Gaussian
from dpfast.privacy import ZCDPEvent
from dpfast.privacy.repeats import FITS
from dpfast.queries import ClippedGradient
from dpfast.random import SecureGenerator
from dpfast.tabular import TableModel, TableSchema
from dpfast.tabular.model_file import StoredModel, read_model, write_model

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
BUDGET = Budget(rho=1.0)
STEP = ZCDPEvent(rho=0.25, neighboring_relation="replace_one", where="step")


def steps(action, code, at=None, then=None, each=None):
    """Run `action`; do `then` at step number `at`, `each` at all; return the number of steps.

    A step is the beginning of a Python function or the end of a call of a C function, in files
    whose names end in one of `code`: the places where the interpreter looks for signals. None
    instead of their number says that there were fewer than `at`, as caches were filled.
    """
    count, done = 0, at is None

    def profile(frame, event, argument):
        nonlocal count, done
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(code):
            count += 1
            if each:
                each()
            if count - 1 == at:
                done = True
                sys.setprofile(None)
                then()

    before = sys.getprofile()
    gc.disable()  # finalizers would be steps that come now and then
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count if done else None


def raising(error):
    def then():
        raise error

    return then


def assert_usable(accountant, path, at_least):
    """Whole, unlocked, at least what is known to be spent, and never over its budget."""
    assert not accountant._lock.locked()
    if path is not None:
        with open(f"{path}.lock", "r+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert BudgetAccountant(BUDGET, path).events == accountant.events
        left = [p.name for p in path.parent.iterdir() if p.suffix not in (".json", ".lock")]
        assert all(name.endswith(".tmp") for name in left)
    assert at_least <= len(accountant.events) <= 4
    accountant.charge([STEP] * (4 - len(accountant.events)))
    with pytest.raises(BudgetExceeded):
        accountant.charge([STEP])


CHARGE = ("dpfast/_files.py", "budget_accountant.py", "privacy/ledger.py", "contextlib.py")


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError(), FULL], ids=["ctrl-c", "memory", "disk"]
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_charge_that_fails_at_any_step(tmp_path, kind, error):
    def accountant(folder):
        path = None if kind == "memory" else tmp_path / str(folder) / "budget.json"
        if path is not None:
            path.parent.mkdir()
        made = BudgetAccountant(BUDGET, path)
        made.charge([STEP])
        return made

    whole = accountant("whole")
    total = steps(lambda: whole.charge([STEP]), CHARGE)
    assert len(whole.events) == 2
    assert total > (20 if kind == "memory" else 100)
    # The same code meets all three: every third step for Ctrl-C, every seventh for the others.
    for at in range(0, total, 3 if isinstance(error, KeyboardInterrupt) else 7):
        made = accountant(at)
        told = 0
        with suppress(type(error)):
            steps(lambda made=made: made.charge([STEP]), CHARGE, at, raising(error))
            told = 1  # an error in a finalizer changes nothing
        # Otherwise nobody was told that the charge succeeded: it may stand there or not.
        assert_usable(made, made.path, at_least=1 + told)


@needs_fork
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
@pytest.mark.parametrize("existing", [True, False], ids=["charge", "begin"])
def test_a_process_that_dies_at_any_step_of_a_write(tmp_path, existing):
    """Also between beginning a file and its first charge."""

    def act(path):
        BudgetAccountant(BUDGET, path).charge([STEP])

    def prepared(name):
        path = tmp_path / str(name) / "budget.json"
        path.parent.mkdir()
        if existing:
            act(path)
        return path

    # What lies on the disk at a step is what a process that died there leaves behind.
    left = {}

    def look():
        found = {one.name: one.read_bytes() for one in whole.parent.iterdir()}
        left.setdefault(tuple(sorted(found.items())), len(left))

    whole = prepared("whole")
    assert steps(lambda: act(whole), "dpfast/_files.py", each=look) > 10
    assert len(left) > 3
    for files, number in left.items():
        path = tmp_path / f"left {number}" / "budget.json"
        path.parent.mkdir()
        for name, content in files:
            (path.parent / name).write_bytes(content)
        assert_usable(BudgetAccountant(BUDGET, path), path, at_least=int(existing))
    # And locks go with the process.
    total = steps(lambda: act(prepared("counted")), "dpfast/_files.py")
    for at in range(0, total, total // 4):
        path = prepared(at)
        child = os.fork()
        if child == 0:  # pragma: no cover
            code = 1
            try:
                steps(lambda path=path: act(path), "dpfast/_files.py", at, lambda: os._exit(9))
                code = 0  # there were fewer steps: all is done
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        assert_usable(
            BudgetAccountant(BUDGET, path), path, at_least=int(existing) + (1 if code == 0 else 0)
        )


@needs_fork
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_disk_that_is_full_for_the_operating_system(tmp_path):
    """Not an injected error: the kernel refuses to write more than some bytes into a file."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "budget.json"
    BudgetAccountant(BUDGET, path).charge([STEP])
    before = path.read_bytes()
    child = os.fork()
    if child == 0:  # pragma: no cover
        code = 1
        try:
            accountant = BudgetAccountant(BUDGET, path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), len(before)))
            try:
                accountant.charge([STEP])
            except OSError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert path.read_bytes() == before
    assert_usable(BudgetAccountant(BUDGET, path), path, at_least=1)


# What is loaded or set up at first use is there before the limit, which is relative to what the
# process has by then: 128 MiB more, where one fit needs 2 GiB at once and the other half of one.
_LIMITED = """
import json, resource, sys
import numpy as np, scipy.sparse
from dpfast import Budget, BudgetAccountant, LinearRegression

def fit(X, y):
    model = LinearRegression(epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(-1, 1),
                             solver="dp-adassp", random_state=0)
    try:
        model.fit(X, y)
        error = None
    except MemoryError as caught:
        error = str(caught)
    return error, sorted(name for name in vars(model) if name.endswith("_"))

small = np.linspace(-0.5, 0.5, 60).reshape(20, 3), np.linspace(-1.0, 1.0, 20)
fits = {
    "rows to convert": (np.broadcast_to(np.int8(0), (256, 1 << 20)), np.zeros(256)),
    "sums of pairs of columns": (scipy.sparse.csr_array((20, 8000)), np.zeros(20)),
    "small": small,
}
fit(*small)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (128 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with BudgetAccountant(Budget(4.0, 1e-5), sys.argv[1]) as account:
    for name, data in fits.items():
        print(json.dumps([name, *fit(*data), len(account.events)]))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
def test_a_limit_of_the_operating_system_on_memory(tmp_path):
    """Also when what does not fit is needed after the charge; the process goes on and pays."""
    pytest.importorskip("resource")
    path = tmp_path / "budget.json"
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(path)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OPENBLAS_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr
    before, after, small = map(json.loads, done.stdout.splitlines())
    for name, error, attributes, _ in (before, after):
        assert "Unable to allocate" in error, name
        assert "coef_" not in attributes and "privacy_" not in attributes
    assert small[1] is None and {"coef_", "privacy_"} <= set(small[2])
    # Nothing was spent before the rows could be read; what was paid for and not had stays spent.
    counts = [events for *_, events in (before, after, small)]
    assert 0 == counts[0] < counts[1] < counts[2]
    account = BudgetAccountant(Budget(4.0, 1e-5), path)
    assert len(account.events) == counts[2] and account.remaining() > 0.0


def fitted():
    X, y = rows()
    return LogisticRegression(
        data_norm=1.0, classes=[-1, 1], solver="output-perturbation", random_state=0
    ).fit(X, y)


def rows(n=40):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 2))
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def tabular_model():
    model = fitted()
    schema = TableSchema.from_bounds({"a": [0, 1], "b": [0, 1], "y": ["n", "p"]}, target="y")
    learned = model.coef_, model.intercept_, False, model.privacy_
    return StoredModel(schema, "logistic", {}, *learned)


def test_a_model_file_is_old_or_new_after_an_error_at_any_step(tmp_path):
    old, new = tabular_model(), tabular_model()
    new.__dict__["intercept"] = old.intercept + 1.0
    path = tmp_path / "model.json"
    code = ("dpfast/_files.py", "dpfast/tabular/model_file.py")
    for first, error in enumerate((KeyboardInterrupt(), FULL)):
        write_model(path, old)
        total = steps(lambda: write_model(path, new), code)
        for at in range(first, total, 2):
            write_model(path, old)
            with suppress(type(error)):
                steps(lambda: write_model(path, new), code, at, raising(error))
            assert read_model(path).intercept in (old.intercept, new.intercept)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device():
    with pytest.raises(OSError, match="No space"):
        write_model("/dev/full", tabular_model())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=["ctrl-c", "memory"])
@pytest.mark.parametrize("solver", ["output-perturbation", "dp-whitened-gd", "dp-sgd"])
def test_a_fit_that_fails_at_any_step(solver, error, monkeypatch):
    """What was looked at was paid for before, and the model stays what it was."""
    X, y = rows()
    looks = []
    answer = Curator._answer

    def watched(self, *asked):
        looks.append(len(self._ledger.events))
        return answer(self, *asked)

    monkeypatch.setattr(Curator, "_answer", watched)
    settings = {"data_norm": 1.0, "classes": [-1, 1], "random_state": 0, "solver": solver}
    first = LogisticRegression(epsilon=4.0, **settings).fit(X, y)
    kept = dict(vars(first))
    code = ("estimators/_base.py", "ledger.py", "curator.py", "_additive.py", "_driver.py")

    def attempt(at=None):
        looks.clear()
        model = LogisticRegression(epsilon=1.0, **settings)
        for name in set(kept).difference(vars(model)):
            setattr(model, name, kept[name])
        total = None
        with BudgetAccountant(Budget(8.0, 1e-5)) as accountant, suppress(type(error)):
            total = steps(lambda: model.fit(X, y), code, at, raising(error))
        # Each look found all the events up to its own on the ledger, and the account has them too.
        assert all(seen > index for index, seen in enumerate(looks))
        assert sum(event.count for event in accountant.events) >= (looks[-1] if looks else 0)
        assert not accountant._lock.locked()
        return model, accountant.events, total

    model, events, total = attempt()
    assert model.privacy_.epsilon <= 1.0 < first.privacy_.epsilon
    for at in np.unique(np.linspace(0, total - 1, 12).astype(int)):
        model, spent, _ = attempt(at)
        if isinstance(error, KeyboardInterrupt):
            assert spent == events[: len(spent)]
        else:  # the rest of the plan is paid for, too, and what the error hit perhaps twice
            assert (Counter(spent) - Counter(events)).total() <= 1
        changed = model.privacy_ is not kept["privacy_"]
        # All at once, in the last step or after an error that a finalizer swallowed.
        assert changed == (model.coef_ is not kept["coef_"])
        assert not changed or spent == events


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FULL], ids=["ctrl-c", "disk"])
@pytest.mark.parametrize("where", ["baselines", "show_report"])
def test_the_command_line_says_that_a_written_model_was_paid_for(
    tmp_path, capsys, monkeypatch, where, error
):
    rng = np.random.default_rng(0)
    table = "a,y\n" + "".join(f"{a},{'p' if a > 5 else 'n'}\n" for a in rng.integers(0, 10, 60))
    (tmp_path / "rows.csv").write_text(table)
    (tmp_path / "bounds.json").write_text('{"a": [0, 10], "y": ["n", "p"]}')
    monkeypatch.setattr(fit_command, where, lambda *_, **__: raising(error)())
    code = main(
        [
            *("fit", str(tmp_path / "rows.csv"), "--bounds", str(tmp_path / "bounds.json")),
            *("--target", "y", "--epsilon", "1", "--delta", "1e-6"),
            *("--test", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "model.json")),
        ]
    )
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 3)
    assert "The budget was spent; the model is in" in capsys.readouterr().err
    assert TableModel.load(tmp_path / "model.json").privacy_.epsilon <= 1.0


@needs_fork
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_children_of_a_fork_fit_with_noise_of_their_own():
    """Each a model of its own, also where a generator was in use before the fork."""
    X, y = rows()
    model = LogisticRegression(data_norm=1.0, classes=[-1, 1], solver="output-perturbation")
    found = [model.fit(X, y).coef_.tobytes()]
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                os.write(writing, model.fit(X, y).coef_.tobytes())
            finally:
                os._exit(0)
        os.close(writing)
        with open(reading, "rb") as stream:
            found.append(stream.read())
        os.waitpid(child, 0)
    assert len(found[-1]) == len(found[0])
    assert len(set(found)) == 3


@needs_fork
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_child_of_a_fork_waits_for_no_thread_of_its_parent():
    """Each lock is held in the parent when the child is made, as if a thread were paying."""
    X, y = rows()
    problem = Problem(X, y, data_norm=1.0)
    ledger = Ledger(BUDGET)
    curator = Curator(problem, ledger, SecureGenerator())
    access = Gaussian.of_query(1e3, ClippedGradient(problem.shape), "replace_one", where="step")
    (part,) = curator.disjoint([0, 20], access)

    def act():
        assert ledger.events == (access.event(),) and ledger.used() > 0.0
        for one in (curator, part):
            with pytest.raises(RuntimeError, match="in another process"):
                one.release(access, np.zeros(3))
        return fitted().coef_.tobytes()

    with ledger._lock, curator._lock, part._lock, _blas._lock, FITS._lock:
        assert len(in_child(act)) == 16


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_threads_that_fit_at_once_stay_within_one_budget(tmp_path, kind):
    X, y = rows()
    path = None if kind == "memory" else tmp_path / "budget.json"
    accountant = BudgetAccountant(Budget(1.0), path, adaptive=False)
    barrier = threading.Barrier(4)
    models, refused, others = [], [], []

    def work():
        barrier.wait()
        try:
            models.append(
                LogisticRegression(
                    epsilon=0.3,
                    delta=0.0,
                    data_norm=1.0,
                    classes=[-1, 1],
                    solver="output-perturbation",
                ).fit(X, y)
            )
        except BudgetExceeded:
            refused.append(1)
        except Exception as error:
            others.append(error)

    with accountant:
        in_threads(work, 4)
    assert not others
    assert (len(models), len(refused)) == (3, 1)
    assert len({model.coef_.tobytes() for model in models}) == 3
    assert accountant.guarantee().epsilon == pytest.approx(0.9)


def test_a_file_without_a_checksum_is_no_budget_file(tmp_path):
    """Half a file that happens to be JSON, or one of another program, is not taken for whole."""
    path = tmp_path / "budget.json"
    accountant = BudgetAccountant(BUDGET, path)
    accountant.charge([STEP])
    text = path.read_text()
    assert '"sha256"' in text
    path.write_text(text.replace('"sha256"', '"sha255"'))
    with pytest.raises(BudgetFileError):
        accountant.charge([STEP])
