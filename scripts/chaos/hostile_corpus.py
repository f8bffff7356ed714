"""Calls that ``hostile.py`` sends: in the form of calls between members, with contents that no member would send.

Each group abuses one kind of trust: versions, reports, the values of datums, the sizes of bodies.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from app.naming.model.keys import EPHEMERAL_PREFIX
from app.naming.records.record_keys import SWITCHES_KEY, namespace_key, persistent_key
from distro.wire.codec import gzip_body
from distro.wire.http_agent import MEMBER_HEADER

DATUM, DATUMS = "/v1/ns/distro/datum", "/v1/ns/distro/datums"
CHECKSUM, BEATS, REPORT = "/v1/ns/distro/checksum", "/v1/ns/distro/beats", "/v1/core/cluster/report"
RECORDS_TYPE = "rollcall.records"
HIGH_EPOCHS = (999_999_999_999_999_998, 2**53, 2**53 - 1, 2**63, 10**30)
HIGH_COUNTERS = (999_999_999_999_999, 2**53, 2**53 - 1, 2**63 - 1)
STEPS = ((0, 1), (0, 1_000_000), (0, 999_999_999_999_999), (1, 0), (1_000_000, 0))
"""Steps from the real epoch and counter of a run to those of a forged version."""
STRANGER = "10.99.99.99:8848~1"
FORGED = "FORGED LINE"
"""A text that begins a log line only if an attacker forged that line."""
BROKEN = f"\n{FORGED}\r\n{FORGED}"
TEN_MINUTES_MS = 600_000
SERVICE = "hostile"
"""Prefix of the names of services that exist only in forged datums."""
BOMB_BYTES = 60 << 20
METADATA_BYTES = 30 << 20
KEYS = 400_000
BOMBS = ("unpacking", "keys")
REPORTED_KEYS = 20_000


@dataclass(frozen=True, slots=True)
class Shot:
    """One call to a member."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster before an attack: its members, and datums as the members send them."""

    members: Sequence[str]
    lists: Mapping[str, Mapping[str, Any]]
    """Datums of ephemeral services, by key."""
    records: Mapping[str, Mapping[str, Any]]
    """Datums of durable records, by key."""


def list_key(service: str) -> str:
    return f"{EPHEMERAL_PREFIX}public##DEFAULT_GROUP@@{service}"


def instance(service: str, given: str, **fields: Any) -> dict[str, Any]:
    """An instance in a datum, valid except for ``fields``."""
    whole = {"ip": "10.66.0.1", "port": 80, "weight": 1.0, "healthy": True, "enabled": True, "ephemeral": True}
    return whole | {"clusterName": "DEFAULT", "serviceName": f"DEFAULT_GROUP@@{service}", "version": given} | fields


def datum(key: str, version: str, instances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"key": key, "value": {"instanceList": instances}, "timestamp": 1, "version": version}


def put(sender: str, frame: Mapping[str, Any] | bytes, path: str = DATUM) -> Shot:
    """A frame as a Rollcall member sends it."""
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    return Shot("PUT", path, body, {MEMBER_HEADER: sender, "Content-Type": "application/json;charset=UTF-8"})


def forged_versions(target: str, sender: str) -> Iterator[str]:
    """Versions that no run assigned; most have no successor that members could read."""
    for epoch, writer in product(HIGH_EPOCHS, (f"{sender}~1", f"{target}~1", STRANGER)):
        yield f"{epoch}.0.{writer}"
    yield from (f"1.{counter}.{sender}~1" for counter in HIGH_COUNTERS)
    yield from (f"2.1.{writer}" for writer in (STRANGER, "", "~", f"x{BROKEN}:1~1", f"{sender}~{'9' * 10_000}"))
    yield from ("", "1", "1.1", "-1.0.a:1~1", f"1.{'9' * 5_000}.{sender}~1", BROKEN)


