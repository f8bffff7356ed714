"""What becomes of what another cluster says: rules L1 to L7, each without a network and by a time of the test."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.config.link_settings import LinkSettings, LinkSource
from app.links.feed import Feed
from app.links.feed_lines import EVERY_SERVICE, SETTLED_MS, FeedLines, FollowedPart, Greeting
from app.links.fetch_again import INTERVAL_MS, NAMES_MAX, FetchAgain
from app.links.follower import LinkFollower, LinkRules
from app.naming.model.events import InstancesChanged, ServiceChanged
from app.naming.model.foreign import LINK, ORIGIN, STALE
from app.naming.model.keys import WORD_MARGIN_MS
from app.naming.model.model import Instance, Publication
from app.naming.registry.foreign_table import ForeignTable
from app.naming.registry.registry import Registry
from app.naming.wire.foreign_wire import decode_all, parse_digest
from app.replication.foreign_type import ForeignStore
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum
from tests.support.registry_parts import naming_of

NAME, OTHERS = "G@@orders", ["G@@a", "G@@b", "G@@c"]


def settings_of(**more: str) -> LinkSettings:
    texts = {"rollcall.link.dc-b.servers": "127.0.0.1:1"} | {f"rollcall.link.dc-b.{k}": v for k, v in more.items()}
    [settings] = LinkSource(((texts, "test"),)).read()
    return settings


class Side:
    """A node of one cluster: its registry, and its feed."""

    def __init__(self, cluster: str, run: str, now: list[int]) -> None:
        self.now, self.cluster, self.run = now, cluster, run
        self.handlers: list[tuple[type, Callable[..., None]]] = []
        self.registry = Registry.of(f"{cluster}:1~1")
        self.naming = naming_of(self.registry, lambda: now[0], self.publish)
        self.foreign = ForeignTable(self.registry.table)
        self.store = ForeignStore(f"{cluster}:1~1", self.foreign, self.publish, lambda: now[0], 90_000, 1_000)
        self.feed = Feed(self.registry.table, lambda of, handler: self.handlers.append((of, handler)), lambda: now[0])
        self.begun_ms = now[0]

    def publish(self, event: object) -> None:
        for of, handler in self.handlers:
            if type(event) is of:
                handler(event)

    def greeting(self) -> Greeting:
        return Greeting(self.cluster, self.run, self.now[0] - self.begun_ms)

    def put(self, name: str, *ips: str, **more: Any) -> None:
        """Have a client with a connection publish these instances, in place of its earlier ones."""
        instances = [Instance(ip, 80, service_name=name, **more) for ip in ips]
        made = Publication({one.key: one for one in instances}, True, 0, NO_VERSION)
        self.registry.table.publish("public", name, "c", made, self.now[0])
        self.publish(ServiceChanged("public", name))

    def shown(self, name: str = NAME, namespace: str = "public") -> dict[str, dict[str, str | None]]:
        view = self.naming.service_view(namespace, name)
        return {one.ip: dict(one.metadata or {}) for one in view.instances} if view is not None else {}


class Linked:
    """Two clusters of one node each; the one here follows the other."""

    def __init__(self, rules: LinkRules | None = None, **more: str) -> None:
        self.now = [1_000_000]
        self.there, self.here = Side("there", "there:1~1", self.now), Side("here", "here:1~1", self.now)
        self.follower = LinkFollower(
            settings_of(**more), lambda: "here", self.here.store, self.here.foreign.would_be_empty, self.now[0], rules
        )
        self.follower.follow(FollowedPart(0, 1, self.follower.settings.chosen))
        self.lines: FeedLines | None = None

    def restart(self, *, up_ms: int = 0) -> None:
        """Replace the other cluster by an empty one, which runs since ``up_ms``."""
        self.there = Side("there", "there:1~2", self.now)
        self.there.begun_ms -= up_ms

    def compare(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Compare all. ``meanwhile`` is called while the answer is under way."""
        there, follower = self.there, self.follower
        there.feed.begin()
        place = there.feed.place()
        asked = follower.held()
        rows: Any = follower.body(asked, 0, 1)["held"]
        held = {(row[0], row[1]): parse_digest(row[2], "held") for row in rows}
        part = follower.part
        assert part is not None
        found, gone, count, more = there.feed.compare(held, part.takes, 1 << 20)
        fields = there.greeting().fields(there.feed, place) | {"count": count, "more": more, "gone": gone}
        answer = orjson.loads(orjson.dumps(fields | {"set": [orjson.loads(one) for one in found]}))
        meanwhile()
        follower.compared([answer], asked, self.now[0])
        placed = follower.placed
        assert placed is not None
        self.lines = FeedLines(there.feed, part.takes, placed.run, placed.place, there.greeting)
        self.lines.attach(lambda: None)

    def read(self) -> list[dict[str, Any]]:
        """Take what the stream has. Return its lines."""
        assert self.lines is not None
        lines = [orjson.loads(one) for one in (self.lines.read(is_idle=True) or b"").splitlines()]
        for one in lines:
            self.follower.line(one, self.now[0])
        return lines


