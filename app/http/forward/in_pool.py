"""Pass a write on to the member that is responsible for it: one hop, kept connections, never executed twice."""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from app.config.settings import Settings
from app.config.version import NACOS_VERSION
from app.http.api.answers import NOT_RESPONSIBLE, text_reply
from app.http.api.call import CLIENT_AGENT, Answer, Call, Cluster, Forward, Reply
from app.http.api.stats import ForwardStats
from app.http.forward.member_connections import CONNECTIONS_MAX, MemberConnections
from app.http.input.forms import URLENCODED
from distro.clock import SystemClock
from distro.ports import Clock

FORWARD_MS_MAX = 2_000
"""For the whole call, with the wait for another owner. Source: Nacos 1.4.8, its read time-out."""
HOLD_MS = 100
"""How long a refused call waits for another view before it asks the same member again."""
QUERY_CHARS_MAX = 6_000
"""Longer parameters go into a form: Tomcat takes 8,192 bytes for line and headers together, gunicorn for the line."""
AGENT = f"Nacos-Server:{NACOS_VERSION}"

_NOT_COPIED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""What belongs to the client's connection or body. Real Nacos copies Host too; nobody may rely on it."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_NOT_EXECUTED_503 = b"server is "
"""How the answer of a member begins that does not serve yet, or not any more."""
_NOT_EXECUTED_400 = b"receive invalid redirect request"

log = logging.getLogger(__name__)


class _MemberPool:
    """One member: its connections, and who may use one."""

    def __init__(self, address: str) -> None:
        self.connections = MemberConnections(address)
        self.slots = threading.BoundedSemaphore(CONNECTIONS_MAX)


class Forwarder:
    """Forwards calls of any thread. Half of the HTTP threads at most do that; the others go on answering reads."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        refresh: Callable[[str, tuple[str, ...]], None],
        clock: Clock | None = None,
    ) -> None:
        """``refresh(member, keys)`` fetches durable records from the member that has just written them."""
        self._cluster = cluster
        self._refresh = refresh
        self._clock = clock or SystemClock()
        self._own_headers = own_headers(cluster.self_address, settings)
        self._under_way = threading.BoundedSemaphore(max(1, settings.http_threads // 2))
        self._pools: dict[str, _MemberPool] = {}
        self._lock = threading.Lock()
        self.stats = ForwardStats()

    def forward(self, call: Call, to: Forward, run: Callable[[], Answer]) -> Reply:
        """Return the answer of the member responsible for ``to.tag``, found again while it refuses; 503 when none does.

        ``run`` executes the call here, if this node becomes responsible meanwhile.
        """
        if not self._under_way.acquire(blocking=False):
            self.stats.forward_busy += 1
            return text_reply(503, "too many calls wait for other members, please try another server")
        try:
            return self._forward(call, to, run)
        finally:
            self._under_way.release()

    def close(self) -> None:
        """Close the connections that are not in use; the others close with their call."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.connections.close()

    def _forward(self, call: Call, to: Forward, run: Callable[[], Answer]) -> Reply:
        deadline_ms = self._clock.monotonic_ms() + FORWARD_MS_MAX
        target, body = target_of(call)
        headers = headers_of(call, self._own_headers)
        while True:
            seen = self._cluster.view()
            member = self._cluster.map_srv_durable(to.tag) if to.durable else self._cluster.map_srv(to.tag)
            if member == self._cluster.self_address:
                answer = run()
                if isinstance(answer, Reply):
                    return answer
                assert isinstance(answer, Forward)
            elif reply := self._ask(member, call.method, target, headers, body, deadline_ms):
                if to.durable and reply.status == HTTPStatus.OK:
                    self._refresh(member, to.durable)  # so that the next read here shows what was written there
                return reply
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return self._give_up(member)
            self.stats.forward_held += 1
            self._cluster.wait_for_view(seen, min(left_ms, HOLD_MS) / 1000)

    def _ask(
        self, member: str, method: str, target: str, headers: Mapping[str, str], body: bytes | None, deadline_ms: int
    ) -> Reply | None:
        """Return the member's answer; None when it is certain that the member did not execute the call."""
        pool = self._pool_of(member)
        if not pool.slots.acquire(timeout=max(0, deadline_ms - self._clock.monotonic_ms()) / 1000):
            return None
        try:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return None
            status, answer, fields = pool.connections.send(method, target, headers, body, left_ms / 1000)
        except (NewConnectionError, ConnectTimeoutError):
            return None
        except HTTPError as error:
            # It may have been executed. Who sends it again must be the client, who knows whether it may.
            log.info("%s to %s was sent and not answered: %s", method, member, error)
            return self._give_up(member)
        finally:
            pool.slots.release()
        if not_executed(status, answer, NOT_RESPONSIBLE in fields):
            return None
        self.stats.forward_answered += 1
        return Reply(status, answer, fields.get("Content-Type"))

    def _give_up(self, member: str) -> Reply:
        self.stats.forward_failed += 1
        return text_reply(503, f"the responsible member {member} does not answer, please try another server")

    def _pool_of(self, member: str) -> _MemberPool:
        pool = self._pools.get(member)
        if pool is not None:
            return pool
        with self._lock:
            known = {one.address for one in self._cluster.members()}
            for address in self._pools.keys() - known:
                self._pools.pop(address).connections.close()
            return self._pools.setdefault(member, _MemberPool(member))


def own_headers(self_address: str, settings: Settings) -> dict[str, str]:
    """The headers by which members know each other's calls."""
    headers = {
        "accept-charset": "UTF-8",
        "accept-encoding": "identity",
        "client-version": NACOS_VERSION,
        "content-type": URLENCODED,
        "request-source": self_address,
        "user-agent": AGENT,
    }
    if settings.identity_key:
        headers[settings.identity_key.lower()] = settings.identity_value
    return headers


def headers_of(call: Call, own: Mapping[str, str]) -> dict[str, str]:
    """The headers of a call that is passed on: the client's, with ours over them."""
    headers = {
        name: value for name, value in call.headers.items() if name not in _NOT_COPIED and _TOKEN.fullmatch(name)
    }
    return {**headers, **own, CLIENT_AGENT: call.agent}


def target_of(call: Call) -> tuple[str, bytes | None]:
    """Return the request target with all parameters in its query, and no body; a long query becomes a form."""
    pairs = [(name, value) for name, value in call.parameters.items() if name not in ("encoding", "nofix")]
    query = urlencode([*pairs, ("encoding", "UTF-8"), ("nofix", "1")])
    path = call.context_path + call.path
    if len(path) + len(query) < QUERY_CHARS_MAX:
        return f"{path}?{query}", None
    return f"{path}?encoding=UTF-8&nofix=1", urlencode(pairs).encode()


def not_executed(status: int, answer: bytes, refused: bool) -> bool:
    """Whether a member left the call alone: it loads, or it is not responsible by its own view (``refused``)."""
    if status == 503:
        return answer.startswith(_NOT_EXECUTED_503)
    return status == 400 and (refused or _NOT_EXECUTED_400 in answer)
