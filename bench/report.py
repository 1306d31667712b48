"""Markdown and figures from a document; every number shown comes out of its records."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.harness import Document, Record
    from bench.suites import Suite


@dataclass(frozen=True)
class Table:
    """A table and the sentence that explains it."""

    title: str
    text: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


# ---- numbers ------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Three digits, in the unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds * 1e9)} ns"


def speed(record: Record, reference: str) -> str:
    """Speed relative to a competitor of the same rounds; a dash if it did not take part."""
    ratio = 1.0 if record.competitor == reference else record.speed.get(reference)
    return "-" if ratio is None else f"{_three_digits(ratio)} x"


def time_share(record: Record, reference: str) -> str:
    """Time relative to a competitor of the same rounds, the inverse of :func:`speed`."""
    ratio = 1.0 if record.competitor == reference else record.speed.get(reference)
    return "-" if ratio is None else f"{1.0 / ratio:.2f}"


def scientific(value: float) -> str:
    """Two digits and a power of ten."""
    return f"{value:.1e}"


def plain(value: float | str) -> str:
    """An integer with separators, another number as it is."""
    if isinstance(value, str):
        return value
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


def mean_and_error(mean: float, error: float, digits: int) -> str:
    """Mean ± standard error."""
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


# ---- columns of tables ---------------------------------------------------------------------------

Cell = Callable[["Record"], str]


def rows_of(title: str, text: str, records: Sequence[Record], columns: Mapping[str, Cell]) -> Table:
    """A row for each record, a column for each function."""
    rows = [tuple(cell(record) for cell in columns.values()) for record in records]
    return Table(title, text, tuple(columns), rows)


def case(key: str) -> Cell:
    """An entry of the case; a dash where there is none."""
    return lambda record: plain(record.case[key]) if key in record.case else "-"


def value(key: str, show: Callable[[float], str] = plain) -> Cell:
    """Something measured."""
    return lambda record: show(record.values[key])


def mean(key: str, digits: int, unit: str = "") -> Cell:
    """A mean ± its standard error; in percent if that is the unit."""
    scale = 100.0 if unit == " %" else 1.0

    def cell(record: Record) -> str:
        found = (scale * record.values[name] for name in (key, f"{key}_standard_error"))
        return mean_and_error(*found, digits) + unit

    return cell


def relative(reference: str) -> Cell:
    """Speed relative to a competitor of the same rounds."""
    return lambda record: speed(record, reference)


NAMED: dict[str, Cell] = {"competitor": lambda record: record.competitor}
SHAPE: dict[str, Cell] = {"rows": case("n"), "columns": case("d")}
TIME: dict[str, Cell] = {"time": value("seconds", duration)}


# ---- Markdown -----------------------------------------------------------------------------------


def markdown(document: Document, suite: Suite, figures: Mapping[str, str]) -> str:
    """The report of one run of one suite; `figures` are titles by file name."""
    parts = [f"# {suite.TITLE}", _summary(document)]
    if document.quick:
        parts.append("**A quick run on small sizes: fit for trying out, not for quoting.**")
    parts += [f"![{title}]({name})" for name, title in figures.items()]
    for table in suite.tables(document):
        parts += [f"## {table.title}", table.text, markdown_table(table.header, table.rows)]
    promises = list(document.competitors.items())
    parts += ["## Competitors", markdown_table(("name", "what it promises"), promises)]
    if document.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in document.notes)]
    parts += [measured(document.environment)]
    return "\n\n".join(parts) + "\n"


def _summary(document: Document) -> str:
    timed = any("seconds" in record.values for record in document.records)
    how = (
        f"Times are the best of {document.repeat} rounds in which the competitors took turns "
        "(fewer for slow ones), on one thread unless said. Compare ratios, not seconds, between "
        "machines. "
        if timed
        else ""
    )
    return (
        f"{how}Written by `python -m bench {document.suite}`, whose records are in "
        f"`{document.suite}.json` after a run."
    )


def measured(environment: Mapping[str, Any]) -> str:
    """The section on the machine."""
    facts = []
    for key, value in environment.items():
        label = key.replace("_", " ")
        if isinstance(value, Mapping):
            facts += [(f"{label}: {name}", _shown(item)) for name, item in value.items()]
        else:
            facts.append((label, _shown(value)))
    return f"## Where this was measured\n\n{markdown_table(('what', 'value'), facts)}"


def _shown(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def read_tables(text: str) -> dict[str, list[dict[str, str]]]:
    """The tables of a report: under each title, the rows as mappings from header to cell."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        title, *rest = section.splitlines()
        lines = [line.rstrip() for line in rest if line.startswith("|")]
        cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
        if cells:
            found[title] = [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
    return found


def number(cell: str) -> float:
    """The number that a cell begins with, such as 1,000 or 0.5 ± 0.1."""
    return float(cell.split()[0].replace(",", "").rstrip("%"))


# ---- files --------------------------------------------------------------------------------------


def write(document: Document, suite: Suite, output: Path) -> list[Path]:
    """Write ``<suite>.json``, ``.md`` and ``.png``; figures only if matplotlib is installed.

    A suite with ``FIGURES``, functions like its `draw` by title, has one more picture for each:
    ``<suite>-2.png`` and so on.
    """
    output.mkdir(parents=True, exist_ok=True)
    stem = output / document.suite
    data, page = stem.with_suffix(".json"), stem.with_suffix(".md")
    data.write_text(document.to_json(), encoding="utf-8")
    # The page rounds what the data hold, not what they were rounded from.
    document = document.from_json(data.read_text(encoding="utf-8"))
    figures: dict[str, str] = {}
    pictures = {suite.TITLE: suite.draw, **getattr(suite, "FIGURES", {})}
    for number, (title, draw) in enumerate(pictures.items(), start=1):
        image = output / f"{document.suite}{'' if number == 1 else f'-{number}'}.png"
        if _draw(document, draw, image):
            figures[image.name] = title
    page.write_text(markdown(document, suite, figures), encoding="utf-8")
    return [data, page, *(output / name for name in figures)]


def _draw(document: Document, draw: Callable[[Document, Any], None], path: Path) -> bool:
    try:
        from matplotlib.figure import Figure
        from PIL import Image
    except ImportError:
        return False
    figure = Figure(layout="constrained")
    draw(document, figure)
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=110)
    # With a palette a figure takes a quarter of the space, in every version that is kept.
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2)
    few.save(path, optimize=True)
    return True
