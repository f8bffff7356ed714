"""Findings in words: what a class means, what a member lacks or has, and which classes come first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.languages.catalogues import N_
from app.languages.phrases import Phrase, phrase
from app.rows.summary import Summary
from app.tools.audit.format.findings import FindingClass

MEANINGS: dict[str, str] = {
    FindingClass.ABSENT_MEMBER: N_("The member did not answer in a round or in both, or is listed and was not asked."),
    FindingClass.CORRUPT: N_("Rows are unreadable or do not fit each other, or a file does not match its manifest."),
    FindingClass.MEMBERSHIP: N_("Two members list different members, or different states of them."),
    FindingClass.SILENT_CORRUPTION: N_(
        "Members have different values under one version, which replication notices late."
    ),
    FindingClass.MISSING: N_("The owner, or most members, have the instance; the member lacks it."),
    FindingClass.EXTRA: N_("The member has an instance that the owner, or most of the members, lacks."),
    FindingClass.LINK: N_(
        "What a link brought is not what the linked cluster has: missing, extra, stale, or different."
    ),
    FindingClass.HEALTH: N_("Members differ on whether the instance is healthy."),
    FindingClass.ENABLED: N_("Members differ on whether the instance takes traffic."),
    FindingClass.DRIFT: N_("Inside one member, the replicated state and the clients' view differ."),
    FindingClass.WEIGHT: N_("Members differ on the weight of the instance."),
    FindingClass.METADATA: N_("Members differ on the metadata of the instance."),
    FindingClass.STALE: N_("The owner still has an instance that it has not heard of for too long."),
    FindingClass.RECORD: N_("Members differ on the switches or a namespace, which belong to the whole cluster."),
    FindingClass.SETTINGS: N_(
        "Members differ on metadata, protect threshold, selector or checks of the service itself."
    ),
    FindingClass.OWNER: N_("Two members claim to be responsible for a service, none does, or one names a wrong one."),
    FindingClass.CLIENT: N_("Members differ on a gRPC client: some lack it, or have another revision of it."),
    FindingClass.SERVICE: N_("Only some members have the service, which has no instances."),
    FindingClass.DUPLICATE: N_("One address is twice in a service, or in services of one name in several groups."),
    FindingClass.BEHIND: N_("The member has the same values under an earlier version, and stays behind."),
}
"""Each class's meaning, ordered by severity: whole members without a known state first, then values that changed
without a version, instances that clients cannot find or cannot reach, their values, settings of services and clients,
and versions last.
"""
BY_SEVERITY = tuple(FindingClass(name) for name in MEANINGS)
UNKNOWN = frozenset({FindingClass.ABSENT_MEMBER, FindingClass.CORRUPT})
"""Classes of a member that is not compared, as its state is not known."""

_OF_MEMBER: dict[str, tuple[str, str]] = {
    FindingClass.ABSENT_MEMBER: (N_("did not answer"), N_("did not answer")),
    FindingClass.CORRUPT: (N_("gave a damaged dump"), N_("gave a damaged dump")),
    FindingClass.MEMBERSHIP: (
        N_("has another member list than %(count)s member"),
        N_("has another member list than %(count)s members"),
    ),
    FindingClass.MISSING: (N_("lacks %(count)s instance"), N_("lacks %(count)s instances")),
    FindingClass.EXTRA: (N_("has %(count)s that it should not have"), N_("has %(count)s that it should not have")),
    FindingClass.LINK: (
        N_("departs from a linked cluster in %(count)s instance"),
        N_("departs from linked clusters in %(count)s instances"),
    ),
    FindingClass.HEALTH: (N_("differs on the health of %(count)s"), N_("differs on the health of %(count)s")),
    FindingClass.ENABLED: (
        N_("differs on whether %(count)s takes traffic"),
        N_("differs on whether %(count)s take traffic"),
    ),
    FindingClass.DRIFT: (
        N_("shows clients another state of %(count)s than it replicates"),
        N_("shows clients another state of %(count)s than it replicates"),
    ),
    FindingClass.SILENT_CORRUPTION: (
        N_("has %(count)s changed under an old version"),
        N_("has %(count)s changed under old versions"),
    ),
    FindingClass.WEIGHT: (N_("differs on the weight of %(count)s"), N_("differs on the weight of %(count)s")),
    FindingClass.METADATA: (N_("differs on the metadata of %(count)s"), N_("differs on the metadata of %(count)s")),
    FindingClass.STALE: (N_("keeps %(count)s that fell silent"), N_("keeps %(count)s that fell silent")),
    FindingClass.RECORD: (
        N_("differs on %(count)s record of the cluster"),
        N_("differs on %(count)s records of the cluster"),
    ),
    FindingClass.SETTINGS: (
        N_("differs on the settings of %(count)s service"),
        N_("differs on the settings of %(count)s services"),
    ),
    FindingClass.OWNER: (N_("disputes the owner of %(count)s service"), N_("disputes the owner of %(count)s services")),
    FindingClass.CLIENT: (N_("differs on %(count)s gRPC client"), N_("differs on %(count)s gRPC clients")),
    FindingClass.SERVICE: (N_("differs on %(count)s empty service"), N_("differs on %(count)s empty services")),
    FindingClass.DUPLICATE: (N_("has %(count)s address twice"), N_("has %(count)s addresses twice")),
    FindingClass.BEHIND: (N_("is behind on %(count)s version"), N_("is behind on %(count)s versions")),
}
"""The words for a member's findings of a class, for one finding and for several."""
OF_INSTANCES = frozenset(
    {
        FindingClass.MISSING,
        FindingClass.EXTRA,
        FindingClass.HEALTH,
        FindingClass.ENABLED,
        FindingClass.DRIFT,
        FindingClass.SILENT_CORRUPTION,
        FindingClass.WEIGHT,
        FindingClass.METADATA,
        FindingClass.STALE,
        FindingClass.BEHIND,
    }
)
"""Classes with one finding for each instance and member, so that their number is a share of the service's instances."""
OF_WHOLE = frozenset({FindingClass.ABSENT_MEMBER, FindingClass.CORRUPT, FindingClass.MEMBERSHIP})
"""Classes of whole members, which no sample leaves out."""
CLASSES_IN_WORDS_MAX = 3


