"""A real Nacos 1.x member: the datums that it replicates, compared with the services that its clients see."""

import email.utils
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import zip_longest
from typing import Any

import orjson

from app.naming.model.keys import datum_key, parse_datum_key
from app.rows.rows import ClientKind, Layer, service_row
from app.tools.audit.client.http_client import PEER_AGENT, Answer, CallError, MemberClient, Refused
from app.tools.audit.dump.nacos import (
    Found,
    Nodes,
    ShownService,
    found_row,
    read_instance,
    read_names,
    read_service,
    read_shown,
)
from distro.members.mapper import DistroMapper

DATUMS_PATH, DATUM_PATH = "/v1/ns/distro/datums", "/v1/ns/distro/datum"
CARRIES_KEYS = {"UP", "SUSPICIOUS"}
"""The states of members among which real Nacos spreads its keys. Source: Nacos 1.4.1 DistroMapper.onEvent."""
KEYS_AT_ONCE = 100
LOOKS_AGAIN = 3
LOOK_AGAIN_S = 0.5
"""The wait before a further look.

Nacos stores a datum first, and another thread shows it: milliseconds later, under load more.
"""

Key = tuple[str, str]
"""The namespace and full name of a service."""
EmitRow = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Datums:
    """Instance lists by service, and the time (wall ms) of the member's own clock when it gave them."""

    lists: dict[Key, list[Found]]
    clock_ms: int


def read_datums(client: MemberClient) -> Datums | None:
    """Return all instance lists of a member that replicates by datums; None for a member that does not.

    Raises:
        CallError: no answer, or one of another shape.
    """
    try:
        answer = client.get(DATUMS_PATH, agent=PEER_AGENT)
    except Refused as error:
        if error.passing:
            raise
        return None
    try:
        return _decode(answer)
    except CallError:
        if answer.body.lstrip()[:1] == b"{":
            raise
        return None  # a page, from what answers 200 to every path


def _decode(answer: Answer) -> Datums:
    body = answer.json()
    if not isinstance(body, dict):
        raise CallError(f"{answer.path}: the answer is not a map of datums")
    lists: dict[Key, list[Found]] = {}
    for key, datum in body.items():
        parsed = parse_datum_key(key)
        if parsed is None:
            continue
        value = datum.get("value") if isinstance(datum, dict) else None
        instances = value.get("instanceList") if isinstance(value, dict) else None
        if not isinstance(instances, list) or not all(isinstance(one, dict) for one in instances):
            raise CallError(f"{answer.path}: the datum of {key[:200]} has no instanceList")
        lists[parsed] = [read_instance(one) for one in instances]
    return Datums(lists, _clock_ms(answer))


def _clock_ms(answer: Answer) -> int:
    """Return the time (wall ms) of an answer by the member's own clock; by ours if the answer has no Date header.

    It is cut to the second: the age of a beat may be up to one second too small, never too large.
    """
    try:
        moment = email.utils.parsedate_to_datetime(answer.headers.get("Date", ""))
    except ValueError:
        return time.time_ns() // 1_000_000
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000)


def take_datums(
    client: MemberClient, nodes: Nodes, datums: Datums, namespaces: Sequence[str], emit_row: EmitRow
) -> None:
    """Emit rows of both layers: one row for an instance that is equal in datum and view, else one for each layer.

    In a row of both layers, health is the view's: a datum has the health of the moment at which it was made.

    Raises:
        CallError: the member did not answer, or answered wrongly.
    """
    shown: dict[Key, ShownService] = {}
    for namespace in namespaces:
        names = read_names(client, namespace)
        views = read_shown(client, namespace, names)
        for name in names:
            # One that came or went between the two calls is looked at by itself.
            view = views[name] if name in views else read_service(client, namespace, name)
            if view is not None:
                shown[namespace, name] = view
    clocks: dict[Key, int] = {}
    known = datums.lists.keys() | shown.keys()
    different = [key for key in known if not _agree(datums.lists.get(key), _instances(shown.get(key)))]
    for look in range(LOOKS_AGAIN):
        if not different:
            break
        if look:  # the first tells those with persistent instances, which are in no datum, from those that differ
            client.pause(LOOK_AGAIN_S)
        different = _look_again(client, different, datums, shown, clocks)
    mapper = DistroMapper.over(nodes.address, (one.address for one in nodes.members if one.state in CARRIES_KEYS))
    for key in sorted(datums.lists.keys() | shown.keys()):
        told = _Told(key, mapper.map_srv(key[1]), nodes.address, clocks.get(key, datums.clock_ms))
        for row in _rows(told, datums.lists.get(key), shown.get(key)):
            emit_row(row)


