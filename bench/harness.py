"""Timing that survives a busy machine, and the records it leaves.

Competitors take turns within each round, so that a change of clock speed or a noisy neighbor hits
all of them, and the minimum over the rounds is what counts.  Every record carries its time and its
speed relative to something timed in the same rounds; ratios travel between machines, seconds do
not.
"""

from __future__ import annotations

import gc
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Loaded = TypeVar("Loaded")

FORMAT = "dpfast-bench"
VERSION = 1

# A sample shorter than this is repeated in a loop: timer and scheduler noise would dominate it.
_SHORTEST_SAMPLE = 0.01
# A group of competitors that takes longer than this is cut to the fewest rounds.
_GROUP_SECONDS = 40.0
_FEWEST_ROUNDS = 3
# Caches matter little to a call that takes longer.
_SLOW_CALL = 1.0


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the best of the rounds, their median, and how many there were."""

    seconds: float
    median: float
    rounds: int


def interleave(
    contestants: Mapping[str, Callable[[], object]],
    *,
    repeat: int,
    shortest_sample: float = _SHORTEST_SAMPLE,
    group_seconds: float = _GROUP_SECONDS,
    fewest_rounds: int = _FEWEST_ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time the contestants in turns.

    Parameters
    ----------
    contestants : mapping of str to callable
        Each is called once untimed, to fill caches, and if that was quick once more, to see how
        long it takes.
    repeat : int
        Rounds; fewer, but at least `fewest_rounds`, if they would take longer than `group_seconds`.
    shortest_sample : float
        Quick contestants are called in a loop that lasts about this many seconds.
    group_seconds : float
    fewest_rounds : int
    clock : callable
        ``time.process_time`` for work on one thread that other processes should not lengthen.

    Returns
    -------
    dict of str to Timing
        Seconds of a single call.
    """
    if repeat < 1:
        raise ValueError(f"repeat must be at least 1; got {repeat}.")
    loops = {}
    for name, call in contestants.items():
        seconds = _sample(call, 1, clock)
        if seconds < _SLOW_CALL:
            seconds = _sample(call, 1, clock)
        loops[name] = max(1, math.ceil(shortest_sample / max(seconds, 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    start = clock()
    for done in range(1, repeat + 1):
        for name in order:
            samples[name].append(_sample(contestants[name], loops[name], clock))
        # Rotated, so that nobody always runs in the caches that the same rival left behind.
        order = order[1:] + order[:1]
        if done >= fewest_rounds and clock() - start > group_seconds:
            break
    return {
        name: Timing(min(values), statistics.median(values), len(values))
        for name, values in samples.items()
    }


def _sample(call: Callable[[], object], loops: int, clock: Callable[[], float]) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        start = clock()
        for _ in range(loops):
            call()
        return (clock() - start) / loops
    finally:
        if collecting:
            gc.enable()


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS and OpenMP to one thread; warn where that cannot be done."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        warnings.warn(
            "threadpoolctl is not installed, so BLAS may use several threads and one-thread "
            "comparisons are void. Install dpfast[bench].",
            RuntimeWarning,
            stacklevel=3,
        )
        yield
        return
    with threadpool_limits(limits=1):
        yield


@dataclass(frozen=True)
class Record:
    """One competitor on one case.

    Attributes
    ----------
    group : str
        What is compared, such as an operation or a data set.
    case : mapping
        The setting: sizes, epsilon.
    competitor : str
    values : mapping of str to float
        What was measured; times are in seconds.
    speed : mapping of str to float
        How many times faster than a competitor of the same rounds: its seconds over ours.
    """

    group: str
    case: Mapping[str, int | float | str]
    competitor: str
    values: Mapping[str, float]
    speed: Mapping[str, float] = field(default_factory=dict)


def timing_records(
    group: str,
    case: Mapping[str, int | float | str],
    timings: Mapping[str, Timing],
    references: Iterable[str],
) -> list[Record]:
    """Records of one set of rounds, with speeds relative to those references that took part."""
    present = [name for name in references if name in timings]
    return [
        Record(
            group,
            dict(case),
            name,
            {"seconds": t.seconds, "median_seconds": t.median, "rounds": t.rounds},
            {other: timings[other].seconds / t.seconds for other in present if other != name},
        )
        for name, t in timings.items()
    ]


def scores(**samples: Sequence[float]) -> dict[str, float]:
    """Means of samples; standard errors under such names as ``excess_standard_error``."""
    found: dict[str, float] = {}
    for name, sample in samples.items():
        spread = statistics.stdev(sample) if len(sample) > 1 else 0.0
        found |= {
            name: statistics.fmean(sample),
            f"{name}_standard_error": spread / math.sqrt(len(sample)),
        }
    return found


@dataclass
class Run:
    """Settings of one run, and the remarks that end up in its report."""

    quick: bool = False
    repeat: int = 7
    data: Path | None = None
    notes: list[str] = field(default_factory=list)
    say: Callable[[str], None] = print
    #: Other interpreters in which competitors may be installed.
    pythons: tuple[Path, ...] = ()

    def note(self, text: str) -> None:
        """Say something that readers of the report must know too."""
        if text not in self.notes:
            self.notes.append(text)
            self.say(f"  note: {text}")

    def tables(self, loaders: Mapping[str, Callable[[Path], Loaded]]) -> Iterator[Loaded]:
        """What the directory of real tables holds of these; what is absent is noted."""
        for name, load in loaders.items():
            if self.data is None:
                self.note(f"{name} left out: give its directory with --data.")
                continue
            try:
                yield load(self.data)
            except FileNotFoundError as error:
                self.note(f"{name} left out: {Path(error.filename).name} is not there.")


@dataclass(frozen=True)
class Document:
    """All that a run of one suite leaves behind; JSON on disk."""

    suite: str
    quick: bool
    repeat: int
    sizes: Mapping[str, Any]
    environment: Mapping[str, Any]
    competitors: Mapping[str, str]
    notes: list[str]
    records: list[Record]

    def to_json(self) -> str:
        """JSON text; numbers keep six digits, which is more than any timing deserves."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(_rounded(body), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Document:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        ValueError
            If the text is something else, or of another version.
        """
        body = json.loads(text)
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise ValueError(f"text must be a benchmark result of format {FORMAT!r}.")
        if body.get("version") != VERSION:
            raise ValueError(f"version must be {VERSION}; got {body.get('version')!r}.")
        fields = {key: value for key, value in body.items() if key not in ("format", "version")}
        expected = {name: field.type for name, field in cls.__dataclass_fields__.items()}
        if set(fields) != set(expected):
            raise ValueError(
                f"fields must be {', '.join(sorted(expected))}; got {', '.join(sorted(fields))}."
            )
        try:
            fields["records"] = [Record(**record) for record in fields["records"]]
        except TypeError as error:
            raise ValueError(f"a record is malformed: {error}") from None
        return cls(**fields)


def _rounded(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return float(f"{float(value):.6g}")
