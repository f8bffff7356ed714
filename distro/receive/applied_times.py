"""AppliedTimes: when this node applied what peers sent last, and pushed it, for the answers to these peers."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from distro.model.types import NO_VERSION, DistroKey, Received, Version
from distro.model.value import value

APPLIED_MAX = 10_000
"""Keys whose time is remembered: who sends one so late that it is forgotten counts it as applied just then."""
PUSHES_MAX = 1_000
"""Keys that wait for their push, and those that their members are to be told of; beyond it the oldest is dropped."""
AGE_MS_MIN = 0.5
"""What was applied so shortly before the answer counts as applied with it, and takes no room in it."""
PUSH_LATE_S = 1.0
"""A push that has not come for so long after it was applied will not come: nothing changed for the subscribers."""


@value
class _Applied:
    version: Version
    at_s: float


class AppliedTimes:
    """Of the keys that members of our own kind wrote. Thread-safe; no call takes longer for many keys."""

    def __init__(self) -> None:
        self.is_pushed: Callable[[DistroKey], bool] = lambda _key: False
        """Whether this node has subscribers to what a key holds; asked after it was applied."""
        self.now_s: Callable[[], float] | None = None
        """The time in s of the clock that the callers' ms are of; None where these are good enough."""
        self._lock = threading.Lock()
        self._applied: dict[DistroKey, _Applied] = {}
        self._unpushed: dict[DistroKey, tuple[str, float]] = {}
        """Applied and not yet pushed: the member that sent it, and when it was applied."""
        self._last_push: dict[DistroKey, float] = {}
        """The last pushes that nothing waited for: one of a datum may come before it is noted as applied."""
        self._pushed: dict[tuple[str, DistroKey], float] = {}
        """The ms from applied to pushed of the keys that a member is to be told of."""

    def time_s(self, now_ms: int) -> float:
        """The present time in s, which was ``now_ms`` when the caller looked."""
        return now_ms / 1_000 if self.now_s is None else self.now_s()

    def note(self, key: DistroKey, version: Version, sender: str, begun_s: float, at_s: float) -> None:
        """Note that this node took the sender's datum at ``at_s``, and began with that at ``begun_s``."""
        if version == NO_VERSION:
            return
        is_pushed = self.is_pushed(key)
        with self._lock:
            self._applied.pop(key, None)  # the latest last
            self._applied[key] = _Applied(version, at_s)
            if len(self._applied) > APPLIED_MAX:
                del self._applied[next(iter(self._applied))]
            if not is_pushed:
                return
            if (pushed_s := self._last_push.get(key, begun_s - 1)) >= begun_s:
                self._tell(sender, key, pushed_s - at_s)
            elif key not in self._unpushed or at_s - self._unpushed[key][1] > PUSH_LATE_S:
                self._unpushed[key] = sender, at_s
                _bound(self._unpushed)

    def pushed(self, key: DistroKey, at_s: float) -> None:
        """Note that subscribers are sent what the key holds now."""
        with self._lock:
            if (waiting := self._unpushed.pop(key, None)) is None:
                self._last_push.pop(key, None)  # the latest last
                self._last_push[key] = at_s
                _bound(self._last_push)
            else:
                self._tell(waiting[0], key, at_s - waiting[1])

    def _tell(self, sender: str, key: DistroKey, took_s: float) -> None:
        self._pushed[sender, key] = round(max(took_s, 0.0) * 1_000, 1)
        _bound(self._pushed)

    def ages_ms(self, resource_type: str, versions: Mapping[str, Version], now_ms: int) -> dict[str, float]:
        """How long ago this node took states of these keys that contain the versions.

        Without those that were taken just now, and those of which that is not known any more.
        """
        now_s, applied, ages_ms = self.time_s(now_ms), self._applied, dict[str, float]()
        for name, version in versions.items():
            one = applied.get(DistroKey(resource_type, name))
            if one is None or (age_ms := (now_s - one.at_s) * 1_000) < AGE_MS_MIN or not one.version.has_had(version):
                continue
            ages_ms[name] = round(age_ms, 1)
        return ages_ms

    def with_pushes(self, received: Received, sender: str, resource_type: str) -> Received:
        """The answer to a member, with what it was not told yet of pushes."""
        if not self._pushed:
            return received
        with self._lock:
            told = [(to, key) for to, key in self._pushed if to == sender and key.resource_type == resource_type]
            return replace(received, pushed_ms={at[1].key: self._pushed.pop(at) for at in told})


def _bound(entries: dict[Any, Any]) -> None:
    if len(entries) > PUSHES_MAX:
        del entries[next(iter(entries))]
