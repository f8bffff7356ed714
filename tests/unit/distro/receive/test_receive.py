"""What a member does with datums, snapshots and verify rounds of peers, key by key."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import NEVER_MS, Instance, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.replication.instance_list_type import INSTANCE_LIST
from distro.members.mapper import DistroMapper
from distro.model.errors import NotInitialized
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import NO_VERSION, VERSION_NUMBER_MAX, Datum, DistroKey, Received, Version
from distro.receive.receive import RESTORE_MS, RESTORES_MAX, DistroReceiver, ReceiverEvents, VerifyScope
from distro.receive.resolve import ACCEPTED_MAX, ASKED_HEAD_ROOM, HEAD_ROOM
from tests.support.receiver_view import StubView
from tests.support.registry_parts import store_of

SELF, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ME, OTHER, THIRD = f"{SELF}~1", f"{B}~1", f"{C}~1"
MAPPER = DistroMapper.over(SELF, (SELF, B, C))
NAMES = {MAPPER.map_srv(name): name for name in (f"DEFAULT_GROUP@@svc{number}" for number in range(20))}
"""For each member the name of a service that it is responsible for."""


@dataclass
class Events(ReceiverEvents):
    """Keeps the receiver's events."""

    synced: list[str] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    passed_on: list[tuple[str, str]] = field(default_factory=list)
    fetched: list[tuple[str, str]] = field(default_factory=list)

    def sync(self, key: DistroKey) -> None:
        self.synced.append(key.key)

    def claim(self, key: DistroKey, source: str | None = None) -> None:
        self.claimed.append(key.key)
        if source is not None:
            self.passed_on.append((source, key.key))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.fetched += [(peer, key.key) for key in keys]


class Member:
    """A receiver over a real registry."""

    def __init__(self, answers_itself: Callable[[str], bool] = lambda _writer: False) -> None:
        self.registry = Registry.of(ME)
        self.events = Events()
        self.stats = DistroStats()
        self.loading = False
        nothing: Any = None
        component = Component(
            store_of(self.registry, lambda _event: None),
            nothing,
            nothing,
        )
        self.receiver = DistroReceiver(
            ME,
            {INSTANCE_LIST: component},
            StubView(MAPPER, lambda: self.loading, lambda writer: writer.startswith((SELF, B, C)), answers_itself),
            self.events,
            self.stats,
        )

    def register(self, service: str, port: int, now_ms: int = 0) -> None:
        self.registry.writes.register(RegisterInstance(service, "10.1.0.1", port), now_ms)

    def receive(self, sender: str, datum: Datum, *, fetched: bool = False) -> Version | None:
        received = self.receiver.receive(INSTANCE_LIST, sender, [datum], 10, fetched=fetched)
        assert not received.failed
        return received.refused.get(datum.key)

    def summary(self, key: str) -> tuple[Version | None, list[int]]:
        """Version and ports held."""
        service = self.registry.table.find(key)
        ports = sorted(one.instance.port for one in service.stored.values()) if service else []
        return self.registry.lists.version(key), ports


@pytest.fixture
def member() -> Member:
    return Member()


def datum(service: str, version: Version, *ports: int, said: Version | None = None) -> Datum:
    """A datum whose instances were all described at ``said``; at its own version when that is not given."""
    stored_instances = [
        StoredInstance(Instance("10.1.0.1", port, service_name=service), said or version, 0) for port in ports
    ]
    return Datum(
        datum_key("public", service), version, InstanceList({one.instance.key: one for one in stored_instances}, {})
    )


def test_what_was_received_is_taken_and_not_sent_on(member: Member) -> None:
    first, second = Version(1, 0, OTHER), Version(1, 1, OTHER)
    key = datum(NAMES[B], first).key
    assert member.receive(B, datum(NAMES[B], first, 80)) is None
    assert member.receive(B, datum(NAMES[B], second, 81)) is None
    assert member.summary(key) == (second, [81])
    assert member.events == Events()


