"""The caller of a write and its cluster, as far as the execution depends on them, and the refusals before it."""

from typing import NamedTuple, Protocol

from app.auth.login_limits import LoginWait
from app.commands.ownership import Owners
from app.metrics.audit_trail import Actor
from app.naming.model.nacos_errors import NacosError

SHORT_CHANGE = "2"
"""The form of a change for who reads the short one; any other asks for the form of all releases."""
BATCH_CHANGE = "batch"
"""The short form, for a batch of writes whose answer has one time, from which all ages count."""


class PassedOn(NamedTuple):
    """A call that a member passed on, taking this member for the owner."""

    remote_ip: str
    uri: str
    """The path of the call, for the answer."""
    by_own_kind: bool
    """A member of our kind did, and named the client."""


class Misdirected(NacosError):
    """The call was passed on, and this member is not the owner: two members that disagree would send it in a circle."""

    status = 400

    def __init__(self, passed_on: PassedOn, at_ms: int) -> None:
        super().__init__(f"receive invalid redirect request from peer {passed_on.remote_ip}")
        self.uri = passed_on.uri
        self.at_ms = at_ms
        """The time of the refusal, by the wall clock."""


class WriteCaller(Protocol):
    """The caller of a write, as far as its execution depends on it."""

    on_loop: bool
    """The event loop waits for the outcome."""

    @property
    def deadline(self) -> str | None:
        """The text that says when it is too late to execute the call (R13); None for none."""
        ...

    @property
    def wants_change(self) -> str | None:
        """The form in which a member that passed the call on reads the change; None for other callers."""
        ...

    @property
    def actor(self) -> Actor:
        """The caller's name and address for the audit trail."""
        ...

    @property
    def login_wait(self) -> LoginWait | None:
        """The place that keeps a login of the call while it waits; None for a call that is not repeated."""
        ...

    @property
    def address(self) -> object | None:
        """The caller's address, where the writes of one are limited; else None."""
        ...

    def count_write(self) -> None:
        """Count one more write against the caller's address.

        Raises:
            TooManyRequests: the address has done as many as it may.
        """
        ...

    @property
    def passed_on(self) -> PassedOn | None:
        """The member that passed the call on as to its owner; None for clients, and for calls with one hop more."""
        ...


class WriteOwners(Owners, Protocol):
    """The owners of keys, and the times that their calls tell."""

    def is_over(self, deadline: str) -> bool:
        """Return whether it is too late to execute a call with this deadline (R13)."""
        ...

    def stamp(self) -> str:
        """The time now, as sent to another member."""
        ...

    def capabilities(self, address: str) -> frozenset[str]:
        """The capabilities in a member's last report."""
        ...

    def lacking(self, capability: str) -> list[str]:
        """Return the addresses of listed Rollcall members that are not DOWN and lack a capability."""
        ...
