"""The settings of HTTPS: the files of the certificate, and how members check each other's certificates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config import settings_keys as keys
from app.config.rpc_settings import RPC_CLUSTER, RPC_ENABLED, RPC_SDK
from app.config.settings_keys import Key, SettingError, both_or_none, check_file
from app.languages.phrases import phrase


@dataclass(frozen=True, slots=True)
class HttpTls:
    """The settings of HTTPS on the HTTP port, and of this node's calls to members."""

    certificate: Path
    private_key: Path
    trusted: Path
    """Certificates that check those of other members."""
    mutual: bool
    """True if members' calls need a client certificate."""
    compatible: bool
    """True if plain HTTP is accepted on the same port, and members that speak no TLS are called without it."""


def http_tls(get: Callable[[Key[Any]], Any], origin: Callable[[Key[Any]], str]) -> HttpTls | None:
    """Return the settings of HTTPS; None if it is off. ``get``: a setting's value; ``origin``: its source.

    Raises:
        SettingError: a file is not named or does not exist, or only one of certificate and key is set.
    """
    if not get(keys.HTTP_TLS_ENABLED):
        return None

    def pair(of: dict[str, Key[Any]]) -> tuple[Key[Any], Key[Any]]:
        return of["certificate"], of["private_key"]

    pairs = [pair(of) for of in (keys.HTTP_TLS, RPC_SDK, RPC_CLUSTER)]
    for certificate, private_key in pairs:
        both_or_none(get, certificate, private_key)
    chosen = next((one for one in pairs if get(one[0])), None)
    if chosen is None:
        certificate, private_key = pairs[0]
        raise SettingError(
            phrase(
                "%(setting)s=true needs a certificate: set %(certificate)s and %(private_key)s",
                setting=keys.HTTP_TLS_ENABLED.name,
                certificate=certificate.name,
                private_key=private_key.name,
            )
        )
    trusts = (keys.HTTP_TLS["trusted"], RPC_CLUSTER["trusted"], chosen[0])
    trusted = next(one for one in trusts if get(one))
    for key in (*chosen, trusted):
        check_file(key.name, get(key), origin(key))
    return HttpTls(
        certificate=get(chosen[0]),
        private_key=get(chosen[1]),
        trusted=get(trusted),
        mutual=get(keys.HTTP_TLS["mutual"]),
        compatible=get(keys.HTTP_TLS["compatible"]),
    )


def tls_warnings(get: Callable[[Key[Any]], Any], standalone: bool) -> Iterator[str]:
    """Yield warnings about unprotected parts although HTTPS is on."""
    if not get(keys.HTTP_TLS_ENABLED):
        return
    if get(keys.HTTP_TLS["compatible"]):
        yield phrase(
            "%(key)s is true: this node accepts plain HTTP, and may call members over it; set it to false when all "
            "members speak HTTPS",
            key=keys.HTTP_TLS["compatible"].name,
        )
    if not standalone and get(RPC_ENABLED) and not get(RPC_CLUSTER["certificate"]):
        certificate, private_key = RPC_CLUSTER["certificate"], RPC_CLUSTER["private_key"]
        yield phrase(
            "members call each other over HTTPS, but send the data of connected clients over gRPC without TLS: set "
            "%(certificate)s and %(private_key)s",
            certificate=certificate.name,
            private_key=private_key.name,
        )
