"""The stop before too few healthy instances remain."""

import pytest

from app.naming.registry.remaining_instances import Candidate, remaining_without


def instances(states: str) -> list[Candidate]:
    """Instances by a letter each: healthy, unhealthy, disabled, zero weight."""
    return [
        Candidate((f"10.0.0.{number}", 80, "DEFAULT"), state != "u", state != "d", 0.0 if state == "z" else 1.0)
        for number, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("states", "leaving", "threshold", "remaining", "refused"),
    [
        ("hhhh", [0], 0.5, 3, False),
        ("hhhh", [0, 1], 0.5, 2, True),
        ("hhhh", [0, 1, 2, 3], 0.0, 0, True),
        ("hhhh", [0, 1, 2], 0.0, 1, False),
        ("hhuu", [0], 0.3, 1, True),
        ("hhuu", [2], 0.9, 2, False),
        ("uu", [0], 0.0, 0, False),
        ("hd", [1], 0.0, 1, False),
        ("hdz", [0], 0.0, 0, True),
        ("h", [7], 0.0, 1, False),
        ("", [0], 0.0, 0, False),
    ],
)
def test_who_remains(states: str, leaving: list[int], threshold: float, remaining: int, refused: bool) -> None:
    gone = [(f"10.0.0.{number}", 80, "DEFAULT") for number in leaving]
    found = remaining_without(instances(states), threshold, gone)
    assert (found.total, found.remaining, found.is_refused) == (len(states), remaining, refused)