def _agree(datum: Sequence[Found] | None, seen: Sequence[Found]) -> bool:
    return all(
        one is not None and other is not None and one.values == other.values and other.ephemeral is not False
        for one, other in _pairs(datum or (), seen)
    )


def _look_again(
    client: MemberClient,
    keys: Iterable[Key],
    datums: Datums,
    shown: dict[Key, ShownService],
    clocks: dict[Key, int],
) -> list[Key]:
    """Fetch datum and view of these services again, into the mappings given; return the services that still differ."""
    different: list[Key] = []
    ordered = sorted(keys)
    for start in range(0, len(ordered), KEYS_AT_ONCE):
        some = ordered[start : start + KEYS_AT_ONCE]
        wanted = ",".join(datum_key(*key) for key in some)
        # A GET with a body, as members send it.
        answer = client.get(DATUM_PATH, body=orjson.dumps({"keys": wanted}), agent=PEER_AGENT)
        fetched = _decode(answer)
        for key in some:
            clocks[key] = fetched.clock_ms
            datum = fetched.lists.get(key)
            known = shown.get(key)
            view = read_service(client, *key, clusters=known or ())
            if view is not None and datum is not None:
                view = _with_clusters_of(client, key, datum, view)
            _put(datums.lists, key, datum)
            _put(shown, key, view)
            if not _agree(datum, [one for one in _instances(view) if one.ephemeral is not False]):
                different.append(key)
    return different


def _with_clusters_of(client: MemberClient, key: Key, datum: Iterable[Found], view: ShownService) -> ShownService:
    """Return the view with the clusters that only the datum names, as they may be new."""
    missing = {one.cluster for one in datum} - view.keys()
    if missing and (found := read_service(client, *key, clusters=sorted(missing))) is not None:
        view.update(found)
    return view


def _put(values: dict[Key, Any], key: Key, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _instances(view: ShownService | None) -> list[Found]:
    return [one for found in view.values() for one in found] if view else []


def _pairs(datum: Iterable[Found], view: Iterable[Found]) -> Iterator[tuple[Found | None, Found | None]]:
    """Yield pairs of an instance in datum and view, by cluster, ip and port; None on the side that lacks it.

    An instance that is twice on one side is in two pairs.
    """
    sides: dict[tuple[str, str, int], tuple[list[Found], list[Found]]] = defaultdict(lambda: ([], []))
    for side, instances in enumerate((datum, view)):
        for one in instances:
            sides[one.key][side].append(one)
    for found, seen in sides.values():
        yield from zip_longest(found, seen)


@dataclass(frozen=True, slots=True)
class _Told:
    """The values that all rows of one service share: its key, its owner, the dumped member and that member's clock."""

    key: Key
    owner: str
    member: str
    clock_ms: int


def _rows(told: _Told, datum: Sequence[Found] | None, view: ShownService | None) -> Iterator[dict[str, Any]]:
    if view is None and not datum:
        return  # an empty list that nobody is shown: what is left of a service
    seen = _instances(view)
    yield service_row(*told.key, owner=told.owner, instances=len(seen))
    for one in seen:
        if one.ephemeral is False:
            yield _row(told, one, Layer.BOTH)
    for held, shown in _pairs(datum or (), [one for one in seen if one.ephemeral is not False]):
        if held is not None and shown is not None and held.values == shown.values:
            yield _row(told, replace(held, healthy=shown.healthy), Layer.BOTH)
            continue
        if held is not None:
            yield _row(told, held, Layer.DATUM)
        if shown is not None:
            yield _row(told, shown, Layer.VIEW)


def _row(told: _Told, one: Found, layer: Layer) -> dict[str, Any]:
    ephemeral = one.ephemeral is not False
    age_ms = None
    if ephemeral and told.owner == told.member and one.last_beat_ms is not None:
        age_ms = max(told.clock_ms - one.last_beat_ms, 0)
    owner = told.owner if ephemeral else None
    return found_row(*told.key, one, ClientKind.HTTP, layer=layer, owner=owner, beat_age_ms=age_ms)
