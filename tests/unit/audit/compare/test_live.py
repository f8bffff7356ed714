"""Two running members compared: stand-ins whose dumps the test writes, one for each time that they are asked."""

import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from app.rows.rows import FORMAT, encode_row, instance_row, service_row
from tests.support.processes import COMMAND, clean_environ
from tests.support.ran_here import run_here
from tests.support.tiny_server import Given, Received, refusing_address, tiny_server

NDJSON = {"Content-Type": "application/x-ndjson"}
Rows = list[dict[str, Any]]
END_S = 120.0


def row(ip: str, **changes: Any) -> dict[str, Any]:
    usual = instance_row(
        namespace="public",
        service="DEFAULT_GROUP@@orders",
        cluster="DEFAULT",
        ip=ip,
        port=8080,
        ephemeral=True,
        healthy=True,
        enabled=True,
        weight=1.0,
        metadata={},
        version="1.7.x",
    )
    return usual | changes


def dump(address: str, rows: Rows) -> bytes:
    services = [service_row("public", "DEFAULT_GROUP@@orders")]
    lines: Rows = [
        {"kind": "member", "format": FORMAT, "address": address, "version": "0.1.0", "members": []},
        *services,
        *rows,
        {"kind": "end", "services": 1, "instances": len(rows)},
    ]
    return b"".join(map(encode_row, lines))


def member(address: str, *times: Rows) -> Callable[[Received], Given]:
    """Answers with these rows, each time with the next ones."""
    asked = iter(times)

    def answer(received: Received) -> Given:
        assert received.target.startswith("/nacos/v1/ns/operator/dump"), received.target
        return Given(body=dump(address, next(asked)), headers=NDJSON)

    return answer


def compared(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    done = run_here("compare", *arguments, "--json", "--retries", "0", environ=clean_environ())
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_without_names_the_server_is_compared_with_each_other_member() -> None:
    both, one = [row("10.1.0.1"), row("10.1.0.2")], [row("10.1.0.1")]
    listed: list[str] = []
    dumps = member("a:1", both, both, both)

    def first(received: Received) -> Given:
        if "/operator/dump" not in received.target:
            return Given(
                200, json.dumps({"code": 200, "data": [{"address": at, "state": "UP"} for at in listed]}).encode()
            )
        return dumps(received)

    with (
        tiny_server(first) as a,
        tiny_server(member("b:1", both)) as b,
        tiny_server(member("c:1", one)) as c,
    ):
        nobody = refusing_address()
        listed += [b.address, a.address, nobody, c.address]
        command = [COMMAND, "compare", "--gap", "0", "--json", "--retries", "0"]
        environ = clean_environ() | {"ROLLCALL_SERVER": a.address}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=END_S, check=False)
        assert done.stdout, done
        [lacking] = map(json.loads, done.stdout.splitlines())
        assert (lacking["ip"], lacking["finding_class"]) == ("10.1.0.2", "MISSING")
        assert (done.returncode, done.stderr.count("\n"), nobody in done.stderr) == (1, 1, True)


def test_members_that_agree_are_asked_once() -> None:
    with tiny_server(member("a:1", [row("10.1.0.1")])) as a, tiny_server(member("b:1", [row("10.1.0.1")])) as b:
        assert compared(a.address, f"http://{b.address}/nacos") == (0, [], "")
        assert (len(a.received), len(b.received)) == (1, 1)


def test_members_that_differ_are_asked_again_to_tell_what_lasts() -> None:
    one, other = row("10.1.0.1"), row("10.1.0.2", owner="a:1")
    with (
        tiny_server(member("a:1", [one, other], [one, other])) as a,
        tiny_server(member("b:1", [row("10.1.0.1", weight=2.0)], [one])) as b,
    ):
        code, found, said = compared(a.address, b.address, "--gap", "10ms")
    assert (code, said) == (1, "")
    assert [(line["finding_class"], line["ip"], line["lasting"]) for line in found] == [
        ("WEIGHT", "10.1.0.1", False),
        ("MISSING", "10.1.0.2", True),
    ]
    assert (found[0]["a"]["member"], found[0]["b"]["member"]) == ("a:1", "b:1"), "as they call themselves"


def test_without_a_gap_there_is_one_round() -> None:
    with tiny_server(member("a:1", [row("10.1.0.1")])) as a, tiny_server(member("b:1", [])) as b:
        code, found, _ = compared(a.address, b.address, "--gap", "0")
    assert (code, [line["lasting"] for line in found]) == (1, [None])


@pytest.mark.parametrize("way", ["refuses", "cut", "same", "bad-address", "date"])
def test_what_cannot_be_compared_is_told_with_a_reason(way: str) -> None:
    with ExitStack() as stack:
        a = stack.enter_context(tiny_server(member("a:1", [row("10.1.0.1")]))).address
        body = dump("b:1", [row("10.1.0.1")])
        cut = stack.enter_context(tiny_server(lambda _: Given(body=body, headers=NDJSON, cut_at=len(body) // 2)))
        same = stack.enter_context(tiny_server(member("a:1", [row("10.1.0.1")])))
        arguments, reason = {
            "refuses": ([refusing_address()], "did not answer"),
            "cut": ([cut.address], "did not answer"),
            "same": ([same.address], "both are a:1"),
            "bad-address": (["no address"], "is no"),
            "date": ([same.address, "--date", "2026-11-21"], "--date needs --dumps"),
        }[way]
        code, found, said = compared(a, *arguments)
    assert (code, found) == (2, [])
    assert reason in said
    assert "Traceback" not in said
