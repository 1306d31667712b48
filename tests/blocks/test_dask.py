"""Dask collections: the same sums and fits as in memory, whatever happens to workers."""

import functools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from blocks.test_block_problem import FULL_BATCH

from dpfast import Budget, LinearRegression, LogisticRegression, Problem, solve
from dpfast.blocks import BlockProblem, Executor, _dask, from_dask
from dpfast.blocks._dask import _dumps, _Held, _work
from dpfast.blocks._problem import _Recipe
from dpfast.errors import DataError
from dpfast.solvers import SOLVERS

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def collections(*arrays, rows=110):
    return [da.from_array(array, chunks=(rows, *array.shape[1:])) for array in arrays]


# The others ask what dp-gd asks.
@pytest.mark.parametrize(
    ("solver", "options"),
    [each for each in FULL_BATCH if not each[0].startswith(("dp-hb", "dp-nag", "dp-masg"))],
)
def test_every_full_batch_solver_finds_the_same(solver, options, rows):
    X, y, _ = rows
    loss = SOLVERS[solver].loss if solver in SOLVERS else "logistic"
    source = from_dask(*collections(X, y))
    assert source.sizes == (110, 110, 110, 110, 60)
    found = [
        solve(problem, solver, Budget(5.0, 1e-6), random_state=7, **options)
        for problem in (
            Problem(X, y, loss, data_norm=2.0),
            BlockProblem(source, loss, data_norm=2.0),
        )
    ]
    np.testing.assert_allclose(found[1].w, found[0].w, rtol=1e-10, atol=1e-12)
    assert found[1].privacy.events == found[0].privacy.events


def test_stochastic_solvers_are_refused(rows):
    X, y, _ = rows
    problem = BlockProblem(from_dask(*collections(X, y)), data_norm=2.0)
    with pytest.raises(ValueError, match="solver must be one of full batches"):
        solve(problem, "dp-sgd", Budget(1.0, 1e-6))


def test_estimators_take_arrays_and_frames(rows):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, weight = rows
    labels = np.where(y > 0, "yes", "no")
    model = LogisticRegression(
        epsilon=5.0, data_norm=2.0, classes=["no", "yes"], max_weight=0.5, random_state=1
    )
    expected = model.fit(X, labels, sample_weight=weight).coef_
    Xd, yd, wd = collections(X, labels, weight)
    found = model.fit(Xd, yd, sample_weight=wd).coef_
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    names = list("abcde")
    frame = dd.from_pandas(
        pd.DataFrame(X, columns=names).assign(label=labels, weight=weight), npartitions=3
    )
    # Lengths are not known beforehand, and one partition is empty.
    frame = dd.concat([frame[frame.a > 100.0], frame])
    model.fit(frame[names], frame["label"], sample_weight=frame["weight"])
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-10)
    assert model.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(
        model.predict(frame[names]),
        model.predict(pd.DataFrame(X, columns=names)),
    )


