"""Counters of the engine. Several threads add to them without a lock: a count may get lost now and then."""

from dataclasses import dataclass


@dataclass(slots=True)
class DistroStats:
    """Counts of all resource types since the start; their names are those of the metrics."""

    sync_sent: int = 0
    sync_delivered: int = 0
    sync_failed: int = 0
    sync_keys: int = 0
    sync_dropped: int = 0
    """Keys that were not sent because their peer cannot be reached."""
    received_keys: int = 0
    received_refused: int = 0
    received_merged: int = 0
    received_failed: int = 0
    reissued: int = 0
    """Keys of this node that got a new version, as a peer held other values under the stored one."""
    verify_sent: int = 0
    verify_failed: int = 0
    verify_wanted: int = 0
    """Keys that a peer asked for in its answer to a verify round, and that were sent to it."""
    verify_received: int = 0
    """Verify rounds of peers that were compared with what is stored here."""
    query_keys: int = 0
    """Keys that this node asked a peer for."""
    served_keys: int = 0
    """Keys that peers asked this node for one by one: what they lacked, or took for different from theirs."""
    calls_lost: int = 0
    """Calls to peers whose end was not told long after their deadline."""
    claims: int = 0
    forgotten: int = 0
    inbox_dropped: int = 0
    """Events and keys that the full mailbox dropped; verify rounds repair them."""
    pauses: int = 0
