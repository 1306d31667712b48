"""Several rows a person: whole persons clipped as one against rows that are paid for one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.arrange import grouped, pick
from bench.harness import Document, Record, Run, interleave, scores, timing_records
from bench.problems import Panel, claims_panel, health_panel, least_loss, made_panel, synthetic
from bench.report import NAMED, SHAPE, TIME, Table, mean, plain, relative, rows_of

NAME = "persons"
TITLE = "Persons, not rows"
WHOLE, ROWS = "whole persons", "at most m rows"
_SORTED, _MIXED, _PLAIN = "one row a person, sorted", "one row a person, mixed", "rows"
_DELTA, _RELATION = 1e-6, "replace_one"
_GUARANTEE = f"(epsilon, {_DELTA:g})-DP for persons, {_RELATION}"
COMPETITORS = {
    WHOLE: f"{_GUARANTEE}; a person's gradient is clipped as one vector",
    ROWS: f"{_GUARANTEE}; m rows a person, and m times the noise",
    _SORTED: _GUARANTEE,
    _MIXED: _GUARANTEE,
    _PLAIN: f"(epsilon, {_DELTA:g})-DP for rows, {_RELATION}",
}
_MADE, _REAL, _TIME = "made panels", "real panels", "time"
#: The share of the rows' excess loss that whole persons are meant to stay below.
TARGETS = {5: 1.0 / 3.0, 20: 1.0 / 8.0}


@dataclass(frozen=True)
class Sizes:
    """Made panels, budgets and runs; rows and columns that are timed."""

    persons: int = 4000
    rows: tuple[int, ...] = (5, 20)
    alike: tuple[float, ...] = (0.0, 0.5, 0.9)
    epsilons: tuple[float, ...] = (0.5, 2.0)
    runs: int = 48
    shape: tuple[int, int] = (200_000, 20)


FULL = Sizes()
QUICK = Sizes(persons=1000, alike=(0.5,), runs=4, shape=(50_000, 10))


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records = _time(settings, sizes)
    for most in sizes.rows:
        for alike, labels in [*((a, 0.0) for a in sizes.alike), (sizes.alike[-1], 0.5)]:
            panel = made_panel(sizes.persons, most, alike, labels)
            settings.say(f"  {panel.name}, alike {alike:g}, labels {labels:g}")
            case: dict[str, int | float | str] = {"rows": most, "alike": alike, "labels": labels}
            records += _excess(_MADE, panel, case, sizes)
    for panel in settings.tables({load.__name__: load for load in (health_panel, claims_panel)}):
        settings.say(f"  {panel.name}")
        records += _excess(_REAL, panel, {"table": panel.name, "rows": panel.most}, sizes)
    return records


def _excess(
    group: str, panel: Panel, case: dict[str, int | float | str], sizes: Sizes
) -> list[Record]:
    """Log-loss on the rows beyond the best there is, for both ways."""
    from dpfast import Budget, Problem, solve
    from dpfast.privacy import budget_mu

    whole = Problem(panel.X, panel.y, data_norm=panel.data_norm, groups=panel.persons)
    rows = Problem(panel.X, panel.y, data_norm=panel.data_norm)
    best = least_loss(rows)
    records = []
    for epsilon in sizes.epsilons:
        budget = Budget(epsilon, _DELTA)
        # Of m rows each of which is mu-GDP by itself, all together are m mu-GDP.
        part = Budget(mu=budget_mu(budget) / panel.most)
        for name, problem, given in ((WHOLE, whole, budget), (ROWS, rows, part)):
            found = [
                rows.objective(solve(problem, "auto", given, random_state=seed).w) / len(panel.y)
                - best
                for seed in range(sizes.runs)
            ]
            values = scores(excess=found) | {"runs": float(len(found)), "best": best}
            records.append(Record(group, {**case, "epsilon": epsilon}, name, values))
    return records


def _time(settings: Run, sizes: Sizes) -> list[Record]:
    """Everybody has one row: a problem and a fit, with and without saying so."""
    from dpfast import Budget, Problem, solve

    data = synthetic(*sizes.shape)
    n = len(data.y)
    mixed = np.random.default_rng(0).permutation(n)
    ids: dict[str, dict[str, Any]] = {
        _PLAIN: {},
        _SORTED: {"groups": np.arange(n), "max_rows_per_group": 1},
        _MIXED: {"groups": mixed, "max_rows_per_group": 1},
    }

    def fit(given: dict[str, Any]) -> Any:
        problem = Problem(data.X, data.y, data_norm=data.data_norm, **given)
        return solve(problem, "auto", Budget(1.0, _DELTA), random_state=0).w

    contestants: dict[str, Callable[[], object]] = {
        name: lambda given=given: fit(given)  # type: ignore[misc]
        for name, given in ids.items()
    }
    settings.say("  time")
    timings = interleave(contestants, repeat=settings.repeat)
    case: dict[str, int | float | str] = {"n": n, "d": sizes.shape[1]}
    return timing_records(_TIME, case, timings, [_PLAIN])


# ---- reports ------------------------------------------------------------------------------------


def pairs(records: list[Record]) -> list[tuple[Record, Record, float]]:
    """Of each case whole persons, rows, and the share of the rows' excess that remains."""
    found = []
    for one in pick(records, competitor=WHOLE):
        other = next(r for r in pick(records, competitor=ROWS) if r.case == one.case)
        found.append((one, other, one.values["excess"] / other.values["excess"]))
    return found


