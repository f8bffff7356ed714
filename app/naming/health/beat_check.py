"""BeatCheck: instances without beats become unhealthy, then are removed, only by the responsible member.

Most ticks have nothing to do: each service has the time of its next check (``Service.due_ms``). A tick finds the
services that are due, and the check of one finds its next time. A beat only postpones that time.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from app.naming.health.silence import RETURN_MS, Silence
from app.naming.model.events import (
    REMOVED,
    UNHEALTHY,
    Event,
    HealthChanged,
    HealthChecked,
    InstancesChanged,
    Origin,
    ServiceChanged,
)
from app.naming.model.model import NEVER_MS, NOT_DUE_MS, Service, StoredInstance
from app.naming.registry.list_upkeep import ListUpkeep
from app.naming.registry.local_writes import LocalWrites
from app.naming.registry.service_table import ServiceTable
from distro.model.types import NO_VERSION

T = TypeVar("T")
Slices = Generator[None, None, T]
"""A generator of slices: at each ``yield`` the caller may let other threads run."""

INTERVAL_MS = 1_000
"""The time from the beginning of one round to the next."""
CUT_OFF_CHECK_MS = 5_000
"""The time to the next check of an instance that is not judged because this node is cut off."""
BEHIND_MS_MIN, BEHIND_MS_MAX = 4_000, 10_000
"""Beats that another member has taken are known here after two reports at the latest.

If they are not, because its calls are lost, no instance is judged without them, up to the second bound: a link may be
cut for long, and is then not waited for.
"""
UNITS_PER_SLICE = 3_000
"""The units in a slice. A unit is the check of one instance: so many take under a millisecond."""
UNITS_AT_ONCE_MAX = 10_000
UNITS_PER_SERVICE = 20
UNITS_PER_CHANGE = 50
TURNS = 32
UNITS_PER_TURN = 2_000
"""The units in a turn: neighbours in the table were made together and lie side by side in memory, so they share one."""
SERVICES_PER_UNIT = 4
"""The services without a due check that count as one unit: only their ``due_ms`` is compared."""


@dataclass(frozen=True, slots=True)
class HealthCheckGate:
    """The conditions under which this node may run health checks now, and for which services (R2, R9)."""

    may_check: bool
    confirmed_ms: int
    """When a report last reached another member; the current time for a node without others."""
    responsible: Callable[[str], bool]
    cut_off_since_ms: int | None = None
    """Since when this node hears from half of the members at most. It does not judge instances that the others know."""
    returned_ms: int = NEVER_MS
    """When a silent member came back. Instances whose beats it may have are not judged before it could report them."""
    forget_unneeded: bool = False
    """True if this node is alone, and forgets empty lists without a peer's agreement."""
    beats_known_ms: int | None = None
    """The time up to which the beats that other members took are known here (R12); None: all are known."""
    refused_ms: int = NEVER_MS
    """When a member last refused a beat on purpose. Silence counts from then on."""


