"""Healing one service: this member fetches the states that others hold of it, as after a failed verify round (R3)."""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from app.members.membership import Membership
from app.naming.clients.client_table import ClientTable
from app.naming.model.keys import datum_key
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.durable_service import DurableService
from app.naming.records.record_keys import override_key, persistent_key
from app.replication.client_type import CLIENTS, client_key
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS
from distro.members.mapper import DistroMapper
from distro.model.ports import Clock, Components
from distro.model.types import DistroKey, MemberKind, MemberState
from distro.receive.receive import DistroReceiver, ReceiverEvents

KEYS_MAX = 10_000
"""The most keys of one call: the list, the description, persistent instances, and clients that publish the service."""
INTERVAL_MS = 2_000
"""The shortest time between two heals of a service."""
WINDOW_MS, CALLS_MAX = 1_000, 50
"""The window, and the most calls that are accepted within it, for all services together."""


class HealRate:
    """The rate limit of manual heals: anybody may request one, and each costs the peers more than the caller.

    Thread-safe. The calls accepted within ``INTERVAL_MS`` bound its memory.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._healed: dict[str, int] = {}
        """When each service was last healed, the latest at the end."""
        self._taken: deque[int] = deque(maxlen=CALLS_MAX)

    def wait_ms(self, key: str, now_ms: int) -> int:
        """Return 0 if a heal of the service may begin, which then counts as begun; else how long to wait before it."""
        with self._lock:
            for old, at_ms in list(self._healed.items()):
                if now_ms - at_ms < INTERVAL_MS:
                    break
                del self._healed[old]
            waits = [self._healed[key] + INTERVAL_MS - now_ms] if key in self._healed else []
            if len(self._taken) == CALLS_MAX:
                waits.append(self._taken[0] + WINDOW_MS - now_ms)
            if (longest_ms := max(waits, default=0)) > 0:
                return longest_ms
            self._healed[key] = now_ms
            self._taken.append(now_ms)
            return 0


class ServiceHealer:
    """Has this member exchange everything known about one service with its peers. Thread-safe; calls return at once.

    It only asks the engine to fetch: own keys from every Rollcall peer, other keys from their owners. The ordinary
    rules apply to the fetched datums, so a call may come late, twice, or for a peer that is gone.
    """

    def __init__(
        self,
        cluster: Membership,
        mapper_of: Callable[[str], DistroMapper],
        components: Components,
        receiver: DistroReceiver,
        events: ReceiverEvents,
        durable: DurableService,
        clients: ClientTable | None,
        clock: Clock,
    ) -> None:
        """``clients``: None if no client keeps a connection."""
        self._cluster = cluster
        self._mapper_of = mapper_of
        self._components = components
        self._receiver = receiver
        self._events = events
        self._durable = durable
        self._clients = clients
        self._clock = clock
        self._rate = HealRate()

    def wait_ms(self, namespace: str, service: str) -> int:
        """Return 0 if ``heal`` may be called now, which then counts as called; else how long to wait before it."""
        return self._rate.wait_ms(datum_key(namespace, service), self._clock.monotonic_ms())

    def heal(self, namespace: str, service: str, source: str, instances: Iterable[str]) -> dict[str, Any]:
        """Begin to fetch. Shape of the result: ``{"keys", "owned", "asked": {address: number of keys}}``.

        ``source``: the peer from which this member takes instances of the list that are unknown here; empty for none.
        ``instances``: keys of persistent instances that may be unknown here.

        Raises:
            InvalidParam: there is no peer to exchange with, or ``source`` is not a reachable Rollcall peer.
        """
        peers = frozenset(
            one.address
            for one in self._cluster.members()
            if one.address != self._cluster.self_address
            and one.kind is MemberKind.OWN
            and one.state in (MemberState.UP, MemberState.SUSPICIOUS)
        )
        if not peers:
            raise InvalidParam("this node cannot reach any other Rollcall member")
        if source and source not in peers:
            raise InvalidParam(
                f"Parameter 'source' is illegal: {source} is not a Rollcall member that this one can reach"
            )
        keys = self._keys(namespace, service, instances)[:KEYS_MAX]
        asked: dict[str, list[DistroKey]] = {}
        owned = 0
        for key in keys:
            mapper = self._mapper_of(key.resource_type)
            owner = mapper.map_srv(self._components[key.resource_type].store.tag(key.key))
            is_owner = owner == mapper.self_address
            owned += is_owner
            for peer in peers if is_owner else peers & {owner}:
                asked.setdefault(peer, []).append(key)
        if source:
            self._receiver.restore(source, [key for key in keys if key.resource_type == INSTANCE_LIST], self._now_ms())
        for peer, wanted in asked.items():
            self._events.fetch(peer, wanted)
        return {"keys": len(keys), "owned": owned, "asked": {peer: len(wanted) for peer, wanted in asked.items()}}

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def _keys(self, namespace: str, service: str, instances: Iterable[str]) -> list[DistroKey]:
        """Return the keys of everything that belongs to a service, each once."""
        records = [
            *self._durable.keys_of_service(namespace, service),
            *(key_of(namespace, service, one) for one in instances for key_of in (persistent_key, override_key)),
        ]
        publishers = self._clients.publishers(namespace, service) if self._clients is not None else ()
        found = [
            DistroKey(INSTANCE_LIST, datum_key(namespace, service)),
            *(DistroKey(RECORDS, key) for key in records),
            *(DistroKey(CLIENTS, client_key(one)) for one in publishers),
        ]
        return list(dict.fromkeys(found))
