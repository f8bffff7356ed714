"""The mailbox of the engine's thread: what it hands out, what it drops, and for what it wakes its reader."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from distro.engine.mailbox import Mailbox, PeerWorker
from distro.model.monitor import DistroStats
from distro.model.types import DistroKey
from tests.support.processes import eventually

A, B, C = (DistroKey("t", name) for name in "abc")
LONG_S = 60.0
AT_S = 7.25
"""A wait that ends only when somebody ends it."""


class Told:
    """In place of a protocol: what events tell it."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def claim_later(self, key: DistroKey, _now_ms: int, _source: str | None = None) -> None:
        self.calls.append(("claim", key))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.calls.append(("fetch", peer, keys))

    def on_served(self, peer: str, resource_type: str, keys: list[str], served_s: float) -> None:
        self.calls.append(("on_served", peer, resource_type, keys, served_s))


@pytest.fixture
def stats() -> DistroStats:
    return DistroStats()


@pytest.fixture
def mailbox(stats: DistroStats) -> Mailbox:
    return Mailbox(2, stats, lambda: AT_S)


@pytest.fixture
def beside() -> Iterator[Callable[[Callable[[], object]], threading.Thread]]:
    """Run something on a thread that is joined at the end."""
    threads: list[threading.Thread] = []

    def start(run: Callable[[], object]) -> threading.Thread:
        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(LONG_S)


def test_events_are_calls_on_the_protocol_in_order(mailbox: Mailbox) -> None:
    mailbox.claim(A)
    mailbox.fetch("peer", [A, B])
    events, keys, closed = mailbox.take(0)
    told = Told()
    for event in events:
        event(told, 0)  # type: ignore[arg-type]
    assert told.calls == [("claim", A), ("fetch", "peer", [A, B])]
    assert (keys, closed) == ({}, False)
    assert mailbox.take(0) == ([], {}, False), "each is handed out once"


def test_what_a_peer_fetched_is_told_with_its_time(mailbox: Mailbox) -> None:
    for _ in range(4):
        mailbox.served("peer", "t", ["a"])
    told = Told()
    for event in mailbox.take(0)[0]:
        event(told, 0)  # type: ignore[arg-type]
    assert told.calls == [("on_served", "peer", "t", ["a"], AT_S)] * 2, "as many as there is room for"


def test_changed_keys_are_handed_out_once_however_often_they_changed(mailbox: Mailbox) -> None:
    for key in (A, B, A):
        mailbox.sync(key)
    assert mailbox.take(LONG_S) == ([], {A: AT_S, B: AT_S}, False)
    assert mailbox.take(0) == ([], {}, False)


def test_what_is_beyond_the_bound_is_dropped_and_counted(mailbox: Mailbox, stats: DistroStats) -> None:
    for key in (A, B, C, C, A, B):
        mailbox.sync(key)
    assert stats.inbox_dropped == 2, "those that wait already are not lost"
    for _ in range(4):
        mailbox.put(lambda _protocol, _now_ms: None)
    assert stats.inbox_dropped == 4
    mailbox.put(lambda _protocol, _now_ms: None, urgent=True)
    events, keys, _ = mailbox.take(0)
    assert (len(events), list(keys), stats.inbox_dropped) == (3, [A, B], 4)
    mailbox.put(lambda _protocol, _now_ms: None)
    assert len(mailbox.take(0)[0]) == 1, "there is room again"


def test_a_closed_mailbox_says_so_at_once_and_for_ever(mailbox: Mailbox) -> None:
    mailbox.sync(A)
    mailbox.close()
    assert mailbox.take(LONG_S, leave_ends_s=LONG_S) == ([], {A: AT_S}, True)
    assert mailbox.take(LONG_S) == ([], {}, True)


