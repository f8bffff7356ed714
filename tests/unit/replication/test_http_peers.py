"""What a member answers to those who ask for its datums."""

import gzip
import json

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication.http_peers import NodeReplication
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.large_bodies import LargeBodies
from distro.clock import SystemClock
from distro.deadlines import CLOCK_HEADER
from distro.http_agent import MEMBER_HEADER
from distro.ports import Component
from distro.types import Datum, Received, Version

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

    def serve(self, _resource_type: str, _keys: object) -> list[Datum]:
        return [self._datum]


def asked(instances: int, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of the answer to who asks for all datums."""
    clock, stored = SystemClock(), Stored(instances)
    component = Component(None, InstanceListCodec(clock.wall_ms), None)  # type: ignore[arg-type]
    peers = NodeReplication(stored, {INSTANCE_LIST: component}, stored, clock, LargeBodies(1_000))  # type: ignore[arg-type]
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

    def sent_ms(self, _peer: str, _clock: str | None) -> int:
        return 5

    def receive_known(self, resource_type: str, versions: dict[str, Version]) -> tuple[frozenset[str], Received]:
        assert resource_type == INSTANCE_LIST
        known = frozenset(key for key, version in versions.items() if version == VERSION)
        return known, Received(dict.fromkeys(known & {LISTS[1]}, VERSION))

    def receive(self, _type: str, sender: str, datums: list[Datum], _now_ms: int, *, fetched: bool) -> Received:
        assert (sender, fetched) == (PEER, False)
        self.taken += [datum.key for datum in datums]
        return Received()


LISTS = [datum_key("public", f"g@@s{number}") for number in range(5)]


def test_of_datums_that_are_known_no_value_is_read() -> None:
    clock, stored = SystemClock(), Receiving()
    component = Component(None, InstanceListCodec(clock.wall_ms), None)  # type: ignore[arg-type]
    peers = NodeReplication(stored, {INSTANCE_LIST: component}, stored, clock, LargeBodies(10_000))  # type: ignore[arg-type]
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
    assert stored.taken == [LISTS[3]]
