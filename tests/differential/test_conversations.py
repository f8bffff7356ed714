"""Our gRPC transport and grpcio answer the same to the same; ``python -m tests.differential.run`` asks more."""

import gzip
from collections.abc import Callable

import pytest

from tests.differential.conversations import MESSAGE_BYTES_MAX, Conversation
from tests.differential.echo_servers import AskedGrpcio, OurEcho, grpcio_echo, outcome
from tests.differential.run import ask_all, compare_all, mutate_all
from tests.support.http2_client import (
    BIDI,
    END_HEADERS,
    END_STREAM,
    MAGIC,
    UNARY,
    ByHand,
    frame,
    prefixed,
)

COMPARED = range(300)
CHANGED = range(1_000)
CLIENTS = range(60)


def test_what_grpcio_answers_is_answered_whole_and_in_pieces() -> None:
    statuses = compare_all(COMPARED)
    assert len(statuses) == 17, "each status comes, and thus each kind of call"
    assert statuses["0"] > sum(statuses.values()) / 2


def test_whatever_is_changed_of_a_conversation_nothing_is_left_of_it() -> None:
    ended = mutate_all(CHANGED)
    assert ended.keys() >= {"PROTOCOL_ERROR", "FRAME_SIZE_ERROR", "COMPRESSION_ERROR", "goes on"}


def test_clients_of_grpcio_are_answered_as_by_its_own_server() -> None:
    statuses = ask_all(CLIENTS)
    assert statuses.keys() == {"OK", "UNIMPLEMENTED", "DEADLINE_EXCEEDED", "CANCELLED", "RESOURCE_EXHAUSTED"}


def call(content: bytes, flags: int = END_STREAM, path: str = UNARY, **fields: str) -> Callable[[ByHand], bytes]:
    return lambda client: client.opening(1, path, **fields) + frame("DATA", flags, 1, content)


def trailers(client: ByHand) -> bytes:
    block = bytes(client.encoder.encode([("x-last", "1")]))
    return call(prefixed(b"e"), flags=0)(client) + frame("HEADERS", END_HEADERS | END_STREAM, 1, block)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(call(b"\0" + (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"), 0), id="too large by its prefix"),
        pytest.param(call(prefixed(gzip.compress(b"e"), packed=True)), id="packed without an encoding"),
        pytest.param(call(prefixed(b"plain", packed=True), grpc_encoding="gzip"), id="not packed"),
        pytest.param(call(prefixed(gzip.compress(bytes(99))[:-9], packed=True), grpc_encoding="gzip"), id="cut"),
        pytest.param(call(prefixed(gzip.compress(b"e") + b"x", packed=True), grpc_encoding="gzip"), id="junk behind"),
        pytest.param(
            call(prefixed(gzip.compress(bytes(MESSAGE_BYTES_MAX + 1)), packed=True), grpc_encoding="gzip"),
            id="too large unpacked",
        ),
        pytest.param(call(prefixed(b"e"), path="nothing"), id="a path without a slash"),
        pytest.param(call(prefixed(b"e")[:-1], path="/x/y"), id="half a message to nobody"),
        pytest.param(call(prefixed(b"e"), content_type="application/grpc+proto"), id="a kind of messages"),
        pytest.param(call(prefixed(b"e"), content_type="application/grpc;x=y"), id="a parameter"),
        pytest.param(call(prefixed(b"e"), grpc_timeout="1H", path=BIDI), id="a time limit"),
        pytest.param(call(prefixed(b"e"), **{f"x-{one}": "v" * 700 for one in range(10)}), id="large metadata"),
        pytest.param(trailers, id="trailers of a client"),
    ],
)
def test_calls_with_faults_have_the_status_that_grpcio_gives(said: Callable[[ByHand], bytes]) -> None:
    talk = Conversation(0, [MAGIC, frame("SETTINGS"), frame("SETTINGS", 1), said(ByHand(begun=False))], [1])
    with grpcio_echo() as port:
        theirs = outcome(AskedGrpcio(port, talk).ask(), 1)
    ours = outcome(OurEcho().take([talk.data]), 1)
    assert (ours[:2], ours[3]) == (theirs[:2], theirs[3])
