"""The build: an edit of any C file or header takes effect, and the debug switch works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROBE = "from dpfast import _kernels as k; print(k.isa_name()); print(k.read_sum.__doc__[:4])"


def build(tree, **environment):
    environment = {**os.environ, **environment}
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    probe = [sys.executable, "-c", PROBE]
    ran = subprocess.run(probe, cwd=tree, capture_output=True, text=True, check=True)
    return ran.stdout.split()[0], done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="needs the source tree")
def test_edits_and_the_debug_switch_take_effect(tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(
        ROOT,
        tree,
        ignore=shutil.ignore_patterns("*.so", "build", ".git", "*.egg-info", "_kernels.c"),
    )
    name, log = build(tree)
    assert name in ("baseline", "avx2", "avx512")
    assert "-O3" in log and "-UNDEBUG" not in log

    # A C file ...
    source = tree / "csrc" / "dispatch.c"
    named = '{"baseline", "avx2", "avx512"}'
    assert named in source.read_text()
    source.write_text(source.read_text().replace(named, "{FIRST, SECOND, THIRD}"))
    header = tree / "csrc" / "dispatch.h"
    guard = "#define DPFAST_DISPATCH_H\n"
    names = '#define FIRST "one"\n#define SECOND "two"\n#define THIRD "three"\n'
    header.write_text(header.read_text().replace(guard, guard + names))
    assert build(tree)[0] in ("one", "two", "three")
    # ... and a header alone.
    text = header.read_text()
    for old, new in (("one", "uno"), ("two", "due"), ("three", "tre")):
        text = text.replace(f'"{old}"', f'"{new}"')
    header.write_text(text)
    assert build(tree)[0] in ("uno", "due", "tre")

    name, log = build(tree, DPFAST_DEBUG="1")
    assert name in ("uno", "due", "tre")
    assert "-UNDEBUG" in log
    generated = (tree / "dpfast" / "_kernels.c").read_text()
    assert "__Pyx_RaiseBufferIndexError" in generated, "bounds checks are off in a debug build"
    assert "-UNDEBUG" not in build(tree)[1], "the debug build must not linger"
