"""The findings of a night: those that its commit names, and no others."""

import json
from pathlib import Path

from tests.support.night_findings import NIGHT, commit_findings, finding
from tests.support.processes import clean_environ
from tests.support.ran_here import run_here

FOUND = [
    finding(
        service="DEFAULT_GROUP@@orders", ip="10.1.0.1", port=8080, cluster="DEFAULT", found="absent", nights_open=3
    ),
    finding("METADATA", service="DEFAULT_GROUP@@stock", namespace="prod", lasting=False),
    finding("RECORD", name="switches", member="10.0.0.3:8848"),
]
CUT_OFF = [finding("EXTRA", service="DEFAULT_GROUP@@never-committed")]


def findings(*arguments: str, **environ: str) -> tuple[int, str, str]:
    done = run_here("findings", *arguments, environ=clean_environ() | environ)
    return done.returncode, done.stdout, done.stderr


def test_only_committed_findings_are_read(tmp_path: Path) -> None:
    commit_findings(tmp_path, FOUND, CUT_OFF)
    code, text, said = findings("--night", NIGHT, "--json", ROLLCALL_AUDIT_RESULTS=str(tmp_path))
    assert (code, said) == (0, "")
    assert [json.loads(line) for line in text.splitlines()] == FOUND
    state = tmp_path / "state"
    commit_findings(state / "results", FOUND, CUT_OFF)
    assert findings("--json", ROLLCALL_AUDIT_STATE=str(state))[1] == text


def test_findings_are_chosen_by_class_service_and_member(tmp_path: Path) -> None:
    commit_findings(tmp_path, FOUND, CUT_OFF)

    def chosen(*arguments: str) -> list[str]:
        code, text, said = findings("--results", str(tmp_path), "--json", *arguments)
        assert (code, said) == (0, "")
        return [json.loads(line)["finding_class"] for line in text.splitlines()]

    assert chosen("--class", "RECORD,METADATA") == ["METADATA", "RECORD"]
    assert chosen("--service", "orders") == ["MISSING"]
    assert chosen("--namespace", "prod") == ["METADATA"]
    assert chosen("--member", "10.0.0.3:8848") == ["RECORD"]
    assert chosen("--lasting") == ["MISSING", "RECORD"]
    assert chosen("--class", "STALE") == []


def test_a_table_for_people(tmp_path: Path) -> None:
    commit_findings(tmp_path, FOUND)
    code, text, _ = findings("--results", str(tmp_path))
    lines = text.splitlines()
    assert (code, lines[-1]) == (0, f"3 findings of the night {NIGHT}")
    assert lines[1].split()[:3] == ["MISSING", "DEFAULT_GROUP@@orders", "10.1.0.1:8080#DEFAULT"]
    assert lines[2].startswith("METADATA (late)")


def test_a_night_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    commit_findings(tmp_path, FOUND)
    [path] = (tmp_path / "findings_json").rglob("*01234567*")
    path.write_text("{}\n")
    for arguments, said in (
        ((), "the sha256 differs"),
        (("--night", "2026-01-01"), "no results of the night 2026-01-01"),
        (("--class", "NONE"), "the classes are MISSING"),
    ):
        code, text, error = findings("--results", str(tmp_path), *arguments)
        assert (code, text, said in error) == (2, "", True), error
    summary = tmp_path / "reports" / f"night={NIGHT}" / "summary.json"
    summary.write_text(json.dumps({"night": NIGHT, "verdict": "unjudged", "line": "could not judge: no dump"}))
    assert "has no verdict: could not judge: no dump" in findings("--results", str(tmp_path), "--night", NIGHT)[2]
    assert "no night under" in findings("--results", str(tmp_path))[2]
