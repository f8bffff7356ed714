"""The limits of one node, put together from its settings."""

from dataclasses import dataclass, fields

from app.config.limit_settings import LimitSettings
from app.config.settings import Settings
from app.limits.client_addresses import AddressTable
from app.naming.limits.admission import Admission, MemoryPressure, NamingLimits
from app.naming.limits.limit_stats import LimitStats
from app.naming.limits.subscriber_tally import SubscriberTally
from app.process.memory_bound import MemoryWatch
from app.process.open_files import connections_max, frontends


@dataclass(frozen=True, slots=True)
class Limits:
    """What refuses, or tells to refuse, what clients may not add or do; and the counts of all refusals."""

    admission: Admission
    addresses: AddressTable
    subscribers: SubscriberTally
    memory: MemoryWatch
    stats: LimitStats

    def counters(self) -> dict[str, int]:
        """The counts of refusals, and the memory, under names of metrics in snake_case."""
        return self.stats.counters() | self.memory.counters()


def build_limits(settings: Settings) -> Limits:
    """Make the limits, with one count of refusals."""
    chosen, stats = settings.limits, LimitStats()
    admission = Admission(naming_limits(chosen), stats)

    def on_memory(level: int) -> None:
        admission.pressure = MemoryPressure(level)

    # By the limit of open files, which the process has raised by now.
    of_one = chosen.connections_per_address or connections_max(frontends(settings)) * 9 // 10
    return Limits(
        admission=admission,
        addresses=AddressTable(of_one, chosen.writes_per_second_per_address, stats),
        subscribers=SubscriberTally(chosen.subscribers, stats),
        memory=MemoryWatch(chosen.memory_mb, on_memory),
        stats=stats,
    )


def naming_limits(chosen: LimitSettings) -> NamingLimits:
    """Return the limits of what this member may come to hold."""
    return NamingLimits(**{one.name: getattr(chosen, one.name) for one in fields(NamingLimits)})
