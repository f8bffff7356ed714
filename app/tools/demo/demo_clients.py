"""The clients of the demonstration: services that register over HTTP and over gRPC, callers, and a subscriber."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException
from itertools import count
from typing import Any

from app.config.link_fields import PREFIX
from app.config.link_settings import LinkSettings, LinkSource
from app.languages.command_texts import gettext
from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_connection import NacosConnection
from app.links.nacos_grpc import service_fields
from app.links.nacos_http import NOT_FOUND
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, GROUP_SPLITTER
from app.tools.demo.demo_members import DemoMember
from app.tools.embedded.errors_of_use import CallRefused
from app.tools.embedded.naming_calls import NamingCalls

CONTEXT_PATH = "/nacos"
INSTANCE, INSTANCES, BEAT = "/v1/ns/instance", "/v1/ns/instance/list", "/v1/ns/instance/beat"
PORT = 8080
TIMEOUT_S = 1.0
BEAT_S, CALL_S, CHECK_S, POLL_S = 5.0, 0.1, 2.0, 0.2
"""The times between beats of an instance, calls of the caller, health checks of a connection, looks at its messages."""
RECONNECT_S = 0.2
OVER_HTTP = {"orders": 6, "billing": 4, "search": 8, "images": 3}
OVER_GRPC = {"payments": 3, "mail": 2}
"""The instances of each service."""
ZONES = ("hangzhou", "berlin", "oregon")
UNANSWERED = (OSError, HTTPException, CallRefused)
"""The errors of a call that a member did not answer, or refused."""


class MemberCaller:
    """Calls members over HTTP, as SDKs do: when one does not answer, the next is asked."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)

    def call(self, method: str, path: str, values: Mapping[str, object]) -> Any:
        """Return the JSON of an answer, or its text.

        Raises:
            OSError: no member answers.
        """
        failure: Exception = OSError(gettext("no member"))
        for _ in range(len(self._addresses)):
            try:
                return called(self._addresses[0], method, path, values)
            except UNANSWERED as error:
                failure = error
                self._addresses.append(self._addresses.pop(0))
        raise OSError(gettext("no member answers: %(error)s", error=failure))


def called(address: str, method: str, path: str, values: Mapping[str, object] | None = None) -> Any:
    """Return the JSON of a member's answer, or its text.

    Raises:
        OSError, HTTPException: it does not answer within ``TIMEOUT_S``.
        CallRefused: its answer is an error.
    """
    body = NamingCalls(lambda: (address, CONTEXT_PATH), TIMEOUT_S).call(method, path, **(values or {}))
    try:
        return json.loads(body)
    except ValueError:
        return body


class HttpInstance:
    """An instance that registers over HTTP and beats every five seconds."""

    def __init__(self, service: str, ip: str, zone: str) -> None:
        self.service, self.ip = service, ip
        self._values = {"serviceName": service, "ip": ip, "port": PORT, "metadata": json.dumps({"zone": zone})}
        self.is_silent = False
        self.due_s = 0.0

    def register(self, caller: MemberCaller) -> None:
        caller.call("POST", INSTANCE, self._values)

    def beat(self, caller: MemberCaller) -> None:
        """Send a light beat; register again if no member knows the instance, as SDKs do."""
        answer = caller.call("PUT", BEAT, {name: one for name, one in self._values.items() if name != "metadata"})
        if isinstance(answer, dict) and answer.get("code") == NOT_FOUND:
            self.register(caller)