class BeatCheck:
    """Health checks of the services that this node writes and is responsible for. One thread calls ``tick``."""

    _responsible: Callable[[str], bool]
    """Returns whether this node owns a service; each ``tick`` asks its gate for it before it checks."""

    def __init__(
        self,
        table: ServiceTable,
        writer: str,
        writes: LocalWrites,
        upkeep: ListUpkeep,
        publish: Callable[[Event], None],
        *,
        pause_ms: int = 2_000,
        expire: bool = True,
        silence: Silence | None = None,
    ) -> None:
        """``writer`` names this run of this member in versions; ``silence`` is kept up to date for others to read."""
        self._table = table
        self._writer = writer
        self._writes = writes
        self._upkeep = upkeep
        self._publish = publish
        self._expire = expire
        self.silence = Silence() if silence is None else silence
        self.silence.pause_ms = pause_ms
        self._forgets_unneeded = False
        self._round: Iterator[None] | None = None
        """The round in progress, since ``_began_ms``. Time and gate are read again for each of its slices."""
        self._began_ms = 0
        self._now_ms = 0
        self._units_left = 0
        self._spread_units = 0
        self._may_check = False

    def tick(self, now_ms: int, ask_gate: Callable[[], HealthCheckGate]) -> int:
        """Do a slice of a round. Return when to call again (monotonic ms): at once while the round is not over.

        If the call comes late, each instance gets the delay as extra time (R9). ``ask_gate`` is called after that
        delay was noticed, and may refuse checks until a report has reached another member.
        """
        silence = self.silence
        self._recount(silence.note_pause(now_ms))
        gate = ask_gate()
        may_check = gate.may_check and not (silence.pauses and gate.confirmed_ms < silence.pauses[-1][0])
        silence.follow_gate(now_ms, may_check=may_check)
        if (may_check and not self._may_check) or (gate.forget_unneeded and not self._forgets_unneeded):
            self._check_all_again()  # until now none was due for these reasons
        self._now_ms, self._may_check = now_ms, may_check
        self._responsible, self._forgets_unneeded = gate.responsible, gate.forget_unneeded
        self._follow_cut(gate.cut_off_since_ms, now_ms)
        silence.returned_ms, silence.refused_ms = gate.returned_ms, gate.refused_ms
        behind_ms = 0 if gate.beats_known_ms is None else now_ms - gate.beats_known_ms - BEHIND_MS_MIN
        silence.behind_ms = min(max(behind_ms, 0), BEHIND_MS_MAX)
        if self._round is None:
            self._began_ms, self._round = now_ms, self._check_round()
        self._units_left = UNITS_PER_SLICE
        silence.expected_ms = now_ms + INTERVAL_MS  # in case this slice fails
        try:
            ended = next(self._round, True)
        except Exception:
            self._round = None
            raise
        if ended:
            self._round = None
            silence.expected_ms = max(self._began_ms + INTERVAL_MS, now_ms)
        else:
            silence.expected_ms = now_ms
        return silence.expected_ms

    def _follow_cut(self, since_ms: int | None, now_ms: int) -> None:
        """After a cut, do not count its time as silence of the instances that beat at the other members (R12)."""
        silence = self.silence
        if since_ms is None and silence.cut_off_since_ms is not None:
            self._recount(silence.add_pause(now_ms, now_ms - silence.cut_off_since_ms))
        silence.cut_off_since_ms = since_ms

    def _recount(self, is_forgotten: bool) -> None:
        """Check all services again if the oldest pause counts as silence again."""
        if is_forgotten:
            self._check_all_again()

    def _check_all_again(self) -> None:
        for service in self._table.services():
            self._table.expect(service, 0)

    # --- a round ------------------------------------------------------------------------------------

    def _is_full(self, units: int) -> bool:
        """Take units from the slice. Return whether it is used up."""
        self._units_left -= units
        return self._units_left <= 0

    def _check_round(self) -> Iterator[None]:
        services = self._table.services()
        step = UNITS_PER_SLICE * SERVICES_PER_UNIT
        for start in range(0, len(services), step):
            now_ms = self._now_ms
            part = services[start : start + step]
            for service in [one for one in part if one.due_ms <= now_ms]:
                if not self._quick_check(service):
                    yield from self._full_check(service)
                    self._units_left -= UNITS_PER_SERVICE
                if self._units_left <= 0:
                    yield
            if self._is_full(len(part) // SERVICES_PER_UNIT):
                yield

    def _quick_check(self, service: Service) -> bool:
        """Check a service whose instances all beat in time, as nearly all do. Return False to request a full check."""
        was_due_ms, revision, stored = service.due_ms, service.revision, service.stored
        size = len(stored)
        if not 0 < size <= UNITS_AT_ONCE_MAX or not was_due_ms or service.tombstones or service.retained:
            return False
        if not self._may_check or service.version.writer != self._writer:
            return False
        service.due_ms = NOT_DUE_MS  # first, as in ``_full_check``
        try:
            oldest_ms = min([one.beat_ms for one in stored.values()])
            due_ms = max(oldest_ms, service.claimed_ms, self.silence.refused_ms) + service.shortest_timeout_ms + 1
        except (RuntimeError, ValueError):  # the mapping changed its size, or is empty now
            due_ms = was_due_ms
        seen = due_ms > self._now_ms and service.revision == revision
        self._table.expect(service, due_ms if seen else was_due_ms)
        self._units_left -= size + UNITS_PER_SERVICE
        return seen

    def _full_check(self, service: Service) -> Slices[None]:
        """Do everything that is due in a service, and set the time of its next check."""
        due_ms = was_due_ms = service.due_ms
        # First: a later change lowers it again, an earlier one is seen below.
        service.due_ms = NOT_DUE_MS
        try:
            next_ms = self._tidy(service)
            if service.stored and self._may_check and service.version.writer == self._writer:
                if self._responsible(service.full_name):
                    checked_ms = yield from self._check_instances(service)
                    next_ms = min(next_ms, checked_ms if was_due_ms else self._spread(service, checked_ms))
                else:
                    next_ms = was_due_ms  # until another member claims it, it may become ours again
            due_ms = next_ms
        finally:
            self._table.expect(service, due_ms)

    def _spread(self, service: Service, due_ms: int) -> int:
        """Return ``due_ms`` brought forward by a different part of the wait for each service in turn.

        Otherwise services that were taken over together would be due in the same second for ever.
        """
        if due_ms == NOT_DUE_MS:
            return due_ms
        self._spread_units += len(service.stored) + UNITS_PER_SERVICE
        turn = self._spread_units // UNITS_PER_TURN % TURNS
        return due_ms - max(due_ms - self._now_ms, 0) * turn // TURNS

    def _tidy(self, service: Service) -> int:
        """Drop retained instances, tombstones and lists (R6) whose time is over.

        Return when the next one's time is over.
        """
        now_ms, due_ms = self._now_ms, NOT_DUE_MS
        if service.retained:
            if self._upkeep.drop_retained(service, now_ms):
                self._publish(ServiceChanged(service.namespace, service.full_name))
            else:
                due_ms = service.retained_until_ms
        if service.tombstones:
            due_ms = min(due_ms, self._upkeep.prune_tombstones(service, now_ms))
        if service.version == NO_VERSION and not service.published:
            due_ms = min(due_ms, self._table.drop_bare(service, now_ms))
        if self._forgets_unneeded and not service.stored and service.version != NO_VERSION:
            if self._upkeep.is_forgettable(service.key, now_ms):
                self._upkeep.forget(service.key)
                self._publish(InstancesChanged(service.key, Origin.PEER))
            elif not service.tombstones:
                due_ms = min(due_ms, self._upkeep.forgettable_at_ms(service))
        return due_ms

    # --- a service's instances --------------------------------------------------------------------

    def _check_instances(self, service: Service) -> Slices[int]:
        """Act on the instances without beats. Return when the next one may be due."""
        oldest_ms = min((yield from self._in_slices(service, _oldest_beat_ms)))
        since_ms = max(oldest_ms, service.claimed_ms, self.silence.refused_ms)
        due_ms = since_ms + service.shortest_timeout_ms + 1
        if due_ms > self._now_ms:
            return due_ms
        due_ms, changed, changes = NOT_DUE_MS, False, 0
        for late, next_ms in (
            yield from self._in_slices(service, lambda stored_instances: self._late(service, stored_instances))
        ):
            due_ms = min(due_ms, next_ms)
            for stored, beat_ms in late:
                if self._may_check and self._act(service, stored, beat_ms, changes + 1):
                    changed, changes = True, changes + 1
                else:
                    due_ms = self._now_ms  # it beat just now, or this process paused in the meantime
                if self._is_full(UNITS_PER_CHANGE):
                    changed = self._tell(service, changed)
                    yield
        self._tell(service, changed)
        if changes:
            self._publish(HealthChecked(service.key, changes))
        return due_ms

    def _tell(self, service: Service, changed: bool) -> bool:
        if changed:
            self._publish(InstancesChanged(service.key, Origin.LOCAL))
        return False

    def _in_slices(self, service: Service, check: Callable[[Iterable[StoredInstance]], T]) -> Slices[list[T]]:
        """Return the results of ``check`` for all of a service's instances, a part in each slice.

        It iterates over the mapping itself: a copy costs as much again, and is made only if the list changes during the
        check.
        """
        revision, made = service.revision, list[T]()
        with suppress(RuntimeError):  # the mapping changed its size, and the service its revision
            yield from self._parts(service.stored.values(), check, made)
        if revision != service.revision:
            made.clear()
            yield from self._parts(list(service.stored.values()), check, made)
        return made

    def _parts(
        self,
        stored_instances: Collection[StoredInstance],
        check: Callable[[Iterable[StoredInstance]], T],
        made: list[T],
    ) -> Iterator[None]:
        size = len(stored_instances)
        if size <= UNITS_PER_SLICE:
            made.append(check(stored_instances))
            if self._is_full(size):
                yield
            return
        left = iter(stored_instances)
        for _ in range(0, size, UNITS_PER_SLICE):
            made.append(check(islice(left, UNITS_PER_SLICE)))
            if self._is_full(UNITS_PER_SLICE):
                yield

    def _late(
        self, service: Service, stored_instances: Iterable[StoredInstance]
    ) -> tuple[list[tuple[StoredInstance, int]], int]:
        """Return the instances without a beat for too long, with their last one, and when the next one may be due."""
        now_ms, silence = self._now_ms, self.silence
        counted_ms, behind_ms = max(service.claimed_ms, silence.refused_ms), silence.behind_ms
        resumed_ms = silence.pauses[-1][0] if silence.pauses else NEVER_MS
        cut_off_ms = NEVER_MS if silence.cut_off_since_ms is None else silence.cut_off_since_ms
        returned_ms, may_tell_ms = silence.returned_ms, silence.returned_ms + RETURN_MS
        late, due_ms = [], NOT_DUE_MS
        for stored in stored_instances:
            instance = stored.instance
            if instance.marked or not instance.ephemeral:
                continue
            if instance.healthy:
                wait_ms = stored.shortest_timeout_ms if self._expire else instance.beat_timeout_ms
            elif self._expire:
                wait_ms = instance.delete_timeout_ms
            else:
                continue
            beat_ms = stored.beat_ms
            since_ms = max(beat_ms, counted_ms)
            end_ms = since_ms + wait_ms + 1
            if since_ms < resumed_ms:
                end_ms += silence.paused_ms(since_ms)
            if end_ms <= now_ms and beat_ms < cut_off_ms:
                due_ms = min(due_ms, now_ms + CUT_OFF_CHECK_MS)
            elif end_ms <= now_ms < may_tell_ms and beat_ms < returned_ms:
                due_ms = min(due_ms, may_tell_ms)
            elif end_ms <= now_ms < end_ms + behind_ms:
                due_ms = min(due_ms, now_ms + INTERVAL_MS)
            elif end_ms <= now_ms:
                late.append((stored, beat_ms))
            elif end_ms < due_ms:
                due_ms = end_ms
        return late, due_ms

    def _act(self, service: Service, stored: StoredInstance, beat_ms: int, number: int) -> bool:
        """Make a silent instance unhealthy or remove it. Return False if it beat after ``beat_ms`` instead.

        ``number``: as in ``HealthChanged``.
        """
        now_ms, instance = self._now_ms, stored.instance
        key, silent_ms = instance.key, self.silence.counted_ms(service, beat_ms, now_ms)
        if silent_ms > instance.delete_timeout_ms and self._expire:
            done = self._writes.remove(service.namespace, service.full_name, key, now_ms, beat_ms) is not None
            what = REMOVED
        else:
            done = silent_ms > instance.beat_timeout_ms and self._writes.set_health(
                service, key, False, now_ms, beat_ms
            )
            what = UNHEALTHY
        if done:
            self._publish(HealthChanged(service.key, key, what, number))
        return done


def _oldest_beat_ms(stored_instances: Iterable[StoredInstance]) -> int:
    return min([stored.beat_ms for stored in stored_instances], default=NOT_DUE_MS)
