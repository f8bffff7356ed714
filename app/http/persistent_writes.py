"""Persistent instances from the gRPC door, written by the endpoints of HTTP: here, or at the member that owns them."""

from http import HTTPStatus
from urllib.parse import urlencode

import orjson

from app.http.api.call import Call, Endpoint, Forward, Reply, Services
from app.http.v1.instance import deregister, register
from app.naming.model.nacos_errors import NacosError
from app.naming.registry.operations import DeregisterInstance, RegisterInstance

PATH = "/v1/ns/instance"
AGENT = "Rollcall-gRPC"


class NotWritten(NacosError):
    """What the endpoint answered instead of ok."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class PersistentCalls:
    """Each call blocks until the write is on the owner's disk, and seen here.

    Raises (each): NacosError, with the status that HTTP would answer.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def register(self, command: RegisterInstance) -> None:
        """Register a persistent instance, or replace it."""
        parameters = {
            **_named(command),
            "weight": repr(command.weight),
            "healthy": _flag(command.healthy),
            "enabled": _flag(command.enabled),
            "metadata": orjson.dumps(command.metadata or {}).decode(),
            "app": command.app,
        }
        self._call("POST", register, parameters)

    def deregister(self, command: DeregisterInstance) -> None:
        """Remove a persistent instance; one that is unknown is no error."""
        self._call("DELETE", deregister, _named(command))

    def _call(self, method: str, endpoint: Endpoint, parameters: dict[str, str]) -> None:
        services = self._services
        query = urlencode(parameters).encode()
        call = Call(
            method, PATH, query, {"user-agent": AGENT}, b"", "127.0.0.1", context_path=services.settings.context_path
        )
        answer = endpoint(call, services)
        if isinstance(answer, Forward):
            answer = services.forwarder.forward(call, answer, lambda: endpoint(call, services))
        assert isinstance(answer, Reply), "only calls on the loop are declined"
        if answer.status != HTTPStatus.OK:
            raise NotWritten(answer.status, answer.body.decode("utf-8", "replace"))


def _named(command: RegisterInstance | DeregisterInstance) -> dict[str, str]:
    return {
        "serviceName": command.service,
        "namespaceId": command.namespace,
        "ip": command.ip,
        "port": str(command.port),
        "clusterName": command.cluster,
        "ephemeral": "false",
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"
