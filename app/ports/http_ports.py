"""The interfaces of the node that the HTTP frontend uses."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Protocol

from app.naming.push.udp_subscribers import Subscriber, UdpPushStats
from app.operator.instance_facts import AskedInstance
from app.operator.instance_places import InstancePlace
from app.peers.peer_parts import PeerAddresses, PeerCluster
from app.peers.small_datums import LoopCalls
from app.ports.shared_ports import MemberDirectory
from distro.model.types import Member


class PauseChecks(Protocol):
    """The event loop's watch for pauses of its process (R13). For the loop's thread."""

    def check(self) -> None:
        """Notice a pause; call it before anything that came in the meantime is executed."""
        ...

    def ran(self, is_waiting: Callable[[], bool]) -> None:
        """Note that the loop runs. ``is_waiting``: returns whether connections wait to be accepted."""
        ...


class Cluster(MemberDirectory, PeerCluster, Protocol):
    """The member list and the owners of keys, as this node sees them."""

    @property
    def draining(self) -> bool:
        """True while an operator drains this node."""
        ...

    def leave(self) -> None:
        """Take no calls of clients from now on, and tell the other members that this one ends. Returns at once."""
        ...

    def unsent_keys(self) -> int:
        """Return the number of changed keys that have not reached a member yet, counted for each member."""
        ...

    def drain(self, enabled: bool) -> None:
        """Hand the keys over to the other members and take no calls of clients, or undo this. Returns at once."""
        ...

    def responsible(self, tag: str) -> bool:
        """Return whether this node owns ``tag``."""
        ...

    def member_json(self, member: Member) -> dict[str, Any]:
        """Return a member in its wire form. Source: Nacos 1.4 Member."""
        ...

    def planned(self, member: Member) -> str:
        """Return why a member is out by plan: ``drained`` or ``left``; empty if it is not, and if it crashed."""
        ...


class Senders(PeerAddresses, Protocol):
    """The members that calls come from."""

    def is_listed(self, remote_ip: str) -> bool:
        """Return whether ``remote_ip`` is the address of a listed member; a standalone node has no such list."""
        ...


class Reports(Protocol):
    """The reports between the members."""

    def is_leave_known(self) -> bool:
        """Return whether this node has told every reachable Rollcall member that it leaves."""
        ...

    def is_handed_over(self) -> bool:
        """Return whether all changes have reached the reachable members, and none of these sends this node writes."""
        ...

    def receive_report(self, body: Mapping[str, Any], remote_ip: str) -> dict[str, Any]:
        """Take a peer's report. Returns the fields of the answer: ``{code, message, data}``."""
        ...


class ListLookup(Protocol):
    """The source of the member list."""

    def switch(self, kind: str) -> None:
        """Take it from another source, ``file``, ``address-server`` or ``dns``, if that gives one. Blocks for that.

        Raises:
            NoListError: it gives no list, or is not set up; all stays as it was.
        """
        ...


class Explainer(Protocol):
    """This member's facts about one instance."""

    def facts(self, asked: AskedInstance) -> dict[str, Any]:
        """Return all facts about the instance. Shape: docs/operations/inspect.md."""
        ...

    def places(self, namespace: str, service: str, ip: str, port: int) -> list[InstancePlace]:
        """Return where an address is registered in services of this short name, in all groups and clusters."""
        ...


