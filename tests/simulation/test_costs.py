"""What members do costs virtual time: work for all keys that holds up the engine's thread is a breach."""

from typing import Any

import pytest

from app.naming.records.record import Record
from app.tools.simulation.member.costs import CostMeter, CostModel
from app.tools.simulation.member.disk import SimDisk
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.large import LargeSizes, grow
from app.tools.simulation.scenarios.without_10_to_17 import ClaimsInTheTick
from app.tools.simulation.world.invariants import Broken, Invariant
from distro.model.ports import Components
from distro.model.types import Action, Version
from distro.protocol.protocol import DistroProtocol

pytestmark = pytest.mark.simulation
SIZES = LargeSizes(services=1_500, records=300)
TICK_MS_MAX = 3
"""Of so few keys: those of the scenario itself are 60 times as many."""


class ScansInTheTickProtocol(DistroProtocol):
    def __init__(self, members: Any, own_writer: str, config: Any, components: Components, *others: Any, **rules: Any):
        super().__init__(members, own_writer, config, components, *others, **rules)
        self.scanned = components

    def tick(self, now_ms: int) -> tuple[list[Action], int]:
        for component in self.scanned.values():
            for key in component.store.versions():
                component.store.is_forgettable(key, now_ms)
                component.store.tag(key)
                component.store.version(key)
                component.store.version(key)
        return super().tick(now_ms)


class ScansInTheTick(SimMember):
    """Each tick goes through all keys."""

    protocol_class = ScansInTheTickProtocol


def test_a_take_over_and_a_load_beside_the_engine_hold_up_no_tick() -> None:
    world = grow(SIZES, 1, SimMember, rounds=True, tick_ms_max=TICK_MS_MAX)
    assert world.checker.checked[Invariant.TICKS] > 100
    # A member that claims nothing does nothing in its ticks that would cost anything.
    assert 0 < max(member.longest_tick_ms for member in world.members.values()) <= TICK_MS_MAX


@pytest.mark.parametrize("member_class", [ClaimsInTheTick, ScansInTheTick])
def test_what_holds_up_the_engine_is_noticed(member_class: type[SimMember]) -> None:
    with pytest.raises(Broken) as told:
        grow(SIZES, 1, member_class, rounds=False, tick_ms_max=TICK_MS_MAX)
    assert told.value.invariant is Invariant.TICKS
    assert "a tick of 10.0.0." in str(told.value)


def test_one_transaction_of_many_records_costs_less_than_many() -> None:
    version = Version(1, 0, "10.0.0.1:8848~1")
    records = [Record(f"key{number}", version, version, {}, 0) for number in range(300)]
    together, alone = SimDisk(), SimDisk()
    together.meter, alone.meter = CostMeter(CostModel()), CostMeter(CostModel())
    together.write(records, 0)
    for record in records:
        alone.write([record], 0)
    assert together.meter.us == 4_000 + 300 * 16
    assert alone.meter.us == 300 * (4_000 + 16)
