"""Which buckets of a night the check reads: all, or those whose digests differ, with a few others as a sample.

A bucket need not be read if all compared members have one digest for it, the same in both rounds. Then every member
has the same rows at both moments, and none of them is odd.
"""

import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from app.naming.model.keys import DUMP_BUCKETS
from app.tools.audit.check.evidence import Evidence
from app.tools.audit.format.digests import DIGEST_KIND, Bucket, bucket_in
from app.tools.audit.format.layout import Night
from app.tools.audit.format.manifest import Digests, MemberDump

SHARE_MAX = 0.5
"""The largest share of rows that is read by buckets: above it, reading all costs as much and proves more."""
SAMPLED = 8
"""Buckets with equal digests that are read all the same, chosen at random."""
SUNDAY = 6
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,256}")
UNPROVEN = "all rows were read: those of the sample are not the rows of which the dump has digests"


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Numbers of rows of all compared members and rounds, and of distinct services and instances."""

    rows: int = 0
    service_rows: int = 0
    instance_rows: int = 0
    services: int = 0
    instances: int = 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """The buckets to read, and what the manifests state about the rest.

    ``differing``: those whose digests differ or that are odd; ``sample``: others; ``chosen``: the rows of both as the
    manifests count them. ``agreed``: the numbers of all buckets that are not ``differing``, and ``rest`` those of the
    buckets that are not read.
    """

    differing: frozenset[int]
    sample: frozenset[int]
    chosen: RowCounts
    agreed: RowCounts
    rest: RowCounts

    @property
    def read(self) -> frozenset[int]:
        return self.differing | self.sample

    @property
    def note(self) -> str:
        return (
            f"read by digests: {len(self.differing):,} of {DUMP_BUCKETS:,} buckets of services differ or are odd, "
            f"and {len(self.sample):,} others were read as a sample"
        )

    @property
    def small_note(self) -> str:
        """The note for a night that only its digests and the hashes of its files judge."""
        return "read by digests: they are equal at all members in both rounds, and the files have their hashes"

    def is_proven(self, counted: Mapping[str, int]) -> bool:
        """Return whether the rows of the buckets that were read are those that the digests state.

        ``counted``: as of ``flag.Flagged.counts``.
        """
        found = (counted["rows"], counted["service_rows"], counted["instance_rows"])
        stated = (self.chosen.rows, self.chosen.service_rows, self.chosen.instance_rows)
        return found == stated and not counted["suspect_sampled"]

    def completed(self, counted: Mapping[str, int]) -> dict[str, int]:
        """Return the counts with those of the rows that were not read."""
        return {name: value + getattr(self.rest, name, 0) for name, value in counted.items()}


def is_full_night(night: str) -> bool:
    """Return whether all rows of this night are read, although there are digests: once a week."""
    return date.fromisoformat(night).weekday() == SUNDAY


def agreement(night: Night, evidence: Evidence) -> Agreement | None:
    """Return which buckets to read; None for all rows: the digests do not suffice, or too much differs.

    They do not suffice if a compared member lacks them, or has those of a different rule; or if they do not count
    the rows that the manifest counts. Buckets with an owner that is not compared are read.
    """
    dumps = [dump for address in evidence.members for one in night.rounds if (dump := one.manifest.member(address))]
    found = [dump.digests for dump in dumps if dump.digests is not None and _suffices(dump, dump.digests)]
    if len(found) < len(dumps) or not all(file.part.is_parquet for file in evidence.files):
        return None
    tables = [one.buckets for one in found]
    numbers = sorted({number for table in tables for number in table}, key=int)
    strange = _strangely_owned(found, evidence)
    differing, agreed = set(), {}
    for number in numbers:
        texts = {table.get(number) for table in tables}
        bucket = bucket_in(texts.pop() or "") if len(texts) == 1 else None
        if bucket is None or bucket.is_odd or strange >> int(number) & 1:
            differing.add(int(number))
        else:
            agreed[int(number)] = bucket
    sample = frozenset(secrets.SystemRandom().sample(sorted(agreed), min(SAMPLED, len(agreed))))
    different = _sum([bucket for table in tables for number, bucket in _buckets(table) if number in differing], 1)
    sampled = _sum([agreed[number] for number in sample], len(tables))
    if different.rows > SHARE_MAX * evidence.rows:
        return None
    chosen = _added(different, sampled)
    of_agreed = _sum(list(agreed.values()), len(tables))
    rest = _sum([bucket for number, bucket in agreed.items() if number not in sample], len(tables))
    return Agreement(frozenset(differing), sample, chosen, of_agreed, rest)


def _suffices(dump: MemberDump, digests: Digests) -> bool:
    """Return whether the digests of a member are of this release's kind, and count its rows."""
    if digests.kind != DIGEST_KIND:
        return False
    buckets = list(_buckets(digests.buckets))
    if len(buckets) < len(digests.buckets):
        return False
    counts = _sum([bucket for _, bucket in buckets], 1)
    if (dump.services or dump.instances) and (counts.services, counts.instances) != (dump.services, dump.instances):
        return False
    return counts.rows == sum(part.rows for part in dump.parts)


def _strangely_owned(found: list[Digests], evidence: Evidence) -> int:
    """Return the bits of the buckets with a service whose owner is not compared."""
    bits = 0
    for digests in found:
        for owner, owned in digests.owners.items():
            if owner not in evidence.members:
                bits |= int(owned, 16) if isinstance(owned, str) and _HEXADECIMAL.fullmatch(owned) else -1
    return bits


def _buckets(table: dict[str, str]) -> Iterator[tuple[int, Bucket]]:
    """Yield the numbers and contents of the buckets in a manifest; one that cannot be read is left out."""
    for number, text in table.items():
        bucket = bucket_in(text) if isinstance(text, str) else None
        if bucket is not None and number.isdecimal() and int(number) < DUMP_BUCKETS:
            yield int(number), bucket


def _sum(buckets: list[Bucket], copies: int) -> RowCounts:
    """Return the numbers of rows in these buckets, of which there are so many copies."""
    counts = Counter[str]()
    for bucket in buckets:
        counts.update(rows=bucket.rows, services=bucket.services, instances=bucket.instances)
    services, instances = counts["services"], counts["instances"]
    return RowCounts(counts["rows"] * copies, services * copies, instances * copies, services, instances)


def _added(one: RowCounts, other: RowCounts) -> RowCounts:
    return RowCounts(
        one.rows + other.rows,
        one.service_rows + other.service_rows,
        one.instance_rows + other.instance_rows,
        one.services + other.services,
        one.instances + other.instances,
    )
