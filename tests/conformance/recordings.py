"""The conversations recorded from one version of Nacos, held with a node of ours and through one member of three."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.compare import Target
from tests.conformance.replay import Outcome, load, run_all
from tests.support.processes import ClusterProcesses, Member, free_ports

FOLDER = Path(__file__).parent
JOBS = 4


@dataclass(frozen=True, slots=True)
class Recordings:
    """Recorded conversations, and lists of other answers of ours. ``suffix`` ends the names of their files.

    ``title`` begins that of their counts. ``more``: further settings of a node alone; ``prepare`` is called before it
    holds the first conversation.
    """

    suffix: str = ""
    title: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Member], None] = lambda _: None

    @property
    def folder(self) -> Path:
        """The folder of the conversations: a file for each area."""
        return FOLDER / f"scenarios{self.suffix}"

    @property
    def areas(self) -> list[str]:
        return sorted(file.stem for file in self.folder.glob("*.jsonl"))

    def names(self) -> set[str]:
        """Return the name of each conversation: ``area/name``."""
        return {f"{one.area}/{one.name}" for one in load(folder=self.folder)}

    def reasons(self, name: str) -> dict[str, str]:
        """Return a list of ours, empty without a file. Shape of its lines: ``area/name: reason``."""
        file = FOLDER / f"{name}{self.suffix}.txt"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
        return {scenario: reason for scenario, _, reason in pairs}

    def replay(self, member: Member, leave_out: Mapping[str, str]) -> list[Outcome]:
        """Hold all conversations with a node but those to leave out."""
        host, _, port = member.address.rpartition(":")
        scenarios = [one for one in load(folder=self.folder) if f"{one.area}/{one.name}" not in leave_out]
        return run_all(Target(host, int(port)), scenarios, JOBS)

    @contextmanager
    def alone(self, folder: Path) -> Iterator[list[Outcome]]:
        """Yield all outcomes of a node alone: a cluster of one, as a standalone node takes no call of members."""
        port = free_ports(1)[0]
        settings = {"rollcall.announce": "false", "nacos.standalone": "false", "nacos.member.list": f"127.0.0.1:{port}"}
        node = Member(port, folder / str(port), {**settings, **self.more})
        try:
            node.start()
            node.wait_ready()
            self.prepare(node)
            yield self.replay(node, self.reasons("differs"))
            node.stop()
        finally:
            node.end()
        assert "Traceback" not in node.log_text()

    @contextmanager
    def through_member(self, folder: Path) -> Iterator[list[Outcome]]:
        """Yield all outcomes of a member that owns about a third of the services and passes the other calls on."""
        cluster = ClusterProcesses(folder, 3, {})
        try:
            cluster.start()
            yield self.replay(cluster.members[1], self.reasons("standalone_only"))
            for member in cluster:
                member.stop()
        finally:
            cluster.end()
        cluster.assert_no_traceback()


def assert_all_pass(outcomes: list[Outcome], area: str) -> None:
    complaints = []
    for outcome in (one for one in outcomes if one.scenario.area == area and one.failure):
        note = f"\n    note: {outcome.scenario.note}" if outcome.scenario.note else ""
        complaints.append(f"{outcome.name} fails:\n    {outcome.failure}{note}")
    assert not complaints, "\n".join(complaints)


def numbers_of(reasons: Mapping[str, str]) -> dict[str, str]:
    """Return how many steps we answer otherwise, by conversation. Shape of a reason: ``number, reason``."""
    parts = {name: text.partition(", ") for name, text in reasons.items()}
    assert all(reason for _, _, reason in parts.values()), "every line gives its reason"
    return {name: number for name, (number, _, _) in parts.items()}
