"""Beats at a member that is not the owner: answered from its copy, forwarded, or sent to the owner in batches."""

import json
import random
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from app.commands.write_caller import Misdirected
from app.http.api.answers import MEMBER_REPLIES, error_reply
from app.http.api.call import CLOCK, DECLINE, OK, RELAY, Answer, Call, Decline, Forward, Reply
from app.http.input import json_text
from app.http.v1.distro import PASSED_MS_MAX, SMALL_SERVICES, put_beats, put_checksum, put_datum
from app.http.v1.instance import beat, deregister, register
from app.naming.model.events import InstanceHealed, InstancesChanged, Origin
from app.naming.model.keys import CLIENT_KEY_PREFIX
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import NotExecuted
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import AGE_MS_MAX
from app.peers import beats as beats_module
from app.peers.beats import (
    ANSWER_S,
    BATCH_MAX,
    KEEP_MS,
    SEND_S,
    TOLD_CHARS_MAX,
    BeatCollector,
    BeatSender,
    encode_batch,
    take_batch,
)
from app.peers.passed_writes import LoopForwarder
from app.peers.small_datums import SMALL_BYTES
from distro.model.errors import CodecError
from distro.model.types import CAPABILITY_WRITES, Member, MemberState
from distro.wire.codec import gzip_body
from tests.support.fake_node import PEER, SELF, FakeNode, StubCluster
from tests.support.loops import Asked, MemberServer, SkippingLoop, answer, member_server, run_loop, turns, until
from tests.support.registry_parts import naming_of

TAG = "DEFAULT_GROUP@@a"
KEY = f"com.alibaba.nacos.naming.iplist.ephemeral.public##{TAG}"
ONE, TWO = "10.0.0.1:80:unknown:DEFAULT", "10.0.0.2:80:unknown:DEFAULT"
SHORT = '{"preserved.heart.beat.timeout":"1000","preserved.heart.beat.interval":"333"}'


def call(method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None, **values: Any) -> Call:
    query = urlencode({"serviceName": "a", **values}).encode() if not body else b""
    return Call(method, path, query, headers or {}, body, "127.0.0.1", on_loop=True)


def beat_of(node: FakeNode, ip: str, **values: Any) -> Answer:
    return beat(call("PUT", "/v1/ns/instance/beat", ip=ip, port=80, **values), node)


def full_beat_of(node: FakeNode, ip: str, **fields: Any) -> Answer:
    text = json.dumps({"ip": ip, "port": 80, "cluster": "DEFAULT", "weight": 1.0, **fields})
    return beat(call("PUT", "/v1/ns/instance/beat", beat=text), node)


class Owner:
    """The responsible member, as it answers its peers. Its clock is not ours."""

    def __init__(self) -> None:
        self.node = FakeNode(cluster=StubCluster(PEER, standalone=False, owner=PEER), now_ms=77_000_000)
        self.registry = Registry.of(f"{PEER}~1")
        self.node.naming = naming_of(self.registry, lambda: self.node.now_ms, self.node.events.append)

    def register(self, ip: str, **values: Any) -> None:
        assert register(call("POST", "/v1/ns/instance", ip=ip, port=80, **values), self.node) is OK

    def stored(self, key: str) -> Any:
        service = self.registry.table.find(KEY)
        return service.stored[key] if service else None

    def take(self, body: bytes) -> Any:
        reply = put_beats(call("PUT", "/v1/ns/distro/beats", body), self.node)
        assert isinstance(reply, Reply)
        assert reply.status == 200
        return json.loads(reply.body)


def entry_with_copy(owner: Owner | None = None, *, own_kind: bool = True) -> FakeNode:
    """A member that is not responsible, with a copy of the owner's instances."""
    capabilities = frozenset({CAPABILITY_WRITES} if own_kind else ())
    cluster = StubCluster(SELF, standalone=False, owner=PEER, others=[Member(PEER, MemberState.UP, capabilities)])
    node = FakeNode(cluster=cluster)
    for datum in owner.registry.lists.datums([KEY]) if owner else ():
        assert node.registry.replication.apply(datum, None, node.now_ms)
    return node


@pytest.fixture
def owner() -> Owner:
    made = Owner()
    made.register("10.0.0.1")
    return made


