"""Callers in virtual time: clients, each with one instance, and operators, each with one persistent instance."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from app.http.api.call import Call
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, datum_key, instance_key
from app.naming.model.model import BEAT_INTERVAL_MS
from app.naming.records.record_keys import persistent_key
from app.tools.simulation.member.client_writes import Answered, Write, WriteKind, read_answer
from app.tools.simulation.member.sim_ports import NOTHING_SAID, ClusterWorld
from app.tools.simulation.transcript.entry import What
from distro.model.types import Outcome

T = TypeVar("T")
CALL_MS_MAX = 3_000
"""The time that a client waits for one member. Source: nacos-sdk-python, its default time-out."""
RETRY_MS = (50, 500)
OPERATOR_RETRY_MS = (50, 800)
GIVE_UP_TRIES = 6
"""The number of times that an operator repeats a refused call."""


class CallerChecks(Protocol):
    """The notes that callers make for the checker of their world."""

    def answered(self, write: Write) -> None: ...

    def acknowledged(self, write: Write, key: str) -> None: ...


class CallerWorld(ClusterWorld, Protocol):
    """A world as its callers see it."""

    words: int
    """The number of operators' changes so far."""

    @property
    def checker(self) -> CallerChecks: ...

    def choice(self, options: Sequence[T]) -> T: ...

    def write(
        self, kind: WriteKind, service: str, ip: str, port: int, revision: int, *, ephemeral: bool = ...
    ) -> Write: ...


class Wish(enum.Enum):
    """The state that a client wants."""

    ABSENT = "absent"
    PRESENT = "present"
    SILENT = "silent"
    """The client died without notice: it makes no more calls."""


class SimCaller:
    """A process outside the cluster. It makes one call at a time, to a member by chance, and none after a failure."""

    run = 0
    listening = False

    def __init__(self, world: CallerWorld, address: str) -> None:
        self.world = world
        self.address = address
        self._avoid = ""
        self.members: list[str] | None = None
        """The members that it calls; None for all."""

    def post(self, work: Callable[[], None]) -> None:
        work()

    def ask(self, write: Write, on_answer: Callable[[Write, Answered], None]) -> None:
        """Make the call; ``on_answer`` gets UNAVAILABLE also if there is no answer."""
        members = self.members or self.world.addresses
        others = [one for one in members if one != self._avoid] or members
        target = self.world.choice(others)
        call: Call = write.call()
        about = NOTHING_SAID
        if self.world.tracing:
            about, minor = (write.text, (write.key,)), write.kind is WriteKind.BEAT
            self.world.trace(self.address, write.text, What.WRITE, peer=target, keys=(write.key,), minor=minor)

        def end(outcome: Outcome, reply: Any) -> None:
            answer = read_answer(reply) if outcome is Outcome.DELIVERED else Answered.UNAVAILABLE
            self._avoid = target if answer is Answered.UNAVAILABLE else ""
            if self.world.tracing:
                said = f"gets {answer.value} for" if reply is not None else "gets no answer to"
                minor = write.kind is WriteKind.BEAT and answer is Answered.OK
                self.world.trace(
                    self.address,
                    f"{said} {write.text}",
                    What.ANSWER,
                    peer=target,
                    incoming=True,
                    keys=(write.key,),
                    minor=minor,
                )
            on_answer(write, answer)

        self.world.network.call(
            self,
            target,
            lambda member, reply: member.http.serve(call, reply),
            CALL_MS_MAX,
            end,
            of_member=False,
            repeats=False,
            about=about,
        )


