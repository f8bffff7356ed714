"""The limits of one node, put together from its settings."""

from dataclasses import dataclass, fields, replace

from app.config.limit_settings import LimitSettings
from app.config.settings import Settings
from app.machine.limits.answer_budget import AnswerBudget, answers_bytes
from app.machine.limits.client_addresses import AddressTable
from app.machine.limits.connection_room import ConnectionRoom, build_room
from app.machine.process.memory_bound import MemoryWatch
from app.machine.process.open_files import CONNECTIONS_MAX
from app.naming.limits.admission import Admission, LimitStats, MemoryPressure, NamingLimits, SubscriberTally


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that refuse clients' additions and calls, or have others refuse them.

    And the counts of all refusals.
    """

    admission: Admission
    addresses: AddressTable
    room: ConnectionRoom
    subscribers: SubscriberTally
    memory: MemoryWatch
    answers: AnswerBudget
    stats: LimitStats

    def counters(self) -> dict[str, int]:
        """Return the counts of refusals, and the memory, under names of metrics in snake_case."""
        return self.stats.counters() | self.memory.counters() | self.room.counters() | self.answers.counters()


def build_limits(settings: Settings) -> Limits:
    """Make the limits, with one count of refusals."""
    chosen, stats = settings.limits, LimitStats()
    body_bytes = 0 if settings.standalone else settings.distro.body_bytes_max
    admission = Admission(replace(naming_limits(chosen), body_bytes=body_bytes), stats)

    def on_memory(level: int) -> None:
        admission.pressure = MemoryPressure(level)

    room, memory = build_room(settings), MemoryWatch(chosen.memory_mb, on_memory)
    return Limits(
        admission=admission,
        addresses=address_table(chosen, room, stats),
        room=room,
        subscribers=SubscriberTally(chosen.subscribers, stats),
        memory=memory,
        answers=AnswerBudget(answers_bytes(chosen.answers_mb, memory.bound_bytes), stats),
        stats=stats,
    )


def address_table(chosen: LimitSettings, room: ConnectionRoom, stats: LimitStats) -> AddressTable:
    """Make the table. Without a setting, no address may have the last tenth of a frontend's connections, nor of all."""
    of_one, of_both = chosen.connections_per_address, 0
    if not of_one:
        possible = max(room.http.possible, room.grpc.possible)
        of_one, of_both = min(possible, CONNECTIONS_MAX) * 9 // 10, room.total * 9 // 10
    return AddressTable(of_one, chosen.writes_per_second_per_address, stats, both_max=of_both)


def naming_limits(chosen: LimitSettings) -> NamingLimits:
    """Return the limits on the data that this member may hold."""
    return NamingLimits(
        **{one.name: getattr(chosen, one.name) for one in fields(NamingLimits) if one.name != "body_bytes"}
    )
