"""The mailbox of the engine's thread: what it hands out, what it drops, and for what it wakes its reader."""

import threading
from collections.abc import Callable, Iterator

import pytest

from distro.mailbox import Mailbox, PeerWorker
from distro.monitor import DistroStats
from distro.types import DistroKey
from tests.support.processes import eventually

A, B, C = (DistroKey("t", name) for name in "abc")
LONG_S = 60.0
"""A wait that ends only when somebody ends it."""


class Told:
    """In place of a protocol: what events tell it."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def claim_later(self, key: DistroKey) -> None:
        self.calls.append(("claim", key))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.calls.append(("fetch", peer, keys))


@pytest.fixture
def stats() -> DistroStats:
    return DistroStats()


@pytest.fixture
def mailbox(stats: DistroStats) -> Mailbox:
    return Mailbox(2, stats)


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
    assert (keys, closed) == ([], False)
    assert mailbox.take(0) == ([], [], False), "each is handed out once"


def test_changed_keys_are_handed_out_once_however_often_they_changed(mailbox: Mailbox) -> None:
    for key in (A, B, A):
        mailbox.sync(key)
    assert mailbox.take(LONG_S) == ([], [A, B], False)
    assert mailbox.take(0) == ([], [], False)


def test_what_is_beyond_the_bound_is_dropped_and_counted(mailbox: Mailbox, stats: DistroStats) -> None:
    for key in (A, B, C, C):
        mailbox.sync(key)
    assert stats.inbox_dropped == 2
    for _ in range(4):
        mailbox.put(lambda _protocol, _now_ms: None)
    assert stats.inbox_dropped == 4
    mailbox.put(lambda _protocol, _now_ms: None, urgent=True)
    events, keys, _ = mailbox.take(0)
    assert (len(events), keys, stats.inbox_dropped) == (3, [A, B], 4)
    mailbox.put(lambda _protocol, _now_ms: None)
    assert len(mailbox.take(0)[0]) == 1, "there is room again"


def test_a_closed_mailbox_says_so_at_once_and_for_ever(mailbox: Mailbox) -> None:
    mailbox.sync(A)
    mailbox.close()
    assert mailbox.take(LONG_S, leave_keys=True) == ([], [A], True)
    assert mailbox.take(LONG_S) == ([], [], True)


@pytest.mark.parametrize("wake", ["sync", "put", "close"])
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
        case "close":
            mailbox.close()
    thread.join(LONG_S / 2)
    assert taken == [(wake == "put", wake == "sync", wake == "close")]


def test_keys_alone_do_not_wake_who_leaves_them(mailbox: Mailbox, beside: Callable[..., threading.Thread]) -> None:
    taken: list[tuple[int, list[DistroKey], bool]] = []

    def take() -> None:
        events, keys, closed = mailbox.take(LONG_S, leave_keys=True)
        taken.append((len(events), keys, closed))

    mailbox.sync(A)
    thread = beside(take)
    eventually(lambda: mailbox._condition._waiters)  # type: ignore[attr-defined]
    mailbox.sync(B)
    assert mailbox._condition._waiters, "it waits on"  # type: ignore[attr-defined]
    mailbox.put(lambda _protocol, _now_ms: None)
    thread.join(LONG_S / 2)
    assert taken == [(1, [A, B], False)]
    woken = beside(lambda: taken.append((0, mailbox.take(LONG_S)[1], False)))
    eventually(lambda: mailbox._condition._waiters)  # type: ignore[attr-defined]
    mailbox.sync(C)
    woken.join(LONG_S / 2)
    assert taken[1:] == [(0, [C], False)], "the next wait ends with a key again"


def test_a_wait_ends_by_itself(mailbox: Mailbox) -> None:
    mailbox.sync(A)
    assert mailbox.take(0.01, leave_keys=True) == ([], [A], False)


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
