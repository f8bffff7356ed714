"""FuzzyWatches: each client gets all that comes and goes, as it is at the time, with bounds on everything."""

import itertools

import pytest

from app.naming.model.nacos_errors import Unavailable
from app.rpc.sdk import fuzzy_watches
from app.rpc.sdk.fuzzy_state import BATCH_NAMES, ServiceNames
from app.rpc.sdk.fuzzy_watches import ACK_MS, RETRY_MS, SENDS_MAX, WINDOW, FuzzyWatches, PatternsOverLimit
from app.rpc.server.fuzzy_pattern import FuzzyPattern

ALL, SHOP = FuzzyPattern.of("public>>*>>*"), FuzzyPattern.of("public>>shop>>*")


class Told:
    """Watches, and all that clients were sent: the changed service, or the batch of a list."""

    def __init__(self, patterns: int = 10, per_client: int = 5, matches: int = 10_000) -> None:
        self.watches = FuzzyWatches(patterns, per_client, matches)
        self.ids = itertools.count(1)
        self.sent: list[tuple[str, str, object]] = []
        """Client, request id, and what was sent: ``+name``, ``-name``, or a batch as a list of these; [] is an end."""

    def watch(self, client: str, pattern: FuzzyPattern = ALL, present: set[str] | None = None) -> None:
        namespace, _ = self.watches.watch(client, pattern)
        if namespace.present is None:
            self.watches.loaded(namespace, present or set(), lambda _name: False)

    def come(self, *names: str) -> None:
        for name in names:
            self.watches.look(("public", name), True)

    def go(self, *names: str) -> None:
        for name in names:
            self.watches.look(("public", name), False)

    def run(self, now_ms: int = 0) -> list[object]:
        """Send all that is ready; return what was sent."""
        self.watches.tick(now_ms)
        begin = len(self.sent)
        for watcher in self.watches.ready():
            while (one := self.watches.take(watcher)) is not None:
                request_id = str(next(self.ids))
                if one.batch is not None:
                    what: object = [_signed(name, is_there) for name, is_there in self.watches.batch(one.batch)]
                else:
                    assert one.key is not None
                    what = _signed(one.key[1], self.watches.is_there(one.key))
                self.watches.sent(one, request_id, now_ms)
                self.sent.append((watcher.client_id, request_id, what))
        return [what for *_, what in self.sent[begin:]]

    def answer(self, now_ms: int = 0, *, well: bool = True) -> None:
        """Have every message answered; those that were answered before are no more."""
        for client, request_id, _ in self.sent:
            self.watches.answered(client, request_id, well, now_ms)

    def names(self, *names: str, client: str = "c", first: bool = False, known_from: int | None = None) -> None:
        at = len(names) if known_from is None else known_from
        self.watches.send_names(client, ServiceNames(ALL, first, list(names), at))


def _signed(name: str, is_there: bool) -> str:
    return f"{'+' if is_there else '-'}{name}"


def test_each_watcher_of_a_matching_pattern_is_told_of_what_comes_and_goes() -> None:
    told = Told()
    told.watch("a", ALL)
    told.watch("b", SHOP)
    told.come("shop@@x", "other@@y")
    told.run()
    expected = [("a", "+other@@y"), ("a", "+shop@@x"), ("b", "+shop@@x")]
    assert sorted((client, str(what)) for client, _, what in told.sent) == expected
    told.answer()
    told.go("shop@@x")
    assert told.run() == ["-shop@@x", "-shop@@x"]


def test_a_change_of_what_is_there_already_tells_nobody() -> None:
    told = Told()
    told.watch("a", ALL, {"g@@x"})
    told.come("g@@x")
    told.go("g@@y")
    assert told.run() == []


def test_a_service_that_came_and_went_before_its_turn_is_told_as_it_is() -> None:
    told = Told()
    told.watch("a", ALL, {"g@@x"})
    told.go("g@@x")
    told.come("g@@x")
    told.come("g@@y")
    told.go("g@@y")
    assert told.run() == ["+g@@x", "-g@@y"]


def test_services_that_change_while_the_names_are_read_are_looked_at_again() -> None:
    watches = FuzzyWatches(0, 0, 0)
    namespace, _ = watches.watch("a", ALL)
    for name in ("g@@gone", "g@@new", "g@@old"):
        watches.look(("public", name), True)
    watches.loaded(namespace, {"g@@gone", "g@@old"}, lambda name: name in {"g@@new", "g@@old"})
    assert namespace.present == {"g@@new", "g@@old"}
    [watcher] = watches.ready()
    assert list(watcher.changed) == [("public", "g@@gone"), ("public", "g@@new")]


