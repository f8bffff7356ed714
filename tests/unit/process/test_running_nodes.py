"""The nodes of this machine are found by the locks of their data folders."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.machine.process.running_nodes import running_nodes
from tests.support.processes import HANG_S, clean_environ

HOLDER = """
import sys
from pathlib import Path
from app.machine.process.data_lock import DataLock
with DataLock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""
ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def holder(folder: Path, name: str, data: str = "data", **environ: str) -> Iterator[int]:
    """A process that looks like a node's, in a folder of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, data, name],
        cwd=folder,
        env={**clean_environ(), "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            assert process.stdout.readline() == b"locked\n"
            yield process.pid
        finally:
            process.stdin.close()
            process.wait(HANG_S)


def found(folder: Path) -> list[tuple[int, int, Path]]:
    nodes = [one for one in running_nodes() if folder in one.settings.data_dir.parents]
    return [(one.pid, one.settings.port, one.settings.data_dir) for one in nodes]


def test_a_node_is_found_with_its_settings(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "application.properties").write_text("server.port=18849\n")
    with holder(tmp_path, "app.wsgi:app") as pid:
        assert found(tmp_path) == [(pid, 18_849, tmp_path / "data")]
    assert found(tmp_path) == []


def test_others_are_not(tmp_path: Path) -> None:
    with holder(tmp_path, "another.app"):
        assert found(tmp_path) == []
    with holder(tmp_path, "app.wsgi:app", SERVER_PORT="many"):
        assert found(tmp_path) == [], "a node would not start with such settings"


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_where_there_is_no_proc(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty" / "12").mkdir(parents=True)
    assert running_nodes(tmp_path / name) == []
