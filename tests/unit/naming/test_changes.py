"""Single changes of an owner, taken over one by one: never out of order, never in part, and then as the whole datum."""

import json
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.naming.changes import CHANGE_BYTES_MAX, TakenChange
from app.naming.model.events import Event, InstancesChanged, Origin
from app.naming.model.keys import WORD_MARGIN_MS, datum_key
from app.naming.model.meta import ServiceMeta
from app.naming.model.model import NEVER_MS, Instance, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Beat, ChangeMetadata, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Version
from tests.support.registry_parts import naming_of
from tests.support.thorough import examples

NS, TAG = "public", "G@@a"
KEY = datum_key(NS, TAG)
OWNER, OTHER = "10.1.1.1:8848~1", "10.1.1.2:8848~1"

State = tuple[Version, dict[str, Any], dict[str, Any]]


@dataclass
class Side:
    """A member, with a clock of its own."""

    writer: str
    now_ms: int
    events: list[Event] = field(default_factory=list)
    short: bool = False
    """It tells changes in the short form."""

    def __post_init__(self) -> None:
        self.registry = Registry.of(self.writer)
        self.naming = naming_of(self.registry, lambda: self.now_ms, self.events.append)
        self.codec = InstanceListCodec(lambda: 0)

    def state(self) -> State:
        """All that counts of what is held: versions, instances, removals."""
        service = self.registry.table.find(KEY)
        if service is None:
            return NO_VERSION, {}, {}
        stored = {key: (one.instance, one.version, one.client_version) for key, one in service.stored.items()}
        tombstones = {
            key: (tombstone.version, self.now_ms - tombstone.at_ms, tombstone.keep_ms)
            for key, tombstone in service.tombstones.items()
        }
        return service.version, stored, tombstones

    def take_change(self, text: bytes, under_way_ms: int = 0) -> TakenChange:
        return self.naming.take_change(text, self.now_ms - under_way_ms)

    def shown(self) -> set[str]:
        view = self.naming.service_view(NS, TAG)
        return {one.ip for one in view.instances} if view else set()

    def change(self, ip: str) -> bytes:
        text = self.naming.change_of(NS, TAG, key_of(ip), short=self.short)
        assert text is not None
        return text

    def register(self, ip: str, **attributes: Any) -> bytes:
        """The change that a registration is told as."""
        self.naming.register(RegisterInstance(TAG, ip, 80, **attributes))
        return self.change(ip)

    def deregister(self, ip: str) -> bytes:
        self.naming.deregister(DeregisterInstance(TAG, ip, 80))
        return self.change(ip)

    def take_whole(self, other: "Side") -> None:
        """Take what the other holds as it comes over the wire, if it is newer."""
        for datum in other.registry.lists.datums([KEY]):
            known = self.registry.lists.version(KEY)
            if known is None or known < datum.version:
                fields = json.loads(other.codec.encode(datum, other.now_ms, versioned=True))
                assert self.registry.replication.apply(self.codec.decode(KEY, fields, self.now_ms), known, self.now_ms)


def key_of(ip: str) -> str:
    return f"{ip}:80:unknown:DEFAULT"


def sides() -> tuple[Side, Side]:
    return Side(OWNER, 5_000_000), Side(OTHER, 900_000)


# --- any changes, in any order ------------------------------------------------------------------------

ips = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"])
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(["\x7f", "\r\n", "😀", "é"])
printable = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=8) | st.sampled_from(
    ["😀", "é"]
)
metadata_maps = st.dictionaries(texts, texts | st.none(), max_size=2)
weights = st.sampled_from([1.0, 2.5])
commands: st.SearchStrategy[Any] = st.one_of(
    st.tuples(ips, weights, st.booleans(), st.booleans(), st.none() | metadata_maps, printable).map(
        lambda one: RegisterInstance(
            TAG, one[0], 80, weight=one[1], enabled=one[2], healthy=one[3], metadata=one[4], app=one[5]
        )
    ),
    ips.map(lambda ip: DeregisterInstance(TAG, ip, 80)),
    st.tuples(ips, metadata_maps, st.booleans()).map(
        lambda one: PatchInstance(TAG, one[0], 80, metadata=one[1], healthy=one[2])
    ),
    st.tuples(ips, st.booleans(), weights, st.none() | metadata_maps).map(
        lambda one: Beat(TAG, one[0], 80, full=one[1], weight=one[2], metadata=one[3])
    ),
    st.tuples(st.just("health"), ips, st.booleans()),
    st.tuples(st.just("metadata"), ips, metadata_maps),
)


