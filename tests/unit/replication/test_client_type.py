"""Clients among members: what a received client does to the held one, and whose word counts."""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.config.settings import read_settings
from app.naming.clients.client_model import REVISION_MAX, ClientInfo
from app.naming.clients.clients import EXPIRY_TICK_MS, ClientExpiry, build_clients
from app.naming.model.events import ClientChanged, ClientDisconnect, Event
from app.naming.model.keys import datum_key
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.union import view_of
from app.node.node import Node
from app.replication.client_type import (
    CLIENTS,
    ClientCodec,
    ClientStore,
    client_id_of,
    client_key,
)
from distro.engine.peer_sends import PeerSends
from distro.members.mapper import WriterMapper
from distro.model.errors import CodecError
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import (
    CAPABILITY_CLAIMS,
    CAPABILITY_DELTAS,
    Datum,
    DistroKey,
    MemberKind,
    Received,
    SyncData,
    Version,
)
from distro.receive.receive import DistroReceiver, ReceiverEvents
from distro.wire.codec import decode_frame, encode_frame
from tests.support.receiver_view import StubView

A, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ID = "1700000000000_10.9.0.1_40000"
KEY = client_key(ID)
SERVICE = "G@@orders"
ONE = RegisterInstance(SERVICE, "10.9.0.1", 80)


class Side(ReceiverEvents):
    """One member's clients, with the engine's rules over them."""

    def __init__(self, address: str, run: str = "1", has_left: Callable[[str], bool] = lambda _writer: False) -> None:
        self.address, self.now_ms, self.loading = address, 1_000, False
        self.events: list[Event] = []
        self.over = set[str]()
        """The runs that hand their clients over."""
        self.fetches: list[tuple[str, list[DistroKey]]] = []
        self.registry = Registry.of(f"{address}~{run}")
        self.clients = build_clients(
            self.registry, lambda: self.now_ms, lambda: 5, self.events.append, is_handing_over=self.over.__contains__
        )
        parts = self.clients
        self.store = ClientStore(parts.table, parts.own, parts.copies, address, has_left)
        component = Component(
            self.store,
            ClientCodec(),
            None,  # type: ignore[arg-type]  # nothing is sent here
            taken_by=frozenset({MemberKind.OWN}),
            owned_by_writer=True,
            on_verified=self.store.on_verified,
        )
        mapper = WriterMapper.over(address, ())
        self.record = DistroStats()
        self.receiver = DistroReceiver(
            self.registry.lists.writer,
            {CLIENTS: component},
            StubView(mapper, lambda: self.loading),
            self,
            self.record,
        )

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.fetches.append((peer, keys))

    def connect(self, client_id: str = ID) -> None:
        self.clients.own.connect(ClientInfo(client_id, "10.9.0.1", 40_000, "shop", "sdk"))

    def sent(self) -> list[Datum]:
        """All that is held here, as it arrives elsewhere."""
        datums = self.store.datums(self.store.versions())
        read, failed = decode_frame(encode_frame(datums, ClientCodec(), 0, versioned=True), ClientCodec(), 0)
        assert not failed
        return read

    def receive(self, sender: "Side", *, fetched: bool = False) -> Received:
        return self.receiver.receive(CLIENTS, sender.address, sender.sent(), self.now_ms, fetched=fetched)

    def verify(self, sender: "Side") -> Received:
        return self.receiver.verify(CLIENTS, sender.address, dict(sender.store.versions()), self.now_ms)

    def expire(self, now_ms: int, has_left: Callable[[str], bool]) -> Collection[str]:
        return ClientExpiry(self.clients.own, self.clients.copies, has_left, 2_000).expire(now_ms)

    def ports(self) -> list[int]:
        service = self.registry.table.get("public", SERVICE)
        return [one.port for one in view_of(service).instances] if service else []


@pytest.fixture
def a() -> Side:
    side = Side(A)
    side.connect()
    side.clients.own.register(ID, ONE)
    return side


@pytest.fixture
def b() -> Side:
    return Side(B)


def test_keys() -> None:
    assert client_id_of(KEY) == ID
    assert client_id_of(datum_key("public", SERVICE)) == ""


