"""The resource type of durable records, for members of our own kind alone. Its store is ``Records`` itself."""

from collections.abc import Mapping
from typing import Any

import orjson

from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.projection import check_record
from app.naming.records.records import Record
from distro.errors import CodecError
from distro.types import Datum, Version

RECORDS = "rollcall.records"
WALL_MS_MAX = 1 << 53


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