# --- answered from the copy, or passed on -------------------------------------------------------------


def test_a_beat_of_a_held_instance_is_answered_and_noted(owner: Owner) -> None:
    owner.register("10.0.0.2", metadata=SHORT)
    entry = entry_with_copy(owner)
    entry.now_ms += 5_000
    as_at_owner = [beat_of(owner.node, "10.0.0.1"), beat_of(owner.node, "10.0.0.2")]
    assert [beat_of(entry, "10.0.0.1"), full_beat_of(entry, "10.0.0.2")] == as_at_owner
    assert b"333" in reply_of(as_at_owner[1]).body
    now_ms = entry.now_ms
    assert entry.beats.take(now_ms) == [(PEER, {(KEY, ONE): now_ms, (KEY, TWO): now_ms})]
    assert entry.beats.collected == 2
    # Should this member become the owner, it knows of them.
    stored = entry.registry.table.find(KEY).stored  # type: ignore[union-attr]
    assert {one.beat_ms for one in stored.values()} == {one.last_confirmed_ms for one in stored.values()} == {now_ms}
    assert entry.events == [], "no datum is written"


def reply_of(answer: Answer) -> Reply:
    assert isinstance(answer, Reply)
    return answer


def test_the_switches_of_this_member_are_in_the_answer(owner: Owner) -> None:
    entry = entry_with_copy(owner)
    for name, value in (("clientBeatInterval", "6000"), ("lightBeatEnabled", "false")):
        entry.durable.update_switch(name, value, here_only=True)
    expected = b'{"clientBeatInterval":6000,"code":10200,"lightBeatEnabled":false}'
    assert reply_of(beat_of(entry, "10.0.0.1")).body == expected


def unhealthy(entry: FakeNode) -> None:
    entry.naming.set_health("public", TAG, ONE, False)


def unknown(entry: FakeNode) -> None:
    entry.registry.upkeep.forget(KEY)


def of_java(entry: FakeNode) -> None:
    entry.cluster.others = [Member(PEER, MemberState.UP)]


def flagged(entry: FakeNode) -> None:
    entry.beats.note_unknown(json.dumps({"unknown": {KEY: [ONE]}}).encode())


def full_batch(entry: FakeNode) -> None:
    for number in range(beats_module.COLLECTED_MAX):
        assert entry.beats.collect(PEER, KEY, f"{number}", 1)


def persistent_beside(entry: FakeNode) -> None:
    instance = Instance("10.0.0.9", 80, ephemeral=False)
    entry.registry.table.set_persistent("public", TAG, instance.key, instance, entry.now_ms)


