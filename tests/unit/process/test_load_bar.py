"""The bar of a load at a node's start: on a terminal alone, and only for a load that takes a while."""

from collections.abc import Iterator
from io import StringIO

import pytest

from app.machine.process.load_bar import DELAY_S, LISTS, RECORDS, ShownLoad, shown_load


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Left(Iterator[int]):
    """Numbers up to one, of which every second is left out, as an iterator that knows how many are to come."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __len__(self) -> int:
        return self._left

    def __next__(self) -> int:
        if self._left < 2:
            self._left = 0
            raise StopIteration
        self._left -= 2
        return self._left


def test_a_load_shows_its_name_and_number_and_leaves_no_bar() -> None:
    file = Terminal()
    assert list(shown_load(range(3), RECORDS, wanted=True, file=file, delay_s=0)) == [0, 1, 2]
    first, *_, last = file.getvalue().split("\r")[1:-1]
    assert first.startswith("durable records: 0")
    assert not last.strip()


def test_the_bar_counts_lists_that_are_left_out() -> None:
    file = Terminal()
    load = ShownLoad(Left(100), LISTS, file, 0)
    next(load)
    assert load._bar is not None
    assert (load._bar.n, load._bar.total) == (2, 100)
    assert len(list(load)) == 49
    assert load._bar.n == 100


def test_the_bar_speaks_the_language_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    file = Terminal()
    assert list(shown_load([1], LISTS, wanted=True, file=file, delay_s=0)) == [1]
    assert "上次运行的实例列表" in file.getvalue()


@pytest.mark.parametrize(
    ("file", "wanted", "delay_s"), [(StringIO(), True, 0), (Terminal(), False, 0), (Terminal(), True, 60)]
)
def test_no_bar_in_a_log_nor_for_a_short_load(file: StringIO, wanted: bool, delay_s: float) -> None:
    assert list(shown_load(range(3), RECORDS, wanted=wanted, file=file, delay_s=delay_s)) == [0, 1, 2]
    assert not file.getvalue().strip()
    assert DELAY_S >= 1


def test_after_a_failure_the_load_goes_on_with_the_next_one() -> None:
    class Failing(Iterator[int]):
        passed = 0

        def __next__(self) -> int:
            self.passed += 1
            if self.passed == 1:
                raise OSError("a damaged row")
            if self.passed == 3:
                raise StopIteration
            return self.passed

    load = iter(shown_load(Failing(), LISTS, wanted=True, file=Terminal(), delay_s=0))
    with pytest.raises(OSError, match="a damaged row"):
        next(load)
    assert list(load) == [2]
