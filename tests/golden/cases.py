"""Fits whose whole public outcome two checkouts must agree on, generated from the solver table.

Only the public API is used, so that the same cases run before and after a change of internals.
Every case has a name, such as ``solve/dp-gd/replace_one/zcdp/logistic/csr``, and a function that
takes a directory for files and returns something of which :func:`plain` makes JSON types, every
number to the last bit.  A refusal is an outcome, too: its type and its message.

``python -m golden.cases FILE`` runs all cases, with the dpfast that is imported, and writes one
line of JSON for each; :mod:`golden.compare` starts it twice.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import dpfast
from dpfast import Budget, Loss, Problem, ProblemShape
from dpfast.losses import loss_names
from dpfast.model_selection import PrivateSearchCV
from dpfast.objectives import General, PythonErm, PythonLoss, Saddle
from dpfast.preprocessing import PrivateQuantileScaler, PrivateStandardScaler
from dpfast.privacy import ACCOUNTANTS, PrivacyReport
from dpfast.solvers import SOLVERS

SEED = 7
RELATIONS = ("replace_one", "add_or_remove_one")
SOLVER_NAMES = ("auto", *SOLVERS)
BUDGETS = {
    "pure": Budget(2.0),
    # A delta this large has output and objective perturbation take Gaussian noise, too.
    "approximate": Budget(1.0, 1e-2),
    "zcdp": Budget(rho=0.2),
    "gdp": Budget(mu=0.7),
}
#: Other sizes of budget, where noise hides the data, or is hidden by them.
EXTREMES = {"small": Budget(0.05, 1e-9), "large": Budget(50.0, 1e-3)}
LOSSES = {
    **{name: Loss(name) for name in loss_names()},
    "squared-hinge-2": Loss("squared-hinge", 2.0),
    "huberized-hinge-1": Loss("huberized-hinge", width=1.0),
    "huber-0.5": Loss("huber", 0.5),
    "pinball-0.9": Loss("pinball", 0.9, 0.3),
}

Thunk = Callable[[Path], Any]


class Case(NamedTuple):
    """A fit by name; there is none where `served` says that the solver has no such plan."""

    name: str
    run: Thunk
    served: Callable[[], bool] = lambda: True


# ---- data ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Data:
    """Rows of a problem, targets of both kinds, and weights."""

    X: np.ndarray
    label: np.ndarray
    target: np.ndarray
    weight: np.ndarray

    def y(self, loss: Loss) -> np.ndarray:
        return self.label if loss.kind == "classification" else self.target


@cache
def data(n: int = 240, d: int = 4) -> Data:
    """Rows of which some are zero, some repeated, some longer than every declared bound."""
    rng = np.random.default_rng(n * 1000 + d)
    X = rng.standard_normal((n, d))
    X[rng.random((n, d)) < 0.3] = 0.0
    if n > 4:
        X[0] = 0.0
        X[1] = X[2]
    X[-1] *= 1e3
    margin = X @ np.cos(np.arange(d)) / np.sqrt(d)
    noise = rng.logistic(size=n)
    label = np.where(2.0 * margin + noise > 0.0, 1.0, -1.0)
    target = np.clip(margin, -3.0, 3.0) + 0.1 * noise
    weight = 1.2 * rng.random(n)
    weight[n // 2 : n // 2 + 1] = 0.0
    return Data(X, label, target, weight)


def problem(loss: Loss, storage: str = "dense") -> Any:
    """A fresh problem over :func:`data`: problems remember margins and norms."""
    return STORAGES[storage](loss)


def in_memory(
    loss: Loss,
    convert: Callable[[np.ndarray], Any] = np.asarray,
    size: tuple[int, int] = (240, 4),
    weights: bool = False,
    **settings: Any,
) -> Problem:
    rows = data(*size)
    if weights:
        settings.update(sample_weight=rows.weight, max_weight=0.9)
    return Problem(convert(rows.X), rows.y(loss), loss, data_norm=2.0, **settings)


def in_blocks(
    loss: Loss,
    convert: Callable[[np.ndarray], Any] = np.asarray,
    weights: bool = False,
    **settings: Any,
) -> Any:
    from dpfast.blocks import BlockProblem, from_npy

    rows = data()
    weight = rows.weight if weights else None
    source = from_npy(convert(rows.X), rows.y(loss), weight, block_rows=70)
    if weights:
        settings.update(max_weight=0.9)
    return BlockProblem(source, loss, data_norm=2.0, **settings)


def in_dask(loss: Loss, weights: bool = False) -> Any:
    import dask
    import dask.array as da

    from dpfast.blocks import BlockProblem, from_dask

    dask.config.set(scheduler="synchronous")
    rows = data()
    X, y, weight = (
        da.from_array(array, chunks=(70, *array.shape[1:]))
        for array in (rows.X, rows.y(loss), rows.weight)
    )
    source = from_dask(X, y, weight if weights else None)
    return BlockProblem(source, loss, data_norm=2.0, max_weight=0.9 if weights else None)


def float32(X: np.ndarray) -> np.ndarray:
    return X.astype(np.float32)


def csr32(X: np.ndarray) -> Any:
    return scipy.sparse.csr_array(X.astype(np.float32))


csr = scipy.sparse.csr_array
STORAGES: dict[str, Callable[[Loss], Any]] = {
    "dense": in_memory,
    "float32": partial(in_memory, convert=float32),
    "fortran": partial(in_memory, convert=np.asfortranarray),
    "csr": partial(in_memory, convert=csr),
    "csr32": partial(in_memory, convert=csr32),
    "weights": partial(in_memory, weights=True),
    "csr-weights": partial(in_memory, convert=csr, weights=True),
    "no-intercept": partial(in_memory, intercept=0.0),
    "csr-no-intercept": partial(in_memory, convert=csr, intercept=0.0),
    "intercept-0.3": partial(in_memory, intercept=0.3),
    "ridge": partial(in_memory, alpha=0.05),
    "one-column": partial(in_memory, size=(100, 1)),
    "wide": partial(in_memory, size=(30, 40)),
    "one-row": partial(in_memory, size=(1, 2)),
    "blocks": in_blocks,
    "blocks-float32": partial(in_blocks, convert=float32),
    "blocks-csr": partial(in_blocks, convert=csr),
    "blocks-weights": partial(in_blocks, weights=True),
    "blocks-no-intercept": partial(in_blocks, intercept=0.0),
    "blocks-threads": partial(in_blocks, n_jobs=2),
    # Large enough for several chunks, and for two threads to share them.
    "threads": partial(in_memory, size=(36_000, 32), n_jobs=2),
    "csr-threads": partial(in_memory, convert=csr, size=(36_000, 32), n_jobs=2),
    "dask": in_dask,
    "dask-weights": partial(in_dask, weights=True),
}
#: Run for a few solvers only: they take long.
LARGE, DASK = ("threads", "csr-threads"), ("dask", "dask-weights")
SMALL = [name for name in STORAGES if name not in (*LARGE, *DASK)]
#: At this size the defaults of these solvers take minutes.
AT_SCALE: Mapping[str, dict[str, Any]] = {
    "rrpsgd": {"steps": 2000},
    "privgene": {"generations": 2},
    "exponential": {"alpha": 10.0},
    "localized-exponential": {"alpha": 10.0},
}
#: Every look at blocks costs a little; here there are 750 of them.
IN_BLOCKS: Mapping[str, dict[str, Any]] = {"privgene": {"generations": 2}}


# ---- options ------------------------------------------------------------------------------------

#: Each is tried on every solver; those that refuse it have no such case.
OPTIONS: tuple[dict[str, Any], ...] = (
    {"alpha": 0.03},
    {"alpha": "auto"},
    {"alpha": "lowy2021"},
    {"alpha": "lowy2021", "risk": "population"},
    {"alpha": "zhang2017", "mode": "iterate"},
    {"alpha": "zhang2017", "risk": "population"},
    {"alpha": 0.05, "minimizer_norm": 2.0},
    {"alpha": 0.1, "noise": "gaussian"},
    {"alpha": 0.1, "noise": "l2-laplace"},
    {"alpha": 0.1, "noise": "laplace"},
    {"noise": "exponential"},
    {"noise": "discrete"},
    {"noise": "gaussian"},
    # Optimizers, whose points are certified.
    *(
        {"alpha": 0.2, "optimizer": name}
        for name in ("newton", "lbfgs", "gd", "agd", "sgd", "svrg", "katyusha")
    ),
    *(
        {"alpha": 0.5, "optimizer": name, "tolerance": 0.3}
        for name in ("subgradient", "sgd", "smoothing")
    ),
    {"alpha": 0.2, "optimizer": "gd", "optimizer_options": {"max_passes": 5000}},
    {"alpha": 0.1, "tolerance": 1e-3},
    {"alpha": 0.1, "tolerance": "machine"},
    {"alpha": 0.1, "w_radius": 0.5},
    {"calibration": "zhao"},
    {"calibration": "classical"},
    {"calibration": "paper"},
    {"calibration": "paper", "noise": "laplace"},
    {"calibration": "advanced", "steps": 20},
    # Iterates.
    {"mode": "iterate"},
    {"mode": "iterate", "alpha": 0.1, "iterations": 12, "step": 0.3},
    {"mode": "iterate", "alpha": 0.1, "iterations": 5, "w0": [0.1, -0.2, 0.0, 0.3, 0.05]},
    {"mode": "iterate", "alpha": 0.1, "calibration": "paper"},
    # Objectives.
    {"objective": "tilted", "objective_options": {"tilt": 0.5}},
    {"objective": "tilted", "objective_options": {"tilt": -0.5}, "alpha": 0.2},
    {"objective": "adversarial", "objective_options": {"radius": 0.1}},
    {
        "objective": "adversarial",
        "objective_options": {"radius": 0.05, "norm": "linf", "smoothing": 0.1},
        "alpha": 0.2,
    },
    # Descent.
    {"iterations": 6},
    {"iterations": 6, "step": 0.5, "average": 0.5},
    {"iterations": 6, "momentum": 0.3},
    {"iterations": 6, "split": "optimal"},
    {"iterations": 6, "split": "uniform"},
    {"iterations": 6, "clip_norm": 0.4},
    {"iterations": 6, "noise": "laplace"},
    {"iterations": 6, "noise": "laplace", "data_l1_norm": 2.5},
    {"iterations": 6, "batch": 60},
    {"iterations": 3, "batch": 150},
    {"iterations": 6, "batch": 60, "noise": "laplace"},
    {"iterations": 6, "w0": [0.1, -0.2, 0.0, 0.3, 0.05], "w_radius": 0.6},
    {"iterations": 6, "initial_error": 0.3, "minimizer_norm": 1.5},
    {"iterations": 6, "analysis": "last-iterate", "alpha": 0.1},
    {"iterations": 6, "analysis": "last-iterate", "step": 1.0},
    {"iterations": 6, "analysis": "last-iterate", "alpha": 0.1, "w_radius": 0.5},
    {"iterations": 6, "p": 2, "first_stage": 3},
    # Whitened descent.
    {"iterations": 4, "clip": 0.8, "rounds": 2},
    {"learning_clip": 1.5, "learning_share": 0.4, "correlation_share": 0.2},
    {"correlation_share": 0.0, "average": 0.0, "momentum": 0.0},
    {"correlation_share": 0.2, "rounds": 3, "james_stein": True},
    {"step": 0.7, "intercept_step": 0.4, "shrinkage": 0.05, "james_stein": False},
    # Noisy sums.
    {"alpha": 0.05, "target_bound": 2.0, "floor": 1.0},
    # Adaptive descent.
    {"splits": 8, "gamma": 0.3},
    {"splits": 5, "clip_norm": 0.5, "loss_clip": 1.0, "candidates": 7},
    {"max_step": 2.0, "step_ratio": 0.8, "selection_share": 0.5, "momentum": 0.0},
    {"max_iterations": 3},
    {"batch": 50, "splits": 12},
    {"batch": 240, "splits": 6},
    {"batch": 97, "splits": 12, "alpha": 0.05, "momentum": 0.4},
    # Stochastic descent.
    {"batch": 30, "epochs": 2, "noise": "discrete"},
    {"batch": 30, "epochs": 2, "noise": "gaussian"},
    {"batch": "full", "steps": 6},
    {"batch": 20, "steps": 15, "schedule": "1/t", "average": "uniform", "step": 0.5},
    {"batch": 20, "steps": 15, "schedule": "1/sqrt(t)", "average": "none", "momentum": 0.5},
    {"batch": 20, "steps": 15, "clip_norm": 0.3, "w_radius": 0.4, "minimizer_norm": 1.0},
    {"batch": 20, "steps": 15, "schedule": "1/t", "alpha": 0.1},
    {"sampling": "poisson", "steps": 10, "batch": 12},
    {"sampling": "fixed-size", "steps": 10, "batch": 12},
    {"sampling": "poisson", "epochs": 2, "batch": 40, "steps_per_epoch": 3},
    {"sampling": "fixed-size", "epochs": 2, "batch": 40, "steps_per_epoch": 3},
    {"epochs": 3, "snapshot_share": 0.3, "clip_norm": 0.5, "difference_clip_norm": 0.2},
    {"epochs": 2, "batch": "full", "step": 0.2, "minimizer_norm": 1.0, "alpha": 0.02},
    {"steps": 500, "schedule": "1/t", "noise": "gaussian"},
    {"steps": 500, "schedule": "1/sqrt(t)", "step": 0.05, "initial_gap": 0.5},
    {"steps": 300, "noise": "discrete"},
    # Choices.
    {"alpha": 0.5, "max_trials": 1e5},
    {"alpha": 0.5, "share": 0.3},
    {"alpha": "auto", "minimizer_norm": 1.0},
    {"generations": 3, "population": 12, "parents": 3},
    {"generations": 2, "loss_clip": 0.8, "radius": 1.5, "alpha": 0.1},
)


def tag(options: Mapping[str, Any]) -> str:
    """Options as part of a case's name."""
    return ",".join(f"{name}={value}" for name, value in options.items()).replace(" ", "") or "-"


