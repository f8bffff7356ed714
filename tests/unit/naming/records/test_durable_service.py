"""DurableService: each change is a record, told to the members, and survives the end of the node."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from app.naming.model.events import Event, InstancesChanged, Origin, RecordChanged, ServiceChanged
from app.naming.model.keys import datum_key
from app.naming.model.meta import NO_SELECTOR, ClusterConfig, HealthChecker, ServiceMeta, label_selector
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import InvalidParam, NotFound, StorageError
from app.naming.model.switches import SwitchDomain
from app.naming.records.durable_service import DurableService, Namespace
from app.naming.records.projection import Projection
from app.naming.records.record import Record
from app.naming.records.record_keys import SWITCHES_KEY, namespace_key, persistent_key, service_meta_key
from app.naming.records.records import SAID_AGAIN_MS, Records
from app.naming.registry.operations import Beat, ChangeMetadata, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.union import view_of
from app.tools.simulation.member.disk import MemoryDisk
from tests.support.taken_first import TakenFirst
from tests.support.thorough import examples

NAME = "g@@s"
META = service_meta_key("public", NAME)
INSTANCE_KEY = "10.0.0.1:80:unknown:DEFAULT"
KEY = persistent_key("public", NAME, INSTANCE_KEY)
ONE = RegisterInstance(NAME, "10.0.0.1", 80, ephemeral=False, metadata={"k": "v"})
EPHEMERAL = ONE._replace(ephemeral=True)


class Member:
    """A member's domain on a disk."""

    def __init__(self, disk: MemoryDisk | None = None, run: int = 1) -> None:
        self.disk = disk or MemoryDisk()
        self.now_ms = 1_000
        self.events: list[Event] = []
        writer = f"a:1~{run}"
        self.registry = Registry.of(writer)
        projection = Projection(self.registry.table, lambda: 0, self.events.append)
        self.records = Records(writer, self.disk, lambda: 1_000, lambda: self.now_ms, projection.on_record)
        self.durable = DurableService(
            self.records, projection, self.registry.table, self.registry.writes, lambda: 0, self.events.append
        )
        self.records.read_disk()

    def restarted(self) -> "Member":
        return Member(self.disk, 2)

    def view(self) -> ServiceView | None:
        service = self.registry.table.get("public", NAME)
        return None if service is None or service.hidden else view_of(service)

    def instances(self) -> list[Instance]:
        view = self.view()
        return list(view.instances) if view else []

    def told(self) -> list[str]:
        """The records that members were told of since the last call."""
        keys = [event.key for event in self.events if isinstance(event, RecordChanged)]
        self.events.clear()
        return keys


@pytest.fixture
def member() -> Member:
    return Member()


# --- services -------------------------------------------------------------------------------------


def test_create_and_update(member: Member) -> None:
    meta = ServiceMeta(0.5, {"a": "1"}, label_selector("CONSUMER.label.A=PROVIDER.label.A"))
    member.durable.create_service("public", NAME, meta)
    assert member.told() == [META]
    view = member.restarted().view()
    assert view is not None
    assert view.meta == meta
    member.durable.update_cluster("public", NAME, "c1", ClusterConfig(HealthChecker("NONE")))
    member.durable.update_service("public", NAME, 0.25, {}, NO_SELECTOR)
    view = member.view()
    assert view is not None
    assert view.meta == ServiceMeta(0.25, {}, NO_SELECTOR, {"c1": ClusterConfig(HealthChecker("NONE"))})
    assert view.clusters == ("c1",)
    assert member.told() == [META, META]


@pytest.mark.parametrize(("namespace", "name"), [("public", "a\nb"), ("a##b", NAME), ("public", "x" * 643)])
def test_names_that_are_not_allowed(member: Member, namespace: str, name: str) -> None:
    with pytest.raises(InvalidParam):
        member.durable.create_service(namespace, name, ServiceMeta())
    with pytest.raises(InvalidParam):
        member.durable.register(ONE._replace(namespace=namespace, service=name))
    assert not member.disk.records


