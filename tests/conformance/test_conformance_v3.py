"""The recorded answers of a real Nacos 3.0.3 over HTTP v3, asked of a node of ours."""

from collections.abc import Iterator

import pytest

from tests.conformance.conftest import Report
from tests.conformance.recordings import Recordings, assert_all_pass
from tests.conformance.replay import Outcome

V3 = Recordings("_v3")
RECORDED = 291
"""All conversations: one that vanished would fail nowhere else."""

# The first test has to wait for the whole replay, which waits more than it works.
pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, report_counts: Report) -> Iterator[list[Outcome]]:
    with V3.alone(tmp_path_factory.mktemp("alone")) as outcomes:
        report_counts("HTTP v3, alone", outcomes)
        yield outcomes


def listed() -> dict[str, str]:
    """Return how many steps we answer otherwise, by conversation. Shape of a line: ``area/name: number, reason``."""
    parts = {name: text.partition(", ") for name, text in V3.reasons("accepted").items()}
    assert all(reason for _, _, reason in parts.values()), "every line gives its reason"
    return {name: number for name, (number, _, _) in parts.items()}


def test_all_conversations_are_held(alone: list[Outcome]) -> None:
    left_out = V3.reasons("differs")
    assert all(left_out.values()), "every line gives its reason"
    assert len(alone) + len(left_out) == len(V3.names()) == RECORDED


def test_each_difference_is_known_and_still_is_one(alone: list[Outcome]) -> None:
    assert {one.name: str(one.accepted) for one in alone if one.accepted} == listed()


@pytest.mark.parametrize("area", V3.areas)
def test_node_answers_as_recorded(alone: list[Outcome], area: str) -> None:
    assert_all_pass(alone, area)
