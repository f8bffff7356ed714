"""A few scenarios, brief, each by ``python -m tests.chaos`` in namespaces of its own. More of them: docs/chaos.md."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import Kind
from tests.chaos.network import unable

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 300.0
SHOWN_MAX = 10

BUSY_S = 1.0
"""A run in which the clients' own loop was later than this shows the machine's other work (docs/chaos.md)."""


class MachineTooBusy(Exception):
    """Breaches in a run that proves nothing: it is played again once, and counted."""


pytestmark = [pytest.mark.chaos, pytest.mark.flaky(reruns=1, only_rerun=[MachineTooBusy.__name__])]


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    if reason := unable():
        pytest.skip(reason)


def play(name: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """The exit code of a brief run of a scenario, and what it wrote of it. The members' logs stay in ``folder``."""
    file = folder / "runs.json"
    command = [sys.executable, "-m", "tests.chaos", name, "--brief", "--json", str(file), "--logs", str(folder)]
    environ = {**os.environ, "TMPDIR": str(folder)}
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert file.exists(), ended.stdout + ended.stderr
    [run] = json.loads(file.read_text())
    return ended.returncode, run


@pytest.mark.parametrize("name", ["split", "cannot-call", "six-seconds", "pause"])
def test_no_word_is_undone(name: str, tmp_path: Path) -> None:
    check_run(*play(name, tmp_path), tmp_path)


def test_linked_clusters_show_what_the_other_one_says_through_a_cut(tmp_path: Path) -> None:
    code, run = play("linked-cut", tmp_path)
    check_run(code, run, tmp_path)
    assert run["lists"] > 100, "lists with instances of the other cluster were read"


def check_run(code: int, run: dict[str, Any], folder: Path) -> None:
    """Fail for a breach; in a run with late clients it is one of the machine."""
    assert "failed" not in run, run["failed"]
    breaches = [
        f"{kind} {subject}: {text}" for kind, found in run["breaches"].items() for subject, text in found.items()
    ]
    told = "\n".join(breaches[:SHOWN_MAX])
    told += f"\nof {run['words']} words; clients were {run['late_s']:.1f} s late; logs in {folder}"
    if breaches and run["late_s"] > BUSY_S:
        raise MachineTooBusy(told)
    assert not breaches, told
    assert code == 0
    assert run["words"] > 100, "there was load"


def test_members_that_stay_apart_are_found(tmp_path: Path) -> None:
    """The proof that a run can fail: the same, and the network never heals."""
    code, run = play("unhealed", tmp_path)
    assert code == 1
    found = {Kind(kind) for kind, breaches in run["breaches"].items() if breaches}
    assert found >= {Kind.DIFFERING, Kind.NEVER_AGREED, Kind.DURABLE, Kind.UNHEALTHY}