REASONS = [unhealthy, unknown, of_java, flagged, full_batch, persistent_beside]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("send", [beat_of, full_beat_of])
def test_a_beat_that_the_owner_must_answer_is_passed_on(
    owner: Owner,
    reason: Callable[[FakeNode], None],
    send: Callable[[FakeNode, str], Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beats_module, "COLLECTED_MAX", 3)
    entry = entry_with_copy(owner)
    reason(entry)
    before = entry.beats.collected
    assert send(entry, "10.0.0.1") == Forward(TAG)
    assert entry.beats.collected == before


def test_a_beat_of_a_persistent_instance_is_not_noted(owner: Owner) -> None:
    entry = entry_with_copy(owner)
    persistent_beside(entry)
    assert beat_of(entry, "10.0.0.9") == Forward(TAG)
    assert full_beat_of(entry, "10.0.0.9", ephemeral=False) == Forward(TAG)
    assert full_beat_of(entry, "10.0.0.8", ephemeral=False) is DECLINE, "it writes to the disk"
    assert not entry.beats.collected


def test_a_beat_that_a_member_passed_on_goes_no_further(owner: Owner) -> None:
    entry = entry_with_copy(owner)
    passed_on = call(
        "PUT", "/v1/ns/instance/beat", headers={"user-agent": "Nacos-Server:1.4.8"}, ip="10.0.0.1", port=80
    )
    with pytest.raises(Misdirected) as refusal:
        beat(passed_on, entry)
    assert error_reply(refusal.value).status == 400
    assert not entry.beats.collected


def test_the_owner_notes_nothing(owner: Owner) -> None:
    assert reply_of(beat_of(owner.node, "10.0.0.1")).status == 200
    assert owner.node.beats.take(owner.node.now_ms) == []


# --- what is collected --------------------------------------------------------------------------------


def test_the_latest_beat_of_each_is_told_once() -> None:
    collector = BeatCollector()
    for now_ms in (1, 2, 3):
        assert collector.collect(PEER, "k", "i", now_ms)
    assert collector.collect("other:1", "k", "i", 1)
    assert sorted(collector.take(4)) == [(PEER, {("k", "i"): 3}), ("other:1", {("k", "i"): 1})]
    assert collector.take(4) == []


def test_those_that_wait_the_longest_go_first_and_no_turn_has_much_to_do() -> None:
    collector = BeatCollector()
    count = 2 * BATCH_MAX + 7
    for number in range(count):
        assert collector.collect(PEER, "k", f"{number}", number)
    assert collector.collect(PEER, "k", "0", count)  # it still waits the longest
    sizes, seen = [], list[int]()
    while taken := collector.take(KEEP_MS - 1):
        ((_, batch),) = taken
        sizes.append(len(batch))
        seen.extend(int(key) for _, key in batch)
    assert sizes == [BATCH_MAX, BATCH_MAX, 7]
    assert seen == list(range(count))


def test_those_who_are_busy_are_told_later() -> None:
    collector = BeatCollector()
    collector.collect(PEER, "k", "i", 1)
    collector.collect("other:1", "k", "i", 1)
    assert collector.take(2, {PEER}) == [("other:1", {("k", "i"): 1})]
    collector.collect(PEER, "k", "i", 2)
    assert collector.take(2) == [(PEER, {("k", "i"): 2})]


def test_what_is_put_back_does_not_hide_what_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats_module, "COLLECTED_MAX", 3)
    collector = BeatCollector()
    for name in "ab":
        collector.collect(PEER, "k", name, 1)
    ((owner, batch),) = collector.take(2)
    collector.collect(PEER, "k", "b", 5)
    collector.put_back(owner, batch)
    assert collector.take(5) == [(PEER, {("k", "b"): 5, ("k", "a"): 1})]
    for name in "cde":
        collector.collect(PEER, "k", name, 6)
    collector.put_back(owner, batch)
    assert collector.take(6) == [(PEER, {("k", name): 6 for name in "cde"})], "there is no room for the old ones"


def test_a_beat_that_could_not_be_told_is_dropped_in_the_end() -> None:
    collector = BeatCollector()
    collector.collect(PEER, "k", "old", 1_000)
    collector.collect(PEER, "k", "new", 1_001)
    assert collector.take(1_000 + KEEP_MS) == [(PEER, {("k", "new"): 1_001})]
    assert collector.take(1_000 + KEEP_MS) == []


def test_an_unknown_one_is_passed_on_once() -> None:
    collector = BeatCollector()
    collector.note_unknown(b'{"unknown":{"k":["a","b"],"l":["a"]}}')
    entries = [("k", "a"), ("k", "b"), ("l", "a"), ("l", "b")]
    assert [collector.collect(PEER, *entry, 1) for entry in entries] == [False, False, False, True]
    assert [collector.collect(PEER, *entry, 1) for entry in entries] == [True] * 4


def test_the_memory_of_unknown_ones_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats_module, "UNKNOWN_MAX", 10)
    collector = BeatCollector()
    for number in range(25):
        collector.note_unknown(json.dumps({"unknown": {f"k{number}": ["i"]}}).encode())
        assert len(collector._unknown) <= 10
    assert not collector.collect(PEER, "k24", "i", 1)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b"{", b'{"unknown":[]}', b'{"unknown":{"k":1}}', b'{"unknown":null}', b"\xff"]
)
def test_an_answer_that_is_none_says_so(text: bytes) -> None:
    with pytest.raises(CodecError, match="batch of beats"):
        BeatCollector().note_unknown(text)