# ---- outcomes as plain types --------------------------------------------------------------------


def plain(value: Any) -> Any:
    """`value` as JSON types, with every bit of its numbers, and the types of arrays."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        kind = f"{value.dtype}{list(value.shape)}"
        return {"array": kind, "values": [plain(x) for x in value.ravel().tolist()]}
    if isinstance(value, np.generic):
        return {"array": str(value.dtype), "values": [plain(value.item())]}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, PrivacyReport):
        return {"ledger": json.loads(value.to_json()), "text": str(value)}
    if isinstance(value, dpfast.Plan):
        return plan_record(value)
    if isinstance(value, dpfast.Result):
        return {
            "w": plain(value.w),
            "history": plain(value.history),
            "privacy": plain(value.privacy),
            "plan": plain(value.plan),
        }
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value)


def plan_record(settled: dpfast.Plan) -> dict[str, Any]:
    """A plan without its settings, whose types are the solver's own affair."""
    return {
        "text": str(settled).splitlines(),
        "solver": settled.solver,
        "alpha": getattr(settled.shape, "alpha", None),
        "budget": repr(settled.budget),
        "neighboring_relation": settled.neighboring_relation,
        "adaptive": settled.adaptive,
        "events": [event.to_dict() for event in settled.events],
        "expected": plain(settled.expected),
    }


