"""What a member answers to those who ask for its datums."""

import gzip
import json

import pytest

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
from distro.types import Datum, Version

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
