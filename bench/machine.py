"""What the numbers depend on: machine, system, libraries, build.  No host or user names."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "threadpoolctl",
    "matplotlib",
    "cython",
    "torch",
    "opacus",
)
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def describe() -> dict[str, Any]:
    """Environment of a run; what cannot be found out is None."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "caches": _caches(),
        "memory_gib": _memory_gib(),
        "load_average": load_average(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "blas": _blas(),
        "thread_variables": {
            name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ
        },
        "dpfast": _dpfast(),
        "git": _git(),
    }


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or None
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or None


def largest_cache() -> int:
    """Bytes of the largest cache; 0 if it is not known."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    sizes = [re.search(r"(\d+)([KMG])", entry) for entry in _caches()]
    return max((int(m[1]) * units[m[2]] for m in sizes if m), default=0)


def _caches() -> list[str]:
    """Such as "L2 Unified 2048K", of the first core."""
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        found.append(f"L{level} {kind} {size}")
    return found


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def load_average() -> float | None:
    """Of the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _blas() -> list[str]:
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    pools = threadpool_info()
    keys = ("internal_api", "version", "architecture")
    return sorted({" ".join(str(p[key]) for key in keys if p.get(key)) for p in pools})


def _dpfast() -> dict[str, Any]:
    import dpfast
    from dpfast import _kernels

    return {
        "version": dpfast.__version__,
        "instruction_set": _kernels.isa_name(),
        "supported": _kernels.supported_isas(),
        "compiler": _compiler(Path(_kernels.__file__)),
    }


def _compiler(library: Path) -> str | None:
    """The compiler's own signature in the library; GCC and Clang leave one on most systems."""
    pattern = rb"(GCC: \([^)\0]*\) [\w.]+|[\w ]*clang version [\w.]+)"
    found = sorted(
        {m.decode("ascii", "replace") for m in re.findall(pattern, library.read_bytes())}
    )
    return ", ".join(found) or None


def _git() -> dict[str, Any] | None:
    commit = _output("git", "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _output("git", "status", "--porcelain", "--", "dpfast", "csrc", "bench/*.py")
    return {"commit": commit, "modified": bool(changed)}


def _output(*command: str) -> str | None:
    try:
        result = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
