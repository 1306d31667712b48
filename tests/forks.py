"""Forked children that hand bytes back."""

import os
import signal

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def in_child(function):
    """Bytes that `function` returns in a forked child, which must finish within a minute."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)  # a deadlock ends the child, and the test fails
            os.write(write, function())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return data
