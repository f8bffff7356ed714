"""The requests of clients that cannot be started here, asked of our nodes: alone, and through one member of three.

Each answer has what its client reads. The note of a conversation names the client's source.
"""

import pytest

from tests.conformance.recordings import Recordings, assert_all_pass
from tests.conformance.replay import Outcome, load

CLIENTS = RECORDINGS = Recordings("_clients", "clients, ")
AREAS = CLIENTS.areas
RECORDED = 22

pytestmark = pytest.mark.timeout(600)


def test_every_conversation_names_its_source() -> None:
    assert AREAS == ["apisix", "cpp", "nginx", "php"]
    assert all(one.note.startswith("Source: ") for one in load(folder=CLIENTS.folder))


@pytest.mark.parametrize("area", AREAS)
def test_node_answers_what_the_client_reads(alone: list[Outcome], area: str) -> None:
    assert len(alone) == RECORDED
    assert_all_pass(alone, area)


@pytest.mark.cluster
@pytest.mark.parametrize("area", AREAS)
def test_member_answers_what_the_client_reads(through_member: list[Outcome], area: str) -> None:
    assert len(through_member) == RECORDED
    assert_all_pass(through_member, area)