def test_the_ages_in_a_change_count_from_when_it_was_sent() -> None:
    """It may have waited in a socket of a process that stood still, while others removed the instance."""
    owner, copy = sides()
    copy.take_change(owner.register("10.0.0.1"), 16_000)
    service = copy.registry.table.find(KEY)
    assert service is not None
    [stored] = service.stored.values()
    assert (stored.beat_ms, stored.changed_ms) == (copy.now_ms - 16_000, copy.now_ms - 16_000)
    copy.take_change(owner.deregister("10.0.0.1"), 9_000)
    [tombstone] = service.tombstones.values()
    assert tombstone.at_ms == copy.now_ms - 9_000


def execute(owner: Side, command: Any) -> bytes | None:
    """Have the owner do it; return the change it would tell of."""
    match command:
        case RegisterInstance():
            owner.naming.register(command)
        case DeregisterInstance():
            owner.naming.deregister(command)
        case PatchInstance():
            if key_of(command.ip) not in owner.state()[1]:
                return None
            owner.naming.patch(command)
        case Beat():
            owner.naming.beat(command)
        case ("health", ip, healthy):
            owner.naming.set_health(NS, TAG, key_of(ip), healthy)
        case ("metadata", ip, change):
            owner.naming.set_metadata(NS, TAG, key_of(ip), ChangeMetadata(change))
    ip = command[1] if isinstance(command, tuple) else command.ip
    return owner.naming.change_of(NS, TAG, key_of(ip), short=owner.short)


@given(st.lists(st.tuples(commands, st.integers(0, 50)), max_size=25), st.booleans())
def test_changes_in_order_make_what_the_whole_datum_makes(steps: list[tuple[Any, int]], short: bool) -> None:
    (owner, copy), whole = sides(), Side(OTHER, 1)
    owner.short = short
    for command, wait_ms in steps:
        change = execute(owner, command)
        if change is not None:
            assert all(0x20 <= byte < 0x7F for byte in change), "it goes into a header"
            assert len(change) <= CHANGE_BYTES_MAX
            assert copy.take_change(change).is_known()
            assert copy.state() == owner.state()
        for side in (owner, copy, whole):
            side.now_ms += wait_ms
    whole.take_whole(owner)
    if whole.registry.lists.version(KEY) is not None:
        assert copy.state() == whole.state() == owner.state()
    assert set(copy.events) <= {InstancesChanged(KEY, Origin.PEER)}


