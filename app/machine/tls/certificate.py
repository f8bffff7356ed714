"""A certificate with its private key, read from PEM files and checked."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

FILE_BYTES_MAX = 1024 * 1024
"""The largest PEM file. The public certificate authorities together take a quarter of this."""


class CertificateError(Exception):
    """A file cannot be used as a certificate, key or list of trusted certificates. The text names it and says why."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A chain of certificates with the key of its first, as PEM. Times are in seconds since 1970."""

    chain: bytes = field(repr=False)
    private_key: bytes = field(repr=False)
    subject: str
    begins_s: float
    ends_s: float
    """When the first of the chain's certificates expires."""

    def is_valid(self) -> bool:
        """Return whether the machine's clock is within its period of validity."""
        return self.begins_s <= time.time() < self.ends_s


def read_certificate(chain: Path, private_key: Path) -> Certificate:
    """Read a certificate and its key.

    Raises:
        CertificateError: a file cannot be read, or the two do not belong together.
    """
    # Imported here, as it takes 11 MB, which a node without TLS does not need.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    chain_pem, key_pem = read_bounded(chain), read_bounded(private_key)
    certificates = parse_certificates(chain_pem, chain)
    try:
        key = load_pem_private_key(key_pem, None)
    except TypeError:
        raise CertificateError(f"{private_key} needs a password, which is not supported") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(f"{private_key} has no private key in PEM") from None
    first = certificates[0]
    if first.public_key() != key.public_key():
        raise CertificateError(f"{private_key} is not the key of the certificate in {chain}")
    return Certificate(
        chain=chain_pem,
        private_key=key_pem,
        subject=first.subject.rfc4514_string(),
        begins_s=max(one.not_valid_before_utc.timestamp() for one in certificates),
        ends_s=min(one.not_valid_after_utc.timestamp() for one in certificates),
    )


def read_bounded(file: Path) -> bytes:
    """Return the bytes of a PEM file.

    Raises:
        CertificateError: it cannot be read, or is over ``FILE_BYTES_MAX``.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CertificateError(f"{file} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise CertificateError(f"{file} is over {FILE_BYTES_MAX} bytes")
    return content


def parse_certificates(pem: bytes, file: Path) -> "Sequence[x509.Certificate]":
    """Return the certificates in the content of a file.

    Raises:
        CertificateError: there is none, or one cannot be read.
    """
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CertificateError(f"{file} has no complete chain of certificates in PEM") from None
