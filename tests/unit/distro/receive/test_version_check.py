"""The bounds of versions from outside (R10), exactly."""

import pytest

from distro.model.errors import CodecError
from distro.model.types import ACCEPTED_MAX, Datum, Version
from distro.receive.resolve import (
    ASKED_HEAD_ROOM,
    HEAD_ROOM,
    NotGivenError,
    OthersWordError,
    VersionCheck,
)
from tests.support.named_store import NamedStore, component
from tests.support.receiver_view import StubView

B, C = "10.0.0.2:8848", "10.0.0.3:8848"
ME, OTHER = "10.0.0.1:8848~1", f"{B}~1"


class Checked:
    """A check of two resource types whose writers are all known."""

    def __init__(self) -> None:
        self.store, self.other_store = NamedStore(), NamedStore()
        components = {"t": component(self.store), "u": component(self.other_store)}
        self.answering: set[str] = set()
        self.versions = VersionCheck(ME, components, StubView(answers_itself=self.answering.__contains__))

    def is_taken(self, epoch: int, counter: int = 0, *, sender: str = C, **how: bool) -> bool:
        try:
            self.versions.check("t", Datum("k", Version(epoch, counter, OTHER), None), sender, **how)
        except CodecError:
            return False
        return True


def test_what_a_member_wrote_that_left_is_taken_by_the_owner_alone_who_claims_it() -> None:
    checked = Checked()
    checked.versions = VersionCheck(ME, {"t": component(checked.store)}, StubView(is_known_writer=lambda _: False))
    assert checked.is_taken(2, 1, fetched=True, is_claimed=True)
    for how in ({}, {"fetched": True}, {"loading": True}):
        assert not checked.is_taken(2, 1, **how)
    assert not checked.is_taken(2**53, 1, fetched=True, is_claimed=True)


@pytest.fixture
def checked() -> Checked:
    return Checked()


def test_a_member_without_keys_takes_the_first_epochs(checked: Checked) -> None:
    assert checked.is_taken(HEAD_ROOM)
    assert not checked.is_taken(HEAD_ROOM + 1)


def test_the_highest_stored_epoch_of_any_type_makes_room(checked: Checked) -> None:
    checked.store.put("low", Version(3, 0, OTHER))
    checked.other_store.put("high", Version(5_000_000, 0, OTHER))
    checked.other_store.put("mid", Version(4_000_000, 0, OTHER))
    assert checked.is_taken(5_000_000 + HEAD_ROOM)
    assert not checked.is_taken(5_000_000 + HEAD_ROOM + 1)


def test_an_accepted_epoch_makes_room_and_a_lower_one_takes_none_away(checked: Checked) -> None:
    assert checked.is_taken(1)
    for accepted in (HEAD_ROOM, 7):
        checked.versions.accept(Version(accepted, 0, OTHER))
        assert checked.is_taken(2 * HEAD_ROOM)
        assert not checked.is_taken(2 * HEAD_ROOM + 1)


def test_an_epoch_accepted_before_the_first_check_hides_none_that_is_stored(checked: Checked) -> None:
    checked.store.put("high", Version(5_000_000, 0, OTHER))
    checked.versions.accept(Version(1, 0, OTHER))
    assert checked.is_taken(5_000_000 + HEAD_ROOM)


def test_the_stores_are_searched_once(checked: Checked) -> None:
    """With 100,000 keys the search takes long, and a check is made for each datum."""
    assert checked.is_taken(1)
    checked.store.put("high", Version(5_000_000, 0, OTHER))
    assert not checked.is_taken(5_000_000)


@pytest.mark.parametrize("how", ["loading", "fetched"])
def test_what_was_asked_for_may_be_further_above(checked: Checked, how: str) -> None:
    for numbers in ((ASKED_HEAD_ROOM, 0), (1, ASKED_HEAD_ROOM)):
        assert checked.is_taken(*numbers, **{how: True})
        assert not checked.is_taken(*numbers)
    assert not checked.is_taken(ASKED_HEAD_ROOM + 1, loading=True)
    assert not checked.is_taken(1, ASKED_HEAD_ROOM + 1, loading=True)


