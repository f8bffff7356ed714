"""Metadata of many instances of one service in one call."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from app.auth.access_rules import WRITE, naming
from app.http.api.answers import durable_elsewhere, json_reply
from app.http.api.call import DECLINE, Answer, Call, Reply, Services, route
from app.http.input import json_text
from app.http.input.hot_params import MetadataBatch, quick_batch
from app.http.input.params import Parameters
from app.http.input.schemas import MetadataBatchSchema, load_parameters
from app.http.input.values import java_int
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import UPDATED
from app.naming.model.flags import lenient_bool
from app.naming.model.instance_check import check_metadata_size
from app.naming.model.keys import DEFAULT_CLUSTER
from app.naming.model.model import Instance, instance_bytes
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.record_keys import persistent_key
from app.naming.registry.operations import ChangeMetadata, changed_metadata
from app.naming.wire.service_info import QUICK_HOSTS_MAX

EPHEMERAL, PERSIST = "ephemeral", "persist"
_BATCH = MetadataBatchSchema()
LOOP_TARGETS_MAX = 32
"""Instances that the event loop changes for one call: more take longer than others may be kept waiting."""
LOOP_CHARS_MAX = 8_192
"""The most characters of the array that names the instances, for a call on the event loop."""
PATHS = ("/v1/ns/instance/metadata/batch", "/v1/ns/api/metadata/batch")


@route("PUT", *PATHS, access=naming(WRITE), hot=True, described=Described(UPDATED, takes=(MetadataBatchSchema,)))
def put_metadata(call: Call, services: Services) -> Answer:
    """Set metadata keys of instances; their other keys stay. Shape: updated, as ``ip:port:unknown:cluster:kind``."""
    return _change(call, services, removes=False)


@route("DELETE", *PATHS, access=naming(WRITE), hot=True, described=Described(UPDATED, takes=(MetadataBatchSchema,)))
def remove_metadata(call: Call, services: Services) -> Answer:
    """Take metadata keys out of instances, whatever the values. Shape: updated, as ``ip:port:unknown:cluster:kind``."""
    return _change(call, services, removes=True)


def _change(call: Call, services: Services, *, removes: bool) -> Answer:
    """Change the instances that are found; an unknown kind, or an array that cannot be read, is no error.

    Source: Nacos 1.4.1 InstanceController.batchUpdateInstanceMetadata, ServiceManager.updateMetadata.
    """
    asked = call.parse(parse_batch)
    namespace, service, metadata = asked.namespace, asked.service, asked.metadata
    if call.on_loop and _takes_long(services, asked):
        return DECLINE
    targets = _targets(services, asked)
    persistent = [one.key for one in targets if not one.ephemeral]
    if persistent and (
        other := durable_elsewhere(
            call, services, *(persistent_key(namespace, service, instance_key) for instance_key in persistent)
        )
    ):
        return other
    if (len(persistent) < len(targets) or not targets) and (other := services.writes.elsewhere(service, call)):
        return other
    if metadata is None or not targets:
        return _updated([])
    change = ChangeMetadata(remove=frozenset(metadata)) if removes else ChangeMetadata(put=metadata)
    grown = 0
    for one in targets:
        changed = changed_metadata(one.metadata, change)
        check_metadata_size(changed)
        grown += instance_bytes(replace(one, metadata=changed)) - instance_bytes(one)
    services.naming.check_metadata(namespace, service, grown)
    if persistent:
        services.durable.set_metadata(namespace, service, persistent, change)
    for one in targets:
        if one.ephemeral:
            services.naming.set_metadata(namespace, service, one.key, change)
    return _updated(targets)


def _updated(instances: Iterable[Instance]) -> Reply:
    return json_reply({"updated": [f"{one.key}:{EPHEMERAL if one.ephemeral else PERSIST}" for one in instances]})


def parse_batch(parameters: Parameters) -> MetadataBatch:
    """The command of a change of several instances' metadata.

    Raises:
        InvalidParam: the text names the parameter.
    """
    if parameters.plain is not None and (quick := quick_batch(parameters.plain)) is not None:
        return quick
    return MetadataBatch(**load_parameters(_BATCH, parameters))


def _takes_long(services: Services, asked: MetadataBatch) -> bool:
    """Return whether a call takes too long for the event loop: it searches many instances, or may change many."""
    count = services.naming.instance_count(asked.namespace, asked.service)
    if asked.kind:
        return count > LOOP_TARGETS_MAX
    text = asked.instances
    return count > QUICK_HOSTS_MAX or len(text) > LOOP_CHARS_MAX or text.count("{") > LOOP_TARGETS_MAX


def _targets(services: Services, asked: MetadataBatch) -> list[Instance]:
    """The instances of a kind, or without a kind those that the JSON array ``instances`` names."""
    wanted = [] if asked.kind else _parse_instances(asked.instances)
    quick = [_quick_target(services, asked, name) for name in wanted]
    if wanted and None not in quick:
        return [one for one in quick if one is not None]
    view = services.naming.service_view(asked.namespace, asked.service)
    if view is None:
        return []
    match asked.kind:
        case "ephemeral" | "persist":
            return [one for one in view.instances if one.ephemeral is (asked.kind == EPHEMERAL)]
        case "":
            found = (next((one for one in view.instances if name.is_name_of(one)), None) for name in wanted)
            return [one for one in found if one is not None]
        case _:
            return []


def _quick_target(services: Services, asked: MetadataBatch, name: "_Name") -> Instance | None:
    """The instance of a name without a view of all, which each change would make anew; None where that must tell."""
    find = services.naming.quick_detail
    if find(asked.namespace, asked.service, name.ip, 0, name.cluster) is not None:
        return None  # it answers to the name, too
    found = find(asked.namespace, asked.service, name.ip, name.port, name.cluster)
    return found if found is not None and name.is_name_of(found) else None


@dataclass(frozen=True, slots=True)
class _Name:
    ip: str
    port: int
    cluster: str
    ephemeral: bool

    def is_name_of(self, one: Instance) -> bool:
        # An instance without a port answers to any. Source: Nacos 1.4.1 Instance.equals.
        fits = one.ip == self.ip and one.port in (self.port, 0)
        return fits and one.cluster_name == self.cluster and one.ephemeral is self.ephemeral


def _parse_instances(text: str) -> list[_Name]:
    """The instances that a JSON array names; none when one of them cannot be read, as in Nacos.

    Raises:
        InvalidParam: it names too many.
    """
    json_text.check_values("instances", text)
    try:
        listed = json_text.loads(text)
        return [_parse_instance(fields) for fields in listed] if isinstance(listed, list) else []
    except (ValueError, InvalidParam):
        return []


def _parse_instance(fields: Any) -> _Name:
    """The name of an instance that an entry of the JSON array gives.

    Raises:
        ValueError, InvalidParam: no object, or a field that Java could not read.
    """
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    ip, port, cluster = fields.get("ip"), fields.get("port"), fields.get("clusterName")
    ephemeral = fields.get("ephemeral", True)
    return _Name(
        ip=ip if isinstance(ip, str) else "",
        port=0 if port is None else java_int(str(port)),
        cluster=cluster if isinstance(cluster, str) and cluster.strip() else DEFAULT_CLUSTER,
        ephemeral=lenient_bool(ephemeral) if isinstance(ephemeral, str) else bool(ephemeral),
    )
