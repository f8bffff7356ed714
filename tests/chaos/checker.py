"""Were words undone? Compares what members list with what they acknowledged; knows nothing of how they work."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise, permutations

from tests.chaos.history import Beat, History, Key, Outcome, Sample, Seen, Word

SETTLE_S = 8.0
"""After the heal, and after a word, members have so long until each lists it."""
MERGE_S = 4.0
"""After the heal, members have so long until they know of the beats that the other side heard."""
LIVES_S = 12.0
"""An instance whose last acknowledged beat is not older is to be listed, and healthy. (Time-outs are 15 and 30 s.)"""
SPREAD_S = 3.0
"""Beats and words of so long before the cut reached every member: the time-out of a send. A cut takes a moment, too."""
ORDER_S = 1.0
"""Of what is said on two sides of a cut within so long of each other, members need not know which was later."""

CLOCKS_S = 0.25
"""Of a registration and a removal that are so far apart each member knows which was later: that clocks tell."""
LATE_S = 3.0
"""After the heal nobody lists such a removed instance, and all lists agree, in so long."""

WARM_S = 5.0
"""Of ephemeral instances the last so many seconds may be lost when all members that know of them are killed."""
SAME_S = 1.0
"""Lists that come so soon after each other, or overlap, are of one time: each reader asks twice a second."""
WORDS_TOLD = 6
"""Words of an instance that a breach tells."""
KILL_S = 1.0
"""It takes so long at most to kill the members."""


Told = dict[str, Seen]


class Kind(Enum):
    """What a breach is."""

    MISSING = "missing"
    """An instance that beat was not listed."""
    UNHEALTHY = "unhealthy"
    """An instance that beat was listed unhealthy."""
    EMPTY = "empty"
    """The list of a service was empty, although instances of it beat."""
    UNSEEN = "unseen"
    """The member that acknowledged a word did not list it in its next answer, or no longer."""
    RESURRECTED = "resurrected"
    """An ephemeral instance was removed, and is listed."""
    FORGOTTEN = "forgotten"
    """An ephemeral instance was registered and beat, and is not listed."""
    STALE = "stale"
    """A member that stood still answered with what it knew before."""
    DURABLE = "durable"
    """A persistent instance is not as its last acknowledged word says."""
    WRONG = "wrong"
    """An ephemeral instance is listed with other metadata than the last acknowledged."""
    LATE = "late dereg"
    """An instance that was removed soon after its registration on the other side of a cut is listed."""
    DIFFERING = "differing"
    """Members list a service differently at the end."""
    NEVER_AGREED = "never"
    """At no time after the heal did all members begin to list the same, for good."""


@dataclass(frozen=True, slots=True)
class Times:
    """When the fault began and ended, and which members could talk with each other in between."""

    cut_s: float
    healed_s: float
    sides: tuple[frozenset[int], ...] = ()
    """Members of one side reach each other unharmed; a member may be of several. None: all reach all, badly."""
    killed_s: float = 0.0
    killed: frozenset[int] = frozenset()
    """The members that were killed during the fault, and when: just before the first of them."""
    paused: frozenset[int] = frozenset()
    """The members that stood still from the cut to the heal."""

    def together(self, one: int, other: int) -> bool:
        """Whether two members reached each other during the fault."""
        return not self.sides or any({one, other} <= side for side in self.sides)

    def apart(self, one: Word | Beat, other: Word | Beat) -> bool:
        """Whether two words or beats were said on two sides of the cut."""
        if not all(self.cut_s <= said.ended_s and said.begun_s <= self.healed_s for said in (one, other)):
            return False
        return not self.together(one.member, other.member)

    def may_be_lost(self, word: Word) -> bool:
        """Whether all members that knew of a word were killed before one can have written it to its disk."""
        knew = frozenset[int]().union(*[side for side in self.sides if word.member in side])
        return (
            knew <= self.killed
            and bool(knew)
            and self.killed_s - WARM_S < word.ended_s
            and (word.begun_s < self.killed_s + KILL_S)
        )

    def may_know(self, sample: Sample, beat: Beat) -> bool:
        """Whether the reader can know of a beat: not of those beyond the cut, until ``MERGE_S`` after the heal."""
        if beat.ended_s < self.cut_s - SPREAD_S or not self.cut_s <= sample.begun_s <= self.healed_s + MERGE_S:
            return True
        return self.together(sample.member, beat.member)

    def must_know(self, sample: Sample, word: Word) -> bool:
        """Whether the reader is to learn of a word in time: not of those beyond the cut, until the heal."""
        if word.begun_s < self.cut_s - SPREAD_S or sample.ended_s >= self.healed_s - SPREAD_S:
            return True
        return self.together(sample.member, word.member)


@dataclass(slots=True)
class Breach:
    """What was seen first, and when it was seen last."""

    text: str
    until_s: float

    def __str__(self) -> str:
        return f"{self.text}; seen until {self.until_s:.1f}"


@dataclass(slots=True)
class Found:
    """The breaches, by kind and then by key or service."""

    breaches: dict[Kind, dict[str, Breach]] = field(default_factory=lambda: {kind: {} for kind in Kind})

    def note(self, kind: Kind, subject: Key | str, at_s: float, text: str) -> None:
        """Note what was seen at a time; of each kind and subject the first counts."""
        self.breaches[kind].setdefault(str(subject), Breach(text, at_s)).until_s = at_s

    def count(self) -> int:
        """The number of breaches of all kinds."""
        return sum(map(len, self.breaches.values()))


def check(history: History, times: Times) -> Found:
    """Return the breaches in a run."""
    found = Found()
    by_service: dict[str, list[Key]] = defaultdict(list)
    for key in history.words:
        by_service[key.service].append(key)
    for sample in history.samples:
        if sample.hosts is not None:
            keys = by_service[sample.service]
            _check_lasting(history, times, sample, sample.hosts, [key for key in keys if key in history.lasting], found)
            for key in keys:
                if sample.member in times.paused:
                    _check_after_pause(history, times, sample, sample.hosts, key, found)
                if key not in history.lasting:
                    _check_words(history, times, sample, sample.hosts, key, found)
                if key in history.late:
                    _check_late(history, times, sample, sample.hosts, key, found)
    for service, text in differing(history.last).items():
        found.note(Kind.DIFFERING, service, history.last[-1].ended_s, text)
    if agreed_after_s(history, times.healed_s) is None:
        found.note(Kind.NEVER_AGREED, "all members", times.healed_s, "not the same until the end")
    return found


def _check_lasting(
    history: History, times: Times, sample: Sample, hosts: Mapping[str, Seen], keys: Iterable[Key], found: Found
) -> None:
    since_s = sample.begun_s - SETTLE_S
    expected = [
        key
        for key in keys
        if beat_all_the_time(history.beats[key], sample, since_s, knower(history, times, sample, key))
    ]
    if expected and not hosts:
        found.note(Kind.EMPTY, sample.service, sample.begun_s, _where(sample))
    for key in expected:
        seen = hosts.get(key.ip)
        if seen is None or not seen.healthy:
            kind = Kind.MISSING if seen is None else Kind.UNHEALTHY
            found.note(kind, key, sample.begun_s, _where(sample) + _tell_beats(history.beats[key], sample))


def _check_late(
    history: History, times: Times, sample: Sample, hosts: Mapping[str, Seen], key: Key, found: Found
) -> None:
    if key.ip in hosts and sample.begun_s > times.healed_s + LATE_S and is_removed_late(history.words[key], times):
        found.note(Kind.LATE, key, sample.begun_s, f"{_where(sample)} lists it{_tell_words(history.words[key])}")


def is_removed_late(words: Sequence[Word], times: Times) -> bool:
    """Whether the last words of a key are a registration and a removal on two sides, whose order the clocks tell."""
    if len(words) < 2 or any(word.outcome is not Outcome.DONE for word in words[-2:]):
        return False
    said, removed = words[-2:]
    is_ordered = removed.begun_s - said.ended_s >= CLOCKS_S
    return said.mark is not None and removed.mark is None and is_ordered and times.apart(said, removed)


def knower(history: History, times: Times, sample: Sample, key: Key) -> Callable[[Beat], bool]:
    """Tells of beats whether the reader can know of them.

    What a client with a connection published before the cut is known everywhere, for as long as that lasts: no member
    may drop it for its silence. One that was killed has forgotten it, as clients are on no disk.
    """
    if key not in history.connected:
        return lambda beat: times.may_know(sample, beat)
    if sample.member in times.killed and sample.ended_s > times.killed_s:
        return lambda beat: beat.begun_s > times.killed_s and times.may_know(sample, beat)
    said = [word for word in history.words[key] if word.begun_s <= sample.ended_s]
    if said and said[-1].outcome is Outcome.DONE and said[-1].ended_s < times.cut_s - SPREAD_S:
        return lambda _beat: True
    return lambda beat: times.may_know(sample, beat)


def beat_all_the_time(beats: Sequence[Beat], sample: Sample, since_s: float, knows: Callable[[Beat], bool]) -> bool:
    """Whether beats that the reader ``knows`` were heard from ``since_s`` until the sample, without a long silence.

    By the worst case: each was heard at its call's beginning, and the list was made at the end of the sample's call.
    """
    next_s = sample.ended_s
    for beat in reversed(beats[: bisect_left(beats, sample.begun_s, key=lambda beat: beat.ended_s)]):
        if knows(beat):
            if next_s - beat.begun_s > LIVES_S:
                return False
            next_s = beat.ended_s
            if next_s <= since_s:
                return True
    return False


def _check_words(
    history: History, times: Times, sample: Sample, hosts: Mapping[str, Seen], key: Key, found: Found
) -> None:
    words = [word for word in history.words[key] if word.begun_s <= sample.ended_s]
    if not key.durable:
        words = [replace(word, outcome=Outcome.UNKNOWN) if times.may_be_lost(word) else word for word in words]
    known = [word for word in words if times.must_know(sample, word)]
    if not known:
        return
    last = known[-1]
    seen = hosts.get(key.ip)
    mark = seen.mark if seen is not None else None
    if mark == last.mark or sample.begun_s <= last.ended_s:
        return
    allowed = allowed_marks(words, known, times)
    if key in history.connected:
        allowed += [word.mark for word in words if word.member in times.killed and word.begun_s < times.killed_s]
        allowed += unheard_ends(words, known)
    if mark in allowed or _is_unordered(history.beats.get(key, ()), last, times):
        return
    if mark is None and not key.durable:
        # Without beats an ephemeral instance expires.
        since_s = max(last.ended_s, sample.begun_s - SETTLE_S)
        if not beat_all_the_time(history.beats[key], sample, since_s, knower(history, times, sample, key)):
            return
    text = f"{_where(sample)} lists {mark}, allowed are {', '.join(map(str, allowed))}"
    text += _tell_words(words) + _tell_beats(history.beats.get(key, ()), sample)
    is_left = _is_left(words, mark, sample.member, key in history.connected)
    if last.outcome is Outcome.DONE and last.member == sample.member and not is_left:
        found.note(Kind.UNSEEN, key, sample.begun_s, text)
    if _is_settled(last, times, sample):
        found.note(_kind(key, mark, allowed), key, sample.begun_s, text)


def _check_after_pause(
    history: History, times: Times, sample: Sample, hosts: Mapping[str, Seen], key: Key, found: Found
) -> None:
    """A member that goes on knows at once of all that was said elsewhere until shortly before it went on."""
    if not times.healed_s < sample.ended_s <= times.healed_s + SETTLE_S:
        return
    words = [word for word in history.words[key] if word.begun_s <= sample.ended_s]
    known = [word for word in words if word.ended_s <= times.healed_s - ORDER_S]
    seen = hosts.get(key.ip)
    mark = seen.mark if seen is not None else None
    if not known or mark in allowed_marks(words, known, times):
        return
    beats = history.beats.get(key, ())
    if mark is None and not key.durable and not beat_all_the_time(beats, sample, known[-1].ended_s, lambda _beat: True):
        return
    if not _is_unordered(beats, known[-1], times):
        found.note(Kind.STALE, key, sample.begun_s, f"{_where(sample)} lists {mark}" + _tell_words(known))


def _is_left(words: Sequence[Word], mark: str | None, member: int, is_connected: bool) -> bool:
    """Whether a mark is of a client that hung up at another member, or withdrew it there: that alone ends its copies.

    The next client of the same instance withdraws its own, whichever of the two it connects to.
    """
    said = [word for word in words if word.mark in (mark, None)]
    return mark is not None and any(
        word.mark == mark
        and word.member != member
        and (end.outcome is Outcome.LEFT or (is_connected and end.mark is None and end.member == word.member))
        for word, end in pairwise(said)
    )


def unheard_ends(words: Sequence[Word], known: Sequence[Word]) -> list[str | None]:
    """Return the marks of clients that hung up beyond the cut: until that is known, their copies are listed.

    Another client with the same instance hides such a copy for as long as it is there.
    """
    return [word.mark for word, left in pairwise(words) if left.outcome is Outcome.LEFT and left not in known]


def _is_settled(last: Word, times: Times, sample: Sample) -> bool:
    """Whether the reader had its time to learn of the last word that it must know of."""
    if sample.begun_s <= last.ended_s + SETTLE_S:
        return False
    if last.ended_s + SETTLE_S < times.cut_s or sample.begun_s > times.healed_s + SETTLE_S:
        return True
    # Within a side, whose members reach each other unharmed, words travel during the cut too.
    return bool(times.sides) and times.cut_s <= last.begun_s and sample.ended_s < times.healed_s - SPREAD_S


def _kind(key: Key, mark: str | None, allowed: Sequence[str | None]) -> Kind:
    if key.durable:
        return Kind.DURABLE
    if mark is None:
        return Kind.FORGOTTEN
    return Kind.RESURRECTED if set(allowed) == {None} else Kind.WRONG


def allowed_marks(words: Sequence[Word], known: Sequence[Word], times: Times) -> list[str | None]:
    """The marks that a list may show once all is settled: those of words after which nobody was told of a later one.

    A word that was not acknowledged may have been executed, until another is acknowledged. Those of ``words`` that are
    not in ``known`` may have reached the reader. Of two sides' words the later one counts, unless they have no order.
    """
    done = [word for word in known if word.outcome is Outcome.DONE]
    allowed: list[str | None] = [] if done else [None]
    for word in words:
        if not any(one.begun_s >= word.ended_s + (ORDER_S if times.apart(word, one) else 0.0) for one in done):
            allowed.append(word.mark)
    return allowed


def _is_unordered(beats: Sequence[Beat], last: Word, times: Times) -> bool:
    """Whether a removal came so soon after a beat beyond the cut that the instance may live on."""
    near = [beat for beat in beats[-2:] if last.begun_s < beat.ended_s + ORDER_S]
    return last.mark is None and any(times.apart(beat, last) for beat in near)


def differing(samples: Iterable[Sample]) -> dict[str, str]:
    """The services of which these samples, one a member, are not all equal, and what they differ in."""
    by_service: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_service[sample.service].append(sample)
    found = {}
    for service, lists in by_service.items():
        if silent := [one.member for one in lists if one.hosts is None]:
            found[service] = f"no list by members {silent}"
        elif any(one.hosts != lists[0].hosts for one in lists):
            unlike = _unlike_ips(lists)
            shown = {one.member: (one.hosts or {}).get(unlike[0]) for one in lists}
            found[service] = f"{len(unlike)} instances, such as {unlike[0]}: {shown}"
    return found


def _unlike_ips(lists: Sequence[Sample]) -> list[str]:
    """The addresses of which these lists of one service do not say the same."""
    ips = {ip for one in lists for ip in one.hosts or ()}
    return sorted(ip for ip in ips if len({(one.hosts or {}).get(ip) for one in lists}) > 1)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A list that a member gave, and another one gave neither shortly before nor after."""

    sample: Sample
    other: int
    text: str
    ips: Sequence[str]
    """The addresses of which the two lists do not say the same."""


