"""The instances that a link registers at a Nacos, and those that it takes for registered there."""

from typing import Any

import pytest

from app.config.link_settings import LinkSettings, LinkSource
from app.links import feed
from app.links.feed_lines import FollowedPart
from app.links.nacos_out import HANDOVER_MS, RETRY_MS, LocalRegistrations
from app.links.nacos_values import Address, ServiceName, read_list, sent_rows
from app.naming.model.foreign import ORIGIN
from app.naming.model.model import Instance
from distro.model.errors import CodecError
from tests.unit.links.test_follower import Side

NAME = "G@@orders"
THERE = ("public", NAME)
ADDRESS: Address = ("10.0.0.1", 80, "DEFAULT")


def settings_of(**more: str) -> LinkSettings:
    texts = {"servers": "127.0.0.1:1", "kind": "nacos", "direction": "both"} | more
    [settings] = LinkSource(
        (({f"rollcall.link.n.{name}": text for name, text in texts.items()}, "test"),), cluster_id="here"
    ).read()
    return settings


def host(ip: str, **more: Any) -> dict[str, Any]:
    return {"ip": ip, "port": 80, "weight": 1.0, "healthy": True, "enabled": True, "ephemeral": True} | more


class WayOut:
    """A cluster of one node, and what its link would have registered."""

    def __init__(self, **more: str) -> None:
        self.now = [1_000_000]
        self.side = Side("here", "here:1~1", self.now)
        self.outgoing = LocalRegistrations(settings_of(**more), self.side.feed, lambda: "here")
        self.there: dict[ServiceName, set[str]] = {}
        self.side.feed.attach(lambda: None)
        self.outgoing.begin()
        self.carry((0, 1))

    def carry(self, *parts: tuple[int, int]) -> None:
        self.outgoing.carry(tuple(FollowedPart(*one) for one in parts), self.now[0])

    def send(self) -> dict[ServiceName, set[str]]:
        """Register what is due. Return what was registered by it."""
        done = {}
        for name in self.outgoing.due(self.now[0], 100):
            if (rows := self.outgoing.rows(name)) is not None:
                self.outgoing.registered(name, rows)
                done[name] = self.there[name] = {ip for ip, _, _ in rows}
        return done


def test_what_a_link_registers_has_its_origin_and_nothing_of_another_link() -> None:
    local = [
        Instance("10.0.0.1", 80, metadata={"zone": "a", "rollcall.link": "x", "nothing": None}, healthy=False),
        Instance("10.0.0.2", 80, metadata={ORIGIN: "dc-c"}),
        Instance("10.0.0.3", 80),
    ]
    rows = sent_rows(local, "here", frozenset({("10.0.0.3", 80, "DEFAULT")}))
    assert list(rows) == [ADDRESS]
    assert (rows[ADDRESS]["metadata"], rows[ADDRESS]["healthy"]) == ({"zone": "a", ORIGIN: "here"}, False)


def test_a_link_that_leads_back_here_is_noticed() -> None:
    """L1."""
    with pytest.raises(CodecError, match="remove the link"):
        sent_rows([Instance("10.0.0.1", 80, metadata={ORIGIN: "here"})], "here", frozenset())


def test_a_list_has_what_was_registered_at_the_nacos_itself() -> None:
    """L1."""
    own, labelled = (
        host("10.0.0.1", weight=2.0, healthy=False, instanceId="10.0.0.1#80#null#G@@a"),
        host("10.0.0.2", metadata={ORIGIN: "here"}),
    )
    found = read_list([own, labelled, host("10.0.0.3", instanceId="one")])
    assert found.rows == [
        {"ip": "10.0.0.1", "port": 80, "clusterName": "DEFAULT", "weight": 2.0, "healthy": False},
        {"ip": "10.0.0.3", "port": 80, "clusterName": "DEFAULT", "instanceId": "one"},
    ]
    assert found.addresses == {ADDRESS, ("10.0.0.3", 80, "DEFAULT")}
    assert read_list([labelled]) == ([], 0, frozenset())
    assert found.digest == read_list([host("10.0.0.3", instanceId="one"), own]).digest


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        (None, "hosts"),
        ({}, "hosts"),
        (["x"], "hosts"),
        ([{"port": 80}], "ip"),
        ([{"ip": "10.0.0.1", "port": "80"}], "port"),
        ([host("10.0.0.1", metadata=[1])], "metadata"),
        ([{}] * 100_001, "100001 elements"),
    ],
)
def test_a_wrong_list_names_the_field(hosts: object, why: str) -> None:
    with pytest.raises(CodecError, match=why):
        read_list(hosts)


