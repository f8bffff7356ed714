"""A Nacos 1.x, 2.x or 3.x as its HTTP API shows it: services, subscribers and connections.

Nacos 3.x is asked by the calls of API v3, all others by those of v1; one call shows which it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event
from typing import Any, NamedTuple

from app.config.version import LINK_APP
from app.languages.phrases import phrase
from app.naming.model.foreign import ORIGIN
from app.naming.model.keys import DEFAULT_GROUP, GROUP_SPLITTER, split_name
from app.tools.audit.client.access import Access
from app.tools.audit.client.http_client import CallError, MemberClient, Patience, Refused
from app.tools.audit.dump.nacos import (
    Found,
    namespace_ids,
    read_instance,
    read_names,
    read_nodes,
    read_service,
    read_shown,
)
from app.tools.audit.format.manifest import Seen

ServiceName = tuple[str, str]
"""The namespace and the full name of a service, as the Nacos has them."""
Address = tuple[str, int, str]
"""The IP, the port and the cluster of an instance."""
AT_ONCE = 8
"""Calls about single services that are made at the same time."""
PAGE, PAGES_MAX = 500, 2_000
SUBSCRIBERS_PAGE, SUBSCRIBER_PAGES_MAX = 10_000, 100
INSTANCES_MAX = 2_000_000
LIST_PASSES = 2
NODES_3, NAMESPACES_3 = "/v3/admin/core/cluster/node/list", "/v3/admin/core/namespace/list"
SERVICES_3, SUBSCRIBERS_3 = "/v3/admin/ns/service/list", "/v3/admin/ns/service/subscribers"
CONNECTIONS_3, CONNECTIONS_2 = "/v3/admin/core/loader/current", "/v2/core/loader/current"
NAMESPACES_1, SUBSCRIBERS_1 = "/v1/console/namespaces", "/v1/ns/service/subscribers"
EVERY_SERVICE = " "
"""A name that every service contains, once a Nacos has taken off the blank: the subscribers of a namespace come in
one answer. Source: 1.3.2 to 2.5.1, WebUtils.required and getFuzzySubscribers."""
NAMING, CLUSTER, DOWN = "naming", "cluster", "DOWN"
"""The module and the source of connections, and the state of a member that does not answer."""
_NO_SUCH_CALL = {404, 405, 410, 501}
_NO_RIGHT = {401, 403}


class ListedInstance(NamedTuple):
    """An instance in the list of a Nacos; ``origin`` is the cluster whose link registered it, or empty."""

    enabled: bool
    origin: str


class NacosSubscriber(NamedTuple):
    """A client that subscribes to a service."""

    name: ServiceName
    ip: str
    agent: str
    app: str


class ConnectedClient(NamedTuple):
    """A client that is connected over gRPC."""

    ip: str
    agent: str
    app: str


@dataclass(slots=True)
class NacosView:
    """All that was read. Links' own subscribers and connections are left out."""

    address: str
    version: str
    members: tuple[str, ...]
    services: dict[ServiceName, dict[Address, ListedInstance]] = field(default_factory=dict)
    subscribers: set[NacosSubscriber] = field(default_factory=set)
    connections: set[ConnectedClient] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    """Why a part is not known, one line each."""


