"""Counters of the engine. Written by several threads without a lock: they are for people, an odd one may be lost."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class DistroStats:
    """What happened with one resource type since the start."""

    sync_sent: int = 0
    sync_delivered: int = 0
    sync_failed: int = 0
    sync_keys: int = 0
    sync_dropped: int = 0
    """Keys not sent because their peer is DOWN."""
    received_keys: int = 0
    received_refused: int = 0
    received_merged: int = 0
    received_failed: int = 0
    verify_sent: int = 0
    verify_failed: int = 0
    verify_wanted: int = 0
    """Keys that a peer did not hold as they are, and that were sent to it again."""
    query_keys: int = 0
    claims: int = 0
    forgotten: int = 0
    inbox_dropped: int = 0
    """Events not taken because the engine did not keep up; verify rounds repair them."""
    pauses: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