@pytest.fixture
def linked() -> Linked:
    one = Linked()
    one.there.put(NAME, "10.0.0.1", "10.0.0.2")
    one.compare()
    return one


def test_what_is_registered_there_is_shown_here_with_its_origin(linked: Linked) -> None:
    assert linked.here.shown() == {ip: {ORIGIN: "there", LINK: "dc-b"} for ip in ("10.0.0.1", "10.0.0.2")}
    assert linked.here.naming.list_services("public", None) == [NAME]


def test_health_is_what_the_other_cluster_says(linked: Linked) -> None:
    linked.there.put(NAME, "10.0.0.1", "10.0.0.2", healthy=False)
    linked.read()
    view = linked.here.naming.service_view("public", NAME)
    assert view is not None
    assert [one.healthy for one in view.instances] == [False, False]


def test_a_change_travels_as_a_delta(linked: Linked) -> None:
    linked.there.put(NAME, "10.0.0.1", "10.0.0.2", "10.0.0.3")
    linked.read()
    linked.there.put(NAME, "10.0.0.2", "10.0.0.3")
    [line] = [one for one in linked.read() if "service" in one]
    assert (line["instances"], line["gone"]) == ([], ["10.0.0.1:80:unknown:DEFAULT"])
    assert set(linked.here.shown()) == {"10.0.0.2", "10.0.0.3"}


def test_the_last_instance_goes_by_the_word_of_the_other_side(linked: Linked) -> None:
    linked.there.put(NAME)
    linked.read()
    assert linked.here.shown() == {}
    assert linked.here.naming.list_services("public", None) == []


def test_a_delta_whose_base_is_not_held_has_the_link_compare(linked: Linked) -> None:
    """L3."""
    linked.there.put(NAME, "10.0.0.3")
    assert linked.lines is not None
    linked.lines.read(is_idle=False)  # lost under way
    linked.there.put(NAME, "10.0.0.3", "10.0.0.4")
    linked.read()
    assert linked.follower.placed is None
    linked.compare()
    assert set(linked.here.shown()) == {"10.0.0.3", "10.0.0.4"}


def test_a_follower_whose_place_the_log_no_longer_has_compares(linked: Linked) -> None:
    placed = linked.follower.placed
    assert placed is not None
    lines = FeedLines(linked.there.feed, lambda *_: True, "another-log", placed.place, linked.there.greeting)
    linked.follower.line(orjson.loads(lines.read(is_idle=False) or b""), linked.now[0])
    assert linked.follower.placed is None
    assert lines.read(is_idle=False) is None


def test_what_a_link_brought_leaves_by_no_link(linked: Linked) -> None:
    linked.here.feed.begin()
    assert linked.here.feed.compare({}, lambda *_: True, 1 << 20)[0] == []


def test_an_address_that_is_registered_here_too_is_the_local_one(linked: Linked) -> None:
    linked.here.put(NAME, "10.0.0.2", "10.0.0.9")
    assert list(linked.here.shown()) == ["10.0.0.2", "10.0.0.9", "10.0.0.1"]
    assert linked.here.shown()["10.0.0.2"] == {}


def test_a_link_to_this_cluster_itself_is_refused() -> None:
    """L1."""
    one = Linked()
    one.there.cluster = "here"
    with pytest.raises(CodecError, match=r"rollcall\.cluster\.id"):
        one.compare()