class GrpcClient:
    """A client over gRPC with one instance: its connection keeps it alive. Another member takes a lost connection."""

    def __init__(self, service: str, ip: str, zone: str, members: Sequence[DemoMember], first: int) -> None:
        self.service, self.ip = service, ip
        instance = {
            "ip": ip,
            "port": PORT,
            "weight": 1.0,
            "healthy": True,
            "enabled": True,
            "ephemeral": True,
            "clusterName": "DEFAULT",
            "metadata": {"zone": zone},
        }
        named = service_fields((DEFAULT_NAMESPACE, f"{DEFAULT_GROUP}{GROUP_SPLITTER}{service}"))
        self._registration = named | {"type": "registerInstance", "instance": instance}
        self._members, self._first = members, first
        self._connection: NacosConnection | None = None
        self._check_s = 0.0
        self.is_over = False

    def connect(self) -> bool:
        """Connect to a member that serves, and register. Return whether one took it."""
        for step in range(len(self._members)):
            member = self._members[(self._first + step) % len(self._members)]
            if not member.serves:
                continue
            connection = NacosConnection(_settings(member.address), member.address)
            try:
                connection.open()
                connection.call("InstanceRequest", self._registration)
            except (LinkError, LinkRefused):
                connection.cut()
                continue
            self._connection = connection
            return True
        return False

    def look_after(self, now_s: float) -> None:
        """Check the connection when it is time to, and replace it by another one if it is lost."""
        if self.is_over or now_s < self._check_s:
            return
        self._check_s = now_s + CHECK_S
        try:
            if self._connection is not None:
                self._connection.check()
                self._connection.inbox.take(0.0)
                return
        except (LinkError, LinkRefused):
            self.cut()
        if not self.connect():
            self._check_s = now_s + RECONNECT_S

    def cut(self) -> None:
        """End the connection without a word, as a crash does."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.cut()


def _settings(address: str) -> LinkSettings:
    """Return the settings with which a link would connect to this member."""
    return LinkSource((({f"{PREFIX}demo.servers": address}, "demo"),)).read()[0]


class CallCounts:
    """The figures of the calls that ask for lists."""

    def __init__(self) -> None:
        self.done = self.failed = self.empty = 0


class DemoClients:
    """All clients, on a few threads, until ``stop``."""

    def __init__(self, members: Sequence[DemoMember]) -> None:
        self._members = members
        self._caller = MemberCaller([one.address for one in members])
        numbers = count(1)
        self.http = [HttpInstance(service, *_place(next(numbers))) for service in _each(OVER_HTTP)]
        self.grpc = [
            GrpcClient(service, *_place(number := next(numbers)), members, number) for service in _each(OVER_GRPC)
        ]
        self.calls = CallCounts()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def services(self) -> list[str]:
        return [*OVER_HTTP, *OVER_GRPC]

    def start(self) -> None:
        """Register all instances, and keep them alive from now on.

        Raises:
            OSError: no member takes them.
        """
        for one in self.http:
            one.register(self._caller)
            one.due_s = time.monotonic() + BEAT_S * random.random()
        for client in self.grpc:
            if not client.connect():
                raise OSError(gettext("no member takes a client over gRPC"))
        for run in (self._beat, self._look_after, self._ask):
            thread = threading.Thread(target=run, name=f"demo{run.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End all clients."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        for client in self.grpc:
            client.cut()

    def _beat(self) -> None:
        caller = MemberCaller([one.address for one in self._members])
        while not self._over.wait(POLL_S):
            for one in self.http:
                if not one.is_silent and time.monotonic() >= one.due_s:
                    one.due_s = time.monotonic() + BEAT_S
                    _tried(lambda one=one: one.beat(caller))  # type: ignore[misc] # the default binds this instance

    def _look_after(self) -> None:
        while not self._over.wait(POLL_S):
            for client in self.grpc:
                client.look_after(time.monotonic())

    def _ask(self) -> None:
        caller = MemberCaller([one.address for one in self._members])
        while not self._over.wait(CALL_S):
            self.calls.done += 1
            listed = _tried(lambda: caller.call("GET", INSTANCES, {"serviceName": random.choice(self.services)}))
            self.calls.failed += listed is None
            self.calls.empty += listed is not None and not listed["hosts"]


def _tried(call: Callable[[], Any]) -> Any:
    """Return the answer; None if no member answers."""
    try:
        return call()
    except OSError:
        return None


def _each(services: Mapping[str, int]) -> Iterator[str]:
    for service, instances in services.items():
        yield from [service] * instances


def _place(number: int) -> tuple[str, str]:
    """Return the address and the zone of an instance. The addresses are of a range for examples: nothing is called."""
    return f"192.0.2.{number}", ZONES[number % len(ZONES)]