def _forget() -> None:
    """No report is to note the fits of other cases, which depend on the choice of cases."""
    with contextlib.suppress(ImportError):
        from dpfast.privacy.repeats import FITS

        FITS.forget()


def record(run: Thunk) -> dict[str, Any]:
    """What a case gives: its outcome, or how it was refused, and its warnings."""
    _forget()
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out["outcome"] = plain(run(Path(folder)))
        except Exception as error:  # A refusal is an outcome like others.
            message = str(error).replace(folder, "FOLDER")
            out["refused"] = [type(error).__name__, message]
    said = {f"{warning.category.__name__}: {warning.message}" for warning in caught}
    if said:
        out["warnings"] = sorted(said)
    return out


# ---- cases --------------------------------------------------------------------------------------


@cache
def planned(solver: str, budget: Budget, relation: str, loss: Loss) -> bool:
    """Whether there is a plan without options."""
    return accepts(solver, budget, relation, loss, {})


def accepts(
    solver: str, budget: Budget, relation: str, loss: Loss, options: Mapping[str, Any]
) -> bool:
    """Whether there is a plan with these options."""
    shape = ProblemShape(240, 4, 2.0, loss)
    try:
        dpfast.plan(shape, solver, budget, neighboring_relation=relation, **options)
    except Exception:
        return False
    return True


