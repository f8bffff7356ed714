"""``rollcall migrate`` from a real Nacos: real clients move one by one, and no call fails meanwhile."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

import pytest

from app.testing import Cluster
from app.tools.cli import main
from app.tools.command.asking.exits import ExitCode
from app.tools.embedded.embedded_node import EmbeddedNode
from app.tools.embedded.errors_of_use import CallRefused
from tests.peers.linked_nacos import SEEN_S, RealNacos, linked_with, links_of, real_nacos, seen, write_links
from tests.peers.test_real_nacos_2 import PATIENT
from tests.sdk.environments import GRPC_INSTALLERS, INSTALLERS, Environment, NotInstallable
from tests.sdk.program import Program, Server
from tests.support.processes import eventually

SERVICE, CLIENT, PORT = "orders", "client", 80
LIBRARIES = {"2": ("java", "go", "python-3"), "3": ("java-3", "go", "python-3"), "1.4": ("python", "java", "go")}
LOOK_S = 0.05
LOOKS = 20


class Instances:
    """Instances of the service, each in a program with a client library. They serve as long as they are ``alive``."""

    def __init__(self, environments: Sequence[Environment], folder: Path, stack: ExitStack) -> None:
        self._environments = {f"10.9.0.{number}": one for number, one in enumerate(environments, 1)}
        self._folder, self._stack, self._started = folder, stack, 0
        self._programs: dict[str, Program] = {}
        self.alive = frozenset[str]()

    @property
    def ips(self) -> list[str]:
        return list(self._environments)

    def start(self, ip: str, server: Server) -> None:
        """Start the program of an instance, which registers at this server, and subscribes to its own service."""
        self._started += 1
        program = self._stack.enter_context(Program(self._environments[ip], self._folder / f"run-{self._started}"))
        program.open(CLIENT, server)
        self.alive |= {ip}
        place = {"service": SERVICE, "ip": ip, "port": PORT, "cluster": "DEFAULT"}
        metadata = json.loads(PATIENT)
        program.call("register", CLIENT, **place, weight=1.0, metadata=metadata)
        program.call("subscribe", CLIENT, service=SERVICE)
        self._programs[ip] = program

    def withdraw(self, ip: str) -> None:
        """Deregister an instance, which goes on serving."""
        place = {"service": SERVICE, "ip": ip, "port": PORT, "cluster": "DEFAULT"}
        self._programs[ip].call("deregister", CLIENT, **place)

    def stop(self, ip: str) -> None:
        self.alive -= {ip}
        self._programs.pop(ip).end()


class Caller:
    """Resolves the service at both sides again and again. A call fails if a list is empty, or names a dead instance."""

    def __init__(self, instances: Instances, real: RealNacos, here: Cluster) -> None:
        self.failed = list[str]()
        self.looks = self.late = 0
        self.asks_nacos = True
        self._instances, self._real, self._here = instances, real, here
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Caller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def look_on(self) -> None:
        """Return after some more looks."""
        begun = self.looks
        eventually(lambda: self.looks >= begun + LOOKS, SEEN_S)

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            if self.asks_nacos:
                self._check("the Nacos", lambda: set(self._real.origins(SERVICE)))
            self._check("here", lambda: listed_here(self._here[self.looks % len(self._here)]))
            self.looks += 1

    def _check(self, side: str, ask: Callable[[], set[str] | None]) -> None:
        alive = self._instances.alive
        try:
            found = ask()
        except Exception as error:
            self.failed.append(f"{side}: {error!r}")
            return
        if found is None:
            self.late += 1  # an SDK asks the next member, and uses its last list meanwhile
        elif not found or not found <= alive | self._instances.alive:
            self.failed.append(f"{side}: {sorted(found)} while {sorted(alive)} served")


def listed_here(member: EmbeddedNode) -> set[str] | None:
    """Return the instances that a member lists; None if it refuses the call, as its machine had no time for it."""
    try:
        return seen(member, SERVICE)
    except CallRefused as error:
        if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return None


class Status:
    """``rollcall migrate status``, of which each step is printed once."""

    def __init__(self, real: RealNacos, here: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._arguments = ["--nacos", real.client.address, "--server", here[0].address, "--gap", "2s"]
        self._capsys = capsys

    def is_at(self, step: int, instances: int) -> bool:
        """Return whether it tells this step, and so many instances and subscribers at the Nacos."""
        self._capsys.readouterr()
        code = main(["migrate", "status", *self._arguments, "--json"])
        told_text = self._capsys.readouterr().out
        if code == ExitCode.NO_SERVER:
            return False  # the machine had no time for a side
        told = json.loads(told_text)
        found = {one["reason"]: one for one in told["obstacles"]}
        registered = found.get("registered", {}).get("instances", 0)
        subscribed = sum(one["subscribers"] for one in told["services"])
        assert code == (0 if step > 3 else 1), told
        assert (told["step"], registered) == (step, instances), told["obstacles"]
        return bool(subscribed) == bool(instances)

    def show(self) -> None:
        main(["migrate", "status", *self._arguments])
        with self._capsys.disabled():
            print(self._capsys.readouterr().out)


@pytest.fixture(params=["2", "3", "1.4"])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def real(release: str, tmp_path: Path) -> Iterator[RealNacos]:
    with real_nacos(release, tmp_path) as nacos:
        yield nacos


def test_clients_move_one_by_one_without_a_failed_call(
    release: str, real: RealNacos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installers = INSTALLERS if release == "1.4" else GRPC_INSTALLERS
    try:
        environments = [installers[one]() for one in LIBRARIES[release]]
    except NotInstallable as error:
        pytest.skip(str(error))
    with Cluster(3, settings={"rollcall.cluster.id": "dc-a"}) as here, ExitStack() as stack:
        instances = Instances(environments, tmp_path, stack)
        status = Status(real, here, capsys)
        for ip in instances.ips:
            instances.start(ip, real.client)
        eventually(lambda: real.lists(SERVICE, *instances.ips), SEEN_S)
        eventually(lambda: status.is_at(1, 3), SEEN_S)
        status.show()

        write_links(list(here), linked_with(real, "both"))
        eventually(lambda: status.is_at(3, 3), SEEN_S)
        with Caller(instances, real, here) as caller:
            first, *others = instances.ips
            move(instances, first, here[0], real, here)
            eventually(lambda: status.is_at(3, 2), SEEN_S)
            status.show()
            move(instances, first, real.client, real, here)
            eventually(lambda: status.is_at(3, 3), SEEN_S)
            for number, ip in enumerate([first, *others], 1):
                move(instances, ip, here[number % len(here)], real, here)
                eventually(lambda left=3 - number: status.is_at(3 if left else 4, left), 2 * SEEN_S)
                status.show()
            caller.look_on()
            caller.asks_nacos = False
            caller.look_on()  # so that it has no call under way there
            write_links(list(here), {})
            eventually(lambda: not any(links_of(one) for one in here), SEEN_S)
            eventually(lambda: real.lists(SERVICE), SEEN_S)
            eventually(lambda: status.is_at(5, 0), SEEN_S)
            status.show()
            real.end()
            caller.look_on()
        with capsys.disabled():
            print(
                f"{release}: {caller.looks} looks at both sides, {len(caller.failed)} failed calls, {caller.late} late"
            )
        assert caller.failed == []
        eventually(lambda: all(listed_here(one) == set(instances.ips) for one in here), SEEN_S)


def move(instances: Instances, ip: str, to: Server, real: RealNacos, here: Sequence[EmbeddedNode]) -> None:
    """Restart an instance with the address of another server: it stops when nobody is told of it any more."""
    others = set(instances.ips) - {ip}
    instances.withdraw(ip)
    eventually(lambda: list_it(others, real, here), SEEN_S)
    instances.stop(ip)
    instances.start(ip, to)
    eventually(lambda: list_it({*others, ip}, real, here), SEEN_S)


def list_it(ips: set[str], real: RealNacos, here: Sequence[EmbeddedNode]) -> bool:
    """Return whether both sides list exactly these instances."""
    return real.lists(SERVICE, *ips) and all(listed_here(one) == ips for one in here)
