"""What the gRPC frontend asks of the node. It uses nothing else, and so could be a process of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from app.naming.clients.client_model import ClientInfo
from app.naming.clients.client_model import ServiceKey as ServiceKey
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.ports.shared_ports import MemberDirectory, NodeServices
from app.replication.client_receiver import ClientReceiver


class NativeClients(Protocol):
    """The clients that are connected to this node over gRPC, and their publications. Thread-safe, never blocks.

    Raises: ClientGone (register to unsubscribe) when no client with the id is connected; Unavailable when a bound on
    clients or on their changes is reached.
    """

    def connect(self, info: ClientInfo) -> None: ...

    def disconnect(self, client_id: str) -> bool: ...

    def register(self, client_id: str, command: RegisterInstance) -> None: ...

    def batch_register(
        self, client_id: str, namespace: str, service: str, commands: Sequence[RegisterInstance]
    ) -> None: ...

    def deregister(self, client_id: str, namespace: str, service: str) -> None: ...

    def subscribe(self, client_id: str, namespace: str, service: str, clusters: str) -> None: ...

    def unsubscribe(self, client_id: str, namespace: str, service: str) -> None: ...


class PeerDirectory(MemberDirectory, Protocol):
    """The member list, with what peers tell over gRPC."""

    def sender_of(self, named: str | None, remote_ip: str) -> str | None:
        """The listed peer of our kind that a call names, if it comes from that peer's address; else None."""
        ...

    def receive_rpc_report(self, node: Mapping[str, Any], remote_ip: str) -> tuple[str, dict[str, Any]] | None:
        """Take real Nacos's report: its address (empty if unlisted) and this member's own node; None if malformed."""
        ...

    def nacos_at(self, remote_ip: str) -> str:
        """The address of the listed real Nacos at ``remote_ip``; empty for none."""
        ...


class PersistentWrites(Protocol):
    """Writes of persistent instances, executed by the member that owns them. Each blocks: not for the event loop.

    Raises (each): NacosError, when the write failed, or its result is not known.
    """

    def register(self, command: RegisterInstance) -> None: ...

    def deregister(self, command: DeregisterInstance) -> None: ...


class PeerLinks(Protocol):
    """Calls of other members over their cluster port. Thread-safe, and blocks: not for the event loop."""

    def call_all(
        self, type_name: str, requests: Mapping[str, Mapping[str, Any]], timeout_ms: int
    ) -> dict[str, dict[str, Any]]:
        """Return the fields of the answers to these requests, each by the address of its peer.

        Peers that were not reached, did not answer in time, or refused, are left out.
        """
        ...

    async def start(self) -> None:
        """Connect to the members from now on. On the loop."""
        ...

    async def stop(self) -> None:
        """Close all connections. On the loop; may be called twice."""
        ...


class RpcServices(NodeServices, Protocol):
    """All parts of a node that the gRPC frontend uses."""

    @property
    def clients(self) -> NativeClients: ...

    @property
    def cluster(self) -> PeerDirectory: ...

    @property
    def client_receiver(self) -> ClientReceiver: ...

    @property
    def links(self) -> PeerLinks | None:
        """The connections to other members; None without any."""
        ...

    @property
    def persistent_writes(self) -> PersistentWrites: ...


Subscribe = Callable[[type, Callable[[Any], None]], None]
"""Subscribes a handler to events of a type. The handler is called on the publisher's thread, which is any."""
