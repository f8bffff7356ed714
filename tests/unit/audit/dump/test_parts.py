"""Parts of bounded size, in both formats: in a folder and in a file system of another kind."""

import gzip
import hashlib
import io
import random
from collections import deque
from pathlib import Path
from typing import Any

import orjson
import pytest
from fsspec.implementations.local import LocalFileSystem

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from app.naming.model.keys import dump_bucket
from app.rows.rows import BUCKET, encode_row, service_row
from app.tools.audit.dump.parts import PartWriter
from app.tools.audit.dump.store import Store, StoreError
from app.tools.audit.format.columns import rows_of_parquet
from app.tools.audit.format.layout import round_folder
from app.tools.audit.format.manifest import Part
from app.tools.audit.format.part_format import PartFormat

FORMATS = list(PartFormat)


class FullDisk(LocalFileSystem):
    """Takes names and no bytes."""

    cachable = False

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        Path(path).touch()
        return open("/dev/full", mode, buffering=0)


def folder_of(store: Store) -> str:
    folder = round_folder(store.root, "2026-11-21", "20261121T031500.000Z")
    store.make_folder(folder)
    return folder


def put(writer: PartWriter, number: int) -> None:
    row = service_row("public", f"DEFAULT_GROUP@@{number}", instances=number)
    writer.write(encode_row(row), row)


def plain(body: bytes, part_format: PartFormat) -> list[Any]:
    if part_format is PartFormat.PARQUET:
        return list(rows_of_parquet(io.BytesIO(body)))
    return [orjson.loads(line) for line in gzip.decompress(body).splitlines()]


def content(store: Store, path: str) -> bytes:
    data: bytes = store.filesystem.cat_file(path)
    return data


def test_parquet_has_the_bucket_of_each_row_and_an_index_of_pages_by_it(store: Store) -> None:
    writer = PartWriter(store.filesystem, folder_of(store), "member=a", PartFormat.PARQUET)
    for number in range(3):
        put(writer, number)
    writer.write(b"no row\n", {"kind": 7})
    [part] = writer.close()
    table = pq.ParquetFile(io.BytesIO(content(store, f"{folder_of(store)}/{part.path}")))
    expected = [dump_bucket("public", f"DEFAULT_GROUP@@{number}") for number in range(3)]
    assert table.read([BUCKET])[BUCKET].to_pylist() == [*expected, None]
    columns = [table.metadata.row_group(0).column(number) for number in range(table.metadata.num_columns)]
    assert {one.path_in_schema for one in columns if one.has_column_index} == {BUCKET}
    assert all(one.has_offset_index for one in columns)


def files(store: Store) -> list[str]:
    return sorted(path.removeprefix(store.root) for path in store.filesystem.find(store.root))


@pytest.mark.parametrize("part_format", FORMATS)
class TestBoth:
    def test_each_part_is_bounded_and_what_the_manifest_says(self, store: Store, part_format: PartFormat) -> None:
        folder = folder_of(store)
        writer = PartWriter(store.filesystem, folder, "member=a_1", part_format, rows_max=3)
        for number in range(8):
            put(writer, number)
        parts = writer.close()
        ending = {PartFormat.JSON: "jsonl.gz", PartFormat.PARQUET: "parquet"}[part_format]
        assert [(part.path, part.rows) for part in parts] == [
            (f"member=a_1/part-00000.{ending}", 3),
            (f"member=a_1/part-00001.{ending}", 3),
            (f"member=a_1/part-00002.{ending}", 2),
        ]
        rows = []
        for part in parts:
            body = content(store, f"{folder}/{part.path}")
            assert (len(body), hashlib.sha256(body).hexdigest()) == (part.bytes, part.sha256)
            rows += plain(body, part_format)
        assert rows == [service_row("public", f"DEFAULT_GROUP@@{number}", instances=number) for number in range(8)]

    def test_bytes_bound_a_part_too(self, store: Store, part_format: PartFormat) -> None:
        row = service_row("public", "DEFAULT_GROUP@@orders")
        size = len(encode_row(row))
        writer = PartWriter(store.filesystem, folder_of(store), "member=a_1", part_format, plain_bytes_max=2 * size)
        for _ in range(5):
            writer.write(encode_row(row), row)
        assert [part.rows for part in writer.close()] == [2, 2, 1]

    def test_the_same_rows_are_the_same_file(self, store: Store, part_format: PartFormat) -> None:
        parts: list[Part] = []
        for name in ("member=a", "member=b"):
            writer = PartWriter(store.filesystem, folder_of(store), name, part_format)
            for number in range(1_000):
                put(writer, number)
            parts += writer.close()
        assert parts[0].sha256 == parts[1].sha256

    def test_no_rows_are_no_part(self, store: Store, part_format: PartFormat) -> None:
        assert PartWriter(store.filesystem, folder_of(store), "member=a", part_format).close() == []
        assert files(store) == []

    @pytest.mark.parametrize("closed", [True, False])
    def test_what_is_discarded_is_gone(self, store: Store, part_format: PartFormat, closed: bool) -> None:
        folder = folder_of(store)
        writer = PartWriter(store.filesystem, folder, "member=a", part_format, rows_max=2)
        for number in range(5):
            put(writer, number)
        if closed:
            writer.close()
        writer.discard()
        assert files(store) == []
        assert not store.filesystem.exists(f"{folder}/member=a")

    def test_a_disk_that_fails_is_named(self, tmp_path: Path, part_format: PartFormat) -> None:
        writer = PartWriter(FullDisk(), str(tmp_path), "member=a", part_format)
        numbers = random.Random(1)
        try:
            with pytest.raises(StoreError, match="member=a cannot be written: No space left on device"):
                deque((put(writer, numbers.getrandbits(62)) for _ in range(1_000_000)), 0)
        finally:
            writer.discard()
        assert list(tmp_path.iterdir()) == []


def test_the_footer_of_parquet_is_what_the_manifest_says(store: Store) -> None:
    writer = PartWriter(store.filesystem, folder_of(store), "member=a", PartFormat.PARQUET)
    put(writer, 1)
    [part] = writer.close()
    body = content(store, f"{folder_of(store)}/{part.path}")
    footer = body[-part.footer_bytes :]
    assert hashlib.sha256(footer).hexdigest() == part.footer_sha256
    assert int.from_bytes(footer[-8:-4], "little") + 8 < part.footer_bytes, "the index of the pages is in it, too"
