"""The data folder belongs to one node at a time, whichever way nodes end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.machine.process.data_lock import DataLock, DataLockError

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pathlib import Path
from app.machine.process.data_lock import DataLock
DataLock(Path(sys.argv[1])).acquire()
print(flush=True)
input()
"""


def test_the_folder_is_made_and_the_holder_written_down(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with DataLock(folder):
        assert (folder / "LOCK").read_text() == f"{os.getpid()}\n"
    assert (folder / "LOCK").read_text() == ""


def test_a_second_node_is_refused_with_folder_and_process(tmp_path: Path) -> None:
    with DataLock(tmp_path), pytest.raises(DataLockError) as caught:
        DataLock(tmp_path).acquire()
    assert str(tmp_path) in str(caught.value)
    assert f"process {os.getpid()}" in str(caught.value)
    assert "rollcall.data.dir" in str(caught.value)


def test_released_it_can_be_had_again(tmp_path: Path) -> None:
    first = DataLock(tmp_path)
    first.acquire()
    first.release()
    first.release()
    with DataLock(tmp_path):
        pass


def test_a_killed_node_leaves_it_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(DataLockError, match=f"process {holder.pid}"):
            DataLock(tmp_path).acquire()
        holder.kill()
        holder.wait()
        # What it wrote is still there, and means nothing now.
        assert (tmp_path / "LOCK").read_text() == f"{holder.pid}\n"
        with DataLock(tmp_path):
            pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataLockError, match="file/data cannot be used: Not a directory"):
        DataLock(tmp_path / "file" / "data").acquire()