def test_a_change_and_a_removal_arrive(a: Side, b: Side) -> None:
    assert b.receive(a) == Received()
    assert b.ports() == [80]
    copy = b.clients.table.client(ID)
    assert copy is not None
    assert copy.info == ClientInfo(ID, "10.9.0.1", 40_000, "shop", "sdk")
    assert copy.version == Version(1, 1, f"{A}~1")
    assert b.store.tag(KEY) == A
    late = a.sent()
    a.clients.own.disconnect(ID)
    b.receive(a)
    assert b.ports() == []
    assert b.store.version(KEY) == Version(1, 2, f"{A}~1")
    assert b.receiver.receive(CLIENTS, A, late, 0).refused == {KEY: Version(1, 2, f"{A}~1")}
    assert b.ports() == [], "what is late brings nothing back"


def test_a_client_goes_whole_to_a_member_that_takes_claims(a: Side) -> None:
    component = Component(a.store, ClientCodec(), None, deltas=a.store)  # type: ignore[arg-type]  # nothing is sent
    member = SimpleNamespace(capabilities={CAPABILITY_DELTAS, CAPABILITY_CLAIMS})
    reader = SimpleNamespace(speaks_for=lambda *_: True, view=SimpleNamespace(members={B: member}))
    sends = PeerSends({CLIENTS: component}, reader, DistroStats())  # type: ignore[arg-type]
    [datum] = sends.read(SyncData(B, CLIENTS, (KEY,), 9_000))
    assert (datum.key, datum.base) == (KEY, None)


def test_a_client_that_published_nothing_is_nobody_elses_business(b: Side) -> None:
    a = Side(A)
    a.connect()
    assert (a.store.versions(), a.store.version(KEY), a.store.datums([KEY])) == ({}, None, [])
    a.clients.own.disconnect(ID)
    assert a.clients.table.is_removed(ID)
    b.receive(a)
    assert b.clients.table.ids() == []


def test_a_verify_round_confirms_and_finds_what_differs(a: Side, b: Side) -> None:
    assert b.verify(a) == Received(wanted=(KEY,), fetching=0), "its owner is to send it"
    b.receive(a)
    b.now_ms = 170_000
    assert b.verify(a) == Received(fetching=0)
    assert not b.expire(190_000, lambda _writer: False), "it was confirmed 20 seconds ago"
    a.clients.own.register(ID, ONE._replace(port=81))
    b.now_ms = 200_000
    assert b.verify(a) == Received(wanted=(KEY,), fetching=0)
    assert b.fetches == [], "owners send, nobody fetches"
    assert b.expire(360_000, lambda _writer: False) == [ID], "another version is no confirmation"


def test_what_its_member_does_not_list_is_asked_for_and_buried(a: Side, b: Side) -> None:
    b.receive(a)
    again = Side(A, run="2", has_left=lambda writer: writer == f"{A}~1")
    assert b.verify(again).refused == {KEY: Version(1, 1, f"{A}~1")}
    assert b.ports() == [80], "absence alone removes nothing"
    again.receive(b, fetched=True)
    assert again.events == [ClientDisconnect(ID, True)], "which is to be sent"
    assert b.receive(again) == Received()
    assert b.ports() == []
    assert b.store.version(KEY) == Version(1, 2, f"{A}~2")


def test_a_loading_member_buries_its_last_run_and_takes_the_others(a: Side, b: Side) -> None:
    b.receive(a)
    b.connect("other")
    b.clients.own.register("other", ONE._replace(port=90))
    again = Side(A, run="2", has_left=lambda writer: writer == f"{A}~1")
    again.loading = True
    again.receiver.load(CLIENTS, b.sent(), 0, "10.0.0.2:8848")
    assert again.ports() == [90]
    assert again.clients.table.is_removed(ID)


def test_a_restarted_member_keeps_its_last_runs_clients_until_their_time_is_over(a: Side, b: Side) -> None:
    """They come back elsewhere (R17): the peers keep their copies, and the member takes them as copies, too."""
    b.receive(a)
    again = Side(A, run="2")
    again.over.add(f"{A}~1")
    again.receive(b, fetched=True)
    assert again.ports() == [80]
    assert not again.clients.table.is_removed(ID)
    assert again.expire(again.now_ms, lambda _writer: False) == []
    assert again.expire(again.now_ms, lambda writer: writer == f"{A}~1") == [ID]
    assert again.ports() == []
    assert again.clients.table.is_removed(ID)
    assert again.events[-1] == ClientDisconnect(ID, True), "which is to be sent"
    assert b.receive(again) == Received()
    assert b.ports() == []


