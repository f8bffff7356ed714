"""What a member answers to those who ask for its datums."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication.http_peers import NodeReplication
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.large_bodies import LargeBodies
from app.replication.nacos_1_names import NacosOneNames
from distro.model.errors import NotInitialized
from distro.model.ports import Component
from distro.model.types import Datum, DistroKey, Received, Version
from distro.receive.call_times import AppliedTimes
from distro.timing.clock import SystemClock
from distro.wire.call_trust import CLOCK_HEADER
from distro.wire.http_agent import MEMBER_HEADER, SNAPSHOT_HEADER, SNAPSHOT_VERSIONS

PEER, PEER_IP = "10.0.0.2:8848", "10.0.0.2"
VERSION = Version(1, 2, "a:1~x")


class Stored:
    """One list of so many instances, and one listed member of our own kind."""

    def __init__(self, instances: int) -> None:
        found = [Instance(f"10.0.1.{number}", 80, service_name="g@@s") for number in range(instances)]
        self._datum = Datum(
            "key", VERSION, InstanceList({one.key: StoredInstance(one, VERSION, 0) for one in found}, {})
        )

    def sender_of(self, member: str | None, remote_ip: str) -> str | None:
        return member if (member, remote_ip) == (PEER, PEER_IP) else None

    def stamp(self) -> str:
        return "own-run 5"

    def serve(self, _resource_type: str, _keys: object, _peer: str | None) -> list[Datum]:
        return [self._datum]


def asked(instances: int, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of the answer to who asks for all datums."""
    clock, stored = SystemClock(), Stored(instances)
    component = Component(None, InstanceListCodec(clock.wall_ms), None)  # type: ignore[arg-type]
    peers = NodeReplication(
        stored, {INSTANCE_LIST: component}, stored, stored, clock, LargeBodies(1_000), None, NacosOneNames()
    )  # type: ignore[arg-type]
    parts, answered = peers.datums(["com.alibaba.nacos.naming.iplist.ephemeral.key"], headers, PEER_IP)
    return b"".join(parts), answered


@pytest.mark.parametrize(("instances", "is_packed"), [(1, False), (20, True)])
def test_our_own_kind_learns_when_the_answer_was_made(instances: int, is_packed: bool) -> None:
    body, answered = asked(instances, {MEMBER_HEADER.lower(): PEER})
    assert answered == {CLOCK_HEADER: "own-run 5"} | ({"Content-Encoding": "gzip"} if is_packed else {})
    [datum] = json.loads(gzip.decompress(body) if is_packed else body).values()
    assert len(datum["value"]["instanceList"]) == instances
    assert datum["version"] == VERSION.to_text()


@pytest.mark.parametrize("instances", [1, 20])
def test_real_nacos_gets_none_of_our_headers(instances: int) -> None:
    body, answered = asked(instances, {})
    assert answered == {}
    [datum] = json.loads(body).values()
    assert "version" not in datum


class Receiving(Stored):
    """Has a datum of ``VERSION`` under each key."""

    def __init__(self) -> None:
        super().__init__(0)
        self.taken: list[str] = []
        key = DistroKey(INSTANCE_LIST, LISTS[0])
        self.applied = AppliedTimes(is_pushed=lambda one: one == key)
        self.applied.note(key, VERSION, PEER, 1.0, 1_000)
        self.applied.pushed(key, 1.02)

    def version(self, _key: str) -> Version:
        return VERSION

    def sent_ms(self, _peer: str, _clock: str | None) -> int:
        return 5

    def receive_known(
        self, resource_type: str, versions: dict[str, Version], _now_ms: int
    ) -> tuple[frozenset[str], Received]:
        assert resource_type == INSTANCE_LIST
        known = frozenset(key for key, version in versions.items() if version == VERSION)
        return known, Received(dict.fromkeys(known & {LISTS[1]}, VERSION), ages_ms={LISTS[0]: 7.5})

    def receive(self, _type: str, sender: str, datums: list[Datum], _now_ms: int, *, fetched: bool) -> Received:
        assert (sender, fetched) == (PEER, False)
        self.taken += [datum.key for datum in datums]
        return Received(ages_ms=dict.fromkeys([datum.key for datum in datums]))


LISTS = [datum_key("public", f"g@@s{number}") for number in range(5)]


