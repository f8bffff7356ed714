"""Each protective rule switched off in turn, where nothing else would repair what it prevents: the checker notices.

The same worlds with the rule in place pass, so it is the rule that makes the difference.
"""

import pytest

from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.cases import CASES, RuleCase
from app.tools.simulation.scenarios.rules import Trial
from app.tools.simulation.world.invariants import Broken
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_that_is_switched_off_is_missed(case: RuleCase) -> None:
    """A usual run ends with the first seed that breaks without the rule; a thorough one tries all with the rule."""
    broken = (seed for seed in range(case.seeds) if is_broken(case.trial, seed, case.without_rule))
    first = next(broken, None)
    assert first is not None, f"without its rule {case.trial.__name__} holds in all of {case.seeds} seeds"
    for seed in range(case.seeds) if THOROUGH else [first]:
        case.trial(seed, case.with_rule)


def is_broken(trial: Trial, seed: int, members: type[SimMember]) -> bool:
    try:
        trial(seed, members)
    except Broken:
        return True
    return False