def test_a_late_copy_is_answered_with_the_stored_version(member: Member) -> None:
    first, second = Version(1, 0, OTHER), Version(1, 1, OTHER)
    member.receive(B, datum(NAMES[B], second, 81))
    assert member.receive(B, datum(NAMES[B], first, 80)) == second
    assert member.receive(B, datum(NAMES[B], second, 81)) is None
    assert member.events == Events()


def test_what_says_nothing_new_is_answered_without_its_value(member: Member) -> None:
    """As ``receive`` answers it."""
    names = [f"{NAMES[B]}{number}" for number in range(4)]
    older, equal, newer, unknown = (datum_key("public", name) for name in names)
    for name in names[:3]:
        member.receive(B, datum(name, Version(1, 2, OTHER), 80))
    sent = {older: Version(1, 1, OTHER), equal: Version(1, 2, OTHER), newer: Version(1, 3, OTHER)}
    known, received = member.receiver.receive_known(INSTANCE_LIST, sent | {unknown: Version(1, 2, OTHER)}, 0)
    assert known == {older, equal}
    assert received == Received({older: Version(1, 2, OTHER)})
    assert (member.stats.received_keys, member.stats.received_refused) == (3 + 2, 1)
    others = {older: Version(1, 2, THIRD), equal: Version(1, 1, f"{B}~another"), newer: Version(0, 1, THIRD)}
    assert member.receiver.receive_known(INSTANCE_LIST, others, 0) == (frozenset(), Received()), "of other writers"


def test_a_new_writer_must_know_what_the_old_one_wrote(member: Member) -> None:
    """Else it is told our version, fetches our state and merges that."""
    old, new = Version(1, 5, THIRD), Version(2, 0, OTHER)
    key = datum(NAMES[B], old).key
    member.receive(C, datum(NAMES[B], old, 80, 81))
    assert member.receive(B, datum(NAMES[B], new, 80, said=Version(1, 5, THIRD))) == old
    assert member.summary(key) == (old, [80, 81])
    assert member.receive(B, datum(NAMES[B], new, 80, 81, said=Version(1, 5, THIRD))) is None
    assert member.summary(key) == (new, [80, 81])


def test_a_removal_counts_as_known_by_its_tombstone(member: Member) -> None:
    old, new = Version(1, 5, THIRD), Version(2, 1, OTHER)
    gone = datum(NAMES[B], old, 80)
    member.receive(C, gone)
    received = datum(NAMES[B], new)
    name = next(iter(gone.value.stored))
    received.value.tombstones[name] = Tombstone(new, 0, 90_000)
    assert member.receive(B, received) is None
    assert member.summary(received.key) == (new, [])
    stale = datum(NAMES[B], Version(3, 0, THIRD), 80, said=old)
    assert member.receive(C, stale) == new, "a writer that does not know of the removal cannot undo it"


@pytest.mark.parametrize("version", [Version(0, 9, OTHER), Version(9, 0, OTHER)])
def test_the_owner_fetches_what_another_wrote_and_merges_that(member: Member, version: Version) -> None:
    """A send may have been under way for long; only the sender's state of today is merged, higher or lower."""
    member.register(NAMES[SELF], 80)
    other = datum(NAMES[SELF], version, 81)
    before = member.summary(other.key)
    assert member.receive(B, other) is None
    assert member.summary(other.key) == before
    assert member.events == Events(fetched=[(B, other.key)])
    assert member.receive(B, other, fetched=True) is None
    after, ports = member.summary(other.key)
    assert ports == [80, 81]
    assert after is not None
    assert after > version
    assert after.writer == ME
    assert member.events.synced == [other.key]


def test_the_owner_takes_what_says_the_same_and_claims_it_in_time(member: Member) -> None:
    """Claiming at once would let two members that disagree on the owner claim in a circle."""
    member.register(NAMES[SELF], 80)
    ours = member.registry.lists.version(datum_key("public", NAMES[SELF]))
    same = datum(NAMES[SELF], Version(9, 0, OTHER), 80, said=ours)
    member.receive(B, same, fetched=True)
    assert member.summary(same.key) == (Version(9, 0, OTHER), [80])
    assert member.events == Events(claimed=[same.key], passed_on=[(B, same.key)])