def test_a_name_is_taken_by_instances_too(member: Member) -> None:
    member.registry.writes.register(EPHEMERAL, 0)
    with pytest.raises(InvalidParam, match="specified service already exists, serviceName : g@@s"):
        member.durable.create_service("public", NAME, ServiceMeta())


def test_of_two_that_create_at_once_one_is_refused(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    member.durable.create_service("public", NAME, ServiceMeta(0.5))
    monkeypatch.setattr(member.registry.table, "get", lambda namespace, name: None)  # as the other saw it before
    with pytest.raises(InvalidParam, match="already exists"):
        member.durable.create_service("public", NAME, ServiceMeta(0.7))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda durable: durable.update_service("public", NAME, 0, {}, NO_SELECTOR), f"service {NAME} not found!"),
        (lambda durable: durable.remove_service("public", NAME), f"service not exist, serviceName : {NAME}"),
        (lambda durable: durable.update_cluster("public", NAME, "c", ClusterConfig()), f"service not found:{NAME}"),
    ],
)
@pytest.mark.parametrize("removed", [False, True])
def test_what_is_not_there(member: Member, call: Callable[[DurableService], None], text: str, removed: bool) -> None:
    if removed:
        member.registry.writes.register(EPHEMERAL, 0)
        member.durable.remove_service("public", NAME)
    with pytest.raises(InvalidParam, match=text):
        call(member.durable)


def test_a_removed_service_takes_everything_with_it(member: Member) -> None:
    member.durable.register(ONE)
    member.registry.writes.register(EPHEMERAL, 0)
    member.told()
    member.durable.remove_service("public", NAME)
    assert member.view() is None
    assert InstancesChanged(datum_key("public", NAME), Origin.LOCAL) in member.events
    assert sorted(member.told()) == sorted([META, KEY])
    assert member.restarted().view() is None


def test_a_removal_is_a_record_even_without_a_description(member: Member) -> None:
    member.registry.writes.register(EPHEMERAL, 0)
    member.durable.remove_service("public", NAME)
    assert member.told() == [META], "or the members would not learn that the service went"
    assert member.view() is None


def test_a_removed_service_can_be_made_again(member: Member) -> None:
    for _ in range(2):
        member.durable.create_service("public", NAME, ServiceMeta())
        member.durable.remove_service("public", NAME)
    member.durable.register(ONE)
    assert len(member.instances()) == 1


def test_keys_of_a_service(member: Member) -> None:
    assert member.durable.keys_of_service("public", NAME) == (META,)
    member.durable.register(ONE)
    assert member.durable.keys_of_service("public", NAME) == (META, KEY)


# --- instances ------------------------------------------------------------------------------------


def test_register_replace_and_deregister(member: Member) -> None:
    member.durable.register(ONE)
    assert member.told() == [META, KEY]
    (one,) = member.restarted().instances()
    assert (one.ephemeral, one.metadata, one.instance_id) == (False, {"k": "v"}, f"10.0.0.1#80#DEFAULT#{NAME}")
    member.durable.set_health("public", NAME, INSTANCE_KEY, False)
    member.durable.register(ONE._replace(weight=3.0))
    assert [(one.weight, one.healthy) for one in member.instances()] == [(3.0, False)], "its health is kept"
    assert ServiceChanged("public", NAME) in member.events, "subscribers are told"
    member.told()
    member.durable.register(ONE._replace(weight=3.0))
    assert member.told() == [], "what changes nothing is not written"
    member.durable.deregister(DeregisterInstance(NAME, "10.0.0.1", 80, ephemeral=False))
    assert member.told() == [KEY]
    member.durable.deregister(DeregisterInstance(NAME, "10.0.0.9", 80, ephemeral=False))
    assert member.told() == [KEY.replace("10.0.0.1", "10.0.0.9")], "a peer may have what is unknown here"
    assert member.instances() == []
    assert member.restarted().view() is not None, "the service stays"


def test_an_instance_id_is_the_least_number_that_is_free(member: Member) -> None:
    snowflake = {"preserved.instance.id.generator": "snowflake"}
    member.registry.writes.register(EPHEMERAL._replace(metadata=snowflake), 0)
    member.durable.register(ONE._replace(metadata=snowflake))
    assert [one.instance_id for one in member.instances()] == ["1", "0"]


