"""DistroRuntime: the thread that owns the protocol, and the threads that make its calls to peers."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from distro.engine.catch_up import CatchUp
from distro.engine.local_actions import LocalActions
from distro.engine.mailbox import PeerWorker
from distro.engine.peer_call_runner import EngineParts, PeerCallRunner
from distro.engine.turns import TurnWatch
from distro.model.errors import TransportError
from distro.model.types import (
    Call,
    DistroKey,
    LocalAction,
    MemberKind,
    Report,
    SyncData,
)
from distro.protocol.protocol import DistroProtocol, Event
from distro.timing.clock import monotonic_s, process_ran_s, thread_ran_s

LOG = logging.getLogger(__name__)
BUSY_S = 0.1
"""For so long changed keys alone wake no thread while each peer has a call under way: the first that ends is followed
by the send that they wait for."""
EVENTS_S_MAX = 0.01
"""The time of events in one turn, after which the others wait for the next one, and calls that are due go first."""


class DistroRuntime:
    """The threads of one protocol. ``start`` once; the other calls come from any thread."""

    def __init__(
        self,
        protocol: DistroProtocol,
        parts: EngineParts,
        before_serving: Callable[[int], None] = lambda _now_ms: None,
        on_behind: Callable[[bool], None] = lambda _is_behind: None,
    ) -> None:
        """``before_serving``: as of ``LocalActions``; ``on_behind``: of ``CatchUp``."""
        self._protocol = protocol
        self._reader = parts.reader
        self._mailbox = parts.mailbox
        self._components = parts.components
        self._member_agent = parts.member_agent
        self._clock = parts.clock
        self._config = parts.config
        self._workers: dict[str, PeerWorker] = {}
        self._report_workers: dict[str, PeerWorker] = {}
        self._local_actions = LocalActions(parts.reader, parts.components, before_serving)
        self._calls = PeerCallRunner(parts)
        self.after_pause = CatchUp(parts, on_behind)
        self._local: PeerWorker | None = None
        self._finished: list[PeerWorker] = []
        """Workers of members that left, which may still make a call."""
        self._times = protocol.times
        self._watch = TurnWatch(protocol.times, monotonic_s, thread_ran_s)
        self._ran_s = process_ran_s()
        """How long this process had run at the last tick."""
        self._idle = threading.Event()
        self._draining = False
        self._catching_up: deque[threading.Event] = deque()
        """Set when nothing is due or under way any more. Of the thread that owns the protocol."""
        self._thread = threading.Thread(target=self._run, name="distro-timer", daemon=False)

    def start(self) -> None:
        """Start the thread that owns the protocol."""
        self._thread.start()

    def replace_members(self, addresses: tuple[str, ...]) -> None:
        """Take a new member list. Returns at once."""

        def replace(protocol: DistroProtocol, now_ms: int) -> None:
            protocol.replace_members(addresses, now_ms)
            self._finish_workers(frozenset(addresses))
            self._calls.forget_others(frozenset(addresses))

        self._mailbox.put(replace, urgent=True)

    def leave(self) -> None:
        """Claim no more keys, and report to all peers that this node is going. Returns at once; signal-safe."""
        self._mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms), urgent=True)

    def drain(self, enabled: bool) -> None:
        """Claim no more keys and tell the peers, as before the end, or claim again. Returns at once."""
        self._mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms, leaving=enabled), urgent=True)

    def catch_up(self, timeout_s: float) -> bool:
        """Have all done that is due by the clock, which was put forward; return whether that is done, with its calls.

        From any thread but that of the protocol. Keys that wait for their turn, or for a peer, are not waited for.
        """
        done = threading.Event()
        self._mailbox.put(lambda _protocol, _now_ms: self._catching_up.append(done), urgent=True)
        return done.wait(timeout_s)

    def halt(self) -> None:
        """End the thread that owns the protocol: nothing more is sent or told, as at the end of a killed process."""
        self.after_pause.stop()
        self._mailbox.close()
        if self._thread.ident is not None:
            self._thread.join()

    def stop(self, timeout_s: float) -> bool:
        """Send changes that are due for at most ``drain_ms_max``, then end all threads; return whether all ended.

        May be called twice, and without a start: then it closes the agents.
        """
        end_s = monotonic_s() + timeout_s
        self._local_actions.stop()
        self.after_pause.stop()
        if self._thread.is_alive():
            self._draining = True
            self._mailbox.put(lambda _protocol, _now_ms: None, urgent=True)
            is_over = self._idle.wait(min(timeout_s, self._config.drain_ms_max / 1_000))
            self._tell_hand_over(is_over=is_over)
            self._leave(max(end_s - monotonic_s(), 0.1))
        for component in self._components.values():
            component.agent.close()  # a peer that does not answer must not delay the end
        self._mailbox.close()
        if self._thread.ident is not None:
            self._thread.join(max(end_s - monotonic_s(), 0.1))
        local = [] if self._local is None else [self._local]
        workers = [*self._workers.values(), *self._report_workers.values(), *self._finished, *local]
        for worker in workers:
            worker.finish()
        ended = [worker.join(max(end_s - monotonic_s(), 0.1)) for worker in workers]
        ended.append(self.after_pause.join(max(end_s - monotonic_s(), 0.1)))
        return all(ended) and not self._thread.is_alive()

    def _tell_hand_over(self, *, is_over: bool) -> None:
        """Log whether the other members have all that was changed here."""
        view = self._reader.view
        peers = [one.address for one in view.members.listed if view.members.is_reachable(one.address)]
        left = {peer: count for peer, count in view.pending_keys().items() if count and peer in peers}
        if view.members.listed and not peers:
            LOG.warning("no other member can be reached: the last changes of this member stay on this member")
        elif left:
            text = ", ".join(f"{count} changes for {peer}" for peer, count in left.items())
            LOG.warning("this member ends before it has handed everything over: %s", text)
        elif peers:
            LOG.info("handed over to %s%s", ", ".join(peers), "" if is_over else ", apart from a call under way")

    def _leave(self, timeout_s: float) -> None:
        """Report to the members of our kind that this one is going: its keys move at once."""
        ended = threading.Semaphore(0)
        reports, members = 0, self._reader.view.members
        for member in members.listed:
            worker = self._report_workers.get(member.address)
            if worker is None or member.kind is not MemberKind.OWN:
                continue
            if not members.is_reachable(member.address):
                continue
            reports += 1

            def report(peer: str = member.address) -> None:
                try:
                    self._member_agent.report(peer, self._config.report_timeout_ms)
                except TransportError as error:
                    LOG.info("could not notify %s that this member leaves: %s", peer, error)
                finally:
                    ended.release()

            worker.put(report, "Report")
        end_s = monotonic_s() + timeout_s
        for _ in range(reports):
            ended.acquire(timeout=max(end_s - monotonic_s(), 0.0))

    # --- the thread that owns the protocol -------------------------------------------------------

    def _run(self) -> None:
        wait_s = gather_s = busy_s = 0.0
        while True:
            events, keys, closed = self._mailbox.take(wait_s, leave_keys_s=busy_s, leave_ends_s=gather_s)
            if closed:
                return
            # Keys that come now wait for the spacing anyway: a wake-up for each would cost more than everything else
            # here.
            gather_s = self._config.sync_spacing_ms / 1_000 if keys else 0.0
            busy_s = 0.0
            try:
                wait_s = self._turn(events, keys)
                now_ms = self._clock.monotonic_ms()
                gather_s = max(gather_s, self._protocol.gathers_ms(now_ms) / 1_000)
                busy_s = BUSY_S if self._protocol.peers.is_busy(now_ms) else 0.0
            except Exception:
                LOG.exception("the engine failed unexpectedly, and continues")
                wait_s = 1.0
            self._watch.end()

    def _turn(self, events: list[Event], keys: Mapping[DistroKey, float]) -> float:
        protocol, watch = self._protocol, self._watch
        watch.begin()
        now_ms = self._clock.monotonic_ms()
        for number, event in enumerate(events, 1):
            try:
                event(protocol, now_ms)
            except Exception:
                LOG.exception("an event of the engine failed unexpectedly; the others are handled")
            if watch.did(event) >= EVENTS_S_MAX and number < len(events):
                self._mailbox.put_back(events[number:])
                break
        if keys:
            protocol.sync(keys, now_ms)
        watch.did(f"{len(keys)} changed keys")
        ran_s, self._ran_s = self._ran_s, process_ran_s()
        actions, next_ms = protocol.tick(now_ms, int((self._ran_s - ran_s) * 1_000))
        watch.did("the tick")
        for action in actions:
            if isinstance(action, LocalAction):
                self._local_worker().put(partial(self._execute_here, action), type(action).__name__)
            elif not (isinstance(action, SyncData) and self._calls.sync_at_once(action)):
                self._worker_of(action).put(partial(self._calls.execute, action), type(action).__name__)
        watch.did(f"{len(actions)} actions")
        if self._draining and protocol.pending() == 0 and self._mailbox.is_empty:
            self._idle.set()
        left_ms = next_ms - self._clock.monotonic_ms()
        while self._catching_up and left_ms > 0 and not protocol.is_calling() and self._mailbox.is_empty:
            self._catching_up.popleft().set()
        return max(left_ms, 0) / 1_000

    def workers(self) -> dict[str, dict[str, object]]:
        """Return the work of each thread of this engine, by its name. Any thread. Shape: as ``PeerWorker.facts``."""
        data = {f"distro-peer-{peer}": worker for peer, worker in self._workers.copy().items()}
        reports = {f"distro-report-{peer}": worker for peer, worker in self._report_workers.copy().items()}
        local = {} if self._local is None else {"distro-local": self._local}
        return {name: worker.facts() for name, worker in (data | reports | local).items()}

    def _local_worker(self) -> PeerWorker:
        """The thread of actions that call no peer, and would hold up this one (R11)."""
        if self._local is None:
            self._local = PeerWorker("distro-local")
        return self._local

    def _execute_here(self, action: LocalAction) -> None:
        begun_s = monotonic_s()
        try:
            event = self._local_actions.run(action, self._clock.monotonic_ms())
        except Exception:
            LOG.exception("%s failed unexpectedly", type(action).__name__)
            event = self._local_actions.failed(action)
        self._times.note_action(type(action).__name__, monotonic_s() - begun_s)
        self._mailbox.put(event, urgent=True)

    def _worker_of(self, action: Call) -> PeerWorker:
        """The peer's thread for reports or for data: two, as a long send must not make this member look dead."""
        workers, kind = (self._report_workers, "report") if isinstance(action, Report) else (self._workers, "peer")
        if action.peer not in workers:
            workers[action.peer] = PeerWorker(f"distro-{kind}-{action.peer}")
        return workers[action.peer]

    def _finish_workers(self, listed: frozenset[str]) -> None:
        """Let the threads of members that left the list end, each with the call that it makes."""
        self._finished = [worker for worker in self._finished if not worker.join(0)]
        for workers in (self._workers, self._report_workers):
            for peer in workers.keys() - listed:
                worker = workers.pop(peer)
                worker.finish()
                self._finished.append(worker)
