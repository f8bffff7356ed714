"""The manifests of the tables, in a store of objects."""

from typing import Any

import pytest

from app.tools.audit.format.commits import NightTable
from app.tools.audit.format.table_manifests import manifest_folders, write_manifests
from tests.unit.audit.format.conftest import MONTH, OWN

NIGHT, NEXT = "2026-11-20", "2026-11-21"
FOLDER = "/results/manifests/findings/commit_night=2026-11-20"


def test_each_table_of_a_night_has_its_files_or_none(store: Any) -> None:
    write_manifests(store, "/results", {NIGHT: {"findings": NightTable(2, (OWN, MONTH))}, NEXT: {}})
    lines = f"memory:///results/{OWN.path}\nmemory:///results/{MONTH.path}\n"
    folders = [*manifest_folders("/results", NIGHT), *manifest_folders("/results", NEXT)]
    assert {folder: store.cat_file(f"{folder}/manifest").decode() for folder in folders} == {
        **dict.fromkeys(folders, ""),
        FOLDER: lines,
    }
    assert len(store.find("/results")) == len(folders) == 6


def test_only_manifests_that_differ_are_written(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = {NIGHT: {"findings": NightTable(2, (OWN,)), "faults": NightTable(0, (MONTH,))}, NEXT: {}}
    write_manifests(store, "/results", commits)
    written, pipe = [], store.pipe_file
    monkeypatch.setattr(store, "pipe_file", lambda path, body: (written.append(path), pipe(path, body)))
    write_manifests(store, "/results", commits | {NIGHT: {"findings": NightTable(7, (MONTH,))}})
    assert written == [f"{FOLDER}/manifest"]
    assert store.cat_file(f"{FOLDER}/manifest").decode() == f"memory:///results/{MONTH.path}\n"