@settings(max_examples=examples(300))
@given(
    st.lists(commands, min_size=1, max_size=12),
    st.lists(st.tuples(st.sampled_from(["take", "look", "sync"]), st.integers(0, 30)), max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_changes_in_any_order_are_never_applied_in_part(
    steps: list[Any], deliveries: list[tuple[str, int]], another_wrote_before: bool, short: bool
) -> None:
    """Whatever comes late, twice or never: what the copy holds is what the owner held at that version."""
    owner, copy = sides()
    owner.short = short
    if another_wrote_before:
        former = Side("10.1.1.3:8848~1", 70_000)
        former.register("10.0.0.1")
        former.register("10.0.0.9")
        owner.take_whole(former)
        copy.take_whole(former)
    held_at = {owner.state()[0]: owner.state()}
    made: list[bytes] = []
    for command in steps:
        change = execute(owner, command)
        held_at[owner.state()[0]] = owner.state()
        if change is not None:
            made.append(change)
    looks: list[TakenChange] = []
    version = copy.state()[0]
    for what, number in deliveries:
        if what == "take" and made:
            looks.append(copy.take_change(made[number % len(made)]))
        elif what == "look" and looks:
            looks[number % len(looks)].is_known()
        elif what == "sync" and number < 3:
            copy.take_whole(owner)
        assert copy.state() == held_at[copy.state()[0]]
        assert copy.state()[0] >= version, "versions never fall"
        version = copy.state()[0]
    copy.take_whole(owner)
    assert copy.state() == owner.state()
    assert all(look.is_known() for look in looks)


# --- single cases -------------------------------------------------------------------------------------


def test_the_first_change_of_an_unknown_key_is_taken() -> None:
    owner, copy = sides()
    assert copy.take_change(owner.register("10.0.0.1")).is_known()
    assert copy.state() == owner.state()
    assert copy.shown() == {"10.0.0.1"}
    assert copy.events == [InstancesChanged(KEY, Origin.PEER)]


def test_the_first_version_of_a_list_that_has_more_is_not_taken() -> None:
    """As the first change of a list that real Nacos gave, without versions."""
    owner, copy = sides()
    stored = StoredInstance(Instance("10.0.0.9", 80), Version(0, 1, OTHER), 0)
    owner.registry.replication.apply(
        Datum(KEY, Version(0, 1, OTHER), InstanceList({stored.instance.key: stored}, {})), None, 0
    )
    change = owner.register("10.0.0.1")
    assert owner.registry.lists.version(KEY) == Version(1, 0, OWNER)
    assert not copy.take_change(change).is_known()
    assert copy.shown() == set()


def test_a_later_change_of_an_unknown_key_is_not_taken() -> None:
    owner, copy = sides()
    first, second = owner.register("10.0.0.1"), owner.register("10.0.0.2")
    look = copy.take_change(second)
    assert not look.is_known()
    assert copy.state() == (NO_VERSION, {}, {})
    assert copy.events == []
    # When the one before it has come after all, it fits.
    assert copy.take_change(first).is_known()
    assert copy.shown() == {"10.0.0.1"}
    assert look.is_known()
    assert copy.state() == owner.state()
    assert len(copy.events) == 2


def test_the_first_change_of_an_owner_that_once_forgot_the_key_is_not_taken() -> None:
    """Its epoch tells that there was more."""
    owner, copy = sides()
    owner.register("10.0.0.1")
    owner.registry.upkeep.forget(KEY)
    assert not copy.take_change(owner.register("10.0.0.2")).is_known()
    assert copy.shown() == set()


def test_a_gap_is_not_jumped() -> None:
    owner, copy = sides()
    copy.take_change(owner.register("10.0.0.1"))
    owner.register("10.0.0.2")
    before = copy.state()
    assert not copy.take_change(owner.register("10.0.0.3")).is_known()
    assert copy.state() == before


def test_what_is_known_is_not_taken_again() -> None:
    owner, copy = sides()
    first = owner.register("10.0.0.1")
    second = owner.deregister("10.0.0.1")
    for change in (first, second, first, second, first):
        assert copy.take_change(change).is_known()
    assert copy.state() == owner.state()
    assert copy.shown() == set()
    assert len(copy.events) == 2


def test_another_writers_state_is_not_touched_and_waits_for_the_owner_to_merge_it() -> None:
    """After a cut the version here may be above that of a list with words that this one lacks."""
    owner, copy = sides()
    copy.take_change(owner.register("10.0.0.1"))
    change = owner.register("10.0.0.2")
    assert copy.registry.replication.claim(KEY, copy.now_ms)
    before = copy.state()
    look = copy.take_change(change)
    assert not look.is_known()
    assert copy.state() == before
    for datum in copy.registry.lists.datums([KEY]):
        owner.registry.replication.merge(datum, owner.now_ms)
    copy.take_whole(owner)
    assert copy.shown() == {"10.0.0.1", "10.0.0.2"}
    assert look.is_known()


@pytest.mark.parametrize("removed", [True, False])
def test_what_another_writer_took_over_is_known(removed: bool) -> None:
    """Its list has the word itself, under the version that the owner gave it."""
    owner, copy = sides()
    change = owner.register("10.0.0.1")
    if removed:
        change = owner.deregister("10.0.0.1")
    copy.take_whole(owner)
    assert copy.registry.replication.claim(KEY, copy.now_ms)
    assert copy.take_change(change).is_known()


@pytest.mark.parametrize("later_ms", [WORD_MARGIN_MS + 1, -WORD_MARGIN_MS - 1])
@pytest.mark.parametrize("is_removed_here", [True, False])
@pytest.mark.parametrize("is_removed_there", [True, False])
def test_a_word_about_the_same_instance_that_was_said_later_makes_it_known(
    later_ms: int, is_removed_here: bool, is_removed_there: bool
) -> None:
    owner, copy = sides()
    owner.register("10.0.0.1")
    copy.take_whole(owner)
    assert copy.registry.replication.claim(KEY, copy.now_ms)
    for side, is_removed, at_ms in ((owner, is_removed_there, 5_000), (copy, is_removed_here, 5_000 + later_ms)):
        side.now_ms += at_ms
        if is_removed:
            side.deregister("10.0.0.1")
        else:
            side.register("10.0.0.1", metadata={"by": side.writer})
        side.now_ms += 10_000 - at_ms
    change = owner.change("10.0.0.1")
    assert copy.take_change(change).is_known() is (later_ms > 0)


def test_an_unknown_instance_in_another_writers_list_is_not_known() -> None:
    owner, copy = sides()
    owner.register("10.0.0.1")
    copy.take_whole(owner)
    assert copy.registry.replication.claim(KEY, copy.now_ms)
    owner.register("10.0.0.2")
    assert not copy.take_change(owner.deregister("10.0.0.2")).is_known()


def test_a_write_that_changed_nothing_is_known_at_once() -> None:
    owner, copy = sides()
    copy.take_change(owner.register("10.0.0.1"))
    copy.take_change(owner.register("10.0.0.2"))
    assert copy.take_change(owner.register("10.0.0.1")).is_known()
    assert len(copy.events) == 2


def test_nothing_is_told_of_what_is_not_there() -> None:
    owner, _ = sides()
    assert owner.naming.change_of(NS, TAG, key_of("10.0.0.1")) is None
    owner.register("10.0.0.1")
    assert owner.naming.change_of(NS, TAG, key_of("10.0.0.9")) is None


@pytest.mark.parametrize("length", [10, CHANGE_BYTES_MAX - 500, CHANGE_BYTES_MAX, 60_000])
def test_of_a_change_that_is_too_long_only_the_version_is_told(length: int) -> None:
    owner, copy = sides()
    change = owner.register("10.0.0.1", metadata={"x": "y" * length})
    assert len(change) <= CHANGE_BYTES_MAX
    look = copy.take_change(change)
    fits = length < CHANGE_BYTES_MAX
    assert ("instance" in orjson.loads(change)) is look.is_known() is fits
    copy.take_whole(owner)
    assert look.is_known()
    assert copy.state() == owner.state()


def test_a_change_may_be_as_long_as_its_bound() -> None:
    owner, _ = sides()
    rest = CHANGE_BYTES_MAX - len(owner.register("10.0.0.1", metadata={"x": ""}))
    assert len(owner.register("10.0.0.1", metadata={"x": "y" * rest})) == CHANGE_BYTES_MAX
    assert "instance" in orjson.loads(owner.change("10.0.0.1"))
    assert "instance" not in orjson.loads(owner.register("10.0.0.1", metadata={"x": "y" * (rest + 1)}))


@pytest.mark.parametrize("unknown", [False, True])
def test_a_removal_is_told_with_its_age_and_whether_anybody_knew_the_instance(unknown: bool) -> None:
    owner, copy = sides()
    if not unknown:
        owner.register("10.0.0.1")
    owner.deregister("10.0.0.1")
    owner.now_ms += 700
    change = owner.change("10.0.0.1")
    version, told = owner.registry.lists.version(KEY), orjson.loads(change)
    assert version is not None
    fields = {"key": KEY, "id": key_of("10.0.0.1"), "version": version.to_text(), "age": 700, "keep": 90_000}
    assert told == fields | {"alone": True} | ({"unknown": True} if unknown else {})
    first = Version(1, 0, OWNER)
    copy.take_change(orjson.dumps(told | {"keep": 0, "version": first.to_text()}))
    service = copy.registry.table.find(KEY)
    assert service is not None
    assert service.tombstones == {key_of("10.0.0.1"): Tombstone(first, copy.now_ms - 700, 0, unknown)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"x", "a change is not JSON"),
        (b"[]", "a change is not an object"),
        (b"{}", "field 'key' of a change is not text"),
    ],
)
def test_a_refusal_says_what_is_wrong_of_a_change(text: bytes, says: str) -> None:
    _, copy = sides()
    with pytest.raises(CodecError, match=f"^{says}"):
        copy.take_change(text)


