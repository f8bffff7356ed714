"""The members of a soak: with or without TLS and users, restarted one by one, killed, and sampled all the time."""

import contextlib
import http.client
import secrets
import signal
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.soak.slopes import Sample, look
from scripts.support.member_processes import MemberProcess, start_all
from scripts.support.secured_members import setup_secret_of

SAMPLE_S = 10.0
STOOD_STILL = b"this process was paused"
REST_S = 20.0
"""Seconds between two members of the rolling restart, and from a kill to the start."""


class SoakedMember(MemberProcess):
    """A member, which may require TLS."""

    ca = ""

    def is_ready(self) -> bool:
        try:
            return self.call("GET", "/nacos/v1/console/health/readiness")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def call(self, method: str, path: str, **parameters: str) -> tuple[int, bytes]:
        """Make one call; parameters are sent as a form. Raises OSError or HTTPException without an answer."""
        host, _, port = self.address.rpartition(":")
        connection: http.client.HTTPConnection
        if self.ca:
            context = ssl.create_default_context(cafile=self.ca)
            connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=context)
        else:
            connection = http.client.HTTPConnection(host, int(port), timeout=10)
        with contextlib.closing(connection):
            form = {"Content-Type": "application/x-www-form-urlencoded"} if parameters else {}
            connection.request(method, path, urllib.parse.urlencode(parameters) or None, form)
            answer = connection.getresponse()
            return answer.status, answer.read()


class SoakedCluster:
    """Three members, their events and their samples."""

    def __init__(self, ports: Sequence[int], folder: Path, settings: Mapping[str, str], command: Path, ca: str) -> None:
        listed = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.members = [SoakedMember(port, folder, listed, settings, command) for port in ports]
        for member in self.members:
            member.ca = ca
        self.samples: list[Sample] = []
        self.events: list[tuple[float, str]] = []
        self.on_event: Callable[[], None] = lambda: None
        self._runs = dict.fromkeys(self.members, 0)
        self._read = dict.fromkeys(self.members, 0)
        """The number of bytes read from each log."""
        self._begun_s = time.monotonic()
        self._end = threading.Event()

    def start(self) -> None:
        start_all(self.members)

    def begin(self) -> None:
        """Count time from now on."""
        self._begun_s = time.monotonic()

    def make_first_user(self) -> str:
        """Create the administrator and return the password; other members get the user by replication.

        Raises:
            RuntimeError: the member refuses.
        """
        password = secrets.token_urlsafe(18)
        form = {"username": "nacos", "password": password, "secret": setup_secret_of(self.members[0].data)}
        said = self.members[0].call("POST", "/nacos/v1/auth/users/admin", **form)
        if said[0] != 200:
            raise RuntimeError(f"no first administrator: {said}")
        return password

    def at_s(self) -> float:
        return time.monotonic() - self._begun_s

    def note(self, event: str) -> None:
        self.on_event()
        self.events.append((round(self.at_s(), 1), event))
        print(f"{self.at_s():7.1f} s  {event}", flush=True)

    def sample(self) -> None:
        """Sample the worker of each running member."""
        for member in self.members:
            with contextlib.suppress(OSError, AssertionError, IndexError):
                worker = member.pids()[1]
                if (seen := look(self.at_s(), member.address, self._runs[member], worker)) is not None:
                    self.samples.append(seen)
                if self._stood_still(member):
                    self.note(f"{member.address} stood still, and others may have taken over from it")

    def _stood_still(self, member: SoakedMember) -> bool:
        """Return whether the member's log has reported a pause since the last call."""
        with member.log.open("rb") as log:
            log.seek(self._read[member])
            said = log.read()
        self._read[member] += said.rfind(b"\n") + 1
        return STOOD_STILL in said[: said.rfind(b"\n") + 1]

    def wait_until(self, at_s: float) -> None:
        """Take samples until then."""
        while (left_s := at_s - self.at_s()) > 0:
            self.sample()
            self._end.wait(min(left_s, SAMPLE_S))

    def restart_all(self) -> None:
        """A rolling restart."""
        for member in self.members:
            self.note(f"{member.address} restarts")
            member.stop()
            self._start(member)
            self.wait_until(self.at_s() + REST_S)

    def kill(self, number: int) -> None:
        """Kill a member, which loses its data, and start it again later."""
        member = self.members[number]
        self.note(f"{member.address} is killed")
        member.signal(signal.SIGKILL, member.pids())
        member.kill_all()
        self.wait_until(self.at_s() + REST_S)
        self._start(member)

    def _start(self, member: SoakedMember) -> None:
        self._runs[member] += 1
        member.start()
        member.wait_ready()
        self.note(f"{member.address} is back")

    def end(self) -> None:
        for member in self.members:
            member.kill_all()
