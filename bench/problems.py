"""What is solved: synthetic problems of any size, and real tables."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.stats
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Vector = NDArray[np.float64]

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Dataset:
    """Rows with labels -1 and +1, and a public bound of the rows' norms.

    `blocks` says how columns were declared, as kind, start and stop of a
    :class:`dpfast.column_blocks.ColumnBlock`; empty where that is not known.
    """

    name: str
    X: Rows
    y: Vector
    data_norm: float
    blocks: tuple[tuple[str, int, int], ...] = ()

    def split(self, seed: int, test_share: float = 0.2) -> tuple[Dataset, Dataset]:
        """Random training and test parts."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        cut = round(len(order) * test_share)
        test, train = order[:cut], order[cut:]
        return self.rows(train), self.rows(test)

    def rows(self, which: Any) -> Dataset:
        """Some of the rows."""
        return replace(self, X=self.X[which], y=self.y[which])


def synthetic(n_samples: int, n_features: int, seed: int = 0) -> Dataset:
    """Logistic data in the unit ball, columns of unequal size (1 to 1/5) in random order.

    Labels follow margins of standard deviation about 2, so classes overlap as in real tables.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    scale = rng.permutation(np.geomspace(1.0, 0.2, n_features))
    X *= scale / math.sqrt(2.0 * np.sum(scale**2))  # mean squared norm 1/2
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    # Inside by a hair, so that no competitor clips rows because of rounding.
    X *= ((1.0 - 1e-12) / np.maximum(norms, 1.0))[:, np.newaxis]
    w = rng.standard_normal(n_features)
    margins = X @ w
    margins *= 2.0 / margins.std()
    # P(y = 1) = 1 / (1 + exp(-margin))
    y = np.where(rng.logistic(size=n_samples) < margins, 1.0, -1.0)
    return Dataset(f"synthetic {n_samples:,} x {n_features}", X, y, 1.0)


def sparse_rows(n: int, d: int, count: int) -> tuple[scipy.sparse.csr_array, Vector]:
    """Rows in the unit ball with so many non-zeros each, at random columns, and labels."""
    rng = np.random.default_rng(0)
    # Columns of a row: one of each of `count` strips, so that they are sorted and differ.
    edges = np.linspace(0, d, count + 1).astype(np.int64)
    indices = rng.integers(edges[:-1], edges[1:], (n, count))
    values = rng.uniform(-1.0, 1.0, (n, count)) / math.sqrt(count)
    X = scipy.sparse.csr_array(
        (values.ravel(), indices.ravel().astype(np.int32), np.arange(0, n * count + 1, count)),
        shape=(n, d),
    )
    margins = X @ rng.standard_normal(d)
    y = np.where(rng.logistic(size=n) < margins * (2.0 / margins.std()), 1.0, -1.0)
    return X, y


def coded_rows(n: int, categories: int, numbers: int) -> tuple[Any, Vector, float]:
    """Rows in codes, a :class:`dpfast.coded.CodedMatrix`, with labels and a bound of their norms.

    Columns of 2 to 53 categories of unequal frequency, some 15 on average, as in census tables, and
    of numbers in [-1, 1].
    """
    from dpfast.coded import CodedMatrix

    rng = np.random.default_rng(0)
    parts: list[tuple[Any, Any]] = []
    margins = np.zeros(n)
    for size in np.geomspace(2.0, 53.0, categories).round().astype(int):
        codes = rng.choice(size, n, p=rng.dirichlet(np.full(size, 0.5))).astype(np.uint8)
        parts.append((codes, np.eye(size)))
        margins += rng.standard_normal(size)[codes]
    for _ in range(numbers):
        column = rng.uniform(-1.0, 1.0, n)
        parts.append((column, None))
        margins += rng.standard_normal() * column
    margins -= margins.mean()
    y = np.where(rng.logistic(size=n) < margins * (2.0 / margins.std()), 1.0, -1.0)
    return CodedMatrix(parts), y, math.sqrt(categories + numbers)


def private_fit(
    X: Any,
    y: Vector,
    solver: str,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    data_norm: float = 1.0,
    **options: Any,
) -> Callable[[], Vector]:
    """A fit from rows to weights, validation and norms included; its plan is made before."""
    from dpfast import Budget, Problem, plan
    from dpfast.privacy import Ledger
    from dpfast.random import SecureGenerator
    from dpfast.solvers import SOLVERS, carry_out

    loss = SOLVERS[solver].loss if solver in SOLVERS else "logistic"

    def problem() -> Problem:
        return Problem(X, y, loss, data_norm=data_norm)

    settled = plan(problem().shape, solver, Budget(epsilon, delta), **options)

    def fit() -> Vector:
        ledger = Ledger(settled.budget, adaptive=settled.adaptive)
        return carry_out(settled, problem(), SecureGenerator(0), ledger).w

    return fit


def least_loss(problem: Any) -> float:
    """Smallest mean loss of a problem, up to a ridge that is too small to matter."""
    from dpfast.objectives import Erm
    from dpfast.optimizers import OPTIMIZERS

    shape = problem.shape
    tolerance = 1e-7 * min(shape.lipschitz, shape.row_norm)
    w = OPTIMIZERS["newton"](Erm(problem, 1e-9 * shape.smoothness), tolerance=tolerance).w
    # Where the curvature is zero here and there, Newton's method may stop early, and to columns far
    # narrower than others that ridge does matter: on in coordinates in which rows are white.
    values, vectors = np.linalg.eigh(problem.gram() / shape.n_samples)
    seen = values > 1e-13 * values[-1]
    transform, ridge = vectors[:, seen] / np.sqrt(values[seen]), 1e-9 * shape.loss.smoothness

    def of(v: Vector) -> tuple[float, Vector]:
        value, gradient = problem.value_and_gradient(transform @ v, 0.0)
        return value + 0.5 * ridge * float(v @ v), transform.T @ gradient + ridge * v

    start = np.sqrt(values[seen]) * (vectors[:, seen].T @ w)
    further = scipy.optimize.minimize(
        of,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 3000, "ftol": 1e-15, "gtol": 1e-9},
    ).x
    points = (w, transform @ further)
    return float(min(problem.objective(point) for point in points)) / shape.n_samples


def with_positives(margins: Vector, positives: float) -> Vector:
    """Margins that are moved until this share of logistic labels is +1."""

    def surplus(b: float) -> float:
        return float(np.mean(0.5 + 0.5 * np.tanh(0.5 * (margins + b)))) - positives

    return np.asarray(margins + scipy.optimize.brentq(surplus, -60.0, 60.0))


# ---- several rows a person ----------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """Rows with labels -1 and +1, whose they are, and public bounds of norms and rows a person."""

    name: str
    X: Rows
    y: Vector
    persons: NDArray[np.int64]
    data_norm: float
    most: int


def made_panel(
    persons: int, most: int, alike: float, labels_alike: float = 0.0, d: int = 10, seed: int = 0
) -> Panel:
    """So many rows a person of a logistic model, in columns of unequal size, in random order.

    `alike` is the correlation of a column's entries within a person, `labels_alike` that of what
    decides a label besides the margin.
    """
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), most)

    def drawn(share: float, *shape: int) -> Vector:
        own = rng.standard_normal((len(who), *shape))
        shared = rng.standard_normal((persons, *shape))[who]
        found: Vector = math.sqrt(share) * shared + math.sqrt(1.0 - share) * own
        return found

    X = drawn(alike, d)
    margins = X @ rng.standard_normal(d)
    margins *= 1.5 / margins.std()
    uniform = scipy.stats.norm.cdf(drawn(labels_alike))
    y = np.where(np.log(uniform / (1.0 - uniform)) < margins + 0.3, 1.0, -1.0)
    X *= rng.permutation(np.geomspace(1.0, 0.2, d)) / (3.0 * math.sqrt(d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1) * (1.0 + 1e-12))[:, None]
    order = rng.permutation(len(who))
    return Panel(f"{most} rows a person", X[order], y[order], who[order], 1.0, most)


# Public bounds: age in years, the household's income in tens of thousands, years of education.
_HEALTH: dict[str, tuple[float, float]] = {
    "year": (1984.0, 1988.0), "age": (18.0, 100.0), "hhninc": (0.0, 20.0), "educ": (0.0, 20.0),
    "outwork": (0.0, 1.0), "female": (0.0, 1.0), "married": (0.0, 1.0), "kids": (0.0, 1.0),
    "self": (0.0, 1.0), "edlevel2": (0.0, 1.0), "edlevel3": (0.0, 1.0), "edlevel4": (0.0, 1.0),
}  # fmt: skip
_CLAIMS = {"agecat": (1.0, 6.0), "valuecat": (1.0, 9.0), "period": (1.0, 3.0)}


def health_panel(data: Path) -> Panel:
    """Any visit to a doctor in the year, German health panel; up to five years a person."""
    return _panel(data, "health_panel.csv", _HEALTH, "docvis", "id", 5)


def claims_panel(data: Path) -> Panel:
    """Any claim in the period, motor policies of three periods each."""
    return _panel(data, "claims_panel.csv", _CLAIMS, "claim", "policyID", 3)


def _panel(
    data: Path, file: str, bounds: dict[str, tuple[float, float]], target: str, who: str, most: int
) -> Panel:
    texts = text_columns(data, file, [*bounds, target, who])
    X = bounded(texts, bounds)
    y = np.where(texts[target].astype(np.float64) > 0.0, 1.0, -1.0)
    persons = texts[who].astype(np.float64).astype(np.int64)
    return Panel(file.partition(".")[0], X, y, persons, math.sqrt(X.shape[1]), most)


# ---- real tables --------------------------------------------------------------------------------


def randhie() -> Dataset:
    """Any visit to a doctor in the year; columns scaled to [-1, 1] by their public bounds."""
    from dpfast.datasets import load_randhie

    bunch = load_randhie()
    X = bounded(dict(zip(bunch.feature_names, bunch.data.T, strict=True)), bunch.bounds)
    y = np.where(bunch.target == bunch.classes[1], 1.0, -1.0)
    return Dataset("RAND HIE", X, y, math.sqrt(X.shape[1]))


def adult(data: Path, files: Sequence[str] = ("adult_train.csv", "adult_test.csv")) -> Dataset:
    """Income above 50,000 dollars; encoded by the public bounds of the documentation's example."""
    from dpfast._table_files import read_csv
    from dpfast.tabular import TableSchema, read_bounds

    bounds = read_bounds(_ROOT / "docs" / "examples" / "adult_bounds.json")
    schema = TableSchema.from_bounds(bounds)
    parts = []
    for name in files:
        table = read_csv(_existing(data, name), schema.columns_read(fit=True))
        parts.append((schema.transform(table), schema.encode_target(table)))
    X = np.ascontiguousarray(np.vstack([part[0] for part in parts]))
    y = np.concatenate([part[1] for part in parts])
    blocks = tuple((b.kind, b.start, b.stop) for b in schema.column_blocks)
    return Dataset("Adult", X, np.where(y == 1, 1.0, -1.0), schema.row_norm_bound, blocks)


