"""A RecordDisk without a disk, that can be told to be full."""

from collections.abc import Iterator

from app.naming.model.nacos_errors import StorageError
from app.naming.records.records import Record


class MemoryDisk:
    """Keeps records as a disk would, across the ``Records`` that use it."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.full = False

    def read_all(self) -> Iterator[Record]:
        return iter(list(self.records.values()))

    def write(self, records: list[Record]) -> None:
        if self.full:
            raise StorageError("the data folder does not take the change: database or disk is full")
        self.records.update({stats.key: stats for stats in records})

    def delete(self, keys: list[str]) -> None:
        if self.full:
            raise StorageError("the data folder does not take the change: database or disk is full")
        for key in keys:
            del self.records[key]
