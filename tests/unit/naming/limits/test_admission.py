"""Limits of what a member holds: what clients add is refused beyond them, by name; all else is taken."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

from app.naming.clients.client_model import ClientInfo, ClientSnapshot, ClientState
from app.naming.clients.clients import build_clients
from app.naming.limits.admission import Admission, MemoryPressure, NamingLimits, SubscriberTally
from app.naming.model.meta import NO_SELECTOR, ClusterConfig, ServiceMeta
from app.naming.model.model import Instance, Publication
from app.naming.model.nacos_errors import LimitReached, TooManyRequests
from app.naming.push.udp_subscribers import Subscriber, UdpSubscribers
from app.naming.records.durable_service import DurableService, Namespace
from app.naming.records.projection import Projection
from app.naming.records.records import Records
from app.naming.registry.operations import Beat, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication.client_type import ClientCodec, client_key
from app.tools.simulation.member.disk import MemoryDisk
from distro.model.types import NO_VERSION, Datum, Version
from tests.support.registry_parts import naming_of

SERVICE = "G@@s"
ONE = RegisterInstance(SERVICE, "10.0.0.1", 80)
BEAT = Beat(SERVICE, "10.0.0.1", 80, full=True)
DURABLE = ONE._replace(ephemeral=False)
NO_META = ServiceMeta()


class Bed:
    """A member's domain with limits."""

    def __init__(self, limits: NamingLimits | None = None, writer: str = "a:1~1") -> None:
        self.admission = Admission(limits)
        self.stats = self.admission.stats
        self.tally = SubscriberTally(self.admission.limits.subscribers, self.stats)
        self.registry = Registry.of(writer, guard_ms=1_000, admission=self.admission)
        self.naming = naming_of(self.registry, lambda: 1_000, lambda _event: None)
        self.over = set[str]()
        """The runs that hand their clients over."""
        self.clients = build_clients(
            self.registry,
            lambda: 1_000,
            lambda: 1,
            lambda _event: None,
            tally=self.tally,
            is_handing_over=self.over.__contains__,
        )
        projection = Projection(self.registry.table, lambda: 0, lambda _event: None)
        self.disk = MemoryDisk()
        self.records = records = Records(
            writer, self.disk, lambda: 1, lambda: 1_000, projection.on_record, check_size=self.admission.check_record
        )
        self.durable = DurableService(
            records, projection, self.registry.table, self.registry.writes, lambda: 0, lambda _event: None
        )

    def connect(self, client_id: str = "c1") -> str:
        self.clients.own.connect(ClientInfo(client_id, "10.0.0.9", 5000, "", ""))
        return client_id

    def count(self, service: str = SERVICE, namespace: str = "public") -> int:
        return self.naming.instance_count(namespace, service)


def fill(write: Callable[[int], object]) -> None:
    """Write for one port after the other, until that is refused."""
    with suppress(LimitReached):
        for port in range(10_000, 60_000):
            write(port)
        pytest.fail("nothing is refused")


def at(port: int, **fields: object) -> RegisterInstance:
    return ONE._replace(port=port, **fields)


