"""Clients with connections: what they publish is there at once, counts as long as they do, and goes with them."""

import threading
from dataclasses import replace

import pytest

from app.naming.clients.client_model import REVISION_MAX, ClientBounds, ClientInfo
from app.naming.clients.client_subscriptions import CLUSTERS_CHARS_MAX
from app.naming.clients.clients import build_clients
from app.naming.health.beat_check import HealthCheckGate
from app.naming.model.events import (
    ClientChanged,
    ClientDisconnect,
    ClientWithdrawn,
    Event,
    ServiceChanged,
    ServiceSubscribed,
)
from app.naming.model.keys import CLIENT_TEXTS_CHARS_MAX, datum_key
from app.naming.model.meta import ServiceMeta
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import ClientGone, InvalidParam, LimitReached, Unavailable
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.wire.service_info import Variant
from tests.support.registry_parts import check_of, naming_of

SERVICE = "DEFAULT_GROUP@@orders"
KEY = ("public", SERVICE)
ONE = RegisterInstance(SERVICE, "10.0.0.1", 80)
TWO = RegisterInstance(SERVICE, "10.0.0.2", 80)


class Bed:
    """A registry with clients, and what they told."""

    def __init__(self, bounds: ClientBounds | None = None) -> None:
        self.now_ms, self.wall_ms = 1_000, 1_700_000_000_000
        self.events: list[Event] = []
        self.registry = Registry.of("m:1~1", alone=True)
        self.naming = naming_of(self.registry, lambda: self.now_ms, self.events.append)
        self.clients = build_clients(
            self.registry, lambda: self.now_ms, lambda: self.wall_ms, self.events.append, bounds
        )

    def connect(self, client_id: str = "c1") -> str:
        self.clients.own.connect(ClientInfo(client_id, "10.0.0.9", 5000, "shop", "Nacos-Java-Client:v2.3.2"))
        return client_id

    def told(self) -> list[Event]:
        events, self.events[:] = list(self.events), []
        return [one for one in events if not isinstance(one, ClientWithdrawn)]

    def instances(self, service: str = SERVICE, namespace: str = "public") -> list[Instance]:
        view = self.naming.service_view(namespace, service)
        return list(view.instances) if view else []

    def seen(self, service: str = SERVICE) -> list[tuple[str, int, float, bool]]:
        return sorted((one.ip, one.port, one.weight, one.healthy) for one in self.instances(service))

    def revision(self, client_id: str = "c1") -> int:
        client = self.clients.table.client(client_id)
        assert client is not None
        return client.revision


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_what_a_client_withdraws_is_published_as_it_was(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.register(one, ONE)
    client = bed.clients.table.client(one)
    assert client is not None
    former = dict(client.published)
    assert former.keys() == {KEY}
    bed.clients.own.deregister(one, *KEY)
    bed.clients.own.register(one, TWO)
    last = dict(client.published)
    bed.clients.own.disconnect(one)
    withdrawn = [event for event in bed.events if isinstance(event, ClientWithdrawn)]
    assert withdrawn == [ClientWithdrawn(one, former, gone=False), ClientWithdrawn(one, last, gone=True)]


def test_a_registration_is_seen_until_its_connection_ends(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.register(one, ONE._replace(weight=2.0, metadata={"zone": "a"}))
    assert bed.told() == [ClientChanged(one), ServiceChanged(*KEY)]
    [instance] = bed.instances()
    assert (instance.ip, instance.port, instance.weight, instance.metadata) == ("10.0.0.1", 80, 2.0, {"zone": "a"})
    assert instance.ephemeral
    assert instance.healthy
    assert instance.instance_id == f"10.0.0.1#80#DEFAULT#{SERVICE}"
    assert bed.clients.table.publishers(*KEY) == [one]
    assert bed.clients.own.disconnect(one)
    assert bed.told() == [ClientDisconnect(one, True), ServiceChanged(*KEY)]
    assert bed.instances() == []
    assert bed.clients.table.ids() == []
    assert not bed.clients.own.disconnect(one)
    assert bed.told() == []


def test_what_is_published_of_a_service_replaces_what_was(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.register(one, ONE)
    bed.clients.own.register(one, ONE._replace(port=81))
    assert [port for _, port, _, _ in bed.seen()] == [81]
    bed.clients.own.batch_register(one, "public", SERVICE, [ONE, TWO, TWO._replace(port=81)])
    assert len(bed.seen()) == 3
    bed.clients.own.batch_register(one, "public", SERVICE, [ONE, TWO])
    assert len(bed.seen()) == 2
    assert bed.revision() == 4, "batches count too"
    bed.told()
    bed.clients.own.batch_register(one, "public", SERVICE, [ONE, TWO])
    assert (bed.revision(), bed.told()) == (4, []), "the same again is no change"
    bed.clients.own.batch_register(one, "public", SERVICE, [])
    assert bed.seen() == []
    assert bed.clients.table.publishers(*KEY) == [one], "an empty batch is still one"


def test_a_registration_is_of_one_and_a_batch_of_the_service_that_its_call_names(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.register(one, ONE)
    client = bed.clients.table.client(one)
    assert client is not None
    assert not client.published[KEY].batch
    bed.clients.own.batch_register(one, "dev", SERVICE, [ONE._replace(namespace="a##b", service="G@@other")])
    assert client.published["dev", SERVICE].batch
    assert [found.service_name for found in bed.instances(namespace="dev")] == [SERVICE]
    assert bed.clients.table.publishers("dev", SERVICE) == [one]
    assert bed.clients.table.publishers("other", SERVICE) == []


@pytest.mark.parametrize(
    ("info", "taken"),
    [
        (ClientInfo("a,b", "", 0, "", ""), False),
        (ClientInfo("c", "i" * 100, 0, "a", "s" * (CLIENT_TEXTS_CHARS_MAX - 102)), True),
        (ClientInfo("c", "i" * 100, 0, "aa", "s" * (CLIENT_TEXTS_CHARS_MAX - 102)), False),
    ],
)
def test_what_a_client_says_of_itself_has_a_bound(bed: Bed, info: ClientInfo, taken: bool) -> None:
    if taken:
        bed.clients.own.connect(info)
    else:
        with pytest.raises(InvalidParam, match="client's id"):
            bed.clients.own.connect(info)
    assert (bed.clients.table.client(info.client_id) is not None) is taken


def test_what_is_published_while_the_clock_is_before_its_beginning_is_of_its_beginning(bed: Bed) -> None:
    bed.wall_ms = -5
    one = bed.connect()
    bed.clients.own.register(one, ONE)
    client = bed.clients.table.client(one)
    assert client is not None
    assert client.published[KEY].at_ms == 0


def test_bounds_of_one_call(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.subscriptions.subscribe(one, "public", SERVICE, "c" * CLUSTERS_CHARS_MAX)
    with pytest.raises(InvalidParam, match="'clusters'"):
        bed.clients.subscriptions.subscribe(one, "public", SERVICE, "c" * (CLUSTERS_CHARS_MAX + 1))
    with pytest.raises(InvalidParam, match="'namespaceId'"):
        bed.clients.subscriptions.subscribe(one, "a##b", SERVICE, "")
    assert bed.clients.subscriptions.subscribers(*KEY) == [(one, "c" * CLUSTERS_CHARS_MAX)]


def test_the_instances_of_a_client_are_bounded_from_the_first_call_on() -> None:
    bed = Bed(ClientBounds(instances_per_client_max=2))
    one = bed.connect()
    batch = [ONE, TWO, ONE._replace(port=81)]
    with pytest.raises(InvalidParam, match="at most 2 instances"):
        bed.clients.own.batch_register(one, *KEY, batch)
    bed.clients.own.batch_register(one, *KEY, batch[:2])
    bed.clients.own.batch_register(one, *KEY, batch[1:])
    assert len(bed.seen()) == 2


def test_a_deregistration_takes_back_all_that_the_client_says_of_the_service(bed: Bed) -> None:
    one, other = bed.connect("c1"), bed.connect("c2")
    bed.clients.own.register(one, ONE)
    bed.clients.own.register(other, TWO)
    bed.told()
    bed.clients.own.deregister(one, "public", SERVICE)
    assert bed.told() == [ClientChanged(one), ServiceChanged(*KEY)]
    assert [ip for ip, *_ in bed.seen()] == ["10.0.0.2"]
    assert bed.revision() == 2
    bed.clients.own.deregister(one, "public", SERVICE)
    assert (bed.revision(), bed.told()) == (2, []), "what is not published cannot be taken back"


def test_no_namespace_is_the_public_one(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.register(one, ONE._replace(namespace=""))
    bed.clients.subscriptions.subscribe(one, "", SERVICE, "")
    assert len(bed.instances(namespace="public")) == 1
    assert (
        bed.clients.subscriptions.subscribers("public", SERVICE)
        == bed.clients.subscriptions.subscribers("", SERVICE)
        == [(one, "")]
    )
    bed.clients.own.batch_register(one, "", SERVICE, [ONE._replace(namespace="elsewhere"), TWO])
    assert len(bed.instances(namespace="public")) == 2, "the call's namespace counts"
    bed.clients.own.deregister(one, "", SERVICE)
    bed.clients.subscriptions.unsubscribe(one, "", SERVICE)
    assert bed.instances() == bed.clients.subscriptions.subscribers("public", SERVICE) == []


def test_subscriptions(bed: Bed) -> None:
    one, other = bed.connect("c1"), bed.connect("c2")
    bed.clients.subscriptions.subscribe(one, *KEY, "A,B")
    assert bed.told() == [ServiceSubscribed(KEY, one)]
    assert bed.naming.service_view(*KEY) is None, "a service is not made by who asks for it"
    bed.clients.subscriptions.subscribe(one, *KEY, "C")
    assert bed.told() == [], "it was told already"
    bed.clients.subscriptions.subscribe(other, *KEY, "")
    assert sorted(bed.clients.subscriptions.subscribers(*KEY)) == [(one, "C"), (other, "")]
    assert bed.revision() == 0, "peers are not told of subscriptions"
    bed.clients.subscriptions.unsubscribe(one, *KEY)
    bed.clients.subscriptions.unsubscribe(one, *KEY)
    assert bed.clients.subscriptions.subscribers(*KEY) == [(other, "")]
    bed.clients.own.disconnect(other)
    assert bed.clients.subscriptions.subscribers(*KEY) == []
    assert bed.clients.table.counts().subscriptions == 0


def test_who_is_not_connected_can_do_nothing(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.disconnect(one)
    bed.told()
    calls = (
        lambda: bed.clients.own.register(one, ONE),
        lambda: bed.clients.own.batch_register(one, *KEY, [ONE]),
        lambda: bed.clients.own.deregister(one, *KEY),
        lambda: bed.clients.subscriptions.subscribe(one, *KEY, ""),
        lambda: bed.clients.subscriptions.unsubscribe(one, *KEY),
    )
    for call in calls:
        with pytest.raises(ClientGone) as refused:
            call()
        assert refused.value.status == 400
    assert bed.told() == []
    assert bed.registry.table.services() == []


def test_a_second_connect_of_one_connection_changes_nothing(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.register(one, ONE)
    bed.connect()
    assert (len(bed.seen()), bed.revision()) == (1, 1)


@pytest.mark.parametrize(
    "command",
    [
        ONE._replace(weight=10_001.0),
        ONE._replace(weight=-1.0),
        ONE._replace(weight=float("nan")),
        ONE._replace(ip=""),
        ONE._replace(ip="10.0.0.1\n"),
        ONE._replace(ip="1" * 129),
        ONE._replace(port=-1),
        ONE._replace(port=65_536),
        ONE._replace(cluster="a_b"),
        ONE._replace(service="G@@a\nb"),
        ONE._replace(namespace="a##b"),
        ONE._replace(instance_id="x" * 1_025),
    ],
    ids=str,
)
def test_what_cannot_be_stored_is_refused_and_changes_nothing(bed: Bed, command: RegisterInstance) -> None:
    one = bed.connect()
    with pytest.raises(InvalidParam):
        bed.clients.own.register(one, command)
    with pytest.raises(InvalidParam):
        bed.clients.own.batch_register(one, command.namespace, command.service, [ONE, command])
    assert (bed.told(), bed.revision(), bed.registry.table.services()) == ([], 0, [])


@pytest.mark.parametrize(
    ("metadata", "legal"),
    [
        ({"preserved.heart.beat.interval": "15000"}, True),
        ({"preserved.heart.beat.interval": "15001"}, False),
        ({"preserved.heart.beat.timeout": "4999"}, False),
        ({"preserved.ip.delete.timeout": "4999"}, False),
        ({"preserved.heart.beat.interval": "1000", "preserved.ip.delete.timeout": "1000"}, True),
        ({"preserved.heart.beat.interval": "many"}, True),
    ],
)
def test_times_of_a_single_registration_make_sense(bed: Bed, metadata: dict[str, str | None], legal: bool) -> None:
    one = bed.connect()
    command = ONE._replace(metadata=metadata)
    if legal:
        bed.clients.own.register(one, command)
    else:
        with pytest.raises(InvalidParam, match="'heart beat interval' must less than"):
            bed.clients.own.register(one, command)
    bed.clients.own.batch_register(one, *KEY, [command, TWO])
    assert len(bed.seen()) == 2, "of a batch it is not asked"


def test_ids_of_instances(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.own.register(one, ONE._replace(instance_id="mine"))
    assert [instance.instance_id for instance in bed.instances()] == ["mine"]
    numbered = {"preserved.instance.id.generator": "snowflake"}
    bed.clients.own.batch_register(one, *KEY, [ONE._replace(metadata=numbered), TWO._replace(metadata=numbered)])
    ids = [instance.instance_id or "" for instance in bed.instances()]
    assert len(set(ids)) == 2
    for instance_id in ids:
        number, cluster, service = instance_id.split("#")
        assert number.isdecimal()
        assert (cluster, service) == ("DEFAULT", SERVICE)


def test_nulls_in_metadata_are_left_out(bed: Bed) -> None:
    bed.clients.own.register(bed.connect(), ONE._replace(metadata={"a": None, "b": "1"}))
    assert [instance.metadata for instance in bed.instances()] == [{"b": "1"}]


def test_a_persistent_service_takes_no_client(bed: Bed) -> None:
    one = bed.connect()
    bed.registry.table.set_persistent(*KEY, "k", Instance("10.0.0.5", 80, service_name=SERVICE, ephemeral=False), 1)
    text = f"Current service {SERVICE} is persistent service, can't register ephemeral instance."
    for call in (lambda: bed.clients.own.register(one, ONE), lambda: bed.clients.own.batch_register(one, *KEY, [ONE])):
        with pytest.raises(InvalidParam) as refused:
            call()
        assert refused.value.text == text
    bed.naming.register(TWO)
    bed.clients.own.register(one, ONE)
    assert len(bed.seen()) == 3, "over HTTP it has become one of both kinds"


def test_bounds() -> None:
    bed = Bed(ClientBounds(2, 2, 3, 4, 2))
    one, other = bed.connect("c1"), bed.connect("c2")
    with pytest.raises(Unavailable):
        bed.connect("c3")
    with pytest.raises(InvalidParam):
        bed.clients.own.batch_register(one, *KEY, [ONE._replace(port=port) for port in range(4)])
    for name in ("G@@a", "G@@b"):
        bed.clients.own.register(one, ONE._replace(service=name))
        bed.clients.subscriptions.subscribe(one, "public", name, "")
    with pytest.raises(InvalidParam):
        bed.clients.own.register(one, ONE._replace(service="G@@c"))
    with pytest.raises(LimitReached, match=r"rollcall\.limit\.subscriptionsPerConnection=2"):
        bed.clients.subscriptions.subscribe(one, "public", "G@@c", "")
    bed.clients.own.register(one, ONE._replace(service="G@@a", port=99))
    bed.clients.subscriptions.subscribe(one, "public", "G@@a", "x")
    bed.clients.own.batch_register(one, "public", "G@@a", [ONE._replace(port=port) for port in range(3)])
    with pytest.raises(InvalidParam):
        bed.clients.own.batch_register(one, "public", "G@@b", [ONE, TWO])
    bed.clients.own.deregister(one, "public", "G@@a")
    bed.clients.own.batch_register(one, "public", "G@@b", [ONE, TWO])
    assert bed.clients.table.client(one).instances == 2  # type: ignore[union-attr]
    bed.clients.own.disconnect(other)
    bed.connect("c3")
    with pytest.raises(InvalidParam):
        bed.clients.own.connect(ClientInfo("c4" * 1_100, "", 0, "", ""))


def test_a_revision_fits_31_bits(bed: Bed) -> None:
    one = bed.connect()
    bed.clients.table.client(one).revision = REVISION_MAX - 1  # type: ignore[union-attr]
    bed.clients.own.register(one, ONE)
    assert bed.revision() == REVISION_MAX
    for call in (lambda: bed.clients.own.register(one, TWO), lambda: bed.clients.own.deregister(one, *KEY)):
        with pytest.raises(Unavailable):
            call()
    assert [ip for ip, *_ in bed.seen()] == ["10.0.0.1"]
    assert bed.clients.own.disconnect(one)


# --- one service with what comes over HTTP ------------------------------------------------------


def test_both_sides_see_one_service(bed: Bed) -> None:
    bed.naming.register(ONE)
    bed.clients.own.register(bed.connect(), TWO)
    assert [ip for ip, *_ in bed.seen()] == ["10.0.0.1", "10.0.0.2"]
    answer = bed.naming.list_answer(*KEY, Variant("", False, False, True, 10_000))
    assert answer is not None
    assert b'"ip":"10.0.0.2"' in answer.plain(1)
    assert bed.naming.instance_count(*KEY) == 2
    assert bed.naming.detail(*KEY, "10.0.0.2", 80, "DEFAULT").ip == "10.0.0.2"
    assert bed.naming.hot_detail(*KEY, "10.0.0.1", 80, "DEFAULT") is None, "it asks the whole service"
    datum = next(bed.registry.lists.datums([datum_key(*KEY)]))
    assert list(datum.value.stored) == ["10.0.0.1:80:unknown:DEFAULT"], "the list of HTTP clients is theirs alone"
    assert bed.naming.counts(lambda _name: True).instances == 2
    assert bed.naming.deregister(DeregisterInstance(SERVICE, "10.0.0.2", 80)) is None
    assert len(bed.seen()) == 2


def test_an_address_of_two_sources_is_shown_once_with_the_newest_attributes(bed: Bed) -> None:
    bed.naming.register(ONE._replace(weight=1.0))
    bed.clients.own.register(bed.connect("c1"), ONE._replace(weight=2.0))
    assert bed.seen() == [("10.0.0.1", 80, 2.0, True)]
    bed.naming.register(ONE._replace(weight=3.0))
    assert bed.seen() == [("10.0.0.1", 80, 3.0, True)]
    bed.wall_ms += 1
    bed.clients.own.register(bed.connect("c2"), ONE._replace(weight=4.0))
    assert bed.seen() == [("10.0.0.1", 80, 4.0, True)]
    bed.clients.own.disconnect("c2")
    assert bed.seen() == [("10.0.0.1", 80, 3.0, True)]
    assert bed.naming.counts(lambda _name: True).instances == 1
    bed.naming.deregister(DeregisterInstance(SERVICE, "10.0.0.1", 80))
    assert bed.seen() == [("10.0.0.1", 80, 2.0, True)]


def test_it_is_healthy_if_one_source_vouches_for_it(bed: Bed) -> None:
    bed.naming.register(ONE)
    bed.naming.set_health(*KEY, "10.0.0.1:80:unknown:DEFAULT", False)
    assert [healthy for *_, healthy in bed.seen()] == [False]
    bed.clients.own.register(bed.connect("c1"), ONE._replace(healthy=False))
    assert [healthy for *_, healthy in bed.seen()] == [False]
    bed.clients.own.register(bed.connect("c2"), ONE)
    assert [healthy for *_, healthy in bed.seen()] == [True]


def test_a_persistent_instance_keeps_its_attributes(bed: Bed) -> None:
    bed.clients.own.register(bed.connect(), ONE._replace(weight=7.0))
    durable = Instance("10.0.0.1", 80, service_name=SERVICE, weight=3.0, ephemeral=False, healthy=False)
    bed.registry.table.set_persistent(*KEY, durable.key, durable, 1)
    assert bed.instances() == [replace(durable, healthy=True)]


def test_beats_do_not_touch_them(bed: Bed) -> None:
    bed.clients.own.register(bed.connect(), ONE)
    check = check_of(bed.registry, bed.events.append)
    for _ in range(60):
        bed.now_ms += 1_000
        check.tick(bed.now_ms, lambda: HealthCheckGate(True, bed.now_ms, lambda _name: True, forget_unneeded=True))
    assert bed.seen() == [("10.0.0.1", 80, 1.0, True)]


def test_a_service_that_only_clients_made_stays_for_a_while_and_goes(bed: Bed) -> None:
    def look_around() -> None:
        check.tick(bed.now_ms, lambda: HealthCheckGate(True, bed.now_ms, lambda _name: True, forget_unneeded=True))

    check = check_of(bed.registry, bed.events.append, pause_ms=1 << 40)
    one = bed.connect()
    bed.clients.own.register(one, ONE)
    bed.now_ms += 100_000
    look_around()
    bed.clients.own.deregister(one, *KEY)
    look_around()
    bed.now_ms += 59_000
    look_around()
    assert bed.naming.list_services("public", None) == [SERVICE]
    bed.clients.own.register(one, ONE)
    bed.clients.own.deregister(one, *KEY)
    bed.now_ms += 59_000
    look_around()
    assert bed.naming.list_services("public", None) == [SERVICE], "somebody was there in between"
    bed.now_ms += 2_000
    look_around()
    assert bed.registry.table.services() == []
    assert bed.naming.namespaces() == []


def test_a_service_is_not_forgotten_with_its_http_instances(bed: Bed) -> None:
    bed.naming.register(ONE)
    bed.clients.own.register(bed.connect(), TWO)
    bed.naming.deregister(DeregisterInstance(SERVICE, "10.0.0.1", 80))
    service = bed.registry.table.get(*KEY)
    assert service is not None
    bed.registry.upkeep.forget(service.key)
    assert bed.registry.lists.version(service.key) is None
    assert [ip for ip, *_ in bed.seen()] == ["10.0.0.2"]
    assert bed.naming.list_services("public", None) == [SERVICE]


def test_a_service_removed_by_its_own_call_stays_until_its_clients_leave(bed: Bed) -> None:
    one = bed.connect()
    bed.naming.register(TWO)
    bed.clients.own.register(one, ONE._replace(cluster="c1"))
    bed.registry.table.set_meta(*KEY, ServiceMeta(0.5), 1)
    bed.registry.table.set_meta(*KEY, None, 2)
    bed.registry.writes.empty(*KEY, 2)
    view = bed.naming.service_view(*KEY)
    assert view is not None
    assert ([one.ip for one in view.instances], view.clusters) == (["10.0.0.1"], ("DEFAULT", "c1"))
    bed.clients.own.disconnect(one)
    assert bed.naming.service_view(*KEY) is None
    assert bed.naming.list_services("public", None) == []
    bed.clients.own.register(bed.connect("c2"), ONE)
    assert len(bed.seen()) == 1, "it is seen again with who comes"


def test_threads_that_register_beside_a_disconnect_leave_nothing_behind(bed: Bed) -> None:
    """Whatever order the two get: a client that is gone publishes nothing."""
    services = [f"G@@s{number}" for number in range(200)]

    def register_all(client_id: str) -> None:
        try:
            for name in services:
                bed.clients.own.register(client_id, ONE._replace(service=name))
                bed.clients.subscriptions.subscribe(client_id, "public", name, "")
        except ClientGone:
            return

    for number in range(20):
        one = bed.connect(f"c{number}")
        writers = [threading.Thread(target=register_all, args=(one,)) for _ in range(2)]
        for writer in writers:
            writer.start()
        bed.clients.own.disconnect(one)
        for writer in writers:
            writer.join()
    assert not [name for name in services if bed.seen(name) or bed.clients.subscriptions.subscribers("public", name)]


def test_a_peer_with_other_publications_under_the_version_is_answered_with_the_next_revision() -> None:
    bed = Bed()
    bed.connect()
    bed.clients.own.register("c1", ONE)
    snapshot = bed.clients.table.snapshot("c1")
    assert snapshot is not None
    assert snapshot.state is not None
    bed.told()
    assert bed.clients.own.reissue("c1", snapshot) is False
    later = replace(snapshot, state=replace(snapshot.state, revision=9))
    assert bed.clients.own.reissue("c1", later) is True, "the same publications at another revision"
    snapshot = bed.clients.table.snapshot("c1")
    assert snapshot is not None
    assert snapshot.state is not None
    assert (bed.revision(), bed.told()) == (2, [ClientChanged("c1")])
    other = replace(snapshot, state=replace(snapshot.state, publications={}))
    assert bed.clients.own.reissue("c1", other) is True
    assert (bed.revision(), bed.told()) == (3, [ClientChanged("c1")])
    assert bed.seen() == [("10.0.0.1", 80, 1.0, True)]
    assert bed.clients.own.reissue("c1", other) is False, "a late answer"
    assert bed.clients.own.reissue("unknown", other) is False
    assert (bed.revision(), bed.told()) == (3, [])
