"""The feed: the services that are registered in this cluster, and their changes, for the clusters that follow it.

Nothing of it runs before the first follower asks. It has only local registrations: an instance that a link
brought never leaves by another one.
"""

import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import orjson

from app.naming.model.events import InstancesChanged, ServiceChanged
from app.naming.model.keys import parse_datum_key
from app.naming.model.model import Instance, Service
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import local_view
from app.naming.wire.foreign_wire import EncodedInstance, digest_of, digest_text, encoded

LOG_BYTES_MAX = 16 * 1024 * 1024
"""Changes that are kept for followers: some seconds at thousands a second. A follower that is behind compares again."""
STATES_INSTANCES_MAX = 300_000
"""Instances whose last state is remembered, so that the next change of their service is a delta."""
DIRTY_MAX = 100_000
"""Changed services that wait to be read. Beyond it all followers compare again."""
READ_MAX = 500
"""Services that one call reads while others wait for it."""
LINGER_MS = 60_000
"""How long changes are noted after a follower was last there: one that returns continues from its place."""
PART_BYTES = 256 * 1024
"""The bytes of lines that a follower gets at once, plus one line."""

ServiceName = tuple[str, str]
"""The namespace and the full name."""
Takes = Callable[[str, str], bool]
"""Returns whether a follower gets a service, by namespace and full name."""


class State(NamedTuple):
    """The instances of a service that leave, as of a revision."""

    revision: int
    digest: int
    instances: Mapping[str, EncodedInstance]
    is_logged: bool = False
    """True if the log has a line with this state. Without one, only those that compared then have it."""


NOTHING = State(-1, 0, {})


class LoggedChange(NamedTuple):
    """A change in the log."""

    namespace: str
    full_name: str
    line: bytes


@dataclass(slots=True)
class FeedStats:
    """Counts since the start."""

    feed_changes: int = 0
    """Changes of services that were written to the log for followers."""
    feed_compared: int = 0
    """Comparisons that followers asked for."""
    feed_behind: int = 0
    """Followers that had to compare again, as the log no longer had their place."""


