"""Tests wait for what a server answers, also when it first says in plain text that it cannot."""

import pytest

from tests.support.client import Answer
from tests.support.processes import eventually

FAILED = Answer(500, b"caused: Could not write JSON: (was java.util.ConcurrentModificationException)", {})


def test_who_waits_asks_again_after_an_answer_in_plain_text() -> None:
    answers = iter([FAILED, FAILED, Answer(200, b'{"data":[1]}', {})])
    assert eventually(lambda: next(answers).json()["data"]) == [1]


def test_who_does_not_wait_is_told_the_answer() -> None:
    with pytest.raises(AssertionError, match=r"500 b'caused: Could not write JSON"):
        FAILED.json()
