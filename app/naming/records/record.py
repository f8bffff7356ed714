"""A durable record, and the disk behind the records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.naming.model.model import is_later_word
from distro.model.types import Version

Value = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """The state of one key. ``version`` orders states; ``changed`` is the version at which a client last set the value.

    A claim and a health check raise only ``version`` (R14): the side of a partition that took a key over, or checked
    it, without a client's write must not win over a side that was written to.
    """

    key: str
    version: Version
    changed: Version
    value: Value | None
    """None for a removal."""
    changed_wall_ms: int
    """When the value was set, by the wall clock of the member that set it: shown, and used to forget old removals."""
    changed_ms: int | None = field(default=None, compare=False)
    """The same time by this member's monotonic clock; None if unknown. It travels as an age."""

    def is_later_than(self, other: "Record") -> bool:
        """Return whether this value was set after the other one (R14)."""
        return is_later_word(self.changed, self.changed_ms, other.changed, other.changed_ms)

    def covers(self, other: "Record") -> bool:
        """Return whether its change of the value is at least as late as the other record's (R3)."""
        return self.changed >= other.changed and not other.is_later_than(self)


class RecordDisk(Protocol):
    """The disk behind the records. ``write`` returns when the records would survive the end of the machine.

    ``write_received`` is for records that another member has on its disk: they survive the end of the process at once,
    and the end of the machine after the next ``sync`` or ``write``.

    A record's ``changed_ms`` is stored by this member's wall clock, as the monotonic one may restart. ``offset_ms`` is
    the wall clock minus the monotonic one.

    Raises:
        StorageError: the disk is full or broken; nothing was written.
    """

    def read_all(self, offset_ms: int) -> Iterator[Record]: ...

    def write(self, records: list[Record], offset_ms: int) -> None: ...

    def write_received(self, records: list[Record], offset_ms: int) -> None: ...

    def sync(self) -> None: ...

    def delete(self, keys: list[str]) -> None: ...
