"""DistroObserver: whoever wants to know what the engine decides, and by which rule, hears of it here."""

from collections.abc import Collection, Mapping

from distro.model.types import DistroKey, Received, Version


class DistroObserver:
    """Hears of each decision, on the thread that made it; this one does nothing, so that nothing waits for it.

    A subclass must neither block nor raise. Nothing in a node has one: the simulation does, for its transcript.
    """

    def decided(
        self, key: DistroKey, sender: str, received: Version, stored: Version | None, rule: str, reason: str, done: str
    ) -> None:
        """What became of a datum that the sender sent, or that was fetched from it; ``rule`` as in replication.md."""

    def had(self, resource_type: str, received: Mapping[str, Version], stored: Mapping[str, Version]) -> None:
        """Of these stored keys datums came that say nothing new, though some are of earlier versions (R3)."""

    def compared(self, resource_type: str, source: str, equal: int, wanted: Collection[str], answer: Received) -> None:
        """How a verify round of the source ended: equal keys, those that are fetched, and what the answer says."""

    def fetches(self, peer: str, keys: Collection[str], rule: str, reason: str) -> None:
        """These keys, if any, are to be fetched from the peer, which has a state of them that this node lacks."""

    def forgot(self, key: DistroKey, reason: str) -> None:
        """A key was dropped because a peer, or all of them, hold no more of it (R6)."""
