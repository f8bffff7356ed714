"""A link over one connection to a Nacos, which a test plays: lists that come, late, wrong or not at all."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.links.feed_lines import SETTLED_MS, FollowedPart
from app.links.follower import LinkFollower
from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_out import RETRY_MS, LocalRegistrations
from app.links.nacos_session import LIST_MS, NacosSession
from app.links.nacos_side import Pushed, Registration
from app.links.nacos_values import Address, ServiceName
from app.naming.model.foreign import LINK, ORIGIN, STALE
from app.naming.model.keys import WORD_MARGIN_MS
from distro.model.types import Datum
from tests.unit.links.test_follower import Side
from tests.unit.links.test_nacos_out import NAME, THERE, host, settings_of


class PlayedNacos:
    """The NacosSide of a test."""

    carries_twice = True

    def __init__(self, number: int = 1) -> None:
        self.server, self.id = "127.0.0.1:1", f"127.0.0.1:1~{number}"
        self.lists: dict[ServiceName, list[dict[str, Any]]] = {}
        self.pushed: list[Pushed] = []
        self.watched: set[ServiceName] = set()
        self.registered: dict[ServiceName, Mapping[Address, Mapping[str, Any]]] = {}
        self.fails: Callable[[str], None] = lambda call: None
        self.stated_ms, self.has_news = 1, False

    def open(self) -> None: ...

    def check(self) -> None:
        self.fails("check")

    def cut(self) -> None: ...

    def close(self, *, withdraws: bool) -> None: ...

    def wake(self) -> None: ...

    def namespaces(self) -> list[str]:
        return ["public", "other"]

    def names(self, namespace: str, groups: Collection[str]) -> set[str] | None:
        self.fails("names")
        return {full_name for space, full_name in self.lists if space == namespace}

    def names_changed(self) -> bool:
        has_changed, self.has_news = self.has_news, False
        return has_changed

    def info(self, name: ServiceName) -> dict[str, Any]:
        self.stated_ms += 1
        return {"hosts": self.lists.get(name, []), "lastRefTime": self.stated_ms}

    def watch(self, names: Sequence[ServiceName]) -> list[dict[str, Any] | LinkRefused]:
        self.fails("watch")
        self.watched.update(names)
        return [self.info(name) for name in names]

    def leave(self, name: ServiceName) -> None:
        self.watched.discard(name)

    def take(self, timeout_s: float) -> list[Pushed]:
        found, self.pushed = self.pushed, []
        return found

    def register(self, changes: Sequence[Registration]) -> list[LinkRefused | None]:
        try:
            self.fails("register")
        except LinkRefused as refused:
            return [refused for _ in changes]
        self.registered.update({one.name: one.rows for one in changes})
        return [None for _ in changes]

    def put(self, name: ServiceName, *ips: str) -> None:
        """Have clients register these instances in place of those before, and push the list."""
        self.lists[name] = [host(ip) for ip in ips]
        self.pushed.append(Pushed(name, self.info(name), 100))


class Linked:
    """A cluster of one node with a link to a played Nacos."""

    def __init__(self, **more: str) -> None:
        self.now = [1_000_000]
        self.here = Side("here", "here:1~1", self.now)
        self.settings = settings_of(**more)
        self.follower = LinkFollower(
            self.settings, lambda: "here", self.here.store, self.here.foreign.would_be_empty, self.now[0]
        )
        self.outgoing = (
            LocalRegistrations(self.settings, self.here.feed, lambda: "here") if self.settings.sends else None
        )
        self.connect(PlayedNacos())

    def connect(self, nacos: PlayedNacos) -> None:
        self.nacos = nacos
        if self.outgoing is not None:
            self.here.feed.attach(nacos.wake)
            self.outgoing.begin()
        self.session = NacosSession(self.follower, nacos, self.outgoing, lambda: self.now[0])
        self.session.follow((0, 1))

    def steps(self, after_ms: int = 0) -> None:
        self.now[0] += after_ms
        for _ in range(3):
            self.session.step()

    def shown(self) -> dict[str, dict[str, str | None]]:
        return self.here.shown()


@pytest.fixture
def linked() -> Linked:
    one = Linked()
    one.nacos.lists[THERE] = [host("10.0.0.1"), host("10.0.0.2")]
    one.steps()
    return one


def test_services_that_are_listed_are_watched_and_shown(linked: Linked) -> None:
    assert linked.shown() == {ip: {ORIGIN: "nacos:n", LINK: "n"} for ip in ("10.0.0.1", "10.0.0.2")}
    assert linked.nacos.watched == {THERE}
    linked.nacos.put(("other", "G@@new"), "10.0.0.3")
    linked.steps(LIST_MS)
    assert set(linked.here.shown("G@@new", "other")) == {"10.0.0.3"}


def test_lists_that_come_replace_those_before_and_late_ones_do_not(linked: Linked) -> None:
    late = Pushed(THERE, linked.nacos.info(THERE), 100)
    linked.nacos.put(THERE, "10.0.0.2")
    linked.steps()
    assert set(linked.shown()) == {"10.0.0.2"}
    linked.nacos.pushed.append(late)
    linked.steps()
    assert set(linked.shown()) == {"10.0.0.2"}
    linked.nacos.put(THERE)
    linked.steps()
    assert linked.shown() == {}


def test_a_list_whose_namespace_is_not_clear_is_asked_for(linked: Linked) -> None:
    linked.nacos.lists[THERE] = [host("10.0.0.7")]
    linked.nacos.pushed.append(Pushed(THERE, None, 100))
    linked.steps()
    assert set(linked.shown()) == {"10.0.0.7"}


def test_lists_that_an_operator_asks_for_again_are_taken_whatever_is_held(linked: Linked) -> None:
    [(key, held)] = linked.here.store.parts()
    linked.here.store.put(key, replace(held, instances={}, kept={}, stale_ms=5))
    compared = linked.follower.stats.compared
    assert linked.follower.again.ask([THERE], linked.now[0]) == 0
    linked.steps()
    part = linked.here.store.part(key)
    assert part is not None
    assert (set(part.instances), linked.follower.again.is_due) == (set(held.instances), False)
    assert linked.follower.stats.compared == compared + 1


@pytest.mark.parametrize("owns", [True, False])
def test_lists_are_asked_for_again_after_another_member_replaced_what_they_brought(linked: Linked, owns: bool) -> None:
    """L8: both members were owners, or this one was none for a while; the other one heard nothing of the Nacos."""
    store = linked.here.store
    [(key, state)] = store.parts()
    version = store.version(key)
    assert version is not None
    ip, one = next(iter(state.instances.items()))
    heard_ms = linked.now[0] + WORD_MARGIN_MS + 1
    other = replace(state, digest=5, instances={ip: one}, stale_ms=linked.now[0], stated_ms=heard_ms)
    datum = Datum(key, version.next_epoch("other:1~1"), other)
    if owns:
        store.merge(datum, linked.now[0])
    else:
        linked.session.follow(None)
        assert store.apply(datum, version, linked.now[0])
    assert [STALE in labels for labels in linked.shown().values()] == [True]
    linked.session.follow((0, 1))
    linked.steps()
    assert [STALE in labels for labels in linked.shown().values()] == [False, False]


def test_a_service_that_is_listed_no_more_is_gone(linked: Linked) -> None:
    del linked.nacos.lists[THERE]
    linked.steps(LIST_MS)
    assert (linked.shown(), linked.nacos.watched) == ({}, set())


def test_a_nacos_that_lists_almost_nothing_at_once_is_doubted() -> None:
    """L5."""
    one = Linked()
    names = [("public", f"G@@s{number}") for number in range(4)]
    one.nacos.lists = {name: [host("10.0.0.1")] for name in names}
    one.steps()
    one.steps(SETTLED_MS)
    lists, one.nacos.lists = one.nacos.lists, {}
    one.steps(LIST_MS)
    assert all(STALE in one.here.shown(name)["10.0.0.1"] for _, name in names)
    one.nacos.lists = {names[0]: lists[names[0]]}
    one.steps(LIST_MS)
    assert STALE not in one.here.shown(names[0][1])["10.0.0.1"]
    one.steps(SETTLED_MS + 1)
    assert [set(one.here.shown(name)) for _, name in names] == [{"10.0.0.1"}, set(), set(), set()]


def test_a_nacos_that_tells_of_a_new_service_is_asked_at_once(linked: Linked) -> None:
    linked.nacos.lists["public", "G@@new"] = [host("10.0.0.3")]
    linked.steps()
    assert linked.here.shown("G@@new") == {}
    linked.nacos.has_news = True
    linked.steps()
    assert set(linked.here.shown("G@@new")) == {"10.0.0.3"}


def test_a_nacos_that_restarted_empty_removes_nothing_at_once(linked: Linked) -> None:
    """L4."""
    linked.connect(PlayedNacos(2))
    linked.nacos.lists[THERE] = [host("10.0.0.2")]
    linked.steps()
    assert {ip: STALE in one for ip, one in linked.shown().items()} == {"10.0.0.1": True, "10.0.0.2": False}
    linked.steps(SETTLED_MS + 1)
    assert set(linked.shown()) == {"10.0.0.2"}


def test_a_nacos_that_lists_nothing_any_more_is_doubted(linked: Linked) -> None:
    linked.connect(PlayedNacos(2))
    linked.steps()
    assert all(STALE in one for one in linked.shown().values())
    linked.steps(SETTLED_MS + 1)
    assert linked.shown() == {}


def test_a_silent_nacos_is_heard_again_by_its_lists(linked: Linked) -> None:
    """L2."""
    linked.follower.silent(linked.now[0])
    assert all(STALE in one for one in linked.shown().values())
    same = PlayedNacos(2)
    same.lists = linked.nacos.lists
    linked.connect(same)
    linked.steps()
    assert not any(STALE in one for one in linked.shown().values())
    assert not linked.follower.stale


def test_a_nacos_that_lists_no_names_to_the_user_is_asked_for_those_in_the_settings() -> None:
    def refuse(call: str) -> None:
        if call == "names":
            raise LinkRefused("no right to list")

    one = Linked(services="orders", groups="G")
    one.nacos.lists[THERE] = [host("10.0.0.1")]
    one.nacos.fails = refuse
    one.steps()
    one.steps(LIST_MS)
    assert (set(one.shown()), one.follower.refusal) == ({"10.0.0.1"}, "no right to list")


def test_a_list_that_cannot_be_read_is_refused_and_the_last_state_stays(linked: Linked) -> None:
    linked.nacos.pushed.append(Pushed(THERE, {"hosts": [{"ip": 1}], "lastRefTime": 1 << 40}, 100))
    linked.nacos.pushed.append(Pushed(THERE, {"hosts": [host("10.0.0.9", port=70_000)], "lastRefTime": 1 << 40}, 100))
    linked.steps()
    assert set(linked.shown()) == {"10.0.0.1", "10.0.0.2"}
    assert (linked.follower.stats.refused, "port" in linked.follower.refusal) == (2, True)


def test_a_nacos_with_more_instances_than_all_links_may_bring_is_watched_up_to_there(linked: Linked) -> None:
    linked.here.store.instances_max = 3
    linked.nacos.lists["public", "G@@many"] = [host(f"10.0.1.{number}") for number in range(2)]
    linked.steps(LIST_MS)
    assert linked.here.shown("G@@many") == {}
    assert "4 instances" in linked.follower.refusal
    linked.nacos.put(THERE, "10.0.0.1")
    linked.nacos.put(("public", "G@@many"), "10.0.1.1", "10.0.1.2")
    linked.steps()
    assert set(linked.here.shown("G@@many")) == {"10.0.1.1", "10.0.1.2"}


def test_what_has_no_local_instance_any_more_is_watched_no_longer() -> None:
    one = Linked(direction="out")
    one.here.put(NAME, "10.0.0.5")
    one.steps()
    assert one.nacos.watched == {THERE}
    one.here.put(NAME)
    one.steps()
    assert (one.nacos.watched, one.nacos.registered[THERE]) == (set(), {})


def test_local_instances_are_registered_with_their_origin_and_do_not_come_back(linked: Linked) -> None:
    linked.here.put("G@@mine", "10.0.0.5")
    linked.steps()
    mine = ("public", "G@@mine")
    [row] = linked.nacos.registered[mine].values()
    assert (row["ip"], row["metadata"]) == ("10.0.0.5", {ORIGIN: "here"})
    assert mine in linked.nacos.watched, "its list says which addresses the Nacos has itself"
    linked.nacos.lists[mine] = [dict(row)]
    linked.nacos.pushed.append(Pushed(mine, linked.nacos.info(mine), 100))
    linked.steps(LIST_MS)
    assert linked.here.shown("G@@mine") == {"10.0.0.5": {}}
    assert THERE not in linked.nacos.registered, "what came by the link went out again"
    linked.here.put("G@@mine")
    linked.steps()
    assert linked.nacos.registered[mine] == {}


def test_an_address_that_both_sides_registered_is_left_to_each(linked: Linked) -> None:
    linked.here.put(NAME, "10.0.0.1", "10.0.0.9")
    linked.steps()
    assert {ip for ip, _, _ in linked.nacos.registered[THERE]} == {"10.0.0.9"}
    linked.nacos.put(THERE, "10.0.0.2")
    linked.steps()
    linked.steps()
    assert {ip for ip, _, _ in linked.nacos.registered[THERE]} == {"10.0.0.1", "10.0.0.9"}


def test_what_the_nacos_has_itself_is_left_to_it_by_the_member_that_only_carries() -> None:
    """Of two members, the one that does not bring a service here registers it all the same."""
    one = Linked()
    brings = next(number for number in range(2) if FollowedPart(number, 2).has(NAME))
    one.nacos.lists[THERE] = [host("10.0.0.1")]
    one.session.follow((1 - brings, 2))
    one.here.put(NAME, "10.0.0.1", "10.0.0.9")
    made = list[set[str]]()
    for _ in range(5):
        one.steps(LIST_MS)
        made.append({ip for ip, _, _ in one.nacos.registered.pop(THERE, {})})
    assert made == [{"10.0.0.9"}, *[set()] * 4], "nothing is registered again"
    del one.nacos.lists[THERE]
    one.steps(LIST_MS)
    assert {ip for ip, _, _ in one.nacos.registered[THERE]} == {"10.0.0.1", "10.0.0.9"}, "it is in no list any more"


def test_a_member_that_only_carried_a_service_brings_it_when_it_takes_over() -> None:
    """The member before may have died before the others had what it brought."""
    one = Linked()
    brings = next(number for number in range(2) if FollowedPart(number, 2).has(NAME))
    one.nacos.lists[THERE] = [host("10.0.0.1")]
    one.session.follow((1 - brings, 2))
    one.here.put(NAME, "10.0.0.9")
    one.steps()
    assert set(one.shown()) == {"10.0.0.9"}
    one.session.follow((0, 1))
    one.steps()
    assert set(one.shown()) == {"10.0.0.1", "10.0.0.9"}


@pytest.mark.parametrize("direction", ["in", "out"])
def test_each_direction_alone(direction: str) -> None:
    one = Linked(direction=direction)
    one.nacos.lists[THERE] = [host("10.0.0.1")]
    one.here.put("G@@mine", "10.0.0.5")
    one.steps()
    assert (set(one.shown()), set(one.nacos.registered)) == (
        ({"10.0.0.1"}, set()) if direction == "in" else (set(), {("public", "G@@mine")})
    )
    assert not one.follower.stale


def test_what_the_nacos_refuses_is_told_and_tried_again(linked: Linked) -> None:
    def refuse(call: str) -> None:
        if call == "register":
            raise LinkRefused("metadata is too long")

    linked.nacos.fails = refuse
    linked.here.put("G@@mine", "10.0.0.5")
    linked.steps()
    assert (linked.follower.stats.refused, linked.follower.refusal) == (1, "metadata is too long")
    linked.nacos.fails = lambda call: None
    linked.steps(RETRY_MS)
    assert linked.nacos.registered.keys() == {("public", "G@@mine")}


def test_a_nacos_that_does_not_answer_ends_the_session(linked: Linked) -> None:
    def fail(call: str) -> None:
        raise LinkError("no answer")

    linked.nacos.fails = fail
    with pytest.raises(LinkError, match="no answer"):
        linked.steps(LIST_MS)
    assert set(linked.shown()) == {"10.0.0.1", "10.0.0.2"}
