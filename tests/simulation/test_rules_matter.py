"""Each protective rule switched off in turn, where nothing else would repair what it prevents: the checker notices.

The same worlds with the rule in place pass, so it is the rule that makes the difference.
"""

import pytest

from tests.simulation import rules, without
from tests.simulation.rules import Trial
from tests.support.simulated.checker import Broken
from tests.support.simulated.member import SimMember

pytestmark = pytest.mark.simulation
SEEDS = range(12)

CASES = [
    pytest.param(rules.sends_get_lost, without.NoVerify, without.NoRetry, id="retry"),
    pytest.param(rules.sends_overtake, without.NoVersions, without.ManyInFlight, id="one send in flight"),
    pytest.param(rules.sends_repeat_late, without.NoVerify, without.NoVersions, id="versions"),
    pytest.param(rules.datum_is_wiped, SimMember, without.NoVerify, id="verify"),
    pytest.param(rules.member_restarts_quickly, SimMember, without.UpAtOnce, id="R7, load first"),
    pytest.param(rules.member_stands_still, SimMember, without.PausesUnseen, id="R9, pauses"),
    pytest.param(rules.member_sleeps_for_long, SimMember, without.NoSecondLoad, id="second load"),
    pytest.param(rules.owner_dies, SimMember, without.NoGrace, id="R2, timers restart"),
    pytest.param(rules.sides_go_apart, SimMember, without.NoTombstones, id="tombstones"),
    pytest.param(rules.owner_dies_while_it_sends, SimMember, without.NoCoverage, id="hand-over, take only what covers"),
    pytest.param(rules.sides_go_apart, SimMember, without.NoMerge, id="hand-over, owner merges"),
    pytest.param(rules.copy_waits_in_a_paused_member, SimMember, without.CopiesProveLife, id="a copy proves no life"),
    pytest.param(rules.copies_come_late, without.Undated, without.LateCopiesCount, id="hand-over, owner fetches"),
    pytest.param(rules.copy_waits_in_a_paused_member, SimMember, without.Undated, id="R13, ages count from the send"),
]


@pytest.mark.parametrize(("trial", "with_rule", "without_rule"), CASES)
def test_a_rule_that_is_switched_off_is_missed(
    trial: Trial, with_rule: type[SimMember], without_rule: type[SimMember]
) -> None:
    for seed in SEEDS:
        trial(seed, with_rule)
    broken = (is_broken(trial, seed, without_rule) for seed in SEEDS)
    assert any(broken), f"without its rule {trial.__name__} holds in all of {len(SEEDS)} seeds"


def is_broken(trial: Trial, seed: int, members: type[SimMember]) -> bool:
    try:
        trial(seed, members)
    except Broken:
        return True
    return False
