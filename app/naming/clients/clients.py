"""Clients: all parts that the clients with connections have, and how they are put together."""

from collections.abc import Callable
from dataclasses import dataclass

from app.naming.clients.client_copies import EXPIRY_MS, ClientCopies
from app.naming.clients.client_model import ClientBounds
from app.naming.clients.client_subscriptions import ClientSubscriptions
from app.naming.clients.client_table import ClientTable
from app.naming.clients.hand_over import HandOver
from app.naming.clients.own_clients import OwnClients
from app.naming.clients.withdrawals import Withdrawals
from app.naming.limits.subscriber_tally import SubscriberTally
from app.naming.model.events import Event
from app.naming.registry.registry import Registry


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
    """Make the parts. ``tally``: counts the subscriptions, with those of other kinds.

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
