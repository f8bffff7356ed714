"""``rollcall explain``: what it says when it cannot ask."""

import json

import pytest

from tests.support.command_node import Commands
from tests.support.tiny_server import Given, refusing_address, tiny_server


@pytest.fixture
def run(home: object, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def explain(run: Commands, server: str, *more: str) -> tuple[int, str]:
    ran = run("explain", "10.0.0.1:80", "--service", "orders", "--retries", "0", "--server", server, *more)
    assert (ran.out, ran.err.count("\n")) == ("", 1), ran
    return ran.code, ran.err


def test_a_server_that_does_not_answer(run: Commands) -> None:
    code, said = explain(run, address := refusing_address())
    assert code == 2
    assert f"{address} does not answer: /v1/ns/explain: connection refused. Name a running server: --server" in said


@pytest.mark.parametrize("status", [401, 403])
def test_who_calls_is_not_known(run: Commands, status: int) -> None:
    with tiny_server(lambda _: Given(status, b"unknown user!")) as server:
        code, said = explain(run, server.address)
    assert code == 2
    assert "refuses it: /v1/ns/explain" in said
    assert "Give --user NAME, ROLLCALL_USER or ROLLCALL_TOKEN" in said


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"members":5}'])
def test_a_server_of_another_kind(run: Commands, body: bytes) -> None:
    with tiny_server(lambda _: Given(200, body)) as server:
        code, said = explain(run, server.address)
    assert code == 2
    assert "gave an answer that no Rollcall member gives" in said


def test_no_instance_and_a_wrong_server(run: Commands) -> None:
    assert "is not an instance address" in run("explain", "nowhere", "--service", "orders").err
    assert "is not the URL of a member" in explain(run, "ftp://a")[1]


def test_json_is_ascii_and_the_namespace_may_be_configured(run: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLCALL_NAMESPACE", "dev")
    answer = {"members": {}, "differences": [], "notAnswered": [], "said": "\u202e\x9b"}
    with tiny_server(lambda _: Given(200, json.dumps(answer).encode())) as server:
        ran = run("explain", "10.0.0.1:80", "--service", "orders", "--json", "--server", server.address)
    assert (ran.code, json.loads(ran.out)) == (0, answer)
    assert ran.out.isascii()
    assert "namespaceId=dev" in server.received[0].target
    assert "clusterName" not in server.received[0].target, "all clusters are searched"
