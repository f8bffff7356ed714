"""The recorded answers of a real Nacos 1.4.1, asked of our nodes: alone, and through one member of three."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.replay import Outcome, Target, count_by_area, load, run_all
from tests.support.processes import ClusterProcesses, Member, free_ports

FOLDER = Path(__file__).parent
AREAS = sorted(file.stem for file in (FOLDER / "scenarios").glob("*.jsonl"))
JOBS = 4

Report = Callable[[str, Mapping[str, tuple[int, int]]], None]

# The first test of each pair has to wait for the whole replay, which waits more than it works.
pytestmark = pytest.mark.timeout(1_200)


def reasons(name: str) -> dict[str, str]:
    """Return the reason of each scenario in a list of ours. Shape of a line: ``area/name: reason``."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {scenario: reason for scenario, _, reason in pairs}


def full_name(outcome: Outcome) -> str:
    return f"{outcome.scenario.area}/{outcome.scenario.name}"


def replay(member: Member, leave_out: Mapping[str, str]) -> list[Outcome]:
    host, _, port = member.address.rpartition(":")
    scenarios = [one for one in load() if f"{one.area}/{one.name}" not in leave_out]
    return run_all(Target(host, int(port)), scenarios, JOBS)


def assert_all_pass(outcomes: list[Outcome], area: str) -> None:
    complaints = []
    for outcome in (one for one in outcomes if one.scenario.area == area and one.failure):
        note = f"\n    note: {outcome.scenario.note}" if outcome.scenario.note else ""
        complaints.append(f"{full_name(outcome)} fails:\n    {outcome.failure}{note}")
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, report_counts: Report) -> Iterator[list[Outcome]]:
    """All outcomes of a standalone node."""
    port = free_ports(1)[0]
    node = Member(port, tmp_path_factory.mktemp("standalone") / str(port), {"rollcall.announce": "false"})
    try:
        node.start()
        node.wait_ready()
        outcomes = replay(node, {})
        report_counts("standalone", count_by_area(outcomes))
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
        report_counts("one member of three", count_by_area(outcomes))
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


@pytest.mark.parametrize("area", AREAS)
def test_node_answers_as_recorded(alone: list[Outcome], area: str) -> None:
    assert_all_pass(alone, area)


@pytest.mark.cluster
@pytest.mark.parametrize("area", AREAS)
def test_member_answers_as_recorded(through_member: list[Outcome], area: str) -> None:
    assert_all_pass(through_member, area)