def test_a_silent_link_marks_what_it_brought_until_it_is_heard(linked: Linked) -> None:
    """L2."""
    linked.now[0] += 3_000
    linked.follower.silent(linked.now[0])
    assert {one[STALE] for one in linked.here.shown().values()} == {"true"}
    linked.read()
    assert not any(STALE in one for one in linked.here.shown().values())


def test_a_cluster_that_restarted_empty_removes_nothing_at_once(linked: Linked) -> None:
    """L4."""
    linked.restart()
    linked.there.put(NAME, "10.0.0.2")
    linked.compare()
    shown = linked.here.shown()
    assert (STALE in shown["10.0.0.1"], STALE in shown["10.0.0.2"]) == (True, False)
    assert linked.follower.recheck_ms == linked.now[0] + SETTLED_MS + 1
    linked.now[0] += SETTLED_MS
    linked.compare()
    assert set(linked.here.shown()) == {"10.0.0.2"}


def test_a_young_member_removes_what_it_had_and_nothing_that_another_one_had(linked: Linked) -> None:
    """L4: a member of this cluster that followed another one brought an instance which the young one never had."""
    here = linked.here
    linked.restart()
    linked.there.put(NAME, "10.0.0.1", "10.0.0.2")
    linked.compare()
    heard_by_other(linked, "10.0.0.1", "10.0.0.2", "10.0.0.3")
    linked.compare()
    assert {ip for ip, labels in here.shown().items() if STALE in labels} == {"10.0.0.3"}
    linked.there.put(NAME)
    linked.compare()
    assert set(here.shown()) == {"10.0.0.3"}
    linked.now[0] += SETTLED_MS
    linked.compare()
    assert here.shown() == {}


def test_what_came_from_another_member_during_a_comparison_was_not_compared(linked: Linked) -> None:
    """L4: it is not confirmed, so a young member, which never had it, does not remove it afterwards."""
    linked.restart()
    linked.there.put(NAME, "10.0.0.1", "10.0.0.2")
    linked.compare(lambda: heard_by_other(linked, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
    linked.compare()
    assert {ip for ip, labels in linked.here.shown().items() if STALE in labels} == {"10.0.0.3"}


def heard_by_other(linked: Linked, *ips: str) -> None:
    """Have the owner merge what another member heard of an older member of the other cluster."""
    store, other = linked.here.store, Side("there", "there:2~1", linked.now)
    other.put(NAME, *ips)
    [(key, state)], version = store.parts("dc-b"), store.version(store.all_keys()[0])
    [line], _, _, _ = other.feed.compare({}, lambda *_: True, 1 << 20)
    assert version is not None
    fields = orjson.loads(line)
    instances = decode_all(fields["instances"], "public", NAME, len(ips))
    digest = parse_digest(fields["digest"], "digest")
    heard_ms = linked.now[0] + WORD_MARGIN_MS + 1
    later = replace(state, run=other.run, digest=digest, instances=instances, kept={}, stated_ms=heard_ms)
    store.merge(Datum(key, version.next_epoch("other:1~1"), later), linked.now[0])


def test_a_service_that_another_settled_member_lacks_goes(linked: Linked) -> None:
    linked.restart(up_ms=SETTLED_MS)
    linked.compare()
    assert linked.here.shown() == {}


def test_an_empty_answer_is_doubted_for_a_while(linked: Linked) -> None:
    """L5."""
    for name in OTHERS:
        linked.there.put(name, "10.0.0.1")
    linked.read()
    linked.restart(up_ms=SETTLED_MS)
    for _ in range(2):
        linked.compare()
        assert all(STALE in one for name in (NAME, *OTHERS) for one in linked.here.shown(name).values())
        linked.now[0] += SETTLED_MS // 3
    linked.now[0] += SETTLED_MS
    linked.compare()
    assert linked.here.naming.list_services("public", None) == []


@pytest.mark.parametrize("has_local", [True, False])
def test_what_was_silent_for_too_long_goes_but_no_service_becomes_empty(linked: Linked, has_local: bool) -> None:
    """L6."""
    if has_local:
        linked.here.put(NAME, "10.0.0.9")
    linked.follower.silent(linked.now[0])
    linked.now[0] += 599_999
    linked.follower.silent(linked.now[0])
    assert len(linked.here.shown()) == 2 + has_local
    linked.now[0] += 1
    linked.follower.silent(linked.now[0])
    assert set(linked.here.shown()) == ({"10.0.0.9"} if has_local else {"10.0.0.1", "10.0.0.2"})


def test_a_service_that_was_not_asked_for_is_refused(linked: Linked) -> None:
    """L7."""
    linked.follower.part = FollowedPart(0, 1, settings_of(services="orders").chosen)
    line = {"ns": "public", "service": "G@@other", "digest": "0" * 16, "instances": [{"ip": "10.0.0.7", "port": 1}]}
    linked.follower.line(line, linked.now[0])
    assert linked.here.shown("G@@other") == {}
    assert linked.follower.stats.refused == 1


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"digest": "x"}, "digest"),
        ({"service": "no-group"}, "serviceName"),
        ({"service": "G@@" + "x" * 700}, "serviceName"),
        ({"instances": [{"ip": "10.0.0.7", "port": 70_000}]}, "port"),
        ({"instances": [{"ip": "10.0.0.7", "port": 1, "metadata": {"a": "x" * 70_000}}]}, "metadata"),
        ({"instances": {}}, "instances"),
        (
            {"instances": [{"ip": f"10.0.{one // 250}.{one % 250}", "port": 1} for one in range(1_001)]},
            "1000 instances",
        ),
    ],
)
def test_what_a_liar_says_of_a_service_is_refused(linked: Linked, wrong: dict[str, Any], why: str) -> None:
    before = linked.here.shown()
    line = {"ns": "public", "service": NAME, "digest": "0" * 16, "instances": []} | wrong
    linked.follower.line(line, linked.now[0])
    assert linked.here.shown() == before
    assert why in linked.follower.refusal


