"""The recorded answers of a real Nacos 1.4.1, asked of our nodes: alone, and through one member of three."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.conftest import Report
from tests.conformance.replay import Outcome, Target, load, run_all
from tests.support.processes import ClusterProcesses, Member, free_ports

FOLDER = Path(__file__).parent
AREAS = sorted(file.stem for file in (FOLDER / "scenarios").glob("*.jsonl"))
JOBS = 4
RECORDED = 526
"""All conversations: one that vanished would fail nowhere else."""

# The first test of each pair has to wait for the whole replay, which waits more than it works.
pytestmark = pytest.mark.timeout(1_200)


def reasons(name: str) -> dict[str, str]:
    """Return what a list of ours says of each scenario in it. Shape of a line: ``area/name: reason``."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {scenario: reason for scenario, _, reason in pairs}


def replay(member: Member, leave_out: Mapping[str, str]) -> list[Outcome]:
    host, _, port = member.address.rpartition(":")
    scenarios = [one for one in load() if f"{one.area}/{one.name}" not in leave_out]
    return run_all(Target(host, int(port)), scenarios, JOBS)


def assert_all_pass(outcomes: list[Outcome], area: str) -> None:
    complaints = []
    for outcome in (one for one in outcomes if one.scenario.area == area and one.failure):
        note = f"\n    note: {outcome.scenario.note}" if outcome.scenario.note else ""
        complaints.append(f"{outcome.name} fails:\n    {outcome.failure}{note}")
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, report_counts: Report) -> Iterator[list[Outcome]]:
    """All outcomes of a node without others: a cluster of one, as a standalone node takes no call of members."""
    port = free_ports(1)[0]
    settings = {"rollcall.announce": "false", "nacos.standalone": "false", "nacos.member.list": f"127.0.0.1:{port}"}
    node = Member(port, tmp_path_factory.mktemp("alone") / str(port), settings)
    try:
        node.start()
        node.wait_ready()
        outcomes = replay(node, reasons("differs.txt"))
        report_counts("alone", outcomes)
        yield outcomes
        node.stop()
    finally:
        node.end()
    assert "Traceback" not in node.log_text()


@pytest.fixture(scope="module")
def through_member(tmp_path_factory: pytest.TempPathFactory, report_counts: Report) -> Iterator[list[Outcome]]:
    """All outcomes of a member that owns about a third of the services and passes the other calls on."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("member"), 3, {})
    try:
        cluster.start()
        outcomes = replay(cluster.members[1], reasons("standalone_only.txt"))
        report_counts("one member of three", outcomes)
        yield outcomes
        for member in cluster:
            member.stop()
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def test_the_list_names_scenarios_that_there_are() -> None:
    names = {f"{one.area}/{one.name}" for one in load()}
    listed = reasons("standalone_only.txt")
    assert listed.keys() <= names
    assert all(listed.values()), "every line gives its reason"


def test_all_conversations_are_held_but_those_that_differ(alone: list[Outcome]) -> None:
    left_out = reasons("differs.txt")
    assert all(left_out.values()), "every line gives its reason"
    assert len({one.name for one in alone} | left_out.keys()) == len(alone) + len(left_out) == RECORDED


def test_what_passes_by_accept_is_known(alone: list[Outcome]) -> None:
    """An ``accept`` takes another answer than the recorded one: each that is made use of stands in the list."""
    assert {one.name: str(one.accepted) for one in alone if one.accepted} == reasons("accepted.txt")


@pytest.mark.parametrize("area", AREAS)
def test_node_answers_as_recorded(alone: list[Outcome], area: str) -> None:
    assert_all_pass(alone, area)


@pytest.mark.cluster
def test_all_conversations_but_those_of_a_node_alone_are_held_with_a_member(through_member: list[Outcome]) -> None:
    left_out = reasons("standalone_only.txt")
    assert len({one.name for one in through_member} | left_out.keys()) == RECORDED
    assert len(through_member) == RECORDED - len(left_out)


@pytest.mark.cluster
@pytest.mark.parametrize("area", AREAS)
def test_member_answers_as_recorded(through_member: list[Outcome], area: str) -> None:
    assert_all_pass(through_member, area)
