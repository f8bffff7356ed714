"""The command over servers of a test: exit codes, and what goes wrong without ending it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.rows.rows import BUCKETS
from app.tools.cli import main
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

JSON = {"Content-Type": "application/json"}
EMPTY = {"format": 1, "services": 0, "instances": 0, "buckets": ["0" * 16] * BUCKETS}


@pytest.fixture
def pair() -> Iterator[tuple[TinyServer, TinyServer]]:
    """Two members that hold nothing; each lists both."""

    def answer(received: Received) -> Given:
        if "/digest" in received.target:
            return Given(200, json.dumps(EMPTY).encode(), JSON)
        if "/cluster/nodes" in received.target:
            listed = [{"address": one.address, "state": "UP"} for one in (first, second)]
            return Given(200, json.dumps({"data": listed}).encode(), JSON)
        return Given(404, b"none")

    with tiny_server(answer) as first, tiny_server(answer) as second:
        yield first, second


def watched(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["watch-agreement", "--once", "--gap", "0", "--retries", "0", *arguments])
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return code, told.out, told.err


def test_members_that_a_member_lists(pair: tuple[TinyServer, TinyServer], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = watched(capsys, "--from-cluster", f"http://{pair[0].address}/nacos")
    assert (code, out.partition(";")[0]) == (0, "agreed: 2 members, 0 instances of 0 services")
    assert err.count(" answered, but has no data") == 2


def test_a_member_that_gives_no_list(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = refusing_address()
    code, out, _ = watched(capsys, "--from-cluster", f"http://{nobody}/nacos")
    assert (code, out.startswith(f"could not judge: no member list of {nobody}: ")) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--members", ","], "no member is given"),
        (["--members", "a:b"], "'a:b' is not a member address"),
        (["--from-cluster", "ftp://x"], "is not the URL of a member"),
        (["--members", "a", "--user", "x"], "--user needs --password-file"),
        (["--members", "a", "--alert-url", "http://x", "--state", "none://x"], "--state none://x cannot be used"),
    ],
)
def test_what_cannot_be_used_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROLLCALL_AUDIT_PASSWORD", raising=False)
    code, out, err = watched(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "0"], "should be more than 0"),
        (["--every", "500ms"], "a period should be 1 s or more"),
        (["--alert-format", "mail"], "invalid choice: 'mail'"),
        (["--alert-cluster", "a\nb"], "a name should have 1 to 100 printable characters"),
    ],
)
def test_options_of_another_form(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["watch-agreement", "--members", "a", *arguments])
    assert said in capsys.readouterr().err


def test_a_metrics_file_or_an_alert_that_fails_changes_no_verdict(
    pair: tuple[TinyServer, TinyServer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("prometheus_client")
    gone = refusing_address()
    members = ("--members", f"{pair[0].address},{pair[1].address},{gone}")
    textfile = str(tmp_path / "none" / "watch.prom")
    code, out, err = watched(capsys, *members, "--textfile", textfile, "--alert-url", "http://[", "--timeout", "1s")
    assert (code, out.partition(";")[0]) == (1, "divergent: 1 ABSENT_MEMBER")
    assert f"the metrics were not written to {textfile}" in err
    assert "the alert was not delivered: the URL needs http or https, and a host" in err


def test_whatever_fails_in_a_round_is_no_verdict(
    pair: tuple[TinyServer, TinyServer], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("members")

    monkeypatch.setattr("app.tools.audit.watch.rounds.look_twice", fail)
    code, out, _ = watched(capsys, "--members", f"{pair[0].address},{pair[1].address}")
    assert (code, out) == (2, "could not judge: the round failed with KeyError: 'members'\n")
