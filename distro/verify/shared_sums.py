"""SharedSums: the sums of contents that a member tells in its verify rounds, made once for all its peers."""

from collections.abc import Callable
from threading import Lock

from distro.model.ports import Component
from distro.protocol.samples import sums_of

SHARED_MS = 1_000
"""Sums are told to several peers for so long: rounds with all of them begin at nearly the same time."""


class SharedSums:
    """``sums_of`` for all peers of a member that compare the same leaves at nearly the same time. Thread-safe.

    One that is asked while another thread computes the same waits for that.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = Lock()
        self._last: dict[str, tuple[tuple[str, range, int], int, dict[int, int]]] = {}
        """By resource type: what was asked, when, and the sums."""

    def of(self, resource_type: str, component: Component, writer: str, leaves: range) -> dict[int, int]:
        """The sums of a resource type. Shape: as of ``sums_of``; not to be changed."""
        with self._lock:
            asked, begun_ms = (writer, leaves, component.digest.root()), self._now_ms()
            last = self._last.get(resource_type)
            if last is not None and last[0] == asked and begun_ms - last[1] <= SHARED_MS:
                return last[2]
            sums = sums_of(component, writer, leaves)
            self._last[resource_type] = asked, begun_ms, sums
            return sums
