"""The parameters that endpoints and hot parsers read by hand, declared for the description of the API.

Nothing is loaded with these schemas. A test compares them with what the code reads.
"""

from marshmallow import Schema, fields, validate

from app.http.input.fields import MetadataText, filled
from app.http.input.schemas import NamespaceSchema, NeededServiceSchema
from app.naming.model.keys import APP_CHARS_MAX, DEFAULT_CLUSTER, INT_MAX, IP_CHARS_MAX, PORT_MAX
from app.operator.drain_steps import ACTIONS

TIMEOUT_MS, TIMEOUT_MS_MAX = 15_000, 60_000
_PORT_RANGE = validate.Range(0, PORT_MAX)
_INT_RANGE = validate.Range(-INT_MAX - 1, INT_MAX)
_IP_LENGTH = validate.Length(1, IP_CHARS_MAX)


class _OneInstance(NeededServiceSchema):
    """The instance that a call is about."""

    ip = fields.String(**filled("ip"), validate=_IP_LENGTH)
    port = fields.Integer(**filled("port"), validate=_PORT_RANGE)
    cluster_name = fields.String(data_key="clusterName", load_default=DEFAULT_CLUSTER)


class DetailRead(_OneInstance):
    """GET ``/instance``, and calls about one instance."""


class _Named(_OneInstance):
    cluster = fields.String(load_default="")


class RegisterRead(_Named):
    """POST and PUT ``/instance``."""

    weight = fields.Float(load_default=1.0)
    healthy = fields.Boolean(load_default=True)
    enabled = fields.Boolean(load_default=True)
    enable = fields.Boolean(load_default=True)
    ephemeral = fields.Boolean(load_default=True)
    metadata = MetadataText(load_default=dict)
    app = fields.String(load_default="DEFAULT", validate=validate.Length(max=APP_CHARS_MAX))


class DeregisterRead(_Named):
    """DELETE ``/instance``."""

    ephemeral = fields.Boolean(load_default=True)
    weight = fields.Float(load_default=1.0)


class PatchRead(_Named):
    """PATCH ``/instance``: what is not given stays as it is."""

    weight = fields.Float()
    healthy = fields.Boolean()
    enabled = fields.Boolean()
    metadata = MetadataText()
    app = fields.String(validate=validate.Length(max=APP_CHARS_MAX))


class _List(NamespaceSchema):
    clusters = fields.String(load_default="")
    healthy_only = fields.Boolean(data_key="healthyOnly", load_default=False)
    is_check = fields.Boolean(data_key="isCheck", load_default=False)
    env = fields.String(load_default="")
    client_ip = fields.String(data_key="clientIP", load_default="")
    udp_port = fields.Integer(data_key="udpPort", load_default=0, validate=_INT_RANGE)
    app = fields.String(load_default="")


class ListRead(NeededServiceSchema, _List):
    """GET ``/instance/list``."""


class ListV2Read(ListRead):
    """GET ``/v2/ns/instance/list``."""

    cluster_name = fields.String(data_key="clusterName", load_default="")


class _Beat(NamespaceSchema):
    cluster_name = fields.String(data_key="clusterName", load_default=DEFAULT_CLUSTER)
    ip = fields.String(load_default="", validate=validate.Length(max=IP_CHARS_MAX))
    port = fields.Integer(load_default=0, validate=_PORT_RANGE)
    beat = fields.String(load_default="")


class BeatRead(NeededServiceSchema, _Beat):
    """PUT ``/instance/beat``."""


class DomRead(NamespaceSchema):
    """Old calls that name a service of the default group."""

    dom = fields.String(**filled("dom"))


class DomListRead(DomRead, _List):
    """GET ``/api/srvIPXT``."""


class DomBeatRead(DomRead, _Beat):
    """GET ``/api/clientBeat``."""


class ServiceRead(NeededServiceSchema):
    """Calls about one service."""


class DrainRead(Schema):
    """PUT ``/instance/drain``."""

    timeout_ms = fields.Integer(
        data_key="timeoutMs", load_default=TIMEOUT_MS, validate=validate.Range(0, TIMEOUT_MS_MAX)
    )
    least_ms = fields.Integer(data_key="minMs", validate=validate.Range(0, TIMEOUT_MS_MAX))


class DrainStepRead(Schema):
    """POST ``/instance/drain/step``."""

    action = fields.String(**filled("action"), validate=validate.OneOf(ACTIONS))


class NodeDrainRead(Schema):
    """PUT ``/operator/drain``."""

    enabled = fields.Boolean(load_default=True)


class LocalRead(Schema):
    """Calls that ask all members, and with ``local`` this one alone."""

    local = fields.Boolean(load_default=False)


class KeywordRead(Schema):
    """GET ``/core/cluster/nodes``."""

    keyword = fields.String(load_default="")


class AddressRead(Schema):
    """GET ``/v2/core/cluster/node/list``."""

    address = fields.String(load_default="")


class ClientIdRead(Schema):
    """Calls about one client."""

    client_id = fields.String(**filled("clientId"))


class ConnectionIdsRead(Schema):
    """GET ``/v2/core/loader/current``."""

    connection_id = fields.String(data_key="connectionId", load_default="")


class ClientAddressRead(Schema):
    """Lists of a service's clients: those of one address alone."""

    ip = fields.String(load_default="")
    port = fields.String(load_default="")


class ConfigSearchRead(Schema):
    """GET ``/cs/configs``."""

    search = fields.String(load_default="")


class TypeRead(Schema):
    """Calls of members about one resource type."""

    type = fields.String(load_default="")


class PagesRead(Schema):
    """Calls of members that read page by page."""

    pages = fields.Boolean(load_default=False)


class SwitchV2Read(Schema):
    """PUT ``/v2/ns/operator/switches``: what must be there."""

    entry = fields.String(**filled("entry"))
    value = fields.String(**filled("value"))


class HealthV2Read(Schema):
    """PUT ``/v2/ns/health``: what must be there."""

    healthy = fields.String(**filled("healthy"))
