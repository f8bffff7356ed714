"""The recorded answers of a real Nacos 3.0.3 over HTTP v3, asked of our nodes: alone and through a member of three."""

import pytest

from tests.conformance.recordings import Recordings, assert_all_pass, numbers_of
from tests.conformance.replay import Outcome

V3 = RECORDINGS = Recordings("_v3", "HTTP v3, ")
RECORDED = 291
"""All conversations: one that vanished would fail nowhere else."""

# The first test has to wait for the whole replay, which waits more than it works.
pytestmark = pytest.mark.timeout(1_200)


@pytest.mark.parametrize("name", ["differs", "standalone_only"])
def test_each_list_names_conversations_that_there_are_with_reasons(name: str) -> None:
    left_out = V3.reasons(name)
    assert left_out.keys() <= V3.names()
    assert all(left_out.values())


def test_all_conversations_are_held(alone: list[Outcome]) -> None:
    assert len(alone) + len(V3.reasons("differs")) == len(V3.names()) == RECORDED


def test_each_difference_is_known_and_still_is_one(alone: list[Outcome]) -> None:
    assert {one.name: str(one.accepted) for one in alone if one.accepted} == numbers_of(V3.reasons("accepted"))


@pytest.mark.parametrize("area", V3.areas)
def test_node_answers_as_recorded(alone: list[Outcome], area: str) -> None:
    assert_all_pass(alone, area)


@pytest.mark.cluster
@pytest.mark.parametrize("area", V3.areas)
def test_member_answers_as_recorded(through_member: list[Outcome], area: str) -> None:
    assert_all_pass(through_member, area)
