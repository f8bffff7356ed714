"""The parameters and answers of an endpoint, for the description of the API; a part of its row in the route table."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from marshmallow import Schema

from app.http.shapes.json_shapes import Shape, null, or_null, record, text, whole

JSON_TYPE, TEXT_TYPE = "application/json", "text/plain"


@dataclass(frozen=True, slots=True)
class Content:
    """A body: its media type, and its shape."""

    media_type: str
    shape: Shape
    beside: tuple["Content", ...] = ()
    """The other media types that the body may have."""


def json_of(shape: Shape) -> Content:
    return Content(JSON_TYPE, shape)


def text_of(example: str, says: str = "") -> Content:
    return Content(TEXT_TYPE, text(example, says))


OK_TEXT = text_of("ok")
BARE_OK = text_of("ok", "Without the envelope.")
ERROR_TEXT = Content(TEXT_TYPE, text("Param 'serviceName' is required.", "The error, with the name of the parameter."))
FILTER_ERROR = json_of(
    record(
        "FilterError",
        {
            "timestamp": text("2026-01-31T12:00:00.000+0000"),
            "status": whole(403),
            "error": text("Forbidden", "The status in words."),
            "message": text("unknown user!", "The error."),
            "path": text("/nacos/v1/ns/instance", "The path of the call."),
        },
    )
)
RESULT_ERROR = json_of(
    record(
        "ResultError",
        {
            "code": whole(10_000, "The kind of the error, as in Nacos 2."),
            "message": text("parameter missing", "The kind in words."),
            "data": or_null(text("Required parameter 'serviceName' type String is not present", "The error.")),
        },
    )
)


@dataclass(frozen=True, slots=True)
class Described:
    """The parameters and answers of an endpoint. ``takes``: its parameters, in the order in which they are shown."""

    gives: Content | None = OK_TEXT
    """The answer of status 200; None for an endpoint without it."""
    takes: tuple[type[Schema], ...] = ()
    body: Content | None = None
    """The body of a request, if that is not a form."""
    also: Mapping[int, Content] = field(default_factory=dict)
    """The answers of other statuses."""
    refusals: tuple[int, ...] = ()
    """The statuses of errors that not all endpoints have."""
    errors: Content = ERROR_TEXT
    """The body of an error of the endpoint."""
    in_envelope: bool = True
    """False if the answer of status 200 has no envelope at a path of HTTP v2; refusals have it."""
    is_old: bool = False
    """True if the endpoint is kept for old clients; new ones call another path."""

    def enveloped(self) -> "Described":
        """Return the same in the envelope of HTTP v2."""
        if self.gives is None or not self.in_envelope:
            return replace(self, errors=RESULT_ERROR)
        told = {"code": whole(0, "0."), "message": text("success"), "data": self.gives.shape}
        return replace(self, gives=json_of(envelope(told)), errors=RESULT_ERROR)


def envelope(fields: Mapping[str, Shape]) -> Shape:
    """Return the object around the data of an HTTP v2 answer. It has no title: there is one for each kind of data."""
    return {"type": "object", "properties": dict(fields), "required": list(fields)}


def rest_result(title: str, data: Shape | None = None) -> Content:
    """Return the answer of the core and the console, where ``code`` has errors, too, under status 200."""
    shape = null() if data is None else or_null(data)
    fields = {
        "code": whole(200, "200, or that of an error."),
        "message": {"anyOf": [{"type": "null", "examples": [None]}, text("Node information is illegal")]},
        "data": shape,
    }
    return json_of(record(title, fields))
