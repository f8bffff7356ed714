"""The engine's errors, each for one way of handling it."""


class DistroError(Exception):
    """Any failure of replication."""


class CodecError(DistroError):
    """The bytes of a peer cannot be read, or its datum cannot be stored. Answered with 400."""


class TransportError(DistroError):
    """A peer answered with an error, or not in time. The call may be repeated.

    ``refused``: no process listens at the peer's address.
    """

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class RejectedError(TransportError):
    """A peer answered that the request is wrong. Repeating the same bytes is useless."""


class UnfitError(RejectedError):
    """An answer or a frame is too large for one call, or cannot be read. A call with fewer keys may succeed."""


class ForbiddenError(TransportError):
    """A peer takes no calls of this member, which is not in its list. The answer says nothing about the keys."""


class NotInitialized(DistroError):
    """This member has not finished loading (R7). Answered with 503."""
