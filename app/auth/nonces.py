"""Numbers that are accepted once: the signed calls of each session of a sender are numbered, and none counts twice.

A set of all nonces of a minute would hold a million at some ten thousand calls per second. For a numbered session a
window of bits is enough: a number above it moves the window on, and one below it is refused like a repeated one.
"""

import threading

WINDOW = 65_536
"""The numbers of one session that may arrive in any order: those of three seconds at 20,000 calls per second."""
SESSIONS_MAX = 256
"""The most sessions, each one run of one sender. A new one is refused if so many were heard within ``KEEP_MS``."""
KEEP_MS = 120_000
"""After this silence a session is forgotten: far longer than a signature is valid, before or after its time."""


class _Session:
    __slots__ = ("bits", "heard_ms", "highest")

    def __init__(self) -> None:
        self.highest = 0
        self.bits = bytearray(WINDOW // 8)
        self.heard_ms = 0

    def take(self, number: int) -> bool:
        bits, highest = self.bits, self.highest
        place, bit = number % WINDOW >> 3, 1 << (number & 7)
        if number > highest:
            if number - highest >= WINDOW:
                self.bits = bits = bytearray(WINDOW // 8)
            else:
                for passed in range(highest + 1, number):
                    bits[passed % WINDOW >> 3] &= ~(1 << (passed & 7)) & 0xFF
            self.highest = number
        elif highest - number >= WINDOW or bits[place] & bit:
            return False
        bits[place] |= bit
        return True


class Nonces:
    """The numbers that were accepted, by session. Thread-safe."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def take(self, session: str, number: int, now_ms: int) -> bool:
        """Accept a number of a session, from 1 on. Return False if it was, or may have been, accepted before."""
        with self._lock:
            known = self._sessions.get(session)
            if known is None:
                if len(self._sessions) >= SESSIONS_MAX:
                    self._forget(now_ms)
                if len(self._sessions) >= SESSIONS_MAX:
                    return False
                known = self._sessions[session] = _Session()
            known.heard_ms = now_ms
            return known.take(number)

    def _forget(self, now_ms: int) -> None:
        for session in [name for name, one in self._sessions.items() if now_ms - one.heard_ms > KEEP_MS]:
            del self._sessions[session]
