"""R15: what a client withdraws here is not listed for a copy of a member that did not hear of it."""

from collections.abc import Callable

import pytest

from app.naming.clients.client_model import (
    WITHDRAWALS_SENT_MAX,
    WITHDRAWALS_SENT_MS,
    ClientSnapshot,
    ClientState,
    Withdrawal,
)
from app.naming.clients.client_table import EPOCH
from app.naming.clients.withdrawals import (
    OPEN_MS_MAX,
    SILENT_MS,
    WITHDRAWALS_MAX,
    OpenWithdrawals,
)
from app.naming.model.events import ServiceChanged
from distro.model.types import Version
from tests.unit.naming.clients.test_hand_over import GOING_ON, A, B, Bed, nobody, ports_of

APART, WELL = "r:1~1", GOING_ON
SINCE_MS = 100_000
"""When the member ``r`` answered last."""


@pytest.fixture
def bed() -> Bed:
    """A member with a copy of a client of ``r``, which publishes ports 80 and 81 and answers no more."""
    bed = Bed()
    contacts = {APART: SINCE_MS}
    bed.contact_ms = lambda writer: contacts.get(writer, bed.now_ms)
    bed.contacts = contacts  # type: ignore[attr-defined]
    bed.copy("old", APART, {A: (80, 81), B: (90,)})
    bed.now_ms += 1
    return bed


def pass_time(bed: Bed, ms: int) -> list[object]:
    bed.now_ms += ms
    bed.told()
    bed.expire(bed.now_ms, nobody)
    return list(bed.told())


def deregistered(bed: Bed) -> None:
    bed.clients.own.deregister("new", *A)


def replaced(bed: Bed) -> None:
    bed.native("new", 82)


def replaced_in_part(bed: Bed) -> None:
    bed.native("new", 80, 81, 82)
    bed.native("new", 81, 82)


def disconnected(bed: Bed) -> None:
    bed.clients.own.disconnect("new")


@pytest.mark.parametrize("withdraw", [deregistered, replaced, replaced_in_part, disconnected])
def test_what_a_later_client_withdraws_leaves_the_copy_of_a_silent_member(
    bed: Bed, withdraw: Callable[[Bed], None]
) -> None:
    bed.native("new", 80)
    bed.now_ms += SILENT_MS
    withdraw(bed)
    assert 80 not in bed.ports()
    assert ports_of(bed.client("old")) == [81], "the rest stays"
    assert ports_of(bed.client("old"), B) == [90]


@pytest.mark.parametrize("removed", [True, False])
def test_what_a_later_client_of_another_member_withdraws_too(bed: Bed, removed: bool) -> None:
    bed.copy("new", WELL, {A: (80,)})
    bed.now_ms += SILENT_MS
    if removed:
        snapshot = bed.clients.table.snapshot("new")
        assert snapshot is not None
        version = Version(EPOCH, 9, WELL)
        assert bed.clients.copies.take(snapshot.__class__(version, None, None), "new", snapshot.version)
    else:
        bed.copy("new", WELL, {})
    assert bed.ports() == [81]


def test_a_member_is_silent_only_after_a_while(bed: Bed) -> None:
    bed.native("new", 80)
    bed.clients.own.deregister("new", *A)
    assert bed.ports() == [80, 81]
    assert pass_time(bed, SILENT_MS - 2) == []
    assert ServiceChanged(*A) in pass_time(bed, 2)
    assert bed.ports() == [81]
    assert not len(bed.clients.withdrawals.open), "it is settled"


def test_a_member_that_answers_again_has_the_client(bed: Bed) -> None:
    bed.native("new", 80)
    bed.clients.own.deregister("new", *A)
    bed.contacts[APART] = bed.now_ms  # type: ignore[attr-defined]
    assert pass_time(bed, SILENT_MS + 1) == []
    assert bed.ports() == [80, 81]
    assert not len(bed.clients.withdrawals.open), "it is settled"


def test_a_client_that_was_there_before_the_silence_says_nothing_of_the_copy() -> None:
    bed = Bed()
    bed.native("new", 80)
    bed.now_ms += 10
    bed.contact_ms = lambda writer: bed.now_ms if writer != APART else 100_005
    bed.copy("old", APART, {A: (80,)})
    bed.now_ms += SILENT_MS
    bed.clients.own.deregister("new", *A)
    assert bed.ports() == [80]


def test_a_publication_that_is_later_by_its_members_clocks_stays(bed: Bed) -> None:
    bed.copy("new", WELL, {A: (80,)})
    published = bed.client("old").published
    later = published[A].__class__(published[A].instances, True, 2, published[A].seen)
    published[A] = later
    bed.now_ms += SILENT_MS
    bed.copy("new", WELL, {})
    assert bed.ports() == [80, 81]


def test_what_its_member_still_has_when_it_answers_again_is_back(bed: Bed) -> None:
    bed.native("new", 80)
    bed.now_ms += SILENT_MS
    bed.clients.own.deregister("new", *A)
    assert bed.clients.table.version("old") == Version(EPOCH - 1, 3, APART), "another state for its verify round"
    bed.copy("old", APART, {A: (80, 81), B: (90,)})
    assert bed.ports() == [80, 81]


