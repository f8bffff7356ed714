"""DistroObserver: hears of each decision of the engine, and of the rule behind it."""

from collections.abc import Collection, Mapping

from distro.model.types import DistroKey, Received, Version


class DistroObserver:
    """Hears of each decision, on the thread that made it. This base class does nothing.

    A subclass must neither block nor raise. A node never has one: the simulation does, for its transcript.
    """

    def decided(
        self, key: DistroKey, sender: str, received: Version, stored: Version | None, rule: str, reason: str, done: str
    ) -> None:
        """Hear the decision on a datum that the sender sent, or that was fetched from it.

        ``rule`` as in replication.md.
        """

    def had(self, resource_type: str, received: Mapping[str, Version], stored: Mapping[str, Version]) -> None:
        """Hear that datums of these stored keys brought nothing new, though some have earlier versions (R3)."""

    def compared(self, resource_type: str, source: str, equal: int, wanted: Collection[str], answer: Received) -> None:
        """Hear how a verify round of the source ended: the equal keys, the keys to fetch, and the answer."""

    def fetches(self, peer: str, keys: Collection[str], rule: str, reason: str) -> None:
        """Hear that these keys, if any, are to be fetched from the peer, which has states that this node lacks."""

    def forgot(self, key: DistroKey, reason: str) -> None:
        """Hear that a key was dropped because a peer, or every peer, no longer holds it (R6)."""


NO_OBSERVER = DistroObserver()
