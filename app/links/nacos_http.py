"""A Nacos 1.x as a link sees it: lists over HTTP, with hints over UDP when one changed, and registrations that beat."""

import selectors
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

import orjson

from app.config.link_settings import LinkSettings
from app.links.link_calls import APP, LinkCalls, LinkError, LinkRefused
from app.links.nacos_catalog import NacosCatalog
from app.links.nacos_side import Pushed, Registration, on_pages
from app.links.nacos_values import Address, ServiceName, WatchedNames
from app.naming.model.keys import GROUP_SPLITTER, group_of
from distro.model.errors import CodecError
from distro.wire.codec import gunzip_if_gzip

T = TypeVar("T")
R = TypeVar("R")
SIDE_BY_SIDE = 16
"""Calls that are made at once: a call takes a round trip, and a link may reach over a thousand kilometres."""
METRICS_PATH = "/v1/ns/operator/metrics"
AGENT = "Nacos-Java-Client:v1.4.1"
"""A Nacos pushes to clients that it knows."""
LIST_PATH, NAMES_PATH = "/v1/ns/instance/list", "/v1/ns/service/list"
INSTANCE_PATH, BEAT_PATH = "/v1/ns/instance", "/v1/ns/instance/beat"
POLL_S, PUSHED_POLL_S = 2.0, 5.0
"""How often a list is asked for: without pushes, and while they come. A Nacos pushes for 10 s after each question."""
POLLS_PER_S = 300
"""With so many services that more were to be asked for, each is asked for less often."""
BEAT_S, AGAIN_S = 5.0, 10.0
"""How often a healthy instance beats, and an unhealthy one is registered again. Without either a Nacos removes it
after 30 s."""
STEP_CALLS = 200
"""Beats between two looks for incoming data."""
PAGE, PAGES_MAX = 1_000, 1_000
DATAGRAM_BYTES_MAX, PUSH_BYTES_MAX = 65_536, 1_048_576
DATAGRAMS_MAX = 200
NOT_FOUND = 20_404
WITHDRAW_S = 10.0
"""The time for removing what was registered, when a link ends."""


class InstanceStep(NamedTuple):
    """A call about one instance: ``row`` is registered in place of ``before``, or nothing for None."""

    name: ServiceName
    address: Address
    before: Mapping[str, Any] | None
    row: Mapping[str, Any] | None


