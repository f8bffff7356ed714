"""How SDK clients are spread over the members, and which members should send clients to which others. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.peers.payload import SUCCESS

KEPT_PERCENT = 90
"""The share of its clients that a member keeps at a time: the other members have to bear the arrival of the rest.

Source of this and of the arithmetic: Nacos 2.2.3 ServerLoaderController, ServerReloaderRequestHandler.
"""
THRESHOLD = 1.1
_COUNT = re.compile(r"[0-9]{1,9}")
FIGURE_CHARS_MAX = 32


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """The connections of one member and the load of its machine."""

    address: str
    connections: int
    sdk_connections: int
    load: str
    cpu: str
    """``load`` and ``cpu`` are texts as the member wrote them."""

    def fields(self) -> dict[str, str]:
        """Return the JSON fields, all texts, as members and operators read them."""
        return {
            "conCount": str(self.connections),
            "sdkConCount": str(self.sdk_connections),
            "load": self.load,
            "cpu": self.cpu,
        }


@dataclass(frozen=True, slots=True)
class Move:
    """The task of one member to send clients to another until ``keep`` are left."""

    source: str
    target: str
    keep: int


def parse_load(address: str, answer: Mapping[str, Any]) -> MemberLoad | None:
    """Return the load in a member's answer; None for an answer without success or without counts."""
    fields = answer.get("loaderMetrics")
    if answer.get("resultCode") != SUCCESS or not isinstance(fields, Mapping):
        return None
    counts = [str(fields.get(name)) for name in ("conCount", "sdkConCount")]
    if not all(map(_COUNT.fullmatch, counts)):
        return None
    load, cpu = (str(fields.get(name, ""))[:FIGURE_CHARS_MAX] for name in ("load", "cpu"))
    return MemberLoad(address, int(counts[0]), int(counts[1]), load, cpu)


def summary(loads: Sequence[MemberLoad], member_count: int) -> dict[str, Any]:
    """Return the loads as operators see them; ``completed`` when every member has reported its load.

    Shape: detail (address, metric), memberCount, metricsCount, completed, and of SDK clients max, min, avg (a whole
    number), threshold, total.
    """
    counts = [one.sdk_connections for one in loads]
    average = average_of(loads)
    return {
        "detail": [{"address": one.address, "metric": one.fields()} for one in loads],
        "memberCount": member_count,
        "metricsCount": len(loads),
        "completed": len(loads) == member_count,
        "max": max(counts, default=0),
        "min": min(counts, default=0),
        "avg": average,
        "threshold": average * THRESHOLD,
        "total": sum(counts),
    }


def average_of(loads: Sequence[MemberLoad]) -> int:
    """Return the SDK clients per member, rounded down."""
    return sum(one.sdk_connections for one in loads) // len(loads) if loads else 0


def moves(loads: Sequence[MemberLoad], factor: float) -> list[Move]:
    """Return the moves that even out the members: the fullest sends to the emptiest, the second to the second, etc.

    A member is full above ``average * (1 + factor)`` SDK clients, and empty below ``average * (1 - factor)``.
    """
    average = average_of(loads)
    most, least = int(average * (1 + factor)), int(average * (1 - factor))
    full = sorted(
        (one for one in loads if one.sdk_connections > most), key=lambda one: (-one.sdk_connections, one.address)
    )
    empty = sorted(
        (one for one in loads if one.sdk_connections < least), key=lambda one: (one.sdk_connections, one.address)
    )
    return [Move(source.address, target.address, most) for source, target in zip(full, empty, strict=False)]


def count_to_keep(sdk_connections: int, wanted: int) -> int:
    """Return how many clients a member keeps for now on its way down to ``wanted``."""
    return max(wanted, sdk_connections * KEPT_PERCENT // 100)
