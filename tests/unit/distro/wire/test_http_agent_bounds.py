"""The bounds of a member's calls to another, their bytes in the figures, and a call over TLS or with a signature."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from distro.model.errors import TransportError, UnfitError
from distro.model.types import Datum, Page, Received
from distro.wire.call_trust import Question
from distro.wire.http_agent import GZIP_FROM_BYTES
from tests.support.tiny_server import Given, tiny_server
from tests.support.tls_servers import CertifiedMember, blocking_server
from tests.unit.distro.wire.test_http_agent_requests import BODY_BYTES_MAX, VERSION, Caller, TextCodec

AROUND = len(b'{"k":' + TextCodec().encode(Datum("k", VERSION, ""), 0, True) + b"}")
"""The bytes of a frame of one datum whose text is empty."""


def datums_of(frame_bytes: int) -> list[Datum]:
    """Two datums whose frame has so many bytes."""
    first = Datum("k", VERSION, "")
    return [first, Datum("k", VERSION, "x" * (frame_bytes - 2 * AROUND + len(b"{}") - len(b",")))]


# --- bounds --------------------------------------------------------------------------------------


def test_datums_are_sent_up_to_the_bound_of_a_body() -> None:
    request, result = Caller().ask(Given(), "sync_data", datums_of(BODY_BYTES_MAX - 1), 2_000)
    assert len(gzip.decompress(request.body)) == BODY_BYTES_MAX - 1
    assert result == Received()


def test_datums_over_the_bound_are_not_sent_and_not_encoded_further() -> None:
    caller = Caller()
    with tiny_server() as server:
        with pytest.raises(UnfitError, match="2 of 3 keys are over 100000 bytes"):
            caller.agent.sync_data(server.address, [*datums_of(BODY_BYTES_MAX + 1), Datum("l", VERSION, "")], 2_000)
        caller.agent.close()
    assert [key for key, _ in caller.codec.encoded] == ["k", "k"]
    assert server.received == []


@pytest.mark.parametrize(("size", "is_sent"), [(BODY_BYTES_MAX, True), (BODY_BYTES_MAX + 1, False)])
def test_a_frame_is_sent_up_to_the_bound_of_a_body(size: int, is_sent: bool) -> None:
    frame, caller = b"x" * size, Caller()
    with tiny_server(lambda _: Given(200, b'{"wanted":["k"]}')) as server:
        if is_sent:
            assert caller.agent.sync_frame(server.address, frame, 2_000) == Received(wanted=("k",))
        else:
            with pytest.raises(UnfitError, match="a frame of 100001 bytes is over 100000"):
                caller.agent.sync_frame(server.address, frame, 2_000)
        caller.agent.close()
    assert [(one.method, one.target) for one in server.received] == [("PUT", "/base/v1/ns/distro/datum")] * is_sent
    assert [gzip.decompress(one.body) for one in server.received] == [frame] * is_sent


@pytest.mark.parametrize(
    ("method", "arguments", "headers", "kind"),
    [
        ("query", (("k",),), {}, UnfitError),
        ("page", (("k",),), {}, UnfitError),
        ("load", (), {}, UnfitError),
        ("load", (), {"Rollcall-Snapshot": "versions"}, TransportError),
    ],
)
def test_an_answer_that_unpacks_to_more_than_a_body_is_refused(
    method: str, arguments: tuple[Any, ...], headers: dict[str, str], kind: type[TransportError]
) -> None:
    body = b"{}" + b" " * (BODY_BYTES_MAX - 2)
    _, result = Caller().ask(Given(200, gzip.compress(body), headers), method, *arguments, 1_000)
    assert not isinstance(result, TransportError)
    _, result = Caller().ask(Given(200, gzip.compress(body + b" "), headers), method, *arguments, 1_000)
    assert type(result) is kind
    assert "over 100000 bytes" in str(result)


# --- what goes and comes -------------------------------------------------------------------------


def test_a_comparison_of_digests() -> None:
    request, result = Caller().ask(Given(200, b"\x1f\x8bany bytes"), "compare", b'{"view":"v"}', 1_000)
    assert (request.method, request.target) == ("PUT", "/base/v1/ns/distro/digest")
    assert request.body == b'{"view":"v"}'
    assert result == b"\x1f\x8bany bytes", "who asked reads it"


def test_an_empty_answer_is_an_empty_page_or_snapshot() -> None:
    assert Caller().ask(Given(200, b""), "page", ["k"], 1_000)[1] == Page([], ())
    assert Caller().ask(Given(200, b"", {"Rollcall-Snapshot": "versions"}), "load", 1_000)[1] == {}
    assert Caller().ask(Given(200, b""), "load", 1_000)[1] == []


def test_only_a_word_of_versions_makes_an_answer_a_list_of_versions() -> None:
    """A later release may answer in another form: what this one cannot read is a frame of datums."""
    given = Given(200, b'{"k":{"v":"x","version":"1.2.a:1~x"}}', {"Rollcall-Snapshot": "something else"})
    assert Caller().ask(given, "load", 1_000)[1] == [Datum("k", VERSION, "x")]


def test_the_entries_of_a_frame_for_our_own_kind() -> None:
    caller = Caller()
    entries = caller.agent.entries([Datum("k", VERSION, "x"), Datum('l"', VERSION, "y")])
    caller.agent.close()
    assert [json.loads(b"{" + one + b"}") for one in entries] == [
        {"k": {"v": "x", "version": VERSION.to_text()}},
        {'l"': {"v": "y", "version": VERSION.to_text()}},
    ]
    assert caller.codec.encoded == [("k", 1_000), ('l"', 1_000)], "as of now, by the clock of this process"


def test_the_bytes_of_each_body_are_counted_as_they_go() -> None:
    caller, frame = Caller(), b"x" * GZIP_FROM_BYTES
    with tiny_server() as server:
        caller.agent.sync_frame(server.address, b"{}", 2_000)
        caller.agent.sync_frame(server.address, frame, 2_000)
        caller.agent.call("GET", server.address, "/x", 2_000, None)
        caller.agent.close()
    assert caller.sent == [(server.address, len(request.body)) for request in server.received]
    assert [count for _, count in caller.sent] == [2, len(server.received[1].body), 0]
    assert caller.sent[1][1] < len(frame)


def test_a_plain_body_is_never_packed() -> None:
    caller, frame = Caller(), b"x" * GZIP_FROM_BYTES
    with tiny_server() as server:
        caller.agent.call("PUT", server.address, "/x", 2_000, frame, plain=True)
        caller.agent.close()
    [request] = server.received
    assert (request.method, request.target, request.body) == ("PUT", "/base/v1/ns/x", frame)
    assert "content-encoding" not in request.headers


def test_an_agent_that_was_closed_makes_no_call() -> None:
    caller = Caller()
    caller.agent.close()
    with tiny_server() as server, pytest.raises(TransportError):
        caller.agent.sync_frame(server.address, b"{}", 2_000)
    assert server.received == []


# --- TLS and signatures --------------------------------------------------------------------------


def test_a_member_with_tls_calls_over_tls(tmp_path: Path) -> None:
    member = CertifiedMember(tmp_path)
    agent = Caller(tls=member.tls).agent
    with blocking_server(member.files.current.server) as server:
        assert agent.sync_frame(server.address, b"{}", 60_000) == Received()
        agent.close()
        assert server.connections == 1


class Signer:
    """Signs for the peer, and asks for no proof."""

    def headers(self, peer: str, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> dict[str, str]:
        return {"Signed": f"{peer} {method} {target} {body.decode()}"}

    def learn(self, peer: str, headers: Mapping[str, str]) -> bool:
        return False

    def question(self, peer: str, method: str = "GET", target: str = "/q", body: bytes = b"") -> Question | None:
        return None


def test_a_member_with_a_signer_signs_its_calls() -> None:
    agent = Caller(signer=Signer()).agent
    with tiny_server() as server:
        agent.sync_frame(server.address, b"{}", 60_000)
        agent.close()
    [request] = server.received
    assert request.headers["signed"] == f"{server.address} PUT /base/v1/ns/distro/datum {{}}"
