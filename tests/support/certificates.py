"""Certificates for one test, made by openssl, or by an authority of the test's own."""

import ipaddress
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl makes the certificate, and is not in the path"
)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key, as PEM files."""
    certificate, private_key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *subject]
    command = ["openssl", "req", *made, "-keyout", str(private_key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return certificate, private_key


def tls_settings(side: str, certificate: Path, private_key: Path) -> dict[str, str]:
    """``side``: server, for SDKs, or peer, for members."""
    prefix = f"nacos.remote.{side}.rpc.tls"
    return {f"{prefix}.certChainFile": str(certificate), f"{prefix}.certPrivateKey": str(private_key)}


class Authority:
    """A certificate authority of one test, whose certificates take a millisecond each."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.file = folder / f"{name}.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key, -1, 30).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(
        self, chain: Path, private_key: Path, *, from_days: float = -1, to_days: float = 2, names: Sequence[str] = ()
    ) -> int:
        """Write a certificate for ``names`` (127.0.0.1 unless said) and its key; return its serial number."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [_alternative(name) for name in names or ("127.0.0.1", "localhost")]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "member")])
        builder = self._builder(subject, key, from_days, to_days).add_extension(
            x509.SubjectAlternativeName(alternatives), critical=False
        )
        signed = builder.sign(self._key, hashes.SHA256())
        # As the tools that renew certificates do it: nobody ever reads half a file, but may read one old and one new.
        for file, content in (
            (chain, signed.public_bytes(Encoding.PEM)),
            (private_key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())),
        ):
            written = file.with_suffix(".new")
            written.write_bytes(content)
            written.replace(file)
        return signed.serial_number

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, from_days: float, to_days: float
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=from_days))
            .not_valid_after(now + timedelta(days=to_days))
        )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def https_settings(chain: Path, private_key: Path, trusted: Path) -> dict[str, str]:
    """The settings of HTTPS with these files."""
    prefix = "rollcall.http.tls"
    return {
        f"{prefix}.enabled": "true",
        f"{prefix}.certChainFile": str(chain),
        f"{prefix}.certPrivateKey": str(private_key),
        f"{prefix}.trustCollectionChainPath": str(trusted),
    }
