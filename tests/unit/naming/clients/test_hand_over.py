"""R17: clients that come from a run that is over to this member, and what becomes of the copies that kept them."""

from collections.abc import Callable, Collection

import pytest

from app.naming.clients.client_model import REVISION_MAX, Client, ClientInfo, ClientSnapshot, ClientState
from app.naming.clients.client_table import EPOCH
from app.naming.clients.clients import ClientExpiry, Clients, build_clients
from app.naming.clients.hand_over import MOVED_AGAIN_MS
from app.naming.model.events import (
    ClientChanged,
    ClientDisconnect,
    ClientReturned,
    ClientWithdrawn,
    Event,
    ServiceChanged,
)
from app.naming.model.model import Instance, Publication
from app.naming.model.nacos_errors import ClientGone
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.union import view_of
from distro.model.types import NO_VERSION, Version

ME, FORMER, OVER, GOING_ON = "m:1~2", "m:1~1", "p:1~1", "q:1~1"
A, B = ("public", "G@@a"), ("public", "G@@b")


def nobody(_writer: str) -> bool:
    return False


class Bed:
    """Clients of a member while the run ``OVER`` of a peer hands its clients over."""

    def __init__(self, writer: str = ME) -> None:
        self.now_ms = 100_000
        self.events: list[Event] = []
        self.registry = Registry.of(writer)
        self.over = {OVER}
        self.returns: list[tuple[str, int]] = []
        self.contact_ms: Callable[[str], int] = lambda _writer: self.now_ms
        self.clients = self._build()

    def _build(self) -> Clients:
        return build_clients(
            self.registry,
            lambda: self.now_ms,
            lambda: 5_000,
            self._publish,
            is_handing_over=self.over.__contains__,
            contact_ms=self._contact_ms,
        )

    def _contact_ms(self, writer: str) -> int:
        return self.contact_ms(writer)

    def _publish(self, event: Event) -> None:
        assert not self.clients.table.lock.locked(), "a handler may ask the clients"
        if isinstance(event, ClientReturned):
            self.returns.append((event.writer, event.at_ms))
        else:
            self.events.append(event)

    def expire(self, now_ms: int, has_left: Callable[[str], bool], late_ms: int = 0) -> Collection[str]:
        return ClientExpiry(self.clients.own, self.clients.copies, has_left, 2_000).expire(now_ms, late_ms)

    def copy(self, client_id: str, writer: str, published: dict[tuple[str, str], tuple[int, ...]]) -> Client:
        """Take a peer's client, with the ports that it publishes by service."""
        publications = {}
        for key, ports in published.items():
            ones = [Instance("10.1.0.1", port, service_name=key[1]) for port in ports]
            publications[key] = Publication({one.key: one for one in ones}, True, 1, NO_VERSION)
        state = ClientState(client_id, 3, publications)
        snapshot = ClientSnapshot(Version(EPOCH, 3, writer), None, state)
        assert self.clients.copies.take(snapshot, client_id, self.clients.table.version(client_id))
        return self.client(client_id)

    def take_from(self, other: "Bed", client_id: str) -> None:
        """Take another member's client, as it tells of it."""
        snapshot = other.clients.table.snapshot(client_id)
        assert snapshot is not None
        assert self.clients.copies.take(snapshot, client_id, self.clients.table.version(client_id))

    def native(self, client_id: str, *ports: int, key: tuple[str, str] = A) -> Client:
        """Connect a client, and publish these ports."""
        self.clients.own.connect(ClientInfo(client_id, "10.1.0.1", 1, "", ""))
        commands = [RegisterInstance(key[1], "10.1.0.1", port) for port in ports]
        self.clients.own.batch_register(client_id, *key, commands)
        return self.client(client_id)

    def client(self, client_id: str) -> Client:
        found = self.clients.table.client(client_id)
        assert found is not None
        return found

    def told(self) -> list[Event]:
        events, self.events[:] = list(self.events), []
        return [one for one in events if not isinstance(one, ClientWithdrawn)]

    def ports(self, key: tuple[str, str] = A) -> list[int]:
        service = self.registry.table.get(*key)
        return [] if service is None else sorted(one.port for one in view_of(service).instances)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def ports_of(client: Client, key: tuple[str, str] = A) -> list[int]:
    publication = client.published.get(key)
    return [one.port for one in publication.instances.values()] if publication else []


