"""The experiments of Lee & Kifer 2018: DP-AGD and its rivals on Adult, Bank and KDDCup99."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import iteration_cost
from bench.arrange import curve, grouped, index, legend, mean, panels, pick, ticks
from bench.competitors import majority
from bench.harness import Document, Record, Run, scores
from bench.problems import Dataset, a9a, bank, ipums, kddcup99, randhie
from bench.report import Table, case, duration, plain, rows_of, value

NAME = "lee2018"
TITLE = "Adaptive budgets: DP-AGD and rivals (Lee & Kifer 2018)"
OURS = "dp-agd"
PAPER = "dp-agd, paper's settings"
ROUNDED = "dp-agd, huberized hinge"
BATCHED = "dp-agd, batches of 40,000"
OUTPERT = "OutPert, as then"
NONPRIVATE = "nonprivate"
# Label: solver and options; those that this build does not have are skipped.
METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    OURS: ("dp-agd", {}),
    PAPER: ("dp-agd", {"calibration": "paper"}),
    ROUNDED: ("dp-agd", {}),
    BATCHED: ("dp-agd", {"batch": 40_000}),
    OUTPERT: (
        "output-perturbation",
        {"mode": "iterate", "calibration": "paper", "noise": "gaussian", "alpha": "zhang2017"},
    ),
    "output-perturbation": ("output-perturbation", {}),
    "objective-perturbation": ("objective-perturbation", {}),
    "SGD-MA": ("dp-sgd", {"accountant": "rdp"}),
    "SGD-Adv": ("dp-sgd", {"calibration": "advanced"}),
    "dp-svrg": ("dp-svrg", {}),
    "privgene": ("privgene", {}),
    "dp-whitened-gd": ("dp-whitened-gd", {}),
    "dp-nag": ("dp-nag", {}),
}
COMPETITORS = {
    name: f"(epsilon, delta)-DP, add_or_remove_one where {solver} serves it"
    for name, (solver, _) in METHODS.items()
} | {
    NONPRIVATE: "none (not private): L-BFGS with a ridge of 1e-5",
    majority.NAME: majority.GUARANTEE,
}
LOSSES = {"logistic": "logistic", "svm": "hinge"}
# For solvers that need a smooth loss, and for two that are better off with it.
_SMOOTH = {"hinge": "huberized-hinge"}
_SMOOTH_FIRST = ("output-perturbation", OUTPERT, ROUNDED)
# Left out of quick runs, and with one run a fold around the paper's settings.
_SLOW = (PAPER, "privgene")
# These take more than a second a fit, and have one run a fold.
_LONG = (("Adult", "svm", PAPER), *(("Adult", task, "privgene") for task in LOSSES))
# What the paper does not have: few runs a fold.
_BESIDE = (ROUNDED, "dp-svrg", "dp-whitened-gd", "dp-nag")
# Of the table with enough rows alone.
_LARGE_ONLY = (BATCHED,)
# Rows with a smaller share of non-zeros are stored sparsely, which changes nothing but the time.
_SPARSE = 0.2
_DELTA, _KDD_DELTA = 1e-8, 1e-12
# Rows of the 10 % sample.
_KDD_SAMPLE = 494_021
_FIGURE = "effects"
_DESCENT = "noisy descent"
_COST = "seconds of a fit"
# Test accuracy in % and log-loss on the training rows, Bank, logistic, by earlier measurements.
_EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
REFERENCE: dict[str, tuple[str, ...]] = {
    "DP-AGD, its own code (not private as claimed)": (
        "84.6 / .709", "85.7 / .553", "88.9 / .351", "89.0 / .333", "89.2 / .303", "89.4 / .300",
    ),
    "DP-AGD, its own code, repaired": ("-", "85.3 / .573", "-", "87.1 / .390", "-", "89.1 / .288"),
    "best of a grid of private NAG (tuned on the answers)": (
        "88.4 / .329", "88.7 / .319", "89.1 / .303", "89.3 / .287", "89.7 / .269", "89.9 / .254",
    ),
}  # fmt: skip
# Seconds of a fit on Bank by the published code.
_PUBLISHED_SECONDS = 11.6
# Figure 1: what is varied around the defaults of the paper's calibration or of ours.
EFFECTS: dict[str, tuple[float, ...]] = {
    "splits": (10, 30, 60, 100, 200),
    "gamma": (0.1, 0.2, 0.5, 1.0),
    "clip_norm": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    "loss_clip": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
}
_EFFECT_NOTES = {
    "clip_norm": "Beyond the rows' norm nothing is clipped, and the option changes nothing; far "
    "below it the clipped sum leads elsewhere, the further the more steps there are.",
    "loss_clip": "Below log 2, the loss at 0, the line search sees little but clipped losses.",
}
# Table 1: norm of the gradient, norm of the noisy one, objective, at iterations 0 to 10; the noise
# is as long, as the root of a mean square.
_TABLE_1 = (
    (0.72558, 0.91250, 0.69315), (0.20550, 0.52437, 0.53616), (0.15891, 0.54590, 0.46428),
    (0.11864, 0.49258, 0.43678), (0.09715, 0.50745, 0.41852), (0.14050, 0.52271, 0.41122),
    (0.12380, 0.48218, 0.38903), (0.06237, 0.53640, 0.38175), (0.05717, 0.47605, 0.37865),
    (0.05625, 0.55129, 0.37814), (0.05241, 0.51636, 0.37542),
)  # fmt: skip
_TABLE_1_NOISE = 0.50119
# Of the line search of the noisy descent.
_TABLE_1_STEPS = (0.0, *np.geomspace(0.01, 10.0, 31).tolist())


@dataclass(frozen=True)
class Sizes:
    """Budgets, folds used of five, repetitions with other noise, Figure 1's budgets, and so on.

    `slow` are the paper's settings and PrivGene.  `beside` are repetitions of methods that the
    paper does not have.  `kdd_rows` of KDDCup99, drawn at random, are used, on one fold and with
    one repetition.
    """

    epsilons: tuple[float, ...] = _EPSILONS
    folds: int = 5
    repeats: int = 20
    effect_epsilons: tuple[float, ...] = (0.1, 0.8)
    slow: bool = True
    cost_shapes: tuple[tuple[int, int], ...] = ((1_000_000, 20), (500_000, 120))
    largest: int = 10**9
    effects: int = 6
    effect_repeats: int = 2
    descents: int = 20
    kdd_rows: int = 500_000
    kdd_epsilons: tuple[float, ...] = (0.05, 0.1, 0.4, 1.6)
    beside: int = 2


FULL = Sizes()
QUICK = Sizes(
    epsilons=(0.1, 0.8),
    folds=1,
    repeats=1,
    beside=1,
    effect_epsilons=(0.4,),
    slow=False,
    cost_shapes=((100_000, 20),),
    effects=3,
    effect_repeats=1,
    descents=3,
    kdd_rows=20_000,
    kdd_epsilons=(0.4,),
)


@dataclass
class _Part:
    """Rows to train on and to test on, and the problems made of them."""

    train: Dataset
    test: Dataset
    rows: tuple[Any, NDArray[np.float64]] | None = None
    problems: dict[str, Any] = field(default_factory=dict)

    def problem(self, loss: str) -> Any:
        from dpfast import Problem

        if loss not in self.problems:
            if self.rows is None:
                self.rows = _rows(self.train)
            self.problems[loss] = Problem(*self.rows, loss, data_norm=self.train.data_norm)
        return self.problems[loss]


def run(settings: Run, sizes: Sizes) -> list[Record]:
    from dpfast.solvers import SOLVERS

    tables = list(_tables(settings, sizes))
    records: list[Record] = []
    for data in tables:
        large = data.name == _KDD
        parts = list(_folds(data, 1 if large else sizes.folds))
        for task in LOSSES:
            settings.say(f"  {data.name}, {task}")
            for name, (solver, _) in METHODS.items():
                if solver not in SOLVERS:
                    settings.note(f"{name} left out: this build has no solver {solver!r}.")
                elif _takes_part(name, task, large, sizes):
                    records += _over_epsilons(settings, data.name, task, parts, name, sizes)
            records += _yardsticks(data.name, task, LOSSES[task], parts)
    varied = next((data for data in tables if data.name == "Adult"), tables[0])
    records += _effects(settings, varied, sizes)
    records += _noisy_descent(varied, sizes)
    records += _fit_times(settings, [data for data in tables if data.name != _KDD])
    return records + iteration_cost.measure(settings, (OURS,), sizes.cost_shapes)


def _takes_part(name: str, task: str, large: bool, sizes: Sizes) -> bool:
    if name == ROUNDED and task != "svm":
        return False
    if name in _SLOW and not sizes.slow:
        return False
    # "Its sensitivity analysis requires using full-batch gradient": no OutPert there in the paper.
    return not (large and name in ("privgene", OUTPERT)) and (large or name not in _LARGE_ONLY)


def _over_epsilons(
    settings: Run, group: str, task: str, parts: list[_Part], name: str, sizes: Sizes
) -> list[Record]:
    large, repeats = group == _KDD, sizes.beside if name in _BESIDE else sizes.repeats
    if large or (group, task, name) in _LONG:
        repeats = 1
    records = []
    for epsilon in sizes.kdd_epsilons if large else sizes.epsilons:
        budget = epsilon, _KDD_DELTA if large else _DELTA
        record = _score(settings, group, task, parts, name, METHODS[name], budget, repeats)
        if record is None:
            break
        records.append(record)
    return records


def _effects(settings: Run, data: Dataset, sizes: Sizes) -> list[Record]:
    """Figure 1, around our defaults and around the paper's settings."""
    parts, records = list(_folds(data, sizes.folds)), []
    for name in (OURS, PAPER) if sizes.slow else (OURS,):
        repeats = 1 if name in _SLOW else sizes.effect_repeats
        solver, fixed = METHODS[name]
        for option, values in EFFECTS.items():
            settings.say(f"  effect of {option} on {data.name}, {name}")
            for setting in values[: sizes.effects]:
                for epsilon in sizes.effect_epsilons:
                    given = {option: int(setting) if option == "splits" else setting}
                    method, budget = (solver, {**fixed, **given}), (epsilon, _DELTA)
                    record = _score(
                        settings, _FIGURE, "logistic", parts, name, method, budget, repeats
                    )
                    assert record is not None
                    case = {**record.case, "table": data.name, "option": option, "value": setting}
                    records.append(Record(_FIGURE, case, name, record.values))
    return records


