"""The right state of a service that members hold differently, by the rules of replication: pure, from their answers.

The state of a key's owner is right, as in every verify round, except for an instance that the owner lost: one that most
members have and that the owner does not know returns to it. In the end the owner decides: it knows the removals, which
the answers do not contain.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.languages.phrases import Phrase, phrase
from app.naming.model.keys import instance_key
from app.rows.rows import ClientKind
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.heal.reading import Held, InstanceKey, Row

ABSENT = phrase("absent")
STALE_SLACK_MS = 5_000
NAMED_MAX = 100
"""The most durable instances that one call may name."""
_COMPARED = (
    (FindingClass.HEALTH, "healthy"),
    (FindingClass.ENABLED, "enabled"),
    (FindingClass.WEIGHT, "weight"),
    (FindingClass.METADATA, "metadata"),
)
OWNERS_STATE = phrase("the owner's state is right (R3)")
OWNERS_LIST = phrase("the owner's list is complete, and goes to all (R3)")
RESTORED = phrase("most members have it: its owner accepts it again, unless it was removed there (R4)")
UNKNOWN_LIST = phrase("the owner does not know the service, and accepts it from others (R3)")
DURABLE = phrase(
    "among Rollcall members absence removes nothing: its owner accepts it, unless it was removed there (R6)"
)
OF_CLIENT = phrase("the member that the client is connected to is right (R3)")
EMPTY = phrase("the owner's list goes to all, until all agree to forget it (R6)")


@dataclass(frozen=True, slots=True)
class Departure:
    """A member's state that is not the right one. ``what``: the instance or the setting, empty for the service."""

    finding_class: FindingClass
    what: str
    member: str
    found: str
    expected: str
    found_version: str | None
    expected_version: str | None
    rule: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The departures of the members from the right state, and the way to reach that state."""

    owner: str | None = None
    """The member that all name as responsible; None if they do not agree on one."""
    departures: tuple[Departure, ...] = ()
    source: str = ""
    """The member from which the owner fetches the instances that it lost; empty if it lost none."""
    instances: tuple[str, ...] = ()
    """The keys of durable instances that their owner does not know."""
    blocked: str = ""
    """The reason why nothing can be exchanged, and what to do instead; empty if an exchange is possible."""
    notes: tuple[str, ...] = ()
    """Differences that no exchange heals, and what to do about them."""


@dataclass(slots=True)
class _Lost:
    """The instances that owners should have and do not know."""

    listed: list[InstanceKey] = field(default_factory=list)
    durable: list[InstanceKey] = field(default_factory=list)


def decide(held: Sequence[Held]) -> Decision:
    """Compare the members' states. Each member is a Rollcall member, and at least one knows the service."""
    named = sorted({one.owner for one in held if one.owner is not None})
    notes = tuple(_notes(held))
    if len(named) != 1:
        return _disagreeing(held, named, notes)
    [name] = named
    owner = next((one for one in held if one.address == name), None)
    if owner is None:
        text = phrase(
            "the owner, %(name)s, is not among the members that answered, and a heal needs it: name it, "
            "or wait until the others consider it DOWN and name another owner",
            name=name,
        )
        return Decision(name, blocked=text, notes=notes)
    lost = _Lost()
    keys = sorted({key for one in held for key in one.instances})
    departures = [found for key in keys for found in _of_instance(key, held, owner, lost)]
    departures += _of_service(held, owner, has_instances=bool(keys), differ=bool(departures))
    departures += [*_of_settings(held, owner), *_of_clients(held)]
    named_keys = tuple(instance_key(ip, port, cluster) for cluster, ip, port, _ in lost.durable[:NAMED_MAX])
    return Decision(name, tuple(departures), _source(held, owner, lost.listed), named_keys, notes=notes)


def lasting(first: Iterable[Departure], second: Iterable[Departure]) -> tuple[Departure, ...]:
    """Return the differences of ``second`` that ``first`` has with the same values and versions."""
    before = set(first)
    return tuple(one for one in second if one in before)


