"""One record, one line."""

import logging
import sys

import pytest

from app.machine.process.log_lines import LineFormatter

FORMATTER = LineFormatter("%(levelname)s %(name)s: %(message)s")


def line(message: str, *args: object) -> str:
    return FORMATTER.format(logging.LogRecord("app.x", logging.INFO, "x", 1, message, args, None))


def test_a_printable_message_is_as_it_was() -> None:
    assert line("instance %s is há \\n", "10.0.0.1") == "INFO app.x: instance 10.0.0.1 is há \\n"


def test_no_value_can_make_up_a_line() -> None:
    made = line("instance %s is gone", "10.0.0.1\r\nINFO app.x: all is well\x1b[2J\u2028\x85")
    assert made.splitlines() == [made]
    assert made == r"INFO app.x: instance 10.0.0.1\r\nINFO app.x: all is well\x1b[2J\u2028\x85 is gone"


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        record = logging.LogRecord("app.x", logging.ERROR, "x", 1, "failed", (), sys.exc_info())
    lines = FORMATTER.format(record).splitlines()
    assert lines[:2] == ["ERROR app.x: failed", "Traceback (most recent call last):"]
    assert lines[-1] == "ValueError: odd"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("GET /x?accessToken=geheim&serviceName=a failed", "GET /x?accessToken=***&serviceName=a failed"),
        ("url: /login?username=u&password=geheim (refused)", "url: /login?username=u&password=*** (refused)"),
        ('{"type":"MYSQL","user":"u","pwd":"geheim","cmd":"c"}', '{"type":"MYSQL","user":"u","pwd":"***","cmd":"c"}'),
        ("ACCESS_TOKEN: geheim", "ACCESS_TOKEN: ***"),
        ("the password is wrong", "the password is wrong"),
    ],
)
def test_no_secret_is_shown(said: str, shown: str) -> None:
    assert line("%s", said) == f"INFO app.x: {shown}"
    try:
        raise ValueError(said)
    except ValueError:
        record = logging.LogRecord("app.x", logging.ERROR, "x", 1, "failed", (), sys.exc_info())
    assert FORMATTER.format(record).splitlines()[-1] == f"ValueError: {shown}"
