"""Compiles csrc alone, with the C tests, under the address and undefined-behavior sanitizers."""

import shutil
import subprocess
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


def run_programs(compiler, flags, folder):
    """Compiles csrc once and runs every program against it."""
    sources = [str(p) for p in sorted(CSRC.glob("*.c"))]
    run([compiler, *flags, f"-I{CSRC}", "-c", *sources], cwd=folder)
    objects = [str(p) for p in sorted(folder.glob("*.o"))]
    assert PROGRAMS
    for program in PROGRAMS:
        binary = folder / program.stem
        run([compiler, *flags, f"-I{CSRC}", "-o", str(binary), str(program), *objects, "-lm"])
        run([binary])


def links(compiler, folder, flags):
    """Whether the compiler has the runtime that the flags need."""
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    command = [compiler, *flags, str(source), "-o", str(folder / "empty")]
    return subprocess.run(command, capture_output=True).returncode == 0


# One test for all programs: the library is compiled once, whichever process runs the test.


@pytest.mark.parametrize("compiler", COMPILERS)
def test_c_programs_under_sanitizers(compiler, tmp_path):
    if not links(compiler, tmp_path, SANITIZE):
        pytest.skip(f"{compiler} has no sanitizer runtime")
    run_programs(compiler, [*STRICT, *SANITIZE], tmp_path)


@pytest.mark.slow
def test_c_programs_optimized_and_without_int128(tmp_path):
    """The fallback of compilers without a 128-bit integer, and the portable vector type."""
    flags = [*STRICT, "-O2", "-fno-trapping-math", "-DDPFAST_NO_INT128", "-DDPFAST_NO_VECTOR_TYPE"]
    run_programs(COMPILERS[0], flags, tmp_path)
