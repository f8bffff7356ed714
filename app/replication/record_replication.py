"""Joins durable records to distro: the engine's second resource type, which members of our own kind alone exchange."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from app.naming.model.nacos_errors import InvalidParam, StorageError
from app.naming.records.projection import check_record
from app.naming.records.records import Record, Records, record_tag
from distro.errors import CodecError
from distro.types import Datum, Merged, Version

RECORDS = "rollcall.records"
"""Resource type of the durable records."""
WALL_MS_MAX = 1 << 53


class RecordStorage:
    """DistroDataStorage of durable records."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def version(self, key: str) -> Version | None:
        return self._records.version(key)

    def versions(self) -> Mapping[str, Version]:
        return self._records.versions()

    def tag(self, key: str) -> str:
        return record_tag(key)

    def get(self, keys: Iterable[str]) -> list[Datum]:
        return self._records.datums(keys)

    def is_covered(self, datum: Datum) -> bool:
        return self._records.is_covered(datum)

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        return self._records.is_forgettable(key)


class RecordProcessor:
    """DistroDataProcessor of durable records. A disk that takes nothing fails the key, which is then sent again."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        try:
            return self._records.apply(datum, expected)
        except StorageError as error:
            raise CodecError(error.text) from error

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        try:
            return self._records.merge(datum)
        except StorageError as error:
            raise CodecError(error.text) from error

    def claim(self, key: str, now_ms: int) -> bool:
        try:
            return self._records.claim(key)
        except StorageError:
            return False  # claimed again with the next view, or with the first change that the disk takes

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        """Drop a spent removal. Absence drops nothing: a record that no peer holds may be one that only came here."""
        if absent:
            return
        try:
            self._records.forget(key)
        except StorageError:
            return  # asked again in a later verify round


class RecordCodec:
    """DatumCodec of records. Shape: ``{"key", "version", "changed", "value", "changedMs"}``; value null: removed."""

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        record: Record = datum.value
        return orjson.dumps(
            {
                "key": datum.key,
                "version": datum.version.to_text(),
                "changed": record.changed.to_text(),
                "value": record.value,
                "changedMs": record.changed_wall_ms,
            }
        )

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int) -> Datum:
        """The record of a JSON object.

        Raises:
            CodecError: names the field that is missing or wrong.
        """
        version, changed = Version.from_text(body.get("version")), Version.from_text(body.get("changed"))
        value, wall_ms = body.get("value"), body.get("changedMs")
        if value is not None and not isinstance(value, dict):
            raise CodecError("field 'value' of a record is not an object")
        if type(wall_ms) is not int or not 0 <= wall_ms < WALL_MS_MAX:
            raise CodecError("field 'changedMs' of a record is not a time")
        try:
            check_record(key, value)
        except InvalidParam as error:
            raise CodecError(error.text) from error
        return Datum(key, version, Record(key, version, changed, value, wall_ms))

    def checksum(self, datum: Datum) -> str:
        """Never asked for: real Nacos does not get records."""
        raise CodecError("durable records have no checksum of real Nacos")