def _tables(settings: Run, sizes: Sizes) -> Iterator[Dataset]:
    loaders: dict[str, Callable[[Path], Dataset]] = {
        "Adult": _adult,
        "Bank": bank,
        **{
            f"IPUMS-{country}, which may not be passed on,": partial(ipums, country=country)
            for country in ("US", "BR")
        },
        _KDD: partial(kddcup99, largest=sizes.kdd_rows),
    }
    for data in list(settings.tables(loaders)) or [randhie()]:
        X, y = data.X[: sizes.largest].copy(), data.y[: sizes.largest]
        # The paper scales numbers to [0, 1]; indicators stay, and tables that are scaled so.
        numeric = np.any((data.X != 0.0) & (data.X != 1.0), axis=0) & (data.X.min() < 0.0)
        X[:, numeric] = 0.5 * (X[:, numeric] + 1.0)
        yield replace(data, X=X, y=y)


_KDD = "KDDCup99"


def _adult(data: Path) -> Dataset:
    """LIBSVM's coding, of which the paper has 124 columns with the constant, and all its rows."""
    train, test = a9a(data), a9a(data, "a9a.t.svm")
    X, y = np.vstack([train.X, test.X]), np.concatenate([train.y, test.y])
    return Dataset("Adult", X, y, train.data_norm)


