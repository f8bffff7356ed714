"""What the members' knowledge of an instance comes to, from facts of real parts."""

from typing import Any

import pytest

from app.naming.model.keys import datum_key
from app.naming.registry.operations import DeregisterInstance, PatchInstance, RegisterInstance
from app.operator.instance_facts import AskedInstance, InstanceFacts
from app.operator.instance_history import InstanceHistory
from app.operator.verdict import compare
from distro.model.types import DistroKey
from tests.support.fake_node import PEER, SELF, FakeNode, SentByPlan

SERVICE = "DEFAULT_GROUP@@orders"
ASKED = AskedInstance("public", SERVICE, "10.0.0.1", 8080, "DEFAULT")
MINE = RegisterInstance(SERVICE, "10.0.0.1", 8080)


class Bed:
    """One member, with what it tells of the instance."""

    def __init__(self, address: str = SELF) -> None:
        self.node = FakeNode()
        self.protocol: Any = SentByPlan()
        self.history = InstanceHistory(lambda: self.node.now_ms)
        clock: Any = self.node
        self.address = address
        self.facts = InstanceFacts(
            self.node.registry.table,
            self.node.registry.lists.writer,
            self.node.clients,
            self.node.durable._records,
            lambda: self.protocol,
            self._pending_of,
            self.history,
            clock,
            address,
            lambda: "UP",
        )

    def _pending_of(self, key: DistroKey) -> dict[str, str]:
        return self.protocol.pending_of(key)  # type: ignore[no-any-return]

    def told(self) -> dict[str, Any]:
        return self.facts.facts(ASKED)


def verdict_of(*beds: Bed, silent: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    verdict, differences = compare({bed.address: bed.told() for bed in beds}, silent)
    return " ".join(verdict), differences


def test_a_healthy_instance_and_a_member_that_is_silent() -> None:
    bed = Bed()
    bed.node.naming.register(MINE)
    text, differences = verdict_of(bed, silent=(PEER,))
    assert "is responsible for the service: hash" in text
    assert f"held by {SELF}; it is healthy" in text
    assert f"No answer from {PEER}" in text
    assert differences == []


@pytest.mark.parametrize(
    ("silent_ms", "because"),
    [
        (20_000, "no beat for 20000 ms, and its time-out is 15000 ms"),
        (0, "an operator or its registration made it unhealthy"),
    ],
)
def test_why_it_is_unhealthy(silent_ms: int, because: str) -> None:
    bed = Bed()
    bed.node.naming.register(MINE)
    bed.node.naming.set_health("public", SERVICE, "10.0.0.1#8080#DEFAULT", False)
    bed.node.naming.patch(PatchInstance(SERVICE, "10.0.0.1", 8080, healthy=False))
    bed.node.now_ms += silent_ms
    text, _ = verdict_of(bed)
    assert "UNHEALTHY" in text
    assert because in text


def test_a_disabled_one_is_not_seen() -> None:
    bed = Bed()
    bed.node.naming.register(MINE._replace(enabled=False))
    assert f"It is disabled at {SELF}: clients do not see it." in verdict_of(bed)[0]


def test_members_that_differ() -> None:
    one, other = Bed(), Bed(PEER)
    one.node.naming.register(MINE)
    other.node.naming.register(MINE._replace(weight=2.0))
    _, differences = verdict_of(one, other)
    assert f"instance list: weight: {SELF} 1.0; {PEER} 2.0" in differences
    third = Bed(PEER)
    _, differences = verdict_of(one, third)
    assert f"the instance list: not at {PEER}, held by {SELF}" in differences


def test_how_one_went() -> None:
    bed = Bed()
    assert "it was never registered" in verdict_of(bed)[0]
    # Beside a peer, of which it may be known, a removal is remembered.
    bed.node.registry.lists.alone = False
    bed.node.naming.register(MINE)
    bed.node.naming.deregister(DeregisterInstance(SERVICE, "10.0.0.1", 8080))
    bed.history.note(datum_key("public", SERVICE), ASKED.key, "deregistered by a call")
    bed.node.now_ms += 5_000
    text, _ = verdict_of(bed)
    assert f"5.0 s ago at {SELF}: deregistered by a call." in text
    assert "removed it" in text


def test_a_persistent_one_and_its_end() -> None:
    bed = Bed()
    bed.node.durable.register(MINE._replace(ephemeral=False))
    assert "A persistent instance, held by" in verdict_of(bed)[0]
    bed.node.durable.deregister(DeregisterInstance(SERVICE, "10.0.0.1", 8080, ephemeral=False))
    told = bed.told()
    assert told["persistent"] is None


def test_what_is_still_to_be_sent() -> None:
    bed = Bed()
    bed.node.naming.register(MINE)
    bed.protocol.pending = {PEER: "to be sent again"}
    assert f"{SELF} to {PEER}:" in verdict_of(bed)[0]
    assert "to be sent again." in verdict_of(bed)[0]


def test_with_no_threshold_clients_see_all_as_healthy_only_where_none_is() -> None:
    bed = Bed()
    bed.node.naming.register(MINE)
    bed.node.naming.set_health("public", SERVICE, "10.0.0.1:8080:unknown:DEFAULT", False)
    text, _ = verdict_of(bed)
    assert "no instance of the service is healthy, and lists then show all of them as healthy" in text
    assert "threshold" not in text
    bed.node.naming.register(RegisterInstance(SERVICE, "10.0.0.2", 8080))
    assert "Clients still see it as healthy" not in verdict_of(bed)[0]
