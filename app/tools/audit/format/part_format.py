"""The formats of a dump's files, and whether this Python can write them."""

from enum import StrEnum
from importlib.util import find_spec


class PartFormat(StrEnum):
    """The format of a dump's files. Parquet is a tenth of the work for the check, and needs the package pyarrow."""

    PARQUET = "parquet"
    JSON = "json"

    @property
    def ending(self) -> str:
        """The ending of the files' names."""
        return "parquet" if self is PartFormat.PARQUET else "jsonl.gz"

    @property
    def rows_max(self) -> int:
        """The most rows of a part. A gzip file cannot be split, so one task of the check reads a whole part."""
        return 1_000_000 if self is PartFormat.PARQUET else 100_000

    @property
    def plain_bytes_max(self) -> int:
        """The most bytes of a part's rows as JSON lines."""
        return (512 if self is PartFormat.PARQUET else 32) * 1024 * 1024


def has_parquet() -> bool:
    """Return whether this Python can write Parquet."""
    return find_spec("pyarrow") is not None
