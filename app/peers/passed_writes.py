"""The one forwarder: passes calls on to the member that owns them, from the event loop, and never executes one twice.

A hot call goes to a Rollcall member as it came, pipelined. The owner's answer brings the changed instance, which
is applied here before the client is answered, so that the client reads its own write here at once; if it does not fit
the list here, and the owner's send does not come, the owner is asked for the list. A call for which a thread waits, and
every call to real Nacos, goes in Nacos's form, one at a time on a connection.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from app.commands.member_writes import MemberAnswer
from app.commands.ownership import Forward
from app.commands.write_caller import SHORT_CHANGE
from app.naming.changes import TakenChange
from app.peers.headers import CHANGE, CLOCK, NOT_RESPONSIBLE, RELAY, WANTS_CHANGE
from app.peers.link import MemberLinks
from app.peers.link_results import LinkAnswer, LinkResult, NotAnswered, NotSent
from app.peers.owner_forwarder import BUSY, FORWARD_MS_MAX, WaitingCall, silent_text, unseen_text
from app.peers.peer_parts import ClientCall, MemberRequest, PeerParts, Replies
from app.peers.signed_requests import OwnRequests, nacos_form, own_headers
from app.peers.write_batches import DoneAnswer
from app.peers.write_gathering import Alone, WriteBatches
from distro.model.errors import CodecError
from distro.model.types import CAPABILITY_WRITES

FORWARD_S_MAX = FORWARD_MS_MAX / 1_000
HOLD_S = 0.05
"""The time that a call that was not executed waits before its owner is looked up and asked again."""
EXPIRE_S = 0.1
HELD_MAX = 4_096
ASK_AFTER_S = 0.1
"""The time that an answer waits for the owner's send if its change does not fit; then the datum is fetched."""
LOOK_S = 0.002
"""The first pause between two looks whether that datum has come; each further one is half as long again."""
FETCHES_MAX = 64
"""Datums that are fetched, or wait for that."""
FETCH_THREADS = 2
_NOT_RESPONSIBLE = NOT_RESPONSIBLE.lower().encode()
_CHANGE = CHANGE.encode()
_CLOCK = CLOCK.encode()
_NOT_EXECUTED_503 = b"server is "
"""The beginning of the answer of a member that does not serve yet, or not any more."""
_NOT_EXECUTED_400 = b"receive invalid redirect request"

log = logging.getLogger(__name__)

A = TypeVar("A", bound=MemberAnswer)
R = TypeVar("R")
"""The outcome of a call that is executed here."""


