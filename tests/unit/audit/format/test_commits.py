"""The commit of a night, as it is written and read."""

import json
from typing import Any

import pytest

from app.rows.summary import Summary, Verdict, decode_summary, encode_summary
from app.tools.audit.format.commits import (
    NIGHTS_AT_ONCE,
    BadCommit,
    NightTable,
    TableFile,
    began,
    committed,
    decode_tables,
    nights_by_file,
    read_each,
    summary_path,
    with_tables,
)
from tests.unit.audit.format.conftest import MONTH, OWN

ROOT = "/results"


def body(night: str, *files: TableFile) -> bytes:
    summary = encode_summary(Summary(night, Verdict.DIVERGENT, "divergent: 2 WEIGHT"))
    return with_tables(summary, {"findings": NightTable(2, files)})


def test_a_summary_keeps_its_fields_beside_its_tables() -> None:
    found = body("2026-11-20", OWN)
    assert decode_summary(found) == Summary("2026-11-20", Verdict.DIVERGENT, "divergent: 2 WEIGHT")
    assert decode_tables(found, "x") == {"findings": NightTable(2, (OWN,))}
    assert decode_tables(with_tables(found, {}), "x") == {}, "tables are replaced, not added to"
    assert decode_tables(encode_summary(decode_summary(found)), "x") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not the summary of a night"),
        (b"[]", "not the summary of a night"),
        (b'{"tables": {"findings": {"schema": 1, "rows": 1}}}', "not the summary of a night"),
        (b'{"tables": {"findings": {"schema": 1, "rows": 1, "files": [{"path": "x"}]}}}', "not the summary"),
        (b'{"tables": {"findings": {"schema": 2, "rows": 1, "files": 0}}}', "its tables are of schema 2, and this"),
    ],
)
def test_what_cannot_be_gone_by_is_named(text: bytes, reason: str) -> None:
    with pytest.raises(BadCommit, match=f"^reports/summary.json: {reason}"):
        decode_tables(text, "reports/summary.json")


def test_commits_of_an_object_store(store: Any) -> None:
    nights = [f"{year}-11-20" for year in range(2000, 2000 + NIGHTS_AT_ONCE + 2)]
    for night in reversed(nights):
        store.pipe_file(summary_path(ROOT, night), body(night, OWN))
    store.pipe_file(f"{ROOT}/reports/night=1999-01-01/report.html", b"cut off before its commit")
    assert list(committed(store, ROOT)) == nights
    assert list(committed(store, ROOT, ["2001-11-20", "1999-01-01", "1998-01-01"])) == ["2001-11-20"]
    assert committed(store, "/elsewhere") == {}


def test_a_file_that_cannot_be_read_is_not_taken_for_missing(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no commit names is removed, so that a commit must not be overlooked."""
    store.pipe_file(summary_path(ROOT, "2026-11-20"), body("2026-11-20", OWN))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("403")

    monkeypatch.setattr(store, "cat_file", refuse)
    with pytest.raises(OSError, match=r"summary\.json: 403$"):
        committed(store, ROOT)


def test_missing_files_are_left_out(store: Any) -> None:
    store.pipe_file("/a", b"1")
    assert read_each(store, ["/a", "/b"]) == {"/a": b"1"}
    assert read_each(store, []) == {}


def test_a_file_of_a_month_has_the_nights_that_name_it() -> None:
    commits = {
        night: {"findings": NightTable(2, files)}
        for night, files in {"2026-11-19": (MONTH,), "2026-11-20": (OWN,), "2026-11-21": (MONTH,)}.items()
    }
    assert nights_by_file(commits, "findings") == {MONTH: ["2026-11-19", "2026-11-21"], OWN: ["2026-11-20"]}
    assert nights_by_file(commits, "faults") == {}


def test_a_path_tells_when_its_run_began() -> None:
    assert began(OWN.path) == "20261121T031500Z"
    assert began("findings_json/night=2026-11-20/run=20261121T031500Z-0123abcd-00000-x.json") == "20261121T031500Z"
    assert began("findings/night=2026-11-20/part-0.parquet") is None


def test_the_json_of_a_commit_is_plain() -> None:
    (file,) = json.loads(body("2026-11-20", OWN))["tables"]["findings"]["files"]
    assert file == {"path": OWN.path, "rows": 2, "bytes": 900, "sha256": "ab"}
