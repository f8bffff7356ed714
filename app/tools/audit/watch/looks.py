"""Two looks at all members, to tell services that differ for good from those in motion.

Two members are never read at quite the same moment, so a change under way looks like a difference. A service differs
for good if it differs at both looks and no member's digest of it changed between them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from app.rows.rows import BUCKETS
from app.tools.audit.client.http_client import CallError
from app.tools.audit.watch.readers import BUCKETS_AT_ONCE, DigestReader, Digests, MemberLook, ServiceKey

T = TypeVar("T")
MEMBERS_AT_ONCE = 16
DIFFERING_MAX = 10_000
"""The most differing services that are remembered from one look to the next; further ones are not looked at again."""

Told = Mapping[str, str | None]
"""A service's digest by member; None for a member that has no such service."""


@dataclass(slots=True)
class Group:
    """The members of a round, asked at the same time. A member that fails is out of it; ``absent`` has the reason."""

    readers: dict[str, DigestReader]
    absent: dict[str, str] = field(default_factory=dict)

    def here(self) -> list[str]:
        """Return the members that have always answered."""
        return [address for address in self.readers if address not in self.absent]

    def each(self, ask: Callable[[str, DigestReader], T]) -> dict[str, T]:
        """Return the answers of all present members by address; one that does not answer is absent from now on."""
        answers: dict[str, T] = {}
        if not (here := self.here()):
            return answers
        with ThreadPoolExecutor(min(len(here), MEMBERS_AT_ONCE), thread_name_prefix="watch") as pool:
            asked = {address: pool.submit(ask, address, self.readers[address]) for address in here}
            for address, future in asked.items():
                try:
                    answers[address] = future.result()
                except CallError as error:
                    self.absent[address] = str(error)
        return answers

    def looks(self) -> dict[str, MemberLook]:
        return self.each(lambda _, reader: reader.look())


def differing_buckets(looks: Mapping[str, MemberLook]) -> list[int]:
    """Return the buckets of which not all members have the same digest."""
    return [number for number in range(BUCKETS) if len({look.buckets[number] for look in looks.values()}) > 1]


def differing_services(group: Group, looks: Mapping[str, MemberLook], buckets: Sequence[int]) -> dict[ServiceKey, Told]:
    """Return the services in these buckets of which not all members have the same digest, at most ``DIFFERING_MAX``.

    A few buckets at a time are read from all members, so that only their services are held.
    """
    found: dict[ServiceKey, Told] = {}
    for start in range(0, len(buckets), BUCKETS_AT_ONCE):
        part = buckets[start : start + BUCKETS_AT_ONCE]
        for key, told in _differing(group.each(_asking(looks, part))):
            if len(found) == DIFFERING_MAX:
                return found
            found[key] = told
    return found


def _asking(looks: Mapping[str, MemberLook], buckets: Collection[int]) -> Callable[[str, DigestReader], Digests]:
    return lambda address, reader: reader.services(looks[address], buckets)


def _differing(answers: Mapping[str, Digests]) -> Iterator[tuple[ServiceKey, Told]]:
    for key in sorted({key for digests in answers.values() for key in digests}):
        told = {address: digests.get(key) for address, digests in answers.items()}
        if len(set(told.values())) > 1:
            yield key, told


@dataclass(frozen=True, slots=True)
class TwoLooks:
    """The outcome of a round: each member's last look, and the services that differ for good or are in motion."""

    looks: Mapping[str, MemberLook]
    lasting: Mapping[ServiceKey, Told] = field(default_factory=dict)
    in_motion: tuple[ServiceKey, ...] = ()
    is_cut: bool = False
    """True if more services differed than are remembered."""


def look_twice(group: Group, pause: Callable[[], None]) -> TwoLooks:
    """Look at all members, and if they differ, a second time after ``pause``."""
    first = group.looks()
    if not (buckets := differing_buckets(first)):
        return TwoLooks(first)
    before = differing_services(group, first, buckets)
    pause()
    second = group.looks()
    looks = {address: second.get(address, look) for address, look in first.items()}
    still = sorted(set(buckets) & set(differing_buckets(second)))
    if not still:
        return TwoLooks(looks)
    after = differing_services(group, second, still)
    here = group.here()
    lasting: dict[ServiceKey, Told] = {}
    in_motion = []
    for key in before.keys() & after.keys():
        told = [{address: one.get(address) for address in here} for one in (before[key], after[key])]
        if len(set(told[1].values())) < 2:
            continue  # only a member that is absent by now had it otherwise
        if told[0] == told[1]:
            lasting[key] = told[1]
        else:
            in_motion.append(key)
    is_cut = DIFFERING_MAX in (len(before), len(after))
    return TwoLooks(looks, dict(sorted(lasting.items())), tuple(sorted(in_motion)), is_cut)
