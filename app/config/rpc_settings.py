"""The settings of the gRPC ports: sizes of messages, pings, certificates."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config.addresses import PORT_MAX
from app.config.settings_keys import FILE_OR_NONE, FLAG, PORT, Key, SettingError, both_or_none, check_file, whole
from app.languages.phrases import phrase

RPC_SDK_OFFSET, RPC_CLUSTER_OFFSET = 1_000, 1_001
"""The offsets from the HTTP port to those of gRPC. SDKs and members of Nacos 2.x compute the ports so."""

RPC_ENABLED = Key(
    ("rollcall.rpc.enabled",), FLAG, "true", "Serve gRPC: SDKs on server.port + 1000, members on server.port + 1001."
)
_MESSAGE_BYTES = whole(65_536, 1_073_741_824)
_KEEP_ALIVE_MS = whole(1_000, 86_400_000)


def _rpc_keys(port: str, whose: str, tls: str) -> dict[str, Key[Any]]:
    """Return the settings of one gRPC port, by field of RpcPort."""
    prefix = f"nacos.remote.server.grpc.{port}"
    return {
        "message_bytes_max": Key(
            (f"{prefix}.max-inbound-message-size",),
            _MESSAGE_BYTES,
            "10485760",
            f"Bytes of the largest gRPC message of {whose}.",
        ),
        "keep_alive_ms": Key(
            (f"{prefix}.keep-alive-time",),
            _KEEP_ALIVE_MS,
            "7200000",
            f"Ping a gRPC connection of {whose} after this long without traffic.",
        ),
        "keep_alive_timeout_ms": Key(
            (f"{prefix}.keep-alive-timeout",),
            _KEEP_ALIVE_MS,
            "20000",
            f"How long the answer to a ping of {whose} may take.",
        ),
        "permit_keep_alive_ms": Key(
            (f"{prefix}.permit-keep-alive-time",),
            whole(0, 86_400_000),
            "10000",
            f"The shortest allowed time between pings of {whose}; more frequent ones end the connection.",
        ),
        "certificate": Key(
            (f"nacos.remote.{tls}.rpc.tls.certChainFile",),
            FILE_OR_NONE,
            "",
            f"The chain of certificates (PEM) for TLS towards {whose}; without it that port is plain.",
        ),
        "private_key": Key(
            (f"nacos.remote.{tls}.rpc.tls.certPrivateKey",),
            FILE_OR_NONE,
            "",
            f"The private key (PEM) for TLS towards {whose}.",
        ),
    }


RPC_SDK = _rpc_keys("sdk", "SDKs", "server")
RPC_CLUSTER = _rpc_keys("cluster", "members", "peer") | {
    "trusted": Key(
        ("nacos.remote.peer.rpc.tls.trustCollectionChainPath",),
        FILE_OR_NONE,
        "",
        "The trusted certificates (PEM) when this node connects to members with TLS. Default: its own chain.",
    ),
    "mutual": Key(
        ("nacos.remote.peer.rpc.tls.mutualAuth",),
        FLAG,
        "false",
        "With TLS, require a trusted client certificate on connections to the members' port.",
    ),
}
RPC_KEYS: tuple[Key[Any], ...] = (RPC_ENABLED, *RPC_SDK.values(), *RPC_CLUSTER.values())


@dataclass(frozen=True, slots=True)
class RpcPort:
    """The settings of one of the two gRPC ports."""

    port: int
    message_bytes_max: int
    keep_alive_ms: int
    keep_alive_timeout_ms: int
    permit_keep_alive_ms: int
    certificate: Path | None
    private_key: Path | None
    """Both or neither of the two is set. With them the port uses TLS."""
    trusted: Path | None = None
    """Certificates that this node trusts at the other members' ports; None: its own certificate."""
    mutual: bool = False
    """True if clients must show a certificate that ``trusted`` covers."""


@dataclass(frozen=True, slots=True)
class RpcSettings:
    """The settings of the gRPC ports: one port for SDKs, one for members."""

    sdk: RpcPort
    cluster: RpcPort


def rpc_settings(get: Callable[[Key[Any]], Any], origin: Callable[[Key[Any]], str], port: int) -> RpcSettings | None:
    """Return the settings of the gRPC ports; None without gRPC. ``port``: that of HTTP.

    ``get``: a setting's value; ``origin``: its source.

    Raises:
        SettingError: the ports are too high, a file does not exist, or only one of certificate and key is set.
    """
    if not get(RPC_ENABLED):
        return None
    if port + RPC_CLUSTER_OFFSET > PORT_MAX:
        raise SettingError(
            phrase(
                "%(key)s=%(port)s is not allowed with gRPC, which needs port %(next)s too: at most %(most)s, or "
                "%(rpc)s=false",
                key=PORT.name,
                port=port,
                next=port + RPC_CLUSTER_OFFSET,
                most=PORT_MAX - RPC_CLUSTER_OFFSET,
                rpc=RPC_ENABLED.name,
            )
        )

    def read(of_port: dict[str, Key[Any]], offset: int) -> RpcPort:
        both_or_none(get, of_port["certificate"], of_port["private_key"])
        for key in (of_port[name] for name in ("certificate", "private_key", "trusted") if name in of_port):
            if (file := get(key)) is not None:
                check_file(key.name, file, origin(key))
        return RpcPort(port=port + offset, **{name: get(key) for name, key in of_port.items()})

    return RpcSettings(read(RPC_SDK, RPC_SDK_OFFSET), read(RPC_CLUSTER, RPC_CLUSTER_OFFSET))
