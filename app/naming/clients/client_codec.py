"""The JSON of a client's publications between members: that of Nacos 2.x, with additional fields for Rollcall members.

Shape: ``{"clientId", "attributes": {"clientAttributes": {"revision": int}}, "namespaces": [..], "groupNames": [..],
"serviceNames": [..], "instancePublishInfos": [..], "batchInstanceData": {}}``, the lists parallel. Services that were
registered as a batch are in ``batchInstanceData``, in parallel lists too, the last of them
``batchInstancePublishInfos``; it is empty without them. Source: Nacos 2.2.3 ClientSyncData.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from app.naming.clients.client_model import (
    RECENT_MAX,
    RESERVED_METADATA,
    RESERVED_NAMES,
    REVISION_MAX,
    WITHDRAWALS_SENT_MAX,
    ClientBounds,
    ClientState,
    ServiceKey,
    is_client_id,
    is_persistent_id,
)
from app.naming.model.json_fields import Fields, exact_json, member_object, parse_json
from app.naming.model.keys import (
    DEFAULT_CLUSTER,
    DEFAULT_NAMESPACE,
    GROUP_SPLITTER,
    INSTANCE_ID_CHARS_MAX,
    WALL_MS_END,
    check_instance,
    check_service_format,
    simple_instance_id,
)
from app.naming.model.model import Instance, Metadata, Publication, kept_id
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import clamp_weight
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, WRITER_CHARS_MAX, Version

CUSTOM_ID, WEIGHT, ENABLED = RESERVED_METADATA
REVISION_MIN = -REVISION_MAX - 1
BOUNDS = ClientBounds()


# --- to a peer ----------------------------------------------------------------------------------


def encode_client(state: ClientState) -> bytes:
    """Return the client's sync data. It is made instance by instance: one call for many would hold up all threads."""
    single, batches = _parts(state.publications)
    head = {"clientId": state.client_id, "attributes": {"clientAttributes": {"revision": state.revision}}}
    batch_infos = b",".join([_batch_info(part) for _, part in batches])
    batch_data = b"{%b,%b" % (_names(batches), b'"batchInstancePublishInfos":[%b]}' % batch_infos) if batches else b"{}"
    return b'%b,%b,"instancePublishInfos":[%b],"batchInstanceData":%b}' % (
        orjson.dumps(head)[:-1],
        _names(single),
        b",".join([_infos(part) for _, part in single]),
        batch_data,
    )


def own_fields(state: ClientState) -> dict[str, Any]:
    """Return our own fields of the same services, in the same order, single instances before batches.

    Shape: ``{"at": [wall ms ...], "seen": [version text, or "" ...]}``. A client that is expected elsewhere also has
    ``"ended"``: the run that it came from. One with recent withdrawals also has ``"withdrawn"``: ``[[namespace,
    service, wall ms of the publication, [instance key ...]] ...]``. A delta (R5) also has ``"gone"``, if any:
    ``[[namespace, service] ...]`` that the client withdrew.
    """
    parts = [one for part in _parts(state.publications) for _, one in part]
    seen = ["" if one.seen == NO_VERSION else one.seen.to_text() for one in parts]
    fields: dict[str, Any] = {"at": [one.at_ms for one in parts], "seen": seen}
    if state.ended_from:
        fields["ended"] = state.ended_from
    if state.withdrawn:
        fields["withdrawn"] = [[*key, at_ms, sorted(keys)] for key, (keys, at_ms) in state.withdrawn.items()]
    if state.gone:
        fields["gone"] = sorted(state.gone)
    return fields


def _parts(
    publications: Mapping[ServiceKey, Publication],
) -> tuple[list[tuple[ServiceKey, Publication]], list[tuple[ServiceKey, Publication]]]:
    items = list(publications.items())
    return [one for one in items if not one[1].batch], [one for one in items if one[1].batch]


