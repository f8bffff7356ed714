"""The form of log lines: one record is one line, even if a caller put line breaks into a name."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any

import orjson

SECRETS = re.compile(r"(?i)((?:access_?token|password|passwd|pwd|secret)[\"']?\s*[=:]\s*[\"']?)[^&\s\"',;}]+")
SIGNS = ("token", "passw", "pwd", "secret")


def masked(text: str) -> str:
    """Return a text without the values of parameters and fields that hold secrets, as a last line of defence.

    The log also has texts of others, such as the errors of a library.
    """
    folded = text.lower()
    return SECRETS.sub(r"\1***", text) if any(sign in folded for sign in SIGNS) else text


class LineFormatter(logging.Formatter):
    """Writes the unprintable characters of a message as escapes, so that no text can forge a separate line.

    Tracebacks, which follow the message, keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record without its traceback. The name is logging's."""
        text = record.message = masked(record.message)
        if not text.isprintable():
            record.message = "".join([char if char.isprintable() else ascii(char)[1:-1] for char in text])
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        """Return the lines of a traceback. The name is logging's."""
        return masked(super().formatException(ei))


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON, even if a name has line breaks; a traceback is one of its fields.

    Shape: time (ISO 8601, UTC), level, port, logger, message, traceback.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record. The name is logging's."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "port": self._port,
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        if record.exc_info:
            fields["traceback"] = masked(self.formatException(record.exc_info))
        try:
            line = orjson.dumps(fields).decode()
        except TypeError:  # a name may have a lone surrogate, which has no UTF-8
            return json.dumps(fields)
        return line if line.isprintable() else json.dumps(fields)  # this escapes all non-ASCII characters
