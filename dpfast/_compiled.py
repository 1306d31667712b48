"""Says what to do where the package is imported without its compiled kernels."""

from importlib.util import find_spec
from pathlib import Path

if find_spec("dpfast._kernels") is None:
    raise ImportError(
        f"dpfast is imported from {Path(__file__).parent}, which is not compiled. If that is the "
        "source folder, start Python in another one to use the installed package, or compile it in "
        "place: pip install -e ."
    )
