"""What is remembered of single instances, and how much."""

import pytest

from app.naming.model.keys import datum_key
from app.operator import instance_history
from app.operator.instance_history import ENTRIES_MAX, InstanceHistory

KEY = datum_key("public", "g@@s")


def test_the_last_happenings_are_kept() -> None:
    history = InstanceHistory(lambda: 1)
    for number in range(ENTRIES_MAX + 2):
        history.note(KEY, "i", str(number))
    assert [one.what for one in history.of("public", "g@@s", "i")] == [str(one) for one in range(2, ENTRIES_MAX + 2)]
    assert history.of("public", "g@@s", "other") == []


def test_the_instance_that_rested_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_history, "INSTANCES_MAX", 2)
    history = InstanceHistory(lambda: 1)
    for name in ("a", "b", "a", "c"):
        history.note(KEY, name, "x")
    assert [bool(history.of("public", "g@@s", name)) for name in "abc"] == [True, False, True]
