"""Lasting damage in members as they run: one of them holds another state under its owner's own version.

No verify round between members notices it, as versions are all that these compare. It is planted as a datum that the
owner might have sent: with the version of its next change, which the owner then makes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.naming.model.keys import CLIENT_KEY_PREFIX, datum_key
from distro.wire.codec import gunzip_if_gzip
from tests.support.client import Answer
from tests.support.processes import Member, eventually

LONG = json.dumps({"preserved.heart.beat.timeout": "3600000", "preserved.ip.delete.timeout": "3600000"})
"""Metadata of instances that nobody beats for."""
BODY_BYTES_MAX = 1_000_000
MARKER = "10.99.0.1"
ATTEMPTS_MAX = 5
Datum = dict[str, Any]


def _asked(member: Member, key: str, speaker: Member) -> Datum:
    """A member's datum of a key, as another member gets it."""
    body = json.dumps({"keys": key}).encode()
    headers = {"Content-Type": "application/json", "Rollcall-Member": speaker.address}
    answer = member.client.call("GET", "/v1/ns/distro/datum", body, headers)
    assert answer.status == 200, answer.body
    found: Mapping[str, Datum] = json.loads(gunzip_if_gzip(answer.body, BODY_BYTES_MAX))
    return found[key]


def _told(member: Member, speaker: Member, datum: Datum) -> None:
    headers = {"Content-Type": "application/json", "Rollcall-Member": speaker.address}
    body = json.dumps({datum["key"]: datum}).encode()
    answer = member.client.call("PUT", "/v1/ns/distro/datum", body, headers)
    assert answer.status == 200, answer.body
    said = answer.json()  # with the ages of what was applied
    assert (said["refused"], said["failed"]) == ({}, {}), said


def _next(version: str) -> str:
    epoch, counter, writer = version.split(".", 2)
    return f"{epoch}.{int(counter) + 1}.{writer}"


def owner_of(members: Sequence[Member], service: str) -> Member:
    """The member that all of these take for responsible for a service that they know."""
    [address] = {one.client.owner(service) for one in members}
    return next(one for one in members if one.address == address)


def plant(
    members: Sequence[Member],
    service: str,
    targets: Sequence[Member],
    depart: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Have ``targets`` hold the service's instances as ``depart`` leaves them, under the version that the owner gives.

    ``depart`` gets the instances as JSON. One more, ``MARKER``, is there afterwards, everywhere.

    A round of the members between the two would have the owner claim the key above what it did not give (R10): then it
    is planted again.
    """
    owner, key = owner_of(members, service), datum_key("public", f"DEFAULT_GROUP@@{service}")
    speaker = next(one for one in members if one is not owner)
    for attempt in range(ATTEMPTS_MAX):
        before = _planted(owner, speaker, key, targets, depart)
        assert owner.client.register(service, MARKER, metadata=_metadata(attempt)).status == 200

        def versions() -> set[str]:
            return {_asked(one, key, owner if one is not owner else speaker)["version"] for one in members}

        eventually(
            lambda: all(f"{MARKER}:8080" in one.client.hosts(service) for one in members) and len(versions()) == 1
        )
        if versions() == {_next(before)}:
            return
    raise AssertionError("the owner claimed the key before its own change each time")


def _metadata(attempt: int) -> str:
    """Return metadata of an instance that nobody beats for, others at each attempt, so that each is a change."""
    return json.dumps({**json.loads(LONG), **({"attempt": str(attempt)} if attempt else {})})


def _planted(
    owner: Member,
    speaker: Member,
    key: str,
    targets: Sequence[Member],
    depart: Callable[[list[dict[str, Any]]], None],
) -> str:
    """Tell the targets of the owner's next state as ``depart`` leaves it; return the owner's version before that."""
    mine = _asked(owner, key, speaker)
    for target in targets:
        datum: Datum = json.loads(json.dumps(mine))
        datum["version"] = _next(mine["version"])
        listed = [one for one in datum["value"]["instanceList"] if one["ip"] != MARKER]
        datum["value"]["instanceList"] = listed
        marker = {**listed[0], "ip": MARKER, "version": datum["version"]}
        marker["instanceId"] = marker["instanceId"].replace(listed[0]["ip"], MARKER)
        depart(listed)
        listed.append(marker)
        _told(target, owner, datum)
    version: str = mine["version"]
    return version


def writer_of(members: Sequence[Member], key: str) -> Member:
    """The member that gave a durable record its version: its owner, as long as no member comes or goes."""
    first, second = members[:2]
    writer = _asked(first, key, second)["version"].split(".", 2)[2].partition("~")[0]
    return next(one for one in members if one.address == writer)


def plant_record(
    members: Sequence[Member],
    key: str,
    target: Member,
    change: Callable[[Datum], Datum | None],
    write: Callable[[Member], Answer],
) -> None:
    """Have a member hold another value of a durable record, under the version that the owner gives with ``write``."""
    owner = writer_of(members, key)
    assert target is not owner
    speaker = next(one for one in members if one is not owner)
    mine = _asked(owner, key, speaker)
    version = _next(mine["version"])
    _told(target, owner, {**mine, "version": version, "changed": version, "value": change(mine["value"])})
    answer = write(owner)
    assert answer.status == 200, answer.body

    def all_have_it() -> bool:
        versions = {_asked(one, key, owner if one is not owner else speaker)["version"] for one in members}
        return versions == {version}

    eventually(all_have_it)


def await_rounds(members: Sequence[Member]) -> None:
    """Return after two more verify rounds: one that was under way at the damage may repair it."""

    def sent(one: Member) -> int:
        count: int = one.client.call("GET", "/v1/ns/operator/metrics").json()["verifySent"]
        return count

    before = [sent(one) for one in members]
    rounds = 2 * len(members)
    eventually(lambda: all(sent(one) >= count + rounds for one, count in zip(members, before, strict=True)))


def still_differ(members: Sequence[Member], key: str) -> bool:
    """Whether a record that was planted outlasts the verify rounds that were under way."""
    await_rounds(members)
    speakers = [*members[1:], members[0]]
    values = [_asked(one, key, speaker)["value"] for one, speaker in zip(members, speakers, strict=True)]
    return any(value != values[0] for value in values)


def plant_client(member: Member, target: Member, client_id: str, weight: float) -> None:
    """Have a member hold a client of another one with another weight, under the version of the client's next change."""

    def depart(published: Datum) -> None:
        published["extendDatum"]["publishInstanceWeight"] = weight

    plant_publication(member, target, client_id, depart)


def plant_publication(
    member: Member, target: Member, client_id: str, depart: Callable[[Datum], None], changes: int = 1
) -> None:
    """Have a member hold a client of another one with its first instance as ``depart`` leaves it.

    It is planted under the version of the client's next change. ``changes``: by so much its revision is above the one
    of now; the next change raises that of the client by 1.
    """
    datum = _asked(member, CLIENT_KEY_PREFIX + client_id, target)
    datum["version"] = _next(datum["version"])
    datum["client"]["attributes"]["clientAttributes"]["revision"] += changes
    depart(datum["client"]["instancePublishInfos"][0])
    _told(target, member, datum)
