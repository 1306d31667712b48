"""Many suites as one command: each in a process of its own, what is timed alone on the machine.

Suites that do not time anything run two at a time (one process a core); the others follow one by
one.  A suite that times a part of its work asks for the machine meanwhile, see
:func:`bench.harness.undisturbed`.  A suite that fails takes nobody's results along: every suite
writes its own files when it ends.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import TURNS_VARIABLE
from bench.machine import ROOT

# Lines of a failing suite that are shown.
_LAST_LINES = 12


@dataclass(frozen=True)
class Job:
    """A suite to run.

    Attributes
    ----------
    name : str
    command : sequence of str
        Exit code 0 means that the results are written.
    minutes : float
        How long it is expected to take.
    timed : bool
        Whether it needs the machine to itself throughout.
    """

    name: str
    command: Sequence[str]
    minutes: float
    timed: bool


@dataclass
class Progress:
    """What is left of a list of jobs, and how long that may take."""

    jobs: Sequence[Job]
    workers: int
    clock: Callable[[], float] = time.monotonic
    started: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """The job begins."""
        self.started[name] = self.clock()

    def end(self, name: str) -> float:
        """The job has ended; the seconds it took."""
        self.took[name] = self.clock() - self.started[name]
        return self.took[name]

    def seconds_left(self) -> float:
        """Of all jobs together, at the pace of those that have ended."""
        expected = sum(60.0 * job.minutes for job in self.jobs if job.name in self.took)
        pace = sum(self.took.values()) / expected if expected > 0.0 else 1.0
        now = self.clock()
        left: dict[bool, list[float]] = {False: [], True: []}
        for job in self.jobs:
            if job.name not in self.took:
                whole = 60.0 * job.minutes * pace
                done = now - self.started[job.name] if job.name in self.started else 0.0
                left[job.timed].append(max(whole - done, 0.0))
        together = left[False]
        # No schedule is shorter than its longest job, nor than all of them on all workers.
        shared = max([*together, sum(together) / self.workers]) if together else 0.0
        return shared + sum(left[True])


def expected_minutes(jobs: Sequence[Job], workers: int) -> float:
    """How long :func:`run` is expected to take."""
    return Progress(jobs, workers).seconds_left() / 60.0


def run(jobs: Sequence[Job], workers: int, say: Callable[[str], None] = print) -> dict[str, int]:
    """Run the jobs; exit codes by name.

    Parameters
    ----------
    jobs : sequence of Job
    workers : int
        Jobs at a time, of those that are not timed.
    say : callable
        Takes what they print, line by line, and the progress.
    """
    progress = Progress(jobs, workers)
    codes: dict[str, int] = {}
    lock = threading.Lock()
    running: set[subprocess.Popen[str]] = set()
    say(f"{len(jobs)} suites, about {shown(progress.seconds_left())}")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, TURNS_VARIABLE: folder, "PYTHONUNBUFFERED": "1"}

        def work(queue: list[Job]) -> None:
            while True:
                with lock:
                    if not queue:
                        return
                    job = queue.pop(0)
                    progress.start(job.name)
                    say(f"{job.name}: begins, about {shown(60.0 * job.minutes)}")
                code, last = _run(job, environment, lambda line: _locked(lock, say, line), running)
                with lock:
                    codes[job.name] = code
                    took = progress.end(job.name)
                    if code:
                        say(f"{job.name}: FAILED with exit code {code} after {shown(took)}")
                        for line in last:
                            say(f"  {line}")
                    else:
                        say(f"{job.name}: done in {shown(took)}")
                    if len(codes) < len(jobs):
                        left = shown(progress.seconds_left())
                        say(f"{len(jobs) - len(codes)} suites left, about {left}")

        # The longest first, so that the last ones to end are short.
        shared = sorted((j for j in jobs if not j.timed), key=lambda j: -j.minutes)
        threads = [threading.Thread(target=work, args=(shared,)) for _ in range(workers)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            work([job for job in jobs if job.timed])
        finally:
            # Ctrl-C: nothing else begins, and what runs ends.
            shared.clear()
            for process in list(running):
                process.terminate()
    return codes


def _locked(lock: threading.Lock, say: Callable[[str], None], line: str) -> None:
    with lock:
        say(line)


def _run(
    job: Job,
    environment: dict[str, str],
    say: Callable[[str], None],
    running: set[subprocess.Popen[str]],
) -> tuple[int, list[str]]:
    """Exit code and last lines of a job, whose lines are passed on under its name."""
    last: list[str] = []
    try:
        with subprocess.Popen(
            list(job.command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=_working_directory(),
            env=environment,
            text=True,
            errors="replace",
        ) as process:
            running.add(process)
            try:
                assert process.stdout is not None
                for raw in process.stdout:
                    line = raw.rstrip()
                    last = [*last, line][-_LAST_LINES:]
                    if line.startswith("  "):  # its own headings are said here already
                        say(f"  [{job.name}] {line.strip()}")
                return process.wait(), last
            except BaseException:
                process.terminate()
                raise
            finally:
                running.discard(process)
    except OSError as error:
        return 127, [str(error)]


def _working_directory() -> Path:
    """From where ``python -m bench`` finds this package."""
    return ROOT


def shown(seconds: float) -> str:
    """Seconds, minutes, or hours and minutes."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