@pytest.mark.parametrize("wake", ["sync", "put", "put what may wait", "close"])
def test_who_waits_is_woken(mailbox: Mailbox, beside: Callable[..., threading.Thread], wake: str) -> None:
    taken: list[tuple[int, int, bool]] = []

    def take() -> None:
        events, keys, closed = mailbox.take(LONG_S)
        taken.append((len(events), len(keys), closed))

    thread = beside(take)
    eventually(lambda: mailbox._condition._waiters)  # type: ignore[attr-defined]
    match wake:
        case "sync":
            mailbox.sync(A)
        case "put":
            mailbox.put(lambda _protocol, _now_ms: None)
        case "put what may wait":
            mailbox.put(lambda _protocol, _now_ms: None, waits=True)
        case "close":
            mailbox.close()
    thread.join(LONG_S / 2)
    assert taken == [("put" in wake, wake == "sync", wake == "close")]


@pytest.mark.parametrize("left", ["ends", "keys"])
def test_what_is_left_wakes_nobody(mailbox: Mailbox, beside: Callable[..., threading.Thread], left: str) -> None:
    taken: list[tuple[int, list[DistroKey], bool]] = []

    def take() -> None:
        events, keys, closed = mailbox.take(LONG_S, **{f"leave_{left}_s": LONG_S})
        taken.append((len(events), list(keys), closed))

    mailbox.sync(A)
    thread = beside(take)
    eventually(lambda: mailbox._condition._waiters)  # type: ignore[attr-defined]
    mailbox.sync(B)
    if left == "ends":
        mailbox.put(lambda _protocol, _now_ms: None, urgent=True, waits=True)
    assert mailbox._condition._waiters, "it waits on"  # type: ignore[attr-defined]
    mailbox.put(lambda _protocol, _now_ms: None, waits=left == "keys")
    thread.join(LONG_S / 2)
    assert taken == [(2 if left == "ends" else 1, [A, B], False)]
    woken = beside(lambda: taken.append((0, list(mailbox.take(LONG_S)[1]), False)))
    eventually(lambda: mailbox._condition._waiters)  # type: ignore[attr-defined]
    mailbox.sync(C)
    woken.join(LONG_S / 2)
    assert taken[1:] == [(0, [C], False)], "the next wait ends with a key again"


def test_what_was_left_ends_the_wait_when_its_time_is_over(mailbox: Mailbox) -> None:
    mailbox.sync(A)
    assert mailbox.take(LONG_S, leave_keys_s=0.01) == ([], {A: AT_S}, False)
    mailbox.put(lambda _protocol, _now_ms: None, waits=True)
    assert len(mailbox.take(LONG_S, leave_keys_s=LONG_S, leave_ends_s=0.01)[0]) == 1


def test_an_event_that_was_put_back_is_taken_at_once(mailbox: Mailbox) -> None:
    mailbox.put(lambda _protocol, _now_ms: None, waits=True)
    [event] = mailbox.take(LONG_S)[0]
    mailbox.put_back([event])
    assert mailbox.take(LONG_S, leave_ends_s=LONG_S)[0] == [event]


def test_a_wait_ends_by_itself(mailbox: Mailbox) -> None:
    mailbox.sync(A)
    assert mailbox.take(0.01, leave_ends_s=LONG_S) == ([], {A: AT_S}, False)


def test_a_worker_tells_what_it_does_and_for_how_long() -> None:
    worker, begun, go = PeerWorker("worker-of-x"), threading.Event(), threading.Event()
    assert worker.facts() == {"present": None, "presentMs": None, "waiting": 0}

    def work() -> None:
        begun.set()
        assert go.wait(LONG_S)

    worker.put(work, "Verify")
    worker.put(lambda: None, "Query")
    assert begun.wait(LONG_S)
    eventually(lambda: (worker.facts()["presentMs"] or 0) >= 5)
    facts = worker.facts()
    go.set()
    assert (facts["present"], facts["waiting"]) == ("Verify", 1)
    worker.finish()
    assert worker.join(LONG_S)
    assert worker.facts() == {"present": None, "presentMs": None, "waiting": 0}


