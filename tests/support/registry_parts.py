"""Parts of a node that use a registry, made as ``app/node.py`` makes them."""

from collections.abc import Callable

from app.naming.changes import Changes
from app.naming.health.beat_check import BeatCheck
from app.naming.model.events import Event
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.replication.instance_list_type import InstanceListStore


def naming_of(registry: Registry, monotonic_ms: Callable[[], int], publish: Callable[[Event], None]) -> NamingService:
    """Make the operations on the services of a registry."""
    changes = Changes(registry.table, registry.replication, monotonic_ms, publish)
    return NamingService(registry.table, registry.writes, changes, monotonic_ms, publish)


def store_of(registry: Registry, publish: Callable[[Event], None]) -> InstanceListStore:
    """Make the store by which the engine replicates the lists of a registry."""
    return InstanceListStore(registry.lists, registry.replication, registry.upkeep, publish)


def check_of(
    registry: Registry, publish: Callable[[Event], None], *, pause_ms: int = 2_000, expire: bool = True
) -> BeatCheck:
    """Make the health check of the instances of a registry."""
    writer, writes, upkeep = registry.lists.writer, registry.writes, registry.upkeep
    return BeatCheck(registry.table, writer, writes, upkeep, publish, pause_ms=pause_ms, expire=expire)