def _folds(data: Dataset, folds: int) -> Iterator[_Part]:
    order = np.random.default_rng(0).permutation(len(data.y))
    for fold in range(folds):
        test = order[fold::5]
        train, test = (replace(data, X=data.X[rows], y=data.y[rows])
                       for rows in (np.setdiff1d(order, test), test))  # fmt: skip
        yield _Part(train, test)


def _score(
    settings: Run,
    group: str,
    task: str,
    parts: list[_Part],
    name: str,
    method: tuple[str, Mapping[str, Any]],
    promise: tuple[float, float],
    repeats: int,
) -> Record | None:
    """Means over folds and repetitions; None where the solver refuses the task."""
    from dpfast import Budget, plan
    from dpfast.losses import Loss
    from dpfast.solvers import SOLVERS

    solver, options = method
    (epsilon, delta), loss = promise, LOSSES[task]
    relations = SOLVERS[solver].relations
    relation = "add_or_remove_one" if "add_or_remove_one" in relations else relations[0]
    if relation != "add_or_remove_one":
        settings.note(f"{name} promises {relation}, the stronger relation.")
    losses = list(dict.fromkeys((loss, _SMOOTH.get(loss, loss))))
    if name in _SMOOTH_FIRST:
        losses.reverse()
    given = {"neighboring_relation": relation, **options}
    budget = Budget(epsilon, delta)
    shape = parts[0].problem(loss).shape
    for used in losses:
        try:
            plan(replace(shape, loss=Loss(used)), solver, budget, **given)
        except (ValueError, TypeError) as error:
            refusal = str(error)
            continue
        break
    else:
        settings.note(f"{name} left out for {task}: {refusal}")
        return None
    if used != loss:
        settings.note(f"{name} takes {used} in place of {loss}.")
    found = [
        _fit(part, (loss, used), solver, budget, 1000 * fold + repeat, given)
        for repeat in range(repeats)
        for fold, part in enumerate(parts)
    ]
    case = {"task": task, "epsilon": epsilon, "delta": delta}
    return Record(group, case, name, _summary(found))


