"""Operators in virtual time, who set and remove one persistent instance each, and checks of such instances' health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.nacos_errors import StorageError
from app.naming.records.record_keys import PersistentKey, parse_record_key, persistent_key
from app.tools.simulation.member.client_writes import Answered, Write, WriteKind
from app.tools.simulation.world.sim_clients import SimCaller

if TYPE_CHECKING:
    from app.tools.simulation.member.member import SimMember
    from app.tools.simulation.world.world import World

RETRY_MS = (50, 800)
GIVE_UP_TRIES = 6
"""The number of times that an operator repeats a refused call."""


class SimOperator(SimCaller):
    """Makes one change after the other to one persistent instance, which others may change, too."""

    def __init__(self, world: World, number: int, service: str, ip: str) -> None:
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
            self.world.after(self.world.between(*RETRY_MS), self._try)
            return
        if answer is Answered.OK:
            self.world.marks["durable word acknowledged"] += 1
            self.world.checker.acknowledged(write, self.key)
        self._words.pop(0)
        self._busy = False
        self._next()


def live_durably(world: World, instances: int, span_ms: int) -> None:
    """Let two operators change each persistent instance, and checks flip the health of some."""
    for number in range(instances):
        service = f"DEFAULT_GROUP@@durable{number % 3}"
        for _ in range(2):
            operator = world.add_operator(service, f"10.2.0.{number}")
            for _ in range(world.between(1, 5)):
                say = operator.put if world.chance(0.65) else operator.remove
                world.after(world.between(1_000, span_ms), say)
    for _ in range(instances * 2):
        world.after(world.between(10_000, span_ms), lambda: flip_by_check(world))


def flip_by_check(world: World, *, parted: SimMember | None = None) -> None:
    """Let a check of one member, other than ``parted``, flip the health of an instance that it is responsible for."""
    member = world.any_member()
    if member is parted:
        return
    keys = [key for key in member.records.versions() if _is_checked(member, key)] if member.serving else []
    if keys:
        key = world.choice(keys)
        member.disk.put(lambda: None, lambda: _flip(member, key))


def _is_checked(member: SimMember, key: str) -> bool:
    record_key = parse_record_key(key)
    is_live = isinstance(record_key, PersistentKey) and member.records.value(key) is not None
    return is_live and member.membership.responsible_durable(member.records.tag(key))


def _flip(member: SimMember, key: str) -> None:
    value, record_key = member.records.value(key), parse_record_key(key)
    if value is None or not isinstance(record_key, PersistentKey):
        return
    try:
        member.durable.set_health(
            record_key.namespace, record_key.full_name, record_key.instance_key, not value["healthy"], by_check=True
        )
    except StorageError:
        return
    member.world.marks["health flipped by a check"] += 1