class NacosReader:
    """Reads from one Nacos. For one thread; ``close`` ends its connections."""

    def __init__(self, addresses: Sequence[str], access: Access) -> None:
        """``addresses``: servers; the first that answers is asked."""
        self._addresses, self._access = addresses, access
        self._client = _client(addresses[0], access)
        self._is_3 = False
        self._namespaces: tuple[str, ...] = ()
        self._view = NacosView("", "", ())

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def open(self) -> NacosView:
        """Return a view with the server that answers, its release and the members that it lists, and nothing else.

        Raises:
            CallError: none answers. ``Refused``: the first that answers refuses the call.
        """
        failures = []
        for address in self._addresses:
            self._client.close()
            self._client = _client(address, self._access)
            try:
                nodes, version = self._nodes()
            except Refused:
                raise
            except CallError as error:
                failures.append(f"{address}: {error}")
                continue
            listed = tuple(one.address for one in nodes if one.state != DOWN) or (address,)
            self._view = NacosView(address, version, listed)
            return self._view
        raise CallError("; ".join(failures) if len(failures) > 1 else failures[0].partition(": ")[2])

    def _nodes(self) -> tuple[Sequence[Seen], str]:
        try:
            listed = self._data(NODES_3)
        except Refused as error:
            if error.status not in _NO_SUCH_CALL:
                raise
            self._is_3 = False
            nodes = read_nodes(self._client)
            return nodes.members, nodes.version
        self._is_3 = True
        rows = [one for one in _objects(listed) if isinstance(one.get("address"), str)]
        versions = [_text(one["extendInfo"], "version") for one in rows if isinstance(one.get("extendInfo"), dict)]
        return [Seen(one["address"], _text(one, "state")) for one in rows], next(filter(None, versions), "")

    def read_services(self, namespaces: Iterable[str]) -> None:
        """Add all services to the view, in place of those before. ``namespaces``: those that it may not list.

        Raises:
            CallError: no answer, or one of another shape.
        """
        found: dict[ServiceName, dict[Address, ListedInstance]] = {}
        count = 0
        self._namespaces = self._listed_namespaces(namespaces)
        for namespace in self._namespaces:
            for name, instances in self._services_3(namespace) if self._is_3 else self._services_1(namespace):
                found[namespace, name] = {(one.ip, one.port, one.cluster): _seen(one) for one in instances}
                count += len(instances)
                if count > INSTANCES_MAX:
                    raise CallError(phrase("it lists over %(count)s instances", count=INSTANCES_MAX))
        self._view.services = found

    def _listed_namespaces(self, wanted: Iterable[str]) -> tuple[str, ...]:
        path = NAMESPACES_3 if self._is_3 else NAMESPACES_1
        try:
            listed = _objects(self._data(path))
        except Refused as error:
            if error.status not in _NO_SUCH_CALL | _NO_RIGHT:
                raise
            listed = []
            if error.status in _NO_RIGHT:
                self._not_known(f"{path}: permission denied; other namespaces are not known")
        return namespace_ids(listed, wanted)

    def _services_1(self, namespace: str) -> Iterator[tuple[str, list[Found]]]:
        names = read_names(self._client, namespace)
        shown = read_shown(self._client, namespace, names)
        for name in names:
            service = shown[name] if name in shown else read_service(self._client, namespace, name)
            yield name, [one for instances in (service or {}).values() for one in instances]

    def _services_3(self, namespace: str) -> Iterator[tuple[str, list[Found]]]:
        seen: set[str] = set()
        for _ in range(LIST_PASSES):
            count = 0
            for page in range(1, PAGES_MAX):
                wanted: dict[str, str | int] = {"namespaceId": namespace, "withInstances": "true"}
                data = self._data(SERVICES_3, {**wanted, "pageNo": page, "pageSize": PAGE})
                items = data.get("pageItems") if isinstance(data, dict) else None
                total = data.get("totalCount") if isinstance(data, dict) else None
                if not isinstance(items, list) or not isinstance(total, int):
                    raise CallError(phrase("%(path)s: the answer has no pageItems", path=SERVICES_3))
                count = max(count, total)
                for one in _objects(items):
                    name = f"{_text(one, 'groupName') or DEFAULT_GROUP}{GROUP_SPLITTER}{_text(one, 'serviceName')}"
                    if name not in seen:
                        seen.add(name)
                        yield name, list(_hosts_3(one.get("clusterMap")))
                if not items or len(seen) >= count:
                    break
            # Services that came or went between two pages moved others past them: then once more.
            if len(seen) >= count:
                return

    # --- clients ----------------------------------------------------------------------------------

    def read_clients(self, counted: Callable[[int], object]) -> None:
        """Add the subscribers and connections to the view, after its services were read.

        ``counted``: called with 1 for each service that was asked for alone, which only API v3 needs.
        """
        if self._is_3:
            self._subscribers_3(counted)
        for address in dict.fromkeys(self._view.members):
            with closing(_client(address, self._access)) as client:
                try:
                    if not self._is_3:
                        self._subscribers_1(client)
                    self._connections(client)
                except CallError as error:
                    self._not_known(f"{address}: {error}")

    @property
    def single_calls(self) -> int:
        """Return how many services ``read_clients`` asks for one by one."""
        return len(self._view.services) if self._is_3 else 0

    def _subscribers_1(self, client: MemberClient) -> None:
        """Read the subscribers that one member has, whose services may be unknown."""
        for namespace in self._namespaces:
            wanted: dict[str, str | int] = {"namespaceId": namespace, "serviceName": EVERY_SERVICE}
            wanted |= {"aggregation": "false", "pageSize": SUBSCRIBERS_PAGE}
            for row in _rows_on_pages(client, SUBSCRIBERS_1, wanted, ("subscribers", "count")):
                self._subscribed((namespace, _text(row, "serviceName")), row, "app")

    def _subscribers_3(self, counted: Callable[[int], object]) -> None:
        """Read the subscribers of each service, which the member collects from all."""
        free: SimpleQueue[MemberClient] = SimpleQueue()
        clients = [_client(self._view.address, self._access) for _ in range(AT_ONCE)]
        for one in clients:
            free.put(one)

        def ask(name: ServiceName) -> list[Mapping[str, Any]]:
            client, (group, short) = free.get(), split_name(name[1])
            try:
                wanted: dict[str, str | int] = {"namespaceId": name[0], "groupName": group, "serviceName": short}
                wanted |= {"aggregation": "true", "pageSize": PAGE}
                return list(_rows_on_pages(client, SUBSCRIBERS_3, wanted, ("pageItems", "totalCount")))
            finally:
                free.put(client)
                counted(1)

        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="migrate")
        try:
            for name, rows in zip(self._view.services, pool.map(ask, list(self._view.services)), strict=True):
                for row in rows:
                    self._subscribed(name, row, "appName")
        except CallError as error:
            self._not_known(f"{self._view.address}: {error}")
        finally:
            pool.shutdown(cancel_futures=True)
            for one in clients:
                one.close()

    def _subscribed(self, name: ServiceName, row: Mapping[str, Any], app_field: str) -> None:
        app = _text(row, app_field)
        if not app.startswith(LINK_APP):
            self._view.subscribers.add(NacosSubscriber(name, _text(row, "ip"), _text(row, "agent"), app))

    def _connections(self, client: MemberClient) -> None:
        try:
            listed = _data(client.get(CONNECTIONS_3 if self._is_3 else CONNECTIONS_2).json())
        except Refused as error:
            if error.status in _NO_SUCH_CALL:
                return  # Nacos 1.x has none
            raise
        for one in listed.values() if isinstance(listed, dict) else ():
            meta = one.get("metaInfo") if isinstance(one, dict) else None
            if not isinstance(meta, dict):
                continue
            labels = meta.get("labels")
            words = labels if isinstance(labels, dict) else {}
            app = _text(meta, "appName")
            is_naming = words.get("module", NAMING) == NAMING and words.get("source") != CLUSTER
            if is_naming and not app.startswith(LINK_APP):
                ip = _text(meta, "clientIp") or _text(meta, "remoteIp")
                self._view.connections.add(ConnectedClient(ip, _text(meta, "version"), app))

    def _data(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        return _data(self._client.get(path, parameters).json())

    def _not_known(self, text: str) -> None:
        if text not in self._view.unknown:
            self._view.unknown.append(text)


def _client(address: str, access: Access) -> MemberClient:
    return MemberClient(address, access, Patience(access.retries, Event()))


def _rows_on_pages(
    client: MemberClient, path: str, wanted: Mapping[str, str | int], fields: tuple[str, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a list that comes in pages; ``fields``: the names of the list and of its length."""
    seen = 0
    for page in range(1, SUBSCRIBER_PAGES_MAX + 1):
        data = _data(client.get(path, {**wanted, "pageNo": page}).json())
        rows = data.get(fields[0]) if isinstance(data, dict) else None
        if not isinstance(rows, list):
            raise CallError(phrase("%(path)s: the answer has no %(field)s", path=path, field=fields[0]))
        yield from _objects(rows)
        seen += len(rows)
        total = data.get(fields[1])
        if not rows or not isinstance(total, int) or seen >= total:
            return
    raise CallError(phrase("%(path)s: over %(count)s pages", path=path, count=SUBSCRIBER_PAGES_MAX))


def _data(answer: Any) -> Any:
    """Return the value of an answer, without its envelope."""
    return answer["data"] if isinstance(answer, dict) and {"code", "data"} <= answer.keys() else answer


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _hosts_3(clusters: Any) -> Iterator[Found]:
    for cluster, value in clusters.items() if isinstance(clusters, dict) else ():
        for one in _objects(value.get("hosts") if isinstance(value, dict) else None):
            yield read_instance({**one, "clusterName": cluster})


def _seen(found: Found) -> ListedInstance:
    return ListedInstance(found.enabled, found.metadata.get(ORIGIN) or "")
