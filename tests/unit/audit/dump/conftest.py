"""A store of dumps, in a folder and in a file system of another kind."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from app.tools.audit.dump.store import Store


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield Store(str(tmp_path / "dumps"))
        return
    uri = f"memory://dumps-{uuid.uuid4().hex}"
    yield Store(uri)
    fsspec.filesystem("memory").rm(uri, recursive=True)
