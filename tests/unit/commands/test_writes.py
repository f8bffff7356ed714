"""The order of a write: what is asked before it, what is done, and who is told of it."""

from dataclasses import dataclass, field, replace

import pytest

from app.commands.outcomes import DONE, WAITS, Beaten, Done
from app.commands.ownership import Forward
from app.commands.record_commands import ChangeInstance, UpdateMetadata
from app.commands.write_caller import Misdirected, PassedOn
from app.commands.writes import Command
from app.metrics.audit_trail import Actor
from app.naming.model.model import Instance, Publication
from app.naming.model.nacos_errors import InvalidParam, NotExecuted, TooManyRequests
from app.naming.records.record_keys import override_key
from app.naming.registry.operations import Beat, DeregisterInstance, PatchInstance, RegisterInstance, UpdateInstance
from app.naming.wire.service_info import QUICK_HOSTS_MAX
from distro.model.types import CAPABILITY_WRITES, NO_VERSION, Member, MemberState
from tests.support.fake_node import PEER, FakeNode, StubCluster

SERVICE = "DEFAULT_GROUP@@a"
ONE = RegisterInstance(SERVICE, "10.0.0.1", 80)
ALICE = Actor("10.9.9.9", "alice")
REMOVE = DeregisterInstance(SERVICE, "10.0.0.1", 80)
COMMANDS: dict[str, Command] = {
    "register": ONE,
    "update": UpdateInstance(ONE._replace(weight=2.0), strict=False),
    "patch": PatchInstance(SERVICE, "10.0.0.1", 80, weight=3.0),
    "beat": Beat(SERVICE, "10.0.0.1", 80, full=True, weight=1.0),
    "deregister": REMOVE,
}


@dataclass
class Asker:
    """A caller; by default a client at the event loop."""

    on_loop: bool = True
    deadline: str | None = None
    address: object | None = None
    wants_change: str | None = None
    passed_on: PassedOn | None = None
    login_wait: None = None
    actor: Actor = ALICE
    counted: int = 0
    refuses: bool = field(default=False)

    def count_write(self) -> None:
        if self.refuses:
            raise TooManyRequests("too many", 1.0)
        self.counted += 1


@pytest.fixture
def node() -> FakeNode:
    made = FakeNode(cluster=StubCluster(standalone=False))
    assert made.writes.execute(ONE, Asker()) is DONE
    made.audited.clear()
    return made


def stored(node: FakeNode) -> tuple[float, bool] | None:
    found = node.naming.hot_detail("public", SERVICE, "10.0.0.1", 80, "DEFAULT")
    return found and (found.weight, found.healthy)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("state", [MemberState.STARTING, MemberState.DOWN])
def test_a_member_that_does_not_serve_does_nothing(node: FakeNode, name: str, state: MemberState) -> None:
    node.cluster.own_state = state
    before = stored(node)
    with pytest.raises(NotExecuted, match=state.value):
        node.writes.execute(COMMANDS[name], Asker())
    assert (stored(node), node.audited) == (before, [])


@pytest.mark.parametrize("name", COMMANDS)
def test_what_may_have_waited_is_refused_and_counted(node: FakeNode, name: str) -> None:
    node.http.stood_still = True
    before = stored(node)
    with pytest.raises(NotExecuted, match="stood still"):
        node.writes.execute(COMMANDS[name], Asker())
    assert (stored(node), node.audited, node.http.too_late) == (before, [], 1)


@pytest.mark.parametrize("name", COMMANDS)
def test_another_owner_is_named_and_nothing_is_done_here(node: FakeNode, name: str) -> None:
    node.cluster.give_to(PEER)
    before = stored(node)
    assert node.writes.execute(COMMANDS[name], Asker()) == Forward(SERVICE)
    assert (stored(node), node.audited) == (before, [])


@pytest.mark.parametrize("name", COMMANDS)
def test_what_was_passed_on_goes_no_further(node: FakeNode, name: str) -> None:
    node.cluster.give_to(PEER)
    passed_on = PassedOn("127.0.0.2", "/nacos/v1/ns/instance", by_own_kind=True)
    with pytest.raises(Misdirected, match=r"peer 127\.0\.0\.2"):
        node.writes.execute(COMMANDS[name], Asker(passed_on=passed_on))


def test_each_change_is_told_to_the_audit_trail_once(node: FakeNode) -> None:
    for name in ("register", "update", "update", "patch", "deregister", "deregister"):
        node.writes.execute(COMMANDS[name], Asker())
    key = f"public/{SERVICE}/10.0.0.1:80:unknown:DEFAULT"
    assert [(what, found) for what, found, *_ in node.audited] == [
        (what, key) for what in ("instance.update", "instance.update", "instance.remove")
    ]
    assert set(node.instruments.audit.actors) == {ALICE}  # type: ignore[attr-defined]


def test_the_audit_trail_has_the_removed_instance_beside_one_of_a_grpc_client(node: FakeNode) -> None:
    removed = node.naming.hot_detail("public", SERVICE, "10.0.0.1", 80, "DEFAULT")
    assert removed is not None
    other = replace(removed, ip="10.0.0.2")
    publication = Publication({other.key: other}, batch=False, at_ms=0, seen=NO_VERSION)
    node.registry.table.publish("public", SERVICE, "client", publication, 0)
    assert node.writes.execute(REMOVE, Asker()) is DONE
    key = f"public/{SERVICE}/10.0.0.1:80:unknown:DEFAULT"
    assert node.audited == [("instance.remove", key, removed, None)]


