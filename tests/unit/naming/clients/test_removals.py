"""How long it is remembered that clients are gone, and of how many."""

import pytest

from app.naming.clients import removals as module
from app.naming.clients.removals import Removal, Removals
from distro.model.digest import ChangedKeys
from distro.model.types import Version

ONE, TWO = Version(1, 0, "a"), Version(2, 0, "a")


def test_a_removal_is_remembered_until_it_is_discarded() -> None:
    removals = Removals(60, ChangedKeys())
    removals.add("c", ONE, 10)
    assert "c" in removals
    assert removals.get("c") == Removal(ONE, 10)
    assert removals.versions() == {"c": ONE}
    removals.discard("c")
    removals.discard("c")
    assert "c" not in removals
    assert removals.get("c") is None


def test_it_is_forgettable_after_its_time() -> None:
    removals = Removals(60, ChangedKeys())
    removals.add("c", ONE, 10)
    assert not removals.is_forgettable("c", 70)
    assert removals.is_forgettable("c", 71)
    assert not removals.is_forgettable("x", 71)


def test_those_are_old_that_no_copy_can_outlive() -> None:
    removals = Removals(60, ChangedKeys())
    for name, at_ms in (("a", 10), ("b", 11), ("c", 12)):
        removals.add(name, ONE, at_ms)
    for extra_ms, old in ((10, []), (11, ["a"]), (12, ["a", "b"])):
        assert [name for name, _ in removals.older_than(100, 2 * 60 + 100 + extra_ms)] == old
    assert removals.older_than(100, 231) == [("a", Removal(ONE, 10))]


def test_a_client_that_is_removed_again_counts_as_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMOVALS_MAX", 2)
    removals = Removals(60, ChangedKeys())
    removals.add("a", ONE, 10)
    removals.add("b", ONE, 20)
    assert removals.versions() == {"a": ONE, "b": ONE}
    removals.add("a", TWO, 30)
    removals.add("c", ONE, 40)
    assert removals.versions() == {"a": TWO, "c": ONE}
