"""The dump of this node, for the audit."""

from typing import Any

from app.auth.access_rules import READ, admin
from app.config.version import __version__
from app.http.api.answers import text_reply
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.api.dump_lines import dump_lines, linked_rows
from app.http.input.fields import StrictFlag, Trimmed
from app.http.input.schemas import SERVICE_NAME_TEXT, NamespaceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DUMP

NDJSON = "application/x-ndjson"
RETRY_AFTER_S = 5


class DumpSchema(NamespaceSchema):
    """GET ``/operator/dump``; of all services without a name."""

    service = Trimmed("serviceName", SERVICE_NAME_TEXT, None, example="orders")
    links = StrictFlag("links", "Also give the links, and the instances that they brought.", False)


@route("GET", "/v1/ns/operator/dump", access=admin(READ), described=Described(DUMP, takes=(DumpSchema,)))
def dump(call: Call, services: Services) -> Answer:
    """All services and instances here, one JSON object a line, sent while they are read. Shape: docs/wire-tools.md.

    With the parameter ``serviceName`` those of one service; with ``links=true`` also what links brought.
    """
    values = load_parameters(DumpSchema, call.parameters)
    only = None if values["service"] is None else (values["namespace"], values["service"])
    cluster = services.cluster
    header = {
        "address": cluster.self_address,
        "version": __version__,
        "taken_ms": services.wall_ms(),
        "state": cluster.state().value,
        "members": [{"address": one.address, "state": one.state.value} for one in cluster.members()],
    }
    links, linked = services.links, iter(list[dict[str, Any]]())
    if values["links"] and only is None:
        header |= {"cluster": links.greeting().cluster, "links": links.carried()}
        linked = linked_rows(*links.brought())
    lines = dump_lines(header, services.naming, services.durable, services.clients.table, cluster, only, linked)
    stream = services.dumps.begin(lines)
    if stream is None:
        busy = text_reply(503, "as many dumps as this node gives at a time are being read, please try again later")
        return Reply(503, busy.body, busy.content_type, {"Retry-After": str(RETRY_AFTER_S)})
    return Reply(200, b"", NDJSON, stream=stream)