@pytest.fixture
def threads_take_turns() -> Iterator[None]:
    """Another thread gets its turn as often as the interpreter allows."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


@pytest.mark.usefixtures("threads_take_turns")
def test_threads_and_the_loop_do_not_hurt_each_other() -> None:
    """A pool's threads collect beats while batches are taken: nothing fails, and the last beats are in a batch."""
    collector, failures = BeatCollector(), list[BaseException]()
    goes_on = threading.Event()

    def note(worker: int) -> None:
        rng = random.Random(worker)
        try:
            while not goes_on.is_set():
                collector.collect(PEER, "k", f"{worker}-{rng.randrange(5_000)}", 1)
        except RuntimeError as error:
            failures.append(error)

    threads = [threading.Thread(target=note, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    taken, takes = set[str](), count()
    try:
        while (len(taken) < 3 * 4_500 or next(takes) < 3_000) and not failures:
            for owner, batch in collector.take(2):
                taken.update(key for _, key in batch)
                if len(taken) % 2:
                    collector.put_back(owner, batch)
    finally:
        goes_on.set()
        for thread in threads:
            thread.join()
    assert not failures


# --- what the owner makes of it -----------------------------------------------------------------------


def test_a_batch_travels_as_ages(owner: Owner) -> None:
    owner.register("10.0.0.2")
    owner.node.now_ms += 9_000
    batch = {(KEY, ONE): 4_000, (KEY, TWO): 5_999, (KEY, "gone"): 5_000, (f"{KEY}x", ONE): 6_000}
    body = encode_batch(batch, 6_000)
    assert json.loads(body) == {KEY: {ONE: 2_000, TWO: 1, "gone": 1_000}, f"{KEY}x": {ONE: 0}}
    assert owner.take(body) == {"unknown": {KEY: ["gone"], f"{KEY}x": [ONE]}}
    now_ms = owner.node.now_ms
    assert (owner.stored(ONE).beat_ms, owner.stored(TWO).beat_ms) == (now_ms - 2_000, now_ms - 1)
    assert (owner.stored(ONE).last_confirmed_ms, owner.stored(TWO).last_confirmed_ms) == (now_ms - 2_000, now_ms - 1)


def test_a_beat_noted_after_the_batch_was_made_has_no_negative_age() -> None:
    assert json.loads(encode_batch({("k", "i"): 10}, 9)) == {"k": {"i": 0}}


def test_a_late_batch_moves_no_beat_back(owner: Owner) -> None:
    owner.node.now_ms += 9_000
    beat_of(owner.node, "10.0.0.1")
    beaten_ms = owner.stored(ONE).beat_ms
    owner.node.now_ms += 10
    assert owner.take(encode_batch({(KEY, ONE): 1_000}, 6_000)) == {"unknown": {}}
    assert owner.stored(ONE).beat_ms == owner.stored(ONE).last_confirmed_ms == beaten_ms


def test_a_batch_makes_healthy_again_who_beat_in_time(owner: Owner) -> None:
    owner.register("10.0.0.2", metadata=SHORT)
    for key in (ONE, TWO):
        owner.node.naming.set_health("public", TAG, key, False)
    version = owner.registry.lists.version(KEY)
    owner.node.events.clear()
    owner.node.now_ms += 20_000
    # Two's time-out is a second: a beat of 1.5 s ago does not show that it lives now.
    assert owner.take(encode_batch({(KEY, ONE): 500, (KEY, TWO): 500}, 2_000)) == {"unknown": {}}
    assert (owner.stored(ONE).instance.healthy, owner.stored(TWO).instance.healthy) == (True, False)
    assert owner.registry.lists.version(KEY) > version  # type: ignore[operator]
    assert owner.node.events == [InstanceHealed(KEY, ONE), InstancesChanged(KEY, Origin.LOCAL)]
    assert owner.take(encode_batch({(KEY, TWO): 1_900}, 2_000)) == {"unknown": {}}
    assert owner.stored(TWO).instance.healthy
    owner.node.events.clear()
    version = owner.registry.lists.version(KEY)
    owner.take(encode_batch({(KEY, ONE): 2_000, (KEY, TWO): 2_000}, 2_000))
    assert (owner.node.events, owner.registry.lists.version(KEY)) == ([], version), "a beat alone writes nothing"


def test_services_of_others_are_left_to_them(owner: Owner) -> None:
    owner.node.cluster.give_to(SELF)
    owner.node.now_ms += 9_000
    before_ms = owner.stored(ONE).beat_ms
    assert owner.take(encode_batch({(KEY, ONE): 1, (KEY, "gone"): 1, ("no key", "i"): 1}, 1)) == {"unknown": {}}
    assert owner.stored(ONE).beat_ms == before_ms


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "a JSON object"),
        (b"[]", "a JSON object"),
        (b"\xff", "a JSON object"),
        (b'{"k":', "a JSON object"),
        (b'{"k":1}', "ages in ms"),
        (b'{"k":["i"]}', "ages in ms"),
        (b'{"k":{"i":"1"}}', "ages in ms"),
        (b'{"k":{"i":1.5}}', "ages in ms"),
        (b'{"k":{"i":true}}', "ages in ms"),
        (b'{"k":{"i":null}}', "ages in ms"),
        (b'{"k":{"i":-1}}', "ages in ms"),
        (b'{"k":{"i":%d}}' % (AGE_MS_MAX + 1), "ages in ms"),
        (orjson.dumps({KEY: {ONE: 0}, "k": {"i": -1}}), "ages in ms"),
    ],
)
def test_a_malformed_batch_is_refused_whole(owner: Owner, body: bytes, says: str) -> None:
    owner.node.now_ms += 9_000
    before_ms = owner.stored(ONE).beat_ms
    with pytest.raises(CodecError, match=says):
        take_batch(json_text.loads_body(body, of_member=True), owner.node.naming.take_beats)
    with pytest.raises(CodecError, match=says):
        put_beats(call("PUT", "/v1/ns/distro/beats", body or b" "), owner.node)
    assert owner.stored(ONE).beat_ms == before_ms


