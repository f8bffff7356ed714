"""Links that calls set: beside what the file says, and at all members of a cluster."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.config.link_settings import LinkSource
from app.naming.records.record_keys import link_key
from app.testing import Cluster, Registry
from app.tools.embedded.embedded_node import EmbeddedNode
from tests.support.fake_node import FakeNode, make_settings
from tests.support.tiny_server import refusing_address

LINK = "/v1/ns/link"


class Linked:
    """A node with a file of settings, and links to clusters that do not answer."""

    def __init__(self, file: Path) -> None:
        self.file, self.nobody = file, refusing_address()
        self.node = FakeNode(settings=replace(make_settings(), links=LinkSource(file=file, cluster_id="here")))

    def write(self, *lines: str) -> None:
        self.file.write_text("\n".join(lines))

    def receive(self, name: str, **fields: str) -> None:
        """Have the node hold a record that no call here has checked, as one of another member."""
        self.node.durable._put(link_key(name), lambda _old: fields or None)

    def running(self) -> dict[str, tuple[str, ...]]:
        """Return the chosen services of each link, after the next tick."""
        self.node.links.tick(0)
        return {name: one.follower.settings.chosen.services for name, one in self.node.links._threads.items()}


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Linked]:
    made = Linked(tmp_path / "application.properties")
    yield made
    assert made.node.links.stop()


def test_a_record_and_the_file_change_beside_each_other(linked: Linked) -> None:
    servers = f"rollcall.link.b.servers={linked.nobody}"
    linked.write(servers, "rollcall.link.b.services=a")
    assert linked.running() == {"b": ("a",)}
    linked.receive("b", services="c")
    linked.receive("d", servers=linked.nobody)
    assert linked.running() == {"b": ("c",), "d": ("*",)}
    linked.write(servers, "rollcall.link.b.services=of the file")
    assert linked.running() == {"b": ("c",), "d": ("*",)}, "the call counts"
    linked.write("")
    assert linked.running() == {"d": ("*",)}, "a link without servers is over"
    assert linked.node.links.error == ""
    linked.write(servers, "rollcall.link.b.services=of the file")
    linked.receive("b")
    linked.receive("d")
    assert linked.running() == {"b": ("of the file",)}
    linked.receive("b", enabled="false")
    assert linked.running() == {}


def test_a_record_that_cannot_be_followed_leaves_its_link_as_it_is(linked: Linked) -> None:
    linked.receive("b", servers=linked.nobody, services="a")
    assert linked.running() == {"b": ("a",)}
    linked.receive("b", servers=linked.nobody, services="c", later="x")
    linked.receive("d", servers=linked.nobody)
    assert linked.running() == {"b": ("a",), "d": ("*",)}
    assert linked.node.links.error.startswith("rollcall.link.b.later (a call) is not a setting of a link")
    linked.receive("b", servers=linked.nobody, services="c")
    assert linked.running() == {"b": ("c",), "d": ("*",)}
    assert linked.node.links.error == ""


def test_without_a_change_the_settings_are_read_once(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    linked.receive("b", servers=linked.nobody)
    read = list[object]()
    read_with = LinkSource.read_with
    monkeypatch.setattr(LinkSource, "read_with", lambda *given: read.append(given) or read_with(*given))
    for _ in range(3):
        linked.running()
    assert len(read) == 1


def change(member: EmbeddedNode, **fields: str) -> None:
    told = json.loads(member.call("PUT", LINK, name="dc-b", settings=json.dumps(fields)))
    assert fields.items() <= told["byCall"].items()


def has_links(member: EmbeddedNode, count: int) -> bool:
    [told] = json.loads(member.call("GET", f"{LINK}/list", local="true"))["members"]
    return len(told["links"]) == count


def test_a_call_at_one_member_links_changes_and_ends_at_all_of_them() -> None:
    with Registry(settings={"rollcall.cluster.id": "dc-b"}) as there:
        for name in ("orders", "billing"):
            there.register(name, "10.0.0.1", 80)
        with Cluster(2, settings={"rollcall.cluster.id": "dc-a"}) as here:
            change(here[0], servers=there.address)
            for member in here:
                member.wait_for_instances("orders", 1)
                member.wait_for_instances("billing", 1)
            change(here[1], services="orders")
            for member in here:
                member.wait_for_instances("billing", 0)
                member.wait_for_instances("orders", 1)
            here.settle()
            here[1].kill()
            here[1].restart()
            here.settle()
            here[1].wait_until(lambda: has_links(here[1], 1))
            here[1].wait_for_instances("orders", 1)
            [told] = json.loads(here[1].call("GET", f"{LINK}/list", local="true"))["members"]
            assert told["byCall"] == {"dc-b": {"servers": there.address, "services": "orders"}}
            assert json.loads(here[1].call("DELETE", LINK, name="dc-b"))["byCall"] == {}
            for member in here:
                member.wait_until(lambda member=member: has_links(member, 0))