def _disagreeing(held: Sequence[Held], named: list[str], notes: tuple[str, ...]) -> Decision:
    text = phrase(
        "the members name different owners (%(names)s), which concerns more than one service. Check "
        "that all list and reach the same members (cluster.conf, GET /v1/core/cluster/nodes)",
        names=", ".join(named) or phrase("none"),
    )
    unnamed, single = phrase("no member"), phrase("one owner")
    found = [
        Departure(FindingClass.OWNER, "", one.address, one.owner or unnamed, single, one.version, None, text)
        for one in held
        if one.is_known
    ]
    return Decision(None, tuple(found), blocked=text, notes=notes)


# --- instances -----------------------------------------------------------------------------------


def _of_instance(key: InstanceKey, held: Sequence[Held], owner: Held, lost: _Lost) -> Iterator[Departure]:
    rows = {one.address: one.instances[key] for one in held if key in one.instances}
    what = instance_text(key)
    of_client = all(row.client == ClientKind.GRPC for row in rows.values())
    if of_client:
        reference = _most(rows)
        is_right, rule = 2 * len(rows) >= len(held), OF_CLIENT
    else:
        decides = _decider(rows, owner)
        reference = decides if decides in rows else _most(rows)
        is_right, rule = True, OWNERS_STATE
        if decides not in rows:
            is_right, rule = _is_lost(key, rows, held, owner, lost)
    right = rows[reference]
    for one in held:
        row = rows.get(one.address)
        if row is None and is_right:
            yield Departure(FindingClass.MISSING, what, one.address, ABSENT, row_text(right), None, right.version, rule)
        elif row is not None and not is_right:
            yield Departure(FindingClass.EXTRA, what, one.address, row_text(row), ABSENT, row.version, None, rule)
        elif row is not None and one.address != reference:
            yield from _values(what, one.address, row, right, rule)


def _decider(rows: Mapping[str, Row], owner: Held) -> str:
    """Return the member that decides on an instance; for a durable one it may differ from the list's owner."""
    named = {row.owner for row in rows.values() if row.owner is not None}
    return named.pop() if len(named) == 1 else owner.address


def _is_lost(
    key: InstanceKey, rows: Mapping[str, Row], held: Sequence[Held], owner: Held, lost: _Lost
) -> tuple[bool, Phrase]:
    """Return whether an instance that its owner lacks should exist, and the rule that says so."""
    if not key[3]:
        lost.durable.append(key)
        return True, DURABLE
    if owner.version is None:
        return True, UNKNOWN_LIST
    if len(rows) >= 2 and 2 * len(rows) > len(held):
        lost.listed.append(key)
        return True, RESTORED
    return False, OWNERS_LIST


def _most(rows: Mapping[str, Row]) -> str:
    """Return the first member with the values that most members have."""
    texts = {address: row_text(row) for address, row in rows.items()}
    votes = Counter(texts.values())
    return max(texts, key=lambda address: votes[texts[address]])


def _values(what: str, member: str, row: Row, right: Row, rule: str) -> Iterator[Departure]:
    versions = row.version, right.version
    differ = [(name, field) for name, field in _COMPARED if getattr(row, field) != getattr(right, field)]
    if differ and row.version is not None and row.version == right.version:
        # One for all values that departed without a new version.
        yield Departure(FindingClass.SILENT_CORRUPTION, what, member, row_text(row), row_text(right), *versions, rule)
        return
    for name, attribute in differ:
        texts = _json(getattr(row, attribute)), _json(getattr(right, attribute))
        yield Departure(name, what, member, *texts, *versions, rule)
    if not differ and None not in versions and row.version != right.version:
        yield Departure(FindingClass.BEHIND, what, member, row_text(row), row_text(right), *versions, rule)


def _source(held: Sequence[Held], owner: Held, lost: Sequence[InstanceKey]) -> str:
    """Return the member with most of the lost instances, and among those the one with fewest instances to remove."""
    if not lost:
        return ""
    wanted = set(lost)

    def worth(one: Held) -> tuple[int, int]:
        unknown = {key for key in one.instances if key[3] and key not in owner.instances}
        return len(wanted & unknown), -len(unknown - wanted)

    return max((one for one in held if one is not owner), key=worth).address


# --- the service itself --------------------------------------------------------------------------