def _names(part: list[tuple[ServiceKey, Publication]]) -> bytes:
    full_names = [full_name.partition(GROUP_SPLITTER) for (_, full_name), _ in part]
    fields = {
        "namespaces": [namespace for (namespace, _), _ in part],
        "groupNames": [group for group, _, _ in full_names],
        "serviceNames": [name for _, _, name in full_names],
    }
    return orjson.dumps(fields)[1:-1]


def _infos(part: Publication) -> bytes:
    return b",".join([exact_json(_info(one)) for one in part.instances.values()])


def _info(one: Instance) -> dict[str, Any]:
    data: dict[str, Any] = dict(one.metadata or {})
    if one.instance_id:
        data[CUSTOM_ID] = one.instance_id
    if one.weight != 1.0:
        data[WEIGHT] = float(one.weight)  # Java reads no whole number there
    if not one.enabled:
        data[ENABLED] = False
    return {
        "ip": one.ip,
        "port": one.port,
        "healthy": one.healthy,
        "cluster": one.cluster_name,
        "extendDatum": data,
        "metadataId": f"{one.ip}:{one.port}:{one.cluster_name}",
    }


def _batch_info(part: Publication) -> bytes:
    # The fields that Java writes for an entry without a separate address.
    head = {"port": 0, "healthy": False, "extendDatum": {}, "metadataId": "null:0:null"}
    return b'%b,"instancePublishInfos":[%b]}' % (orjson.dumps(head)[:-1], _infos(part))


def encode_snapshot(states: Iterable[ClientState]) -> bytes:
    """Return all clients. Shape: ``{"clientSyncDataList": [client ...]}``.

    The list may be empty, and is never missing.
    """
    return b'{"clientSyncDataList":[%b]}' % b",".join(map(encode_client, states))


def encode_verify(client_id: str, revision: int) -> bytes:
    """Return the content of a verify call about one client. Shape: ``{"clientId", "revision"}``."""
    return orjson.dumps({"clientId": client_id, "revision": revision})


# --- from a peer --------------------------------------------------------------------------------


def decode_client(fields: object, own: object = None, seen_ms: int = 0) -> ClientState:
    """Return the state in a client's sync data. ``own``: the sender's ``own_fields``.

    ``seen_ms``: wall clock, for publications of a peer that does not date them.

    Raises:
        CodecError: a field is missing, of another type or not allowed; the text names it.
    """
    body = member_object(fields, "the client's data")
    client_id = check_client_id(body.value("clientId"))
    times = None if own is None else member_object(own, "the own part of the client's data")
    single = _services(body)
    has_batches = body.value("batchInstanceData") not in (None, {})
    batch_body = body.inner("batchInstanceData") if has_batches else None
    batches = _services(batch_body) if batch_body else []
    infos = body.parallel("instancePublishInfos", len(single))
    batch_infos = batch_body.parallel("batchInstancePublishInfos", len(batches)) if batch_body else []
    dates = _dates(times, len(single) + len(batches), seen_ms)
    publications: dict[ServiceKey, Publication] = {}
    count = 0
    entries = [
        *[(key, _batch_of(info, key), True) for key, info in zip(batches, batch_infos, strict=True)],
        *[(key, _single_of(info, key), False) for key, info in zip(single, infos, strict=True)],
    ]
    for (key, instances, batch), (at_ms, seen) in zip(
        entries, dates[len(single) :] + dates[: len(single)], strict=True
    ):
        count += len(instances)
        if count > BOUNDS.instances_per_client_max:
            raise CodecError(f"a client publishes at most {BOUNDS.instances_per_client_max} instances")
        publications[key] = Publication(instances, batch, at_ms, seen)  # the single one counts, as in Java
    revision = _revision(body.inner("attributes").inner("clientAttributes"))
    gone = _gone(times)
    if not gone.isdisjoint(publications):
        raise CodecError("field 'gone' of a client names a service that it publishes")
    dated = own is not None
    return ClientState(client_id, revision, publications, dated, _ended_from(times), _withdrawn(times), gone)