def test_a_list_goes_out_in_batches_each_after_the_answer_to_the_one_before_and_then_its_end() -> None:
    names = [f"g@@{number}" for number in range(2 * BATCH_NAMES + 1)]
    told = Told()
    told.watch("c", ALL, set(names))
    told.names(*names, first=True)
    batches = []
    while sent := told.run():
        assert told.run() == []
        batches += sent
        told.answer()
    assert [len(batch) for batch in batches if isinstance(batch, list)] == [BATCH_NAMES, BATCH_NAMES, 1, 0]
    assert [one for batch in batches if isinstance(batch, list) for one in batch] == [f"+{name}" for name in names]
    assert told.watches.queued == 0


def test_a_difference_has_no_end_and_an_empty_one_is_no_message() -> None:
    told = Told()
    told.watch("c", ALL, {"g@@x"})
    told.names("g@@x")
    assert told.run() == [["+g@@x"]]
    told.answer()
    assert told.run() == []
    told.names()
    assert told.run() == []
    told.names(first=True)
    assert told.run() == [[]]


def test_a_batch_shows_what_is_there_when_it_is_sent() -> None:
    told = Told()
    told.watch("c", ALL, {"g@@new", "g@@back", "g@@went"})
    told.names("g@@new", "g@@went", "g@@known", "g@@back", known_from=2)
    told.go("g@@went")
    assert told.run()[0] == ["+g@@new", "-g@@known", "+g@@back"]


def test_what_a_client_knew_and_is_gone_is_told_once_more_as_a_change() -> None:
    told = Told()
    told.watch("c", ALL, set())
    told.names("g@@a", "g@@b", known_from=0)
    assert told.run() == [["-g@@a", "-g@@b"]]
    told.come("g@@b")
    assert told.run() == ["+g@@b"]
    told.answer()
    assert told.run() == ["-g@@a"]


def test_a_newer_request_replaces_the_list_of_the_last() -> None:
    told = Told()
    told.watch("c", ALL, {"g@@x", "g@@y"})
    told.names("g@@x", first=True)
    assert told.run() == [["+g@@x"]]
    told.names("g@@y", first=True)
    assert told.run() == []  # as the first has no answer yet
    told.answer()
    assert told.run() == [["+g@@y"]]
    told.answer()
    assert told.run() == [[]]


def test_a_message_without_answer_is_repeated_as_things_are_and_given_up_at_last() -> None:
    told = Told()
    told.watch("c", ALL)
    told.come("g@@x")
    assert told.run(0) == ["+g@@x"]
    assert told.watches.next_due_ms() == ACK_MS
    assert told.run(ACK_MS - 1) == []
    assert told.run(ACK_MS) == []
    assert told.watches.next_due_ms() == ACK_MS + RETRY_MS
    told.watches.namespaces["public"].present = set()  # as after a change that was dropped
    assert told.run(ACK_MS + RETRY_MS) == ["-g@@x"]
    for number in range(2, SENDS_MAX + 3):
        told.run(number * (ACK_MS + RETRY_MS) - RETRY_MS)
        told.run(number * (ACK_MS + RETRY_MS))
    assert len(told.sent) == SENDS_MAX
    stats = told.watches.stats
    assert (stats.timed_out, stats.given_up, stats.acknowledged) == (SENDS_MAX, 1, 0)
    assert told.watches.queued == 0


def test_a_refused_list_is_repeated_and_given_up_at_last() -> None:
    told = Told()
    told.watch("c", ALL, {"g@@x"})
    told.names("g@@x", first=True)
    for number in range(SENDS_MAX + 2):
        told.run(number * RETRY_MS)
        told.answer(number * RETRY_MS, well=False)
    assert [what for *_, what in told.sent] == SENDS_MAX * [["+g@@x"]]
    assert (told.watches.stats.refused, told.watches.stats.given_up, told.watches.queued) == (SENDS_MAX, 1, 0)


def test_a_service_that_changes_again_has_all_its_tries_again() -> None:
    told = Told()
    told.watch("c", ALL)
    told.come("g@@x")
    for number in range(SENDS_MAX - 1):
        assert told.run(number * RETRY_MS) == ["+g@@x"]
        told.answer(number * RETRY_MS, well=False)
    told.go("g@@x")
    for number in range(SENDS_MAX, 2 * SENDS_MAX):
        assert told.run(number * RETRY_MS) == ["-g@@x"]
        told.answer(number * RETRY_MS, well=False)
    assert told.watches.stats.given_up == 1


def test_a_client_has_so_many_changes_without_answer_and_no_more() -> None:
    told = Told()
    told.watch("c", ALL)
    told.come(*(f"g@@{number}" for number in range(WINDOW + 5)))
    assert len(told.run()) == WINDOW
    assert told.run() == []
    told.answer()
    assert len(told.run()) == 5
    told.answer()
    assert (told.watches.stats.sent, told.watches.stats.acknowledged) == (WINDOW + 5, WINDOW + 5)
    assert told.watches.next_due_ms() is None


