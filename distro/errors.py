"""The engine's errors, by who can do something about them."""


class DistroError(Exception):
    """Any failure of replication that a caller may want to catch as one."""


class CodecError(DistroError):
    """A peer's bytes are not what they claim to be; the peer's fault, answered with 400."""


class TransportError(DistroError):
    """A peer did not answer in time or answered with a failure; the call is repeated later."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class RejectedError(TransportError):
    """A peer answered that the request itself is wrong; repeating the same bytes cannot help."""


class NotInitialized(DistroError):
    """This member has not finished loading; answered with 503."""
