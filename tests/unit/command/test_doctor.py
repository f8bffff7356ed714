"""``rollcall doctor``: what it finds on this machine, and how members fit together."""

import json
import resource
import socket
from pathlib import Path

import pytest

from app.config.settings import Settings, read_settings
from app.machine.process.data_lock import DataLock
from app.machine.storage.record_file import RecordFile
from app.machine.storage.warm_log import ASIDE
from app.naming.model.keys import SERVICE_META_PREFIX
from app.naming.records.record import Record
from app.tools.cli import main
from app.tools.command.doctor_findings import CheckFinding, Severity
from app.tools.command.machine_checks import machine_findings
from app.tools.command.member_checks import SeenMember, _of_member, _skew_s, _together
from distro.model.types import Version
from tests.support.processes import free_ports

A, B = "10.0.0.1:8848", "10.0.0.2:8848"
SECRET = {
    "nacos.core.auth.server.identity.key": "Cluster-Secret",
    "nacos.core.auth.server.identity.value": "Zq8vN2kW5xT0pR7mYc3L",
}


def settings_of(folder: Path, **more: str) -> Settings:
    [port] = free_ports(1)
    return read_settings({"rollcall.data.dir": str(folder), "server.port": str(port), **more}, {})


def of(findings: list[CheckFinding], what: str) -> list[Severity]:
    return [one.severity for one in findings if one.what == what]


def test_ports_that_are_free_or_of_another(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "data")
    assert of(list(machine_findings(settings)), "port") == [Severity.OK] * 3
    with socket.socket() as other:
        other.bind(("127.0.0.1", settings.port))
        other.listen()
        found = list(machine_findings(settings))
    assert of(found, "port") == [Severity.FAILURE, Severity.OK, Severity.OK]
    assert all(one.advice for one in found if one.severity is not Severity.OK), "each says what to do"


def test_a_node_that_runs_should_have_its_ports(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with DataLock(folder):
        found = list(machine_findings(settings_of(folder)))
    assert of(found, "port") == [Severity.FAILURE] * 3
    assert any("does not listen" in one.text for one in found)


def test_a_folder_that_others_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert of(list(machine_findings(settings_of(folder))), "data folder") == [Severity.WARNING]
    folder.chmod(0o700)
    assert of(list(machine_findings(settings_of(folder))), "data folder") == [Severity.OK]


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    assert of(list(machine_findings(settings_of(folder))), "records") == [Severity.OK]
    version, file = Version(1, 1, "a:1~1"), RecordFile(folder)
    keys = [f"{SERVICE_META_PREFIX}public##g@@{number}%" for number in range(30)]
    file.open()
    file.write([Record(key, version, version, None, 1_700_000_000_000) for key in keys], 0)
    file.close()
    for _ in ("those that the next start sets aside", "those that it set aside"):
        found = [one for one in machine_findings(settings_of(folder)) if one.what == "records"]
        assert [one.severity for one in found] == [Severity.WARNING] * 21
        assert "public##g@@0%" in found[0].text
        assert "not the key of a durable record" in found[0].text
        assert found[-1].text.startswith("10 more")
        assert all(one.advice for one in found)
        file.open()
        assert list(file.read_all(0)) == []
        file.close()
    (folder / "records.sqlite3").write_bytes(b"no database" * 1_000)
    assert of(list(machine_findings(settings_of(folder))), "records") == [Severity.FAILURE]


def test_an_unreadable_copy_of_lists(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / f"warm{ASIDE}1700000000000").touch()
    found = [one for one in machine_findings(settings_of(folder)) if one.what == "data folder"]
    assert [one.severity for one in found] == [Severity.OK, Severity.WARNING]
    assert "unreadable" in found[1].text


def members(**more: object) -> list[SeenMember]:
    listed = (A, B)
    states = ((A, "UP"), (B, "UP"))
    return [
        SeenMember(A, skew_s=0.0, release="1.0", listed=listed, states=states),
        SeenMember(B, **{"skew_s": 0.0, "release": "1.0", "listed": listed, "states": states, **more}),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    ("more", "what", "severity"),
    [
        ({}, "member lists", Severity.OK),
        ({"listed": (A,)}, "member lists", Severity.FAILURE),
        ({"release": "1.1"}, "releases", Severity.WARNING),
        ({"states": ((A, "DOWN"), (B, "UP"))}, "states", Severity.WARNING),
    ],
)
def test_how_members_fit_together(tmp_path: Path, more: dict[str, object], what: str, severity: Severity) -> None:
    settings = read_settings({"nacos.member.list": f"{A},{B}", "nacos.server.ip": "10.0.0.1", **SECRET}, {})
    assert of(list(_together(members(**more), settings)), what) == [severity]


@pytest.mark.parametrize(
    ("one", "severity"),
    [
        (SeenMember(B, skew_s=0.5), Severity.OK),
        (SeenMember(B, skew_s=-5.0), Severity.WARNING),
        (SeenMember(B, skew_s=3_600.0), Severity.FAILURE),
        (SeenMember(B, error="refused"), Severity.FAILURE),
        (SeenMember(B, skew_s=0.0, takes_anybody=True), Severity.WARNING),
    ],
)
def test_one_member(tmp_path: Path, one: SeenMember, severity: Severity) -> None:
    settings = read_settings({"nacos.member.list": f"{A},{B}", "nacos.server.ip": "10.0.0.1", **SECRET}, {})
    assert max(each.severity for each in _of_member(one, settings, is_own=False)) is severity


def test_a_clock_is_off_by_what_the_time_of_the_call_does_not_explain() -> None:
    assert _skew_s(1_500, 1_000, 2_000) == 0
    assert _skew_s(5_000, 1_000, 2_000) == 3
    assert _skew_s(500, 1_000, 2_000) == -0.5


@pytest.mark.parametrize(
    ("hard", "severity", "text"),
    [
        (20_000, Severity.WARNING, "19744 connections in all, at the most 17276 over HTTP, 17276 over gRPC"),
        (48_448, Severity.OK, "48448, of 48448 wanted"),
        (resource.RLIM_INFINITY, Severity.OK, "unlimited, of 48448 wanted"),
    ],
)
def test_descriptors_for_connections(
    hard: int, severity: Severity, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1_024, hard))
    [found] = [one for one in machine_findings(settings_of(tmp_path / "data")) if one.what == "descriptors"]
    assert found.severity is severity
    assert text in found.text


def test_the_command_tells_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [port] = free_ports(1)
    code = main(["doctor", "--port", str(port), "--data", str(tmp_path / "data"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {one["what"] for one in found} >= {"user", "disk", "data folder", "port", "descriptors", "UDP", "members"}
    assert code == max({"OK": 0, "WARNING": 1, "FAILURE": 2}[one["severity"]] for one in found)