# Public bounds of Adult's numbers: years, years of education, dollars, hours a week.
_ADULT_NUMERIC: dict[str, tuple[float, float]] = {
    "age": (17.0, 90.0),
    "education_num": (1.0, 16.0),
    "capital_gain": (0.0, 100_000.0),
    "capital_loss": (0.0, 5_000.0),
    "hours_per_week": (1.0, 99.0),
}


def numeric_adult(data: Path) -> Dataset:
    """The same without categories: five columns scaled to [-1, 1] by public bounds."""
    parts = [text_columns(data, name) for name in ("adult_train.csv", "adult_test.csv")]
    X = np.vstack([bounded(part, _ADULT_NUMERIC) for part in parts])
    rich = np.concatenate([np.char.startswith(part["income"], ">50K") for part in parts])
    return Dataset("Adult, numbers", X, np.where(rich, 1.0, -1.0), math.sqrt(X.shape[1]))


# Public bounds, from what the columns mean: age in years, yearly balance in euros, 30*month + day,
# seconds on the phone, calls, days since the last campaign (999 at most by design), earlier calls.
_BANK_NUMERIC: dict[str, tuple[float, float]] = {
    "age": (18.0, 100.0),
    "balance": (-10_000.0, 100_000.0),
    "day_code": (31.0, 391.0),
    "duration": (0.0, 3600.0),
    "campaign": (1.0, 50.0),
    "pdays_clip0": (0.0, 999.0),
    "previous": (0.0, 50.0),
}