def deregistered(bed: Bed) -> None:
    bed.native("native", 80)
    bed.clients.own.deregister("native", *A)


def replaced(bed: Bed) -> None:
    bed.native("native", 80, 82)
    bed.native("native", 82)


def disconnected(bed: Bed) -> None:
    bed.native("native", 80).came_from = ""
    bed.clients.own.disconnect("native")


def deregistered_elsewhere(bed: Bed) -> None:
    bed.copy("there", GOING_ON, {A: (80,)})
    bed.copy("there", GOING_ON, {})


def replaced_elsewhere(bed: Bed) -> None:
    bed.copy("there", GOING_ON, {A: (80, 82)})
    bed.copy("there", GOING_ON, {A: (82,)})


def removed_elsewhere(bed: Bed) -> None:
    bed.copy("there", GOING_ON, {A: (80,)})
    removal = ClientSnapshot(Version(EPOCH, 4, GOING_ON), None, None)
    assert bed.clients.copies.take(removal, "there", bed.clients.table.version("there"))


def nowhere_any_more(bed: Bed) -> None:
    bed.copy("there", GOING_ON, {A: (80,)})
    bed.clients.copies.forget("there", absent=True)


def expired(bed: Bed) -> None:
    bed.copy("there", GOING_ON, {A: (80,)})
    bed.expire(bed.now_ms, GOING_ON.__eq__)


WITHDRAWALS = [
    deregistered,
    replaced,
    disconnected,
    deregistered_elsewhere,
    replaced_elsewhere,
    removed_elsewhere,
    nowhere_any_more,
    expired,
]


