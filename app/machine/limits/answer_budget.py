"""The bytes of answers that are being made, wait, or are not read yet: one budget for all ports of a node."""

from threading import Lock
from types import TracebackType
from typing import Self

from app.machine.process.memory_bound import trim_memory
from app.naming.limits.admission import PREFIX, LimitStats
from app.naming.model.nacos_errors import TooManyRequests

MIB = 1 << 20
DEFAULT_MB = 48
"""The default: four lists of 20,000 instances at a time. The objects behind them take as much again."""
MEMORY_PART = 8
"""Without a setting, answers take at most this part of the memory limit: one eighth."""
LARGE_ANSWER_BYTES = 16_384
"""A longer answer must find room before it is made. Beats, health checks and lists of 50 instances are shorter."""
TRIM_MS = 10_000
TRIM_FROM_BYTES = 16 * MIB
"""After this many bytes of large answers free memory goes back to the system: the C library keeps up to 100 MB."""
RETRY_S = 1.0
"""When a client may try again. Clients that read nothing are disconnected within seconds while room is short."""


def answers_bytes(setting_mb: int, memory_bytes: int) -> int:
    """Return the size of the budget: the setting (MiB), or the default within the memory limit (0: none)."""
    return setting_mb * MIB or part_of_memory(DEFAULT_MB * MIB, memory_bytes)


def part_of_memory(bytes_max: int, memory_bytes: int) -> int:
    """Return ``bytes_max``, or an eighth of the memory limit (0: none) if that is less."""
    return min(bytes_max, memory_bytes // MEMORY_PART) if memory_bytes else bytes_max


class AnswerBudget:
    """Counts bytes of answers to clients and members. Thread-safe.

    Large answers get three quarters of the budget, so short ones pass while large ones are refused. A single answer
    that is larger than that passes while no other is under way. Answers to members are counted and never refused: few
    threads make them.
    """

    def __init__(self, bytes_max: int = DEFAULT_MB * MIB, stats: LimitStats | None = None) -> None:
        self.bytes_max = bytes_max
        self.large_max = bytes_max * 3 // 4
        self.stats = stats or LimitStats()
        self.count = 0
        """The bytes under way now. Read without the lock."""
        self._lock = Lock()
        self._made = 0
        """Bytes of large answers since memory was last given back, approximately."""

    @property
    def is_short(self) -> bool:
        """Return whether clients that do not read should be disconnected: large answers fill half of their part."""
        return self.count * 2 > self.large_max

    @property
    def is_over(self) -> bool:
        """Return whether twice the budget is in use, by short answers that are not read."""
        return self.count > 2 * self.bytes_max

    def check(self, count: int) -> None:
        """Refuse an answer of ``count`` bytes, which is about to be made on the event loop, if it has no room.

        Raises:
            TooManyRequests: it does not fit next to the answers under way.
        """
        if count <= LARGE_ANSWER_BYTES:
            return
        self._made += count
        if self.count and self.count + count > self.large_max:
            self.refuse()

    def claim(self, count: int, *, is_for_member: bool = False) -> None:
        """Count an answer that is about to be made; ``give_back`` ends that. One ``is_for_member`` is never refused.

        Raises:
            TooManyRequests: as ``check``.
        """
        if is_for_member:
            self.add_always(count)
        elif not self.take(count):
            self.refuse()

    def take(self, count: int) -> bool:
        """Count a large answer. Return False, and count nothing, if it has no room."""
        with self._lock:
            if self.count and self.count + count > self.large_max:
                return False
            self.count += count
            self._made += count
            return True

    def add(self, count: int) -> bool:
        """Count short answers that a client has not read. Return False, and count nothing, if the budget is used up.

        A negative count subtracts.
        """
        with self._lock:
            if count > 0 and self.count > self.bytes_max:
                return False
            self.count += count
            return True

    def add_always(self, count: int) -> None:
        """Count bytes whether or not the budget has room."""
        with self._lock:
            self.count += count

    def give_back(self, count: int) -> None:
        """Subtract this many bytes."""
        with self._lock:
            self.count -= count

    def refuse(self) -> None:
        """Count a refusal, and refuse.

        Raises:
            TooManyRequests: always.
        """
        self.stats.answers_mb += 1
        raise TooManyRequests(
            f"too many bytes of answers are under way ({PREFIX}answersMb={self.bytes_max // MIB}), please try again "
            "later or at another server",
            RETRY_S,
        )

    def tick(self, now_ms: int) -> int:
        """Give memory back to the system after large answers have ended. Return when to call again (monotonic ms)."""
        if self._made > TRIM_FROM_BYTES and self.count < MIB:
            self._made = 0
            trim_memory()
        return now_ms + TRIM_MS

    def counters(self) -> dict[str, int]:
        """Return the bytes under way and the budget, under names of metrics in snake_case."""
        return {"answers_bytes": self.count, "answers_bound_bytes": self.bytes_max}


class AnswerRoom:
    """The room of one answer that is made in steps. It is given back at the end."""

    __slots__ = ("_budget", "_count")

    def __init__(self, budget: AnswerBudget, count: int) -> None:
        """``count``: the expected bytes, as far as they are known.

        Raises:
            TooManyRequests: they have no room.
        """
        self._budget = budget
        self._count = count if count > LARGE_ANSWER_BYTES else 0
        if self._count:
            budget.claim(count)

    def grow(self, count: int) -> None:
        """Take room for ``count`` bytes in all.

        Raises:
            TooManyRequests: they have no room.
        """
        if count > self._count and count > LARGE_ANSWER_BYTES:
            self._budget.check(count - self._count)
            self._budget.add_always(count - self._count)
            self._count = count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._budget.give_back(self._count)