def test_the_client_of_an_address_that_was_meant_for_real_nacos_makes_neither_copy_nor_removal(a: Side) -> None:
    """Members before this release sent it to one of our kind that had just taken the place of a real Nacos.

    That one named it to its sender in the next round, which buried it, and all real Nacos lost the instance.
    """
    address, b = "10.9.0.1:80#true", Side(B)
    snapshot = a.clients.table.snapshot(ID)
    assert snapshot is not None
    assert snapshot.state is not None
    state = replace(snapshot.state, client_id=address)
    for version in (Version(1, 1, f"{A}~1"), Version(1, 1, f"{B}~1")):
        datum = Datum(client_key(address), version, replace(snapshot, version=version, state=state))
        b.receiver.receive(CLIENTS, A, [datum], b.now_ms, fetched=True)
    assert (b.ports(), b.events, b.store.versions()) == ([], [], {})


def test_a_snapshot_with_one_that_cannot_be_taken_is_taken_but_for_that(a: Side) -> None:
    b, c = Side(B), Side(C)
    for side, client_id in ((b, ID), (b, "other")):
        side.connect(client_id)
        side.clients.own.register(client_id, ONE._replace(port=90))
        side.clients.own.register(client_id, ONE._replace(port=91))
    a.loading = True
    a.receiver.load(CLIENTS, b.sent(), 0, "10.0.0.2:8848")
    assert sorted(a.ports()) == [80, 91], "the client of this member stays as it is"
    assert a.record.received_failed == 1
    c.loading = True
    c.receiver.load(CLIENTS, b.sent(), 0, "10.0.0.2:8848")
    assert c.ports() == [91]


def test_nobody_has_a_say_in_the_client_of_another(a: Side, b: Side) -> None:
    for _ in range(3):
        b.connect()
        b.clients.own.register(ID, ONE._replace(port=99))
        b.clients.own.deregister(ID, "public", SERVICE)
        b.clients.own.register(ID, ONE._replace(port=99))
    c = Side(C)
    c.receive(a)
    assert c.receive(b).refused == {KEY: Version(1, 1, f"{A}~1")}, "though its version is higher"
    assert c.ports() == [80]
    a.receive(b)
    assert a.fetches == [(B, [DistroKey(CLIENTS, KEY)])]
    a.receive(b, fetched=True)
    assert a.ports() == [80]
    assert not a.store.claim_all([KEY], 0)
    assert not b.store.claim_all([KEY], 0)


def test_nobody_brings_a_client_back_that_is_gone(a: Side, b: Side) -> None:
    """Not even what its member's earlier run said last of it, which comes late and counts higher than the removal."""
    b.receive(a)
    for port in (81, 82, 83):
        a.clients.own.register(ID, ONE._replace(port=port))
    again = Side(A, run="2", has_left=lambda writer: writer == f"{A}~1")
    again.receive(b)
    b.receive(again)
    assert b.store.version(KEY) == Version(1, 2, f"{A}~2")
    assert b.receive(a).refused == {KEY: Version(1, 2, f"{A}~2")}
    assert b.ports() == []


def test_what_comes_of_a_run_that_is_over_is_not_taken(a: Side) -> None:
    b = Side(B, has_left=lambda writer: writer == f"{A}~1")
    assert b.receive(a) == Received()
    assert b.clients.table.ids() == []


def test_forgetting(a: Side, b: Side) -> None:
    b.receive(a)
    b.store.forget(KEY, 0)
    assert b.ports() == [80], "only removals are forgotten"
    b.store.forget(KEY, 0, absent=True)
    assert b.ports() == []
    a.store.forget(KEY, 0, absent=True)
    assert a.ports() == [80]


def test_expiry_ticks(a: Side, b: Side) -> None:
    b.receive(a)
    gone: set[str] = set()
    expiry = ClientExpiry(b.clients.own, b.clients.copies, gone.__contains__, 2_000)
    assert expiry.tick(1_000) == 1_000 + EXPIRY_TICK_MS
    assert expiry.tick(301_000) == 301_000 + EXPIRY_TICK_MS
    assert b.ports() == [80], "the process stood still for five minutes"
    gone.add(f"{A}~1")
    expiry.tick(302_000)
    assert b.ports() == []


def test_the_shape_on_the_wire(a: Side) -> None:
    [datum] = a.store.datums([KEY])
    body = json.loads(ClientCodec().encode(datum, 0, True))
    assert body.keys() == {"key", "version", "client", "own"}
    assert (body["key"], body["version"]) == (KEY, f"1.1.{A}~1")
    assert body["client"]["clientId"] == ID
    assert body["client"]["attributes"] == {"clientAttributes": {"revision": 1}}
    assert body["own"] == {"at": [5], "seen": [""], "info": ["10.9.0.1", 40_000, "shop", "sdk"]}
    assert ClientCodec().decode(KEY, body, 0) == datum
    a.clients.own.disconnect(ID)
    [gone] = a.store.datums([KEY])
    assert json.loads(ClientCodec().encode(gone, 0, True)) == {"key": KEY, "version": f"1.2.{A}~1"}
    assert (ClientCodec().checksum(datum), ClientCodec().checksum(gone)) == ("1", "")


