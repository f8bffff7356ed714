"""Calls to real Nacos and other servers with its API: their members, namespaces, services and instances."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_GROUP, DEFAULT_NAMESPACE, GROUP_SPLITTER, short_name_of
from app.rows.rows import ClientKind, instance_row
from app.tools.audit.client.http_client import CallError, MemberClient, Refused, Unusable
from app.tools.audit.format.manifest import Seen

SERVICES_PAGE = 10_000
"""The services of one page, some 150 bytes each: hardly ever more than one page, and so of one moment."""
INSTANCES_PAGE = 10_000
PAGES_MAX = 10_000
NAME_PASSES = 2
_NO_SUCH_CALL = {404, 405, 501}
DELETE_TIMEOUT = "preserved.ip.delete.timeout"


@dataclass(frozen=True, slots=True)
class Nodes:
    """The members that a member lists, and its own address and release; empty where the member does not give them."""

    members: tuple[Seen, ...] = ()
    address: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """An instance as an answer shows it. ``ephemeral`` is unset where the answer does not name the kind."""

    cluster: str
    ip: str
    port: int
    healthy: bool
    enabled: bool
    weight: float
    metadata: Mapping[str, str | None]
    ephemeral: bool | None = None
    delete_timeout_ms: int | None = None
    last_beat_ms: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.cluster, self.ip, self.port

    @property
    def values(self) -> tuple[float, bool, Mapping[str, str | None]]:
        """The values that a registration sets: without the health, which a member determines."""
        return self.weight, self.enabled, self.metadata


ShownService = dict[str, list[Found]]
"""A service as clients see it: its instances by cluster."""


# --- members -------------------------------------------------------------------------------------


def read_nodes(client: MemberClient) -> Nodes:
    """Return the member list of a member, and its own address and release.

    Raises:
        CallError: no answer. A call that the member refuses leaves its part empty.
    """
    listed = [one for one in _listed_nodes(client) if isinstance(one, dict) and one.get("address")]
    members = tuple(Seen(str(one["address"]), str(one.get("state", ""))) for one in listed)
    own = next((one for one in listed if one["address"] == client.address), None)
    if own is None:
        own = _data(client, "/v1/core/cluster/self")
    if not isinstance(own, dict):
        own = {}
    address = str(own.get("address") or "")
    version = _version(own) or next((_version(one) for one in listed if one["address"] == address), "")
    if not version:
        state = asked(client, "/v1/console/server/state")
        version = str(state.get("version") or "") if isinstance(state, dict) else ""
    return Nodes(members, address, version)


def _listed_nodes(client: MemberClient) -> list[Any]:
    for path, name in (("/v1/core/cluster/nodes", "data"), ("/v1/ns/operator/servers", "servers")):
        answer = asked(client, path)
        listed = answer.get(name) if isinstance(answer, dict) else None
        if isinstance(listed, list):
            return listed
    return []


def _data(client: MemberClient, path: str) -> Any:
    answer = asked(client, path)
    return answer.get("data") if isinstance(answer, dict) else None


def _version(node: Mapping[str, Any]) -> str:
    info = node.get("extendInfo")
    return str(info.get("version") or "") if isinstance(info, dict) else ""


def asked(client: MemberClient, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
    """Return the JSON of an answer; None if the member refuses the call or its answer is not JSON."""
    try:
        answer = client.get(path, parameters)
    except Refused as error:
        if error.passing:
            raise
        return None
    try:
        return answer.json()
    except CallError:
        return None


# --- catalog -------------------------------------------------------------------------------------


def listed_namespaces(client: MemberClient) -> list[dict[str, Any]]:
    """Return the namespaces that a member lists, as it shows them; none if it refuses the call."""
    listed = _data(client, "/v1/console/namespaces")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def namespace_ids(listed: Iterable[Mapping[str, Any]], wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the public namespace, of those ``wanted``, and of those that the member lists, each once."""
    # The public one is listed without an id.
    names = [str(one["namespace"]) if one.get("namespace") else DEFAULT_NAMESPACE for one in listed]
    return tuple(dict.fromkeys([DEFAULT_NAMESPACE, *wanted, *names]))