def _of_service(held: Sequence[Held], owner: Held, *, has_instances: bool, differ: bool) -> Iterator[Departure]:
    there = phrase("present, without instances")
    for one in held:
        if not one.is_known and not has_instances:
            rule = EMPTY if owner.is_known else UNKNOWN_LIST
            yield Departure(FindingClass.SERVICE, "", one.address, ABSENT, there, None, owner.version, rule)
        elif one.is_known and owner.is_known and one.version != owner.version and not differ:
            texts = one.version or ABSENT, owner.version or ABSENT
            yield Departure(FindingClass.BEHIND, "", one.address, *texts, one.version, owner.version, OWNERS_STATE)


def _of_settings(held: Sequence[Held], owner: Held) -> Iterator[Departure]:
    """Yield the settings that differ from the owner's, of members that give theirs."""
    for one in held:
        if one is owner or not (one.settings and owner.settings):
            continue
        for name in sorted(one.settings.keys() & owner.settings.keys()):
            texts = _json(one.settings[name]), _json(owner.settings[name])
            if texts[0] != texts[1]:
                versions = one.settings_version, owner.settings_version
                yield Departure(FindingClass.SETTINGS, name, one.address, *texts, *versions, OWNERS_STATE)


def _of_clients(held: Sequence[Held]) -> Iterator[Departure]:
    """Yield the clients that a member has at another revision than the member to which the client is connected.

    A client that a member lacks is found by its instances.
    """
    own = {(one.address, name): client for one in held for name, client in one.clients.items()}
    for one in held:
        for name, client in sorted(one.clients.items()):
            right = own.get((client.owner or "", name))
            if right is not None and right.owner == client.owner and right.revision != client.revision:
                found, expected = (phrase("revision %(number)s", number=at.revision) for at in (client, right))
                yield Departure(FindingClass.CLIENT, name, one.address, found, expected, None, None, OF_CLIENT)


# --- what no exchange heals ----------------------------------------------------------------------


def _notes(held: Sequence[Held]) -> Iterator[str]:
    lists = {one.address: sorted((seen.address, seen.state) for seen in one.members) for one in held}
    if any(listed != lists[held[0].address] for listed in lists.values()):
        yield (
            phrase(
                "MEMBERSHIP: the members list different members, or different states of them, which no "
                "exchange heals: see cluster.conf and the links between them"
            )
        )
    for one in held:
        stale = [key for key, row in one.instances.items() if one.owner == one.address and _is_stale(row)]
        if stale:
            yield (
                phrase(
                    "STALE: %(address)s, the owner, has not heard of %(instances)s for longer than its time-out, and "
                    "still lists it: its health check does not run; see the switch healthCheckEnabled and its log",
                    address=one.address,
                    instances=_some(stale),
                )
            )
        twice = [key for key in one.instances if key[3] and (*key[:3], False) in one.instances]
        if twice:
            yield (
                phrase(
                    "DUPLICATE: %(address)s has %(instances)s as ephemeral and as durable, both registered by "
                    "clients: deregister one of them",
                    address=one.address,
                    instances=_some(twice),
                )
            )


def _is_stale(row: Row) -> bool:
    if row.beat_age_ms is None or row.delete_timeout_ms is None:
        return False
    return row.beat_age_ms > row.delete_timeout_ms + STALE_SLACK_MS


def _some(keys: Sequence[InstanceKey]) -> str:
    first = instance_text(keys[0])
    return phrase("%(instance)s and %(count)s more", instance=first, count=len(keys) - 1) if len(keys) > 1 else first


# --- texts ---------------------------------------------------------------------------------------


def instance_text(key: InstanceKey) -> str:
    """Return an instance as one word."""
    cluster, ip, port, ephemeral = key
    host = f"[{ip}]" if ":" in ip else ip
    return f"{host}:{port}#{cluster}{'' if ephemeral else ' durable'}"


def row_text(row: Row) -> str:
    """Return the values of an instance in one line."""
    parts = ["healthy" if row.healthy else "unhealthy", *([] if row.enabled else ["disabled"]), f"weight {row.weight}"]
    return " ".join([*parts, *([_json(row.metadata)] if row.metadata else [])])


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
