"""The parts of a node that calls to other members use, and the call of a client as it is passed on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from app.auth.member_signer import MemberSigner
from app.commands.ownership import Owners
from app.config.settings import Settings
from app.machine.tls.node_tls import NodeTls
from app.naming.service import NamingService
from distro.model.types import Member

A_co = TypeVar("A_co", covariant=True)


class PeerCluster(Owners, Protocol):
    """The other members as their callers see them."""

    standalone: bool

    def members(self) -> list[Member]:
        """All members with this node among them, by address."""
        ...

    def capabilities(self, address: str) -> frozenset[str]:
        """The capabilities in a member's last report; none for an unknown member, or for one of other software."""
        ...

    def deadline(self, member: str, left_ms: int) -> str | None:
        """The deadline to send with a call to a member, which is given up after ``left_ms`` (R13).

        Empty for a member that names no clock, None for one that may not be called.
        """
        ...

    def stamp(self) -> str:
        """The text of a call's header ``Rollcall-Clock``: when it is made."""
        ...

    def sent_ms(self, member: str, clock: str | None) -> int:
        """When a call of ``member`` was sent, by our monotonic clock; ``clock``: its header ``Rollcall-Clock``."""
        ...


class PeerAddresses(Protocol):
    """The IP addresses of the other members."""

    def ips_of(self, member: str) -> frozenset[str]:
        """The IP addresses of a listed member, as they were when its name could be looked up last; none for others."""
        ...


@dataclass(slots=True)
class ForwardStats:
    """Counters since the start. Written by several threads without a lock: now and then one count may be lost."""

    forward_answered: int = 0
    forward_held: int = 0
    """Waits for another owner, because the one asked refused or did not listen."""
    forward_failed: int = 0
    """Calls given up: no owner answered in time."""
    forward_busy: int = 0
    """Calls refused at once, because too many others were under way."""
    forward_batches: int = 0
    """Calls in which several writes of clients went together."""
    forward_unseen: int = 0
    """Calls that the owner executed and that were not acknowledged, as their outcome could not be fetched in time."""


class _Refreshing(Protocol):
    def refresh(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
        """Fetch from ``peer`` the datums of keys that it has just written; False when that fails."""
        ...


class _Forwarding(Protocol):
    @property
    def stats(self) -> ForwardStats: ...


class PeerParts(Protocol):
    """The parts of a node that make calls to other members, or that their answers go to."""

    @property
    def settings(self) -> Settings: ...

    @property
    def cluster(self) -> PeerCluster: ...

    @property
    def senders(self) -> PeerAddresses: ...

    @property
    def signer(self) -> MemberSigner: ...

    @property
    def tls(self) -> NodeTls: ...

    @property
    def naming(self) -> NamingService: ...

    @property
    def replication(self) -> _Refreshing: ...

    @property
    def forwarder(self) -> _Forwarding: ...


class Pairs(Protocol):
    """Names and values, each name once."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class MemberRequest(Protocol):
    """A call as members of Nacos pass it on: ``path`` is below the context path, header names are in lower case."""

    @property
    def method(self) -> str: ...

    @property
    def context_path(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def parameters(self) -> Pairs: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the client's call."""
        ...

    @property
    def remote_ip(self) -> str:
        """The address that the client called from."""
        ...

    @property
    def agent(self) -> str:
        """The client's name, empty for none."""
        ...


class ClientCall(MemberRequest, Protocol):
    """A call of a client as it came, for a Rollcall member."""

    @property
    def raw_query(self) -> bytes: ...

    @property
    def body(self) -> bytes: ...

    @property
    def client_agent(self) -> str:
        """The agent string of the client, also when a member forwarded its call."""
        ...

    @property
    def hop_token(self) -> str:
        """A token for the member that executes the call, in place of the user's password; empty without a password."""
        ...

    @property
    def user(self) -> str:
        """The user whose token the call brought; empty while authentication is off, and for calls of members."""
        ...

    @property
    def deadline(self) -> str | None:
        """The header that says when it is too late to execute the call (R13)."""
        ...

    def header(self, name: str) -> str | None:
        """One header, by its name in lower case."""
        ...


class Replies(Protocol[A_co]):
    """The frontend's form of an answer."""

    @property
    def ok(self) -> A_co:
        """The answer ``ok``, which nearly each write has."""
        ...

    def refuse(self, status: int, text: str) -> A_co:
        """An answer of this node's own."""
        ...

    def of_member(self, status: int, body: bytes, headers: Mapping[bytes, bytes]) -> A_co:
        """A member's answer, with the names of its headers in lower case, as the client gets it."""
        ...

    def relayed(self, status: int, body: bytes, headers: Mapping[bytes, bytes], more: Mapping[str, str]) -> A_co:
        """The same for the member that passed the call on here, with ``more`` headers in place of others."""
        ...
