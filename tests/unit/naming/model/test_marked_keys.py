"""MarkedKeys: marked by any thread, taken by one."""

import threading

from app.naming.model.events import MarkedKeys


def test_a_key_is_taken_once_in_the_order_of_its_first_mark() -> None:
    marked = MarkedKeys()
    for key in ("b", "a", "b", "c", "a"):
        marked.mark(key)
    assert len(marked) == 3
    assert marked.take() == ["b", "a", "c"]
    assert marked.take() == []
    marked.mark("b")
    assert marked.take() == ["b"]


def test_a_key_that_is_read_anyway_is_not_taken() -> None:
    marked = MarkedKeys()
    marked.mark("a")
    marked.mark("b")
    marked.discard("a")
    marked.discard("unknown")
    assert marked.take() == ["b"]


def test_no_mark_is_lost_beside_the_thread_that_takes() -> None:
    """Each thread marks keys of its own in rounds; whatever it marked last is taken after it."""
    marked, taken = MarkedKeys(), dict[str, int]()
    rounds: dict[str, int] = {}

    def mark(name: str) -> None:
        for number in range(3_000):
            key = f"{name}-{number % 50}"
            rounds[key] = number
            marked.mark(key)

    threads = [threading.Thread(target=mark, args=(name,)) for name in "abc"]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads) or len(marked):
        for key in marked.take():
            taken[key] = rounds[key]
    assert taken == rounds
    assert len(rounds) == 150
