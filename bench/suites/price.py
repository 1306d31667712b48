"""The price of a private fit: its processor time over that of non-private fits to the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.arrange import grouped, index, pick
from bench.competitors import Task, sklearn_nonprivate
from bench.harness import Document, Record, Run, interleave, timing_records
from bench.problems import coded_rows, private_fit, sparse_rows, synthetic
from bench.report import Table, duration, plain, time_share

NAME = "price"
TITLE = "The price of a private fit"
LBFGS, NEWTON = sklearn_nonprivate.NAME, "newton-cholesky"
WHITENED, OUTPUT, OBJECTIVE, AGD = (
    "dp-whitened-gd", "output-perturbation", "objective-perturbation", "dp-agd",
)  # fmt: skip
AUTO, AUTO_DENSE = "auto", "auto, dense rows"
COMPETITORS = {
    LBFGS: sklearn_nonprivate.GUARANTEE,
    NEWTON: "none (not private): scikit-learn's other solver",
    AUTO: "(epsilon, delta)-DP under replace_one: what 'auto' chooses, with its defaults",
    AUTO_DENSE: "the same, of rows whose categories are written out as columns",
    **dict.fromkeys(
        (WHITENED, OUTPUT, OBJECTIVE, AGD), "the same guarantee, this solver with its defaults"
    ),
}
_BALL, _STANDARD, _SPARSE, _CODES = "in the unit ball", "standardized", "sparse", "in codes"
_READ = "reading"
_NEWTON_COLUMNS = 1000


@dataclass(frozen=True)
class Sizes:
    """Tables, budgets, and who takes part."""

    dense: tuple[tuple[int, int], ...] = ((1_000_000, 20), (500_000, 120), (100_000, 500))
    #: Rows, columns, non-zeros a row.
    sparse: tuple[tuple[int, int, int], ...] = ((50_000, 1000, 20), (100_000, 50_000, 30))
    #: Rows, columns of categories, columns of numbers.
    codes: tuple[tuple[int, int, int], ...] = ((200_000, 33, 7),)
    epsilons: tuple[float, ...] = (0.1, 1.0)
    solvers: tuple[str, ...] = (AUTO, WHITENED, OUTPUT, OBJECTIVE, AGD)
    read_entries: int = 2**25
    group_seconds: float = 15.0


FULL = Sizes()
QUICK = Sizes(
    dense=((100_000, 20), (20_000, 120)), sparse=((10_000, 500, 20),),
    codes=((20_000, 33, 7),), epsilons=(1.0,),
    read_entries=2**22, group_seconds=2.0,
)  # fmt: skip


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records = [_reading(sizes)]
    for n, d in sizes.dense:
        data = synthetic(n, d)
        records += _tables(settings, sizes, _BALL, data.X, data.y, 1.0)
        X = data.X / data.X.std(axis=0)
        # Public: twice what the norm of a standardized row is on average.
        records += _tables(settings, sizes, _STANDARD, X, data.y, 2.0 * np.sqrt(d))
    for n, d, count in sizes.sparse:
        X, y = sparse_rows(n, d, count)
        records += _tables(settings, sizes, _SPARSE, X, y, 1.0)
    for n, categories, numbers in sizes.codes:
        X, y, data_norm = coded_rows(n, categories, numbers)
        records += _tables(settings, sizes, _CODES, X, y, data_norm)
    return records


def _reading(sizes: Sizes) -> Record:
    """How fast one core reads numbers: what a pass over rows cannot be faster than."""
    from dpfast import _kernels

    x = np.ones(sizes.read_entries)
    timing = interleave({_READ: partial(_kernels.read_sum, x)}, repeat=5)[_READ]
    return Record(
        _READ, {"entries": sizes.read_entries}, _READ,
        {"gigabytes_per_second": x.nbytes / timing.seconds / 1e9},
    )  # fmt: skip


def _tables(
    settings: Run, sizes: Sizes, group: str, X: Any, y: NDArray[np.float64], data_norm: float
) -> list[Record]:
    """The fits to one table, at every epsilon."""
    (n, d), records = X.shape, []
    for epsilon in sizes.epsilons:
        settings.say(f"  {group}: {n:,} x {d:,}, epsilon = {epsilon:g}")
        fits = _private(sizes, X, y, data_norm, epsilon)
        coded = group == _CODES
        stored = X.tocsr() if coded else X
        fits[LBFGS] = partial(sklearn_nonprivate.fit, Task(stored, y, data_norm))
        if coded:
            dense = X.toarray()
            fits[AUTO_DENSE] = private_fit(dense, y, AUTO, epsilon=epsilon, data_norm=data_norm)
        elif d < _NEWTON_COLUMNS:
            fits[NEWTON] = partial(_newton, X, y)
        timings = interleave(
            fits,
            repeat=settings.repeat,
            group_seconds=sizes.group_seconds,
            fewest_rounds=2,
            clock=time.process_time,
        )
        case: dict[str, int | float | str] = {"n": n, "d": d, "epsilon": epsilon}
        records += timing_records(group, case, timings, [LBFGS])
    return records


def _private(
    sizes: Sizes, X: Any, y: NDArray[np.float64], data_norm: float, epsilon: float
) -> dict[str, Callable[[], object]]:
    """The private solvers that take so many columns."""
    from dpfast.solvers import SOLVERS

    return {
        name: private_fit(X, y, name, epsilon=epsilon, data_norm=data_norm)
        for name in sizes.solvers
        if name == AUTO or X.shape[1] < SOLVERS[name].max_dim
    }


def _newton(X: Any, y: NDArray[np.float64]) -> object:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1.0, solver=NEWTON).fit(X, y)


# ---- reporting ----------------------------------------------------------------------------------


def tables(document: Document) -> list[Table]:
    found = []
    for group in (_BALL, _STANDARD, _SPARSE, _CODES):
        own = pick(document.records, group=group)
        measured = grouped(own, "competitor")
        names = [n for n in COMPETITORS if n != LBFGS and n in measured]
        rows = []
        for where, line in grouped(own, "n", "d", "epsilon").items():
            of = index(line, "competitor")
            shares = (time_share(of[name], LBFGS) if name in of else "-" for name in names)
            time_of_lbfgs = duration(of[LBFGS].values["seconds"])
            rows.append((*map(plain, where), time_of_lbfgs, *shares))
        if rows:
            header = ("n", "d", "epsilon", f"{LBFGS} (lbfgs)", *names)
            found.append(Table(f"Rows {group}", _text(group, document.records), header, rows))
    return found


def _text(group: str, records: Sequence[Record]) -> str:
    (speed,) = (r.values["gigabytes_per_second"] for r in pick(records, group=_READ))
    text = (
        "Processor time of lbfgs, and that of the others in units of it: less than 1 is a private "
        f"fit for less than the price of a non-private one. One core reads {speed:.1f} GB/s."
    )
    if group == _SPARSE:
        text += " Every row has the same number of non-zeros; solvers are left out beyond the "
        text += "number of columns that they take."
    if group == _CODES:
        text += " lbfgs has the rows in CSR; d counts the columns that the categories are written "
        text += "out as."
    return text


def _label(record: Record) -> str:
    n, d, epsilon = record.case.values()
    return f"{n:,} x {d:,}, {record.group}, ε = {epsilon:g}"


def draw(document: Document, figure: Any) -> None:
    """A row of points a table: the price by each solver."""
    own = [r for r in document.records if LBFGS in r.speed]
    cases = list(dict.fromkeys(map(_label, own)))
    figure.set_size_inches(8.0, 1.2 + 0.3 * len(cases))
    axis = figure.subplots()
    for number, (name, points) in enumerate(grouped(own, "competitor").items()):
        prices = [1.0 / r.speed[LBFGS] for r in points]
        places = [cases.index(_label(r)) for r in points]
        axis.plot(prices, places, "o", color=f"C{number}", markersize=5, label=name)
    axis.axvline(1.0, color="0.5", linewidth=0.8)
    axis.set_yticks(range(len(cases)), cases, fontsize=8)
    axis.invert_yaxis()
    axis.set(xscale="log", xlabel="processor time over scikit-learn's lbfgs")
    axis.legend(frameon=False, fontsize=8)
    axis.grid(color="0.92")
    axis.set_axisbelow(True)