class Replication(Protocol):
    """The engine's receiving side. Each call may come from any thread.

    Raises (each): CodecError (answer 400 with its text), NotInitialized (answer 503).
    """

    def receive(
        self, body: bytes, headers: Mapping[str, str], remote_ip: str, frame: Mapping[str, Any] | None = None
    ) -> bytes:
        """Take the body ``{key: datum}``, gzip or plain. Returns the answer: ``ok``, or JSON for a Rollcall peer.

        ``frame``: the object in the body, if it was read already.
        """
        ...

    def verify(
        self, body: bytes, source: str, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> bytes:
        """Compare ``{key: checksum or version}`` with the stored datums; those that differ are fetched later."""
        ...

    def compare(self, body: bytes, headers: Mapping[str, str], remote_ip: str) -> bytes:
        """Answer one message of a peer's round that compares digests.

        Raises:
            NoRight: the caller is not a listed Rollcall member.
        """
        ...

    def datums(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], dict[str, str]]:
        """The datums of ``keys``, of all for None, as JSON in parts, or in gzip; and the headers that say so."""
        ...

    def page(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], dict[str, str]]:
        """To our own kind a page of the datums of ``keys``, for None the versions of all keys; as ``datums`` else."""
        ...

    def refresh(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
        """Fetch from ``peer`` the datums of keys that it has just written; False when that fails."""
        ...


class SmallSending(Protocol):
    """The engine's sends of small frames, which the event loop makes while it runs."""

    def attach(self, calls: LoopCalls | None) -> None:
        """Let the loop make them from now on; None: not any more."""
        ...


class Healer(Protocol):
    """The exchange of one service with the other members, begun by an operator. Each call returns at once."""

    def wait_ms(self, namespace: str, service: str) -> int:
        """0 when ``heal`` may be called now, which then counts as called; else how long to wait before it."""
        ...

    def heal(self, namespace: str, service: str, source: str, instances: Iterable[str]) -> dict[str, Any]:
        """Begin to fetch what peers hold of a service; return whom this node asks. Shape: keys, owned, asked.

        Raises:
            InvalidParam: there is no peer to exchange with, or ``source`` is not a reachable Rollcall member.
        """
        ...


class Pushing(Protocol):
    """The UDP subscribers of this node, who receive a service when it changes. Each call returns at once."""

    def subscribe(self, subscriber: Subscriber) -> None: ...

    def refuse(self) -> None:
        """Count a query that asked for pushes to an address that is not its own."""
        ...

    def subscribers(self, namespace: str) -> list[Subscriber]:
        """The subscribers to services of a namespace."""
        ...

    def state(self, *, reset: bool) -> tuple[UdpPushStats, list[tuple[Subscriber, int, int]]]:
        """The counters, and the unacknowledged pushes: subscriber, reference, sends. ``reset`` zeroes the counters."""
        ...


class LoopFrontend(Protocol):
    """A frontend beside HTTP on the worker's loop: starts before HTTP, and stops after it. Called on the loop."""

    async def start(self) -> None:
        """Listen.

        Raises:
            SettingError: a port is not free, or a certificate cannot be read.
        """
        ...

    def drain(self, enabled: bool) -> None:
        """Send the clients to other members and take no new ones, or take them again. From any thread."""
        ...

    def leave(self) -> None:
        """Ask the clients to connect to another member, as this node stops."""
        ...

    async def stop(self) -> None:
        """End all connections. May be called twice."""
        ...

    def join(self) -> None:
        """Wait for the threads after ``stop``. Not on the loop."""
        ...


class ConnectionLoader(Protocol):
    """Operators' view of the gRPC connections. Each call returns at once, except those that ask other members."""

    def current(self, ids: Set[str] | None = None) -> dict[str, Any]:
        """The connections of this node, by id; with ``ids`` only these."""
        ...

    def reload_client(self, connection_id: str, redirect: tuple[str, int] | None) -> None:
        """Ask one client to connect to ``redirect``, or to any other member."""
        ...

    def reload_to(self, count: int, redirect: tuple[str, int] | None) -> None:
        """Ask the latest clients to connect elsewhere, so that ``count`` stay."""
        ...

    def cluster(self) -> dict[str, Any]:
        """The connections and load of each member. Asks the others, and waits for seconds at most."""
        ...

    def smart_reload(self, factor: float) -> bool:
        """Have overloaded members send clients to others; whether all of them agreed. Asks the others, and waits."""
        ...
