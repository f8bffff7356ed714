"""Active health checks of persistent instances over TCP and HTTP, in a bounded pool of threads."""

import http.client
import logging
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from app.naming.health.checks import Check, CheckBoard, CheckedCluster, CheckResult
from app.naming.model.meta import HealthChecker
from app.naming.model.nacos_errors import StorageError
from app.naming.model.switches import SwitchDomain
from app.naming.model.value_limits import PORT_MAX
from distro.clock import monotonic_s
from distro.ports import Clock

LOG = logging.getLogger(__name__)
CONNECT_TIMEOUT_S = 0.5
"""Source: Nacos 1.4.1 TcpSuperSenseProcessor.CONNECT_TIMEOUT_MS."""
HTTP_TIMEOUT_S = 2.0
STATUS_LINE_BYTES_MAX = 1_024
STATUS_LINE = re.compile(rb"HTTP/[0-9.]{1,4} +([0-9]{3})\s")
AT_ONCE_MAX = 16
QUEUED_MAX = 2_000
"""Checks that may wait for a thread; more are dropped, and due again in their cluster's next round."""
TICK_MS = 500


class Checker:
    """Runs due health checks in a pool of threads, which it owns. ``tick`` is called by the naming timer."""

    def __init__(
        self,
        board: CheckBoard,
        clusters: Callable[[], list[CheckedCluster]],
        is_healthy: Callable[[Check], bool | None],
        on_flip: Callable[[Check, bool], None],
        switches: Callable[[], SwitchDomain],
        clock: Clock,
    ) -> None:
        """``on_flip`` gets a check and the health that it found. It may raise StorageError."""
        self._board = board
        self._clusters = clusters
        self._is_healthy = is_healthy
        self._on_flip = on_flip
        self._switches = switches
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = 0
        self.unwritten = 0
        """Changes of health that the disk refused: the instance's next checks find them again."""
        self._disk_refuses = False
        self._pool: ThreadPoolExecutor | None = None
        self._stopped = False

    def tick(self, now_ms: int) -> int:
        """Give due checks to the pool; return when to be called again (ms)."""
        clusters = self._clusters()
        with self._lock:
            checks = self._board.tick(clusters, now_ms, self._switches())
        for check in checks:
            self._submit(check, now_ms)
        return now_ms + TICK_MS

    def _submit(self, check: Check, now_ms: int) -> None:
        with self._lock:
            if self._waiting >= QUEUED_MAX or self._stopped:
                self._board.abandon(check, now_ms)
                return
            self._waiting += 1
            if self._pool is None:  # only a registry with persistent instances needs the threads
                self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="naming-check")
            future: Future[None] = self._pool.submit(self._run, check)
        future.add_done_callback(_log_failure)

    def _run(self, check: Check) -> None:
        begun_ms = self._clock.monotonic_ms()
        healthy = None
        try:
            result = make_check(check.ip, check.port, check.checker)
            healthy = self._is_healthy(check)
        finally:
            now_ms = self._clock.monotonic_ms()
            with self._lock:
                self._waiting -= 1
                if healthy is None:  # the instance is gone, or the check raised: its cluster's next round is still due
                    self._board.abandon(check, now_ms)
        if healthy is None:
            return
        with self._lock:
            flips = self._board.on_result(check, result, now_ms - begun_ms, healthy, now_ms, self._switches())
        if flips and not self._stopped:
            self._flip(check, not healthy)

    def _flip(self, check: Check, healthy: bool) -> None:
        try:
            self._on_flip(check, healthy)
        except StorageError as error:
            self.unwritten += 1
            if not self._disk_refuses:
                LOG.error("health found by checks waits for the disk, and is found again until then: %s", error)
            self._disk_refuses = True
            return
        if self._disk_refuses:
            LOG.info("health found by checks is written again")
            self._disk_refuses = False

    def stop(self) -> None:
        """End the pool; running checks end within their time-outs, of 2 s at most. May be called twice."""
        with self._lock:
            self._stopped = True
            pool = self._pool
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _log_failure(future: "Future[None]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        LOG.error("a check failed in an unforeseen way", exc_info=error)


def make_check(ip: str, port: int, checker: HealthChecker) -> CheckResult:
    """Return the result of one check: a connection over TCP, or over HTTP the expected status of a GET."""
    if not 0 < port <= PORT_MAX:
        return CheckResult.REFUSED
    try:
        if checker.kind == "TCP":
            with closing(socket.create_connection((ip.strip("[]"), port), CONNECT_TIMEOUT_S)):
                return CheckResult.OK
        status = _http_status(ip.strip("[]"), port, checker)
    except ConnectionRefusedError:
        return CheckResult.REFUSED
    except (OSError, http.client.HTTPException, ValueError):
        return CheckResult.FAILED
    return CheckResult.OK if status == checker.expected_code else CheckResult.FAILED


def _http_status(host: str, port: int, checker: HealthChecker) -> int | None:
    """The status of the answer to a GET, None if the answer is no HTTP.

    One deadline for all of it: a server that sends a byte a second must not keep one of the few threads for ever.
    """
    end_s = monotonic_s() + HTTP_TIMEOUT_S
    path = checker.path if checker.path.startswith("/") else f"/{checker.path}"
    with closing(http.client.HTTPConnection(host, port, timeout=HTTP_TIMEOUT_S)) as connection:
        connection.request("GET", path, headers=_headers(checker.headers))
        line = b""
        while b"\n" not in line and len(line) < STATUS_LINE_BYTES_MAX:
            connection.sock.settimeout(max(end_s - monotonic_s(), 0.001))
            part = connection.sock.recv(STATUS_LINE_BYTES_MAX)
            if not part:
                break
            line += part
    found = STATUS_LINE.match(line)
    return int(found[1]) if found else None


def _headers(text: str) -> dict[str, str]:
    """The headers in a checker's text, pairs ``name:value`` with ``|`` between; parts that are no pair are left out."""
    pairs = (pair.partition(":") for pair in text.split("|"))
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and name.strip()}