def wrong_bodies(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {**body, "version": "1.0.m"}
    yield {**body, "version": 7}
    yield {**body, "client": {**body["client"], "clientId": "another"}}
    yield {**body, "client": []}
    yield {**body, "own": None}
    yield {**body, "own": []}
    for info in (None, [], ["a", -1, "b", "c"], ["a", True, "b", "c"], ["a", 1, 2, "c"], ["a" * 3_000, 1, "", ""]):
        yield {**body, "own": {**body["own"], "info": info}}


def test_what_is_wrong_is_refused(a: Side) -> None:
    [datum] = a.store.datums([KEY])
    body = json.loads(ClientCodec().encode(datum, 0, True))
    for wrong in wrong_bodies(body):
        with pytest.raises(CodecError):
            ClientCodec().decode(KEY, wrong, 0)
    for key in ("other:x", client_key(""), client_key("a,b"), client_key("10.0.0.1:80#false")):
        with pytest.raises(CodecError):
            ClientCodec().decode(key, body, 0)
    snapshot = datum.value
    with pytest.raises(CodecError):
        Side(B).store.apply(Datum("other:x", datum.version, snapshot), None, 0)


def test_a_node_shows_what_its_clients_publish(tmp_path: Any) -> None:
    settings = read_settings({"rollcall.data.dir": str(tmp_path), "nacos.standalone": "true"}, {})
    node = Node(settings)
    told: list[object] = []
    node.domain.notify.subscribe(ClientChanged, told.append)
    node.start()
    try:
        node.services.clients.own.connect(ClientInfo(ID, "10.9.0.1", 1, "", ""))
        node.services.clients.own.register(ID, ONE)
        view = node.services.naming.service_view("public", SERVICE)
        assert view is not None
        assert [one.ip for one in view.instances] == ["10.9.0.1"]
        assert told == [ClientChanged(ID)]
        assert node.services.naming.counts(node.services.cluster.responsible).instances == 1
    finally:
        assert node.stop()


# --- versions in the name of a run that did not give them (R10) -----------------------------------


def test_a_member_counts_on_from_a_version_of_its_client_that_it_did_not_give(a: Side, b: Side) -> None:
    """A peer holds that: it takes what the client says next, as it is above."""
    [mine] = a.sent()
    forged = replace(mine, version=Version(1, 1_000_000, f"{A}~1"))
    assert b.receiver.receive(CLIENTS, A, [forged], 0) == Received()
    a.receive(b, fetched=True)
    assert a.store.version(KEY) == Version(1, 1_000_001, f"{A}~1")
    assert b.receive(a) == Received()
    assert b.store.version(KEY) == a.store.version(KEY)
    a.clients.own.disconnect(ID)
    assert b.receive(a) == Received()
    assert b.ports() == []


def test_a_removal_goes_above_a_version_that_its_member_did_not_give(a: Side, b: Side) -> None:
    [mine] = a.sent()
    forged = replace(mine, version=Version(1, 1_000, f"{A}~1"))
    assert b.receiver.receive(CLIENTS, A, [forged], 0) == Received()
    a.clients.own.disconnect(ID)
    a.receive(b, fetched=True)
    assert b.receive(a) == Received()
    assert (b.ports(), b.store.version(KEY)) == ([], Version(1, 1_001, f"{A}~1"))


def test_a_client_that_the_named_run_never_had_is_removed(a: Side, b: Side) -> None:
    [mine] = a.sent()
    never = Side(A)
    never.receiver.receive(CLIENTS, B, [mine], 0)
    assert (never.ports(), never.store.version(KEY)) == ([], Version(1, 2, f"{A}~1"))


@pytest.mark.parametrize("version", ["2.1.10.0.0.1:8848~1", f"1.{REVISION_MAX + 2}.10.0.0.1:8848~1"])
def test_no_client_has_a_version_that_its_member_cannot_pass(a: Side, version: str) -> None:
    body = {"key": KEY, "version": version}
    with pytest.raises(CodecError, match="above all that a member gives"):
        ClientCodec().decode(KEY, body, 0)
