"""DistroRuntime: the thread that owns the protocol, and the threads that make its calls to peers."""

import logging
import threading
from collections.abc import Mapping
from functools import partial

from distro.clock import monotonic_s
from distro.config import DistroConfig
from distro.errors import CodecError, NotInitialized, RejectedError, TransportError
from distro.local_actions import LocalActions
from distro.mailbox import Event, Mailbox, PeerWorker
from distro.ports import Clock, Components, MemberAgent
from distro.protocol import DistroProtocol
from distro.receive import DistroReceiver
from distro.types import (
    Call,
    DistroKey,
    Load,
    LocalAction,
    MemberKind,
    Outcome,
    PeerReport,
    Query,
    Received,
    Report,
    SyncData,
    Verify,
    Version,
)

LOG = logging.getLogger(__name__)


class DistroRuntime:
    """The threads of one protocol. ``start`` once; the other calls come from any thread."""

    def __init__(
        self,
        protocol: DistroProtocol,
        receiver: DistroReceiver,
        mailbox: Mailbox,
        components: Components,
        member_agent: MemberAgent,
        clock: Clock,
        config: DistroConfig,
    ) -> None:
        self._protocol = protocol
        self._receiver = receiver
        self._mailbox = mailbox
        self._components = components
        self._member_agent = member_agent
        self._clock = clock
        self._config = config
        self._workers: dict[str, PeerWorker] = {}
        self._report_workers: dict[str, PeerWorker] = {}
        self._local_actions = LocalActions(protocol, components)
        self._local: PeerWorker | None = None
        self._finished: list[PeerWorker] = []
        """Those of members that left, which may still make a call."""
        self._idle = threading.Event()
        self._draining = False
        self._thread = threading.Thread(target=self._run, name="distro-timer", daemon=False)

    def start(self) -> None:
        """Start the thread that owns the protocol."""
        self._thread.start()

    def replace_members(self, addresses: tuple[str, ...]) -> None:
        """Take a new member list. Returns at once."""

        def replace(protocol: DistroProtocol, now_ms: int) -> None:
            protocol.replace_members(addresses, now_ms)
            self._finish_workers(frozenset(addresses))

        self._mailbox.put(replace, urgent=True)

    def on_report(self, report: PeerReport) -> None:
        """Take a peer's report. Returns at once."""
        self._mailbox.put(lambda protocol, now_ms: protocol.on_report(report, now_ms))

    def leave(self) -> None:
        """Claim no more keys, and report to all peers that this node is going. Returns at once; signal-safe."""
        self._mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms), urgent=True)

    def drain(self, enabled: bool) -> None:
        """Claim no more keys and tell the peers, as before the end, or claim again. Returns at once."""
        self._mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms, leaving=enabled), urgent=True)

    def stop(self, timeout_s: float) -> bool:
        """Send changes that are due for at most ``drain_ms_max``, then end all threads; return whether all ended.

        May be called twice, and without a start: then it closes the agents.
        """
        end_s = monotonic_s() + timeout_s
        if self._thread.is_alive():
            self._draining = True
            self._mailbox.put(lambda _protocol, _now_ms: None, urgent=True)
            self._idle.wait(min(timeout_s, self._config.drain_ms_max / 1_000))
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
        return all(ended) and not self._thread.is_alive()

    def _leave(self, timeout_s: float) -> None:
        """Report to the members of our kind that this one is going: its keys move at once."""
        ended = threading.Semaphore(0)
        reports = 0
        for member in self._protocol.members.peers():
            worker = self._report_workers.get(member.address)
            if worker is None or member.kind is not MemberKind.OWN:
                continue
            if not self._protocol.members.is_reachable(member.address):
                continue
            reports += 1

            def report(peer: str = member.address) -> None:
                try:
                    self._member_agent.report(peer, self._config.report_timeout_ms)
                except TransportError as error:
                    LOG.info("could not tell %s that this member leaves: %s", peer, error)
                finally:
                    ended.release()

            worker.put(report)
        end_s = monotonic_s() + timeout_s
        for _ in range(reports):
            ended.acquire(timeout=max(end_s - monotonic_s(), 0.0))

    # --- the thread that owns the protocol -------------------------------------------------------

    def _run(self) -> None:
        wait_s, spacing_s = 0.0, self._config.sync_spacing_ms / 1_000
        spacing = False
        while True:
            events, keys, closed = self._mailbox.take(min(wait_s, spacing_s) if spacing else wait_s, leave_keys=spacing)
            if closed:
                return
            # Keys that come now wait for the spacing anyway: a wake-up for each would cost more than all else here.
            spacing = bool(keys)
            begun_s = monotonic_s()
            try:
                wait_s = self._turn(events, keys)
            except Exception:
                LOG.exception("the engine failed in an unforeseen way; it goes on")
                wait_s = 1.0
            self._protocol.times.turns.add(monotonic_s() - begun_s)

    def _turn(self, events: list[Event], keys: list[DistroKey]) -> float:
        protocol = self._protocol
        now_ms = self._clock.monotonic_ms()
        for event in events:
            try:
                event(protocol, now_ms)
            except Exception:
                LOG.exception("an event of the engine failed in an unforeseen way; the others go on")
        for key in keys:
            protocol.sync(key, now_ms)
        actions, next_ms = protocol.tick(now_ms)
        for action in actions:
            if isinstance(action, LocalAction):
                self._local_worker().put(partial(self._execute_here, action))
            else:
                self._worker_of(action).put(partial(self._execute, action))
        if self._draining and protocol.pending() == 0:
            self._idle.set()
        return max(next_ms - self._clock.monotonic_ms(), 0) / 1_000

    def _local_worker(self) -> PeerWorker:
        """The thread of what calls no peer, and would hold up this one (R11)."""
        if self._local is None:
            self._local = PeerWorker("distro-local")
        return self._local

    def _execute_here(self, action: LocalAction) -> None:
        try:
            event = self._local_actions.run(action, self._clock.monotonic_ms())
        except Exception:
            LOG.exception("%s failed in an unforeseen way", type(action).__name__)
            event = self._local_actions.failed(action)
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

    # --- on the peers' threads ---------------------------------------------------------------------

    def _execute(self, action: Call) -> None:
        """Make the call; however it ends, its end is put into the mailbox."""
        try:
            match action:
                case Report():
                    self._report(action)
                case SyncData():
                    self._sync(action)
                case Verify():
                    self._verify(action)
                case Query():
                    self._query(action)
                case Load():
                    self._load(action)
        except TransportError as error:
            self._fail(action, error)
        except Exception:
            LOG.exception("%s failed in an unforeseen way", action)
            self._end(action, Outcome.FAILED)

    def _left_ms(self, action: Call) -> int:
        return max(action.deadline_ms - self._clock.monotonic_ms(), 1)

    def _end(
        self,
        action: Call,
        outcome: Outcome,
        *,
        received: Received | None = None,
        report: PeerReport | None = None,
        versions: Mapping[str, Version] | None = None,
        keys: list[str] | None = None,
    ) -> None:
        result = received or Received()

        def event(protocol: DistroProtocol, now_ms: int) -> None:
            match action:
                case Report():
                    protocol.on_report_done(action.peer, outcome, report, now_ms)
                case SyncData():
                    protocol.on_sync_done(action, outcome, result, now_ms)
                case Verify():
                    protocol.on_verify_done(action, outcome, result, now_ms)
                case Query():
                    protocol.on_query_done(action, outcome, versions or {}, now_ms)
                case Load():
                    protocol.on_load_done(action, outcome, keys, now_ms)

        self._mailbox.put(event, urgent=True)

    def _fail(self, action: Call, error: TransportError) -> None:
        if isinstance(error, RejectedError):
            outcome = Outcome.REJECTED
        else:
            outcome = Outcome.REFUSED if error.refused else Outcome.FAILED
        LOG.debug("%s to %s: %s", type(action).__name__, action.peer, error)
        self._end(action, outcome)

    def _ended(self, action: SyncData | Verify, result: Received | TransportError) -> None:
        """Take the end of a call by ``DistroCallbackAgent``."""
        if isinstance(result, TransportError):
            self._fail(action, result)
        else:
            self._end(action, Outcome.DELIVERED, received=result)

    def _report(self, action: Report) -> None:
        answer = self._member_agent.report(action.peer, self._left_ms(action))
        self._end(action, Outcome.DELIVERED, report=answer)

    def _sync(self, action: SyncData) -> None:
        component = self._components[action.resource_type]
        may_send = partial(self._protocol.may_send, action.resource_type, action.peer)
        datums = [one for one in component.store.datums(action.keys) if may_send(one.key, one.version)]
        if not datums:
            self._end(action, Outcome.DELIVERED)
            return
        left_ms = self._left_ms(action)
        if (callbacks := component.callbacks) is not None and callbacks.takes(action.peer):
            callbacks.start_sync(action.peer, datums, left_ms, partial(self._ended, action))
            return
        received = component.agent.sync_data(action.peer, datums, left_ms)
        self._end(action, Outcome.DELIVERED, received=received)

    def _verify(self, action: Verify) -> None:
        component = self._components[action.resource_type]
        summary: dict[str, str]
        if self._protocol.members.kind(action.peer) is MemberKind.OWN:
            stored = ((key, component.store.version(key)) for key in action.keys)
            summary = {key: version.to_text() for key, version in stored if version is not None}
        else:
            summary = {one.key: component.codec.checksum(one) for one in component.store.datums(action.keys)}
        left_ms = self._left_ms(action)
        if (callbacks := component.callbacks) is not None and callbacks.takes(action.peer):
            callbacks.start_verify(action.peer, summary, left_ms, partial(self._ended, action))
            return
        received = component.agent.verify(action.peer, summary, left_ms)
        self._end(action, Outcome.DELIVERED, received=received)

    def _query(self, action: Query) -> None:
        component = self._components[action.resource_type]
        datums = component.agent.query(action.peer, action.keys, self._left_ms(action))
        now_ms = self._clock.monotonic_ms()
        # R9: an answer that came before a pause of this process may be as old as a late send.
        fetched = now_ms <= action.deadline_ms
        try:
            self._receiver.receive(action.resource_type, action.peer, datums, now_ms, fetched=fetched)
        except (CodecError, NotInitialized) as error:
            raise TransportError(str(error)) from error
        self._end(action, Outcome.DELIVERED, versions={one.key: one.version for one in datums})

    def _load(self, action: Load) -> None:
        datums = self._components[action.resource_type].agent.load(action.peer, self._left_ms(action))
        if datums is not None:
            self._receiver.load(action.resource_type, datums, self._clock.monotonic_ms(), action.peer)
        keys = None if datums is None else [one.key for one in datums]
        self._end(action, Outcome.DELIVERED, keys=keys)
