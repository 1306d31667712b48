"""Docstrings of classes: what one inherits is described once, by the class that has it."""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

Estimator = TypeVar("Estimator")

_HEADING = re.compile(r"\n\n(?=\w+\n-{3,}\n)")


def documented(estimator: type[Estimator]) -> type[Estimator]:
    """Add to the docstring what those of the bases say of parameters, attributes, and in notes.

    Of several descriptions that of the most special class counts. Parameters come in the order of
    the signature, but last those of the first base that are taken by keyword alone.
    """
    own = _sections(estimator)
    if "Examples" not in own:  # python -OO leaves no docstring, or what dataclasses make of none
        return estimator
    parameters: dict[str, str] = {}
    attributes: dict[str, str] = {}
    notes: list[str] = []
    of_first: set[str] = set()
    for kind in reversed(estimator.__mro__):
        found = _sections(kind) if kind.__module__.startswith("dpfast.") else {}
        for title, known in (("Parameters", parameters), ("Attributes", attributes)):
            entries = re.split(r"\n(?=\S)", found[title]) if title in found else ()
            known.update((re.split(r"\W", text)[0], text) for text in entries)
        of_first = of_first or set(parameters)
        notes += [found["Notes"]] if "Notes" in found else []
    taken = inspect.signature(estimator).parameters.values()
    ordered = sorted(taken, key=lambda p: p.kind is p.KEYWORD_ONLY and p.name in of_first)
    texts = {
        "Parameters": "\n".join(parameters[p.name] for p in ordered),
        "Attributes": "\n".join(attributes.values()),
        "Notes": "\n\n".join(notes),
        "Examples": own["Examples"],
    }
    parts = (f"{title}\n{'-' * len(title)}\n{text}" for title, text in texts.items())
    estimator.__doc__ = "\n\n".join((own[""], *parts))
    return estimator


def _sections(kind: type) -> dict[str, str]:
    """The parts of a docstring by their headings; "" is what comes before the first."""
    start, *others = _HEADING.split(inspect.cleandoc(kind.__doc__ or ""))
    split = (text.split("\n", 2) for text in others)
    return {"": start, **{title: text for title, _, text in split}}