def _fit(
    part: _Part,
    losses: tuple[str, str],
    solver: str,
    budget: Any,
    seed: int,
    options: Mapping[str, Any],
) -> tuple[float, float, float]:
    """Accuracy, objective and seconds; the first of the losses judges, the second is minimized."""
    from dpfast import solve

    problem = part.problem(losses[1])
    start = time.perf_counter()
    result = solve(problem, solver, budget, random_state=seed, **options)
    seconds = time.perf_counter() - start
    return (*_evaluate(result.w, losses[0], part), seconds)


def _rows(data: Dataset) -> tuple[Any, NDArray[np.float64]]:
    from scipy.sparse import csr_array

    few = np.count_nonzero(data.X) < _SPARSE * data.X.size
    return csr_array(data.X) if few else data.X, data.y


def _evaluate(w: NDArray[np.float64], loss: str, part: _Part) -> tuple[float, float]:
    test = part.test
    right = (test.X @ w[:-1] + w[-1] > 0.0) == (test.y > 0.0)
    return float(np.mean(right)), float(part.problem(loss).value_and_gradient(w, 0.0)[0])


def _summary(found: list[tuple[float, float, float]]) -> dict[str, float]:
    accuracy, objective, seconds = zip(*found, strict=True)
    values = scores(accuracy=accuracy, objective=objective)
    return {"runs": len(found), **values, "fit_seconds": min(seconds)}


def _yardsticks(group: str, task: str, loss: str, parts: list[_Part]) -> list[Record]:
    from bench.competitors import Task
    from dpfast.objectives import Erm
    from dpfast.optimizers import OPTIMIZERS

    made: dict[str, list[tuple[float, float, float]]] = {NONPRIVATE: [], majority.NAME: []}
    for part in parts:
        train = part.train
        problem = part.problem(_SMOOTH.get(loss, loss))
        best = OPTIMIZERS["lbfgs"](Erm(problem, 1e-5), tolerance=1e-6).w
        constant = majority.fit(Task(train.X, train.y, train.data_norm))
        for name, w in ((NONPRIVATE, best), (majority.NAME, constant)):
            made[name].append((*_evaluate(w, loss, part), 0.0))
    return [Record(group, {"task": task}, name, _summary(found)) for name, found in made.items()]


