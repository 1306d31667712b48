"""How a ledger reads: as text, and in a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from dpfast.privacy.events import Event

if TYPE_CHECKING:
    from dpfast.privacy.ledger import Ledger


def plain(ledger: Ledger) -> str:
    """Return budget, what is used, and a line for each event."""
    lines = (
        f"  {event.where}: {event.count} x {event.mechanism} ({_numbers(event)})"
        for event in ledger.events
    )
    return "\n".join([_headline(ledger), *lines])


def markup(ledger: Ledger) -> str:
    """Return the same as a table in HTML."""
    rows = (
        (event.where, event.mechanism, str(event.count), _numbers(event)) for event in ledger.events
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<div><p>{html.escape(_headline(ledger))}</p><table><thead><tr><th>where</th>"
        "<th>mechanism</th><th>count</th><th>parameters</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _headline(ledger: Ledger) -> str:
    relation = ledger.guarantee().neighboring_relation
    how = "accesses chosen along the way" if ledger.adaptive else "accesses fixed beforehand"
    return (
        f"Privacy ledger: {100.0 * ledger.used():.4g}% of {ledger.budget!r} used, {how}"
        f"{'' if relation is None else f', {relation}'}"
    )


def _numbers(event: Event) -> str:
    return ", ".join(
        f"{name}={f'{value:.6g}' if isinstance(value, float) else value}"
        for name, value in event.describe().items()
    )
