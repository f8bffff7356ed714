"""A Nacos 1.x as a link sees it: lists over HTTP, with hints over UDP when one changed, and registrations that beat."""

import selectors
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

import orjson

from app.config.link_settings import LinkSettings
from app.links.link_calls import LinkCalls, LinkError
from app.links.nacos_catalog import NacosCatalog
from app.links.nacos_side import Pushed
from app.links.nacos_values import Address, ServiceName
from app.naming.model.keys import GROUP_SPLITTER
from distro.model.errors import CodecError
from distro.wire.codec import gunzip_if_gzip

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
STEP_CALLS = 50
"""Beats between two looks at what comes."""
PAGE, PAGES_MAX = 1_000, 1_000
DATAGRAM_BYTES_MAX, PUSH_BYTES_MAX = 65_536, 1_048_576
DATAGRAMS_MAX = 200
NOT_FOUND = 20_404
WITHDRAW_S = 10.0
"""The time for removing what was registered, when a link ends."""


class HttpNacos:
    """The NacosSide over HTTP."""

    carries_twice = False  # what is registered outlives its member by 15 s

    def __init__(self, settings: LinkSettings, server: str) -> None:
        self.server, self.id = server, ""
        self._settings = settings
        self._catalog = NacosCatalog(settings, server)
        self._calls = LinkCalls(settings, server, agent=AGENT)
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
        self._spaces: dict[str, set[str]] = {}
        self._rows: dict[ServiceName, dict[Address, Mapping[str, Any]]] = {}
        self._beats: OrderedDict[tuple[ServiceName, Address], float] = OrderedDict()
        """When each registered instance is to beat, the first first."""

    def open(self) -> None:
        """Log in, and open the port for pushes.

        Raises:
            LinkError: the server does not answer, or refuses the user.
        """
        self._calls.token = self._catalog.log_in()
        self._calls.text("GET", "/v1/ns/operator/metrics", {})
        self._own_ip = self._calls.own_ip
        self._udp.bind((self._own_ip, 0))
        self.id = f"{self.server}~{time.time_ns()}"

    @property
    def wake(self) -> Callable[[], None]:
        return self._wake

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake already, or ends
            self._waker.send(b"x")

    def check(self) -> None:
        self._calls.text("GET", "/v1/ns/operator/metrics", {})
        self._beat_some()

    def cut(self) -> None:
        self._calls.cut()

    def close(self, *, withdraws: bool) -> None:
        """End the connection; if the link ends, remove what was registered, as long as the server answers."""
        self._selector.close()
        for one in (self._udp, self._woken, self._waker):
            one.close()
        self._calls.close()
        if withdraws and self._rows:
            end_s = time.monotonic() + WITHDRAW_S
            with suppress(LinkError), LinkCalls(self._settings, self.server, self._calls.token, AGENT) as calls:
                for name, rows in self._rows.items():
                    for row in rows.values():
                        if time.monotonic() < end_s:
                            calls.text("DELETE", INSTANCE_PATH, _registration(name, row))
        self._rows.clear()

    # --- services ---------------------------------------------------------------------------------

    def namespaces(self) -> list[str]:
        return self._catalog.namespaces()

    def names(self, namespace: str, groups: Collection[str]) -> set[str] | None:
        names = self._catalog.names(namespace)
        return names if names is not None else {one for group in groups for one in self._names_of(namespace, group)}

    def _names_of(self, namespace: str, group: str) -> set[str]:
        found = set[str]()
        for page in range(1, PAGES_MAX + 1):
            query = {"namespaceId": namespace, "groupName": group, "pageNo": page, "pageSize": PAGE}
            names = self._calls.json("GET", NAMES_PATH, query).get("doms")
            if not isinstance(names, list):
                raise LinkError(f"{self.server} answers {NAMES_PATH} without a list of services")
            found |= {one if GROUP_SPLITTER in one else f"{group}{GROUP_SPLITTER}{one}" for one in map(str, names)}
            if len(names) < PAGE:
                break
        return found

    def watch(self, name: ServiceName) -> dict[str, Any]:
        self._spaces.setdefault(name[1], set()).add(name[0])
        self._polls.pop(name, None)
        self._polls[name] = time.monotonic()
        query = {"namespaceId": name[0], "serviceName": name[1], "healthyOnly": "false", "clusters": ""}
        place = {"udpPort": self._udp.getsockname()[1], "clientIP": self._own_ip}
        return self._calls.json("GET", LIST_PATH, query | place)

    def leave(self, name: ServiceName) -> None:
        self._polls.pop(name, None)
        if spaces := self._spaces.get(name[1]):
            spaces.discard(name[0])
            if not spaces:
                del self._spaces[name[1]]

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
        spaces = self._spaces.get(full_name, ()) if isinstance(full_name, str) else ()
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

    def register(self, name: ServiceName, rows: Mapping[Address, Mapping[str, Any]], taken: frozenset[Address]) -> None:
        held = self._rows.setdefault(name, {})
        for address in held.keys() - rows.keys():
            row = held.pop(address)
            self._beats.pop((name, address), None)  # first, or a beat would register it again
            if address not in taken:
                self._calls.text("DELETE", INSTANCE_PATH, _registration(name, row))
        for address, row in rows.items():
            before = held.get(address)
            if before == row:
                continue
            if before is not None and before["healthy"] and not row["healthy"]:
                # A registration leaves the health of an instance that is there as it is.
                self._calls.text("DELETE", INSTANCE_PATH, _registration(name, before))
            self._register(name, address, row)
        if not held:
            del self._rows[name]

    def hand_over(self, name: ServiceName) -> None:
        """Beat no more: the members that carry the service now do."""
        for address in self._rows.pop(name, {}):
            self._beats.pop((name, address), None)

    def _register(self, name: ServiceName, address: Address, row: Mapping[str, Any]) -> None:
        self._calls.text("POST", INSTANCE_PATH, _registration(name, row))
        self._rows[name][address] = row
        self._beat_later(name, address, BEAT_S if row["healthy"] else AGAIN_S)

    def _beat_later(self, name: ServiceName, address: Address, after_s: float) -> None:
        self._beats.pop((name, address), None)
        self._beats[name, address] = time.monotonic() + after_s

    def _beat_some(self) -> None:
        now_s, due = time.monotonic(), list[tuple[ServiceName, Address]]()
        for key, due_s in self._beats.items():
            if len(due) >= STEP_CALLS:
                break
            if due_s <= now_s:
                due.append(key)
        for name, address in due:
            row = self._rows[name][address]
            if not row["healthy"]:
                self._register(name, address, row)
                continue
            # A beat without a description never registers what was removed meanwhile.
            fields = {"namespaceId": name[0], "serviceName": name[1], "ip": address[0], "port": address[1]}
            answer = self._calls.json("PUT", BEAT_PATH, fields | {"clusterName": address[2]})
            self._beat_later(name, address, BEAT_S)
            if answer.get("code") == NOT_FOUND:
                self._register(name, address, row)


def _registration(name: ServiceName, row: Mapping[str, Any]) -> dict[str, object]:
    flags = {field: "true" if row[field] else "false" for field in ("healthy", "enabled", "ephemeral")}
    return {
        "namespaceId": name[0],
        "serviceName": name[1],
        "groupName": name[1].partition(GROUP_SPLITTER)[0],
        "ip": row["ip"],
        "port": row["port"],
        "clusterName": row["clusterName"],
        "weight": row["weight"],
        "metadata": orjson.dumps(row["metadata"]).decode(),
        **flags,
    }


def _family(server: str) -> socket.AddressFamily:
    return socket.AF_INET6 if server.startswith("[") else socket.AF_INET