class TestCopies:
    def test_what_is_published_here_leaves_the_copies_of_a_run_that_is_over(self, bed: Bed) -> None:
        other = bed.copy("other", GOING_ON, {A: (80,)})
        over = bed.copy("over", OVER, {A: (80, 81), B: (80,)})
        native = bed.native("native", 80)
        assert (ports_of(over), ports_of(over, B), over.instances) == ([81], [80], 2)
        assert over.version == Version(EPOCH - 1, 3, OVER), "its member repairs it, should its run go on"
        assert (ports_of(other), other.version) == ([80], Version(EPOCH, 3, GOING_ON))
        assert (native.came_from, bed.ports()) == (OVER, [80, 81])
        bed.clients.own.deregister("native", *A)
        bed.clients.own.disconnect("other")
        assert bed.ports() == [81], "the deregistration counts"

    def test_a_client_that_publishes_something_else_came_from_nowhere(self, bed: Bed) -> None:
        over = bed.copy("over", OVER, {A: (80,)})
        assert bed.native("native", 81).came_from == ""
        assert (ports_of(over), over.version) == ([80], Version(EPOCH, 3, OVER))

    def test_nothing_leaves_the_copies_of_a_run_that_goes_on(self, bed: Bed) -> None:
        bed.over.clear()
        over = bed.copy("over", OVER, {A: (80,)})
        assert bed.native("native", 80).came_from == ""
        assert ports_of(over) == [80]

    def test_what_came_to_another_member_leaves_them_too(self, bed: Bed) -> None:
        over = bed.copy("over", OVER, {A: (80, 81)})
        later = bed.copy("later", OVER, {A: (81,)})
        bed.copy("there", GOING_ON, {A: (80, 81)})
        assert (ports_of(over), ports_of(later)) == ([], [])
        assert bed.ports() == [80, 81]

    def test_the_copy_that_has_the_same_instances_is_found_among_others(self, bed: Bed) -> None:
        others = [bed.copy(f"over {port}", OVER, {A: (port,)}) for port in (81, 80)]
        assert bed.native("native", 80).came_from == OVER
        assert [ports_of(one) for one in others] == [[81], []]

    def test_a_client_that_publishes_others_beside_a_late_copy_came_from_nowhere(self, bed: Bed) -> None:
        bed.copy("other", GOING_ON, {A: (80,)})
        native = bed.native("native", 81)
        over = bed.copy("over", OVER, {A: (80,)})
        bed.expire(bed.now_ms, nobody)
        assert (ports_of(over), native.came_from) == ([], "")

    def test_each_return_is_told_of_with_the_run_that_hands_over(self, bed: Bed) -> None:
        bed.copy("over", OVER, {A: (80, 81), B: (80,)})
        bed.native("native", 82)
        assert bed.returns == []
        bed.native("first", 80)
        bed.now_ms += 7
        bed.copy("there", GOING_ON, {A: (81,)})
        assert bed.returns == [(OVER, 100_000), (OVER, 100_007)]
        bed.expire(bed.now_ms, nobody)
        assert len(bed.returns) == 2

    def test_what_another_member_still_has_of_a_copy_is_no_return_once_more(self, bed: Bed) -> None:
        published = {A: (80, 81)}
        over = bed.copy("over", OVER, published)
        bed.native("native", 80)
        lessened, returns = over.version, list(bed.returns)
        bed.told()
        bed.copy("over", OVER, published)
        bed.expire(bed.now_ms, nobody)
        assert (ports_of(over), over.version, bed.returns, bed.told()) == ([81], lessened, returns, [])
        bed.over.clear()
        bed.copy("over", OVER, published)
        assert (ports_of(over), over.version) == ([80, 81], Version(EPOCH, 3, OVER)), "its run goes on"

    def test_copies_of_one_run_leave_each_other_alone(self, bed: Bed) -> None:
        first, second = (bed.copy(name, OVER, {A: (80,)}) for name in ("first", "second"))
        assert (ports_of(first), ports_of(second)) == ([80], [80])

    def test_a_member_that_starts_lists_what_is_back_before_it_hears_where(self, bed: Bed) -> None:
        """It loads the copy of another member that knows more, and the client's new state from its new member."""
        bed.copy("over", OVER, {A: (80, 81), B: (80,)})
        bed.native("native", 80)
        starting = Bed("s:1~1")
        starting.take_from(bed, "over")
        assert (starting.ports(), starting.ports(B)) == ([80, 81], [80])
        starting.take_from(bed, "native")
        assert (ports_of(starting.client("over")), starting.ports()) == ([81], [80, 81])
        starting.copy("native", ME, {})
        assert starting.ports() == [81]

    @pytest.mark.parametrize("withdraw", WITHDRAWALS)
    def test_a_member_that_starts_does_not_list_what_was_back_and_is_withdrawn(
        self, bed: Bed, withdraw: Callable[[Bed], None]
    ) -> None:
        over = bed.copy("over", OVER, {A: (80, 81), B: (80,)})
        withdraw(bed)
        assert (ports_of(over), 80 in bed.ports()) == ([81], False)
        starting = Bed("s:1~1")
        starting.take_from(bed, "over")
        assert (starting.ports(), starting.ports(B)) == ([81], [80])

    def test_a_member_that_starts_lists_what_is_back_twice_and_withdrawn_once(self, bed: Bed) -> None:
        bed.copy("over", OVER, {A: (80,)})
        bed.native("native", 80)
        bed.copy("there", GOING_ON, {A: (80,)})
        bed.clients.own.deregister("native", *A)
        starting = Bed("s:1~1")
        starting.take_from(bed, "over")
        assert starting.ports() == [80]

    def test_a_copy_that_came_lessened_takes_nothing_out_of_others(self, bed: Bed) -> None:
        """A member that starts may not know that the run is over from which a client moved twice."""
        bed.copy("over", OVER, {A: (80,)})
        bed.copy("there", GOING_ON, {A: (80,)})
        starting = Bed("s:1~1")
        starting.over.clear()
        starting.take_from(bed, "over")
        starting.take_from(bed, "there")
        starting.over.add(GOING_ON)
        starting.expire(starting.now_ms, nobody)
        assert ports_of(starting.client("there")) == [80]

    def test_what_was_back_of_a_run_that_goes_on_after_all_is_told_as_its_member_gave_it(self, bed: Bed) -> None:
        bed.copy("over", OVER, {A: (80,)})
        bed.native("native", 80)
        bed.over.clear()
        bed.expire(bed.now_ms, nobody)
        bed.copy("over", OVER, {A: (80,), B: (82,)})
        bed.clients.own.deregister("native", *A)
        starting = Bed("s:1~1")
        starting.take_from(bed, "over")
        assert (starting.ports(), starting.ports(B)) == ([80], [82])
        assert not bed.clients.hand_over.reduced

    def test_a_copy_that_comes_when_its_instances_are_back_loses_them_soon(self, bed: Bed) -> None:
        native = bed.native("native", 80)
        other = bed.copy("other", GOING_ON, {A: (80,)})
        over = bed.copy("over", OVER, {A: (80, 81), B: (80,)})
        bed.told()
        assert bed.expire(bed.now_ms, nobody) == []
        assert (ports_of(over), ports_of(over, B), ports_of(other)) == ([81], [80], [80])
        assert native.came_from == OVER
        assert bed.told() == [ServiceChanged(*A)]
        bed.expire(bed.now_ms, nobody)
        assert bed.told() == []


