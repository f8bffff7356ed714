"""The form of log lines: one record, one line, whatever a caller put into a name."""

import logging


class LineFormatter(logging.Formatter):
    """Writes what is not printable in a message as escapes, so that no text can make up a line of its own.

    Tracebacks, which follow the message, keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of a record without its traceback. The name is logging's."""
        text = record.message
        if not text.isprintable():
            record.message = "".join([char if char.isprintable() else ascii(char)[1:-1] for char in text])
        return super().formatMessage(record)
