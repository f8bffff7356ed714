"""Active health checks of persistent instances over TCP and HTTP, in a bounded pool of threads."""

import http.client
import logging
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Generic, TypeVar

from app.background.check_targets import CheckTargets, TargetRefusedError
from app.naming.health.check_headers import headers_of
from app.naming.health.checks import Check, CheckBoard, CheckedCluster, CheckResult, ClusterKey, LastCheck
from app.naming.model.ip_addresses import plain_ip
from app.naming.model.keys import PORT_MAX
from app.naming.model.meta import HealthChecker
from app.naming.model.nacos_errors import StorageError
from app.naming.model.switches import SwitchDomain
from distro.model.ports import Clock
from distro.timing.clock import monotonic_s

T = TypeVar("T")


class FairQueue(Generic[T]):
    """The waiting items, and the items in progress, by owner. Not thread-safe."""

    def __init__(self, *, waiting_max: int, owner_waiting_max: int, owner_running_max: int) -> None:
        self._waiting_max = waiting_max
        self._owner_waiting_max = owner_waiting_max
        self._owner_running_max = owner_running_max
        self._waiting: dict[Hashable, deque[T]] = {}
        """The waiting items by owner, in the order of the owners' turns."""
        self._running: dict[Hashable, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, owner: Hashable, item: T) -> bool:
        """Have an item wait. Return False if too many do, of its owner or of all."""
        items = self._waiting.get(owner)
        if self._count >= self._waiting_max or (items is not None and len(items) >= self._owner_waiting_max):
            return False
        if items is None:
            items = self._waiting[owner] = deque()
        items.append(item)
        self._count += 1
        return True

    def take(self) -> T | None:
        """Return the next item, of the owner whose turn it is.

        None if no owner may have one. Call ``done`` afterwards.
        """
        for owner in self._waiting:
            if self._running.get(owner, 0) < self._owner_running_max:
                break
        else:
            return None
        items = self._waiting.pop(owner)
        item = items.popleft()
        if items:
            self._waiting[owner] = items  # at the end
        self._running[owner] = self._running.get(owner, 0) + 1
        self._count -= 1
        return item

    def done(self, owner: Hashable) -> None:
        """Note that an item of an owner is finished."""
        left = self._running.pop(owner) - 1
        if left:
            self._running[owner] = left


