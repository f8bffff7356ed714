"""A Nacos 2.x or 3.x as a link sees it: one gRPC connection, over which it watches services and registers instances."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app.config.link_settings import LinkSettings
from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_catalog import NacosCatalog
from app.links.nacos_connection import NacosConnection
from app.links.nacos_inbox import Message
from app.links.nacos_side import Pushed, Registration, on_pages
from app.links.nacos_values import ServiceName, WatchedNames
from app.naming.model.keys import GROUP_SPLITTER, split_name

PUSH, CHANGE, NAMES = "NotifySubscriberRequest", "NamingFuzzyWatchChangeNotifyRequest", "NamingFuzzyWatchSyncRequest"
SUBSCRIBE = "SubscribeServiceRequest"
END_OF_FIRST = "FINISH_FUZZY_WATCH_INIT_NOTIFY"
ADDED, REMOVED = "ADD_SERVICE", "DELETE_SERVICE"
PAGE, PAGES_MAX = 10_000, 1_000
EVERYTHING = "*"
NAMES_MAX = 200_000
"""Services that a fuzzy watch may name in a namespace."""
WHOLE_S = 10.0
"""After so long without the end of its first list a fuzzy watch is given up."""


class FuzzyNames:
    """The names of a namespace's services, as a fuzzy watch tells them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.begun_s = time.monotonic()
        self.is_whole = False
        """True once the first list has come to its end."""


