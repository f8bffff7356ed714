"""The bounds of versions from outside (R10), exactly."""

import pytest

from distro.model.errors import CodecError
from distro.model.types import Datum, Version
from distro.receive.version_check import ACCEPTED_MAX, EPOCH_HEAD_ROOM, VersionCheck
from tests.support.named_store import NamedStore, component

ME, OTHER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"


class Checked:
    """A check of two resource types whose writers are all known."""

    def __init__(self) -> None:
        self.store, self.other_store = NamedStore(), NamedStore()
        components = {"t": component(self.store), "u": component(self.other_store)}
        self.versions = VersionCheck(ME, components, lambda _: True)

    def is_taken(self, epoch: int, counter: int = 0, *, loading: bool = False) -> bool:
        try:
            self.versions.check("t", Datum("k", Version(epoch, counter, OTHER), None), loading=loading)
        except CodecError:
            return False
        return True


@pytest.fixture
def checked() -> Checked:
    return Checked()


def test_a_member_without_keys_takes_the_first_epochs(checked: Checked) -> None:
    assert checked.is_taken(EPOCH_HEAD_ROOM)
    assert not checked.is_taken(EPOCH_HEAD_ROOM + 1)


def test_the_highest_stored_epoch_of_any_type_makes_room(checked: Checked) -> None:
    checked.store.put("low", Version(3, 0, OTHER))
    checked.other_store.put("high", Version(5_000_000, 0, OTHER))
    checked.other_store.put("mid", Version(4_000_000, 0, OTHER))
    assert checked.is_taken(5_000_000 + EPOCH_HEAD_ROOM)
    assert not checked.is_taken(5_000_000 + EPOCH_HEAD_ROOM + 1)


def test_an_accepted_epoch_makes_room_and_a_lower_one_takes_none_away(checked: Checked) -> None:
    assert checked.is_taken(1)
    for accepted in (EPOCH_HEAD_ROOM, 7):
        checked.versions.accept(Version(accepted, 0, OTHER))
        assert checked.is_taken(2 * EPOCH_HEAD_ROOM)
        assert not checked.is_taken(2 * EPOCH_HEAD_ROOM + 1)


def test_an_epoch_accepted_before_the_first_check_hides_none_that_is_stored(checked: Checked) -> None:
    checked.store.put("high", Version(5_000_000, 0, OTHER))
    checked.versions.accept(Version(1, 0, OTHER))
    assert checked.is_taken(5_000_000 + EPOCH_HEAD_ROOM)


def test_the_stores_are_searched_once(checked: Checked) -> None:
    """With 100,000 keys the search takes long, and a check is made for each datum."""
    assert checked.is_taken(1)
    checked.store.put("high", Version(5_000_000, 0, OTHER))
    assert not checked.is_taken(5_000_000)


def test_a_snapshot_has_but_the_last_bound(checked: Checked) -> None:
    assert checked.is_taken(ACCEPTED_MAX, loading=True)
    assert not checked.is_taken(ACCEPTED_MAX + 1, loading=True)
    assert not checked.is_taken(ACCEPTED_MAX)


def test_the_last_bound_of_epochs_stays_however_high_they_are(checked: Checked) -> None:
    checked.store.put("high", Version(ACCEPTED_MAX - 1, 0, OTHER))
    assert checked.is_taken(ACCEPTED_MAX)
    assert not checked.is_taken(ACCEPTED_MAX + 1)


@pytest.mark.parametrize("loading", [False, True])
def test_a_counter_has_the_last_bound_alone(checked: Checked, loading: bool) -> None:
    assert checked.is_taken(1, ACCEPTED_MAX, loading=loading)
    assert not checked.is_taken(1, ACCEPTED_MAX + 1, loading=loading)


def test_of_this_run_a_key_has_no_version_above_that_which_is_stored(checked: Checked) -> None:
    checked.store.put("k", Version(2, 5, ME))
    checked.versions.check("t", Datum("k", Version(2, 5, ME), None))
    with pytest.raises(CodecError, match="did not give"):
        checked.versions.check("t", Datum("k", Version(2, 6, ME), None))


def test_of_this_run_a_forgotten_key_has_no_version_above_all_that_it_gave(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked.store, "highest_own", lambda: Version(2, 5, ME))
    checked.store.put("other", Version(1, 0, ME))
    checked.versions.check("t", Datum("k", Version(2, 5, ME), None))
    for key, version in (("k", Version(2, 6, ME)), ("other", Version(2, 5, ME))):
        with pytest.raises(CodecError, match="did not give"):
            checked.versions.check("t", Datum(key, version, None))