def test_others_are_not_told_of_what_was_withdrawn(bed: Bed) -> None:
    bed.native("new", 80)
    bed.now_ms += SILENT_MS
    bed.clients.own.deregister("new", *A)
    other = Bed()
    other.take_from(bed, "old")
    assert other.ports() == [81]


def withdrawn_and_third(bed: Bed) -> Bed:
    """Have a client withdraw what it published; return another member, which has the silent one's copy alone."""
    bed.native("new", 80)
    bed.now_ms += SILENT_MS
    bed.clients.own.deregister("new", *A)
    third = Bed("t:1~1")
    third.contact_ms = lambda writer: SINCE_MS if writer == APART else third.now_ms
    third.copy("old", APART, {A: (80, 81), B: (90,)})
    third.now_ms = bed.now_ms
    return third


def test_who_never_heard_of_the_publication_is_told_of_the_withdrawal(bed: Bed) -> None:
    """Two changes of a client within a moment are sent as one."""
    third = withdrawn_and_third(bed)
    third.take_from(bed, "new")
    assert third.ports() == [81]
    assert ServiceChanged(*A) in third.told()


def test_a_withdrawal_that_is_told_twice_is_settled_once(bed: Bed) -> None:
    third = withdrawn_and_third(bed)
    third.take_from(bed, "new")
    third.copy("old", APART, {A: (80, 81)})
    bed.native("new", 82)
    third.take_from(bed, "new")
    assert third.ports() == [80, 81, 82], "the member has told of it since"


def test_of_withdrawals_others_are_told_for_a_while(bed: Bed) -> None:
    withdrawn_and_third(bed)
    bed.now_ms += WITHDRAWALS_SENT_MS
    assert bed.clients.table.snapshot("new").state.withdrawn.keys() == {A}  # type: ignore[union-attr]
    bed.now_ms += 1
    assert not bed.clients.table.snapshot("new").state.withdrawn  # type: ignore[union-attr]


def test_the_latest_withdrawals_of_a_client_are_told(bed: Bed) -> None:
    services = [("public", f"G@@{number}") for number in range(WITHDRAWALS_SENT_MAX + 1)]
    for key in services:
        bed.native("new", 80, key=key)
    for key in services:
        bed.clients.own.deregister("new", *key)
    assert [*bed.clients.table.snapshot("new").state.withdrawn] == services[1:]  # type: ignore[union-attr]


def test_of_what_others_told_no_more_is_kept(bed: Bed) -> None:
    """However many states bring it: each tells of a few services."""
    copy = bed.copy("new", WELL, {})
    for number in range(WITHDRAWALS_SENT_MAX + 1):
        state = ClientState("new", number, {}, withdrawn={("public", f"G@@{number}"): (frozenset({"x"}), 1)})
        snapshot = ClientSnapshot(Version(EPOCH, 4 + number, WELL), None, state)
        assert bed.clients.copies.take(snapshot, "new", bed.clients.table.version("new"))
    assert [name for _, name in copy.withdrawn] == [f"G@@{number}" for number in range(1, WITHDRAWALS_SENT_MAX + 1)]


def test_nothing_is_noted_while_all_members_are_there(bed: Bed) -> None:
    bed.contacts[APART] = bed.now_ms + 1  # type: ignore[attr-defined]
    bed.native("new", 80)
    bed.clients.own.deregister("new", *A)
    assert not bed.client("new").withdrawn


def test_several_that_wait_are_settled_together(bed: Bed) -> None:
    for number, port in enumerate((80, 81)):
        bed.native(f"new{number}", port)
        bed.clients.own.disconnect(f"new{number}")
    bed.native("third", 90, key=B)
    bed.clients.own.deregister("third", *B)
    events = pass_time(bed, SILENT_MS)
    assert {ServiceChanged(*A), ServiceChanged(*B)} <= set(events)
    assert (bed.ports(), bed.ports(B)) == ([], [])


def test_withdrawals_are_bounded() -> None:
    withdrawals = OpenWithdrawals()
    for number in range(WITHDRAWALS_MAX + 1):
        withdrawals.add((A, B)[number % 2], Withdrawal(frozenset(), number, 0, SINCE_MS))
    assert len(withdrawals) == WITHDRAWALS_MAX
    taken = withdrawals.take(SINCE_MS + OPEN_MS_MAX)
    assert [one.published_ms for one in taken[B]] == list(range(1, WITHDRAWALS_MAX + 1, 2))
    assert [one.published_ms for one in taken[A]] == list(range(2, WITHDRAWALS_MAX + 1, 2)), "the oldest is forgotten"
    assert len(withdrawals) == 0
    withdrawals.add(A, taken[A][0])
    assert withdrawals.take(SINCE_MS + OPEN_MS_MAX + 1) == {}
    assert len(withdrawals) == 0
