"""Values made from certificate files, and made again when the files change. Unusable changes are ignored.

``TlsStats`` counts these changes, and the connections over TLS.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from app.config.file_stamp import file_stamp
from app.machine.tls.certificate import Certificate, CertificateError


@dataclass(slots=True)
class TlsStats:
    """Counters since the start of this node, and the time when a certificate expires."""

    tls_handshakes: int = 0
    """Connections over TLS that clients and members have made to the HTTP port and those of gRPC."""
    tls_handshakes_failed: int = 0
    tls_handshakes_cut: int = 0
    """Connections that were closed before their handshake ended, because too many or too slow ones were in progress."""
    tls_plain_refused: int = 0
    """Connections to a TLS port that spoke plain HTTP, or something else."""
    tls_plain_taken: int = 0
    """Such connections to the HTTP port that were accepted, because ``rollcall.http.tls.compatibility`` is on."""
    tls_plain_calls: int = 0
    """Connections to members made without TLS, because the member spoke no TLS and compatibility is on."""
    tls_members_refused: int = 0
    """Connections to members that were not made: a certificate is not trusted, has expired or names another host."""
    tls_reloads: int = 0
    """Changed certificates that were put into use."""
    tls_reloads_failed: int = 0
    """Changed certificates that could not be used. The previous one stays in use."""
    tls_certificate_ends_s: float = 0.0
    """When the certificate in use that expires first does so, in seconds since 1970; 0 without one."""


LOG = logging.getLogger(__name__)
LOOK_MS = 2_000
"""The interval at which the files are checked."""
WARN_S = 30 * 86_400.0
"""How long before its end a certificate causes warnings."""
WARN_AGAIN_S = 86_400.0


class OfCertificate(Protocol):
    """A value that was made from a certificate, and perhaps more."""

    @property
    def certificate(self) -> Certificate:
        """Return the certificate from which it was made."""
        ...


T = TypeVar("T", bound=OfCertificate)


class WatchedFiles(Generic[T]):
    """A value made from files. One thread calls ``look``; any thread may read ``current``."""

    def __init__(self, files: Sequence[Path], make: Callable[[], T], stats: TlsStats) -> None:
        """``make`` reads the files.

        Raises:
            CertificateError: raised by ``make``.
        """
        self._files = tuple(dict.fromkeys(files))
        self._make = make
        self.stats = stats
        self._stamp = self._read_stamp()
        self._failed: tuple[object, bool] | None = None
        """The stamp of files that could not be used, and whether that was logged."""
        self._warned_s = 0.0
        self.current = make()

    def look(self) -> None:
        """Make the value again if a file has changed."""
        stamp = self._read_stamp()
        if stamp != self._stamp:
            self._take(stamp)
        self._warn_of_end()

    def _take(self, stamp: object) -> None:
        try:
            made = self._make()
            if not made.certificate.is_valid() and self.current.certificate.is_valid():
                raise CertificateError(f"the certificate in {self._files[0]} is not valid today, but the one in use is")
        except CertificateError as error:
            self._note_failure(stamp, error)
            return
        if self._read_stamp() != stamp:
            return  # changed in the meantime: the next check reads the files again
        self._stamp, self._failed, self._warned_s = stamp, None, 0.0
        self.current = made
        self.stats.tls_reloads += 1
        LOG.info("%s: a new certificate is in use, valid until %s", self._files[0], _date(made.certificate.ends_s))

    def _note_failure(self, stamp: object, error: CertificateError) -> None:
        """Log and count a failure once, from the second look on: the two files are written one after the other."""
        if self._failed is None or self._failed[0] != stamp:
            self._failed = (stamp, False)
        elif not self._failed[1]:
            self._failed = (stamp, True)
            self.stats.tls_reloads_failed += 1
            LOG.error("the changed certificate files cannot be used; the previous files stay in use: %s", error)

    def _warn_of_end(self) -> None:
        now_s = time.time()
        left_s = self.current.certificate.ends_s - now_s
        if left_s > WARN_S or abs(now_s - self._warned_s) < WARN_AGAIN_S:
            return
        self._warned_s = now_s
        end = _date(self.current.certificate.ends_s)
        if left_s <= 0:
            LOG.error("the certificate in %s HAS EXPIRED on %s: no client trusts it", self._files[0], end)
        else:
            LOG.warning("the certificate in %s ends on %s, in %d days", self._files[0], end, left_s // 86_400)

    def _read_stamp(self) -> object:
        return tuple(map(file_stamp, self._files))


class CertificateWatch:
    """Checks all watched files at intervals. Called by the naming timer."""

    def __init__(self, watched: Sequence[WatchedFiles[OfCertificate]], stats: TlsStats) -> None:
        self._watched = watched
        self._stats = stats
        self._note_end()

    def tick(self, now_ms: int) -> int:
        """Check all files. Return when to be called again."""
        for one in self._watched:
            one.look()
        self._note_end()
        return now_ms + LOOK_MS

    def _note_end(self) -> None:
        ends_s = [one.current.certificate.ends_s for one in self._watched]
        self._stats.tls_certificate_ends_s = min(ends_s, default=0.0)


def _date(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at_s))