@pytest.mark.parametrize("wrong", [{"weight": -1.0}, {"weight": float("nan")}, {"cluster": "a b"}])
def test_a_registration_that_is_refused(member: Member, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParam):
        member.durable.register(ONE._replace(**wrong))
    assert not member.disk.records


def test_update(member: Member) -> None:
    with pytest.raises(InvalidParam, match="service not found, namespace: public, service: g@@s"):
        member.durable.update(ONE, strict=True)
    member.durable.update(ONE, strict=False)
    member.durable.update(ONE._replace(cluster="c2"), strict=True)
    assert [one.cluster_name for one in member.instances()] == ["DEFAULT", "c2"], "the cluster is not compared"
    with pytest.raises(
        InvalidParam, match=r"instance not exist: 10\.0\.0\.1:81:unknown:DEFAULT_1\.0_true_false_DEFAULT"
    ):
        member.durable.update(ONE._replace(port=81), strict=True)


def test_a_beat_makes_what_is_not_there(member: Member) -> None:
    beat = Beat(NAME, "10.0.0.1", 80, full=True, weight=2.0, ephemeral=False)
    member.durable.register_from_beat(beat)
    member.durable.register_from_beat(beat._replace(weight=5.0))
    assert [(one.weight, one.metadata, one.ephemeral) for one in member.instances()] == [(2.0, None, False)]
    with pytest.raises(InvalidParam):
        member.durable.register_from_beat(beat._replace(cluster="a b"))


def test_patch(member: Member) -> None:
    patch = PatchInstance(NAME, "10.0.0.1", 80, weight=4.0, enabled=False)
    assert not member.durable.patch(patch)
    member.durable.register(ONE)
    assert member.durable.patch(patch)
    assert [(one.weight, one.enabled, one.metadata) for one in member.instances()] == [(4.0, False, {"k": "v"})]
    with pytest.raises(InvalidParam):
        member.durable.patch(replace(patch, weight=-1.0))
    assert member.durable.set_at_ms("public", NAME, INSTANCE_KEY) == 1_000
    assert member.durable.set_at_ms("public", NAME, "zz") is None


def test_metadata_of_several_in_one_step(member: Member) -> None:
    member.durable.register(ONE)
    member.durable.register(ONE._replace(port=81))
    member.told()
    keys = [INSTANCE_KEY, "10.0.0.1:81:unknown:DEFAULT", "gone"]
    member.durable.set_metadata("public", NAME, keys, ChangeMetadata({"a": "1"}, frozenset({"k"})))
    assert len(member.told()) == 2
    assert [one.metadata for one in member.instances()] == [{"a": "1"}, {"a": "1"}]


def test_a_full_disk_refuses_and_changes_nothing(member: Member) -> None:
    member.durable.register(ONE)
    member.told()
    member.disk.full = True
    for call in (
        lambda: member.durable.register(ONE._replace(weight=9.0)),
        lambda: member.durable.remove_service("public", NAME),
        lambda: member.durable.set_health("public", NAME, INSTANCE_KEY, False),
        lambda: member.durable.update_switch("check", "false", here_only=False),
        lambda: member.durable.create_namespace(Namespace("x", "n", "d")),
    ):
        with pytest.raises(StorageError):
            call()
    assert member.told() == []
    assert [(one.weight, one.healthy) for one in member.instances()] == [(1.0, True)]
    assert member.durable.switches == SwitchDomain()


def record_of(member: Member) -> Record:
    [datum] = member.records.datums([KEY])
    record: Record = datum.value
    return record


def test_settings_of_a_cluster_leave_the_rest_of_the_description(member: Member) -> None:
    member.durable.create_service("public", NAME, ServiceMeta(0.5, {"a": "1"}))
    for cluster in ("c1", "c2"):
        member.durable.update_cluster("public", NAME, cluster, ClusterConfig(check_port=90))
    view = member.view()
    assert view is not None
    clusters = dict.fromkeys(("c1", "c2"), ClusterConfig(check_port=90))
    assert view.meta == ServiceMeta(0.5, {"a": "1"}, NO_SELECTOR, clusters)