def test_columns_of_several_types_are_numbers(rows):
    """NumPy made objects of them, which were refused after the fit had paid."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, _ = rows
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame = frame.assign(b=frame.b > 0.0, c=(9 * frame.c).round().astype(int))
    model = LogisticRegression(data_norm=2.0, classes=[-1, 1], random_state=1)
    expected = model.fit(frame, y).coef_
    label = dd.from_pandas(pd.Series(y, name="y"), npartitions=3)
    for same in (frame, frame.convert_dtypes()):
        model.fit(dd.from_pandas(same, npartitions=3), label)
        np.testing.assert_allclose(model.coef_, expected, rtol=1e-10)


@pytest.mark.parametrize("what", ["X", "y", "sample_weight"])
def test_what_a_mask_hides_is_not_shown(what, rows):
    parts = dict(zip(("X", "y", "sample_weight"), collections(*rows), strict=True))
    parts[what] = da.ma.masked_greater(parts[what], 0.5)
    with pytest.raises(ValueError, match=f"{what} must hold numbers or labels without a mask"):
        from_dask(**parts)


@pytest.mark.parametrize("turned", ["y", "sample_weight", "groups"])
def test_columns_of_a_frame_whose_rows_are_in_different_orders_are_refused(turned, rows):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, weight = rows
    frame = pd.DataFrame(X, columns=list("abcde")).assign(
        y=y, sample_weight=weight, groups=np.arange(500)
    )
    frame = dd.from_pandas(frame, npartitions=3)
    parts = {name: frame[name] for name in ("y", "sample_weight", "groups")}
    assert from_dask(frame[list("abcde")], **parts).n_groups == 500
    # As a shuffle does, which sorts nothing.
    parts[turned] = parts[turned].map_partitions(lambda part: part.iloc[::-1])
    with pytest.raises(DataError, match=f"X and {turned} must have the same index"):
        from_dask(frame[list("abcde")], **parts)


def test_regressors(rows):
    X, y, _ = rows
    model = LinearRegression(epsilon=5.0, data_norm=2.0, target_bounds=(-1, 1), random_state=1)
    expected = model.fit(X, y).coef_
    np.testing.assert_allclose(model.fit(*collections(X, y)).coef_, expected, rtol=1e-10)


def test_targets_are_divided_like_the_rows(rows):
    X, y, _ = rows
    source = from_dask(collections(X)[0], collections(y, rows=70)[0])
    problem = BlockProblem(source, data_norm=2.0)
    expected = Problem(X, y, data_norm=2.0).clipped_gradient(np.ones(6))
    np.testing.assert_allclose(problem.clipped_gradient(np.ones(6))[0], expected[0], rtol=1e-12)


def test_arguments(rows):
    X, y, weight = rows
    Xd, yd, wd = collections(X, y, weight)
    cases = [
        (lambda: from_dask(X, y), TypeError, "X must be a dask array or dataframe; got ndarray"),
        (lambda: from_dask(Xd, y), TypeError, "y must be a dask array or series, like X; got nda"),
        (lambda: from_dask(Xd.rechunk((110, 2)), yd), ValueError, "X must not be divided along"),
        (lambda: from_dask(Xd, yd[:-1]), ValueError, "y must have as many rows as X; got 499"),
        (lambda: from_dask(yd, yd), ValueError, "X must have 2 dimension"),
        (lambda: from_dask(Xd[:0], yd[:0]), ValueError, "at least one row; got 0"),
        (lambda: from_dask(Xd, yd, keep=1), TypeError, "keep must be True or False; got 1"),
        (lambda: from_dask(Xd, yd, name=b"x"), TypeError, "name must be a text or None; got b'x'"),
        (lambda: from_dask(Xd.astype(str), yd), TypeError, "X must hold numbers only; got type"),
        (lambda: LogisticRegression(data_norm=1.0).fit(Xd, yd), ValueError, "classes must be give"),
        (lambda: LogisticRegression(classes=[-1, 1]).fit(Xd, yd), ValueError, "data_norm must be"),
        (lambda: LogisticRegression(data_norm=1.0).fit(Xd), ValueError, "y must be given with X"),
        (
            lambda: LogisticRegression(data_norm=1.0, classes=[-1, 1]).fit(
                Xd, yd, sample_weight=wd
            ),
            ValueError,
            "max_weight must be given with sample_weight",
        ),
    ]
    for call, kind, match in cases:
        with pytest.raises(kind, match=match):
            call()


def test_a_problem_in_memory_refuses_collections_and_names_the_one_that_takes_them(rows):
    X, y, weight = rows
    Xd, yd, wd = collections(X, y, weight)
    for given in ((Xd, y), (X, yd)):
        with pytest.raises(TypeError, match=r"BlockProblem\(dpfast\.blocks\.from_dask\(X, y\)"):
            Problem(*given, data_norm=2.0)
    with pytest.raises(
        TypeError, match="X, y, sample_weight and groups must be in memory; got a dask"
    ):
        Problem(X, y, data_norm=2.0, sample_weight=wd, max_weight=1.0)


def test_lengths_that_differ_are_found_in_partitions_of_unknown_length(rows):
    X, y, _ = rows
    Xd, yd = collections(X, y)
    with pytest.raises(DataError, match=r"y must have as many rows as X in every part.*number|has"):
        from_dask(Xd[Xd[:, 0] > 0.0], yd[yd > 0.0])


def test_the_digest_knows_sizes_and_never_values(rows):
    X, y, _ = rows
    first = from_dask(*collections(X, y)).digest()
    assert first == from_dask(*collections(2.0 * X, -y)).digest()
    assert first != from_dask(*collections(X, y), name="other").digest()
    assert first != from_dask(*collections(X, y, rows=100)).digest()
    # Readers of text guess types from some of the values.
    assert first == from_dask(*collections(X.astype(float), y)).digest()


# ---- what tasks are -----------------------------------------------------------------------------


def test_a_held_partition_is_pure_and_travels_without_what_was_made_of_it(rows):
    """Line searches leave nothing behind that another one would see; spilling keeps values."""
    X, y, weight = rows
    held = _Held(0, np.asfortranarray(X), y, weight, None, "partition 0")

    def search(problem):
        return problem.line_search_losses(w, direction, [0.0, 0.5])

    w, direction = np.random.default_rng(1).standard_normal((2, 6))
    source = _OneBlock(held)
    problem = BlockProblem(source, data_norm=2.0, max_weight=1.0)
    first = next(iter(problem.map_blocks(search)))
    list(problem.map_blocks(functools.partial(_step, w=w + 0.5 * direction)))
    again = next(iter(problem.map_blocks(search)))
    np.testing.assert_array_equal(first, again)
    travelled = pickle.loads(pickle.dumps(held))
    assert travelled.block.made == {}
    assert travelled.checksum() == held.checksum()
    assert held.__sizeof__() >= X.nbytes + y.nbytes + weight.nbytes
    changed = X.copy()
    changed[7, 2] += 1.0
    assert _Held(3, changed, y, weight, None, "").checksum() != held.checksum()


def _step(problem, w):
    return problem.line_search_losses(w, np.ones(6), [0.0, 1.0])


def test_a_held_partition_is_made_a_problem_once_and_not_in_every_pass(rows, monkeypatch):
    X, y, _ = rows
    source = _OneBlock(_Held(0, X, y, None, None, "partition 0"))
    source.weighted = False
    made, passes, new, work = [], [], _Recipe._new, _OneBlock.map
    monkeypatch.setattr(_Recipe, "_new", lambda *given: made.append(1) or new(*given))
    monkeypatch.setattr(_OneBlock, "map", lambda *given: passes.append(1) or work(*given))
    problem = BlockProblem(source, data_norm=2.0)
    solve(problem, "dp-whitened-gd", Budget(5.0, 1e-6), random_state=7)
    assert len(passes) >= 5
    assert len(made) == 2  # without lengths, and with those in the learned coordinates


class _OneBlock(Executor):
    """A single held partition, worked on as a worker does."""

    feature_names, seekable, weighted, n_features = None, True, True, 5

    def __init__(self, held):
        self.held, self.sizes = held, (held.block.X.shape[0],)

    def map(self, function, numbers=None):
        yield _work(self.held, _dumps(function), 0, True)[0]

    def digest(self):
        return ""


class _Future:
    def __init__(self, value):
        self.value, self.released = value, False

    def release(self):
        self.released = True

    def done(self):
        return True


class _Client:
    """A client as this package uses it, of a cluster that is done at once."""

    def __init__(self):
        self.fetched, self.futures = [], []

    def compute(self, collections):
        return [_Future(value) for value in dask.compute(*collections)]

    def map(self, function, held, *columns, pure):
        self.futures = [
            _Future(function(part.value, *rest)) for part, *rest in zip(held, *columns, strict=True)
        ]
        return self.futures

    def gather(self, futures):
        self.fetched.append(len(futures))
        first = self.futures.index(futures[0])
        assert [future.released for future in self.futures[:first]] == first * [True]
        return [future.value for future in futures]

    def cancel(self, futures):
        assert futures == []


@pytest.mark.parametrize(("limit", "fetched"), [(2**26, [1, 4]), (1, [1, 1, 1, 1, 1])])
def test_results_are_fetched_as_many_as_fit_and_not_kept(limit, fetched, rows, monkeypatch):
    monkeypatch.setattr(_dask, "_GATHERED_BYTES", limit)
    X, y, _ = rows
    client = _Client()
    problem = BlockProblem(from_dask(*collections(X, y), client=client), data_norm=2.0)
    assert client.fetched == fetched
    client.fetched.clear()
    np.testing.assert_allclose(problem.gram(), Problem(X, y, data_norm=2.0).gram(), rtol=1e-12)
    assert client.fetched == fetched
    assert all(future.released for future in client.futures)


# ---- a cluster ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A client of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "120s"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as running,
        distributed.Client(running, timeout="300s", set_as_default=False) as client,
    ):
        # What is sent to workers refers to functions of this module by name.
        client.run(_find_tests, str(Path(__file__).parents[1]))
        client.register_plugin(_FindTests(str(Path(__file__).parents[1])))
        yield client


def _find_tests(folder):
    import sys

    if folder not in sys.path:
        sys.path.append(folder)


class _FindTests:
    """Workers that are started later find the tests, too."""

    def __new__(cls, folder):
        from distributed import WorkerPlugin

        class Plugin(WorkerPlugin):
            name = "find-tests"

            def setup(self, worker):
                import sys

                sys.path.append(folder)

        return Plugin()


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("solver", "options"), FULL_BATCH)
def test_two_worker_processes_find_the_same(solver, options, keep, rows, cluster):
    X, y, _ = rows
    loss = SOLVERS[solver].loss if solver in SOLVERS else "logistic"
    expected = solve(Problem(X, y, loss, data_norm=2.0), solver, Budget(5.0, 1e-6), random_state=7,
                     **options)  # fmt: skip
    source = from_dask(*collections(X, y), client=cluster, keep=keep)
    problem = BlockProblem(source, loss, data_norm=2.0)
    found = solve(problem, solver, Budget(5.0, 1e-6), random_state=7, **options)
    np.testing.assert_allclose(found.w, expected.w, rtol=1e-10, atol=1e-12)
    assert found.privacy.events == expected.privacy.events


class Dying(Executor):
    """Partitions of which one takes its worker with it, in one pass and once."""

    feature_names, seekable, weighted = None, True, False

    def __init__(self, source, at, flag):
        self.source, self.at, self.flag = source, at, flag
        self.n_features, self.sizes = source.n_features, source.sizes
        self.passes = 0

    def map(self, function, numbers=None):
        self.passes += 1
        if self.passes == self.at:
            function = functools.partial(_die_once, self.flag, function)
        return self.source.map(function, numbers)

    def digest(self):
        return self.source.digest()


def _die_once(flag, function, block):
    if block.number == 2:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os._exit(1)
    return function(block)


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("solver", "options"),
    [
        ("dp-gd", {"iterations": 6}),
        ("dp-agd", {"max_iterations": 4}),
        ("output-perturbation", {"optimizer": "newton"}),
        ("auto", {}),
    ],
)
def test_a_worker_that_dies_in_a_fit_changes_neither_result_nor_ledger(
    solver, options, keep, rows, cluster, tmp_path
):
    X, y, _ = rows
    source = from_dask(*collections(X, y), client=cluster, keep=keep)
    flag = tmp_path / "died"
    results = []
    for at in (None, 3):
        rows_of = Dying(source, at, str(flag))
        problem = BlockProblem(rows_of, data_norm=2.0)
        results.append(solve(problem, solver, Budget(5.0, 1e-6), random_state=7, **options))
        assert rows_of.passes >= 3
    assert flag.exists()
    np.testing.assert_array_equal(results[1].w, results[0].w)
    assert results[1].privacy.events == results[0].privacy.events


@pytest.mark.slow
def test_a_partition_that_comes_out_otherwise_is_refused(rows, cluster, tmp_path):
    """A graph that gives other values when a lost partition is computed again."""
    X, y, _ = rows
    Xd, yd = collections(X, y)
    counter = str(tmp_path / "computed")
    source = from_dask(Xd.map_blocks(_drift, counter, dtype=X.dtype), yd, client=cluster)
    problem = BlockProblem(Dying(source, 2, str(tmp_path / "died")), data_norm=2.0)
    problem.objective(np.ones(6))
    with pytest.raises(DataError, match=r"partition \d was computed again and came out with other"):
        problem.objective(np.ones(6))


def _drift(block, counter):
    """Adds what is new at every call."""
    with open(counter, "ab") as stream:
        stream.write(b"x")
        return block + np.float32(stream.tell())
