"""The exit codes of commands about a cluster, and the one error that leads to them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of these commands, as docs/cli.md lists them."""

    DONE = 0
    NOT_ALL = 1
    """The work was done in part, or not every member answered."""
    WRONG_OPTIONS = 2
    NO_SERVER = 3
    """The server does not answer, or does not serve now."""
    REFUSED = 4
    """A token, a password or a right is missing or not accepted."""
    NOT_FOUND = 5
    """No service, instance, client, user or namespace has that name."""
    FAILED = 6
    """The server refused the values, or gave an answer that no Rollcall member gives."""


class CommandError(Exception):
    """A command cannot continue; the text has the reason and the advice in one line."""

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class StoppedByServer(CommandError):
    """The server stopped a change that would do harm, as the command asked it to. The text says which harm."""

    def __init__(self, text: str) -> None:
        super().__init__(ExitCode.FAILED, text)