class GrpcNacos:
    """The NacosSide over gRPC."""

    carries_twice = True

    def __init__(self, settings: LinkSettings, server: str) -> None:
        self.server, self.id = server, ""
        self._catalog = NacosCatalog(settings, server)
        self._connection = NacosConnection(settings, server)
        self._spaces = WatchedNames()
        self._fuzzy: dict[str, FuzzyNames] | None = {}
        """The namespaces that are watched for services; None where the server has no fuzzy watches."""
        self._has_news = False

    def open(self) -> None:
        """Connect and log in.

        Raises:
            LinkError: the server does not answer, or refuses the user or the connection.
        """
        self._connection.token = self._catalog.log_in()
        self._connection.open()
        self.id = f"{self.server}~{self._connection.id}"
        if self._connection.abilities.get("fuzzyWatch") is not True:
            self._fuzzy = None

    @property
    def wake(self) -> Callable[[], None]:
        return self._connection.inbox.wake

    def check(self) -> None:
        self._connection.token = self._catalog.log_in()
        self._connection.check()

    def cut(self) -> None:
        self._connection.cut()

    def close(self, *, withdraws: bool) -> None:
        """End the connection: the Nacos then removes what was registered over it."""
        self._connection.cut()

    # --- the names of services --------------------------------------------------------------------

    def namespaces(self) -> list[str]:
        return self._catalog.namespaces()

    def names(self, namespace: str, groups: Collection[str]) -> set[str] | None:
        if self._fuzzy is not None:
            watched = self._fuzzy.get(namespace)
            if watched is None:
                watched = self._watch_names(self._fuzzy, namespace)
            if watched is not None and watched.is_whole:
                return set(watched.names)
            if watched is not None and time.monotonic() - watched.begun_s < WHOLE_S:
                return None
        names = self._catalog.names(namespace)
        if names is None:
            return {one for group in groups for one in self._names_of(namespace, group)}
        return names

    def names_changed(self) -> bool:
        has_changed, self._has_news = self._has_news, False
        return has_changed

    def _watch_names(self, fuzzy: dict[str, FuzzyNames], namespace: str) -> FuzzyNames | None:
        """Begin to watch the names of a namespace. Return None if the server refuses it, which lists them then."""
        watched = fuzzy[namespace] = FuzzyNames()
        fields = {
            "namespace": namespace,
            "groupKeyPattern": f"{namespace}>>{EVERYTHING}>>{EVERYTHING}",
            "receivedGroupKeys": [],
            "watchType": "WATCH",
            "initializing": True,
            "module": "naming",
        }
        try:
            self._connection.call("NamingFuzzyWatchRequest", fields)
        except LinkRefused:
            self._fuzzy = None
            return None
        return watched

    def _names_of(self, namespace: str, group: str) -> set[str]:
        fields = {"namespace": namespace, "groupName": group, "serviceName": "", "module": "naming", "pageSize": PAGE}

        def ask(page: int) -> object:
            return self._connection.call("ServiceListRequest", fields | {"pageNo": page}).get("serviceNames") or []

        problem = f"{self.server} lists services of group {group!r} otherwise than as a list"
        names = on_pages(ask, PAGE, PAGES_MAX, problem)
        return {f"{group}{GROUP_SPLITTER}{one}" for one in names if isinstance(one, str)}

    def _fuzzy_message(self, message: Message) -> None:
        self._has_news = True
        if message.type == CHANGE:
            contexts: Any = [message.values]
        else:
            contexts = message.values.get("contexts")
        for one in contexts if isinstance(contexts, list) else []:
            key = one.get("serviceKey") if isinstance(one, dict) else None
            namespace, _, full_name = key.partition(GROUP_SPLITTER) if isinstance(key, str) else ("", "", "")
            if self._fuzzy is None or (watched := self._fuzzy.get(namespace)) is None:
                continue
            if one.get("changedType") == ADDED:
                if len(watched.names) >= NAMES_MAX:
                    raise LinkError(f"{self.server} names more than {NAMES_MAX} services in {namespace!r}")
                watched.names.add(full_name)
            elif one.get("changedType") == REMOVED:
                watched.names.discard(full_name)
        if message.values.get("syncType") == END_OF_FIRST and self._fuzzy is not None:
            namespace = str(message.values.get("groupKeyPattern") or "").partition(">>")[0]
            if (watched := self._fuzzy.get(namespace)) is not None:
                watched.is_whole = True

    # --- services ---------------------------------------------------------------------------------

    def watch(self, names: Sequence[ServiceName]) -> list[dict[str, Any] | LinkRefused]:
        for name in names:
            self._spaces.add(name)
        answers = self._connection.call_all([(SUBSCRIBE, _subscription(name, on=True)) for name in names])
        return [one if isinstance(one, LinkRefused) else _info_of(one) for one in answers]

    def leave(self, name: ServiceName) -> None:
        self._spaces.discard(name)
        self._connection.call_all([(SUBSCRIBE, _subscription(name, on=False))])

    def take(self, timeout_s: float) -> list[Pushed]:
        found = list[Pushed]()
        for message in self._connection.inbox.take(timeout_s):
            if message.type == PUSH:
                found += self._pushed(message)
            elif message.type in (CHANGE, NAMES):
                self._fuzzy_message(message)
        return found

    def _pushed(self, message: Message) -> list[Pushed]:
        """Return the list of a message. If several namespaces have a service of this name, all are to be asked for."""
        info = message.values.get("serviceInfo")
        if not isinstance(info, dict):
            return []
        name, group = info.get("name"), info.get("groupName")
        full_name = name if isinstance(name, str) and GROUP_SPLITTER in name else f"{group}{GROUP_SPLITTER}{name}"
        spaces = self._spaces.of(full_name)
        is_clear = len(spaces) == 1
        return [Pushed((one, full_name), info if is_clear else None, message.size) for one in spaces]

    def register(self, changes: Sequence[Registration]) -> list[LinkRefused | None]:
        answers = self._connection.call_all([_call_of(one) for one in changes])
        return [one if isinstance(one, LinkRefused) else None for one in answers]


def _call_of(change: Registration) -> tuple[str, dict[str, Any]]:
    fields = service_fields(change.name)
    if change.rows:
        return "BatchInstanceRequest", fields | {
            "type": "batchRegisterInstance",
            "instances": list(change.rows.values()),
        }
    # A batch of none would leave an empty publication. Of this call the server looks at the service alone.
    return "InstanceRequest", fields | {"type": "deregisterInstance", "instance": {"ip": "127.0.0.1", "port": 1}}


def _subscription(name: ServiceName, *, on: bool) -> dict[str, Any]:
    return service_fields(name) | {"subscribe": on, "clusters": ""}


def _info_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    info = answer.get("serviceInfo")
    return info if isinstance(info, dict) else {}


def service_fields(name: ServiceName) -> dict[str, Any]:
    """Return the fields that name a service in a request of an SDK."""
    group, service = split_name(name[1])
    return {"namespace": name[0], "groupName": group, "serviceName": service, "module": "naming"}
