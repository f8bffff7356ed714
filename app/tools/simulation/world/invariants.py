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
    PRESENT = "no instance is missing", "an instance that beats is in its owner's list, but for two beats and one call"
    HEALTHY = "health", "an instance that beats without a pause is shown as healthy"
    GONE = "what is gone stays gone", "a removal holds against all beats of before it, and nothing is lost without one"
    CONTENT = "versions identify content", "all that ever had a version of a key have the same instances under it"
    WRITER = "one writer", "each key is written by its owner, above all that any run acknowledged"
    ORDER = "versions never fall", "what one run of one member holds of a key only rises"
    ATTRIBUTES = "the last description", "an instance is shown as its client described it last and was told to be so"
    WORDS = "durable words", "of a durable record all members hold the last word of a client, on their disks, too (R14)"
    CALLS = (
        "calls that are over",
        "a call is not executed once its client was told that it failed, or a later one (R13)",
    )
    TICKS = "short ticks", "no tick of the engine's thread takes longer than the bound"
    CODE = "no error", "no code of a member raises what nobody catches"
    COURSE = "the scenario's bound", "what the scenario says must have happened by then"

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
