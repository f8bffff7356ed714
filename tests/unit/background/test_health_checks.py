"""Active checks against real servers of this machine, and the pool that makes them."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network

import pytest

from app.background import health_checks as checks
from app.background.check_targets import CheckTargets
from app.background.health_checks import Checker, FairQueue
from app.naming.health.checks import Check, CheckBoard, CheckedCluster, CheckResult, ClusterKey
from app.naming.model.meta import TCP_CHECKER, ClusterConfig, HealthChecker, health_checker
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import StorageError
from app.naming.model.switches import SwitchDomain
from distro.timing.clock import SystemClock
from tests.support.processes import eventually, free_ports

HTTP = HealthChecker("HTTP", "/health", "")
EVERYWHERE = CheckTargets((ip_network("0.0.0.0/0"), ip_network("::/0")), lambda ip, port: False)


def make_check(ip: str, port: int, checker: HealthChecker, targets: CheckTargets = EVERYWHERE) -> CheckResult:
    return checks.make_check(ip, port, checker, targets)


KEY = ClusterKey("public", "g@@s", "DEFAULT")


@contextmanager
def server(answer: Callable[[socket.socket], None], family: int = socket.AF_INET) -> Iterator[int]:
    """A listening port; each connection is given to ``answer`` and then closed."""
    with socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family) as listening:
        stopped = threading.Event()

        def run() -> None:
            while not stopped.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run)
            yield listening.getsockname()[1]
            stopped.set()
            listening.shutdown(socket.SHUT_RDWR)
            running.result(60)


def says(text: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(4_096)
        connection.sendall(text)

    return answer


def nothing(connection: socket.socket) -> None:
    return


@pytest.fixture
def closed_port() -> int:
    return free_ports(1)[0]


class TestTcp:
    def test_who_listens_is_well(self) -> None:
        with server(nothing) as port:
            assert make_check("127.0.0.1", port, TCP_CHECKER) is CheckResult.OK

    @pytest.mark.parametrize("text", ["::1", "[::1]"])
    def test_over_ipv6(self, text: str) -> None:
        try:
            with server(nothing, socket.AF_INET6) as port:
                assert make_check(text, port, TCP_CHECKER) is CheckResult.OK
        except OSError:
            pytest.skip("this machine has no IPv6")

    def test_a_closed_port_is_certain(self, closed_port: int) -> None:
        assert make_check("127.0.0.1", closed_port, TCP_CHECKER) is CheckResult.REFUSED

    def test_a_full_backlog_is_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checks, "CONNECT_TIMEOUT_S", 0.2)
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            waiting = [socket.socket() for _ in range(4)]
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            assert make_check("127.0.0.1", full.getsockname()[1], TCP_CHECKER) is CheckResult.FAILED
            for one in waiting:
                one.close()

    @pytest.mark.parametrize("port", [0, -1, 65_536, 1 << 40])
    def test_a_port_that_is_none(self, port: int) -> None:
        assert make_check("127.0.0.1", port, TCP_CHECKER) is CheckResult.REFUSED

    @pytest.mark.parametrize("ip", ["", "256.1.1.1.1", "a" * 300, "a..b", "x\0y", "no-such-host.invalid", "[::1"])
    @pytest.mark.parametrize("checker", [TCP_CHECKER, HTTP], ids=["tcp", "http"])
    def test_an_address_that_is_none(self, ip: str, checker: HealthChecker, closed_port: int) -> None:
        assert make_check(ip, closed_port, checker) in (CheckResult.FAILED, CheckResult.REFUSED)


class TestHttp:
    @pytest.mark.parametrize(
        ("status", "expected", "result"),
        [
            (b"200 OK", 200, CheckResult.OK),
            (b"204 No Content", 204, CheckResult.OK),
            (b"204 No Content", 200, CheckResult.FAILED),
            (b"302 Found", 200, CheckResult.FAILED),
            (b"503 Busy", 200, CheckResult.FAILED),
        ],
    )
    def test_the_status_decides(self, status: bytes, expected: int, result: CheckResult) -> None:
        with server(says(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")) as port:
            assert make_check("127.0.0.1", port, replace(HTTP, expected_code=expected)) is result

    @pytest.mark.parametrize(
        "text", [b"", b"hello\r\n", b"HTTP/1.1\r\n", b"HTTP/1.1 2000 x\r\n", b"x" * 5_000, b"\0\xff"]
    )
    def test_what_is_no_http(self, text: bytes) -> None:
        with server(says(text)) as port:
            assert make_check("127.0.0.1", port, HTTP) is CheckResult.FAILED

    def test_path_and_headers_are_sent(self) -> None:
        heads: list[bytes] = []

        def answer(connection: socket.socket) -> None:
            heads.append(connection.recv(4_096))
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        checker = HealthChecker("HTTP", "status?full=1", "X-A: 1|broken|X-B:b:c| :no")
        with server(answer) as port:
            assert make_check("127.0.0.1", port, checker) is CheckResult.OK
        [head] = heads
        assert head.startswith(b"GET /status?full=1 HTTP/1.1\r\n")
        assert b"\r\nX-A: 1\r\nX-B: b:c\r\n" in head
        assert b"broken" not in head

    @pytest.mark.parametrize(
        "checker",
        [
            HealthChecker("HTTP", "/a b", ""),
            HealthChecker("HTTP", "/\n", ""),
            HealthChecker("HTTP", "/ü", ""),
        ],
    )
    def test_settings_that_cannot_be_sent_fail_the_check_alone(self, checker: HealthChecker) -> None:
        with server(says(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
            assert make_check("127.0.0.1", port, checker) is CheckResult.FAILED

    @pytest.mark.parametrize("headers", ["X-A: b\r\nX: y", "ü: 1", "X-A: \u20ac", "Host: x", "Authorization: Basic x"])
    def test_headers_that_may_not_be_sent_are_left_out(self, headers: str) -> None:
        """Members of an earlier release took them."""
        heads: list[bytes] = []

        def answer(connection: socket.socket) -> None:
            heads.append(connection.recv(4_096))
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        with server(answer) as port:
            assert make_check("127.0.0.1", port, HealthChecker("HTTP", "/", headers)) is CheckResult.OK
        usual = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept-Encoding: identity\r\n\r\n"
        assert heads == [usual.encode()]

    def test_a_redirect_is_not_followed(self) -> None:
        with server(nothing) as forbidden:
            answer = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{forbidden}/\r\nContent-Length: 0\r\n\r\n"
            with server(says(answer.encode())) as port:
                assert make_check("127.0.0.1", port, HTTP) is CheckResult.FAILED
                assert make_check("127.0.0.1", port, replace(HTTP, expected_code=302)) is CheckResult.OK

    def test_a_server_that_drips_ends_by_the_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checks, "HTTP_TIMEOUT_S", 0.3)
        gone = threading.Event()

        def drip(connection: socket.socket) -> None:
            while not gone.wait(0.05):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

        with server(drip) as port:
            begun_ms = SystemClock().monotonic_ms()
            assert make_check("127.0.0.1", port, HTTP) is CheckResult.FAILED
            assert SystemClock().monotonic_ms() - begun_ms < 60_000
            gone.set()


class Rig:
    """A checker of one cluster with one instance, whose round is due at once."""

    def __init__(self, port: int, checker: HealthChecker = TCP_CHECKER, targets: CheckTargets = EVERYWHERE) -> None:
        self.instance: Instance | None = Instance("127.0.0.1", port, ephemeral=False)
        self.config = ClusterConfig(checker)
        self.switches = SwitchDomain()
        self.flips: list[tuple[str, bool]] = []
        self.disk_is_full = False
        self.now_ms = 0
        self.checker = Checker(
            CheckBoard(lambda bound: 0),
            self._clusters,
            lambda check: None if self.instance is None else self.instance.healthy,
            self._flip,
            lambda: self.switches,
            SystemClock(),
            targets,
        )

    def _clusters(self) -> list[CheckedCluster]:
        return [] if self.instance is None else [CheckedCluster(KEY, self.config, (self.instance,))]

    def _flip(self, check: Check, healthy: bool) -> None:
        assert self.instance is not None
        if self.disk_is_full:
            raise StorageError("the disk is full")
        self.flips.append((check.instance_key, healthy))
        self.instance = replace(self.instance, healthy=healthy)

    def tick(self) -> None:
        """As if a minute had passed."""
        self.now_ms += 60_000
        self.checker.tick(SystemClock().monotonic_ms() + self.now_ms)

    def ticked_until(self, healthy: bool) -> bool:
        self.tick()
        return self.instance is not None and self.instance.healthy is healthy


class TestChecker:
    def test_a_port_that_closes_and_opens(self, closed_port: int) -> None:
        rig = Rig(closed_port)
        eventually(lambda: rig.ticked_until(False))
        with socket.create_server(("127.0.0.1", closed_port)):
            eventually(lambda: rig.ticked_until(True))
        rig.checker.stop()
        assert rig.flips[:2] == [(rig.instance.key, False), (rig.instance.key, True)]

    def test_a_disk_that_refuses_is_said_once_and_the_health_is_written_when_it_takes_it(
        self, closed_port: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        rig = Rig(closed_port)
        rig.disk_is_full = True
        with caplog.at_level("INFO", "app.background.health_checks"):
            eventually(lambda: rig.tick() or rig.checker.unwritten >= 3)
            assert rig.flips == []
            rig.disk_is_full = False
            eventually(lambda: rig.ticked_until(False))
            rig.checker.stop()
        assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
        assert "disk" in caplog.records[0].message
        assert not any(record.exc_info for record in caplog.records)

    def test_nothing_is_checked_while_the_switch_is_off(self, closed_port: int) -> None:
        rig = Rig(closed_port)
        rig.switches = replace(rig.switches, health_check_enabled=False)
        for _ in range(20):
            rig.tick()
        assert rig.checker._pool is None, "not even a thread was started"
        rig.switches = SwitchDomain()
        eventually(lambda: rig.ticked_until(False))
        rig.checker.stop()

    def test_an_instance_that_goes_while_it_is_checked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = Rig(1)

        def gone(ip: str, port: int, checker: HealthChecker, targets: CheckTargets) -> CheckResult:
            rig.instance = None
            return CheckResult.REFUSED

        monkeypatch.setattr(checks, "make_check", gone)
        rig.tick()
        rig.tick()
        eventually(lambda: rig.instance is None)
        rig.checker.stop()
        assert rig.flips == []

    def test_an_unforeseen_failure_is_logged_and_checks_go_on(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        rig = Rig(1)
        calls: list[int] = []

        def broken(ip: str, port: int, checker: HealthChecker, targets: CheckTargets) -> CheckResult:
            calls.append(port)
            raise RuntimeError("unforeseen")

        monkeypatch.setattr(checks, "make_check", broken)

        def tried_again() -> bool:
            rig.tick()
            return len(calls) >= 3

        eventually(tried_again)
        rig.checker.stop()
        assert "a check failed unexpectedly" in caplog.text

    def test_a_bounded_number_waits(self, monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
        monkeypatch.setattr(checks, "QUEUED_MAX", 0)
        rig = Rig(closed_port)
        for _ in range(5):
            rig.tick()
        assert rig.checker._pool is None
        rig.checker._queue = FairQueue(waiting_max=10, owner_waiting_max=10, owner_running_max=1)
        eventually(lambda: rig.ticked_until(False))
        rig.checker.stop()

    def test_an_instance_that_may_not_be_connected_to_keeps_its_health(
        self, closed_port: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        rig = Rig(closed_port, targets=CheckTargets((), lambda ip, port: False))
        eventually(lambda: rig.tick() or rig.checker.refused >= 5)
        rig.checker.stop()
        assert rig.flips == []
        assert [record.levelname for record in caplog.records] == ["WARNING"], "it is said once"
        assert "rollcall.healthCheck.allow" in caplog.text

    def test_a_service_that_never_answers_leaves_threads_to_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        end = threading.Event()
        made: list[str] = []

        def check(ip: str, port: int, checker: HealthChecker, targets: CheckTargets) -> CheckResult:
            made.append(ip)
            if ip == "10.0.0.1":
                end.wait(60)
            return CheckResult.OK

        monkeypatch.setattr(checks, "make_check", check)
        rig = Rig(1)
        slow = tuple(Instance("10.0.0.1", port, ephemeral=False) for port in range(1, 3_000))
        quick = (Instance("10.0.0.2", 80, ephemeral=False),)
        others = [
            CheckedCluster(ClusterKey("public", "g@@slow", "DEFAULT"), rig.config, slow),
            CheckedCluster(ClusterKey("public", "g@@quick", "DEFAULT"), rig.config, quick),
        ]
        monkeypatch.setattr(rig, "_clusters", lambda: others)
        rig.checker._clusters = rig._clusters
        eventually(lambda: rig.tick() or made.count("10.0.0.2") >= 3)
        assert made.count("10.0.0.1") == checks.OF_SERVICE_MAX
        end.set()
        rig.checker.stop()

    def test_a_stopped_one_does_nothing(self, closed_port: int) -> None:
        rig = Rig(closed_port)
        rig.checker.stop()
        rig.tick()
        rig.tick()
        rig.checker.stop()
        assert rig.flips == []


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"type": "TCP"}, "TCP"),
        ({"type": "HTTP"}, "HTTP"),
        ({"type": "NONE"}, "NONE"),
        ({}, "NONE"),
        ({"type": 1}, "NONE"),
    ],
)
def test_the_checker_of_a_json(fields: dict[str, object], kind: str) -> None:
    assert health_checker(fields).kind == kind