def read_names(client: MemberClient, namespace: str) -> tuple[str, ...]:
    """Return the full names of a namespace's services, sorted.

    Raises:
        CallError: no answer, or one of another shape.
    """
    found: dict[str, None] = {}
    for _ in range(NAME_PASSES):
        count = 0
        for page in range(1, PAGES_MAX):
            parameters: dict[str, str | int] = {"namespaceId": namespace, "pageNo": page, "pageSize": SERVICES_PAGE}
            answer = client.get("/v1/ns/catalog/services", parameters).json()
            listed = answer.get("serviceList") if isinstance(answer, dict) else None
            if not isinstance(listed, list):
                raise CallError("/v1/ns/catalog/services: the answer has no serviceList")
            count = max(count, _whole(answer.get("count")) or 0)
            found.update(dict.fromkeys(_full_name(one) for one in listed))
            if not listed or len(found) >= count:
                break
        # Services that came or went between two pages moved others past them: then once more.
        if len(found) >= count:
            break
    return tuple(sorted(found))


def _full_name(listed: Any) -> str:
    name = listed.get("name") if isinstance(listed, dict) else None
    if not isinstance(name, str) or not name:
        raise CallError("/v1/ns/catalog/services: a service has no name")
    return name if GROUP_SPLITTER in name else f"{listed.get('groupName') or DEFAULT_GROUP}{GROUP_SPLITTER}{name}"


def read_shown(client: MemberClient, namespace: str, names: Iterable[str]) -> dict[str, ShownService]:
    """Return the services that the member gives in one answer, with their clusters and instances, by full name.

    Shape of the answer: serviceName, groupName, clusterMap {name: {hosts}}; health is ``valid``, and the kind of an
    instance, ephemeral or not, is missing. Source: Nacos 1.4.1 CatalogController.listDetail.
    """
    wanted = set(names)
    if not wanted:
        return {}
    # As many as there are, and some that come later: then all come, whatever the page, which is counted from 0
    # by some and from 1 by others.
    parameters: dict[str, str | int] = {"namespaceId": namespace, "withInstances": "true"}
    parameters |= {"pageNo": 1, "pageSize": len(wanted) + 1_000}
    answer = asked(client, "/v1/ns/catalog/services", parameters)
    shown: dict[str, ShownService] = {}
    for one in answer if isinstance(answer, list) else []:
        clusters = one.get("clusterMap") if isinstance(one, dict) else None
        if not isinstance(clusters, dict):
            continue
        name = f"{one.get('groupName') or DEFAULT_GROUP}{GROUP_SPLITTER}{short_name_of(str(one.get('serviceName')))}"
        if name in wanted:
            shown[name] = {cluster: list(_hosts(cluster, value)) for cluster, value in clusters.items()}
    return shown


def _hosts(cluster: str, value: Any) -> Iterator[Found]:
    hosts = value.get("hosts") if isinstance(value, dict) else None
    for one in hosts if isinstance(hosts, list) else []:
        host = _object(one, "/v1/ns/catalog/services")
        yield read_instance({"healthy": host.get("valid"), **host, "clusterName": cluster}, ephemeral=None)


def read_service(client: MemberClient, namespace: str, name: str, clusters: Iterable[str] = ()) -> ShownService | None:
    """Return a service with every instance of its clusters; None if the service does not exist (any more).

    ``clusters``: their names; the member is asked for them if none is given.

    Raises:
        CallError: no answer, or one of another shape.
    """
    names = list(clusters)
    if not names:
        try:
            known = _cluster_names(client, namespace, name)
        except Refused as error:
            if error.status not in _NO_SUCH_CALL:
                raise
            return _read_without_clusters(client, namespace, name)
        if known is None:
            return None
        names = known
    found: ShownService = {}
    for cluster in names:
        if (instances := _cluster_instances(client, namespace, name, cluster)) is not None:
            found[cluster] = instances
    return found


def _read_without_clusters(client: MemberClient, namespace: str, name: str) -> ShownService:
    """Return a service of a member that names no clusters, and gives all instances for any cluster.

    Source: r-nacos 0.8.8.
    """
    found: ShownService = {}
    for one in _cluster_instances(client, namespace, name, DEFAULT_CLUSTER) or []:
        found.setdefault(one.cluster, []).append(one)
    return found