def test_a_run_is_known_as_an_own_one_by_the_member_before_the_first_mark() -> None:
    bed = Bed(f"{ME}~x")
    bed.copy("mine", f"{FORMER}~x", {A: (80,)})
    assert list(bed.expire(bed.now_ms, lambda writer: writer == f"{FORMER}~x")) == ["mine"]
    assert bed.clients.table.is_removed("mine")


@pytest.fixture
def moved(bed: Bed) -> Bed:
    """The client ``moved``, whose connection here ended after it had come from a run that is over."""
    bed.copy("over", OVER, {A: (80,)})
    bed.native("moved", 80)
    bed.clients.subscriptions.subscribe("moved", *B, "")
    bed.told()
    assert bed.clients.own.disconnect("moved")
    return bed


def test_without_a_member_list_nothing_is_handed_over() -> None:
    class Alone(Bed):
        def _build(self) -> Clients:
            return build_clients(self.registry, lambda: self.now_ms, lambda: 5_000, self._publish)

    bed = Alone()
    over = bed.copy("over", OVER, {A: (80,)})
    bed.native("native", 80)
    assert ports_of(over) == [80]


class TestMovedAgain:
    def test_a_client_that_may_move_once_more_is_kept_for_a_while(self, moved: Bed) -> None:
        assert moved.told() == [ClientChanged("moved")]
        assert (moved.clients.table.counts().native, moved.clients.subscriptions.subscribers(*B)) == (0, [])
        assert not moved.client("moved").subscribed
        with pytest.raises(ClientGone):
            moved.clients.own.deregister("moved", *A)
        moved.now_ms += MOVED_AGAIN_MS - 1
        moved.expire(moved.now_ms, nobody)
        assert moved.ports() == [80]
        moved.now_ms += 1
        moved.expire(moved.now_ms, nobody)
        assert moved.ports() == []
        assert moved.clients.table.client("moved") is None
        assert moved.clients.table.is_removed("moved")
        assert moved.told() == [ClientDisconnect("moved", True), ServiceChanged(*A)]

    def test_it_is_kept_while_others_of_its_run_come_back(self, moved: Bed) -> None:
        """On a busy machine the last of a thousand clients need long, and so may this one."""
        moved.copy("other", OVER, {A: (90,)})
        moved.now_ms += MOVED_AGAIN_MS - 1
        moved.native("other again", 90)
        moved.now_ms += MOVED_AGAIN_MS - 1
        moved.expire(moved.now_ms, nobody)
        assert moved.ports() == [80, 90]
        moved.now_ms += 1
        moved.expire(moved.now_ms, nobody)
        assert moved.ports() == [90]
        moved.over.clear()
        moved.expire(moved.now_ms, nobody)
        assert not moved.clients.hand_over.returned_ms, "nobody is handed over any more"

    def test_it_goes_soon_after_its_instances_are_published_anew(self, moved: Bed) -> None:
        old, before = moved.client("moved"), moved.clients.table.version("moved")
        moved.told()
        again = moved.native("again", 80, 81)
        assert (ports_of(old), old.version, again.came_from) == ([], before, OVER)
        assert moved.returns[-2:] == [(OVER, 100_000)] * 2, "of the copy, and of the client that had come from it"
        assert moved.told() == [ClientChanged("again"), ServiceChanged(*A)]
        self.goes_soon(moved)
        assert not moved.clients.hand_over.ended, "nobody is waited for any more"

    def test_it_goes_soon_after_another_member_has_its_instances(self, moved: Bed) -> None:
        moved.told()
        moved.copy("there", GOING_ON, {A: (80,)})
        assert ClientChanged("moved") not in moved.told()
        self.goes_soon(moved)
        assert moved.ports() == [80]

    def test_it_goes_soon_when_it_was_back_before_its_connection_ended(self, bed: Bed) -> None:
        bed.copy("over", OVER, {A: (80,)})
        bed.native("moved", 80)
        bed.copy("there", GOING_ON, {A: (80,)})
        bed.told()
        assert bed.clients.own.disconnect("moved")
        assert bed.told() == [ClientChanged("moved")]
        assert (ports_of(bed.client("moved")), bed.ports()) == ([], [80])
        self.goes_soon(bed)

    @staticmethod
    def goes_soon(bed: Bed) -> None:
        bed.now_ms += MOVED_AGAIN_MS - 1
        bed.expire(bed.now_ms, nobody)
        assert bed.client("moved").ended
        bed.told()
        bed.now_ms += 1
        bed.expire(bed.now_ms, nobody)
        assert bed.clients.table.client("moved") is None
        assert bed.told() == [ClientDisconnect("moved", True)]

    def test_other_members_list_it_until_they_hear_of_it_from_where_it_is(self, moved: Bed) -> None:
        """What its member says of it may arrive before the word of the member to which it moved."""
        third = self.third(moved)
        moved.copy("there", GOING_ON, {A: (80,)})
        third.take_from(moved, "moved")
        assert (moved.ports(), third.ports()) == ([80], [80])
        assert third.client("moved").came_from == OVER
        there = third.copy("there", GOING_ON, {A: (80,)})
        assert (ports_of(third.client("moved")), third.ports()) == ([], [80])
        third.copy("there", GOING_ON, {})
        assert (there.published, third.ports()) == ({}, []), "a deregistration where it is now counts here at once"
        third.take_from(moved, "moved")
        assert third.ports() == [], "also when its member tells of it once more"

    def test_other_members_that_heard_of_it_before_leave_it_out(self, moved: Bed) -> None:
        third = self.third(moved)
        third.copy("there", GOING_ON, {A: (80,)})
        third.take_from(moved, "moved")
        assert (ports_of(third.client("moved")), third.ports()) == ([], [80])
        third.copy("there", GOING_ON, {})
        assert third.ports() == []

    @pytest.mark.parametrize("at_its_member", [True, False])
    @pytest.mark.parametrize("left", [(), (81,)], ids=["all", "part"])
    def test_what_it_withdraws_where_it_is_back_is_told_to_those_that_never_heard_of_that(
        self, moved: Bed, at_its_member: bool, left: tuple[int, ...]
    ) -> None:
        third = self.third(moved)
        third.take_from(moved, "moved")
        if at_its_member:
            moved.native("again", 80)
            moved.told()
            moved.clients.own.batch_register("again", *A, [RegisterInstance(A[1], "10.1.0.1", port) for port in left])
        else:
            moved.copy("there", GOING_ON, {A: (80,)})
            moved.told()
            moved.copy("there", GOING_ON, {A: left} if left else {})
        assert ClientChanged("moved") in moved.told()
        third.take_from(moved, "moved")
        assert third.ports() == []

    def test_what_it_withdraws_of_one_service_leaves_the_others(self, bed: Bed) -> None:
        bed.copy("over", OVER, {A: (80, 81), B: (80,)})
        bed.native("moved", 80, 81)
        bed.native("moved", 80, key=B)
        third = self.third(bed)
        bed.clients.own.disconnect("moved")
        bed.native("again", 80)
        bed.told()
        bed.clients.own.deregister("again", *A)
        assert bed.told() == [ClientChanged("again"), ClientChanged("moved"), ServiceChanged(*A)]
        third.take_from(bed, "moved")
        assert {key: [*one.instances] for key, one in third.client("moved").published.items()} == {
            A: ["10.1.0.1:81:unknown:DEFAULT"],
            B: ["10.1.0.1:80:unknown:DEFAULT"],
        }

    def test_what_is_back_twice_and_withdrawn_once_is_still_told(self, moved: Bed) -> None:
        moved.native("again", 80)
        moved.copy("there", GOING_ON, {A: (80,)})
        moved.told()
        moved.clients.own.deregister("again", *A)
        assert moved.told() == [ClientChanged("again"), ServiceChanged(*A)]

    @staticmethod
    def third(moved: Bed) -> Bed:
        """Another member, with the copy of the client from before its connection ended."""
        third = Bed("t:1~1")
        third.copy("moved", ME, {A: (80,)})
        assert not third.client("moved").ended
        return third

    @pytest.mark.parametrize("is_known", [False, True])
    def test_where_the_end_of_its_run_is_heard_of_last_it_leaves_no_copy_of_that_run(
        self, moved: Bed, is_known: bool
    ) -> None:
        third = Bed("t:1~1")
        third.over.clear()
        third.copy("over", OVER, {A: (80, 81)})
        if is_known:
            third.copy("moved", ME, {A: (80,)})
        third.take_from(moved, "moved")
        third.over.add(OVER)
        third.expire(third.now_ms, nobody)
        assert third.ports() == [80, 81], "it is waited for"
        moved.now_ms += MOVED_AGAIN_MS
        moved.expire(moved.now_ms, nobody)
        third.take_from(moved, "moved")
        assert third.ports() == [81], "what it never published is still expected"

    def test_it_goes_with_the_end_of_the_hand_over(self, moved: Bed) -> None:
        moved.over.clear()
        moved.expire(moved.now_ms, nobody)
        assert moved.ports() == []

    def test_a_second_end_of_its_connection_is_nothing_new(self, moved: Bed) -> None:
        moved.now_ms += MOVED_AGAIN_MS
        moved.over.clear()
        assert moved.clients.own.disconnect("moved")
        assert moved.ports() == []
        assert not moved.clients.own.disconnect("moved")


