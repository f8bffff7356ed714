"""What a member's report says of it."""

import pytest

from app.members.reports import OWN_FIELD, is_nacos_2, nacos_2_member, notes_revisions, parse_report
from distro.model.types import (
    CAPABILITY_CLAIMS,
    CAPABILITY_CLIENTS_ONLY,
    CAPABILITY_DELTAS,
    CAPABILITY_DIGESTS,
    CAPABILITY_HTTP_V3,
    CAPABILITY_LINKS,
    CAPABILITY_OVERRIDES,
    CAPABILITY_VERSIONS,
    CAPABILITY_WRITE_BATCHES,
    WIRE_VERSION,
    MemberState,
)


@pytest.mark.parametrize(
    ("version", "clients", "revisions"),
    [
        ("1.4.8", False, False),
        ("2.0.0", True, False),
        ("2.2.4", True, False),
        ("2.3.1", True, True),
        ("3.0.3-BETA", True, True),
        ("10.1", True, True),
        ("", False, False),
        ("two", False, False),
        ("٢.٣", False, False),
        (None, False, False),
        (2.3, False, False),
    ],
)
def test_the_release_decides_what_a_member_is_told(version: object, clients: bool, revisions: bool) -> None:
    assert (is_nacos_2(version), notes_revisions(version)) == (clients, revisions)


def report(**info: object) -> frozenset[str]:
    parsed = parse_report({"ip": "10.0.0.1", "port": 8848, "extendInfo": info})
    assert parsed is not None
    return parsed.capabilities


def test_kinds_of_members() -> None:
    own = {OWN_FIELD: {"capabilities": [CAPABILITY_VERSIONS]}}
    assert report(version="1.4.8", **own) == {CAPABILITY_VERSIONS}
    assert report(version="2.3.1") == {CAPABILITY_CLIENTS_ONLY}
    assert report(version="1.4.1") == frozenset()
    assert report(version="2.3.1", **own) == {CAPABILITY_VERSIONS}, "what it says of itself counts"


@pytest.mark.parametrize("wire", [None, 1, "2", True, 2.0])
def test_a_member_of_an_earlier_wire_version_gets_no_deltas(wire: object) -> None:
    own = {OWN_FIELD: {"capabilities": [CAPABILITY_VERSIONS], "wire": wire}}
    assert report(**own) == {CAPABILITY_VERSIONS}


@pytest.mark.parametrize("wire", [WIRE_VERSION, WIRE_VERSION + 1])
def test_a_member_of_this_wire_version_or_a_later_one_gets_deltas(wire: int) -> None:
    own = {OWN_FIELD: {"capabilities": [CAPABILITY_VERSIONS], "wire": wire}}
    since = {
        CAPABILITY_DELTAS,
        CAPABILITY_DIGESTS,
        CAPABILITY_CLAIMS,
        CAPABILITY_WRITE_BATCHES,
        CAPABILITY_OVERRIDES,
        CAPABILITY_HTTP_V3,
        CAPABILITY_LINKS,
    }
    assert report(**own) == {CAPABILITY_VERSIONS, *since}


def test_this_member_as_nacos_2_sees_it_reads_back() -> None:
    shown = nacos_2_member("10.0.0.2:8848", MemberState.UP, 5)
    parsed = parse_report(shown)
    assert parsed is not None
    assert (parsed.address, parsed.state) == ("10.0.0.2:8848", MemberState.UP)
    first, later = (nacos_2_member("10.0.0.2:8848", MemberState.UP, ms) for ms in (5, 6))
    for one in (first, later):
        del one["extendInfo"]["lastRefreshTime"]
    assert first == later, "any other difference would count as a change at each report"


def test_beats_that_could_not_be_sent_are_read_as_far_as_they_are_sound() -> None:
    own = {"beats": {"key": {"one": 5, "two": -1, "three": "4", "four": True}, "other": [1], "empty": {}}}
    parsed = parse_report({"ip": "10.0.0.1", "port": 8848, "extendInfo": {OWN_FIELD: own}})
    assert parsed is not None
    assert parsed.beats == {"key": {"one": 5}, "empty": {}}
    assert parsed.beats_wait_ms is None, "an earlier release"
    own = {"beatsWaitMs": 7}
    parsed = parse_report({"ip": "10.0.0.1", "port": 8848, "extendInfo": {OWN_FIELD: own}})
    assert parsed is not None
    assert parsed.beats_wait_ms == 7
    for wrong in (None, [], "x", 5):
        parsed = parse_report({"ip": "10.0.0.1", "port": 8848, "extendInfo": {OWN_FIELD: {"beats": wrong}}})
        assert parsed is not None
        assert parsed.beats == {}
