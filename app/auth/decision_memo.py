"""Calls that were allowed, by hash: a client repeats its beats and lists to the byte."""

from hashlib import sha256

from app.auth.access_control import Session

ENTRIES_MAX = 131_072
CALL_BYTES_MAX = 2_048
"""The most bytes of query, body and credentials together. A longer call is checked each time."""


class DecisionMemo:
    """The sessions of allowed calls. All are forgotten when a user, role or permission changes. One thread uses it."""

    def __init__(self) -> None:
        self.version = -1
        self.allowed: dict[bytes, Session] = {}

    def find(self, version: int, key: bytes, now_ms: int) -> Session | None:
        """Return the session of a call that was allowed under this ``version`` of the users and has not ended."""
        if version != self.version:
            self.allowed, self.version = {}, version
            return None
        session = self.allowed.get(key)
        return session if session is not None and session.end_ms > now_ms else None

    def keep(self, version: int, key: bytes, session: Session) -> None:
        """Remember that a call was allowed under the users of ``version``."""
        if version != self.version:
            return
        if len(self.allowed) >= ENTRIES_MAX:
            self.allowed = {}
        self.allowed[key] = session


def key_of_call(route: bytes, credentials: str, query: bytes, body: bytes) -> bytes | None:
    """Return the key of a call, which no other call has; None for a call that is too long."""
    if len(query) + len(body) + len(credentials) > CALL_BYTES_MAX:
        return None
    # Only the last part can contain a line feed.
    return sha256(b"\n".join((route, credentials.encode("utf-8", "replace"), query, body))).digest()
