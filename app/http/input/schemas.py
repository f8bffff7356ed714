"""The parameters and bodies of endpoints that are not hot, as marshmallow schemas. Every refusal names its field."""

from collections.abc import Mapping
from typing import Any

from marshmallow import EXCLUDE, INCLUDE, Schema, ValidationError, fields, validate

from app.http.input.fields import (
    AddressText,
    BucketList,
    Flag,
    InstanceKeys,
    IntOrZero,
    JsonObject,
    ListFilter,
    LoadFactor,
    MetadataText,
    Needed,
    NeededLenientFlag,
    NeededMetadata,
    Number,
    PageNumber,
    PatternText,
    SelectorText,
    StrictFlag,
    Threshold,
    Trimmed,
    Whole,
    filled,
    present,
)
from app.http.input.forms import Parameters
from app.http.input.name_pattern import NamePattern
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_GROUP, DEFAULT_NAMESPACE, PORT_MAX
from app.naming.model.meta import NO_SELECTOR
from app.naming.model.nacos_errors import InvalidParam

SUBSCRIBERS_PAGE_SIZE = 1_000
PAGE_V2_MAX = 500
CLIENTS_PAGE_SIZE, CLIENTS_PAGE_SIZE_MAX = 100, 1_000
SWITCH_CHARS_MAX = 64 * 1024
"""Every member stores each value that is set."""
LOAD_FACTOR = 0.1
_PORT = validate.Range(0, PORT_MAX, error=f"it should be a number from 0 to {PORT_MAX}")


