"""The order of two clients' statements when two sides of a partition count versions apart (R14)."""

from app.naming.model.value_limits import WORD_MARGIN_MS
from distro.model.types import Version


def is_later_word(mine: Version, mine_ms: int | None, other: Version, other_ms: int | None) -> bool:
    """Return whether the statement of version ``mine`` is later than that of ``other``, and not the same.

    By time (monotonic ms, None if unknown); by version if the times have no order.
    """
    if mine == other:
        return False
    if mine_ms is not None and other_ms is not None and abs(mine_ms - other_ms) > WORD_MARGIN_MS:
        return mine_ms > other_ms
    return mine > other
