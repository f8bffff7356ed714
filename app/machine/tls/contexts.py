"""The TLS contexts of HTTPS and gRPC: of this node's ports, and of its calls to members over HTTP."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from app.config.tls_settings import HttpTls
from app.machine.tls.certificate import (
    Certificate,
    CertificateError,
    parse_certificates,
    read_bounded,
    read_certificate,
)

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The cipher suites of TLS 1.2 that have forward secrecy and no known weakness. TLS 1.3 has no weaker ones."""
SESSION_TICKETS = 0
"""A resumed session would keep the certificates of its beginning, even if they were replaced since."""


@dataclass(frozen=True, slots=True)
class TlsContexts:
    """The contexts of one certificate. They never change: a connection in progress keeps the ones it began with."""

    certificate: Certificate
    server: ssl.SSLContext
    client: ssl.SSLContext
    """Checks the members' certificates, also for the host in the member list, and shows this node's certificate."""


def make_contexts(settings: HttpTls) -> TlsContexts:
    """Make the contexts from files.

    Raises:
        CertificateError: a file cannot be used.
    """
    certificate = read_certificate(settings.certificate, settings.private_key)
    trusted = read_bounded(settings.trusted)
    parse_certificates(trusted, settings.trusted)
    server = _context(ssl.PROTOCOL_TLS_SERVER)
    server.options |= ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    server.num_tickets = SESSION_TICKETS
    client = _context(ssl.PROTOCOL_TLS_CLIENT)
    trust = trusted.decode("ascii", "replace")
    # A chain without its root is enough, as it is for gRPC.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        for context in (server, client):
            context.load_cert_chain(settings.certificate, settings.private_key)
        client.load_verify_locations(cadata=trust)
        if settings.mutual:
            # Clients of the API show no certificate. A member's call without one is refused after the handshake.
            server.verify_mode = ssl.CERT_OPTIONAL
            server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            server.load_verify_locations(cadata=trust)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateError(f"{settings.certificate} or {settings.trusted} cannot be used: {error}") from None
    return TlsContexts(certificate, server, client)


def make_port_context(chain: Path, private_key: Path, trusted: bytes | None) -> ssl.SSLContext:
    """Make the context of a port that speaks HTTP/2. ``trusted``: certificates that check clients, as PEM, or None.

    Raises:
        CertificateError: a file cannot be used.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = SESSION_TICKETS
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(chain, private_key)
        if trusted is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=trusted.decode("ascii", "replace"))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateError(f"{chain} or the trusted certificates cannot be used: {error}") from None
    return context


def _context(side: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(CIPHERS)
    return context
