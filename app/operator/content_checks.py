"""The last comparisons of the members' contents that this member made, as versions alone do not prove equality.

Data is compared in parts (``BUCKETS``): a few at a time while a page is open, all of them on request.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from app.rows.rows import BUCKETS, bucket_of

SAMPLE_PARTS = 8
"""The parts of one sample; with a sample each ``SAMPLE_MS`` all are compared in 5 minutes and a half."""
SAMPLE_MS = 10_000
DIFFERENCES_MAX = 100
"""The most remembered services that differ."""
SHOWN_MAX = 20

ServiceKey = tuple[str, str]
"""The namespace and the full name of a service."""


class ContentChecks:
    """The parts that were compared and when, and the services that differed in the last comparison. Thread-safe."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms``: a monotonic clock."""
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._compared: dict[int, int] = {}
        """When each part was compared last, by its number."""
        self._differing: dict[ServiceKey, int] = {}
        """When each service was last seen to differ."""
        self._suspects: set[ServiceKey] = set()
        """The suspicions of the last call: a new one is looked at without waiting."""
        self._members: tuple[str, ...] = ()
        self._next_part = 0
        self._due_ms = 0

    def begin_sample(self, suspected: Iterable[ServiceKey]) -> list[int]:
        """Return the parts to compare now; none if the last sample is recent, unless a new suspicion came up.

        ``suspected``: services that any member saw differ; their parts come first.
        """
        now_ms = self._now_ms()
        with self._lock:
            suspects = set(suspected)
            is_new = not suspects <= self._suspects
            self._suspects = suspects
            if now_ms < self._due_ms and not is_new:
                return []
            parts = {bucket_of(*key) for key in [*suspects, *self._differing]}
            self._due_ms = now_ms + SAMPLE_MS
            chosen = sorted(parts)[:SAMPLE_PARTS]
            turn = [(self._next_part + step) % BUCKETS for step in range(SAMPLE_PARTS)]
            self._next_part = (self._next_part + SAMPLE_PARTS) % BUCKETS
            return sorted({*chosen, *turn})

    def note(self, parts: Iterable[int], members: Collection[str], differing: Iterable[ServiceKey]) -> None:
        """Note a comparison: its parts, the members that were compared, and the services that differ in these parts."""
        now_ms, compared = self._now_ms(), frozenset(parts)
        with self._lock:
            if (told := tuple(sorted(members))) != self._members:
                self._compared.clear()  # another set of members was not compared by then
                self._members = told
            self._compared.update(dict.fromkeys(compared, now_ms))
            for key in [one for one in self._differing if bucket_of(*one) in compared]:
                del self._differing[key]
            self._add(differing, now_ms)

    def suspect(self, namespace: str, service: str) -> None:
        """Note that a service was seen to differ, outside of a comparison. The next sample decides."""
        with self._lock:
            self._add([(namespace, service)], self._now_ms())
            self._due_ms = 0

    def _add(self, differing: Iterable[ServiceKey], now_ms: int) -> None:
        for key in differing:
            if len(self._differing) < DIFFERENCES_MAX or key in self._differing:
                self._differing[key] = now_ms

    def is_refuted(self, key: ServiceKey, age_ms: int) -> bool:
        """Return whether a comparison here that is newer than ``age_ms`` found a service equal."""
        with self._lock:
            at_ms = self._compared.get(bucket_of(*key))
            return key not in self._differing and at_ms is not None and self._now_ms() - at_ms < age_ms

    def facts(self) -> dict[str, Any]:
        """Return what is known. Shape: parts, of, oldestAgeMs, differing (namespaceId, serviceName, ageMs), count."""
        now_ms = self._now_ms()
        with self._lock:
            oldest_ms = min(self._compared.values(), default=None)
            return {
                "members": list(self._members),
                "parts": len(self._compared),
                "of": BUCKETS,
                "oldestAgeMs": None if oldest_ms is None else now_ms - oldest_ms,
                "count": len(self._differing),
                "differing": [
                    {"namespaceId": namespace, "serviceName": service, "ageMs": now_ms - at_ms}
                    for (namespace, service), at_ms in list(self._differing.items())[:SHOWN_MAX]
                ],
            }


def differing_in(reports: Iterable[Mapping[str, Any]], own: ContentChecks) -> set[ServiceKey]:
    """Return the services that members report to differ, without those that were compared here since and were equal."""
    found: set[ServiceKey] = set()
    for report in reports:
        listed = report.get("differing")
        for one in listed[:SHOWN_MAX] if isinstance(listed, list) else ():
            if not isinstance(one, dict) or type(one.get("ageMs")) is not int:
                continue
            namespace, service = one.get("namespaceId"), one.get("serviceName")
            if isinstance(namespace, str) and isinstance(service, str):
                key = namespace, service
                if not own.is_refuted(key, one["ageMs"]):
                    found.add(key)
    return found
