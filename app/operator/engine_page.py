"""The state of replication at this member, for an operator. Any thread may ask."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from app.members.reports import wire_version_of
from distro.model.monitor import DistroStats, TimingCounts
from distro.model.ports import Clock, Components
from distro.model.types import NO_VERSION
from distro.protocol.convergence import VerifyRound
from distro.protocol.engine_view import EngineView, PeerView


@dataclass(frozen=True, slots=True)
class EnginePage:
    """The page of one node."""

    view: Callable[[], EngineView]
    own_writer: str
    components: Components
    stats: DistroStats
    clock: Clock
    workers: Callable[[], dict[str, dict[str, object]]]
    """Returns the current activity of each thread of the engine."""

    def facts(self) -> dict[str, Any]:
        """Return the whole state, as copies. Shape: docs/operations/inspect.md."""
        view, now_ms = self.view(), self.clock.monotonic_ms()
        members = _members(view)
        return {
            "writer": self.own_writer,
            "loading": view.loading,
            "steady": view.steady(now_ms),
            "workers": self.workers(),
            "peers": {
                address: {**members.get(address, {}), "queue": _queue(peer, now_ms), **_trace(peer, now_ms)}
                for address, peer in view.peers.items()
            },
            "versions": {name: self._versions(name) for name in self.components},
            "counters": asdict(self.stats),
        }

    def _versions(self, resource_type: str) -> dict[str, Any]:
        highest = self.components[resource_type].store.highest_own()
        return {"highestOwn": None if highest == NO_VERSION else highest.to_text()}


def _members(view: EngineView) -> dict[str, dict[str, Any]]:
    return {
        member.address: {
            "state": member.state.value,
            "kind": member.kind.value,
            "release": member.extend_info.get("version"),
            "wireVersion": wire_version_of(member.extend_info),
            "capabilities": sorted(member.capabilities),
        }
        for member in view.members.listed
    }


def _queue(peer: PeerView, now_ms: int) -> dict[str, Any]:
    call = peer.call
    return {
        "reachable": peer.reachable,
        "toSend": peer.to_send,
        "inFlight": peer.in_flight,
        "toFetch": peer.to_fetch,
        "keys": list(peer.keys),
        "call": None
        if call is None
        else {"what": call.what, "resourceType": call.resource_type, "ageMs": now_ms - call.since_ms},
        "failing": peer.failing,
        "nextSendInMs": None if peer.next_send_ms is None else peer.next_send_ms - now_ms,
    }


def _trace(peer: PeerView, now_ms: int) -> dict[str, Any]:
    oldest = peer.oldest
    return {
        "unapplied": peer.unapplied,
        "oldestUnapplied": None
        if oldest is None
        else {
            "resourceType": oldest.key.resource_type,
            "key": oldest.key.key,
            "ageMs": round(max(now_ms - oldest.at_s * 1_000, 0)),
            "cause": oldest.cause.value,
        },
        "notCounted": peer.not_counted,
        "convergence": {"applied": _quantiles(peer.applied), "pushed": _quantiles(peer.pushed)},
        "verify": {name: _round(one, now_ms) for name, one in peer.rounds.items()},
    }


def _quantiles(timings: TimingCounts) -> dict[str, Any]:
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