def agreed_after_s(history: History, healed_s: float) -> float | None:
    """How long after the heal the lists last differed: 0 if never, None where they differ at the end."""
    last = last_disagreement(history, healed_s)
    if isinstance(last, str):
        return None
    return 0.0 if last is None else last.sample.ended_s - healed_s


def last_disagreement(history: History, healed_s: float) -> Disagreement | str | None:
    """The last list after the heal that a member gave, and another one gave neither shortly before nor after.

    A text where they still differ at the end, or one gave none. All that a list says of an instance counts: that it is
    there, its health, weight and metadata. Two instances that change together may do so in another order elsewhere.
    Without services whose instances come and go: no two of their lists are of one time.
    Lists from after the last ones were read do not count: clients end then, and fall silent one after the other.
    Nor does a list that nobody gave while the clients stood still, too: the machine had no time for either.
    """
    if unlike := [text for service, text in differing(history.last).items() if service not in history.churning]:
        return f"at the end: {unlike[0]}"
    members = {sample.member for sample in history.last if sample.hosts is not None}
    end_s = max([sample.ended_s for sample in history.last], default=healed_s)
    by_service: dict[str, dict[int, list[Sample]]] = defaultdict(lambda: {member: [] for member in members})
    for sample in history.samples:
        is_asked = sample.member in members and sample.service not in history.churning
        is_asked = is_asked and not (sample.hosts is None and _stood_still(history, sample))
        if is_asked and sample.begun_s >= healed_s and sample.ended_s <= end_s:
            by_service[sample.service][sample.member].append(sample)
    last: Disagreement | None = None
    for service, lists in by_service.items():
        if silent := [member for member, given in lists.items() if not given]:
            return f"members {silent} were never asked for {service}"
        told = {member: [dict(one.hosts or {}) for one in given] for member, given in lists.items()}
        for member, other in permutations(members, 2):
            found = _last_alone(lists[member], told[member], lists[other], told[other])
            if found is not None and (last is None or found.sample.ended_s > last.sample.ended_s):
                last = found
    return last


