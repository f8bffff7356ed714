"""The parameters that endpoints and hot parsers read by hand, declared for the description of the API.

Nothing is loaded with these schemas. A test compares them with what the code reads.
"""

from marshmallow import fields, validate

from app.http.input.fields import MetadataText, filled, optional
from app.http.input.schemas import CLUSTER_NAME_TEXT, DOM_TEXT, NamespaceSchema, NeededServiceSchema
from app.naming.model.keys import APP_CHARS_MAX, DEFAULT_CLUSTER, INT_MAX, IP_CHARS_MAX, PORT_MAX

TIMEOUT_MS, TIMEOUT_MS_MAX = 15_000, 60_000
_PORT_RANGE = validate.Range(0, PORT_MAX)
_INT_RANGE = validate.Range(-INT_MAX - 1, INT_MAX)
_IP_LENGTH = validate.Length(1, IP_CHARS_MAX)


class _OneInstance(NeededServiceSchema):
    """The instance that a call is about."""

    ip = fields.String(**filled("ip", "The address of the instance.", example="10.0.0.1"), validate=_IP_LENGTH)
    port = fields.Integer(**filled("port", "The port of the instance.", example=8080), validate=_PORT_RANGE)
    cluster_name = fields.String(**optional("clusterName", CLUSTER_NAME_TEXT, DEFAULT_CLUSTER))


class DetailRead(_OneInstance):
    """GET ``/instance``, and calls about one instance."""


class _Named(_OneInstance):
    cluster = fields.String(**optional("cluster", "The old name of `clusterName`.", ""))


class RegisterRead(_Named):
    """POST and PUT ``/instance``."""

    weight = fields.Float(**optional("weight", "The share of calls, relative to the other instances.", 1.0))
    healthy = fields.Boolean(**optional("healthy", "Whether the instance is healthy.", True))
    enabled = fields.Boolean(**optional("enabled", "Whether clients are shown the instance.", True))
    enable = fields.Boolean(**optional("enable", "The old name of `enabled`.", True))
    ephemeral = fields.Boolean(
        **optional(
            "ephemeral", "Whether the instance lives by beats; else it is persistent. A switch sets the default.", True
        )
    )
    metadata = MetadataText(**optional("metadata", "A JSON object of texts, or `k=v,k=v`.", dict))
    app = fields.String(
        **optional("app", "The name of the application.", "DEFAULT"), validate=validate.Length(max=APP_CHARS_MAX)
    )


class DeregisterRead(_Named):
    """DELETE ``/instance``."""

    ephemeral = fields.Boolean(
        **optional(
            "ephemeral", "Whether the instance lives by beats; else it is persistent. A switch sets the default.", True
        )
    )
    weight = fields.Float(**optional("weight", "The share of calls, relative to the other instances.", 1.0))


class PatchRead(_Named):
    """PATCH ``/instance``: what is not given stays as it is."""

    weight = fields.Float(**optional("weight", "The share of calls, relative to the other instances."))
    healthy = fields.Boolean(**optional("healthy", "Whether the instance is healthy."))
    enabled = fields.Boolean(**optional("enabled", "Whether clients are shown the instance."))
    metadata = MetadataText(**optional("metadata", "A JSON object of texts, or `k=v,k=v`."))
    app = fields.String(**optional("app", "The name of the application."), validate=validate.Length(max=APP_CHARS_MAX))


class _List(NamespaceSchema):
    clusters = fields.String(
        **optional("clusters", "The wanted clusters, with commas between them; all without it.", "")
    )
    healthy_only = fields.Boolean(**optional("healthyOnly", "Only healthy instances.", False))
    is_check = fields.Boolean(**optional("isCheck", "Ask for an empty object where the service has instances.", False))
    env = fields.String(**optional("env", "It is repeated in the answer.", ""))
    client_ip = fields.String(
        **optional("clientIP", "The client's address for pushes; that of the call without it.", "")
    )
    udp_port = fields.Integer(
        **optional("udpPort", "The client's port for pushes; none with 0.", 0), validate=_INT_RANGE
    )
    app = fields.String(**optional("app", "The name of the application.", ""))


class ListRead(NeededServiceSchema, _List):
    """GET ``/instance/list``."""


class ListV2Read(ListRead):
    """GET ``/v2/ns/instance/list``."""

    cluster_name = fields.String(**optional("clusterName", CLUSTER_NAME_TEXT, ""))


class _Beat(NamespaceSchema):
    cluster_name = fields.String(**optional("clusterName", CLUSTER_NAME_TEXT, DEFAULT_CLUSTER))
    ip = fields.String(
        **optional("ip", "The address of the instance.", "", example="10.0.0.1"),
        validate=validate.Length(max=IP_CHARS_MAX),
    )
    port = fields.Integer(**optional("port", "The port of the instance.", 0, example=8080), validate=_PORT_RANGE)
    beat = fields.String(
        **optional(
            "beat", "The instance as a JSON object; without it the beat is a light one, of a known instance.", ""
        )
    )


class BeatRead(NeededServiceSchema, _Beat):
    """PUT ``/instance/beat``."""


class DomRead(NamespaceSchema):
    """Old calls that name a service of the default group."""

    dom = fields.String(**filled("dom", DOM_TEXT))


class DomListRead(DomRead, _List):
    """GET ``/api/srvIPXT``."""


class DomBeatRead(DomRead, _Beat):
    """GET ``/api/clientBeat``."""
