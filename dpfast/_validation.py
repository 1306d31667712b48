"""One-line checks of arguments, whose messages say what was expected and what came; warnings."""

import difflib
import inspect
import math
import numbers
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

_NOT_BLAMED = ("dpfast.", "sklearn.", "joblib.")
_ID = re.compile(r"(?i:(^|[\W_])(id|uuid|pid|mrn|ssn)s?$)|[a-z]I[dD]$")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line that called the package, however far from it this is.

    If scikit-learn called it, it is the line that called scikit-learn, in the same thread.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_NOT_BLAMED):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def python_number(value: Any) -> Any:
    """A scalar of NumPy's as Python's number, anything else as it is.

    Theirs would keep their arithmetic: a float32 rounds what is computed from it a billion times as
    coarsely, Python's floats included, and a product of a uint8 wraps round.
    """
    if type(value) in (int, float, bool) or not isinstance(value, numbers.Real):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def keep_python_numbers(instance: object) -> None:
    """Make Python's numbers of NumPy's scalars among the fields of a frozen dataclass."""
    for name, value in list(vars(instance).items()):
        object.__setattr__(instance, name, python_number(value))


def _message(name: str, expected: str, value: object, hint: str) -> str:
    text = f"{name} must be {expected}; got {value!r} ({type(value).__name__})."
    return f"{text} {hint}" if hint else text


def check_real(
    name: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    allow_inf: bool = False,
    hint: str = "",
) -> float:
    """Return `value` as a float if it is a real number in the stated interval.

    Booleans, strings and NaN are refused: each of them is far more often a slip than a number.
    """
    if type(value) is float:  # mostly, and this is asked thousands of times a fit
        number = value
    elif isinstance(value, bool) or not isinstance(value, numbers.Real):
        expected = _interval(low, high, low_open, high_open)
        raise TypeError(_message(name, expected, value, hint))
    else:
        try:
            number = float(value)
        except OverflowError:  # an integer or a fraction beyond float64
            number = math.inf if value == abs(value) else -math.inf
    inside = not math.isnan(number) and (allow_inf or not math.isinf(number))
    # Comparisons are written so that NaN fails them.
    if low is not None:
        inside = inside and (number > low if low_open else number >= low)
    if high is not None:
        inside = inside and (number < high if high_open else number <= high)
    if not inside:
        expected = _interval(low, high, low_open, high_open)
        raise ValueError(_message(name, expected, value, hint))
    return number


def _interval(low: float | None, high: float | None, low_open: bool, high_open: bool) -> str:
    """What :func:`check_real` expects, in words."""
    if low is None and high is None:
        return "a finite real number"
    if high is None:
        return f"a real number {'>' if low_open else '>='} {low:g}"
    if low is None:
        return f"a real number {'<' if high_open else '<='} {high:g}"
    brackets = ("(" if low_open else "[", ")" if high_open else "]")
    return f"a real number in {brackets[0]}{low:g}, {high:g}{brackets[1]}"


def check_integer(
    name: str, value: object, *, low: int | None = None, high: int | None = None, hint: str = ""
) -> int:
    """Return `value` as an int if it is an integer in ``[low, high]``.

    Booleans and floats are refused.
    """
    if type(value) is int:
        number = value
    elif isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(_message(name, _range(low, high), value, hint))
    else:
        number = int(value)
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(_message(name, _range(low, high), value, hint))
    return number


def _range(low: int | None, high: int | None) -> str:
    """What :func:`check_integer` expects, in words."""
    if low is not None and high is not None:
        return f"an integer in [{low}, {high}]"
    if low is not None:
        return f"an integer >= {low}"
    return "an integer" if high is None else f"an integer <= {high}"


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False.

    0 and 1 are refused.
    """
    if not isinstance(value, bool):
        raise TypeError(_message(name, "True or False", value, ""))
    return value


def check_choice(name: str, value: object, choices: Sequence[str], hint: str = "") -> str:
    """Return `value` if it is one of the strings in `choices`."""
    if isinstance(value, str) and value in choices:
        return value
    expected = "one of " * (len(choices) > 1) + ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str):
        raise TypeError(_message(name, expected, value, hint))
    hint = f"{hint}{did_you_mean(value, choices)}".strip()
    raise ValueError(_message(name, expected, value, hint))


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A question, after a space, that names the choice like a word; nothing if none is."""
    folded = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), folded, 1, cutoff=0.7)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


def counted(number: int, noun: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def too_few(number: int, noun: str) -> str:
    """The beginning of a sentence: 1 row is too few, 2 rows are too few."""
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'} too few"


def id_names(names: Iterable[str]) -> list[str]:
    """Those of the names that say who or what a row is, such as patient_id, stayID, MRN."""
    return [name for name in names if _ID.search(name)]
