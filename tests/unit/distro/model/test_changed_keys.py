"""ChangedKeys: noted by any thread, taken out by one."""

import threading

from distro.model.digest import ChangedKeys


def test_a_key_is_taken_once_in_the_order_of_its_first_mark() -> None:
    changed = ChangedKeys()
    for key in ("b", "a", "b", "c", "a"):
        changed.note(key)
    assert len(changed) == 3
    assert changed.take() == ["b", "a", "c"]
    assert changed.take() == []
    changed.note("b")
    assert changed.take() == ["b"]


def test_a_key_that_is_read_anyway_is_not_taken() -> None:
    changed = ChangedKeys()
    changed.note("a")
    changed.note("b")
    changed.discard("a")
    changed.discard("unknown")
    assert changed.take() == ["b"]


def test_no_mark_is_lost_beside_the_thread_that_takes() -> None:
    """Each thread marks keys of its own in rounds; whatever it changed last is taken after it."""
    changed, taken = ChangedKeys(), dict[str, int]()
    rounds: dict[str, int] = {}

    def mark(name: str) -> None:
        for number in range(3_000):
            key = f"{name}-{number % 50}"
            rounds[key] = number
            changed.note(key)

    threads = [threading.Thread(target=mark, args=(name,)) for name in "abc"]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads) or len(changed):
        for key in changed.take():
            taken[key] = rounds[key]
    assert taken == rounds
    assert len(rounds) == 150