class HttpNacos:
    """The NacosSide over HTTP."""

    carries_twice = False  # what is registered outlives its member by 15 s

    def __init__(self, settings: LinkSettings, server: str) -> None:
        self.server, self.id = server, ""
        self._settings = settings
        self._catalog = NacosCatalog(settings, server)
        self._every: list[LinkCalls] = []
        self._free: SimpleQueue[LinkCalls] = SimpleQueue()
        """Connections that no call uses now, of all that there are."""
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="link-http")
        self._is_cut = False
        self._udp = socket.socket(_family(server), socket.SOCK_DGRAM)
        self._udp.setblocking(False)
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        for one in (self._udp, self._woken):
            self._selector.register(one, selectors.EVENT_READ)
        self._own_ip = ""
        self._is_pushed = False
        self._polls: OrderedDict[ServiceName, float] = OrderedDict()
        """When each watched service was asked for last, the longest ago first."""
        self._spaces = WatchedNames()
        self._rows: dict[ServiceName, dict[Address, Mapping[str, Any]]] = {}
        self._beats: OrderedDict[tuple[ServiceName, Address], float] = OrderedDict()
        """When each registered instance is to beat, the first first."""

    def open(self) -> None:
        """Log in, and open the port for pushes.

        Raises:
            LinkError: the server does not answer, or refuses the user.
        """
        self._catalog.log_in()
        with LinkCalls(self._settings, self.server, self._catalog.token, AGENT) as calls:
            calls.text("GET", METRICS_PATH, {})
            self._own_ip = calls.own_ip
        self._udp.bind((self._own_ip, 0))
        self.id = f"{self.server}~{time.time_ns()}"

    @property
    def wake(self) -> Callable[[], None]:
        return self._wake

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake already, or ends
            self._waker.send(b"x")

    def check(self) -> None:
        self._catalog.log_in()
        self._one(lambda calls: calls.text("GET", METRICS_PATH, {}))
        self._beat_some()

    def cut(self) -> None:
        self._is_cut = True
        for one in list(self._every):
            one.cut()

    # --- calls ------------------------------------------------------------------------------------

    def _one(self, work: Callable[[LinkCalls], R]) -> R:
        """Make a call over a free connection, or over another one."""
        if self._is_cut:
            raise LinkError(f"the link ends the calls of {self.server}")
        try:
            calls = self._free.get_nowait()
        except Empty:
            calls = LinkCalls(self._settings, self.server, self._catalog.token, AGENT)
            self._every.append(calls)
        calls.token = self._catalog.token
        try:
            return work(calls)
        finally:
            self._free.put(calls)

    def _each(self, work: Callable[[LinkCalls, T], R], items: Sequence[T]) -> list[R | LinkRefused]:
        """Make a call for each item, some at once. Return their answers, or the refusals, in the order of the items.

        Raises:
            LinkError: one has no answer.
        """

        def answer(item: T) -> R | LinkRefused:
            try:
                return self._one(lambda calls: work(calls, item))
            except LinkRefused as refused:
                return refused

        return list(map(answer, items)) if len(items) < 2 else list(self._pool.map(answer, items))

    def close(self, *, withdraws: bool) -> None:
        """End the connection; if the link ends, remove what was registered, as long as the server answers."""
        self._selector.close()
        for one in (self._udp, self._woken, self._waker):
            one.close()
        self._pool.shutdown(cancel_futures=True)
        for calls in self._every:
            calls.close()
        if withdraws and self._rows:
            with suppress(LinkError):
                self._withdraw(time.monotonic() + WITHDRAW_S)
        self._rows.clear()

    def _withdraw(self, end_s: float) -> None:
        with LinkCalls(self._settings, self.server, self._catalog.token, AGENT) as calls:
            for name, rows in self._rows.items():
                for row in rows.values():
                    if time.monotonic() < end_s:
                        calls.text("DELETE", INSTANCE_PATH, _registration(name, row))

    # --- services ---------------------------------------------------------------------------------

    def namespaces(self) -> list[str]:
        return self._catalog.namespaces()

    def names(self, namespace: str, groups: Collection[str]) -> set[str] | None:
        names = self._catalog.names(namespace)
        return names if names is not None else {one for group in groups for one in self._names_of(namespace, group)}

    def names_changed(self) -> bool:
        return False

    def _names_of(self, namespace: str, group: str) -> set[str]:
        def ask(page: int) -> object:
            query = {"namespaceId": namespace, "groupName": group, "pageNo": page, "pageSize": PAGE}
            return self._one(partial(LinkCalls.json, method="GET", path=NAMES_PATH, query=query)).get("doms")

        names = map(
            str, on_pages(ask, PAGE, PAGES_MAX, f"{self.server} answers {NAMES_PATH} without a list of services")
        )
        return {one if GROUP_SPLITTER in one else f"{group}{GROUP_SPLITTER}{one}" for one in names}

    def watch(self, names: Sequence[ServiceName]) -> list[dict[str, Any] | LinkRefused]:
        for name in names:
            self._spaces.add(name)
            self._polls.pop(name, None)
            self._polls[name] = time.monotonic()
        place = {"udpPort": self._udp.getsockname()[1], "clientIP": self._own_ip, "app": APP}

        def ask(calls: LinkCalls, name: ServiceName) -> dict[str, Any]:
            query = {"namespaceId": name[0], "serviceName": name[1], "healthyOnly": "false", "clusters": ""}
            return calls.json("GET", LIST_PATH, query | place)

        return self._each(ask, names)

    def leave(self, name: ServiceName) -> None:
        self._polls.pop(name, None)
        self._spaces.discard(name)

    def take(self, timeout_s: float) -> list[Pushed]:
        """Return the services that are to be asked for: a datagram, which anyone could send, is only a hint."""
        self._beat_some()
        ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        found = list[Pushed]()
        if self._woken in ready:
            with suppress(OSError):
                self._woken.recv(4_096)
        if self._udp in ready:
            for _ in range(DATAGRAMS_MAX):
                try:
                    data, sender = self._udp.recvfrom(DATAGRAM_BYTES_MAX)
                except OSError:
                    break
                found += self._hint(data, sender)
        return found + self._due_polls()

    def _hint(self, data: bytes, sender: Any) -> list[Pushed]:
        try:
            values = orjson.loads(gunzip_if_gzip(data, PUSH_BYTES_MAX))
            pushed = orjson.loads(values["data"])
            full_name, stated = pushed["name"], values["lastRefTime"]
        except (CodecError, ValueError, TypeError, KeyError):
            return []
        acknowledged = {"type": "push-ack", "lastRefTime": str(stated), "data": ""}
        with suppress(OSError):
            self._udp.sendto(orjson.dumps(acknowledged), sender)
        spaces = self._spaces.of(full_name) if isinstance(full_name, str) else ()
        self._is_pushed = self._is_pushed or bool(spaces)
        return [Pushed((one, str(full_name)), None, len(data)) for one in spaces]

    def _due_polls(self) -> list[Pushed]:
        interval_s = max(PUSHED_POLL_S if self._is_pushed else POLL_S, len(self._polls) / POLLS_PER_S)
        now_s, due = time.monotonic(), list[Pushed]()
        for name, asked_s in self._polls.items():
            if now_s - asked_s < interval_s or len(due) >= STEP_CALLS:
                break
            due.append(Pushed(name, None, 0))
        return due

    # --- registrations ----------------------------------------------------------------------------

    def register(self, changes: Sequence[Registration]) -> list[LinkRefused | None]:
        steps = [step for one in changes for step in self._steps(one)]
        refused = dict[ServiceName, LinkRefused]()
        for step, answer in zip(steps, self._each(_take_step, steps), strict=True):
            if isinstance(answer, LinkRefused):
                refused[step.name] = answer
            elif step.row is not None:
                self._rows.setdefault(step.name, {})[step.address] = step.row
                self._beat_later(step.name, step.address, BEAT_S if step.row["healthy"] else AGAIN_S)
        return [refused.get(one.name) for one in changes]

    def _steps(self, change: Registration) -> list[InstanceStep]:
        """Return the calls that a change takes. What is removed beats no more: a beat would register it again."""
        name, held, steps = change.name, self._rows.get(change.name, {}), list[InstanceStep]()
        for address in held.keys() - change.rows.keys():
            row = held.pop(address)
            self._beats.pop((name, address), None)
            if not change.is_handed_over and address not in change.taken:
                steps.append(InstanceStep(name, address, row, None))
        for address, row in change.rows.items():
            if (before := held.get(address)) != row:
                steps.append(InstanceStep(name, address, before, row))
        if not held:
            self._rows.pop(name, None)
        return steps

    def _beat_later(self, name: ServiceName, address: Address, after_s: float) -> None:
        self._beats.pop((name, address), None)
        self._beats[name, address] = time.monotonic() + after_s

    def _beat_some(self) -> None:
        now_s, due = time.monotonic(), list[InstanceStep]()
        for (name, address), due_s in self._beats.items():
            if len(due) >= STEP_CALLS:
                break
            if due_s <= now_s:
                due.append(InstanceStep(name, address, None, self._rows[name][address]))
        lost = [step for step, answer in zip(due, self._each(_beat, due), strict=True) if answer is not True]
        for one in due:
            self._beat_later(one.name, one.address, BEAT_S if one.row is not None and one.row["healthy"] else AGAIN_S)
        self._each(_take_step, lost)


