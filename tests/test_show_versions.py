"""The text that a bug report starts with."""

import sys

import numpy as np
import pytest

import dpfast
from dpfast import _kernels


def test_versions_kernels_and_randomness_are_named(capsys):
    dpfast.show_versions()
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["dpfast"] == dpfast.__version__
    assert lines["python"] == sys.version.split()[0]
    assert lines["numpy"] == np.__version__
    assert lines["kernels"].startswith(_kernels.isa_name())
    assert "n_jobs" in lines["threads"]
    assert lines["randomness"].startswith("ChaCha20")


def test_an_absent_package_is_no_error(capsys, monkeypatch):
    from dpfast import _show_versions

    monkeypatch.setattr(_show_versions, "_PACKAGES", ("no-such-package",))
    dpfast.show_versions()
    assert "no-such-package: not installed" in capsys.readouterr().out


def test_the_instruction_set_is_the_one_in_use(capsys, isa):
    dpfast.show_versions()
    assert f"kernels: {isa} " in capsys.readouterr().out


def test_an_uncompiled_folder_is_named(monkeypatch):
    import importlib
    import importlib.util

    from dpfast import _compiled

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"which is not compiled.*pip install -e \."):
        importlib.reload(_compiled)