class LoopForwarder(Generic[A]):
    """Owns the connections to the members. Used on the loop's thread only, except for ``request_maker``."""

    def __init__(self, services: PeerParts, loop: asyncio.AbstractEventLoop, replies: Replies[A]) -> None:
        """``replies``: makes answers in the frontend's form."""
        self._services = services
        self.replies = replies
        self.cluster, self.naming = services.cluster, services.naming
        self.loop = loop
        self.stats = services.forwarder.stats
        self._signer = services.signer
        self.requests = OwnRequests(services)
        self.batches = WriteBatches(services, loop, self)
        self._own_headers = own_headers(services.cluster.self_address)
        self._pipelined: dict[str, MemberLinks] = {}
        self._in_turn: dict[str, MemberLinks] = {}
        """Apart: a pipelined call would wait behind one that the owner writes to its disk."""
        self.held = 0
        """Calls that wait before their owner is asked again."""
        self._fetching: set[tuple[str, str]] = set()
        """Members with the keys of datums that are fetched from them."""
        self.fetchers = ThreadPoolExecutor(FETCH_THREADS, thread_name_prefix="http-datums")
        self._expiring: asyncio.TimerHandle | None = None
        self._last_sent = "", 0
        """The last stamp of an answer, which all changes in a batch share, and when that was."""
        self._closed = False

    def forward(self, call: ClientCall, to: Forward, run: Callable[[], R], done: Callable[[A | R], None]) -> None:
        """Have the owner answer a hot call; ``done`` is called once, soon after ``FORWARD_S_MAX`` at the latest.

        ``run`` executes the call here, should this node become its owner then; a Forward from it means: not yet.
        """
        if self.held >= HELD_MAX:
            self.refuse_busy(done)
            return

        def request_to(member: str, more: Mapping[str, str]) -> tuple[bytes, bool]:
            if CAPABILITY_WRITES in self.cluster.capabilities(member):
                return self.requests.bytes_for_own(member, call, more), True
            return self.request_maker(call)(member, more), False

        find_owner = partial(self.cluster.map_srv, to.tag)
        left_s = FORWARD_S_MAX
        if (deadline := call.deadline) is not None:
            left_s = min(left_s, self.cluster.left_ms(deadline) / 1_000)
        is_relayed = call.header(RELAY) is not None
        one = ForwardedCall(self, find_owner, request_to, run, done, self.loop.time() + left_s, is_relayed=is_relayed)
        one.go(call if deadline is None and not is_relayed else None, to.owner)

    def request_maker(self, request: MemberRequest) -> Callable[[str, Mapping[str, str]], bytes]:
        """Return a function from an address and headers to the bytes, in Nacos's form. For any thread."""
        return nacos_form(request, self._own_headers, self._signer)

    def forward_waiting(self, waiting: WaitingCall[A], left_s: float, *, hold_first: bool) -> None:
        """Have the owner answer a call for which a thread waits, by the rules of ``forward``, within ``left_s``.

        ``hold_first``: after a pause, as for a call that was not executed.
        """

        def request_to(member: str, more: Mapping[str, str]) -> tuple[bytes, bool]:
            waiting.hop = member
            # As for a call of the loop: the client sees its own write here at once.
            if waiting.wants_change and CAPABILITY_WRITES in self.cluster.capabilities(member):
                more = {**more, WANTS_CHANGE: SHORT_CHANGE}
            return waiting.request_to(member, more), False

        if self.held >= HELD_MAX:
            self.refuse_busy(waiting.answer)
            return
        end_s = self.loop.time() + left_s
        call = ForwardedCall(
            self, waiting.find_owner, request_to, _left_to_thread, waiting.answer, end_s, is_relayed=waiting.is_relayed
        )
        if hold_first:
            call.hold_first()
        else:
            call.go()

    def ask(
        self, member: str, request: bytes, deadline_s: float, done: Callable[[LinkResult], None], *, own_kind: bool
    ) -> bool:
        """Send bytes to a member, pipelined (``own_kind``) or in turn; False when too many requests wait for it."""
        if self._closed:
            return False
        if self._expiring is None:
            self._expiring = self.loop.call_later(EXPIRE_S, self._expire)
        links_of = self._pipelined if own_kind else self._in_turn
        links = links_of.get(member)
        if links is None:
            self._forget_removed()
            links = links_of[member] = MemberLinks(
                self.loop, member, self._services.tls.members, self._services.senders.ips_of, self._signer.question
            )
        return links.ask(request, deadline_s, done, pipelined=own_kind)

    def close(self) -> None:
        """Close the connections and send nothing more. Calls under way are answered 503, soon after."""
        self._closed = True
        if self._expiring is not None:
            self._expiring.cancel()
        for links in (*self._pipelined.values(), *self._in_turn.values()):
            links.close()
        self._pipelined, self._in_turn = {}, {}
        self.fetchers.shutdown(wait=False, cancel_futures=True)

    def fetch_datum(self, member: str, key: str, deadline_s: float) -> None:
        """Fetch a datum from a member by ``deadline_s``, next to the loop; no more than one call for it at a time."""
        at = (member, key)
        if self._closed or at in self._fetching or len(self._fetching) >= FETCHES_MAX:
            return

        def fetch() -> None:
            left_ms = int((deadline_s - self.loop.time()) * 1_000)
            if left_ms > 0:
                self._services.replication.refresh(member, (key,), left_ms)

        def fetched(_future: object) -> None:
            self._fetching.discard(at)

        self._fetching.add(at)
        self.loop.run_in_executor(self.fetchers, fetch).add_done_callback(fetched)

    def _forget_removed(self) -> None:
        known = {one.address for one in self.cluster.members()}
        for links_of in (self._pipelined, self._in_turn):
            for address in links_of.keys() - known:
                links_of.pop(address).close()

    def _expire(self) -> None:
        now_s = self.loop.time()
        for links in (*self._pipelined.values(), *self._in_turn.values()):
            links.expire(now_s)
        self._expiring = self.loop.call_later(EXPIRE_S, self._expire)

    def sent_ms(self, clock: str) -> int:
        """Return when an answer with this stamp was sent, by our monotonic clock."""
        if clock != self._last_sent[0] or not clock:
            # It may have waited in a socket of this process. A stamp has the run, which begins with the address.
            self._last_sent = clock, self.cluster.sent_ms(clock.partition("~")[0], clock)
        return self._last_sent[1]

    def refuse_busy(self, done: Callable[[A], None]) -> None:
        """Answer a call that may not wait here, as too many do."""
        self.stats.forward_busy += 1
        done(self.replies.refuse(503, BUSY))


