"""All of a node's TLS: the watched files of HTTPS and of the gRPC ports."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.config.rpc_settings import RpcPort
from app.config.settings import SettingError, Settings
from app.machine.tls.certificate import (
    Certificate,
    CertificateError,
    parse_certificates,
    read_bounded,
    read_certificate,
)
from app.machine.tls.contexts import TlsContexts, make_contexts, make_port_context
from app.machine.tls.member_tls import MemberTls
from app.machine.tls.watched import CertificateWatch, TlsStats, WatchedFiles


@dataclass(frozen=True, slots=True)
class PortCertificate:
    """The certificate of a gRPC port."""

    certificate: Certificate
    context: ssl.SSLContext
    """Never changed: a connection in progress keeps the one it began with. If configured, it checks client
    certificates."""


@dataclass(frozen=True, slots=True)
class NodeTls:
    """The TLS of one node. ``http`` and ``members``: None while the HTTP port is plain."""

    stats: TlsStats
    watch: CertificateWatch
    http: WatchedFiles[TlsContexts] | None
    members: MemberTls | None
    grpc: dict[int, WatchedFiles[PortCertificate]]
    """By the number of a gRPC port that speaks TLS."""


def build_tls(settings: Settings, now_ms: Callable[[], int]) -> NodeTls:
    """Read all certificates of a node. ``now_ms``: a monotonic clock.

    Raises:
        SettingError: a certificate cannot be used.
    """
    stats = TlsStats()
    try:
        http, members = _of_http(settings, stats, now_ms)
        ports = (settings.rpc.sdk, settings.rpc.cluster) if settings.rpc else ()
        grpc = {port.port: made for port in ports if (made := _of_port(port, stats)) is not None}
    except CertificateError as error:
        raise SettingError(f"TLS: {error}") from None
    watched: list[WatchedFiles[Any]] = [*grpc.values(), *([http] if http else [])]
    return NodeTls(stats, CertificateWatch(watched, stats), http, members, grpc)


def _of_http(
    settings: Settings, stats: TlsStats, now_ms: Callable[[], int]
) -> tuple[WatchedFiles[TlsContexts] | None, MemberTls | None]:
    tls = settings.http_tls
    if tls is None:
        return None, None
    files = WatchedFiles((tls.certificate, tls.private_key, tls.trusted), partial(make_contexts, tls), stats)
    return files, MemberTls(files, stats, now_ms, compatible=tls.compatible)


def _of_port(port: RpcPort, stats: TlsStats) -> WatchedFiles[PortCertificate] | None:
    chain, private_key = port.certificate, port.private_key
    if chain is None or private_key is None:
        return None

    trusted = (port.trusted or chain) if port.mutual else None

    def make() -> PortCertificate:
        checked = None
        if trusted is not None:
            checked = read_bounded(trusted)
            parse_certificates(checked, trusted)
        certificate = read_certificate(chain, private_key)
        return PortCertificate(certificate, make_port_context(chain, private_key, checked))

    return WatchedFiles((chain, private_key, *([trusted] if trusted else [])), make, stats)
