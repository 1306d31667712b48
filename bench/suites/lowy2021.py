"""Lowy & Razaviyayn 2021: Tables 1 to 6 against measured errors, tilted risks, robustness.

The paper has no experiments.  What it prints are bounds: they stand beside what was measured on
data of their class.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.arrange import curve, grouped, index, legend, mean, panels, pick, spread, ticks
from bench.harness import Document, Record, Run, scores
from bench.problems import Dataset, adult, letter, mnist, randhie, synthetic, text_columns
from bench.report import Table, case, plain, rows_of, value

NAME = "lowy2021"
TITLE = "Output perturbation: Tables 1 to 6 against measured errors (Lowy & Razaviyayn 2021)"
OURS, DEFAULT = "output perturbation", "defaults"
ZHANG, OBJECTIVE = "gradient descent, perturbed", "objective perturbation"
PRIVATE, NONPRIVATE = "private", "nonprivate"
COMPETITORS = {
    OURS: "epsilon-DP or (epsilon, delta)-DP (replace one): the theorem's ridge and noise",
    DEFAULT: "the same guarantee: ridge, tolerance and noise that dpfast takes by default",
    ZHANG: "the same guarantee: T, steps, sensitivity and noise of Zhang et al. 2017",
    OBJECTIVE: "the same guarantee: objective perturbation at dpfast's defaults",
    PRIVATE: "(epsilon, delta)-DP (replace one); its ridge was tuned on the answers",
    NONPRIVATE: "none (not private): a ridge of 1e-4",
}
# Groups of records.
_BOUND, _RATE, _RIVAL = "bound", "rate", "rival"
_FAIR, _ROBUST = "fairness", "robustness"
_HINGE, _SADDLE = "adversarial hinge", "saddle"
CLASSES = {
    "F": "Lipschitz, strongly convex",
    "H": "and smooth",
    "G": "Lipschitz, convex",
    "J": "and smooth",
    "TERM": "tilted risk",
    "smooth TERM": "and smooth",
}
_ERM = ("F", "H", "G", "J")
_SMOOTH = ("H", "J", "smooth TERM")
_STRONGLY = ("F", "H", "TERM", "smooth TERM")
_MU = 0.1
_DELTA = 1e-6
_DIM = 4
# Tilts of Table 1's tilted risk, and of the function of which no more than L, µ and β is declared.
_TILT, _GENERAL_TILT = 1.0, 4.0
# Stands for the missing ridge where the minimum of a convex function is computed: with and without
# a second derivative.
_TINY_RIDGE, _KINK_RIDGE = 1e-6, 1e-5
_FREE_RIDGE = 1e-4
_HINGE_EPSILON = 4.0

Rows = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """Rows, runs, samples of a population, and what is tried on real tables.

    `general` are budgets per dimension for Tables 1 and 2, whose bounds do not depend on n.
    """

    rows: tuple[int, ...] = (1000, 4000, 16_000, 64_000)
    general: tuple[float, ...] = (2.0, 8.0, 32.0, 128.0, 512.0)
    runs: int = 100
    samples: int = 20
    population: int = 100_000
    rival_runs: int = 10
    tilts: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
    fair_epsilons: tuple[float, ...] = (1.0, 4.0, 16.0)
    fair_ridges: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    radii: Mapping[str, tuple[float, ...]] = dataclasses.field(
        default_factory=lambda: {
            "l2": (0.0, 0.025, 0.05, 0.1, 0.15, 0.2),
            "linf": (0.0, 0.005, 0.01, 0.02, 0.035, 0.05),
        }
    )
    robust_epsilons: tuple[float, ...] = (1.0, 4.0, 16.0)
    robust_ridges: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    splits: int = 3
    draws: int = 30
    largest: int = 10**9


FULL = Sizes()
QUICK = Sizes(
    rows=(1000, 8000),
    general=(8.0, 128.0),
    runs=20,
    samples=5,
    population=20_000,
    rival_runs=3,
    tilts=(0.0, 0.3, 3.0),
    fair_epsilons=(4.0,),
    fair_ridges=(0.01, 0.1, 1.0),
    radii={"l2": (0.0, 0.1), "linf": (0.0, 0.02)},
    robust_epsilons=(4.0,),
    robust_ridges=(0.03, 0.3),
    splits=1,
    draws=10,
)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records = []
    for delta in (0.0, _DELTA):
        pure = delta == 0.0
        settings.say(f"  Tables 1 to 6, delta = {delta:g}")
        records += _general(sizes, 1 if pure else 2, delta)
        records += _tilted(sizes, 1 if pure else 2, delta)
        records += _population(sizes, 3 if pure else 4, delta)
        records += _empirical(sizes, 5 if pure else 6, delta)
    records += _saddles(sizes)
    records += _fairness(settings, sizes)
    records += _robustness(settings, sizes)
    return records + _adversarial_hinge(settings, sizes)


# ---- Tables 1 to 6 ------------------------------------------------------------------------------


def _records(n: int, seed: int) -> tuple[Rows, Vector]:
    """Rows on the unit sphere, so L = 1 without an intercept; labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, _DIM))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-12)
    y = np.where(X @ np.linspace(3.0, -3.0, _DIM) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return X, y


def _problem(X: Rows, y: Vector, loss: str) -> Any:
    from dpfast import Problem

    return Problem(X, y, loss, data_norm=1.0, intercept=0.0)


@dataclass(frozen=True)
class _Case:
    """One row of a table on one data set: the class's constants, and the budget.

    `smooth` says which of the paper's rules and bounds is used; the objective may have more.
    """

    table: int
    name: str
    n: int
    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        return _MU if self.name in _STRONGLY else 0.0

    @property
    def smooth(self) -> bool:
        return self.name in _SMOOTH

    @property
    def risk(self) -> str:
        return "population" if self.table in (3, 4) else "erm"

    def setting(self, shape: Any, radius: float, *, mean: bool = True) -> Any:
        """The constants as the paper counts them, from the public shape of an objective."""
        from dpfast.objectives import TiltedShape
        from dpfast.theory import lowy2021

        spread = 1.0
        if isinstance(shape, TiltedShape):
            moved = shape.minimizer_sensitivity("replace_one") * shape.alpha
            spread = max(1.0, self.n * moved / (2.0 * shape.lipschitz))
        smoothness = math.inf
        if self.smooth:
            ridge = 0.0 if self.mu else shape.strong_convexity
            smoothness = shape.smoothness - ridge
        return lowy2021.Setting(
            shape.lipschitz, radius, shape.dim, self.n, self.epsilon, self.delta, self.mu,
            smoothness, mean=mean, spread=spread,
        )  # fmt: skip

    def plan(self, data: Any, *, paper: bool = False, **options: Any) -> Any:
        """Of output perturbation, with the paper's noise or dpfast's."""
        from dpfast import Budget, plan

        if paper:
            pure = self.delta == 0.0
            options["noise"] = "l2-laplace" if pure else "gaussian"
            options["calibration"] = "analytic" if pure else "zhao"
        return plan(data, "output-perturbation", Budget(self.epsilon, self.delta), **options)

    def record(self, group: str, name: str, values: dict[str, float]) -> Record:
        case = {"table": self.table, "class": self.name, "n": self.n, "epsilon": self.epsilon,
                "delta": self.delta}  # fmt: skip
        return Record(group, case, name, values)

    def records(self, setting: Any, errors: Sequence[float], **more: float) -> list[Record]:
        """Measured errors beside the theorem, and the table's other rows."""
        from bench.papers import lowy2021
        from dpfast.theory import lowy2021 as lowy2021_theory

        found = lowy2021.guarantee(setting, smooth=self.smooth, risk=self.risk)
        _, _, runtime = lowy2021.effort(setting, smooth=self.smooth, risk=self.risk)
        values = {
            **spread(errors),
            "ratio": setting.ratio,
            "bound": found.exact_risk,
            "trivial": setting.lipschitz * setting.radius,
            "runtime": runtime / (setting.n_samples * setting.dim),
            "applies": float(found.applies),
            **more,
        }
        if self.table in (5, 6):
            values["lower"] = lowy2021_theory.lower_bound(setting)
        if self.name in _ERM:
            values["stated"] = lowy2021.stated_risk(setting, smooth=self.smooth, risk=self.risk)
        records = [self.record(_BOUND, OURS, values)]
        for row in lowy2021.ROWS:
            if (row.table, row.function_class) == (self.table, self.name):
                rate = {"rate": row.risk(setting)}
                if row.bound is not None and row.condition(setting):
                    rate["bound"] = row.bound(setting)
                records.append(self.record(_RATE, row.reference, rate))
        return records


def _draws(settled: Any, point: Vector, seeds: range) -> list[Vector]:
    """Runs that share what comes before the noise, which is the same on every run."""
    from bench.released import perturbed

    return [perturbed(settled, point, seed) for seed in seeds]


def _minimize(settled: Any, objective: Any) -> tuple[Vector, float]:
    """Certified weights, and the passes over the data that they took."""
    from dpfast.queries.minimizer import certified_minimizer

    settings = settled.settings
    found = certified_minimizer(objective, settings.gradient_tolerance, settings.optimizer)
    return found.w, float(found.passes)


def _best(objective: Any) -> Vector:
    from dpfast.optimizers import OPTIMIZERS

    smooth = math.isfinite(objective.smoothness)
    name = "newton" if smooth else "smoothing"
    best: Vector = OPTIMIZERS[name](objective, tolerance=1e-9 if smooth else 1e-5).w
    return best


def _excess(make: Callable[[float], Any], mu: float) -> tuple[Vector, Callable[[Vector], float]]:
    """The minimizer of ``make(mu)``, and the excess over it; `make` takes a positive ridge."""
    smooth = math.isfinite(make(1.0).smoothness)
    ridge = mu or (_TINY_RIDGE if smooth else _KINK_RIDGE)
    objective = make(ridge)
    best = _best(objective)

    def value(w: Vector) -> float:
        return float(objective.value_and_gradient(w)[0] + 0.5 * (mu - ridge) * w @ w)

    optimum = value(best)
    return best, lambda w: value(w) - optimum


def _theorem_ridge(case: _Case, at: Callable[[float], Any]) -> float:
    """The ridge that the theorem asks for, given the setting at a ridge (a fixed point of both)."""
    from dpfast.theory import lowy2021

    alpha = 1.0
    for _ in range(100):
        asked = lowy2021.ridge(at(alpha), smooth=case.smooth, risk=case.risk)
        if abs(asked - alpha) <= 1e-12 * alpha:
            break
        alpha = math.sqrt(alpha * asked)
    return alpha


def _empirical(sizes: Sizes, table: int, delta: float) -> list[Record]:
    """Tables 5 and 6: means over records."""
    from bench.released import unperturbed
    from dpfast import Budget, solve
    from dpfast.objectives import Erm, ErmShape

    records = []
    for n in sizes.rows:
        X, y = _records(n, 0)
        for name in _ERM:
            case = _Case(table, name, n, 1.0, delta)
            problem = _problem(X, y, "logistic" if case.smooth else "hinge")
            best, excess = _excess(partial(Erm, problem), case.mu)
            radius = float(np.linalg.norm(best))
            setting = case.setting(ErmShape(problem.shape, case.mu or 1.0), radius)
            alpha = case.mu or _theorem_ridge(case, lambda _, setting=setting: setting)
            shape = ErmShape(problem.shape, alpha)
            setting = case.setting(shape, shape.minimizer_norm if case.mu else radius)

            def errors(settled: Any, point: Vector, excess: Any = excess) -> list[float]:
                return [excess(w) for w in _draws(settled, point, range(sizes.runs))]

            settled = case.plan(problem, paper=True, alpha=alpha)
            point, passes = _minimize(settled, Erm(problem, alpha))
            records += case.records(setting, errors(settled, point), passes=passes, ridge=alpha)
            rivals: dict[str, list[float]] = {}
            settled = case.plan(problem, alpha=case.mu or None, minimizer_norm=radius)
            if settled.shape.alpha != alpha:
                point, _ = _minimize(settled, Erm(problem, settled.shape.alpha))
            rivals[DEFAULT] = errors(settled, point)
            if case.smooth:
                settled = case.plan(problem, mode="iterate", alpha=case.mu, minimizer_norm=radius,
                                    calibration="paper")  # fmt: skip
                rivals[ZHANG] = errors(settled, unperturbed(settled, problem))
                given = {"alpha": case.mu} if case.mu else {}
                rivals[OBJECTIVE] = [
                    excess(solve(problem, OBJECTIVE.replace(" ", "-"), Budget(1.0, delta),
                                 random_state=seed, **given).w)
                    for seed in range(sizes.rival_runs)
                ]  # fmt: skip
            records += [case.record(_RIVAL, rival, spread(e)) for rival, e in rivals.items()]
    return records


def _population(sizes: Sizes, table: int, delta: float) -> list[Record]:
    """Tables 3 and 4: samples of a finite population, whose risk is known."""
    from dpfast.objectives import Erm, ErmShape

    X, y = _records(sizes.population, 1)
    records = []
    for name in _ERM:
        loss = "logistic" if name in _SMOOTH else "hinge"
        whole = _problem(X, y, loss)
        mu = _MU if name in _STRONGLY else 0.0
        best, excess = _excess(partial(Erm, whole), mu)
        for n in sizes.rows:
            case = _Case(table, name, n, 1.0, delta)
            shape = ErmShape(dataclasses.replace(whole.shape, n_samples=n), mu or 1.0)
            told = shape.minimizer_norm if mu else float(np.linalg.norm(best))
            setting = case.setting(shape, told)
            alpha = mu or _theorem_ridge(case, lambda _, setting=setting: setting)
            rng, errors, passes = np.random.default_rng(2), [], 0.0
            for seed in range(sizes.samples):
                drawn = rng.integers(len(X), size=n)
                sample = _problem(X[drawn], y[drawn], loss)
                settled = case.plan(sample, paper=True, alpha=alpha)
                point, passes = _minimize(settled, Erm(sample, alpha))
                # Runs on one sample are not independent: their mean counts as one.
                seeds = range(seed * sizes.samples, (seed + 1) * sizes.samples)
                errors.append(float(np.mean([excess(w) for w in _draws(settled, point, seeds)])))
            records += case.records(setting, errors, passes=passes, ridge=alpha)
    return records


def _general(sizes: Sizes, table: int, delta: float) -> list[Record]:
    """Tables 1 and 2: a function of which L, µ and β are declared and nothing else."""
    from dpfast.objectives import General, Tilted

    X, y = _records(sizes.rows[0], 0)
    problem = _problem(X, y, "logistic")
    records = []
    for name in _ERM:
        mu = _MU if name in _STRONGLY else 0.0
        best, excess = _excess(lambda alpha: Tilted(problem, alpha, _GENERAL_TILT), mu)
        norm = float(np.linalg.norm(best))
        for share in sizes.general:
            case = _Case(table, name, len(y), share * _DIM, delta)

            def declared(alpha: float) -> Any:
                tilted = Tilted(problem, alpha, _GENERAL_TILT)
                known = tilted.shape
                return General(
                    tilted.value_and_gradient, _DIM, lipschitz=known.lipschitz,
                    strong_convexity=alpha, smoothness=known.smoothness,
                    minimizer_norm=known.minimizer_norm,
                )  # fmt: skip

            def setting(alpha: float, case: _Case = case, norm: float = norm) -> Any:
                shape = declared(alpha).shape
                radius = shape.minimizer_norm if case.mu else norm
                return case.setting(shape, radius, mean=False)

            alpha = mu or _theorem_ridge(case, setting)
            objective = declared(alpha)
            settled = case.plan(objective, paper=True)
            point, passes = _minimize(settled, objective)
            errors = [excess(w) for w in _draws(settled, point, range(sizes.runs))]
            records += case.records(setting(alpha), errors, passes=passes, ridge=alpha)
    return records


def _tilted(sizes: Sizes, table: int, delta: float) -> list[Record]:
    """The tilted risks of Tables 1 and 2, whose sensitivity falls with n."""
    from dpfast.objectives import Tilted

    records = []
    for n in sizes.rows:
        X, y = _records(n, 0)
        problem = _problem(X, y, "logistic")
        objective = Tilted(problem, _MU, _TILT)
        _, excess = _excess(lambda alpha, p=problem: Tilted(p, alpha, _TILT), _MU)
        for name in ("TERM", "smooth TERM"):
            case = _Case(table, name, n, 1.0, delta)
            given = {"objective": "tilted", "objective_options": {"tilt": _TILT}, "alpha": _MU}
            settled = case.plan(problem, paper=True, **given)
            point, passes = _minimize(settled, objective)
            errors = [excess(w) for w in _draws(settled, point, range(sizes.runs))]
            setting = case.setting(objective.shape, objective.shape.minimizer_norm)
            more = {"passes": passes, "ridge": _MU, "spread": setting.spread}
            records += case.records(setting, errors, **more)
            usual = case.plan(problem, **given)
            errors = [excess(w) for w in _draws(usual, point, range(sizes.runs))]
            records.append(case.record(_RIVAL, DEFAULT, spread(errors)))
    return records


# ---- tilted risks and fairness ------------------------------------------------------------------


Groups = Mapping[str, NDArray[np.bool_]]


def _adult_groups(data: Path) -> tuple[Dataset, Dataset, Groups]:
    """Training and test rows of Adult, the latter by sex, race and sex with income."""
    whole = adult(data)
    first = len(text_columns(data, "adult_train.csv", ("sex",))["sex"])
    train, test = (
        dataclasses.replace(whole, X=whole.X[rows], y=whole.y[rows])
        for rows in (slice(first), slice(first, None))
    )
    columns = text_columns(data, "adult_test.csv", ("sex", "race"))
    sex, race, rich = columns["sex"], columns["race"], test.y > 0.0
    groups = {"men": sex == "Male", "women": sex == "Female"}
    groups |= {value: race == value for value in sorted(set(race.tolist()))}
    for word, income in (("above 50K", rich), ("up to 50K", ~rich)):
        groups |= {f"{who}, {word}": groups[who] & income for who in ("men", "women")}
    return train, test, groups


def _health_groups() -> tuple[Dataset, Dataset, Groups]:
    train, test = randhie().split(0)
    sick = test.X[:, _DISEASES] > np.median(test.X[:, _DISEASES])
    return train, test, {"few diseases": ~sick, "many diseases": sick}


# Chronic diseases, of RAND HIE's columns.
_DISEASES = 5


def _cut(data: Dataset, largest: int) -> Dataset:
    return dataclasses.replace(data, X=data.X[:largest], y=data.y[:largest])


def _fairness(settings: Run, sizes: Sizes) -> list[Record]:
    """Test log-loss and accuracy of each group against the tilt."""
    from dpfast import Problem
    from dpfast.objectives import Erm, Tilted

    (train, test, groups), *_ = [*settings.tables({"Adult": _adult_groups}), _health_groups()]
    train = _cut(train, sizes.largest)
    problem = Problem(train.X, train.y, "logistic", data_norm=train.data_norm)

    def make(alpha: float, tilt: float) -> Any:
        return Tilted(problem, alpha, tilt) if tilt else Erm(problem, alpha)

    def record(tilt: float, name: str, ws: list[Vector], **case: float) -> Record:
        by_run = [_by_group(w, test, groups) for w in ws]
        values = {key: float(np.mean([found[key] for found in by_run])) for key in by_run[0]}
        return Record(_FAIR, {"table": train.name, "tilt": tilt, **case}, name, values)

    records = []
    for tilt in sizes.tilts:
        settings.say(f"  {train.name}, tilt {tilt:g}")
        records.append(record(tilt, NONPRIVATE, [_best(make(_FREE_RIDGE, tilt))]))
        options = {"objective": "tilted", "objective_options": {"tilt": tilt}} if tilt else {}
        for epsilon, alpha, ws in _tuned(
            problem, sizes.fair_epsilons, sizes.fair_ridges, sizes.draws,
            partial(make, tilt=tilt), options,
        ):  # fmt: skip
            records.append(record(tilt, PRIVATE, ws, epsilon=epsilon, ridge=alpha))
    return records


def _tuned(
    problem: Any,
    epsilons: Sequence[float],
    ridges: Sequence[float],
    draws: int,
    make: Callable[[float], Any],
    options: Mapping[str, Any],
) -> Iterator[tuple[float, float, list[Vector]]]:
    """Private weights at the ridge of least mean objective without ridge: **not private**.

    By budget, with that ridge; the minimizers serve every budget.
    """
    from dpfast import Budget, plan

    judge, points = make(_FREE_RIDGE), {}
    for epsilon in epsilons:
        found = []
        for alpha in ridges:
            settled = plan(problem, "output-perturbation", Budget(epsilon, _DELTA), alpha=alpha,
                           **options)  # fmt: skip
            if alpha not in points:
                points[alpha] = _minimize(settled, make(alpha))[0]
            ws = _draws(settled, points[alpha], range(draws))
            few = ws[: max(3, draws // 3)]
            values = [judge.value_and_gradient(w)[0] - 0.5 * _FREE_RIDGE * w @ w for w in few]
            found.append((float(np.mean(values)), alpha, ws))
        yield (epsilon, *min(found, key=lambda entry: entry[0])[1:])


def _by_group(w: Vector, test: Dataset, groups: Groups) -> dict[str, float]:
    margins = test.y * (test.X @ w[:-1] + w[-1])
    losses, right = np.logaddexp(0.0, -margins), margins > 0.0
    found = {"log_loss": float(losses.mean()), "accuracy": float(right.mean())}
    for name, members in groups.items():
        found[f"log_loss: {name}"] = float(losses[members].mean())
        found[f"accuracy: {name}"] = float(right[members].mean())
    return found


# ---- adversarial training -----------------------------------------------------------------------


def _robust_tables(settings: Run, sizes: Sizes) -> list[Dataset]:
    """Balanced tables: letters, and digits of 7 x 7 pixels."""
    found = list(settings.tables({"letters": letter, "small digits": _small_digits}))
    return found or [_cut(synthetic(4000, 6), sizes.largest)]


def _small_digits(data: Path) -> Dataset:
    """5 and above against the rest; pixels are means of 4 x 4, rows cut to the norm 3.5.

    Most have norms of 1.3 to 2.5; the bound, half of that of 49 white pixels, covers all.
    """
    whole = mnist(data)
    small = whole.X.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)
    return Dataset("MNIST-5k, 7 x 7", np.ascontiguousarray(small), whole.y, 3.5)


def _robustness(settings: Run, sizes: Sizes) -> list[Record]:
    """Accuracy on test rows that an adversary may move, against the radius it has."""
    records = []
    for data in _robust_tables(settings, sizes):
        for norm, radii in sizes.radii.items():
            settings.say(f"  {data.name}, {norm} adversary")
            found_by: dict[tuple[str, float, float, bool], list[float]] = {}
            for split in range(sizes.splits):
                for key, accuracy in _robust_split(data.split(split), norm, radii, sizes):
                    found_by.setdefault(key, []).append(accuracy)
            for (name, epsilon, radius, adversarial), found in found_by.items():
                case = {"table": data.name, "norm": norm, "radius": radius,
                        "training": "adversarial" if adversarial else "standard"}  # fmt: skip
                if epsilon:
                    case["epsilon"] = epsilon
                records.append(Record(_ROBUST, case, name, scores(accuracy=found)))
    return records


def _robust_split(
    parts: tuple[Dataset, Dataset], norm: str, radii: Sequence[float], sizes: Sizes
) -> Iterator[tuple[tuple[str, float, float, bool], float]]:
    """Robust accuracies of weights trained with the adversary's radius, and with none."""
    from dpfast import Problem
    from dpfast.objectives import Adversarial

    train, test = parts
    problem = Problem(train.X, train.y, "logistic", data_norm=train.data_norm)
    # By the radius that was trained for; 0 is the ordinary risk.
    trained: dict[float, dict[tuple[str, float], list[Vector]]] = {}
    for radius in radii:
        options: dict[str, Any] = {"radius": radius, "norm": norm}
        make = partial(Adversarial, problem, **options)
        here = trained.setdefault(radius, {(NONPRIVATE, 0.0): [_best(make(_FREE_RIDGE))]})
        given = {"objective": "adversarial", "objective_options": options}
        for epsilon, _, ws in _tuned(
            problem, sizes.robust_epsilons, sizes.robust_ridges, sizes.draws, make, given
        ):
            here[PRIVATE, epsilon] = ws
    for radius in radii:
        for adversarial in (False, True):
            for (name, epsilon), ws in trained[radius if adversarial else 0.0].items():
                accuracy = np.mean([_robust_accuracy(w, test, radius, norm) for w in ws])
                yield (name, epsilon, radius, adversarial), float(accuracy)


def _adversarial_hinge(settings: Run, sizes: Sizes) -> list[Record]:
    """Robust accuracy of the hinge and of the logistic loss, all by default but the radius."""
    from dpfast import Budget, Problem, plan
    from dpfast.objectives import Adversarial

    records = []
    for data in _robust_tables(settings, sizes):
        for norm, radii in sizes.radii.items():
            settings.say(f"  {data.name}, {norm} adversary, hinge")
            for loss, smoothing in (("hinge", 0.0), ("logistic", 1e-3)):
                for radius in radii:
                    options = {"radius": radius, "norm": norm, "smoothing": smoothing}
                    found, passes = [], []
                    for split in range(sizes.splits):
                        train, test = data.split(split)
                        problem = Problem(train.X, train.y, loss, data_norm=train.data_norm)
                        settled = plan(
                            problem, "output-perturbation", Budget(_HINGE_EPSILON, _DELTA),
                            objective="adversarial", objective_options=options,
                        )  # fmt: skip
                        objective = Adversarial(problem, settled.shape.alpha, **options)
                        point, count = _minimize(settled, objective)
                        seeds = range(split * sizes.draws, (split + 1) * sizes.draws)
                        ws = _draws(settled, point, seeds)
                        accuracies = [_robust_accuracy(w, test, radius, norm) for w in ws]
                        found.append(float(np.mean(accuracies)))
                        passes.append(count)
                    case = {"table": data.name, "norm": norm, "radius": radius, "loss": loss}
                    values = spread(found) | {"passes": float(np.mean(passes))}
                    records.append(Record(_HINGE, case, PRIVATE, values))
    return records


class _Moved:
    """Rows of a linear loss that one ``v``, ``‖v‖ <= r``, moves: ``-<a + v, w> - (ν/2)‖v‖²`` and a
    ridge."""

    dim = dim_adversary = _DIM
    smoothness = 1.5

    def __init__(self, mean: Vector, reach: float, concavity: float) -> None:
        self.mean, self.reach, self.strong_concavity = mean, reach, concavity
        self.strong_convexity = _MU

    def value_and_gradients(self, w: Vector, v: Vector) -> tuple[float, Vector, Vector]:
        pull, nu = self.mean + v, self.strong_concavity
        value = 0.5 * _MU * w @ w - pull @ w - 0.5 * nu * v @ v
        return float(value), _MU * w - pull, -w - nu * v

    def project(self, v: Vector) -> Vector:
        return v * min(1.0, self.reach / max(float(np.linalg.norm(v)), 1e-300))

    def support(self, direction: Vector) -> float:
        return self.reach * float(np.linalg.norm(direction))


def _saddles(sizes: Sizes) -> list[Record]:
    """Corollary 5.1: gradients of Minimax-APPA until its point is certified."""
    from dpfast import Budget, plan
    from dpfast.objectives import Saddle
    from dpfast.optimizers import minimax_appa

    records = []
    X, y = _records(1000, 0)
    mean = np.mean(X * y[:, None], axis=0)
    for concavity in (0.0, 0.1, 1.0):
        for tolerance in (1e-1, 1e-2, 1e-3, 1e-4):
            game = Saddle(
                _Moved(mean, 0.1, concavity), lipschitz=1.1, n_samples=1000, gap_error=1e-13,
                sensitivity=2.0 / (_MU * 1000), minimizer_norm=1.1 / _MU, diameter=0.2,
            )  # fmt: skip
            settled = plan(game, "output-perturbation", Budget(1.0), tolerance=tolerance)
            found = minimax_appa(game.game, tolerance=tolerance)
            case = {"concavity": concavity, "tolerance": tolerance}
            values = {
                "accuracy": settled.settings.certified_accuracy,
                "expected": settled.expected["minimax_gradients"],
                "taken": float(found.passes),
                "certified": float(found.converged),
            }
            records.append(Record(_SADDLE, case, "minimax_appa", values))
    return records


def _robust_accuracy(w: Vector, test: Dataset, radius: float, norm: str) -> float:
    """Share of rows that stay right wherever the adversary moves them; in closed form."""
    dual = np.linalg.norm(w[:-1], 2 if norm == "l2" else 1)
    return float(np.mean(test.y * (test.X @ w[:-1] + w[-1]) > radius * dual))


# ---- report -------------------------------------------------------------------------------------

_WHAT = {
    1: "any function, delta = 0",
    2: f"any function, delta = {_DELTA:g}",
    3: "the population's risk, delta = 0",
    4: f"the population's risk, delta = {_DELTA:g}",
    5: "means over records, delta = 0",
    6: f"means over records, delta = {_DELTA:g}",
}
_COMMON = (
    f"{_DIM} columns, rows on the unit sphere (L = 1), mu = {_MU:g} where strongly convex; hinge "
    "for F and G, logistic for H and J. 'Rate': the table's entry with the constant 1 and no "
    "logarithms. 'Stated': the theorem's or proposition's constants. 'Bound': the inequalities of "
    "their proofs, evaluated (for exact minimizers; ours are certified to a millionth of the "
    "sensitivity). 'Lower bound': Proposition 2.7 with constants, which no private method's mean "
    "excess is below for the worst function and data of the class; ours here need not be the "
    "worst. 'Measured': mean excess with the paper's ridge and noise, told the norm of the "
    "best weights as its R, ± standard error. 'Defaults': dpfast's ridge and noise. Passes: over "
    "the data, to our certificate on every run / of the paper's algorithm, which bounds a mean, "
    "with the constant 1. In brackets: beyond the theorem's condition, where answering 0 is as "
    "good."
)
_TEXTS = {
    1: f"The function is a tilted risk (t = {_GENERAL_TILT:g}) of which only L, mu and beta are "
    "declared, so that one record may move the minimizer by 2L/mu whatever n: the bounds fall with "
    "epsilon/d alone, and ask for more of it than means anything as privacy. F and G count it as "
    f"Lipschitz only. TERM: t = {_TILT:g}, epsilon = 1, with the sensitivity of "
    "`TiltedShape.minimizer_sensitivity`, which is never above their Lemma 5.2.",
    2: "As Table 1. The paper's own table leaves out the rows of G and J; the theorems have them.",
    3: "Samples with replacement from a population of 100,000 (20,000 in a quick run), at epsilon "
    "= 1. Their Proposition 4.3 loses the stability of the minimizer, 2L^2/(lambda n), which the "
    "bound keeps: it can exceed what they state.",
    4: "As Table 3; the paper's table shows class H alone.",
    5: "At epsilon = 1.",
    6: "At epsilon = 1; the paper's table shows class H alone.",
}


def tables(document: Document) -> list[Table]:
    bounds = grouped(pick(document.records, group=_BOUND), "table")
    return [
        *(_bound_table(document, n, bounds[n], n == min(bounds)) for n in sorted(bounds)),
        _rival_table(document),
        _saddle_table(document),
        *_fair_tables(document),
        *_robust_tables_of(document),
    ]


def _saddle_table(document: Document) -> Table:
    def taken(r: Record) -> str:
        return f"{r.values['taken']:.0f}" + ("" if r.values["certified"] else " (not certified)")

    return rows_of(
        "Corollary 5.1: gradients until a saddle point is certified",
        f"Minimax-APPA on a linear loss whose rows one v of length 0.1 moves, mu = {_MU:g}. "
        "'Expected': what plans say, Proposition 5.2 with the constant 1 and no logarithms, at the "
        "accuracy that is certified. Corollary 5.2 has the same count for the population's risk.",
        pick(document.records, group=_SADDLE),
        {
            "concavity in v": case("concavity"),
            "tolerance": case("tolerance"),
            "accuracy": value("accuracy", "{:.1e}".format),
            "expected": value("expected", "{:.3g}".format),
            "taken": taken,
        },
    )


def _bound_table(document: Document, number: int, here: list[Record], first: bool) -> Table:
    keys = "class", "n", "epsilon"
    others = pick(document.records, table=number)
    usual = index(pick(others, group=_RIVAL, competitor=DEFAULT), *keys)
    rates = index((r for r in others if r.group == _RATE and _own(r.competitor)), *keys)
    rows = []
    for name in CLASSES:
        for (_, n, epsilon), r in index(pick(here, **{"class": name}), *keys).items():
            v, rival = r.values, usual.get((name, n, epsilon))
            known = {key: f"{v[key]:.2g}" if key in v else "-" for key in ("stated", "lower")}
            rows.append(
                (
                    name,
                    plain(n),
                    plain(epsilon),
                    f"{v['ratio']:.2g}",
                    f"{rates[name, n, epsilon].values['rate']:.2g}",
                    known["stated"],
                    f"{v['bound']:.2g}" if v["applies"] else f"({v['bound']:.2g})",
                    known["lower"],
                    mean(r),
                    f"{v['error'] / v['bound']:.2g}",
                    f"{rival.values['error']:.2g}" if rival else "-",
                    f"{v['passes']:.0f} / {v['runtime']:.2g}",
                )
            )
    return Table(
        f"Table {number}: {_WHAT[number]}",
        f"{_TEXTS[number]}{' ' + _COMMON if first else ''}",
        ("class", "n", "epsilon", "p", "rate", "stated", "bound", "lower bound", "measured",
         "measured / bound", "defaults", "passes"),
        rows,
    )  # fmt: skip


def _own(reference: str) -> bool:
    return reference.startswith(("Corollary", "Proposition 4", "Theorem 5"))


# Which of the tables' other methods was run.
_RUN = {"Zhang": ZHANG, "objective perturbation": OBJECTIVE}


def _rival_table(document: Document) -> Table:
    """The other methods' rows at the largest n."""
    rates = [r for r in pick(document.records, group=_RATE) if not _own(r.competitor)]
    rates.sort(key=lambda r: r.case["table"])
    measured = index(pick(document.records, group=_RIVAL), "table", "class", "n", "competitor")
    rows = []
    for (table, name, reference), r in index(rates, "table", "class", "competitor").items():
        run = next((run for word, run in _RUN.items() if word in reference), "")
        rows.append(
            (
                str(table),
                str(name),
                reference,
                plain(r.case["n"]),
                plain(r.case["epsilon"]),
                f"{r.values['rate']:.2g}",
                f"{r.values['bound']:.2g}" if "bound" in r.values else "-",
                mean(measured.get((table, name, r.case["n"], run))),
            )
        )
    return Table(
        "The tables' other methods",
        "At the largest n (Tables 1 and 2: epsilon). Rates as above; a bound only where the "
        "paper in question has all constants. Gradient descent of Zhang et al. runs with their T, "
        "sensitivity and noise, objective perturbation with dpfast's defaults; of the others "
        "nothing was run.",
        ("table", "class", "method", "n", "epsilon", "rate", "bound", "measured"),
        rows,
    )


def _fair_tables(document: Document) -> list[Table]:
    records = pick(document.records, group=_FAIR)
    made = []
    for epsilon, here in grouped(records, "epsilon").items():
        by = index(here, "tilt")
        rows = [
            (name or "all", *(_fair_cell(r, name) for r in by.values()))
            for name in ("", *_groups(records))
        ]
        if epsilon is not None:
            rows.append(("ridge", *(f"{r.case['ridge']:g}" for r in by.values())))
        kind = "not private" if epsilon is None else f"epsilon = {epsilon:g}, delta = {_DELTA:g}"
        text = (
            f"{here[0].case['table']}: log-loss / accuracy in % on test rows, by group; t = 0 "
            "is the mean. The paper prints no numbers: it names this as what tilting is for."
            if epsilon is None
            else "The ridge is the best of a grid by the tilted objective on the training rows, "
            "so these are what could be had at best. A tilted minimizer is exp(t times the spread "
            "of the losses) times as sensitive; only a strong ridge, which bounds the spread, pays "
            "for that, and it undoes what the tilt was for."
        )
        header = ("group", *(f"t = {tilt:g}" for tilt in by))
        made.append(Table(f"Fairness of tilted risks, {kind}", text, header, rows))
    return made


def _groups(records: list[Record]) -> list[str]:
    keys = (key.partition(": ") for key in records[0].values)
    return [group for metric, _, group in keys if metric == "log_loss" and group]


def _fair_cell(record: Record, group: str) -> str:
    end = f": {group}" if group else ""
    loss, accuracy = record.values[f"log_loss{end}"], record.values[f"accuracy{end}"]
    return f"{loss:.2f} / {100 * accuracy:.1f}"


_MOVED = "Accuracy in % on test rows that an adversary may move by the radius, "
_ON_ROBUST = (
    f"{_MOVED}± standard error over splits. 'Adversarial' was trained with the adversary's radius, "
    f"'standard' with none. delta = {_DELTA:g}; the ridge is the best of a grid by the objective "
    "on the training rows. The paper prints no numbers."
)
_ON_HINGE = (
    f"{_MOVED}which was trained for; epsilon = {_HINGE_EPSILON:g}, delta = {_DELTA:g}, everything "
    "else by default. In brackets: passes until the minimizer was certified."
)


def _robust_tables_of(document: Document) -> list[Table]:
    """Adversarial training, a row a training; then the adversarial hinge, a row a loss."""

    def accuracy(r: Record) -> str:
        return mean(r, percent="accuracy")

    def with_passes(r: Record) -> str:
        return f"{mean(r, percent='error')} ({r.values['passes']:.0f})"

    made = []
    for group, title, text, keys, cell in (
        (_ROBUST, "Adversarial training", _ON_ROBUST, ("training", "epsilon"), accuracy),
        (_HINGE, "Adversarial hinge", _ON_HINGE, ("loss", "epsilon"), with_passes),
    ):
        records = pick(document.records, group=group)
        for (table, norm), here in grouped(records, "table", "norm").items():
            rows = []
            for (kind, epsilon), line in grouped(here, *keys).items():
                label = f"epsilon = {epsilon:g}, {kind}" if epsilon else str(kind)
                if group == _ROBUST and not epsilon:
                    label += ", not private"
                rows.append((label, *map(cell, line)))
            header = (keys[0], *(f"radius {radius:g}" for radius in grouped(here, "radius")))
            made.append(Table(f"{title}: {table}, {norm}", text, header, rows))
    return made


# ---- figures ------------------------------------------------------------------------------------


def draw(document: Document, figure: Any) -> None:
    """Tables 3 to 6: excess over n, a row a table and a column a class."""
    _draw_tables(document, figure, (3, 4, 5, 6), _ERM)


def _draw_any(document: Document, figure: Any) -> None:
    """Tables 1 and 2: excess over epsilon, and over n for tilted risks."""
    _draw_tables(document, figure, (1, 2), tuple(CLASSES))


def _draw_tables(
    document: Document, figure: Any, numbers: Sequence[int], names: Sequence[str]
) -> None:
    size = len(numbers) * len(names)
    axes = panels(figure, size, len(names), (3.1, 2.7), sharex="col", sharey="row")
    for k, axis in enumerate(axes):
        number, name = numbers[k // len(names)], names[k % len(names)]
        against = _draw_bound(pick(document.records, table=number, **{"class": name}), axis)
        axis.set_title(f"Table {number}, {name} ({CLASSES[name]})", fontsize=8.5)
        axis.set_xlabel(against if number == numbers[-1] else "")
        axis.set_ylabel("" if k % len(names) else "excess risk")
    legend(figure)


_LINES = {
    ZHANG: ("Zhang et al. 2017, measured", "s", "C1"),
    OBJECTIVE: ("objective perturbation, measured", "^", "C2"),
    DEFAULT: ("dpfast's defaults, measured", "D", "C4"),
}


def _draw_bound(records: list[Record], axis: Any) -> str:
    """One panel; what it is drawn against."""
    here = pick(records, group=_BOUND)
    against = "epsilon" if len(grouped(here, "n")) == 1 else "n"
    line = partial(curve, axis, x=against)
    line(here, y="stated", fmt="k:", linewidth=1.3, label="the theorem as stated")
    line(here, y="bound", fmt="k-", linewidth=1.3, label="the theorem, evaluated")
    line(here, y="trivial", fmt="-", color="0.7", linewidth=1.0, label="LR, of answering 0")
    line(here, y="lower", fmt="-.", color="C3", label="lower bound, worst case")
    for reference, found in grouped(pick(records, group=_RATE), "competitor").items():
        color, label = (
            ("C0", "its rate in the table")
            if _own(reference)
            else ("0.6", "rates of the table's other methods")
        )
        line(found, y="rate", fmt="--", color=color, linewidth=1.0, label=label, zorder=1)
    ours = {"color": "C0", "markersize": 5, "label": "output perturbation, measured"}
    line(here, y="error", bars=True, fmt="o-", zorder=5, **ours)
    for competitor, (label, marker, color) in _LINES.items():
        found = pick(records, group=_RIVAL, competitor=competitor)
        look = {"color": color, "markersize": 3.5, "linewidth": 0.9, "label": label}
        line(found, y="error", fmt=f"{marker}-", **look)
    axis.set(yscale="log")
    # Few ticks: they are what drawing spends its time on.
    axis.yaxis.get_major_locator().set_params(numticks=5)
    ticks(axis, (r.case[against] for r in here))
    return against


def _draw_fairness(document: Document, figure: Any) -> None:
    """Log-loss and accuracy of groups over the tilt, nonprivate and at each budget."""
    records = pick(document.records, group=_FAIR)
    budgets = grouped(records, "epsilon")
    axes = panels(figure, 2 * len(budgets), len(budgets), (3.6, 3.1), sharey="row", sharex=True)
    metrics = {"log_loss": "log-loss on test rows", "accuracy": "accuracy on test rows"}
    for k, axis in enumerate(axes):
        epsilon, line = list(budgets.items())[k % len(budgets)]
        metric = list(metrics)[k // len(budgets)]
        for j, name in enumerate(_groups(records)):
            # Groups by income are what differs most.
            style, width = ("o-", 1.6) if "," in name else (".-", 0.8)
            color = f"C{j}" if j < 10 else "black"
            curve(axis, line, "tilt", f"{metric}: {name}", fmt=style, linewidth=width,
                  markersize=4, color=color, label=name)  # fmt: skip
        ticks(axis, (r.case["tilt"] for r in line), "symlog", linthresh=0.1, linscale=0.5)
        if metric == "log_loss":
            axis.set_title("not private" if epsilon is None else f"epsilon = {epsilon:g}")
        else:
            axis.set_xlabel("tilt t")
        if k % len(budgets) == 0:
            axis.set_ylabel(metrics[metric])
    legend(figure, 1, "outside right upper")


def _draw_robustness(document: Document, figure: Any) -> None:
    """Robust accuracy over the adversary's radius."""
    found = grouped(pick(document.records, group=_ROBUST), "table", "norm")
    axes = panels(figure, len(found), 2, (5.2, 3.3))
    for axis, ((table, norm), here) in zip(axes, found.items(), strict=True):
        budgets = list(grouped(here, "epsilon"))
        for (kind, epsilon), line in grouped(here, "training", "epsilon").items():
            style = "o-" if kind == "adversarial" else ".--"
            color = f"C{budgets.index(epsilon)}" if epsilon else "black"
            label = f"{f'epsilon = {epsilon:g}' if epsilon else 'not private'}, {kind}"
            curve(axis, line, "radius", "accuracy", bars=True, fmt=style, markersize=4,
                  linewidth=1.3, color=color, label=label)  # fmt: skip
        axis.set(xlabel=f"radius of the adversary, {norm}", ylabel="robust accuracy")
        ticks(axis, (r.case["radius"] for r in here), "linear")
        axis.set_title(table, fontsize=10)
    legend(figure)


FIGURES: dict[str, Callable[[Document, Any], None]] = {
    "Tables 1 and 2: any function, and tilted risks": _draw_any,
    "Tilted risks on Adult: loss and accuracy by group": _draw_fairness,
    "Adversarial training: accuracy against the adversary's radius": _draw_robustness,
}