def test_a_worker_makes_calls_in_order_and_ends_when_they_are_made(caplog: pytest.LogCaptureFixture) -> None:
    worker, go, made = PeerWorker("worker-of-x"), threading.Event(), list[int]()

    def fail() -> None:
        raise KeyError("unforeseen")

    worker.put(lambda: go.wait(LONG_S) and made.append(1))
    worker.put(fail)
    worker.put(lambda: made.append(2))
    worker.finish()
    assert not worker.join(0.01), "it makes its call"
    thread = next(one for one in threading.enumerate() if one.name == "worker-of-x")
    assert not thread.daemon, "the process waits for it"
    go.set()
    assert worker.join(LONG_S)
    assert made == [1, 2]
    assert "worker-of-x" in caplog.text


def test_a_turn_takes_a_bounded_number_and_nothing_is_lost_or_overtaken(
    stats: DistroStats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distro.engine.mailbox.EVENTS_PER_TURN", 2)
    monkeypatch.setattr("distro.engine.mailbox.KEYS_PER_TURN", 3)
    box = Mailbox(100, stats)
    events = [lambda _protocol, _now_ms: None for _ in range(5)]
    for event in events:
        box.put(event)
    keys = [DistroKey("t", f"k{number}") for number in range(7)]
    for key in [*keys, keys[6]]:
        box.sync(key)
    taken = [box.take(0)[:2] for _ in range(3)]
    assert [part for part, _ in taken] == [events[:2], events[2:4], events[4:]]
    assert [list(part) for _, part in taken] == [keys[:3], keys[3:6], keys[6:]]
    assert box.is_empty


def test_events_that_are_put_back_come_first(stats: DistroStats) -> None:
    mailbox = Mailbox(100, stats)
    events = [lambda _protocol, _now_ms: None for _ in range(4)]
    for event in events[:3]:
        mailbox.put(event)
    taken = mailbox.take(0)[0]
    mailbox.put(events[3])
    mailbox.put_back(taken[1:])
    assert not mailbox.is_empty
    assert mailbox.take(0)[0] == events[1:]


def test_many_keys_to_fetch_are_several_events(stats: DistroStats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distro.engine.mailbox.FETCHED_PER_EVENT", 2)
    box, told = Mailbox(100, stats), Told()
    keys = [DistroKey("t", f"k{number}") for number in range(5)]
    box.fetch("b", keys)
    events = box.take(0)[0]
    assert len(events) == 3
    fetched: list[DistroKey] = []
    told.fetch = lambda _peer, part: fetched.extend(part)  # type: ignore[attr-defined]
    for event in events:
        event(told, 0)  # type: ignore[arg-type]
    assert fetched == keys


def test_clients_that_come_back_are_told_in_one_event_and_wake_nobody(mailbox: Mailbox) -> None:
    mailbox.came_back("b:1~1", 5)
    mailbox.came_back("b:1~1", 7)
    mailbox.came_back("c:1~1", 6)
    told: list[dict[str, int]] = []
    protocol = SimpleNamespace(came_back=told.append)
    for expected in ({"b:1~1": 7, "c:1~1": 6}, {"c:1~1": 9}):
        events, _, _ = mailbox.take(0)
        [event] = events
        event(protocol, 0)  # type: ignore[arg-type]
        assert told.pop() == expected
        mailbox.came_back("c:1~1", 9)


def test_members_that_wrote_what_is_on_the_disk_are_remembered(mailbox: Mailbox) -> None:
    mailbox.remember(iter(["b:1~1"]))
    [event], _, _ = mailbox.take(0)
    told: list[tuple[frozenset[str], int]] = []
    event(SimpleNamespace(remember=lambda *values: told.append(values)), 3)  # type: ignore[arg-type]
    assert told == [(frozenset({"b:1~1"}), 3)]
