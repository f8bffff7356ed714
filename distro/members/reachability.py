"""R12: a link has two directions. The members that can be called, by the reports of all members.

And R16: of two members that were apart, the one that waits before it carries keys again.

``peers``: the listed members but this node, by address.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from distro.members.peer_state import PeerState
from distro.model.config import DistroConfig
from distro.model.types import PeerReport

NEVER_ANSWERED_MS = 1 << 60

Peers = Mapping[str, PeerState]


@dataclass(frozen=True, slots=True)
class MemberRules:
    """The rules for the members that carry keys. A node follows all of them.

    The simulation switches single ones off, to show that each is needed.
    """

    hears_others: bool = True
    """A peer's word about another counts (R12)."""
    waits_apart: bool = True
    """A member that is new to this run waits like one that returns, if both wrote keys without the other (R16)."""


ALL_MEMBER_RULES = MemberRules()


def relayed(peers: Peers) -> dict[str, frozenset[str]]:
    """Return the peers that this node can call, each with the alive members that it cannot exchange with."""
    own = {address: one for address, one in peers.items() if one.calls is not None and one.is_alive}
    found = {}
    for address, peer in own.items():
        if peer.failures:
            continue
        apart = [
            other
            for other, one in own.items()
            if other != address and _fails(peer.calls, other) and _fails(one.calls, address)
        ]
        if apart:
            found[address] = frozenset(apart)
    return found


def is_callable(peers: Peers, address: str, config: DistroConfig, now_ms: int) -> bool:
    """Return whether anybody can call the listed peer, so that it may own keys."""
    if peers[address].answers(config, now_ms):
        return True
    others = (one for other, one in peers.items() if other != address)
    return any(one.is_alive and _was_answered(one.calls or {}, address, config) for one in others)


def is_called(peers: Peers, self_address: str, config: DistroConfig) -> bool:
    """Return whether a living member can call this node; True without any report."""
    alive = [peer for peer in peers.values() if peer.is_alive]
    return not alive or any(peer.calls is None or _was_answered(peer.calls, self_address, config) for peer in alive)


def still_until_ms(peers: Peers, config: DistroConfig, now_ms: int) -> int:
    """Return until when time alone moves none of the peers: ``now_ms`` while one fails or waits to rejoin."""
    until_ms = now_ms + config.silent_down_ms
    for peer in peers.values():
        if peer.failures or peer.rejoin_at_ms > now_ms or peer.declared_rejoin_at_ms > now_ms:
            return now_ms
        if peer.is_alive:
            until_ms = min(until_ms, peer.silent_ms(config))
    return until_ms


def is_unlisted(peers: Peers) -> bool:
    """Return whether all peers that answer say that this node is not in their lists."""
    found = peers.values()
    return any(peer.unlisting for peer in found) and not any(not peer.failures and peer.seen for peer in found)


def _was_answered(calls: Mapping[str, int], address: str, config: DistroConfig) -> bool:
    """Return whether a member's calls were answered until less than the time ago that makes a silent peer DOWN."""
    return calls.get(address, NEVER_ANSWERED_MS) < config.silent_down_ms


def _fails(calls: Mapping[str, int] | None, address: str) -> bool:
    return (calls or {}).get(address, 0) > 0


def is_smaller_side(self_address: str, view: tuple[str, ...], report: PeerReport) -> bool:
    """Return whether this node, rather than the reporting peer, gets a rejoin delay after the two were apart.

    ``view``: this node's. A side that kept the other in its view was itself away, and gets the delay. If neither did,
    the smaller view gets it; of views of one size that without the first address. Both sides decide alike, from the
    same two views.
    """
    they_have_us, we_have_them = self_address in report.view, report.address in view
    if they_have_us != we_have_them:
        return we_have_them
    theirs = report.view or (report.address,)
    return (len(view), theirs) < (len(theirs), view)