def without_copy(bed: Bed) -> None:
    bed.native("moved", 80)


def with_nothing_left(bed: Bed) -> None:
    bed.copy("over", OVER, {A: (80,)})
    bed.native("moved", 80)
    bed.clients.own.deregister("moved", *A)


def over_by_now(bed: Bed) -> None:
    bed.copy("over", OVER, {A: (80,)})
    bed.native("moved", 80)
    bed.over.clear()


def at_its_last_revision(bed: Bed) -> None:
    bed.copy("over", OVER, {A: (80,)})
    bed.native("moved", 80).revision = REVISION_MAX


@pytest.mark.parametrize("prepare", [without_copy, with_nothing_left, over_by_now, at_its_last_revision])
def test_a_client_that_is_not_expected_elsewhere_goes_with_its_connection(
    bed: Bed, prepare: Callable[[Bed], None]
) -> None:
    prepare(bed)
    assert bed.clients.own.disconnect("moved")
    assert bed.clients.table.client("moved") is None
    assert bed.clients.table.is_removed("moved")


def test_a_client_is_kept_while_part_of_what_it_publishes_is_nowhere_else(bed: Bed) -> None:
    bed.copy("over", OVER, {A: (80, 81)})
    bed.native("moved", 80, 81)
    bed.copy("there", GOING_ON, {A: (80,)})
    revision = bed.client("moved").revision
    bed.clients.own.disconnect("moved")
    assert (bed.client("moved").ended, ports_of(bed.client("moved"))) == (True, [81])
    assert bed.client("moved").revision == revision + 1
    assert bed.clients.table.version("moved") == Version(EPOCH, revision + 1, ME)
    bed.copy("there too", GOING_ON, {A: (81,)})
    assert (ports_of(bed.client("moved")), bed.ports()) == ([], [80, 81])


def test_copies_of_an_own_former_run_that_end_are_removals_that_peers_are_told_of(bed: Bed) -> None:
    bed.copy("mine", FORMER, {A: (80,)})
    bed.copy("other", OVER, {B: (80,)})
    bed.told()
    assert sorted(bed.expire(bed.now_ms, lambda writer: writer in (FORMER, OVER))) == ["mine", "other"]
    assert bed.clients.table.version("mine") == Version(EPOCH, 4, ME)
    assert bed.clients.table.version("other") is None
    assert bed.told() == [
        ClientDisconnect("mine", False),
        ServiceChanged(*A),
        ClientDisconnect("mine", True),
        ClientDisconnect("other", False),
        ServiceChanged(*B),
    ]