def test_the_owner_claims_a_key_that_it_first_hears_of_from_another(member: Member) -> None:
    new = datum(NAMES[SELF], Version(1, 0, OTHER), 80)
    member.receive(B, new)
    assert member.summary(new.key) == (Version(1, 0, OTHER), [80])
    assert member.events == Events(claimed=[new.key])


def test_what_the_owner_fetches_and_did_not_know_is_passed_on(member: Member) -> None:
    """R16: its claim may have to wait for a steady view, and the other members not."""
    new = datum(NAMES[SELF], Version(1, 0, OTHER), 80)
    member.receive(B, new, fetched=True)
    assert member.events == Events(claimed=[new.key], passed_on=[(B, new.key)])


@pytest.mark.parametrize("same_view", [True, False])
def test_with_another_view_an_answer_names_all_keys_that_the_source_did_not(member: Member, same_view: bool) -> None:
    """R16: right after a heal nobody may take a member for the owner of a key that one side alone has."""
    for service in NAMES.values():
        member.register(service, 80)
    keys = {owner: datum_key("public", service) for owner, service in NAMES.items()}
    scope = VerifyScope(list(keys.values()), frozenset(), (), is_whole=True, same_view=same_view)
    received = member.receiver.verify(INSTANCE_LIST, B, {}, 0, scope)
    assert received.refused.keys() == ({keys[B]} if same_view else set(keys.values()))


def test_real_nacos_overwrites_its_own_keys_and_ours_are_merged(member: Member) -> None:
    """R8: it sends no versions, and gets no refusal, which it would answer by sending for ever."""
    theirs = datum(NAMES[B], NO_VERSION, 80)
    assert member.receive(B, theirs) is None
    assert member.receive(B, datum(NAMES[B], NO_VERSION, 81)) is None
    version, ports = member.summary(theirs.key)
    assert ports == [81]
    assert version is not None
    assert version.writer == B
    assert member.receive(C, datum(NAMES[B], NO_VERSION, 82)) is None
    assert member.summary(theirs.key) == (version, [81]), "C is not responsible for it"
    member.register(NAMES[SELF], 90)
    assert member.receive(B, datum(NAMES[SELF], NO_VERSION, 91)) is None
    assert member.summary(datum_key("public", NAMES[SELF]))[1] == [90, 91]


def test_a_member_that_loads_takes_nothing_but_snapshots(member: Member) -> None:
    """R7."""
    member.loading = True
    one = datum(NAMES[B], Version(1, 0, OTHER), 80)
    with pytest.raises(NotInitialized):
        member.receiver.receive(INSTANCE_LIST, B, [one], 0)
    with pytest.raises(NotInitialized):
        member.receiver.receive_known(INSTANCE_LIST, {one.key: one.version}, 0)
    with pytest.raises(NotInitialized):
        member.receiver.verify(INSTANCE_LIST, B, {}, 0)
    with pytest.raises(NotInitialized):
        member.receiver.verify_checksums(INSTANCE_LIST, B, {}, 0)
    assert member.receiver.load(INSTANCE_LIST, [one], 0, B) == 1
    assert member.receiver.load(INSTANCE_LIST, [datum(NAMES[B], Version(0, 9, THIRD), 81)], 0, C) == 0
    assert member.summary(one.key) == (Version(1, 0, OTHER), [80])


def test_what_a_snapshot_of_nacos_brings_has_a_version_that_others_can_read(member: Member) -> None:
    """R8: its sender counts as the writer, so that the key can be named in verify rounds and sent on."""
    member.loading = True
    one = datum(NAMES[B], NO_VERSION, 80)
    assert member.receiver.load(INSTANCE_LIST, [one], 0, B) == 1
    version = member.registry.lists.version(one.key)
    assert version is not None
    assert version.writer == B
    assert Version.from_text(version.to_text()) == version