class SimClient(SimCaller):
    """One instance's client. It registers the instance and sends light beats, until it leaves or falls silent."""

    def __init__(self, world: CallerWorld, number: int, service: str) -> None:
        super().__init__(world, f"client-{number}")
        self.service = service
        self.ip, self.port = f"10.1.{number >> 8}.{number & 255}", 8080
        self.datum_key = datum_key(DEFAULT_NAMESPACE, service)
        self.instance_key = instance_key(self.ip, self.port, DEFAULT_CLUSTER)
        self.wish = Wish.ABSENT
        self.revision = 0
        self.registered = False
        """True once a member acknowledged the present attributes."""
        self.acknowledged_ms: int | None = None
        """The time since which a member's answer says that the instance exists; None once a deregistration began."""
        self._leaving = False
        self._busy = False
        self._next_beat_ms = 0
        self._tries_left = 0

    @property
    def is_due(self) -> bool:
        """True if a list without this instance is wrong: its client has an acknowledgement, and beats."""
        return self.wish is Wish.PRESENT and self.acknowledged_ms is not None

    @property
    def is_gone(self) -> bool:
        """True if the client got the answer that it is deregistered."""
        return self.wish is Wish.ABSENT and not self._leaving

    # --- events ----------------------------------------------------------------------

    def register_as(self, other: SimClient) -> None:
        """Have the service and address of another client, which registers in another cluster."""
        self.service, self.ip, self.port = other.service, other.ip, other.port
        self.datum_key, self.instance_key = other.datum_key, other.instance_key

    def appear(self) -> None:
        """Register, again if necessary, with new attributes."""
        self.wish, self._leaving = Wish.PRESENT, False
        self.revision += 1
        self.registered = False
        self._step()

    def repeat(self, revision: int) -> None:
        """Register once more with the attributes of an earlier time."""
        self.revision, self.registered = revision, False
        self._step()

    def disappear(self) -> None:
        """Deregister, repeatedly until a member acknowledges it."""
        if self.wish is Wish.PRESENT:
            self.wish, self._leaving, self.acknowledged_ms = Wish.ABSENT, True, None
            self._step()

    def die(self) -> None:
        self.wish, self._leaving, self.acknowledged_ms = Wish.SILENT, False, None

    # --- calls ----------------------------------------------------------------------------

    def _step(self) -> None:
        """Make the call that is due, if none is under way."""
        if self._busy:
            return
        if self._leaving:
            self._call(WriteKind.DEREGISTER)
        elif self.wish is not Wish.PRESENT:
            return
        elif not self.registered:
            self._call(WriteKind.REGISTER)
        elif self.world.now_ms >= self._next_beat_ms:
            self._tries_left = len(self.world.addresses)
            self._next_beat_ms = self.world.now_ms + BEAT_INTERVAL_MS
            self._call(WriteKind.BEAT)
            self.world.after(BEAT_INTERVAL_MS, self._step)

    def _call(self, kind: WriteKind) -> None:
        self._busy = True
        self.ask(self.world.write(kind, self.service, self.ip, self.port, self.revision), self._on_answer)

    def _on_answer(self, write: Write, answer: Answered) -> None:
        self._busy = False
        if answer is Answered.UNAVAILABLE:
            self._failed(write)
        else:
            self._answered(write, answer)

    def _answered(self, write: Write, answer: Answered) -> None:
        self.world.checker.answered(write)
        match write.kind:
            case WriteKind.DEREGISTER:
                self._leaving = False
            case WriteKind.REGISTER if self.wish is Wish.PRESENT and write.revision == self.revision:
                self.registered = True
                if self.acknowledged_ms is None:
                    self.acknowledged_ms = self.world.now_ms
                self._next_beat_ms = self.world.now_ms + BEAT_INTERVAL_MS
                self.world.after(BEAT_INTERVAL_MS, self._step)
            case WriteKind.BEAT if answer is Answered.UNKNOWN and self.wish is Wish.PRESENT:
                self.world.trace(self.address, "is unknown and registers again", What.ANSWER, keys=(self.datum_key,))
                self.registered = False
        self._step()

    def _failed(self, write: Write) -> None:
        if write.kind is WriteKind.BEAT and not self._leaving:
            self._tries_left -= 1
            if self._tries_left > 0 and self.registered and self.wish is Wish.PRESENT:
                self._call(WriteKind.BEAT)
                return
        self.world.after(self.world.between(*RETRY_MS), self._step)


class SimOperator(SimCaller):
    """Makes one change after the other to one persistent instance, which others may change, too."""

    def __init__(self, world: CallerWorld, number: int, service: str, ip: str) -> None:
        super().__init__(world, f"operator-{number}")
        self.service, self.ip = service, ip
        self._words: list[tuple[WriteKind, int]] = []
        self._tries_left = 0
        self._busy = False

    @property
    def key(self) -> str:
        return persistent_key(DEFAULT_NAMESPACE, self.service, f"{self.ip}:80:unknown:DEFAULT")

    def put(self) -> None:
        """Register the instance with new attributes."""
        self.world.words += 1
        self._say(WriteKind.REGISTER, self.world.words)

    def remove(self) -> None:
        self._say(WriteKind.DEREGISTER, 0)

    def _say(self, kind: WriteKind, revision: int) -> None:
        self._words.append((kind, revision))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        if self._words:
            self._busy, self._tries_left = True, GIVE_UP_TRIES
            self._try()

    def _try(self) -> None:
        kind, revision = self._words[0]
        self.ask(self.world.write(kind, self.service, self.ip, 80, revision, ephemeral=False), self._on_answer)

    def _on_answer(self, write: Write, answer: Answered) -> None:
        self._tries_left -= 1
        if answer is Answered.UNAVAILABLE and self._tries_left > 0:
            self.world.after(self.world.between(*OPERATOR_RETRY_MS), self._try)
            return
        if answer is Answered.OK:
            self.world.marks["durable word acknowledged"] += 1
            self.world.checker.acknowledged(write, self.key)
        self._words.pop(0)
        self._busy = False
        self._next()