def test_who_passed_a_write_on_gets_the_change_and_the_time_of_its_ages(node: FakeNode) -> None:
    changed = node.writes.execute(COMMANDS["update"], Asker(wants_change="2"))
    assert isinstance(changed, Done)
    assert changed.change is not None
    assert b'"short"' in changed.change
    assert changed.made_at == node.cluster.stamp()
    again = node.writes.execute(COMMANDS["update"], Asker(wants_change="2"))
    assert isinstance(again, Done)
    assert again.change is not None, "its version alone"
    assert (b'"short"' in again.change, again.made_at) == (False, "")


def test_a_durable_write_is_for_a_thread(node: FakeNode) -> None:
    durable = ONE._replace(ephemeral=False)
    assert node.writes.execute(durable, Asker()) is WAITS
    assert not node.disk.records
    assert node.writes.execute(durable, Asker(on_loop=False)) is DONE
    assert node.disk.records


def test_a_strict_update_of_nothing_is_refused(node: FakeNode) -> None:
    with pytest.raises(InvalidParam):
        node.writes.execute(UpdateInstance(ONE._replace(ip="10.0.0.2"), strict=True), Asker())
    assert node.audited == []


def test_a_full_beat_that_registers_counts_as_a_write(node: FakeNode) -> None:
    new = Beat(SERVICE, "10.0.0.9", 80, full=True, weight=1.0)
    limited = Asker(address="10.9.9.9")
    for _ in range(2):
        outcome = node.writes.execute(new, limited)
        assert isinstance(outcome, Beaten)
        assert outcome.known
    assert limited.counted == 1
    with pytest.raises(TooManyRequests):
        node.writes.execute(new._replace(port=81), Asker(address="10.9.9.9", refuses=True))
    assert node.naming.hot_detail("public", SERVICE, "10.0.0.9", 81, "DEFAULT") is None


@pytest.mark.parametrize(
    ("writer", "told"), [(f"{PEER}~7", True), ("10.3.3.3:8848~7", False), ("127.0.0.1:8848~0", False)]
)
def test_a_beat_is_told_to_the_listed_member_that_wrote_the_list_until_it_is_claimed(
    node: FakeNode, writer: str, told: bool
) -> None:
    """By its view that member may be the owner still, and take the instance for silent."""
    service = node.registry.table.get("public", SERVICE)
    assert service is not None
    key = service.key
    node.cluster.others = [Member(PEER, MemberState.UP, frozenset({CAPABILITY_WRITES}))]
    node.writes.execute(COMMANDS["beat"], Asker())
    assert node.beats.is_empty, "this run wrote it"
    service.version = replace(service.version, writer=writer)
    outcome = node.writes.execute(COMMANDS["beat"], Asker())
    assert isinstance(outcome, Beaten)
    assert outcome.known
    batches = dict(node.beats.take(node.monotonic_ms()))
    assert {to: list(batch) for to, batch in batches.items()} == (
        {PEER: [(key, "10.0.0.1:80:unknown:DEFAULT")]} if told else {}
    )


PUBLISHED = RegisterInstance(SERVICE, "10.0.0.2", 80)
BESIDE: dict[str, Command] = {
    "update": UpdateInstance(PUBLISHED._replace(weight=2.0), strict=True),
    "patch": PatchInstance(SERVICE, "10.0.0.2", 80, weight=2.0),
    "change": ChangeInstance("public", SERVICE, "10.0.0.2", 80, "DEFAULT", weight=2.0),
    "batch": UpdateMetadata("public", SERVICE, "ephemeral", (), {"a": "b"}, removes=False),
}


def publish(node: FakeNode, count: int = 1) -> None:
    """Have a client with a connection publish instances, the first one at the address of ``PUBLISHED``."""
    instances = [Instance("10.0.0.2", 80 + number, service_name=SERVICE) for number in range(count)]
    publication = Publication({one.key: one for one in instances}, True, 0, NO_VERSION)
    node.registry.table.publish("public", SERVICE, "c1", publication, 0)


@pytest.mark.parametrize("name", BESIDE)
def test_a_change_beside_an_instance_waits_for_the_disk_on_a_thread_of_its_owner(node: FakeNode, name: str) -> None:
    publish(node)
    assert node.writes.execute(BESIDE[name], Asker()) is WAITS
    node.cluster.give_to(PEER)
    to = node.writes.execute(BESIDE[name], Asker(on_loop=False))
    assert isinstance(to, Forward)
    assert (to.tag, override_key("public", SERVICE, "10.0.0.2:80:unknown:DEFAULT") in to.durable) == (SERVICE, True)
    node.cluster.give_to(node.cluster.self_address)
    node.writes.execute(BESIDE[name], Asker(on_loop=False))
    assert [one.key for one in node.durable.overrides.records()] == list(to.durable)


@pytest.mark.parametrize("name", ["update", "patch"])
def test_the_loop_does_not_look_through_many_publications(node: FakeNode, name: str) -> None:
    publish(node, QUICK_HOSTS_MAX + 1)
    ours = {"update": UpdateInstance(ONE._replace(weight=2.0), strict=True), "patch": COMMANDS["patch"]}
    assert node.writes.execute(ours[name], Asker()) is WAITS
    assert isinstance(node.writes.execute(ours[name], Asker(on_loop=False)), Done)
    assert node.durable.overrides.records() == []
