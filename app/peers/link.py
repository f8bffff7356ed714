"""Kept connections from the event loop to the members of the cluster.

Pipelined requests share one connection or two, and those of one turn of the loop leave in one write. All others go in
turn: one request at a time on each of a few connections.
"""

import asyncio
import logging
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import cast

import httptools

from app.config.addresses import split_address
from app.machine.tls.member_tls import MemberTls
from app.peers.link_results import LinkAnswer, LinkResult, NotAnswered, NotSent
from distro.wire.call_trust import Question

PIPELINED_LINKS = 2
PIPELINED_LOAD = 64
"""Requests under way on one connection, before another is opened."""
JAVA_LINKS = 8
"""Connections to one member, for requests that are sent in turn."""
JOIN_S = 0.002
"""The time that a request waits for others to be written together with it, while answers are awaited."""
WAITING_MAX = 4_096
"""Requests to one member that are under way or wait for a connection."""
ANSWER_BYTES_MAX = 1024 * 1024
"""The most bytes of an answer's headers and body together."""
CONNECT_S = 1.0
ANSWER_S = 1.0
"""The time that a member has to answer the question on a new connection."""
IDLE_S = 10.0
"""A connection that was quiet for longer is not used again: Tomcat closes one after 20 s, maybe just as we send."""

log = logging.getLogger(__name__)
Done = Callable[[LinkResult], None]


@dataclass(slots=True)
class Exchange:
    """One request on its way, and the receiver of its outcome."""

    request: bytes
    deadline_s: float
    done: Done | None
    """None after its call."""

    def tell(self, result: LinkResult) -> None:
        """Call ``done``, once. Its exceptions are logged: they must not reach other requests on the same connection."""
        done, self.done = self.done, None
        if done is not None:
            try:
                done(result)
            except Exception:
                log.exception("a member's answer could not be used")


