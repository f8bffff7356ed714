"""Reports of members about themselves: the JSON for real Nacos since 2.0, and the parser of any member's report."""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from app.config.addresses import split_address
from app.config.version import NACOS_2_VERSION
from distro.model.errors import CodecError
from distro.model.types import (
    CAPABILITY_CLIENTS_ONLY,
    SINCE_WIRE_VERSION,
    WRITER_CHARS_MAX,
    HeardOf,
    MemberState,
    PeerReport,
    Version,
)
from distro.wire.codec import decode_versions

OWN_FIELD = "rollcall"
"""The key of Rollcall's fields, in a report's ``extendInfo``, which real Nacos keeps and ignores, and in answers."""
RAFT_PORT_OFFSET = 1_000
CLOCK_MS_MAX = 1 << 53
DELAY_MS_MAX = 30_000
"""The longest rejoin delay that a report can state, or impose."""
MEMBERS_MAX = 1_000
"""The most members in one report. Further ones are ignored."""
BEATS_MAX = 10_000
"""The most services with beats in one report, and the most instances of one. Further ones are ignored."""
FIRST_WITH_CLIENTS = (2, 0)
"""The first release of Nacos whose members exchange clients instead of instance lists."""
FIRST_THAT_NOTES_REVISIONS = (2, 3)
_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")


DRAINED, LEFT = "drained", "left"
"""The planned absences of a member: it hands over and runs on, or it ended after it told the others."""


def planned_absence(info: Mapping[str, Any], state: MemberState) -> str:
    """Return why the member with this ``extendInfo`` is out by plan, ``DRAINED`` or ``LEFT``; empty if it is not."""
    own = info.get(OWN_FIELD)
    if not isinstance(own, dict):
        return ""
    if own.get("leaving") is True and state is MemberState.DOWN:
        return LEFT
    return DRAINED if own.get("draining") is True else ""


def nacos_2_member(self_address: str, state: MemberState, wall_ms: int) -> dict[str, Any]:
    """Return this member in the JSON of real Nacos since 2.0. Source: Nacos 2.2.3 Member.

    All fields are always there, with constant values: any other value would count as a change at each report.
    """
    host, port = split_address(self_address)
    return {
        "ip": host,
        "port": port,
        "address": self_address,
        "state": state.value,
        "extendInfo": {
            "lastRefreshTime": wall_ms,
            "raftPort": str(port - RAFT_PORT_OFFSET),
            "readyToUpgrade": True,
            "version": NACOS_2_VERSION,
        },
        "abilities": {
            "remoteAbility": {"supportRemoteConnection": True, "grpcReportEnabled": True},
            "configAbility": {"supportRemoteMetrics": False},
            "namingAbility": {"supportJraft": True},
        },
        "failAccessCnt": 0,
        "grpcReportEnabled": True,
    }


def parse_report(body: Mapping[str, Any]) -> PeerReport | None:
    """Return the report in a member's JSON, None if it names no member.

    Other fields of a wrong type count as absent.
    """
    ip, port, info = body.get("ip"), body.get("port"), body.get("extendInfo")
    if not isinstance(ip, str) or not ip.strip() or isinstance(port, bool) or not isinstance(port, int) or port <= 0:
        return None
    address = body.get("address")
    try:
        state = MemberState(body.get("state", "UP"))
    except ValueError:
        state = MemberState.UP
    info = info if isinstance(info, dict) else {}
    own = info.get(OWN_FIELD)
    own = own if isinstance(own, dict) else {}
    view = own.get("view")
    return PeerReport(
        address if isinstance(address, str) and address else f"{ip}:{port}",
        state,
        _capabilities(own, info),
        info,
        tuple(one for one in view if isinstance(one, str)) if isinstance(view, list) else (),
        _bounded_ms(own.get("holdMs")),
        _bounded_ms(own.get("toldHoldMs")),
        _writer(own.get("writer")),
        _clock_ms(own.get("clockMs")),
        _calls(own.get("calls")),
        _heard(own.get("heard")),
        own.get("served") is True,
        _waiting(own.get("waiting")),
        _beats(own.get("beats")),
        _clock_ms(own.get("beatsWaitMs")),
        _clock_ms(own.get("beatsRefusedMs")),
        own.get("draining") is True,
    )


def _capabilities(own: Mapping[str, Any], info: Mapping[str, Any]) -> frozenset[str]:
    if not own:
        return frozenset({CAPABILITY_CLIENTS_ONLY} if is_nacos_2(info.get("version")) else ())
    named, wire = own.get("capabilities"), own.get("wire")
    found = {one for one in named if isinstance(one, str)} if isinstance(named, list) else set()
    if type(wire) is int:
        found.update(*(names for since, names in SINCE_WIRE_VERSION.items() if since <= wire))
    return frozenset(found)


def wire_version_of(info: Mapping[str, Any]) -> int | None:
    """Return the wire version in the ``extendInfo`` of a Rollcall member; None if it names none."""
    own = info.get(OWN_FIELD)
    wire = own.get("wire") if isinstance(own, dict) else None
    return wire if type(wire) is int else None


def is_nacos_2(version: object) -> bool:
    """Return whether members of the reported release exchange clients."""
    return release_of(version) >= FIRST_WITH_CLIENTS


def notes_revisions(version: object) -> bool:
    """Return whether a member of that release stores the revision of a client with every change that it receives.

    A member that does not fails nearly all verify rounds. Source: Nacos 2.2.3 DistroClientDataProcessor.
    """
    return release_of(version) >= FIRST_THAT_NOTES_REVISIONS


def release_of(version: object) -> tuple[int, int]:
    """Return the major and minor number of a release's name; zeros for a text that names none."""
    match = _RELEASE.match(version) if isinstance(version, str) else None
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _writer(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= WRITER_CHARS_MAX else ""


def _calls(value: object) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    return {name: age for name, age in islice(value.items(), MEMBERS_MAX) if _clock_ms(age) is not None}


def _heard(value: object) -> dict[str, HeardOf]:
    if not isinstance(value, dict):
        return {}
    heard = {}
    for address, fields in islice(value.items(), MEMBERS_MAX):
        calls = _calls(fields.get("calls")) if isinstance(fields, dict) else None
        age_ms = _clock_ms(fields.get("age")) if calls is not None else None
        if calls is not None and age_ms is not None:
            heard[address] = HeardOf(age_ms, calls)
    return heard


def _waiting(value: object) -> dict[str, dict[str, Version]]:
    if not isinstance(value, dict):
        return {}
    try:
        return {name: decode_versions(keys) for name, keys in islice(value.items(), MEMBERS_MAX)}
    except CodecError:
        return {}


def _beats(value: object) -> dict[str, dict[str, int]]:
    if not isinstance(value, dict):
        return {}
    return {
        key: {name: age for name, age in islice(ages.items(), BEATS_MAX) if _clock_ms(age) is not None}
        for key, ages in islice(value.items(), BEATS_MAX)
        if isinstance(ages, dict)
    }


def _clock_ms(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= CLOCK_MS_MAX else None


def _bounded_ms(value: object) -> int:
    return min(max(value, 0), DELAY_MS_MAX) if isinstance(value, int) and not isinstance(value, bool) else 0
