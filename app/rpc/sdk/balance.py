"""How the clients of SDKs are spread over the members, and who is to send how many where. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.rpc.wire.payload import SUCCESS

KEPT_PERCENT = 90
"""A member sheds no more than the rest of its clients at a time: the others are to bear their arrival.

Source of this and of the arithmetic: Nacos 2.2.3 ServerLoaderController, ServerReloaderRequestHandler.
"""
THRESHOLD = 1.1
_COUNT = re.compile(r"[0-9]{1,9}")
FIGURE_CHARS_MAX = 32


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """What one member has to carry."""

    address: str
    connections: int
    sdk_connections: int
    load: str
    cpu: str
    """Both as the member wrote them."""

    def fields(self) -> dict[str, str]:
        """Its shape among members, and for operators: all texts."""
        return {
            "conCount": str(self.connections),
            "sdkConCount": str(self.sdk_connections),
            "load": self.load,
            "cpu": self.cpu,
        }


@dataclass(frozen=True, slots=True)
class Move:
    """A member is to send clients to another, until it has ``keep`` of them."""

    source: str
    target: str
    keep: int


def parse_load(address: str, answer: Mapping[str, Any]) -> MemberLoad | None:
    """What a member answered of itself; None when that is of no use."""
    fields = answer.get("loaderMetrics")
    if answer.get("resultCode") != SUCCESS or not isinstance(fields, Mapping):
        return None
    counts = [str(fields.get(name)) for name in ("conCount", "sdkConCount")]
    if not all(map(_COUNT.fullmatch, counts)):
        return None
    load, cpu = (str(fields.get(name, ""))[:FIGURE_CHARS_MAX] for name in ("load", "cpu"))
    return MemberLoad(address, int(counts[0]), int(counts[1]), load, cpu)


def summary(loads: Sequence[MemberLoad], member_count: int) -> dict[str, Any]:
    """All that is known, as operators see it; ``completed`` when every member said what it carries.

    Shape: detail (address, metric), memberCount, metricsCount, completed, and of the clients of SDKs max, min, avg (a
    whole number), threshold, total.
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
    """Clients of SDKs a member, rounded down."""
    return sum(one.sdk_connections for one in loads) // len(loads) if loads else 0


def moves(loads: Sequence[MemberLoad], factor: float) -> list[Move]:
    """Who sheds to whom: the fullest to the emptiest, and so on, as long as there are both.

    Full is who has more than the average and ``factor`` of it, empty who has less than the average without.
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
    """How many clients a member keeps for now that is to come down to ``wanted``."""
    return max(wanted, sdk_connections * KEPT_PERCENT // 100)
