"""Instances over HTTP as clients of real Nacos 2.x: which there are, who tells of them, and what comes back of that."""

import json
from typing import Any

import pytest

from app.naming.clients.client_codec import decode_client, encode_client, encode_verify
from app.naming.clients.client_model import ClientSnapshot, ClientState
from app.naming.clients.clients import ClientExpiry, build_clients
from app.naming.model.events import ClientDisconnect, Event
from app.naming.model.keys import datum_key, instance_key
from app.naming.model.model import NO_METADATA, Publication
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.union import view_of
from app.replication import address_clients as http_clients
from app.replication.address_client_type import HTTP_CLIENTS, HttpClientStore, http_client_component
from app.replication.address_clients import GONE_MS, LOOK_MS, TICK_MS, HttpClients, tag_of
from app.replication.client_receiver import ClientReceiver
from app.replication.client_type import CLIENTS, ClientCodec, ClientStore, client_key
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.large_bodies import LargeBodies
from distro.engine.peer_call_runner import OwnChecksums
from distro.members.mapper import DistroMapper, WriterMapper
from distro.model.errors import CodecError
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import (
    CAPABILITY_CLIENTS_ONLY,
    NO_VERSION,
    Action,
    Datum,
    DistroKey,
    Load,
    MemberKind,
    Outcome,
    Received,
    SyncData,
    Verify,
    Version,
)
from distro.receive.receive import DistroReceiver
from tests.support.engine import ME, SELF, B, C, Engine, NoEvents
from tests.support.nacos_view import REAL, NacosView
from tests.support.receiver_view import StubView

ONE, TWO = "10.9.0.1:80#true", "10.9.0.2:80#true"
A_SERVICE, B_SERVICE = "G@@a", "G@@b"
D = "10.0.0.4:8848"
NOTHING: Any = None


