"""What a bug report needs: versions, instruction set, threads, the source of randomness."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from dpfast import _kernels
from dpfast._version import __version__

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "rich",
    "dp-accounting",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "dask",
)


def show_versions() -> None:
    """Print versions of dpfast and of what it uses, and how its kernels run on this machine.

    Nothing is read from any data, and nothing leaves the machine.

    Examples
    --------
    >>> import dpfast
    >>> dpfast.show_versions()
    dpfast: ...
    """
    lines = {"dpfast": __version__, "python": sys.version.split()[0]}
    lines["platform"] = platform.platform()
    for package in _PACKAGES:
        try:
            lines[package] = version(package)
        except PackageNotFoundError:
            lines[package] = "not installed"
    supported = ", ".join(_kernels.supported_isas())
    lines["kernels"] = f"{_kernels.isa_name()} (this processor supports {supported})"
    lines["threads"] = f"1 unless n_jobs says otherwise; {os.cpu_count() or 1} cores"
    # The global interpreter lock is released in every kernel; without it, fits run side by side.
    lines["interpreter lock"] = "on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off"
    lines["randomness"] = f"ChaCha20, keyed for each fit by {_entropy_source()}"
    for name, value in lines.items():
        print(f"{name}: {value}")


def _entropy_source() -> str:
    if sys.platform == "win32":
        return "BCryptGenRandom"
    if sys.platform.startswith("linux"):
        return "getrandom(2), or /dev/urandom on kernels without it"
    return "getentropy(2)"
