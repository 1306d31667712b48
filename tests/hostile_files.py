"""JSON files as a failing disk, a careless editor or an enemy would leave them."""

import functools
import json
import re
from collections.abc import Iterator

from hypothesis import strategies as st

#: What can stand where a value stood; never what a file of ours has there.
VALUES = {
    "nested beyond the limit": "[" * 120 + "]" * 120,
    "nested beyond what Python can show": '{"a":' * 960 + "0" + "}" * 960,
    "nested beyond what Python can read": "[" * 100_000,
    "beyond float64": "1" + "0" * 400,
    "more digits than Python reads": "9" * 5000,
    "overflow": "-1e999",
    "no number": "NaN",
    "a key twice": '{"a": 1, "a": 1}',
    "half a character": '"\\ud800"',
    "end of text": '"\\u0000"',
    "object": '{"x": [0, 1]}',
    "lists": "[[[0, 1]], []]",
    "nothing": "",
}


_TEXTS = st.text(max_size=5)


@functools.cache
def json_values(texts=_TEXTS, keys=_TEXTS, lists=None, most=8):
    """Any values of JSON; made once: that takes longer than drawing from them."""
    numbers = st.integers() | st.just(10**400) | st.floats(allow_nan=False, allow_infinity=False)

    def grown(child):
        found = st.lists(child, max_size=4) | st.dictionaries(keys, child, max_size=4)
        return found if lists is None else found | lists

    return st.recursive(st.none() | st.booleans() | numbers | texts, grown, max_leaves=most)


def damaged(text: str) -> Iterator[bytes]:
    """Copies of a document that was cut off at a byte, is no UTF-8, or repeats a key."""
    data = text.rstrip().encode()
    for length in range(len(data)):
        yield data[:length]
    for index in range(0, len(data), 5):
        yield data[:index] + b"\xff" + data[index + 1 :]
    for begun in re.finditer(rb'\{\s*("[^"]+"):', data):
        yield data[: begun.end()] + b" 0, " + begun[1] + b":" + data[begun.end() :]


def replaced(text: str) -> Iterator[str]:
    """Copies of a document in which one of the VALUES stands in the place of one value."""
    for path in _places(json.loads(text)):
        record = json.loads(text)
        holder = record
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = "HERE"
        before, after = json.dumps(record).split('"HERE"')
        for value in VALUES.values():
            yield before + value + after


def _places(record, path=()):
    if isinstance(record, dict | list):
        pairs = record.items() if isinstance(record, dict) else enumerate(record)
        for key, child in pairs:
            yield (*path, key)
            yield from _places(child, (*path, key))
