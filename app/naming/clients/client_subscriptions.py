"""ClientSubscriptions of clients that are connected here, by service."""

from collections.abc import Callable

from app.naming.clients.client_model import Client, ServiceKey, check_service_key
from app.naming.clients.client_table import ClientTable
from app.naming.limits.admission import PREFIX, SubscriberTally
from app.naming.model.events import Event, ServiceSubscribed
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.nacos_errors import InvalidParam, LimitReached

CLUSTERS_CHARS_MAX = 2_048


class ClientSubscriptions:
    """The subscribers of each service. Thread-safe; ``drop_all`` is for the holder of the table's lock."""

    def __init__(
        self, table: ClientTable, publish: Callable[[Event], None], tally: SubscriberTally | None = None
    ) -> None:
        """``tally``: counts the subscriptions, with all other subscriptions."""
        self._table = table
        self._publish = publish
        self._tally = tally or SubscriberTally()
        self._subscribers: dict[ServiceKey, dict[str, str]] = {}

    def services(self, namespace: str) -> list[str]:
        """Return the full names of a namespace's services with a subscriber that is connected here."""
        return [name for space, name in list(self._subscribers) if space == (namespace or DEFAULT_NAMESPACE)]

    def subscribers(self, namespace: str, service: str) -> list[tuple[str, str]]:
        """Return the clients connected here that subscribe to a service, each with the clusters it requested."""
        return list(self._subscribers.get((namespace or DEFAULT_NAMESPACE, service), {}).items())

    def subscribe(self, client_id: str, namespace: str, service: str, clusters: str) -> None:
        """Subscribe a client to a service, which need not exist. The last clusters count.

        Raises:
            ClientGone: the client is not connected here.
            InvalidParam: a name is not allowed.
            LimitReached: the client, or all clients together, have as many subscriptions as they may.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        check_service_key(key)
        if len(clusters) > CLUSTERS_CHARS_MAX:
            raise InvalidParam(f"Param 'clusters' is illegal, the param length should not exceed {CLUSTERS_CHARS_MAX}.")
        with self._table.lock:
            client = self._table.native(client_id)
            is_new = key not in client.subscribed
            if is_new:
                self._check_room(client)
                self._tally.grpc += 1
            client.subscribed[key] = clusters
            self._subscribers.setdefault(key, {})[client_id] = clusters
        if is_new:
            self._publish(ServiceSubscribed(key, client_id))

    def unsubscribe(self, client_id: str, namespace: str, service: str) -> None:
        """End a client's subscription to a service, if there is one.

        Raises:
            ClientGone: the client is not connected here.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        with self._table.lock:
            client = self._table.native(client_id)
            if client.subscribed.pop(key, None) is not None:
                self._tally.grpc -= 1
                self._drop(key, client_id)

    def drop_all(self, client: Client) -> None:
        """End all subscriptions of a client."""
        for key in client.subscribed:
            self._drop(key, client.client_id)
        self._tally.grpc -= len(client.subscribed)
        client.subscribed.clear()

    def _check_room(self, client: Client) -> None:
        allowed = self._table.bounds.subscriptions_per_client_max
        if len(client.subscribed) >= allowed:
            self._table.services.admission.stats.subscriptions_per_connection += 1
            raise LimitReached(f"refused by {PREFIX}subscriptionsPerConnection={allowed}: the client has reached it")
        if not self._tally.has_room():
            raise LimitReached(self._tally.refusal())

    def _drop(self, key: ServiceKey, client_id: str) -> None:
        known = self._subscribers[key]
        del known[client_id]
        if not known:
            del self._subscribers[key]
