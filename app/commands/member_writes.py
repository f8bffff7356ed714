"""Writes of persistent instances by command, from a thread: executed here, or at the member that owns the service.

To that member a command goes as the call of Nacos's API that means the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Protocol, TypeVar

import orjson

from app.commands.ownership import Forward
from app.commands.writes import Writes
from app.metrics.audit_trail import Actor, acting
from app.naming.model.json_fields import flag_text
from app.naming.model.keys import APP_CHARS_MAX, DEFAULT_NAMESPACE, TRIMMED, check_ip, check_service_format, check_text
from app.naming.model.nacos_errors import NacosError
from app.naming.registry.operations import DeregisterInstance, RegisterInstance

PATH = "/v1/ns/instance"
AGENT = "Rollcall-gRPC"


@dataclass(frozen=True, slots=True)
class NacosCall:
    """A ``MemberRequest`` that no client made."""

    method: str
    parameters: Mapping[str, str]
    context_path: str
    path: str = PATH
    agent: str = AGENT
    headers: Mapping[str, str] = field(default_factory=dict)
    remote_ip: str = ""


def nacos_call(
    command: RegisterInstance | DeregisterInstance, context_path: str, token: str, remote_ip: str
) -> NacosCall:
    """Return the call that registers or removes a persistent instance.

    ``token``: of the user, for the owner to check; empty for none. ``remote_ip``: the address that the client called
    from.
    """
    headers = {"authorization": f"Bearer {token}"} if token else {}
    named = {
        "serviceName": command.service,
        "namespaceId": command.namespace,
        "ip": command.ip,
        "port": str(command.port),
        "clusterName": command.cluster,
        "ephemeral": "false",
    }
    if isinstance(command, DeregisterInstance):
        return NacosCall("DELETE", named, context_path, headers=headers, remote_ip=remote_ip)
    attributes = {
        "weight": repr(command.weight),
        "healthy": flag_text(command.healthy),
        "enabled": flag_text(command.enabled),
        "metadata": orjson.dumps(command.metadata or {}).decode(),
        "app": command.app,
    }
    return NacosCall("POST", named | attributes, context_path, headers=headers, remote_ip=remote_ip)


R = TypeVar("R")
Durable = RegisterInstance | DeregisterInstance


class MemberAnswer(Protocol):
    """The answer of a member."""

    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...


class OwnerCalls(Protocol):
    """Has calls executed by the members that own them."""

    def forward(self, request: NacosCall, to: Forward, run: Callable[[], R | Forward]) -> MemberAnswer | R:
        """Return the owner's answer, or what ``run`` returns once this node owns the call. Blocks."""
        ...


class NotWritten(NacosError):
    """The owner refused the write. Status and text are the owner's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ThreadCaller:
    """The caller of a write that did not come over HTTP: no member passed it on, and its address is counted before."""

    on_loop = False
    deadline = address = wants_change = passed_on = login_wait = None

    @property
    def actor(self) -> Actor:
        """The one of ``acting_as``."""
        return acting()

    def count_write(self) -> None:
        """Do nothing: the frontend has counted it."""


CALLER = ThreadCaller()


class MemberWrites:
    """Executes commands about persistent instances wherever they are to be executed. Not for the event loop."""

    def __init__(self, writes: Writes, forwarder: OwnerCalls, context_path: str) -> None:
        """``context_path``: of the API of other members."""
        self._writes = writes
        self._forwarder = forwarder
        self._context_path = context_path

    def execute(self, command: Durable, token: str = "") -> None:
        """Register, replace or remove a persistent instance; removing an unknown one succeeds.

        Blocks until the write is on the owner's disk, and can be read here. ``token``: of the user, for the owner to
        check.

        Raises:
            NacosError: with the status and text that HTTP would answer.
        """
        checked = _checked(command)

        def run() -> Forward | None:
            outcome = self._writes.execute(checked, CALLER)
            return outcome if isinstance(outcome, Forward) else None

        to = run()
        if to is None:
            return
        request = nacos_call(checked, self._context_path, token, acting().address)
        answer = self._forwarder.forward(request, to, run)
        if answer is not None and answer.status != HTTPStatus.OK:
            raise NotWritten(answer.status, answer.body.decode("utf-8", "replace"))


def _checked(command: Durable) -> Durable:
    """Return the command as HTTP reads the same texts.

    Raises:
        InvalidParam: a text is not allowed.
    """
    service = command.service.strip(TRIMMED)
    check_service_format(service)
    ip, namespace = command.ip.strip(TRIMMED), command.namespace.strip(TRIMMED) or DEFAULT_NAMESPACE
    if isinstance(command, DeregisterInstance):
        return replace(command, service=service, ip=ip, namespace=namespace)
    app = command.app.strip(TRIMMED) or RegisterInstance._field_defaults["app"]
    check_ip(ip)
    check_text("app", app, APP_CHARS_MAX)
    return command._replace(service=service, ip=ip, namespace=namespace, app=app)
