"""LocalActions: the protocol's actions that call no peer, carried out next to the engine's thread (R11)."""

from collections.abc import Callable

from distro.model.ports import Components
from distro.model.types import Claim, FinishLoad, Forget, LocalAction, RefreshDigests
from distro.protocol.claims import Claimer
from distro.protocol.engine_reader import EngineReader
from distro.protocol.protocol import DistroProtocol, Event
from distro.timing.sliced import STEP_STORED, paced


class LocalActions:
    """Claims, forgets and ends loads in bounded steps. For one thread at a time."""

    def __init__(
        self,
        reader: EngineReader,
        components: Components,
        before_serving: Callable[[int], None] = lambda _now_ms: None,
        claimer: Claimer | None = None,
    ) -> None:
        """``before_serving`` is called when a load is over, with the monotonic ms: data on disk may be added then.

        ``claimer``: takes the keys over; None for a new one.
        """
        self._reader = reader
        self._components = components
        self._before_serving = before_serving
        self._claimer = claimer or Claimer(components, reader.own_writer)
        self._stopped = False

    def stop(self) -> None:
        """Give up a long action at its next step: what it leaves is done after the next start. Any thread."""
        self._stopped = True

    def run(self, action: LocalAction, now_ms: int) -> Event:
        """Carry out the action; return the event that tells the protocol of its end."""
        match action:
            case Claim():
                return self._claim(action, now_ms)
            case Forget():
                return self._forget(action, now_ms)
            case FinishLoad():
                return self._finish_load(action, now_ms)
            case RefreshDigests():
                return self._refresh_digests()

    def failed(self, action: LocalAction) -> Event:
        """The event that tells the protocol of an action that raised, and is done again later."""
        match action:
            case Claim():
                return lambda protocol, now_ms: protocol.on_claim_failed(now_ms)
            case Forget():
                return lambda protocol, _now_ms: protocol.on_forget_done(0)
            case FinishLoad():
                return lambda protocol, now_ms: protocol.on_finish_failed(action, now_ms)
            case RefreshDigests():
                return lambda protocol, now_ms: protocol.rounds.on_refreshed(now_ms)

    def _claim(self, action: Claim, now_ms: int) -> Event:
        reader = self._reader

        def may_claim() -> bool:
            view = reader.view
            return view.steady(now_ms) and view.members.view_since_ms == action.view_since_ms

        claimed, refused, unfinished = self._claimer.run(action, now_ms, may_claim, reader.is_responsible)
        return lambda protocol, now_ms: protocol.on_claim_done(claimed, refused, now_ms, unfinished=unfinished)

    def _forget(self, action: Forget, now_ms: int) -> Event:
        by_type: dict[str, list[str]] = {}
        for key in action.keys:
            by_type.setdefault(key.resource_type, []).append(key.key)
        forgotten = sum(self._components[name].store.forget_all(keys, now_ms) for name, keys in by_type.items())
        return lambda protocol, _now_ms: protocol.on_forget_done(forgotten)

    def _finish_load(self, action: FinishLoad, now_ms: int) -> Event:
        for name, known in (action.known or {}).items():
            store = self._components[name].store
            for key in paced(store.all_keys(), STEP_STORED):
                if self._stopped:
                    return _nothing
                if not any(key in part for part in known) and store.version(key) is not None:
                    store.forget(key, now_ms, absent=True)
        if self._stopped:
            return _nothing
        self._before_serving(now_ms)
        return lambda protocol, now_ms: protocol.on_load_finished(action, now_ms)

    def _refresh_digests(self) -> Event:
        for component in self._components.values():
            component.digest.refresh()
        return lambda protocol, now_ms: protocol.rounds.on_refreshed(now_ms)


def _nothing(_protocol: DistroProtocol, _now_ms: int) -> None:
    """End an action that was given up, as the process ends."""
