"""The access log: one line a request in either form, and none of its secrets."""

import json
from dataclasses import replace
from pathlib import Path

from app.metrics.access_log import AccessLog
from tests.support.fake_node import make_settings

TARGET = b"/nacos/v1/ns/instance?serviceName=a%0Ab&password=geheim&accessToken=t&ip=1.2.3.4"


def written(tmp_path: Path, log_format: str, target: bytes = TARGET) -> str:
    file = tmp_path / "access.log"
    log = AccessLog(replace(make_settings().told, access_file=file, log_format=log_format), lambda: 1_700_000_000_123)
    log.add("10.0.0.9", b"GET", target, 200, 12, 0.000_25, "an\nagent")
    assert log.stop(10)
    return file.read_text()


def test_a_line_of_text(tmp_path: Path) -> None:
    expected = (
        "2023-11-14T22:13:20.123Z 10.0.0.9 GET /nacos/v1/ns/instance [serviceName=a\\nb ip=1.2.3.4] 200 12 0.000250 "
        "an\\nagent\n"
    )
    assert written(tmp_path, "text") == expected


def test_a_line_of_json(tmp_path: Path) -> None:
    assert json.loads(written(tmp_path, "json")) == {
        "time": "2023-11-14T22:13:20.123Z",
        "from": "10.0.0.9",
        "method": "GET",
        "path": "/nacos/v1/ns/instance",
        "parameters": {"serviceName": "a\nb", "ip": "1.2.3.4"},
        "status": 200,
        "bytes": 12,
        "seconds": 0.00025,
        "agent": "an\nagent",
    }


def test_a_long_path_is_cut_short(tmp_path: Path) -> None:
    assert len(written(tmp_path, "text", b"/" + b"a" * 8_000)) < 3_000


def test_it_is_off_unless_it_is_set() -> None:
    assert not AccessLog(make_settings().told, lambda: 0).on
    assert AccessLog(make_settings(rollcall_http_accessLog="true").told, lambda: 0).on
