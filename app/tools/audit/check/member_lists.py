"""The manifests of a night against each other: its members' lists, their names, and the moments of their parts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from app.tools.audit.format.findings import FindingClass, finding
from app.tools.audit.format.layout import Night, Round, taken_at_ms
from app.tools.audit.format.manifest import DumpState, MemberDump

UP = "UP"
NAMES_MAX = 5
"""The most addresses in a note."""
CLOCK_SLACK_MS = 1_000
"""How much a clock may be set back during a round, if the gap is even shorter."""


@dataclass(frozen=True, slots=True)
class NotDumped:
    """Members that dumped members list, and that are not in the dump.

    ``absent``: those that every list has as UP in every round. ``others``: how many more there are at least; of
    members that are dumped under a name that no list has, one may be each of these.
    """

    absent: tuple[str, ...] = ()
    others: int = 0
    note: str = ""


def addresses_of(night: Night) -> list[str]:
    """Return the addresses of all members of the dump, absent ones included, in order."""
    return sorted({member.address for one in night.rounds for member in one.manifest.members})


def known_owners(night: Night) -> frozenset[str]:
    """Return the addresses that may own a service: of members of the dump, and of members in any list."""
    return frozenset(addresses_of(night)) | frozenset().union(*_lists(night))


def _lists(night: Night) -> list[dict[str, str]]:
    """Return each list that a dumped member gives in a round. Shape: address to state."""
    dumps = [member for one in night.rounds for member in one.manifest.members]
    return [
        {seen.address: seen.state for seen in dump.members}
        for dump in dumps
        if dump.state is DumpState.DUMPED and dump.members
    ]


def not_dumped(night: Night) -> NotDumped:
    """Return the members that are listed and not dumped."""
    lists, dumped = _lists(night), set(addresses_of(night))
    listed = set().union(*lists)
    missing = sorted(listed - dumped)
    unlisted = sorted(dumped - listed) if lists else []
    others = len(missing) - len(unlisted)
    if others <= 0:
        return NotDumped()
    if unlisted:
        note = f"listed, but not dumped by that name: {_some(missing)}; dumped, but in no list: {_some(unlisted)}"
        return NotDumped(others=others, note=note)
    absent = tuple(address for address in missing if all(one.get(address) == UP for one in lists))
    rest = [address for address in missing if address not in absent]
    note = f"listed by some members or not as UP, and not in the dump: {_some(rest)}" if rest else ""
    return NotDumped(absent, len(rest), note)


def absent_finding(address: str) -> dict[str, Any]:
    """Return the ABSENT_MEMBER finding of a member that was not asked."""
    detail = "every dumped member lists it as UP, and it is not in the dump: name it in --members"
    return finding(FindingClass.ABSENT_MEMBER, True, address, detail=detail)


def _some(addresses: list[str]) -> str:
    more = f" and {len(addresses) - NAMES_MAX} more" if len(addresses) > NAMES_MAX else ""
    return ", ".join(addresses[:NAMES_MAX]) + more


def why_not_comparable(night: Night) -> str:
    """Return why the parts of a night must not be compared; empty if they may."""
    found = [text for one in night.rounds for text in (*_twins(one), *_old_parts(one))]
    return "; ".join(dict.fromkeys(found))


def _twins(one: Round) -> Iterator[str]:
    """Yield the members of a round that are one: of one own address, or of one name."""
    own: dict[str, str] = {}
    names = set()
    for member in one.manifest.members:
        if member.address in names:
            yield f"the manifest of round {one.manifest.round} has {member.address} twice"
        names.add(member.address)
        if member.own_address and (other := own.setdefault(member.own_address, member.address)) != member.address:
            yield f"{other} and {member.address} are one member, {member.own_address}"


def _old_parts(one: Round) -> Iterator[str]:
    """Yield the parts that are older than their round: their rows are those of another moment."""
    manifest = one.manifest
    allowed_ms = max(manifest.gap_s * 1_000, CLOCK_SLACK_MS)
    for member in manifest.members:
        early_ms = taken_at_ms(manifest.taken_at) - member.taken_ms
        if member.state is DumpState.DUMPED and member.taken_ms and early_ms >= allowed_ms:
            yield (
                f"the part of {member.address} in round {manifest.round} was taken {early_ms / 1_000:,.0f} s before "
                f"those of the others, and the gap is {manifest.gap_s:g} s"
            )


def membership(night: Night) -> list[dict[str, Any]]:
    """Return MEMBERSHIP findings: one for each pair of members whose lists differ."""
    found = []
    for one, other in combinations(addresses_of(night), 2):
        differing = [text for round_ in night.rounds if (text := _views_differ(round_, one, other))]
        if differing:
            lasting = len(differing) == len(night.rounds)
            found.append(
                finding(FindingClass.MEMBERSHIP, lasting, other, reference=one, detail=differing[-1][2])
                | {"found": differing[-1][1], "expected": differing[-1][0]}
            )
    return found


def _views_differ(round_: Round, one: str, other: str) -> tuple[str, str, str] | None:
    """Return how the lists of two members differ in a round; None if they agree, or if a member gave no list.

    Shape: entries that only ``one`` lists, entries that only ``other`` lists, and both in a sentence.
    """
    views = []
    for address in (one, other):
        dump: MemberDump | None = round_.manifest.member(address)
        if dump is None or not dump.members:
            return None
        views.append({f"{seen.address} {seen.state}" for seen in dump.members})
    if views[0] == views[1]:
        return None
    left, right = (", ".join(sorted(mine - theirs)) or "no others" for mine, theirs in (views, views[::-1]))
    return left, right, f"{one} lists {left}; {other} lists {right}"
