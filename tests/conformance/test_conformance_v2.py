"""The recorded answers of a real Nacos 2.3.1 over HTTP v2, asked of our nodes: alone and through a member of three."""

import pytest

from tests.conformance.recordings import Recordings, assert_all_pass
from tests.conformance.replay import Outcome

V2 = RECORDINGS = Recordings("_v2", "HTTP v2, ")
RECORDED = 470
"""All conversations: one that vanished would fail nowhere else."""

pytestmark = pytest.mark.timeout(1_200)


@pytest.mark.parametrize("name", ["differs", "standalone_only"])
def test_each_list_names_scenarios_that_there_are_with_reasons(name: str) -> None:
    listed = V2.reasons(name)
    assert listed.keys() <= V2.names()
    assert all(listed.values())


def test_all_conversations_are_held_but_those_that_differ(alone: list[Outcome]) -> None:
    assert len(alone) + len(V2.reasons("differs")) == len(V2.names()) == RECORDED


def test_what_passes_by_accept_is_known(alone: list[Outcome]) -> None:
    assert {one.name: str(one.accepted) for one in alone if one.accepted} == V2.reasons("accepted")


@pytest.mark.parametrize("area", V2.areas)
def test_node_answers_as_recorded(alone: list[Outcome], area: str) -> None:
    assert_all_pass(alone, area)


@pytest.mark.cluster
@pytest.mark.parametrize("area", V2.areas)
def test_member_answers_as_recorded(through_member: list[Outcome], area: str) -> None:
    assert_all_pass(through_member, area)
