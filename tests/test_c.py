"""Compiles csrc alone, with the C tests, under the address and undefined-behavior sanitizers."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CSRC = ROOT / "csrc"
PROGRAMS = sorted((Path(__file__).parent / "c").glob("test_*.c"))
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
# Unoptimized and without debugging symbols: compiling is most of this test's time, and a report
# names file and line (undefined behavior) or function (addresses) all the same.
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O0"]
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]

pytestmark = pytest.mark.skipif(
    not CSRC.is_dir() or not COMPILERS, reason="needs the C sources and a C compiler"
)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_programs(compiler, flags, folder, programs=PROGRAMS, under=()):
    """Compiles csrc once and runs every program against it."""
    sources = [str(p) for p in sorted(CSRC.glob("*.c"))]
    run([compiler, *flags, f"-I{CSRC}", "-c", *sources], cwd=folder)
    objects = [str(p) for p in sorted(folder.glob("*.o"))]
    assert programs
    for program in programs:
        binary = folder / program.stem
        run([compiler, *flags, f"-I{CSRC}", "-o", str(binary), str(program), *objects, "-lm"])
        run([*under, binary])


def links(compiler, folder, flags):
    """Whether the compiler has the runtime that the flags need."""
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    command = [compiler, *flags, str(source), "-o", str(folder / "empty")]
    return subprocess.run(command, capture_output=True).returncode == 0


# One test for all programs: the library is compiled once, whichever process runs the test.


@pytest.mark.parametrize(
    "compiler",
    [
        # Compiling takes a minute of processor time: the other compiler has its turn by hand.
        pytest.param(name, marks=[pytest.mark.slow] if number else [])
        for number, name in enumerate(COMPILERS)
    ],
)
def test_c_programs_under_sanitizers(compiler, tmp_path):
    if not links(compiler, tmp_path, SANITIZE):
        pytest.skip(f"{compiler} has no sanitizer runtime")
    run_programs(compiler, [*STRICT, *SANITIZE], tmp_path)


# What MSVC lacks.  The headers of the system may use it, and are therefore read before.
GNU_ONLY = """
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#pragma GCC poison __attribute__ __attribute __int128 __int128_t __uint128_t
#pragma GCC poison typeof __typeof__ __auto_type asm __asm__ __asm __restrict__ __inline__
#pragma GCC poison __builtin_prefetch __builtin_convertvector __builtin_shuffle __builtin_expect
#pragma GCC poison __builtin_clz __builtin_clzll __builtin_ctz __builtin_ctzll __builtin_popcount
#pragma GCC poison __builtin_cpu_init __builtin_cpu_supports __builtin_unreachable __builtin_fma
#pragma GCC poison __builtin_add_overflow __builtin_mul_overflow __builtin_assume_aligned
"""
PORTABLE = [*STRICT, "-pedantic-errors", "-Wvla", "-D_DEFAULT_SOURCE=1", "-DDPFAST_PORTABLE"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names the headers of Linux")
def test_c_programs_without_what_only_some_compilers_have(tmp_path):
    """The fallbacks that MSVC compiles: no vector type, no 128-bit integer, no builtin."""
    header = tmp_path / "gnu_only.h"
    header.write_text(GNU_ONLY)
    run_programs(COMPILERS[0], [*PORTABLE, "-include", str(header), "-O0"], tmp_path)


@pytest.mark.slow
def test_c_programs_without_what_only_some_compilers_have_optimized(tmp_path):
    run_programs(COMPILERS[0], [*PORTABLE, "-O2", "-fno-trapping-math"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_kernels_in_threads_under_the_thread_sanitizer(compiler, tmp_path):
    flags = [*STRICT, "-fsanitize=thread", "-O0", "-pthread"]
    if not links(compiler, tmp_path, flags):
        pytest.skip(f"{compiler} has no thread sanitizer")
    run_programs(compiler, flags, tmp_path, [Path(__file__).parent / "c" / "threads.c"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_fuzzed_kernels_under_valgrind(tmp_path):
    """Reads of memory that was never written, which the sanitizers do not see; no AVX-512.

    Of what works on arrays the other programs call no more than this one, but for the generator's
    bare blocks and the entropy of the operating system.
    """
    program = Path(__file__).parent / "c" / "test_fuzz.c"
    flags = [*STRICT, "-O0", "-g", "-DDPFAST_FUZZ_AVX2_AT_MOST"]
    under = ["valgrind", "-q", "--error-exitcode=3", "--leak-check=full"]
    run_programs(COMPILERS[0], flags, tmp_path, [program], under)
