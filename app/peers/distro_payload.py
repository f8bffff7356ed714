"""The calls in which members send each other clients over gRPC: the requests of Nacos 2.x, and their answers.

Shape: ``DistroDataRequest {"dataOperation", "distroData": {"distroKey": {"resourceKey", "resourceType",
"targetServer"}, "type", "content": base64}, "module": "cluster"}``, between our own kind with ``"rollcallDeadline"``
(R13); ``DistroDataResponse {resultCode ..., "distroData"}``. To real Nacos each request is one client: its sync data,
or its id and revision. To our own kind it is a frame ``{key: datum}`` of any number of them, or ``{key: version}``;
gzip when that is shorter.
"""

import base64
from typing import Any, NamedTuple

from app.naming.model.json_fields import Fields
from app.naming.model.nacos_errors import InvalidParam
from app.peers import payload as wire
from app.peers.payload import Payload
from app.replication.client_type import CLIENTS
from distro.model.errors import TransportError
from distro.model.types import DataOperation
from distro.wire.codec import gzip_body
from distro.wire.http_agent import GZIP_FROM_BYTES

REQUEST, RESPONSE = "DistroDataRequest", "DistroDataResponse"
SNAPSHOT_KEY = "SNAPSHOT"
HANDLE_FAILED = "[DISTRO-FAILED] distro data handle failed"
VERIFY_FAILED = "[DISTRO-FAILED] distro data verify failed"
RESOURCE_KEY_CHARS_MAX = 1_024


class DistroCall(NamedTuple):
    """A request as it arrived."""

    operation: DataOperation
    resource_type: str
    resource_key: str
    content: bytes
    deadline: str
    """The deadline of a call of a Rollcall member (R13); empty for none."""


def encode_request(
    operation: DataOperation, peer: str, resource_key: str, content: bytes | None, deadline: str = ""
) -> bytes:
    """Return the JSON of a request; ``content`` None leaves it out, and so does an empty ``deadline``."""
    key = {"resourceKey": resource_key, "resourceType": CLIENTS, "targetServer": peer}
    data: dict[str, Any] = {"distroKey": key, "type": operation.value}
    if content is not None:
        data["content"] = base64.b64encode(content).decode()
    fields = {"dataOperation": operation.value, "distroData": data, "module": "cluster"}
    if deadline:
        fields["rollcallDeadline"] = deadline
    if operation is DataOperation.SNAPSHOT:
        del fields["distroData"]
    return wire.request_body(**fields)


def decode_request(fields: Fields) -> DistroCall:
    """Read a request.

    Raises:
        InvalidParam: names the field.
    """
    name = fields.required("dataOperation")
    try:
        operation = DataOperation(name)
    except ValueError:
        raise InvalidParam(f"field 'dataOperation' is not an operation: {name}") from None
    data = fields.inner("distroData")
    key = data.inner("distroKey")
    return DistroCall(
        operation,
        key.text("resourceType", CLIENTS if operation is DataOperation.SNAPSHOT else ""),
        key.text("resourceKey", chars_max=RESOURCE_KEY_CHARS_MAX),
        data.data("content"),
        fields.text("rollcallDeadline"),
    )


def packed(body: bytes) -> bytes:
    """Return the content of a call to a Rollcall member: gzip when it is long."""
    return gzip_body(body) if len(body) >= GZIP_FROM_BYTES else body


def success(content: bytes | None = None, resource_key: str = "") -> dict[str, Any]:
    """Return the fields of the answer to a call that succeeded, with ``content`` if there is any."""
    if content is None:
        return wire.success()
    key = {"resourceKey": resource_key, "resourceType": CLIENTS}
    return wire.success(distroData={"distroKey": key, "content": base64.b64encode(content).decode()})


def failure(text: str) -> dict[str, Any]:
    return wire.failure(wire.FAILED, text)


def is_success(answer: Payload) -> bool:
    """Return whether the peer's answer is a success, by its result code alone, as in real Nacos."""
    return answer.type == RESPONSE and answer.json().get("resultCode") == wire.SUCCESS


def content_of(answer: Payload) -> bytes:
    """Return the data in an answer; empty when there is none.

    Raises:
        TransportError: the peer failed, or its answer cannot be read.
    """
    if not is_success(answer):
        raise TransportError(f"the peer answers {answer.type} {answer.body[:200]!r}")
    try:
        return Fields(answer.json()).inner("distroData").data("content")
    except InvalidParam as error:
        raise TransportError(f"the peer's answer cannot be read: {error.text}") from error
