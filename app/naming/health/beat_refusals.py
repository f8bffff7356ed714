"""Beats that members refuse on purpose: the silence after such a refusal is not the clients' fault."""

from collections.abc import Callable, Collection

from app.naming.model.model import NEVER_MS

GAP_MS = 30_000
"""A member that has refused no beat for this long has stopped refusing."""
SPAN_MS_MAX = 120_000
"""For how long refusals by load or limit count: within it a client finds another member. After a gap of ``GAP_MS`` they
count again. So provoked refusals cannot keep dead instances listed for longer."""


class RefusalSpan:
    """The refusals of one member: when they began, and when the last one was."""

    __slots__ = ("_began_ms", "last_ms")

    def __init__(self) -> None:
        self._began_ms = self.last_ms = NEVER_MS

    def note(self, at_ms: int) -> None:
        """Note that the member refused a beat at ``at_ms``."""
        if at_ms <= self.last_ms:
            return
        if at_ms - self.last_ms > GAP_MS:
            self._began_ms = at_ms
        self.last_ms = at_ms

    @property
    def counted_ms(self) -> int:
        """Return the time of the last refusal that counts; ``NEVER_MS`` for none."""
        return min(self.last_ms, self._began_ms + SPAN_MS_MAX)


class BeatRefusals:
    """When this node and its peers last refused a beat on purpose. Any thread may call."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = monotonic_ms
        self._own = RefusalSpan()
        self._all_ms = NEVER_MS
        self._peers: dict[str, RefusalSpan] = {}

    def note(self) -> None:
        """Note that this node refuses a beat now."""
        self._own.note(self._now_ms())

    def note_peer(self, peer: str, age_ms: int) -> None:
        """Note that a peer refused a beat ``age_ms`` ago."""
        self._peers.setdefault(peer, RefusalSpan()).note(self._now_ms() - age_ms)

    def keep(self, peers: Collection[str]) -> None:
        """Forget all peers but these."""
        self._peers = {peer: span for peer, span in self._peers.items() if peer in peers}

    def age_ms(self) -> int | None:
        """Return how long ago this node last refused a beat; None if it does not refuse any more."""
        age_ms = self._now_ms() - self._own.last_ms
        return age_ms if age_ms <= GAP_MS else None

    def last_ms(self, *, refuses_all: bool = False) -> int:
        """Return when any member last refused a beat, if that counts; now while this node refuses all.

        Each instance has its whole beat time-out from then on. ``refuses_all``: whether this node refuses every beat
        now, by an operator's switch or because it is not ready.
        """
        if refuses_all:
            self._all_ms = self._now_ms()
        spans = [self._own, *list(self._peers.values())]
        return max(self._all_ms, *(one.counted_ms for one in spans))
