"""A look at one link: the instances that each member of a cluster has by it, and those that the other cluster
registered."""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from threading import Event
from typing import IO, Any

from app.config.link_settings import name_here
from app.languages.phrases import phrase
from app.tools.audit.client.access import Access, AccessError, parse_url
from app.tools.audit.compare.compare import ABSENT, Difference, Side, compare
from app.tools.audit.compare.input import CannotCompare, Reading, side_of_spool
from app.tools.audit.compare.linked_live import linked_sides
from app.tools.audit.compare.live import Asked, take_rows
from app.tools.audit.compare.services import NO_FACTS
from app.tools.audit.format.manifest import Link, MemberDump

MEMBERS_AT_ONCE = 8
FINDINGS_MAX = 10_000
"""The most findings of one look that are held, some 500 bytes each; the look is cut there."""
MISSING, EXTRA, STALE, DIFFERS = KINDS = ("missing", "extra", "stale", "differs")
Key = tuple[str, str, str, str, int, bool]
"""The namespace here, service, cluster, ip and port of an instance, and true if it is ephemeral."""


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """A link by its name, and a member of the cluster at its other end; None for the servers of the link."""

    name: str
    there: Asked | None = None


def parse_link(text: str, access: Access) -> LinkEnd:
    """Return the link of ``NAME`` or ``NAME=URL``; the same credentials count at both ends.

    Raises:
        AccessError: there is no name, or the URL is not that of a member.
    """
    name, has_url, url = text.partition("=")
    if not name:
        raise AccessError(
            phrase("%(text)s names no link: give NAME, or NAME=URL with a member of the other cluster", text=repr(text))
        )
    if not has_url:
        return LinkEnd(name)
    scheme, address, path = parse_url(url)
    at = replace(access, scheme=scheme, context_path=access.context_path if path is None else path)
    return LinkEnd(name, Asked(address, at, ()))


