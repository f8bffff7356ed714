"""The metrics of a check, read back by the library's own parser."""

import stat
from pathlib import Path

import pytest

from app.rows.summary import Summary, Verdict
from app.tools.audit.format.findings import FindingClass

parser = pytest.importorskip("prometheus_client.parser")
from app.tools.audit.report.textfile import write  # noqa: E402 -- of the extra `audit`, so it may be missing

DIVERGENT = Summary(
    "2026-11-21",
    Verdict.DIVERGENT,
    "divergent",
    checked_at="2026-11-21T03:20:00Z",
    took_s=12.5,
    members=[{"address": "10.0.0.1:8848", "state": "dumped"}, {"address": "10.0.0.2:8848", "state": "absent"}],
    rows=60,
    services=2,
    instances=10,
    findings={"MISSING": 3},
    late={"HEALTH": 2},
    examples=[
        {"lasting": True, "nights_open": 4},
        {"lasting": True, "nights_open": 1},
        {"lasting": False, "nights_open": 9},
    ],
)


def read(path: Path) -> dict[tuple[str, str], float]:
    """Return the values by name and label value."""
    return {
        (sample.name.removeprefix("rollcall_check_"), "".join(sample.labels.values())): sample.value
        for family in parser.text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_a_divergent_night(tmp_path: Path) -> None:
    path = tmp_path / "rollcall.prom"
    write(str(path), DIVERGENT)
    values = read(path)
    assert {name: values["verdict", name] for name in Verdict} == {"agreed": 0, "divergent": 1, "unjudged": 0}
    assert {name: values["findings", name] for name in FindingClass} == dict.fromkeys(FindingClass, 0) | {"MISSING": 3}
    assert {name: values["findings_late", name] for name in FindingClass} == dict.fromkeys(FindingClass, 0) | {
        "HEALTH": 2
    }
    plain = {name: value for (name, label), value in values.items() if not label}
    assert plain == {
        "duration_seconds": 12.5,
        "timestamp_seconds": 1795231200.0,
        "members": 2,
        "members_absent": 1,
        "services": 2,
        "instances": 10,
        "rows": 60,
        "oldest_finding_nights": 4,
    }


def test_of_a_night_without_a_verdict_no_counts_are_told(tmp_path: Path) -> None:
    path = tmp_path / "rollcall.prom"
    write(str(path), Summary("", Verdict.UNJUDGED, "could not judge: no dump"))
    assert read(path) == {
        ("verdict", "agreed"): 0,
        ("verdict", "divergent"): 0,
        ("verdict", "unjudged"): 1,
        ("duration_seconds", ""): 0,
    }


def test_the_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "rollcall.prom"
    path.write_text("of the night before\n")
    before = path.stat().st_ino
    write(str(path), DIVERGENT)
    assert path.stat().st_ino != before, "another file took its place"
    assert [one.name for one in tmp_path.iterdir()] == ["rollcall.prom"], "nothing else is left"
    assert path.stat().st_mode & stat.S_IROTH, "the exporter is another user"


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(str(tmp_path / "none" / "rollcall.prom"), DIVERGENT)
