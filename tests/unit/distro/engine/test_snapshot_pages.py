"""A snapshot in pages: which keys are asked for, in pages of any size, beside changes at either side."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distro.engine.snapshot_pages import KEYS_MAX, KEYS_MIN, SnapshotPages
from distro.model.errors import TransportError, UnfitError
from distro.model.types import Datum, Page, Version

WRITER = "10.0.0.2:8848~1"


def version(counter: int) -> Version:
    return Version(1, counter, WRITER)


class Peers:
    """A peer that holds keys, and a member that loads them."""

    def __init__(self, held: dict[str, Version], page_keys: int = 3) -> None:
        self.held = held
        self.stored: dict[str, Version] = {}
        self.page_keys = page_keys
        self.asked: list[list[str]] = []

    def begin(self, order: random.Random | None = None) -> SnapshotPages:
        return SnapshotPages(
            dict(self.held),
            lacks=lambda key, told: key not in self.stored or told > self.stored[key],
            fetch=self.fetch,
            take=self.take,
            shuffle=(order or random.Random(1)).shuffle,
        )

    def fetch(self, keys: Sequence[str]) -> Page:
        self.asked.append(list(keys))
        given = [Datum(key, self.held[key], None) for key in keys if key in self.held][: self.page_keys]
        return Page(given, tuple(one.key for one in given))

    def take(self, datums: list[Datum]) -> int:
        self.stored.update({one.key: one.version for one in datums})
        return len(datums)


def through(pages: SnapshotPages) -> None:
    while not pages.is_done:
        pages.next_page()


@given(st.integers(0, 60), st.integers(1, 50), st.randoms(use_true_random=False), st.data())
def test_every_key_arrives_as_it_is_when_it_is_asked_for(
    count: int, page_keys: int, order: random.Random, data: st.DataObject
) -> None:
    peers = Peers({f"k{number}": version(number) for number in range(count)}, page_keys)
    peers.stored = {key: version(number) for number, key in enumerate(peers.held) if data.draw(st.booleans())}
    pages = peers.begin(order)
    while not pages.is_done:
        for key in data.draw(st.lists(st.sampled_from(sorted(peers.held)), max_size=2)) if peers.held else ():
            if data.draw(st.booleans()):
                del peers.held[key]
                peers.stored.pop(key, None)
                break
            if key not in peers.stored:
                peers.held[key] = version(1_000)
        pages.next_page()
    lacking = {key for key, told in peers.held.items() if key not in peers.stored}
    assert not lacking


def test_a_key_in_the_state_of_the_peer_or_a_later_one_is_not_asked_for() -> None:
    peers = Peers({"a": version(5), "b": version(5), "c": version(5)})
    peers.stored = {"a": version(5), "b": version(6), "c": version(4)}
    pages = peers.begin()
    through(pages)
    assert peers.asked == [["c"]]
    assert pages.taken == 1


def test_two_passes_beside_each_other_share_the_work() -> None:
    peers = Peers({f"k{number}": version(1) for number in range(200)}, page_keys=5)
    one, other = peers.begin(random.Random(1)), peers.begin(random.Random(2))
    while not (one.is_done and other.is_done):
        one.next_page()
        other.next_page()
    assert one.taken + other.taken == 200
    assert min(one.taken, other.taken) > 80


def test_a_pass_that_breaks_off_keeps_what_came() -> None:
    peers = Peers({f"k{number}": version(1) for number in range(10)})
    broken = peers.begin()
    broken.next_page()
    peers.page_keys = 0
    fetch = broken._fetch

    def cut(_keys: Sequence[str]) -> Page:
        raise TransportError("cut", refused=True)

    broken._fetch = cut
    with pytest.raises(TransportError):
        broken.next_page()
    assert (broken.taken, broken.is_done) == (3, False)
    broken._fetch, peers.page_keys = fetch, 3
    again = peers.begin()
    through(again)
    assert again.taken == 7


def test_a_peer_that_names_what_was_not_asked_does_not_hold_up_the_pass() -> None:
    peers = Peers({f"k{number}": version(1) for number in range(40)})
    pages = peers.begin()
    pages._fetch = lambda _keys: Page([], ("other",))
    for _ in range(3):
        pages.next_page()
    assert pages.is_done
    assert pages.taken == 0


def test_a_page_that_names_a_key_without_a_datum_counts_as_answered() -> None:
    """It could not be read: to ask for it for ever would help nobody."""
    peers = Peers({f"k{number}": version(1) for number in range(KEYS_MIN)})
    pages = peers.begin()
    pages._fetch = lambda keys: Page([], tuple(keys))
    pages.next_page()
    assert pages.is_done


def test_so_many_keys_are_asked_for_as_a_page_seems_to_hold_twice() -> None:
    peers = Peers({f"k{number}": version(1) for number in range(6_000)}, page_keys=10_000)
    through(peers.begin())
    sizes = [len(keys) for keys in peers.asked]
    assert sizes[:3] == [KEYS_MIN, 2 * KEYS_MIN, 4 * KEYS_MIN]
    assert max(sizes) == KEYS_MAX
    peers.stored.clear()
    peers.asked.clear()
    peers.page_keys = 100
    through(peers.begin())
    assert max(map(len, peers.asked)) == 200


@given(st.integers(1, 80), st.sets(st.integers(0, 79), max_size=4), st.randoms(use_true_random=False))
def test_keys_that_no_call_can_bring_are_named_and_all_others_arrive(
    count: int, too_large: set[int], order: random.Random
) -> None:
    peers = Peers({f"k{number}": version(1) for number in range(count)}, page_keys=10)
    large = {f"k{number}" for number in too_large if number < count}

    def fetch(keys: Sequence[str]) -> Page:
        if large.intersection(keys):
            raise UnfitError("the answer is over 10 bytes")
        return peers.fetch(keys)

    pages = peers.begin(order)
    pages._fetch = fetch
    through(pages)
    assert sorted(pages.unfit) == sorted(large)
    assert peers.stored.keys() == peers.held.keys() - large
    assert len(peers.asked) <= 2 * count


def test_a_page_that_takes_too_long_is_asked_for_in_parts() -> None:
    peers = Peers({f"k{number}": version(1) for number in range(100)}, page_keys=100)
    pages = peers.begin()

    def slow(keys: Sequence[str]) -> Page:
        if len(keys) > 3:
            raise TransportError("late")
        return peers.fetch(keys)

    pages._fetch = slow
    through(pages)
    assert (pages.taken, pages.unfit) == (100, [])


def test_a_pass_ends_where_not_even_one_key_comes() -> None:
    peers = Peers({f"k{number}": version(1) for number in range(40)})
    pages, asked = peers.begin(), list[int]()

    def late(keys: Sequence[str]) -> Page:
        asked.append(len(keys))
        raise TransportError("late")

    pages._fetch = late
    with pytest.raises(TransportError):
        through(pages)
    assert asked == [16, 8, 4, 2, 1]
