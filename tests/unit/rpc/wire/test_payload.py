"""The message of the wire: what others read of ours, and what we make of anything that arrives."""

import contextlib

import pytest
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.nacos_errors import InvalidParam
from app.rpc.wire.json_fields import ITEMS_MAX, METADATA_CHARS_MAX, Fields
from app.rpc.wire.payload import Payload, PayloadError, decode, encode, error_response, success

KNOWN = b'\x12$\x1a\x0fInstanceRequest:\x08\n\x03App\x12\x01xB\x071.2.3.4\x1a\t\x12\x07{"a":1}'
"""Field numbers by hand: metadata 2 (type 3, headers 7, clientIp 8), body 3 (value 2)."""


def test_a_message_has_the_field_numbers_of_the_contract() -> None:
    assert encode("InstanceRequest", b'{"a":1}', "1.2.3.4", {"App": "x"}) == KNOWN


def test_the_body_is_an_any_without_a_type() -> None:
    body = KNOWN[-9:]
    assert any_pb2.Any.FromString(body) == any_pb2.Any(value=b'{"a":1}')


def test_names_of_headers_do_not_depend_on_their_case() -> None:
    assert decode(KNOWN) == Payload("InstanceRequest", {"app": "x"}, "1.2.3.4", b'{"a":1}')


@given(st.text(), st.binary(), st.text(), st.dictionaries(st.text(), st.text()))
def test_messages_round_trip(name: str, body: bytes, client_ip: str, headers: dict[str, str]) -> None:
    lowered = {key.lower(): value for key, value in headers.items()}
    if len(lowered) == len(headers):
        assert decode(encode(name, body, client_ip, headers)) == Payload(name, lowered, client_ip, body)


@given(st.binary())
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with contextlib.suppress(PayloadError):  # and nothing else
        assert isinstance(decode(data).json(), dict)


def test_an_empty_body_is_an_empty_object() -> None:
    assert Payload("X", {}, "", b"").json() == {}


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'"x"', b"null", b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(PayloadError, match="InstanceRequest"):
        Payload("InstanceRequest", {}, "", body).json()


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


class TestFields:
    def test_null_and_empty_count_as_absent(self) -> None:
        fields = Fields({"a": None, "b": "", "m": None, "l": None})
        assert (fields.text("a", "x"), fields.text("b", "x"), fields.text("c", "x")) == ("x", "x", "x")
        assert (fields.texts("m"), fields.items("l"), fields.flag("a", True)) == ({}, [], True)
        assert (fields.whole("b", 7, 0, 9), fields.number("a", 1.5), fields.inner("m").text("x")) == (7, 1.5, "")

    def test_numbers_come_in_the_ways_of_several_sdks(self) -> None:
        fields = Fields({"weight": 2, "port": "80", "metadata": {"n": 1, "f": True, "x": None, "d": 0.5, "t": "t"}})
        assert (fields.number("weight", 1.0), fields.whole("port", 0, 0, 65_535)) == (2.0, 80)
        assert fields.texts("metadata") == {"n": "1", "f": "true", "d": "0.5", "t": "t"}

    @pytest.mark.parametrize(
        ("value", "method", "arguments"),
        [
            (1, "text", ()),
            ("x" * 1_025, "text", ()),
            ("a\nb", "text", ()),
            ("", "required", ()),
            ("x", "whole", (0, 0, 9)),
            (True, "whole", (0, 0, 9)),
            (10, "whole", (0, 0, 9)),
            ("9" * 30, "whole", (0, 0, 9)),
            ("1", "number", (1.0,)),
            (True, "number", (1.0,)),
            ("true", "flag", (False,)),
            ([], "texts", ()),
            ({"a": []}, "texts", ()),
            ({"a": "x" * METADATA_CHARS_MAX}, "texts", ()),
            ([], "inner", ()),
            ({}, "items", ()),
            ([1], "items", ()),
            ([{}] * (ITEMS_MAX + 1), "items", ()),
        ],
    )
    def test_a_value_of_another_kind_is_refused_by_name(
        self, value: object, method: str, arguments: tuple[object, ...]
    ) -> None:
        with pytest.raises(InvalidParam, match="field 'name'"):
            getattr(Fields({"name": value}), method)("name", *arguments)