def reset_when_closed(opened: socket.socket | None) -> None:
    """Have the kernel drop what is unsent when a connection is closed (R13), which it would deliver a minute later.

    The option belongs to the connection, so any descriptor of it will do; uvloop keeps that of its socket to itself.
    """
    if opened is None:
        return
    with socket.socket(fileno=os.dup(opened.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class MemberLink(asyncio.Protocol):
    """One connection to a member. Used on the loop's thread only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        on_free: Callable[[], None],
        question: Callable[[str], Question | None],
    ) -> None:
        """``question(address)``: what the member is to answer before it is sent any request; None for nothing."""
        self._loop = loop
        self._on_free = on_free
        self._address = address
        self._question = question
        self._is_proven = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._unsent: list[Exchange] = []
        self._sent: deque[Exchange] = deque()
        self._flushing = False
        self._last: bool = False
        self.closed = False
        self.used_s = loop.time()
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0

    @property
    def load(self) -> int:
        """Return how many requests are under way, or wait to be written."""
        return len(self._unsent) + len(self._sent)

    @property
    def is_stuck(self) -> bool:
        """True if the oldest request is past its deadline, so that a further request would wait behind it."""
        return bool(self._sent) and self._sent[0].done is None

    def send(self, exchange: Exchange) -> None:
        """Send a request in one write with all others of this turn of the loop.

        While answers are awaited, it is written when the next of them comes, or after ``JOIN_S``: a write costs both
        sides more than a request does.
        """
        self._unsent.append(exchange)
        if not self._flushing and self._transport is not None:
            self._flushing = True
            if self._sent:
                self._loop.call_later(JOIN_S, self._flush)
            else:
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        transport = self._transport
        if not self._is_proven or transport is None or self.closed or transport.is_closing() or not self._unsent:
            return  # ``connection_lost`` is about to be called, and answers those that wait
        unsent, self._unsent = self._unsent, []
        self.used_s = self._loop.time()
        self._sent.extend(unsent)
        transport.write(b"".join([one.request for one in unsent]))

    def expire(self, now_s: float) -> None:
        """End the requests past their deadline. Answers that still come to them are dropped."""
        # In no order: a request that was tried at another member before brings its old deadline along.
        for one in self._sent:
            if one.deadline_s <= now_s:
                one.tell(NotAnswered())
        late = [one for one in self._unsent if one.deadline_s <= now_s]
        if late:
            self._unsent = [one for one in self._unsent if one.deadline_s > now_s]
            for one in late:
                one.tell(NotSent())
        if self._sent and all(one.done is None for one in self._sent) and not self._unsent:
            self.close()

    def close(self) -> None:
        """Cut the connection; its requests end when the loop reports that it is lost."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def fail(self) -> None:
        """End all requests: the connection could not be made, or is lost."""
        self.closed = True
        sent, unsent = self._sent, self._unsent
        self._sent, self._unsent = deque(), []
        for one in sent:
            one.tell(NotAnswered())
        for one in unsent:
            one.tell(NotSent())
        self._on_free()

    # --- called by the loop -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        reset_when_closed(transport.get_extra_info("socket"))
        if self.closed:
            self._transport.abort()
        elif (question := self._question(self._address)) is None:
            self._is_proven = True
            self._flush()
        else:
            asked = question.request(self._address)
            done = partial(self._on_answer, question)
            self._sent.append(Exchange(asked, self._loop.time() + ANSWER_S, done))
            self._transport.write(asked)

    def _on_answer(self, question: Question, result: LinkResult) -> None:
        """Send the requests that wait, if the member has proven that it is the member; else none of them."""
        if isinstance(result, LinkAnswer):
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in result.headers.items()}
            if question.is_answered(headers):
                self._is_proven = True
                self._flush()
                return
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        del self._parser  # it knows our methods, and the circle would stay in memory
        self.fail()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.close()
            return
        if self._last and not self.closed:
            # Requests sent behind an answer with "Connection: close" are not executed. Source: RFC 9112, 9.6.
            self._unsent[:0] = self._sent
            self._sent.clear()
            self.close()
        elif self._unsent:
            self._flush()

    # --- called by the parser -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = []
        self._size = 0

    def on_header(self, name: bytes, value: bytes | None) -> None:
        value = (value or b"").strip()
        self._size += len(name) + len(value)
        if self._size > ANSWER_BYTES_MAX:
            self.close()
        else:
            self._headers[name.lower()] = value

    def on_body(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > ANSWER_BYTES_MAX:
            self.close()
        else:
            self._body.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 and not self.closed:
            return  # an interim answer: the answer itself follows
        if self.closed or not self._sent:
            self.close()  # an answer without a request
            return
        if not self._parser.should_keep_alive():
            self._last = True
        self._sent.popleft().tell(LinkAnswer(status, b"".join(self._body), self._headers))
        self._on_free()


class MemberLinks:
    """The connections to one member, and the requests that wait for one. Used on the loop's thread only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        tls: MemberTls | None = None,
        known_ips: Callable[[str], Iterable[str]] = lambda _: (),
        question: Callable[[str], Question | None] = lambda _: None,
    ) -> None:
        """``known_ips(address)``: the IP addresses that the member had, for when its name cannot be looked up.

        ``question(address)``: what the member is asked first on each connection; None for nothing.
        """
        self._loop = loop
        self._tls = tls
        self._host, self._port = split_address(address)
        self._known_ips = partial(known_ips, address)
        self._address = address
        self._question = question
        self._links: list[MemberLink] = []
        self._waiting: deque[Exchange] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def ask(self, request: bytes, deadline_s: float, done: Done, *, pipelined: bool) -> bool:
        """Send a request; False when too many wait. ``done`` is called once, soon after the deadline at the latest."""
        load = len(self._waiting) + sum(one.load for one in self._links)
        if load >= WAITING_MAX or self._closed:
            return False
        exchange = Exchange(request, deadline_s, done)
        if pipelined:
            self._pipelined_link().send(exchange)
        else:
            self._waiting.append(exchange)
            self._send_waiting()
        return True

    def _pipelined_link(self) -> MemberLink:
        usable = self._usable()
        for one in usable:
            if one.load < PIPELINED_LOAD:
                return one
        if len(usable) < PIPELINED_LINKS:
            return self._open()
        return min(usable, key=lambda one: one.load)

    def _usable(self) -> list[MemberLink]:
        oldest_s = self._loop.time() - IDLE_S
        usable = []
        for one in list(self._links):
            if not one.load and one.used_s < oldest_s:
                one.close()
            if not one.closed and not one.is_stuck:
                usable.append(one)
        return usable

    def _send_waiting(self) -> None:
        if not self._waiting:
            return
        usable = self._usable()
        for one in usable:
            if not self._waiting:
                return
            if not one.load:
                one.send(self._waiting.popleft())
        while self._waiting and len(self._links) < JAVA_LINKS:
            self._open().send(self._waiting.popleft())

    def _open(self) -> MemberLink:
        link = MemberLink(self._loop, self._address, self._on_free, self._question)
        self._links.append(link)
        task = self._loop.create_task(self._connect(link))
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_connect, link))
        return link

    async def _connect(self, link: MemberLink) -> None:
        async with asyncio.timeout(CONNECT_S):
            try:
                await self._connect_to(link, self._host)
            except socket.gaierror:
                known = next(iter(self._known_ips()), None)
                if known is None:
                    raise
                await self._connect_to(link, known)

    async def _connect_to(self, link: MemberLink, host: str) -> None:
        """Connect at ``host``, the member's name or one of its addresses."""
        if self._tls is None or not await self._connect_by_tls(link, self._tls, host):
            await self._loop.create_connection(lambda: link, host, self._port)

    async def _connect_by_tls(self, link: MemberLink, tls: MemberTls, host: str) -> bool:
        """Connect by TLS; False when the member is to be called plainly."""
        if tls.is_plain(self._host, self._port):
            return False
        try:
            # R13: no request is written before ``connection_made``, which comes behind the handshake.
            await self._loop.create_connection(
                lambda: link,
                host,
                self._port,
                ssl=tls.context(),
                server_hostname=self._host,
                ssl_shutdown_timeout=CONNECT_S,
            )
        except (ssl.SSLError, ConnectionError) as error:
            if not tls.on_failure(self._host, self._port, error):
                raise
            return False
        return True

    def _on_connect(self, link: MemberLink, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):
            log.error("connecting to %s failed", self._host, exc_info=error)
        if error is not None or task.cancelled():
            link.fail()

    def _on_free(self) -> None:
        # With each answer: mostly no link is closed, and none waits.
        for one in self._links:
            if one.closed:
                self._links = [one for one in self._links if not one.closed]
                break
        if self._waiting:
            self._send_waiting()

    def expire(self, now_s: float) -> None:
        """End the requests past their deadline."""
        for link in list(self._links):
            link.expire(now_s)
        late = [one for one in self._waiting if one.deadline_s <= now_s]
        if late:
            self._waiting = deque(one for one in self._waiting if one.deadline_s > now_s)
            for one in late:
                one.tell(NotSent())
        self._links = [one for one in self._links if not one.closed]

    def close(self) -> None:
        """Cut the connections and take no more requests. Those under way end in this turn of the loop or the next."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for link in list(self._links):
            link.close()
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            one.tell(NotSent())
