"""The local instances that one link registers at a Nacos: which services this member carries, and which changed.

It does no I/O, and takes the time as a value. The rules L1 and L9 are in docs/replication.md.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from app.config.link_settings import LinkSettings
from app.links.feed import Feed
from app.links.feed_lines import FollowedPart
from app.links.nacos_side import Registration
from app.links.nacos_values import Address, ServiceName, sent_rows
from app.naming.model.keys import split_name
from app.naming.model.model import Instance
from app.naming.registry.union import local_view

HANDOVER_MS = 10_000
"""How long a member still carries a service that others carry now: by then they have registered its instances."""
RETRY_MS = 30_000
"""After so long a registration that the Nacos refused is tried again."""
_NONE: frozenset[Address] = frozenset()


class RegisteredService(NamedTuple):
    """The instances of a service that are registered at the Nacos over the connection of this member."""

    digest: bytes
    instances: int


class LocalRegistrations:
    """The state of one link's way out at this member. Used by one thread. Names are those at the Nacos."""

    def __init__(self, settings: LinkSettings, feed: Feed, own_cluster: Callable[[], str]) -> None:
        self._settings, self._feed, self._own_cluster = settings, feed, own_cluster
        self._parts: tuple[FollowedPart, ...] = ()
        self._place = 0
        self._may_have_more = False
        """True if the feed gave changes when it was read last: it gives a part at a time."""
        self._dirty: dict[ServiceName, None] = {}
        self._sent: dict[ServiceName, RegisteredService] = {}
        self._taken: dict[ServiceName, frozenset[Address]] = {}
        """The addresses that clients of the Nacos registered there themselves."""
        self._leaving_ms: dict[ServiceName, int] = {}
        self._retry_ms: dict[ServiceName, int] = {}
        self.services = self.instances = 0
        """How many services and instances are registered there by this member now."""

    def end(self) -> None:
        """Note that the connection ended."""
        self._sent, self._taken, self._leaving_ms, self._retry_ms = {}, {}, {}, {}
        self.services = self.instances = 0

    def begin(self) -> None:
        """Begin again on a new connection, over which nothing is registered."""
        self.end()
        self._feed.begin()
        self._mark_all()

    def carry(self, parts: tuple[FollowedPart, ...], now_ms: int) -> None:
        """Carry the services of these parts from now on; those of others for as long as a hand-over takes (L9)."""
        if parts == self._parts:
            return
        self._parts = parts
        for name in self._sent:
            if self._is_of_parts(name[1]):
                self._leaving_ms.pop(name, None)
            else:
                self._leaving_ms.setdefault(name, now_ms + HANDOVER_MS)
        self._mark_all()

    def _is_of_parts(self, full_name: str) -> bool:
        return any(one.has(full_name) for one in self._parts)

    def _mark_all(self) -> None:
        self._place = self._feed.place()
        here = [(self._settings.there(one.namespace), one.full_name) for one in self._feed.table.services()]
        self._dirty = dict.fromkeys([*here, *self._sent])

    def taken(self, name: ServiceName, addresses: frozenset[Address]) -> None:
        """Note which addresses of a service clients registered at the Nacos itself: these are not sent (L1)."""
        if self.taken_of(name) != addresses:
            if addresses:
                self._taken[name] = addresses
            else:
                del self._taken[name]
            self._dirty[name] = None

    def taken_of(self, name: ServiceName) -> frozenset[Address]:
        """Return the addresses of a service that clients registered at the Nacos itself."""
        return self._taken.get(name, _NONE)

    def left(self, name: ServiceName) -> None:
        """Note that the service is watched no more."""
        self._taken.pop(name, None)

    # --- what is due ------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Return whether services wait to be registered, or changes to be read."""
        return bool(self._dirty) or self._may_have_more or self._feed.has_more

    def due(self, now_ms: int, count_max: int) -> list[ServiceName]:
        """Return services that may have changed, at most ``count_max``. ``rows`` has the instances to register."""
        changed = self._feed.names_since(self._place, lambda *_: True)
        self._may_have_more = bool(changed and changed[0])
        if changed is None:
            self._mark_all()
        else:
            names, self._place = changed
            self._dirty.update(dict.fromkeys((self._settings.there(ns), full_name) for ns, full_name in names))
        for waiting in (self._leaving_ms, self._retry_ms):
            for name in [one for one, due_ms in waiting.items() if now_ms >= due_ms]:
                del waiting[name]
                self._dirty[name] = None
        found = list[ServiceName]()
        while self._dirty and len(found) < count_max:
            name = next(iter(self._dirty))
            del self._dirty[name]
            if name in self._sent or self.carries(name):
                found.append(name)
        return found

    def carries(self, name: ServiceName) -> bool:
        """Return whether this member registers the instances of a service there: L9, and the link chooses it."""
        settings, (namespace, full_name) = self._settings, name
        here = settings.here(namespace)
        if here is None or not (self._is_of_parts(full_name) or name in self._leaving_ms):
            return False
        return settings.chosen.takes(namespace, *split_name(full_name))

    def has_local(self, name: ServiceName) -> bool:
        """Return whether there are local instances of a service that this member carries."""
        return self.carries(name) and bool(self._local(name))

    def _local(self, name: ServiceName) -> tuple[Instance, ...]:
        here = self._settings.here(name[0])
        service = self._feed.table.get(here, name[1]) if here is not None else None
        return local_view(service) if service is not None and not service.hidden else ()

    def rows(self, name: ServiceName) -> Mapping[Address, Mapping[str, Any]] | None:
        """Return the instances to register in place of those before; None if the Nacos has them.

        Raises:
            CodecError: as ``sent_rows``.
        """
        local = self._local(name) if self.carries(name) else ()
        rows = sent_rows(local, self._own_cluster(), self.taken_of(name))
        sent = self._sent.get(name)
        if not rows:
            return None if sent is None else rows
        return None if sent is not None and sent.digest == _digest(rows) else rows

    def change(self, name: ServiceName) -> Registration | None:
        """Return what is to be registered of a service; None if the Nacos has it.

        Raises:
            CodecError: as ``sent_rows``.
        """
        rows = self.rows(name)
        return Registration(name, rows, self.taken_of(name), not self.carries(name)) if rows is not None else None

    def registered(self, name: ServiceName, rows: Mapping[Address, Mapping[str, Any]]) -> None:
        """Note that the Nacos has these instances now."""
        before = self._sent.pop(name, None)
        self.instances += len(rows) - (before.instances if before is not None else 0)
        if rows:
            self._sent[name] = RegisteredService(_digest(rows), len(rows))
        self.services = len(self._sent)

    def refused(self, name: ServiceName, now_ms: int) -> None:
        """Note that the Nacos refused a registration: it is tried again later."""
        self._retry_ms[name] = now_ms + RETRY_MS


def _digest(rows: Mapping[Address, Mapping[str, Any]]) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for _, row in sorted(rows.items()):
        made.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS))
    return made.digest()
