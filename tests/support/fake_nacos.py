"""A member of another kind: what real Nacos answers to the calls of a dump, from lists that a test writes."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.tiny_server import Given, Received

CLOCK = "Sat, 21 Nov 2026 03:15:10 GMT"
CLOCK_MS = 1_795_230_910_000
JSON = {"Content-Type": "application/json", "Date": CLOCK}
Instances = list[dict[str, Any]]


def instance(ip: str, **fields: Any) -> dict[str, Any]:
    """An instance as datum and catalog show it, healthy and with a beat 2 s ago unless told otherwise."""
    return {
        "ip": ip,
        "port": 80,
        "weight": 1.0,
        "healthy": True,
        "enabled": True,
        "ephemeral": True,
        "clusterName": "DEFAULT",
        "metadata": {"a": "1"},
        "lastBeat": CLOCK_MS - 2_000,
        "ipDeleteTimeout": 30_000,
        **fields,
    }


def _key(namespace: str, name: str) -> str:
    return f"com.alibaba.nacos.naming.iplist.ephemeral.{namespace}##{name}"


@dataclass
class FakeNacos:
    """Answers for ``tiny_server``. Services by namespace and full name."""

    version: str = "1.4.1"
    address: str = "10.0.0.1:8848"
    members: dict[str, str] = field(default_factory=lambda: {"10.0.0.1:8848": "UP"})
    datums: dict[tuple[str, str], Instances] = field(default_factory=dict)
    shown: dict[tuple[str, str], Instances] = field(default_factory=dict)
    has_datums: bool = True
    has_detail: bool = True
    """Whether it lists services with their instances."""
    namespaces: tuple[str, ...] | None = None
    described: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """The catalog's description of services: metadata, protectThreshold, selector."""
    clusters: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    """The catalog's clusters of services, where they are configured."""
    switches: dict[str, Any] | None = None
    clients: dict[str, list[dict[str, Any]]] | None = None
    """What each client publishes, by its id."""
    subscribers: list[dict[str, Any]] = field(default_factory=list)
    """As API v1 gives them: namespaceId, serviceName (with its group), ip, agent, app."""
    connections: dict[str, dict[str, Any]] | None = None
    """The metaInfo of clients over gRPC, by their ids; None where there is no such call."""
    is_3: bool = False
    """Whether it has API v3 in place of v1 and v2."""
    page_max: int = 1_000_000
    token: str = ""
    """Asked of every call but the login, when there is one."""
    password: str = ""
    """Asked of a login, when there is one."""
    on_call: Callable[[str, dict[str, str]], Given | None] = lambda path, parameters: None
    """May answer in our place, or change the lists."""
    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __call__(self, received: Received) -> Given:
        url = urlsplit(received.target)
        path = url.path.removeprefix("/nacos")
        parameters = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        self.calls.append((path, parameters))
        if given := self.on_call(path, parameters):
            return given
        if path == ("/v3/auth/user/login" if self.is_3 else "/v1/auth/login") and self.token:
            if self.password and parse_qs(received.body.decode()).get("password") != [self.password]:
                return Given(403, b"unknown user!")
            return self._json({"accessToken": self.token, "tokenTtl": 18_000})
        if path.startswith(("/v1/", "/v2/") if self.is_3 else "/v3/"):
            return self._json({"status": 404, "message": "no such api"}, 404)
        if self.token and parameters.get("accessToken") != self.token:
            return Given(403, b'{"message":"unknown user!"}', JSON)
        match path:
            case "/v1/core/cluster/nodes":
                return self._json({"code": 200, "data": [self._node(one) for one in self.members]})
            case "/v1/core/cluster/self":
                return self._json({"code": 200, "data": self._node(self.address)})
            case "/v1/console/namespaces" if self.namespaces is not None:
                return self._json({"code": 200, "data": [{"namespace": one} for one in self.namespaces]})
            case "/v1/ns/operator/switches" if self.switches is not None:
                return self._json(self.switches)
            case "/v2/ns/client/list" if self.clients is not None:
                return self._json({"code": 0, "data": list(self.clients)})
            case "/v2/ns/client/publish/list" if self.clients is not None:
                return self._json({"code": 0, "data": self.clients[parameters["clientId"]]})
            case "/v1/ns/distro/datums" if self.has_datums:
                assert received.headers["user-agent"].startswith("Nacos-Server")
                return self._datums(self.datums)
            case "/v1/ns/distro/datum" if self.has_datums:
                wanted = json.loads(received.body)["keys"].split(",")
                return self._datums({key: value for key, value in self.datums.items() if _key(*key) in wanted})
            case "/v1/ns/service/subscribers":
                listed = self._subscribers(parameters["namespaceId"], parameters["serviceName"].strip())
                return self._json({"subscribers": listed, "count": len(listed)})
            case "/v2/core/loader/current" if self.connections is not None:
                return self._json({name: {"metaInfo": one} for name, one in self.connections.items()})
            case _ if self.is_3:
                return self._of_3(path, parameters)
            case "/v1/ns/catalog/services":
                return self._services(parameters)
            case "/v1/ns/catalog/service":
                return self._service(parameters)
            case "/v1/ns/catalog/instances":
                return self._instances(parameters)
        status = 501 if path.startswith("/v1/ns") else 404
        return self._json({"status": status, "message": "no such api"}, status)

    def _of_3(self, path: str, parameters: dict[str, str]) -> Given:
        match path:
            case "/v3/admin/core/cluster/node/list":
                data: Any = [self._node(one) for one in self.members]
            case "/v3/admin/core/namespace/list":
                data = [{"namespace": one} for one in self.namespaces or ("public",)]
            case "/v3/admin/core/loader/current":
                data = {name: {"metaInfo": one} for name, one in (self.connections or {}).items()}
            case "/v3/admin/ns/service/list":
                namespace = parameters["namespaceId"]
                names = sorted(name for one, name in self.shown if one == namespace)
                data = self._page([self._detail(namespace, name) for name in names], parameters)
            case "/v3/admin/ns/service/subscribers":
                name = f"{parameters['groupName']}@@{parameters['serviceName']}"
                found = [
                    {**one, "appName": one["app"]}
                    for one in self._subscribers(parameters["namespaceId"], name)
                    if one["serviceName"] == name
                ]
                data = self._page(found, parameters)
            case _:
                return self._json({"code": 404, "message": "no such api"}, 404)
        return self._json({"code": 0, "message": "success", "data": data})

    def _subscribers(self, namespace: str, name: str) -> list[dict[str, Any]]:
        return [one for one in self.subscribers if one["namespaceId"] == namespace and name in one["serviceName"]]

    def _page(self, rows: list[Any], parameters: dict[str, str]) -> dict[str, Any]:
        size = min(int(parameters["pageSize"]), self.page_max)
        start = (int(parameters["pageNo"]) - 1) * size
        return {"totalCount": len(rows), "pageItems": rows[start : start + size]}

    def _json(self, value: Any, status: int = 200) -> Given:
        return Given(status, json.dumps(value).encode(), dict(JSON))

    def _node(self, address: str) -> dict[str, Any]:
        state = self.members.get(address, "UP")
        return {"address": address, "state": state, "extendInfo": {"version": self.version}}

    def _datums(self, datums: dict[tuple[str, str], Instances]) -> Given:
        return self._json(
            {_key(*key): {"key": _key(*key), "value": {"instanceList": one}} for key, one in datums.items()}
        )

    def _services(self, parameters: dict[str, str]) -> Given:
        names = sorted(name for namespace, name in self.shown if namespace == parameters["namespaceId"])
        if parameters.get("withInstances") == "true":
            if not self.has_detail:
                return Given(400, b"no such parameter", {"Content-Type": "text/plain"})
            assert int(parameters["pageSize"]) >= len(names)
            return self._json([self._detail(parameters["namespaceId"], name) for name in names])
        size = min(int(parameters["pageSize"]), self.page_max)
        start = (int(parameters["pageNo"]) - 1) * size
        listed = [dict(zip(("groupName", "name"), name.split("@@"), strict=True)) for name in names]
        return self._json({"serviceList": listed[start : start + size], "count": len(names)})

    def _detail(self, namespace: str, name: str) -> dict[str, Any]:
        group, short = name.split("@@")
        clusters: dict[str, dict[str, Any]] = {}
        for one in self.shown[namespace, name]:
            host = {field: one[field] for field in ("ip", "port", "weight", "enabled", "metadata")}
            hosts = clusters.setdefault(one["clusterName"], {"hosts": []})["hosts"]
            hosts.append({**host, "valid": one["healthy"]})
        return {"serviceName": short, "groupName": group, "clusterMap": clusters}

    def _service(self, parameters: dict[str, str]) -> Given:
        key = parameters["namespaceId"], parameters["serviceName"]
        found = self.shown.get(key)
        if found is None:
            return Given(404, b"service is not found!", {"Content-Type": "text/plain"})
        clusters = dict.fromkeys(one["clusterName"] for one in found)
        listed = self.clusters.get(key, [{"name": name} for name in clusters])
        return self._json({"service": self.described.get(key, {}), "clusters": listed})

    def _instances(self, parameters: dict[str, str]) -> Given:
        found = self.shown.get((parameters["namespaceId"], parameters["serviceName"]), [])
        listed = [one for one in found if one["clusterName"] == parameters["clusterName"]]
        if not listed:
            return Given(404, b"cluster is not found!", {"Content-Type": "text/plain"})
        size = min(int(parameters["pageSize"]), self.page_max)
        start = (int(parameters["pageNo"]) - 1) * size
        return self._json({"list": listed[start : start + size], "count": len(listed)})
