"""What is right, by what members hold."""

from dataclasses import replace
from typing import Any

import pytest

from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.manifest import Seen
from app.tools.audit.heal.decide import (
    DURABLE,
    EMPTY,
    OF_CLIENT,
    OWNERS_LIST,
    OWNERS_STATE,
    RESTORED,
    UNKNOWN_LIST,
    Decision,
    decide,
    lasting,
)
from app.tools.audit.heal.reading import ClientHeld, Held, InstanceKey, Row

A, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ONE: InstanceKey = ("DEFAULT", "10.1.0.1", 80, True)
TWO: InstanceKey = ("DEFAULT", "10.1.0.2", 80, True)
DURABLE_ONE: InstanceKey = ("DEFAULT", "10.1.0.1", 80, False)
VERSION = f"2.7.{A}~1"
OLDER = f"2.6.{A}~1"


def row(**changes: Any) -> Row:
    usual = Row(True, True, 1.0, {}, VERSION, A, "http")
    return replace(usual, **changes)


def held(address: str, instances: dict[InstanceKey, Row] | None = None, **changes: Any) -> Held:
    usual = Held(address, True, VERSION, A, {ONE: row()} if instances is None else instances)
    return replace(usual, **changes)


def told(decision: Decision) -> list[tuple[str, str, str]]:
    return [(one.finding_class.value, one.member, one.rule) for one in decision.departures]


def test_members_that_hold_the_same_agree() -> None:
    decision = decide([held(A), held(B), held(C)])
    assert decision == Decision(A)


def test_a_copy_without_an_instance_of_its_owner_lacks_it() -> None:
    decision = decide([held(A), held(B, {}), held(C)])
    assert told(decision) == [("MISSING", B, OWNERS_STATE)]
    [one] = decision.departures
    assert (one.found, one.expected, one.expected_version) == ("absent", "healthy weight 1.0", VERSION)
    assert decision.source == ""


def test_what_a_minority_has_and_its_owner_has_not_goes() -> None:
    decision = decide([held(A), held(B, {ONE: row(), TWO: row()}), held(C)])
    assert told(decision) == [("EXTRA", B, OWNERS_LIST)]
    assert decision.source == ""


def test_of_two_members_the_owners_word_counts() -> None:
    assert told(decide([held(A, {}), held(B)])) == [("EXTRA", B, OWNERS_LIST)]


def test_what_most_have_comes_back_to_its_owner_from_the_one_with_the_least_beside_it() -> None:
    three: InstanceKey = ("DEFAULT", "10.1.0.3", 80, True)
    decision = decide([held(A, {}), held(B, {ONE: row(), three: row()}), held(C)])
    assert told(decision) == [("MISSING", A, RESTORED), ("EXTRA", B, OWNERS_LIST)]
    assert decision.source == C


def test_an_owner_that_knows_nothing_of_the_service_takes_what_there_is() -> None:
    decision = decide([held(A, {}, is_known=False, version=None, owner=None), held(B), held(C, {})])
    assert told(decision) == [("MISSING", A, UNKNOWN_LIST), ("MISSING", C, UNKNOWN_LIST)]


@pytest.mark.parametrize(
    ("changes", "finding_class"),
    [
        ({"healthy": False}, FindingClass.HEALTH),
        ({"enabled": False}, FindingClass.ENABLED),
        ({"weight": 2.0}, FindingClass.WEIGHT),
        ({"metadata": {"a": "b"}}, FindingClass.METADATA),
        ({}, FindingClass.BEHIND),
    ],
)
def test_values_that_are_not_the_owners(changes: dict[str, Any], finding_class: FindingClass) -> None:
    departing = held(B, {ONE: row(version=OLDER, **changes)})
    assert told(decide([held(A), departing, held(C)])) == [(finding_class.value, B, OWNERS_STATE)]
    if changes:
        same_version = held(B, {ONE: row(**changes)})
        decision = decide([held(A), same_version, held(C)])
        assert told(decision) == [("SILENT_CORRUPTION", B, OWNERS_STATE)]
    owner_departs = decide([held(A, {ONE: row(version=OLDER, **changes)}), held(B), held(C)])
    assert {one.member for one in owner_departs.departures} == {B, C}, "the owner's word counts, not the majority"


def test_a_list_of_another_version_is_behind_where_nothing_else_differs() -> None:
    decision = decide([held(A), held(B, version=OLDER), held(C)])
    assert told(decision) == [("BEHIND", B, OWNERS_STATE)]
    decision = decide([held(A), held(B, {}, version=OLDER), held(C)])
    assert told(decision) == [("MISSING", B, OWNERS_STATE)]


