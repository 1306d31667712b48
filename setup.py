"""Builds the one extension module; everything else is in pyproject.toml.

DPFAST_DEBUG=1 switches on bounds checks in Cython and assertions in C, and switches optimization
down.
"""

import os
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
DEBUG = os.environ.get("DPFAST_DEBUG", "0") not in ("", "0")
# One wheel for every CPython from 3.11 on; free-threaded builds have no stable ABI yet.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED = os.environ.get("DPFAST_LIMITED_API", "0") not in ("", "0") and not FREE_THREADED
MSVC = sys.platform == "win32"
# What takes a compiler the longest: Cython's file, and the stamps of the large headers.
LONGEST = ("_kernels", "epochs_", "dense_", "csr_")

# Setuptools wants paths relative to setup.py.  Every C file and header is a dependency, so that an
# edit to any of them rebuilds the extension.
SOURCES = sorted(str(p.relative_to(ROOT).as_posix()) for p in (ROOT / "csrc").glob("*.c"))
DEPENDS = SOURCES + sorted(
    str(p.relative_to(ROOT).as_posix())
    for pattern in ("csrc/*.h", "dpfast/*.pxi", "dpfast/*.pxd")
    for p in ROOT.glob(pattern)
)

if MSVC:
    CFLAGS = ["/Od" if DEBUG else "/O2", "/fp:precise"]
    LIBRARIES = ["bcrypt"]
else:
    CFLAGS = [
        "-std=c99",
        "-O1" if DEBUG else "-O3",
        # errno and floating-point traps are never read; NaN and infinity keep their meaning, which
        # the privacy argument needs, so -ffast-math is out of the question.
        "-fno-math-errno",
        "-fno-trapping-math",
        "-ffp-contract=fast",
        "-Wall",
        "-Wextra",
        "-Wno-psabi",  # vectors are passed between inlined functions only
        "-fvisibility=hidden",
    ]
    LIBRARIES = ["m"]
    # Python's own flags ask for debugging symbols, which take a third of the time of a build.
    CFLAGS += ["-g", "-UNDEBUG"] if DEBUG else ["-g0"]

extension = Extension(
    "dpfast._kernels",
    sources=["dpfast/_kernels.pyx", *SOURCES],
    depends=DEPENDS,
    include_dirs=["csrc"],
    extra_compile_args=CFLAGS,
    libraries=LIBRARIES,
    define_macros=([] if DEBUG else [("NDEBUG", None)])
    # Microsoft's headers of 2024 made NAN a call, which no table can hold; this is NAN as before.
    + ([("_UCRT_NOISY_NAN", None)] if MSVC else [])
    + ([("Py_LIMITED_API", "0x030B0000")] if LIMITED else []),
    py_limited_api=LIMITED,
    language="c",
)


class ParallelBuild(build_ext):
    """Compiles the C files of the extension on all cores; setuptools takes one after another."""

    def build_extension(self, ext):
        compile_all = self.compiler.compile

        def compile_each(sources, **options):
            # The longest first, so that no core is left with it at the end.
            order = sorted(sources, key=os.path.getsize, reverse=True)
            order.sort(key=lambda source: not Path(source).name.startswith(LONGEST))
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                parts = pool.map(lambda source: compile_all([source], **options), order)
                objects = dict(zip(order, parts, strict=True))
            return [file for source in sources for file in objects[source]]

        self.compiler.compile = compile_each
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_all


# Always rebuild: a build takes seconds, and neither an edited header nor a switch between debug and
# release can then leave a stale object behind.
setup(
    cmdclass={"build_ext": ParallelBuild},
    options={
        "build_ext": {"force": True},
        "bdist_wheel": {"py_limited_api": "cp311"} if LIMITED else {},
    },
    ext_modules=cythonize(
        [extension],
        force=True,
        compiler_directives={
            "language_level": "3",
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "cdivision": True,
            "embedsignature": True,
            "freethreading_compatible": True,
        },
    ),
)
