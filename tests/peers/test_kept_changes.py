"""Operators' changes at three real Nacos 2.3.1 and at three of ours: how long each is kept, row by row."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.network import unable
from tests.peers.conftest import LONG, skip_without_tools
from tests.peers.kept_changes.compare import faults, table
from tests.peers.kept_changes.members import fetch_real

ROOT = Path(__file__).resolve().parents[2]
RUN_TIMEOUT_S = 1_200.0

pytestmark = [
    pytest.mark.skipif(not LONG, reason="takes a quarter of an hour: set PEERS_LONG=1"),
    pytest.mark.timeout(2 * RUN_TIMEOUT_S + 60.0),
]


def play(members: str, folder: Path) -> dict[str, Any]:
    """Return what a run over members of a kind found."""
    file = folder / f"{members}.json"
    command = [sys.executable, "-m", "tests.peers.kept_changes", members, "--json", str(file)]
    environ = {**os.environ, "TMPDIR": str(folder)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_a_change_is_kept_as_long_as_at_real_nacos(tmp_path: Path) -> None:
    if reason := unable():
        pytest.skip(reason)
    skip_without_tools()
    if not fetch_real():
        pytest.skip("real Nacos 2.3.1 cannot be fetched")
    real, ours = (play(one, tmp_path) for one in ("real", "ours"))
    print(table(real, ours))
    found = list(faults(real, ours))
    assert not found, "\n".join(found)
