"""Withdrawals of clients that a silent member may not know of, though it has a client with the same instances (R15)."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from app.naming.clients.client_model import WITHDRAWALS_SENT_MAX, Client, ServiceKey, Withdrawal
from app.naming.clients.client_table import ClientTable
from app.naming.clients.hand_over import HandOver
from app.naming.model.events import Event, ServiceChanged
from app.naming.model.model import Publication

SILENT_MS = 3_500
"""The silence that counts: a healthy member reports more often. Reports are 2 s apart, and each may take 1.5 s."""
OPEN_MS_MAX = 2 * SILENT_MS
WITHDRAWALS_MAX = 10_000
"""The most open withdrawals. The oldest beyond it are forgotten: their instances may stay listed for a while."""


class OpenWithdrawals:
    """The open withdrawals of the last seconds, by service. Not thread-safe."""

    def __init__(self) -> None:
        self._open: deque[tuple[ServiceKey, Withdrawal]] = deque(maxlen=WITHDRAWALS_MAX)

    def add(self, key: ServiceKey, withdrawal: Withdrawal) -> None:
        self._open.append((key, withdrawal))

    def take(self, now_ms: int) -> dict[ServiceKey, list[Withdrawal]]:
        """Take out all, except those that were open for too long."""
        found: dict[ServiceKey, list[Withdrawal]] = {}
        for key, one in self._open:
            if now_ms - one.at_ms <= OPEN_MS_MAX:
                found.setdefault(key, []).append(one)
        self._open.clear()
        return found

    def __len__(self) -> int:
        return len(self._open)


class Withdrawals:
    """Removes what clients withdraw from older copies of silent members.

    Its methods are steps for the holder of the table's lock. They return the events to publish once it is free.
    """

    def __init__(self, table: ClientTable, hand_over: HandOver, contact_ms: Callable[[str], int]) -> None:
        """``contact_ms``: returns when the member of a ``writer`` last answered or called this one (monotonic)."""
        self._table = table
        self._hand_over = hand_over
        self._contact_ms = contact_ms
        self.open = OpenWithdrawals()
        """Withdrawals whose members are not silent for long enough."""

    def withdraw(self, client: Client, former: Mapping[ServiceKey, Publication], now_ms: int) -> list[Event]:
        """Remove what a client, or its member, withdrew from its ``former`` publications."""
        events: list[Event] = []
        if any(self._contact_ms(writer) < client.since_ms for writer in self._table.copy_writers):
            for key, publication in former.items():
                present = client.published.get(key)
                gone = publication.instances.keys() - (present.instances.keys() if present is not None else ())
                if gone:
                    events += self._note(client, key, frozenset(gone), publication.at_ms, now_ms)
        return events + self._hand_over.stop_sending(former)

    def take_reported(
        self, client: Client, withdrawn: Mapping[ServiceKey, tuple[frozenset[str], int]], now_ms: int
    ) -> list[Event]:
        """Remove what a client withdrew, as its member reports it.

        Two successive changes are sent as one, so the publication itself may never have been heard of here.
        """
        events: list[Event] = []
        for key, (instance_keys, at_ms) in withdrawn.items():
            known = client.withdrawn.get(key)
            is_known = known is not None and known.published_ms == at_ms and instance_keys <= known.instance_keys
            if not is_known and (dropped := self._note(client, key, instance_keys, at_ms, now_ms)):
                events += [*dropped, ServiceChanged(*key)]
        return events

    def close_open(self, now_ms: int) -> list[Event]:
        """Try the open withdrawals again, as their members may be silent for long enough by now."""
        events: list[Event] = []
        keys = []
        for key, withdrawals in self.open.take(now_ms).items():
            if dropped := self._apply(key, withdrawals, now_ms):
                events += dropped
                keys.append(key)
        return [*events, *self._hand_over.stop_sending(keys), *(ServiceChanged(*key) for key in keys)]

    def _note(
        self, client: Client, key: ServiceKey, instance_keys: frozenset[str], at_ms: int, now_ms: int
    ) -> list[Event]:
        """Keep a client's withdrawal from a service, for other members too, and apply it."""
        one = Withdrawal(instance_keys, at_ms, client.since_ms, now_ms)
        client.withdrawn.pop(key, None)
        client.withdrawn[key] = one
        if len(client.withdrawn) > WITHDRAWALS_SENT_MAX:
            del client.withdrawn[next(iter(client.withdrawn))]
        return self._apply(key, [one], now_ms)

    def _apply(self, key: ServiceKey, withdrawals: Iterable[Withdrawal], now_ms: int) -> list[Event]:
        """Remove withdrawn instances of a service from older copies of silent members. Return nothing if none was in.

        Withdrawals stay open while their member is not silent for long enough.
        """
        events: list[Event] = []
        copies: dict[str, list[Client]] = {}
        for copy in self._table.publishing(key):
            for instance_key in () if copy.native else copy.published[key].instances:
                copies.setdefault(instance_key, []).append(copy)
        for one in withdrawals:
            is_open = False
            for copy in [copy for instance_key in one.instance_keys for copy in copies.get(instance_key, ())]:
                contact_ms, publication = self._contact_ms(copy.version.writer), copy.published.get(key)
                if publication is None or not one.is_later(publication.at_ms, contact_ms):
                    continue
                if now_ms - contact_ms <= SILENT_MS:
                    is_open = True
                else:
                    events += self._hand_over.drop_instances(copy, key, one.instance_keys, now_ms)
            if is_open:
                self.open.add(key, one)
        return events
