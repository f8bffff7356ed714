"""A list's changes on their way to a peer (R5): what is sent, what the peer makes of it, and what it is sent then."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.naming.model.keys import DEFAULT_NAMESPACE, datum_key
from app.naming.model.model import Instance, Service, StoredInstance, Tombstone
from app.naming.registry import list_replication
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication.instance_list_type import INSTANCE_LIST
from distro.engine.peer_sends import KEYS_MAX, PeerSends
from distro.members.mapper import DistroMapper
from distro.model.errors import CodecError
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import (
    CAPABILITY_CLAIMS,
    CAPABILITY_DELTAS,
    CAPABILITY_VERSIONS,
    Datum,
    Received,
    SyncData,
    Version,
)
from distro.receive.receive import DistroReceiver
from distro.wire.codec import decode_frame, encode_frame
from tests.support.engine import ME, SELF, B, Engine, NoEvents
from tests.support.receiver_view import StubView
from tests.support.registry_parts import store_of

CODEC = InstanceListCodec(lambda: 1_700_000_000_000)
NOW_MS = 1_000_000
SERVICE = "DEFAULT_GROUP@@orders"
KEY = datum_key(DEFAULT_NAMESPACE, SERVICE)
NOTHING: Any = None
DELTAS = frozenset({CAPABILITY_VERSIONS, CAPABILITY_DELTAS})
CLAIMS = DELTAS | {CAPABILITY_CLAIMS}


class Events(NoEvents):
    def __init__(self) -> None:
        self.claimed: list[str] = []

    def claim(self, key: Any, _source: str | None = None) -> None:
        self.claimed.append(key.key)


class Peer:
    """Takes frames as a member does that holds a copy."""

    def __init__(self, owned: bool = False) -> None:
        self.registry, self.stats, self.events = Registry.of(f"{B}~1"), DistroStats(), Events()
        self.published: list[Any] = []
        store = store_of(self.registry, self.published.append)
        parts = {INSTANCE_LIST: Component(store, CODEC, NOTHING, deltas=store)}
        mapper = DistroMapper.over(B, (B,) if owned else (SELF,), standalone=False)
        self.receiver = DistroReceiver(f"{B}~1", parts, StubView(mapper), self.events, self.stats)

    def take(self, datums: list[Datum]) -> Received:
        taken, failed = decode_frame(encode_frame(datums, CODEC, NOW_MS, versioned=True), CODEC, NOW_MS)
        assert not failed
        return self.receiver.receive(INSTANCE_LIST, SELF, taken, NOW_MS)


class Owner:
    """Sends its lists to ``B``."""

    def __init__(self, capabilities: frozenset[str] = DELTAS) -> None:
        engine = Engine(B, kinds={B: capabilities})
        engine.hear()
        self.registry, self.stats = Registry.of(ME), engine.stats
        store = store_of(self.registry, lambda _event: None)
        self.sends = PeerSends(
            {INSTANCE_LIST: Component(store, CODEC, NOTHING, deltas=store)}, engine.protocol.reader, engine.stats
        )

    def change(self, word: str, service: str = SERVICE, ip: str = "10.0.0.1") -> None:
        self.registry.writes.register(RegisterInstance(service, ip, 80, metadata={"word": word}), NOW_MS)

    def read(self, *keys: str) -> list[Datum]:
        return self.sends.read(SyncData(B, INSTANCE_LIST, keys or (KEY,), 0))

    def ended(self, sent: list[Datum], received: Received | None) -> Received:
        return self.sends.ended(SyncData(B, INSTANCE_LIST, tuple(one.key for one in sent), 0), sent, received)

    def send(self, to: Peer) -> tuple[Datum, Received]:
        [datum] = self.read()
        return datum, self.ended([datum], to.take([datum]))


def words(one: Registry) -> dict[str, Any]:
    [datum] = one.lists.datums([KEY])
    return {key: stored.instance.metadata["word"] for key, stored in datum.value.stored.items()}


def test_what_a_peer_acknowledged_it_is_sent_no_more() -> None:
    owner, peer = Owner(), Peer()
    for number in range(50):
        owner.change("a", ip=f"10.0.0.{number}")
    assert owner.send(peer)[0].base is None
    owner.change("b", ip="10.0.0.7")
    owner.change("c", ip="10.0.0.7")
    owner.change("c", ip="10.0.0.8")
    peer.published.clear()
    delta, received = owner.send(peer)
    assert [one.instance.ip for one in delta.value.stored.values()] in (
        ["10.0.0.7", "10.0.0.8"],
        ["10.0.0.8", "10.0.0.7"],
    )
    assert received == Received()
    assert words(peer.registry) == words(owner.registry)
    assert len(peer.published) == 1, "readers are told once"
    assert (owner.stats.sync_deltas, peer.stats.received_deltas, peer.stats.deltas_wanted_whole) == (1, 1, 0)
    peer.take([delta])
    assert len(peer.published) == 1, "the second arrival changes nothing"


def test_what_was_read_for_one_peer_serves_the_other_ones_of_the_turn() -> None:
    owner, peer = Owner(), Peer()
    owner.change("a")
    owner.send(peer)
    owner.change("b")

    def read(turn: int) -> Datum:
        [datum] = owner.sends.read(SyncData(B, INSTANCE_LIST, (KEY,), 0, turn=turn))
        return datum

    first = read(7)
    owner.change("c")
    assert read(7) is first, "the change is due after this turn"
    later = read(8)
    assert (later.base, later.version) == (first.base, first.version.next(ME))
    owner.ended([first], Received())
    assert read(8).base == first.version, "the peer lacks less"
    assert owner.read() != [later]


def test_a_send_without_an_answer_leaves_the_base() -> None:
    owner, peer = Owner(), Peer()
    owner.change("a")
    owner.send(peer)
    for word, arrives in (("b", True), ("c", False), ("d", True)):
        owner.change(word)
        [delta] = owner.read()
        if arrives:
            peer.take([delta])
        assert owner.ended([delta], None) == Received()
    owner.change("e")
    delta, received = owner.send(peer)
    assert delta.base is not None
    assert (received, words(peer.registry)) == (Received(), words(owner.registry))


def test_a_peer_that_lost_its_memory_gets_the_whole_at_once() -> None:
    owner, peer = Owner(), Peer()
    owner.change("a")
    owner.send(peer)
    owner.change("b", ip="10.0.0.2")
    restarted = Peer()
    delta, received = owner.send(restarted)
    assert delta.base is not None
    assert received.wanted == (KEY,)
    assert restarted.registry.lists.version(KEY) is None, "nothing of it is applied"
    assert restarted.stats.deltas_wanted_whole == 1
    whole, received = owner.send(restarted)
    assert (whole.base, received) == (None, Received())
    assert words(restarted.registry) == words(owner.registry)


def test_a_peer_that_always_wants_more_gets_no_stream() -> None:
    owner, liar = Owner(), Received(wanted=(KEY, "another"))
    owner.change("a")
    [datum] = owner.read()
    assert owner.ended([datum], liar).wanted == (), "it was sent whole"
    owner.ended([datum], Received())
    owner.change("b")
    [delta] = owner.read()
    assert owner.ended([delta], liar).wanted == (KEY,)
    [whole] = owner.read()
    assert whole.base is None
    assert owner.ended([whole], liar).wanted == ()


def test_a_peer_that_is_further_by_an_answer_of_the_owner_has_what_was_sent() -> None:
    owner, peer = Owner(), Peer()
    owner.change("a")
    owner.send(peer)
    owner.change("b")
    [delta] = owner.read()
    owner.change("c")
    further, received = owner.send(peer)
    assert received == Received()
    owner.ended([delta], Received(refused={KEY: further.version}))
    owner.change("d")
    assert owner.send(peer)[0].base is not None


def test_what_failed_or_was_refused_is_sent_whole_next_time() -> None:
    for answer in (Received(failed={KEY: "bad"}), Received(refused={KEY: Owner().registry.lists.highest_own()})):
        owner, peer = Owner(), Peer()
        owner.change("a")
        owner.send(peer)
        owner.change("b")
        owner.ended(owner.read(), answer)
        assert owner.read()[0].base is None


def test_a_member_of_the_release_before_gets_whole_lists() -> None:
    owner, peer = Owner(frozenset({CAPABILITY_VERSIONS})), Peer()
    for word in "ab":
        owner.change(word)
        assert owner.send(peer)[0].base is None
    assert owner.stats.sync_deltas == 0


def test_who_owns_the_list_claims_what_came_as_a_delta_too() -> None:
    owner, peer = Owner(), Peer(owned=True)
    owner.change("a")
    owner.send(peer)
    owner.change("b")
    assert owner.send(peer)[0].base is not None
    assert peer.events.claimed == [KEY, KEY]


def test_what_is_known_of_peers_is_bounded() -> None:
    owner = Owner()
    names = [f"DEFAULT_GROUP@@{number}" for number in range(KEYS_MAX + 1)]
    for name in names:
        owner.change("a", service=name)
    keys = [datum_key(DEFAULT_NAMESPACE, name) for name in names]
    owner.ended(owner.read(*keys), Received())
    owner.change("b", service=names[0])
    owner.change("b", service=names[-1])
    first, last = sorted(owner.read(keys[0], keys[-1]), key=lambda one: keys.index(one.key))
    assert (first.base, last.base is None) == (None, False), "the one acknowledged first is forgotten"
    owner.sends.forget_others(["10.0.0.9:8848"])
    assert owner.read(keys[-1])[0].base is None


def claimed(capabilities: frozenset[str] = CLAIMS, owned: bool = False) -> tuple[Owner, Peer]:
    """An owner that claimed the list of a third member, and a peer that has the state which it claimed."""
    third, owner, peer = Registry.of("c:1~1"), Owner(capabilities), Peer(owned)
    for number in range(50):
        third.writes.register(RegisterInstance(SERVICE, f"10.0.0.{number}", 80, metadata={"word": "a"}), NOW_MS)
    third.writes.remove(DEFAULT_NAMESPACE, SERVICE, "10.0.0.7#80#DEFAULT", NOW_MS)
    [datum] = third.lists.datums([KEY])
    for registry in (owner.registry, peer.registry):
        assert registry.replication.apply(CODEC.decode(KEY, fields_of(datum), NOW_MS), None, NOW_MS)
    assert owner.registry.replication.claim(KEY, NOW_MS)
    return owner, peer


def fields_of(datum: Datum) -> Any:
    return orjson.loads(CODEC.encode(datum, NOW_MS, versioned=True))


def test_a_claim_is_told_without_the_list() -> None:
    owner, peer = claimed()
    before, tombstones = words(peer.registry), next(iter(peer.registry.lists.datums([KEY]))).value.tombstones
    [claim] = owner.read()
    assert claim.is_claim
    assert len(CODEC.encode(claim, NOW_MS, versioned=True)) < 200
    assert owner.ended([claim], peer.take([claim])) == Received()
    assert peer.registry.lists.version(KEY) == owner.registry.lists.version(KEY)
    assert words(peer.registry) == before
    assert next(iter(peer.registry.lists.datums([KEY]))).value.tombstones == tombstones
    assert not peer.published, "nothing changed for readers"
    assert peer.take([claim]) == Received(), "the second arrival changes nothing"
    owner.change("b")
    delta, received = owner.send(peer)
    assert (delta.base, received) == (claim.version, Received())
    assert words(peer.registry) == words(owner.registry)


def test_a_peer_that_has_another_state_than_was_claimed_gets_the_whole() -> None:
    third = Registry.of("c:1~1")
    third.writes.register(RegisterInstance(SERVICE, "10.0.0.1", 80, metadata={"word": "old"}), NOW_MS)
    [old] = third.lists.datums([KEY])
    for has in (None, old):
        (owner, _), behind = claimed(), Peer()
        if has is not None:
            assert behind.registry.replication.apply(CODEC.decode(KEY, fields_of(has), NOW_MS), None, NOW_MS)
        before = behind.registry.lists.version(KEY)
        [claim] = owner.read()
        assert claim.is_claim
        assert owner.ended([claim], behind.take([claim])).wanted == (KEY,)
        assert behind.registry.lists.version(KEY) == before
        whole, received = owner.send(behind)
        assert (whole.base, received) == (None, Received()), "not told as a claim once more"
        assert words(behind.registry) == words(owner.registry)


def test_who_owns_the_list_by_its_own_view_takes_no_claim_of_it() -> None:
    owner, peer = claimed(owned=True)
    before = peer.registry.lists.version(KEY)
    [claim] = owner.read()
    assert owner.ended([claim], peer.take([claim])).wanted == (KEY,)
    assert peer.registry.lists.version(KEY) == before


def test_a_member_that_takes_no_claims_gets_the_whole() -> None:
    owner, peer = claimed(DELTAS)
    whole, received = owner.send(peer)
    assert (whole.base, received) == (None, Received())
    assert words(peer.registry) == words(owner.registry)


def test_a_list_that_changed_after_its_claim_goes_whole() -> None:
    owner, peer = claimed()
    owner.change("b")
    whole, received = owner.send(peer)
    assert (whole.base, received) == (None, Received())
    assert words(peer.registry) == words(owner.registry)


def test_the_claim_of_an_empty_list_is_forgettable_where_it_arrives() -> None:
    owner, peer = claimed()
    for registry in (owner.registry, peer.registry):
        service = registry.table.find(KEY)
        assert service is not None
        service.stored.clear()
        service.tombstones.clear()
    owner.send(peer)
    assert peer.registry.lists.version(KEY) == owner.registry.lists.version(KEY)
    assert peer.registry.upkeep.is_forgettable(KEY, NOW_MS)
    assert not owner.registry.upkeep.is_forgettable(KEY, NOW_MS)


@pytest.mark.parametrize("base", ["0.0.", "1.1.c:1~1", f"1.2.{ME}", "3.0.c:1~1", "text", 7, None])
def test_a_claim_of_a_liar_is_refused(base: object) -> None:
    fields = {"claimed": "1.2.c:1~1", "version": f"2.0.{ME}", "digest": "0" * 16}
    assert CODEC.decode(KEY, fields, NOW_MS).is_claim
    if base == "1.1.c:1~1":  # the counter says nothing: who has that state takes it
        assert CODEC.decode(KEY, fields | {"claimed": base}, NOW_MS).is_claim
        return
    with pytest.raises(CodecError):
        CODEC.decode(KEY, fields | {"claimed": base}, NOW_MS)


@pytest.mark.parametrize("digest", [None, 7, "", "0" * 15, "0" * 17, "x" * 16, "-" + "0" * 15, "0" * 16 + "\n"])
def test_a_claim_without_a_digest_is_refused(digest: object) -> None:
    fields = {"claimed": "1.2.c:1~1", "version": f"2.0.{ME}", "digest": digest}
    with pytest.raises(CodecError):
        CODEC.decode(KEY, fields, NOW_MS)


def test_a_claim_is_not_read_at_once() -> None:
    """Its digest is one of the whole list: a change of it that is sent alone is read in a moment, this is not."""
    owner, peer = claimed()
    assert owner.sends.read_small(SyncData(B, INSTANCE_LIST, (KEY,), 0)) is None
    owner.send(peer)
    owner.change("b")
    read = owner.sends.read_small(SyncData(B, INSTANCE_LIST, (KEY,), 0))
    assert read is not None
    [delta] = read
    assert (delta.base, delta.version) == (peer.registry.lists.version(KEY), owner.registry.lists.version(KEY))


def test_the_digest_of_a_claim_is_that_of_the_documented_text() -> None:
    """Other releases make the same one: docs/wire-data.md."""
    owner, _ = claimed()
    [datum] = owner.registry.lists.datums([KEY])
    parts = datum.value.stored, datum.value.tombstones
    told = [[f"{key} {one.version.to_text()}" for key, one in sorted(part.items())] for part in parts]
    text = "\0\0".join(map("\0".join, told))
    expected = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    assert len(told[0]) == 50
    assert told[1]
    assert fields_of(owner.read()[0])["digest"] == expected


def test_a_removal_is_told_apart_from_an_instance() -> None:
    version = Version(1, 1, "c:1~1")
    one = StoredInstance(
        Instance(ip="10.0.0.1", port=80, cluster_name="DEFAULT", service_name=SERVICE), version, NOW_MS
    )
    removed = Tombstone(version, NOW_MS, 90_000)
    lists = [
        InstanceList({}, {}),
        InstanceList({"a": one}, {}),
        InstanceList({}, {"a": removed}),
        InstanceList({"a": one, "b": one}, {}),
        InstanceList({"a": one}, {"b": removed}),
        InstanceList({"b": one}, {"a": removed}),
    ]
    assert len({one.version_digest for one in lists}) == len(lists)


def forget_a_removal(service: Service) -> None:
    del service.tombstones["10.0.0.7#80#DEFAULT"]


def know_another_removal(service: Service) -> None:
    service.tombstones["10.0.0.99#80#DEFAULT"] = Tombstone(Version(1, 3, "c:1~1"), NOW_MS, 90_000)


def lose_an_instance(service: Service) -> None:
    del service.stored[min(service.stored)]


def have_an_instance_of_before(service: Service) -> None:
    one = service.stored[min(service.stored)]
    one.version = one.client_version = Version(0, 1, "c:1~1")


@pytest.mark.parametrize("at_the_owner", [False, True])
@pytest.mark.parametrize(
    "depart", [forget_a_removal, know_another_removal, lose_an_instance, have_an_instance_of_before]
)
def test_one_version_with_two_states_is_told_whole(depart: Callable[[Service], None], at_the_owner: bool) -> None:
    owner, peer = claimed()
    departing = owner.registry if at_the_owner else peer.registry
    service = departing.table.find(KEY)
    assert service is not None
    before = peer.registry.lists.version(KEY)
    depart(service)
    [claim] = owner.read()
    assert claim.is_claim
    assert owner.ended([claim], peer.take([claim])).wanted == (KEY,)
    assert peer.registry.lists.version(KEY) == before
    [whole] = owner.read()
    assert whole.base is None


def test_a_claim_that_comes_late_takes_nothing_back() -> None:
    owner, peer = claimed()
    [claim] = owner.read()
    owner.change("b")
    whole, _ = owner.send(peer)
    assert whole.base is None
    later = peer.registry.lists.version(KEY)
    assert peer.take([claim]) == Received(), "it is of before what is there"
    assert peer.registry.lists.version(KEY) == later
    assert words(peer.registry) == words(owner.registry)


@pytest.mark.parametrize("count", [1, COPIED_UNDER_LOCK_MAX + 1])
def test_a_change_while_a_claim_is_read_is_no_claim(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    third, owner = Registry.of("c:1~1"), Owner(CLAIMS)
    for number in range(count):
        third.writes.register(RegisterInstance(SERVICE, f"10.0.1.{number}", 80), NOW_MS)
    [datum] = third.lists.datums([KEY])
    assert owner.registry.replication.apply(datum, None, NOW_MS)
    assert owner.registry.replication.claim(KEY, NOW_MS)
    digest, changed = list_replication._version_digest, list[str]()

    def digest_late(service: Service) -> int:
        found = digest(service)
        if count > COPIED_UNDER_LOCK_MAX and not changed:  # a smaller one is read under the lock
            changed.append("once")
            owner.change("b")
        return found

    monkeypatch.setattr(list_replication, "_version_digest", digest_late)
    [read] = owner.read()
    assert read.is_claim is (count <= COPIED_UNDER_LOCK_MAX)
    assert read.version == owner.registry.lists.version(KEY)


def test_what_real_nacos_wrote_is_never_told_as_a_claim() -> None:
    owner = Owner(CLAIMS)
    third = Registry.of("c:1~1")
    third.writes.register(RegisterInstance(SERVICE, "10.0.0.1", 80, metadata={"word": "a"}), NOW_MS)
    [datum] = third.lists.datums([KEY])
    assert owner.registry.replication.apply(replace(datum, version=Version(0, 5, "c:1")), None, NOW_MS)
    assert owner.registry.replication.claim(KEY, NOW_MS)
    [whole] = owner.read()
    assert whole.base is None
