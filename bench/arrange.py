"""What the suites' reports share: records picked and grouped, means shown, panels and legends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.harness import Record, scores
from bench.report import plain

# ---- records ------------------------------------------------------------------------------------


def spread(errors: Sequence[float]) -> dict[str, float]:
    """Values of a record: mean, its standard error, and the number of runs."""
    return scores(error=errors) | {"runs": float(len(errors))}


def mean(record: Record | None, *, percent: str = "") -> str:
    """Mean ± standard error of :func:`spread`, or of the share named; a dash for no record."""
    if record is None:
        return "-"
    name = percent or "error"
    found, error = record.values[name], record.values[f"{name}_standard_error"]
    return f"{100 * found:.1f} ± {100 * error:.1f}" if percent else f"{found:.2g} ± {error:.1g}"


def field(record: Record, key: str) -> Any:
    """Group, competitor, or an entry of the case; None where the case has none."""
    if key in ("group", "competitor"):
        return getattr(record, key)
    return record.case.get(key)


def grouped(records: Iterable[Record], *keys: str) -> dict[Any, list[Record]]:
    """Records by the fields named (tuples if there are several), in the order of the records."""
    found: dict[Any, list[Record]] = {}
    for record in records:
        values = tuple(field(record, key) for key in keys)
        found.setdefault(values if len(keys) > 1 else values[0], []).append(record)
    return found


def index(records: Iterable[Record], *keys: str) -> dict[Any, Record]:
    """The last record of each of :func:`grouped`."""
    return {key: found[-1] for key, found in grouped(records, *keys).items()}


def pick(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Records whose fields are as wanted."""
    return [r for r in records if all(field(r, key) == value for key, value in wanted.items())]


# ---- figures ------------------------------------------------------------------------------------


def panels(figure: Any, count: int, columns: int, size: tuple[float, float], **share: Any) -> Any:
    """`count` axes of this size, at most so many a line; the rest of the grid stays empty."""
    columns = min(columns, count)
    lines = -(-count // columns)
    figure.set_size_inches(size[0] * columns, size[1] * lines + 0.7)
    axes = np.ravel(figure.subplots(lines, columns, squeeze=False, **share))
    for axis in axes[count:]:
        axis.set_axis_off()
    return axes[:count]


def curve(
    axis: Any, records: Iterable[Record], x: str, y: str, *, bars: bool = False, scale: float = 1.0,
    **options: Any,
) -> None:  # fmt: skip
    """What was measured as `y` over the case's `x`, with bars of one standard error if wanted."""
    found = [r for r in records if y in r.values]
    if found:
        at = [r.case[x] for r in found]
        errors = [scale * r.values[f"{y}_standard_error"] for r in found] if bars else None
        axis.errorbar(at, [scale * r.values[y] for r in found], errors, **options)


def bars(
    axis: Any, groups: Sequence[str], heights: Mapping[str, Sequence[float]], colors: Sequence[str]
) -> list[Any]:
    """Bars side by side, one of each name in each group; what matplotlib says of each name's."""
    width, made = 0.8 / len(heights), []
    for k, (name, values) in enumerate(heights.items()):
        places = np.arange(len(groups)) + (k - (len(heights) - 1) / 2) * width
        made.append(axis.bar(places, values, width, label=name, color=colors[k]))
    axis.set_xticks(range(len(groups)), groups)
    axis.axhline(1.0, color="0.3", linewidth=0.8, linestyle="--")
    return made


def legend(figure: Any, columns: int = 4, where: str = "outside lower center") -> None:
    """One legend for all panels, every label once."""
    found: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(found.values(), found.keys(), loc=where, ncols=columns, frameon=False, fontsize=8)


def ticks(axis: Any, values: Iterable[float], scale: str = "log", **options: Any) -> None:
    """Ticks of the x axis at what was measured, and nowhere else."""
    at = list(dict.fromkeys(values))
    axis.set_xscale(scale, **options)
    axis.set_xticks(at, [plain(value) for value in at])
    axis.minorticks_off()
