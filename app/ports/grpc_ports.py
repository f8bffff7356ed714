"""The interfaces of the node that the gRPC frontend uses. It uses nothing else, so it could be a separate process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.auth.access_control import AccessControl
from app.auth.member_calls import Callers
from app.commands.member_writes import MemberWrites
from app.config.settings import Settings
from app.machine.limits.answer_budget import AnswerBudget
from app.machine.limits.client_addresses import AddressTable
from app.machine.limits.connection_room import ConnectionRoom
from app.machine.process.config_call_log import ConfigCallLog
from app.metrics.instruments import Instruments
from app.naming.clients.clients import Clients
from app.naming.records.durable_service import DurableService
from app.naming.service import NamingService
from app.ports.shared_ports import MemberDirectory, ReadCounters
from app.replication.client_receiver import ClientReceiver


class RpcSenders(Protocol):
    """The members that calls over gRPC come from."""

    def sender_of(self, named: str | None, remote_ip: str) -> str | None:
        """The listed peer of our kind that a call names, if it comes from that peer's address; else None."""
        ...

    def nacos_at(self, remote_ip: str) -> str:
        """The address of the listed real Nacos at ``remote_ip``; empty for none."""
        ...


class RpcReports(Protocol):
    """The reports of members that are real Nacos since 2.0."""

    def receive_rpc_report(self, node: Mapping[str, Any], remote_ip: str) -> tuple[str, dict[str, Any]] | None:
        """Take real Nacos's report: its address (empty if unlisted) and this member's own node; None if malformed."""
        ...


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


@dataclass(frozen=True, slots=True)
class RpcServices:
    """All parts of a node that the gRPC frontend uses. The node hands them over."""

    settings: Settings
    naming: NamingService
    durable: DurableService
    clients: Clients
    cluster: MemberDirectory
    senders: RpcSenders
    reports: RpcReports
    check_pause: Callable[[], None]
    """Notices that this process stood still. Call it on the loop's thread before a call is answered."""
    client_receiver: ClientReceiver
    links: PeerLinks | None
    """The connections to other members; None without any."""
    access: AccessControl
    persistent_writes: MemberWrites
    callers: Callers
    counters: ReadCounters
    config_calls: ConfigCallLog
    addresses: AddressTable
    """The addresses of clients, with their connections over HTTP too."""
    room: ConnectionRoom
    """The room for connections, of all ports together."""
    answers: AnswerBudget
    """The bytes of answers under way, over HTTP too."""
    instruments: Instruments
    wall_ms: Callable[[], int]