def raised(version: str, epochs: int, changes: int) -> str:
    """A version of the same run, this far above."""
    epoch, counter, writer = version.split(".", 2)
    return f"{int(epoch) + epochs}.{int(counter) + changes}.{writer}"


def versions(scene: Scene, target: str, sender: str) -> Iterator[Shot]:
    """Datums, records and verify rounds with forged versions, of new and of known keys."""
    for number, version in enumerate(forged_versions(target, sender)):
        new = [f"{SERVICE}-version-{number}-{each}" for each in range(3)]
        frame = {list_key(name): datum(list_key(name), version, [instance(name, version)]) for name in new}
        yield put(sender, frame)
        for key, known in list(scene.lists.items())[:3]:
            forged = dict(known, version=version, value={"instanceList": []})
            dead = {"10.66.0.1#80#DEFAULT": {"version": version, "age": 0, "keep": TEN_MINUTES_MS}}
            yield put(sender, {key: forged | {"tombstones": dead}})
            yield put(sender, {key: version}, f"{CHECKSUM}?source={sender}")
        for key, known in [*scene.records.items()][:3]:
            yield put(sender, {key: dict(known, version=version, changed=version, value=None)})
            yield put(sender, {key: version}, f"{CHECKSUM}?source={sender}&type={RECORDS_TYPE}")
        name = namespace_key(f"{SERVICE}-{number}")
        value = {"name": SERVICE, "description": ""}
        yield put(sender, {name: {"key": name, "version": version, "changed": version, "value": value, "changedMs": 1}})
        switches = {"overriddenServerStatus": "DOWN"}
        yield put(sender, {SWITCHES_KEY: {"version": version, "changed": version, "value": switches, "changedMs": 1}})
    for number, (key, known) in enumerate({**scene.lists, **scene.records}.items()):
        # Of the target's own run, the sender's, and the third member's.
        above = raised(known["version"], *STEPS[number % len(STEPS)])
        yield put(sender, {key: dict(known, version=above, value=None)})
        emptied: dict[str, list[Any]] | None = {"instanceList": []} if key in scene.lists else None
        yield put(sender, {key: dict(known, version=above, value=emptied)})
        if key in scene.records:
            yield put(sender, {key: dict(known, version=above, changed=above, value=emptied)})


def reports(scene: Scene, target: str, sender: str) -> Iterator[Shot]:
    """Reports in other members' names, including the target's own."""
    for named, state, hold_ms in product([*scene.members, "10.99.99.99:8848", f"a{BROKEN}:1"], ("DOWN", "UP"), (0, 1)):
        ip, _, port = named.rpartition(":")
        waiting = {list_key(f"{SERVICE}-{number}"): f"9.9.{named}~1" for number in range(REPORTED_KEYS * hold_ms)}
        own = {
            "capabilities": ["versions", "gzip", "writes", BROKEN],
            "view": [named, "10.99.99.99:8848"],
            "holdMs": TEN_MINUTES_MS * hold_ms,
            "toldHoldMs": TEN_MINUTES_MS * hold_ms,
            "writer": f"{named}~{FORGED}",
            "clockMs": 2**53,
            "calls": dict.fromkeys(scene.members, 2**53),
            "heard": {one: {"age": 2**53, "calls": {}} for one in scene.members},
            "served": True,
            "waiting": dict.fromkeys(scene.members, waiting),
        }
        member = {"ip": ip, "port": int(port), "address": named, "state": state}
        body = member | {"extendInfo": {"version": "1.4.8", "raftPort": "1", "rollcall": own}}
        yield Shot("POST", REPORT, json.dumps(body).encode(), {MEMBER_HEADER: named.partition("\n")[0]})


