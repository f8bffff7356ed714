"""The recorded answers of a real Nacos 3.0.3 with users, over HTTP v3, asked of a node of ours that asks for users."""

import pytest

from tests.conformance.recordings import Recordings, assert_all_pass, numbers_of
from tests.conformance.replay import Outcome
from tests.support.auth import AUTH_ON, make_first_admin
from tests.support.processes import Member

NAME, PASSWORD = "nacos", "conversation-1"
"""The first administrator, as the conversations log in."""


def prepare(node: Member) -> None:
    make_first_admin(node, NAME, PASSWORD)


USERS = RECORDINGS = Recordings("_v3_users", "HTTP v3 with users, ", AUTH_ON, prepare)
RECORDED = 25
"""All conversations: one that vanished would fail nowhere else."""

pytestmark = pytest.mark.timeout(1_200)


def test_all_conversations_are_held(alone: list[Outcome]) -> None:
    left_out = USERS.reasons("differs")
    assert left_out.keys() <= USERS.names()
    assert all(left_out.values()), "every line gives its reason"
    assert len(alone) + len(left_out) == len(USERS.names()) == RECORDED


def test_each_difference_is_known_and_still_is_one(alone: list[Outcome]) -> None:
    assert {one.name: str(one.accepted) for one in alone if one.accepted} == numbers_of(USERS.reasons("accepted"))


@pytest.mark.parametrize("area", USERS.areas)
def test_node_answers_as_recorded(alone: list[Outcome], area: str) -> None:
    assert_all_pass(alone, area)
