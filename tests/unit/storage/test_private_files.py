"""Who may read the data folder and its files."""

import logging
import os
from pathlib import Path

import pytest

from app.machine.process.data_lock import DataLock
from app.machine.storage.private_files import create_private, make_private


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_a_node_makes_is_its_own_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    with DataLock(folder):
        create_private(folder / "records.sqlite3")
        make_private(folder)
    assert mode(folder) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir()} == {"LOCK": 0o600, "records.sqlite3": 0o600}


def test_an_older_folder_is_narrowed_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    for name in ("LOCK", "records.sqlite3", "records.sqlite3-wal", "warm.sqlite3", "warm.damaged-1"):
        (folder / name).touch(0o644)
    make_private(folder)
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "records.sqlite3-wal" in caplog.text
    caplog.clear()
    make_private(folder)
    assert not caplog.records


def test_a_folder_that_others_use_keeps_its_rights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    (folder / "LOCK").touch(0o644)
    (folder / "somebody's").touch(0o644)
    (folder / "warm.sqlite3").symlink_to(folder / "somebody's")
    make_private(folder)
    assert (mode(folder), mode(folder / "LOCK"), mode(folder / "somebody's")) == (0o755, 0o600, 0o644)
    assert "its mode is unchanged" in caplog.text
