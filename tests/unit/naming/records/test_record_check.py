"""One check of records: whatever is written passes it, and what passes it is read at a start and taken by members."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from app.machine.storage.record_file import RecordFile
from app.naming.model.events import Event
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.override import Override
from app.naming.records.durable_service import DurableService
from app.naming.records.projection import Projection
from app.naming.records.record import Record
from app.naming.records.record_keys import namespace_key, override_key, persistent_key, service_meta_key
from app.naming.records.record_values import check_record
from app.naming.records.records import Records
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.replication.record_type import RecordCodec

WRITER, NAME, ADDRESS = "a:1~1", "g@@s", ("10.0.0.1", 80)
CHANGE = Override(weight=2.0, enabled=False, metadata={"a": "1"})

NAMES = [
    "a$b",
    "a/b",
    "a*",
    "*",
    "a b",
    "服务",
    "#",
    "a##b",
    "##",
    "%",
    "%23",
    "a,b",
    "x" * 512,
    "providers:com.foo.O$I:1.0:",
]

REFUSED = {
    "line in a name": DeregisterInstance("g@@a\nb", *ADDRESS),
    "line of Unicode in a name": DeregisterInstance("g@@a\u2028b", *ADDRESS),
    "half a pair in a name": DeregisterInstance("g@@a\ud800", *ADDRESS),
    "no name": DeregisterInstance("", *ADDRESS),
    "long name": DeregisterInstance("g@@" + "x" * 640, *ADDRESS),
    "hash at the end": DeregisterInstance(NAME, *ADDRESS, namespace="dev#"),
    "hashes": DeregisterInstance(NAME, *ADDRESS, namespace="a##b"),
    "long namespace": DeregisterInstance(NAME, *ADDRESS, namespace="n" * 513),
    "line in a namespace": DeregisterInstance(NAME, *ADDRESS, namespace="a\nb"),
    "half a pair in a namespace": DeregisterInstance(NAME, *ADDRESS, namespace="a\ud800b"),
    "cluster": DeregisterInstance(NAME, *ADDRESS, cluster="a_b"),
    "long cluster": DeregisterInstance(NAME, *ADDRESS, cluster="c" * 513),
    "no ip": DeregisterInstance(NAME, "", 80),
    "long ip": DeregisterInstance(NAME, "h" * 129, 80),
    "blank in an ip": DeregisterInstance(NAME, "a b", 80),
    "line in an ip": DeregisterInstance(NAME, "a\u2028b", 80),
    "no IPv4": DeregisterInstance(NAME, "1.2.3.256", 80),
    "port": DeregisterInstance(NAME, "10.0.0.1", 70_000),
}


class Node:
    """The durable parts of a node on a file."""

    def __init__(self, folder: Path) -> None:
        self.file = RecordFile(folder)
        self.file.open()
        registry, events = Registry.of(WRITER), list[Event]()
        projection = Projection(registry.table, lambda: 0, events.append)
        self.records = Records(
            WRITER, self.file, lambda: 5_000, lambda: 1_000, projection.on_record, check_record=check_record
        )
        self.durable = DurableService(
            self.records, projection, registry.table, registry.writes, lambda: 0, events.append
        )
        self.records.read_disk()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("command", REFUSED.values(), ids=REFUSED.keys())
def test_a_deregistration_that_members_would_refuse_is_refused_and_leaves_nothing(
    node: Node, command: DeregisterInstance
) -> None:
    with pytest.raises(InvalidParam, match=r"name|Name|'ip'|IPv4|'port'"):
        node.durable.deregister(command)
    assert not node.records.all_keys()


@pytest.mark.parametrize("ip", ["10.0.0.1", "a\u200bb", "host-\u00ad", "\ufeffhost", "名", "\ue000", "h" * 128, "::1"])
def test_what_is_acknowledged_is_taken_by_members_and_read_at_a_start(tmp_path: Path, node: Node, ip: str) -> None:
    check_kept(tmp_path, node, DeregisterInstance(NAME, ip, 80))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_that_is_acknowledged_is_kept(tmp_path: Path, node: Node, name: str) -> None:
    check_kept(tmp_path, node, DeregisterInstance(f"g@@{name}", *ADDRESS))


@pytest.mark.parametrize("name", NAMES)
def test_an_operators_change_of_a_service_of_any_name_is_kept(tmp_path: Path, node: Node, name: str) -> None:
    service, instance = f"g@@{name}", f"{ADDRESS[0]}:80:unknown:DEFAULT"
    node.durable.register(RegisterInstance(service, *ADDRESS, ephemeral=False))
    node.durable.overrides.replace("public", service, instance, CHANGE)
    key = override_key("public", service, instance)
    codec, [datum] = RecordCodec(), node.records.datums([key])
    (folder := tmp_path / "other").mkdir()
    other = Node(folder)
    other.records.merge(codec.decode(key, orjson.loads(codec.encode(datum, 1_000, True)), 1_000), 1_000)
    assert other.durable.overrides.find("public", service, instance) == CHANGE
    node.file.close()
    assert Node(tmp_path).durable.overrides.find("public", service, instance) == CHANGE


def check_kept(tmp_path: Path, node: Node, command: DeregisterInstance) -> None:
    """Check that members take the removal, and that the node starts with it."""
    node.durable.deregister(command)
    codec, [datum] = RecordCodec(), node.records.datums(node.records.all_keys())
    assert codec.decode(datum.key, orjson.loads(codec.encode(datum, 1_000, True)), 1_000).version == datum.version
    node.file.close()
    assert Node(tmp_path).records.all_keys() == [datum.key]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (service_meta_key("public", "g@@a\nb"), None),
        (persistent_key("public", NAME, "a\nb:80:unknown:DEFAULT"), None),
        (override_key("public", "g@@a\nb", "a:80:unknown:DEFAULT"), None),
        (override_key("public", "g@@" + "x" * 640, "a:80:unknown:DEFAULT"), None),
        (persistent_key("public", NAME, "x" * 2_000), None),
        (namespace_key("a b"), None),
        (namespace_key("dev"), {"name": 1, "description": ""}),
        (namespace_key("dev"), {"name": "\ud800", "description": ""}),
        (namespace_key("dev"), {"name": "", "description": "", "x": orjson.loads("[" * 300 + "]" * 300)}),
        ("rollcall.other.", {}),
    ],
)
def test_no_way_leads_past_the_check(node: Node, key: str, value: dict[str, object] | None) -> None:
    """Not even for a caller that checked nothing: the store itself refuses."""
    change: Callable[[object], dict[str, object] | None] = lambda _old: value  # noqa: E731
    with pytest.raises(InvalidParam):
        node.records.put_all({key: change}, said=[key], force=True)
    assert not node.records.all_keys()


def test_nothing_is_written_when_one_of_several_is_refused(node: Node) -> None:
    good = {"name": "dev", "description": ""}
    with pytest.raises(InvalidParam):
        node.records.put_all({namespace_key("dev"): lambda _old: good, namespace_key("a b"): lambda _old: good})
    assert not node.records.all_keys()
    assert isinstance(node.records, Records)
    assert not list(node.records.datums([namespace_key("dev")]))


def test_a_record_of_a_check_is_read_back(node: Node) -> None:
    node.records.put_all({namespace_key("dev"): lambda _old: {"name": "dev", "description": ""}})
    [datum] = node.records.datums([namespace_key("dev")])
    assert isinstance(datum.value, Record)
