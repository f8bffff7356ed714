"""Members that lack one rule or one healer each. Production code has no switch for any of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.members.member_reports import MemberReports
from app.members.reports import OWN_FIELD
from app.naming.health.beat_check import BeatCheck
from app.naming.model.model import Service, StoredInstance
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.list_state import ListState
from app.tools.simulation.member.member import SimMember, SimMembership
from app.tools.simulation.member.member_frontend import SimForwarder
from distro.engine.peer_sends import PeerSends
from distro.model.ports import Component
from distro.model.stores import DeltaStore, DistroStore
from distro.model.types import (
    Datum,
    DistroKey,
    Merged,
    Received,
    SyncData,
    Version,
)
from distro.protocol.protocol_parts import ProtocolRules
from distro.receive.receive import DistroReceiver, OnceStored

NEVER_MS = 1 << 60


class NoVerify(SimMember):
    """No checksum rounds, and nothing is fetched that waits for a member: what a send does not bring stays away."""

    rules = ProtocolRules(verifies=False)


class NoSends(SimMember):
    """No change is sent: only verify rounds replicate it."""

    rules = ProtocolRules(sends_changes=False)


class NothingSent(NoVerify):
    """Verify rounds are off as well."""

    rules = ProtocolRules(verifies=False, sends_changes=False)


class WholeListsReports(MemberReports):
    def own_report(self, *asked: Any) -> dict[str, Any]:
        report = super().own_report(*asked)
        del report["extendInfo"][OWN_FIELD]["wire"]
        return report


class Earlier(SimMember):
    """A member of the release before: it does not know digests, and names all its keys in verify rounds."""

    def reports_class(self) -> type[MemberReports]:
        return WholeListsReports if self.is_earlier(self.address) else MemberReports

    def protocol_rules(self) -> ProtocolRules:
        return ProtocolRules(compares_digests=not self.is_earlier(self.address))

    @staticmethod
    def is_earlier(_address: str) -> bool:
        return True


class NoRetry(SimMember):
    """Failed sends are not repeated, and there are no checksum rounds."""

    rules = ProtocolRules(verifies=False, repeats_sends=False)


class LastArrivalReceiver(DistroReceiver):
    def receive_known(
        self, _type: str, _versions: Mapping[str, Version], _now_ms: int
    ) -> tuple[frozenset[str], Received]:
        return frozenset(), Received()

    def receive_one(
        self, key: DistroKey, sender: str, datum: Datum, now_ms: int, once_stored: OnceStored, *, fetched: bool
    ) -> Version | None:
        component = self._components[key.resource_type]
        stored = component.store.version(datum.key)
        assert component.store.apply(datum, stored, now_ms)
        self.observer.decided(key, sender, datum.version, stored, "no rule", "the last arrival wins", "applied")
        return None


class NoFetchForwarder(SimForwarder):
    def fetch_datum(self, member: str, key: str, deadline_s: float) -> None:
        pass


class NoVersions(NoVerify):
    """The last arrival wins, as with real Nacos, and there are no checksum rounds.

    Deltas, and fetches of keys that a forwarded write changed, are off as well: an answer to these would be an arrival
    beside those of the sends, which only versions put in order.
    """

    receiver_class = LastArrivalReceiver
    forwarder_class = NoFetchForwarder

    def reports_class(self) -> type[MemberReports]:
        return WholeListsReports


class BoldSends(PeerSends):
    def ended(self, action: SyncData, sent: Iterable[Datum], received: Received | None) -> Received:
        return super().ended(action, sent, received or Received())


class AssumesArrival(NoVerify):
    """A member assumes that a peer has every sent datum, and there are no checksum rounds."""

    sends_class = BoldSends


class AnyBaseDeltas:
    """The deltas of a store, which apply to any stored state."""

    def __init__(self, store: DistroStore, deltas: DeltaStore) -> None:
        self._store = store
        self._deltas = deltas
        self.delta, self.claim_delta = deltas.delta, deltas.claim_delta

    def apply_delta(self, datum: Datum, now_ms: int) -> bool:
        stored = self._store.version(datum.key)
        return self._deltas.apply_delta(replace(datum, base=stored) if stored is not None else datum, now_ms)


class AnyBase(AssumesArrival):
    """R5 off: a delta is applied to any stored state."""

    def component(self, resource_type: str, made: Component) -> Component:
        made = super().component(resource_type, made)
        return made if made.deltas is None else replace(made, deltas=AnyBaseDeltas(made.store, made.deltas))


class ManyInFlight(NoVersions):
    """A send does not wait for the one before it, and the last arrival wins."""

    rules = ProtocolRules(verifies=False, calls_one_by_one=False)


class UpAtOnce(SimMember):
    """R7 off: a member claims, verifies and answers clients before it has taken over what the others hold."""

    rules = ProtocolRules(loads=False)


class PausesUnseenCheck(BeatCheck):
    def __init__(self, *parts: Any, **bounds: Any) -> None:
        super().__init__(*parts, **(bounds | {"pause_ms": NEVER_MS}))


class PausesUnseen(SimMember):
    """R9 off: a pause counts as silence of everybody else."""

    rules = ProtocolRules(notices_pauses=False)
    beat_check_class = PausesUnseenCheck


class NoSecondLoad(SimMember):
    """After a pause in which removals may have been forgotten, a member continues with its old data."""

    rules = ProtocolRules(loads_again=False)


class ForgetfulLists(ListState):
    def replace_by_tombstone(
        self, service: Service, key: str, stored: StoredInstance, now_ms: int, beat_ms: int | None = None
    ) -> None:
        super().replace_by_tombstone(service, key, stored, now_ms, beat_ms)
        service.tombstones.clear()


class NoTombstones(SimMember):
    """Removals are not remembered."""

    lists_class = ForgetfulLists


class StrictLists(ListState):
    def raise_version(self, service: Service, now_ms: int, key: str = "") -> None:
        super().raise_version(service, now_ms, key)
        service.claimed_ms = -NEVER_MS

    def swap(self, key: str, expected: Version | None, version: Version, value: Any, now_ms: int) -> bool:
        swapped = super().swap(key, expected, version, value, now_ms)
        if (service := self._table.find(key)) is not None:
            service.claimed_ms = -NEVER_MS
        return swapped


class NoGrace(SimMember):
    """A member that takes a service over checks health at once, by the beat times of its copy."""

    lists_class = StrictLists


class TrustingReplication(ListReplication):
    def is_covered(self, datum: Datum) -> bool:
        return True


class RoundsInTurn(SimMember):
    """A change of the view begins no verify round: the next one in turn finds what a send missed."""

    rules = ProtocolRules(compares_new_views=False)


class NoCoverage(RoundsInTurn):
    """Another writer's higher version is accepted, even if it lacks writes."""

    replication_class = TrustingReplication


