"""How replication is doing at this member: what an operator reads of the engine. It only reads, from any thread."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from app.replication.reports import wire_version_of
from distro.model.monitor import DistroStats, Timings
from distro.model.ports import Clock, Components
from distro.model.types import NO_VERSION
from distro.protocol.convergence import PeerTrace, VerifyRound
from distro.protocol.protocol import DistroProtocol

KEYS_SHOWN = 20
"""Of a queue, in the order in which they are sent."""


@dataclass(frozen=True, slots=True)
class EnginePage:
    """The page of one node."""

    protocol: DistroProtocol
    components: Components
    stats: DistroStats
    clock: Clock
    workers: Callable[[], dict[str, dict[str, object]]]
    """What each thread of the engine does."""

    def facts(self) -> dict[str, Any]:
        """All of it, as copies. Shape: docs/operations.md."""
        now_ms = self.clock.monotonic_ms()
        members, traces = self._members(), self.protocol.traces.copy()
        return {
            "writer": self.protocol.own_writer,
            "loading": self.protocol.loading,
            "steady": self.protocol.steady(now_ms),
            "workers": self.workers(),
            "peers": {
                peer: {
                    **members.get(peer, {}),
                    "queue": queue,
                    **(self._trace(peer, traces[peer], now_ms) if peer in traces else {}),
                }
                for peer, queue in self.protocol.queue_facts(now_ms, KEYS_SHOWN).items()
            },
            "versions": {name: self._versions(name) for name in self.components},
            "counters": asdict(self.stats),
        }

    def _members(self) -> dict[str, dict[str, Any]]:
        return {
            member.address: {
                "state": member.state.value,
                "kind": member.kind.value,
                "release": member.extend_info.get("version"),
                "wireVersion": wire_version_of(member.extend_info),
                "capabilities": sorted(member.capabilities),
            }
            for member in self.protocol.members.peers()
        }

    def _trace(self, peer: str, trace: PeerTrace, now_ms: int) -> dict[str, Any]:
        oldest = trace.oldest()
        return {
            "unapplied": trace.unapplied(),
            "oldestUnapplied": None
            if oldest is None
            else {
                "resourceType": oldest[0].resource_type,
                "key": oldest[0].key,
                "ageMs": round(max(now_ms - oldest[1] * 1_000, 0)),
                "cause": self.protocol.cause_of(peer, now_ms).value,
            },
            "notCounted": trace.not_counted,
            "convergence": {"applied": _quantiles(trace.applied), "pushed": _quantiles(trace.pushed)},
            "verify": {name: _round(one, now_ms) for name, one in trace.rounds.copy().items()},
        }

    def _versions(self, resource_type: str) -> dict[str, Any]:
        highest = self.components[resource_type].store.highest_own()
        return {"highestOwn": None if highest == NO_VERSION else highest.to_text()}


def _quantiles(timings: Timings) -> dict[str, Any]:
    found = {name: timings.quantile_s(part) for name, part in (("p50Ms", 0.5), ("p90Ms", 0.9), ("p99Ms", 0.99))}
    return {
        "count": sum(timings.counts),
        **{name: None if taken_s is None else round(taken_s * 1_000, 1) for name, taken_s in found.items()},
    }


def _round(one: VerifyRound, now_ms: int) -> dict[str, Any]:
    return {
        "ageMs": now_ms - one.ended_ms,
        "outcome": one.outcome.value,
        "compared": one.what,
        "keys": one.compared,
        "newerThere": one.newer_there,
        "lackingThere": one.lacking_there,
    }
