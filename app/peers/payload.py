"""The one message of the wire: a type's name, headers, and a JSON object as body.

Shape: ``Payload {metadata = 2: {type = 3, headers = 7, clientIp = 8}, body = 3: {value = 2}}``, proto3, no package.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from app.naming.model.json_fields import structure_of
from app.naming.model.keys import JSON_VALUES_MAX

REQUEST_METHOD = "/Request/request"
STREAM_METHOD = "/BiRequestStream/requestBiStream"
SUCCESS = 200
FAILED = 500
"""The two result codes; the error codes below say what failed."""
STARTING = 300
UNREGISTERED = 301
"""The code that makes the SDK connect again."""
NO_HANDLER = 302
INVALID = 400
FORBIDDEN = 403
UNREADABLE = 502
CLIENT_GONE = -401

HEADROOM_BYTES = 4_096
"""The room in a message for the envelope around the JSON of its content."""


class PayloadError(Exception):
    """The bytes are not a payload, or its body is not a JSON object; the text says which."""


def _message_class() -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="rollcall/payload.proto", syntax="proto3")

    def message(parent: Any, name: str, *fields: tuple[str, int, int, str]) -> Any:
        made = parent.add(name=name)
        for field_name, number, kind, type_name in fields:
            made.field.add(
                name=field_name, number=number, type=kind, type_name=type_name or None, label=field.LABEL_OPTIONAL
            )
        return made

    text, data, nested = field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE
    # On the wire this is google.protobuf.Any; its type_url stays empty.
    message(file.message_type, "Body", ("value", 2, data, ""))
    metadata = message(file.message_type, "Metadata", ("type", 3, text, ""), ("clientIp", 8, text, ""))
    metadata.field.add(
        name="headers", number=7, type=nested, type_name=".Metadata.HeadersEntry", label=field.LABEL_REPEATED
    )
    entry = message(metadata.nested_type, "HeadersEntry", ("key", 1, text, ""), ("value", 2, text, ""))
    entry.options.map_entry = True
    message(file.message_type, "Payload", ("metadata", 2, nested, ".Metadata"), ("body", 3, nested, ".Body"))
    # A separate pool: another library of this process may have the same names.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Payload"))


_PAYLOAD = _message_class()
_METADATA_TAG = b"\x12"
_BODY_TAG = b"\x12"


class Payload(NamedTuple):
    """One message as it arrived."""

    type: str
    client_ip: str
    """The address that the sender states for itself."""
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})

    def json(self, structure_max: int = JSON_VALUES_MAX) -> dict[str, Any]:
        """Return the body; an empty one is an empty object.

        ``structure_max``: the most commas and opening brackets, which are counted before anything is parsed.

        Raises:
            PayloadError: not JSON, not an object, or too many values.
        """
        if structure_of(self.body) > structure_max:
            raise PayloadError(f"the body of {self.type} has more than {structure_max} values")
        try:
            value = orjson.loads(self.body or b"{}")
        except orjson.JSONDecodeError as error:
            raise PayloadError(f"the body of {self.type} is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise PayloadError(f"the body of {self.type} is not a JSON object")
        return value


def decode(data: bytes) -> Payload:
    """Read a message.

    Raises:
        PayloadError: the bytes are not such a message.
    """
    try:
        message = _PAYLOAD.FromString(data)
    except DecodeError as error:
        raise PayloadError("not a payload") from error
    metadata = message.metadata
    return Payload(metadata.type, metadata.clientIp, message.body.value, metadata.headers)


def begin_of(data: bytes) -> Payload | None:
    """Return the type and the headers in the beginning of a message; None if they are missing.

    Every implementation writes fields in the order of their numbers, so that they come before the body.
    """
    if not data.startswith(_METADATA_TAG):
        return None
    size, at = 0, len(_METADATA_TAG)
    for shift in range(0, 21, 7):
        if at >= len(data):
            return None
        byte, at = data[at], at + 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        return None
    if at + size > len(data):
        return None
    try:
        return decode(data[: at + size])
    except PayloadError:
        return None


def encode(type_name: str, body: bytes, client_ip: str = "", headers: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a message; ``body`` is the JSON of an object."""
    if client_ip or headers:
        message = _PAYLOAD()
        message.metadata.type = type_name
        message.metadata.clientIp = client_ip
        message.metadata.headers.update(headers or {})
        message.body.value = body
        return bytes(message.SerializeToString())
    # What protobuf would write, at a quarter of the cost: nearly all answers, and all pushes.
    value = _BODY_TAG + _varint(len(body)) + body if body else b""
    return _metadata(type_name) + b"\x1a" + _varint(len(value)) + value


def encode_parts(type_name: str, parts: Sequence[bytes]) -> bytes:
    """Return the bytes of a message as ``encode`` does, from a body in parts, which are copied once."""
    size = sum(map(len, parts))
    field = _BODY_TAG + _varint(size)
    return b"".join((_metadata(type_name), b"\x1a", _varint(len(field) + size), field, *parts))


@lru_cache(256)
def _metadata(type_name: str) -> bytes:
    """Return the metadata field that holds only a type."""
    name = type_name.encode()
    field = b"\x1a" + _varint(len(name)) + name if name else b""
    return b"\x12" + _varint(len(field)) + field


def _varint(count: int) -> bytes:
    if count < 128:
        return count.to_bytes(1, "big")
    if count < 1 << 14:
        return bytes((count & 0x7F | 0x80, count >> 7))
    out = bytearray()
    while count >= 128:
        out.append(count & 0x7F | 0x80)
        count >>= 7
    out.append(count)
    return bytes(out)


def encode_json(type_name: str, fields: Mapping[str, Any]) -> bytes:
    return encode(type_name, orjson.dumps(fields))


def request_body(**fields: Any) -> bytes:
    """Return the body of a request that this node sends, to a client or to a member.

    Real Nacos writes ``headers`` in each, and the Rust SDK drops a request without it.
    """
    return orjson.dumps({"headers": {}, **fields})


def success(**more: Any) -> dict[str, Any]:
    """Return the fields that every answer has, and ``more``, without its None values: SDKs take no nulls."""
    base = {"resultCode": SUCCESS, "errorCode": 0, "success": True}
    return base | {name: value for name, value in more.items() if value is not None}


def failure(code: int, text: str) -> dict[str, Any]:
    """Return the fields of the answer to a call that failed."""
    return {"resultCode": FAILED, "errorCode": code, "message": text, "success": False}


def error_response(code: int, text: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the message that answers a failed call whose request type has no answer type."""
    return encode("ErrorResponse", orjson.dumps(failure(code, text)), headers=headers)
