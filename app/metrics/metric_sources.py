"""The sources of a node's metrics: its parts, as the collectors read them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.background.push_udp import UdpPusher
from app.members.membership import Membership
from app.naming.clients.client_table import ClientCounts, ClientTable
from app.naming.push.udp_subscribers import UdpPushStats
from app.naming.registry.service_table import Counts
from app.naming.service import NamingService
from distro.model.types import Member
from distro.protocol.engine_view import EngineView, PeerView


@dataclass(frozen=True, slots=True)
class NodeSources:
    """The parts of a node as ``Sources``."""

    counters: Callable[[], Mapping[str, int | float]]
    naming: NamingService
    clients: ClientTable
    push: UdpPusher
    cluster: Membership
    view: Callable[[], EngineView]

    def counts(self) -> Counts:
        return self.naming.counts(self.cluster.responsible)

    def client_counts(self) -> ClientCounts:
        return self.clients.counts()

    def udp(self) -> tuple[int, UdpPushStats]:
        return self.push.subscriber_count, self.push.state(reset=False)[0]

    def members(self) -> Sequence[Member]:
        return self.cluster.members()

    def peers(self) -> Mapping[str, PeerView]:
        return self.view().peers

    def unready_reason(self) -> str:
        return self.cluster.unready_reason()