LOG = logging.getLogger(__name__)
CONNECT_TIMEOUT_S = 0.5
"""Source: Nacos 1.4.1 TcpSuperSenseProcessor.CONNECT_TIMEOUT_MS."""
HTTP_TIMEOUT_S = 2.0
STATUS_LINE_BYTES_MAX = 1_024
STATUS_LINE = re.compile(rb"HTTP/[0-9.]{1,4} +([0-9]{3})\s")
AT_ONCE_MAX = 16
OF_SERVICE_MAX = AT_ONCE_MAX // 2
"""The most checks of one service at once, so that an unresponsive service leaves threads to the others."""
QUEUED_MAX = 2_000
"""The most checks that may wait for a thread. Further ones are dropped, and due again in their cluster's next round."""
QUEUED_OF_SERVICE_MAX = QUEUED_MAX // 2
REFUSED_LOGGED_MAX = 1_000
"""The most clusters for which the log reports once that checks may not connect to their instances."""
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
        targets: CheckTargets,
    ) -> None:
        """``on_flip`` gets a check and the health that it found. It may raise StorageError."""
        self._board = board
        self._clusters = clusters
        self._is_healthy = is_healthy
        self._on_flip = on_flip
        self._switches = switches
        self._clock = clock
        self._targets = targets
        self._lock = threading.Lock()
        self._queue = FairQueue[Check](
            waiting_max=QUEUED_MAX, owner_waiting_max=QUEUED_OF_SERVICE_MAX, owner_running_max=OF_SERVICE_MAX
        )
        self._running = 0
        self.refused = 0
        """Checks that were not made because checks may not connect to their instance's address."""
        self._refused_of: set[ClusterKey] = set()
        self.unwritten = 0
        """Changes of health that the disk refused. The instance's next checks find them again."""
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

    def last(self, cluster: ClusterKey, instance_key: str) -> LastCheck | None:
        """Return the last result of an instance's check; None if this member has made none."""
        with self._lock:
            return self._board.last(cluster, instance_key)

    def _submit(self, check: Check, now_ms: int) -> None:
        with self._lock:
            if self._stopped or not self._queue.put(_service_of(check), check):
                self._board.abandon(check, now_ms)
                return
            if self._pool is None:  # only a registry with persistent instances needs the threads
                self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="naming-check")
            self._begin_next()

    def _begin_next(self) -> None:
        """Start the next check on a thread, if one is free. The caller holds the lock."""
        if self._pool is None or self._stopped or self._running >= AT_ONCE_MAX:
            return
        check = self._queue.take()
        if check is None:
            return
        self._running += 1
        self._pool.submit(self._work, check).add_done_callback(_log_failure)

    def _work(self, check: Check) -> None:
        try:
            self._run(check)
        finally:
            with self._lock:
                self._running -= 1
                self._queue.done(_service_of(check))
                self._begin_next()

    def _run(self, check: Check) -> None:
        begun_ms = self._clock.monotonic_ms()
        healthy = None
        try:
            result = make_check(check.ip, check.port, check.checker, self._targets)
            healthy = self._is_healthy(check)
        except TargetRefusedError as error:
            self._count_refused(check, error)
        finally:
            now_ms = self._clock.monotonic_ms()
            with self._lock:
                if healthy is None:  # the instance is gone, or the check raised: its cluster's next round is still due
                    self._board.abandon(check, now_ms)
        if healthy is None:
            return
        with self._lock:
            flips = self._board.on_result(check, result, now_ms - begun_ms, healthy, now_ms, self._switches())
        if flips and not self._stopped:
            self._flip(check, not healthy)

    def _count_refused(self, check: Check, why: TargetRefusedError) -> None:
        """Count a refused check. The instance's health stays as it is: it may be healthy, and no check runs."""
        with self._lock:
            self.refused += 1
            if check.cluster in self._refused_of or len(self._refused_of) >= REFUSED_LOGGED_MAX:
                return
            self._refused_of.add(check.cluster)
        LOG.warning("instances of %s are not checked and keep their health: %s", check.cluster.service, why)

    def _flip(self, check: Check, healthy: bool) -> None:
        try:
            self._on_flip(check, healthy)
        except StorageError as error:
            self.unwritten += 1
            if not self._disk_refuses:
                LOG.error(
                    "the disk refuses the results of health checks; the checks continue, and the write is retried: %s",
                    error,
                )
            self._disk_refuses = True
            return
        if self._disk_refuses:
            LOG.info("the disk accepts the results of health checks again")
            self._disk_refuses = False

    def stop(self) -> None:
        """End the pool. Running checks end within their time-outs, of 2 s at most. May be called twice."""
        with self._lock:
            self._stopped = True
            pool = self._pool
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _log_failure(future: "Future[None]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        LOG.error("a check failed unexpectedly", exc_info=error)


def _service_of(check: Check) -> tuple[str, str]:
    return check.cluster.namespace, check.cluster.service


def make_check(ip: str, port: int, checker: HealthChecker, targets: CheckTargets) -> CheckResult:
    """Return the result of one check: a connection over TCP, or over HTTP the expected status of a GET.

    Raises:
        TargetRefusedError: the check may not connect there.
    """
    if not 0 < port <= PORT_MAX:
        return CheckResult.REFUSED
    host = plain_ip(ip)
    try:
        addresses = targets.resolve(host, port)
        if checker.kind == "TCP":
            with closing(_connect(addresses, port, CONNECT_TIMEOUT_S)):
                return CheckResult.OK
        status = _http_status(host, addresses, port, checker)
    except ConnectionRefusedError:
        return CheckResult.REFUSED
    except (OSError, http.client.HTTPException, ValueError):
        return CheckResult.FAILED
    return CheckResult.OK if status == checker.expected_code else CheckResult.FAILED


def _connect(addresses: list[str], port: int, timeout_s: float) -> socket.socket:
    """Connect to the first address that answers, within ``timeout_s`` for all of them together.

    Raises:
        OSError: the error of the last address.
    """
    end_s = monotonic_s() + timeout_s
    *firsts, last = addresses
    for address in firsts:
        try:
            return socket.create_connection((address, port), max(end_s - monotonic_s(), 0.001))
        except OSError:
            continue
    return socket.create_connection((last, port), max(end_s - monotonic_s(), 0.001))


def _http_status(host: str, addresses: list[str], port: int, checker: HealthChecker) -> int | None:
    """Return the status of the answer to a GET, None if the answer is not HTTP. Redirects are not followed.

    One deadline for the whole exchange: a server that sends a byte a second must not occupy one of the few threads for
    ever.
    """
    end_s = monotonic_s() + HTTP_TIMEOUT_S
    path = checker.path if checker.path.startswith("/") else f"/{checker.path}"
    with closing(http.client.HTTPConnection(host, port, timeout=HTTP_TIMEOUT_S)) as connection:
        # Connected here: the library would resolve the name once more, and might get another address.
        connection.sock = _connect(addresses, port, HTTP_TIMEOUT_S)
        connection.request("GET", path, headers=headers_of(checker.headers))
        line = b""
        while b"\n" not in line and len(line) < STATUS_LINE_BYTES_MAX:
            connection.sock.settimeout(max(end_s - monotonic_s(), 0.001))
            part = connection.sock.recv(STATUS_LINE_BYTES_MAX)
            if not part:
                break
            line += part
    found = STATUS_LINE.match(line)
    return int(found[1]) if found else None
