"""Nodes as real processes: ``rollcall serve``, one a member, hurt and ended by pid, with logs in files."""

import contextlib
import fcntl
import functools
import itertools
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar

import psutil

from distro.members.mapper import DistroMapper
from tests.support.client import Client
from tests.support.forked import ForkedProcess, ForkServer

T = TypeVar("T")
COMMAND = Path(sys.executable).with_name("rollcall")
HANG_S = 60.0
"""For everything that must come: a bound for what hangs. How fast it comes is a benchmark's matter."""
DIRECT_S = 20.0
"""For what must come by itself, and not by the check of silent connections, which takes longer than 20 s."""
POLL_S, POLL_S_MAX = 0.02, 0.1
"""Between two looks at what must come; more the longer it takes, as a look costs those who are waited for, too."""
POLL_SHARE = 0.1
"""Of what was waited already: so much longer at most is a wait for looking seldom."""
FIRST_PORT, LAST_PORT = 21_000, 31_000
"""Below the ports of outgoing connections, one of which could else take a member's port while that one is down."""
PORT_OFFSETS = (-1_000, 0, 5, 1_000, 1_001)
"""From a member's port to all those it listens on; the first is that of a real Nacos' Raft."""
TRIES_MAX = 5_000
"""Random places that are tried before the ports that were given first may be given again."""
FAST = {
    "rollcall.distro.report.intervalMs": "300",
    "rollcall.distro.report.timeoutMs": "2000",
    "rollcall.distro.refusedDownMs": "700",
    "rollcall.distro.silentDownMs": "4000",
    "rollcall.distro.steadyMs": "1000",
    "nacos.core.protocol.distro.data.verify.intervalMs": "1000",
}
"""Settings of a cluster that notices within seconds what takes a default one ten; none is DOWN for short of a CPU."""

VERIFY_WITHOUT_SAMPLES = {
    "nacos.core.protocol.distro.data.verify.intervalMs": "1000",
    "rollcall.distro.sampleMs": "86400000",
}
"""Verify rounds that hardly ever compare contents: what is damaged in equal versions stays so."""
NO_VERIFY = {"nacos.core.protocol.distro.data.verify.intervalMs": "3600000"}
"""Without verify rounds, each 5 s by default, which would bring what a member failed to send."""


def eventually(check: Callable[[], T], timeout_s: float = HANG_S) -> T:
    """Return the first true result of ``check``; an assertion, a missing key or a broken connection in it is "not yet".

    Raises:
        AssertionError: it was not true within ``timeout_s``; names the last result or failure.
    """
    begun_s = time.monotonic()
    while True:
        failure: Exception | None = None
        try:
            if result := check():
                return result
            seen = f"last result {result!r}"
        except (AssertionError, LookupError, OSError, HTTPException, psutil.Error) as error:
            failure, seen = error, f"{type(error).__name__}: {error}"
        waited_s = time.monotonic() - begun_s
        if waited_s >= timeout_s:
            raise AssertionError(f"not within {timeout_s} s: {seen}") from failure
        time.sleep(min(max(POLL_S, POLL_SHARE * waited_s), POLL_S_MAX))


