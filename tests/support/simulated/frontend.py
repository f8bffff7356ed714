"""Clients' calls at a simulated member: executed, or passed on once to the responsible member, as over HTTP."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, datum_key, instance_key
from app.naming.registry.operations import Beat, DeregisterInstance, RegisterInstance
from distro.types import Outcome
from tests.support.simulated.network import Reply

if TYPE_CHECKING:
    from tests.support.simulated.member import SimMember

FORWARD_MS_MAX = 2_000
HOLD_MS = 100


class Answered(enum.Enum):
    """What a client reads in an answer."""

    OK = "ok"
    UNKNOWN = "20404"
    UNAVAILABLE = "503"


NOT_EXECUTED = "not executed"
"""What a member answers to a call passed on to it that it left alone: it loads, leaves, or is not responsible."""


class Kind(enum.Enum):
    REGISTER = "register"
    DEREGISTER = "deregister"
    BEAT = "beat"


@dataclass(frozen=True, slots=True)
class Write:
    """What a client asks for. ``revision`` marks the attributes of a registration."""

    kind: Kind
    service: str
    ip: str
    port: int
    revision: int


class ClientReceiver:
    """Takes clients' writes at one member."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def take(self, write: Write, reply: Reply) -> None:
        """Answer a client's own call."""
        if not self._member.serving:
            reply(Outcome.DELIVERED, Answered.UNAVAILABLE)
            return
        self._try(write, reply, self._member.world.now_ms + FORWARD_MS_MAX)

    def take_forwarded(self, write: Write, reply: Reply) -> None:
        """Answer a call that another member passed on: it goes no further."""
        if self._member.serving and self._member.protocol.mapper.responsible(write.service):
            reply(Outcome.DELIVERED, self._execute(write))
        else:
            reply(Outcome.DELIVERED, NOT_EXECUTED)

    def _try(self, write: Write, reply: Reply, end_ms: int) -> None:
        member = self._member
        owner = member.protocol.mapper.map_srv(write.service)
        left_ms = end_ms - member.world.now_ms
        if owner == member.address and member.serving:
            reply(Outcome.DELIVERED, self._execute(write))
            return
        if left_ms <= 0 or owner == member.address:
            reply(Outcome.DELIVERED, Answered.UNAVAILABLE)
            return

        def end(outcome: Outcome, answer: Any) -> None:
            if outcome is Outcome.REFUSED or answer is NOT_EXECUTED:
                run = member.run
                member.world.after(
                    HOLD_MS,
                    lambda: member.post(lambda: self._try(write, reply, end_ms)) if member.run == run else None,
                )
            elif outcome is Outcome.DELIVERED:
                reply(Outcome.DELIVERED, answer)
            else:  # it may have been executed: only the client knows whether to repeat it
                reply(Outcome.DELIVERED, Answered.UNAVAILABLE)

        member.world.network.call(
            member, owner, lambda peer, answer: peer.client_receiver.take_forwarded(write, answer), left_ms, end
        )

    def _execute(self, write: Write) -> Answered:
        member = self._member
        naming, world = member.naming, member.world
        key, name = datum_key(DEFAULT_NAMESPACE, write.service), instance_key(write.ip, write.port, DEFAULT_CLUSTER)
        known = member.instances(key).get(name)
        before = int((known.instance.metadata or {})["revision"] or 0) if known else None
        match write.kind:
            case Kind.REGISTER:
                metadata = {"revision": str(write.revision)}
                naming.register(RegisterInstance(write.service, write.ip, write.port, metadata=metadata))
            case Kind.DEREGISTER:
                naming.deregister(DeregisterInstance(write.service, write.ip, write.port))
            case Kind.BEAT:
                if not naming.beat(Beat(write.service, write.ip, write.port)).known:
                    return Answered.UNKNOWN
        world.checker.executed(member, write, key, name, before)
        if world.tracing:
            version = member.registry.version(key)
            world.trace(
                member.address, f"{write.kind.value} {name} of {key} -> {version.to_text() if version else 'nothing'}"
            )
        return Answered.OK