def _stood_still(history: History, sample: Sample) -> bool:
    """Whether the clients stood still while they waited for this list."""
    return any(since_s <= sample.ended_s and sample.begun_s <= until_s for since_s, until_s in history.stood_still)


def _last_alone(
    mine: list[Sample], told: list[Told], others: list[Sample], told_there: list[Told]
) -> Disagreement | None:
    """The last of these lists that says what the other member said neither within ``SAME_S`` nor when next asked.

    A busy machine asks it less often: what it gives may change from its last list before to its first list after, and
    the lists of members that change together are still the same. After its last list nothing is known of it.
    """
    first, last = 0, None
    for at, (one, what) in enumerate(zip(mine, told, strict=True)):
        while first < len(others) and others[first].ended_s < one.begun_s - SAME_S:
            first += 1
        end = bisect_right(others, one.ended_s + SAME_S, lo=first, key=lambda other: other.begun_s)
        near, own = told_there[max(first - 1, 0) : end + 1], (*told[max(at - 1, 0) : at], *told[at + 1 : at + 2])
        if one.hosts is None or (end < len(others) and not _is_told(what, near, own)):
            last = one, others[first : end + 1]
    if last is None:
        return None
    sample, near = last
    compared = [sample, *near[-1:]]
    text = next(iter(differing(compared).values()), "no list")
    ips = _unlike_ips(compared)
    return Disagreement(sample, others[0].member, f"{_where(sample)} of {sample.service}: {text}", ips)


