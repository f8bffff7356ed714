"""Which member asks whom for the state of one service, and how often it may be made to."""

from typing import Any

import pytest

from app.naming.clients.client_model import ClientInfo
from app.naming.model.keys import datum_key
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.override import Override
from app.naming.records.record_keys import override_key, persistent_key, service_meta_key
from app.naming.registry.operations import RegisterInstance
from app.replication.client_type import CLIENTS, ClientStore, client_key
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS
from app.replication.service_heal import CALLS_MAX, INTERVAL_MS, WINDOW_MS, HealRate, ServiceHealer
from distro.members.mapper import DistroMapper, WriterMapper
from distro.model.ports import Component
from distro.model.types import CAPABILITY_VERSIONS, DistroKey, Member, MemberState
from tests.support.fake_node import SELF, FakeNode
from tests.support.registry_parts import store_of

B, C, D = "10.0.0.2:8848", "10.0.0.3:8848", "10.0.0.4:8848"
SERVICE = "DEFAULT_GROUP@@orders"
OURS = frozenset({CAPABILITY_VERSIONS})


class Bed:
    """A healer of a node in a cluster, and what it asked for."""

    def __init__(self, owner: str = SELF, *others: Member) -> None:
        self.node = FakeNode()
        listed = others or (Member(B, MemberState.UP, OURS), Member(C, MemberState.SUSPICIOUS, OURS))
        self.node.cluster.others = list(listed)
        self.fetched: dict[str, list[DistroKey]] = {}
        self.restored: list[tuple[str, list[DistroKey]]] = []
        mapper = DistroMapper.over(SELF, (owner,))
        writers = WriterMapper.over(SELF, ())
        nothing: Any = None
        clients = self.node.clients
        registry = self.node.registry
        stores: dict[str, Any] = {
            INSTANCE_LIST: store_of(registry, lambda _event: None),
            RECORDS: self.node.durable._records,
            CLIENTS: ClientStore(clients.table, clients.own, clients.copies, SELF, lambda _writer: False),
        }
        events: Any = self
        self.healer = ServiceHealer(
            self.node.cluster,  # type: ignore[arg-type]  # it lists members, which is all that is asked of it
            lambda resource_type: writers if resource_type == CLIENTS else mapper,
            {name: Component(store, nothing, nothing) for name, store in stores.items()},
            events,
            events,
            self.node.durable,
            self.node.clients.table,
            self.node,  # type: ignore[arg-type]  # a clock is all that it is here
        )

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.fetched[peer] = keys

    def restore(self, peer: str, keys: list[DistroKey], _now_ms: int) -> None:
        self.restored.append((peer, keys))


LIST = DistroKey(INSTANCE_LIST, datum_key("public", SERVICE))
META = DistroKey(RECORDS, service_meta_key("public", SERVICE))


def test_the_owner_asks_every_peer_that_it_can_reach() -> None:
    bed = Bed()
    told = bed.healer.heal("public", SERVICE, "", ())
    assert bed.fetched == {B: [LIST, META], C: [LIST, META]}
    assert told == {"keys": 2, "owned": 2, "asked": {B: 2, C: 2}}
    assert bed.restored == []


def test_others_ask_the_owner_alone() -> None:
    bed = Bed(B)
    assert bed.healer.heal("public", SERVICE, "", ())["owned"] == 0
    assert bed.fetched == {B: [LIST, META]}


def test_members_of_real_nacos_and_those_that_are_down_are_not_asked() -> None:
    bed = Bed(SELF, Member(B, MemberState.UP, OURS), Member(C, MemberState.UP), Member(D, MemberState.DOWN, OURS))
    bed.healer.heal("public", SERVICE, "", ())
    assert list(bed.fetched) == [B]


@pytest.mark.parametrize("source", [C, SELF, "10.9.9.9:80", "<html>"])
def test_only_a_peer_that_can_be_asked_is_restored_from(source: str) -> None:
    bed = Bed(SELF, Member(B, MemberState.UP, OURS), Member(C, MemberState.DOWN, OURS))
    with pytest.raises(InvalidParam, match="source"):
        bed.healer.heal("public", SERVICE, source, ())
    assert bed.fetched == {}
    bed.healer.heal("public", SERVICE, B, ())
    assert bed.restored == [(B, [LIST])]


def test_a_node_alone_has_nobody_to_ask() -> None:
    bed = Bed(SELF, Member(C, MemberState.UP))
    with pytest.raises(InvalidParam, match="cannot reach any other Rollcall member"):
        bed.healer.heal("public", SERVICE, "", ())


def test_durable_instances_and_clients_of_the_service_go_along() -> None:
    bed = Bed()
    bed.node.clients.own.connect(ClientInfo("c1", "10.1.0.9", 5000, "", ""))
    bed.node.clients.own.register("c1", RegisterInstance(SERVICE, "10.1.0.2", 80))
    one = RegisterInstance(SERVICE, "10.1.0.1", 80, ephemeral=False)
    bed.node.durable.register(one)
    first, third = "10.1.0.1:80:unknown:DEFAULT", "10.1.0.3:80:unknown:DEFAULT"
    bed.node.durable.overrides.replace("public", SERVICE, first, Override(2.0))
    bed.healer.heal("public", SERVICE, "", (third, first))
    known = [persistent_key("public", SERVICE, first), override_key("public", SERVICE, first)]
    records = [*known, persistent_key("public", SERVICE, third), override_key("public", SERVICE, third)]
    wanted = [LIST, META, *(DistroKey(RECORDS, key) for key in records), DistroKey(CLIENTS, client_key("c1"))]
    assert bed.fetched == {B: wanted, C: wanted}


class TestRate:
    def test_a_service_is_not_healed_again_at_once(self) -> None:
        rate = HealRate()
        assert rate.wait_ms("a", 1_000) == 0
        assert rate.wait_ms("a", 1_000 + INTERVAL_MS - 1) == 1
        assert rate.wait_ms("b", 1_000 + INTERVAL_MS - 1) == 0
        assert rate.wait_ms("a", 1_000 + INTERVAL_MS) == 0

    def test_all_services_together_have_a_bound(self) -> None:
        rate = HealRate()
        assert [rate.wait_ms(f"s{number}", number) for number in range(CALLS_MAX)] == [0] * CALLS_MAX
        assert rate.wait_ms("more", CALLS_MAX) == WINDOW_MS - CALLS_MAX
        assert rate.wait_ms("more", WINDOW_MS) == 0

    def test_its_memory_is_bounded(self) -> None:
        rate = HealRate()
        for number in range(10_000):
            rate.wait_ms(f"s{number}", number * 10)
        assert len(rate._healed) <= CALLS_MAX * (INTERVAL_MS // WINDOW_MS + 1)
