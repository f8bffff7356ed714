"""Each protective rule switched off in turn, where nothing else would repair what it prevents: the checker notices.

The same worlds with the rule in place pass, so it is the rule that makes the difference.
"""

import pytest

from tests.simulation import rules, rules_10_to_17, without, without_10_to_17
from tests.simulation.rules import Trial
from tests.support.simulated.checker import Broken
from tests.support.simulated.connections import ConnectedMember
from tests.support.simulated.member import SimMember

pytestmark = pytest.mark.simulation
SEEDS = range(6)
FEW_SEEDS: dict[Trial, range] = {rules_10_to_17.owner_of_many_dies: range(1)}
"""Of worlds that take long."""

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
    pytest.param(
        rules.copy_waits_in_a_paused_member,
        without_10_to_17.LateCallsCount,
        without_10_to_17.LateCopiesProveLife,
        id="a copy proves no life",
    ),
    pytest.param(
        rules.copy_waits_in_a_paused_member,
        without_10_to_17.LateCallsCount,
        without_10_to_17.LateUndated,
        id="R13, ages count from the send",
    ),
    pytest.param(
        rules.copies_come_late,
        without_10_to_17.LateCallsCount,
        without_10_to_17.LateMergedCopies,
        id="hand-over, owner fetches",
    ),
    pytest.param(
        rules_10_to_17.versions_are_forged,
        SimMember,
        without_10_to_17.VersionsUnchecked,
        id="R10, versions from outside",
    ),
    pytest.param(
        rules_10_to_17.owner_of_many_dies,
        SimMember,
        without_10_to_17.ClaimsInTheTick,
        id="R11, claims beside the engine",
    ),
    pytest.param(
        rules_10_to_17.two_members_hear_a_third_alone,
        SimMember,
        without_10_to_17.DirectContactOnly,
        id="R12, one view",
    ),
    pytest.param(rules_10_to_17.owner_cannot_be_called, SimMember, without_10_to_17.NoRelay, id="R12, relay"),
    pytest.param(rules_10_to_17.member_is_alone, SimMember, without_10_to_17.JudgesAlone, id="R12, who is cut off"),
    pytest.param(rules_10_to_17.calls_come_late, SimMember, without_10_to_17.LateCallsCount, id="R13, deadlines"),
    pytest.param(
        rules_10_to_17.calls_wait_in_a_paused_member,
        SimMember,
        without_10_to_17.WaitingCallsCount,
        id="R13, what waited",
    ),
    pytest.param(
        rules_10_to_17.check_follows_a_cut, SimMember, without_10_to_17.ChecksSpeak, id="R14, a client's word"
    ),
    pytest.param(
        rules_10_to_17.removal_is_unheard_of, SimMember, without_10_to_17.NoTraces, id="R15, a removal leaves a trace"
    ),
    pytest.param(
        rules_10_to_17.silence_is_on_one_side,
        without_10_to_17.JudgesAlone,
        without_10_to_17.ExpiryWins,
        id="R15, an expiry is a guess",
    ),
    pytest.param(rules_10_to_17.members_restart_apart, SimMember, without_10_to_17.JoinsUnseen, id="R16, who waits"),
    pytest.param(
        rules_10_to_17.clients_are_sent_away,
        ConnectedMember,
        without_10_to_17.RemovesItsClients,
        id="R17, clients are handed over",
    ),
]


@pytest.mark.parametrize(("trial", "with_rule", "without_rule"), CASES)
def test_a_rule_that_is_switched_off_is_missed(
    trial: Trial, with_rule: type[SimMember], without_rule: type[SimMember]
) -> None:
    seeds = FEW_SEEDS.get(trial, SEEDS)
    for seed in seeds:
        trial(seed, with_rule)
    broken = (is_broken(trial, seed, without_rule) for seed in seeds)
    assert any(broken), f"without its rule {trial.__name__} holds in all of {len(seeds)} seeds"


def is_broken(trial: Trial, seed: int, members: type[SimMember]) -> bool:
    try:
        trial(seed, members)
    except Broken:
        return True
    return False
