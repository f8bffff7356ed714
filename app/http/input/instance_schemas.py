"""The table of the parameters of hot calls: registrations, beats, and queries for one instance or a list.

Each row has the name, kind, default, bounds and description of a parameter. ``params`` reads calls by these rows and
loads no schema, which would take long. The schemas below list the rows of each call, for the description of the API.
The queries that ``params`` makes are at the end.
"""

from dataclasses import dataclass
from typing import NamedTuple

from marshmallow import validate

from app.http.input.fields import (
    FILLED,
    PRESENT,
    Double,
    Int,
    LenientFlag,
    MetadataText,
    Needed,
    Number,
    StrictFlag,
    Trimmed,
)
from app.http.input.forms import DOM
from app.http.input.schemas import CLUSTER_NAME_TEXT, DOM_TEXT, CallSchema, NamespaceSchema, NeededServiceSchema
from app.naming.model.keys import APP_CHARS_MAX, DEFAULT_CLUSTER, IP_CHARS_MAX, PORT_MAX

_PORT_RANGE = validate.Range(0, PORT_MAX)
_APP_LENGTH = validate.Length(max=APP_CHARS_MAX)
_IP_TEXT, _PORT_TEXT, _APP_TEXT = (
    "The address of the instance.",
    "The port of the instance.",
    "The name of the application.",
)
_HEALTHY_TEXT, _ENABLED_TEXT = "Whether the instance is healthy.", "Whether clients are shown the instance."
_WEIGHT_TEXT = "The share of calls, relative to the other instances."
METADATA_TEXT = "A JSON object of texts, or `k=v,k=v`."

IP = Needed("ip", _IP_TEXT, needs=FILLED, example="10.0.0.1", validate=validate.Length(1, IP_CHARS_MAX))
PORT = Number("port", _PORT_TEXT, needs=FILLED, example=8080, validate=_PORT_RANGE)
CLUSTER_NAME = Trimmed("clusterName", CLUSTER_NAME_TEXT, DEFAULT_CLUSTER)
CLUSTER = Trimmed("cluster", "The old name of `clusterName`.", "")
WEIGHT = Double("weight", _WEIGHT_TEXT, 1.0)
HEALTHY = LenientFlag("healthy", _HEALTHY_TEXT, True)
ENABLED = LenientFlag("enabled", _ENABLED_TEXT, True)
ENABLE = LenientFlag("enable", "The old name of `enabled`.", True)
EPHEMERAL = LenientFlag(
    "ephemeral", "Whether the instance lives by beats; else it is persistent. A switch sets the default.", True
)
METADATA = MetadataText("metadata", METADATA_TEXT, dict)
APP = Trimmed("app", _APP_TEXT, "DEFAULT", validate=_APP_LENGTH)

CLUSTERS = Trimmed("clusters", "The wanted clusters, with commas between them; all without it.", "")
HEALTHY_ONLY = StrictFlag("healthyOnly", "Only healthy instances.", False)
IS_CHECK = StrictFlag("isCheck", "Ask for an empty object where the service has instances.", False)
ENV = Trimmed("env", "It is repeated in the answer.", "")
CLIENT_IP = Trimmed("clientIP", "The client's address for pushes; that of the call without it.", "")
UDP_PORT = Int("udpPort", "The client's port for pushes; none with 0.", 0)
SUBSCRIBER_APP = Trimmed("app", _APP_TEXT, "")

BEAT_IP = Trimmed("ip", _IP_TEXT, "", example="10.0.0.1", validate=validate.Length(max=IP_CHARS_MAX))
BEAT_PORT = Int("port", _PORT_TEXT, 0, example=8080, validate=_PORT_RANGE)
BEAT = Trimmed("beat", "The instance as a JSON object; without it the beat is a light one, of a known instance.", "")


class InstanceSchema(NeededServiceSchema):
    """GET ``/instance``, and calls about one instance."""

    ip, port, cluster_name = IP, PORT, CLUSTER_NAME


