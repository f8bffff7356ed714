"""The budget for answers: what has room, what is refused, what passes all the same, and what is given back."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.machine.limits import answer_budget
from app.machine.limits.answer_budget import (
    DEFAULT_MB,
    LARGE_ANSWER_BYTES,
    MIB,
    TRIM_FROM_BYTES,
    TRIM_MS,
    AnswerBudget,
    AnswerRoom,
    answers_bytes,
)
from app.machine.process.memory_bound import trim_memory
from app.naming.model.nacos_errors import TooManyRequests
from app.rpc.server.control_credit import CountedAnswer


@pytest.fixture
def budget() -> AnswerBudget:
    return AnswerBudget(4 * MIB)


@pytest.mark.parametrize(
    ("setting_mb", "memory_mb", "expected_mb"),
    [
        (0, 0, DEFAULT_MB),
        (0, 256, 32),
        (0, 384, 48),
        (0, 512, DEFAULT_MB),
        (0, 100_000, DEFAULT_MB),
        (7, 0, 7),
        (700, 512, 700),
    ],
)
def test_the_size_is_that_of_the_setting_or_of_the_memory(setting_mb: int, memory_mb: int, expected_mb: int) -> None:
    assert answers_bytes(setting_mb, memory_mb * MIB) == expected_mb * MIB


def test_large_answers_leave_a_quarter_to_short_ones(budget: AnswerBudget) -> None:
    assert budget.take(2 * MIB)
    assert budget.take(MIB)
    assert not budget.take(1)
    assert budget.count == 3 * MIB
    budget.check(LARGE_ANSWER_BYTES)
    with pytest.raises(TooManyRequests, match=r"\(rollcall\.limit\.answersMb=4\)"):
        budget.check(LARGE_ANSWER_BYTES + 1)
    with pytest.raises(TooManyRequests):
        budget.claim(1)
    assert budget.stats.counters()["limit_answers_mb"] == 2
    assert budget.add(MIB + 1)
    assert not budget.add(1)
    assert budget.add(-1)
    assert budget.count == 4 * MIB


def test_one_answer_alone_may_be_larger_than_the_budget(budget: AnswerBudget) -> None:
    budget.check(100 * MIB)
    assert budget.take(100 * MIB)
    assert not budget.take(1)
    budget.give_back(100 * MIB)
    assert budget.take(1)


def test_what_has_to_be_is_counted_whatever_there_is(budget: AnswerBudget) -> None:
    budget.add_always(5 * MIB)
    assert (budget.is_short, budget.is_over) == (True, False)
    budget.add_always(4 * MIB)
    assert budget.is_over
    budget.give_back(8 * MIB)
    assert (budget.is_short, budget.is_over) == (False, False)
    assert budget.counters() == {"answers_bytes": MIB, "answers_bound_bytes": 4 * MIB}


def test_shared_bytes_count_once_and_as_long_as_anybody_has_them(budget: AnswerBudget) -> None:
    budget.claim(MIB)
    answer = CountedAnswer.of(bytes(MIB), budget)
    others = [answer, answer]
    del answer
    assert budget.count == MIB
    assert bytes(others[0]) == bytes(MIB)
    others.clear()
    assert budget.count == 0


def test_room_grows_as_an_answer_is_made_and_is_given_back(budget: AnswerBudget) -> None:
    with AnswerRoom(budget, LARGE_ANSWER_BYTES) as room:
        assert budget.count == 0
        room.grow(MIB)
        room.grow(MIB // 2)
        assert budget.count == MIB
    assert budget.count == 0
    budget.add_always(3 * MIB)
    with pytest.raises(TooManyRequests):
        AnswerRoom(budget, MIB)
    with pytest.raises(TooManyRequests), AnswerRoom(budget, 0) as room:
        room.grow(MIB)
    assert budget.count == 3 * MIB


def test_threads_lose_no_count(budget: AnswerBudget) -> None:
    def work(_: int) -> None:
        for _ in range(2_000):
            budget.claim(10)
            budget.give_back(10)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert budget.count == 0


def test_memory_is_given_back_when_large_answers_are_over(
    budget: AnswerBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    trims: list[None] = []
    monkeypatch.setattr(answer_budget, "trim_memory", lambda: trims.append(None))
    assert budget.tick(5) == 5 + TRIM_MS
    for _ in range(TRIM_FROM_BYTES // MIB + 1):
        budget.check(MIB)
    budget.claim(MIB)
    budget.tick(5)
    assert not trims, "one is under way"
    budget.give_back(MIB)
    for _ in range(3):
        budget.tick(5)
    assert len(trims) == 1


def test_memory_is_given_back_where_the_library_can() -> None:
    trim_memory()
