"""Members of our kind beside real Nacos 1.4, through faults: after heal and quiet all list the instances that beat.

A failure names its seed; ``rollcall simulate --scenario mixed --seed N`` shows what happened.
"""

import pytest

from app.tools.simulation.scenarios.scenarios import mixed_agree
from tests.support.thorough import usually

pytestmark = pytest.mark.simulation
SEEDS = usually(20, 40)
GROUP = 10


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP), ids=lambda first: f"seeds {first} to {first + GROUP - 1}")
def test_members_of_two_kinds_agree_after_the_faults(first: int) -> None:
    for seed in range(first, first + GROUP):
        marks = mixed_agree(seed).marks
        assert marks["write executed by Nacos"], seed
        assert marks["datum taken by Nacos"], seed


@pytest.mark.parametrize(
    "seed", [pytest.param(3_000_288, id="the owner never had what Nacos wrote while it took itself for the owner")]
)
def test_members_of_two_kinds_agree_where_they_did_not_before(seed: int) -> None:
    mixed_agree(seed)
