"""The list of survivors that no test shall notice, and the score without them."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.mutation.mutants import Mutant, Outcome


@dataclass(frozen=True, slots=True)
class Accepted:
    """One entry of the list: mutants of one line of a function. Lines may move, their text may not change."""

    file: str
    function: str
    """With its class: ``PeerQueue.sent``."""
    was: str
    """The changed lines as they are, stripped and with spaces between."""
    reason: str
    becomes: str | None = None
    """These lines in the mutant; without it all mutants of the line are accepted."""

    def covers(self, file: str, mutant: Mutant) -> bool:
        """Return whether this entry is about the mutant."""
        same = (self.file, self.function, self.was) == (file, mutant.function, mutant.was)
        return same and self.becomes in (None, mutant.becomes)


def read(path: Path) -> list[Accepted]:
    """Read the list. Shape: ``[[accepted]]`` with the keys file, function, was, reason and, if need be, becomes.

    Raises:
        TypeError: an entry lacks a key, or has another.
        ValueError: the file is no TOML, or an entry gives no reason.
    """
    entries = [Accepted(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("accepted", [])]
    for entry in entries:
        if not entry.reason.strip():
            raise ValueError(f"{entry.file}, {entry.function}: {entry.was!r} is accepted without a reason")
    return entries


@dataclass(slots=True)
class Score:
    """How many mutants there are of some code, and what became of them."""

    mutants: int = 0
    refused: int = 0
    killed: int = 0
    timed_out: int = 0
    survived: int = 0
    """Without the accepted ones."""
    accepted: int = 0
    unchecked: int = 0

    def add(self, outcome: Outcome, accepted: bool) -> None:
        """Count a mutant."""
        self.mutants += 1
        match outcome:
            case Outcome.REFUSED:
                self.refused += 1
            case Outcome.KILLED:
                self.killed += 1
            case Outcome.TIMED_OUT:
                self.timed_out += 1
            case Outcome.UNCHECKED:
                self.unchecked += 1
            case Outcome.SURVIVED if accepted:
                self.accepted += 1
            case Outcome.SURVIVED:
                self.survived += 1

    @property
    def percent(self) -> float:
        """The share that the tests noticed, of the mutants that they were asked about and nobody accepted."""
        asked = self.killed + self.timed_out + self.survived
        return 100 * (self.killed + self.timed_out) / asked if asked else 100.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The scores and survivors of some files."""

    by_file: dict[str, Score]
    total: Score
    survivors: list[tuple[str, Mutant]]
    """Survivors that no entry accepts, each with its file."""
    stale: list[Accepted]
    """Entries about these files that no survivor matches."""


def judge(mutants: Mapping[str, Collection[Mutant]], accepted: Collection[Accepted]) -> Judgement:
    """Count mutants, given by file, for each file and in total, and compare the survivors with the accepted ones."""
    judgement = Judgement({file: Score() for file in mutants}, Score(), [], [])
    used = set()
    for file, mutant in ((file, mutant) for file, of_file in mutants.items() for mutant in of_file):
        survived = mutant.outcome is Outcome.SURVIVED
        entries = {one for one in accepted if survived and one.covers(file, mutant)}
        used |= entries
        if survived and not entries:
            judgement.survivors.append((file, mutant))
        for score in (judgement.by_file[file], judgement.total):
            score.add(mutant.outcome, bool(entries))
    known = {file for file, score in judgement.by_file.items() if score.mutants and not score.unchecked}
    judgement.stale.extend(one for one in accepted if one.file in known and one not in used)
    return judgement
