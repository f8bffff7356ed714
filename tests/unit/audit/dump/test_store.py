"""Parts of bounded size, a manifest in one step, and old nights: in a folder and in a file system of another kind."""

import gzip
import hashlib
import os
import random
import uuid
from collections import deque
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from app.audit.dump.store import PartWriter, Store, StoreError, first_kept
from app.audit.format.layout import read_night, round_folder
from app.audit.format.manifest import DumpState, Manifest, MemberDump, Part, decode_manifest

NIGHT, TAKEN_AT = "2026-11-21", "20261121T031500.000Z"


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield Store(str(tmp_path / "dumps"))
        return
    uri = f"memory://dumps-{uuid.uuid4().hex}"
    yield Store(uri)
    fsspec.filesystem("memory").rm(uri, recursive=True)


class FullDisk(LocalFileSystem):
    """Takes names and no bytes."""

    cachable = False

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        Path(path).touch()
        return open("/dev/full", mode, buffering=0)


def folder_of(store: Store) -> str:
    folder = round_folder(store.root, NIGHT, TAKEN_AT)
    store.make_folder(folder)
    return folder


def line(number: int) -> bytes:
    return b'{"n": %d}\n' % number


def content(store: Store, path: str) -> bytes:
    data: bytes = store.filesystem.cat_file(path)
    return data


def files(store: Store) -> list[str]:
    return sorted(path.removeprefix(store.root) for path in store.filesystem.find(store.root))


class TestParts:
    def test_each_is_bounded_and_what_the_manifest_says(self, store: Store) -> None:
        folder = folder_of(store)
        writer = PartWriter(store.filesystem, folder, "member=a_1", rows_max=3, bytes_max=1_000)
        for number in range(8):
            writer.write(line(number))
        parts = writer.close()
        assert [(part.path, part.rows) for part in parts] == [
            ("member=a_1/part-00000.jsonl.gz", 3),
            ("member=a_1/part-00001.jsonl.gz", 3),
            ("member=a_1/part-00002.jsonl.gz", 2),
        ]
        plain = b""
        for part in parts:
            body = content(store, f"{folder}/{part.path}")
            assert (len(body), hashlib.sha256(body).hexdigest()) == (part.bytes, part.sha256)
            plain += gzip.decompress(body)
        assert plain == b"".join(map(line, range(8)))

    def test_bytes_bound_a_part_too(self, store: Store) -> None:
        writer = PartWriter(store.filesystem, folder_of(store), "member=a_1", rows_max=100, bytes_max=100)
        for _ in range(5):
            writer.write(b"x" * 39 + b"\n")
        writer.write(b"y" * 500 + b"\n")
        assert [part.rows for part in writer.close()] == [2, 2, 1, 1]

    def test_the_same_rows_are_the_same_file(self, store: Store) -> None:
        parts: list[Part] = []
        for name in ("member=a", "member=b"):
            writer = PartWriter(store.filesystem, folder_of(store), name)
            for number in range(1_000):
                writer.write(line(number))
            parts += writer.close()
        assert parts[0].sha256 == parts[1].sha256

    def test_no_rows_are_no_part(self, store: Store) -> None:
        assert PartWriter(store.filesystem, folder_of(store), "member=a").close() == []
        assert files(store) == []

    @pytest.mark.parametrize("closed", [True, False])
    def test_what_is_discarded_is_gone(self, store: Store, closed: bool) -> None:
        folder = folder_of(store)
        writer = PartWriter(store.filesystem, folder, "member=a", rows_max=2)
        for number in range(5):
            writer.write(line(number))
        if closed:
            writer.close()
        writer.discard()
        assert files(store) == []
        assert not store.filesystem.exists(f"{folder}/member=a")

    def test_a_disk_that_fails_is_named(self, tmp_path: Path) -> None:
        writer = PartWriter(FullDisk(), str(tmp_path), "member=a")
        numbers = random.Random(1)
        try:
            with pytest.raises(StoreError, match="member=a cannot be written: No space left on device"):
                deque((writer.write(line(numbers.getrandbits(64))) for _ in range(1_000_000)), 0)
        finally:
            writer.discard()
        assert list(tmp_path.iterdir()) == []


class TestManifest:
    def manifest(self) -> Manifest:
        member = MemberDump("10.0.0.1:8848", DumpState.ABSENT, error="no answer")
        return Manifest("run", NIGHT, TAKEN_AT, 1, 1, 15.0, [member])

    def test_it_is_found_by_who_reads_the_night(self, store: Store) -> None:
        folder = folder_of(store)
        store.write_manifest(folder, self.manifest())
        assert decode_manifest(content(store, f"{folder}/manifest.json")) == self.manifest()
        assert files(store) == [f"/dump_date={NIGHT}/taken_at={TAKEN_AT}/manifest.json"]
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
        assert not (Path(folder) / "manifest.json").exists()


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