def test_each_change_of_a_local_service_is_registered_once() -> None:
    one = WayOut()
    one.side.put(NAME, "10.0.0.1", "10.0.0.2")
    assert one.send() == {THERE: {"10.0.0.1", "10.0.0.2"}}
    assert one.send() == {}
    assert (one.outgoing.services, one.outgoing.instances) == (1, 2)
    one.side.put(NAME, "10.0.0.2")
    assert one.send() == {THERE: {"10.0.0.2"}}
    one.side.put(NAME)
    assert one.send() == {THERE: set()}
    assert (one.outgoing.services, one.outgoing.instances) == (0, 0)


def test_only_chosen_services_leave_under_the_names_of_the_other_side() -> None:
    one = WayOut(services="*,!secret*", namespaceMap="prod:public")
    one.side.put(NAME, "10.0.0.1")
    one.side.put("G@@secret-1", "10.0.0.1")
    assert one.send() == {("prod", NAME): {"10.0.0.1"}}


def test_an_address_that_the_nacos_has_itself_is_not_registered_again() -> None:
    """L1."""
    one = WayOut()
    one.side.put(NAME, "10.0.0.1", "10.0.0.2")
    one.send()
    one.outgoing.taken(THERE, frozenset({ADDRESS}))
    assert one.send() == {THERE: {"10.0.0.2"}}
    one.outgoing.taken(THERE, frozenset())
    assert one.send() == {THERE: {"10.0.0.1", "10.0.0.2"}}


def test_a_member_carries_what_others_took_over_until_they_registered_it() -> None:
    """L9."""
    one = WayOut()
    one.side.put(NAME, "10.0.0.1")
    one.send()
    part = next(number for number in (0, 1) if not FollowedPart(number, 2).has(NAME))
    one.carry((part, 2))
    assert one.send() == {}
    one.side.put(NAME, "10.0.0.9")
    assert one.send() == {THERE: {"10.0.0.9"}}
    one.now[0] += HANDOVER_MS
    assert one.send() == {THERE: set()}
    one.carry((0, 2), (1, 2))
    assert one.send() == {THERE: {"10.0.0.9"}}


def test_a_service_that_comes_back_during_a_hand_over_stays() -> None:
    one = WayOut()
    one.side.put(NAME, "10.0.0.1")
    one.send()
    part = next(number for number in (0, 1) if not FollowedPart(number, 2).has(NAME))
    one.carry((part, 2))
    one.carry((0, 1))
    one.now[0] += HANDOVER_MS
    assert one.send() == {}


def test_a_refused_registration_is_tried_again_later() -> None:
    one = WayOut()
    one.side.put(NAME, "10.0.0.1")
    [name] = one.outgoing.due(one.now[0], 100)
    one.outgoing.refused(name, one.now[0])
    assert one.send() == {}
    one.now[0] += RETRY_MS
    assert one.send() == {THERE: {"10.0.0.1"}}


def test_after_too_many_changes_all_services_are_compared() -> None:
    one = WayOut()
    one.side.put(NAME, "10.0.0.1")
    one.send()
    one.side.feed._lost = True
    one.side.put(NAME, "10.0.0.2")
    assert one.send() == {THERE: {"10.0.0.2"}}


def test_changes_that_the_feed_gives_in_parts_are_read_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    one = WayOut()
    one.send()
    one.send()
    assert not one.outgoing.is_busy
    monkeypatch.setattr(feed, "READ_MAX", 1)
    for number in range(3):
        one.side.put(f"G@@s{number}", "10.0.0.1")
    done, rounds = 0, 0
    while one.outgoing.is_busy:
        done, rounds = done + len(one.send()), rounds + 1
    assert (done, rounds) == (3, 4)
