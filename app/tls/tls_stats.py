"""Counters of TLS, by name of the metric."""

from dataclasses import dataclass


@dataclass(slots=True)
class TlsStats:
    """Counters since the start of this node, and the time of an end."""

    tls_handshakes: int = 0
    """Connections over TLS that clients and members have made to the HTTP port and those of gRPC."""
    tls_handshakes_failed: int = 0
    tls_handshakes_cut: int = 0
    """Connections that were closed before their handshake ended, as too many or too slow ones were under way."""
    tls_plain_refused: int = 0
    """Connections to a port of TLS that spoke plain HTTP, or something else."""
    tls_plain_taken: int = 0
    """The same to the HTTP port, taken as ``rollcall.http.tls.compatibility`` is on."""
    tls_plain_calls: int = 0
    """Connections to members that were made plainly, as the member spoke no TLS and compatibility is on."""
    tls_members_refused: int = 0
    """Connections to members that were not made: a certificate is not trusted, has expired or names another host."""
    tls_reloads: int = 0
    """Changed certificates that were taken into use."""
    tls_reloads_failed: int = 0
    """Changed certificates that were not: the one before stays in use."""
    tls_certificate_ends_s: float = 0.0
    """When the certificate in use ends that ends first, in seconds since 1970; 0 without one."""