def test_the_ages_in_a_batch_count_from_its_send(owner: Owner) -> None:
    """R13. It may have waited in a socket: what the sender heard before a deregistration must not look later."""
    owner.register("10.0.1.1")
    owner.node.now_ms += 9_000
    now_ms, clock = owner.node.now_ms, f"{SELF}~1 77"
    owner.node.cluster.sent[SELF, clock] = now_ms - 1_500
    batch = call("PUT", "/v1/ns/distro/beats", encode_batch({(KEY, ONE): now_ms - 300}, now_ms), {CLOCK: clock})
    reply_of(put_beats(batch, owner.node))
    assert owner.stored(ONE).beat_ms == now_ms - 1_800


def test_the_age_of_a_beat_that_is_passed_on_counts_from_its_first_send() -> None:
    between = entry_with_copy()
    now_ms, clock = between.now_ms, f"{SELF}~1 77"
    between.cluster.sent[SELF, clock] = now_ms - 1_500
    batch = encode_batch({(KEY, ONE): now_ms - 300}, now_ms)
    reply_of(put_beats(call("PUT", "/v1/ns/distro/beats", batch, {RELAY: "1", CLOCK: clock}), between))
    assert between.beats.take(now_ms) == [(PEER, {(KEY, ONE): now_ms - 1_800})]


def test_beats_for_a_member_that_their_sender_cannot_call_are_passed_on_and_those_that_cannot_be_are_named() -> None:
    """R12. An instance that its owner did not know needs a beat of its own, which makes its client register."""
    between = entry_with_copy()
    between.beats.note_unknown(orjson.dumps({"unknown": {KEY: [TWO]}}))
    batch = encode_batch({(KEY, ONE): between.now_ms - 300, (KEY, TWO): between.now_ms}, between.now_ms)
    reply = reply_of(put_beats(call("PUT", "/v1/ns/distro/beats", batch, {RELAY: "1"}), between))
    assert json.loads(reply.body) == {"unknown": {KEY: [TWO]}}
    assert between.beats.take(between.now_ms) == [(PEER, {(KEY, ONE): between.now_ms - 300})]


def test_young_beats_that_came_to_another_than_the_owner_are_passed_on() -> None:
    """The views of members differ for a short time after a cut; if they do for longer, no beat goes in a circle."""
    between = entry_with_copy()
    now_ms = between.now_ms
    batch = encode_batch({(KEY, ONE): now_ms - PASSED_MS_MAX + 1, (KEY, TWO): now_ms - PASSED_MS_MAX}, now_ms)
    reply = reply_of(put_beats(call("PUT", "/v1/ns/distro/beats", batch), between))
    assert json.loads(reply.body) == {"unknown": {}}
    assert between.beats.take(now_ms) == [(PEER, {(KEY, ONE): now_ms - PASSED_MS_MAX + 1})]


