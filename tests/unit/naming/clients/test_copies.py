"""Copies of clients that are connected to peers: brought in line with what comes, confirmed, expired, removed."""

from collections.abc import Callable, Collection, Sequence
from itertools import repeat

import pytest

from app.naming.clients import removals
from app.naming.clients.client_model import (
    ClientBounds,
    ClientInfo,
    ClientSnapshot,
    ClientState,
    info_of,
)
from app.naming.clients.clients import ClientExpiry, build_clients
from app.naming.clients.own_clients import instance_of
from app.naming.model.events import (
    ClientDisconnect,
    ClientWithdrawn,
    Event,
    ServiceChanged,
)
from app.naming.model.model import Publication
from app.naming.model.nacos_errors import ClientGone, InvalidParam, Unavailable
from app.naming.registry.operations import RegisterInstance, Shared
from app.naming.registry.registry import Registry
from distro.model.types import NO_VERSION, Version
from tests.support.registry_parts import naming_of

ID = "1700000000000_10.1.2.3_51234"
INFO = ClientInfo(ID, "10.1.2.3", 51234, "shop", "sdk")
PEER = "p:1~1"
A, B, C = (("public", f"G@@{name}") for name in "abc")


def nobody(_writer: str) -> bool:
    return False


class Bed:
    def __init__(self, bounds: ClientBounds | None = None, expiry_ms: int = 180_000) -> None:
        self.now_ms = 1_000
        self.events: list[Event] = []
        self.over = set[str]()
        self.registry = Registry.of("m:1~1")
        self.naming = naming_of(self.registry, lambda: self.now_ms, self.events.append)
        self.clients = build_clients(
            self.registry,
            lambda: self.now_ms,
            lambda: 5_000,
            self.events.append,
            bounds,
            expiry_ms=expiry_ms,
            is_handing_over=self.over.__contains__,
        )

    def take(self, revision: int, *services: tuple[str, str], port: int = 80, dated: bool = True) -> bool:
        state = ClientState(ID, revision, {key: published(key, port) for key in services}, dated)
        snapshot = ClientSnapshot(Version(1, revision, PEER), INFO, state)
        return self.clients.copies.take(snapshot, ID, self.clients.table.version(ID))

    def remove(self, revision: int) -> bool:
        return self.clients.copies.take(
            ClientSnapshot(Version(1, revision, PEER), None, None), ID, self.clients.table.version(ID)
        )

    def told(self) -> list[Event]:
        events, self.events[:] = list(self.events), []
        return [one for one in events if not isinstance(one, ClientWithdrawn)]

    def expire(self, now_ms: int, has_left: Callable[[str], bool], late_ms: int = 0) -> Collection[str]:
        return ClientExpiry(self.clients.own, self.clients.copies, has_left, 2_000).expire(now_ms, late_ms)

    def ports(self, key: tuple[str, str]) -> list[int]:
        view = self.naming.service_view(*key)
        return [one.port for one in view.instances] if view else []


def published(key: tuple[str, str], *ports: int, at_ms: int = 7) -> Publication:
    commands = [RegisterInstance(key[1], "10.1.2.3", port, namespace=key[0]) for port in ports]
    made = [instance_of(command, repeat(0), Shared()) for command in commands]
    return Publication({one.key: one for one in made}, False, at_ms, NO_VERSION)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def changes(*services: tuple[str, str], gone: Sequence[tuple[str, str]] = ()) -> list[Event]:
    return [ServiceChanged(*key) for key in (*gone, *services)]


def test_a_copy_is_brought_in_line_with_what_comes(bed: Bed) -> None:
    assert bed.take(1, A, B)
    assert bed.told() == changes(A, B)
    assert (bed.ports(A), bed.ports(B)) == ([80], [80])
    client = bed.clients.table.client(ID)
    assert client is not None
    assert not client.native
    assert client.info == INFO
    assert bed.take(2, B, C)
    assert bed.told() == changes(C, gone=[A]), "what stayed the same is no event"
    assert (bed.ports(A), bed.ports(B), bed.ports(C)) == ([], [80], [80])
    assert bed.take(3, B, C, port=81)
    assert bed.told() == changes(B, C)
    assert bed.ports(B) == [81]
    assert bed.clients.table.version(ID) == Version(1, 3, PEER)
    assert (client.revision, client.instances) == (3, 2)


def test_nothing_is_put_in_the_place_of_what_is_not_expected(bed: Bed) -> None:
    bed.take(2, A)
    bed.told()
    snapshot = ClientSnapshot(Version(1, 3, PEER), INFO, ClientState(ID, 3, {}))
    assert not bed.clients.copies.take(snapshot, ID, None)
    assert not bed.clients.copies.take(snapshot, ID, Version(1, 1, PEER))
    assert (bed.told(), bed.ports(A)) == ([], [80])


