"""Whole members through random lives and faults: after heal and quiet, every invariant of the checker holds.

A failure names its seed; ``rollcall simulate --scenario members --seed N`` shows what happened.
"""

from collections import Counter

import pytest

from app.tools.simulation.scenarios.scenarios import members_agree
from app.tools.simulation.scenarios.without import Earlier
from tests.support.thorough import THOROUGH, usually

pytestmark = pytest.mark.simulation
GROUP = 10
"""Of each ten, seven have three members, one has two and two have five."""
GROUPS = [range(first, first + GROUP) for first in range(0, usually(40, 100), GROUP)]
if not THOROUGH:
    GROUPS.append(range(74, 75))  # the first seed in which a write is lost with its process
MARKS = {
    "answer lost",
    "answer lost by a cut",
    "answer lost by a one-way cut",
    "answer read after its deadline",
    "bridge",
    "call lost",
    "call lost by a block",
    "call lost by a cut",
    "call lost by a one-way cut",
    "call or timer that waited in a paused process",
    "call passed on through a relay",
    "call refused by a block",
    "call without a known clock not made",
    "datum asked for whole",
    "delta sent",
    "digests differ",
    "durable word acknowledged",
    "durable write forwarded",
    "empty services compared",
    "forwarded call not answered",
    "health flipped by a check",
    "keys forgotten",
    "late write refused",
    "list changed while away",
    "list changed while running",
    "lists taken from the own disk",
    "no connection to a member",
    "pause noticed by the frontend",
    "power cut",
    "removals compared",
    "request kept by a kernel",
    "request repeated",
    "slow disk",
    "datum of a forwarded write fetched",
    "wall clock set",
    "write forwarded",
    "write lost with its process",
    "write on disk at the end of its process",
    "write refused after a pause",
    "write refused by a full disk",
}
"""All that the worlds count: each kind of fault when it really happened, and each rule's answer to one."""
TOGETHER = "writes passed on together"
"""Counted where clients change at once; elsewhere it may happen by chance."""


class HalfEarlier(Earlier):
    """A member of a cluster of both releases, as during a rolling upgrade."""

    @staticmethod
    def is_earlier(address: str) -> bool:
        return int(address.partition(":")[0].rpartition(".")[2]) % 2 == 1


@pytest.fixture(scope="module")
def marks() -> dict[int, Counter[str]]:
    """What happened in each group of seeds that has run."""
    return {}


def run_group(seeds: range, marks: dict[int, Counter[str]]) -> None:
    seen = Counter[str]()
    for seed in seeds:
        seen += members_agree(seed).marks
    marks[seeds.start] = seen


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"seeds {seeds.start} to {seeds.stop - 1}")
def test_members_agree_after_the_faults(seeds: range, marks: dict[int, Counter[str]]) -> None:
    run_group(seeds, marks)


@pytest.mark.parametrize("seed", range(100, 100 + usually(4, GROUP)))
def test_members_of_two_releases_agree(seed: int) -> None:
    """One of them compares all keys in verify rounds, the other digests with its like."""
    members_agree(seed, member_class=HalfEarlier)


@pytest.mark.parametrize("seed", [*range(110, 110 + usually(4, GROUP)), 1_052])
def test_members_agree_after_writes_that_were_passed_on_together(seed: int) -> None:
    """In the last seed an owner does not list the sender yet, and refuses what was passed on together."""
    assert members_agree(seed, bursts=8).marks[TOGETHER]


def test_each_kind_of_fault_happens_in_these_seeds(marks: dict[int, Counter[str]]) -> None:
    """A fault that does not happen tests nothing; so does a rule's answer that is never given."""
    for seeds in GROUPS:
        if sum(marks.values(), Counter[str]()).keys() >= MARKS:
            break
        if seeds.start not in marks:
            run_group(seeds, marks)
    seen = sum(marks.values(), Counter[str]()).keys() - {TOGETHER}
    assert seen == MARKS, (MARKS - seen, seen - MARKS)