def test_a_beat_that_was_passed_on_does_not_hide_a_later_one() -> None:
    collector = BeatCollector()
    collector.collect(PEER, KEY, ONE, 2_000)
    collector.collect(PEER, KEY, ONE, 1_000)
    assert collector.take(2_000) == [(PEER, {(KEY, ONE): 2_000})]


@pytest.mark.parametrize("state", [MemberState.STARTING, MemberState.DOWN])
def test_who_does_not_serve_takes_no_batch(owner: Owner, state: MemberState) -> None:
    """What it has not loaded yet is not unknown."""
    owner.node.cluster.own_state = state
    with pytest.raises(NotExecuted) as refusal:
        put_beats(call("PUT", "/v1/ns/distro/beats", encode_batch({(KEY, "gone"): 1}, 1)), owner.node)
    assert error_reply(refusal.value).status == 503


# --- what the loop itself reads of a peer -------------------------------------------------------------


def test_a_large_batch_is_left_to_the_pool(owner: Owner) -> None:
    large = call("PUT", "/v1/ns/distro/beats", encode_batch({(KEY, f"{number:030}"): 1 for number in range(500)}, 1))
    assert len(large.body) > SMALL_BYTES
    assert put_beats(large, owner.node) is DECLINE
    large.on_loop = False
    assert len(json.loads(reply_of(put_beats(large, owner.node)).body)["unknown"][KEY]) == 500


def test_small_instance_lists_are_taken_on_the_loop() -> None:
    node = FakeNode()
    small, large = b'{"%b":{}}' % KEY.encode(), b'{"%b":{"a":"%b"}}' % (KEY.encode(), b"x" * SMALL_BYTES)
    client = b'{"%bc1":{}}' % CLIENT_KEY_PREFIX.encode()
    taken = [(b"", small), (b"gz", gzip_body(small)), (b"", client)]
    for _, body in taken:
        assert put_datum(call("PUT", "/v1/ns/distro/datum", body), node) is not DECLINE
    assert [body for _, body in node.replication.taken] == [body for _, body in taken]
    mixed = b'{"%b":{},"com.rollcall.record":{}}' % KEY.encode()
    for body in (
        large,
        gzip_body(large),
        gzip_body(b'{"a":"%b"}' % (b"x" * 9_999_999)),
        b"[]",
        b"{",
        b"\x1f\x8bx",
    ):
        assert put_datum(call("PUT", "/v1/ns/distro/datum", body), node) == DECLINE, body[:80]
    assert put_datum(call("PUT", "/v1/ns/distro/datum", mixed), node) == Decline(json.loads(mixed))
    assert len(node.replication.taken) == len(taken)


def test_small_checksums_are_compared_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode()

    def checksum(body: bytes, query: bytes = b"source=s") -> Answer:
        return put_checksum(Call("PUT", "/v1/ns/distro/checksum", query, {}, body, "127.0.0.1", on_loop=True), node)

    assert checksum(b"{}") is not DECLINE
    assert node.replication.taken == [("s", b"{}")]
    assert checksum(b"{" + b" " * SMALL_BYTES) is DECLINE
    assert checksum(b"{}", b"source=s&type=t") is DECLINE, "there may be many clients in few services"
    monkeypatch.setattr(node.naming, "service_count", lambda: SMALL_SERVICES + 1)
    assert checksum(b"{}") is DECLINE


# --- telling the owner --------------------------------------------------------------------------------


class Sender:
    """An entry member that tells an owner of beats, and the owner's server."""

    def __init__(self, loop: SkippingLoop, owner: Owner, server: MemberServer) -> None:
        self.loop, self.owner, self.server = loop, owner, server
        self.entry = entry_with_copy(owner)
        self.entry.cluster.others = [Member(server.address, MemberState.UP, frozenset({CAPABILITY_WRITES}))]
        self.entry.cluster.give_to(server.address)
        self.forwarder = LoopForwarder(self.entry, loop, MEMBER_REPLIES)
        self.sender = BeatSender(self.entry, self.forwarder)

    def monotonic_ms(self) -> int:
        return self.entry.now_ms

    def wall_ms(self) -> int:
        return self.entry.now_ms

    def answer(self, asked: Asked) -> bytes:
        assert (asked.method, asked.target) == ("PUT", "/nacos/v1/ns/distro/beats")
        assert asked.headers["user-agent"].startswith("Nacos-Server")
        return answer(json.dumps(self.owner.take(asked.body)).encode())

    async def send(self) -> None:
        """Have the next batch sent, and its result reported."""
        count = len(self.server.received)
        self.loop.skip(SEND_S)
        await self.server.wait_for(count + 1)
        await until(lambda: not self.sender._in_flight)

    def batch(self, number: int = -1) -> Any:
        return json.loads(self.server.received[number].body)

    async def close(self) -> None:
        self.sender.stop()
        self.forwarder.close()
        await turns(3)


