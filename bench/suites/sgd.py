"""Private stochastic gradients: time of an epoch and of a single step, and accuracy on a table."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import Document, Record, Run, interleave, timing_records
from bench.problems import Dataset, bank, synthetic
from bench.report import Table, duration, mean_and_error, plain, scientific, speed
from bench.rivals import torch_on_one_thread
from bench.suites.datasets import evaluate

Vector = NDArray[np.float64]

NAME = "sgd"
TITLE = "Private stochastic gradients"
POISSON, FIXED, NUMPY, OPACUS = "dpfast, Poisson", "dpfast, fixed size", "NumPy", "opacus"
SOLVERS = ("dp-sgd", "dp-svrg")
COMPETITORS = {
    POISSON: "(epsilon, delta)-DP under add_or_remove_one; exact batches, noise as the table says",
    FIXED: "(epsilon, delta)-DP under replace_one; exact batches, noise as the table says",
    NUMPY: "the same steps in real arithmetic only: batches and noise from NumPy's generator",
    OPACUS: "(epsilon, delta)-DP under add_or_remove_one in real arithmetic, if it is installed",
}
_EPOCH, _STEP, _ROUNDS, _BANK = "epoch", "step along one record", "rrpsgd", "Bank"
_CLIP, _STDDEV, _SIZE = 0.5, 1.0, 0.5
# Accuracy in percent and log-loss of opacus's DP-SGD, its settings tuned on the test rows; measured
# elsewhere on the same encoding of Bank at delta = 1e-8.
_OPACUS_ON_BANK = {
    0.05: (88.4, 0.406), 0.1: (89.3, 0.398), 0.2: (89.3, 0.368), 0.4: (89.3, 0.347),
    0.8: (89.3, 0.344), 1.6: (89.3, 0.344),
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Rows and columns of an epoch and of single steps; whole runs; budgets and splits on Bank."""

    shape: tuple[int, int] = (1_000_000, 20)
    single: tuple[int, int] = (30_000, 34)
    single_steps: int = 200_000
    whole: tuple[int, int] = (30_000, 34)
    whole_runs: int = 2
    epsilons: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    seeds: int = 5
    delta: float = 1e-8


# The rows of a whole run are n² steps: twice as many take four times as long.
FULL = Sizes(whole=(15_000, 34), whole_runs=1)
QUICK = Sizes(shape=(100_000, 20), whole=(2_000, 34), seeds=3)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    with torch_on_one_thread():
        records = _epochs(settings, sizes)
    records += _single_steps(settings, sizes)
    records += _whole_runs(settings, sizes)
    if settings.data is None:
        settings.note("Bank left out: give its directory with --data.")
        return records
    try:
        data = bank(settings.data)
    except FileNotFoundError:
        settings.note("Bank left out: bank_dpagd.csv is not there.")
        return records
    for solver in SOLVERS:
        for epsilon in sizes.epsilons:
            settings.say(f"  {solver} on Bank, epsilon {epsilon:g}")
            records.append(_score(data, solver, epsilon, sizes))
    return records


# ---- time ---------------------------------------------------------------------------------------


