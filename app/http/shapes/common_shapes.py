"""The values that many answers have."""

from app.http.shapes.json_shapes import array, flag, map_of, number, one_of, or_null, record, text, whole
from distro.model.types import MemberState

SERVICE_EXAMPLE = "DEFAULT_GROUP@@orders"
ADDRESS_EXAMPLE = "10.0.0.5:8848"
IP = text("10.0.0.1", "The address of the instance.")
PORT = whole(8080, "The port of the instance.", minimum=0, maximum=65_535)
FULL_NAME = text(SERVICE_EXAMPLE, "The service's name with its group.")
SHORT_NAME = text("orders", "The service's name without its group.")
GROUP = text("DEFAULT_GROUP")
NAMESPACE = text("public", "The id of the namespace.")
CLUSTER = text("DEFAULT", "The cluster within the service.")
WEIGHT = number(1.0, "The share of calls, relative to the other instances.")
HEALTHY = flag(True)
ENABLED = flag(True, "Whether clients are shown the instance.")
EPHEMERAL = flag(True, "Whether the instance lives by beats or by a connection; else it is persistent.")
METADATA = or_null(map_of("zone", text("a"), "Texts by name; null where null was set."))
INSTANCE_ID = or_null(text("10.0.0.1#8080#DEFAULT#DEFAULT_GROUP@@orders", "Null where a member told none."))
MS = whole(1_790_000_000_000, "Milliseconds since 1970, of the wall clock.")
MILLISECONDS = whole(5_000, "Milliseconds.")
COUNT = whole(1, "Of all pages.")
ADDRESS = text(ADDRESS_EXAMPLE, "The address of a member.")
STATE = one_of("UP", *(one.value for one in MemberState if one is not MemberState.UP), says="The state of a member.")
ANY = record("AnyObject", {})
SELECTOR = record(
    "Selector",
    {"type": one_of("none", "label", says="How a service picks instances for a client.")},
    {"expression": text(""), "labels": array(text("zone"))},
)
V2_SELECTOR = record(
    "SelectorV2",
    {
        "type": one_of("none", "label", says="How a service picks instances for a client."),
        "contextType": one_of("NONE", "CMDB", says="Where the selector's labels come from."),
    },
    {"expression": text(""), "labels": array(text("zone"))},
)
HEALTH_CHECKER = record(
    "HealthChecker",
    {"type": one_of("TCP", "HTTP", "MYSQL", "NONE", says="How persistent instances are checked.")},
    {
        "path": text("/health"),
        "headers": text("", "``name:value`` pairs, with ``|`` between them."),
        "expectedResponseCode": whole(200),
        "user": text(""),
        "pwd": text("", "Always empty: no password is kept."),
        "cmd": text(""),
    },
)