def bank(data: Path) -> Dataset:
    """Subscribed a deposit; numeric columns scaled to [-1, 1], indicators as they are.

    At most one indicator of a category is one, so the squared norm of a row is at most the number
    of numeric columns plus the number of categories.
    """
    texts = text_columns(data, "bank_dpagd.csv")
    *columns, target = texts
    X = bounded(texts, {name: _BANK_NUMERIC.get(name, (-1.0, 1.0)) for name in columns})
    categories = {name.partition("=")[0].rstrip("!") for name in columns} - set(_BANK_NUMERIC)
    y = np.where(texts[target].astype(np.float64) == 1.0, 1.0, -1.0)
    return Dataset("Bank", X, y, math.sqrt(len(_BANK_NUMERIC) + len(categories)))


def bounded(columns: Mapping[str, Any], bounds: Mapping[str, tuple[float, float]]) -> Rows:
    """The columns that have bounds, cut to them and mapped linearly to [-1, 1]."""
    X = np.column_stack([np.asarray(columns[name]).astype(np.float64) for name in bounds])
    low, high = np.array(list(bounds.values())).T
    return np.ascontiguousarray((np.clip(X, low, high) - low) * (2.0 / (high - low)) - 1.0)


def _existing(data: Path, name: str) -> Path:
    """The file, plain or gzipped; FileNotFoundError names it."""
    for path in (data / name, data / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(2, "no such file", str(data / name))


def opened(data: Path, name: str) -> TextIO:
    """A text file, plain or gzipped."""
    path = _existing(data, name)
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def text_columns(
    data: Path, file: str, names: Sequence[str] | None = None
) -> dict[str, NDArray[np.str_]]:
    """The columns of a CSV file as texts, or some of them."""
    with opened(data, file) as stream:
        header, *rows = csv.reader(stream)
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return {name: np.char.strip(columns[name]) for name in names or header}


# Public bounds of wine's measurements (grams or milligrams per liter, percent by volume), from what
# chemistry allows.
_WINE_NUMERIC: dict[str, tuple[float, float]] = {
    "fixed_acidity": (0.0, 20.0),
    "volatile_acidity": (0.0, 2.0),
    "citric_acid": (0.0, 2.0),
    "residual_sugar": (0.0, 100.0),
    "chlorides": (0.0, 1.0),
    "free_sulfur_dioxide": (0.0, 300.0),
    "total_sulfur_dioxide": (0.0, 500.0),
    "density": (0.98, 1.05),
    "pH": (2.5, 4.5),
    "sulphates": (0.0, 2.0),
    "alcohol": (8.0, 15.0),
}


def wine(data: Path, *, target: str = "good") -> Dataset:
    """Wine Quality: color and measurements scaled to [-1, 1] by public bounds.

    `target` is "good" (quality 6 or better: +1, else -1) or "quality" (3 to 9, mapped to [-1, 1] as
    the bounds 0 to 10 of the scale are).
    """
    texts = text_columns(data, "wine_quality.csv")
    color = np.where(texts["color"] == "red", 1.0, -1.0)
    X = np.column_stack([color, bounded(texts, _WINE_NUMERIC)])
    quality = texts["quality"].astype(np.float64)
    y = np.where(quality >= 6.0, 1.0, -1.0) if target == "good" else quality / 5.0 - 1.0
    return Dataset("Wine", X, y, math.sqrt(X.shape[1]))


def letter(data: Path, *, all_classes: bool = False) -> Dataset:
    """Letter Recognition: first half of the alphabet against the second; 0 to 15 to [-1, 1].

    With `all_classes`, the targets are the letters' places in the alphabet.
    """
    *columns, letters = text_columns(data, "letter.csv").values()
    X = np.column_stack(columns).astype(np.float64) / 7.5 - 1.0
    y = np.where(letters <= "M", 1.0, -1.0)
    if all_classes:
        y = np.array([float(ord(one) - ord("A")) for one in letters])
    return Dataset("letter", X, y, math.sqrt(len(columns)))


def a9a(data: Path, file: str = "a9a.svm") -> Dataset:
    """Adult, binned and one-hot coded by LIBSVM: at most 14 of 123 indicators are one.

    `file` is that of the training rows or ``a9a.t.svm``.
    """
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(_existing(data, file)), n_features=123)
    return Dataset("a9a", np.ascontiguousarray(X.toarray()), y, math.sqrt(14.0))


