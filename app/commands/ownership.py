"""Which member must execute a write."""

from dataclasses import field
from typing import Protocol

from app.naming.records.record_keys import record_tag
from distro.model.types import MemberState, value


class Owners(Protocol):
    """This member, and which member is responsible for a key. Thread-safe."""

    self_address: str

    def state(self) -> MemberState: ...

    def map_srv(self, tag: str) -> str:
        """The address of the member that owns ``tag``."""
        ...

    def owner_if_up(self, tag: str) -> str:
        """The owner of ``tag`` by ``map_srv``; empty while this member is not UP. One call, as each write asks both."""
        ...

    def map_srv_durable(self, tag: str) -> str:
        """As ``map_srv``, among Rollcall members: the others keep durable data in their own way."""
        ...

    def next_hop(self, member: str) -> str | None:
        """The member to send a call for ``member`` to: itself, or one that can call it (R12); None for neither."""
        ...

    def left_ms(self, deadline: str) -> int:
        """Return how long a member's call with this deadline may still be executed (R13); below 0 when it is late."""
        ...

    def responsible_durable(self, tag: str) -> bool:
        """Return whether this member owns ``tag``, by ``map_srv_durable``."""
        ...


@value
class Forward:
    """A write that belongs to another member: forward it, one hop, and return that member's answer."""

    tag: str
    """The text that DistroMapper hashes: the full service name."""
    durable: tuple[str, ...] = ()
    """Keys of the durable records that the write changes: they are fetched before it is answered here."""
    owner: str = field(default="", compare=False)
    """The member that owns ``tag`` now; empty if that is still to be asked."""


BEHIND_TEXT = "server is back after it stood still and compares its data, please try another server!"
"""The text of the 503 for a read before this node has compared its data with a peer's (R9)."""


def not_serving_text(status: str) -> str:
    """The text of the 503 of a member that does not serve; it means that nothing was executed.

    Source: Nacos 1.4.1 TrafficReviseFilter.
    """
    return f"server is {status} now, please try again later!"


def durable_owner(owners: Owners, *keys: str) -> Forward | None:
    """Return where to pass on a write of these durable records, which share an owner; None when this node is it."""
    tag = record_tag(keys[0])
    return None if owners.responsible_durable(tag) else Forward(tag, keys)
