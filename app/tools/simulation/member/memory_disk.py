"""A RecordDisk without a disk, which a test can fill up."""

from collections.abc import Iterator
from dataclasses import replace

from app.naming.model.nacos_errors import StorageError
from app.naming.records.record import Record


class MemoryDisk:
    """Keeps records as a disk would, across the ``Records`` that use it."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        """The records, with ``changed_ms`` by the wall clock."""
        self.full = False

    def read_all(self, offset_ms: int) -> Iterator[Record]:
        return iter([_moved(record, -offset_ms) for record in self.records.values()])

    def write(self, records: list[Record], offset_ms: int) -> None:
        if self.full:
            raise StorageError("the data folder does not accept the change: database or disk is full")
        self.records.update({record.key: _moved(record, offset_ms) for record in records})

    def delete(self, keys: list[str]) -> None:
        if self.full:
            raise StorageError("the data folder does not accept the change: database or disk is full")
        for key in keys:
            del self.records[key]


def _moved(record: Record, by_ms: int) -> Record:
    return record if record.changed_ms is None else replace(record, changed_ms=record.changed_ms + by_ms)
