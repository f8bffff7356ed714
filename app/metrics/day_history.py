"""The numbers of the last day, one sample a minute, for charts: in memory, some 150 kB."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from app.naming.model.model import Service
from app.naming.registry.service_counts import unhealthy_of
from distro.model.monitor import TimingCounts, Timings

SAMPLE_MS = 60_000
SAMPLES_MAX = 1_440
"""A day of samples."""
BEAT = "/beat"
"""The end of the routes of beats."""


class DaySample(NamedTuple):
    """The numbers of one minute. None: nothing was measured."""

    wall_ms: int
    instances: int
    unhealthy: int
    """Unhealthy instances, without those that an operator disabled."""
    requests: float | None
    """Requests over HTTP and gRPC, a second, beats included."""
    beats: float | None
    """Beats over HTTP, a second."""
    pushes: float
    """Pushes over UDP and gRPC, a second."""
    convergence_ms: float | None
    """The 99th percentile until another member applied a change that was made here."""
    loop_lag_ms: float | None
    """The 99th percentile of the event loop's lag."""


class RequestCounts(Protocol):
    """The requests of one route since the start."""

    @property
    def route(self) -> str: ...
    @property
    def statuses(self) -> Mapping[int, int]: ...


class Applied(Protocol):
    """A member's record of how long another one takes to apply changes."""

    @property
    def applied(self) -> TimingCounts: ...


@dataclass(frozen=True, slots=True)
class DaySources:
    """The parts of a node from which the samples are read."""

    services: Callable[[], Iterable[Service]]
    instances: Callable[[], int]
    requests: Callable[[], Iterable[RequestCounts]] | None
    """None: requests are not counted."""
    pushes: Callable[[], int]
    """The pushes since the start."""
    peers: Callable[[], Mapping[str, Applied]]
    loop_lag: Timings


class _Reading(NamedTuple):
    """The numbers since the start."""

    at_ms: int
    requests: int | None
    beats: int | None
    pushes: int
    applied: Mapping[str, TimingCounts]
    lag: TimingCounts


class DayHistory:
    """Samples, the oldest first. One thread takes them; any thread reads."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._samples: deque[DaySample] = deque(maxlen=SAMPLES_MAX)
        self._last: _Reading | None = None

    def samples(self) -> list[DaySample]:
        """Return all samples, the oldest first."""
        return list(self._samples)

    def tick(self, sources: DaySources, now_ms: int) -> int:
        """Take a sample of the time since the last call. Return when to take the next."""
        now, last = _read(sources, now_ms), self._last
        self._last = now
        if last is not None and now.at_ms > last.at_ms:
            span_s = (now.at_ms - last.at_ms) / 1_000
            self._samples.append(
                DaySample(
                    self._wall_ms(),
                    sources.instances(),
                    sum(unhealthy_of(one) for one in sources.services() if not one.hidden),
                    _rate(last.requests, now.requests, span_s),
                    _rate(last.beats, now.beats, span_s),
                    _rate(last.pushes, now.pushes, span_s) or 0.0,
                    _slowest_ms(last.applied, now.applied),
                    _p99_ms(last.lag, now.lag),
                )
            )
        return now_ms + SAMPLE_MS


def _read(sources: DaySources, now_ms: int) -> _Reading:
    requests = beats = None
    if sources.requests is not None:
        requests = beats = 0
        for one in sources.requests():
            count = sum(one.statuses.values())
            requests += count
            beats += count if one.route.endswith(BEAT) else 0
    applied = {address: _counts(one.applied) for address, one in sources.peers().items()}
    return _Reading(now_ms, requests, beats, sources.pushes(), applied, _counts(sources.loop_lag))


def _counts(timings: Timings | TimingCounts) -> TimingCounts:
    return TimingCounts(timings.bounds_s, tuple(timings.counts), 0.0)


def _rate(before: int | None, now: int | None, span_s: float) -> float | None:
    return None if before is None or now is None else max(now - before, 0) / span_s


def _slowest_ms(before: Mapping[str, TimingCounts], now: Mapping[str, TimingCounts]) -> float | None:
    found = [_p99_ms(before.get(address), counts) for address, counts in now.items()]
    return max((one for one in found if one is not None), default=None)


def _p99_ms(before: TimingCounts | None, now: TimingCounts) -> float | None:
    """Return the 99th percentile of the durations between two readings; None without any."""
    old = before.counts if before is not None else (0,) * len(now.counts)
    added = tuple(max(b - a, 0) for a, b in zip(old, now.counts, strict=True))
    found = now._replace(counts=added).quantile_s(0.99)
    return None if found is None else found * 1_000