WAYS: dict[str, Callable[[Bed, RegisterInstance], object]] = {
    "http": lambda bed, one: bed.naming.register(one),
    "beat": lambda bed, one: bed.naming.beat(
        Beat(one.service, one.ip, one.port, one.namespace, full=True, metadata=one.metadata)
    ),
    "grpc": lambda bed, one: bed.clients.own.register(bed.connect(f"c{one.port}"), one),
    "durable": lambda bed, one: bed.durable.register(one._replace(ephemeral=False)),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


class TestEachLimit:
    @each_way
    def test_instances_of_a_service(self, way: Callable[[Bed, RegisterInstance], object]) -> None:
        bed = Bed(NamingLimits(instances_per_service=2))
        way(bed, at(1))
        way(bed, at(2))
        with pytest.raises(LimitReached) as refused:
            way(bed, at(3))
        assert refused.value.status == 413
        assert refused.value.text == (
            f"refused by rollcall.limit.instancesPerService=2: there are 2 instances of service {SERVICE}, "
            "and this would add 1"
        )
        assert bed.count() == 2
        assert bed.stats.instances_per_service == 1
        way(bed, at(3, service="G@@other"))

    @each_way
    def test_instances_of_a_namespace(self, way: Callable[[Bed, RegisterInstance], object]) -> None:
        bed = Bed(NamingLimits(instances_per_namespace=2))
        way(bed, at(1))
        way(bed, at(2, service="G@@other"))
        with pytest.raises(LimitReached, match=r"instancesPerNamespace=2: there are 2 instances in namespace public"):
            way(bed, at(3))
        way(bed, at(4, namespace="else"))
        assert bed.stats.instances_per_namespace == 1

    @each_way
    def test_services_of_a_namespace(self, way: Callable[[Bed, RegisterInstance], object]) -> None:
        bed = Bed(NamingLimits(services_per_namespace=1))
        way(bed, at(1))
        with pytest.raises(LimitReached, match=r"servicesPerNamespace=1: there are 1 services in namespace public"):
            way(bed, at(2, service="G@@other"))
        way(bed, at(3))
        way(bed, at(4, namespace="else"))
        assert bed.naming.list_services("public", None) == [SERVICE]

    @each_way
    def test_namespaces(self, way: Callable[[Bed, RegisterInstance], object]) -> None:
        bed = Bed(NamingLimits(namespaces=1))
        way(bed, at(1))
        with pytest.raises(LimitReached, match=r"rollcall\.limit\.namespaces=1"):
            way(bed, at(2, namespace="else"))
        way(bed, at(3, service="G@@other"))
        assert bed.naming.namespaces() == ["public"]

    @each_way
    def test_bytes_of_metadata(self, way: Callable[[Bed, RegisterInstance], object]) -> None:
        bed = Bed(NamingLimits(metadata_bytes=10))
        way(bed, at(1, metadata={"name": "ä"}))
        with pytest.raises(LimitReached, match=r"metadataBytes=10: there are 6 bytes .* would add 5"):
            way(bed, at(2, metadata={"name": "b"}))
        way(bed, at(3))
        way(bed, at(4, metadata={"abcd": ""}))

    def test_persistent_instances(self) -> None:
        bed = Bed(NamingLimits(persistent_instances=1))
        bed.durable.register(DURABLE)
        with pytest.raises(LimitReached, match=r"persistentInstances=1"):
            bed.durable.register(DURABLE._replace(port=81, service="G@@other"))
        bed.naming.register(at(81))
        bed.durable.deregister(DeregisterInstance(SERVICE, ONE.ip, ONE.port, ephemeral=False))
        bed.durable.register(DURABLE._replace(port=81))

    def test_namespaces_that_are_created(self) -> None:
        bed = Bed(NamingLimits(namespaces=1))
        assert bed.durable.create_namespace(Namespace("a", "a", ""))
        assert not bed.durable.create_namespace(Namespace("a", "b", ""))
        with pytest.raises(LimitReached):
            bed.durable.create_namespace(Namespace("b", "b", ""))
        bed.durable.remove_namespace("a")
        assert bed.durable.create_namespace(Namespace("b", "b", ""))

    def test_descriptions_of_services(self) -> None:
        bed = Bed(NamingLimits(services_per_namespace=1, metadata_bytes=10))
        bed.durable.create_service("public", SERVICE, ServiceMeta(metadata={"k": "v"}))
        with pytest.raises(LimitReached, match="servicesPerNamespace"):
            bed.durable.create_service("public", "G@@other", NO_META)
        for metadata in ({"k": "v" * 9}, {}):
            bed.durable.update_service("public", SERVICE, 0.5, metadata, NO_META.selector)
        with pytest.raises(LimitReached, match="metadataBytes"):
            bed.durable.update_service("public", SERVICE, 0.5, {"k": "v" * 10}, NO_META.selector)
        with pytest.raises(LimitReached, match="metadataBytes"):
            bed.durable.update_cluster("public", SERVICE, "A", ClusterConfig(metadata={"k": "v" * 10}))
        bed.durable.update_cluster("public", SERVICE, "A", ClusterConfig(metadata={"k": "v" * 9}))
        assert bed.registry.table.counts_held.metadata_bytes == 10


class TestWhatIsNeverRefused:
    @each_way
    def test_a_registration_of_what_exists(self, way: Callable[[Bed, RegisterInstance], object]) -> None:
        bed = Bed()
        way(bed, at(1, metadata={"k": "vv"}))
        bed.admission.limits = NamingLimits(*[1] * 7)
        bed.admission.pressure = MemoryPressure.NO_NEW_INSTANCES
        way(bed, at(1, metadata={"k": "vv"}))
        way(bed, at(1, metadata={"k": "w"}))
        way(bed, at(1, weight=2.0))
        assert bed.count() == 1
        assert sum(bed.stats.counters().values()) == 0

    def test_metadata_that_grows_is_no_repetition(self) -> None:
        bed = Bed()
        bed.naming.register(at(1))
        bed.durable.register(DURABLE)
        bed.admission.limits = NamingLimits(metadata_bytes=3)
        with pytest.raises(LimitReached):
            bed.naming.register(at(1, metadata={"k": "vvv"}))
        with pytest.raises(LimitReached):
            bed.naming.patch(PatchInstance(SERVICE, ONE.ip, 1, metadata={"k": "vvv"}))
        with pytest.raises(LimitReached):
            bed.durable.patch(PatchInstance(SERVICE, ONE.ip, 80, metadata={"k": "vvv"}))
        bed.naming.patch(PatchInstance(SERVICE, ONE.ip, 1, metadata={"k": "vv"}))

    def test_beats_and_removals(self) -> None:
        bed = Bed()
        bed.naming.register(ONE)
        bed.durable.register(DURABLE._replace(port=81))
        client = bed.connect()
        bed.clients.own.register(client, at(82))
        bed.admission.limits = NamingLimits(*[1] * 7)
        bed.admission.pressure = MemoryPressure.NO_NEW_INSTANCES
        assert bed.naming.beat(BEAT._replace(metadata={"k": "long" * 9})).known
        bed.naming.deregister(DeregisterInstance(SERVICE, ONE.ip, 80))
        bed.durable.deregister(DeregisterInstance(SERVICE, ONE.ip, 81, ephemeral=False))
        bed.clients.own.deregister(client, "public", SERVICE)
        assert bed.count() == 0

    def test_what_a_member_sends(self) -> None:
        there, here = Bed(), Bed(NamingLimits(*[1] * 7), "b:1~1")
        here.admission.pressure = MemoryPressure.NO_NEW_INSTANCES
        for port in range(5):
            there.naming.register(at(port, metadata={"k": "value"}))
        [datum] = there.registry.lists.datums([there.registry.table.services()[0].key])
        assert here.registry.replication.apply(datum, None, 1_000)
        assert here.count() == 5
        assert here.registry.table.counts_held.metadata_bytes == 5 * 6
        with pytest.raises(TooManyRequests):
            here.naming.register(at(9))

    def test_an_instance_that_vanished_and_is_still_shown(self) -> None:
        bed = Bed()
        bed.naming.register(ONE)
        [service] = bed.registry.table.services()
        bed.registry.upkeep.forget(service.key, 1_000)
        assert service.retained
        assert bed.registry.table.counts_held.instances_of("public") == 0
        bed.admission.limits = NamingLimits(instances_per_service=1, instances_per_namespace=1)
        bed.admission.pressure = MemoryPressure.NO_NEW_INSTANCES
        bed.naming.register(ONE)
        assert bed.count() == 1


class TestBatches:
    def test_a_batch_is_taken_whole_or_not_at_all(self) -> None:
        bed = Bed(NamingLimits(instances_per_service=3))
        client = bed.connect()
        bed.clients.own.batch_register(client, "public", SERVICE, [at(1), at(2)])
        revision = bed.clients.table.client(client).revision  # type: ignore[union-attr]
        with pytest.raises(LimitReached, match=r"there are 2 instances .* and this would add 2"):
            bed.clients.own.batch_register(client, "public", SERVICE, [at(1), at(2), at(3), at(4)])
        assert bed.count() == 2
        found = bed.clients.table.client(client)
        assert found is not None
        assert (found.revision, found.instances) == (revision, 2)
        bed.clients.own.batch_register(client, "public", SERVICE, [at(2), at(3), at(4)])
        assert bed.count() == 3

    def test_what_a_client_had_published_at_a_member_that_is_over_is_no_new_one(self) -> None:
        bed, over = Bed(), "b:1~1"
        instance = Instance(ONE.ip, ONE.port, service_name=SERVICE, metadata={"k": "v"})
        state = ClientState(
            "old", 3, {("public", SERVICE): Publication({instance.key: instance}, False, 1, NO_VERSION)}
        )
        assert bed.clients.copies.take(ClientSnapshot(Version(1, 3, over), None, state), "old", None)
        bed.admission.limits = NamingLimits(instances_per_service=1, instances_per_namespace=1, metadata_bytes=2)
        bed.admission.pressure = MemoryPressure.NO_NEW_INSTANCES
        again = ONE._replace(metadata={"k": "v"})
        with pytest.raises(TooManyRequests):
            bed.clients.own.register(bed.connect("stranger"), again)  # while that member goes on
        bed.over.add(over)
        bed.clients.own.register(bed.connect("back"), again)
        assert bed.count() == 1
        with pytest.raises(TooManyRequests):
            bed.clients.own.register(bed.connect("stranger"), at(81))

    def test_an_address_that_moves_from_http_to_grpc_is_no_new_one(self) -> None:
        bed = Bed()
        bed.naming.register(ONE)
        bed.admission.limits = NamingLimits(instances_per_service=1, instances_per_namespace=1)
        bed.clients.own.register(bed.connect(), ONE)
        assert bed.count() == 2, "it counts for each source, while both are there"


class TestMemory:
    def test_new_services_are_refused_first_and_new_instances_next(self) -> None:
        bed = Bed()
        bed.naming.register(at(1))
        bed.admission.pressure = MemoryPressure.NO_NEW_SERVICES
        with pytest.raises(TooManyRequests, match=r"near its bound of memory \(rollcall\.limit\.memoryMb\)") as refused:
            bed.naming.register(at(1, service="G@@other"))
        assert (refused.value.status, refused.value.retry_after_s) == (429, 30)
        with pytest.raises(TooManyRequests):
            bed.durable.create_service("public", "G@@other", NO_META)
        bed.naming.register(at(2))
        bed.admission.pressure = MemoryPressure.NO_NEW_INSTANCES
        with pytest.raises(TooManyRequests):
            bed.naming.register(at(3))
        with pytest.raises(TooManyRequests):
            bed.durable.register(DURABLE)
        bed.admission.pressure = MemoryPressure.NONE
        bed.naming.register(at(3))
        assert (bed.stats.memory_services, bed.stats.memory_instances) == (2, 2)


class TestSubscribers:
    def subscriber(self, port: int) -> Subscriber:
        return Subscriber("public", SERVICE, "", "10.0.0.1", port, "", "", 1_000)

    def test_those_over_udp_and_over_grpc_count_together(self) -> None:
        bed = Bed(NamingLimits(subscribers=3))
        udp = UdpSubscribers(1, tally=bed.tally)
        client, other = bed.connect(), bed.connect("c2")
        udp.subscribe(self.subscriber(2_001), 0)
        bed.clients.subscriptions.subscribe(client, "public", "G@@a", "")
        bed.clients.subscriptions.subscribe(client, "public", "G@@b", "")
        with pytest.raises(LimitReached, match=r"rollcall\.limit\.subscribers=3"):
            bed.clients.subscriptions.subscribe(other, "public", "G@@a", "")
        udp.subscribe(self.subscriber(2_002), 0)
        assert (len(udp), udp.stats.refused, bed.stats.subscribers) == (1, 1, 2)
        bed.clients.subscriptions.subscribe(client, "public", "G@@a", "x")
        udp.subscribe(self.subscriber(2_001), 5)
        bed.clients.subscriptions.unsubscribe(client, "public", "G@@a")
        udp.subscribe(self.subscriber(2_002), 5)
        assert len(udp) == 2
        bed.clients.own.disconnect(client)
        udp.tick(1_000_000)
        assert (bed.tally.grpc, bed.tally.udp) == (0, 0)


def test_zero_is_no_limit() -> None:
    bed = Bed(NamingLimits())
    for port in range(100):
        bed.naming.register(at(port, service=f"G@@{port}", namespace=str(port), metadata={"k": "v"}))
    assert bed.registry.table.counts_held.metadata_bytes == 200


def test_bytes_of_a_publication_are_those_of_its_instances() -> None:
    bed = Bed()
    bed.clients.own.register(bed.connect(), at(1, metadata={"k": "ü"}))
    [service] = bed.registry.table.services()
    [publication] = (service.published or {}).values()
    assert publication.metadata_bytes == 3
    assert replace(publication, instances={}).metadata_bytes == 0


def described(**metadata: str) -> ServiceMeta:
    return ServiceMeta(metadata=metadata)


class TestRecords:
    """A record must fit into the call of a member that sends it, and of one that loads it."""

    @pytest.mark.parametrize(
        ("limits", "setting"),
        [
            (NamingLimits(record_bytes=2_000), "rollcall.limit.recordBytes=2000"),
            (NamingLimits(body_bytes=4_000, record_bytes=10_000), "rollcall.distro.bodyBytesMax=2"),
        ],
    )
    def test_each_kind_of_record_has_a_bound(self, limits: NamingLimits, setting: str) -> None:
        bed, long = Bed(limits), "x" * 3_000
        bed.durable.create_service("public", "G@@s", described())
        bed.durable.register(at(1, service="G@@s", ephemeral=False))
        before = bed.records.versions()
        writes: dict[str, Callable[[], object]] = {
            "metadata": lambda: bed.durable.update_service("public", "G@@s", 0.5, {"a": long}, NO_SELECTOR),
            "clusters": lambda: bed.durable.update_cluster("public", "G@@s", "c", ClusterConfig(metadata={"a": long})),
            "limitedUrlMap": lambda: bed.durable.update_switches({"limitedUrlMap": {f"/{long}": 403}}, here_only=False),
            "'metadata'": lambda: bed.durable.register(at(2, ephemeral=False, metadata={"a": long})),
        }
        for field, write in writes.items():
            with pytest.raises(LimitReached) as refused:
                write()
            assert setting in refused.value.text, refused.value.text
            assert field in refused.value.text
        assert bed.records.versions() == before
        assert bed.stats.record_bytes == len(writes)

    def test_a_record_from_before_may_become_smaller_be_checked_and_be_removed(self) -> None:
        bed = Bed()
        bed.durable.register(at(1, ephemeral=False, metadata={"a": "x" * 3_000}))
        bed.admission.limits = NamingLimits(record_bytes=100)
        [key] = [one for one in bed.records.versions() if "instance" in one]
        assert bed.durable.set_health("public", SERVICE, "10.0.0.1:1:unknown:DEFAULT", False, by_check=True)
        bed.durable.register(at(1, ephemeral=False, metadata={"a": "x" * 2_999}))
        with pytest.raises(LimitReached):
            bed.durable.register(at(1, ephemeral=False, metadata={"a": "x" * 3_001}))
        bed.durable.remove_service("public", SERVICE)
        assert bed.records.value(key) is None

    def test_clusters_of_a_service_with_settings(self) -> None:
        bed = Bed(NamingLimits(clusters_per_service=2))
        bed.durable.create_service("public", "G@@s", described())
        for name in ("a", "b", "a"):
            bed.durable.update_cluster("public", "G@@s", name, ClusterConfig())
        with pytest.raises(LimitReached, match=r"clustersPerService=2: there are 2 clusters with settings"):
            bed.durable.update_cluster("public", "G@@s", "c", ClusterConfig())
        bed.admission.limits = NamingLimits(clusters_per_service=1)
        bed.durable.update_cluster("public", "G@@s", "b", ClusterConfig(check_port=81))
        assert bed.stats.clusters_per_service == 1


SHAPES: Mapping[str, dict[str, object]] = {
    "plain": {},
    "long cluster": {"cluster": "c" * 512},
    "long host": {"ip": "h" * 128},
    "long host of another script": {"ip": "名" * 128},
    "long app": {"app": "a" * 512},
    "escaped": {"metadata": {"a": "\0" * 500}},
    "quotes": {"metadata": {'"' * 50: "\\" * 50}},
    "many short names": {"metadata": {chr(33 + at): "" for at in range(90)}},
    "all": {"cluster": "c" * 512, "ip": "h" * 128, "app": "a" * 512, "metadata": {"a": "\n" * 500}},
}


class TestLists:
    """A list must fit into one call, as must what a client publishes."""

    @pytest.mark.parametrize("way", ["http", "beat", "grpc"])
    def test_a_list_of_many_or_of_much_metadata(self, way: str) -> None:
        for metadata, allowed in (({"a": "x" * 3_000}, 4), ({}, 43)):
            bed = Bed(NamingLimits(body_bytes=20_000))
            client = bed.connect()

            def write(port: int, metadata: dict[str, str] = metadata, bed: Bed = bed, client: str = client) -> None:
                one = at(port, metadata=metadata)
                if way != "grpc":
                    WAYS[way](bed, one)
                else:  # all of them by one client, in services of their own
                    bed.clients.own.register(client, one._replace(service=f"G@@{port:02}"))

            for port in range(1, allowed + 1):
                write(port)
            with pytest.raises(LimitReached, match="bodyBytesMax=20000") as refused:
                write(99)
            assert "field 'metadata'" in refused.value.text
            assert bed.stats.list_bytes == 1
            write(1)

    def test_metadata_that_grow(self) -> None:
        bed = Bed(NamingLimits(body_bytes=10_000))
        bed.naming.register(at(1))
        large = {"a": "x" * 9_000}
        with pytest.raises(LimitReached):
            bed.naming.register(at(1, metadata=large))
        with pytest.raises(LimitReached):
            bed.naming.check_metadata("public", SERVICE, 9_000)
        bed.naming.register(at(1, metadata={"a": "x" * 1_000}))
        bed.naming.register(at(1, metadata={"a": "x" * 10}))

    def test_as_long_as_it_is_taken_a_list_fits(self) -> None:
        bed = Bed(NamingLimits(body_bytes=65_536))
        for port in range(1, 60_000):
            try:
                bed.naming.register(at(port, metadata={"zone": f"z{port}", "release": "2024-01-01"}))
            except LimitReached:
                break
        [datum] = bed.registry.lists.datums(bed.registry.replication.all_keys())
        size = len(InstanceListCodec(lambda: 1_700_000_000_000).encode(datum, 2_000, versioned=True))
        assert 40_000 < size < 65_536

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    def test_a_list_fits_with_its_removals_whatever_it_is_made_of(self, shape: dict[str, object]) -> None:
        writer, limit = "192.168.100.100:18848~1a219b8eb7fd555", 200_000
        bed = Bed(NamingLimits(body_bytes=limit), writer)
        for port in range(10_000, 15_000):
            bed.naming.deregister(DeregisterInstance(SERVICE, "h" * 128, port, cluster="c" * 512))
        fill(lambda port: bed.naming.register(at(port, **shape)))
        [datum] = bed.registry.lists.datums(bed.registry.replication.all_keys())
        value = datum.value
        assert len(value.tombstones) > 10
        assert next(reversed(value.tombstones)).endswith("c"), "the latest are kept"
        for one in value.stored.values():  # found unhealthy by a later run of another member: it carries two versions
            one.client_version = Version(1, 100_000, writer)
            one.changed_ms = one.beat_ms - 1
        assert len(InstanceListCodec(lambda: 1_700_000_000_000).encode(datum, 2_000, versioned=True)) < limit
        for one in value.stored.values():
            bed.naming.deregister(
                DeregisterInstance(SERVICE, one.instance.ip, one.instance.port, cluster=one.instance.cluster_name)
            )
        service = bed.registry.table.get("public", SERVICE)
        assert service is not None
        assert service.stored_bytes == 0, "what was counted is counted back"
        assert bed.registry.table.counts_held.metadata_bytes == 0

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    def test_what_a_client_publishes_fits_whatever_it_is_made_of(self, shape: dict[str, object]) -> None:
        bed = Bed(NamingLimits(body_bytes=200_000), "192.168.100.100:18848~1a219b8eb7fd555")
        client = bed.connect()
        fill(lambda port: bed.clients.own.register(client, at(port, **shape)._replace(service=f"G@@{port}")))
        snapshot = bed.clients.table.snapshot(client)
        assert snapshot is not None
        datum = Datum(client_key(client), snapshot.version, snapshot)
        assert len(ClientCodec().encode(datum, 2_000, versioned=True)) < 200_000
