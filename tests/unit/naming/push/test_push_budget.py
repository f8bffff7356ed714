"""How many bytes go to a destination."""

from app.naming.push.push_budget import (
    BURST_BYTES,
    BYTES_PER_S,
    IP_BURST_BYTES,
    UNANSWERED_BYTES_MAX,
    PushBudget,
)

IP, PORT = "10.0.0.1", 50_000
SIZE = 65_507


def taken(budget: PushBudget, now_ms: int, port: int = PORT, *, answers: bool = True) -> int:
    """Send as much to a port as the budget gives; return the bytes."""
    total = 0
    while budget.take(IP, port, SIZE, now_ms):
        total += SIZE
        if answers:
            budget.answered(IP, port, SIZE)
    return total


def test_a_port_that_answers_gets_a_burst_and_then_so_much_in_a_second() -> None:
    budget = PushBudget()
    assert BURST_BYTES - SIZE < taken(budget, 0) <= BURST_BYTES
    assert taken(budget, 0) == 0
    assert BYTES_PER_S - 2 * SIZE < taken(budget, 1_000) <= BYTES_PER_S + SIZE


def test_a_port_that_does_not_answer_gets_little_ever() -> None:
    budget = PushBudget()
    total = sum(taken(budget, second * 1_000, answers=False) for second in range(3_600))
    assert UNANSWERED_BYTES_MAX - SIZE < total <= UNANSWERED_BYTES_MAX
    budget.answered(IP, PORT, SIZE)
    assert taken(budget, 3_600_000, answers=False) == SIZE


def test_all_ports_of_an_address_share_a_budget() -> None:
    budget = PushBudget()
    total = sum(taken(budget, 0, port, answers=False) for port in range(1_024, 65_536))
    assert IP_BURST_BYTES - SIZE < total <= IP_BURST_BYTES
    assert budget.take("10.0.0.2", PORT, SIZE, 0)


def test_idle_accounts_are_dropped() -> None:
    budget = PushBudget()
    taken(budget, 0)
    budget.take(IP, PORT + 1, SIZE, 0)
    budget.sweep(60_000)
    assert len(budget) == 1, "bytes to the other port are not acknowledged"
    budget.answered(IP, PORT + 1, SIZE)
    budget.sweep(60_000)
    assert len(budget) == 0
    budget.answered(IP, PORT, SIZE)
    assert len(budget) == 0
