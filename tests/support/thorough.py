"""The seeds and examples of a run: a few of them before each push, many in a night."""

import os

THOROUGH = os.environ.get("TESTS_THOROUGH") == "1"
SHARE = 3
"""A usual run tries one of so many examples; each run tries others."""
EXAMPLES = 100
"""Examples of a property that names no number."""


def usually(number: int, thorough: int) -> int:
    """Return the number of seeds: the first one in a usual run, the second one in a thorough run."""
    return thorough if THOROUGH else number


def examples(thorough: int) -> int:
    """Return the number of examples of a property, of which a thorough run tries so many."""
    return usually(-(-thorough // SHARE), thorough)
