"""Which instances without beats are changed, when, and by which member."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.naming.health import beat_check as health
from app.naming.health.beat_check import HealthCheckGate
from app.naming.health.silence import CLOSED_MS_MAX, PAUSES_REMEMBERED, RETURN_MS
from app.naming.model.events import Event, HealthChanged, HealthChecked, InstancesChanged
from app.naming.model.keys import datum_key
from app.naming.model.model import (
    BEAT_TIMEOUT_MS,
    NEVER_MS,
    NOT_DUE_MS,
    PRESERVED_BEAT_TIMEOUT,
    Change,
    Instance,
    Publication,
    Service,
    StoredInstance,
    Tombstone,
)
from app.naming.registry.list_state import TOMBSTONE_SLACK_MS
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from distro.model.types import NO_VERSION, Datum, Version
from tests.support.registry_parts import check_of

ME = "10.0.0.1:8848~1"
NAME = "DEFAULT_GROUP@@orders"
KEY = datum_key("public", NAME)


class TimedCheck:
    """A BeatCheck called each second, as its timer does."""

    def __init__(self, **options: bool) -> None:
        self.registry = Registry.of(ME)
        self.events: list[Event] = []
        self.check = check_of(self.registry, self.events.append, **options)
        self.now_ms = 0
        self.may_check = True
        self.responsible = True
        self.returned_ms = NEVER_MS
        self.cut_off_since_ms: int | None = None
        self.forget_unneeded = False
        self.beats_known_ms: int | None = None
        self.refused_ms = NEVER_MS
        self.confirmed_ms: int | None = None
        """None: reports get through all the time."""

    def ask_gate(self) -> HealthCheckGate:
        confirmed_ms = self.now_ms if self.confirmed_ms is None else self.confirmed_ms
        return HealthCheckGate(
            self.may_check,
            confirmed_ms,
            lambda _name: self.responsible,
            self.cut_off_since_ms,
            self.returned_ms,
            self.forget_unneeded,
            self.beats_known_ms,
            self.refused_ms,
        )

    def run(self, until_ms: int) -> None:
        while self.now_ms + 1_000 <= until_ms:
            self.now_ms += 1_000
            while self.slice():
                pass

    def changes(self) -> list[str]:
        return [event.what for event in self.events if isinstance(event, HealthChanged)]

    def register(self, ip: str = "10.1.0.1", **metadata: str) -> None:
        self.registry.writes.register(RegisterInstance(NAME, ip, 80, metadata=metadata), self.now_ms)

    def deregister(self, ip: str) -> None:
        self.registry.writes.remove("public", NAME, Instance(ip, 80).key, self.now_ms)

    def service(self) -> Service:
        found = self.registry.table.find(KEY)
        assert found is not None
        return found

    def beat(self, *ips: str) -> None:
        for ip in ips:
            stored = self.service().stored[Instance(ip, 80).key]
            stored.beat_ms = stored.last_confirmed_ms = self.now_ms

    def slice(self) -> bool:
        """Whether there is more to do in this round."""
        return self.check.tick(self.now_ms, self.ask_gate) == self.now_ms

    def unhealthy(self) -> set[str]:
        return {one.instance.ip for one in self.service().stored.values() if not one.instance.healthy}


@pytest.fixture
def checker() -> TimedCheck:
    made = TimedCheck()
    made.check.tick(0, made.ask_gate)
    return made


def test_fifteen_seconds_unhealthy_thirty_gone(checker: TimedCheck) -> None:
    checker.register()
    checker.run(15_000)
    assert checker.changes() == []
    checker.run(16_000)
    assert checker.changes() == ["unhealthy"]
    checker.run(30_000)
    assert checker.changes() == ["unhealthy"]
    checker.run(31_000)
    assert checker.changes() == ["unhealthy", "removed"]


def test_preserved_times_hold_for_their_instance(checker: TimedCheck) -> None:
    checker.register(**{"preserved.heart.beat.timeout": "2000", "preserved.ip.delete.timeout": "5000"})
    checker.run(3_000)
    assert checker.changes() == ["unhealthy"]
    checker.run(6_000)
    assert checker.changes() == ["unhealthy", "removed"]


def test_an_instance_is_late_a_millisecond_after_its_time(checker: TimedCheck) -> None:
    checker.register(**{"preserved.heart.beat.timeout": "2999", "preserved.ip.delete.timeout": "4999"})
    checker.run(2_000)
    assert checker.changes() == []
    checker.run(3_000)
    assert checker.changes() == ["unhealthy"]
    checker.run(5_000)
    assert checker.changes() == ["unhealthy", "removed"]


@pytest.mark.parametrize("kept_from", ["cut", "return"])
def test_an_instance_that_may_not_be_judged_yet_is_not_judged_at_its_very_time(
    checker: TimedCheck, kept_from: str
) -> None:
    checker.register(**{"preserved.heart.beat.timeout": "2999"})
    if kept_from == "cut":
        checker.cut_off_since_ms = 1_000
    else:
        checker.returned_ms = 1_000
    checker.run(RETURN_MS)
    assert checker.changes() == []
    checker.run(RETURN_MS + 1_000)
    assert checker.changes() == ["unhealthy"] * (kept_from == "return")


def test_without_expiry_nobody_goes() -> None:
    checker = TimedCheck(expire=False)
    checker.register()
    checker.run(60_000)
    assert checker.changes() == ["unhealthy"]


@pytest.mark.parametrize("lacking", ["may_check", "responsible"])
def test_only_a_member_that_may_check_changes_instances(checker: TimedCheck, lacking: str) -> None:
    checker.register()
    setattr(checker, lacking, False)
    checker.run(60_000)
    assert checker.changes() == []


def copy_of_long_ago(checker: TimedCheck) -> None:
    version = Version(1, 0, "10.0.0.2:8848~1")
    stored = StoredInstance(Instance("10.1.0.1", 80, service_name=NAME), version, -600_000)
    checker.registry.replication.apply(
        Datum(KEY, version, InstanceList({stored.instance.key: stored}, {})), None, checker.now_ms
    )


def test_a_copy_is_not_checked_and_a_service_taken_over_gets_its_whole_time(checker: TimedCheck) -> None:
    """Nacos issue 1873: live instances were deleted by what the copies said of their beats."""
    copy_of_long_ago(checker)
    checker.run(10_000)
    assert checker.changes() == []
    checker.registry.replication.claim(KEY, checker.now_ms)
    checker.run(25_000)
    assert checker.changes() == []
    checker.run(26_000)
    assert checker.changes() == ["unhealthy"]
    checker.run(41_000)
    assert checker.changes() == ["unhealthy", "removed"]


def test_a_pause_is_given_to_everybody(checker: TimedCheck) -> None:
    """R9: nobody could be heard while this process stood still."""
    checker.register()
    checker.run(10_000)
    checker.now_ms += 100_000
    checker.run(checker.now_ms + 5_000)
    assert checker.changes() == []
    checker.run(checker.now_ms + 2_000)
    assert checker.changes() == ["unhealthy"], "16 s of silence, without the pause"


def test_after_a_refusal_each_instance_has_its_whole_time(checker: TimedCheck) -> None:
    """It could not beat while members refused: neither for its health nor for its removal does that time count."""
    checker.register()
    checker.run(14_000)
    for _ in range(100):
        checker.refused_ms = checker.now_ms + 1_000
        checker.run(checker.refused_ms)
    assert (checker.now_ms, checker.changes()) == (114_000, [])
    checker.run(129_000)
    assert checker.changes() == []
    checker.run(130_000)
    assert checker.changes() == ["unhealthy"]
    checker.refused_ms = 144_000
    checker.run(174_000)
    assert checker.changes() == ["unhealthy"]
    checker.run(175_000)
    assert checker.changes() == ["unhealthy", "removed"]


def test_a_short_delay_is_no_pause(checker: TimedCheck) -> None:
    checker.register()
    checker.run(14_000)
    checker.now_ms += 1_900
    checker.run(17_000)
    assert checker.changes() == ["unhealthy"]


def test_after_a_pause_a_report_must_get_through_first(checker: TimedCheck) -> None:
    checker.register()
    checker.run(10_000)
    checker.confirmed_ms = checker.now_ms
    checker.now_ms += 100_000
    checker.run(checker.now_ms + 60_000)
    assert checker.changes() == []
    checker.confirmed_ms = checker.now_ms
    checker.run(checker.now_ms + 2_000)
    assert checker.changes() == ["removed"]


def test_a_report_from_before_a_pause_confirms_nothing_however_short_the_pause_was(checker: TimedCheck) -> None:
    checker.register()
    checker.run(10_000)
    checker.confirmed_ms = checker.now_ms
    checker.now_ms += 3_000
    checker.run(checker.now_ms + 60_000)
    assert checker.changes() == []


def test_a_beat_at_the_end_of_a_pause_gets_nothing_of_it(checker: TimedCheck) -> None:
    checker.register()
    checker.run(10_000)
    checker.now_ms += 99_000
    checker.run(checker.now_ms + 1_000)
    checker.beat("10.1.0.1")
    checker.run(checker.now_ms + 16_000)
    assert checker.changes() == ["unhealthy"]


def test_of_many_pauses_all_but_the_oldest_count(checker: TimedCheck) -> None:
    checker.register(**{"preserved.heart.beat.timeout": "20000"})
    for _ in range(PAUSES_REMEMBERED + 1):
        checker.now_ms += 3_000
        checker.run(checker.now_ms + 1_000)
    assert checker.changes() == [], "20 s of silence without the pauses that count, 68 s with all of them"
    checker.run(checker.now_ms + 1_000)
    assert checker.changes() == ["unhealthy"]


def test_while_cut_off_only_what_beat_since_is_checked(checker: TimedCheck) -> None:
    """R12: what beat at other members before may go on doing so, unheard."""
    for ip in ("10.1.0.1", "10.1.0.2"):
        checker.register(ip)
    checker.run(10_000)
    checker.cut_off_since_ms = 10_000
    checker.beat("10.1.0.2")
    checker.run(30_000)
    assert checker.unhealthy() == {"10.1.0.2"}
    checker.run(60_000)
    assert list(checker.service().stored) == [Instance("10.1.0.1", 80).key]
    assert checker.unhealthy() == set()


def test_while_cut_off_what_waits_is_looked_at_every_five_seconds(checker: TimedCheck) -> None:
    checker.register()
    checker.run(10_000)
    checker.cut_off_since_ms = 10_000
    checker.run(20_000)
    stored = counted(checker)
    checker.run(50_000)
    assert 6 <= stored.looks <= 6 * 3


def test_the_time_of_a_cut_is_no_silence(checker: TimedCheck) -> None:
    checker.register()
    checker.run(10_000)
    checker.cut_off_since_ms = 10_000
    checker.run(59_000)
    checker.cut_off_since_ms = None
    checker.run(65_000)
    assert checker.changes() == [], "15 s of silence without the cut"
    checker.run(66_000)
    assert checker.changes() == ["unhealthy"]


def test_a_member_that_is_alone_by_now_forgets_what_its_peers_kept_it_from_forgetting(checker: TimedCheck) -> None:
    checker.register()
    checker.deregister("10.1.0.1")
    checker.run(300_000)
    assert checker.service().due_ms == NOT_DUE_MS
    checker.forget_unneeded = True
    checker.run(301_000)
    assert checker.registry.table.services() == []


def test_a_member_alone_forgets_a_list_that_came_spent_at_once(checker: TimedCheck) -> None:
    checker.forget_unneeded = True
    checker.registry.replication.apply(Datum(KEY, Version(1, 0, "10.0.0.2:8848~1"), InstanceList({}, {})), None, 0)
    checker.run(1_000)
    assert checker.registry.table.services() == []


def test_a_member_alone_forgets_a_list_that_came_with_removals_in_its_time(checker: TimedCheck) -> None:
    checker.forget_unneeded = True
    version = Version(1, 0, "10.0.0.2:8848~1")
    removals = {"10.1.0.1#80#DEFAULT": Tombstone(version, 0, 0)}
    checker.registry.replication.apply(Datum(KEY, version, InstanceList({}, removals)), None, 0)
    checker.run(60_000)
    assert len(checker.registry.table.services()) == 1
    checker.run(checker.service().due_ms + 1_000)
    assert checker.registry.table.services() == []


def test_the_next_check_is_when_the_time_of_the_longest_silent_instance_is_over(checker: TimedCheck) -> None:
    checker.register()
    checker.register("10.1.0.2")
    checker.run(10_000)
    checker.beat("10.1.0.1", "10.1.0.2")
    checker.run(12_000)
    checker.beat("10.1.0.1")
    checker.run(16_000)
    assert checker.service().due_ms == 10_000 + BEAT_TIMEOUT_MS + 1


@pytest.mark.parametrize("lacking", ["may_check", "owner"])
def test_what_may_not_be_checked_is_due_no_more(checker: TimedCheck, lacking: str) -> None:
    if lacking == "owner":
        copy_of_long_ago(checker)
    else:
        checker.register()
        checker.may_check = False
    for _ in range(2):
        checker.service().due_ms = 1
        checker.run(checker.now_ms + 1_000)
        assert checker.service().due_ms == NOT_DUE_MS


def test_who_is_heard_of_meanwhile_stays(checker: TimedCheck) -> None:
    checker.register()
    for _ in range(10):
        checker.run(checker.now_ms + 5_000)
        for service in checker.registry.table.services():
            for stored in service.stored.values():
                stored.beat_ms = stored.last_confirmed_ms = checker.now_ms
    assert checker.changes() == []


# --- where there is nothing to do, nothing is done --------------------------------------------------


class Counted(dict[str, StoredInstance]):
    """A service's instances that counts how often one goes through them."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def counted(checker: TimedCheck) -> Counted:
    stored = checker.service().stored = Counted(checker.service().stored)
    return stored


