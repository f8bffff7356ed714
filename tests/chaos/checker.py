"""Were words undone? Compares what members list with what they acknowledged; knows nothing of how they work."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import History, Key, Outcome, Sample, Seen, Word

SETTLE_S = 8.0
"""After the heal, and after a word, members have so long until each lists it."""
OWN_READ_S = 1.0
"""After its answer, the member that acknowledged a word has so long until it lists it."""
MERGE_S = 4.0
"""After the heal, members have so long until they know of the beats that the other side heard."""
LIVES_S = 12.0
"""An instance whose last acknowledged beat is not older is to be listed, and healthy. (Time-outs are 15 and 30 s.)"""


@dataclass(frozen=True, slots=True)
class Times:
    """When the fault began and ended, and which members could talk with each other in between."""

    cut_s: float
    healed_s: float
    sides: tuple[frozenset[int], ...] = ()

    def apart(self, one: Word, other: Word) -> bool:
        """Whether two words were said on two sides of the cut."""
        if not all(self.cut_s <= word.ended_s and word.begun_s <= self.healed_s for word in (one, other)):
            return False
        return not self._are_together(one.member, other.member)

    def _are_together(self, one: int, other: int) -> bool:
        return not self.sides or any({one, other} <= side for side in self.sides)

    def may_hear(self, member: int, heard_by: set[int], at_s: float) -> bool:
        """Whether a member can know of beats that these members heard in the last seconds before ``at_s``."""
        if not self.cut_s <= at_s <= self.healed_s + MERGE_S:
            return True
        return any(self._are_together(member, other) for other in heard_by)


@dataclass(slots=True)
class Found:
    """The breaches, by kind: each names the key and what was seen."""

    missing: dict[Key, str] = field(default_factory=dict)
    """Instances that beat and were not listed."""
    unhealthy: dict[Key, str] = field(default_factory=dict)
    """Instances that beat and were listed unhealthy."""
    empty: dict[str, str] = field(default_factory=dict)
    """Services with such instances whose list was empty."""
    unseen: dict[Key, str] = field(default_factory=dict)
    """Keys of which the member that acknowledged a word did not list it."""
    resurrected: dict[Key, str] = field(default_factory=dict)
    """Ephemeral instances that were removed, and were listed after the time to settle."""
    forgotten: dict[Key, str] = field(default_factory=dict)
    """Ephemeral instances that were registered and beat, and were not listed after the time to settle."""
    durable: dict[Key, str] = field(default_factory=dict)
    """Persistent instances that were not as their last acknowledged word says."""
    wrong: dict[Key, str] = field(default_factory=dict)
    """Ephemeral instances that were listed with other metadata than the last acknowledged."""
    differing: dict[str, str] = field(default_factory=dict)
    """Services that members listed differently at the end."""
    unknown_beats: int = 0
    """Beats of lasting instances that were answered with "unknown instance"."""

    def counts(self) -> dict[str, int]:
        """The number of keys by kind."""
        kinds = ("missing", "unhealthy", "empty", "unseen", "resurrected", "forgotten", "durable", "wrong", "differing")
        return {kind: len(getattr(self, kind)) for kind in kinds}


def check(history: History, times: Times, end_s: float) -> Found:
    """Return the breaches in a run that ended at ``end_s``."""
    found = Found()
    by_service: dict[str, list[Key]] = defaultdict(list)
    for key in history.words:
        by_service[key.service].append(key)
    for sample in history.samples:
        if sample.hosts is not None:
            _check_lasting(history, times, sample, by_service[sample.service], found)
            _check_words(history, times, sample, by_service[sample.service], found)
    found.unknown_beats = sum(len(history.beats[key].unknown_s) for key in history.lasting)
    found.differing = differing([one for one in history.samples if one.begun_s >= end_s])
    return found


def _check_lasting(history: History, times: Times, sample: Sample, keys: Iterable[Key], found: Found) -> None:
    assert sample.hosts is not None
    begun_s = sample.begun_s
    expected = []
    for key in keys:
        if key not in history.lasting or history.lasting[key] + SETTLE_S >= begun_s:
            continue
        heard_by = history.beats[key].heard_by(begun_s - LIVES_S, begun_s)
        if heard_by and times.may_hear(sample.member, heard_by, begun_s):
            expected.append(key)
    if expected and not sample.hosts:
        found.empty.setdefault(sample.service, _where(sample))
    for key in expected:
        seen = sample.hosts.get(key.ip)
        if seen is None:
            found.missing.setdefault(key, _where(sample))
        elif not seen.healthy:
            found.unhealthy.setdefault(key, _where(sample))


def _check_words(history: History, times: Times, sample: Sample, keys: Iterable[Key], found: Found) -> None:
    assert sample.hosts is not None
    for key in keys:
        if key in history.lasting:
            continue
        words = [word for word in history.words[key] if word.begun_s <= sample.ended_s]
        if not words:
            continue
        allowed = allowed_marks(words, times, key.durable)
        last = words[-1]
        settled = sample.begun_s > max(last.ended_s, times.healed_s) + SETTLE_S
        before = sample.begun_s < times.cut_s and sample.begun_s > last.ended_s + SETTLE_S
        own_read = last.outcome is Outcome.DONE and last.member == sample.member
        seen = sample.hosts.get(key.ip)
        mark = seen.mark if seen is not None else None
        if own_read and sample.begun_s > last.ended_s + OWN_READ_S and not _is_fair(history, key, sample, last, mark):
            found.unseen.setdefault(
                key, f"{_where(sample)} lists {mark}, acknowledged {last.mark} at {last.ended_s:.1f}"
            )
        if (settled or before) and mark not in allowed:
            _note(history, key, sample, mark, allowed, found)


def _is_fair(history: History, key: Key, sample: Sample, last: Word, mark: str | None) -> bool:
    """Whether the member may list ``mark`` after it acknowledged ``last``, the last word of all."""
    if mark == last.mark:
        return True
    # Without beats an ephemeral instance expires.
    return mark is None and not key.durable and history.beats[key].silent_since(sample.begun_s) >= LIVES_S


def _note(
    history: History, key: Key, sample: Sample, mark: str | None, allowed: Sequence[str | None], found: Found
) -> None:
    text = f"{_where(sample)} lists {mark}, allowed are {', '.join(map(str, allowed))}"
    if key.durable:
        found.durable.setdefault(key, text)
    elif mark is None:
        if history.beats[key].silent_since(sample.begun_s) < LIVES_S:
            found.forgotten.setdefault(key, text)
    elif set(allowed) == {None}:
        found.resurrected.setdefault(key, text)
    else:
        found.wrong.setdefault(key, text)


def allowed_marks(words: Sequence[Word], times: Times, durable: bool) -> list[str | None]:
    """The marks that a list may show once all is settled: those of words after which nobody was told of a later one.

    A word that was not acknowledged may have been executed, until another is acknowledged. Of a durable record either
    side's last word may stay when both were said apart from each other.
    """
    done = [word for word in words if word.outcome is Outcome.DONE]
    allowed: list[str | None] = [] if done else [None]
    for word in words:
        both = durable and word.outcome is Outcome.DONE
        later = (one for one in done if one.begun_s >= word.ended_s)
        if not any(not (both and times.apart(word, one)) for one in later):
            allowed.append(word.mark)
    return allowed


def differing(samples: Iterable[Sample]) -> dict[str, str]:
    """The services whose last lists differ between members."""
    last: dict[str, dict[int, dict[str, Seen] | None]] = defaultdict(dict)
    for sample in samples:
        last[sample.service][sample.member] = None if sample.hosts is None else dict(sample.hosts)
    found = {}
    for service, lists in last.items():
        shown = list(lists.values())
        if any(one != shown[0] for one in shown):
            names = {ip for one in shown for ip in one or ()}
            unlike = [ip for ip in sorted(names) if len({(one or {}).get(ip) for one in shown}) > 1]
            found[service] = f"{len(unlike)} instances, such as {unlike[:3]}"
    return found


def agreed_after_s(history: History, healed_s: float) -> float | None:
    """How long after the heal all members list the same of the services that do not churn, and go on to; None: never.

    By rounds of lists; a round lies between two lists of one member and service.
    """
    rounds: dict[tuple[int, str], list[Sample]] = defaultdict(list)
    for sample in history.samples:
        if sample.begun_s >= healed_s and sample.service not in history.churning:
            rounds[sample.member, sample.service].append(sample)
    count = min((len(found) for found in rounds.values()), default=0)
    since: float | None = None
    for number in range(count):
        lists = [found[number] for found in rounds.values()]
        if differing(lists):
            since = None
        elif since is None:
            since = max(one.ended_s for one in lists) - healed_s
    return since


def _where(sample: Sample) -> str:
    return f"member {sample.member} at {sample.begun_s:.1f}"
