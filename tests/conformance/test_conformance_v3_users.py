"""The recorded answers of a real Nacos 3.0.3 with users, over HTTP v3, asked of a node of ours that asks for users."""

from collections.abc import Iterator

import pytest

from tests.conformance.conftest import Report
from tests.conformance.recordings import Recordings, assert_all_pass, numbers_of
from tests.conformance.replay import Outcome
from tests.support.auth import AUTH_ON, make_first_admin
from tests.support.processes import Member

USERS = Recordings("_v3_users")
RECORDED = 25
"""All conversations: one that vanished would fail nowhere else."""
NAME, PASSWORD = "nacos", "conversation-1"
"""The first administrator, as the conversations log in."""

pytestmark = pytest.mark.timeout(1_200)


def prepare(node: Member) -> None:
    make_first_admin(node, NAME, PASSWORD)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, report_counts: Report) -> Iterator[list[Outcome]]:
    with USERS.alone(tmp_path_factory.mktemp("alone"), AUTH_ON, prepare) as outcomes:
        report_counts("HTTP v3 with users, alone", outcomes)
        yield outcomes


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
