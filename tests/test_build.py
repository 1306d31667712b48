"""The build: which wheels, an edit of any C file or header takes effect, the debug switch works."""

import importlib.util
import os
import re
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


@pytest.mark.skipif(
    not (ROOT / "docs" / "release.md").exists() or not importlib.util.find_spec("cibuildwheel"),
    reason="needs cibuildwheel, and the pages that name the wheels",
)
@pytest.mark.parametrize(
    ("platform", "processors"),
    [("linux", "x86_64,aarch64"), ("macos", "x86_64,arm64"), ("windows", "AMD64")],
)
def test_wheels_are_those_that_are_listed(platform, processors, tmp_path):
    page = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")
    (listed,) = re.findall(rf"<!-- wheels: {platform} -->\n```text\n(.*?)```", page, flags=re.S)
    command = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers"]
    command += ["--platform", platform, "--archs", processors, str(ROOT)]
    # Variables of cibuildwheel would go before the configuration.
    settings = {key: value for key, value in os.environ.items() if not key.startswith("CIBW_")}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**settings, "CIBW_CACHE_PATH": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(listed.split())


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


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="needs the source tree")
@pytest.mark.parametrize(
    "settings",
    [{"CFLAGS": "-DDPFAST_PORTABLE"}, {"CC": "clang", "LDSHARED": "clang -shared"}],
    ids=["portable", "clang"],
)
def test_kernels_pass_their_tests_however_they_are_compiled(settings, tmp_path):
    """As MSVC compiles them, and by Clang."""
    if not shutil.which(settings.get("CC", "cc")):
        pytest.skip(f"needs {settings.get('CC', 'cc')}")
    tree = tmp_path / "tree"
    unwanted = shutil.ignore_patterns("*.so", "build", ".git", "*.egg-info", "_kernels.c")
    shutil.copytree(ROOT, tree, ignore=unwanted)
    name, _ = build(tree, **settings)
    assert name == "baseline" or "CFLAGS" not in settings
    tests = [*sorted((tree / "tests").glob("test_kernels*.py")), tree / "tests/test_random.py"]
    tests += sorted((tree / "tests").glob("test_samplers*.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, tests)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
