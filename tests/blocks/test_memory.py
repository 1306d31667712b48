"""A gigabyte of rows, fitted in a process of its own that reports its peak."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "bench" / "large_data.py"


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPT.is_file(), reason="the benchmarks are not part of a package")
@pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks as Linux has them")
def test_a_gigabyte_is_fitted_in_a_fraction_of_it(tmp_path):
    pytest.importorskip("pyarrow")

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "bench.large_data", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    run("make", tmp_path, "--rows", 2_500_000, "--columns", 100)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 1e9
    for solver in ("objective-perturbation", "dp-adassp"):
        # The limit is on addresses, of which libraries take a gigabyte or two before any rows.
        text = run("fit", tmp_path, "--limit", 4, "--solver", solver)
        peak = float(re.search(r"peak resident memory ([\d.]+) GiB", text).group(1))
        # The interpreter and its libraries take 0.25; as float64 the rows would be 2.
        assert peak < 0.75
        assert float(re.search(r"cosine to the true weights ([\d.]+)", text).group(1)) > 0.99
