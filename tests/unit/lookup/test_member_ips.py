"""Members that are listed by name: their addresses come, change and stay without anybody waiting for them."""

import threading
import time
from collections.abc import Iterator

import pytest

from app.members import member_ips
from app.members.member_ips import PARTING_S, MemberIps, look_up
from tests.support.processes import eventually

POD, OTHER = "pod-0.registry:8848", "pod-1.registry:8848"


class Names:
    """A name service that the test writes."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.asked = 0
        self.answers = threading.Event()
        self.answers.set()

    def resolve(self, host: str) -> frozenset[str]:
        self.asked += 1
        assert self.answers.wait(60)
        if host not in self.known:
            raise OSError("no such name")
        return frozenset({self.known[host]})


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    monkeypatch.setattr(member_ips, "RETRY_S", 0.01)
    monkeypatch.setattr(member_ips, "RESOLVE_INTERVAL_S", 600.0)
    return Names()


@pytest.fixture
def ips(names: Names) -> Iterator[MemberIps]:
    made = MemberIps(names.resolve)
    yield made
    made.close()


def test_addresses_count_at_once_and_need_no_look_up(ips: MemberIps, names: Names) -> None:
    ips.replace(("10.0.0.1:8848", "[2001:DB8::1]:8848"))
    assert ips.is_of("10.0.0.1:8848", "10.0.0.1")
    assert ips.is_of_any("2001:db8::1")
    assert not ips.is_of_any("10.0.0.2")
    assert not ips.is_of("10.0.0.2:8848", "10.0.0.1")
    assert names.asked == 0


def test_a_pod_that_comes_late_is_known_then(ips: MemberIps, names: Names) -> None:
    ips.replace((POD, "10.0.0.9:8848"))
    eventually(lambda: names.asked > 1)
    assert not ips.is_of(POD, "10.0.0.1")
    names.known["pod-0.registry"] = "10.0.0.1"
    eventually(lambda: ips.is_of(POD, "10.0.0.1"))


def test_a_pod_with_a_new_address_is_known_when_it_calls(ips: MemberIps, names: Names) -> None:
    names.known["pod-0.registry"] = "10.0.0.1"
    ips.replace((POD,))
    eventually(lambda: ips.of(POD) == {"10.0.0.1"})
    names.known["pod-0.registry"] = "10.0.0.2"
    eventually(lambda: ips.is_of_any("10.0.0.2"))
    assert ips.of(POD) == {"10.0.0.2"}


def test_a_name_that_is_lost_keeps_its_addresses(ips: MemberIps, names: Names) -> None:
    names.known["pod-0.registry"] = "10.0.0.1"
    ips.replace((POD,))
    eventually(lambda: ips.of(POD))
    names.known.clear()
    asked = names.asked
    eventually(lambda: not ips.is_of_any("10.0.0.7") and names.asked > asked + 1)
    assert ips.is_of(POD, "10.0.0.1")


def test_nobody_waits_for_a_name_service_that_hangs(ips: MemberIps, names: Names) -> None:
    names.answers.clear()
    begun_s = time.monotonic()
    ips.replace((POD,))
    eventually(lambda: names.asked == 1)
    ips.replace((POD, OTHER, "10.0.0.1:8848"))
    assert ips.is_of_any("10.0.0.1")
    assert not ips.is_of_any("10.0.0.2")
    assert time.monotonic() - begun_s < 30, "the look-up waits for 60 s"
    names.answers.set()
    names.known["pod-1.registry"] = "10.0.0.2"
    eventually(lambda: ips.is_of(OTHER, "10.0.0.2"))


def test_a_member_that_left_is_forgotten(ips: MemberIps, names: Names) -> None:
    names.known["pod-0.registry"] = "10.0.0.1"
    ips.replace((POD,))
    eventually(lambda: ips.of(POD))
    ips.replace(("10.0.0.9:8848",))
    assert not ips.is_of_any("10.0.0.1")
    assert not ips.of(POD)


def test_the_system_resolves() -> None:
    assert look_up("localhost") & {"127.0.0.1", "::1"}
    with pytest.raises((OSError, UnicodeError)):
        look_up("a..b")


def test_a_member_that_left_the_list_is_parting_for_a_while() -> None:
    """It learns of that with its next report; what it acknowledges till then must not be lost."""
    now_s = 100.0
    ips = MemberIps(now_s=lambda: now_s)
    ips.replace(("10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"))
    assert not ips.is_of_parting("10.0.0.1")
    ips.replace(("10.0.0.2:8848", "10.0.0.3:8848"))
    now_s += 5.0
    ips.replace(("10.0.0.2:8848",))
    assert not ips.is_of_any("10.0.0.1")
    assert ips.is_of_parting("10.0.0.1")
    assert ips.is_of_parting("10.0.0.1", "10.0.0.1:8848")
    assert not ips.is_of_parting("10.0.0.3", "10.0.0.1:8848")
    assert not ips.is_of_parting("10.0.0.2")
    now_s += PARTING_S - 5.0
    assert not ips.is_of_parting("10.0.0.1")
    assert ips.is_of_parting("10.0.0.3")
    ips.replace(("10.0.0.2:8848", "10.0.0.3:8848"))
    assert not ips.is_of_parting("10.0.0.3"), "it is back in the list"
    ips.close()


def test_a_name_that_is_lost_is_told_and_counted_once_and_asked_for_until_it_is_back(
    ips: MemberIps, names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    names.known["pod-0.registry"] = "10.0.0.1"
    ips.replace((POD,))
    eventually(lambda: ips.of(POD))
    names.known.clear()
    assert not ips.is_of_any("10.0.0.7")
    eventually(lambda: ips.stats.name_lookups_failed > 2)
    assert ips.stats.names_unresolved == 1
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert f"the name of member {POD} is not resolved: no such name; its addresses stay 10.0.0.1" in told[0]
    names.known["pod-0.registry"] = "10.0.0.2"
    eventually(lambda: ips.of(POD) == {"10.0.0.2"})
    eventually(lambda: ips.stats.names_unresolved == 0)
    assert caplog.records[-1].getMessage() == f"the name of member {POD} is resolved again: 10.0.0.2"
    assert ips.stats.name_addresses_changed == 1


def test_a_name_that_leaves_the_list_is_not_missed(ips: MemberIps, names: Names) -> None:
    ips.replace((POD, OTHER))
    eventually(lambda: ips.stats.names_unresolved == 2)
    names.known["pod-1.registry"] = "10.0.0.2"
    ips.replace((OTHER,))
    eventually(lambda: ips.stats.names_unresolved == 0)