def _ended_from(own: Fields | None) -> str:
    run = "" if own is None else own.value("ended") or ""
    if not isinstance(run, str) or len(run) > WRITER_CHARS_MAX:
        raise CodecError("field 'ended' of a client is not the run that it came from")
    return run


def _withdrawn(own: Fields | None) -> dict[ServiceKey, tuple[frozenset[str], int]]:
    entries = [] if own is None else own.value("withdrawn") or []
    if not isinstance(entries, list) or len(entries) > WITHDRAWALS_SENT_MAX:
        raise CodecError(f"field 'withdrawn' of a client must be a list of at most {WITHDRAWALS_SENT_MAX} services")
    found: dict[ServiceKey, tuple[frozenset[str], int]] = {}
    for entry in entries:
        match entry:
            case [str(namespace), str(service), int(at_ms), list(keys)] if (
                type(at_ms) is int and 0 <= at_ms < WALL_MS_END
            ):
                if len(keys) <= BOUNDS.instances_per_batch_max and all(isinstance(one, str) for one in keys):
                    found[namespace, service] = (frozenset(keys), at_ms)
                    continue
        raise CodecError("an entry of field 'withdrawn' of a client is not a withdrawal from a service")
    return found


def _gone(own: Fields | None) -> frozenset[ServiceKey]:
    entries = [] if own is None else own.value("gone") or []
    if not isinstance(entries, list) or len(entries) > 2 * RECENT_MAX:
        raise CodecError(f"field 'gone' of a client must be a list of at most {2 * RECENT_MAX} services")
    found = set[ServiceKey]()
    for entry in entries:
        match entry:
            case [str(namespace), str(service)]:
                found.add((namespace, service))
            case _:
                raise CodecError("an entry of field 'gone' of a client must be a namespace with a service")
    return frozenset(found)


def check_client_id(value: object) -> str:
    """Check a client's id from a member.

    Raises:
        CodecError: no printable text, too long, or that of a persistent client, which no member sends.
    """
    if not isinstance(value, str) or not is_client_id(value):
        raise CodecError("field 'clientId' is not the id of a client")
    if is_persistent_id(value):
        raise CodecError(f"field 'clientId' is that of a persistent client: {value[:200]!r}")
    return value


def decode_snapshot(body: bytes, seen_ms: int = 0) -> tuple[list[ClientState], list[str]]:
    """Return all clients of a snapshot, and why some cannot be read: a bad one fails alone.

    Raises:
        CodecError: it is not a snapshot.
    """
    found = member_object(parse_json(body, "the content"), "the snapshot", " of the snapshot").array(
        "clientSyncDataList"
    )
    if len(found) > BOUNDS.clients_max:
        raise CodecError(f"field 'clientSyncDataList' holds over {BOUNDS.clients_max} clients")
    states, failed = list[ClientState](), list[str]()
    for one in found:
        try:
            states.append(decode_client(one, None, seen_ms))
        except CodecError as error:
            failed.append(str(error))
    return states, failed


def decode_verify(body: bytes) -> tuple[str, int]:
    """Return the client id and the revision of a verify call; revision 0 from members that keep none.

    Raises:
        CodecError: names the field.
    """
    fields = member_object(parse_json(body, "the content"), "the verify data")
    return check_client_id(fields.value("clientId")), _revision(fields)


def _revision(fields: Fields) -> int:
    return fields.whole("revision", 0, REVISION_MIN, REVISION_MAX)


def _services(body: Fields) -> list[ServiceKey]:
    names = body.array("serviceNames")
    if len(names) > BOUNDS.services_per_client_max:
        raise CodecError(f"field 'serviceNames' names over {BOUNDS.services_per_client_max} services")
    namespaces = body.parallel("namespaces", len(names))
    groups = body.parallel("groupNames", len(names))
    keys: list[ServiceKey] = []
    for namespace, group, name in zip(namespaces, groups, names, strict=True):
        for text, field in ((namespace, "namespaces"), (group, "groupNames"), (name, "serviceNames")):
            if not isinstance(text, str):
                raise CodecError(f"field '{field}' has an entry that is not text")
        keys.append((namespace or DEFAULT_NAMESPACE, f"{group}{GROUP_SPLITTER}{name}"))
    return keys


