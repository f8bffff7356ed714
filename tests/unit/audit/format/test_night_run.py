"""The run of a night that is judged, and files that are written over where a disk has no space left."""

from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from app.tools.audit.format.file_systems import overwrite, write_whole
from app.tools.audit.format.layout import NoDump, read_night
from app.tools.audit.format.manifest import MANIFEST_NAME, OLD_MANIFEST_NAME
from tests.support.dumps import ADDRESSES, instance, service, write_dump

NIGHT = "2026-11-20"


def test_a_run_that_is_named_is_judged_and_no_other(tmp_path: Path) -> None:
    rows = [service(), instance(1)]
    folders = write_dump(tmp_path, dict.fromkeys(ADDRESSES, rows))
    assert read_night(str(tmp_path), NIGHT).rounds[0].manifest.run == f"run-{NIGHT}"
    assert len(read_night(str(tmp_path), NIGHT, f"run-{NIGHT}").rounds) == 2
    with pytest.raises(NoDump, match=f"no complete dump of the night {NIGHT} by the run another under"):
        read_night(str(tmp_path), NIGHT, "another")
    (folders[1] / MANIFEST_NAME).unlink()
    with pytest.raises(NoDump, match="is incomplete: only round 1 of 2"):
        read_night(str(tmp_path), NIGHT, f"run-{NIGHT}")


def test_a_dump_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """Its manifests have a name that readers of Parquet would take for a file of rows."""
    rows = [service(), instance(1)]
    folders = write_dump(tmp_path, dict.fromkeys(ADDRESSES, rows))
    assert MANIFEST_NAME.startswith("_")
    for folder in folders:
        (folder / MANIFEST_NAME).rename(folder / OLD_MANIFEST_NAME)
    night = read_night(str(tmp_path))
    assert [one.manifest.round for one in night.rounds] == [1, 2]
    assert night.notes == []
    folders[1].joinpath(OLD_MANIFEST_NAME).unlink()
    with pytest.raises(NoDump, match="has no manifest: its dump is still running or was interrupted"):
        read_night(str(tmp_path))


def test_a_file_is_written_over_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert not overwrite(str(path), b"new"), "there is no file"
    path.write_bytes(b"an earlier text")
    inode = path.stat().st_ino
    assert overwrite(str(path), b"new")
    assert (path.read_bytes(), path.stat().st_ino) == (b"new", inode)
    assert not overwrite(str(path), b"longer than before"), "which a full disk would cut"
    assert path.read_bytes() == b"new"


def test_a_write_that_fails_leaves_nothing_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(LocalFileSystem(), str(path), b"after")
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
