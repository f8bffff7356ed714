"""Metadata of many instances of one service in one call."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.auth.access_rules import WRITE, naming
from app.commands.metadata_batch import EPHEMERAL, LOOP_TARGETS_MAX, PERSIST
from app.commands.outcomes import Changed
from app.commands.record_commands import InstanceName, UpdateMetadata
from app.http.api.answers import json_reply
from app.http.api.call import DECLINE, Answer, Call, Services, rendered, route
from app.http.input import json_text
from app.http.input.fields import FILLED, NeededMetadata, Trimmed
from app.http.input.forms import NAMESPACE_ID, Parameters
from app.http.input.instance_schemas import METADATA_TEXT
from app.http.input.params import KEPT_CHARS_MAX, hot_metadata, hot_service
from app.http.input.schemas import NeededServiceSchema, load_parameters
from app.http.input.values import java_int
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import UPDATED
from app.naming.model.json_fields import lenient_bool
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, Metadata
from app.naming.model.nacos_errors import InvalidParam

LOOP_CHARS_MAX = 8_192
"""The most characters of the array that names the instances, for a call on the event loop."""
PATHS = ("/v1/ns/instance/metadata/batch", "/v1/ns/api/metadata/batch")


_KIND = Trimmed("consistencyType", "All instances of one kind: `ephemeral` or `persist`.", "")
_INSTANCES = Trimmed("instances", "A JSON array of instances, each with ip, port, clusterName and ephemeral.", "")
_METADATA = NeededMetadata("metadata", METADATA_TEXT, needs=FILLED)


class MetadataBatchSchema(NeededServiceSchema):
    kind, instances, metadata = _KIND, _INSTANCES, _METADATA


class MetadataBatch(NamedTuple):
    """Keys of the metadata of several instances of a service, to be set or removed."""

    namespace: str
    service: str
    kind: str
    """``ephemeral`` or ``persist``: all instances of a kind; empty for those that ``instances`` names."""
    instances: str
    metadata: Metadata | None


def hot_batch(values: Mapping[str, str]) -> MetadataBatch | None:
    """The command of a change of metadata; None for values that the general parser must read."""
    get = values.get
    service, text = hot_service(get), get(_METADATA.key) or ""
    if service is None or not text or len(text) > KEPT_CHARS_MAX:
        return None
    metadata = hot_metadata(text)
    if metadata is None:
        return None
    namespace = get(NAMESPACE_ID) or DEFAULT_NAMESPACE
    return MetadataBatch(namespace, service, get(_KIND.key) or "", get(_INSTANCES.key) or "", metadata)


@route("PUT", *PATHS, access=naming(WRITE), hot=True, described=Described(UPDATED, takes=(MetadataBatchSchema,)))
def put_metadata(call: Call, services: Services) -> Answer:
    """Set metadata keys of instances; their other keys stay. Shape: updated, as ``ip:port:unknown:cluster:kind``."""
    return answer_batch(call, services, removes=False)


@route("DELETE", *PATHS, access=naming(WRITE), hot=True, described=Described(UPDATED, takes=(MetadataBatchSchema,)))
def remove_metadata(call: Call, services: Services) -> Answer:
    """Take metadata keys out of instances, with any values. Shape: updated, as ``ip:port:unknown:cluster:kind``."""
    return answer_batch(call, services, removes=True)


def answer_batch(call: Call, services: Services, *, removes: bool, beside: bool = False) -> Answer:
    """Change the instances that are found; an unknown kind, or an array that cannot be read, is ignored.

    ``beside``: change the metadata that operators set apart from them; an array that cannot be read is then refused, as
    it would mean all instances. Source: Nacos 1.4.1 InstanceController.batchUpdateInstanceMetadata,
    ServiceManager.updateMetadata.

    Raises:
        InvalidParam: the text names the parameter.
    """
    asked = call.parse(parse_batch)
    text = asked.instances
    if call.on_loop and not asked.kind and (len(text) > LOOP_CHARS_MAX or text.count("{") > LOOP_TARGETS_MAX):
        return DECLINE
    names = parse_instances(text) if beside or not asked.kind else ()
    if beside and text and not names:
        raise InvalidParam("Param 'instances' is illegal, it should be a JSON array of instances")
    command = UpdateMetadata(asked.namespace, asked.service, asked.kind, names, asked.metadata, removes, beside)
    outcome = services.writes.execute(command, call)
    if not isinstance(outcome, Changed):
        return rendered(outcome)
    listed = outcome.instances
    return json_reply({"updated": [f"{one.key}:{EPHEMERAL if one.ephemeral else PERSIST}" for one in listed]})


def parse_batch(parameters: Parameters) -> MetadataBatch:
    """The command of a change of several instances' metadata.

    Raises:
        InvalidParam: the text names the parameter.
    """
    if parameters.plain is not None and (hot := hot_batch(parameters.plain)) is not None:
        return hot
    return MetadataBatch(**load_parameters(MetadataBatchSchema, parameters))


def parse_instances(text: str) -> tuple[InstanceName, ...]:
    """The instances that a JSON array names; none when one of them cannot be read, as in Nacos.

    Raises:
        InvalidParam: it names too many.
    """
    json_text.check_values("instances", text)
    try:
        listed = json_text.loads(text)
        return tuple(map(_parse_instance, listed)) if isinstance(listed, list) else ()
    except (ValueError, InvalidParam):
        return ()


def _parse_instance(fields: Any) -> InstanceName:
    """The name of an instance that an entry of the JSON array gives.

    Raises:
        ValueError, InvalidParam: no object, or a field that Java could not read.
    """
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    ip, port, cluster = fields.get("ip"), fields.get("port"), fields.get("clusterName")
    ephemeral = fields.get("ephemeral", True)
    return InstanceName(
        ip=ip if isinstance(ip, str) else "",
        port=0 if port is None else java_int(str(port)),
        cluster=cluster if isinstance(cluster, str) and cluster.strip() else DEFAULT_CLUSTER,
        ephemeral=lenient_bool(ephemeral) if isinstance(ephemeral, str) else bool(ephemeral),
    )
