"""The TLS contexts of HTTPS and gRPC: of this node's ports, and of its calls to members over HTTP."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from app.config.tls_settings import HttpTls
from app.tls.certificate import Certificate, CertificateError, parse_certificates, read_bounded, read_certificate

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: those with forward secrecy that nothing is known against. TLS 1.3 has no others."""
SESSION_TICKETS = 0
"""A session that is taken up again would keep the certificates of its begin, whatever was replaced since."""


@dataclass(frozen=True, slots=True)
class TlsContexts:
    """The contexts of one certificate. They are never changed: a connection under way keeps those it began with."""

    certificate: Certificate
    server: ssl.SSLContext
    client: ssl.SSLContext
    """Checks the members' certificates, for the host that the member list has too, and shows the own one."""


def make_contexts(settings: HttpTls) -> TlsContexts:
    """Make the contexts of files.

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
            # Clients of the API show none; a member's call without one is refused behind the handshake.
            server.verify_mode = ssl.CERT_OPTIONAL
            server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            server.load_verify_locations(cadata=trust)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateError(f"{settings.certificate} or {settings.trusted} cannot be used: {error}") from None
    return TlsContexts(certificate, server, client)


def make_port_context(chain: Path, private_key: Path, trusted: bytes | None) -> ssl.SSLContext:
    """The context of a port that speaks HTTP/2. ``trusted``: by which clients are checked, as PEM; None: none is asked.

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
        raise CertificateError(f"{chain} or what is trusted cannot be used: {error}") from None
    return context


def _context(side: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(CIPHERS)
    return context
