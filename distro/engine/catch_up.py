"""CatchUp: compares this node's data with a peer's after a pause of the process (R9)."""

import logging
import random
import threading
from collections.abc import Callable, Mapping
from functools import partial

from distro.engine.mailbox import PeerWorker
from distro.engine.peer_call_runner import EngineParts
from distro.engine.snapshot_pages import SnapshotPages
from distro.model.errors import CodecError, NotInitialized, TransportError
from distro.model.ports import Component
from distro.model.types import Datum, MemberKind, Version

LOG = logging.getLogger(__name__)
RETRY_S = 0.2
"""From one try with every peer to the next."""


class CatchUp:
    """Takes from one peer all that this node missed while it stood still. ``begin`` comes from any thread."""

    def __init__(self, parts: EngineParts, on_behind: Callable[[bool], None]) -> None:
        """``on_behind``: called when this node falls behind, and when it has caught up; under a lock."""
        self._parts = parts
        self._reader = parts.reader
        self._lock = threading.Lock()
        self._pauses = 0
        self._worker: PeerWorker | None = None
        self._stopped = threading.Event()
        self._is_behind = False
        self._on_behind = on_behind

    def begin(self) -> None:
        """Note that this process stood still, and compare with a peer, if there is one. Returns at once."""
        if self._reader.view.members.standalone:
            return
        with self._lock:
            if self._stopped.is_set():
                return
            self._pauses += 1
            self._set(True)
            if self._worker is None:
                self._worker = PeerWorker("distro-catch-up")
            self._worker.put(self._run, "CatchUp")

    def stop(self) -> None:
        """Begin no more comparisons, and end the one under way soon. Returns at once; may be called twice."""
        with self._lock:
            self._stopped.set()
            if self._worker is not None:
                self._worker.finish()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end after ``stop``; return whether it came within ``timeout_s``."""
        return self._worker is None or self._worker.join(timeout_s)

    def _set(self, is_behind: bool) -> None:
        self._is_behind = is_behind
        self._on_behind(is_behind)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._is_behind and not self._stopped.is_set():
            pauses, peers = self._pauses, self._peers()
            if not peers:
                LOG.warning("after a pause, no other member can be reached for a comparison: this member answers reads")
            elif any(self._has_taken_all(peer) for peer in peers):
                LOG.info("after a pause, this member has caught up with its peers")
            else:
                self._stopped.wait(RETRY_S)
                continue
            with self._lock:
                self._set(pauses != self._pauses)

    def _peers(self) -> list[str]:
        """The members to compare with: those that this node takes for alive, in any order."""
        members = self._reader.view.members
        found = [one for one in members.listed if one.kind is MemberKind.OWN and members.is_reachable(one.address)]
        return [one.address for one in random.sample(found, len(found))]

    def _has_taken_all(self, peer: str) -> bool:
        """Take the peer's data that this node lacks; return whether that is done, for all resource types."""
        try:
            for name, component in self._parts.components.items():
                if MemberKind.OWN in component.taken_by:
                    self._take(name, component, peer)
        except (TransportError, CodecError, NotInitialized) as error:
            LOG.info("after a pause, the data of %s could not be compared: %s", peer, error)
            return False
        return not self._stopped.is_set()

    def _take(self, resource_type: str, component: Component, peer: str) -> None:
        timeout_ms = self._parts.config.sync_timeout_ms
        found = component.agent.load(peer, timeout_ms)
        if found is None:
            raise NotInitialized(f"{peer} has not loaded yet")
        lacks = partial(self._lacks, component)
        if not isinstance(found, Mapping):
            self._receive(resource_type, peer, [one for one in found if lacks(one.key, one.version)])
            return
        pages = SnapshotPages(
            found,
            lacks=lacks,
            fetch=lambda keys: component.agent.page(peer, keys, timeout_ms),
            take=partial(self._receive, resource_type, peer),
            shuffle=random.shuffle,
        )
        while not pages.is_done and not self._stopped.is_set():
            pages.next_page()

    @staticmethod
    def _lacks(component: Component, key: str, version: Version) -> bool:
        stored = component.store.version(key)
        return stored is None or not stored.has_had(version)

    def _receive(self, resource_type: str, peer: str, datums: list[Datum]) -> int:
        now_ms = self._parts.clock.monotonic_ms()
        self._parts.receiver.receive(resource_type, peer, datums, now_ms, fetched=True, catching_up=True)
        return len(datums)
