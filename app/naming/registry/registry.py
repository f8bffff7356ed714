"""Registry: the instance lists of this member's services, in parts over one lock."""

from collections.abc import Callable
from dataclasses import dataclass

from app.naming.limits.admission import Admission
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.list_state import TOMBSTONE_SLACK_MS, ListState
from app.naming.registry.list_upkeep import ListUpkeep
from app.naming.registry.local_writes import LocalWrites
from app.naming.registry.operations import Shared
from app.naming.registry.service_table import ServiceTable
from distro.model.digest import ChangedKeys


@dataclass(frozen=True, slots=True)
class ListKinds:
    """The kinds of the parts that have instance lists. A test gives others, which lack a rule."""

    lists: Callable[..., ListState] = ListState
    writes: Callable[..., LocalWrites] = LocalWrites
    replication: Callable[..., ListReplication] = ListReplication


LISTS = ListKinds()


@dataclass(frozen=True, slots=True)
class Registry:
    """The parts. Each caller gets those that it uses."""

    table: ServiceTable
    """The services, for readers, and their sources without versions."""
    lists: ListState
    """The instance lists and their versions."""
    writes: LocalWrites
    """Changes by clients and by the health check."""
    replication: ListReplication
    """The lists that peers are sent, and those that they send."""
    upkeep: ListUpkeep
    """The end of data that is kept for a time."""

    @classmethod
    def of(
        cls,
        writer: str,
        tombstone_slack_ms: int = TOMBSTONE_SLACK_MS,
        guard_ms: int = 0,
        admission: Admission | None = None,
        *,
        keep_empty: bool = False,
        alone: bool = False,
        on_listed: Callable[[str, str, bool], None] | None = None,
        kinds: ListKinds = LISTS,
    ) -> "Registry":
        """Make the parts of one run of one member.

        ``admission``, ``keep_empty``, ``on_listed``: see ``ServiceTable``; the others: see ``ListState``.
        """
        table, shared = (
            ServiceTable(tombstone_slack_ms, admission, keep_empty=keep_empty, on_listed=on_listed),
            Shared(),
        )
        changed = ChangedKeys(kept=not alone)
        lists = kinds.lists(
            writer, table, changed, tombstone_slack_ms=tombstone_slack_ms, guard_ms=guard_ms, alone=alone
        )
        return cls(
            table,
            lists,
            kinds.writes(table, lists, shared),
            kinds.replication(table, lists, shared),
            ListUpkeep(table, lists),
        )
