"""What a turn of the loop made for many connections leaves in one go."""

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest

from app.machine.process.loop_parts import TOGETHER_MAX, TurnSends


class Turns:
    """A loop that turns when the test says so, and the names of the connections in the order in which they sent."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], None]] = deque()
        self.sent: list[int] = []
        self.sends = TurnSends(self.due.append)

    def add(self, *names: int) -> None:
        for name in names:
            self.sends.add(partial(self._send, name))

    def _send(self, name: int) -> None:
        if name < 0:
            raise OSError("gone")
        self.sent.append(name)

    def turn(self) -> None:
        self.due.popleft()()


def test_nothing_is_sent_before_the_turn_ends() -> None:
    turns = Turns()
    turns.add(1, 2, 3)
    assert (turns.sent, len(turns.due)) == ([], 1)
    turns.turn()
    assert turns.sent == [1, 2, 3]


def test_each_turn_sends_what_it_made() -> None:
    turns = Turns()
    for name in range(3):
        turns.add(name)
        turns.turn()
        assert (turns.sent, len(turns.due)) == ([*range(name + 1)], 0)


def test_the_first_does_not_wait_for_a_thousand_others() -> None:
    turns = Turns()
    turns.add(*range(TOGETHER_MAX + 1))
    assert turns.sent == [*range(TOGETHER_MAX)]
    turns.turn()
    assert turns.sent == [*range(TOGETHER_MAX + 1)]
    assert not turns.due


def test_one_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns()
    turns.add(1, -1, 2)
    turns.turn()
    assert turns.sent == [1, 2]
    assert "could not be sent" in caplog.text