def test_renamed_namespaces_come_under_their_name_here() -> None:
    one = Linked(namespaceMap="public:other")
    one.there.put(NAME, "10.0.0.1")
    one.compare()
    assert (set(one.here.shown(namespace="other")), one.here.shown()) == ({"10.0.0.1"}, {})
    assert one.follower.body(one.follower.held(), 0, 1)["held"][0][:2] == ["public", NAME]  # type: ignore[index] # a list of rows


def test_only_chosen_services_come() -> None:
    one = Linked(services="*,!secret*")
    one.there.put(NAME, "10.0.0.1")
    one.there.put("G@@secret-1", "10.0.0.1")
    one.compare()
    assert one.here.naming.list_services("public", None) == [NAME]


def test_instances_that_arrive_apart_have_a_cluster_of_their_own() -> None:
    one = Linked(arrival="apart", weight="0.5")
    one.there.put(NAME, "10.0.0.1")
    one.compare()
    view = one.here.naming.service_view("public", NAME)
    assert view is not None
    assert [(it.cluster_name, it.weight, it.instance_id) for it in view.instances] == [
        ("dc-b", 0.5, f"10.0.0.1#80#dc-b#{NAME}")
    ]


def test_failover_shows_foreign_instances_while_too_few_local_ones_are_healthy() -> None:
    one = Linked(arrival="failover", healthyMin="2")
    one.there.put(NAME, "10.0.0.1")
    one.compare()
    assert set(one.here.shown()) == {"10.0.0.1"}
    one.here.put(NAME, "10.0.0.8", "10.0.0.9")
    assert set(one.here.shown()) == {"10.0.0.8", "10.0.0.9"}
    one.here.put(NAME, "10.0.0.9")
    assert set(one.here.shown()) == {"10.0.0.9", "10.0.0.1"}


def test_nothing_is_noted_before_the_first_follower() -> None:
    side = Side("there", "there:1~1", [1])
    assert side.handlers == []
    side.feed.begin()
    side.feed.begin()
    assert [of for of, _ in side.handlers] == [InstancesChanged, ServiceChanged]
    assert EVERY_SERVICE.takes("any", "group", "service")


