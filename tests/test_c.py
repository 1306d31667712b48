"""Compiles csrc alone, with the C tests, under the address and undefined-behavior sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CSRC = ROOT / "csrc"
PROGRAMS = sorted((Path(__file__).parent / "c").glob("test_*.c"))
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]

pytestmark = pytest.mark.skipif(
    not CSRC.is_dir() or not COMPILERS, reason="needs the C sources and a C compiler"
)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compiles csrc once for each compiler and set of flags, and remembers the objects."""
    built = {}

    def objects(compiler, flags):
        key = (compiler, *flags)
        if key not in built:
            folder = tmp_path_factory.mktemp("objects")
            sources = [str(p) for p in sorted(CSRC.glob("*.c"))]
            run([compiler, *flags, f"-I{CSRC}", "-c", *sources], cwd=folder)
            built[key] = [str(p) for p in sorted(folder.glob("*.o"))]
        return built[key]

    return objects


def compile_and_run(compiler, program, tmp_path, flags, objects):
    binary = tmp_path / program.stem
    run([compiler, *flags, f"-I{CSRC}", "-o", str(binary), str(program), *objects, "-lm"])
    return run([binary], timeout=300)


def links(compiler, tmp_path, flags):
    """Whether the compiler has the runtime that the flags need."""
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    command = [compiler, *flags, str(source), "-o", str(tmp_path / "empty")]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_c_program_under_sanitizers(compiler, program, tmp_path, library):
    if not links(compiler, tmp_path, SANITIZE):
        pytest.skip(f"{compiler} has no sanitizer runtime")
    flags = [*STRICT, *SANITIZE]
    compile_and_run(compiler, program, tmp_path, flags, library(compiler, flags))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_c_program_optimized_and_without_int128(program, tmp_path, library):
    """The fallback of compilers without a 128-bit integer, and the portable vector type."""
    flags = [*STRICT, "-O2", "-fno-trapping-math", "-DDPFAST_NO_INT128", "-DDPFAST_NO_VECTOR_TYPE"]
    compile_and_run(COMPILERS[0], program, tmp_path, flags, library(COMPILERS[0], flags))
