"""A node in this process whose metrics are read: made, and not started."""

from collections.abc import Iterator
from pathlib import Path

from app.config.settings import read_settings
from app.node.node import Node

PORTS = (18_848, 18_858)
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "gauge": ("",),
    "summary": ("_count", "_sum"),
}


def member_node(data_dir: Path, **settings: str) -> Node:
    """One of two members. ``rollcall_audit_enabled`` means ``rollcall.audit.enabled``."""
    fixed = {
        "rollcall.data.dir": str(data_dir),
        "nacos.member.list": ",".join(f"127.0.0.1:{port}" for port in PORTS),
        "server.port": str(PORTS[0]),
    }
    node = Node(read_settings(fixed | {name.replace("_", "."): value for name, value in settings.items()}, {}))
    node.background.push.stop(0)  # the only part with sockets before its start
    return node


def sample_names(node: Node) -> Iterator[str]:
    """Yield the names of all samples that a node has, or will have when there is something to count."""
    for family in node.services.metrics.families():
        yield from (family.name + suffix for suffix in SUFFIXES[family.type])