@dataclass(frozen=True, slots=True)
class LinkFinding:
    """An instance at one member that is not as the other cluster has it. ``kind``: one of ``KINDS``."""

    kind: str
    member: str
    namespace: str
    service: str
    cluster: str
    ip: str
    port: int
    ephemeral: bool
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class LinkLook:
    """The state of a link at each member that answered, compared with the other cluster."""

    link: Link
    cluster: str
    """The id of the cluster that follows."""
    origin: str
    """The id of the other cluster."""
    instances: int
    """The instances that the link is to bring."""
    findings: tuple[LinkFinding, ...] = ()
    heard_ago_ms: int = 0
    """How long ago the member that heard the other cluster least heard it."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """The members that could not be compared, with the reason."""
    is_cut: bool = False
    """True if there are more findings than are held."""

    @property
    def services(self) -> list[tuple[str, str]]:
        """Return the services with a finding, by their names here, each once."""
        return sorted({(one.namespace, one.service) for one in self.findings})

    def of_services(self, names: Collection[tuple[str, str]]) -> "LinkLook":
        """Return this look with the findings of these services alone."""
        return replace(self, findings=tuple(one for one in self.findings if (one.namespace, one.service) in names))

    def carried(self) -> dict[str, Any]:
        """Return the counts of the link. Shape: as one of ``Summary.links``."""
        by_kind = Counter(one.kind for one in self.findings)
        lacking = Counter(one.member for one in self.findings if one.kind == MISSING)
        worst = Counter(one.member for one in self.findings).most_common(1)
        return {
            "link": self.link.name,
            "cluster": self.cluster or "this cluster",
            "origin": self.origin or self.link.name,
            "instances": self.instances,
            "lacking": max(lacking.values(), default=0),
            "findings": len(self.findings),
            **{kind: by_kind[kind] for kind in KINDS},
            "member": worst[0][0] if worst else "",
            "heard_ago_ms": self.heard_ago_ms,
        }


def lasting_look(first: LinkLook, second: LinkLook) -> LinkLook:
    """Return the second look with the findings that the first one has alike: all others may be changes under way."""
    before = set(first.findings)
    found = tuple(one for one in second.findings if one in before)
    return replace(
        second, findings=found, absent={**first.absent, **second.absent}, is_cut=first.is_cut or second.is_cut
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """The rows of one member, and everything else of its dump."""

    asked: str
    dump: MemberDump
    spool: IO[bytes]


def look_at_link(end: LinkEnd, members: Sequence[str], access: Access, stop: Event) -> LinkLook:
    """Ask all members for the instances of a link, and one member of the other cluster for its registrations.

    Rows are in temporary files. A member that does not answer, or has no such link, is absent.

    Raises:
        CannotCompare: no member has the link, the other cluster did not answer, or it is not the one that is followed.
    """
    with contextlib.ExitStack() as stack:
        taken, absent = _of_members(end.name, members, access, stack, stop)
        having = {one.asked: link for one in taken if (link := _link_of(one.dump, end.name)) is not None}
        if not having:
            reasons = "; ".join(f"{address}: {reason}" for address, reason in absent.items())
            raise CannotCompare(reasons or f"no member has a link {end.name!r}")
        link = next((one for one in having.values() if one.cluster), next(iter(having.values())))
        there = _other_side(end, link, access, stack, stop)
        sides = [one for one in taken if one.asked in having]
        absent |= {one.asked: f"it has no link {end.name!r}" for one in taken if one.asked not in having}
        findings, instances, is_cut = _findings(sides, there, link)
        heard_ago_ms = max(one.heard_ago_ms for one in having.values())
        cluster = next((one.dump.cluster for one in sides if one.dump.cluster), "")
        return LinkLook(link, cluster, there.dump.cluster, instances, findings, heard_ago_ms, absent, is_cut)


def _link_of(dump: MemberDump, name: str) -> Link | None:
    return next((one for one in dump.links if one.name == name), None)


def _of_members(
    name: str, members: Sequence[str], access: Access, stack: contextlib.ExitStack, stop: Event
) -> tuple[list[_Taken], dict[str, str]]:
    taken, absent = list[_Taken](), dict[str, str]()
    with ThreadPoolExecutor(max(1, min(len(members), MEMBERS_AT_ONCE)), thread_name_prefix="link-look") as pool:
        spools = {address: _spool(stack) for address in members}
        futures = {
            address: pool.submit(take_rows, Asked(address, access, ()), spool, stop, name)
            for address, spool in spools.items()
        }
        for address, future in futures.items():
            try:
                taken.append(_Taken(address, future.result(), spools[address]))
            except CannotCompare as error:
                absent[address] = str(error)
    return taken, absent


def _spool(stack: contextlib.ExitStack) -> IO[bytes]:
    return stack.enter_context(tempfile.TemporaryFile(prefix="rollcall-"))


def _other_side(end: LinkEnd, link: Link, access: Access, stack: contextlib.ExitStack, stop: Event) -> _Taken:
    """Return the rows of the first member of the other cluster that answers.

    Raises:
        CannotCompare: none answers, it is not a Rollcall member, or it belongs to another cluster than the link
        follows.
    """
    asked = [end.there] if end.there is not None else [Asked(one, access, ()) for one in link.servers]
    reasons = []
    for one in asked:
        spool = _spool(stack)
        try:
            taken = _Taken(one.address, take_rows(one, spool, stop, None, names_cluster=True), spool)
        except CannotCompare as error:
            reasons.append(str(error))
            continue
        if taken.dump.kind != "rollcall":
            raise CannotCompare(
                phrase(
                    "%(address)s is not a Rollcall member: only links between Rollcall clusters are judged",
                    address=one.address,
                )
            )
        if link.cluster and taken.dump.cluster != link.cluster:
            text = f"{one.address} belongs to the cluster {taken.dump.cluster!r}, and the link follows {link.cluster!r}"
            raise CannotCompare(text)
        return taken
    raise CannotCompare("; ".join(reasons) or f"no member knows the servers of link {end.name!r}: give NAME=URL")


def _findings(members: Iterable[_Taken], there: _Taken, link: Link) -> tuple[tuple[LinkFinding, ...], int, bool]:
    """Return the findings of all members, how many instances the link is to bring, and whether findings are cut."""
    found, instances = list[LinkFinding](), 0
    other = _side(there)
    for one in members:
        here, registered = linked_sides(_side(one), other, [link], link.name)
        if not instances:
            instances = sum(1 for _ in registered.rows())
        for finding in _of_member(one, here, registered, link):
            if len(found) == FINDINGS_MAX:
                return tuple(found), instances, True
            found.append(finding)
    return tuple(found), instances, False


def _side(taken: _Taken) -> Side:
    return side_of_spool(taken.dump.address or taken.asked, taken.spool, Reading.of(None, None), NO_FACTS)


def _of_member(taken: _Taken, here: Side, registered: Side, link: Link) -> Iterator[LinkFinding]:
    """Yield the findings of one member: what is stale first, and nothing else of the same instance."""
    stale = set[Key]()
    for row in _side(taken).rows():
        if row.get("silent_ms") is None:
            continue
        if len(stale) == FINDINGS_MAX:
            break
        one: Key = (row["namespace"], row["service"], row["cluster"], row["ip"], row["port"], row["ephemeral"])
        stale.add(one)
        yield LinkFinding(STALE, taken.asked, *one, "stale", "heard")
    for key, differences in groupby(compare(here, registered), lambda found: _key_here(found, link)):
        if key is not None and key not in stale:
            yield _finding(taken.asked, key, list(differences))


def _key_here(one: Difference, link: Link) -> Key | None:
    """Return the instance that differs, by its name here; None for a difference of something else."""
    namespace = name_here(link.namespace_map, one.namespace)
    if one.port is None or one.ephemeral is None or namespace is None:
        return None
    return namespace, one.service, one.cluster, one.ip, one.port, one.ephemeral


def _finding(member: str, key: Key, differences: Sequence[Difference]) -> LinkFinding:
    first = differences[0]
    if ABSENT in (first.a, first.b):
        return LinkFinding(MISSING if first.a == ABSENT else EXTRA, member, *key, first.a, first.b)
    found, expected = (
        ", ".join(f"{one.finding_class.value.lower()} {value}" for one, value in zip(differences, values, strict=True))
        for values in ([one.a for one in differences], [one.b for one in differences])
    )
    return LinkFinding(DIFFERS, member, *key, found, expected)