def test_nothing_is_told_when_even_the_version_is_too_long() -> None:
    owner, _ = sides()
    namespace = "é" * 500 + "😀"
    owner.naming.register(RegisterInstance(TAG, "10.0.0.1", 80, namespace=namespace))
    assert owner.naming.change_of(namespace, TAG, key_of("10.0.0.1")) is not None
    namespace = "😀" * 500
    owner.naming.register(RegisterInstance(TAG, "10.0.0.1", 80, namespace=namespace))
    assert owner.naming.change_of(namespace, TAG, key_of("10.0.0.1")) is None


def test_a_removed_service_is_seen_again() -> None:
    """Its description was removed by its own call on both members, which hid it as soon as it was empty."""
    owner, copy = sides()
    for side in (owner, copy):
        side.registry.table.set_meta(NS, TAG, ServiceMeta(), side.now_ms)
    for change in (owner.register("10.0.0.1"), owner.deregister("10.0.0.1")):
        assert copy.take_change(change).is_known()
    for side in (owner, copy):
        side.registry.table.set_meta(NS, TAG, None, side.now_ms)
        assert side.naming.service_view(NS, TAG) is None
    assert copy.take_change(owner.register("10.0.0.1")).is_known()
    assert copy.shown() == owner.shown() == {"10.0.0.1"}
    assert copy.naming.list_services(NS, None) == owner.naming.list_services(NS, None) == [TAG]