class Feed:
    """The log of changes, and comparisons with the data of followers. Thread-safe."""

    def __init__(
        self,
        table: ServiceTable,
        subscribe: Callable[[type, Callable[..., None]], None],
        now_ms: Callable[[], int],
        log_bytes_max: int = LOG_BYTES_MAX,
    ) -> None:
        """``subscribe``: has a handler called with each event of a type."""
        self.table, self._subscribe, self._now_ms, self._log_bytes_max = table, subscribe, now_ms, log_bytes_max
        self._noted_until_ms = 0
        self.run = secrets.token_hex(8)
        """Names this log: places in another one mean nothing here."""
        self.stats = FeedStats()
        self._lock = Lock()
        self._has_begun = False
        self._dirty: dict[ServiceName, None] = {}
        self._lost = False
        self._states: OrderedDict[ServiceName, State] = OrderedDict()
        self._state_instances = 0
        self._log: deque[LoggedChange] = deque()
        self._log_bytes = 0
        self._first = 1
        """The number of the first change in the log."""
        self._wakes: dict[Callable[[], None], None] = {}

    def begin(self) -> None:
        """Follow the changes of services from now on. Every call of a follower begins with it."""
        self._noted_until_ms = self._now_ms() + LINGER_MS
        if self._has_begun:
            return
        with self._lock:
            if self._has_begun:
                return
            self._subscribe(InstancesChanged, self._on_instances)
            self._subscribe(ServiceChanged, self._on_service)
            self._has_begun = True

    # --- changes ----------------------------------------------------------------------------------

    def _on_instances(self, event: InstancesChanged) -> None:
        if event.shown and (parsed := parse_datum_key(event.key)) is not None:
            self._note(parsed)

    def _on_service(self, event: ServiceChanged) -> None:
        self._note((event.namespace, event.service))

    def _note(self, name: ServiceName) -> None:
        if not self._wakes and self._now_ms() > self._noted_until_ms:
            self._lost = True  # a follower that returns after so long compares
            return
        if len(self._dirty) < DIRTY_MAX:
            self._dirty[name] = None
        else:
            self._lost = True
        for wake in tuple(self._wakes):
            wake()

    def attach(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, from any thread, when there are changes to read."""
        self._wakes[wake] = None

    def detach(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` no more. May be called twice."""
        self._noted_until_ms = self._now_ms() + LINGER_MS
        self._wakes.pop(wake, None)

    @property
    def followers(self) -> int:
        """Return the number of followers that are attached."""
        return len(self._wakes)

    def place(self) -> int:
        """Return the number of the last change. A follower that compares from now on has all before it."""
        with self._lock:
            self._write_dirty()
            return self._last

    @property
    def _last(self) -> int:
        return self._first + len(self._log) - 1

    def since(self, place: int, takes: Takes) -> tuple[list[bytes], int] | None:
        """Return the lines of changes after ``place``, a part at a time, and the place up to which they go.

        None if the log does not have them all any more, or never had: the follower compares.
        """
        found = self._since(place, takes)
        return ([one.line for one in found[0]], found[1]) if found is not None else None

    def names_since(self, place: int, takes: Takes) -> tuple[list[ServiceName], int] | None:
        """Return the services that changed after ``place``, as ``since`` does with their lines."""
        found = self._since(place, takes)
        return ([(one.namespace, one.full_name) for one in found[0]], found[1]) if found is not None else None

    def _since(self, place: int, takes: Takes) -> tuple[list[LoggedChange], int] | None:
        with self._lock:
            self._write_dirty()
            if place < self._first - 1 or place > self._last:
                self.stats.feed_behind += 1
                return None
            changes, size = list[LoggedChange](), 0
            for number in range(place - self._first + 1, len(self._log)):
                entry = self._log[number]
                place += 1
                if takes(entry.namespace, entry.full_name):
                    changes.append(entry)
                    size += len(entry.line)
                    if size >= PART_BYTES:
                        break
            return changes, place

    @property
    def has_more(self) -> bool:
        """Return whether changed services wait to be read."""
        return bool(self._dirty)

    def _write_dirty(self) -> None:
        """Write the changes of services that changed; the caller holds the lock."""
        if self._lost:
            self._lost = False
            self._first += len(self._log) + 1
            self._log.clear()
            self._log_bytes = 0
        for _ in range(READ_MAX):
            try:
                name, _ = self._dirty.popitem()
            except KeyError:
                return
            self._write(name)

    def _write(self, name: ServiceName) -> None:
        is_known = name in self._states
        before, after = self._states.get(name, NOTHING), self._read(name)
        if is_known and after.digest == before.digest and before.is_logged:
            return
        self._states[name] = after._replace(is_logged=True)
        fields = {"ns": name[0], "service": name[1], "digest": digest_text(after.digest)}
        if is_known and after.digest != before.digest:
            put = [one for key, one in after.instances.items() if before.instances.get(key) is not one]
            fields["base"] = digest_text(before.digest)
            gone = orjson.dumps([key for key in before.instances if key not in after.instances])
        else:
            put, gone = list(after.instances.values()), b"[]"
        texts = (b",".join([one.json for one in put]), gone)
        self._append(LoggedChange(*name, orjson.dumps(fields)[:-1] + b',"instances":[%b],"gone":%b}\n' % texts))

    def _write_changed(self, name: ServiceName) -> None:
        """Write the change of a service, if its state is not the one remembered; the caller holds the lock."""
        service, known = self.table.get(*name), self._states.get(name)
        if known is None or service is None or known.revision != service.revision:
            self._write(name)

    def _append(self, entry: LoggedChange) -> None:
        self.stats.feed_changes += 1
        self._log.append(entry)
        self._log_bytes += len(entry.line)
        while self._log_bytes > self._log_bytes_max and len(self._log) > 1:
            self._log_bytes -= len(self._log.popleft().line)
            self._first += 1

    # --- states -----------------------------------------------------------------------------------

    @staticmethod
    def leaving(service: Service) -> tuple[Instance, ...]:
        """Return the instances of a service that leave (L1)."""
        return local_view(service)

    def _read(self, name: ServiceName) -> State:
        """Return the present state of a service, and remember it; the caller holds the lock."""
        service = self.table.get(*name)
        known = self._states.get(name)
        revision = service.revision if service is not None and not service.hidden else 0
        if known is not None and known.revision == revision:
            self._states.move_to_end(name)
            return known
        held = known.instances if known is not None else {}
        instances: dict[str, EncodedInstance] = {}
        for one in self.leaving(service) if service is not None and not service.hidden else ():
            key = one.key
            earlier = held.get(key)
            if earlier is None or earlier.instance is not one:
                made = encoded(one)
                instances[key] = earlier if earlier is not None and earlier.hash == made.hash else made
            else:
                instances[key] = earlier
        digest = digest_of([one.hash for one in instances.values()])
        is_logged = known is not None and known.is_logged and known.digest == digest
        state = State(revision, digest, instances, is_logged)
        self._state_instances += len(instances) - len(held)
        self._states[name] = state
        self._states.move_to_end(name)
        while self._state_instances > STATES_INSTANCES_MAX and len(self._states) > 1:
            _, dropped = self._states.popitem(last=False)
            self._state_instances -= len(dropped.instances)
        return state

    # --- comparing --------------------------------------------------------------------------------

    def compare(
        self, held: Mapping[ServiceName, int], takes: Takes, bytes_max: int
    ) -> tuple[list[bytes], list[ServiceName], int, bool]:
        """Compare the services that a follower takes with the digests of its copies.

        Return the JSON of services that it holds in another state, up to ``bytes_max`` and one more; the held services
        that have no instance here; the number of services that it should hold; and whether there are more to send.
        """
        self.stats.feed_compared += 1
        wanted = [(one.namespace, one.full_name) for one in self.table.services() if not one.hidden]
        found, size, count, seen = list[bytes](), 0, 0, set[ServiceName]()
        for name in wanted:
            if not takes(*name):
                continue
            with self._lock:
                # Others that follow may hold an earlier state: a change that is seen here first goes into the log.
                if name in self._dirty or name in self._states:
                    self._dirty.pop(name, None)
                    self._write_changed(name)
                state = self._read(name)
            if not state.instances:
                continue
            count += 1
            seen.add(name)
            if held.get(name) == state.digest:
                continue
            if size >= bytes_max:
                return found, [], count, True
            found.append(_whole(name, state))
            size += len(found[-1])
        return found, [name for name in held if name not in seen], count, False


def _whole(name: ServiceName, state: State) -> bytes:
    fields = {"ns": name[0], "service": name[1], "digest": digest_text(state.digest)}
    return orjson.dumps(fields)[:-1] + b',"instances":[%b]}' % b",".join([one.json for one in state.instances.values()])
