"""The memo of requests by their bytes: what it keeps, for how long, and what it costs."""

import random
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from app.machine.process.loop_parts import LOOKS, UNUSED_S, RequestMemo

LENGTH_MAX = 1_024


class Text:
    """A text as it is kept."""

    __slots__ = ("text", "used")

    def __init__(self, text: str) -> None:
        self.text = text
        self.used = True


class TextKeeper:
    """Keeps the texts that ``change`` makes of texts, 100 bytes each."""

    def __init__(self, change: Callable[[str], str | None]) -> None:
        self._change = change

    def keep(self, data: bytes, request: str) -> tuple[Text, int] | None:
        changed = self._change(request)
        return None if changed is None else (Text(changed), 100)

    def drop(self, data: bytes, kept: Text) -> int:
        return 100


class Noted:
    """A memo of texts, with a clock of its own."""

    def __init__(
        self,
        entries_max: int = 1_000,
        marks_max: int = 1_024,
        change: Callable[[str], str | None] = lambda text: text.upper(),
    ) -> None:
        self.now_s = 0.0
        self.memo: RequestMemo[str, Text] = RequestMemo(
            TextKeeper(change), entries_max * 100, LENGTH_MAX, marks_max, lambda: self.now_s
        )

    def send(self, data: bytes) -> str | None:
        """Return what is found when these bytes come, as a frontend looks for it; take note of unknown ones."""
        kept = self.memo.find(data)
        if kept is None:
            self.memo.note(data, data.decode())
            return None
        kept.used = True
        return kept.text

    def round(self, names: Iterable[str]) -> int:
        """Return how many of these requests are found, when each comes once."""
        return sum(self.send(name.encode()) is not None for name in names)

    def note(self, data: bytes, times: int = 2) -> str | None:
        for _ in range(times):
            self.memo.note(data, data.decode())
        found = self.memo.find(data)
        return found and found.text


def names(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_what_came_twice_is_kept() -> None:
    noted = Noted()
    assert noted.note(b"one", 1) is None
    assert noted.note(b"one", 1) == "ONE"
    assert noted.memo.find(b"two") is None


def test_long_ones_and_those_that_may_not_be_are_not_kept() -> None:
    assert Noted().note(b"x" * LENGTH_MAX) is not None
    assert Noted().note(b"x" * (LENGTH_MAX + 1)) is None
    assert Noted(change=lambda _text: None).note(b"one", 5) is None


def test_a_request_that_came_again_while_it_is_kept_is_kept_once() -> None:
    noted = Noted()
    assert noted.note(b"one", 5) == "ONE"
    assert (len(noted.memo), noted.memo.bytes_held) == (1, 100)


@pytest.mark.parametrize("count", [100_000, 300_000])
def test_the_third_round_of_beats_is_found(count: int) -> None:
    noted = Noted(entries_max=count, marks_max=524_288)
    found = [noted.round(map(str, range(count))) for _ in range(3)]
    assert found[0] < count // 100
    assert found[2] == count
    assert noted.memo.bytes_held == count * 100


def test_what_comes_once_takes_no_room() -> None:
    marks_max = 4_096
    noted = Noted(entries_max=10_000, marks_max=marks_max)
    tracemalloc.start()
    try:
        for name in names(100, "first "):
            noted.note(name.encode(), 1)
        for number in range(20 * marks_max):
            noted.note(b"%d" % number, 1)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    known = [name for name in names(100, "first ") if noted.note(name.encode(), 1) is not None]
    assert len(known) < 10, "they were forgotten among so many"
    assert len(noted.memo) < 20 * marks_max // 100, "a few are taken for ones that came before"
    assert used < 20 * marks_max * 8, "less than 8 bytes for each"


def test_a_request_is_known_while_as_many_others_come_as_there_are_marks() -> None:
    noted = Noted(marks_max=1_024)
    noted.note(b"first", 1)
    for number in range(1_000):
        noted.note(b"%d" % number, 1)
    assert noted.note(b"first", 1) == "FIRST"


def test_a_full_memo_takes_no_more_for_a_while_and_keeps_what_is_used() -> None:
    noted = Noted(entries_max=100)
    for name in names(100):
        noted.note(name.encode())
    assert noted.note(b"more") is None
    noted.now_s = UNUSED_S - 0.1
    assert noted.note(b"more", 50) is None
    assert noted.memo.find(b"0") is not None
    used = names(50)
    for _ in range(2):
        noted.now_s += UNUSED_S
        assert noted.round(used) == 50
        noted.note(b"more", 100 // LOOKS + 2)
    assert noted.note(b"more") == "MORE"
    assert noted.memo.find(b"99") is None
    assert noted.round(used) == 50


def test_entries_that_nobody_uses_go_as_others_come_also_while_there_is_room() -> None:
    noted = Noted(entries_max=10_000)
    for name in names(500):
        noted.note(name.encode())
    for number in range(3):
        noted.now_s += UNUSED_S
        for name in names(500 // LOOKS + 1, f"later {number} "):
            noted.note(name.encode())
    assert len(noted.memo) < 500
    assert [name for name in names(500) if noted.memo.find(name.encode()) is not None] == []


def test_a_flood_of_requests_that_come_twice_neither_pushes_out_what_is_used_nor_locks_out_others_for_ever() -> None:
    """The flood sends its requests as fast as there is room, and each of them twice, so that each is kept."""
    noted = Noted(entries_max=1_000, marks_max=65_536)
    beats, later = names(400, "beat "), names(300, "later ")
    for _ in range(3):
        found = noted.round(beats)
    assert found == 400
    flooded, shuffled = 0, random.Random(1)
    for second in range(0, 1_200, 5):
        noted.now_s = float(second)
        found = 0
        for name in shuffled.sample(later, len(later)):
            for _ in range(3):
                noted.note(f"flood {flooded}".encode())
                flooded += 1
            found += noted.send(name.encode()) is not None
        assert noted.round(beats) == 400
        assert noted.memo.bytes_held <= noted.memo.bytes_max
    assert found > 200, "they got the room of what the flood does not use"
