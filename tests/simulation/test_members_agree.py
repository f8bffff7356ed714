"""Whole members through random lives and faults: after heal and quiet, every invariant of the checker holds.

A failure names its seed; ``python -m tests.simulation.run --seed N --trace`` shows what happened.
"""

import pytest

from tests.simulation.scenarios import members_agree

pytestmark = pytest.mark.simulation
SEEDS = 200
GROUP = 10
"""Of each ten, seven have three members, one has two and two have five."""


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP), ids=lambda first: f"seeds {first} to {first + GROUP - 1}")
def test_members_agree_after_the_faults(first: int) -> None:
    for seed in range(first, first + GROUP):
        members_agree(seed)
