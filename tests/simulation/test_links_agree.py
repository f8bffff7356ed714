"""Linked clusters through faults in them and between them: after heal and quiet each shows what the other registered.

A failure names its seed; ``rollcall simulate --scenario links --seed N`` shows what happened.
"""

import pytest

from app.tools.simulation.scenarios.links import links_agree
from app.tools.simulation.world.invariants import Invariant

pytestmark = pytest.mark.simulation
SEEDS = 8
"""One of each shape: pairs, rings, stars, and all with all."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_linked_clusters_agree_after_the_faults(seed: int) -> None:
    world = links_agree(seed)
    for invariant in (Invariant.LINKED, Invariant.LIVING, Invariant.FOREIGN_GONE, Invariant.ECHO):
        assert world.checked[invariant.title], invariant
    assert world.clusters[0].next_ms() > world.now_ms


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(32, id="a member that took a service over replaced a later state by its older one"),
        pytest.param(33, id="and the other cluster did not answer then"),
        pytest.param(700118, id="a member that stood still took an old line of its stream for a new statement"),
        pytest.param(700804, id="a young member removed what only another one had heard"),
        pytest.param(701127, id="a member that was not listed for a moment did not fetch again for a minute"),
    ],
)
def test_linked_clusters_agree_where_they_did_not_before(seed: int) -> None:
    links_agree(seed)
