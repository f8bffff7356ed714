"""The evidence of a night before any row is read: the members that were dumped, sound files, and member lists."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from app.rows.rows import EXTRA_KINDS, FIELDS
from app.tools.audit.check.member_lists import (
    NotDumped,
    absent_finding,
    addresses_of,
    known_owners,
    membership,
    not_dumped,
    why_not_comparable,
)
from app.tools.audit.format.findings import FindingClass, finding
from app.tools.audit.format.layout import Night, NoDump
from app.tools.audit.format.manifest import DumpState, MemberDump, Part

MEMBERS_MAX = 124
"""The most members of a check. Each has a bit for each of two rounds, and the masks of 31 fit a 64-bit number."""


@dataclass(frozen=True, slots=True)
class File:
    """A part with its member and round, as the manifest describes it. ``path`` is the full path in the file system."""

    member: str
    round: int
    path: str
    part: Part


@dataclass(frozen=True, slots=True)
class Family:
    """The numbers of the members of a single kind; ``telling``: those whose release gives records and clients.

    Where no manifest says that its member gives them, all members may.
    """

    members: tuple[int, ...]
    telling: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The members and files of a night that can be compared, and the findings for which no row is read."""

    night: str
    run: str
    taken_at: tuple[str, ...]
    """The moment of each round, as in its manifest."""
    members: tuple[str, ...]
    """Addresses of the members whose rows are compared: dumped in every round, all files sound."""
    folders: Mapping[str, str]
    """The name of each compared member's folder, by address; without those that hold nothing."""
    files: tuple[File, ...]
    empty: frozenset[int] = frozenset()
    """Numbers of the members that answered and hold nothing: they lost all, and their state counts for nothing."""
    families: Mapping[str, "Family"] = field(default_factory=dict)
    """The compared members by kind."""
    known_owners: frozenset[str] = frozenset()
    """The addresses that may own a service: of all members of the dump, and of all in their lists."""
    not_dumped: NotDumped = field(default_factory=NotDumped)
    """The members that are listed and not in the dump."""
    findings: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The rows of all files, as their manifests say."""
        return sum(file.part.rows for file in self.files)

    @property
    def everyone(self) -> str:
        """SQL of the array of all members' numbers."""
        return f"array({', '.join(map(str, range(len(self.members))))})"

    @property
    def voters(self) -> str:
        """SQL of the array of the numbers of the members that hold something."""
        numbers = [str(number) for number in range(len(self.members)) if number not in self.empty]
        return f"CAST(array({', '.join(numbers)}) AS array<int>)"


def in_round(path: str) -> str:
    """Return a file's path from ``taken_at=`` on, equal in Spark and fsspec, whose schemes and slashes differ."""
    return path[path.index("taken_at=") :]


def files_of(night: Night) -> list[File]:
    """Return every file that the manifests of a night name."""
    return [
        File(member.address, one.manifest.round, f"{one.folder}/{part.path}", part)
        for one in night.rounds
        for member in one.manifest.members
        for part in member.parts
    ]


def weigh(night: Night, damaged: Mapping[str, str]) -> Evidence:
    """Return the evidence of a night: the members and files to compare, and the findings that need no rows.

    ``damaged``: how a file departs from its manifest, by path.

    Raises:
        NoDump: fewer than two members are left, or more than ``MEMBERS_MAX``; or parts are of one member, or of
            another moment. The text says why.
    """
    if reason := why_not_comparable(night):
        raise NoDump(reason)
    files = files_of(night)
    addresses = addresses_of(night)
    bad_members = {file.member for file in files if file.path in damaged}
    findings = [_corrupt(file, damaged[file.path]) for file in files if file.path in damaged]
    compared = []
    for address in addresses:
        dumps = [one.manifest.member(address) for one in night.rounds]
        if absent := _absent(address, dumps):
            findings.append(absent)
        elif address not in bad_members:
            compared.append(address)
    if len(compared) < 2:
        problems = [f"{one['member']}: {one['detail']}" for one in findings]
        raise NoDump("; ".join([f"only {len(compared)} of {len(addresses)} members can be compared", *problems]))
    if len(compared) > MEMBERS_MAX:
        raise NoDump(f"the dump has {len(compared)} members; one check compares at most {MEMBERS_MAX}")
    unasked = not_dumped(night)
    findings += [*membership(night), *map(absent_finding, unasked.absent)]
    sound = tuple(file for file in files if file.member in compared)
    folders = {file.member: file.part.path.partition("/")[0] for file in sound}
    empty = [number for number, address in enumerate(compared) if _holds_nothing(night, address)]
    return Evidence(
        night.date,
        night.rounds[0].manifest.run,
        tuple(one.manifest.taken_at for one in night.rounds),
        tuple(compared),
        folders,
        sound,
        frozenset(empty),
        _families(night, compared),
        known_owners(night),
        unasked,
        findings,
        [
            *night.notes,
            *filter(None, [unasked.note]),
            *[f"{compared[number]} answered, but has no data" for number in empty],
            *unknown_fields("the dump", {name for one in night.rounds for name in one.manifest.fields}),
            *[
                note
                for member in night.rounds[0].manifest.members
                for note in unknown_fields(f"the dump of {member.address}", set(member.unknown_fields))
            ],
        ],
    )


def _holds_nothing(night: Night, address: str) -> bool:
    dumps = [one.manifest.member(address) for one in night.rounds]
    return not any(dump and (dump.services or dump.instances or dump.parts) for dump in dumps)


def _families(night: Night, compared: list[str]) -> dict[str, Family]:
    kinds: dict[str, list[int]] = {}
    telling: dict[str, list[int]] = {}
    for number, address in enumerate(compared):
        dumps = [dump for one in night.rounds if (dump := one.manifest.member(address)) is not None]
        kinds.setdefault(dumps[0].kind, []).append(number)
        if all(EXTRA_KINDS & set(dump.tells) for dump in dumps):
            telling.setdefault(dumps[0].kind, []).append(number)
    return {kind: Family(tuple(members), tuple(telling.get(kind, members))) for kind, members in kinds.items()}


def miscounted(evidence: Evidence, counted: Mapping[str, int]) -> dict[str, str]:
    """Return the files with another number of rows than their manifests say. Shape: path to the fault, in words.

    ``counted``: the number of rows by path, from the round on (see ``in_round``).
    """
    return {
        file.path: miscount(rows, file)
        for file in evidence.files
        if (rows := counted.get(in_round(file.path), 0)) != file.part.rows
    }


def miscount(rows: int, file: File) -> str:
    """Return the fault of a file with so many rows, in words."""
    return f"the file has {rows} rows, but its manifest says {file.part.rows}"


def unknown_fields(where: str, names: Set[str]) -> list[str]:
    """Return one note that names the fields unknown here; none when all are known."""
    unknown = sorted(names - FIELDS.keys())
    return [f"{where} has unknown fields, which are not compared: {', '.join(unknown)}"] if unknown else []


def _corrupt(file: File, detail: str) -> dict[str, Any]:
    text = f"round {file.round}, {file.part.path}: {detail}"
    return finding(FindingClass.CORRUPT, True, file.member, detail=text)


def _absent(address: str, dumps: list[MemberDump | None]) -> dict[str, Any] | None:
    missing = [one for one in dumps if one is None or one.state is DumpState.ABSENT]
    if not missing:
        return None
    error = next((one.error for one in missing if one and one.error), "no manifest of that round names it")
    if len(missing) < len(dumps):
        error = f"in one round only: {error}"
    # In one round only too: without the member's state no caller can say that the members agree.
    return finding(FindingClass.ABSENT_MEMBER, True, address, detail=error)
