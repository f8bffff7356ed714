"""Deltas (R5): lost, repeated, late or out of order, they leave a copy in one of its owner's states, or as it was."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.keys import DEFAULT_NAMESPACE, datum_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.recent_changes import KEYS_MAX, LISTS_MAX
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec, decode_short
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Version

OWNER, FULL_NAME = "a:1~x", "DEFAULT_GROUP@@orders"
KEY = datum_key(DEFAULT_NAMESPACE, FULL_NAME)
CODEC = InstanceListCodec(lambda: 1_700_000_000_000)
NOW_MS = 1_000_000
Listed = tuple[dict[str, tuple[Instance, Version, Version]], dict[str, Version]]


def registry(writer: str = "b:1~y") -> Registry:
    return Registry.of(writer, guard_ms=10_000)


def name_of(number: int) -> str:
    return Instance(ip_of(number), 80).key


def ip_of(number: int) -> str:
    return f"10.0.{number // 256}.{number % 256}"


def put(to: Registry, number: int, word: str = "") -> None:
    to.writes.register(RegisterInstance(FULL_NAME, ip_of(number), 80, metadata={"word": word}), NOW_MS)


def whole_of(one: Registry) -> Datum:
    [datum] = one.lists.datums([KEY])
    return datum


def listed(one: Registry) -> Listed:
    """All of a list but the ages of its beats."""
    value = whole_of(one).value
    stored = {key: (one.instance, one.version, one.client_version) for key, one in value.stored.items()}
    return stored, {key: one.version for key, one in value.tombstones.items()}


def version_of(one: Registry) -> Version:
    return one.lists.version(KEY) or NO_VERSION


def arrive(at: Registry, datum: Datum) -> bool:
    """Take a datum, over the wire, as a copy does; return False when the whole is wanted."""
    came = CODEC.decode(KEY, orjson.loads(CODEC.encode(datum, NOW_MS, versioned=True)), NOW_MS)
    stored = at.lists.version(KEY)
    if stored is not None and stored.has_had(came.version):
        return True
    return at.replication.apply(came, stored, NOW_MS) if came.base is None else at.replication.apply_delta(came, NOW_MS)


def fall_ill(one: Registry, number: int) -> None:
    service = one.table.find(KEY)
    assert service is not None
    one.writes.set_health(service, name_of(number), False, NOW_MS)


CHANGES: dict[str, Callable[[Registry, int], object]] = {
    "register": lambda one, number: put(one, number, str(one.lists.highest_own().counter)),
    "register again": put,
    "remove": lambda one, number: one.writes.remove(DEFAULT_NAMESPACE, FULL_NAME, name_of(number), NOW_MS),
    "fall ill": fall_ill,
    "empty": lambda one, _number: one.writes.empty(DEFAULT_NAMESPACE, FULL_NAME, NOW_MS),
}
OFTEN = ["register", "register", "register again", "remove", "fall ill", "send", "send unacknowledged", "deliver"]
STEPS = st.lists(st.tuples(st.sampled_from([*OFTEN, *OFTEN, "empty"]), st.integers(0, 9)), max_size=60)


@given(STEPS)
def test_a_copy_is_always_in_a_state_of_its_owner(steps: list[tuple[str, int]]) -> None:
    owner, copy = registry(OWNER), registry()
    put(owner, 0)
    states = {version_of(owner): listed(owner)}
    sent: list[Datum] = []
    acknowledged = NO_VERSION
    for what, number in steps:
        if what in CHANGES:
            CHANGES[what](owner, number)
            states[version_of(owner)] = listed(owner)
            continue
        if what == "deliver":  # anything that was ever sent: what is never delivered is lost, the rest late or repeated
            if sent:
                arrive(copy, sent[-1 - number % len(sent)])
        else:
            base = acknowledged if what == "send" else list(states)[-1 - number % len(states)]
            sent.append(owner.replication.delta(KEY, base) or whole_of(owner))
            if what == "send":
                assert arrive(copy, sent[-1]), "a delta from an acknowledged version fits"
                acknowledged = version_of(copy)
                assert acknowledged == version_of(owner)
        if version_of(copy) != NO_VERSION:
            assert listed(copy) == states[version_of(copy)]
    fresh = registry()
    arrive(fresh, whole_of(owner))
    if not arrive(copy, owner.replication.delta(KEY, acknowledged) or whole_of(owner)):
        arrive(copy, whole_of(owner))
    assert listed(copy) == listed(fresh) == listed(owner)
    assert held(copy) == held(fresh)


def held(one: Registry) -> tuple[Any, ...]:
    """What the registry notes beside the list: it must follow from the list alone."""
    service, counts = one.table.find(KEY), one.table.counts_held
    assert service is not None
    count = counts.instances_of(DEFAULT_NAMESPACE)
    return service.hidden, service.dropped, service.retained, service.stored_bytes, counts.metadata_bytes, count


@given(st.integers(65, KEYS_MAX), st.integers(1, 3))
def test_many_changes_are_one_delta(changes: int, rounds: int) -> None:
    owner, copy = registry(OWNER), registry()
    put(owner, 0)
    arrive(copy, whole_of(owner))
    base = version_of(owner)
    for number in range(changes):
        put(owner, 1 + number % (changes // rounds), str(number))
    delta = owner.replication.delta(KEY, base)
    assert delta is not None
    assert len(delta.value.stored) == changes // rounds
    assert arrive(copy, delta)
    assert listed(copy) == listed(owner)


def test_a_base_that_is_too_long_ago_is_forgotten() -> None:
    owner = registry(OWNER)
    put(owner, 0)
    base = version_of(owner)
    for number in range(2 * KEYS_MAX + 1):
        put(owner, 1, str(number))
    assert owner.replication.delta(KEY, base) is None
    assert owner.replication.delta(KEY, version_of(owner)) is None, "nothing changed"
    assert owner.replication.delta(KEY, replace(version_of(owner), counter=version_of(owner).counter - 1)) is not None


def test_changes_of_lists_that_began_long_ago_are_forgotten() -> None:
    owner = registry(OWNER)
    put(owner, 0)
    base = version_of(owner)
    put(owner, 1)
    assert owner.replication.delta(KEY, base) is not None
    for number in range(LISTS_MAX):
        owner.writes.register(RegisterInstance(f"DEFAULT_GROUP@@{number}", "10.0.0.1", 80), NOW_MS)
    assert owner.replication.delta(KEY, base) is None
    put(owner, 2)
    put(owner, 3)
    assert owner.replication.delta(KEY, base) is None, "the log began anew after it"
    assert owner.replication.delta(KEY, replace(version_of(owner), counter=version_of(owner).counter - 1)) is not None


@pytest.mark.parametrize("change", ["claim", "merge", "reissue"])
def test_what_is_no_change_of_an_instance_goes_whole(change: str) -> None:
    owner, other = registry(OWNER), registry()
    put(owner, 0)
    arrive(other, whole_of(owner))
    base = version_of(owner)
    if change == "claim":
        put(other, 0, "theirs")
        assert owner.replication.apply(whole_of(other), base, NOW_MS)
        base = version_of(other)
        assert owner.replication.claim(KEY, NOW_MS)
    elif change == "merge":
        put(other, 1)
        owner.replication.merge(whole_of(other), NOW_MS)
    else:
        put(owner, 0, "same version, other word")
        [one] = other.lists.datums([KEY])
        assert owner.replication.reissue(replace(one, version=version_of(owner)), NOW_MS, restoring=False)
        base = replace(version_of(owner), counter=version_of(owner).counter - 1)
    assert version_of(owner) > base
    assert owner.replication.delta(KEY, base) is None


def test_retained_instances_are_judged_as_by_the_whole_datum() -> None:
    owner, copy, fresh = registry(OWNER), registry(), registry()
    for number in range(4):
        put(owner, number)
    for one in (copy, fresh):
        arrive(one, whole_of(owner))
    few = registry(OWNER)
    for number in range(5):
        put(few, 0, str(number))  # a state of the same run in which the others vanished
    for one in (copy, fresh):
        arrive(one, whole_of(few))
        service = one.table.find(KEY)
        assert service is not None
        assert len(service.retained) == 3
    base = version_of(few)
    put(few, 1)
    delta = few.replication.delta(KEY, base)
    assert delta is not None
    assert arrive(copy, delta)
    arrive(fresh, whole_of(few))
    assert held(copy) == held(fresh)


BAD: dict[str, dict[str, Any]] = {
    "base above": {"since": 7},
    "base below 0": {"since": -1},
    "base is no number": {"since": "1"},
    "base is a flag": {"since": True},
    "no list": {"changed": {}},
    "no instance": {"changed": [{"ip": "not one"}]},
    "no version": {"version": None},
    "part of before the base": {"since": 2},
    "version of a part is a text": {"changed": [{"ip": "10.0.0.0", "port": 80, "version": f"1.2.{OWNER}"}]},
    "no part version": {"changed": [{"ip": "10.0.0.0", "port": 80}]},
    "part version above": {"changed": [{"ip": "10.0.0.0", "port": 80, "version": 9}]},
    "both": {"tombstones": {name_of(0): {"version": f"1.2.{OWNER}", "age": 0, "keep": 0}}},
    "removal of another epoch": {"tombstones": {name_of(1): {"version": f"2.2.{OWNER}", "age": 0, "keep": 0}}},
    "removal above": {"tombstones": {name_of(1): {"version": f"1.3.{OWNER}", "age": 0, "keep": 0}}},
    "removal of before the base": {"tombstones": {name_of(1): {"version": f"1.0.{OWNER}", "age": 0, "keep": 0}}},
    "removal by another": {"tombstones": {name_of(1): {"version": "1.2.c:1~z", "age": 0, "keep": 0}}},
}


@pytest.mark.parametrize("what", BAD)
def test_a_delta_of_a_liar_is_refused(what: str) -> None:
    owner = registry(OWNER)
    put(owner, 0)
    base = version_of(owner)
    put(owner, 0, "a")
    put(owner, 0, "b")
    delta = owner.replication.delta(KEY, base)
    assert delta is not None
    fields = orjson.loads(CODEC.encode(delta, NOW_MS, versioned=True))
    assert CODEC.decode(KEY, fields, NOW_MS).base == base
    with pytest.raises(CodecError):
        CODEC.decode(KEY, fields | BAD[what], NOW_MS)


@given(
    app=st.sampled_from([None, "", "DEFAULT", "shop"]),
    instance_id=st.sampled_from([None, "", "7", "10.0.0.1#80#DEFAULT#DEFAULT_GROUP@@orders"]),
    cluster=st.sampled_from(["DEFAULT", "east"]),
    port=st.sampled_from([80, 0]),
)
def test_what_a_delta_leaves_out_is_what_was_there(
    app: str | None, instance_id: str | None, cluster: str, port: int
) -> None:
    one = Instance(
        "10.0.0.1", port, cluster_name=cluster, service_name=FULL_NAME, metadata={}, app=app, instance_id=instance_id
    )
    base, version = Version(1, 1, OWNER), Version(1, 2, OWNER)
    delta = Datum(KEY, version, InstanceList({one.key: StoredInstance(one, version, NOW_MS)}, {}), base)
    body = orjson.loads(CODEC.encode(delta, NOW_MS, versioned=True))
    [came] = CODEC.decode(KEY, body, NOW_MS).value.stored.values()
    assert came.instance == one
    assert (came.instance.app, came.instance.instance_id) == (one.app, one.instance_id)
    [sent] = body["changed"]
    assert ("instanceId" in sent) == (one.instance_id != f"10.0.0.1#{port}#{cluster}#{FULL_NAME}")
    assert ("app" in sent) == (app != "DEFAULT")


odd = (
    st.none()
    | st.booleans()
    | st.integers(-2, 70_000)
    | st.sampled_from([1.0, "", "\n", "é", [], {"a": None}, 1 << 70])
)


@given(
    st.fixed_dictionaries(
        {"ip": st.sampled_from(["10.0.0.1", "1.2.3", "host", "::1", "a b"]) | odd, "version": st.integers(0, 3) | odd},
        optional={
            "port": st.integers(0, 65_536) | odd,
            "app": st.sampled_from(["shop", "x" * 513, "\u2028", "\xa0"]) | odd,
            "metadata": st.dictionaries(st.text(max_size=2), st.text(max_size=2) | odd, max_size=2)
            | st.dictionaries(st.text(), st.text())
            | odd,
            "beatAge": st.integers(-1, 9) | odd,
            "saidAge": st.integers(-1, 9) | odd,
            "heard": odd,
        },
    )
)
def test_the_hot_parser_reads_what_the_other_one_does(fields: dict[str, Any]) -> None:
    """A field with its usual value, that is mostly left out, has each field read by itself."""

    def read(told: dict[str, Any]) -> tuple[object, ...] | str:
        try:
            one = decode_short(told, "public", FULL_NAME, Version(1, 2, OWNER), NOW_MS)
        except CodecError as error:
            return str(error)
        times = one.beat_ms, one.last_confirmed_ms, one.changed_ms
        return one.instance, one.version, one.client_version, times, one.counted_bytes

    assert read(fields) == read(fields | {"marked": False})
