"""Members that require users and TLS: their certificate, their settings, their first administrator."""

import base64
import contextlib
import http.client
import json
import secrets
import ssl
import subprocess
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from app.config.auth_settings import FIRST_ADMIN_FILE

TIMEOUT_S = 30.0

SUBJECT = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate of this machine, and its key."""
    chain, key = folder / "certificate.pem", folder / "key.pem"
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9")
    command = ["openssl", "req", *kind, *SUBJECT, "-keyout", str(key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True)
    return chain, key


def tls_settings(chain: Path, key: Path) -> dict[str, str]:
    """TLS for clients and members, over HTTP and gRPC."""
    settings = {"rollcall.http.tls.enabled": "true"}
    for prefix in ("rollcall.http.tls", "nacos.remote.server.rpc.tls", "nacos.remote.peer.rpc.tls"):
        settings |= {f"{prefix}.certChainFile": str(chain), f"{prefix}.certPrivateKey": str(key)}
    for prefix in ("rollcall.http.tls", "nacos.remote.peer.rpc.tls"):
        settings[f"{prefix}.trustCollectionChainPath"] = str(chain)
    return settings


def auth_settings() -> dict[str, str]:
    """Users and an identity of members, with new secrets."""
    return {
        "nacos.core.auth.enabled": "true",
        "nacos.core.auth.plugin.nacos.token.secret.key": base64.b64encode(secrets.token_bytes(48)).decode(),
        "nacos.core.auth.server.identity.key": "Cluster-Identity",
        "nacos.core.auth.server.identity.value": secrets.token_urlsafe(32),
    }


def setup_secret_of(data: Path) -> str:
    """The bootstrap secret in a member's data folder; empty for a release without one."""
    file = data / FIRST_ADMIN_FILE
    return file.read_text().strip() if file.exists() else ""


def make_first_administrator(address: str, data: Path, tls: ssl.SSLContext | None, name: str = "nacos") -> str:
    """Create the first administrator of a cluster at the member with this data folder; return a token.

    Raises:
        RuntimeError: the member refuses.
    """
    password = secrets.token_urlsafe(18)
    form = {"username": name, "password": password}
    status, body = _post(address, tls, "/nacos/v1/auth/users/admin", {**form, "secret": setup_secret_of(data)})
    if status == HTTPStatus.OK:
        status, body = _post(address, tls, "/nacos/v1/auth/login", form)
    if status != HTTPStatus.OK:
        raise RuntimeError(f"no first administrator: {status} {body[:200]!r}")
    token: str = json.loads(body)["accessToken"]
    return token


def _post(address: str, tls: ssl.SSLContext | None, path: str, form: Mapping[str, str]) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    connection: http.client.HTTPConnection
    if tls is None:
        connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    else:
        connection = http.client.HTTPSConnection(host, int(port), timeout=TIMEOUT_S, context=tls)
    with contextlib.closing(connection):
        connection.request("POST", path, urlencode(form), {"Content-Type": "application/x-www-form-urlencoded"})
        answer = connection.getresponse()
        return answer.status, answer.read()