def mnist(data: Path, *, all_classes: bool = False) -> Dataset:
    """5,000 digits: 5 and above against the rest; pixels in [0, 1], rows cut to the norm 10.

    With `all_classes`, the targets are the digits.

    Most digits have norms of 7 to 12; the bound was not read from these rows.
    """
    with np.load(_existing(data, "mnist_5k.npz")) as arrays:
        X, digit = arrays["X"] / 255.0, arrays["y"]
    y = digit.astype(np.float64) if all_classes else np.where(digit >= 5, 1.0, -1.0)
    return Dataset("MNIST-5k", X, y, 10.0)


# Columns of KDDCup99 in the order of its file: with text, and rates between 0 and 1; the others
# are counts, seconds or bytes, below 2^31.
_KDD_TEXT = (1, 2, 3)
_KDD_RATES = (*range(24, 31), *range(33, 41))
_KDD_DENIALS = ("back.", "land.", "neptune.", "pod.", "smurf.", "teardrop.")


def kddcup99(data: Path, *, largest: int = 10**9) -> Dataset:
    """KDD Cup 1999: is a connection an attempt to deny a service?

    ``kddcup.data`` as published, or its 10 % sample, ``kddcup99_10pct.csv``.  Rates as they are,
    counts n as log(1 + n) / log(1 + 2^31), a 0/1 column a category (of those in the file): a row
    has three ones and 38 numbers in [0, 1].  At most `largest` rows, at random.
    """
    file = "kddcup.data"
    try:
        _existing(data, file)
    except FileNotFoundError:
        file = "kddcup99_10pct.csv"
    with opened(data, file) as stream:
        n = sum(1 for _ in stream)
    kept = np.zeros(n, dtype=bool)
    kept[np.random.default_rng(0).permutation(n)[:largest]] = True
    texts: dict[int, list[str]] = {j: [] for j in (*_KDD_TEXT, 41)}
    numbers: list[str] = []
    with opened(data, file) as stream:
        for line, keep in zip(stream, kept, strict=True):
            if not keep:
                continue
            fields = line.rstrip().split(",")
            for j, found in texts.items():
                found.append(fields[j])
            numbers.append(",".join((fields[0], *fields[4:41])))
    table = np.loadtxt(numbers, delimiter=",", ndmin=2)
    columns = [0, *range(4, 41)]
    counts = np.array([j not in _KDD_RATES for j in columns])
    table[:, counts] = np.log1p(np.maximum(table[:, counts], 0.0)) / math.log1p(2.0**31)
    np.clip(table, 0.0, 1.0, out=table)
    parts = []
    for j in _KDD_TEXT:
        text = np.array(texts[j])
        parts.append((text[:, np.newaxis] == np.unique(text)).astype(np.float64))
    y = np.where(np.isin(texts[41], _KDD_DENIALS), 1.0, -1.0)
    return Dataset("KDDCup99", np.ascontiguousarray(np.hstack([table, *parts])), y, math.sqrt(41.0))


def ipums(data: Path, country: str) -> Dataset:
    """Census rows of Lee & Kifer 2018, which anybody may have and nobody pass on.

    ``IPUMS-BR.dat`` and ``IPUMS-US.dat``, see :func:`dpfast.datasets.load_ipums`; columns on [0, 1]
    by their ranges in the file, as in the paper.
    """
    from dpfast.datasets import load_ipums

    bunch = load_ipums(_existing(data, f"IPUMS-{country}.dat"))
    low, high = bunch.data.min(axis=0), bunch.data.max(axis=0)
    X = (bunch.data - low) / np.where(high > low, high - low, 1.0)
    y = np.where(bunch.target == bunch.classes[1], 1.0, -1.0)
    return Dataset(f"IPUMS-{country}", np.ascontiguousarray(X), y, math.sqrt(X.shape[1]))