def test_without_a_rule_its_fault_happens() -> None:
    """A rule that is switched off is noticed: L2, L4, L5, L6 and L7."""
    unmarked = _after(LinkRules(marks_stale=False))
    unmarked.follower.silent(unmarked.now[0])
    assert not any(STALE in one for one in unmarked.here.shown().values())
    hasty = _after(LinkRules(keeps_unsettled=False))
    hasty.restart()
    hasty.compare()
    assert hasty.here.shown() == {}
    credulous = _after(LinkRules(doubts_losses=False), *OTHERS)
    credulous.restart(up_ms=SETTLED_MS)
    credulous.compare()
    assert credulous.here.naming.list_services("public", None) == []
    emptied = _after(LinkRules(keeps_last=False))
    emptied.follower.silent(emptied.now[0])
    emptied.now[0] += 600_000
    emptied.follower.silent(emptied.now[0])
    assert emptied.here.shown() == {}
    open_to_all = _after(LinkRules(checks_parts=False), services="orders")
    line = {"ns": "public", "service": "G@@other", "digest": "0" * 16, "instances": [{"ip": "10.0.0.7", "port": 1}]}
    open_to_all.follower.line(line, open_to_all.now[0])
    assert set(open_to_all.here.shown("G@@other")) == {"10.0.0.7"}


def _after(rules: LinkRules, *names: str, **more: str) -> Linked:
    """Return two linked clusters of which one lacks a rule, after their first comparison."""
    one = Linked(rules, **more)
    for name in (NAME, *names):
        one.there.put(name, "10.0.0.1")
    one.compare()
    return one


def test_a_link_compares_after_another_member_replaced_what_it_brought(linked: Linked) -> None:
    """L8: another member took the service over for a while, and marked it as stale."""
    here, follower = linked.here, linked.follower
    [(key, state)] = here.store.parts("dc-b")
    version = here.store.version(key)
    assert version is not None
    follower.begin_comparison()
    assert not follower.is_disturbed
    stale = replace(state, stale_ms=linked.now[0], stated_ms=linked.now[0])
    here.store.merge(Datum(key, version.next_epoch("other:1~1"), stale), linked.now[0])
    assert all(STALE in one for one in here.shown().values())
    assert follower.is_disturbed
    linked.compare()
    assert not any(STALE in one for one in here.shown().values())


def test_a_service_that_an_operator_asks_for_comes_whole_whatever_is_held() -> None:
    linked = Linked()
    linked.there.put(NAME, "10.0.0.1")
    linked.compare()
    [(key, held)] = linked.here.store.parts("dc-b")
    wrong = {one: replace(it, weight=7.0) for one, it in held.instances.items()}
    linked.here.store.put(key, replace(held, instances=wrong))
    linked.compare()
    assert linked.here.store.part(key) == replace(held, instances=wrong), "its digest tells nothing of the fault"
    assert linked.follower.again.ask([("public", NAME)], 0) == 0
    assert linked.follower.again.ask([], INTERVAL_MS - 1) == 1
    linked.follower.again.begin()
    linked.follower.again.failed()
    assert linked.follower.again.is_due, "it broke off, so the next comparison fetches the same"
    linked.follower.again.begin()
    linked.compare()
    linked.follower.again.fetched()
    part = linked.here.store.part(key)
    assert (part and part.instances, linked.follower.again.is_due) == (held.instances, False)


def test_requests_to_fetch_again_are_bounded() -> None:
    again = FetchAgain()
    assert again.ask([("public", f"G@@s{number}") for number in range(NAMES_MAX)], 0) == 0
    assert again.ask([("public", "G@@more")], INTERVAL_MS) == INTERVAL_MS
    again.begin()
    assert again.ask([("public", "G@@s1")], INTERVAL_MS) == 0
    again.fetched()
    assert again.is_due, "one was asked for after the comparison began"
    assert again.ask([("public", "G@@more")], 2 * INTERVAL_MS) == 0


def test_a_comparison_that_breaks_off_is_made_again_if_it_was_asked_for() -> None:
    again = FetchAgain()
    again.begin()
    again.failed()
    assert not again.is_due
    assert again.ask([], 0) == 0
    again.begin()
    again.failed()
    assert again.is_due
