"""The form of log lines: one record, one line, whatever a caller put into a name."""

import logging
import re
from typing import Any

SECRETS = re.compile(r"(?i)((?:access_?token|password|passwd|pwd|secret)[\"']?\s*[=:]\s*[\"']?)[^&\s\"',;}]+")
SIGNS = ("token", "passw", "pwd", "secret")


def masked(text: str) -> str:
    """A text without the values of parameters and fields that hold secrets: nothing should log one, and this is sure.

    Others' texts are in the log, too: of a library's error, for example.
    """
    folded = text.lower()
    return SECRETS.sub(r"\1***", text) if any(sign in folded for sign in SIGNS) else text


class LineFormatter(logging.Formatter):
    """Writes what is not printable in a message as escapes, so that no text can make up a line of its own.

    Tracebacks, which follow the message, keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of a record without its traceback. The name is logging's."""
        text = record.message = masked(record.message)
        if not text.isprintable():
            record.message = "".join([char if char.isprintable() else ascii(char)[1:-1] for char in text])
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        """The lines of a traceback. The name is logging's."""
        return masked(super().formatException(ei))
