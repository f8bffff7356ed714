"""Calls to members over TLS: the context to use, and the handling of failed handshakes."""

import logging
import ssl
import threading
from collections.abc import Callable

from app.config.addresses import join_address
from app.machine.tls.contexts import TlsContexts
from app.machine.tls.watched import TlsStats, WatchedFiles

LOG = logging.getLogger(__name__)
PLAIN_MS = 5_000
"""For how long a member that spoke no TLS is called without it. Then it is asked for TLS again."""
LOG_AGAIN_MS = 60_000
MEMBERS_MAX = 1_000
"""The most members about which something is remembered."""


class MemberTls:
    """The TLS state of calls to all members. Thread-safe."""

    def __init__(
        self, files: WatchedFiles[TlsContexts], stats: TlsStats, now_ms: Callable[[], int], *, compatible: bool
    ) -> None:
        """``compatible``: members that speak no TLS are called without it."""
        self._files = files
        self._stats = stats
        self._now_ms = now_ms
        self._compatible = compatible
        self._lock = threading.Lock()
        self._plain_until_ms: dict[tuple[str, int], int] = {}
        self._logged_ms: dict[tuple[str, int], int] = {}

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        return self._files.current.client

    def is_plain(self, host: str, port: int) -> bool:
        """Return whether the member at an address is to be called without TLS, as it did not speak TLS a moment ago."""
        if not self._compatible:
            return False
        with self._lock:
            plain = self._plain_until_ms.get((host, port), 0) > self._now_ms()
            self._stats.tls_plain_calls += plain
        return plain

    def on_failure(self, host: str, port: int, error: Exception) -> bool:
        """Note a connection that failed. Return whether the member is to be called without TLS instead.

        An untrusted certificate never leads to a call without TLS.
        """
        if isinstance(error, ssl.SSLCertVerificationError):
            self._note_refused((host, port), error)
            return False
        if not self._compatible or not isinstance(error, ssl.SSLError | ConnectionResetError):
            return False
        with self._lock:
            self._make_room(self._plain_until_ms)
            self._plain_until_ms[(host, port)] = self._now_ms() + PLAIN_MS
            self._stats.tls_plain_calls += 1
        LOG.debug("%s does not speak TLS and is called without it: %s", join_address(host, port), error)
        return True

    def _note_refused(self, member: tuple[str, int], error: ssl.SSLCertVerificationError) -> None:
        now_ms = self._now_ms()
        with self._lock:
            self._stats.tls_members_refused += 1
            if now_ms - self._logged_ms.get(member, -LOG_AGAIN_MS) < LOG_AGAIN_MS:
                return
            self._make_room(self._logged_ms)
            self._logged_ms[member] = now_ms
        LOG.error("the certificate of member %s is refused: %s", join_address(*member), error.verify_message)

    @staticmethod
    def _make_room(of_members: dict[tuple[str, int], int]) -> None:
        if len(of_members) >= MEMBERS_MAX:
            of_members.clear()
