"""LocalActions: the protocol's actions that call no peer, carried out beside the engine's thread (R11)."""

from collections.abc import Callable

from distro.claims import Claimer
from distro.ports import Components
from distro.protocol import DistroProtocol
from distro.types import Claim, FinishLoad, Forget, LocalAction

Event = Callable[[DistroProtocol, int], None]


class LocalActions:
    """Claims, forgets and ends loads in bounded steps. For one thread at a time."""

    def __init__(self, protocol: DistroProtocol, components: Components) -> None:
        self._protocol = protocol
        self._components = components
        self._claimer = Claimer(components, protocol.own_writer)

    def run(self, action: LocalAction, now_ms: int) -> Event:
        """Carry out the action; return the event that tells the protocol of its end."""
        match action:
            case Claim():
                return self._claim(action, now_ms)
            case Forget():
                return self._forget(action, now_ms)
            case FinishLoad():
                return self._finish_load(action, now_ms)

    def failed(self, action: LocalAction) -> Event:
        """The event that tells the protocol of an action that raised: keys are claimed later, and a load ends."""
        match action:
            case Claim():
                return lambda protocol, now_ms: protocol.on_claim_failed(now_ms)
            case Forget():
                return lambda protocol, _now_ms: protocol.on_forget_done(0)
            case FinishLoad():
                return lambda protocol, now_ms: protocol.on_load_finished(action, now_ms)

    def _claim(self, action: Claim, now_ms: int) -> Event:
        protocol = self._protocol

        def may_claim() -> bool:
            return protocol.steady(now_ms) and protocol.members.view_since_ms == action.view_since_ms

        claimed, refused, unfinished = self._claimer.run(action, now_ms, may_claim, protocol.is_responsible)
        return lambda protocol, now_ms: protocol.on_claim_done(claimed, refused, now_ms, unfinished=unfinished)

    def _forget(self, action: Forget, now_ms: int) -> Event:
        forgotten = 0
        for key in action.keys:
            store = self._components[key.resource_type].store
            if store.is_forgettable(key.key, now_ms):
                store.forget(key.key, now_ms)
                forgotten += 1
        return lambda protocol, _now_ms: protocol.on_forget_done(forgotten)

    def _finish_load(self, action: FinishLoad, now_ms: int) -> Event:
        for name, known in (action.known or {}).items():
            store = self._components[name].store
            for key in store.versions():
                if key not in known:
                    store.forget(key, now_ms, absent=True)
        self._protocol.before_serving(now_ms)
        return lambda protocol, now_ms: protocol.on_load_finished(action, now_ms)
