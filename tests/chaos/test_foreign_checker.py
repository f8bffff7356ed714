"""The checker of linked clusters finds each kind of breach in a small history, and none in its innocent twin."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.foreign_checker import SHOWN_S, STALE_S, ForeignFound, ForeignKind, Hearing, check_foreign
from tests.chaos.history import History, Key, Outcome, Sample, Seen, Word

CUT_S, HEALED_S = 100.0, 160.0
AFTER_S = HEALED_S + SHOWN_S + 0.1
KEY = Key("orders", "10.0.0.1")
HEARS = Hearing(CUT_S, HEALED_S)
SILENT = Hearing(CUT_S, HEALED_S, silent_until_s=HEALED_S)


def seen(*, healthy: bool = True, stale: bool = False) -> Seen:
    metadata = {"mark": "m1"} | ({"rollcall.stale": "true"} if stale else {})
    return Seen("m1", healthy, json.dumps([1.0, metadata, True]))


def registered(at_s: float, removed_s: float | None = None, *, lasts: bool = False) -> History:
    """The history of a cluster with one instance."""
    history = History()
    history.words[KEY].append(Word("m1", 0, at_s - 0.1, at_s, Outcome.DONE))
    if removed_s is not None:
        history.words[KEY].append(Word(None, 0, removed_s - 0.1, removed_s, Outcome.DONE))
    if lasts:
        history.lasting.add(KEY)
    return history


def listed(at_s: float, one: Seen | None, *others: str) -> History:
    """The history of a cluster whose member gave one list."""
    history = History()
    hosts = {ip: seen() for ip in others} | ({} if one is None else {KEY.ip: one})
    history.samples.append(Sample(0, KEY.service, at_s, at_s + 0.1, hosts))
    return history


def kinds(found: ForeignFound) -> set[ForeignKind]:
    return {kind for kind, breaches in found.breaches.items() if breaches}


@pytest.mark.parametrize("hearing", [HEARS, SILENT], ids=["heard", "cut off"])
def test_a_living_instance_of_the_other_cluster_is_missing(hearing: Hearing) -> None:
    origin = registered(50)
    assert kinds(check_foreign(listed(130, None, "10.0.0.2"), origin, hearing)) == {ForeignKind.MISSING}
    assert not kinds(check_foreign(listed(130, seen(stale=True), "10.0.0.2"), origin, hearing))


def test_a_cut_leaves_an_empty_list() -> None:
    assert kinds(check_foreign(listed(130, None), registered(50), SILENT)) == {ForeignKind.MISSING, ForeignKind.EMPTY}


def test_what_was_registered_during_the_cut_shows_after_it() -> None:
    origin = registered(CUT_S + 1)
    assert not kinds(check_foreign(listed(AFTER_S - 0.2, None, "10.0.0.2"), origin, SILENT))
    assert kinds(check_foreign(listed(AFTER_S, None, "10.0.0.2"), origin, SILENT)) == {ForeignKind.MISSING}


def test_a_cluster_that_was_emptied_hears_everything_anew() -> None:
    emptied, origin = replace(HEARS, forgets=True), registered(50)
    assert not kinds(check_foreign(listed(130, None), origin, emptied))
    assert kinds(check_foreign(listed(AFTER_S, None), origin, emptied)) == {ForeignKind.MISSING, ForeignKind.EMPTY}


def test_words_are_not_late_where_nothing_is_cut() -> None:
    prompt = replace(HEARS, is_late=False)
    late = listed(CUT_S + 10, None, "10.0.0.2")
    assert not kinds(check_foreign(late, registered(CUT_S + 1), HEARS))
    assert kinds(check_foreign(late, registered(CUT_S + 1), prompt)) == {ForeignKind.MISSING}


def test_an_instance_that_lasts_is_shown_as_unhealthy() -> None:
    origin = registered(50, lasts=True)
    assert kinds(check_foreign(listed(130, seen(healthy=False)), origin, HEARS)) == {ForeignKind.UNHEALTHY}


@pytest.mark.parametrize("removed_s", [50.0, 130.0], ids=["before", "during the cut"])
def test_a_removed_instance_is_listed(removed_s: float) -> None:
    origin = registered(40, removed_s)
    assert kinds(check_foreign(listed(AFTER_S, seen()), origin, SILENT)) == {ForeignKind.REMOVED}
    assert not kinds(check_foreign(listed(AFTER_S, None), origin, SILENT))
    during = check_foreign(listed(removed_s + 0.5, seen(stale=True)), origin, SILENT)
    assert not kinds(during)


def test_a_young_member_may_keep_what_is_removed_for_a_while_if_it_is_marked() -> None:
    origin, young = registered(40, 130), replace(HEARS, young_until_s=200.0)
    assert not kinds(check_foreign(listed(199, seen(stale=True)), origin, young))
    for at_s, one in ((199, seen()), (201, seen(stale=True))):
        assert kinds(check_foreign(listed(at_s, one), origin, young)) == {ForeignKind.REMOVED}


def test_silence_is_not_marked() -> None:
    origin = registered(50, lasts=True)
    assert kinds(check_foreign(listed(CUT_S + STALE_S + 1, seen()), origin, SILENT)) == {ForeignKind.UNMARKED}
    for hearing, at_s, one in ((SILENT, CUT_S + STALE_S + 1, seen(stale=True)), (SILENT, CUT_S + 4, seen())):
        assert not kinds(check_foreign(listed(at_s, one), origin, hearing))
    assert not kinds(check_foreign(listed(CUT_S + STALE_S + 1, seen()), origin, HEARS))


def test_a_mark_stays_after_the_fault() -> None:
    origin = registered(50, lasts=True)
    assert kinds(check_foreign(listed(AFTER_S, seen(stale=True)), origin, SILENT)) == {ForeignKind.STALE}
    assert not kinds(check_foreign(listed(AFTER_S - 0.2, seen(stale=True)), origin, SILENT))


def test_what_nobody_beats_for_is_forgotten_by_a_cluster_that_was_emptied() -> None:
    emptied = replace(HEARS, is_emptied=True)
    assert not kinds(check_foreign(listed(AFTER_S, None, "10.0.0.2"), registered(50), emptied))
    lasting = registered(50, lasts=True)
    missing = listed(AFTER_S, None, "10.0.0.2")
    assert kinds(check_foreign(missing, lasting, emptied)) == {ForeignKind.MISSING}
    emptied = replace(emptied, kept_until_s=AFTER_S - 1)
    assert not kinds(check_foreign(missing, lasting, emptied))
    lasting.words[KEY].append(Word("m1", 0, HEALED_S - 10.1, HEALED_S - 10, Outcome.DONE))
    assert kinds(check_foreign(missing, lasting, emptied)) == {ForeignKind.MISSING}


@pytest.mark.parametrize(
    "other",
    [lambda: None, dict, lambda: {KEY.ip: seen(healthy=False)}, lambda: {KEY.ip: seen(stale=True)}],
    ids=["no list", "empty", "another health", "stale"],
)
def test_clusters_differ_at_the_end(other: Callable[[], dict[str, Seen] | None]) -> None:
    def found(hosts: dict[str, Seen] | None) -> set[ForeignKind]:
        reader, origin = History(), registered(50)
        origin.last.append(Sample(0, KEY.service, 300, 301, {KEY.ip: seen()}))
        reader.last.append(Sample(0, KEY.service, 300, 301, hosts))
        return kinds(check_foreign(reader, origin, SILENT))

    assert found(other()) == {ForeignKind.DIFFERING}
    assert not found({KEY.ip: seen()})


def test_figures_count_from_the_fault_and_from_the_heal() -> None:
    reader, origin = History(), registered(50, lasts=True)
    for at_s, one in ((CUT_S + 3, seen()), (CUT_S + 4, seen(stale=True)), (HEALED_S + 2, seen(stale=True))):
        reader.samples += listed(at_s, one).samples
    found = check_foreign(reader, origin, SILENT)
    assert (found.lists, found.stale_s, found.agreed_s, found.gone_s) == (3, 3.0, 2.0, 0.0)
    gone = check_foreign(listed(HEALED_S + 4, seen(stale=True)), registered(50, 130), SILENT)
    assert (gone.agreed_s, gone.gone_s) == (0.0, 4.0)


def test_a_list_of_a_busy_time_shows_who_is_missing_and_no_times() -> None:
    def found(one: Seen | None, removed_s: float | None = None, at_s: float = 180.0) -> set[ForeignKind]:
        reader = listed(at_s, one, "10.0.0.2")
        reader.stood_still.append((170.0, 171.0))
        shown = check_foreign(reader, registered(50, removed_s, lasts=removed_s is None), SILENT)
        assert (shown.lists, shown.timed) == (1, int(at_s > 181))
        return kinds(shown)

    assert found(None) == {ForeignKind.MISSING}
    assert not found(seen(stale=True))
    assert not found(seen(), removed_s=60)
    assert found(seen(), removed_s=60, at_s=182.0) == {ForeignKind.REMOVED}
