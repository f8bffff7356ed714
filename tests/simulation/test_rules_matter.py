"""Each protective rule switched off in turn, where nothing else would repair what it prevents: the checker notices.

The same worlds with the rule in place pass, so it is the rule that makes the difference.
"""

import pytest

from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.cases import CASES, RuleCase
from app.tools.simulation.scenarios.rules import Trial
from app.tools.simulation.world.invariants import Broken

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_that_is_switched_off_is_missed(case: RuleCase) -> None:
    for seed in range(case.seeds):
        case.trial(seed, case.with_rule)
    broken = (is_broken(case.trial, seed, case.without_rule) for seed in range(case.seeds))
    assert any(broken), f"without its rule {case.trial.__name__} holds in all of {case.seeds} seeds"


def is_broken(trial: Trial, seed: int, members: type[SimMember]) -> bool:
    try:
        trial(seed, members)
    except Broken:
        return True
    return False