def test_of_datums_that_are_known_no_value_is_read() -> None:
    clock, stored = SystemClock(), Receiving()
    component = Component(stored, InstanceListCodec(clock.wall_ms), None)  # type: ignore[arg-type]
    peers = NodeReplication(
        stored, {INSTANCE_LIST: component}, stored, stored, clock, LargeBodies(10_000), None, NacosOneNames()
    )  # type: ignore[arg-type]
    known, new, unread = VERSION.to_text(), Version(1, 3, "a:1~x").to_text(), {"instanceList": "none"}
    empty: dict[str, object] = {"instanceList": []}
    body = {
        LISTS[0]: {"version": known, "value": unread},
        LISTS[1]: {"version": known, "value": unread},
        LISTS[2]: {"version": new, "value": unread},
        LISTS[3]: {"version": new, "value": empty},
        LISTS[4]: {"version": "none", "value": empty},
    }
    answer = json.loads(peers.receive(json.dumps(body).encode(), {MEMBER_HEADER.lower(): PEER}, PEER_IP))
    assert answer["refused"] == {LISTS[1]: VERSION.to_text()}
    assert answer["failed"].keys() == {LISTS[2], LISTS[4]}
    assert answer["ages"] == {LISTS[0]: 7.5, LISTS[3]: None}
    assert answer["pushed"] == {LISTS[0]: 20.0}, "it is told with the first answer after it"
    assert stored.taken == [LISTS[3]]


class Held(Stored):
    """Holds so many lists of 1,000 instances each, which are counted when they are read."""

    def __init__(self, lists: int, *, loading: bool = False) -> None:
        super().__init__(1_000)
        self.lists = [datum_key("public", f"g@@s{number}") for number in range(lists)]
        self.read: list[str] = []
        self.is_loading = lambda: loading

    def versions(self) -> dict[str, Version]:
        return dict.fromkeys(self.lists, VERSION)

    def serve_each(self, _type: str, keys: list[str]) -> Iterator[Datum]:
        for key in keys:
            self.read.append(key)
            yield replace(self._datum, key=key)

    def serve(self, _type: str, _keys: object, _peer: str | None) -> list[Datum]:
        return [replace(self._datum, key=key) for key in self.lists]

    def page(self, keys: list[str] | None, headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        clock = SystemClock()
        component = Component(self, InstanceListCodec(clock.wall_ms), None)  # type: ignore[arg-type]
        peers = NodeReplication(
            self, {INSTANCE_LIST: component}, self, self, clock, LargeBodies(10_000), None, NacosOneNames()
        )  # type: ignore[arg-type]
        parts, answered = peers.page(keys, headers, PEER_IP)
        body = b"".join(parts)
        return json.loads(gzip.decompress(body) if "Content-Encoding" in answered else body), answered


OURS = {MEMBER_HEADER.lower(): PEER}


def test_a_page_ends_when_it_is_full_and_reads_no_further_list() -> None:
    held = Held(100)
    found, answered = held.page(held.lists, OURS)
    assert list(found) == held.read == held.lists[: len(found)]
    assert 1 < len(found) < 50
    assert all(len(datum["value"]["instanceList"]) == 1_000 for datum in found.values())
    assert answered == {CLOCK_HEADER: "own-run 5", "Content-Encoding": "gzip"}


def test_who_loads_gets_versions_in_place_of_all_datums() -> None:
    held = Held(3)
    found, answered = held.page(None, OURS)
    assert found == dict.fromkeys(held.lists, VERSION.to_text())
    assert held.read == []
    assert answered == {CLOCK_HEADER: "own-run 5", SNAPSHOT_HEADER: SNAPSHOT_VERSIONS}


def test_a_member_that_loads_and_has_nothing_has_no_versions_either() -> None:
    assert Held(2, loading=True).page(None, OURS)[0]
    assert Held(0).page(None, OURS)[0] == {}
    with pytest.raises(NotInitialized):
        Held(0, loading=True).page(None, OURS)


@pytest.mark.parametrize("asks_for_all", [True, False])
def test_real_nacos_gets_no_pages(asks_for_all: bool) -> None:
    held = Held(3)
    found, answered = held.page(None if asks_for_all else held.lists, {})
    assert (list(found), answered) == (held.lists, {})
