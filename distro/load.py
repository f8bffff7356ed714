"""Loading: take over what the other members hold before this one answers, claims or verifies (R7)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from distro.config import DistroConfig
from distro.ports import Components
from distro.types import DistroKey, Load, MemberKind, Outcome


@dataclass(slots=True)
class _Call:
    due_ms: int
    timeout_ms: int
    """Doubles with every try: a whole snapshot may take long, but a call that nobody answers must not hold all up."""
    busy: bool = False
    loaded: bool = False
    refused: bool = False
    """Nobody listens there; it may only be slow to start."""
    rejected: bool = False
    """The peer does not know the call, or not yet this member."""
    empty_handed: bool = False
    """The peer is itself loading with nothing: what it may get yet it gets from those whom we ask too."""


class SnapshotLoad:
    """One load, from its start until this member is UP: which peer is asked for which type, and when it is over."""

    def __init__(self, config: DistroConfig, components: Components, now_ms: int, *, again: bool = False) -> None:
        """``again``: what is held is old, and what no peer holds any more is to go."""
        self._config = config
        self._components = components
        self._since_ms = now_ms
        self._calls: dict[tuple[str, str], _Call] = {}
        self._seen: set[DistroKey] | None = set() if again else None

    def add(self, peer: str, now_ms: int) -> None:
        names = [name for name, part in self._components.items() if MemberKind.OWN in part.taken_by]
        self._calls.update({(peer, name): _Call(now_ms, self._config.load_wait_ms_max) for name in names})

    def remove(self, peer: str) -> None:
        self._calls = {at: call for at, call in self._calls.items() if at[0] != peer}

    def leave_out(self, peer: str, kind: MemberKind) -> None:
        """The peer is known to be of this kind: it is not asked, nor waited for, where that has no such data."""
        components = self._components
        self._calls = {
            at: call for at, call in self._calls.items() if at[0] != peer or kind in components[at[1]].taken_by
        }

    def next_call(self, peer: str, now_ms: int) -> Load | None:
        """The snapshot to ask this peer for now."""
        for (address, resource_type), call in self._calls.items():
            if address == peer and not call.busy and not call.loaded and call.due_ms <= now_ms:
                call.busy = True
                deadline_ms = now_ms + min(call.timeout_ms, self._config.load_timeout_ms)
                call.timeout_ms *= 2
                return Load(peer, resource_type, deadline_ms)
        return None

    def next_due_ms(self, now_ms: int) -> int:
        busy = {peer for (peer, _), call in self._calls.items() if call.busy}  # one call a peer: its end is an event
        waiting = [call.due_ms for (peer, _), call in self._calls.items() if peer not in busy and not call.loaded]
        return min([*waiting, now_ms + self._config.load_retry_delay_ms])

    def on_done(self, action: Load, outcome: Outcome, keys: Iterable[str] | None, now_ms: int) -> None:
        """A snapshot ended; ``keys`` are None when the peer is itself loading with nothing."""
        call = self._calls.get((action.peer, action.resource_type))
        if call is None:
            return
        call.busy = False
        if outcome is Outcome.DELIVERED and keys is not None:
            call.loaded = True
            if self._seen is not None:
                self._seen.update(DistroKey(action.resource_type, key) for key in keys)
            return
        call.due_ms = now_ms + self._config.load_retry_delay_ms
        call.refused = outcome is Outcome.REFUSED
        call.rejected = outcome is Outcome.REJECTED
        call.empty_handed = outcome is Outcome.DELIVERED

    def is_over(self, now_ms: int, is_reachable: Callable[[str], bool]) -> bool:
        """Whether every member gave its data or has none to give; at the latest after ``load_wait_ms_max``.

        Beyond that only a member that was seen to serve, and knows the call, is waited for: that snapshot is worth it.
        """
        waited_ms = now_ms - self._since_ms
        if waited_ms >= self._config.load_timeout_ms:
            return True
        waiting = [
            (peer, call)
            for (peer, _), call in self._calls.items()
            if not (call.loaded or call.empty_handed or (call.refused and waited_ms >= self._config.load_refused_ms))
        ]
        if waited_ms >= self._config.load_wait_ms_max:
            return not any(is_reachable(peer) and not call.rejected for peer, call in waiting)
        return not waiting

    def loaded_from(self) -> list[str]:
        return sorted({peer for (peer, _), call in self._calls.items() if call.loaded})

    def drop_what_is_gone(self, now_ms: int) -> None:
        """After a load made again: forget the keys that no peer holds any more, of types that any peer gave."""
        if self._seen is None:
            return
        for name in {name for (_, name), call in self._calls.items() if call.loaded}:
            component = self._components[name]
            for key in component.store.versions():
                if DistroKey(name, key) not in self._seen:
                    component.store.forget(key, now_ms, absent=True)