def test_a_durable_instance_comes_back_to_its_owner_whoever_has_it() -> None:
    decision = decide([held(A, {}), held(B, {DURABLE_ONE: row(client="durable")}), held(C, {})])
    assert told(decision) == [("MISSING", A, DURABLE), ("MISSING", C, DURABLE)]
    assert (decision.source, decision.instances) == ("", ("10.1.0.1:80:unknown:DEFAULT",))


def test_of_durable_instances_their_own_owner_counts() -> None:
    rows = {one: {DURABLE_ONE: row(client="durable", owner=B, weight=weight)} for one, weight in ((A, 1.0), (B, 2.0))}
    decision = decide([held(one, rows[one]) for one in (A, B)])
    assert told(decision) == [("SILENT_CORRUPTION", A, OWNERS_STATE)]


def test_instances_of_clients_with_connections_go_by_most_members() -> None:
    one = row(version=None, owner=None, client="grpc")
    decision = decide([held(A, {}), held(B, {ONE: one}), held(C, {ONE: replace(one, weight=9.0)})])
    assert told(decision) == [("MISSING", A, OF_CLIENT), ("WEIGHT", C, OF_CLIENT)]
    decision = decide([held(A, {}), held(B, {}), held(C, {ONE: one})])
    assert told(decision) == [("EXTRA", C, OF_CLIENT)]


def test_a_service_without_instances_that_some_have() -> None:
    empty = {"instances": {}, "is_known": True}
    decision = decide([held(A, **empty), held(B, **empty), held(C, {}, is_known=False, version=None, owner=None)])
    assert told(decision) == [("SERVICE", C, EMPTY)]
    decision = decide([held(A, {}, is_known=False, version=None, owner=None), held(B, **empty), held(C, **empty)])
    assert told(decision) == [("SERVICE", A, UNKNOWN_LIST)]


def test_settings_that_are_not_the_owners() -> None:
    ours, theirs = {"metadata": {"a": "1"}, "clusters": "{}"}, {"metadata": {"a": "2"}}
    decision = decide([held(A, settings=ours), held(B, settings=theirs), held(C, settings={})])
    [one] = decision.departures
    assert (one.finding_class, one.member, one.what) == (FindingClass.SETTINGS, B, "metadata")
    assert (one.found, one.expected) == ('{"a":"2"}', '{"a":"1"}')


def test_members_that_name_different_owners_exchange_nothing() -> None:
    decision = decide([held(A), held(B, owner=B), held(C)])
    assert decision.owner is None
    assert [one.finding_class for one in decision.departures] == [FindingClass.OWNER] * 3
    assert f"different owners ({A}, {B})" in decision.blocked
    assert "cluster.conf" in decision.blocked


def test_without_its_owner_nothing_is_exchanged() -> None:
    decision = decide([held(B), held(C, {})])
    assert f"the owner, {A}, is not among the members that answered" in decision.blocked
    assert decision.departures == ()


def test_what_no_exchange_heals_is_told_with_what_does() -> None:
    stale = row(beat_age_ms=40_000, delete_timeout_ms=30_000)
    lists = (Seen(A, "UP"), Seen(B, "DOWN"))
    decision = decide(
        [held(A, {ONE: stale, DURABLE_ONE: row()}, members=lists), held(B, {ONE: row(), DURABLE_ONE: row()})]
    )
    assert [note.partition(":")[0] for note in decision.notes] == ["MEMBERSHIP", "STALE", "DUPLICATE", "DUPLICATE"]
    assert decision.departures == ()
    fresh = decide([held(A, {ONE: replace(stale, beat_age_ms=34_000)}), held(B)])
    assert fresh.notes == ()


def test_what_lasts_is_the_same_in_versions_and_values() -> None:
    first = decide([held(A), held(B, {}), held(C, {ONE: row(weight=2.0)})]).departures
    again = decide([held(A), held(B, {}), held(C, {ONE: row(weight=3.0)})]).departures
    assert [one.member for one in lasting(first, again)] == [B]
    assert lasting(first, first) == first


def test_a_client_has_the_revision_of_the_member_that_it_is_connected_to() -> None:
    """Its owner in the eyes of a copy is the member; a copy of an unknown client is left to its expiry."""

    def clients(revision: int, **more: ClientHeld) -> dict[str, ClientHeld]:
        return {"c1": ClientHeld(revision, B), **more}

    ghost = {"gone": ClientHeld(1, B)}
    decision = decide([held(A, clients=clients(3)), held(B, clients=clients(2)), held(C, clients=clients(2, **ghost))])
    assert told(decision) == [("CLIENT", A, OF_CLIENT)]
    [one] = decision.departures
    assert (one.what, one.found, one.expected) == ("c1", "revision 3", "revision 2")
    assert decide([held(A, clients=clients(2)), held(B, clients=clients(2)), held(C)]).departures == ()
