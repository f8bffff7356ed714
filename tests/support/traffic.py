"""The use of a cluster while a test hurts it: instances that beat as SDKs do, and readers that notice every gap."""

import http.client
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from tests.support.client import CODE_OK, Answer, Client
from tests.support.processes import Member

BEAT_TIMEOUT_S = 2.0
"""SDKs wait for 3 s with instances that may be silent for 30 s; those of tests may be for 8 s and more."""
WATCH_PERIOD_S = 0.05
END_TIMEOUT_S = 60.0

Instances = Mapping[str, Sequence[str]]
"""Service name to the addresses (``ip:port``) of its instances."""


class _Background:
    """Work on threads of its own from the start of a ``with`` block to its end; what failed there fails the test."""

    def __init__(self, threads_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads_max)
        self._running: list[Future[None]] = []
        self.stopped = threading.Event()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._pool.shutdown(wait=True)
        for future in self._running:
            future.result(END_TIMEOUT_S)


class Beats(_Background):
    """Registers instances, and beats each in turn through all members: an error or a refusal sends it to the next."""

    def __init__(self, members: Sequence[Member], instances: Instances, period_s: float, metadata: str = "{}") -> None:
        self._all = [(service, address) for service, addresses in instances.items() for address in addresses]
        super().__init__(len(self._all))
        self._members = members
        self._period_s = period_s
        self._metadata = metadata
        self._registered = threading.Barrier(len(self._all) + 1)
        self.reregistered = 0

    def __enter__(self) -> "Beats":
        for number, (service, address) in enumerate(self._all):
            self._running.append(self._pool.submit(self._live, service, address, number))
        self._registered.wait(END_TIMEOUT_S)
        return self

    def _live(self, service: str, address: str, number: int) -> None:
        turns = itertools.cycle([*self._members[number % len(self._members) :], *self._members])
        clients = {member: Client(member.address, timeout_s=BEAT_TIMEOUT_S) for member in self._members}
        try:
            registered = self._send(clients, turns, "POST", "/v1/ns/instance", service, address)
        finally:
            self._registered.wait(END_TIMEOUT_S)
        assert registered is not None, f"no member registers {address}"
        while not self.stopped.wait(self._period_s):
            answer = self._send(clients, turns, "PUT", "/v1/ns/instance/beat", service, address)
            if answer is not None and answer.json()["code"] != CODE_OK:
                self.reregistered += 1
                self._send(clients, turns, "POST", "/v1/ns/instance", service, address)

    def _send(
        self,
        clients: Mapping[Member, Client],
        turns: Iterable[Member],
        method: str,
        path: str,
        service: str,
        address: str,
    ) -> Answer | None:
        ip, _, port = address.partition(":")
        for _, member in zip(self._members, turns, strict=False):
            try:
                answer = clients[member].call(
                    method, path, serviceName=service, ip=ip, port=port, metadata=self._metadata
                )
            except (OSError, http.client.HTTPException):
                continue
            if answer.status == 200:
                return answer
            assert answer.status in (500, 502, 503), f"{method} {path}: {answer}"
        return None


@dataclass(frozen=True, slots=True)
class Gap:
    """An answer of a member that lacked instances."""

    member: str
    service: str
    missing: frozenset[str]


class Watch(_Background):
    """Reads the lists of some members all the time, and keeps what was missing in them.

    A member that does not answer, or answers 503, misses nothing: clients then ask another one.
    """

    def __init__(self, members: Sequence[Member], expected: Instances) -> None:
        super().__init__(len(members))
        self._members = members
        self._expected = {service: frozenset(addresses) for service, addresses in expected.items()}
        self.gaps: list[Gap] = []
        self.reads = 0

    def __enter__(self) -> "Watch":
        self._running = [self._pool.submit(self._read, member) for member in self._members]
        return self

    def _read(self, member: Member) -> None:
        client = Client(member.address)
        while not self.stopped.wait(WATCH_PERIOD_S):
            for service, expected in self._expected.items():
                try:
                    answer = client.call("GET", "/v1/ns/instance/list", serviceName=service)
                except (OSError, http.client.HTTPException):
                    continue
                if answer.status != 200:
                    assert answer.status == 503, f"list of {service}: {answer}"
                    continue
                self.reads += 1
                listed = {f"{host['ip']}:{host['port']}" for host in answer.json()["hosts"]}
                if missing := expected - listed:
                    self.gaps.append(Gap(member.address, service, missing))

    def assert_no_gap(self) -> None:
        assert self.reads, "nothing was read"
        assert not self.gaps, f"{len(self.gaps)} of {self.reads} lists lacked instances, first {self.gaps[0]}"