def _noisy_descent(data: Dataset, sizes: Sizes) -> list[Record]:
    """Table 1: steps along the negative gradient plus long noise; **not private**.

    The paper does not say how long the steps were: here each is the best of a grid, by the
    objective itself.
    """
    from dpfast import Problem

    problem = Problem(*_rows(data), "logistic", data_norm=data.data_norm)
    found = []
    for seed in range(sizes.descents):
        rng, w = np.random.default_rng(seed), np.zeros(problem.shape.dim)
        for t in range(len(_TABLE_1)):
            value, gradient = problem.value_and_gradient(w, 0.0)
            noise = rng.standard_normal(len(w)) * (_TABLE_1_NOISE / math.sqrt(len(w)))
            noisy = gradient + noise
            found.append((t, np.linalg.norm(gradient), np.linalg.norm(noisy), value))
            margins, direction = problem.margins(w), problem.margins(noisy)
            losses = [problem.shape.loss(margins - step * direction, problem.target)[0].mean()
                      for step in _TABLE_1_STEPS]  # fmt: skip
            w = w - _TABLE_1_STEPS[int(np.argmin(losses))] * noisy
    records = []
    for t in range(len(_TABLE_1)):
        here = [entry[1:] for entry in found if entry[0] == t]
        means = np.mean(here, axis=0)
        values = dict(zip(("gradient", "noisy", "objective"), map(float, means), strict=True))
        case = {"table": data.name, "t": t}
        records.append(Record(_DESCENT, case, "noisy gradient descent", values))
    return records


def _fit_times(settings: Run, tables: list[Dataset]) -> list[Record]:
    """Seconds of whole fits by DP-AGD."""
    from dpfast import Budget, Problem, solve

    settings.say("  seconds of a fit")
    records = []
    for data in tables:
        problem = Problem(*_rows(data), "logistic", data_norm=data.data_norm)
        for epsilon in (0.1, 1.0):
            best, steps = math.inf, 0
            for seed in range(max(3, settings.repeat)):
                # Of the processor: other processes on the machine should not count.
                start = time.process_time()
                result = solve(problem, OURS, Budget(epsilon, _DELTA), random_state=seed)
                best = min(best, time.process_time() - start)
                steps = max(steps, len(result.history["step"]))
            case = {"table": data.name, "epsilon": epsilon}
            records.append(Record(_COST, case, OURS, {"seconds": best, "directions": steps}))
    return records


# ---- report -------------------------------------------------------------------------------------


def _on_tables(document: Document) -> dict[tuple[str, str], list[Record]]:
    """Records of Figures 2 to 4, by table and task."""
    here = (r for r in document.records if "task" in r.case and r.group != _FIGURE)
    return grouped(here, "group", "task")


def _epsilons_of(records: Iterable[Record]) -> list[float]:
    return [epsilon for epsilon in grouped(records, "epsilon") if epsilon is not None]


def _cell(record: Record | None) -> str:
    return (
        f"{mean(record, percent='accuracy')} / {record.values['objective']:.3f}" if record else "-"
    )


def tables(document: Document) -> list[Table]:
    return [
        *(_score_table(document, *key, here) for key, here in _on_tables(document).items()),
        *_claim_table(document),
        *_effect_tables(document),
        *_descent_table(document),
        _fit_table(document),
        iteration_cost.table(document, {OURS: 2.0}),
    ]