def test_what_a_client_registers_again_counts_from_then(member: Member) -> None:
    member.durable.register(ONE)
    first = record_of(member)
    member.now_ms += SAID_AGAIN_MS
    member.durable.register(ONE)
    again = record_of(member)
    assert again.value == first.value
    assert again.changed > first.changed


@pytest.mark.parametrize("by_check", [False, True])
def test_a_health_set_by_hand_is_a_word_and_one_found_by_a_check_is_none(member: Member, by_check: bool) -> None:
    """R14: only words count between the sides of a partition."""
    member.durable.register(ONE)
    before = record_of(member)
    if by_check:
        assert member.durable.set_health("public", NAME, INSTANCE_KEY, False, by_check=True)
    else:
        assert member.durable.set_health("public", NAME, INSTANCE_KEY, False)
    after = record_of(member)
    assert after.version > before.version
    assert after.changed == (before.changed if by_check else after.version)


def test_a_change_of_attributes_is_a_word(member: Member) -> None:
    member.durable.register(ONE)
    for change in (
        lambda: member.durable.patch(PatchInstance(NAME, "10.0.0.1", 80, weight=4.0)),
        lambda: member.durable.set_metadata("public", NAME, [INSTANCE_KEY], ChangeMetadata({"a": "1"})),
        lambda: member.durable.register(ONE),
    ):
        before = record_of(member)
        change()
        assert record_of(member).changed == record_of(member).version > before.version


def test_the_version_of_attributes_is_that_of_the_word_that_set_them(member: Member) -> None:
    member.durable.register(ONE)
    [one] = member.instances()
    version = record_of(member).changed
    assert member.durable.version_of("public", one) == version
    assert member.durable.version_of("public", replace(one, weight=9.0)) is None
    assert member.durable.version_of("other", one) is None
    member.durable.set_health("public", NAME, INSTANCE_KEY, False, by_check=True)
    assert member.durable.version_of("public", one) is None
    assert member.durable.version_of("public", replace(one, healthy=False)) == version
    member.durable.deregister(DeregisterInstance(NAME, "10.0.0.1", 80, ephemeral=False))
    assert member.durable.version_of("public", one) is None


# --- namespaces and switches ----------------------------------------------------------------------


def test_namespaces(member: Member) -> None:
    durable = member.durable
    assert durable.create_namespace(Namespace("b", "n", "d"))
    assert durable.create_namespace(Namespace("a", "n" * 2_000, ""))
    assert not durable.create_namespace(Namespace("a", "other", ""))
    assert [(one.id, len(one.name)) for one in member.restarted().durable.namespaces()] == [("a", 1_024), ("b", 1)]
    assert member.told() == [namespace_key("b"), namespace_key("a")]
    assert durable.update_namespace(Namespace("b", "new", ""))
    assert durable.namespace("b") == Namespace("b", "new", "")
    assert not durable.update_namespace(Namespace("zz", "n", ""))
    durable.remove_namespace("b")
    durable.remove_namespace("zz")
    durable.remove_namespace("")
    for name in ("b", ""):
        with pytest.raises(NotFound):
            durable.namespace(name)


@pytest.mark.parametrize(
    ("key", "write"),
    [
        (SWITCHES_KEY, lambda durable: durable.update_switch("healthCheckTimes", "5", here_only=False)),
        (SWITCHES_KEY, lambda durable: durable.update_switches({"checkTimes": 5}, here_only=False)),
        (namespace_key("a"), lambda durable: durable.update_namespace(Namespace("a", "n", "d"))),
    ],
)
def test_the_same_value_gets_a_new_version_so_that_it_replaces_another_one_under_the_present_version(
    member: Member, key: str, write: Callable[[DurableService], object]
) -> None:
    member.durable.create_namespace(Namespace("a", "n", ""))
    write(member.durable)
    first = member.records.record(key)
    member.now_ms += SAID_AGAIN_MS
    write(member.durable)
    again = member.records.record(key)
    assert first is not None
    assert again is not None
    assert again.value == first.value
    assert again.changed > first.changed


