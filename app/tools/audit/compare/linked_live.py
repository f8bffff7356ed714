"""The two sides of a link: the instances that it brought to a member, and those registered at a member of the other
cluster."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from app.config.link_settings import LinkFilter, name_here, name_there
from app.languages.phrases import phrase
from app.naming.model.keys import split_name
from app.rows.rows import Layer, RowKind
from app.tools.audit.compare.compare import Row, Side, is_seen
from app.tools.audit.compare.input import CannotCompare
from app.tools.audit.compare.services import NO_FACTS
from app.tools.audit.format.manifest import Link

_OF_MEMBER = ("owner", "version", "beat_age_ms", "silent_ms", "delete_timeout_ms", "client", "name", "value")
"""Fields that a link does not carry."""


def as_instance(row: Mapping[str, Any], name: str) -> Row | None:
    """Return the row of an instance that the link of this name brought as that of an instance; None for other rows."""
    if row.get("kind") != RowKind.LINKED or row.get("name") != name:
        return None
    return {**row, "kind": RowKind.INSTANCE.value, "layer": Layer.BOTH.value}


def linked_sides(a: Side, b: Side, links: Collection[Link], name: str) -> tuple[Side, Side]:
    """Return the sides of a link of ``a``, whose other end is the cluster of ``b``, by the names of that cluster.

    Raises:
        CannotCompare: the member has no such link.
    """
    link = next((one for one in links if one.name == name), None)
    if link is None:
        known = ", ".join(one.name for one in links) or "none"
        raise CannotCompare(
            phrase(
                "%(address)s has no link %(name)s; its links: %(known)s",
                address=a.address,
                name=repr(name),
                known=known,
            )
        )
    chosen = LinkFilter(tuple(link.namespaces), tuple(link.groups), tuple(link.services))

    def brought() -> Iterator[Row]:
        for row in a.rows():
            yield _carried(row, name_there(link.namespace_map, str(row["namespace"])))

    def registered() -> Iterator[Row]:
        for row in b.rows():
            namespace = row["namespace"]
            is_carried = is_seen(row) and name_here(link.namespace_map, namespace) is not None
            if row["kind"] == RowKind.INSTANCE and is_carried and chosen.takes(namespace, *split_name(row["service"])):
                yield _carried(row, namespace)

    return replace(a, rows=brought, facts=NO_FACTS), replace(b, rows=registered, facts=NO_FACTS)


def _carried(row: Row, namespace: str) -> Row:
    return {name: value for name, value in row.items() if name not in _OF_MEMBER} | {"namespace": namespace}