def not_executed(status: int, answer: bytes, refused: bool) -> bool:
    """Return whether a member did not execute the call: it does not serve, or (``refused``) says it is not the owner.

    It says the latter, too, if its member list lacks this node: for a moment, the lists of two members may differ.
    """
    if status == 503:
        return answer.startswith(_NOT_EXECUTED_503)
    if status == 403:
        return refused
    return status == 400 and (refused or _NOT_EXECUTED_400 in answer)


def _left_to_thread() -> None:
    """Do nothing: this node is the owner by now, and the thread that waits executes the call."""


class ForwardedCall(Generic[A, R]):
    """One call until its owner has answered, or its time is over.

    A call that was sent and not answered is never sent again; one that was not executed is repeated until the deadline.
    """

    __slots__ = (
        "_deadline_s",
        "_done",
        "_find_owner",
        "_forwarder",
        "_hop",
        "_is_held",
        "_is_relayed",
        "_is_signed_anew",
        "_member",
        "_request_to",
        "_run",
    )

    def __init__(
        self,
        forwarder: LoopForwarder[A],
        find_owner: Callable[[], str],
        request_to: Callable[[str, Mapping[str, str]], tuple[bytes, bool]],
        run: Callable[[], R],
        done: Callable[[A | R], None],
        deadline_s: float,
        *,
        is_relayed: bool,
    ) -> None:
        """``request_to(member, headers)``: the bytes to send, with these headers, and whether they go pipelined.

        ``is_relayed``: a member passed the call on that cannot call the owner; it goes to the owner now, or nowhere.
        """
        self._forwarder = forwarder
        self._find_owner = find_owner
        self._request_to = request_to
        self._run = run
        self._done = done
        self._member = self._hop = ""
        self._deadline_s = deadline_s
        self._is_held = False
        self._is_relayed = is_relayed
        self._is_signed_anew = False

    def go(self, client_call: ClientCall | None = None, owner: str = "") -> None:
        """Send the call to the member that owns it now; execute it here when that is this node.

        ``client_call``: of a client, which may go in a batch the first time that it is sent. ``owner``: if known.
        """
        forwarder = self._forwarder
        forwarder.held -= self._is_held
        self._is_held = False
        member = self._member = self._hop = owner or self._find_owner()
        if client_call is not None and forwarder.batches.join(member, client_call, self._on_batched):
            return
        if member == forwarder.cluster.self_address:
            self._run_here()
            return
        hop = forwarder.cluster.next_hop(member)
        self._hop = hop or ""
        if hop is None or (hop != member and self._is_relayed):
            self.hold()
            return
        batches, once = forwarder.batches, client_call if hop == member else None
        if once is not None and batches.add(hop, once, self._deadline_s, self._on_batched):
            return
        self._send(hop, relay=hop != member)

    def _send(self, hop: str, *, relay: bool) -> None:
        """Send the call to a member, by itself."""
        forwarder = self._forwarder
        left_ms = int((self._deadline_s - forwarder.loop.time()) * 1_000)
        request, own_kind = self._request_to(hop, forwarder.requests.hop_headers(hop, left_ms, relay=relay))
        if not forwarder.ask(hop, request, self._deadline_s, self._on_result, own_kind=own_kind):
            forwarder.refuse_busy(self._done)

    def _on_batched(self, result: LinkResult | DoneAnswer | Alone | None) -> None:
        if isinstance(result, DoneAnswer):
            self._forwarder.stats.forward_answered += 1
            change, clock = result
            if change is None:
                self._done(self._forwarder.replies.ok)
            else:
                self._take(change, clock, self._forwarder.replies.ok)
        elif isinstance(result, Alone):
            self._send(self._hop, relay=False)
        elif result is None:
            self.go()
        else:
            self._on_result(result)

    def _run_here(self) -> None:
        answer = self._run()
        if isinstance(answer, Forward):
            self.hold()
        else:
            self._done(answer)

    def _on_result(self, result: LinkResult) -> None:
        match result:
            case NotSent():
                self.hold()
            case NotAnswered():
                # It may have been executed: only the client knows whether it may be sent again.
                self._give_up()
            case LinkAnswer(status, body, headers):
                if not self._is_signed_anew and self._forwarder.requests.learn(self._hop, result):
                    self._is_signed_anew = True
                    self.go()
                elif not_executed(status, body, _NOT_RESPONSIBLE in headers):
                    self.hold()
                else:
                    self._answer(result)

    def _answer(self, result: LinkAnswer) -> None:
        forwarder = self._forwarder
        forwarder.stats.forward_answered += 1
        headers, replies = result.headers, forwarder.replies
        change = headers.get(_CHANGE)
        if change is None:
            self._done(replies.of_member(result.status, result.body, headers))
            return
        clock = headers.get(_CLOCK, b"").decode("latin-1")
        if self._is_relayed:
            told = {CHANGE: change.decode("latin-1")} | ({CLOCK: clock} if clock else {})
            reply = replies.relayed(result.status, result.body, headers, told)
        else:
            reply = replies.of_member(result.status, result.body, headers)
        self._take(change, clock, reply)

    def _take(self, change: bytes | dict[str, Any], clock: str, reply: A) -> None:
        """Give the client the reply once the change that its write made is known here."""
        forwarder = self._forwarder
        try:
            taken = forwarder.naming.take_change(change, forwarder.sent_ms(clock))
        except CodecError as error:
            log.warning("the change in an answer of %s cannot be read: %s", self._member, error)
            self._done(reply)
            return
        if taken.is_known():
            self._done(reply)
        else:
            self._wait(taken, reply, forwarder.loop.time() + ASK_AFTER_S, LOOK_S)

    def _wait(self, taken: TakenChange, reply: A, ask_s: float, wait_s: float) -> None:
        """Answer as soon as the change is known here; from ``ask_s`` on its datum is fetched, until the deadline."""
        if taken.is_known():
            self._done(reply)
            return
        loop = self._forwarder.loop
        now_s = loop.time()
        if now_s >= self._deadline_s:
            self._forwarder.stats.forward_unseen += 1
            self._done(self._forwarder.replies.refuse(503, unseen_text(self._member)))
            return
        if now_s >= ask_s:
            self._forwarder.fetch_datum(self._hop, taken.key, self._deadline_s)
        loop.call_later(min(wait_s, self._deadline_s - now_s), self._wait, taken, reply, ask_s, wait_s * 1.5)

    def hold_first(self) -> None:
        """Look for the owner after a pause, as the thread asked one that did not execute the call."""
        self._member = self._find_owner()
        self.hold()

    def hold(self) -> None:
        """Look for the owner again after ``HOLD_S``, as the call was not executed; give up after the deadline."""
        forwarder = self._forwarder
        left_s = self._deadline_s - forwarder.loop.time()
        if left_s <= 0:
            self._give_up()
            return
        forwarder.stats.forward_held += 1
        forwarder.held += 1
        self._is_held = True
        forwarder.loop.call_later(min(left_s, HOLD_S), self.go)

    def _give_up(self) -> None:
        self._forwarder.stats.forward_failed += 1
        self._done(self._forwarder.replies.refuse(503, silent_text(self._member)))
