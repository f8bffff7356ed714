"""The nightly check's rules in plain Python, all in memory: slow, short, and written apart from the check itself."""

import gzip
import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from app.tools.audit.format.layout import Night
from app.tools.audit.format.manifest import DumpState, MemberDump

STALE_SLACK_MS = 5_000
VALUES = {"HEALTH": "healthy", "WEIGHT": "weight", "METADATA": "metadata", "ENABLED": "enabled"}
NEEDED = {
    "instance": ("namespace", "service", "cluster", "ip", "port", "ephemeral", "healthy", "enabled", "weight"),
    "service": ("namespace", "service"),
    "record": ("namespace", "service", "name", "value"),
    "client": ("namespace", "service", "name"),
}
SETTINGS = ("protect_threshold", "selector", "clusters", "metadata")

Finding = tuple[str, bool, str, str, str, str, int | None, bool | None, str, tuple[str, ...]]
"""As a line of what was planted: class, lasting, namespace, service, cluster, ip, port, ephemeral, name, members."""
Key = tuple[Any, ...]
Rows = dict[str, list[dict[str, Any]]]


def check(night: Night) -> Counter[Finding]:
    """All findings of a night of a dump in a folder."""
    found: list[Finding] = []
    rounds: list[Rows] = []
    damaged = set()
    for one in night.rounds:
        rows: Rows = {}
        for member in one.manifest.members:
            rows[member.address] = []
            for row in _rows(Path(one.folder), member):
                if isinstance(row, dict):
                    rows[member.address].append(row)
                else:
                    found.append(("CORRUPT", True, "", "", "", "", None, None, "", (member.address,)))
                    if row == "file":
                        damaged.add(member.address)
        rounds.append(rows)
    listed = {one.address: one for one in night.rounds[-1].manifest.members}
    for member in listed.values():
        if member.state is DumpState.ABSENT:
            found.append(("ABSENT_MEMBER", True, "", "", "", "", None, None, "", (member.address,)))
    dumped = sorted(one.address for one in listed.values() if one.state is DumpState.DUMPED)
    for pair in itertools.combinations(dumped, 2):
        if len({frozenset((one.address, one.state) for one in listed[address].members) for address in pair}) > 1:
            found.append(("MEMBERSHIP", True, "", "", "", "", None, None, "", pair))
    compared = [address for address in dumped if address not in damaged]
    first, second = ({address: rows[address] for address in compared} for rows in rounds)
    names = set(listed) | {seen.address for member in listed.values() for seen in member.members}
    found += [
        ("CORRUPT", True, "", "", "", "", None, None, "", (address,)) for address, _ in _without_row(first, second)
    ]
    return Counter(found) + Counter(_judged(_differences(first, names), _differences(second, names)))


def _without_row(*rounds: Rows) -> set[tuple[str, Key]]:
    """Each member with a service of which it has instances, and no row of its own."""
    held: dict[str, set[tuple[str, Key]]] = {"instance": set(), "service": set()}
    for number, rows in enumerate(rounds):
        for address, stored in rows.items():
            for row in stored:
                if row["kind"] in held:
                    held[row["kind"]].add((address, (number, row["namespace"], row["service"])))
    return {(address, key[1:]) for address, key in held["instance"] - held["service"]}


def planted(path: Path) -> Counter[Finding]:
    """What was planted, from its file."""
    lines = (orjson.loads(line) for line in path.read_bytes().splitlines())
    return Counter(
        (*[value for name, value in line.items() if name != "members"], tuple(line["members"])) for line in lines
    )


def _rows(folder: Path, member: MemberDump) -> Iterator[dict[str, Any] | str]:
    """The rows of a member; ``row`` once for a file with a bad one, ``file`` for one that is not what it should be."""
    for part in member.parts:
        body = (folder / part.path).read_bytes()
        if hashlib.sha256(body).hexdigest() != part.sha256:
            yield "file"
            continue
        lines = gzip.decompress(body).splitlines()
        rows = [row for row in map(_row, lines) if row is not None]
        assert len(lines) == part.rows
        yield from rows
        if len(rows) < len(lines):
            yield "row"


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and all(name in row for name in NEEDED[row["kind"]]) else None