@cache
def usual_loss(solver: str) -> str:
    """The first loss in the table that the solver takes."""
    return next(
        name
        for (name, loss), budget in product(LOSSES.items(), BUDGETS.values())
        if planned(solver, budget, "replace_one", loss)
    )


def solved(
    solver: str,
    budget: Budget,
    relation: str,
    loss: str,
    storage: str,
    folder: Path,
    **options: Any,
) -> Any:
    return dpfast.solve(
        problem(LOSSES[loss], storage),
        solver,
        budget,
        neighboring_relation=relation,
        random_state=SEED,
        **options,
    )


def plans() -> Iterator[Case]:
    """Every solver, relation, kind of budget and loss, from shapes alone."""
    for solver, relation, kind, loss in product(SOLVER_NAMES, RELATIONS, BUDGETS, LOSSES):
        for n, d, alpha in ((50_000, 30, None), (900, 3, 0.01)):
            shape = ProblemShape(n, d, 1.0, LOSSES[loss], alpha=alpha)

            def run(folder: Path, solver=solver, shape=shape, kind=kind, relation=relation) -> Any:
                return dpfast.plan(shape, solver, BUDGETS[kind], neighboring_relation=relation)

            yield Case(f"plan/{solver}/{relation}/{kind}/{loss}/{n}x{d}", run)


def losses() -> Iterator[Case]:
    """Every solver, relation, kind of budget and loss."""
    for solver, relation, kind, loss in product(SOLVER_NAMES, RELATIONS, BUDGETS, LOSSES):
        name = f"solve/{solver}/{relation}/{kind}/{loss}/dense"
        yield Case(name, partial(solved, solver, BUDGETS[kind], relation, loss, "dense"))


def storages() -> Iterator[Case]:
    """Every solver, relation, kind of budget that it serves, and storage."""
    for solver, relation, kind in product(SOLVER_NAMES, RELATIONS, BUDGETS):
        loss = usual_loss(solver)
        served = partial(planned, solver, BUDGETS[kind], relation, LOSSES[loss])
        for storage in SMALL[1:]:
            name = f"solve/{solver}/{relation}/{kind}/{loss}/{storage}"
            settings = IN_BLOCKS.get(solver, {}) if storage.startswith("blocks") else {}
            run = partial(solved, solver, BUDGETS[kind], relation, loss, storage, **settings)
            yield Case(name, run, served)
    for solver, (size, budget) in product(SOLVER_NAMES, EXTREMES.items()):
        loss = usual_loss(solver)
        name = f"solve/{solver}/replace_one/{size}/{loss}/dense"
        yield Case(name, partial(solved, solver, budget, "replace_one", loss, "dense"))


def threads() -> Iterator[Case]:
    """Rows enough for several chunks and two threads, one budget for each solver."""
    for solver, storage in product(SOLVER_NAMES, LARGE):
        loss, options = usual_loss(solver), AT_SCALE.get(solver, {})
        name = f"solve/{solver}/replace_one/approximate/{loss}/{storage}"
        run = partial(solved, solver, BUDGETS["approximate"], "replace_one", loss, storage)
        yield Case(name, partial(run, **options))


def dasked() -> Iterator[Case]:
    """Rows in dask collections."""
    for solver, storage in product(("auto", "output-perturbation", "dp-agd"), DASK):
        name = f"solve/{solver}/add_or_remove_one/approximate/logistic/{storage}"
        budget = BUDGETS["approximate"]
        run = partial(solved, solver, budget, "add_or_remove_one", "logistic", storage)
        yield Case(name, run)


def options() -> Iterator[Case]:
    """Every solver with the options that it takes: its usual loss in several storages, and the
    losses that it takes with these options only."""
    for solver, relation, kind in product(SOLVER_NAMES, RELATIONS, ("pure", "approximate")):
        budget, usual = BUDGETS[kind], usual_loss(solver)
        for settings, (name, loss) in product(OPTIONS, LOSSES.items()):

            def served(solver=solver, relation=relation, budget=budget, loss=loss,
                       alone=name == usual, settings=settings) -> bool:  # fmt: skip
                if not alone and planned(solver, budget, relation, loss):
                    return False
                return accepts(solver, budget, relation, loss, settings)

            for storage in ("dense", "csr-weights", "blocks") if name == usual else ("dense",):
                few = IN_BLOCKS.get(solver, {}) if storage == "blocks" else {}
                yield Case(
                    f"options/{solver}/{relation}/{kind}/{name}/{storage}/{tag(settings)}",
                    partial(solved, solver, budget, relation, name, storage, **{**few, **settings}),
                    served,
                )


