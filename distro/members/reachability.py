"""R12: a link has two directions. By which ways members are reached, from what all of them tell of each other.

``peers``: the listed members but this node, by address.
"""

from collections.abc import Mapping

from distro.members.peer_state import ALWAYS_MS, NEVER_MS, PeerState
from distro.model.config import DistroConfig
from distro.model.types import HeardOf, MemberState

HALF_MS_MAX, CUT_OFF_MS_MAX = 30_000, 300_000
"""For so long a member that hears nothing of half of the others, or of more, does not judge what these heard of."""
NEVER_ANSWERED_MS = 1 << 60

Peers = Mapping[str, PeerState]


def unanswered_ms(peers: Peers, now_ms: int) -> dict[str, int]:
    """For how long each peer has not answered this node's calls, in ms, 0 if it answers."""
    return {address: max(now_ms - peer.answered_ms, 1) if peer.failures else 0 for address, peer in peers.items()}


def relayed(peers: Peers) -> dict[str, frozenset[str]]:
    """The peers that this node can call, each with the alive members that it cannot exchange with."""
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


def cut_off_since_ms(peers: Peers, config: DistroConfig, now_ms: int) -> int | None:
    """Since when this node hears nothing of half of the members that it last saw, or more; None otherwise.

    A member that left, or where no process listens, is not cut off. Half is counted for ``HALF_MS_MAX`` at most,
    and more for ``CUT_OFF_MS_MAX``: whoever is silent for longer has ended.
    """
    alive = 1 + sum(one.is_alive for one in peers.values())
    silent = [
        one.last_heard_ms
        for one in peers.values()
        if one.lost and not one.farewell and not one.refused and one.member.state is MemberState.DOWN
    ]
    if not silent or alive > len(silent):
        return None
    since_ms = min(silent)
    limit_ms = HALF_MS_MAX if alive == len(silent) else CUT_OFF_MS_MAX
    if now_ms - since_ms >= limit_ms:
        return None
    # What the others heard until the cut began may have arrived for as long as their next report would.
    return since_ms + 2 * config.report_interval_ms


def heard_of(peers: Peers, config: DistroConfig, now_ms: int) -> dict[str, HeardOf]:
    """What this node heard of each peer of our own kind, to be told in reports."""
    return {
        address: HeardOf(max(now_ms - peer.heard_ms, 0), peer.calls)
        for address, peer in peers.items()
        if peer.calls is not None and now_ms - peer.heard_ms < config.silent_down_ms
    }


def last_contact_ms(peers: Peers, address: str) -> int:
    """When a peer last answered this node or called it; ``ALWAYS_MS`` of what is no peer.

    Not what others heard: the ages in their reports are a little older when these are read, and so go round.
    """
    return peers[address].last_ok_ms if address in peers else ALWAYS_MS


def beats_known_ms(peers: Peers, now_ms: int) -> int:
    """What beats the peers that are alive had taken until then are known here, as far as they tell."""
    told = (peer.told_ms for peer in peers.values() if peer.is_alive and peer.told_ms != NEVER_MS)
    return min(told, default=now_ms)


def next_hop(peers: Peers, address: str, config: DistroConfig, now_ms: int) -> str | None:
    """The member to send a call for a peer to: itself, or another one that can call it; None for neither."""
    peer = peers.get(address)
    if peer is None or not peer.failures:
        return address
    relays = [
        other
        for other, one in peers.items()
        if other != address and not one.failures and one.is_alive and (one.calls or {}).get(address) == 0
    ]
    if relays:
        return min(relays)
    return address if peer.answers(config, now_ms) else None


def is_callable(peers: Peers, address: str, config: DistroConfig, now_ms: int) -> bool:
    """Whether anybody can call the listed peer, so that it may own keys."""
    if peers[address].answers(config, now_ms):
        return True
    others = (one for other, one in peers.items() if other != address)
    return any(one.is_alive and _was_answered(one.calls or {}, address, config) for one in others)


def is_called(peers: Peers, self_address: str, config: DistroConfig) -> bool:
    """Whether anybody that is alive can call this node; also when nobody tells."""
    alive = [peer for peer in peers.values() if peer.is_alive]
    return not alive or any(peer.calls is None or _was_answered(peer.calls, self_address, config) for peer in alive)


def is_unlisted(peers: Peers) -> bool:
    """Whether all peers that answer say that this node is not in their lists."""
    found = peers.values()
    return any(peer.unlisting for peer in found) and not any(not peer.failures and peer.seen for peer in found)


def _was_answered(calls: Mapping[str, int], address: str, config: DistroConfig) -> bool:
    """Whether a member's calls were answered until less than the time ago that makes a silent peer DOWN."""
    return calls.get(address, NEVER_ANSWERED_MS) < config.silent_down_ms


def _fails(calls: Mapping[str, int] | None, address: str) -> bool:
    return (calls or {}).get(address, 0) > 0
