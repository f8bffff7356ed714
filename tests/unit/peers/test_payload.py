"""The message of the wire: what others read of ours, and what we make of anything that arrives."""

import contextlib

import pytest
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from app.peers import payload
from app.peers.payload import Payload, PayloadError, decode, encode, encode_parts, error_response, success

KNOWN = b'\x12$\x1a\x0fInstanceRequest:\x08\n\x03App\x12\x01xB\x071.2.3.4\x1a\t\x12\x07{"a":1}'
"""Field numbers by hand: metadata 2 (type 3, headers 7, clientIp 8), body 3 (value 2)."""


def test_a_message_has_the_field_numbers_of_the_contract() -> None:
    assert encode("InstanceRequest", b'{"a":1}', "1.2.3.4", {"App": "x"}) == KNOWN


def test_the_body_is_an_any_without_a_type() -> None:
    body = KNOWN[-9:]
    assert any_pb2.Any.FromString(body) == any_pb2.Any(value=b'{"a":1}')


def test_a_message_is_read_by_these_numbers_too() -> None:
    assert decode(KNOWN) == Payload("InstanceRequest", "1.2.3.4", b'{"a":1}', {"App": "x"})


@given(st.text(), st.binary(), st.text(), st.dictionaries(st.text(), st.text()))
def test_messages_round_trip(name: str, body: bytes, client_ip: str, headers: dict[str, str]) -> None:
    assert decode(encode(name, body, client_ip, headers)) == Payload(name, client_ip, body, headers)


@given(st.text(), st.one_of(st.binary(), st.integers(100, 70_000).map(bytes)))
def test_what_is_written_by_hand_is_what_protobuf_writes(name: str, body: bytes) -> None:
    message = payload._PAYLOAD()
    message.metadata.type, message.body.value = name, body
    assert encode(name, body) == message.SerializeToString()


@given(st.lists(st.binary(), min_size=1).filter(any))
def test_a_message_in_parts_is_that_of_the_whole(parts: list[bytes]) -> None:
    assert encode_parts("InstanceRequest", parts) == encode("InstanceRequest", b"".join(parts))


@given(st.binary())
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with contextlib.suppress(PayloadError):  # and nothing else
        assert isinstance(decode(data).json(), dict)


def test_an_empty_body_is_an_empty_object() -> None:
    assert Payload("X", "", b"").json() == {}


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'"x"', b"null", b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(PayloadError, match="InstanceRequest"):
        Payload("InstanceRequest", "", body).json()


def test_answers_hold_no_nulls_and_say_what_failed() -> None:
    assert success(message=None, type="x") == {"resultCode": 200, "errorCode": 0, "success": True, "type": "x"}
    refused = decode(error_response(301, "Connection is unregistered."))
    assert refused.type == "ErrorResponse"
    assert refused.json() == {
        "resultCode": 500,
        "errorCode": 301,
        "message": "Connection is unregistered.",
        "success": False,
    }


@given(st.text(), st.binary(), st.dictionaries(st.text(), st.text()), st.integers(0, 300))
def test_the_beginning_of_a_message_tells_its_type_and_headers_or_nothing(
    name: str, body: bytes, headers: dict[str, str], count: int
) -> None:
    data = encode(name, body, headers=headers)
    begin = payload.begin_of(data[:count])
    assert begin in (None, Payload(name, "", b"", headers))
    if name or headers:
        assert payload.begin_of(data) == Payload(name, "", b"", headers)


@given(st.binary())
def test_any_bytes_are_the_beginning_of_a_message_or_not(data: bytes) -> None:
    begin = payload.begin_of(data)
    assert begin is None or not begin.body
