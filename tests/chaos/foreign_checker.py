"""Does each of two linked clusters list the instances of the other one? Compares its lists with the other's words."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from tests.chaos.checker import Breach
from tests.chaos.history import History, Key, Outcome, Sample, Seen, Word

SHOWN_S = 5.0
"""A word shows in the other cluster in so long. After a fault, everything that was said in it does."""
STALE_S = 5.0
"""From the beginning of silence until all foreign instances are marked (L2)."""
YOUNG_S = 30.0
"""The lack of an instance at a member counts when the member has run for so long (L4)."""
SOON_S = 1.0
"""A list may be so far behind a word without counting as a disagreement."""
BUSY_S = 10.0
"""While the machine gave the clients no time, and for so long afterwards, members may be late, or hear nothing."""
STALE = '"rollcall.stale": "true"'


class ForeignKind(Enum):
    """The kinds of breaches of a link."""

    MISSING = "missing"
    """A living instance of the other cluster was not listed."""
    UNHEALTHY = "unhealthy"
    """A living instance of the other cluster was listed as unhealthy."""
    EMPTY = "empty"
    """The list of a service was empty, although instances of it live in the other cluster."""
    REMOVED = "removed"
    """An instance that was removed in the other cluster was listed for longer than the bound."""
    UNMARKED = "unmarked"
    """The other cluster was silent, and an instance of it was not marked as stale."""
    STALE = "still stale"
    """A living instance was still marked as stale after the fault."""
    DIFFERING = "differing"
    """The members of both clusters list a service differently at the end."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """What one cluster hears of the other one during the fault, and until when it does not. Monotonic s."""

    cut_s: float
    healed_s: float
    silent_until_s: float = 0.0
    """From the beginning of the fault until then it hears nothing; 0 if it always hears something."""
    is_late: bool = True
    """Whether words of the time of the fault may show only after its end."""
    young_until_s: float = 0.0
    """Until then it may list what it cannot know to be removed, if that is marked as stale."""
    is_emptied: bool = False
    """Whether the other cluster forgot everything: what lives is then heard of again by its clients."""
    kept_until_s: float = inf
    """From then on only instances whose clients came back to the emptied cluster need to be listed (L4)."""

    forgets: bool = False
    """Whether it forgot everything itself, and hears it anew: a link keeps what it brought in memory."""

    def due_s(self, said_s: float) -> float:
        """Return from when on a word shows."""
        if self.forgets and said_s < self.healed_s:
            return self.healed_s + SHOWN_S
        if self.is_late and self.cut_s - SHOWN_S < said_s < self.healed_s:
            return self.healed_s + SHOWN_S
        return said_s + SHOWN_S


@dataclass(frozen=True, slots=True)
class Life:
    """When an instance lived, by the words of its client."""

    key: Key
    registered_s: float
    """When a registration was first acknowledged."""
    removing_s: float
    """When its first removal began."""
    removed_s: float
    """When a removal was acknowledged."""
    lasts: bool
    registrations_s: tuple[float, ...]
    """When each registration was acknowledged."""

    def is_present(self, sample: Sample, hearing: Hearing) -> bool:
        """Return whether the instance lived when a list was made, if it was registered then.

        A cluster that was emptied may have forgotten an instance whose client did not come back.
        """
        may_be_forgotten = False
        if hearing.is_emptied and self.registered_s < hearing.healed_s:
            came_back = any(hearing.cut_s < at_s < sample.begun_s - SHOWN_S for at_s in self.registrations_s)
            may_be_forgotten = not self.lasts or (sample.begun_s > hearing.kept_until_s and not came_back)
        return sample.ended_s < self.removing_s and not may_be_forgotten


def life_of(key: Key, words: Sequence[Word], lasts: bool) -> Life:
    """Return the life of a key. An instance that lasts is withdrawn by nobody: its client only changes its member."""
    done = [word for word in words if word.outcome is Outcome.DONE]
    registrations_s = tuple(word.ended_s for word in done if word.mark is not None)
    registered_s = next(iter(registrations_s), inf)
    if lasts:
        return Life(key, registered_s, inf, inf, lasts, registrations_s)
    removing_s = next((word.begun_s for word in words if word.mark is None), inf)
    removed_s = next((word.ended_s for word in done if word.mark is None), inf)
    return Life(key, registered_s, removing_s, removed_s, lasts, registrations_s)


@dataclass(slots=True)
class ForeignFound:
    """What the lists of one cluster showed of the other one."""

    breaches: dict[ForeignKind, dict[str, Breach]] = field(default_factory=lambda: {kind: {} for kind in ForeignKind})
    lists: int = 0
    """Lists that were compared with words."""
    timed: int = 0
    """Lists of times in which the machine did not let the clients wait: only these show marks and times."""
    stale_s: float = 0.0
    """From the beginning of silence to the last list with an instance that was not marked as stale."""
    agreed_s: float = 0.0
    """From the heal to the last list that lacked a living instance, marked it as stale, or had a removed one."""
    gone_s: float = 0.0
    """From the heal to the last list with a removed instance, be it marked as stale or not."""

    def note(self, kind: ForeignKind, subject: Key | str, at_s: float, text: str) -> None:
        """Note a breach; of each kind and subject the first counts."""
        self.breaches[kind].setdefault(str(subject), Breach(text, at_s)).until_s = at_s

    def count(self) -> int:
        """Return the number of breaches of all kinds."""
        return sum(map(len, self.breaches.values()))


def check_foreign(reader: History, origin: History, hearing: Hearing) -> ForeignFound:
    """Return what the lists of ``reader`` show of the instances of ``origin``."""
    found, busy = ForeignFound(), reader.stood_still + origin.stood_still
    by_service: dict[str, list[Life]] = defaultdict(list)
    for key, words in origin.words.items():
        by_service[key.service].append(life_of(key, words, key in origin.lasting))
    end_s = max([sample.ended_s for sample in reader.last], default=inf)
    for sample in reader.samples:
        if sample.hosts is not None and sample.ended_s <= end_s and (lives := by_service.get(sample.service)):
            found.lists += 1
            if any(since_s <= sample.ended_s and sample.begun_s <= to_s + BUSY_S for since_s, to_s in busy):
                _check_presence(sample, sample.hosts, lives, hearing, found, BUSY_S)
            else:
                found.timed += 1
                _check_presence(sample, sample.hosts, lives, hearing, found)
                _check_times(sample, sample.hosts, lives, hearing, found)
    for service, text in unlike([*reader.last, *origin.last]).items():
        found.note(ForeignKind.DIFFERING, service, end_s, text)
    return found


def _check_presence(
    sample: Sample,
    hosts: Mapping[str, Seen],
    lives: Iterable[Life],
    hearing: Hearing,
    found: ForeignFound,
    late_s: float = 0.0,
) -> None:
    """Note living instances that are not listed, or unhealthy. ``late_s``: the time that words need besides."""
    for life in lives:
        is_due = sample.begun_s > hearing.due_s(life.registered_s) + late_s
        if not (is_due and life.is_present(sample, hearing)):
            continue
        seen = hosts.get(life.key.ip)
        if seen is None:
            found.note(ForeignKind.MISSING, life.key, sample.begun_s, _tell(sample, seen, life))
        elif life.lasts and not seen.healthy:
            found.note(ForeignKind.UNHEALTHY, life.key, sample.begun_s, _tell(sample, seen, life))
        if not hosts:
            found.note(ForeignKind.EMPTY, life.key.service, sample.begun_s, _tell(sample, seen, life))


def _check_times(
    sample: Sample, hosts: Mapping[str, Seen], lives: Iterable[Life], hearing: Hearing, found: ForeignFound
) -> None:
    """Note removed instances that are listed, marks that are missing, and marks that stay."""
    since_s = sample.begun_s - hearing.cut_s
    for life in lives:
        if (seen := hosts.get(life.key.ip)) is None:
            continue
        is_stale, told = STALE in seen.rest, _tell(sample, seen, life)
        may_keep = is_stale and sample.begun_s < hearing.young_until_s
        if sample.begun_s > hearing.due_s(life.removed_s) and not may_keep:
            found.note(ForeignKind.REMOVED, life.key, sample.begun_s, told)
        if is_stale and life.is_present(sample, hearing) and sample.begun_s > hearing.healed_s + SHOWN_S:
            found.note(ForeignKind.STALE, life.key, sample.begun_s, told)
        if not is_stale and since_s > 0 and sample.ended_s < hearing.silent_until_s:
            found.stale_s = max(found.stale_s, since_s)
            if since_s > STALE_S:
                found.note(ForeignKind.UNMARKED, life.key, sample.begun_s, told)
    if sample.begun_s > hearing.healed_s:
        for life in lives:
            _measure(sample, hosts.get(life.key.ip), life, hearing, found)


def _tell(sample: Sample, seen: Seen | None, life: Life) -> str:
    lived = f"registered {life.registered_s:.1f}, removed {life.removed_s:.1f}"
    return f"member {sample.member} at {sample.begun_s:.1f}: {seen}; {lived}"


def _measure(sample: Sample, seen: Seen | None, life: Life, hearing: Hearing, found: ForeignFound) -> None:
    """Note how long after the heal a list is behind the words."""
    after_s = sample.begun_s - hearing.healed_s
    is_stale = seen is not None and STALE in seen.rest
    is_present = life.is_present(sample, hearing) and sample.begun_s > life.registered_s + SOON_S
    if is_present and (seen is None or is_stale):
        found.agreed_s = max(found.agreed_s, after_s)
    if seen is not None and sample.begun_s > life.removed_s + SOON_S:
        found.gone_s = max(found.gone_s, after_s)
        if not is_stale:
            found.agreed_s = max(found.agreed_s, after_s)


def unlike(samples: Iterable[Sample]) -> dict[str, str]:
    """Return the services of which the members of two clusters do not list the same, and what they differ in.

    The address, health and mark of each instance count, and whether it is stale: a link adds metadata of its own.
    """
    by_service: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_service[sample.service].append(sample)
    found = {}
    for service, lists in by_service.items():
        told = [
            {ip: (seen.mark, seen.healthy, STALE in seen.rest) for ip, seen in (one.hosts or {}).items()}
            for one in lists
        ]
        ips = {ip for one in told for ip in one}
        if any(one.hosts is None for one in lists):
            found[service] = "a member gave no list"
        elif wrong := sorted(ip for ip in ips if len({one.get(ip) for one in told}) > 1):
            found[service] = f"{len(wrong)} instances, such as {wrong[0]}: {[one.get(wrong[0]) for one in told]}"
    return found
