"""Calls that were allowed, by hash: a client repeats its beats and lists to the byte."""

from hashlib import sha256

from app.auth.access_control import Session

ENTRIES_MAX = 131_072
CALL_BYTES_MAX = 2_048
"""Of query, body and credentials together; a longer call is decided each time."""


class DecisionMemo:
    """The sessions of allowed calls. All is forgotten when a user, role or permission changes. One thread uses it."""

    def __init__(self) -> None:
        self.version = -1
        self.allowed: dict[bytes, Session] = {}

    def find(self, version: int, key: bytes, now_ms: int) -> Session | None:
        """The session of a call that was allowed under this ``version`` of the users and has not ended."""
        if version != self.version:
            self.allowed, self.version = {}, version
            return None
        session = self.allowed.get(key)
        return session if session is not None and session.end_ms > now_ms else None

    def keep(self, version: int, key: bytes, session: Session) -> None:
        """Remember that a call was allowed, by what was known at ``version``."""
        if version != self.version:
            return
        if len(self.allowed) >= ENTRIES_MAX:
            self.allowed = {}
        self.allowed[key] = session


def key_of_call(route: bytes, credentials: str, query: bytes, body: bytes) -> bytes | None:
    """The key of a call: no two different ones have the same; None for one that is too long."""
    if len(query) + len(body) + len(credentials) > CALL_BYTES_MAX:
        return None
    # No part but the last can hold a line's end.
    return sha256(b"\n".join((route, credentials.encode("utf-8", "replace"), query, body))).digest()
