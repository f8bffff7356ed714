"""Counters of TLS, by name of the metric."""

from dataclasses import dataclass


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
