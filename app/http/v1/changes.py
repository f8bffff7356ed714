"""Streams of events that say when services changed. They tell no instance: who follows one reads a list again."""

import orjson

from app.auth.access_rules import READ, Target, naming
from app.http.api.call import Answer, Call, Events, Services, route
from app.http.api.event_stream import EVENT_STREAM_TYPE
from app.http.input.read_schemas import ServiceRead
from app.http.input.schemas import NamespaceSchema
from app.http.shapes.described import Content, Described
from app.http.shapes.json_shapes import text
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.nacos_errors import InvalidParam

_EVENTS = Content(EVENT_STREAM_TYPE, text('data: {"rev":7}\n\n', "Server-sent events, whose data is a JSON object."))


@route(
    "GET",
    "/v1/ns/service/changes",
    access=naming(READ),
    described=Described(_EVENTS, takes=(ServiceRead,), refusals=(503,)),
    hot=True,
)
def service_changes(call: Call, services: Services) -> Answer:
    """The revision of one service at this member, at once and whenever it changes; 0 without the service. Shape: rev.

    A stream lasts for a minute; open it again then.
    """
    namespace, name = call.parameters.optional("namespaceId", DEFAULT_NAMESPACE), call.parameters.service_name()
    if not name:
        raise InvalidParam("Param 'serviceName' is required.")
    naming_service = services.naming
    return Events(("service", namespace, name), lambda: orjson.dumps({"rev": naming_service.revision(namespace, name)}))


@route(
    "GET",
    "/v1/ns/catalog/changes",
    access=naming(READ, Target.NAMESPACE),
    described=Described(_EVENTS, takes=(NamespaceSchema,), refusals=(503,)),
    hot=True,
)
def catalog_changes(call: Call, services: Services) -> Answer:
    """The same for all services of a namespace together. Shape: services (their number), rev."""
    namespace, naming_service = call.parameters.optional("namespaceId", DEFAULT_NAMESPACE), services.naming

    def read() -> bytes:
        count, revisions = naming_service.revisions(namespace)
        return orjson.dumps({"services": count, "rev": revisions})

    return Events(("catalog", namespace), read)
