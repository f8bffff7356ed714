"""The recorded answers of a real Nacos 1.4.1, asked of our nodes: alone, and through one member of three."""

import pytest

from tests.conformance.recordings import Recordings, assert_all_pass
from tests.conformance.replay import Outcome

V1 = RECORDINGS = Recordings()
AREAS = V1.areas
RECORDED = 526
"""All conversations: one that vanished would fail nowhere else."""

# The first test of each pair has to wait for the whole replay, which waits more than it works.
pytestmark = pytest.mark.timeout(1_200)

reasons = V1.reasons


def test_the_list_names_scenarios_that_there_are() -> None:
    listed = reasons("standalone_only")
    assert listed.keys() <= V1.names()
    assert all(listed.values()), "every line gives its reason"


def test_all_conversations_are_held_but_those_that_differ(alone: list[Outcome]) -> None:
    left_out = reasons("differs")
    assert all(left_out.values()), "every line gives its reason"
    assert len({one.name for one in alone} | left_out.keys()) == len(alone) + len(left_out) == RECORDED


def test_what_passes_by_accept_is_known(alone: list[Outcome]) -> None:
    """An ``accept`` takes another answer than the recorded one: each that is made use of stands in the list."""
    assert {one.name: str(one.accepted) for one in alone if one.accepted} == reasons("accepted")


@pytest.mark.parametrize("area", AREAS)
def test_node_answers_as_recorded(alone: list[Outcome], area: str) -> None:
    assert_all_pass(alone, area)


@pytest.mark.cluster
def test_all_conversations_but_those_of_a_node_alone_are_held_with_a_member(through_member: list[Outcome]) -> None:
    left_out = reasons("standalone_only")
    assert len({one.name for one in through_member} | left_out.keys()) == RECORDED
    assert len(through_member) == RECORDED - len(left_out)


@pytest.mark.cluster
@pytest.mark.parametrize("area", AREAS)
def test_member_answers_as_recorded(through_member: list[Outcome], area: str) -> None:
    assert_all_pass(through_member, area)
