"""Bounds on the cost of a connection next to its calls: a credit for frames without a call, and bytes kept for it."""

from dataclasses import dataclass
from typing import Protocol

CREDIT_MAX = 1_000.0
"""The most control frames at once: some 5 ms of this node."""
CREDIT_PER_S = 50.0
"""The refill, which lets quiet connections with PINGs to keep them alive live for ever."""
OF_MESSAGE = 8.0
"""The credit for each message that came: grpc-go adds a PING and a WINDOW_UPDATE to each call, others an empty DATA."""
OF_SENT_FRAME = 4.0
"""The credit for each DATA frame that is sent, which the client may answer with two WINDOW_UPDATEs and a PING."""
OF_RESET = 10.0
"""The cost of a reset before the call is answered: it takes back the message's credit. Clients give up few calls."""


class Budget(Protocol):
    """The bytes of answers, of all connections and ports."""

    def add(self, count: int) -> bool:
        """Count so many more, or fewer below 0; False, and nothing is counted, when there is no room."""
        ...

    def give_back(self, count: int) -> None:
        """Count so many fewer."""
        ...


class CountedAnswer(bytes):
    """The message of a large answer, counted in the budget for as long as anything refers to it.

    All clients that get the same object share its cost: it counts once.
    """

    _budget: Budget

    @classmethod
    def of(cls, message: bytes, budget: Budget) -> "CountedAnswer":
        """Wrap bytes that the budget has counted."""
        made = cls(message)
        made._budget = budget
        return made

    def __del__(self) -> None:
        self._budget.give_back(len(self))


@dataclass(slots=True)
class ControlCredit:
    """A credit that time and useful messages refill."""

    left: float = CREDIT_MAX
    """The credit at present: each control frame takes some. Below 0 there were too many."""


class KeptBytes:
    """The bytes that are kept, of one connection or of all. Each byte of a connection counts for all, too."""

    __slots__ = ("_bytes_max", "_whole", "count")

    def __init__(self, bytes_max: int, whole: "KeptBytes | Budget | None" = None) -> None:
        self._bytes_max = bytes_max
        self._whole = whole
        self.count = 0

    def add(self, count: int) -> bool:
        """Count so many more, or fewer below 0; False, and nothing is counted, when they were too many."""
        if count > 0 and self.count + count > self._bytes_max:
            return False
        if self._whole is not None and not self._whole.add(count):
            return False
        self.count += count
        return True

    def clear(self) -> None:
        """Stop counting the bytes of this connection, as none is kept any more."""
        self.add(-self.count)
