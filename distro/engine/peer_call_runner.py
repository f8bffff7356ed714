"""PeerCallRunner: the calls that the protocol asks for, each made on a thread of its peer."""

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock

from distro.engine.mailbox import Mailbox
from distro.engine.peer_sends import PeerSends
from distro.engine.snapshot_pages import SnapshotPages
from distro.model.config import DistroConfig
from distro.model.errors import CodecError, ForbiddenError, NotInitialized, RejectedError, TransportError
from distro.model.monitor import DistroStats
from distro.model.ports import Clock, Component, Components, MemberAgent
from distro.model.types import (
    Call,
    Compare,
    Datum,
    DigestFindings,
    Load,
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
from distro.protocol.engine_reader import EngineReader
from distro.protocol.samples import sums_of
from distro.receive.receive import DistroReceiver
from distro.timing.clock import boot_s
from distro.timing.sliced import paced
from distro.verify.comparison import Comparison

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts that the threads of one engine share."""

    reader: EngineReader
    receiver: DistroReceiver
    mailbox: Mailbox
    components: Components
    member_agent: MemberAgent
    clock: Clock
    config: DistroConfig
    stats: DistroStats
    now_s: Callable[[], float] = boot_s
    """As of the mailbox, whose changes the ends of calls are dated against: the time in seconds of the clock that the
    protocol's ms are of."""


class PeerCallRunner:
    """Makes calls to peers, and puts how each ended into the mailbox. Calls of several threads at a time."""

    def __init__(self, parts: EngineParts) -> None:
        self._reader = parts.reader
        self._stats = parts.stats
        self._receiver = parts.receiver
        self._mailbox = parts.mailbox
        self._components = parts.components
        self._member_agent = parts.member_agent
        self._clock = parts.clock
        self._config = parts.config
        self._now_s = parts.now_s
        self._sends = PeerSends(parts.components, parts.reader, parts.stats)
        self._sums = SharedSums(parts.clock.monotonic_ms)
        self._checksums = OwnChecksums(parts.components, parts.reader)

    def forget_others(self, listed: frozenset[str]) -> None:
        """Forget what was sent to members that are not listed any more."""
        self._sends.forget_others(listed)

    def execute(self, action: Call) -> None:
        """Make the call; however it ends, its end is put into the mailbox."""
        try:
            match action:
                case Report():
                    self._report(action)
                case SyncData():
                    self._sync(action)
                case Verify():
                    self._verify(action)
                case Compare():
                    self._compare(action)
                case Query():
                    self._query(action)
                case Load():
                    self._load(action)
        except TransportError as error:
            self._fail(action, error)
        except Exception:
            # By its name: a verify round names a hundred thousand keys.
            LOG.exception("%s to %s failed unexpectedly", type(action).__name__, action.peer)
            self._end(action, Outcome.FAILED)

    def sync_at_once(self, action: SyncData) -> bool:
        """Make a send that takes a moment and waits for nothing; False, with nothing done, for any other.

        For the thread that owns the protocol: a change of one instance is gone before a peer's thread would be woken,
        and several peers' threads get in each other's way.
        """
        callbacks = self._components[action.resource_type].callbacks
        if callbacks is None or not callbacks.sends_small or not callbacks.takes(action.peer):
            return False
        try:
            datums = self._sends.read_small(action)
            if datums is None:
                return False
            sent = partial(self._sent, action, datums)
            if not callbacks.start_small_sync(action.peer, datums, self._left_ms(action), sent):
                return False
            self._stats.sync_deltas += len(datums)
        except Exception:
            LOG.exception("%s to %s failed unexpectedly", type(action).__name__, action.peer)
            self._end(action, Outcome.FAILED)
        return True

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
        keys: frozenset[str] | None = None,
        compared: Mapping[str, DigestFindings] | None = None,
    ) -> None:
        result, ended_s = received or Received(), self._now_s()

        put = partial(self._mailbox.put, urgent=True)
        match action:
            case Report():
                put(lambda protocol, now_ms: protocol.on_report_done(action.peer, outcome, report, now_ms))
            case SyncData():
                # Nothing follows from an end without findings before the next send, which is not due as yet.
                found = result.refused or result.failed or result.wanted
                put(
                    lambda protocol, now_ms: protocol.on_sync_done(action, outcome, result, now_ms, ended_s),
                    waits=outcome is Outcome.DELIVERED and not found,
                )
            case Verify():
                put(lambda protocol, now_ms: protocol.on_verify_done(action, outcome, result, now_ms))
            case Compare():
                put(lambda protocol, now_ms: protocol.on_compare_done(action, outcome, compared or {}, now_ms))
            case Query():
                put(lambda protocol, now_ms: protocol.on_query_done(action, outcome, versions or {}, now_ms))
            case Load():
                put(lambda protocol, now_ms: protocol.on_load_done(action, outcome, keys, now_ms))

    def _fail(self, action: Call, error: TransportError) -> None:
        if isinstance(error, RejectedError):
            outcome = Outcome.REJECTED
        elif isinstance(error, ForbiddenError):
            outcome = Outcome.FORBIDDEN
        else:
            outcome = Outcome.REFUSED if error.refused else Outcome.FAILED
        LOG.debug("%s to %s: %s", type(action).__name__, action.peer, error)
        self._end(action, outcome)

    def _ended(self, action: Verify, result: Received | TransportError) -> None:
        """Take the end of a verify round by ``DistroCallbackAgent``."""
        if isinstance(result, TransportError):
            self._fail(action, result)
        else:
            self._end(action, Outcome.DELIVERED, received=result)

    def _report(self, action: Report) -> None:
        answer = self._member_agent.report(action.peer, self._left_ms(action))
        self._end(action, Outcome.DELIVERED, report=answer)

    def _sync(self, action: SyncData) -> None:
        component = self._components[action.resource_type]
        datums = self._sends.read(action)
        if not datums:
            self._end(action, Outcome.DELIVERED)
            return
        left_ms = self._left_ms(action)
        if (callbacks := component.callbacks) is not None and callbacks.takes(action.peer):
            callbacks.start_sync(action.peer, datums, left_ms, partial(self._sent, action, datums))
            return
        received = self._sends.ended(action, datums, component.agent.sync_data(action.peer, datums, left_ms))
        self._end(action, Outcome.DELIVERED, received=received)

    def _sent(self, action: SyncData, datums: list[Datum], result: Received | TransportError) -> None:
        """Take the end of a send by ``DistroCallbackAgent``."""
        if isinstance(result, TransportError):
            self._fail(action, result)
        else:
            self._end(action, Outcome.DELIVERED, received=self._sends.ended(action, datums, result))

    def _verify(self, action: Verify) -> None:
        component = self._components[action.resource_type]
        summary: dict[str, str]
        if self._reader.view.members.kind(action.peer) is MemberKind.OWN:
            stored = ((key, component.store.version(key)) for key in action.keys)
            summary = {key: version.to_text() for key, version in stored if version is not None}
        else:
            summary = self._checksums.of(action.resource_type)
        left_ms = self._left_ms(action)
        if (callbacks := component.callbacks) is not None and callbacks.takes(action.peer):
            callbacks.start_verify(action.peer, summary, left_ms, partial(self._ended, action))
            return
        received = component.agent.verify(action.peer, summary, left_ms)
        self._end(action, Outcome.DELIVERED, received=received)

    def _compare(self, action: Compare) -> None:
        now_ms = self._clock.monotonic_ms()
        comparison = Comparison(action, self._components, self._reader, now_ms, self._sums.of)
        agent, message = self._components[action.resource_types[0]].agent, comparison.request()
        try:
            while (
                following := comparison.answered(agent.compare(action.peer, message, self._left_ms(action)))
            ) is not None:
                message = following
        except CodecError as error:
            raise TransportError(f"the peer's digests cannot be read: {error}") from error
        self._end(action, Outcome.DELIVERED, compared=comparison.compared())

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
        agent = self._components[action.resource_type].agent
        snapshot = agent.load(action.peer, self._left_ms(action))
        if isinstance(snapshot, Mapping):
            self._load_pages(action, snapshot)
            return
        if snapshot is not None:
            self._receiver.load(action.resource_type, snapshot, self._clock.monotonic_ms(), action.peer)
        keys = None if snapshot is None else frozenset(one.key for one in snapshot)
        self._end(action, Outcome.DELIVERED, keys=keys)

    def _load_pages(self, action: Load, versions: Mapping[str, Version]) -> None:
        """Take the peer's datums that this member lacks, page by page, for as long as the call may take."""
        resource_type, receiver = action.resource_type, self._receiver
        agent = self._components[resource_type].agent
        page_ms = self._config.sync_timeout_ms
        pages = SnapshotPages(
            versions,
            lacks=partial(receiver.lacks, resource_type),
            fetch=lambda keys: agent.page(
                action.peer, keys, min(self._left_ms(action), page_ms) if len(keys) > 1 else self._left_ms(action)
            ),
            take=lambda datums: receiver.load(resource_type, datums, self._clock.monotonic_ms(), action.peer),
            shuffle=random.shuffle,
        )
        try:
            while not pages.is_done and self._clock.monotonic_ms() < action.deadline_ms:
                pages.next_page()
        except TransportError:
            if not pages.taken:
                raise
        for key in pages.unfit:
            self._stats.keys_unfit += 1
            LOG.error("%s of %s is not loaded: it is too large for one call, or cannot be read", key, action.peer)
        if pages.is_done:
            self._end(action, Outcome.DELIVERED, keys=frozenset(versions))
        elif pages.taken:
            self._mailbox.put(lambda protocol, now_ms: protocol.on_load_part(action, now_ms), urgent=True)
        else:
            self._end(action, Outcome.FAILED)