class CredulousLists(ListState):
    def swap(self, key: str, expected: Version | None, version: Version, value: Any, now_ms: int) -> bool:
        for stored in value.stored.values():
            stored.last_confirmed_ms = stored.beat_ms
        return super().swap(key, expected, version, value, now_ms)


class UndatedMembership(SimMembership):
    def sent_ms(self, member: str, clock: str | None) -> int:
        return super().sent_ms(member, None)


class Undated(SimMember):
    """The ages in a copy count from its arrival, though it may have been under way for long."""

    membership_class = UndatedMembership


class CopiesProveLife(Undated):
    """The time of the last beat in such a copy outweighs a removal."""

    lists_class = CredulousLists


class HigherWinsReplication(ListReplication):
    def merge(self, datum: Datum, now_ms: int) -> Merged:
        stored = self._lists.version(datum.key)
        if stored is not None and datum.version < stored:
            return Merged.NOTHING
        return Merged.TAKEN if self.apply(datum, stored, now_ms) else Merged.NOTHING


class NoMerge(SimMember):
    """The owner takes a higher version and ignores a lower one, without a merge."""

    replication_class = HigherWinsReplication


class NoFetchReceiver(DistroReceiver):
    def receive(
        self,
        resource_type: str,
        sender: str,
        datums: Iterable[Datum],
        now_ms: int,
        *,
        fetched: bool = False,
        catching_up: bool = False,
    ) -> Received:
        return super().receive(resource_type, sender, datums, now_ms, fetched=True, catching_up=catching_up)


class LateCopiesCount(Undated):
    """The owner merges what arrives, though it may have been under way for long."""

    receiver_class = NoFetchReceiver