@contextlib.contextmanager
def heeding_hangup() -> Iterator[None]:
    """What is started meanwhile heeds SIGHUP, also when these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


class Ports:
    """The ports that this process was given: no other run of the tests on this machine is given one of them.

    They are locked as bytes of a file, which the kernel unlocks when the process ends. Such a lock keeps out
    other processes alone, so the ports that this one was given are remembered beside it, for as long as it runs: a
    member that was stopped may start again at any time, and listens on none until then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._given: dict[int, None] = {}
        self._taking = threading.Lock()

    def take(self, ports: Sequence[int]) -> bool:
        """Return whether all these are ours now; nobody listens on any, nor was given one before."""
        with self._taking:
            if not self._given.keys().isdisjoint(ports):
                return False
            if self._file is None:
                # Never closed: that would unlock all of them.
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            taken = list(itertools.takewhile(self._lock, ports))
            if len(taken) == len(ports) and all(map(_is_free, ports)):
                self._given |= dict.fromkeys(ports)
                return True
            for port in taken:
                self._unlock(port)
            return False

    def forget_oldest(self) -> None:
        """Give back the half that was given first: most of their members have ended, in a run that needs so many."""
        with self._taking:
            for port in list(itertools.islice(self._given, len(self._given) // 2)):
                del self._given[port]
                self._unlock(port)

    def _unlock(self, port: int) -> None:
        assert self._file is not None
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, port)

    def _lock(self, port: int) -> bool:
        assert self._file is not None
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        return True


_PORTS = Ports(Path(tempfile.gettempdir()) / f"rollcall-test-ports-{os.getuid()}")


def free_ports(count: int) -> list[int]:
    """Return ports for members: nobody listens on them, nor on those of gRPC that go with them, nor shares any.

    None is one that an outgoing connection is given by chance, or that another run of the tests is given.
    """
    return [port for _ in range(count) for port in ports_apart(1, 0)]


def ports_apart(count: int, distance: int) -> list[int]:
    """Return ports as of ``free_ports``, each ``distance`` above the one before."""
    while True:
        for _ in range(TRIES_MAX):
            first = random.randrange(FIRST_PORT, LAST_PORT)
            ports = [first + distance * number for number in range(count)]
            if _PORTS.take([port + offset for port in ports for offset in PORT_OFFSETS]):
                return ports
        _PORTS.forget_oldest()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def clean_environ() -> dict[str, str]:
    """This process's environment without proxies and without settings of nodes."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("NACOS", "ROLLCALL", "SERVER")) and "PROXY" not in name.upper()
    }


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended, though nobody may have asked for its exit code yet."""
    try:
        # While other threads of a killed process still end, it holds its ports.
        return not process.is_running() or (process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)
    except psutil.NoSuchProcess:
        return True


def _client_tls(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """The context of a member's client, which trusts what members trust; None where the settings have no HTTPS."""
    if settings.get("rollcall.http.tls.enabled") != "true":
        return None
    return ssl.create_default_context(cafile=settings["rollcall.http.tls.trustCollectionChainPath"])


@functools.cache
def _fork_server(pid: int) -> ForkServer:
    """The server of the process ``pid``, this one."""
    return ForkServer(_without_test(clean_environ()))


def _without_test(environ: Mapping[str, str]) -> dict[str, str]:
    """These variables but that in which pytest names the test that runs."""
    return {name: value for name, value in environ.items() if name != "PYTEST_CURRENT_TEST"}


class Member:
    """One member. ``start`` and ``end`` may be called any number of times."""

    forks = True
    """Whether its process may be forked from one that has loaded a node's modules; else it is a new program."""

    def __init__(self, port: int, folder: Path, settings: Mapping[str, str]) -> None:
        self.address = f"127.0.0.1:{port}"
        self.client = Client(self.address, tls=_client_tls(settings))
        self.folder = folder
        self.log = folder / "log"
        self.conf = folder / "conf"
        self.data = folder / "data"
        self.settings = dict(settings)
        self.prefix: Sequence[str | Path] = ()
        """The words before the command: another command, that becomes the member's in the end (exec)."""
        self._port = port
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.conf.mkdir(parents=True)

    def __repr__(self) -> str:
        return f"Member({self.address})"

    # --- life ------------------------------------------------------------------------------------

    def change(self, settings: Mapping[str, str]) -> None:
        """Have the member use these settings, too, from its next start on; its client calls as they say."""
        self.settings |= settings
        self.client = Client(self.address, tls=_client_tls(self.settings))

    def start(self) -> None:
        """Start the processes; see ``wait_ready``."""
        assert self._process is None, f"{self} runs already"
        places = ["--port", str(self._port), "--data", str(self.data), "--conf", str(self.conf)]
        command = [str(COMMAND), "serve", *places]
        environ = clean_environ()
        # A variable that is no setting may be one that Python or the C library reads when a program begins.
        if self.forks and not self.prefix and all("." in name for name in self.settings):
            server = _fork_server(os.getpid())
            if server.environ == _without_test(environ):
                self._process = server.fork(command, environ | self.settings, self.folder, self.log)
                return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix, *command],
                env={**environ, **self.settings},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def wait_ready(self, timeout_s: float = HANG_S) -> None:
        """Return once the member serves."""

        def is_ready() -> bool:
            code = None if self._process is None else self._process.poll()
            if code is not None:
                raise RuntimeError(f"{self} ended with exit code {code}: {self.log_text()}")
            return self.client.call("GET", "/v1/console/health/readiness").status == 200

        eventually(is_ready, timeout_s)

    def restart(self) -> None:
        """Start again after an end of whatever kind, and wait until it serves."""
        self.start()
        self.wait_ready()

    def stop(self) -> float:
        """End in order, and return how long that took; the exit code must be 0."""
        process = self._running()
        begun_s = time.monotonic()
        process.terminate()
        code = process.wait(HANG_S)
        self._process = None
        assert code == 0, f"{self} ended with exit code {code}: {self.log_text()}"
        return time.monotonic() - begun_s

    def wait_exit(self, timeout_s: float = HANG_S) -> int:
        """Return the exit code of a member that ends by itself."""
        code = self._running().wait(timeout_s)
        self._process = None
        return code

    def end(self) -> None:
        """End whatever is left, by force and by pid. For the end of a test."""
        if self._process is not None:
            self.kill_all()

    # --- harm ------------------------------------------------------------------------------------

    @property
    def master(self) -> psutil.Process:
        return psutil.Process(self._running().pid)

    @property
    def worker(self) -> psutil.Process:
        """The process that serves; there must be exactly one."""
        children = self.master.children()
        assert len(children) == 1, f"{self} has the workers {children}"
        return children[0]

    def kill_worker(self) -> None:
        """Kill the worker with all that it holds in memory, and return when it is gone; the master starts another."""
        worker = self.worker
        worker.kill()
        eventually(lambda: is_gone(worker))

    def kill_all(self) -> None:
        """Kill all processes at once, paused ones too."""
        process = self._running()
        left = [psutil.Process(process.pid), *self._children()] if process.poll() is None else []
        # The master first: it would else start another worker.
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait(HANG_S)
        eventually(lambda: all(map(is_gone, left)))
        self._process = None

    def _children(self) -> Sequence[psutil.Process]:
        try:
            return self.master.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def pause(self, *, master: bool = True) -> None:
        """Stop the processes as they are, as a suspended machine does; without ``master`` the worker alone."""
        for process in self._pausable(master):
            process.suspend()

    def resume(self, *, master: bool = True) -> None:
        for process in self._pausable(master):
            process.resume()

    def _pausable(self, master: bool) -> list[psutil.Process]:
        return [self.worker, *([self.master] if master else [])]

    def _running(self) -> "subprocess.Popen[bytes] | ForkedProcess":
        assert self._process is not None, f"{self} does not run"
        return self._process

    # --- what it says ----------------------------------------------------------------------------

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""


class ClusterProcesses:
    """Members that know each other, each with a folder of its own in ``folder``."""

    def __init__(self, folder: Path, count: int, settings: Mapping[str, str]) -> None:
        ports = free_ports(count)
        listed = ",".join(f"127.0.0.1:{port}" for port in ports)
        # Instances of tests are here, where health checks do not look by themselves.
        checked = {"rollcall.healthCheck.allow": "127.0.0.0/8"}
        common = {"nacos.member.list": listed, "rollcall.announce": "false", **checked, **settings}
        self.members = [Member(port, folder / str(port), common) for port in ports]

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def start(self) -> None:
        """Start all members and wait until each serves and sees all others UP."""
        for member in self.members:
            member.start()
        for member in self.members:
            member.wait_ready()
        for member in self.members:
            eventually(lambda member=member: self.all_up(member))  # type: ignore[misc]

    def all_up(self, member: Member) -> bool:
        states = member.client.states()
        return len(states) == len(self.members) and set(states.values()) == {"UP"}

    def end(self) -> None:
        for member in self.members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.end()

    def others(self, member: Member) -> list[Member]:
        return [one for one in self.members if one is not member]

    def owner(self, service: str) -> Member:
        """The member that is responsible for a service while all are UP; service names have no group here."""
        addresses = sorted(member.address for member in self.members)
        mapper = DistroMapper.over(addresses[0], tuple(addresses), False)
        address = mapper.map_srv(f"DEFAULT_GROUP@@{service}")
        return next(member for member in self.members if member.address == address)

    def service_of(self, owner: Member, prefix: str) -> str:
        """A service name for which ``owner`` is responsible while all are UP."""
        names = (f"{prefix}-{number}" for number in range(10_000))
        return next(name for name in names if self.owner(name) is owner)

    def lists(self, service: str, members: Sequence[Member] | None = None) -> list[set[str]]:
        """What each member lists of a service."""
        return [set(member.client.hosts(service)) for member in members or self.members]

    def all_list(self, service: str, expected: set[str], members: Sequence[Member] | None = None) -> bool:
        """Whether every member lists exactly that; for ``eventually``."""
        lists = self.lists(service, members)
        assert all(one == expected for one in lists), f"{service}: {[len(one) for one in lists]} of {len(expected)}"
        return True

    def assert_no_traceback(self) -> None:
        for member in self.members:
            text = member.log_text()
            assert "Traceback (most recent call last)" not in text, f"log of {member}:\n{text[-6000:]}"


def running_cluster(folder: Path, settings: Mapping[str, str]) -> Iterator[ClusterProcesses]:
    """Yield three members that run, and end them: each in order, without a traceback in its log."""
    cluster = ClusterProcesses(folder, 3, dict(settings))
    try:
        cluster.start()
        yield cluster
        for member in cluster:
            member.master.terminate()
        assert [member.wait_exit() for member in cluster] == [0, 0, 0]
    finally:
        cluster.end()
    cluster.assert_no_traceback()