def beat_for(checker: TimedCheck, seconds: int) -> None:
    for _ in range(seconds // 5):
        checker.run(checker.now_ms + 5_000)
        checker.beat("10.1.0.1", "10.1.0.2")


def test_who_beats_is_looked_at_every_ten_seconds(checker: TimedCheck) -> None:
    checker.register()
    checker.register("10.1.0.2")
    beat_for(checker, 20)
    stored = counted(checker)
    beat_for(checker, 100)
    assert checker.changes() == []
    assert 5 <= stored.looks <= 12


def test_who_is_silent_without_consequences_is_not_looked_at() -> None:
    checker = TimedCheck(expire=False)
    checker.check.tick(0, checker.ask_gate)
    checker.register()
    checker.run(40_000)
    stored = counted(checker)
    checker.run(600_000)
    assert (checker.changes(), stored.looks) == (["unhealthy"], 0)
    checker.registry.writes.set_health(checker.service(), Instance("10.1.0.1", 80).key, True, checker.now_ms)
    checker.run(checker.now_ms + 1_000)
    assert checker.changes() == ["unhealthy", "unhealthy"], "an operator's word holds until the next look"


def test_after_a_pause_nobody_is_looked_at_each_second(checker: TimedCheck) -> None:
    checker.register()
    checker.run(10_000)
    checker.now_ms += 100_000
    checker.run(checker.now_ms + 1_000)
    stored = counted(checker)
    checker.run(checker.now_ms + 4_000)
    assert stored.looks <= 2
    assert checker.changes() == []


def test_what_a_pause_gives_is_not_looked_at_each_second(checker: TimedCheck) -> None:
    checker.run(5_000)
    checker.register()
    checker.run(10_000)
    checker.now_ms += 3_000
    checker.run(21_000)
    stored = counted(checker)
    checker.run(23_000)
    assert stored.looks == 0, "its 15 s and the 3 s of the pause are over later"
    checker.run(24_000)
    assert checker.changes() == ["unhealthy"]


def test_without_expiry_the_time_until_a_removal_is_of_no_account() -> None:
    checker = TimedCheck(expire=False)
    checker.check.tick(0, checker.ask_gate)
    checker.register(**{"preserved.heart.beat.timeout": "9000", "preserved.ip.delete.timeout": "2000"})
    checker.run(4_000)
    stored = counted(checker)
    checker.run(9_000)
    assert stored.looks == 0
    checker.run(10_000)
    assert checker.changes() == ["unhealthy"]


def test_who_beats_is_looked_at_once_in_a_check_of_all(checker: TimedCheck) -> None:
    checker.register()
    checker.run(10_000)
    stored = counted(checker)
    checker.service().due_ms = 0
    checker.run(11_000)
    assert stored.looks == 1


def test_a_service_taken_over_is_not_looked_at_each_second(checker: TimedCheck) -> None:
    copy_of_long_ago(checker)
    checker.registry.replication.claim(KEY, checker.now_ms)
    checker.run(checker.now_ms + 1_000)
    stored = counted(checker)
    checker.run(checker.now_ms + 13_000)
    assert stored.looks <= 3, "once at the most after the first look, which was early to spread them"


def test_services_that_are_taken_over_at_once_do_not_stay_due_at_once(checker: TimedCheck) -> None:
    names = [f"g@@s{number}" for number in range(4_000)]
    for name in names:
        checker.registry.writes.register(RegisterInstance(name, "10.1.0.1", 80), 0)
    checker.run(1_000)
    services = [found for name in names if (found := checker.registry.table.get("public", name))]
    assert len({service.due_ms // 1_000 for service in services}) >= 14, "any second of the first fifteen"
    assert all(1_000 < service.due_ms <= BEAT_TIMEOUT_MS + 1 for service in services)


def test_only_the_first_check_of_a_service_is_spread(checker: TimedCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "UNITS_PER_TURN", 3)
    checker.register()
    checker.registry.writes.remove("public", NAME, Instance("10.1.0.2", 80).key, 0)
    checker.run(1_000)
    assert 1_000 < checker.service().due_ms < BEAT_TIMEOUT_MS
    checker.service().due_ms = 1
    checker.run(2_000)
    assert checker.service().due_ms == BEAT_TIMEOUT_MS + 1


def test_services_that_may_be_checked_again_all_at_once_do_not_stay_due_at_once(checker: TimedCheck) -> None:
    names = [f"g@@s{number}" for number in range(4_000)]
    for name in names:
        checker.registry.writes.register(RegisterInstance(name, "10.1.0.1", 80), 0)
    checker.may_check = False
    checker.run(1_000)
    checker.may_check = True
    checker.run(2_000)
    services = [found for name in names if (found := checker.registry.table.get("public", name))]
    assert len({service.due_ms // 1_000 for service in services}) >= 13, "any second of the next fourteen"


def test_a_pause_that_is_forgotten_counts_again(checker: TimedCheck) -> None:
    checker.register(**{"preserved.heart.beat.timeout": "100000", "preserved.ip.delete.timeout": "900000"})
    for length_ms in (200_000, *[2_100] * (PAUSES_REMEMBERED - 1)):
        checker.now_ms += length_ms
        checker.run(checker.now_ms + 1_000)
    assert checker.changes() == []
    checker.now_ms += 2_100
    checker.run(checker.now_ms + 1_000)
    assert checker.changes() == ["unhealthy"], "the long one is the seventeenth from the end"


def test_the_health_that_real_nacos_sent_is_checked_again(checker: TimedCheck) -> None:
    checker.register()
    checker.run(20_000)
    assert checker.registry.writes.take_health(checker.service(), {"10.1.0.1:80": True})
    checker.run(21_000)
    assert checker.changes() == ["unhealthy", "unhealthy"]


def test_a_short_time_out_that_came_with_one_change_of_a_copy_holds_after_the_claim(checker: TimedCheck) -> None:
    copy_of_long_ago(checker)
    version = Version(1, 1, "10.0.0.2:8848~1")
    short = Instance("10.1.0.2", 80, metadata={"preserved.heart.beat.timeout": "2000"})
    checker.registry.replication.take_change(
        Change(KEY, short.key, version, StoredInstance(short, version, 0), None), 0
    )
    checker.registry.replication.claim(KEY, 0)
    checker.run(4_000)
    assert checker.unhealthy() == {"10.1.0.2"}
    stored = counted(checker)
    checker.run(14_000)
    assert stored.looks <= 4, (
        "a look is two passes while somebody's time is short; the other's time began with the claim"
    )


class Moving(dict[str, StoredInstance]):
    """Its entries move while one goes through it for the first time, and one is passed over so."""

    def __init__(self, content: dict[str, StoredInstance], hidden: str, move: Callable[[], None]) -> None:
        super().__init__(content)
        self.hidden: str | None = hidden
        self.move = move

    def values(self) -> Any:
        hidden, self.hidden = self.hidden, None
        if hidden is None:
            return super().values()
        self.move()
        return [stored for key, stored in self.items() if key != hidden]


def test_who_is_passed_over_in_a_glance_is_found_all_the_same(checker: TimedCheck) -> None:
    checker.register()
    checker.register("10.1.0.2")
    checker.run(14_000)
    checker.beat("10.1.0.2")
    service = checker.service()
    assert service.due_ms
    service.due_ms = 1
    service.stored = Moving(service.stored, Instance("10.1.0.1", 80).key, lambda: checker.register("10.1.0.3"))
    checker.run(16_000)
    assert checker.unhealthy() == {"10.1.0.1"}


# --- slices --------------------------------------------------------------------------------------------

TEN = [f"10.1.1.{number}" for number in range(10)]


@pytest.fixture
def sliced(checker: TimedCheck, monkeypatch: pytest.MonkeyPatch) -> TimedCheck:
    """Ten instances that fell silent, and a checker that takes three at a time."""
    monkeypatch.setattr(health, "UNITS_PER_SLICE", 3)
    for ip in TEN:
        checker.register(ip)
    checker.now_ms = 500
    while checker.slice():
        pass
    checker.now_ms = 1_500
    checker.service().due_ms = 0
    while checker.slice():
        pass
    checker.check.silence.expected_ms = checker.now_ms = 16_000
    checker.service().due_ms = 0
    return checker


def finish(checker: TimedCheck) -> None:
    while checker.slice():
        pass


def test_a_round_goes_on_in_slices(sliced: TimedCheck) -> None:
    slices = 1
    while sliced.slice():
        slices += 1
    assert slices > 10
    assert sliced.unhealthy() == set(TEN)


@pytest.mark.parametrize("after", range(6))
def test_who_comes_and_goes_between_slices_hides_nobody(sliced: TimedCheck, after: int) -> None:
    for _ in range(after):
        assert sliced.slice()
    for ip in TEN[:3]:
        sliced.deregister(ip)
    for number in range(30):
        sliced.register(f"10.1.2.{number}", **{"preserved.heart.beat.timeout": "2000"})
    finish(sliced)
    assert sliced.unhealthy() == set(TEN[3:])
    while sliced.now_ms < 19_000:
        sliced.now_ms += 1_000
        finish(sliced)
    assert len(sliced.unhealthy()) == 37, "who came meanwhile is noticed in time, too"


@pytest.mark.parametrize("after", range(10))
def test_who_takes_the_place_of_another_between_slices_hides_nobody(sliced: TimedCheck, after: int) -> None:
    """The mapping is as large as before, but has moved its entries."""
    for _ in range(after):
        assert sliced.slice()
    sliced.deregister(TEN[0])
    sliced.register("10.1.2.1")
    finish(sliced)
    assert sliced.unhealthy() == set(TEN[1:])


@pytest.mark.parametrize("after", [1, 5, 8, 9])
def test_who_is_heard_of_between_look_and_deed_stays(sliced: TimedCheck, after: int) -> None:
    for _ in range(after):
        assert sliced.slice()
    waiting = set(TEN) - sliced.unhealthy()
    sliced.beat(*waiting)
    finish(sliced)
    assert not waiting & sliced.unhealthy()


def test_no_instance_is_changed_when_the_process_paused_in_a_round(sliced: TimedCheck) -> None:
    while not sliced.unhealthy():
        assert sliced.slice()
    changed = sliced.unhealthy()
    sliced.confirmed_ms = sliced.now_ms
    sliced.now_ms += 100_000
    finish(sliced)
    sliced.now_ms += 1_000
    finish(sliced)
    assert sliced.unhealthy() == changed, "no report got through since"
    sliced.confirmed_ms = None
    sliced.now_ms += 1_000
    finish(sliced)
    assert sliced.unhealthy() == set(TEN)


def test_a_service_that_is_made_anew_during_a_round_is_not_dropped_in_place_of_its_former_one(
    checker: TimedCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "UNITS_PER_SLICE", 20)
    table, publication = checker.registry.table, Publication({}, True, 0, NO_VERSION)
    for name in ("g@@first", "g@@second"):
        table.publish("public", name, "client", publication, 0)
        table.withdraw("public", name, "client", publication, 0)
    checker.check.silence.expected_ms = checker.now_ms = TOMBSTONE_SLACK_MS + 1
    assert checker.slice()
    assert table.names("public") == ["g@@second"], "the time of the first one is over"
    table.set_meta("public", "g@@second", None, checker.now_ms)
    checker.registry.writes.register(RegisterInstance("g@@second", "10.1.0.1", 80), checker.now_ms)
    finish(checker)
    again = table.get("public", "g@@second")
    assert again is not None
    assert len(again.stored) == 1


def test_a_round_that_fails_is_begun_again(sliced: TimedCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise ValueError("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(sliced.registry.writes, "set_health", fail)
        with pytest.raises(ValueError, match="out of order"):
            finish(sliced)
    finish(sliced)
    assert sliced.unhealthy() == set(TEN)


@pytest.mark.parametrize("after_ms", [1_500, 100_000])
def test_after_a_slice_that_failed_a_pause_is_noticed_as_ever(
    checker: TimedCheck, monkeypatch: pytest.MonkeyPatch, after_ms: int
) -> None:
    def fail(*_: object) -> bool:
        raise ValueError("out of order")

    checker.register("10.1.0.1")
    checker.register("10.1.0.2")
    checker.run(15_000)
    checker.beat("10.1.0.2")
    with monkeypatch.context() as patch:
        patch.setattr(checker.registry.writes, "set_health", fail)
        with pytest.raises(ValueError, match="out of order"):
            checker.run(16_000)
    checker.now_ms += after_ms - 1_000
    checker.run(checker.now_ms + 1_000)
    assert checker.unhealthy() == {"10.1.0.1"}


def ticks(checker: TimedCheck) -> int:
    """How many slices a round takes."""
    count = 1
    while checker.slice():
        count += 1
    return count


@pytest.mark.parametrize(("instances", "slices"), [(4, 1), (5, 2), (10, 3), (11, 4)])
def test_a_slice_is_full_when_its_units_are_used_up(
    checker: TimedCheck, monkeypatch: pytest.MonkeyPatch, instances: int, slices: int
) -> None:
    monkeypatch.setattr(health, "UNITS_PER_SLICE", 5)
    monkeypatch.setattr(health, "UNITS_PER_SERVICE", 0)
    for number in range(instances):
        checker.register(f"10.1.0.{number}")
    checker.now_ms = 1_000
    assert ticks(checker) == slices


@pytest.mark.parametrize(("units", "slices"), [(20, 7), (21, 4), (40, 4), (41, 3), (1_000, 1)])
def test_a_service_takes_its_units_of_a_slice(
    checker: TimedCheck, monkeypatch: pytest.MonkeyPatch, units: int, slices: int
) -> None:
    monkeypatch.setattr(health, "UNITS_PER_SLICE", units)
    for number in range(6):
        checker.registry.writes.remove("public", f"g@@s{number}", Instance("10.1.0.1", 80).key, 0)
        checker.registry.table.services()[-1].due_ms = 0
    checker.now_ms = 1_000
    assert ticks(checker) == slices


@pytest.mark.parametrize(("units", "slices"), [(21, 7), (22, 4), (42, 4), (43, 3)])
def test_a_service_whose_instances_beat_takes_its_units_too(
    checker: TimedCheck, monkeypatch: pytest.MonkeyPatch, units: int, slices: int
) -> None:
    monkeypatch.setattr(health, "UNITS_PER_SLICE", units)
    for number in range(6):
        checker.registry.writes.register(RegisterInstance(f"g@@s{number}", "10.1.0.1", 80), 0)
        checker.registry.table.services()[-1].due_ms = 1
    checker.now_ms = 1_000
    assert ticks(checker) == slices


class Passed(dict[str, StoredInstance]):
    """A service's instances that counts how many of them were passed."""

    count = 0

    def values(self) -> Any:
        return PassedValues(self)


class PassedValues:
    def __init__(self, mapping: Passed) -> None:
        self.mapping = mapping

    def __len__(self) -> int:
        return len(self.mapping)

    def __iter__(self) -> Iterator[StoredInstance]:
        for stored in dict.values(self.mapping):
            self.mapping.count += 1
            yield stored


def test_no_more_than_its_units_are_looked_at_in_a_slice(sliced: TimedCheck) -> None:
    stored = sliced.service().stored = Passed(sliced.service().stored)
    looked_at = 0
    while sliced.slice():
        assert stored.count - looked_at <= 3
        looked_at = stored.count
    assert looked_at >= len(TEN)


def test_a_service_that_is_emptied_between_slices_has_nobody_to_check(sliced: TimedCheck) -> None:
    assert sliced.slice()
    for ip in TEN:
        sliced.deregister(ip)
    finish(sliced)
    assert sliced.changes() == []


def test_each_slice_with_changes_is_told_once(sliced: TimedCheck) -> None:
    finish(sliced)
    told = [one for one in sliced.events if isinstance(one, InstancesChanged)]
    assert len(told) == len(sliced.changes()) == len(TEN), "a change fills a slice here"


def test_changes_are_numbered_by_service_and_round(checker: TimedCheck) -> None:
    for number in range(12):
        checker.register(f"10.1.0.{number}")
    checker.run(checker.now_ms + 20_000)
    told = [one for one in checker.events if isinstance(one, HealthChanged | HealthChecked)]
    assert [one.number for one in told if isinstance(one, HealthChanged)] == list(range(1, 13))
    assert told[-1] == HealthChecked(KEY, 12)


def test_after_the_return_of_a_member_the_beats_that_it_hears_have_time_to_come(checker: TimedCheck) -> None:
    checker.register("10.1.0.1")
    checker.register("10.1.0.2")
    checker.run(14_000)
    checker.returned_ms = 14_000
    checker.run(14_000 + RETURN_MS - 1_000)
    assert checker.changes() == []
    checker.beat("10.1.0.1")
    checker.run(14_000 + RETURN_MS + 1_000)
    assert checker.unhealthy() == {"10.1.0.2"}


@pytest.mark.parametrize(
    ("known_ms", "unhealthy_ms"),
    [(14_000, 16_000), (11_000, 16_000), (10_000, 17_000), (5_000, 22_000), (1, 26_000), (-99_000, 26_000)],
)
def test_beats_that_another_member_could_not_send_are_waited_for(
    checker: TimedCheck, known_ms: int, unhealthy_ms: int
) -> None:
    """R12. They are known after two reports as a rule; for over 10 s more nobody waits."""
    checker.register()
    checker.run(14_000)
    checker.beats_known_ms = known_ms
    while not checker.changes():
        # What is known goes on with the time, as far behind it as before.
        checker.beats_known_ms += 1_000 if checker.now_ms > 14_000 else 0
        checker.run(checker.now_ms + 1_000)
    assert checker.now_ms == unhealthy_ms


@pytest.mark.parametrize("returned_ms", [1_000, 2_000])
def test_who_beat_since_the_return_is_checked_as_ever(checker: TimedCheck, returned_ms: int) -> None:
    checker.register(**{PRESERVED_BEAT_TIMEOUT: "2000"})
    checker.returned_ms = returned_ms
    checker.run(2_000)
    checker.beat("10.1.0.1")
    checker.run(RETURN_MS)
    assert checker.unhealthy() == {"10.1.0.1"}


# --- the silence that a dump gives ----------------------------------------------------------------


def judged_ms(checker: TimedCheck, ip: str = "10.1.0.1") -> int:
    """The silence of an instance as a dump of this member has it."""
    service = checker.service()
    stored = service.stored[Instance(ip, 80).key]
    return checker.check.silence.judged_ms(service, service.version, ME, stored.beat_ms, checker.now_ms)


class TestJudgedSilence:
    def test_it_is_the_age_of_the_last_beat(self, checker: TimedCheck) -> None:
        checker.register()
        checker.run(14_000)
        assert judged_ms(checker) == 14_000
        checker.beat("10.1.0.1")
        checker.run(20_000)
        assert judged_ms(checker) == 6_000

    def test_it_counts_from_the_claim(self, checker: TimedCheck) -> None:
        checker.register()
        checker.run(14_000)
        checker.service().claimed_ms = 12_000
        assert judged_ms(checker) == 2_000

    def test_a_list_that_another_member_wrote_counts_from_the_change_of_the_owner(self, checker: TimedCheck) -> None:
        checker.register()
        checker.service().version = Version(1, 1, "10.0.0.2:8848~1")
        checker.run(22_000)
        checker.may_check = False
        checker.run(25_000)
        checker.may_check = True
        checker.run(38_000)
        assert judged_ms(checker) == 12_000

    def test_pauses_do_not_count_even_one_that_the_check_has_not_noticed(self, checker: TimedCheck) -> None:
        checker.register()
        checker.run(10_000)
        checker.now_ms = 30_000
        assert judged_ms(checker) == 11_000, "the next check was due after a second"
        checker.slice()
        assert judged_ms(checker) == 11_000

    @pytest.mark.parametrize("kept", ["cut", "return", "closed", "refused"])
    def test_no_time_counts_in_which_the_instance_is_not_judged(self, checker: TimedCheck, kept: str) -> None:
        checker.register()
        checker.run(12_000)
        match kept:
            case "cut":
                checker.cut_off_since_ms = 12_000
            case "return":
                checker.returned_ms = 12_000
            case "closed":
                checker.may_check = False
            case _:
                checker.refused_ms = 12_000
        checker.run(12_000 + RETURN_MS - 1_000)
        assert judged_ms(checker) == (
            RETURN_MS - 1_000 if kept == "refused" else 13_000 if kept == "closed" else 12_000
        )

    def test_a_check_that_never_runs_is_told(self, checker: TimedCheck) -> None:
        checker.register()
        checker.may_check = False
        checker.run(CLOSED_MS_MAX)
        assert judged_ms(checker) <= 1_000
        checker.run(CLOSED_MS_MAX + 2_000)
        assert judged_ms(checker) == CLOSED_MS_MAX + 2_000

    def test_a_thread_that_died_is_told(self, checker: TimedCheck) -> None:
        checker.register()
        checker.run(1_000)
        checker.now_ms = CLOSED_MS_MAX + 5_000
        assert judged_ms(checker) == CLOSED_MS_MAX + 5_000

    @pytest.mark.parametrize("moved_ms", range(1_000, 40_000, 3_000))
    def test_no_instance_that_the_check_leaves_is_silent_for_longer_than_its_time(
        self, checker: TimedCheck, moved_ms: int
    ) -> None:
        """In any second of a change of the owner, by the slack of the audit."""
        checker.register()
        checker.run(moved_ms)
        checker.may_check = False
        for second in range(60):
            if second == 7:
                checker.may_check = True
            if second == 9 and checker.service().stored:
                checker.service().claimed_ms = checker.now_ms
            checker.run(checker.now_ms + 1_000)
            if checker.service().stored:
                assert judged_ms(checker) <= 30_000 + 1_000
