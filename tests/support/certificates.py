"""Certificates for one test, made by openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest

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