def test_a_snapshot_that_comes_when_the_load_is_over_is_not_used(member: Member) -> None:
    """It would go past the question whether it knows the changes stored here."""
    member.receive(C, datum(NAMES[B], Version(1, 5, THIRD), 80, 81))
    late = datum(NAMES[B], Version(2, 0, OTHER), 80)
    assert member.receiver.load(INSTANCE_LIST, [late], 0, B) == 0
    assert member.summary(late.key) == (Version(1, 5, THIRD), [80, 81])


def test_a_round_fetches_what_is_newer_there_and_names_what_is_newer_here(member: Member) -> None:
    older, newer = (f"DEFAULT_GROUP@@b{number}" for number in range(2))
    member.receive(B, datum(older, Version(1, 0, OTHER), 80))
    member.receive(B, datum(newer, Version(1, 5, OTHER), 80))
    keys = {name: datum_key("public", name) for name in (older, newer, "DEFAULT_GROUP@@unknown")}
    listed = {
        keys[older]: Version(1, 1, OTHER),
        keys[newer]: Version(1, 4, OTHER),
        keys["DEFAULT_GROUP@@unknown"]: Version(1, 0, OTHER),
    }
    received = member.receiver.verify(INSTANCE_LIST, B, listed, 0)
    assert received.refused[keys[newer]] == Version(1, 5, OTHER)
    assert keys[older] not in received.refused
    assert set(member.events.fetched) == {(B, keys[older]), (B, keys["DEFAULT_GROUP@@unknown"])}


