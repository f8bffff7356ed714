"""The dump of this node, for the audit."""

from app.auth.access_rules import READ, admin
from app.config.version import __version__
from app.http.api.answers import text_reply
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.api.dump_lines import dump_lines
from app.http.input.fields import Trimmed
from app.http.input.schemas import SERVICE_NAME_TEXT, NamespaceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DUMP

NDJSON = "application/x-ndjson"
RETRY_AFTER_S = 5


class DumpSchema(NamespaceSchema):
    """GET ``/operator/dump``; of all services without a name."""

    service = Trimmed("serviceName", SERVICE_NAME_TEXT, None, example="orders")


@route("GET", "/v1/ns/operator/dump", access=admin(READ), described=Described(DUMP, takes=(DumpSchema,)))
def dump(call: Call, services: Services) -> Answer:
    """All services and instances here, one JSON object a line, sent while they are read. Shape: docs/wire-tools.md.

    With the parameter ``serviceName`` those of one service.
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
    lines = dump_lines(header, services.naming, services.durable, services.clients.table, cluster, only)
    stream = services.dumps.begin(lines)
    if stream is None:
        busy = text_reply(503, "as many dumps as this node gives at a time are being read, please try again later")
        return Reply(503, busy.body, busy.content_type, {"Retry-After": str(RETRY_AFTER_S)})
    return Reply(200, b"", NDJSON, stream=stream)