def test_changes_that_wait_for_a_client_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy_watches, "CHANGES_MAX", 3)
    told = Told()
    told.watch("c", ALL)
    told.come(*(f"g@@{number}" for number in range(5)))
    told.go("g@@0")  # it waits already
    assert told.watches.stats.dropped == 2
    assert told.run() == ["-g@@0", "+g@@1", "+g@@2"]


def test_names_that_wait_for_all_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy_watches, "QUEUED_MAX", 3)
    told = Told()
    told.watch("c", ALL, {"g@@x"})
    told.watch("d", ALL)
    told.names("g@@x", "g@@y", client="c")
    with pytest.raises(Unavailable, match="try again later"):
        told.names("g@@x", "g@@y", client="d")
    told.come("g@@1", "g@@2")
    assert (told.watches.queued, told.watches.stats.dropped) == (3, 3)
    told.watches.forget("c")
    told.watches.forget("d")
    assert told.watches.queued == 0


def test_patterns_are_bounded_for_a_client_and_for_all() -> None:
    told = Told(patterns=3, per_client=2)
    watched = [FuzzyPattern.of(f"public>>g>>{number}") for number in range(4)]
    told.watch("a", watched[0])
    told.watch("a", watched[1])
    told.watch("a", watched[1])
    with pytest.raises(PatternsOverLimit, match=r"rollcall\.limit\.fuzzyPatternsPerConnection=2"):
        told.watch("a", watched[2])
    told.watch("b", watched[2])
    with pytest.raises(PatternsOverLimit, match=r"rollcall\.limit\.fuzzyPatterns=3"):
        told.watch("b", watched[3])
    told.watch("b", watched[0])  # another watches it
    assert (told.watches.stats.patterns_over, told.watches.pattern_count, told.watches.watch_count()) == (2, 3, 4)
    told.watches.cancel("b", watched[2].text)
    told.watch("b", watched[3])
    with pytest.raises(PatternsOverLimit):
        told.watch("stranger", watched[2])
    assert told.watches.patterns_of("stranger") == []


def test_services_beyond_the_bound_of_a_pattern_are_not_told_until_there_is_room() -> None:
    told = Told(matches=2)
    told.watch("c", ALL)
    told.come("g@@a", "g@@b", "g@@c")
    assert told.run() == ["+g@@a", "+g@@b"]
    told.answer()
    told.go("g@@a", "g@@c")
    told.come("g@@d")
    assert told.run() == ["-g@@a", "-g@@c", "+g@@d"]
    assert told.watches.stats.dropped == 1


def test_an_ended_watch_is_told_nothing_more() -> None:
    told = Told()
    told.watch("c", ALL)
    told.watch("c", SHOP)
    told.come("shop@@x", "g@@y")
    told.watches.cancel("c", ALL.text)
    told.watches.cancel("c", "public>>no>>such")
    assert told.run() == ["+shop@@x"]
    told.names("g@@z")
    assert told.run() == []


def test_nothing_is_left_of_clients_that_are_gone() -> None:
    told = Told()
    for client in ("c", "d"):
        told.watch(client, ALL, {"g@@x"})
    told.names("g@@x", client="c", first=True)
    told.come("g@@y")
    told.run()
    told.come("g@@z")
    for client in ("c", "d", "stranger"):
        told.watches.forget(client)
    told.answer()
    told.names("g@@x", client="c")
    watches = told.watches
    assert (watches.namespaces, watches.pattern_count, watches.queued, watches.watch_count()) == ({}, 0, 0, 0)
    assert (told.run(1 << 40), watches.next_due_ms(), watches.is_ready) == ([], None, False)
    assert watches.stats.acknowledged == 0
    told.come("g@@x")


def test_a_client_that_takes_nothing_is_left_alone_for_a_while() -> None:
    told = Told()
    told.watch("c", ALL)
    told.come("g@@x")
    [watcher] = told.watches.ready()
    told.watches.hold(watcher, 0)
    told.come("g@@y")
    assert told.run(RETRY_MS - 1) == []
    assert told.run(RETRY_MS) == ["+g@@x", "+g@@y"]


def test_an_answer_to_something_else_is_none_of_a_watch() -> None:
    told = Told()
    told.watch("c", ALL)
    assert not told.watches.answered("c", "1", True, 0)
    assert not told.watches.answered("stranger", "1", True, 0)


def test_the_same_request_id_of_a_message_sent_twice_waits_once() -> None:
    told = Told()
    told.watch("c", ALL)
    for _ in range(2):
        told.come("g@@x")
        told.go("g@@x")
        [watcher] = told.watches.ready()
        one = told.watches.take(watcher)
        assert one is not None
        told.watches.sent(one, "7", 0)
    assert told.watches.answered("c", "7", True, 0)
    assert told.watches.next_due_ms() is None
