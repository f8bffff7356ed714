"""A store of objects, and files of tables in it."""

from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from app.tools.audit.format.commits import TableFile

OWN = TableFile("findings/night=2026-11-20/run=20261121T031500Z-0123abcd/part-0.parquet", 2, 900, "ab")
MONTH = TableFile("findings/month=2026-11/run=20270101T031500Z-0123abcd/part-0.parquet", 7, 2_000, "cd")


@pytest.fixture
def store() -> Iterator[Any]:
    """A store in memory, which shows files only once they are whole."""
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]
