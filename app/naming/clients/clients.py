"""Clients: all parts that the clients with connections have, how they are put together, and how they end."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from app.naming.clients.client_copies import EXPIRY_MS, ClientCopies
from app.naming.clients.client_model import ClientBounds
from app.naming.clients.client_subscriptions import ClientSubscriptions
from app.naming.clients.client_table import ClientTable
from app.naming.clients.hand_over import HandOver
from app.naming.clients.own_clients import OwnClients
from app.naming.clients.withdrawals import Withdrawals
from app.naming.limits.admission import SubscriberTally
from app.naming.model.events import Event
from app.naming.registry.registry import Registry

EXPIRY_TICK_MS = 1_000


class ClientExpiry:
    """Drops copies of clients that their member no longer confirms, or whose member left. One thread calls ``tick``."""

    def __init__(self, own: OwnClients, copies: ClientCopies, has_left: Callable[[str], bool], pause_ms: int) -> None:
        """``has_left``: returns whether a ``writer``, one member's run, is over and its hand-over too.

        ``pause_ms``: a later call is one after a pause of this process.
        """
        self._own = own
        self._copies = copies
        self._has_left = has_left
        self._pause_ms = pause_ms
        self._expected_ms: int | None = None

    def tick(self, now_ms: int) -> int:
        """Drop expired copies. Return when to call again.

        A late call delays every copy's expiry by the same time (R9).
        """
        late_ms = now_ms - self._expected_ms if self._expected_ms is not None else 0
        self.expire(now_ms, late_ms if late_ms > self._pause_ms else 0)
        self._expected_ms = now_ms + EXPIRY_TICK_MS
        return self._expected_ms

    def expire(self, now_ms: int, late_ms: int = 0) -> Collection[str]:
        """Drop what is over. Return the ids of the clients whose copies were not confirmed, or whose member left.

        ``late_ms``: as of ``ClientCopies.expire``.
        """
        self._copies.drop_returned(now_ms)
        self._copies.drop_withdrawn(now_ms)
        self._own.remove_finished(now_ms)
        return self._copies.expire(now_ms, self._has_left, late_ms)


@dataclass(frozen=True, slots=True)
class Clients:
    """The parts that have the clients of one node. Each caller is handed the part that it uses."""

    table: ClientTable
    subscriptions: ClientSubscriptions
    hand_over: HandOver
    withdrawals: Withdrawals
    own: OwnClients
    copies: ClientCopies


def build_clients(
    registry: Registry,
    monotonic_ms: Callable[[], int],
    wall_ms: Callable[[], int],
    publish: Callable[[Event], None],
    bounds: ClientBounds | None = None,
    tally: SubscriberTally | None = None,
    *,
    expiry_ms: int = EXPIRY_MS,
    keep_ms: int = 60_000,
    alone: bool = False,
    is_handing_over: Callable[[str], bool] = lambda _writer: False,
    contact_ms: Callable[[str], int] | None = None,
) -> Clients:
    """Make the parts. ``tally``: counts the subscriptions, with all other subscriptions.

    ``expiry_ms``, ``keep_ms``, ``alone``: as of ``ClientCopies`` and ``ClientTable``.
    ``is_handing_over``, ``contact_ms``: as of ``HandOver`` and ``Withdrawals``; without them every member answers.
    """
    table = ClientTable(registry.table, registry.lists.writer, monotonic_ms, bounds, keep_ms=keep_ms, alone=alone)
    subscriptions = ClientSubscriptions(table, publish, tally)
    hand_over = HandOver(table, is_handing_over)
    withdrawals = Withdrawals(table, hand_over, contact_ms or (lambda _writer: monotonic_ms()))
    return Clients(
        table,
        subscriptions,
        hand_over,
        withdrawals,
        OwnClients(table, subscriptions, hand_over, withdrawals, monotonic_ms, wall_ms, publish),
        ClientCopies(table, hand_over, withdrawals, monotonic_ms, publish, expiry_ms=expiry_ms),
    )