def test_a_peer_that_dates_nothing_is_newest_when_it_is_heard(bed: Bed) -> None:
    bed.naming.register(RegisterInstance(A[1], "10.1.2.3", 80, weight=3.0))
    bed.take(1, A, dated=False)
    view = bed.naming.service_view(*A)
    assert view is not None
    assert [one.weight for one in view.instances] == [1.0]
    bed.naming.register(RegisterInstance(A[1], "10.1.2.3", 80, weight=4.0))
    bed.told()
    bed.take(2, A, dated=False)
    assert bed.told() == [], "it says nothing new"
    view = bed.naming.service_view(*A)
    assert view is not None
    assert [one.weight for one in view.instances] == [4.0]


def test_a_removal_takes_all_and_is_remembered(bed: Bed) -> None:
    bed.take(1, A, B)
    bed.told()
    assert bed.remove(2)
    assert bed.told() == [ClientDisconnect(ID, False), *changes(gone=[A, B])]
    assert bed.ports(A) == []
    assert bed.clients.table.version(ID) == Version(1, 2, PEER)
    snapshot = bed.clients.table.snapshot(ID)
    assert snapshot is not None
    assert snapshot.state is None
    assert not bed.clients.table.is_forgettable(ID, bed.now_ms + 60_000)
    assert bed.clients.table.is_forgettable(ID, bed.now_ms + 60_001)
    with pytest.raises(InvalidParam, match="used twice"):
        bed.clients.own.connect(INFO)
    bed.clients.copies.forget(ID)
    assert bed.clients.table.version(ID) is None
    assert bed.clients.table.versions() == {}


def test_a_native_client_belongs_to_its_connection(bed: Bed) -> None:
    bed.clients.own.connect(INFO)
    bed.clients.own.register(ID, RegisterInstance(A[1], "10.1.2.3", 80))
    assert bed.clients.table.version(ID) == Version(1, 1, "m:1~1")
    for state in (ClientState(ID, 9, {}), None):
        with pytest.raises(InvalidParam, match="connected here"):
            bed.clients.copies.take(ClientSnapshot(Version(1, 9, PEER), INFO, state), ID, bed.clients.table.version(ID))
    assert not bed.clients.copies.add_tombstone(ID, Version(1, 9, PEER))
    bed.clients.copies.forget(ID, absent=True)
    assert bed.expire(1 << 40, lambda _writer: True) == []
    assert bed.ports(A) == [80]
    bed.clients.own.disconnect(ID)
    assert bed.clients.table.version(ID) == Version(1, 2, "m:1~1")
    assert bed.clients.table.is_removed(ID)


def test_a_copy_publishes_nothing_of_its_own(bed: Bed) -> None:
    bed.take(1, A)
    with pytest.raises(ClientGone):
        bed.clients.own.register(ID, RegisterInstance(A[1], "10.1.2.3", 81))
    with pytest.raises(ClientGone):
        bed.clients.subscriptions.subscribe(ID, *A, "")
    with pytest.raises(InvalidParam, match="another member"):
        bed.clients.own.connect(INFO)
    assert bed.clients.table.counts().copies == 1


def test_copies_that_nobody_confirms_expire(bed: Bed) -> None:
    bed.take(1, A)
    bed.told()
    bed.clients.copies.confirm([ID, "unknown"], 2_000)
    assert bed.expire(182_000, nobody) == []
    assert bed.clients.copies.confirm_revision(ID, 1, 3_000)
    assert bed.clients.copies.confirm_revision(ID, 0, 3_000), "an older peer tells no revision"
    assert not bed.clients.copies.confirm_revision(ID, 2, 999_000)
    assert not bed.clients.copies.confirm_revision("unknown", 0, 999_000)
    assert bed.expire(193_000, nobody, late_ms=10_000) == [], "while this process stood still none could come"
    assert bed.expire(193_001, nobody) == [], "not all are looked at each time"
    assert bed.expire(198_000, nobody) == [ID]
    assert bed.told() == [ClientDisconnect(ID, False), *changes(gone=[A])]
    assert bed.clients.table.version(ID) is None
    assert bed.take(1, A), "it is there again as soon as its member says so"


def copy_of(bed: Bed, client_id: str, *, unconfirmed: bool = False) -> None:
    snapshot = ClientSnapshot(Version(1, 1, PEER), None, ClientState(client_id, 1, {}), unconfirmed)
    assert bed.clients.copies.take(snapshot, client_id, None)


