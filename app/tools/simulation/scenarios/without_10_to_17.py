"""As ``without``: members that lack one of the rules R10 to R17 each, or a part of it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from app.naming.health.beat_check import BeatCheck, HealthCheckGate
from app.naming.model.model import NEVER_MS, StoredInstance, Tombstone
from app.naming.records.record import Value
from app.naming.records.records import Records
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.local_writes import LocalWrites, Replaced
from app.naming.registry.operations import RegisterInstance, key_of
from app.tools.simulation.member.member import SimMember, SimMembership
from app.tools.simulation.member.sim_runtime import SimRuntime
from app.tools.simulation.member.watched_parts import WatchedRecords
from app.tools.simulation.scenarios.without import CopiesProveLife, LateCopiesCount, UndatedMembership
from app.tools.simulation.world.sim_connections import ConnectedMember
from distro.members.members import MemberList
from distro.members.members_view import MembersView
from distro.members.reachability import MemberRules
from distro.model.types import Action, Claim, Datum, LocalAction, Merged
from distro.protocol.protocol import DistroProtocol
from distro.protocol.protocol_parts import ProtocolRules
from distro.receive.receive import DistroReceiver
from distro.receive.resolve import VersionCheck

LONG_MS = 1 << 40
SECOND_MS = 1_000


# --- R10


class AnyVersion(VersionCheck):
    def check(self, *_of: Any, **_how: Any) -> None:
        pass


class VersionsUnchecked(SimMember):
    """R10 off: every received version counts."""

    receiver_class = partial(DistroReceiver, version_check=AnyVersion)


# --- R11


class ClaimsInTheTickRuntime(SimRuntime):
    def execute_here(self, action: LocalAction) -> None:
        if not isinstance(action, Claim):
            super().execute_here(action)
            return
        member, unfinished, claimed = self.member, True, 0
        before_us = member.spent_us()
        while unfinished:
            event = self.local_actions.run(action, member.clock.monotonic_ms())
            claimed, unfinished = claimed + self.claimer.claimed, self.claimer.unfinished
            action = replace(action, all_keys=False, keys=())
            self.mailbox.put(event)
        taken_ms = (member.spent_us() - before_us) / 1_000
        member.note_tick(taken_ms)
        member.stand_still(claimed * member.claim_ms + round(taken_ms))


class ClaimsInTheTick(SimMember):
    """R11 off: the engine's thread itself claims all keys, and does nothing else in the meantime."""

    runtime_class = ClaimsInTheTickRuntime


# --- R12


class DirectContactOnly(SimMember):
    """R12 off: each member decides only by its own observations who carries keys."""

    members_class = partial(MemberList, rules=MemberRules(hears_others=False))


class NoRelayView(MembersView):
    def next_hop(self, address: str, now_ms: int) -> str | None:
        return address


class NoRelayMembers(MemberList):
    view_class = NoRelayView


class NoRelay(SimMember):
    """A write for an owner that a member cannot call is not relayed."""

    members_class = NoRelayMembers


class SelfConfidentView(MembersView):
    def cut_off_since_ms(self, now_ms: int) -> int | None:
        return None


class SelfConfidentMembers(MemberList):
    view_class = SelfConfidentView


class JudgesAlone(SimMember):
    """A member that hears nothing of the others expires instances that the others heard of."""

    members_class = SelfConfidentMembers


# --- R13


class PatientMembership(SimMembership):
    def is_over(self, deadline: str) -> bool:
        return False

    def left_ms(self, deadline: str) -> int:
        return LONG_MS


class LateCallsCount(SimMember):
    """R13 off: a call is executed at any time of arrival."""

    membership_class = PatientMembership


class WaitingCallsCount(SimMember):
    """Calls that waited while the process was paused are executed."""

    notices_pauses = False


class PatientUndatedMembership(PatientMembership, UndatedMembership):
    pass


class LateUndated(LateCallsCount):
    """The ages in a copy count from its arrival, however late it comes."""

    membership_class = PatientUndatedMembership


class LateCopiesProveLife(LateUndated, CopiesProveLife):
    """As ``CopiesProveLife``, where copies are taken however late they come."""


class LateWholeCalls(LateCallsCount):
    """As ``LateCallsCount``, where what arrives late is a whole list."""

    sends_deltas = False


class LateMergedCopies(LateUndated, LateCopiesCount):
    """As ``LateCopiesCount``, where copies are taken however late they come."""

    sends_deltas = False


# --- R14


