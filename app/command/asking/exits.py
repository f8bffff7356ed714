"""How commands about a cluster end: the exit codes, and the one error that leads to them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of these commands, as docs/cli.md lists them."""

    DONE = 0
    NOT_ALL = 1
    """It was done in part, or not everybody answered."""
    WRONG_OPTIONS = 2
    NO_SERVER = 3
    """The server does not answer, or does not serve now."""
    REFUSED = 4
    """A token, a password or a right is missing or not accepted."""
    NOT_FOUND = 5
    """There is no service, instance, client, user or namespace of that name."""
    FAILED = 6
    """The server refused the values, or answered what no Rollcall member does."""


class CommandError(Exception):
    """A command cannot go on; the text says in one line what is wrong, and what to do."""

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(text)
        self.code = code