def test_a_removed_service_is_hidden_with_its_last_instance() -> None:
    owner, copy = sides()
    for side in (owner, copy):
        side.registry.table.set_meta(NS, TAG, ServiceMeta(), side.now_ms)
    assert copy.take_change(owner.register("10.0.0.1")).is_known()
    copy.registry.table.set_meta(NS, TAG, None, copy.now_ms)
    assert copy.shown() == {"10.0.0.1"}
    assert copy.take_change(owner.deregister("10.0.0.1")).is_known()
    assert copy.naming.service_view(NS, TAG) is None


def test_what_was_heard_here_is_not_forgotten() -> None:
    """Beats come to the copy too; should it become the owner, its health checks count them."""
    owner, copy = sides()
    copy.take_change(owner.register("10.0.0.1"))
    stored = copy.registry.table.find(KEY).stored  # type: ignore[union-attr]
    key = key_of("10.0.0.1")
    assert (stored[key].beat_ms, stored[key].last_confirmed_ms) == (copy.now_ms, NEVER_MS), (
        "what others heard proves nothing"
    )
    for side in (owner, copy):
        side.now_ms += 5_000
    assert copy.naming.beat_of_copy(Beat(TAG, "10.0.0.1", 80), "10.0.0.9:8848", lambda *_: True) == 0
    owner.naming.set_health(NS, TAG, key, False)  # no beat came to it since
    assert copy.take_change(owner.change("10.0.0.1")).is_known()
    assert not stored[key].instance.healthy
    assert stored[key].beat_ms == stored[key].last_confirmed_ms == copy.now_ms


def test_a_copy_that_becomes_the_owner_checks_what_it_took_over() -> None:
    owner, copy = sides()
    for ip in ("10.0.0.1", "10.0.0.2"):
        service = copy.registry.table.find(KEY)
        if service is not None:
            service.due_ms = 1 << 50  # as after a look at it
        copy.take_change(owner.register(ip, metadata={"preserved.heart.beat.timeout": "1000"}))
    service = copy.registry.table.find(KEY)
    assert service is not None
    assert service.due_ms <= copy.now_ms + 1_001


UNREADABLE = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "no key": b"{}",
    "no id": orjson.dumps({"key": KEY}),
    "no version": orjson.dumps({"key": KEY, "id": "i"}),
    "a version that is none": orjson.dumps({"key": KEY, "id": "i", "version": "1.x"}),
    "a number as version": orjson.dumps({"key": KEY, "id": "i", "version": 1}),
    "no instance": orjson.dumps({"key": KEY, "id": "i", "version": "1.0.w", "instance": 1}),
    "an age before now": orjson.dumps({"key": KEY, "id": "i", "version": "1.0.w", "age": -1, "keep": 1}),
    "no time to keep": orjson.dumps({"key": KEY, "id": "i", "version": "1.0.w", "age": 1}),
    "a text as age": orjson.dumps({"key": KEY, "id": "i", "version": "1.0.w", "age": "1", "keep": 1}),
    "true as age": orjson.dumps({"key": KEY, "id": "i", "version": "1.0.w", "age": True, "keep": 1}),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_says_so(name: str) -> None:
    _, copy = sides()
    with pytest.raises(CodecError):
        copy.take_change(UNREADABLE[name])
    assert copy.events == []


def test_the_short_form_leaves_out_what_is_usual() -> None:
    owner, copy = sides()
    owner.short = True
    told = orjson.loads(owner.register("10.0.0.1", metadata={"zone": "a"}))
    assert told["short"].keys() <= {"ip", "port", "metadata", "version", "beatAge", "heard"}
    assert copy.take_change(orjson.dumps(told)).is_known()
    assert copy.state() == owner.state()