def _is_told(what: Told, near: Sequence[Told], own: Sequence[Told]) -> bool:
    """Whether these lists of another member, taken together, say the same of each instance.

    ``own``: the lists of the same member before and after. A list shows all as healthy when none is: so when the last
    healthy ones turn one after the other, the first are seen unhealthy for that moment alone, and by few. Health does
    not count in a list between two that the other member gave, too, one of them of healthy instances alone.
    """
    if _is_said(what, near):
        return True
    beside_all = any(all(seen.healthy for seen in one.values()) for one in own)
    if beside_all and len(own) == 2 and any(seen.healthy for seen in what.values()):
        blind = [_without_health(one) for one in near]
        return _is_said(_without_health(what), blind) and all(_is_said(one, near) for one in own)
    return False


def _is_said(what: Told, near: Sequence[Told]) -> bool:
    ips = what.keys() | {ip for one in near for ip in one}
    return what in near or all(any(what.get(ip) == one.get(ip) for one in near) for ip in ips)


def _without_health(told: Told) -> Told:
    return {ip: replace(seen, healthy=True) for ip, seen in told.items()}


def _where(sample: Sample) -> str:
    return f"member {sample.member} at {sample.begun_s:.1f}"


def _tell_words(words: Sequence[Word]) -> str:
    """The last words, which explain most breaches."""
    said = [
        f"{one.mark} at member {one.member} {one.outcome.value} at {one.ended_s:.1f}" for one in words[-WORDS_TOLD:]
    ]
    return f"; the last words: {', '.join(said)}"


def _tell_beats(beats: Sequence[Beat], sample: Sample) -> str:
    heard = [f"at member {one.member} at {one.begun_s:.1f}" for one in beats if one.ended_s < sample.begun_s]
    return f"; the last beats: {', '.join(heard[-2:])}" if heard else ""