def test_a_namespace_that_is_removed_just_then_is_not_brought_back_by_its_change(member: Member) -> None:
    member.durable.create_namespace(Namespace("a", "n", ""))
    turns = member.records._turns
    inner = turns._lock

    def remove() -> None:
        turns._lock = inner
        member.durable.remove_namespace("a")
        turns._lock = lock  # type: ignore[assignment]

    lock = turns._lock = TakenFirst(inner, remove)  # type: ignore[assignment]
    assert member.durable.update_namespace(Namespace("a", "new", ""))
    assert lock.was_taken
    with pytest.raises(NotFound):
        member.durable.namespace("a")


@pytest.mark.parametrize("name", ["", "public", "a b", "é", "x" * 129])
def test_namespaces_that_are_not_made(member: Member, name: str) -> None:
    assert not member.durable.create_namespace(Namespace(name, "n", ""))
    assert not member.disk.records


def test_switches_are_one_record(member: Member) -> None:
    member.durable.update_switch("healthCheckTimes", "5", here_only=False)
    member.durable.update_switches({"pushEnabled": False}, here_only=False)
    assert member.told() == [SWITCHES_KEY] * 2
    again = member.restarted().durable.switches
    assert (again.check_times, again.push_enabled) == (5, False)
    member.durable.update_switch("zzz", "1", here_only=False)
    assert member.told() == []


def test_switches_of_this_member_alone(member: Member) -> None:
    member.durable.update_switch("healthCheckTimes", "5", here_only=True)
    assert member.durable.switches.check_times == 5
    assert member.told() == []
    member.durable.update_switch("check", "false", here_only=False)
    assert member.durable.switches == SwitchDomain(health_check_enabled=False), "the record counts from here on"
    member.durable.update_switch("healthCheckTimes", "5", here_only=True)
    member.told()
    member.durable.update_switch("check", "false", here_only=False)
    assert member.told() == [], "the record is as it was"
    assert member.durable.switches == SwitchDomain(health_check_enabled=False)


# --- whatever happens -----------------------------------------------------------------------------

ports = st.integers(80, 82)


class RestartsAtAnyTime(RuleBasedStateMachine):
    """Against a dict of ports to weights: what was answered is there, also after restarts and refusals."""

    def __init__(self) -> None:
        super().__init__()
        self.member, self.runs = Member(), 1
        self.model: dict[int, float] = {}

    @rule(port=ports, weight=st.sampled_from([1.0, 2.0, 3.0]), full=st.booleans())
    def register(self, port: int, weight: float, full: bool) -> None:
        command = ONE._replace(port=port, weight=weight)
        self.member.disk.full = full
        try:
            self.member.durable.register(command)
            self.model[port] = weight
        except StorageError:
            assert full
        self.member.disk.full = False

    @rule(port=ports)
    def deregister(self, port: int) -> None:
        self.member.durable.deregister(DeregisterInstance(NAME, "10.0.0.1", port, ephemeral=False))
        self.model.pop(port, None)

    @rule(port=ports, weight=st.sampled_from([1.0, 5.0]))
    def patch(self, port: int, weight: float) -> None:
        found = self.member.durable.patch(PatchInstance(NAME, "10.0.0.1", port, weight=weight))
        assert found is (port in self.model)
        if found:
            self.model[port] = weight

    @rule()
    def remove_service(self) -> None:
        if self.member.view() is not None:
            self.member.durable.remove_service("public", NAME)
        self.model.clear()

    @rule()
    def restart(self) -> None:
        self.runs += 1
        before = self.member.records.versions()
        self.member = Member(self.member.disk, self.runs)
        assert self.member.records.versions() == before

    @invariant()
    def holds_what_was_answered(self) -> None:
        assert {one.port: one.weight for one in self.member.instances()} == self.model


TestRestartsAtAnyTime = RestartsAtAnyTime.TestCase
TestRestartsAtAnyTime.settings = settings(max_examples=examples(50), stateful_step_count=30, deadline=None)