def _dates(times: Fields | None, count: int, seen_ms: int) -> list[tuple[int, Version]]:
    if times is None:
        return [(seen_ms, NO_VERSION)] * count
    at, seen = times.parallel("at", count), times.parallel("seen", count)
    if not all(type(one) is int and 0 <= one < WALL_MS_END for one in at):
        raise CodecError("field 'at' has an entry that is not a time")
    return [
        (at_ms, NO_VERSION if text == "" else Version.from_text(text)) for at_ms, text in zip(at, seen, strict=True)
    ]


def _single_of(info: object, key: ServiceKey) -> dict[str, Instance]:
    one = _instance(info, key)
    return {one.key: one}


def _batch_of(info: object, key: ServiceKey) -> dict[str, Instance]:
    infos = member_object(info, "an entry of field 'batchInstancePublishInfos'").array("instancePublishInfos")
    if len(infos) > BOUNDS.instances_per_batch_max:
        raise CodecError(f"a batch has at most {BOUNDS.instances_per_batch_max} instances")
    instances = [_instance(one, key) for one in infos]
    return {one.key: one for one in instances}


def _instance(info: object, key: ServiceKey) -> Instance:
    # Not through Fields, whose calls would make decoding a batch of 10,000 instances an eighth slower.
    if not isinstance(info, dict):
        raise CodecError("an entry of field 'instancePublishInfos' is not an object")
    ip, port, healthy, data = info.get("ip"), info.get("port"), info.get("healthy"), info.get("extendDatum")
    if not isinstance(ip, str):
        raise CodecError("field 'ip' of an instance is not text")
    if type(port) is not int:
        raise CodecError("field 'port' of an instance is not a number")
    if not isinstance(healthy, bool):
        raise CodecError("field 'healthy' of an instance is neither true nor false")
    cluster = info.get("cluster")
    if cluster is not None and not isinstance(cluster, str):
        raise CodecError("field 'cluster' of an instance is not text")
    cluster = cluster if cluster and cluster.strip() else DEFAULT_CLUSTER
    if not isinstance(data, dict):
        raise CodecError("field 'extendDatum' of an instance is not an object")
    weight, enabled = data.get(WEIGHT, 1.0), data.get(ENABLED, True)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise CodecError(f"field '{WEIGHT}' of an instance is not a number")
    if not isinstance(enabled, bool):
        raise CodecError(f"field '{ENABLED}' of an instance is neither true nor false")
    custom_id = data.get(CUSTOM_ID)
    if custom_id is not None and (not isinstance(custom_id, str) or len(custom_id) > INSTANCE_ID_CHARS_MAX):
        raise CodecError(f"field '{CUSTOM_ID}' of an instance is not text, or is too long")
    metadata: Metadata = {
        name: value if type(value) is str else _text(value)
        for name, value in data.items()
        if name not in RESERVED_NAMES and value is not None
    }
    one = Instance(
        ip=ip,
        port=port,
        cluster_name=cluster,
        service_name=key[1],
        weight=clamp_weight(float(weight)),
        healthy=healthy,
        enabled=enabled,
        metadata=metadata,
        app="DEFAULT",
        instance_id=custom_id or simple_instance_id(ip, port, cluster, key[1]),
    )
    try:
        check_service_format(key[1])
        check_instance(one, kept_id(one), key[0], key[1])
    except InvalidParam as error:
        raise CodecError(error.text) from error
    return one


def _text(value: Any) -> str:
    """Return a value of ``extendDatum`` that is not text, as Java would print it if it is one word."""
    return orjson.dumps(value).decode()
