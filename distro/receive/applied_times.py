"""AppliedTimes: when this node applied what peers sent last, and pushed it, for the answers to these peers."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from distro.model.types import NO_VERSION, DistroKey, Received, Version, value

APPLIED_MAX = 10_000
"""The most keys whose time is remembered. A datum sent after its time was forgotten counts as applied just then."""
PUSHES_MAX = 1_000
"""The most keys that wait for their push or for being reported to their member. Beyond it the oldest is dropped."""
AGE_MS_MIN = 0.5
"""A datum applied so shortly before the answer counts as applied with it, and takes no room in the answer."""
PUSH_LATE_S = 1.0
"""After this time an applied datum waits for no push any more: nothing changed for the subscribers."""


@value
class _Applied:
    version: Version
    at_s: float


class AppliedTimes:
    """The times of keys that members of our own kind wrote.

    Thread-safe. No call takes longer when there are many keys.
    """

    def __init__(
        self,
        now_s: Callable[[], float] | None = None,
        is_pushed: Callable[[DistroKey], bool] = lambda _key: False,
    ) -> None:
        """``now_s``: the time in s, by the clock of the callers' ms; None if their ms are precise enough.

        ``is_pushed``: returns whether this node has subscribers to the content of a key; called after the datum was
        applied.
        """
        self._now_s = now_s
        self._is_pushed = is_pushed
        self._lock = threading.Lock()
        self._applied: dict[DistroKey, _Applied] = {}
        self._unpushed: dict[DistroKey, tuple[str, float]] = {}
        """Keys applied and not yet pushed: the member that sent the datum, and when it was applied."""
        self._last_push: dict[DistroKey, float] = {}
        """The last pushes that no key waited for: the push of a datum may come before the datum is noted as applied."""
        self._pushed: dict[tuple[str, DistroKey], float] = {}
        """The ms from application to push, for keys that are still to be reported to a member."""

    def time_s(self, now_ms: int) -> float:
        """Return the current time in s, which was ``now_ms`` when the caller read the clock."""
        return now_ms / 1_000 if self._now_s is None else self._now_s()

    def note(self, key: DistroKey, version: Version, sender: str, begun_s: float, now_ms: int) -> None:
        """Note that this node has just applied the sender's datum, having begun at ``begun_s``.

        ``now_ms``: as for ``time_s``.
        """
        if version == NO_VERSION:
            return
        at_s = self.time_s(now_ms)
        is_pushed = self._is_pushed(key)
        with self._lock:
            self._applied.pop(key, None)  # the latest goes to the end
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
        """Note that subscribers are being sent the current content of the key."""
        with self._lock:
            if (waiting := self._unpushed.pop(key, None)) is None:
                self._last_push.pop(key, None)  # the latest goes to the end
                self._last_push[key] = at_s
                _bound(self._last_push)
            else:
                self._tell(waiting[0], key, at_s - waiting[1])

    def _tell(self, sender: str, key: DistroKey, took_s: float) -> None:
        self._pushed[sender, key] = round(max(took_s, 0.0) * 1_000, 1)
        _bound(self._pushed)

    def ages_ms(self, resource_type: str, versions: Mapping[str, Version], now_ms: int) -> dict[str, float]:
        """Return how many ms ago this node took states of these keys that contain the versions.

        Leaves out keys that were taken just now, and keys whose time is not known any more.
        """
        now_s, applied, ages_ms = self.time_s(now_ms), self._applied, dict[str, float]()
        for name, version in versions.items():
            one = applied.get(DistroKey(resource_type, name))
            if one is None or (age_ms := (now_s - one.at_s) * 1_000) < AGE_MS_MIN or not one.version.has_had(version):
                continue
            ages_ms[name] = round(age_ms, 1)
        return ages_ms

    def with_pushes(self, received: Received, sender: str, resource_type: str) -> Received:
        """Return the answer to a member, with the pushes that were not yet reported to it."""
        if not self._pushed:
            return received
        with self._lock:
            told = [(to, key) for to, key in self._pushed if to == sender and key.resource_type == resource_type]
            return replace(received, pushed_ms={at[1].key: self._pushed.pop(at) for at in told})


def _bound(entries: dict[Any, Any]) -> None:
    if len(entries) > PUSHES_MAX:
        del entries[next(iter(entries))]
