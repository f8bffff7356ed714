"""A manifest in one step, and old nights: in a folder and in a file system of another kind."""

import os
from datetime import date
from pathlib import Path

import pytest

from app.tools.audit.dump.store import Store, StoreError, first_kept
from app.tools.audit.format.layout import read_night, round_folder
from app.tools.audit.format.manifest import DumpState, Manifest, MemberDump, decode_manifest

NIGHT, TAKEN_AT = "2026-11-21", "20261121T031500.000Z"


def folder_of(store: Store) -> str:
    folder = round_folder(store.root, NIGHT, TAKEN_AT)
    store.make_folder(folder)
    return folder


def content(store: Store, path: str) -> bytes:
    data: bytes = store.filesystem.cat_file(path)
    return data


def files(store: Store) -> list[str]:
    return sorted(path.removeprefix(store.root) for path in store.filesystem.find(store.root))


class TestManifest:
    def manifest(self) -> Manifest:
        member = MemberDump("10.0.0.1:8848", DumpState.ABSENT, error="no answer")
        return Manifest("run", NIGHT, TAKEN_AT, 1, 1, 15.0, [member])

    def test_it_is_found_by_who_reads_the_night(self, store: Store) -> None:
        folder = folder_of(store)
        store.write_manifest(folder, self.manifest())
        assert decode_manifest(content(store, f"{folder}/_manifest.json")) == self.manifest()
        assert files(store) == [f"/dump_date={NIGHT}/taken_at={TAKEN_AT}/_manifest.json"]
        [found] = read_night(store.uri).rounds
        assert found.manifest == self.manifest()

    def test_a_reader_never_sees_a_part_of_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = Store(str(tmp_path))
        folder = folder_of(store)

        def fail(*_: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(StoreError, match=r"manifest\.json cannot be written: Input/output error"):
            store.write_manifest(folder, self.manifest())
        assert not (Path(folder) / "_manifest.json").exists()


class TestNights:
    def test_older_ones_go_and_nothing_else(self, store: Store) -> None:
        kept = ["dump_date=2026-11-14", "dump_date=2026-11-21", "dump_date=2026-99-99", "findings", "dump_date=x"]
        for name in ("dump_date=2026-11-13", "dump_date=2025-01-01", *kept):
            store.make_folder(f"{store.root}/{name}/taken_at=x")
            store.filesystem.pipe_file(f"{store.root}/{name}/taken_at=x/file", b"")
        assert store.remove_nights_before(first_kept(NIGHT, 7)) == ["2025-01-01", "2026-11-13"]
        assert {path.split("/")[1] for path in files(store)} == set(kept)

    def test_days_beyond_all_calendars(self) -> None:
        assert first_kept(NIGHT, 100_000_000) == date.min


class TestUnwritable:
    def test_a_file_in_the_way(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match="cannot be written"):
            Store(str(tmp_path / "file")).check_writable(str(tmp_path / "file" / "night"))

    @pytest.mark.parametrize("uri", ["nosuch://bucket/x", "nosuch://"])
    def test_a_file_system_that_nobody_knows(self, uri: str) -> None:
        with pytest.raises(StoreError, match="nosuch"):
            Store(uri)

    def test_the_test_leaves_nothing(self, store: Store) -> None:
        store.check_writable(f"{store.root}/dump_date={NIGHT}")
        assert files(store) == []