def _epochs(settings: Run, sizes: Sizes) -> list[Record]:
    n, d = sizes.shape
    batch = max(1, round(math.sqrt(n)))
    settings.say(f"  epochs, {n:,} x {d}, batches of {batch:,}")
    data = synthetic(n, d)
    contestants: dict[str, Callable[[], object]] = {
        POISSON: _native(data, "poisson", batch, max(1, n // batch)),
        FIXED: _native(data, "fixed-size", batch, max(1, n // batch)),
        NUMPY: lambda: numpy_epoch(data, batch, np.random.default_rng(0)),
    }
    try:
        contestants[OPACUS] = opacus_epoch(data, batch)
    except ImportError:
        settings.note("opacus left out: opacus is not installed.")
    timings = interleave(contestants, repeat=settings.repeat)
    case = {"n": n, "d": d, "batch": batch}
    return timing_records(_EPOCH, case, timings, [NUMPY, OPACUS])


def _native(
    data: Dataset, sampling: str, batch: int, n_steps: int, noise: str = "discrete"
) -> Callable[[], object]:
    from dpfast import Loss, _kernels
    from dpfast.queries.batches import poisson_capacity

    n, d = data.X.shape
    rows = _kernels.DenseRows(data.X, data.y, 1.0)
    norms = np.sqrt(1.0 + np.einsum("ij,ij->i", data.X, data.X))
    rows.set_inverse_norm((0.999999 / norms).astype(np.float32))
    stream, spec = _kernels.Stream(), Loss("logistic").spec

    def epoch() -> Vector:
        w = np.zeros(d + 1)
        _kernels.private_epoch(
            rows,
            spec,
            w,
            _SIZE,
            sampling=sampling,
            noise=noise,
            stream=stream,
            n_steps=n_steps,
            batch=batch,
            capacity=poisson_capacity(batch, n),
            stddev=_STDDEV,
            scale=2**31,
            grid=_STDDEV / (2.0**31 if noise == "discrete" else 2.0**24),
            clip_norm=_CLIP,
        )
        return w

    return epoch


def numpy_epoch(data: Dataset, batch: int, rng: np.random.Generator) -> Vector:
    """One epoch of Poisson batches: clipping by a factor on the slope, no gradient of a row."""
    n, d = data.X.shape
    w, intercept = np.zeros(d), 0.0
    for _ in range(max(1, n // batch)):
        index = rng.choice(n, rng.binomial(n, batch / n), replace=False, shuffle=False)
        X, y = data.X[index], data.y[index]
        slope = -y / (1.0 + np.exp(y * (X @ w + intercept)))
        limit = _CLIP / np.sqrt(1.0 + np.einsum("ij,ij->i", X, X))
        np.clip(slope, -limit, limit, out=slope)
        noise = rng.normal(0.0, _STDDEV, d + 1)
        w -= _SIZE / batch * (slope @ X + noise[:d])
        intercept -= _SIZE / batch * (slope.sum() + noise[d])
    return np.append(w, intercept)


def opacus_epoch(data: Dataset, batch: int) -> Callable[[], object]:
    """One epoch of opacus as its tutorials run it: Poisson batches, per-sample gradients.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    import torch
    from opacus import PrivacyEngine

    d = data.X.shape[1]
    rows = torch.utils.data.TensorDataset(torch.tensor(data.X).float(), torch.tensor(data.y))

    @_without_warnings
    def epoch() -> object:
        model = torch.nn.Linear(d, 1)
        loader = torch.utils.data.DataLoader(rows, batch_size=batch)
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=_SIZE),
            data_loader=loader,
            noise_multiplier=_STDDEV / _CLIP,
            max_grad_norm=_CLIP,
        )
        for X, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.softplus(-y * model(X).squeeze(1)).mean().backward()
            optimizer.step()
        return model

    return epoch


def _without_warnings(call: Callable[[], object]) -> Callable[[], object]:
    """Of opacus: that its noise is not from a secure generator, and of its hooks."""

    def quiet() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()

    return quiet


def _whole_runs(settings: Run, sizes: Sizes) -> list[Record]:
    """Random-round SGD with all its n² steps paid for, on the sigmoid loss, which is not convex."""
    from dpfast import Budget, Problem, plan, solve

    n, d = sizes.whole
    data = synthetic(n, d)
    problem = Problem(data.X, data.y, "sigmoid", data_norm=data.data_norm)
    budget = Budget(1.0, 1e-6)
    bound = plan(problem, "rrpsgd", budget).expected["gradient_norm_bound"]
    records = []
    for seed in range(sizes.whole_runs):
        settings.say(f"  random rounds, {n:,} x {d}, run {seed + 1}")
        start = time.process_time()
        result = solve(problem, "rrpsgd", budget, random_state=seed)
        seconds = time.process_time() - start
        gradient = problem.value_and_gradient(result.w)[1]
        values = {
            "rounds": float(result.history["rounds"][0]),
            "cpu_seconds": seconds,
            "squared_gradient": float(gradient @ gradient),
            "bound": float(bound),
        }
        records.append(Record(_ROUNDS, {"n": n, "d": d, "seed": seed}, "rrpsgd", values))
    return records


def _single_steps(settings: Run, sizes: Sizes) -> list[Record]:
    n, d = sizes.single
    settings.say(f"  single steps, {n:,} x {d}")
    data = synthetic(n, d)
    names = {"gaussian": "floating-point noise", "discrete": "exact noise"}
    timings = interleave(
        {
            names[noise]: _native(data, "fixed-size", 1, sizes.single_steps, noise)
            for noise in names
        },
        repeat=settings.repeat,
    )
    case = {"n": n, "d": d, "steps": sizes.single_steps}
    return timing_records(_STEP, case, timings, [names["discrete"]])


# ---- accuracy -----------------------------------------------------------------------------------


def _score(data: Dataset, solver: str, epsilon: float, sizes: Sizes) -> Record:
    from dpfast import Budget, Problem, solve

    scores = []
    for seed in range(sizes.seeds):
        train, test = data.split(seed)
        problem = Problem(train.X, train.y, "logistic", data_norm=data.data_norm)
        result = solve(
            problem,
            solver,
            Budget(epsilon, sizes.delta),
            neighboring_relation="add_or_remove_one",
            random_state=seed,
        )
        scores.append(evaluate(result.w, test))
    values: dict[str, float] = {"seeds": sizes.seeds}
    for name, sample in zip(("accuracy", "log_loss"), zip(*scores, strict=True), strict=True):
        spread = statistics.stdev(sample) if sizes.seeds > 1 else 0.0
        values[name] = statistics.fmean(sample)
        values[f"{name}_standard_error"] = spread / math.sqrt(sizes.seeds)
    case: dict[str, int | float | str] = {"n": len(data.y), "d": data.X.shape[1]}
    return Record(_BANK, case | {"epsilon": epsilon, "delta": sizes.delta}, solver, values)


# ---- reports ------------------------------------------------------------------------------------


def tables(document: Document) -> list[Table]:
    epochs, steps, rounds, scores = (
        [r for r in document.records if r.group == group]
        for group in (_EPOCH, _STEP, _ROUNDS, _BANK)
    )
    found = [
        Table(
            "Time of an epoch",
            "One pass of clipped, noisy mini-batch steps, from weights to weights; rows and norms "
            "are in place. dpfast draws its batches from the secure stream and adds exact noise.",
            ("rows", "columns", "batch", "competitor", "time", "speed relative to NumPy"),
            [
                (
                    *(plain(r.case[key]) for key in ("n", "d", "batch")),
                    r.competitor,
                    duration(r.values["seconds"]),
                    speed(r, NUMPY),
                )
                for r in epochs
            ],
        ),
        Table(
            "Time of steps along one record",
            "What random-round SGD takes up to n² times, and how long that would be.",
            ("rows", "columns", "noise", "time of a step", "time of n² steps"),
            [
                (
                    plain(r.case["n"]),
                    plain(r.case["d"]),
                    r.competitor,
                    duration(r.values["seconds"] / float(r.case["steps"])),
                    duration(
                        r.values["seconds"] / float(r.case["steps"]) * float(r.case["n"]) ** 2
                    ),
                )
                for r in steps
            ],
        ),
        Table(
            "Whole runs of random-round SGD",
            "Sigmoid loss, epsilon = 1, delta = 1e-6, all n² steps paid for, a random number of "
            "them taken. Theorem 5 bounds the mean of the squared gradient norm.",
            ("rows", "columns", "steps taken", "processor time", "squared gradient", "bound"),
            [
                (
                    plain(r.case["n"]),
                    plain(r.case["d"]),
                    plain(r.values["rounds"]),
                    duration(r.values["cpu_seconds"]),
                    scientific(r.values["squared_gradient"]),
                    scientific(r.values["bound"]),
                )
                for r in rounds
            ],
        ),
    ]
    if scores:
        found.append(
            Table(
                "Bank",
                f"80 % train, 20 % test, {plain(scores[0].values['seeds'])} random splits; mean ± "
                f"standard error; delta = {document.sizes['delta']:g}, add_or_remove_one, default "
                "options. The last column is opacus's DP-SGD, tuned on the test rows, measured "
                "elsewhere with other splits and bounds.",
                ("solver", "epsilon", "accuracy", "log-loss", "opacus, accuracy / log-loss"),
                [
                    (
                        r.competitor,
                        plain(r.case["epsilon"]),
                        mean_and_error(
                            100 * r.values["accuracy"], 100 * r.values["accuracy_standard_error"], 2
                        )
                        + " %",
                        mean_and_error(
                            r.values["log_loss"], r.values["log_loss_standard_error"], 4
                        ),
                        _reference(float(r.case["epsilon"])),
                    )
                    for r in scores
                ],
            )
        )
    return found


def _reference(epsilon: float) -> str:
    known = _OPACUS_ON_BANK.get(epsilon)
    return "-" if known is None else f"{known[0]:.1f} % / {known[1]:.3f}"


def draw(document: Document, figure: Any) -> None:
    """Time of an epoch; log-loss on Bank over epsilon, if it was there."""
    epochs = [r for r in document.records if r.group == _EPOCH]
    scores = [r for r in document.records if r.group == _BANK]
    figure.set_size_inches(9 if scores else 5, 3.5)
    axes = figure.subplots(1, 2 if scores else 1, squeeze=False)[0]
    bars = axes[0].barh([r.competitor for r in epochs], [r.values["seconds"] for r in epochs])
    axes[0].bar_label(bars, [duration(r.values["seconds"]) for r in epochs], padding=2, fontsize=8)
    times = [r.values["seconds"] for r in epochs]
    axes[0].set_xscale("log")
    axes[0].set_xlim(0.3 * min(times), 5.0 * max(times))
    axes[0].set_xlabel("seconds an epoch")
    if not scores:
        return
    for solver in dict.fromkeys(r.competitor for r in scores):
        mine = [r for r in scores if r.competitor == solver]
        axes[1].errorbar(
            [float(r.case["epsilon"]) for r in mine],
            [r.values["log_loss"] for r in mine],
            [r.values["log_loss_standard_error"] for r in mine],
            marker="o",
            capsize=3,
            label=solver,
        )
    known = [e for e in document.sizes["epsilons"] if e in _OPACUS_ON_BANK]
    losses = [_OPACUS_ON_BANK[e][1] for e in known]
    axes[1].plot(known, losses, "--", color="0.5", label="opacus, tuned")
    axes[1].set_xscale("log")
    axes[1].set_xlabel("epsilon")
    axes[1].set_ylabel("test log-loss on Bank")
    axes[1].legend(frameon=False, fontsize=8)