def accountants() -> Iterator[Case]:
    """Every solver with every accountant by name."""
    names = (*ACCOUNTANTS, "last-iterate")
    for solver, relation, kind, name in product(SOLVER_NAMES, RELATIONS, BUDGETS, names):
        loss = usual_loss(solver)
        run = partial(solved, solver, BUDGETS[kind], relation, loss, "dense", accountant=name)
        served = partial(
            accepts, solver, BUDGETS[kind], relation, LOSSES[loss], {"accountant": name}
        )
        yield Case(f"accountant/{solver}/{relation}/{kind}/{name}", run, served)


# ---- objectives, estimators, scalers, searches, accounts, checkpoints ---------------------------


class Bowl:
    """A user's function: ``sqrt(1 + |w - 1.5|^2) + |w|^2 / 4``."""

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        away = w - 1.5
        root = float(np.sqrt(1.0 + away @ away))
        return root + 0.25 * float(w @ w), away / root + 0.5 * w


def log_cosh(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = z - y
    return np.logaddexp(r, -r) - np.log(2.0), np.tanh(r), 1.0 - np.tanh(r) ** 2


class Game:
    """A user's saddle function: least squares to the mean row, which may be moved a little."""

    dim, dim_adversary, strong_convexity, strong_concavity, smoothness = 4, 4, 0.5, 0.0, 2.0

    def __init__(self, rows: np.ndarray) -> None:
        self.mean = np.clip(rows, -1.0, 1.0).mean(axis=0)

    def value_and_gradients(
        self, w: np.ndarray, v: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        pull = self.mean + v
        return 0.25 * float(w @ w) - float(pull @ w), 0.5 * w - pull, -w

    def project(self, v: np.ndarray) -> np.ndarray:
        return v * min(1.0, 0.1 / max(float(np.linalg.norm(v)), 1e-300))

    def support(self, direction: np.ndarray) -> float:
        return 0.1 * float(np.linalg.norm(direction))


def objective(kind: str) -> Any:
    """A user's own objective, or one with a loss in Python."""
    constants: dict[str, Any] = {"lipschitz": 1.0, "strong_convexity": 0.5, "smoothness": 1.5}
    if kind == "general":
        return General(Bowl(), 3, **constants, minimizer_norm=2.0, largest_value=10.0)
    if kind == "edge":  # The minimizer is beyond the domain.
        near = {"replace_one": 0.4, "add_or_remove_one": 0.2}
        return General(
            Bowl(),
            3,
            **constants,
            minimizer_norm=0.5,
            largest_value=10.0,
            gradient_sensitivity=near,
        )
    if kind == "saddle":
        return Saddle(
            Game(data().X), lipschitz=2.1, n_samples=240, sensitivity=0.04, gap_error=1e-12
        )
    loss = PythonLoss(log_cosh, lipschitz=1.0, smoothness=1.0)
    return PythonErm(in_memory(Loss("squared"), weights=kind == "weighted"), 0.1, loss)


def walk(objective: Any, *, tolerance: float, max_passes: int, w0: np.ndarray) -> np.ndarray:
    """A user's optimizer: plain descent."""
    w = np.array(w0)
    for _ in range(300):
        gradient = objective.value_and_gradient(w)[1]
        if np.linalg.norm(gradient) <= 0.5 * tolerance:
            break
        w -= gradient / objective.smoothness
    return w


NAMED: Mapping[str, dict[str, Any]] = {
    "tilted": {"tilt": 0.4},
    "adversarial": {"radius": 0.1, "norm": "l2"},
    "adversarial linf": {"radius": 0.05, "norm": "linf", "smoothing": 0.1},
}


def objectives() -> Iterator[Case]:
    """Objectives in the place of problems, and those by name; a user's optimizer."""
    kinds = ("general", "edge", "saddle", "python", "weighted")
    for solver, relation, kind, what in product(SOLVER_NAMES, RELATIONS, BUDGETS, kinds):
        # What else there is refuses all of them alike.
        if solver not in ("auto", "dp-gd", "output-perturbation") and "exponential" not in solver:
            continue

        def run(folder: Path, solver=solver, relation=relation, kind=kind, what=what) -> Any:
            return dpfast.solve(
                objective(what),
                solver,
                BUDGETS[kind],
                neighboring_relation=relation,
                random_state=SEED,
            )

        yield Case(f"objective/{solver}/{relation}/{kind}/{what}", run)
    storages = ("dense", "csr-weights", "float32", "no-intercept")
    for name, loss, storage in product(NAMED, LOSSES, storages):
        settings: dict[str, Any] = {
            "objective": name.split()[0],
            "objective_options": {
                **NAMED[name],
                **({"target_bound": 2.0} if "tilted" in name and storage == "float32" else {}),
            },
        }
        solver, budget = "output-perturbation", BUDGETS["approximate"]
        named = partial(solved, solver, budget, "replace_one", loss, storage, **settings)
        yield Case(f"objective/{solver}/replace_one/approximate/{name}/{loss}/{storage}", named)
    for loss, storage in product(("logistic", "squared-hinge"), ("dense", "blocks")):
        users = partial(
            solved, "output-perturbation", BUDGETS["pure"], "replace_one", loss, storage,
            optimizer=walk, alpha=0.2,
        )  # fmt: skip
        yield Case(f"objective/output-perturbation/replace_one/pure/walk/{loss}/{storage}", users)


def fitted(model: Any, X: Any, y: Any = None, **fit_params: Any) -> dict[str, Any]:
    """Fit, and all that is public about the model then."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        model.fit(X, y, **fit_params)
    public = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_") and name != "best_estimator_"
    }
    out = {"attributes": public, "printed": said.getvalue().splitlines()}
    rows = data().X[:7]
    for method in (
        "predict",
        "decision_function",
        "predict_log_proba",
        "predict_proba",
        "transform",
    ):
        if hasattr(model, method):
            out[method] = np.asarray(getattr(model, method)(rows))
    if hasattr(model, "noise_interval"):
        try:
            interval = model.noise_interval(0.9)
        except ValueError as error:
            out["interval"] = str(error)
        else:
            ends = (interval.low, interval.high, interval.intercept_low, interval.intercept_high)
            out["interval"] = [np.asarray(end) for end in ends]
    return out


REGRESSORS = ("HuberRegressor", "QuantileRegressor", "LinearRegression")
#: Parameters of estimators; each is tried on all of them.
PARAMETERS: tuple[dict[str, Any], ...] = (
    {},
    {"delta": 0.0, "epsilon": 3.0},
    {"neighboring_relation": "add_or_remove_one", "fit_intercept": False},
    {"alpha": 0.05, "intercept_scaling": 2.0, "verbose": 1},
    {"solver": "output-perturbation"},
    {"solver": "objective-perturbation", "neighboring_relation": "add_or_remove_one"},
    {"solver": "dp-gd", "solver_options": {"iterations": 5}},
    {"solver": "dp-gd", "accountant": "last-iterate", "solver_options": {"iterations": 5}},
    {"solver": "dp-agd", "solver_options": {"batch": 80}},
    {"solver": "dp-sgd"},
    {"solver": "output-perturbation", "optimizer": "lbfgs", "alpha": 0.1},
    {"data_norm": None},
    {"data_norm": None, "strict": True},
    {"solver": "unknown"},
)
CLASSIFIER_PARAMETERS: tuple[dict[str, Any], ...] = (
    {"objective": "tilted", "objective_options": {"tilt": 0.3}, "solver": "output-perturbation"},
    {"objective": "adversarial", "objective_options": {"radius": 0.1}},
    {"classes": None},
)
MULTICLASS: tuple[dict[str, Any], ...] = (
    {"multi_class": "ovr"},
    {"multi_class": "multinomial"},
    {"multi_class": "multinomial", "solver_options": {"iterations": 4, "correlation_share": 0.1}},
    {"multi_class": "multinomial", "alpha": 0.05, "fit_intercept": False},
)


def estimator(name: str, **parameters: Any) -> Any:
    bounds: dict[str, Any] = (
        {"target_bounds": (-3.0, 3.0)} if name in REGRESSORS else {"classes": [-1.0, 1.0]}
    )
    settings = {"data_norm": 2.0, "random_state": SEED, **bounds, **parameters}
    settings = {"epsilon": 1.5, "delta": 4e-3, **settings}
    return getattr(dpfast, name)(**settings)


def estimators() -> Iterator[Case]:
    """Every estimator with each set of parameters, in several storages; several classes."""
    rows = data()
    for name in ("LogisticRegression", "LinearSVC", *REGRESSORS):
        y = rows.target if name in REGRESSORS else rows.label
        extra = () if name in REGRESSORS else CLASSIFIER_PARAMETERS
        for settings in (*PARAMETERS, *extra):

            def run(folder: Path, name=name, settings=settings, y=y, how="dense") -> Any:
                return fit_stored(estimator(name, **settings), y, how)

            yield Case(f"estimator/{name}/{tag(settings)}/dense", run)
        for how in ("float32", "csr", "weights", "blocks", "blocks-weights", "dask"):

            def run(folder: Path, name=name, y=y, how=how) -> Any:
                bound = {"max_weight": 0.9} if how.endswith("weights") else {}
                return fit_stored(estimator(name, **bound), y, how)

            yield Case(f"estimator/{name}/-/{how}", run)
    three = np.digitize(rows.target, [-0.4, 0.4])
    labels = np.array(["low", "mid", "top"])[three]
    for name, settings in product(("LogisticRegression", "LinearSVC"), (*PARAMETERS, *MULTICLASS)):
        if "multi_class" in settings and name == "LinearSVC":
            continue

        def run(folder: Path, name=name, settings=settings, y=labels, how="dense") -> Any:
            model = estimator(name, classes=["low", "mid", "top"], **settings)
            return fit_stored(model, y, how)

        yield Case(f"classes/{name}/{tag(settings)}/dense", run)
        for how in ("csr", "float32", "weights", "blocks"):
            if len(settings) > 1:
                break
            bound = {"max_weight": 0.9} if how == "weights" else {}
            both = {**settings, **bound}
            yield Case(
                f"classes/{name}/{tag(settings)}/{how}", partial(run, settings=both, how=how)
            )


def fit_stored(model: Any, y: np.ndarray, how: str) -> dict[str, Any]:
    """Fit to :func:`data`, stored in this way."""
    from dpfast.blocks import from_npy

    rows = data()
    if how == "dask":
        import dask
        import dask.array as da

        dask.config.set(scheduler="synchronous")
        X, y = da.from_array(rows.X, chunks=(70, 4)), da.from_array(y, chunks=70)
        return fitted(model, X, y)
    if how.startswith("blocks"):
        weight = rows.weight if how.endswith("weights") else None
        return fitted(model, from_npy(rows.X, y, weight, block_rows=70))
    X = {"float32": float32, "csr": csr}.get(how, np.asarray)(rows.X)
    return fitted(model, X, y, **({"sample_weight": rows.weight} if how == "weights" else {}))


def scalers() -> Iterator[Case]:
    for kind, relation, delta in product(
        (PrivateStandardScaler, PrivateQuantileScaler), RELATIONS, (0.0, 1e-6)
    ):

        def run(folder: Path, kind=kind, relation=relation, delta=delta) -> Any:
            model = kind(
                [(-2, 2), (-3, 1), (-1, 4), (-5, 5)],
                delta=delta,
                neighboring_relation=relation,
                random_state=SEED,
            )
            return fitted(model, data().X)

        yield Case(f"scaler/{kind.__name__}/{relation}/{delta}", run)


def searches() -> Iterator[Case]:
    grids: dict[str, tuple[str, dict[str, Any], dict[str, list[Any]]]] = {
        "output": ("LogisticRegression", {"solver": "output-perturbation"}, {"alpha": [1e-2, 1.0]}),
        "auto": ("LogisticRegression", {}, {"alpha": [1e-2, "auto"]}),
        "solvers": ("LogisticRegression", {}, {"solver": ["auto", "dp-gd"]}),
        "svc": ("LinearSVC", {}, {"alpha": [1e-2, 1.0]}),
        "huber": ("HuberRegressor", {}, {"alpha": [1e-2, 1.0]}),
        "least-squares": ("LinearRegression", {}, {"alpha": [1e-2, 1.0]}),
    }
    laws: tuple[dict[str, Any], ...] = (
        {},
        {"repetitions": "poisson", "mean_runs": 4.0},
        {"repetitions": "negative-binomial", "shape": 2.0, "mean_runs": 3.0},
        {"scoring": "neg_log_loss"},
        {"scoring": "neg_mean_squared_error", "validation_fraction": 0.3},
    )
    for grid, relation, delta, law in product(grids, RELATIONS, (0.0, 1e-6), laws):

        def run(folder: Path, grid=grid, relation=relation, delta=delta, law=law) -> Any:
            name, parameters, values = grids[grid]
            promise = {"epsilon": 6.0, "delta": delta}
            model = estimator(name, neighboring_relation=relation, **{**parameters, **promise})
            search = PrivateSearchCV(
                model, values, epsilon=6.0, delta=delta, random_state=SEED, **law
            )
            y = data().target if name in REGRESSORS else data().label
            found = fitted(search, data().X, y)
            best = getattr(search, "best_estimator_", None)
            return {**found, "best": best and {"w": best.coef_, "intercept": best.intercept_}}

        yield Case(f"search/{grid}/{relation}/{delta}/{tag(law)}", run)


def accounts() -> Iterator[Case]:
    """Several fits within one budget, until it refuses."""
    for solver, relation, adaptive in product(SOLVER_NAMES, RELATIONS, (True, False)):

        def run(folder: Path, solver=solver, relation=relation, adaptive=adaptive) -> Any:
            out = []
            loss = LOSSES[usual_loss(solver)]
            account = dpfast.BudgetAccountant(Budget(2.5, 0.1), adaptive=adaptive)
            for _ in range(4):
                try:
                    with account:
                        result = dpfast.solve(
                            problem(loss),
                            solver,
                            BUDGETS["approximate"],
                            neighboring_relation=relation,
                            random_state=SEED,
                        )
                except dpfast.DpfastError as error:
                    out.append([type(error).__name__, str(error)])
                else:
                    out.append(result.w)
            spent = [event.to_dict() for event in account.events]
            return {"fits": out, "events": spent, "remaining": account.remaining()}

        yield Case(f"account/{solver}/{relation}/{'adaptive' if adaptive else 'fixed'}", run)


def mixed_accounts() -> Iterator[Case]:
    """A scaler, a search, one-against-rest and a plain fit on one account, kept in a file."""
    for relation in RELATIONS:

        def run(folder: Path, relation=relation) -> Any:
            rows, path = data(), folder / "account.json"
            labels = np.digitize(rows.target, [-0.4, 0.4])
            model = partial(estimator, neighboring_relation=relation, epsilon=0.5, delta=1e-6)
            out = []
            with dpfast.BudgetAccountant(Budget(6.0, 1e-3), path=path) as account:
                scaler = PrivateStandardScaler(
                    (-3, 3), epsilon=0.4, neighboring_relation=relation, random_state=SEED
                )
                out.append(fitted(scaler, rows.X))
                plain_fit = model("LogisticRegression", solver="output-perturbation")
                out.append(fitted(plain_fit, rows.X, rows.label))
                several = model("LinearSVC", classes=[0, 1, 2], solver="dp-gd")
                out.append(fitted(several, rows.X, labels))
                search = PrivateSearchCV(
                    model("LogisticRegression", solver="output-perturbation", epsilon=2.0),
                    {"alpha": [0.01, 1.0]},
                    epsilon=2.0,
                    random_state=SEED,
                )
                out.append(fitted(search, rows.X, rows.label))
                adaptive = model("LogisticRegression", solver="dp-agd")
                out.append(fitted(adaptive, rows.X, rows.label))
            events = [event.to_dict() for event in account.events]
            again = dpfast.BudgetAccountant(Budget(6.0, 1e-3), path=path)
            return {
                "fits": out,
                "events": events,
                "remaining": account.remaining(),
                "read again": again.remaining(),
                "guarantee": str(account.guarantee()),
            }

        yield Case(f"account/mixed/{relation}", run)


class Interrupted(BaseException):
    """As Ctrl-C."""


def interruptible(stop: list[int], target: np.ndarray) -> Any:
    """The rows of :func:`data` in blocks, read until `stop` of them were yielded."""
    from dpfast.blocks import from_batches

    rows = data()

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, 240, 60):
            if stop[0] == 0:
                raise Interrupted
            stop[0] -= 1
            yield rows.X[start : start + 60], target[start : start + 60]

    return from_batches(
        batches, n_features=4, n_samples=240, name="golden", block_rows=60, read_ahead=False
    )


def checkpoints() -> Iterator[Case]:
    """Fits with a checkpoint, in one go and interrupted on the way; whether they end alike."""
    from dpfast.blocks import BlockProblem

    budget = BUDGETS["approximate"]
    few = {"iterations": 8}
    usual = {solver: LOSSES[usual_loss(solver)] for solver in SOLVER_NAMES}
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        **{
            solver: (solver, few if accepts(solver, budget, RELATIONS[0], loss, few) else {})
            for solver, loss in usual.items()
        },
        "short": ("dp-gd", {"iterations": 4}),
        "last-iterate": ("dp-gd", {"iterations": 4, "analysis": "last-iterate", "step": 1.0}),
        "stages": ("dp-masg-opt", {"iterations": 4}),
        "few": ("dp-agd", {"max_iterations": 3}),
    }
    for name, relation in product(cases, RELATIONS):
        solver, settings = cases[name]

        def run(folder: Path, solver=solver, settings=settings, relation=relation) -> Any:
            def fit(file: str, blocks: int) -> tuple[Any, int]:
                left = [blocks]
                loss = usual[solver]
                result = dpfast.solve(
                    BlockProblem(interruptible(left, data().y(loss)), loss, data_norm=2.0),
                    solver,
                    budget,
                    neighboring_relation=relation,
                    random_state=SEED,
                    checkpoint=folder / file,
                    **settings,
                )
                return result, blocks - left[0]

            whole, used = fit("whole", 10**6)
            out: dict[str, Any] = {"whole": whole, "blocks": used}
            for stop in sorted({2, used // 2, used - 1}):
                file = f"stopped after {stop}"
                with contextlib.suppress(Interrupted):
                    fit(file, stop)
                    raise AssertionError("it was not interrupted")
                try:
                    resumed, left = fit(file, 10**6)
                except dpfast.DpfastError as error:
                    out[file] = [type(error).__name__, str(error).replace(str(folder), "FOLDER")]
                    continue
                same = json.dumps(plain(resumed)) == json.dumps(plain(whole))
                out[file] = {"equals the whole": same, "blocks": left}
                log = json.loads((folder / file).read_text())
                out[file]["accesses"] = len(log["accesses"])
            return out

        yield Case(f"checkpoint/{name}/{relation}", run)


def estimator_checkpoints() -> Iterator[Case]:
    """Estimators with a checkpoint, interrupted once; three classes, too."""
    targets = {
        "LogisticRegression": data().label,
        "LinearSVC": np.digitize(data().target, [-0.4, 0.4]),
        "LinearRegression": data().target,
    }
    for name, target in targets.items():

        def run(folder: Path, name=name, target=target) -> Any:
            def fit(file: str, blocks: int) -> Any:
                model = estimator(name, **({"classes": [0, 1, 2]} if name == "LinearSVC" else {}))
                source = interruptible([blocks], target)
                return fitted(model, source, checkpoint=folder / file)

            whole = fit("whole", 10**6)
            _forget()  # the fit that is interrupted is to know nothing of it
            with contextlib.suppress(Interrupted):
                fit("stopped", 6)
            same = json.dumps(plain(fit("stopped", 10**6))) == json.dumps(plain(whole))
            return {"whole": whole, "equals the whole": same}

        yield Case(f"checkpoint/{name}", run)


FAMILIES = (
    plans,
    losses,
    storages,
    threads,
    dasked,
    options,
    accountants,
    objectives,
    estimators,
    scalers,
    searches,
    accounts,
    mixed_accounts,
    checkpoints,
    estimator_checkpoints,
)


def all_cases(wanted: Callable[[str], Any] = bool, *, check: bool = True) -> dict[str, Thunk]:
    """The cases whose names `wanted` is true of; without `check`, also those that are refused.

    Raises
    ------
    ValueError
        If two cases have the same name.
    """
    found: dict[str, Thunk] = {}
    for case in chain.from_iterable(family() for family in FAMILIES):
        if case.name in found:
            raise ValueError(f"two cases have the name {case.name!r}.")
        if wanted(case.name) and (not check or case.served()):
            found[case.name] = case.run
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    cases = all_cases(re.compile(arguments.only).search)
    with arguments.file.open("w") as file:
        print(json.dumps({"dpfast": dpfast.__file__, "cases": len(cases)}), file=file, flush=True)
        for name, run in cases.items():
            print(json.dumps({"case": name}), file=file, flush=True)
            if arguments.list:
                continue
            start = time.process_time()
            outcome = record(run)
            line = {"case": name, "seconds": time.process_time() - start, **outcome}
            print(json.dumps(line), file=file, flush=True)


if __name__ == "__main__":
    sys.exit(main())