@dataclass(frozen=True, slots=True)
class SickMember:
    """A member with lasting findings, in words. ``new``: how many are of tonight; ``first_seen``: of the oldest."""

    address: str
    words: str
    findings: int
    new: int
    first_seen: str
    nights_open: int
    is_unknown: bool = False
    """True if it could not be compared, so that its state is unknown."""


def meaning_of(finding_class: str) -> str:
    """Return what the class means; empty for a class that this version does not know."""
    return MEANINGS.get(finding_class, "")


def done_by(finding_class: str, count: int, of: object = None, *, at_least: bool = False) -> Phrase:
    """Return what a member with ``count`` findings of a class does; ``of``: how many instances the service has.

    ``at_least``: the findings are those of a sample, so that there are more.
    """
    one, many = _OF_MEMBER.get(finding_class, (N_("has %(count)s finding"), N_("has %(count)s findings")))
    counted = f"{count:,}"
    if not isinstance(of, int) or finding_class not in OF_INSTANCES or finding_class == FindingClass.EXTRA:
        return _with_count(one if count == 1 and not at_least else many, counted, at_least)
    if finding_class == FindingClass.MISSING and count >= of > 0:
        return phrase("lost its only instance") if count == 1 else phrase("lost all %(count)s instances", count=counted)
    share = phrase("%(part)s of %(total)s", part=counted, total=f"{of:,}")
    return _with_count(one if max(count, of) == 1 else many, share, at_least)


def _with_count(message: str, counted: str, at_least: bool) -> Phrase:
    return phrase(message, count=phrase("at least %(findings)s", findings=counted) if at_least else counted)


LINKS_IN_WORDS_MAX = 3