@pytest.mark.parametrize(
    "wrong", [{"version": 1}, {"version": "0"}, {"port": -1}, {"ip": "1.2.3.256"}, {"metadata": [1]}, {"app": "\n"}]
)
def test_a_short_form_of_a_liar_is_refused(wrong: dict[str, Any]) -> None:
    owner, copy = sides()
    owner.short = True
    told = orjson.loads(owner.register("10.0.0.1"))
    told["short"] |= wrong
    with pytest.raises(CodecError):
        copy.take_change(orjson.dumps(told))
    with pytest.raises(CodecError):
        copy.take_change(orjson.dumps(told | {"short": 1}))
    with pytest.raises(CodecError):
        copy.take_change(orjson.dumps(told | {"key": datum_key("a" * 600, TAG)}))
    assert copy.state()[1] == {}


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("part", ["id", "version"])
def test_an_instance_under_another_name_is_refused(part: str, short: bool) -> None:
    owner, copy = sides()
    owner.short = short
    change = orjson.loads(owner.register("10.0.0.1"))
    owner.register("10.0.0.2")
    change[part] = orjson.loads(owner.change("10.0.0.2"))[part]
    with pytest.raises(CodecError, match="does not match its key"):
        copy.take_change(orjson.dumps(change))


def test_a_key_of_another_kind_is_not_taken() -> None:
    owner, copy = sides()
    change = orjson.loads(owner.register("10.0.0.1"))
    with pytest.raises(CodecError, match="field 'key'"):
        copy.take_change(orjson.dumps(change | {"key": "rollcall.record"}))
    assert copy.registry.table.services() == []


def test_a_datum_is_equal_whichever_way_it_came() -> None:
    """Members compare versions, then checksums: of equal versions these are equal."""
    owner, copy = sides()
    for change in (owner.register("10.0.0.1"), owner.register("10.0.0.2", weight=2.0), owner.deregister("10.0.0.1")):
        copy.take_change(change)
    datums: list[Datum] = [next(iter(side.registry.lists.datums([KEY]))) for side in (owner, copy)]
    assert owner.codec.checksum(datums[0]) == copy.codec.checksum(datums[1])


# --- what a liar says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("is_removed", [False, True])
def test_whether_an_instance_is_alone_is_true_or_false(short: bool, is_removed: bool) -> None:
    owner, copy = sides()
    owner.short = short
    copy.take_change(owner.register("10.0.0.1"))
    told = orjson.loads(owner.deregister("10.0.0.1") if is_removed else owner.register("10.0.0.1", weight=2.0))
    for alone in (1, "true", None):
        with pytest.raises(CodecError, match=r"^field 'alone' of a change"):
            copy.take_change(orjson.dumps(told | {"alone": alone}))
    assert copy.take_change(orjson.dumps(told | {"alone": False})).is_known()
    assert copy.state() == owner.state()


@pytest.mark.parametrize("short", [False, True])
def test_an_instance_that_is_told_with_an_age_is_no_removal(short: bool) -> None:
    owner, copy = sides()
    owner.short = short
    copy.take_change(owner.register("10.0.0.1"))
    told = orjson.loads(owner.register("10.0.0.2"))
    assert copy.take_change(orjson.dumps(told | {"age": 0, "keep": 90_000})).is_known()
    assert copy.shown() == {"10.0.0.1", "10.0.0.2"}


def test_the_short_form_is_for_members_that_ask_for_it() -> None:
    owner, _ = sides()
    owner.register("10.0.0.1")
    key = key_of("10.0.0.1")
    forms = [owner.naming.change_of(NS, TAG, key, **asked) for asked in ({}, {"short": False}, {"short": True})]
    told = [orjson.loads(form or b"") for form in forms]
    assert [("instance" in one, "short" in one) for one in told] == [(True, False), (True, False), (False, True)]


def test_a_removal_with_a_wrong_time_is_refused_after_others_of_the_list_too() -> None:
    owner, copy = sides()
    copy.take_change(owner.register("10.0.0.1"))
    told = orjson.loads(owner.deregister("10.0.0.1"))
    for name, value in (("age", -1), ("keep", -1), ("age", "1"), ("keep", None), ("id", "k\n"), ("id", None)):
        with pytest.raises(CodecError):
            copy.take_change(orjson.dumps(told | {name: value}))
    assert copy.shown() == {"10.0.0.1"}
    assert copy.take_change(orjson.dumps(told)).is_known()
    assert copy.state() == owner.state()