def test_owners_are_told_every_so_often_and_say_whom_they_do_not_know(owner: Owner) -> None:
    async def main(loop: SkippingLoop) -> None:
        owner.register("10.0.0.2")
        async with member_server() as server:
            sender = Sender(loop, owner, server)
            server.answer = sender.answer
            entry = sender.entry
            deregister(call("DELETE", "/v1/ns/instance", ip="10.0.0.2", port=80), owner.node)
            assert [reply_of(beat_of(entry, ip)).status for ip in ("10.0.0.1", "10.0.0.2")] == [200, 200]
            entry.now_ms += 150
            owner.node.now_ms += 9_000
            await sender.send()
            assert sender.batch() == {KEY: {ONE: 150, TWO: 150}}
            assert owner.stored(ONE).beat_ms == owner.node.now_ms - 150
            # The second beat of the unknown one is the owner's to answer: it is to register again.
            assert beat_of(entry, "10.0.0.2") == Forward(TAG)
            assert b"20404" in reply_of(beat_of(owner.node, "10.0.0.2")).body
            assert reply_of(beat_of(entry, "10.0.0.1")).status == 200
            await sender.send()
            assert sender.batch() == {KEY: {ONE: 0}}
            loop.skip(10 * SEND_S)
            await turns(5)
            assert len(server.received) == 2, "nothing to tell, nothing sent"
            assert entry.http.beats_collected == 3
            await sender.close()

    run_loop(main)


def test_one_batch_at_a_time_goes_to_an_owner(owner: Owner) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda _: None) as server:
            sender = Sender(loop, owner, server)
            beat_of(sender.entry, "10.0.0.1")
            loop.skip(SEND_S)
            await server.wait_for(1)
            for _ in range(3):
                sender.entry.now_ms += 200
                beat_of(sender.entry, "10.0.0.1")
                loop.skip(SEND_S)
                await turns(10)
            assert len(server.received) == 1
            server.answer = sender.answer
            server.received[0].link.transport.write(answer(b'{"unknown":{}}'))
            await server.wait_for(2)
            assert sender.batch() == {KEY: {ONE: 0}}
            await sender.close()

    run_loop(main)


FAILURES: dict[str, Callable[[Asked], bytes | None]] = {
    "no answer": lambda _: None,
    "not UP": lambda _: answer(b"server is STARTING now, please try again later!", 503),
    "error": lambda _: answer(b"", 500),
    "cut": lambda asked: asked.link.transport.abort(),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_what_an_owner_was_not_told_is_told_again_with_its_age(owner: Owner, failure: str) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(FAILURES[failure]) as server:
            owner.register("10.0.0.2")
            sender = Sender(loop, owner, server)
            for ip in ("10.0.0.1", "10.0.0.2"):
                beat_of(sender.entry, ip)
            loop.skip(SEND_S)
            await server.wait_for(1)
            server.answer = sender.answer
            sender.entry.now_ms += 1_000
            beat_of(sender.entry, "10.0.0.2")
            sender.entry.now_ms += 100
            loop.skip(ANSWER_S)
            await server.wait_for(2)
            assert sender.batch() == {KEY: {ONE: 1_100, TWO: 100}}
            await sender.close()

    run_loop(main)


def test_an_owner_out_of_reach_is_not_told_of_what_is_long_past(owner: Owner) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(FAILURES["not UP"]) as server:
            sender = Sender(loop, owner, server)
            beat_of(sender.entry, "10.0.0.1")
            await sender.send()
            sender.entry.now_ms += KEEP_MS - 1
            await sender.send()
            sender.entry.now_ms += 1
            loop.skip(SEND_S)
            await turns(10)
            assert len(server.received) == 2
            await sender.close()

    run_loop(main)


def test_an_answer_that_cannot_be_read_is_said_so_and_forgotten(owner: Owner, caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda _: answer(b"[]")) as server:
            sender = Sender(loop, owner, server)
            beat_of(sender.entry, "10.0.0.1")
            await sender.send()
            loop.skip(SEND_S)
            await turns(10)
            assert len(server.received) == 1
            await sender.close()

    run_loop(main)
    assert "the answer to a batch of beats cannot be read" in caplog.text


def test_after_the_end_nothing_is_sent(owner: Owner) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda _: None) as server:
            sender = Sender(loop, owner, server)
            beat_of(sender.entry, "10.0.0.1")
            loop.skip(SEND_S)
            await server.wait_for(1)
            await sender.close()
            loop.skip(10)
            await turns(5)
            assert len(server.received) == 1
            assert sender.entry.beats.take(sender.entry.now_ms) == [], "what was under way is not kept"

    run_loop(main)