def _score_table(document: Document, group: str, task: str, here: list[Record]) -> Table:
    epsilons, by = _epsilons_of(here), index(here, "competitor", "epsilon")
    rows = [
        (name, plain(found[0].values["runs"]),
         *(_cell(by.get((name, None)) or by.get((name, e))) for e in epsilons))
        for name, found in grouped(here, "competitor").items()
    ]  # fmt: skip
    delta = next(r.case["delta"] for r in here if "delta" in r.case)
    text = (
        f"Test accuracy in % ± standard error / mean {LOSSES[task]} loss on the training rows; "
        f"runs are folds times repetitions; delta = {delta:g}, add_or_remove_one."
    )
    if (group, task) == ("Bank", "logistic"):
        text += " In brackets: earlier measurements, on one split."
        rows += [
            (f"[{name}]", "1", *(dict(zip(_EPSILONS, cells, strict=True)).get(e, "-")
                                 for e in epsilons))
            for name, cells in REFERENCE.items()
        ]  # fmt: skip
    if group == _KDD:
        used = plain(min(document.sizes["kdd_rows"], _KDD_SAMPLE))
        text += f" {_ON_KDD.format(rows=used)}{_ON_KINKS if task == 'svm' else ''}"
    header = ("method", "runs", *(f"epsilon = {e:g}" for e in epsilons))
    return Table(f"{group}, {task}", text, header, rows)


_ON_KDD = (
    "Figure 4, on {rows} rows drawn at random, of the 10 % sample where the whole file is not "
    "there; the paper has 4,898,431, among which noise weighs less at the same epsilon. Denials of "
    "service are four fifths of the sample."
)
_ON_KINKS = (
    " With the paper's settings more budget may be worse: at a kink of the hinge loss no step of "
    "the grid along the gradient, however exact, lowers the loss; the algorithm blames the noise "
    "and spends what it has left on better gradients."
)
# Whose noise and accounting are those that the paper's authors had.
_AS_THEN = (OUTPERT, "SGD-Adv", "privgene")
_SINCE = ("objective-perturbation", "output-perturbation", "SGD-MA")


def _claim_table(document: Document) -> list[Table]:
    """What the paper says of its smallest epsilon, beside what is found here."""
    rows = []
    for (group, task), here in _on_tables(document).items():
        least = min(_epsilons_of(here))
        of = index(pick(here, epsilon=least), "competitor")
        if PAPER in of:
            best = (
                max((of[n] for n in names if n in of), key=lambda r: r.values["accuracy"])
                for names in (_AS_THEN, _SINCE)
            )
            shown = (f"{r.competitor}: {mean(r, percent='accuracy')}" for r in best)
            ours = (mean(of.get(name), percent="accuracy") for name in (PAPER, OURS))
            rows.append((group, task, f"{least:g}", *ours, *shown))
    header = ("table", "task", "epsilon", PAPER, OURS, "best with the noise of then",
              "best with the analysis of today")  # fmt: skip
    return [Table("At the smallest epsilon", _ON_THE_CLAIM, header, rows)] if rows else []


_ON_THE_CLAIM = (
    "The paper finds DP-AGD ahead of all others at epsilon = 0.05, except on Bank. Test accuracy "
    "in %. One rival could not take part there: the moments accountant of SGD-MA tried orders up "
    "to 32, and order λ promises no epsilon below log(1/δ)/λ, which is 0.5756 at λ = 32 and δ = "
    "1e-8: the price that the paper reports for a single iteration. With all orders it has no such "
    "floor. The published code of DP-AGD subtracts noise that must be added, which is not private "
    "as claimed, and its accuracy here is that of the noise which is."
)


def _effect_tables(document: Document) -> list[Table]:
    made = []
    for option, here in grouped(pick(document.records, group=_FIGURE), "option").items():
        lines = list(grouped(here, "competitor", "epsilon"))
        by = index(here, "competitor", "epsilon", "value")
        made.append(
            Table(
                f"Effect of {option}",
                f"{here[0].case['table']}, logistic: accuracy ± standard error / training "
                f"log-loss; the other options at their defaults. {_EFFECT_NOTES.get(option, '')}",
                (option, *(f"{name}, epsilon = {e:g}" for name, e in lines)),
                [
                    (f"{value:g}", *(_cell(by.get((*line, value))) for line in lines))
                    for value in grouped(here, "value")
                ],
            )
        )
    return made


