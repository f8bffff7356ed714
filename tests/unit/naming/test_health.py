"""Who is judged, when, and by whom: beats that ran out."""

import pytest

from app.naming.events import Event, HealthChanged
from app.naming.health import BeatCheck, Judgement
from app.naming.keys import datum_key
from app.naming.merge import InstanceList
from app.naming.model import Held, Instance
from app.naming.operations import RegisterInstance
from app.naming.registry import Registry
from distro.types import Datum, Version

ME = "10.0.0.1:8848~1"
NAME = "DEFAULT_GROUP@@orders"
KEY = datum_key("public", NAME)


class Judge:
    """A BeatCheck called each second, as its timer does."""

    def __init__(self, **options: bool) -> None:
        self.registry = Registry(ME)
        self.events: list[Event] = []
        self.check = BeatCheck(self.registry, self.events.append, **options)
        self.now_ms = 0
        self.may_judge = True
        self.responsible = True
        self.confirmed_ms: int | None = None
        """None: reports get through all the time."""

    def judgement(self) -> Judgement:
        confirmed_ms = self.now_ms if self.confirmed_ms is None else self.confirmed_ms
        return Judgement(self.may_judge, confirmed_ms, lambda _name: self.responsible)

    def run(self, until_ms: int) -> None:
        while self.now_ms + 1_000 <= until_ms:
            self.now_ms += 1_000
            self.check.tick(self.now_ms, self.judgement)

    def said(self) -> list[str]:
        return [event.what for event in self.events if isinstance(event, HealthChanged)]

    def register(self, **metadata: str) -> None:
        self.registry.register(RegisterInstance(NAME, "10.1.0.1", 80, metadata=metadata), self.now_ms)


@pytest.fixture
def judge() -> Judge:
    made = Judge()
    made.check.tick(0, made.judgement)
    return made


def test_fifteen_seconds_unhealthy_thirty_gone(judge: Judge) -> None:
    judge.register()
    judge.run(15_000)
    assert judge.said() == []
    judge.run(16_000)
    assert judge.said() == ["unhealthy"]
    judge.run(30_000)
    assert judge.said() == ["unhealthy"]
    judge.run(31_000)
    assert judge.said() == ["unhealthy", "removed"]


def test_preserved_times_hold_for_their_instance(judge: Judge) -> None:
    judge.register(**{"preserved.heart.beat.timeout": "2000", "preserved.ip.delete.timeout": "5000"})
    judge.run(3_000)
    assert judge.said() == ["unhealthy"]
    judge.run(6_000)
    assert judge.said() == ["unhealthy", "removed"]


def test_without_expiry_nobody_goes() -> None:
    judge = Judge(expire=False)
    judge.register()
    judge.run(60_000)
    assert judge.said() == ["unhealthy"]


@pytest.mark.parametrize("lacking", ["may_judge", "responsible"])
def test_only_who_may_judges(judge: Judge, lacking: str) -> None:
    judge.register()
    setattr(judge, lacking, False)
    judge.run(60_000)
    assert judge.said() == []


def copy_of_long_ago(judge: Judge) -> None:
    version = Version(1, 0, "10.0.0.2:8848~1")
    held = Held(Instance("10.1.0.1", 80, service_name=NAME), version, -600_000)
    judge.registry.apply(Datum(KEY, version, InstanceList({held.instance.key: held}, {})), None, judge.now_ms)


def test_a_copy_is_not_judged_and_a_service_taken_over_gets_its_whole_time(judge: Judge) -> None:
    """Nacos issue 1873: live instances were deleted by what the copies said of their beats."""
    copy_of_long_ago(judge)
    judge.run(10_000)
    assert judge.said() == []
    judge.registry.claim(KEY, judge.now_ms)
    judge.run(25_000)
    assert judge.said() == []
    judge.run(26_000)
    assert judge.said() == ["unhealthy"]
    judge.run(41_000)
    assert judge.said() == ["unhealthy", "removed"]


def test_a_pause_is_given_to_everybody(judge: Judge) -> None:
    """R9: nobody could be heard while this process stood still."""
    judge.register()
    judge.run(10_000)
    judge.now_ms += 100_000
    judge.run(judge.now_ms + 5_000)
    assert judge.said() == []
    judge.run(judge.now_ms + 2_000)
    assert judge.said() == ["unhealthy"], "16 s of silence, without the pause"


def test_a_short_delay_is_no_pause(judge: Judge) -> None:
    judge.register()
    judge.run(14_000)
    judge.now_ms += 1_900
    judge.run(17_000)
    assert judge.said() == ["unhealthy"]


def test_after_a_pause_a_report_must_get_through_first(judge: Judge) -> None:
    judge.register()
    judge.run(10_000)
    judge.confirmed_ms = judge.now_ms
    judge.now_ms += 100_000
    judge.run(judge.now_ms + 60_000)
    assert judge.said() == []
    judge.confirmed_ms = judge.now_ms
    judge.run(judge.now_ms + 2_000)
    assert judge.said() == ["removed"]


def test_who_is_heard_of_meanwhile_stays(judge: Judge) -> None:
    judge.register()
    for _ in range(10):
        judge.run(judge.now_ms + 5_000)
        for service in judge.registry.services():
            for held in service.held.values():
                held.beat_ms = held.heard_ms = judge.now_ms
    assert judge.said() == []
