"""The nightly check's rules of links in plain Python: slow, short, and written apart from the check itself."""

import gzip
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import orjson

from app.rows.rows import RowKind
from app.tools.audit.format.layout import Night, Round
from app.tools.audit.format.manifest import Link, Part

LinkFinding = tuple[str, str, str, str, str, str]
"""What is wrong, the link, the member, and the namespace, service and address."""
Key = tuple[Any, ...]
Row = dict[str, Any]
HEARD_MS, UNSTEADY_MS = 5_000, 45_000
KEY = ("namespace", "service", "cluster", "ip", "port", "ephemeral")
VALUES = ("healthy", "enabled", "weight", "metadata")


def check_links(nights: Collection[Night]) -> Counter[LinkFinding]:
    """Return the findings of all links between clusters, of each of which this is a night."""
    by_cluster = {night.rounds[0].manifest.members[0].cluster: night for night in nights}
    found: Counter[LinkFinding] = Counter()
    for here in nights:
        for link in here.rounds[-1].manifest.members[0].links:
            if there := by_cluster.get(link.cluster):
                found.update(_judged(here, there, link))
    return found


def _judged(here: Night, there: Night, link: Link) -> Iterator[LinkFinding]:
    wanted: dict[Key, list[Any]] = defaultdict(list)
    places = 0
    for one in there.rounds:
        for rows in _rows_of(one, "parts").values():
            places += 1
            # A key may be registered over HTTP and by a gRPC client, too.
            told = {_key(row, link): _value(row) for row in reversed(rows) if _is_carried(row, link)}
            for key, value in told.items():
                wanted[key].append(value)
    rounds = [_rows_of(one, "linked") for one in here.rounds]
    taken_ms = [{member.address: member.taken_ms for member in one.manifest.members} for one in here.rounds]
    is_steady = _is_steady(here, link)
    for member in rounds[0].keys() & rounds[1].keys():
        gap_ms = taken_ms[1][member] - taken_ms[0][member]
        first, second = ({_key(row): row for row in rows[member] if row["name"] == link.name} for rows in rounds)
        for key in wanted.keys() | first.keys() | second.keys():
            values = wanted.get(key, [])
            is_settled = len(values) == places and all(value == values[0] for value in values)
            if key not in first and key not in second:
                what = "missing" if is_settled and is_steady else ""
            elif key in first and key in second:
                what = _what(first[key], second[key], values, gap_ms, is_settled=is_settled)
            else:
                continue
            if what:
                yield what, link.name, member, key[0], key[1], f"{key[3]}:{key[4]}"


def _is_steady(here: Night, link: Link) -> bool:
    first, second = (
        max(one.heard_ago_ms for member in round_.manifest.members for one in member.links if one.name == link.name)
        for round_ in here.rounds
    )
    return max(first, second) < HEARD_MS or second >= UNSTEADY_MS


def _what(first: Row, second: Row, values: list[Any], gap_ms: int, *, is_settled: bool) -> str:
    if "silent_ms" in first and "silent_ms" in second:
        return "stale" if second["silent_ms"] >= (gap_ms if values else max(gap_ms, UNSTEADY_MS)) else ""
    if "silent_ms" in first or "silent_ms" in second:
        return ""
    if not values:
        return "extra"
    return "differs" if is_settled and _value(first) == _value(second) != values[0] else ""


def _rows_of(one: Round, parts: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for member in one.manifest.members:
        files: list[Part] = getattr(member, parts)
        bodies = [gzip.decompress(Path(one.folder, part.path).read_bytes()) for part in files]
        rows = [orjson.loads(line) for body in bodies for line in body.splitlines()]
        found[member.address] = [row for row in rows if row["kind"] in (RowKind.INSTANCE, RowKind.LINKED)]
    return found


def _is_carried(row: Row, link: Link) -> bool:
    group, name = row["service"].split("@@", 1)
    chosen = (row["namespace"], link.namespaces), (group, link.groups), (name, link.services)
    return row["layer"] != "datum" and all(_fits(text, patterns) for text, patterns in chosen)


def _fits(text: str, patterns: list[str]) -> bool:
    taken = [one for one in patterns if not one.startswith("!")]
    return (not taken or any(fnmatchcase(text, one) for one in taken)) and not any(
        fnmatchcase(text, one[1:]) for one in patterns if one.startswith("!")
    )


def _key(row: Row, link: Link | None = None) -> Key:
    names = link.namespace_map if link is not None else {}
    return names.get(row["namespace"], row["namespace"]), *[row[name] for name in KEY[1:]]


def _value(row: Row) -> list[Any]:
    return [row.get(name) or {} if name == "metadata" else row[name] for name in VALUES]