def _beat(calls: LinkCalls, step: InstanceStep) -> bool:
    """Beat for an instance. Return False if it is to be registered again.

    A beat without a description never registers what was removed in the meantime.
    """
    if step.row is None or not step.row["healthy"]:
        return False
    ip, port, cluster = step.address
    fields = {"namespaceId": step.name[0], "serviceName": step.name[1], "ip": ip, "port": port, "clusterName": cluster}
    return calls.json("PUT", BEAT_PATH, fields).get("code") != NOT_FOUND


def _take_step(calls: LinkCalls, step: InstanceStep) -> None:
    before, row = step.before, step.row
    # A registration leaves the health of an instance that is there as it is.
    if before is not None and (row is None or (before["healthy"] and not row["healthy"])):
        calls.text("DELETE", INSTANCE_PATH, _registration(step.name, before))
    if row is not None:
        calls.text("POST", INSTANCE_PATH, _registration(step.name, row))


def _registration(name: ServiceName, row: Mapping[str, Any]) -> dict[str, object]:
    flags = {field: "true" if row[field] else "false" for field in ("healthy", "enabled", "ephemeral")}
    return {
        "namespaceId": name[0],
        "serviceName": name[1],
        "groupName": group_of(name[1]),
        "ip": row["ip"],
        "port": row["port"],
        "clusterName": row["clusterName"],
        "weight": row["weight"],
        "metadata": orjson.dumps(row["metadata"]).decode(),
        **flags,
    }


def _family(server: str) -> socket.AddressFamily:
    return socket.AF_INET6 if server.startswith("[") else socket.AF_INET
