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


def compile_and_run(compiler, program, tmp_path, flags):
    binary = tmp_path / program.stem
    sources = [str(program), *(str(p) for p in sorted(CSRC.glob("*.c")))]
    command = [compiler, *flags, f"-I{CSRC}", "-o", str(binary), *sources, "-lm"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, f"{' '.join(command)}\n{built.stderr}"
    ran = subprocess.run([binary], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def links(compiler, tmp_path, flags):
    """Whether the compiler has the runtime that the flags need."""
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    command = [compiler, *flags, str(source), "-o", str(tmp_path / "empty")]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_c_program_under_sanitizers(compiler, program, tmp_path):
    if not links(compiler, tmp_path, SANITIZE):
        pytest.skip(f"{compiler} has no sanitizer runtime")
    compile_and_run(compiler, program, tmp_path, [*STRICT, *SANITIZE])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_c_program_optimized_and_without_int128(program, tmp_path):
    """The fallback of compilers without a 128-bit integer, and the portable vector type."""
    flags = [*STRICT, "-O2", "-fno-trapping-math", "-DDPFAST_NO_INT128", "-DDPFAST_NO_VECTOR_TYPE"]
    compile_and_run(COMPILERS[0], program, tmp_path, flags)
