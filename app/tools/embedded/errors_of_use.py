"""The errors of embedded nodes, for the author of a test."""


class UseError(Exception):
    """The helper was used in a way that cannot work, or a node cannot start; the text has advice."""


class PortTaken(UseError):
    """A port that was free, or was asked for, is in use."""


class CallRefused(UseError):
    """A node refused a call that the helper made for the test."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class WaitOver(AssertionError):
    """The state that a test waited for did not come; the text shows the last state."""
