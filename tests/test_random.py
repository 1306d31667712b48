"""SecureGenerator: keys, forks, threads, interrupts, arguments.  The laws are in test_samplers."""

import _thread
import copy
import hashlib
import itertools
import os
import pickle
import threading

import numpy as np
import pytest
from forks import in_child, needs_fork
from reference import samplers as twin
from threads import in_threads

from dpfast import _kernels
from dpfast.random import SecureGenerator

DRAWS = {
    "uint64": lambda rng, n: rng.uint64(n),
    "discrete_gaussian": lambda rng, n: rng.discrete_gaussian(2**32, n),
    "discrete_laplace": lambda rng, n: rng.discrete_laplace(2**40, n),
    "gaussian": lambda rng, n: rng.gaussian(n),
    "l2_laplace": lambda rng, n: rng.l2_laplace(n, 1.5),
    "noisy_max": lambda rng, n: np.array(
        [rng.noisy_max(np.arange(50), 100, "gumbel") for _ in range(n)]
    ),
}


@pytest.fixture(params=DRAWS.values(), ids=DRAWS.keys())
def draw(request):
    return request.param


# ---- Keys ---------------------------------------------------------------------------------------


def test_generators_of_the_operating_system_never_agree():
    values = np.concatenate([SecureGenerator().uint64(1000) for _ in range(20)])
    assert len(np.unique(values)) == len(values)
    assert not SecureGenerator().reproducible


def test_an_integer_determines_the_stream(draw):
    first = draw(SecureGenerator(12), 200)
    assert np.array_equal(first, draw(SecureGenerator(12), 200))
    assert np.array_equal(first, draw(SecureGenerator(np.int64(12)), 200))
    assert not np.array_equal(first, draw(SecureGenerator(13), 200))
    assert SecureGenerator(12).reproducible


@pytest.mark.parametrize("seed", [0, 1, 2**32, 10**40])
def test_the_key_of_an_integer_is_its_hash(seed):
    key = hashlib.sha256(b"dpfast.random.SecureGenerator/1:integer:%d" % seed).digest()
    expected = list(itertools.islice(twin.words(key), 130))
    assert SecureGenerator(seed).uint64(130).tolist() == expected


@pytest.mark.parametrize("source", [np.random.default_rng, np.random.RandomState])
def test_a_numpy_generator_gives_a_key_and_moves_on(source):
    state = source(5)
    first, second = SecureGenerator(state), SecureGenerator(state)
    assert first.reproducible
    values = first.uint64(100)
    assert np.array_equal(values, SecureGenerator(source(5)).uint64(100))
    assert not np.isin(values, second.uint64(100)).any()


@pytest.mark.parametrize("bad", [True, 1.0, "1", b"1", [1], np.float64(1), object()])
def test_other_random_states_are_refused(bad):
    with pytest.raises(TypeError, match=r"random_state must be None, an integer >= 0"):
        SecureGenerator(bad)


def test_negative_random_states_are_refused():
    with pytest.raises(ValueError, match="random_state must be an integer >= 0"):
        SecureGenerator(-1)


@pytest.mark.parametrize("name", sorted(DRAWS.keys() - {"l2_laplace"}))
def test_values_do_not_depend_on_how_they_are_asked_for(name):
    rng, pieces = SecureGenerator(4), SecureGenerator(4)
    sizes = [0, 1, 123, 124, 125, 400]
    parts = [DRAWS[name](pieces, n) for n in sizes]
    assert np.array_equal(DRAWS[name](rng, sum(sizes)), np.concatenate(parts))