def values(scene: Scene, target: str, sender: str) -> Iterator[Shot]:
    """Datums with plausible versions, whose instances and records no registration would accept."""
    version = f"1.1.{sender}~1"
    wrong: list[dict[str, Any]] = [
        {"ip": f"10.0.0.1{BROKEN}"},
        {"ip": "not an address \x00"},
        {"port": 2**63},
        {"port": -1},
        {"port": "80x"},
        {"ephemeral": False},
        {"clusterName": BROKEN},
        {"clusterName": "a" * 10_000},
        {"serviceName": f"DEFAULT_GROUP@@another{BROKEN}"},
        {"metadata": {"a": "b" * METADATA_BYTES}},
        {"metadata": {"a": {"b": []}}},
        {"weight": "1e999"},
        {"version": BROKEN},
        {"said": f"999999999999999998.0.{sender}~1"},
    ]
    for number, fields in enumerate(wrong):
        key = list_key(f"{SERVICE}-value-{number}")
        yield put(sender, {key: datum(key, version, [instance(f"{SERVICE}-value-{number}", version, **fields)])})
    for number, name in enumerate((f"x{BROKEN}", "", "a" * 10_000, f"{SERVICE}-no-group")):
        key = f"{EPHEMERAL_PREFIX}public##{name}"
        yield put(sender, {key: datum(key, version, [instance(f"{SERVICE}-name-{number}", version)])})
    one, other = list_key(f"{SERVICE}-key"), list_key(f"{SERVICE}-another")
    yield put(sender, {one: datum(other, version, [instance(f"{SERVICE}-another", version)])})
    stranger = persistent_key("public", f"DEFAULT_GROUP@@{SERVICE}-record", "10.0.0.9#80#DEFAULT")
    record = {"version": version, "changed": version, "changedMs": 1}
    values: tuple[Any, ...] = ({"ip": "10.0.0.1", "port": 2**63, "clusterName": "DEFAULT"}, {"ip": BROKEN}, [], "x", 1)
    for value in values:
        yield put(sender, {stranger: {"key": stranger, "value": value, **record}})
    for key in (namespace_key(BROKEN), f"{SWITCHES_KEY}{BROKEN}"):
        yield put(sender, {key: {"key": key, "value": {"name": BROKEN, "description": ""}, **record}})
    ages = {f"10.66.0.1#80#DEFAULT{BROKEN}": 0, "10.66.0.1#80#DEFAULT": -(2**63)}
    yield put(sender, {list_key(f"{SERVICE}-beat"): ages}, BEATS)
    yield put(sender, {key: {"x": 2**53} for key in (*scene.lists, BROKEN)}, BEATS)
    yield Shot("PUT", f"{CHECKSUM}?source={SERVICE}%0A{FORGED.replace(' ', '%20')}", b'{"a": "1"}')
    yield Shot("GET", f"{DATUMS}?type=%0A{FORGED.replace(' ', '%20')}", b"", {MEMBER_HEADER: sender})
    yield from (put(sender, body) for body in (b"[]", b"{", b"null", b"\x1f\x8b\x08", b"\x00" * 1_000, b"1" * 100_000))


def bombs(sender: str) -> dict[str, list[Shot]]:
    """The most expensive bodies by kind: 61 KB that decompress to 60 MB, and many keys."""
    text = b'{"%b": "%b"}' % (list_key(f"{SERVICE}-bomb").encode(), b"a" * BOMB_BYTES)
    nested = b'{"a": %b%b}' % (b"[" * (1 << 20), b"]" * (1 << 20))
    blank = b"{" + b" " * BOMB_BYTES + b"}"
    keys = b"{" + b",".join(b'"%d":{}' % number for number in range(KEYS)) + b"}"
    prefix = list_key(f"{SERVICE}-many-").encode()
    lists = b"{" + b",".join(b'"%b%d":{}' % (prefix, number) for number in range(KEYS)) + b"}"
    versions_of_keys = lists.replace(b"{}", b'"1.1.%b~1"' % sender.encode())
    return {
        "unpacking": [put(sender, gzip.compress(plain, 9)) for plain in (text, nested, blank)],
        "keys": [
            *(put(sender, gzip_body(plain)) for plain in (keys, lists)),
            put(sender, gzip_body(versions_of_keys), f"{CHECKSUM}?source={sender}"),
        ],
    }