def _judged(first: dict[Key, Any], second: dict[Key, Any]) -> Iterator[Finding]:
    for key in first.keys() | second.keys():
        lasting = key in first and key in second and first[key] == second[key]
        finding_class, *about, members = key
        if finding_class not in ("STALE", "BEHIND") or (key in first and key in second):
            yield (finding_class, lasting, *about, members)  # type: ignore[misc]


def _differences(rows: Rows, listed: Iterable[str]) -> dict[Key, Any]:
    """What is wrong in one round, with what must be the same in the other one for it to last.

    ``listed``: the members that any member lists, and those of the dump.
    """
    services: dict[Key, dict[str, Any]] = defaultdict(dict)
    instances: dict[Key, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for address, stored in rows.items():
        for row in stored:
            service = (row["namespace"], row["service"])
            if row["kind"] == "service":
                services[service][address] = row.get("owner")
            elif row["kind"] == "instance":
                instances[(*service, row["cluster"], row["ip"], row["port"], row["ephemeral"])][address].append(row)
    found: dict[Key, Any] = {}
    known = set(rows) | set(listed)
    for key, owners in services.items():
        claimers = tuple(sorted(address for address, owner in owners.items() if address == owner))
        named = {owner for owner in owners.values() if owner is not None}
        if len(claimers) > 1 or (not claimers and named and (named <= owners.keys() or not named <= known)):
            found["OWNER", *key, "", "", None, None, "", claimers or tuple(sorted(owners))] = None
        elif len(claimers) == 1 and (wrong := [one for one, owner in owners.items() if owner not in (None, *claimers)]):
            found["OWNER", *key, "", "", None, None, "", tuple(sorted(wrong))] = None
    for key, address in _lone(rows, services, {one[:2] for one in instances}):
        found["SERVICE", *key, "", "", None, None, "", (address,)] = None
    for key, by_member in instances.items():
        found |= {(name, *key, "", (address,)): value for name, address, value in _of_instance(rows, by_member)}
    return found | _doubles(instances) | _of_settings(rows)


def _of_settings(rows: Rows) -> dict[Key, Any]:
    """Settings of services, records and clients: members unlike most, or unlike a client's own member."""
    stored: dict[Key, dict[str, dict[str, Any]]] = defaultdict(dict)
    for address, all_rows in rows.items():
        for row in all_rows:
            if row["kind"] != "instance":
                stored[row["kind"], row["namespace"], row["service"], row.get("name", "")][address] = row
    found: dict[Key, Any] = {}
    for (kind, namespace, service, name), by_member in stored.items():
        finding_class = {"service": "SETTINGS", "record": "RECORD", "client": "CLIENT"}[kind]
        compared = {"service": SETTINGS, "record": ("value",), "client": ("revision", "owner")}[kind]
        values = {
            address: orjson.dumps([row.get(one) for one in compared], option=orjson.OPT_SORT_KEYS)
            for address, row in by_member.items()
        }
        votes = Counter(values.values())
        most = [value for value in votes if votes[value] == max(votes.values())]
        versions = {one: row.get("settings_version") or row.get("version") for one, row in by_member.items()}
        newest = sorted(values, key=lambda one: (_order(versions[one] or "0.0"), -sorted(rows).index(one)))
        right = next(values[one] for one in reversed(newest) if values[one] in most)
        owner = next((row.get("owner") for row in by_member.values()), None) if kind == "client" else None
        lacking = rows.keys() - by_member.keys()
        if owner in values:
            right = values[owner]
        wanted = owner not in lacking if owner in rows else len(by_member) * 2 >= len(rows)
        departing = {address for address, value in values.items() if value != right}
        if kind != "service":
            departing = departing | lacking if wanted else set(by_member)
        for address in departing:
            about = (namespace, service, "", "", None, None, name)
            found[finding_class, *about, (address,)] = values.get(address)
    return found


def _lone(rows: Rows, services: dict[Key, dict[str, Any]], with_instances: set[Key]) -> Iterator[tuple[Key, str]]:
    """Services without instances that only some members have: those that lack them, or have one that most lack."""
    for key in services.keys() - with_instances:
        has, lacks = services[key].keys(), rows.keys() - services[key].keys()
        if lacks:
            yield from ((key, address) for address in (lacks if len(has) * 2 >= len(rows) else has))


def _order(version: str) -> tuple[int, int, str]:
    epoch, counter, *writer = version.split(".", 2)
    return int(epoch), int(counter), "".join(writer)


def _value(row: dict[str, Any], field: str) -> Any:
    return (row.get(field) or {}) if field == "metadata" else row[field]


def _of_instance(rows: Rows, by_member: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, str, Any]]:
    seen = {address: [row for row in stored if row["layer"] != "datum"] for address, stored in by_member.items()}
    seen = {address: stored for address, stored in seen.items() if stored}
    owners = {row.get("owner") for stored in by_member.values() for row in stored} & rows.keys()
    owner = owners.pop() if len(owners) == 1 else None
    is_lost = len(seen) > 1 and len(seen) * 2 > len(rows)
    wanted = owner in seen or is_lost if owner else len(seen) * 2 >= len(rows)
    versions = {address: stored[0].get("version") for address, stored in seen.items()}
    versions = {address: text for address, text in versions.items() if text}
    version = next((stored[0].get("version") for address, stored in seen.items() if address == owner), None)
    for address in rows.keys() - seen.keys() if wanted else ():
        yield "MISSING", address, version
    for address in seen if not wanted else ():
        yield "EXTRA", address, seen[address][0].get("version")
    silent: set[str] = set()
    alike: set[str] = set(seen)
    newest = max(versions, key=lambda address: _order(versions[address]), default="")
    for name, field in VALUES.items():
        values = {
            address: orjson.dumps(_value(stored[0], field), option=orjson.OPT_SORT_KEYS)
            for address, stored in seen.items()
        }
        expected = values.get(owner or "") or Counter(values.values()).most_common(1)[0][0] if values else b""
        reference = owner if owner in seen else next((one for one, value in values.items() if value == expected), "")
        alike &= {address for address, value in values.items() if value == values.get(newest)}
        for address, value in values.items():
            if value != expected and address in versions and versions[address] == versions.get(reference or ""):
                silent.add(address)
            elif value != expected:
                yield name, address, (value, expected, seen[address][0].get("version"), version)
    for address in silent:
        yield "SILENT_CORRUPTION", address, versions[address]
    for address in alike & versions.keys():
        if versions[address] != versions[newest]:
            yield "BEHIND", address, versions[address]
    for address, stored in by_member.items():
        layers = {row["layer"]: (row["enabled"], row["weight"], _value(row, "metadata")) for row in stored}
        if layers.keys() != {"both"} and layers.get("datum") != layers.get("view"):
            yield "DRIFT", address, None
        for row in stored:
            if (
                address == row.get("owner")
                and row.get("silent_ms", row.get("beat_age_ms", 0)) > row.get("delete_timeout_ms", 0) + STALE_SLACK_MS
            ):
                yield "STALE", address, None
        if len(seen.get(address, ())) > 1:
            yield "DUPLICATE", address, None


def _doubles(instances: Iterable[Key]) -> dict[Key, Any]:
    """One address in services of one name; the members that hold it, in ``instances``, are told of the later one."""
    assert isinstance(instances, dict)
    by_address: dict[Key, list[Key]] = defaultdict(list)
    for key in instances:
        namespace, service, cluster, ip, port, _ = key
        by_address[namespace, service.partition("@@")[2], cluster, ip, port].append(key)
    found: dict[Key, Any] = {}
    for keys in by_address.values():
        for earlier, later in itertools.pairwise(sorted(keys)):
            if earlier[1] != later[1]:
                both = tuple(sorted(instances[earlier].keys() & instances[later].keys()))
                found["DUPLICATE", *later, "", both] = None
    return found