def links_in_words(summary: Summary) -> list[str]:
    """Return how the links with findings depart, such as "dc-a lacks 3 of 1,204 of dc-b"; the worst first."""
    bad = [one for one in summary.links if one.get("findings")]
    bad.sort(key=lambda one: -int(one["findings"]))
    return [_of_link(one) for one in bad[:LINKS_IN_WORDS_MAX]]


def _of_link(one: Mapping[str, Any]) -> str:
    said = [f"lacks {one['lacking']:,} of {one['instances']:,}"] if one.get("lacking") else []
    said += [f"has {one[kind]:,} {text}" for kind, text in _OF_LINK.items() if one.get(kind)]
    silent = f", last heard {one['heard_ago_ms'] // 1_000:,} s before" if one.get("stale") else ""
    return f"{one['cluster']} {', '.join(said)} of {one['origin']}{silent}"


_OF_LINK = {"extra": "too many", "stale": "stale", "differs": "with other values"}


def sick_members(summary: Summary) -> list[SickMember]:
    """Return the members with lasting findings, those with the worst class and with most findings first."""
    by_member: dict[str, list[Mapping[str, Any]]] = {}
    for row in summary.by_member:
        by_member.setdefault(str(row.get("member")), []).append(row)
    found = [(address, [row for row in rows if not _is_excused(row, summary)]) for address, rows in by_member.items()]
    ranked = sorted(((address, rows) for address, rows in found if rows), key=_rank)
    return [_in_words(address, rows, summary.sampled) for address, rows in ranked]


def corrupted_members(summary: Summary) -> list[str]:
    """Return the members that hold values which changed without a new version: the finding that replication cannot see.

    It is named before any count, among which a single one would be overlooked.
    """
    rows = [row for row in summary.by_member if row.get("finding_class") == FindingClass.SILENT_CORRUPTION]
    return sorted(str(row.get("member")) for row in rows)


def _is_excused(row: Mapping[str, Any], summary: Summary) -> bool:
    """Return whether a finding should be blamed on others.

    Clients, and not members, register an address twice. Of three member lists, two agree, and the third differs: it is
    the one that differs from more lists.
    """
    if row.get("finding_class") == FindingClass.DUPLICATE:
        return True
    if row.get("finding_class") != FindingClass.MEMBERSHIP:
        return False
    most = max(
        one.get("findings") or 0 for one in summary.by_member if one.get("finding_class") == FindingClass.MEMBERSHIP
    )
    return (row.get("findings") or 0) < most


def _rank(found: tuple[str, Sequence[Mapping[str, Any]]]) -> tuple[Any, ...]:
    address, rows = found
    is_unknown = any(row.get("finding_class") in UNKNOWN for row in rows)
    return not is_unknown, -sum(row.get("findings") or 0 for row in rows), address


def _joined(parts: Sequence[str]) -> str:
    first, *rest = parts
    return phrase("%(first)s, %(rest)s", first=first, rest=_joined(rest)) if rest else first


def _in_words(address: str, rows: Sequence[Mapping[str, Any]], at_least: bool) -> SickMember:
    """``rows``: those of ``Summary.by_member``, the worst class first; ``at_least``: of a sample."""
    counts = [(str(row.get("finding_class")), row.get("findings") or 0) for row in rows]
    said = [
        done_by(name, count, at_least=at_least and name not in OF_WHOLE)
        for name, count in counts[:CLASSES_IN_WORDS_MAX]
    ]
    if rest := sum(count for _, count in counts[CLASSES_IN_WORDS_MAX:]):
        further = N_("and has %(count)s further finding") if rest == 1 else N_("and has %(count)s further findings")
        said.append(phrase(further, count=f"{rest:,}"))
    return SickMember(
        address,
        _joined(said),
        sum(count for _, count in counts),
        sum(row.get("new") or 0 for row in rows),
        min((str(row["first_seen"]) for row in rows if row.get("first_seen")), default=""),
        max(row.get("nights_open") or 0 for row in rows),
        all(name in UNKNOWN for name, _ in counts),
    )