def test_one_round_fetches_so_many_keys_at_most(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer may name half a million that nobody has; what is left out differs in the next round, too."""
    monkeypatch.setattr("distro.receive.receive.FETCHED_MAX", 3)
    keys = [datum_key("public", f"DEFAULT_GROUP@@new{number}") for number in range(12)]
    member.receiver.verify(INSTANCE_LIST, B, dict.fromkeys(keys, Version(1, 0, OTHER)), 0)
    assert member.events.fetched == [(B, key) for key in keys[:3]]
    member.events.fetched.clear()
    theirs = [key for key in keys if not MAPPER.responsible(key.rpartition("##")[2])]
    assert len(theirs) > 3
    member.receiver.verify_checksums(INSTANCE_LIST, B, dict.fromkeys(theirs, "0" * 32), 0)
    assert member.events.fetched == [(B, key) for key in theirs[:3]]


def test_a_round_of_another_writer_is_told_of_ours_even_when_it_is_higher(member: Member) -> None:
    """Versions of two writers do not tell who knows what; the one that owns the key is the one to merge."""
    member.receive(C, datum(NAMES[B], Version(1, 5, THIRD), 80))
    key = datum_key("public", NAMES[B])
    received = member.receiver.verify(INSTANCE_LIST, B, {key: Version(2, 0, OTHER)}, 0)
    assert received.refused == {key: Version(1, 5, THIRD)}
    assert member.events.fetched == []


def test_a_round_without_a_key_of_its_sender_is_told_of_it_and_nothing_is_deleted(member: Member) -> None:
    member.receive(B, datum(NAMES[B], Version(1, 0, OTHER), 80))
    member.receive(C, datum(NAMES[C], Version(1, 0, THIRD), 80))
    received = member.receiver.verify(INSTANCE_LIST, B, {}, 10**9)
    assert received.refused == {datum_key("public", NAMES[B]): Version(1, 0, OTHER)}
    assert member.summary(datum_key("public", NAMES[B]))[1] == [80]


@pytest.mark.parametrize("has_removal", [True, False])
def test_a_spent_key_that_its_owner_forgot_is_forgotten(member: Member, has_removal: bool) -> None:
    """Where removals came with it, these have to be over first, and the slack after them."""
    key, version = datum_key("public", NAMES[B]), Version(1, 3, OTHER)
    removals = {"10.1.0.1#80#DEFAULT": Tombstone(version, 0, 60_000)} if has_removal else {}
    member.receive(B, Datum(key, version, InstanceList({}, removals)))
    told = member.receiver.verify(INSTANCE_LIST, B, {}, 50_000).refused
    assert (told, member.registry.lists.version(key)) == (({key: version}, version) if has_removal else ({}, None))


def test_ages_of_what_is_taken_prove_nothing(member: Member) -> None:
    one = datum(NAMES[B], Version(1, 0, OTHER), 80)
    member.receive(B, one)
    service = member.registry.table.find(one.key)
    assert service is not None
    assert {one.last_confirmed_ms for one in service.stored.values()} == {NEVER_MS}


def test_what_is_asked_for_is_served(member: Member) -> None:
    member.register(NAMES[SELF], 80)
    member.receive(B, datum(NAMES[B], Version(1, 0, OTHER), 80))
    keys = {datum_key("public", NAMES[SELF]), datum_key("public", NAMES[B])}
    assert {one.key for one in member.receiver.serve(INSTANCE_LIST, None)} == keys
    assert [one.key for one in member.receiver.serve(INSTANCE_LIST, [datum_key("public", NAMES[B]), "x"])] == [
        datum_key("public", NAMES[B])
    ]


# --- versions that no member gave (R10) -----------------------------------------------------------


def failure(member: Member, sent: Datum, sender: str = B) -> str | None:
    received = member.receiver.receive(INSTANCE_LIST, sender, [sent], 10)
    assert not received.refused
    return received.failed.get(sent.key)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (Version(2 * HEAD_ROOM + 2, 0, OTHER), "too far above"),
        (Version(1, 999_999_999_999_999, OTHER), "too far above"),
        (Version(VERSION_NUMBER_MAX, 0, OTHER), "too far above"),
        (Version(1, ACCEPTED_MAX + 1, OTHER), "too far above"),
        (Version(1, 1, "10.0.0.9:8848~1"), "of no member"),
    ],
)
def test_a_version_that_no_member_gave_fails_alone(version: Version, reason: str) -> None:
    member = Member()
    member.register(NAMES[SELF], 80)
    before = member.registry.lists.versions()
    assert before == {datum_key("public", NAMES[SELF]): Version(1, 0, ME)}
    assert member.receive(B, datum(NAMES[B], Version(1, 0, OTHER))) is None
    for name in (NAMES[B], NAMES[SELF], NAMES[C], "DEFAULT_GROUP@@new"):
        assert reason in (failure(member, datum(name, version)) or "")
    assert member.registry.lists.versions() == before | {datum_key("public", NAMES[B]): Version(1, 0, OTHER)}
    assert failure(member, datum(NAMES[B], Version(1, 1, OTHER))) is None, "what its writer sends next is taken"


def test_each_accepted_epoch_makes_room_for_higher_ones() -> None:
    member = Member()
    for step in range(1, 4):
        assert failure(member, datum(NAMES[B], Version(step * 2 * HEAD_ROOM, 0, OTHER))) is None
    assert failure(member, datum(NAMES[C], Version(8 * HEAD_ROOM + 1, 0, THIRD)), C) is not None


@pytest.mark.parametrize("given", [Version(1, 3, ME), Version(2, 0, ME), Version(1, 999_999_999_999_999, ME)])
def test_a_version_of_this_run_that_it_did_not_give_is_claimed_above(given: Version) -> None:
    """By now others may hold that state: they must take what this run gives next."""
    member = Member()
    member.register(NAMES[SELF], 80)
    mine = own(member, NAMES[SELF])
    assert "did not assign" in (failure(member, datum(NAMES[SELF], given, 81)) or "")
    assert member.summary(mine.key) == (given.next_epoch(ME), [80])
    assert member.events.synced == [mine.key]


def test_a_version_of_this_run_so_high_that_nobody_takes_it_is_not_claimed() -> None:
    member = Member()
    member.register(NAMES[SELF], 80)
    mine = own(member, NAMES[SELF])
    assert "did not assign" in (failure(member, datum(NAMES[SELF], Version(VERSION_NUMBER_MAX, 0, ME))) or "")
    assert own(member, NAMES[SELF]).version == mine.version


def test_a_key_that_another_holds_as_of_this_run_is_emptied(member: Member) -> None:
    """It is unknown here: a peer that was asked for it holds what this run never wrote."""
    forged = datum(NAMES[SELF], Version(1, 3, ME), 81)
    assert "did not assign" in (failure(member, forged) or "")
    assert member.registry.lists.version(forged.key) is None, "perhaps nobody holds it"
    received = member.receiver.receive(INSTANCE_LIST, B, [forged], 10, fetched=True)
    assert "did not assign" in received.failed[forged.key]
    assert member.summary(forged.key) == (Version(2, 0, ME), [])
    assert member.events.synced == [forged.key]


def test_a_run_that_answers_is_asked_itself_for_what_another_tells_of_it() -> None:
    member = Member(answers_itself={OTHER}.__contains__)
    assert member.receive(B, datum(NAMES[B], Version(1, 5, OTHER), 80)) is None
    told = datum(NAMES[B], Version(1, 6, OTHER), 81)
    for fetched in (False, True):
        received = member.receiver.receive(INSTANCE_LIST, C, [told], 10, fetched=fetched)
        assert "asked itself" in received.failed[told.key]
    assert member.summary(told.key) == (Version(1, 5, OTHER), [80])
    assert member.events.fetched == [(B, told.key)] * 2
    assert member.receive(B, told) is None
    assert member.summary(told.key) == (Version(1, 6, OTHER), [81])


def test_after_a_pause_one_peer_tells_of_the_runs_of_all_others() -> None:
    """A read is answered once one peer was asked, and must show what third members wrote meanwhile."""
    member = Member(answers_itself={OTHER}.__contains__)
    assert member.receive(B, datum(NAMES[B], Version(1, 5, OTHER), 80)) is None
    told = datum(NAMES[B], Version(1, 6, OTHER), 81)
    received = member.receiver.receive(INSTANCE_LIST, C, [told], 10, fetched=True, catching_up=True)
    assert (received.failed, received.refused) == ({}, {})
    assert member.summary(told.key) == (Version(1, 6, OTHER), [81])


def test_an_owner_takes_what_it_fetched_whoever_wrote_it() -> None:
    """It claims what comes of it."""
    member = Member(answers_itself={OTHER}.__contains__)
    assert member.receive(C, datum(NAMES[SELF], Version(1, 6, OTHER), 81), fetched=True) is None
    assert member.events.claimed == [datum_key("public", NAMES[SELF])]


def test_a_state_that_this_run_gave_and_forgot_is_taken_again() -> None:
    member = Member()
    member.register(NAMES[B], 80)
    [own] = member.registry.lists.datums([datum_key("public", NAMES[B])])
    member.registry.upkeep.forget(own.key)
    assert failure(member, own) is None
    assert member.registry.lists.version(own.key) == own.version


def test_a_snapshot_may_have_any_epoch_that_has_successors() -> None:
    member = Member()
    member.loading = True
    high = datum(NAMES[B], Version(ASKED_HEAD_ROOM, 0, OTHER))
    higher = datum(NAMES[C], Version(2 * ASKED_HEAD_ROOM + 1, 0, OTHER))
    assert member.receiver.load(INSTANCE_LIST, [high, higher], 10, B) == 1
    member.loading = False
    assert member.registry.lists.versions() == {high.key: high.version}


def own(member: Member, service: str) -> Datum:
    [found] = member.registry.lists.datums([datum_key("public", service)])
    return found


def test_an_owner_that_fetched_another_state_of_its_version_sends_its_own_anew(member: Member) -> None:
    member.register(NAMES[SELF], 80)
    mine = own(member, NAMES[SELF])
    other = datum(NAMES[SELF], mine.version, 80, 81)
    assert member.receive(B, other) is None
    assert member.events.synced == [], "a datum that was sent may be late"
    assert member.receive(B, other, fetched=True) is None
    assert member.events.synced == [mine.key]
    assert member.summary(mine.key) == (mine.version.next(ME), [80])
    assert member.receive(B, other, fetched=True) == mine.version.next(ME), "twice"
    assert (member.events.synced, member.stats.reissued) == ([mine.key], 1)


def test_a_copy_of_the_owners_version_is_left_to_the_owner(member: Member) -> None:
    version = Version(1, 3, OTHER)
    member.receive(B, datum(NAMES[B], version, 80))
    assert member.receive(C, datum(NAMES[B], version, 80, 81), fetched=True) is None
    assert member.summary(datum_key("public", NAMES[B])) == (version, [80])
    assert member.events == Events()


def test_what_an_owner_lost_is_restored_from_the_peer_that_was_named_and_once(member: Member) -> None:
    member.register(NAMES[SELF], 80)
    mine = own(member, NAMES[SELF])
    key = DistroKey(INSTANCE_LIST, mine.key)
    old = datum(NAMES[SELF], Version(0, 9, ME), 80, 81)
    member.receiver.restore(B, [key], 0)
    assert member.receive(C, old, fetched=True) == mine.version
    assert member.receive(B, old) == mine.version, "it was not fetched"
    assert member.summary(mine.key) == (mine.version, [80])
    assert member.receive(B, old, fetched=True) == mine.version
    assert member.summary(mine.key)[1] == [80, 81]
    member.registry.writes.remove("public", NAMES[SELF], "10.1.0.1:81:unknown:DEFAULT", 10)
    member.registry.upkeep.prune_tombstones(member.registry.table.find(mine.key), 10_000_000)  # type: ignore[arg-type]
    member.receive(B, old, fetched=True)
    assert member.summary(mine.key)[1] == [80]


def test_nothing_is_sent_anew_before_the_peer_that_was_named_has_answered(member: Member) -> None:
    """It would drop what the owner is to take back from it."""
    member.register(NAMES[SELF], 80)
    mine = own(member, NAMES[SELF])
    member.receiver.restore(B, [DistroKey(INSTANCE_LIST, mine.key)], 0)
    member.receive(C, datum(NAMES[SELF], mine.version, 80, 81), fetched=True)
    assert (member.summary(mine.key), member.events.synced) == ((mine.version, [80]), [])
    member.receive(B, datum(NAMES[SELF], mine.version, 80, 82), fetched=True)
    assert member.summary(mine.key) == (mine.version.next(ME), [80, 82])
    member.receive(C, datum(NAMES[SELF], mine.version.next(ME), 80, 81), fetched=True)
    assert member.summary(mine.key) == (mine.version.next(ME).next(ME), [80, 82])


def test_an_answer_that_comes_too_late_restores_nothing(member: Member) -> None:
    member.register(NAMES[SELF], 80)
    mine = own(member, NAMES[SELF])
    member.receiver.restore(B, [DistroKey(INSTANCE_LIST, mine.key)], 10 - RESTORE_MS)
    member.receive(B, datum(NAMES[SELF], Version(0, 9, ME), 80, 81), fetched=True)
    assert member.summary(mine.key) == (mine.version, [80])


def test_so_many_restores_wait_at_most(member: Member) -> None:
    member.register(NAMES[SELF], 80)
    mine = own(member, NAMES[SELF])
    member.receiver.restore(B, [DistroKey(INSTANCE_LIST, mine.key)], 0)
    member.receiver.restore(B, [DistroKey(INSTANCE_LIST, f"k{number}") for number in range(RESTORES_MAX)], 0)
    member.receive(B, datum(NAMES[SELF], Version(0, 9, ME), 80, 81), fetched=True)
    assert member.summary(mine.key) == (mine.version, [80])
