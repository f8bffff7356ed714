"""The services that the gRPC frontend uses. It uses nothing else of the node, and so could be its own process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from app.config.settings import Settings
from app.naming.clients.client_model import ClientInfo
from app.naming.clients.client_model import ServiceKey as ServiceKey
from app.naming.records.durable_service import DurableService
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.service import NamingService
from app.replication.client_receiver import ClientReceiver
from app.rpc.links.links import GrpcLinks
from distro.types import Member, MemberState


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


class MemberDirectory(Protocol):
    """The member list, as the gRPC frontend uses it."""

    self_address: str

    def members(self) -> list[Member]:
        """All members with this node among them, by address."""
        ...

    def state(self) -> MemberState: ...

    def is_listed(self, remote_ip: str) -> bool: ...

    def sender_of(self, named: str | None, remote_ip: str) -> str | None: ...

    def receive_rpc_report(self, node: Mapping[str, Any], remote_ip: str) -> tuple[str, dict[str, Any]] | None: ...

    def nacos_at(self, remote_ip: str) -> str: ...


class PersistentWrites(Protocol):
    """Writes of persistent instances, executed by the member that owns them. Each blocks: not for the event loop.

    Raises (each): NacosError, when the write failed, or its result is not known.
    """

    def register(self, command: RegisterInstance) -> None: ...

    def deregister(self, command: DeregisterInstance) -> None: ...


class PeerCalls(Protocol):
    """Calls of other members over their cluster port. Thread-safe, and blocks: not for the event loop."""

    def call(self, peer: str, type_name: str, fields: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]:
        """Return the fields of the peer's answer.

        Raises:
            TransportError: the peer was not reached, did not answer in time, or refused.
        """
        ...


class RpcServices(Protocol):
    """The services that the gRPC frontend uses; the node provides them."""

    @property
    def settings(self) -> Settings: ...

    @property
    def naming(self) -> NamingService: ...

    @property
    def durable(self) -> DurableService: ...

    @property
    def clients(self) -> NativeClients: ...

    @property
    def cluster(self) -> MemberDirectory: ...

    @property
    def client_receiver(self) -> ClientReceiver: ...

    @property
    def links(self) -> GrpcLinks | None:
        """The connections to other members; None without any."""
        ...

    @property
    def persistent_writes(self) -> PersistentWrites: ...

    def counters(self) -> Mapping[str, int | float]:
        """The node's counters, with ``cpu`` and ``load``."""
        ...

    def wall_ms(self) -> int: ...


Subscribe = Callable[[type, Callable[[Any], None]], None]
"""Subscribes a handler to events of a type. The handler is called on the publisher's thread, which is any."""