def test_only_the_copies_whose_time_is_over_expire(bed: Bed) -> None:
    bed.clients.own.connect(ClientInfo("native", "", 0, "", ""))
    for client_id in ("fresh", "old"):
        copy_of(bed, client_id)
    bed.clients.copies.confirm(["fresh"], 2_000)
    assert bed.expire(181_001, nobody) == ["old"], "the time is over at this very millisecond"
    assert sorted(bed.clients.table.ids()) == ["fresh", "native"]


def test_a_copy_that_its_own_member_sent_has_its_whole_time(bed: Bed) -> None:
    copy_of(bed, ID)
    assert bed.expire(bed.now_ms + 180_000, nobody) == []


@pytest.mark.parametrize(("expiry_ms", "lives_ms"), [(180_000, 15_000), (15_000, 15_000), (10_000, 10_000)])
def test_a_copy_that_another_member_sent_is_to_be_confirmed_soon(expiry_ms: int, lives_ms: int) -> None:
    for after_ms, is_left in ((lives_ms, True), (lives_ms + 1, False)):
        bed = Bed(expiry_ms=expiry_ms)
        copy_of(bed, ID, unconfirmed=True)
        bed.expire(bed.now_ms + after_ms, nobody)
        assert (bed.clients.table.client(ID) is not None) is is_left


def test_a_removal_is_forgotten_and_a_copy_only_when_no_peer_has_it(bed: Bed) -> None:
    bed.take(1, A)
    bed.clients.copies.forget(ID)
    assert bed.ports(A) == [80]
    bed.clients.copies.forget(ID, absent=True)
    assert bed.ports(A) == []


def test_a_dated_publication_keeps_its_date_and_takes_a_new_one(bed: Bed) -> None:
    bed.registry.writes.register(RegisterInstance(A[1], "10.9.9.9", 80), 0)
    for revision, at_ms in ((1, 7), (2, 8)):
        state = ClientState(ID, revision, {A: published(A, 80, at_ms=at_ms)})
        bed.clients.copies.take(
            ClientSnapshot(Version(1, revision, PEER), INFO, state), ID, bed.clients.table.version(ID)
        )
        copy = bed.clients.table.client(ID)
        assert copy is not None
        assert (copy.published[A].at_ms, copy.published[A].seen) == (at_ms, NO_VERSION)


def test_an_undated_publication_keeps_its_first_date_while_it_says_the_same(bed: Bed) -> None:
    bed.take(1, A, dated=False)
    copy = bed.clients.table.client(ID)
    assert copy is not None
    first = copy.published[A]
    bed.take(2, A, dated=False)
    assert copy.published[A] is first
    bed.take(3, A, port=81, dated=False)
    assert bed.ports(A) == [81]


def test_a_removal_is_above_one_of_the_same_version(bed: Bed) -> None:
    assert bed.clients.copies.add_tombstone(ID, Version(1, 4, "m:1~0"))
    assert bed.clients.copies.add_tombstone(ID, Version(1, 5, "m:1~1"))
    assert bed.clients.table.version(ID) == Version(1, 6, "m:1~1")


def test_copies_go_with_their_member(bed: Bed) -> None:
    bed.take(1, A)
    assert bed.expire(bed.now_ms, lambda writer: writer == PEER) == [ID]
    assert bed.ports(A) == []


def test_a_member_removes_the_clients_of_its_last_run(bed: Bed) -> None:
    assert bed.clients.copies.add_tombstone(ID, Version(1, 4, "m:1~0"))
    assert bed.clients.table.version(ID) == Version(1, 5, "m:1~1")
    assert bed.told() == [ClientDisconnect(ID, True)]
    assert not bed.clients.copies.add_tombstone(ID, Version(1, 4, "m:1~0"))
    assert bed.clients.copies.add_tombstone(ID, Version(1, 7, "m:1~0")), "somebody holds a later one"
    assert bed.clients.table.version(ID) == Version(1, 8, "m:1~1")


def test_removals_are_forgotten_when_no_copy_can_be_left(bed: Bed) -> None:
    bed.take(1, A)
    bed.remove(2)
    bed.expire(bed.now_ms + 300_000, nobody)
    assert bed.clients.table.is_removed(ID)
    bed.expire(bed.now_ms + 305_000, nobody)
    assert not bed.clients.table.is_removed(ID)