def _descent_table(document: Document) -> list[Table]:
    """The paper's numbers in brackets where the data are its own."""
    rows = []
    for r in pick(document.records, group=_DESCENT):
        t = int(r.case["t"])
        cells = [f"{r.values[key]:.5f}" for key in ("gradient", "noisy", "objective")]
        if r.case["table"] == "Adult":
            cells = [
                f"{ours} [{theirs:.5f}]" for ours, theirs in zip(cells, _TABLE_1[t], strict=True)
            ]
        rows.append((str(t), *cells))
    text = (
        f"Logistic regression on all rows, mean of {document.sizes['descents']} runs from 0, "
        f"Gaussian noise of root mean square norm {_TABLE_1_NOISE}; in brackets the paper's "
        "one run. The first row agrees to five digits, so the data are the paper's. It does "
        "not say its steps: here each is the best of a grid by the objective itself. Not "
        "private: it shows true norms."
    )
    title = "Table 1: directions far noisier than the gradient still descend"
    header = ("t", "norm of the gradient", "norm of gradient plus noise", "objective")
    return [Table(title, text, header, rows)] if rows else []


def _fit_table(document: Document) -> Table:
    def faster(r: Record) -> str:
        ratio = _PUBLISHED_SECONDS / r.values["seconds"]
        return f"{ratio:.0f} x (target 20 x)" if r.case["table"] == "Bank" else ""

    return rows_of(
        "Seconds of a fit by DP-AGD",
        "Logistic, processor time, least of several, on one thread. The published code takes "
        f"{_PUBLISHED_SECONDS} s on Bank.",
        pick(document.records, group=_COST),
        {
            **{key: case(key) for key in ("table", "epsilon")},
            "directions": value("directions"),
            "fit": value("seconds", duration),
            "published over ours": faster,
        },
    )


# ---- figures ------------------------------------------------------------------------------------

_METRICS = {"accuracy": "test accuracy", "objective": "objective"}


def draw(document: Document, figure: Any) -> None:
    """Figures 2 to 4 of the paper: a row a table and task."""
    found = [
        (key, metric, here) for key, here in _on_tables(document).items() for metric in _METRICS
    ]
    axes = panels(figure, len(found), 2, (6.0, 3.4))
    for axis, ((group, task), metric, here) in zip(axes, found, strict=True):
        _draw_methods(axis, here, metric)
        axis.set_title(f"{group}, {task}", fontsize=10)
    legend(figure, 5)


def _draw_methods(axis: Any, here: list[Record], metric: str) -> None:
    for name, records in grouped(here, "competitor").items():
        if name not in METHODS:
            style, level = "-" if name == NONPRIVATE else ":", records[0].values[metric]
            axis.axhline(level, label=name, linewidth=0.9, linestyle=style, color="0.3")
            continue
        place = list(METHODS).index(name)
        curve(axis, records, "epsilon", metric, bars=True, fmt="o-" if place < 10 else "s--",
              markersize=3, linewidth=2.0 if name == OURS else 1.0, color=f"C{place % 10}",
              label=name)  # fmt: skip
    ticks(axis, _epsilons_of(here))
    axis.set(xlabel="epsilon", ylabel=_METRICS[metric])
    if metric == "objective":
        axis.set_yscale("log")


def _draw_effects(document: Document, figure: Any) -> None:
    """Figure 1: accuracy and objective over each of the parameters."""
    found = grouped(pick(document.records, group=_FIGURE), "option")
    axes = panels(figure, 2 * len(found), len(found), (3.0, 2.7), sharey="row")
    for k, axis in enumerate(axes):
        option, here = list(found.items())[k % len(found)]
        metric = list(_METRICS)[k // len(found)]
        colors = list(grouped(here, "epsilon"))
        for (name, epsilon), line in grouped(here, "competitor", "epsilon").items():
            curve(axis, line, "value", metric, fmt="o-" if name == OURS else "s--", markersize=3,
                  color=f"C{colors.index(epsilon)}",
                  label=f"{name}, epsilon = {epsilon:g}")  # fmt: skip
        ticks(axis, grouped(here, "value"))
        axis.set(xlabel=option, ylabel="" if k % len(found) else _METRICS[metric])
        if metric == "objective":
            axis.set_yscale("log")
    legend(figure)


FIGURES: dict[str, Callable[[Document, Any], None]] = {
    "Figure 1: effects of the parameters of DP-AGD": _draw_effects,
}
