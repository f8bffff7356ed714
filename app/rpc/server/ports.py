"""What this door needs of the node: nothing else of it is used, so that the door could be a process of its own."""

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
    """Native clients and what they publish. Thread-safe, and never blocks.

    Raises (register, deregister, subscribe and their kind): ClientGone, when the id is not connected here.
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
    """The member list, as this door uses it."""

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
    """Writes of persistent instances, at whichever member owns them. Each blocks: not for the event loop.

    Raises (each): NacosError, when it was not written, or nobody knows.
    """

    def register(self, command: RegisterInstance) -> None: ...

    def deregister(self, command: DeregisterInstance) -> None: ...


class PeerCalls(Protocol):
    """Calls of other members over their cluster port. Thread-safe, and blocks: not for the event loop."""

    def call(self, peer: str, type_name: str, fields: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]:
        """The JSON of the answer.

        Raises:
            TransportError: the peer was not reached, did not answer in time, or refused.
        """
        ...


class RpcServices(Protocol):
    """All that this door may use; the node provides it."""

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
        """``cpu`` and ``load`` among them."""
        ...

    def wall_ms(self) -> int: ...


Subscribe = Callable[[type, Callable[[Any], None]], None]
"""Asks to be told of events of a type, from whatever thread."""