def test_there_are_not_more_than_may_be(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Bed(ClientBounds(clients_max=1))
    full.clients.own.connect(ClientInfo("other", "", 0, "", ""))
    with pytest.raises(Unavailable):
        full.take(1, A)
    monkeypatch.setattr(removals, "REMOVALS_MAX", 2)
    for number in range(3):
        bed.clients.copies.add_tombstone(f"c{number}", Version(1, 1, PEER))
    assert list(bed.clients.table.versions()) == ["c1", "c2"]


@pytest.mark.parametrize(
    ("client_id", "ip", "port"),
    [
        (ID, "10.1.2.3", 51234),
        ("1_2001:db8::1_5", "2001:db8::1", 5),
        ("10.0.0.1:80#true", "10.0.0.1", 80),
        ("anything", "", 0),
        ("1_2_999999", "2", 0),
    ],
)
def test_what_an_id_tells(client_id: str, ip: str, port: int) -> None:
    assert info_of(client_id) == ClientInfo(client_id, ip, port, "", "")


def test_a_copy_that_lost_what_is_back_elsewhere_is_repaired_should_its_run_go_on() -> None:
    """Its member was only out of the list for a while: the same version must not stand for two states."""
    bed = Bed()
    bed.take(3, A)
    bed.over.add(PEER)
    bed.clients.own.connect(ClientInfo("other", "10.1.2.4", 1, "shop", "sdk"))
    bed.clients.own.register("other", RegisterInstance(A[1], "10.1.2.3", 80))
    copy, version = bed.clients.table.client(ID), bed.clients.table.version(ID)
    assert copy is not None
    assert A not in copy.published, "the same instance is back at another member"
    assert version is not None
    assert version < Version(1, 3, PEER), "so that a verify round of its member fetches the copy again"
    bed.over.clear()
    assert bed.take(3, A)
    assert A in copy.published


def test_all_copies_of_a_member_live_on_together_but_for_those_that_differ(bed: Bed) -> None:
    """What a round that compares digests finds costs the same for any number of copies."""
    member, expiry_ms = PEER.partition("~")[0], 180_000
    bed.take(1, A)
    for _ in range(3):
        bed.now_ms += expiry_ms
        bed.clients.copies.confirm_all([member], (), bed.now_ms)
        assert bed.expire(bed.now_ms, nobody) == []
    bed.now_ms += 1_000
    bed.clients.copies.confirm_all([member], [ID], bed.now_ms)
    assert bed.expire(bed.now_ms, nobody) == [], "it was confirmed before"
    bed.now_ms += expiry_ms - 1_000
    bed.clients.copies.confirm_all(["q:1"], (), bed.now_ms)
    bed.clients.copies.confirm_all([member], [ID], bed.now_ms)
    assert bed.expire(bed.now_ms, nobody) == []
    bed.now_ms += 5_000
    bed.clients.copies.confirm_all([member], [ID], bed.now_ms)
    assert list(bed.expire(bed.now_ms, nobody)) == [ID]


@pytest.mark.parametrize("by", ["round", "itself", "state"])
def test_a_copy_that_differs_no_more_lives_on(bed: Bed, by: str) -> None:
    member, expiry_ms = PEER.partition("~")[0], 180_000
    bed.take(1, A)
    bed.clients.copies.confirm_all([member], [ID], bed.now_ms)
    bed.now_ms += expiry_ms
    match by:
        case "round":
            bed.clients.copies.confirm_all([member], (), bed.now_ms)
        case "itself":
            bed.clients.copies.confirm([ID], bed.now_ms)
        case "state":
            bed.take(2, A)
    bed.now_ms += expiry_ms
    bed.clients.copies.confirm_all([member], (), bed.now_ms)
    assert bed.expire(bed.now_ms, nobody) == []


def test_a_pause_counts_for_no_copy(bed: Bed) -> None:
    member, expiry_ms = PEER.partition("~")[0], 180_000
    bed.take(1, A)
    bed.now_ms += expiry_ms
    bed.clients.copies.confirm_all([member], (), bed.now_ms)
    bed.now_ms += expiry_ms + 5_000
    assert bed.expire(bed.now_ms, nobody, late_ms=10_000) == []


def test_each_change_of_a_client_is_noted_for_the_digest(bed: Bed) -> None:
    def noted() -> set[str]:
        return set(iter(bed.clients.table.pop_changed, None))

    bed.take(1, A)
    assert noted() == {ID}
    bed.take(2, B)
    assert noted() == {ID}
    bed.remove(3)
    assert noted() == {ID}
    bed.clients.copies.forget(ID)
    assert noted() == {ID}
    bed.clients.own.connect(ClientInfo("here", "10.1.2.4", 1, "shop", "sdk"))
    bed.clients.own.register("here", RegisterInstance("G@@a", "10.1.2.4", 80))
    bed.clients.own.deregister("here", "public", "G@@a")
    assert noted() == {"here"}
    bed.clients.own.disconnect("here")
    assert noted() == {"here"}
