"""The invariants of every world, and ``Broken``, which names one that does not hold."""

import enum
from collections.abc import Mapping


class Invariant(enum.Enum):
    """A condition that must hold; the value is a name and a sentence."""

    AGREEMENT = (
        "agreement",
        "once the faults are over, all members hold the same keys, versions, instances and removals",
    )
    VIEWS = "one view", "once the faults are over, all members are UP and see the same members"
    PRESENT = (
        "no instance is missing",
        "an instance that beats is missing at its owner for two beats and one call at most",
    )
    HEALTHY = "health", "an instance that beats without a pause is healthy in all lists"
    GONE = "removals hold", "a removal holds against all earlier beats, and no instance is lost without a removal"
    CONTENT = "versions identify content", "members with the same version of a key have the same instances under it"
    WRITER = "one writer", "the owner of each key wrote its version, which is above all acknowledged ones"
    ORDER = "versions never fall", "within one run of a member, the version of a key only rises"
    ATTRIBUTES = "latest attributes", "an instance has the last attributes that were acknowledged to its client"
    WORDS = "durable writes", "all members hold a client's last write to a durable record, on their disks, too (R14)"
    CALLS = (
        "no late calls",
        "no member executes a call after its client got an error for it, or after a later call (R13)",
    )
    LINKED = (
        "links agree",
        "once the faults are over, each cluster shows exactly what the clusters that it follows have registered",
    )
    LIVING = (
        "links lose nothing",
        "a living instance that a link brought is shown until a member of its cluster that may say so lacks it (L4)",
    )
    FOREIGN_GONE = "links show removals", "a removed instance is shown for a bounded time only, or as stale"
    MARKED = "silent links are marked", "instances of a silent link are shown as stale (L2)"
    ECHO = "no echo", "an instance is shown once, and comes only by a link to its own cluster (L1)"
    TICKS = "short ticks", "no tick of the engine's thread takes longer than the bound"
    CODE = "no error", "no code of a member raises an uncaught exception"
    COURSE = "the scenario's bound", "the events that the scenario demands have happened in time"

    @property
    def title(self) -> str:
        """The name."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """The sentence."""
        return self.value[1]


class Broken(AssertionError):
    """An invariant does not hold."""

    def __init__(
        self,
        text: str,
        invariant: Invariant = Invariant.COURSE,
        key: str = "",
        states: Mapping[str, str] | None = None,
    ) -> None:
        """``key``: the datum or record; ``states``: its state at each of the members that differ."""
        super().__init__(text)
        self.text = text
        self.invariant, self.key, self.states = invariant, key, states or {}

    def __str__(self) -> str:
        return "; ".join([self.text, *(f"{member} holds {held}" for member, held in self.states.items())])
