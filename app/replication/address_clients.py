"""Instances registered over HTTP, by address: the clients that real Nacos since 2.0 takes them for.

Real Nacos keeps such an instance under a client ``ip:port#true``, which publishes one instance per service. Our members
keep lists by service. While a member of real Nacos is listed, the index inverts these lists, and names the clients that
changed. Each client is sent by one Rollcall member.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from zlib import crc32

from app.naming.clients.client_codec import BOUNDS, encode_client
from app.naming.clients.client_model import (
    REVISION_MAX,
    ClientState,
    is_client_id,
)
from app.naming.clients.own_clients import plain_metadata
from app.naming.model.keys import parse_datum_key
from app.naming.model.model import Instance, Publication
from app.naming.registry.list_state import ListState
from distro.model.digest import ChangedKeys
from distro.model.types import NO_VERSION, MemberKind, Version
from distro.protocol.engine_view import EngineView

ID_END = "#true"
TICK_MS = 500
LOOK_MS = 10_000
"""The interval at which the versions of all lists are compared with those that were read, to find unmarked changes."""
SLICE_INSTANCES = 2_000
"""The instances that are read in one tick. A service is read as a whole."""
GONE_MS = 30_000
"""For how long a member that becomes responsible for a removed client sends the removal again."""
GONE_MAX = 10_000


class _Client:
    """The services of an address, by datum key. Replaced when one of its instances changes."""

    __slots__ = ("revision", "services")

    def __init__(self, services: tuple[str, ...]) -> None:
        self.services = services
        self.revision = 0
        """Computed on first use; 0 until then."""


class HttpClients:
    """The clients by address, while a listed member is known to be real Nacos since 2.0; without one there are none.

    ``tick`` is called by one thread, the reading calls by any; so is ``mark``, with the datum key of a changed list.
    """

    def __init__(
        self,
        engine: Callable[[], EngineView],
        lists: ListState,
        on_change: Callable[[str], None],
        on_new: Callable[[str], None],
    ) -> None:
        """``engine``: shows whether there are members to fill the index for, and which of ours sends a client.

        ``on_change`` gets the id of a changed client that this member sends; ``on_new`` the id of a client new here.
        """
        self._engine = engine
        self._lists = lists
        self._on_change = on_change
        self._on_new = on_new
        self._lock = Lock()
        self._on = False
        self._noted = ChangedKeys()
        self.mark = self._noted.note
        self._dirty: deque[str] = deque()
        """Keys taken from ``_noted``, whose lists are to be read."""
        self._clients: dict[str, _Client] = {}
        self._services: dict[str, dict[str, Instance]] = {}
        self._read_versions: dict[str, Version] = {}
        self._gone: dict[str, int] = {}
        self._seen_view: tuple[str, ...] = ()
        self._filling = False
        """True during the first pass. Real Nacos knows most of its clients; the next verify round sends the others."""
        self._look_due_ms = 0

    # --- what happens -----------------------------------------------------------------------------

    def on_echo(self, client_id: str, state: ClientState | None) -> bool:
        """Return whether a client sent by real Nacos is in the index, so that the call only repeats our own data.

        If its health differs, because that member was cut off from us and expired the beats itself, it is sent again.
        """
        own = self.state(client_id)
        if own is None:
            return False
        if state is None or _health(own) != _health(state):
            self._tell(client_id)
        return True

    def _tell(self, client_id: str) -> None:
        if self._engine().own_mapper.responsible(tag_of(client_id)):
            self._on_change(client_id)

    # --- reading ----------------------------------------------------------------------------------

    def holds(self, client_id: str) -> bool:
        return client_id in self._clients

    def ids(self) -> list[str]:
        return list(self._clients)

    def state(self, client_id: str) -> ClientState | None:
        """Return the current publications of a client; None for an unknown client.

        For an address in several clusters of a service, the first cluster by name counts. For one in more services than
        a client may have, the first services by name count. Real Nacos has no place for the others.
        """
        with self._lock:
            client = self._clients.get(client_id)
            if client is None:
                return None
            names = client.services[: BOUNDS.services_per_client_max]
            parts = [(name, self._services[name][client_id]) for name in names]
        published = {}
        for name, one in parts:
            if (key := parse_datum_key(name)) is not None:
                published[key] = Publication({one.key: _readable(one)}, batch=False, at_ms=0, seen=NO_VERSION)
        if not client.revision:
            text = encode_client(ClientState(client_id, 0, published))
            client.revision = crc32(text) & REVISION_MAX or 1  # 0 would mean: from a member that keeps none
        return ClientState(client_id, client.revision, published)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> int:
        """Read the changed lists, a slice at a time. Return when to call again."""
        engine = self._engine()
        if all(one.kind is not MemberKind.NACOS_2 for one in engine.members.listed):
            self._clear()
            return now_ms + TICK_MS
        if engine.loading:
            return now_ms + TICK_MS
        if not self._on:
            self._on = self._filling = True
            self._look_due_ms = now_ms
        if now_ms >= self._look_due_ms:
            self._look_due_ms = now_ms + LOOK_MS
            self._look()
        self._follow_view(now_ms)
        left = SLICE_INSTANCES
        while left > 0 and (key := self._next_key()) is not None:
            left -= 1 + self._read(key, now_ms)
        if self._dirty:
            return now_ms
        self._filling = False
        return now_ms + TICK_MS

    def _clear(self) -> None:
        self._noted.take()
        if not self._on:
            return
        self._on = False
        self._dirty.clear()
        with self._lock:
            self._clients, self._services = {}, {}
        self._read_versions, self._gone, self._seen_view = {}, {}, ()

    def _look(self) -> None:
        versions = self._lists.versions()
        for key, version in versions.items():
            if self._read_versions.get(key) != version:
                self.mark(key)
        for key in self._read_versions.keys() - versions.keys():
            self.mark(key)

    def _follow_view(self, now_ms: int) -> None:
        """Send removals again after a change of the members: the member responsible before may not have sent them."""
        while self._gone and now_ms - next(iter(self._gone.values())) > GONE_MS:
            del self._gone[next(iter(self._gone))]
        view = self._engine().own_mapper.servers
        if view == self._seen_view:
            return
        self._seen_view = view
        for client_id in self._gone:
            self._tell(client_id)

    def _next_key(self) -> str | None:
        if not self._dirty:
            self._dirty.extend(self._noted.take())
        if not self._dirty:
            return None
        key = self._dirty.popleft()
        self._noted.discard(key)  # changes until now are read with it
        return key

    def _read(self, key: str, now_ms: int) -> int:
        """Bring the index up to date with one list. Return how many instances the list has."""
        datum = next(self._lists.datums([key]), None)
        found: dict[str, Instance] = {}
        if datum is None:
            self._read_versions.pop(key, None)
        else:
            self._read_versions[key] = datum.version
            for stored in datum.value.stored.values():
                _put_first(found, stored.instance)
        known = self._services.get(key, {})
        for client_id, one in found.items():
            old = known.get(client_id)
            if old is not one and old != one:
                self._put(client_id, key, one)
        for client_id in [name for name in known if name not in found]:
            self._take(client_id, key, now_ms)
        return len(found)

    def _put(self, client_id: str, key: str, one: Instance) -> None:
        with self._lock:
            client = self._clients.get(client_id)
            names = client.services if client is not None else ()
            self._services.setdefault(key, {})[client_id] = one
            self._clients[client_id] = _Client(names if key in names else tuple(sorted((*names, key))))
        self._gone.pop(client_id, None)
        if client is None:
            self._on_new(client_id)
        if not self._filling:
            self._tell(client_id)

    def _take(self, client_id: str, key: str, now_ms: int) -> None:
        with self._lock:
            names = tuple(name for name in self._clients[client_id].services if name != key)
            del self._services[key][client_id]
            if not self._services[key]:
                del self._services[key]
            if names:
                self._clients[client_id] = _Client(names)
            else:
                del self._clients[client_id]
        if not names:
            self._gone[client_id] = now_ms
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
        self._tell(client_id)


def tag_of(client_id: str) -> str:
    """Return the text that determines a client's responsible member: its address, as in real Nacos."""
    return client_id.removesuffix(ID_END)


def _put_first(found: dict[str, Instance], one: Instance) -> None:
    """Keep one instance per address, that in the first cluster by name.

    Leave out an address that makes no client id.
    """
    client_id = f"{one.ip}:{one.port}{ID_END}"
    other = found.get(client_id)
    if (other is None and is_client_id(client_id)) or (other is not None and one.cluster_name < other.cluster_name):
        found[client_id] = one


def _readable(one: Instance) -> Instance:
    """Return the instance without metadata that real Nacos cannot read."""
    metadata = plain_metadata(one.metadata)
    return one if metadata is one.metadata else replace(one, metadata=metadata)


def _health(state: ClientState) -> dict[tuple[str, str], bool]:
    """Return by service the parts that real Nacos changes by itself: whether the instance exists, and its health."""
    return {key: all(one.healthy for one in part.instances.values()) for key, part in state.publications.items()}
