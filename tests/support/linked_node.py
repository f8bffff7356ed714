"""A node of a test with links to clusters that do not answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from app.config.link_settings import LinkSource
from tests.support.fake_node import FakeNode, make_settings
from tests.support.tiny_server import refusing_address


@contextmanager
def linked_node() -> Iterator[FakeNode]:
    """A node with the link dc-b to another cluster, and the link old, which only sends to a Nacos."""
    nobody = refusing_address()
    texts = {f"rollcall.link.{name}.servers": nobody for name in ("dc-b", "old")}
    texts |= {"rollcall.link.old.direction": "out", "rollcall.link.old.kind": "nacos1"}
    source = LinkSource(((texts, "test"),), cluster_id="here")
    node = FakeNode(settings=replace(make_settings(), links=source))
    node.links.tick(0)
    try:
        yield node
    finally:
        assert node.links.stop()