class ExplainSchema(NeededServiceSchema):
    """GET ``/explain``, which searches the clusters."""

    ip, port = IP, PORT
    cluster_name = Trimmed("clusterName", f"{CLUSTER_NAME_TEXT} Without it all clusters are searched.", "")


class _Named(InstanceSchema):
    cluster = CLUSTER


class RegisterSchema(_Named):
    """POST and PUT ``/instance``."""

    weight, healthy, enabled, enable, ephemeral = WEIGHT, HEALTHY, ENABLED, ENABLE, EPHEMERAL
    metadata, app = METADATA, APP


class DeregisterSchema(_Named):
    """DELETE ``/instance``."""

    ephemeral, weight = EPHEMERAL, WEIGHT


class PatchSchema(_Named):
    """PATCH ``/instance``: an absent value stays as it is."""

    weight = Double("weight", _WEIGHT_TEXT)
    healthy = LenientFlag("healthy", _HEALTHY_TEXT)
    enabled = LenientFlag("enabled", _ENABLED_TEXT)
    metadata = MetadataText("metadata", METADATA_TEXT)
    app = Trimmed("app", _APP_TEXT, validate=_APP_LENGTH)


class PartialBatchSchema(NeededServiceSchema):
    """PUT ``/v3/admin/ns/instance/partial/batch``: an absent value stays as it is."""

    instances = Needed(
        "instances", "A JSON array of the instances, each with ip, port and clusterName.", needs=FILLED, example="[]"
    )
    weight = Double("weight", _WEIGHT_TEXT)
    enabled = LenientFlag("enabled", _ENABLED_TEXT)
    metadata = MetadataText("metadata", f"{METADATA_TEXT} Other keys stay.")
    if_enough = StrictFlag(
        "ifEnoughRemain",
        "Change nothing if no healthy instance would remain in service, or not more than the protect threshold.",
        False,
    )


class PatchV2Schema(PatchSchema):
    """PATCH ``/v2/ns/instance``: three values are needed. Source: Nacos 2.3.1 InstanceControllerV2.patch."""

    weight = Double("weight", _WEIGHT_TEXT, needs=FILLED)
    enabled = LenientFlag("enabled", _ENABLED_TEXT, needs=FILLED)
    metadata = MetadataText("metadata", f"{METADATA_TEXT} An empty text leaves it as it is.", needs=PRESENT)


class _List(NamespaceSchema):
    clusters, healthy_only, is_check, env = CLUSTERS, HEALTHY_ONLY, IS_CHECK, ENV
    client_ip, udp_port, app = CLIENT_IP, UDP_PORT, SUBSCRIBER_APP


class ListSchema(NeededServiceSchema, _List):
    """GET ``/instance/list``."""


class ListV2Schema(ListSchema):
    """GET ``/v2/ns/instance/list``."""

    cluster_name = Trimmed("clusterName", CLUSTER_NAME_TEXT, "")


class _Beat(NamespaceSchema):
    cluster_name, ip, port, beat = CLUSTER_NAME, BEAT_IP, BEAT_PORT, BEAT


class BeatSchema(NeededServiceSchema, _Beat):
    """PUT ``/instance/beat``."""


class _Dom(CallSchema):
    dom = Needed(DOM, DOM_TEXT, needs=FILLED)


class DomListSchema(_Dom, _List):
    """GET ``/api/srvIPXT``."""


class DomBeatSchema(_Dom, _Beat):
    """GET ``/api/clientBeat``."""


@dataclass(frozen=True, slots=True)
class DetailQuery:
    """The instance that GET ``/instance`` asks for."""

    namespace: str
    service: str
    ip: str
    port: int
    cluster: str


class ListQuery(NamedTuple):
    """The query of GET ``/instance/list``. ``clusters`` and ``env`` are repeated in the answer."""

    namespace: str
    service: str
    clusters: str
    healthy_only: bool
    is_check: bool
    env: str
    client_ip: str
    """The address for pushes; empty for the address that the query came from."""
    udp_port: int
    """The port for pushes; 0 or less for no pushes."""
    app: str