def test_a_node_without_others_has_nobody_to_tell() -> None:
    async def main(loop: SkippingLoop) -> None:
        node = FakeNode()
        forwarder = LoopForwarder(node, loop, MEMBER_REPLIES)
        sender = BeatSender(node, forwarder)
        assert sender._timer is None
        sender.stop()
        forwarder.close()

    run_loop(main)


def test_beats_that_wait_are_handed_to_an_owner_that_asks() -> None:
    """R12: it can call this member, which cannot call it."""
    collector = BeatCollector()
    collector.collect(PEER, KEY, ONE, 1_000)
    collector.collect(PEER, KEY, TWO, 2_000 + KEEP_MS)
    collector.collect("10.0.0.9:8848", KEY, ONE, 1_500)
    assert collector.told_to("10.0.0.8:8848", 3_000) == {}
    assert collector.wait_ms("10.0.0.8:8848", 3_000) == 0
    assert collector.told_to(PEER, 3_000 + KEEP_MS) == {KEY: {TWO: 1_000}}, "without those that are too old"
    assert collector.told_to(PEER, 3_000 + KEEP_MS) == {KEY: {TWO: 1_000}}, "the answer may not have arrived"
    taken = dict(collector.take(3_000 + KEEP_MS))
    assert taken[PEER] == {(KEY, TWO): 2_000 + KEEP_MS}
    collector.collect(PEER, KEY, ONE, 3_500 + KEEP_MS)
    assert collector.told_to(PEER, 4_500 + KEEP_MS) == {KEY: {ONE: 1_000, TWO: 2_500}}, "a call may hang for long"
    assert collector.told_to(PEER, 4_499 + KEEP_MS) == {KEY: {TWO: 2_499}}, "the others may be sent yet"
    assert collector.wait_ms(PEER, 4_499 + KEEP_MS) == 2_499, "of what is under way, too"
    assert collector.wait_ms(PEER, 99_000 + KEEP_MS) == KEEP_MS
    collector.collect(PEER, KEY, TWO, 4_000 + KEEP_MS)
    assert collector.told_to(PEER, 5_000 + KEEP_MS) == {KEY: {ONE: 1_500, TWO: 1_000}}, "the last beat of each"
    collector.put_back(PEER, taken[PEER])
    assert collector.told_to(PEER, 5_000 + KEEP_MS) == {KEY: {ONE: 1_500, TWO: 1_000}}
    collector.take(5_000 + KEEP_MS)
    collector.delivered(PEER)
    assert collector.told_to(PEER, 5_000 + KEEP_MS) == {}
    assert collector.wait_ms(PEER, 5_000 + KEEP_MS) == 0


def test_an_owner_that_asks_gets_all_beats_in_turn_and_few_at_a_time() -> None:
    collector = BeatCollector()
    names = [f"{number:01000}" for number in range(TOLD_CHARS_MAX // 1_000 + 10)]
    for name in names:
        collector.collect(PEER, KEY, name, 0)
    first = collector.told_to(PEER, 1_000)[KEY]
    assert sum(len(KEY) + len(name) for name in first) <= TOLD_CHARS_MAX
    second = collector.told_to(PEER, 1_000)[KEY]
    assert first.keys() | second.keys() == set(names)
