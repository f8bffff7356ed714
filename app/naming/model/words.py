"""Which of two words of clients was said later, when two sides of a partition count versions apart (R14)."""

from app.naming.model.value_limits import WORD_MARGIN_MS
from distro.model.types import Version


def is_later_word(mine: Version, mine_ms: int | None, other: Version, other_ms: int | None) -> bool:
    """Whether the word of version ``mine`` was said after that of ``other``, and is not the same word.

    By time (monotonic ms, None where it is not known); by version where the times have no order.
    """
    if mine == other:
        return False
    if mine_ms is not None and other_ms is not None and abs(mine_ms - other_ms) > WORD_MARGIN_MS:
        return mine_ms > other_ms
    return mine > other
