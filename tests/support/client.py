"""A small HTTP client of a node, for tests: one connection a call, so that it survives whatever happens to the node."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

CONTEXT_PATH = "/nacos"
CALL_TIMEOUT_S = 20.0
"""A bound for what hangs, a paused member's answer among it."""
OK = b"ok"
CODE_OK = 10_200
CODE_NOT_FOUND = 20_404


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it came; header names are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def content_type(self) -> str | None:
        return self.headers.get("content-type")

    def json(self) -> Any:
        """Return the document of the body.

        Raises:
            AssertionError: the body is no document. A real Nacos says in plain text that it failed, when its members
                change while it writes them, so whoever waits for an answer asks again.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise AssertionError(f"no JSON in the answer: {self.status} {self.body[:200]!r}") from error


class Client:
    """Calls one node, from ``source`` as the caller's address when that is given.

    Raises (each call): OSError or http.client.HTTPException when no whole answer came.
    """

    def __init__(
        self,
        address: str,
        source: str | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``tls``: calls go by HTTPS, in this context."""
        self.address = address
        self._tls = tls
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._source = (source, 0) if source else None
        self._timeout_s = timeout_s

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **parameters: str | int,
    ) -> Answer:
        """Send one request; ``path`` is below the context path, ``parameters`` become the query."""
        target = CONTEXT_PATH + path + (f"?{urlencode(parameters)}" if parameters else "")
        connection = self._connection()
        try:
            connection.request(method, target, body, {"User-Agent": "test", "Connection": "close", **(headers or {})})
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, response.read(), fields)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(
                self._host, self._port, timeout=self._timeout_s, source_address=self._source
            )
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout_s, source_address=self._source, context=self._tls
        )

    def register(self, service: str, ip: str, port: int = 8080, **parameters: str | int) -> Answer:
        return self.call("POST", "/v1/ns/instance", serviceName=service, ip=ip, port=port, **parameters)

    def deregister(self, service: str, ip: str, port: int = 8080, **parameters: str | int) -> Answer:
        return self.call("DELETE", "/v1/ns/instance", serviceName=service, ip=ip, port=port, **parameters)

    def beat(self, service: str, ip: str, port: int = 8080, **parameters: str | int) -> Answer:
        """A light beat: it keeps a known instance, and gets code 20404 for an unknown one."""
        return self.call("PUT", "/v1/ns/instance/beat", serviceName=service, ip=ip, port=port, **parameters)

    def hosts(self, service: str, **parameters: str | int) -> dict[str, dict[str, Any]]:
        """The listed instances of a service by ``ip:port``; an answer other than 200 is a failed assertion."""
        answer = self.call("GET", "/v1/ns/instance/list", serviceName=service, **parameters)
        assert answer.status == 200, f"list of {service}: {answer.status} {answer.body!r}"
        return {f"{host['ip']}:{host['port']}": host for host in answer.json()["hosts"]}

    def metrics(self) -> dict[str, Any]:
        """The counters of the node; an answer other than 200 is a failed assertion."""
        answer = self.call("GET", "/v1/ns/operator/metrics")
        assert answer.status == 200, f"metrics: {answer.status} {answer.body!r}"
        counters: dict[str, Any] = answer.json()
        return counters

    def states(self) -> dict[str, str]:
        """The state of every member in the node's eyes, by address."""
        answer = self.call("GET", "/v1/core/cluster/nodes")
        assert answer.status == 200, f"nodes: {answer.status} {answer.body!r}"
        return {member["address"]: member["state"] for member in answer.json()["data"]}

    def owner(self, service: str) -> str:
        """The member that is responsible for a known service in the node's eyes."""
        name = service if "@@" in service else f"DEFAULT_GROUP@@{service}"
        answer = self.call("GET", "/v1/ns/operator/distro/server", serviceName=name)
        assert answer.status == 200, f"owner of {service}: {answer.status} {answer.body!r}"
        address: str = answer.json()["responsibleServer"]
        return address