class Bed:
    """The index of one member, with its receiver of what real Nacos sends."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.view: Any = NacosView(SELF, SELF)
        self.told: list[str] = []
        self.registry = Registry.of(ME)
        self.events: list[Event] = []
        self.clients = build_clients(self.registry, lambda: self.now_ms, lambda: 5, self.events.append)
        self.index = HttpClients(
            lambda: self.view,
            self.registry.lists,
            on_change=self.told.append,
            on_new=lambda client_id: self.clients.copies.forget(client_id, absent=True),
        )
        parts = self.clients
        self.store = ClientStore(parts.table, parts.own, parts.copies, SELF, lambda _writer: False, self.index.holds)
        self.node = ClientReceiver(
            self._receiver(),
            self.clients.table,
            self.clients.copies,
            self.index,
            self,
            LargeBodies(1_000_000),
        )
        self.tick()

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 5

    def _receiver(self) -> DistroReceiver:
        part = Component(
            self.store,
            ClientCodec(),
            NOTHING,
            taken_by=frozenset({MemberKind.OWN, MemberKind.NACOS_2}),
            owned_by_writer=True,
        )
        mapper = WriterMapper.over(SELF, ())
        return DistroReceiver(ME, {CLIENTS: part}, StubView(mapper), NoEvents(), DistroStats())

    def tick(self, wait_ms: int = TICK_MS) -> list[str]:
        """Let time pass; return the clients of which this member is to tell."""
        self.now_ms += wait_ms
        while self.index.tick(self.now_ms) == self.now_ms:
            pass
        told, self.told[:] = list(self.told), []
        return told

    def register(self, service: str, ip: str = "10.9.0.1", cluster: str = "DEFAULT", **more: Any) -> None:
        command = RegisterInstance(service, ip, 80, cluster=cluster, **more)
        replaced = self.registry.writes.register(command, self.now_ms)
        if replaced is not None:
            self.index.mark(replaced.key)

    def deregister(self, service: str, ip: str = "10.9.0.1", cluster: str = "DEFAULT") -> None:
        removed = self.registry.writes.remove("public", service, instance_key(ip, 80, cluster), self.now_ms)
        if removed is not None:
            self.index.mark(removed.key)

    def services(self, client_id: str = ONE) -> list[str]:
        state = self.index.state(client_id)
        return [name for _, name in state.publications] if state is not None else []

    def shown(self, service: str = A_SERVICE) -> list[str]:
        found = self.registry.table.get("public", service)
        return [one.ip for one in view_of(found).instances] if found else []

    def echo(self, client_id: str = ONE) -> bytes:
        """What real Nacos sends back of a client, after it was told of it."""
        state = self.index.state(client_id)
        assert state is not None
        return encode_client(state)


@pytest.fixture
def bed() -> Bed:
    return Bed()


class TestIndex:
    def test_an_address_is_a_client_with_all_its_services(self, bed: Bed) -> None:
        bed.register(A_SERVICE)
        bed.register(B_SERVICE)
        bed.register(B_SERVICE, "10.9.0.2")
        assert set(bed.tick()) == {ONE, TWO}
        assert (bed.services(ONE), bed.services(TWO)) == ([A_SERVICE, B_SERVICE], [B_SERVICE])
        bed.deregister(A_SERVICE)
        assert bed.tick() == [ONE]
        assert bed.services(ONE) == [B_SERVICE]
        bed.deregister(B_SERVICE)
        assert bed.tick() == [ONE]
        assert (bed.index.ids(), bed.index.state(ONE)) == ([TWO], None)

    def test_what_does_not_change_a_client_is_not_told(self, bed: Bed) -> None:
        bed.register(A_SERVICE)
        bed.register(A_SERVICE, "10.9.0.2")
        bed.tick()
        bed.register(A_SERVICE, weight=2.0)
        assert bed.tick() == [ONE]
        assert bed.tick() == []

    def test_the_revision_goes_by_content_and_is_never_0(self, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
        def revision() -> int:
            state = bed.index.state(ONE)
            assert state is not None
            return state.revision

        bed.register(A_SERVICE)
        bed.tick()
        first = revision()
        assert 0 < first < 1 << 31
        bed.register(A_SERVICE, weight=2.0)
        bed.tick()
        assert revision() != first
        bed.register(A_SERVICE)
        bed.tick()
        assert revision() == first
        monkeypatch.setattr(http_clients, "crc32", lambda _text: 0)
        bed.register(A_SERVICE, weight=3.0)
        bed.tick()
        assert revision() == 1

    def test_of_several_clusters_the_first_by_name_is_told(self, bed: Bed) -> None:
        def cluster() -> str:
            state = bed.index.state(ONE)
            assert state is not None
            [part] = state.publications.values()
            [one] = part.instances.values()
            return one.cluster_name

        bed.register(A_SERVICE, cluster="m")
        bed.register(A_SERVICE, cluster="z")
        bed.register(A_SERVICE, cluster="c")
        bed.tick()
        assert cluster() == "c"
        bed.deregister(A_SERVICE, cluster="c")
        assert bed.tick() == [ONE]
        assert cluster() == "m"

    def test_metadata_that_real_nacos_would_take_for_something_else_are_left_out(self, bed: Bed) -> None:
        bed.register(A_SERVICE, metadata={"a": "b", "publishInstanceWeight": "heavy", "c": None})
        bed.tick()
        [info] = json.loads(bed.echo())["instancePublishInfos"]
        assert info["extendDatum"] == {"a": "b", "customInstanceId": "10.9.0.1#80#DEFAULT#G@@a"}

    def test_an_address_that_makes_no_id_is_left_out(self, bed: Bed) -> None:
        bed.register(A_SERVICE, "a,b")
        bed.register(A_SERVICE)
        assert bed.tick() == [ONE]

    def test_it_is_made_only_while_it_is_wanted(self, bed: Bed) -> None:
        bed.view.has_nacos = False
        bed.tick()
        bed.register(A_SERVICE)
        assert (bed.tick(), bed.index.ids()) == ([], [])
        bed.view.has_nacos = True
        assert bed.tick() == [], "what was there before shows in the next verify round"
        assert bed.index.ids() == [ONE]
        bed.register(B_SERVICE)
        assert bed.tick() == [ONE]
        bed.view.has_nacos = False
        bed.tick()
        assert bed.index.ids() == []

    def test_while_this_member_loads_nothing_is_told(self, bed: Bed) -> None:
        bed.view.loading = True
        bed.register(A_SERVICE)
        assert bed.tick() == []
        bed.view.loading = False
        assert bed.tick() == [ONE]

    def test_a_change_that_nobody_told_of_is_found(self, bed: Bed) -> None:
        bed.tick(LOOK_MS)
        bed.registry.writes.register(RegisterInstance(A_SERVICE, "10.9.0.1", 80), bed.now_ms)
        assert bed.tick() == []
        assert bed.tick(LOOK_MS) == [ONE]
        bed.registry.upkeep.forget(datum_key("public", A_SERVICE))
        assert bed.tick(LOOK_MS) == [ONE]
        assert bed.index.ids() == []

    def test_a_service_waits_once_however_often_it_changes(self, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
        """So what waits is bounded by the services that there are."""
        bed.register(A_SERVICE)
        for _ in range(1_000):
            bed.index.mark(datum_key("public", A_SERVICE))
        read = list[str]()
        datums = bed.registry.lists.datums

        def noting(keys: list[str]) -> object:
            read.extend(keys)
            return datums(keys)

        monkeypatch.setattr(bed.registry.lists, "datums", noting)
        assert bed.tick() == [ONE]
        assert read == [datum_key("public", A_SERVICE)]

    def test_without_real_nacos_nothing_waits(self, bed: Bed) -> None:
        bed.view.has_nacos = False
        bed.register(A_SERVICE)
        assert bed.tick() == []
        assert bed.index.ids() == []
        bed.view.has_nacos = True
        bed.register(B_SERVICE, "10.9.0.2")
        assert bed.tick() == [], "the first pass reads all, and tells of none"
        assert (bed.index.holds(ONE), bed.index.holds(TWO)) == (True, True)

    def test_a_tick_reads_a_slice(self, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_clients, "SLICE_INSTANCES", 1)
        bed.register(A_SERVICE)
        bed.register(B_SERVICE, "10.9.0.2")
        bed.now_ms += TICK_MS
        assert bed.index.tick(bed.now_ms) == bed.now_ms, "there is more to do"
        assert bed.told == [ONE]
        assert bed.index.tick(bed.now_ms) == bed.now_ms + TICK_MS
        assert bed.told == [ONE, TWO]


class TestWhoTells:
    def test_another_member_tells_of_what_is_its(self, bed: Bed) -> None:
        bed.view.servers = (SELF, B)
        mapper = DistroMapper.over(SELF, bed.view.servers)
        ips = [f"10.9.0.{number}" for number in range(1, 21)]
        for ip in ips:
            bed.register(A_SERVICE, ip)
        own = {f"{ip}:80#true" for ip in ips if mapper.responsible(f"{ip}:80")}
        assert 0 < len(own) < len(ips)
        assert set(bed.tick()) == own
        assert len(bed.index.ids()) == len(ips)

    def test_who_becomes_responsible_says_once_more_that_a_client_is_gone(self, bed: Bed) -> None:
        bed.view.servers = (B,)
        for service in (A_SERVICE, B_SERVICE):
            bed.register(service, "10.9.0.2" if service == B_SERVICE else "10.9.0.1")
        bed.tick()
        bed.deregister(A_SERVICE)
        assert bed.tick() == []
        bed.view.servers = (SELF,)
        assert bed.tick() == [ONE], "the other may have died before it said so"
        assert bed.tick() == []
        bed.view.servers = (B,)
        bed.tick(GONE_MS + 1)
        bed.view.servers = (SELF,)
        assert bed.tick() == [], "it said so long ago"


class TestComponent:
    def make(self, *peers: str) -> tuple[Bed, Engine]:
        bed = Bed()
        bed.register(A_SERVICE)
        bed.register(A_SERVICE, "10.9.0.2")
        bed.tick()
        more = {HTTP_CLIENTS: http_client_component(bed.index, ME, NOTHING, NOTHING)}
        kinds = {C: frozenset({CAPABILITY_CLIENTS_ONLY}), D: frozenset[str]()}
        engine = Engine(*peers, kinds=kinds, more=more)
        engine.hear()
        seen = self.end_rounds(engine) + self.end_rounds(engine)
        assert {action.resource_type for action in seen if isinstance(action, Load)} <= {INSTANCE_LIST}
        assert not engine.protocol.loading
        bed.view.servers = engine.protocol.reader.view.own_mapper.servers
        return bed, engine

    def end_rounds(self, engine: Engine) -> list[Action]:
        """Answer all calls that are due now; return them."""
        seen: list[Action] = []
        while actions := engine.tick():
            seen += actions
            for action in actions:
                match action:
                    case Load():
                        engine.protocol.on_load_done(action, Outcome.DELIVERED, [], engine.now_ms)
                    case Verify():
                        engine.protocol.on_verify_done(action, Outcome.DELIVERED, Received(), engine.now_ms)
        return seen

    def test_real_nacos_since_2_gets_the_clients_and_nothing_else(self) -> None:
        _, engine = self.make(B, C, D)
        engine.protocol.sync({DistroKey(HTTP_CLIENTS, client_key(ONE)): None}, engine.now_ms)
        lists = engine.write(engine.service_of(SELF))
        sends = {(one.peer, one.resource_type, one.keys) for one in engine.tick() if isinstance(one, SyncData)}
        assert sends == {
            (B, INSTANCE_LIST, (lists,)),
            (C, HTTP_CLIENTS, (client_key(ONE),)),
            (D, INSTANCE_LIST, (lists,)),
        }

    def test_a_verify_round_tells_it_of_those_of_which_this_member_tells(self) -> None:
        _, engine = self.make(B, C)
        engine.now_ms += 5_000
        rounds = [one for one in engine.tick(1_000) if isinstance(one, Verify)]
        mapper = DistroMapper.over(SELF, (SELF, B))
        own = {client_key(one) for one in (ONE, TWO) if mapper.responsible(tag_of(one))}
        assert {(one.peer, one.resource_type) for one in rounds} == {(B, INSTANCE_LIST), (C, HTTP_CLIENTS)}
        assert OwnChecksums(engine.components, engine.protocol.reader).of(HTTP_CLIENTS).keys() == own

    def test_one_that_failed_a_verify_round_is_sent_at_once(self) -> None:
        _, engine = self.make(C)
        engine.now_ms += 5_000
        [action] = engine.tick(1_000)
        assert isinstance(action, Verify)
        told = OwnChecksums(engine.components, engine.protocol.reader).of(HTTP_CLIENTS)
        assert told.keys() == {client_key(ONE), client_key(TWO)}
        engine.protocol.on_verify_done(action, Outcome.DELIVERED, Received(wanted=(client_key(TWO),)), engine.now_ms)
        [send] = engine.tick()
        assert isinstance(send, SyncData)
        assert (send.peer, send.resource_type, send.keys) == (C, HTTP_CLIENTS, (client_key(TWO),))

    def test_one_that_waits_is_not_sent_once_a_member_of_our_kind_runs_at_the_address(self) -> None:
        """It would take the address for a client with a connection, and this member would tell all that it is gone."""
        _, engine = self.make(C)
        engine.protocol.sync({DistroKey(HTTP_CLIENTS, client_key(ONE)): None}, engine.now_ms)
        [send] = engine.tick()
        assert isinstance(send, SyncData)
        engine.protocol.sync({DistroKey(HTTP_CLIENTS, client_key(TWO)): None}, engine.now_ms)
        engine.kinds = {}
        engine.hear(C)
        engine.protocol.on_sync_done(send, Outcome.FAILED, Received(), engine.now_ms)
        sends = [one for one in engine.tick(1_000) if isinstance(one, SyncData)]
        assert [one for one in sends if one.resource_type == HTTP_CLIENTS] == []
        assert engine.stats.sync_dropped == 2

    def test_of_a_client_that_is_gone_the_store_says_so(self) -> None:
        bed, _ = self.make(C)
        store, codec = HttpClientStore(bed.index, ME), ClientCodec()
        [there, gone] = store.datums([client_key(ONE), client_key("10.9.0.7:1#true")])
        assert there.version.writer == gone.version.writer == ME, "or the engine would not send it"
        assert (there.value.state, gone.value.state) == (bed.index.state(ONE), None)
        assert (codec.checksum(there), codec.checksum(gone)) == (str(there.value.state.revision), "")
        assert store.versions().keys() == {client_key(ONE), client_key(TWO)}
        assert (store.version(client_key("10.9.0.7:1#true")), store.tag(client_key(ONE))) == (None, "10.9.0.1:80")

    def test_nothing_is_taken_from_a_member(self) -> None:
        bed, _ = self.make(C)
        component = http_client_component(bed.index, ME, NOTHING, NOTHING)
        datum = Datum(client_key(ONE), NO_VERSION, None)
        with pytest.raises(CodecError):
            component.store.apply(datum, None, 0)
        component.store.forget(client_key(ONE), 0, absent=True)
        assert bed.index.holds(ONE)


class TestEchoes:
    @pytest.fixture
    def stored(self, bed: Bed) -> Bed:
        bed.register(A_SERVICE)
        bed.tick()
        return bed

    def test_real_nacos_repeats_our_word_and_it_makes_no_copy(self, stored: Bed) -> None:
        stored.node.take(REAL, ONE, stored.echo())
        assert stored.clients.table.client(ONE) is None
        assert stored.node.confirm(REAL, encode_verify(ONE, 1)), (
            "whatever revision it holds: we are the ones to compare"
        )
        stored.node.remove(REAL, ONE)
        assert stored.shown() == ["10.9.0.1"]
        stored.deregister(A_SERVICE)
        stored.tick()
        assert stored.shown() == []

    def test_an_echo_that_says_the_same_is_not_answered(self, stored: Bed) -> None:
        stored.node.take(REAL, ONE, stored.echo())
        assert stored.tick() == []

    @pytest.mark.parametrize("change", ["unhealthy", "without services", "gone"])
    def test_where_real_nacos_judged_for_itself_it_is_told_anew(self, stored: Bed, change: str) -> None:
        body = json.loads(stored.echo())
        if change == "unhealthy":
            body["instancePublishInfos"][0]["healthy"] = False
        else:
            body |= {name: [] for name in ("namespaces", "groupNames", "serviceNames", "instancePublishInfos")}
        if change == "gone":
            stored.node.remove(REAL, ONE)
        else:
            stored.node.take(REAL, ONE, json.dumps(body).encode())
        assert stored.tick() == [ONE]
        assert stored.shown() == ["10.9.0.1"]
        stored.view.servers = (B,)
        stored.node.remove(REAL, ONE)
        assert stored.tick() == [], "another member of ours tells it"

    def test_a_copy_that_exists_is_dropped_when_ours_holds_the_address(self, bed: Bed) -> None:
        body = encode_client(_state(TWO, A_SERVICE))
        bed.node.take(REAL, TWO, body)
        assert bed.clients.table.client(TWO) is not None
        bed.register(A_SERVICE, "10.9.0.2")
        bed.tick()
        assert bed.clients.table.client(TWO) is None
        bed.deregister(A_SERVICE, "10.9.0.2")
        assert bed.shown() == [], "nothing is retained"

    def test_a_late_echo_makes_a_copy_until_real_nacos_takes_it_back(self, stored: Bed) -> None:
        late = stored.echo()
        stored.deregister(A_SERVICE)
        stored.tick()
        stored.node.take(REAL, ONE, late)
        assert stored.shown() == ["10.9.0.1"]
        stored.node.remove(REAL, ONE)
        assert stored.shown() == []

    def test_a_snapshot_and_a_query_tell_of_ours_too(self, stored: Bed) -> None:
        told = json.loads(stored.node.snapshot())["clientSyncDataList"]
        assert [(one["clientId"], one["serviceNames"]) for one in told] == [(ONE, ["a"])]
        body = stored.node.client(ONE)
        assert body is not None
        assert decode_client(json.loads(body)).publications.keys() == {("public", A_SERVICE)}
        assert stored.node.client("10.9.0.7:1#true") is None


class TestInThePlaceOfRealNacos:
    """This member runs at the address of a real Nacos that ended. It was given that one's copies of all clients."""

    @pytest.fixture(params=[TWO, "1700000000000_10.9.0.2_40000"], ids=["an address", "a connection"])
    def client_id(self, request: pytest.FixtureRequest) -> str:
        found: str = request.param
        return found

    @pytest.fixture
    def stored(self, bed: Bed, client_id: str) -> Bed:
        version = Version(1, 1, SELF)
        snapshot = ClientSnapshot(version, None, _state(client_id, A_SERVICE))
        assert bed.store.apply(Datum(client_key(client_id), version, snapshot), None, bed.now_ms)
        assert bed.shown() == ["10.9.0.2"]
        return bed

    def removed(self, bed: Bed) -> list[Event]:
        bed.events.clear()
        own, copies = bed.clients.own, bed.clients.copies
        ClientExpiry(own, copies, lambda writer: writer == SELF, 2_000).expire(bed.now_ms)
        return [one for one in bed.events if isinstance(one, ClientDisconnect) and one.native]

    def test_a_client_that_another_real_nacos_confirms_is_not_buried_with_it(self, stored: Bed, client_id: str) -> None:
        assert stored.node.confirm(REAL, encode_verify(client_id, 7))
        assert self.removed(stored) == []
        assert stored.shown() == ["10.9.0.2"]

    def test_a_client_that_another_real_nacos_changes_is_its(self, stored: Bed, client_id: str) -> None:
        state = _state(client_id, B_SERVICE)
        stored.node.take(REAL, client_id, encode_client(state))
        assert (stored.shown(A_SERVICE), stored.shown(B_SERVICE)) == ([], ["10.9.0.2"])
        assert self.removed(stored) == []
        stored.node.remove(REAL, client_id)
        assert stored.shown(B_SERVICE) == []
        stored.node.take(REAL, client_id, encode_client(state))
        assert stored.shown(B_SERVICE) == ["10.9.0.2"], "it may come back"

    def test_a_client_that_nobody_confirms_is_gone(self, stored: Bed, client_id: str) -> None:
        assert self.removed(stored) == [ClientDisconnect(client_id, native=True)]
        assert stored.shown() == []
        stored.node.take(REAL, client_id, encode_client(_state(client_id, A_SERVICE)))
        is_address = "#" in client_id
        assert stored.shown() == (["10.9.0.2"] if is_address else []), (
            "an address beats again, no connection comes back"
        )

    def test_no_copy_is_made_beside_our_own_list(self, bed: Bed) -> None:
        """All real Nacos would lose the instance when that copy's time is over."""
        bed.register(A_SERVICE, "10.9.0.2")
        bed.tick()
        version = Version(1, 1, SELF)
        snapshot = ClientSnapshot(version, None, _state(TWO, A_SERVICE))
        assert bed.store.apply(Datum(client_key(TWO), version, snapshot), None, bed.now_ms)
        assert self.removed(bed) == []
        assert bed.clients.table.client(TWO) is None


def _state(client_id: str, service: str) -> ClientState:
    ip = client_id.partition(":")[0] if "#" in client_id else client_id.split("_")[1]
    registry = Registry.of("other~1")
    registry.writes.register(RegisterInstance(service, ip, 80, metadata=NO_METADATA), 0)
    found = registry.table.get("public", service)
    assert found is not None
    instances = {one.key: one for one in view_of(found).instances}
    return ClientState(client_id, 7, {("public", service): Publication(instances, False, 0, NO_VERSION)})