def test_slices_of_long_draws_are_one_stream():
    n = 3 * 2**16 + 5
    parts = SecureGenerator(1)
    expected = np.concatenate([parts.uint64(1000) for _ in range(n // 1000 + 1)])[:n]
    assert np.array_equal(SecureGenerator(1).uint64(n), expected)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_generators_cannot_be_copied(duplicate):
    for source in (SecureGenerator(), SecureGenerator(1), _kernels.Stream()):
        with pytest.raises(TypeError, match="the copy would repeat the noise of the original"):
            duplicate(source)


def test_the_text_form_does_not_show_the_key():
    assert repr(SecureGenerator(3)) == "<SecureGenerator, reproducible>"
    assert repr(SecureGenerator()) == "<SecureGenerator, operating system>"


# ---- Forks --------------------------------------------------------------------------------------


def words_of(rng, n=1000):
    return lambda: rng.uint64(n).tobytes()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("used_before", [0, 7])
def test_parent_and_children_never_share_a_value(used_before):
    rng = SecureGenerator()
    rng.uint64(used_before)
    data = in_child(words_of(rng)) + in_child(words_of(rng)) + words_of(rng)()
    # A child of a child, too.
    data += in_child(lambda: words_of(rng)() + in_child(words_of(rng)))
    values = np.frombuffer(data, np.uint64)
    assert len(values) == 5000
    # 5,000 words collide by chance with probability 7e-13.
    assert len(np.unique(values)) == len(values)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_process_number_given_out_again_is_noticed(monkeypatch):
    rng = SecureGenerator()
    own = os.getpid()

    def pretend():
        os.getpid = lambda: own
        return rng.uint64(1000).tobytes()

    values = np.frombuffer(in_child(pretend) + words_of(rng)(), np.uint64)
    assert len(np.unique(values)) == 2000


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_draw_does_not_block_the_child():
    rng = SecureGenerator()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            rng.discrete_gaussian(2**32, 2**16)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            assert len(in_child(words_of(rng, 10))) == 80
    finally:
        stop.set()
        thread.join()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_reproducible_generator_continues_in_the_child():
    rng = SecureGenerator(3)
    rng.uint64(10)
    assert in_child(words_of(rng)) == words_of(rng)()


# ---- Threads and interrupts ---------------------------------------------------------------------


def test_threads_share_one_stream_without_loss_or_repetition():
    rng = SecureGenerator(9)
    barrier = threading.Barrier(4)
    results = []

    def work():
        barrier.wait()
        for _ in range(10):
            results.append(rng.uint64(60_000))

    in_threads(work, 4)
    values = np.sort(np.concatenate(results))
    assert np.array_equal(values, np.sort(SecureGenerator(9).uint64(4 * 10 * 60_000)))


def test_a_long_draw_can_be_interrupted(ctrl_c):
    rng = SecureGenerator()
    timer = threading.Timer(0.05, _thread.interrupt_main)
    # Seconds each if it cannot; the pages of the result are never touched if it can. However late
    # the timer is, there is a draw to be interrupted.
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        while True:
            rng.discrete_gaussian(2**32, 10**8)
    timer.join()
    assert len(rng.uint64(3)) == 3


# ---- Arguments ----------------------------------------------------------------------------------


def test_shapes_and_types():
    rng = SecureGenerator(0)
    for name, dtype in [("uint64", np.uint64), ("gaussian", np.float64)]:
        for n in (0, 1, 5, np.int32(5)):
            values = getattr(rng, name)(n)
            assert values.shape == (n,)
            assert values.dtype == dtype
    for name in ("discrete_gaussian", "discrete_laplace"):
        values = getattr(rng, name)(np.int64(3), 4)
        assert values.shape == (4,)
        assert values.dtype == np.int64
    assert rng.l2_laplace(3, 2).shape == (3,)
    assert type(rng.noisy_max([1, 2], 1, "laplace")) is int
    for dtype in (np.int8, np.uint16, np.int32, np.uint64):
        assert rng.noisy_max(np.array([0, 100], dtype), 1, "gumbel") == 1
    assert rng.noisy_max(np.arange(200)[::2], 1, "gumbel") > 50


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: r.uint64(-1), ValueError, "n must be an integer >= 0; got -1"),
        (lambda r: r.uint64(2.0), TypeError, "n must be an integer"),
        (lambda r: r.uint64(True), TypeError, "n must be an integer"),
        (lambda r: r.discrete_gaussian(0, 1), ValueError, "scale must be an integer in"),
        (lambda r: r.discrete_gaussian(2**32 + 1, 1), ValueError, "scale must be an integer in"),
        (lambda r: r.discrete_gaussian(10**30, 1), ValueError, "scale must be an integer in"),
        (lambda r: r.discrete_gaussian(1.5, 1), TypeError, "scale must be an integer in"),
        (lambda r: r.discrete_laplace(-3, 1), ValueError, "scale must be an integer in"),
        (lambda r: r.discrete_laplace(2**52 + 1, 1), ValueError, "scale must be an integer in"),
        (lambda r: r.l2_laplace(0, 1.0), ValueError, "d must be an integer in"),
        (lambda r: r.l2_laplace(2, 0.0), ValueError, "scale must be a real number > 0"),
        (lambda r: r.l2_laplace(2, float("inf")), ValueError, "scale must be a real number > 0"),
        (lambda r: r.l2_laplace(2, 1.7e308), FloatingPointError, "fill_l2_laplace"),
        (lambda r: r.noisy_max([], 1, "laplace"), ValueError, "scores must be one-dimensional"),
        (lambda r: r.noisy_max([[1]], 1, "laplace"), ValueError, "scores must be one-dimensional"),
        (lambda r: r.noisy_max([1.0], 1, "laplace"), TypeError, "scores must be integers"),
        (lambda r: r.noisy_max([True], 1, "laplace"), TypeError, "scores must be integers"),
        (lambda r: r.noisy_max([0, 2**61 + 1], 1, "laplace"), ValueError, "scores must be within"),
        (lambda r: r.noisy_max([0, -(2**63)], 1, "laplace"), ValueError, "scores must be within"),
        (
            lambda r: r.noisy_max(np.array([2**64 - 1], np.uint64), 1, "gumbel"),
            ValueError,
            "within",
        ),
        (lambda r: r.noisy_max([1], 0, "laplace"), ValueError, "scale must be an integer in"),
        (lambda r: r.noisy_max([1], 1, "cauchy"), ValueError, "noise must be one of 'laplace'"),
    ],
)
def test_bad_arguments_are_named_and_draw_nothing(call, error, message):
    rng = SecureGenerator(0)
    with pytest.raises(error, match=message):
        call(rng)
    if error is not FloatingPointError:
        assert rng.uint64(1) == SecureGenerator(0).uint64(1)


def test_kernel_streams_check_their_keys():
    with pytest.raises(ValueError, match="key must have 32 bytes; got 31"):
        _kernels.Stream(bytes(31))
    with pytest.raises(ValueError, match="outside its documented range"):
        _kernels.Stream.__new__(_kernels.Stream).fill_gaussian(np.empty(1))  # never keyed


def test_entropy_of_the_operating_system():
    assert _kernels.os_entropy(0) == b""
    assert len(_kernels.os_entropy(100_000)) == 100_000
    assert _kernels.os_entropy(32) != _kernels.os_entropy(32)
    with pytest.raises(ValueError, match="n must be >= 0"):
        _kernels.os_entropy(-1)