def test_the_last_bound_stays_however_high_versions_are(checked: Checked) -> None:
    checked.store.put("high", Version(ACCEPTED_MAX - 1, ACCEPTED_MAX - 1, OTHER))
    assert checked.is_taken(ACCEPTED_MAX, ACCEPTED_MAX, fetched=True)
    assert not checked.is_taken(ACCEPTED_MAX + 1, fetched=True)
    assert not checked.is_taken(1, ACCEPTED_MAX + 1, fetched=True, is_claimed=True)


def test_a_counter_has_the_room_of_an_epoch(checked: Checked) -> None:
    checked.store.put("k", Version(1, 7, OTHER))
    assert checked.is_taken(1, HEAD_ROOM + 7)
    assert not checked.is_taken(1, HEAD_ROOM + 8)
    assert not checked.is_taken(1, 999_999_999_999_999)
    checked.versions.accept(Version(1, 8, OTHER))
    assert checked.is_taken(1, HEAD_ROOM + 8)


def test_what_the_owner_claims_may_have_any_counter(checked: Checked) -> None:
    """Its claim begins at zero, in the next epoch."""
    assert checked.is_taken(1, ACCEPTED_MAX, fetched=True, is_claimed=True)


@pytest.mark.parametrize("version", [Version(HEAD_ROOM, 0, OTHER), Version(1, HEAD_ROOM, OTHER)])
def test_what_follows_an_accepted_version_is_accepted_by_those_that_never_had_it(version: Version) -> None:
    """Its writer counts on, or another member claims it, and sends that."""
    Checked().versions.check("t", Datum("k", version, None), C)
    for following, sender in ((version.next(OTHER), B), (version.next(f"{C}~1"), C)):
        Checked().versions.check("t", Datum("k", following, None), sender)


def test_a_member_that_goes_on_giving_a_version_is_heard_in_the_end(checked: Checked) -> None:
    high = (10 * ASKED_HEAD_ROOM, 10 * ASKED_HEAD_ROOM)
    assert not any(checked.is_taken(*high, sender=B) for _ in range(20)), "it is only sent"
    assert [checked.is_taken(*high, fetched=True) for _ in range(11)] == [False] * 9 + [True] * 2


def test_of_a_run_that_answers_its_member_alone_tells_more_than_is_known(checked: Checked) -> None:
    checked.store.put("k", Version(1, 5, OTHER))
    checked.answering.add(OTHER)
    for how in ({}, {"fetched": True}):
        assert checked.is_taken(1, 5, **how)
        assert not checked.is_taken(1, 6, **how)
        assert checked.is_taken(1, 6, sender=B, **how)
    assert checked.is_taken(1, 6, loading=True), "this member knows nothing as yet"
    assert checked.is_taken(1, 6, fetched=True, is_claimed=True), "what it claims is above"
    with pytest.raises(OthersWordError):
        checked.versions.check("t", Datum("unknown", Version(1, 0, OTHER), None), C)
    checked.answering.clear()
    assert checked.is_taken(1, 6), "nobody else can tell"


def test_of_this_run_a_key_has_no_version_above_that_which_is_stored(checked: Checked) -> None:
    checked.store.put("k", Version(2, 5, ME))
    checked.versions.check("t", Datum("k", Version(2, 5, ME), None), C)
    with pytest.raises(NotGivenError, match="did not assign"):
        checked.versions.check("t", Datum("k", Version(2, 6, ME), None), C)


def test_of_this_run_a_forgotten_key_has_no_version_above_all_that_it_gave(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked.store, "highest_own", lambda: Version(2, 5, ME))
    checked.store.put("other", Version(1, 0, ME))
    checked.versions.check("t", Datum("k", Version(2, 5, ME), None), C)
    for key, version in (("k", Version(2, 6, ME)), ("other", Version(2, 5, ME))):
        with pytest.raises(NotGivenError, match="did not assign"):
            checked.versions.check("t", Datum(key, version, None), C)