class CheckedWords(WatchedRecords):
    def put_all(
        self,
        changes: Mapping[str, Callable[[Value | None], Value | None]],
        *,
        said: Collection[str] = (),
        force: bool = False,
        by_check: bool = False,
    ) -> list[str]:
        if not by_check:
            return super().put_all(changes, said=said, force=force)
        return Records.put_all(self, changes, said=said, force=force, by_check=False)


class ChecksSpeak(SimMember):
    """R14 off: the result of a health check counts as a client's write."""

    records_class = CheckedWords


class RepeatsUnsaidWrites(LocalWrites):
    def register(self, command: RegisterInstance, now_ms: int, key: str = "") -> Replaced | None:
        service = self._table.get(command.namespace, command.service)
        old = service.stored.get(key_of(command)) if service is not None else None
        said_ms = old.changed_ms if old is not None else NEVER_MS
        replaced = super().register(command, now_ms, key)
        if replaced is None and old is not None:
            old.changed_ms = said_ms
        return replaced


class RepeatsUnsaid(SimMember):
    """R14 off: a registration that repeats the stored state counts as a beat, not as a write."""

    writes_class = RepeatsUnsaidWrites


# --- R15


class VagueReplication(ListReplication):
    """A merge compares a write and a removal of the same second by their versions."""

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        service = self._table.find(datum.key)
        if service is not None:
            _blur(service.stored.values(), datum.value.tombstones)
            _blur(datum.value.stored.values(), service.tombstones)
        return super().merge(datum, now_ms)


def _blur(instances: Iterable[StoredInstance], tombstones: Mapping[str, Tombstone]) -> None:
    """Date these instances as the removals that higher versions outvote, if both are of the same second."""
    for one in instances:
        found = tombstones.get(one.instance.key)
        if found is not None and abs(one.changed_ms - found.at_ms) < SECOND_MS and one.client_version > found.version:
            one.changed_ms = found.at_ms + SECOND_MS


class VagueRemovals(SimMember):
    """R15 off: of a write and a removal of the same second the higher version counts."""

    replication_class = VagueReplication


class TracelessWrites(LocalWrites):
    def remove(
        self, namespace: str, full_name: str, key: str, now_ms: int, beat_ms: int | None = None
    ) -> Replaced | None:
        service = self._table.get(namespace, full_name)
        is_known = service is not None and (key in service.stored or key in service.retained)
        return super().remove(namespace, full_name, key, now_ms, beat_ms) if is_known else None


class NoTraces(SimMember):
    """R15 off: the deregistration of an unknown instance changes nothing."""

    writes_class = TracelessWrites


class ExpiryWinsReplication(ListReplication):
    """A merge takes a removal of a later version, even if beats arrived since."""

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        service = self._table.find(datum.key)
        for one in service.stored.values() if service is not None else ():
            one.last_confirmed_ms = NEVER_MS
        return super().merge(datum, now_ms)


class ExpiryWins(JudgesAlone):
    replication_class = ExpiryWinsReplication


# --- R16


class JoinsUnseen(SimMember):
    """R16 off: only a member seen in this run waits after a heal."""

    members_class = partial(MemberList, rules=MemberRules(waits_apart=False))


class RefusalsUnseenCheck(BeatCheck):
    def tick(self, now_ms: int, ask_gate: Callable[[], HealthCheckGate]) -> int:
        return super().tick(now_ms, lambda: replace(ask_gate(), refused_ms=NEVER_MS))


class RefusalsAreSilence(SimMember):
    """A member counts the silence of clients whose beats are refused by its own will, or another member's."""

    beat_check_class = RefusalsUnseenCheck


def waits_to_rejoin(members: MembersView, peer: str, now_ms: int) -> bool:
    """Return whether this member or the peer waits until it carries keys again."""
    return bool(members.own_rejoin_delay_ms(now_ms) or members.rejoin_delay_for(peer, now_ms))


class ExchangesLaterProtocol(DistroProtocol):
    def tick(self, now_ms: int, ran_ms: int = 0) -> tuple[list[Action], int]:
        actions, due_ms = super().tick(now_ms, ran_ms)
        return actions, max(due_ms, now_ms + 50)  # waiting sends are due all the time


class ExchangesLater(SimMember):
    """R16 off: members exchange nothing with a peer while one of the two waits."""

    rules = ProtocolRules(holds_back=waits_to_rejoin)
    protocol_class = ExchangesLaterProtocol


# --- R17


class RemovesItsClients(ConnectedMember):
    """R17 off: a leaving member removes the instances of its clients."""

    def leave(self) -> None:
        for client in self.native():
            self.connections.own.disconnect(client.client_id)
        super().leave()
