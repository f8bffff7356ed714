"""Streams of events that say when services changed. They tell no instance: who follows one reads a list again."""

import time

import orjson

from app.auth.access_rules import READ, Target, naming
from app.http.api.call import Answer, Call, Events, Services, route
from app.http.api.event_stream import EVENT_STREAM_TYPE
from app.http.input.forms import NAMESPACE_ID, SERVICE_NAME
from app.http.input.schemas import NamespaceSchema, NeededServiceSchema
from app.http.shapes.described import Content, Described
from app.http.shapes.json_shapes import text
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.nacos_errors import InvalidParam
from app.naming.service import NamingService

REST = 100
"""Between two looks at all services of a namespace is so many times the duration of one: under 1 % of a core."""
EVENT_CONTENT = Content(
    EVENT_STREAM_TYPE, text('data: {"rev":7}\n\n', "Server-sent events, whose data is a JSON object.")
)


@route(
    "GET",
    "/v1/ns/service/changes",
    access=naming(READ),
    described=Described(EVENT_CONTENT, takes=(NeededServiceSchema,), refusals=(503,)),
    hot=True,
)
def service_changes(call: Call, services: Services) -> Answer:
    """The revision of one service at this member, at once and whenever it changes; 0 without the service. Shape: rev.

    A stream lasts for a minute; open it again then.
    """
    namespace, name = call.parameters.optional(NAMESPACE_ID, DEFAULT_NAMESPACE), call.parameters.service_name()
    if not name:
        raise InvalidParam(f"Param '{SERVICE_NAME}' is required.")
    naming_service = services.naming
    return Events(("service", namespace, name), lambda: orjson.dumps({"rev": naming_service.revision(namespace, name)}))


@route(
    "GET",
    "/v1/ns/catalog/changes",
    access=naming(READ, Target.NAMESPACE),
    described=Described(EVENT_CONTENT, takes=(NamespaceSchema,), refusals=(503,)),
    hot=True,
)
def catalog_changes(call: Call, services: Services) -> Answer:
    """The same for all services of a namespace together. Shape: services (their number), rev."""
    namespace = call.parameters.optional(NAMESPACE_ID, DEFAULT_NAMESPACE)
    return Events(("catalog", namespace), _NamespaceRevision(services.naming, namespace).read)


class _NamespaceRevision:
    """The event of a namespace. The pause before the next read is in proportion to the time that the last one took."""

    def __init__(self, naming_service: NamingService, namespace: str) -> None:
        self._naming_service, self._namespace = naming_service, namespace
        self._told = b""
        self._due_s = 0.0

    def read(self) -> bytes:
        begun_s = time.perf_counter()
        if begun_s >= self._due_s or not self._told:
            count, revisions = self._naming_service.revisions(self._namespace)
            self._told = orjson.dumps({"services": count, "rev": revisions})
            ended_s = time.perf_counter()
            self._due_s = ended_s + REST * (ended_s - begun_s)
        return self._told