def _compared(title: str, text: str, records: list[Record], cases: Mapping[str, str]) -> Table:
    """A row a case, whose entries are `cases` by what readers see."""
    excess = mean("excess", 5)
    rows = [
        (*(plain(one.case[k]) for k in cases.values()), excess(one), excess(other), f"{share:.3f}")
        for one, other, share in pairs(records)
    ]
    return Table(title, text, (*cases, WHOLE, ROWS, "share"), rows)


def tables(document: Document) -> list[Table]:
    made, real, times = (pick(document.records, group=group) for group in (_MADE, _REAL, _TIME))
    found = [
        _compared(
            "Made panels",
            f"{plain(document.sizes['persons'])} persons, 10 columns, solver 'auto' without "
            "tuning; log-loss on the rows beyond the best there is, mean ± standard error of "
            f"{plain(made[0].values['runs'])} runs. Entries of a column, and what decides labels "
            "besides the columns, are correlated within a person. The share is meant to be at most "
            "a third for 5 rows and an eighth for 20. Where labels are alike, so are a person's "
            "gradients, and m rows say little more than one: nothing protects them for less.",
            made,
            {"rows a person": "rows", "columns alike": "alike", "labels alike": "labels",
             "epsilon": "epsilon"},
        ),
        rows_of(
            "One row a person",
            "Problem and fit, epsilon = 1, with and without names of persons, at most one row of "
            "each; it is meant to take at most 1.3 times as long with sorted ids, and twice as "
            "long otherwise.",
            times,
            SHAPE | NAMED | TIME | {f"speed relative to {_PLAIN}": relative(_PLAIN)},
        ),
    ]  # fmt: skip
    if real:
        text = "The same on real tables, m being the most rows that a person has."
        cases = {"table": "table", "m": "rows", "epsilon": "epsilon"}
        found.append(_compared("Real panels", text, real, cases))
    return found


def draw(document: Document, figure: Any) -> None:
    """Shares of the rows' excess by how alike the columns are."""
    made = pick(document.records, group=_MADE, labels=0.0)
    axes = figure.subplots()
    figure.set_size_inches(5, 3.5)
    for (rows, epsilon), own in grouped(made, "rows", "epsilon").items():
        points = [(one.case["alike"], share) for one, _, share in pairs(own)]
        axes.plot(*zip(*points, strict=True), marker=".", label=f"{rows} rows, epsilon {epsilon:g}")
    axes.set(yscale="log", xlabel="correlation of columns within a person")
    axes.set_ylabel("excess loss over that of rows")
    axes.legend(frameon=False, fontsize=7)
