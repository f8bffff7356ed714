"""The list of accepted survivors, which no test needs to notice, and the score without them."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.mutation.mutants import Mutant, Outcome


@dataclass(frozen=True, slots=True)
class Accepted:
    """One entry of the list: mutants of one line of a function. The line may move, but its text must not change."""

    file: str
    function: str
    """Name of the function with its class: ``PeerQueue.sent``."""
    was: str
    """The original lines, stripped and joined by spaces."""
    reason: str
    becomes: str | None = None
    """These lines in the mutant; without it all mutants of the line are accepted."""

    def covers(self, file: str, mutant: Mutant) -> bool:
        """Return whether this entry matches the mutant."""
        same = (self.file, self.function, self.was) == (file, mutant.function, mutant.was)
        return same and self.becomes in (None, mutant.becomes)


def read(path: Path) -> list[Accepted]:
    """Read the list. Shape: ``[[accepted]]`` with the keys file, function, was, reason and, if need be, becomes.

    Raises:
        TypeError: an entry lacks a key, or has an unknown one.
        ValueError: the file is not TOML, or an entry gives no reason.
    """
    entries = [Accepted(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("accepted", [])]
    for entry in entries:
        if not entry.reason.strip():
            raise ValueError(f"{entry.file}, {entry.function}: {entry.was!r} is accepted without a reason")
    return entries


@dataclass(slots=True)
class Score:
    """The number of mutants of some code, by outcome."""

    mutants: int = 0
    refused: int = 0
    killed: int = 0
    timed_out: int = 0
    survived: int = 0
    """Survivors without the accepted ones."""
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
        """The share of mutants that the tests noticed, of those checked and not accepted."""
        asked = self.killed + self.timed_out + self.survived
        return 100 * (self.killed + self.timed_out) / asked if asked else 100.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The scores and survivors of some files."""

    by_file: dict[str, Score]
    total: Score
    survivors: list[tuple[str, Mutant]]
    """Survivors without an entry, each with its file."""
    stale: list[Accepted]
    """Entries for these files without a matching survivor."""


def judge(mutants: Mapping[str, Collection[Mutant]], accepted: Collection[Accepted]) -> Judgement:
    """Count mutants, given by file, for each file and in total; compare the survivors with the accepted ones."""
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
