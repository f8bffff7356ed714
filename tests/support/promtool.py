"""Prometheus's own check of rules and expressions, where it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str | Path) -> str:
    """The output of promtool, which takes what it is given."""
    if (command := shutil.which("promtool")) is None:
        pytest.skip("promtool is not there: Debian's package prometheus has it")
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