def _cluster_names(client: MemberClient, namespace: str, name: str) -> list[str] | None:
    path = "/v1/ns/catalog/service"
    answer = _unless_unknown(client, path, service_parameters(namespace, name))
    if answer is None:
        return None
    clusters = answer.get("clusters") if isinstance(answer, dict) else None
    if not isinstance(clusters, list):
        raise CallError(f"{path}: the answer has no clusters")
    return [str(one["name"]) for one in clusters if isinstance(one, dict) and one.get("name")]


def _cluster_instances(client: MemberClient, namespace: str, name: str, cluster: str) -> list[Found] | None:
    path = "/v1/ns/catalog/instances"
    found: list[Found] = []
    for page in range(1, PAGES_MAX):
        parameters = service_parameters(namespace, name)
        parameters |= {"clusterName": cluster, "pageNo": page, "pageSize": INSTANCES_PAGE}
        answer = _unless_unknown(client, path, parameters)
        if answer is None:
            return None
        listed = answer.get("list") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise CallError(f"{path}: the answer has no list")
        found += [read_instance({"clusterName": cluster, **_object(one, path)}) for one in listed]
        if not listed or len(found) >= (_whole(answer.get("count")) or 0):
            return found
    raise Unusable(f"{path}: over {PAGES_MAX} pages")


def service_parameters(namespace: str, name: str) -> dict[str, str | int]:
    """Return the parameters of a call about one service."""
    return {"namespaceId": namespace, "serviceName": name, "groupName": name.partition(GROUP_SPLITTER)[0]}


def _unless_unknown(client: MemberClient, path: str, parameters: Mapping[str, str | int]) -> Any:
    try:
        answer = client.get(path, parameters).json()
    except Refused as error:
        # 404, or 500 with the same text where the console's error handler comes first.
        if error.status in (400, 404, 500) and "not found" in error.said:
            return None
        raise
    if answer is None:
        raise CallError(f"{path}: the answer is null")
    return answer


# --- instances -----------------------------------------------------------------------------------


def read_instance(value: Mapping[str, Any], ephemeral: bool | None = True) -> Found:
    """Return the instance in the JSON of a datum or the catalog; ``ephemeral`` is its kind if the JSON lacks it.

    Raises:
        CallError: the JSON has no ip or port.
    """
    ip, port = value.get("ip"), _whole(value.get("port"))
    if not isinstance(ip, str) or port is None:
        raise CallError("an instance has no ip or port")
    pairs = value.get("metadata")
    metadata = {name: _text(one) for name, one in pairs.items()} if isinstance(pairs, dict) else {}
    told = value.get("ephemeral")
    timeout_ms = _whole(value.get("ipDeleteTimeout"))
    if timeout_ms is None and (text := metadata.get(DELETE_TIMEOUT)) and text.isascii() and text.isdecimal():
        timeout_ms = int(text)
    return Found(
        cluster=str(value.get("clusterName") or DEFAULT_CLUSTER),
        ip=ip,
        port=port,
        healthy=value.get("healthy") is not False,
        enabled=value.get("enabled") is not False,
        weight=_weight(value.get("weight")),
        metadata=metadata,
        ephemeral=told if isinstance(told, bool) else ephemeral,
        delete_timeout_ms=timeout_ms,
        last_beat_ms=_whole(value.get("lastBeat")),
    )


def found_row(namespace: str, service: str, found: Found, client: ClientKind | None, **rest: Any) -> dict[str, Any]:
    """Return the row of an instance. ``client``: its kind if it is ephemeral; ``rest``: as of ``instance_row``."""
    ephemeral = found.ephemeral is not False
    return instance_row(
        namespace=namespace,
        service=service,
        cluster=found.cluster,
        ip=found.ip,
        port=found.port,
        ephemeral=ephemeral,
        healthy=found.healthy,
        enabled=found.enabled,
        weight=found.weight,
        metadata=found.metadata,
        delete_timeout_ms=found.delete_timeout_ms if ephemeral else None,
        client=client if ephemeral else ClientKind.DURABLE,
        **rest,
    )


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise CallError(f"{path}: an instance is not an object")
    return value


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _weight(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 1.0


def _text(value: Any) -> str | None:
    """Return a metadata value as the text that members in Java make of it."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
