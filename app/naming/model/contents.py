"""64 bits for the content of an instance list, record or client, which must be equal on all members in one version.

Left out are times, the parts that each member forgets at its own time, and the difference between no value and an empty
one, which no wire form keeps.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from app.naming.model.model import Instance, Publication, StoredInstance
from distro.model.digest import hash_of


def _text_of(key: str, one: Instance) -> str:
    """Return all values of an instance under its key. In one step, as each verify round does it some hundred times."""
    metadata = sorted(one.metadata.items()) if one.metadata else ""
    flags = f"{one.healthy:d}{one.enabled:d}{one.ephemeral:d}{one.marked:d}"
    return f"{key!r}{float(one.weight)}{flags}{metadata}{one.app or ''!r}{one.instance_id or ''!r}"


def list_content(key: str, stored: Mapping[str, StoredInstance]) -> int:
    """Return the bits of an instance list: its instances, each with its version."""
    parts = [key]
    for name, one in sorted(stored.items()) if len(stored) > 1 else stored.items():
        version = one.version
        parts.append(f"{_text_of(name, one.instance)}{version.epoch}.{version.counter}.{version.writer}")
    return hash_of("\0".join(parts))


def record_content(key: str, changed: str, value: Mapping[str, Any] | None) -> int:
    """Return the bits of a durable record: its value, and the version in which that was set."""
    return hash_of(f"{key}\0{changed}\0{orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()}")


def client_content(key: str, published: Iterable[tuple[tuple[str, str], Publication]]) -> int:
    """Return the bits of a client: its publications."""
    parts = [
        f"{name}{one.batch}{[_text_of(key, instance) for key, instance in sorted(one.instances.items())]}"
        for name, one in sorted(published, key=lambda item: item[0])
    ]
    return hash_of(f"{key}\0{parts}")