SHARED_MS = 1_000
"""Sums are sent to several peers for so long: rounds with all of them begin at nearly the same time."""


class SharedSums:
    """``sums_of`` for all peers of a member that compare the same leaves at nearly the same time. Thread-safe.

    One that is asked while another thread computes the same waits for that.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = Lock()
        self._last: dict[str, tuple[tuple[str, range, int], int, dict[int, int]]] = {}
        """The last question, its time and the sums, by resource type."""

    def of(self, resource_type: str, component: Component, writer: str, leaves: range) -> dict[int, int]:
        """The sums of a resource type. Shape: as of ``sums_of``; not to be changed."""
        with self._lock:
            asked, begun_ms = (writer, leaves, component.digest.root()), self._now_ms()
            last = self._last.get(resource_type)
            if last is not None and last[0] == asked and begun_ms - last[1] <= SHARED_MS:
                return last[2]
            sums = sums_of(component, writer, leaves)
            self._last[resource_type] = asked, begun_ms, sums
            return sums


class OwnChecksums:
    """Made by the threads that call peers, with rests. A list's checksum is computed once for each of its versions.

    So however many members of real Nacos there are, a round costs what changed, and a look at each key. Which keys a
    round names is not kept: they remove what it does not name, so it has to have all that was sent to them before.
    """

    def __init__(self, components: Components, reader: EngineReader) -> None:
        self._components = components
        self._reader = reader
        self._known: dict[str, dict[str, tuple[Version, str]]] = {}
        """The checksums, by resource type and key; another mapping after each round, as several threads make them."""

    def of(self, resource_type: str) -> dict[str, str]:
        """The checksum of each key that this run wrote and is responsible for."""
        component = self._components[resource_type]
        # Clients by address have one version for ever; their checksum is their revision, which is kept with them.
        is_kept = MemberKind.NACOS_1 in component.taken_by
        known, now = self._known.get(resource_type, {}), dict[str, tuple[Version, str]]()
        for key, version in paced(self._own(resource_type, component)):
            before = known.get(key)
            if before is None or before[0] != version or not is_kept:
                datum = next(iter(component.store.datums([key])), None)
                if datum is None:
                    continue
                before = datum.version, component.codec.checksum(datum)
            now[key] = before
        self._known[resource_type] = now if is_kept else {}
        return {key: checksum for key, (_, checksum) in now.items()}

    def _own(self, resource_type: str, component: Component) -> Iterable[tuple[str, Version]]:
        mapper = self._reader.mapper_of(resource_type)
        for key, version in component.store.versions().items():
            if version.writer == self._reader.own_writer and mapper.responsible(component.store.tag(key)):
                yield key, version
