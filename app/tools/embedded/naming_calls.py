"""The calls of a test to an embedded node over its HTTP API, as any client makes them."""

import http.client
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from app.naming.model.ip_addresses import host_port
from app.naming.model.json_fields import flag_text
from app.tools.embedded.errors_of_use import CallRefused

TIMEOUT_S = 10.0
GROUP, NAMESPACE, CLUSTER = "DEFAULT_GROUP", "public", "DEFAULT"


@dataclass(frozen=True, slots=True)
class SeenInstance:
    """One instance of a service, as clients see it."""

    ip: str
    port: int
    healthy: bool
    weight: float
    enabled: bool
    ephemeral: bool
    cluster: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """``ip:port``, an IPv6 address in brackets."""
        return host_port(self.ip, self.port)


class NamingCalls:
    """Calls of one node. Thread-safe; each has a separate connection."""

    def __init__(self, where: Callable[[], tuple[str, str]], timeout_s: float = TIMEOUT_S) -> None:
        """``where``: the node's ``host:port`` now, and its context path."""
        self._where, self._timeout_s = where, timeout_s
        self.token: str | None = None
        """The access token of each call if authentication is on; ``login`` sets it."""

    def login(self, user: str, password: str) -> str:
        """Log in, use the token from now on, and return it."""
        answer = json.loads(self.call("POST", "/v1/auth/login", username=user, password=password))
        self.token = str(answer["accessToken"])
        return self.token

    def register(
        self,
        service: str,
        ip: str = "127.0.0.1",
        port: int = 8080,
        *,
        group: str = GROUP,
        namespace: str = NAMESPACE,
        cluster: str = CLUSTER,
        weight: float = 1.0,
        healthy: bool = True,
        enabled: bool = True,
        ephemeral: bool = True,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Register an instance. An ephemeral one expires without a beat every few seconds of the node's clock."""
        values = {
            "weight": weight,
            "healthy": flag_text(healthy),
            "enabled": flag_text(enabled),
            "ephemeral": flag_text(ephemeral),
            "metadata": json.dumps(dict(metadata or {})),
        }
        self.call("POST", "/v1/ns/instance", **_names(service, ip, port, group, namespace, cluster), **values)

    def beat(
        self,
        service: str,
        ip: str = "127.0.0.1",
        port: int = 8080,
        *,
        group: str = GROUP,
        namespace: str = NAMESPACE,
        cluster: str = CLUSTER,
    ) -> None:
        """Send the beat of an ephemeral instance."""
        self.call("PUT", "/v1/ns/instance/beat", **_names(service, ip, port, group, namespace, cluster))

    def deregister(
        self,
        service: str,
        ip: str = "127.0.0.1",
        port: int = 8080,
        *,
        group: str = GROUP,
        namespace: str = NAMESPACE,
        cluster: str = CLUSTER,
        ephemeral: bool = True,
    ) -> None:
        """Remove an instance; a missing one is ignored."""
        names = _names(service, ip, port, group, namespace, cluster)
        self.call("DELETE", "/v1/ns/instance", **names, ephemeral=flag_text(ephemeral))

    def instances(
        self,
        service: str,
        *,
        group: str = GROUP,
        namespace: str = NAMESPACE,
        clusters: str = "",
        healthy_only: bool = False,
    ) -> list[SeenInstance]:
        """Return the instances of a service that clients get, by address; none for an unknown service."""
        answer = self.call(
            "GET",
            "/v1/ns/instance/list",
            serviceName=service,
            groupName=group,
            namespaceId=namespace,
            clusters=clusters,
            healthyOnly=flag_text(healthy_only),
        )
        found = [_seen(host) for host in json.loads(answer)["hosts"]]
        return sorted(found, key=lambda one: (one.ip, one.port, one.cluster))

    def call(self, method: str, path: str, **parameters: object) -> str:
        """Make any call of the HTTP API: its path without the context path, its parameters by name; return the body.

        Raises:
            CallRefused: the answer has another status than 200.
        """
        if self.token is not None:
            parameters["accessToken"] = self.token
        address, context_path = self._where()
        target = f"{context_path}{path}?{urlencode(parameters)}"
        with closing(http.client.HTTPConnection(address, timeout=self._timeout_s)) as connection:
            connection.request(method, target, headers={"Content-Length": "0", "Connection": "close"})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        if answer.status != http.client.OK:
            raise CallRefused(answer.status, f"{method} {path} at {address}: {answer.status} {text.strip()}")
        return text


def _names(service: str, ip: str, port: int, group: str, namespace: str, cluster: str) -> dict[str, object]:
    names = {"serviceName": service, "groupName": group, "namespaceId": namespace, "clusterName": cluster}
    return {**names, "ip": ip, "port": port}


def _seen(host: Mapping[str, Any]) -> SeenInstance:
    return SeenInstance(
        ip=host["ip"],
        port=host["port"],
        healthy=host["healthy"],
        weight=host["weight"],
        enabled=host["enabled"],
        ephemeral=host["ephemeral"],
        cluster=host["clusterName"],
        metadata=host["metadata"],
    )
