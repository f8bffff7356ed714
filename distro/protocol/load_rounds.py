"""LoadRounds: the loads of this member (R7), the one at its start and those after long pauses (R9)."""

import logging
from collections.abc import Iterable

from distro.model.types import FinishLoad, Load, MemberKind, Outcome
from distro.protocol.load import SnapshotLoad
from distro.protocol.protocol_parts import ProtocolParts

LOG = logging.getLogger(__name__)


class LoadRounds:
    """The load under way, if any, and its end. The thread that owns the protocol changes it."""

    def __init__(self, parts: ProtocolParts, now_ms: int) -> None:
        self._parts = parts
        self._members = parts.members
        is_needed = parts.rules.loads and not parts.members.standalone
        self.load = SnapshotLoad(parts.config, parts.components, now_ms) if is_needed else None
        """None once this member has loaded."""
        self.finishing: FinishLoad | None = None
        """The action that ends the load, while it is carried out."""
        self._members.serving = self.load is None

    def add(self, peer: str, now_ms: int) -> None:
        """Load from a peer that came into the list, too."""
        if self.load is not None:
            self.load.add(peer, now_ms)

    def remove(self, peer: str) -> None:
        """Do not load from a peer that left the list."""
        if self.load is not None:
            self.load.remove(peer)

    def begin_again(self, peers: Iterable[str], now_ms: int) -> None:
        """Load again, as the peers may have forgotten removals made in the meantime: only a load shows what is gone."""
        if self.load is None and not self._parts.rules.loads_again:
            return
        self._members.serving = False
        self.load = SnapshotLoad(self._parts.config, self._parts.components, now_ms, again=True)
        self.finishing = None
        for peer in peers:
            self.load.add(peer, now_ms)

    def next_call(self, load: SnapshotLoad, peer: str, now_ms: int, *, reachable: bool) -> Load | None:
        """Return the next snapshot of ``load``, the one under way, to fetch from the peer; None while none is due."""
        if self.finishing:
            return None
        if self._members.kind(peer) is MemberKind.NACOS_2:
            load.leave_out(peer, MemberKind.NACOS_2)  # one that has not reported yet may be of our kind
        return load.next_call(peer, now_ms, reachable=reachable)

    def next_end(self, now_ms: int) -> FinishLoad | None:
        """Return the action that ends the load, once: when it need not wait for any peer."""
        if self.load is None or self.finishing:
            return None
        if not self.load.is_over(now_ms, self._members.is_reachable, self._members.is_unlisting):
            return None
        self.finishing = self.load.end()
        LOG.info("loaded from %s", ", ".join(self.load.loaded_from()) or "no member, because none had data")
        return self.finishing

    def on_done(self, action: Load, outcome: Outcome, keys: frozenset[str] | None, now_ms: int) -> None:
        """Note the end of a call, as ``SnapshotLoad`` does."""
        if self.load is not None:
            self.load.on_done(action, outcome, keys, now_ms)

    def on_part(self, action: Load, now_ms: int) -> None:
        """Note that a call brought a part of its snapshot."""
        if self.load is not None:
            self.load.on_part(action, now_ms)

    def on_finished(self, action: FinishLoad) -> bool:
        """Return whether this member serves from now on, as what ends the present load is done."""
        if self.finishing is not action:
            return False
        self.load = self.finishing = None
        self._members.serving = True
        return True

    def on_finish_failed(self, action: FinishLoad, now_ms: int) -> bool:
        """Note that the last step of a load failed: it is repeated a few times, then this member serves all the same.

        Return whether it does from now on.
        """
        if self.finishing is not action or self.load is None:
            return False
        if self.load.end_failed(now_ms):
            self.finishing = None
            return False
        return self.on_finished(action)

    def next_due_ms(self, now_ms: int) -> int | None:
        """Return when the next step of the load is due; None without one, and while it ends."""
        return None if self.load is None or self.finishing else self.load.next_due_ms(now_ms)