def load(schema: Schema, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the loaded values by the names of the schema's fields.

    Raises:
        InvalidParam: with the complaint about the first field that has one.
    """
    try:
        return dict(schema.load(values))
    except ValidationError as error:
        name, complaint = next(iter(error.messages_dict.items()))
        text = complaint[0] if isinstance(complaint, list) else str(complaint)
        if isinstance(text, Whole):
            raise InvalidParam(str(text)) from None
        raise InvalidParam(f"Parameter '{name}' is illegal: {text}") from None


def load_parameters(schema: Schema, parameters: Parameters) -> dict[str, Any]:
    """Return the loaded values of a call's parameters; ``serviceName`` is read as the full name, with its group.

    Raises:
        InvalidParam: with the complaint about the first field that has one.
    """
    values = dict(parameters.items())
    if (service := parameters.service_name()) is not None:
        values["serviceName"] = service
    return load(schema, values)


class _Schema(Schema):
    """Ignores the values that it has no field for; the complaint about the first field in its order is the answer."""

    class Meta:
        unknown = EXCLUDE


class NamespaceSchema(_Schema):
    namespace = Trimmed(data_key="namespaceId", load_default=DEFAULT_NAMESPACE)


class ServiceSchema(NamespaceSchema):
    """GET and DELETE ``/service``, and all other calls about one service."""

    service = fields.String(**present("serviceName"))


class DigestSchema(_Schema):
    """GET ``/operator/digest``."""

    buckets = BucketList(load_default=frozenset())


class NeededServiceSchema(NamespaceSchema):
    """Calls about one service whose name may not be empty."""

    service = Needed(**filled("serviceName"))


class ServiceCreateSchema(_Schema):
    """POST ``/service``, in v2 also PUT: threshold, metadata and selector."""

    protect_threshold = Threshold(data_key="protectThreshold", load_default=0.0)
    metadata = MetadataText(load_default=dict)
    selector = SelectorText(load_default=NO_SELECTOR)


class ServiceUpdateSchema(_Schema):
    """PUT ``/service``: threshold and metadata."""

    protect_threshold = Threshold(**filled("protectThreshold"))
    metadata = MetadataText(load_default=dict)


class ServiceSelectorSchema(_Schema):
    """PUT ``/service``: the selector, which Nacos reads after it found the service."""

    selector = SelectorText(load_default=NO_SELECTOR)


class ServiceListSchema(NamespaceSchema):
    """GET ``/service/list``."""

    page = IntOrZero(**filled("pageNo"))
    size = IntOrZero(**filled("pageSize"))
    group = Trimmed(data_key="groupName", load_default=DEFAULT_GROUP)
    selector = ListFilter(load_default=None)


class ServiceNamesSchema(_Schema):
    """GET ``/service/names``."""

    namespace = Trimmed(data_key="namespaceId", load_default="")
    pattern = PatternText(data_key="expr", load_default=NamePattern())
    responsible_only = Flag(data_key="responsibleOnly", load_default=False)


class AllNamesSchema(_Schema):
    """GET ``/api/allDomNames``."""

    responsible_only = StrictFlag(data_key="responsibleOnly", load_default=False)


class SubscribersSchema(NeededServiceSchema):
    """GET ``/service/subscribers``. Nacos 1.4.1 wants a page, though its members ask without one; 1.4.8 does not."""

    page = IntOrZero(data_key="pageNo", load_default=1)
    size = IntOrZero(data_key="pageSize", load_default=SUBSCRIBERS_PAGE_SIZE)
    aggregation = StrictFlag(load_default=True)


class StatusesSchema(_Schema):
    """GET ``/instance/statuses``."""

    key = fields.String(**present("key"))


class MetadataBatchSchema(NeededServiceSchema):
    """PUT and DELETE ``/instance/metadata/batch``."""

    kind = Trimmed(data_key="consistencyType", load_default="")
    instances = Trimmed(load_default="")
    metadata = NeededMetadata(**filled("metadata"))


class CatalogInstancesSchema(ServiceSchema):
    """GET ``/catalog/instances``."""

    cluster = fields.String(**present("clusterName"))
    page = PageNumber(**present("pageNo"))
    size = PageNumber(**present("pageSize"))


class CatalogServicesSchema(NamespaceSchema):
    """GET ``/catalog/services``."""

    with_instances = Flag(data_key="withInstances", load_default=False)
    page = PageNumber(**present("pageNo"))
    size = PageNumber(**present("pageSize"))
    name = PatternText(data_key="serviceNameParam", load_default=NamePattern())
    group = PatternText(data_key="groupNameParam", load_default=NamePattern())
    instance = Trimmed(load_default="")
    has_instances = Flag(data_key="hasIpCount", load_default=False)


class ClientSearchSchema(_Schema):
    """GET ``/v2/ns/client/search``."""

    contained = Trimmed(data_key="clientId", load_default="")
    page = Number(data_key="pageNo", load_default=1, validate=validate.Range(min=1, error="it should be 1 or more"))
    size = Number(
        data_key="pageSize",
        load_default=CLIENTS_PAGE_SIZE,
        validate=validate.Range(1, CLIENTS_PAGE_SIZE_MAX, error=f"it should be from 1 to {CLIENTS_PAGE_SIZE_MAX}"),
    )


class ClusterNameSchema(NamespaceSchema):
    """PUT ``/cluster``: the names of the cluster and its service."""

    cluster = Needed(**filled("clusterName"))
    service = Needed(**filled("serviceName"))


class ClusterConfigSchema(_Schema):
    """PUT ``/cluster``: the settings of the cluster."""

    check_port = Number(**filled("checkPort"), validate=_PORT)
    use_instance_port = NeededLenientFlag(**filled("useInstancePort4Check"))
    checker = JsonObject(**filled("healthChecker"))
    metadata = MetadataText(load_default=dict)


class HealthSchema(NeededServiceSchema):
    """PUT ``/health``."""

    ip = Needed(**filled("ip"))
    port = Number(**filled("port"))
    cluster = Trimmed(data_key="clusterName", load_default=DEFAULT_CLUSTER)
    healthy = Trimmed(load_default="")
    valid = Trimmed(load_default="")


class PushStateSchema(_Schema):
    """GET ``/operator/push/state``."""

    detail = Flag(load_default=False)
    reset = Flag(load_default=False)


class SwitchSchema(_Schema):
    """PUT ``/operator/switches``."""

    here_only = Flag(data_key="debug", load_default=False)
    entry = fields.String(**present("entry"))
    value = fields.String(**present("value"), validate=validate.Length(max=SWITCH_CHARS_MAX))


class SwitchBatchSchema(_Schema):
    """PUT ``/operator/switches`` with ``batch``: the switches in place of one switch's value."""

    value = JsonObject(
        required=True,
        error_messages=dict.fromkeys(("required", "invalid"), "it should be a JSON object of switches"),
    )


class ServersSchema(_Schema):
    """GET ``/operator/servers``."""

    healthy = Flag(load_default=False)


class DumpSchema(NamespaceSchema):
    """GET ``/operator/dump``; of all services without a name."""

    service = Trimmed(data_key="serviceName", load_default=None)


class HealSchema(NeededServiceSchema):
    """POST ``/operator/heal``."""

    source = Trimmed(load_default="")
    instances = InstanceKeys(load_default=())


class DistroStatusSchema(_Schema):
    """GET ``/operator/distro/status``."""

    action = fields.String(load_default="view")


class ServerStatusSchema(_Schema):
    """GET ``/operator/server/status``."""

    status = fields.String(**present("serverStatus"))


class LogLevelSchema(_Schema):
    """PUT ``/operator/log``, and the body of PUT ``/core/ops/log``."""

    name = fields.String(**present("logName"))
    level = fields.String(**present("logLevel"))


class LookupSchema(_Schema):
    """POST ``/core/cluster/switch/lookup``."""

    type = fields.String(**present("type"))


class ServiceListV2Schema(NamespaceSchema):
    """GET ``/v2/ns/service/list``."""

    group = Trimmed(data_key="groupName", load_default=DEFAULT_GROUP)
    page = IntOrZero(data_key="pageNo", load_default=1)
    size = IntOrZero(data_key="pageSize", load_default=20, validate=validate.Range(1, PAGE_V2_MAX))


class CatalogInstancesV2Schema(NeededServiceSchema):
    """GET ``/v2/ns/catalog/instances``."""

    page = IntOrZero(data_key="pageNo", load_default=1)
    size = IntOrZero(data_key="pageSize", load_default=100, validate=validate.Range(1, PAGE_V2_MAX))
    healthy_only = Flag(data_key="healthyOnly", load_default=False)
    enabled_only = Flag(data_key="enabledOnly", load_default=False)


class MetricsV2Schema(_Schema):
    """GET ``/v2/ns/operator/metrics``."""

    only_status = Flag(data_key="onlyStatus", load_default=True)


class ReloadClientSchema(_Schema):
    """GET ``/v2/core/loader/reloadClient``."""

    connection_id = Needed(**filled("connectionId"))
    redirect = AddressText(data_key="redirectAddress", load_default=None)


class ReloadCurrentSchema(_Schema):
    """GET ``/v2/core/loader/reloadCurrent``."""

    count = Number(**filled("count"))
    redirect = AddressText(data_key="redirectAddress", load_default=None)


class SmartReloadSchema(_Schema):
    """GET ``/v2/core/loader/smartReloadCluster``."""

    factor = LoadFactor(data_key="loaderFactor", load_default=LOAD_FACTOR)


class NamespaceQuerySchema(_Schema):
    """GET ``/console/namespaces``, in its three shapes."""

    show = fields.String(load_default="")
    check_exists = fields.String(data_key="checkNamespaceIdExist", load_default="")
    namespace = fields.String(data_key="namespaceId", load_default="")
    custom = Trimmed(data_key="customNamespaceId", load_default="")


class NamespaceCreateSchema(_Schema):
    """POST ``/console/namespaces``."""

    id = fields.String(**present("customNamespaceId"))
    name = fields.String(**present("namespaceName"))
    description = fields.String(data_key="namespaceDesc", load_default="")


class NamespaceUpdateSchema(_Schema):
    """PUT ``/console/namespaces``."""

    id = fields.String(**present("namespace"))
    name = fields.String(**present("namespaceShowName"))
    description = fields.String(data_key="namespaceDesc", load_default="")


class NamespaceRemoveSchema(_Schema):
    """DELETE ``/console/namespaces``."""

    id = fields.String(**present("namespaceId"))


class SourceSchema(_Schema):
    """PUT ``/distro/checksum``: the member that sends it."""

    source = fields.String(**present("source"))


class KeysSchema(_Schema):
    """The body of GET ``/distro/datum``."""

    keys = fields.String(**filled("keys"))
    listed = fields.List(fields.String())


class MemberSchema(Schema):
    """The body of POST ``/core/cluster/report``; unknown fields are kept. Source: Nacos 1.4.1 Member.check."""

    class Meta:
        unknown = INCLUDE

    ip = fields.String(required=True, validate=validate.Length(1, 255))
    port = fields.Integer(required=True, strict=True, validate=_PORT)
    address = fields.String(allow_none=True)
    state = fields.String(allow_none=True)
    extend_info = fields.Dict(data_key="extendInfo", keys=fields.String(), allow_none=True)
