"""A verify round that compares digests, between two members in memory: what it tells, and what follows of that."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from distro.engine.peer_call_runner import SHARED_MS, SharedSums
from distro.members.mapper import DistroMapper
from distro.model.digest import BUCKETS, LEAVES, LEAVES_PER_BUCKET, leaf_of
from distro.model.errors import CodecError, NotInitialized
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import Compare, DigestFindings, DistroKey, MemberKind, Received, Version
from distro.protocol.samples import contents_of, sums_of, whole
from distro.receive.receive import DistroReceiver
from distro.verify import comparison as module
from distro.verify.comparison import Comparison
from distro.verify.digest_answers import DigestAnswers
from distro.wire.digest_wire import DigestAnswer, DigestRequest
from tests.support.named_store import NamedStore, component
from tests.support.receiver_view import StubView
from tests.unit.distro.receive.test_receive import Events

A, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
MAPPER = DistroMapper.over(A, (A, B, C))
KEYS: dict[str, list[str]] = {owner: [] for owner in (A, B, C)}
for number in range(3_000):
    KEYS[MAPPER.map_srv(f"k{number}")].append(f"k{number}")


@dataclass
class Planned:
    """What a comparison asks of the protocol."""

    own_writer: str
    mapper: DistroMapper
    view_id: str = "view"
    pending: set[DistroKey] = field(default_factory=set)
    contacts: tuple[str, ...] = (A, B, C)

    @property
    def view(self) -> "Planned":
        return self

    members = view

    def mapper_of(self, _resource_type: str) -> DistroMapper:
        return self.mapper

    def is_pending(self, _peer: str, key: DistroKey) -> bool:
        return key in self.pending


EQUAL = DigestFindings(Received(fetching=0))
"""What a round finds where nothing differs."""


class Side:
    """One member with the type ``t``."""

    def __init__(self, address: str, **fields: Any) -> None:
        self.address, self.writer = address, f"{address}~1"
        self.store, self.events, self.stats = NamedStore(), Events(), DistroStats()
        self.components: dict[str, Component] = {"t": component(self.store, **fields)}
        self.protocol = Planned(self.writer, DistroMapper.over(address, (A, B, C)))
        self.loading = False
        self.receiver = DistroReceiver(
            self.writer,
            self.components,
            StubView(self.protocol.mapper, lambda: self.loading),
            self.events,
            self.stats,
        )
        self.answers = DigestAnswers(self.components, self.receiver, self.protocol, self.stats)  # type: ignore[arg-type]
        self.messages: list[bytes] = []
        """Those of the last round, requests and answers."""

    def ask(self, other: "Side", relayed: frozenset[str] = frozenset(), sampled: range = range(0)) -> DigestFindings:
        """Run a round with another member."""
        action = Compare(other.address, tuple(self.components), relayed, sampled, 0)
        comparison = Comparison(action, self.components, self.protocol, 0)  # type: ignore[arg-type]
        self.messages = []
        message: bytes | None = comparison.request()
        while message is not None:
            answer = other.answers.answer(self.address, DigestRequest.from_bytes(message), 77).to_bytes()
            self.messages += [message, answer]
            message = comparison.answered(answer)
        return comparison.compared()["t"]

    def told(self) -> set[str]:
        """The keys whose versions were told in the last round."""
        requests = map(DigestRequest.from_bytes, self.messages[::2])
        return {key for one in requests for listed in one.keys.values() for key in listed.versions}


def sides(count: int, **fields: Any) -> tuple[Side, Side]:
    """Two members that hold so many keys of each of three owners, in equal versions."""
    one, other = Side(A, **fields), Side(B, **fields)
    for owner, keys in KEYS.items():
        for key in keys[:count]:
            for side in (one, other):
                side.store.put(key, Version(1, 1, f"{owner}~1"))
    return one, other


def test_equal_members_exchange_one_number() -> None:
    one, other = sides(900)
    assert one.ask(other) == EQUAL
    assert len(one.messages) == 2
    assert sum(map(len, one.messages)) < 400
    assert one.told() == set()


@pytest.mark.parametrize("is_known", [False, True])
def test_an_owner_fetches_what_real_nacos_wrote_if_it_has_no_state_of_it(is_known: bool) -> None:
    one, other = sides(900)
    mine, of_another, known = KEYS[A][0], KEYS[C][0], KEYS[A][1]
    for key in (mine, of_another, known):
        other.store.put(key, Version(0, 1, C))
        if key != known or not is_known:
            one.store.forget(key, 0)
        else:
            one.store.put(key, Version(0, 3, C))
    wanted = {mine} if is_known else {mine, known}
    assert one.ask(other).received == Received(refused=dict.fromkeys(wanted, Version(0, 1, C)), fetching=0)


def test_of_what_real_nacos_wrote_an_answer_names_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distro.verify.digest_answers.UNVERSIONED_MAX", 7)
    one, other = sides(0)
    for key in KEYS[A]:
        other.store.put(key, Version(0, 1, C))
    assert len(one.ask(other).received.refused) == 7


def test_what_real_nacos_wrote_is_named_beside_what_differs() -> None:
    one, other = sides(900)
    unknown, newer = KEYS[A][:2]
    one.store.forget(unknown, 0)
    other.store.put(unknown, Version(0, 1, C))
    other.store.put(newer, Version(1, 4, f"{A}~1"))
    assert one.ask(other).received.refused.keys() == {unknown, newer}


def test_what_real_nacos_wrote_is_not_named_to_a_member_with_another_view() -> None:
    one, other = sides(900)
    one.store.forget(KEYS[A][0], 0)
    other.store.put(KEYS[A][0], Version(0, 1, C))
    other.protocol.view_id = "another"
    assert not one.ask(other).received.refused


@pytest.mark.parametrize(("at_once", "messages"), [(module.AT_ONCE_KEYS, 4), (0, 6)])
def test_of_what_differs_few_keys_are_told_and_the_newer_state_is_fetched(
    at_once: int, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE_KEYS", at_once)
    one, other = sides(900)
    newer, mine = KEYS[A][17], f"{A}~1"
    one.store.put(newer, Version(1, 2, mine))
    found = one.ask(other)
    assert (found.received, found.told) == (Received(fetching=1), len(one.told()))
    assert other.events.fetched == [(A, newer)]
    assert newer in one.told()
    assert len(one.told()) < 10
    assert len(one.messages) == messages
    assert sum(map(len, one.messages)) < 6_000


def test_what_the_peer_has_newer_or_by_another_writer_is_answered() -> None:
    one, other = sides(900)
    first, second, missing = KEYS[A][:3]
    other.store.put(first, Version(1, 4, f"{A}~1"))
    other.store.put(second, Version(1, 0, f"{C}~1"))
    one.store.forget(missing, 0)
    one.store.forgotten.clear()
    refused = one.ask(other).received.refused
    assert refused == {
        first: Version(1, 4, f"{A}~1"),
        second: Version(1, 0, f"{C}~1"),
        missing: Version(1, 1, f"{A}~1"),
    }


def test_a_third_members_key_is_told_only_for_one_that_cannot() -> None:
    one, other = sides(900)
    key = KEYS[C][5]
    one.store.put(key, Version(1, 2, f"{C}~1"))
    one.ask(other)
    assert key not in one.told()
    assert not other.events.fetched
    one.ask(other, frozenset({C}))
    assert key in one.told()
    assert other.events.fetched


def test_what_is_about_to_be_sent_is_not_compared() -> None:
    """In a busy cluster the digests of what is under way always differ."""
    one, other = sides(900)
    changed, new = KEYS[A][7], KEYS[A][950]
    for key in (changed, new):
        one.store.put(key, Version(1, 2, f"{A}~1"))
        one.protocol.pending.add(DistroKey("t", key))
    other.store.put(new, Version(1, 1, f"{A}~1"))
    assert one.ask(other).received == Received(fetching=0)
    assert not other.events.fetched
    assert not one.told() & {changed, new}


def test_a_forgettable_key_is_dropped_when_its_owner_names_it_no_more_in_the_same_view() -> None:
    one, other = sides(900)
    key, kept = KEYS[A][:2]
    for name in (key, kept):
        one.store.forget(name, 0)
    other.store.forgettable.add(key)
    other.protocol.view_id = "another"
    named = set(one.ask(other).received.refused)
    assert kept in named
    assert key not in named
    assert not named & {name for name in KEYS[A] if name != kept}, "those are named, and equal"
    assert not other.store.forgotten
    other.protocol.view_id = one.protocol.view_id
    assert set(one.ask(other).received.refused) == {kept}
    assert other.store.forgotten == [(key, 77, False)]


def test_forgettable_keys_are_agreed_on_if_the_peer_has_no_other_state() -> None:
    one, other = sides(900)
    equal, newer_there, unknown_there, of_another = KEYS[A][0], KEYS[A][1], KEYS[A][2], KEYS[C][0]
    for name in (equal, newer_there, unknown_there, of_another):
        for side in (one, other):
            side.store.forgettable.add(name)
            side.store.put(name, Version(1, 2, f"{A}~1" if name != of_another else f"{C}~1"))
    other.store.put(newer_there, Version(2, 0, f"{C}~1"))
    other.store.forget(unknown_there, 0)
    assert set(one.ask(other).agreed) == {equal, unknown_there}
    one.store.forgettable.remove(equal)
    one.store.put(equal, Version(1, 3, f"{A}~1"))
    assert set(one.ask(other).agreed) == {unknown_there}


def test_copies_are_confirmed_all_together_but_for_those_that_differ() -> None:
    confirmed: list[tuple[set[str], set[str], int]] = []
    one, other = sides(900, on_compared=lambda members, but, now_ms: confirmed.append((set(members), set(but), now_ms)))
    one.ask(other)
    assert confirmed == [({A}, set(), 77)]
    changed, gone = KEYS[A][:2]
    one.store.put(changed, Version(1, 2, f"{A}~1"))
    one.store.forget(gone, 0)
    one.ask(other, frozenset({C, "10.0.0.9:1"}))
    assert confirmed[1:] == [({A, C}, {changed, gone}, 77)], "and not those of members that are not listed"


def test_of_very_many_that_differ_some_are_left_to_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTED_MAX", 100)
    confirmed: list[Any] = []
    one, other = sides(900, on_compared=lambda *told: confirmed.append(told))
    for key in KEYS[A][:900]:
        one.store.put(key, Version(1, 2, f"{A}~1"))
    one.ask(other)
    assert 10 < len(one.told()) <= 100
    assert not confirmed, "what was not compared is not confirmed"


def test_a_type_that_one_side_does_not_have_stops_nobody() -> None:
    one, other = sides(10)
    one.components["more"] = component(NamedStore())
    assert one.ask(other) == EQUAL
    other.components["more"] = component(NamedStore(), taken_by=frozenset({MemberKind.NACOS_2}))
    other.components["more"].store.put("x", Version(1, 1, f"{B}~1"))  # type: ignore[attr-defined]
    assert one.ask(other) == EQUAL


def test_states_of_real_nacos_do_not_count() -> None:
    one, other = sides(10)
    one.store.put("n", Version(1, 3, C))
    other.store.put("n", Version(1, 5, C))
    one.ask(other)
    assert len(one.messages) == 2


def test_a_member_that_loads_answers_nothing() -> None:
    one, other = sides(10)
    other.loading = True
    with pytest.raises(NotInitialized):
        one.ask(other)


def test_messages_read_back() -> None:
    one, other = sides(900)
    for key in KEYS[A][:700]:
        one.store.put(key, Version(1, 2, f"{A}~1"))
    one.protocol.pending.add(DistroKey("t", KEYS[A][0]))
    one.ask(other, frozenset({C}))
    assert len(one.messages) == 6
    for request, answer in zip(one.messages[::2], one.messages[1::2], strict=True):
        assert DigestRequest.from_bytes(request).to_bytes() == request
        assert DigestAnswer.from_bytes(answer).to_bytes() == answer


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"view":1}',
        b'{"view":"%b"}' % (b"v" * 65),
        b'{"view":"v","for":["x",1]}',
        b'{"view":"v","for":[%b"x"]}' % (b'"x",' * 64),
        b'{"view":"v","roots":[]}',
        b'{"view":"v","roots":{"t":"0"}}',
        b'{"view":"v","roots":{"t":"zzzzzzzzzzzzzzzz"}}',
        b'{"view":"v","roots":{%b}}' % b",".join(b'"%d":"0123456789abcdef"' % one for one in range(17)),
        b'{"view":"v","buckets":{"t":{"256":""}}}',
        b'{"view":"v","buckets":{"t":{"01":""}}}',
        b'{"view":"v","buckets":{"t":{"1":"AAAA"}}}',
        b'{"view":"v","buckets":{"t":{"1":"%"}}}',
        b'{"view":"v","keys":{"t":[]}}',
        b'{"view":"v","keys":{"t":{}}}',
        b'{"view":"v","keys":{"t":{"leaves":[8192]}}}',
        b'{"view":"v","keys":{"t":{"leaves":[true]}}}',
        b'{"view":"v","keys":{"t":{"leaves":[-1]}}}',
        b'{"view":"v","keys":{"t":{"leaves":[],"versions":{"k":"1"}}}}',
        b'{"view":"v","keys":{"t":{"leaves":[],"pending":"k"}}}',
    ],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(CodecError):
        DigestRequest.from_bytes(body)


@pytest.mark.parametrize(
    "body",
    [b"ok", b'{"buckets":{"t":"AAAA"}}', b'{"leaves":{"t":["1"]}}', b'{"received":{"t":{"refused":{"k":1}}}}'],
)
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(CodecError):
        DigestAnswer.from_bytes(body)


def test_keys_spread_over_all_buckets() -> None:
    found = [leaf_of(key) // LEAVES_PER_BUCKET for keys in KEYS.values() for key in keys]
    assert len(set(found)) == BUCKETS
    assert max(map(found.count, range(BUCKETS))) < 40


def test_contents_that_differ_in_equal_versions_are_answered_to_their_owner() -> None:
    one, other = sides(900)
    key, of_another = KEYS[A][11], KEYS[C][0]
    version = Version(1, 1, f"{A}~1")
    other.store.put(key, version, "damaged")
    other.store.put(of_another, Version(1, 1, f"{C}~1"), "damaged")
    assert one.ask(other).received == Received(fetching=0)
    leaf = leaf_of(key)
    assert one.ask(other, sampled=range(leaf + 1, LEAVES)).received == Received(fetching=0)
    assert other.stats.contents_differed == 0
    received = one.ask(other, sampled=range(leaf, leaf + 70)).received
    assert received.refused == {key: version}, "a third member's key is for that one to compare"
    assert other.stats.contents_differed == 1
    assert len(one.messages) == 4
    assert sum(map(len, one.messages)) < 6_000


def test_contents_of_other_versions_are_no_fault() -> None:
    """Something is always under way: then the sums differ, and it is the versions that say why."""
    one, other = sides(900)
    key, leaf = KEYS[A][11], leaf_of(KEYS[A][11])
    one.store.put(key, Version(1, 2, f"{A}~1"), "new")
    one.protocol.pending.add(DistroKey("t", key))
    assert one.ask(other, sampled=range(leaf, leaf + 70)).received == Received(fetching=0)
    other.protocol.view_id = "another"
    one.store.put(key, Version(1, 1, f"{A}~1"), "damaged")
    assert one.ask(other, sampled=range(leaf, leaf + 70)).received == Received(fetching=0), (
        "who owns what is not agreed on"
    )
    assert other.stats.contents_differed == 0


def test_what_a_member_wrote_in_any_run_is_compared_whoever_owns_it() -> None:
    one, other = sides(900)
    key, moved = KEYS[A][11], KEYS[C][11]
    leaves = range(LEAVES)
    for side in (one, other):
        side.store.put(key, Version(1, 1, f"{A}~0"))
        side.store.put(moved, Version(1, 1, f"{A}~1"))
    before = sums_of(one.components["t"], A, leaves)  # the digests are of before
    one.components["t"].digest.refresh()
    sums, contents = sums_of(one.components["t"], A, leaves), contents_of(one.components["t"], A, leaves)
    assert contents.keys() == {*KEYS[A][:900], moved}
    assert whole(sums) == whole(contents)
    assert whole(before) != whole(sums)
    assert {leaf for leaf in leaves if sums[leaf]} == set(map(leaf_of, contents))
    other.store.put(moved, Version(1, 1, f"{A}~1"), "damaged")
    leaf = leaf_of(moved)
    assert one.ask(other, sampled=range(leaf, leaf + 1)).received == Received(fetching=0), "it is not told"
    other.store.put(key, Version(1, 1, f"{A}~0"), "damaged")
    leaf = leaf_of(key)
    assert one.ask(other, sampled=range(leaf, leaf + 1)).received.refused == {key: Version(1, 1, f"{A}~0")}


def test_sums_are_made_once_for_all_peers_until_something_changes() -> None:
    now_ms, looked = [0], list[str]()
    side, _ = sides(900)
    component = side.components["t"]
    component.digest.refresh()
    content = side.store.content

    def counted(key: str) -> tuple[Version, int] | None:
        looked.append(key)
        return content(key)

    side.store.content = counted  # type: ignore[method-assign]
    shared = SharedSums(lambda: now_ms[0])

    def ask(leaves: range = range(LEAVES)) -> int:
        looked.clear()
        sums, count = shared.of("t", component, A, leaves), len(looked)
        assert sums == sums_of(component, A, leaves)
        return count

    assert [ask(), ask()] == [900, 0], "for the second peer"
    now_ms[0] += SHARED_MS + 1
    assert [ask(), ask()] == [900, 0], "not for long: what is in memory may be damaged meanwhile"
    side.store.put(KEYS[C][0], Version(1, 2, f"{C}~1"))
    component.digest.refresh()
    assert [ask(), ask()] == [900, 0], "something changed"
    assert 0 < ask(range(LEAVES // 2)) < 900
    assert ask() == 900, "other leaves"


def test_equal_contents_cost_one_more_number() -> None:
    one, other = sides(900)
    one.ask(other, sampled=range(70))
    assert len(one.messages) == 2
    assert sum(map(len, one.messages)) < 400
