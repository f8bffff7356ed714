"""The resource type of durable records, only for Rollcall members. Its store is ``Records`` itself."""

from collections.abc import Mapping
from typing import Any

import orjson

from app.naming.model.json_fields import FROM_MEMBER, Fields
from app.naming.model.keys import WALL_MS_END
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.record import Record
from app.naming.records.record_values import check_record, without_secrets
from distro.model.errors import CodecError
from distro.model.types import Datum, Version

RECORDS = "rollcall.records"


class RecordCodec:
    """The DatumCodec of records. Shape: ``{"key", "version", "changed", "value", "changedMs", "changedAge"}``.

    A null value is a removal. ``changedAge`` (ms) is missing if it is unknown.
    """

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        record: Record = datum.value
        fields = {
            "key": datum.key,
            "version": datum.version.to_text(),
            "changed": record.changed.to_text(),
            "value": record.value,
            "changedMs": record.changed_wall_ms,
        }
        if record.changed_ms is not None:
            fields["changedAge"] = max(now_ms - record.changed_ms, 0)
        return orjson.dumps(fields)

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int, version: Version | None = None) -> Datum:
        """Return the record of a JSON object.

        Raises:
            CodecError: names the field that is missing or wrong.
        """
        version, changed = version or Version.from_text(body.get("version")), Version.from_text(body.get("changed"))
        if changed > version:
            raise CodecError(f"field 'changed' of {key[:200]!r} is above its 'version'")
        fields = Fields(body, FROM_MEMBER, " of a record")
        value = fields.whole_object("value") if fields.has("value") else None
        wall_ms = fields.whole("changedMs", None, 0, WALL_MS_END - 1)
        try:
            check_record(key, value)
        except InvalidParam as error:
            raise CodecError(error.text) from error
        changed_ms = now_ms - fields.whole("changedAge", None, 0, WALL_MS_END - 1) if fields.has("changedAge") else None
        return Datum(key, version, Record(key, version, changed, without_secrets(key, value), wall_ms, changed_ms))

    def checksum(self, datum: Datum) -> str:
        """Raise CodecError: real Nacos does not get records."""
        raise CodecError("durable records have no checksum of real Nacos")
