"""Writes of persistent instances by command: executed here, or at the member that owns the service."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import orjson

from app.commands.owner_forwarder import OwnerForwarder
from app.commands.ownership import Forward, Owners, durable_owner, not_serving_text
from app.metrics.audit_trail import acting
from app.naming.model.caller_texts import APP_CHARS_MAX, TRIMMED, check_ip, check_text
from app.naming.model.flags import flag_text
from app.naming.model.keys import DEFAULT_NAMESPACE, check_service_format
from app.naming.model.nacos_errors import NacosError, Unavailable
from app.naming.records.durable_service import DurableService
from app.naming.records.record_keys import persistent_key, service_meta_key
from app.naming.registry import operations
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from distro.model.types import MemberState

PATH = "/v1/ns/instance"
AGENT = "Rollcall-gRPC"


class NotWritten(NacosError):
    """The owner refused the write: its status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A command as the call of Nacos's API that means the same."""

    method: str
    parameters: Mapping[str, str]
    context_path: str
    path: str = PATH
    agent: str = AGENT
    headers: Mapping[str, str] = field(default_factory=dict)
    remote_ip: str = ""


class MemberWrites:
    """Each call blocks until the write is on the owner's disk, and can be read here. Not for the event loop.

    Raises (each): NacosError, with the status and text that HTTP would answer.
    """

    def __init__(
        self, owners: Owners, durable: DurableService, forwarder: OwnerForwarder[Any], context_path: str
    ) -> None:
        self._owners = owners
        self._durable = durable
        self._forwarder = forwarder
        self._context_path = context_path

    def register(self, command: RegisterInstance, token: str = "") -> None:
        """Register a persistent instance, or replace it; ``token``: of the user, for the owner to check."""
        command = _checked(command)
        parameters = {
            **_named(command),
            "weight": repr(command.weight),
            "healthy": flag_text(command.healthy),
            "enabled": flag_text(command.enabled),
            "metadata": orjson.dumps(command.metadata or {}).decode(),
            "app": command.app,
        }
        keys = service_meta_key(command.namespace, command.service), _key_of(command)
        self._write("POST", parameters, keys, token, lambda: self._durable.register(command))

    def deregister(self, command: DeregisterInstance, token: str = "") -> None:
        """Remove a persistent instance; one that is unknown is no error. ``token``: as for ``register``."""
        command = replace(
            command, service=_service_of(command), ip=command.ip.strip(TRIMMED), namespace=_namespace_of(command)
        )
        self._write("DELETE", _named(command), (_key_of(command),), token, lambda: self._durable.deregister(command))

    def _write(
        self, method: str, parameters: Mapping[str, str], keys: tuple[str, ...], token: str, write: Callable[[], None]
    ) -> None:
        def run() -> Forward | None:
            if (state := self._owners.state()) is not MemberState.UP:
                raise Unavailable(not_serving_text(state.value))
            to = durable_owner(self._owners, *keys)
            if to is None:
                write()
            return to

        to = run()
        if to is None:
            return
        headers = {"authorization": f"Bearer {token}"} if token else {}
        who = acting().address
        request = WriteRequest(method, parameters, self._context_path, headers=headers, remote_ip=who)
        answer = self._forwarder.forward(request, to, run)
        if answer is not None and answer.status != HTTPStatus.OK:
            raise NotWritten(answer.status, answer.body.decode("utf-8", "replace"))


def _checked(command: RegisterInstance) -> RegisterInstance:
    """Return the command as HTTP reads the same texts.

    Raises:
        InvalidParam: a text is not allowed.
    """
    command = command._replace(
        service=_service_of(command),
        ip=command.ip.strip(TRIMMED),
        namespace=_namespace_of(command),
        app=command.app.strip(TRIMMED) or RegisterInstance._field_defaults["app"],
    )
    check_ip(command.ip)
    check_text("app", command.app, APP_CHARS_MAX)
    return command


def _service_of(command: RegisterInstance | DeregisterInstance) -> str:
    name = command.service.strip(TRIMMED)
    check_service_format(name)
    return name


def _namespace_of(command: RegisterInstance | DeregisterInstance) -> str:
    return command.namespace.strip(TRIMMED) or DEFAULT_NAMESPACE


def _key_of(command: RegisterInstance | DeregisterInstance) -> str:
    return persistent_key(command.namespace, command.service, operations.key_of(command))


def _named(command: RegisterInstance | DeregisterInstance) -> dict[str, str]:
    return {
        "serviceName": command.service,
        "namespaceId": command.namespace,
        "ip": command.ip,
        "port": str(command.port),
        "clusterName": command.cluster,
        "ephemeral": "false",
    }
