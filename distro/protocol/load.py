"""The load (R7): this member takes the snapshots of all others before it answers, claims or verifies."""

from collections.abc import Callable
from dataclasses import dataclass

from distro.model.config import DistroConfig
from distro.model.ports import Components
from distro.model.types import FinishLoad, Load, MemberKind, Outcome

END_TRIES_MAX = 3
"""So often what ends a load is tried: then the member serves without, as one that never serves is of no use."""


@dataclass(slots=True)
class _Call:
    due_ms: int
    timeout_ms: int
    """Doubles when it was too short: a snapshot may take long, but one without an answer must not delay the load."""
    busy: bool = False
    loaded: bool = False
    refused: bool = False
    """The last call was refused: the peer is absent, or slow to start."""
    rejected: bool = False
    """The peer does not know the call, or does not list this member yet."""
    empty_handed: bool = False
    """The peer is itself loading and has no data: it loads from members that this one asks, too."""


class SnapshotLoad:
    """The calls of one load: each peer's snapshot of each resource type, and whether the load is over."""

    def __init__(self, config: DistroConfig, components: Components, now_ms: int, *, again: bool = False) -> None:
        """``again``: this member has data from before a long pause, of which the peers may have forgotten removals."""
        self._config = config
        self._components = components
        self._since_ms = self._progress_ms = now_ms
        self._calls: dict[tuple[str, str], _Call] = {}
        self._known: dict[str, list[frozenset[str]]] | None = {} if again else None
        self._end_failures = 0
        self._end_due_ms = now_ms

    def add(self, peer: str, now_ms: int) -> None:
        """Ask this peer for its snapshots. The time of a load begins with the first: a member list may come late."""
        if not self._calls:
            self._since_ms = self._progress_ms = now_ms
        names = [name for name, part in self._components.items() if MemberKind.OWN in part.taken_by]
        self._calls.update({(peer, name): _Call(now_ms, self._config.load_wait_ms_max) for name in names})

    def remove(self, peer: str) -> None:
        """Do not ask this peer, which left the list, nor wait for it."""
        self._calls = {at: call for at, call in self._calls.items() if at[0] != peer}

    def leave_out(self, peer: str, kind: MemberKind) -> None:
        """Do not ask the peer, nor wait for it, for the resource types that members of its kind do not take."""
        components = self._components
        self._calls = {
            at: call for at, call in self._calls.items() if at[0] != peer or kind in components[at[1]].taken_by
        }

    def next_call(self, peer: str, now_ms: int, *, reachable: bool) -> Load | None:
        """The next snapshot to fetch from the peer; None while none is due. A call that is given out is under way.

        To a peer that is not ``reachable`` it ends by the time from which on the load does not wait for such a peer:
        while it hangs, the peer gets no data.
        """
        for (address, resource_type), call in self._calls.items():
            if address == peer and not call.busy and not call.loaded and call.due_ms <= now_ms:
                call.busy = True
                timeout_ms = min(call.timeout_ms, self._config.load_timeout_ms)
                if not reachable:
                    left_ms = self._since_ms + self._config.load_wait_ms_max - now_ms
                    timeout_ms = min(timeout_ms, max(left_ms, self._config.load_retry_delay_ms))
                return Load(peer, resource_type, now_ms + timeout_ms)
        return None

    def next_due_ms(self, now_ms: int) -> int:
        """The time of the next call, or of the next check whether the load is over (monotonic ms)."""
        busy = {peer for (peer, _), call in self._calls.items() if call.busy}  # one call a peer: its end is an event
        waiting = [call.due_ms for (peer, _), call in self._calls.items() if peer not in busy and not call.loaded]
        return min([*waiting, now_ms + self._config.load_retry_delay_ms])

    def on_done(self, action: Load, outcome: Outcome, keys: frozenset[str] | None, now_ms: int) -> None:
        """Note the end of a call; ``keys`` are those of the snapshot, None from a peer that is itself loading."""
        call = self._calls.get((action.peer, action.resource_type))
        if call is None:
            return
        call.busy = False
        if outcome is Outcome.DELIVERED and keys is not None:
            call.loaded = True
            if self._known is not None:
                self._known.setdefault(action.resource_type, []).append(keys)
            return
        call.due_ms = now_ms + self._config.load_retry_delay_ms
        if outcome is Outcome.FAILED:
            call.timeout_ms *= 2
        call.refused = outcome is Outcome.REFUSED
        call.rejected = outcome in (Outcome.REJECTED, Outcome.FORBIDDEN)
        call.empty_handed = outcome is Outcome.DELIVERED

    def on_part(self, action: Load, now_ms: int) -> None:
        """Note that a call brought a part of its snapshot; the next one, which is due at once, gets more time.

        But no more than half the time that the load waits without any progress.
        """
        self._progress_ms = now_ms
        call = self._calls.get((action.peer, action.resource_type))
        if call is None:
            return
        call.busy = call.refused = call.rejected = call.empty_handed = False
        call.due_ms = now_ms
        call.timeout_ms = min(call.timeout_ms * 2, self._config.load_timeout_ms // 2)

    def is_over(
        self,
        now_ms: int,
        is_reachable: Callable[[str], bool],
        is_unlisting: Callable[[str], bool] = lambda _peer: False,
    ) -> bool:
        """Return whether this load need not wait for any peer.

        It waits until each peer gave its snapshots, is itself loading, or has refused connections until
        ``load_refused_ms``; from ``load_wait_ms_max`` on only for peers that are reachable and know the call, and for
        those that do not list this member yet; never for ``load_timeout_ms`` in which nothing came, nor beyond
        ``load_ms_max``.
        """
        waited_ms = now_ms - self._since_ms
        if now_ms < self._end_due_ms:
            return False
        if now_ms - self._progress_ms >= self._config.load_timeout_ms or waited_ms >= self._config.load_ms_max:
            return True
        waiting = [
            (peer, call)
            for (peer, _), call in self._calls.items()
            if not (call.loaded or call.empty_handed or (call.refused and waited_ms >= self._config.load_refused_ms))
        ]
        if waited_ms >= self._config.load_wait_ms_max:
            return not any(is_unlisting(peer) or (is_reachable(peer) and not call.rejected) for peer, call in waiting)
        return not waiting

    def loaded_from(self) -> list[str]:
        """The peers that gave a snapshot."""
        return sorted({peer for (peer, _), call in self._calls.items() if call.loaded})

    def end_failed(self, now_ms: int) -> bool:
        """Note that the last step of the load failed; return whether it is tried again, after a wait."""
        self._end_failures += 1
        self._end_due_ms = now_ms + self._config.load_retry_delay_ms * self._end_failures
        return self._end_failures < END_TRIES_MAX

    def end(self) -> FinishLoad:
        """The action that ends the load."""
        return FinishLoad(self._known)
