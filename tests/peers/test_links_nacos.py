"""A link to a real Nacos: what one side registers, clients of the other see; and what a link leaves behind."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException

import pytest

from app.links.feed_lines import FollowedPart
from app.naming.model.keys import DEFAULT_GROUP, compose_service_name
from app.testing import Cluster, Instance
from app.tools.embedded.embedded_node import EmbeddedNode
from tests.peers.linked_nacos import (
    ORIGIN,
    SEEN_S,
    RealNacos,
    answered,
    done,
    link_of,
    linked_with,
    links_of,
    real_nacos,
    seen,
    write_links,
)
from tests.peers.test_real_nacos_2 import PATIENT
from tests.support.processes import eventually

WITHOUT_BEATS: dict[str, str] = json.loads(PATIENT)
"""The metadata of an instance that stays for minutes without a beat, at both sides: a busy machine is late with all."""


@pytest.fixture(scope="module", params=["2", "3", "1.4"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNacos]:
    """A real Nacos 2.3.1, a 3.0.3 and a 1.4.1, each alone."""
    with real_nacos(request.param, tmp_path_factory.mktemp("linked")) as nacos:
        yield nacos


@pytest.fixture
def here(real: RealNacos) -> Iterator[Cluster]:
    """A cluster of three with a link to it."""
    with Cluster(3, settings={"rollcall.cluster.id": "dc-a"} | linked_with(real, "both")) as cluster:
        yield cluster


def marks(one: Instance) -> tuple[float, str, str]:
    """The weight of an instance that a link brought, its origin and its link."""
    return one.weight, one.metadata[ORIGIN], one.metadata["rollcall.link"]


def metadata_of(member: EmbeddedNode, service: str) -> dict[str, Mapping[str, str]]:
    """The metadata of each instance of a service here, by its IP."""
    return {one.ip: one.metadata for one in answered(member.instances, service)}


def test_each_side_sees_what_the_other_registers_and_removes(real: RealNacos, here: Cluster) -> None:
    names = [f"there-{number}" for number in range(6)]
    for name in names:
        real.register(name, "10.1.0.1", weight=2.0)
    begun_s = time.monotonic()
    for member in here:
        for name in names:
            eventually(lambda member=member, name=name: seen(member, name) == {"10.1.0.1"}, SEEN_S)
    print(f"there to here, new services: {time.monotonic() - begun_s:.2f} s")
    brought = [(2.0, "nacos:old", "old")]
    eventually(lambda: [marks(one) for one in answered(here[0].instances, names[0])] == brought, SEEN_S)
    begun_s = time.monotonic()
    real.register(names[0], "10.1.0.2")
    eventually(lambda: all(seen(member, names[0]) == {"10.1.0.1", "10.1.0.2"} for member in here), SEEN_S)
    print(f"there to here, one more instance: {time.monotonic() - begun_s:.2f} s")
    begun_s = time.monotonic()
    done(here[0].register, "here-1", "10.2.0.1", 80, metadata=WITHOUT_BEATS | {"zone": "a"})
    eventually(lambda: real.lists("here-1", "10.2.0.1"), SEEN_S)
    print(f"here to there: {time.monotonic() - begun_s:.2f} s")
    done(here[1].register, "here-1", "10.2.0.2", 80, metadata=WITHOUT_BEATS)
    eventually(lambda: real.lists("here-1", "10.2.0.1", "10.2.0.2"), SEEN_S)
    assert real.origins("here-1") == {"10.2.0.1": "dc-a", "10.2.0.2": "dc-a"}
    done(here[2].deregister, "here-1", "10.2.0.1", 80)
    eventually(lambda: real.lists("here-1", "10.2.0.2"), SEEN_S)
    for member in here:  # the Nacos may hear of it before other members do; nothing comes back with a label
        eventually(lambda member=member: metadata_of(member, "here-1") == {"10.2.0.2": WITHOUT_BEATS}, SEEN_S)
    for name in names:
        real.deregister(name, "10.1.0.1")
    for member in here:
        for name in names[1:]:
            eventually(lambda member=member, name=name: seen(member, name) == set(), SEEN_S)
    done(here[1].deregister, "here-1", "10.2.0.2", 80)
    eventually(lambda: real.lists("here-1"), SEEN_S)


@pytest.mark.parametrize("real", ["1.4"], indirect=True)
def test_what_a_nacos_1_lost_is_registered_again(real: RealNacos, here: Cluster) -> None:
    """Nacos 1.x removes an instance whose beats are late, as those of a busy machine are."""
    done(here[0].register, "lost", "10.6.0.1", 80, metadata=WITHOUT_BEATS)
    eventually(lambda: real.weights("lost") == {"10.6.0.1": 1.0}, SEEN_S)
    real.update("lost", "10.6.0.1", weight=7.0, metadata=json.dumps({ORIGIN: "dc-a"}))
    eventually(lambda: real.weights("lost") == {"10.6.0.1": 7.0}, SEEN_S)
    real.deregister("lost", "10.6.0.1")
    eventually(lambda: real.weights("lost") == {"10.6.0.1": 1.0}, SEEN_S)


def test_an_address_that_is_registered_at_both_sides_is_one(real: RealNacos, here: Cluster) -> None:
    real.register("both", "10.3.0.1")
    eventually(lambda: seen(here[0], "both") == {"10.3.0.1"}, SEEN_S)
    done(here[0].register, "both", "10.3.0.1", 80, metadata=WITHOUT_BEATS)
    done(here[0].register, "both", "10.3.0.2", 80, metadata=WITHOUT_BEATS)
    eventually(lambda: real.origins("both") == {"10.3.0.1": None, "10.3.0.2": "dc-a"}, SEEN_S)
    eventually(lambda: seen(here[1], "both") == {"10.3.0.1", "10.3.0.2"}, SEEN_S)
    real.deregister("both", "10.3.0.1")
    eventually(lambda: real.origins("both") == {"10.3.0.1": "dc-a", "10.3.0.2": "dc-a"}, SEEN_S)


def carries(member: EmbeddedNode, members: int, names: Sequence[str], *, twice: bool) -> bool:
    """Return whether a member has its part among so many members, and has registered what it carries, and no more."""
    link = link_of(member)
    number, _, count = str(link["part"]).partition("/")
    if count != str(members):
        return False
    parts = {int(number) - 1, (int(number) - 2) % members} if twice else {int(number) - 1}
    carried = [
        one
        for one in names
        if any(FollowedPart(part, members).has(compose_service_name(one, DEFAULT_GROUP)) for part in parts)
    ]
    return link["sentServices"] == link["sentInstances"] == len(carried)


class Observer:
    """Asks a Nacos for some services all the time, and notes those that lack their instance."""

    def __init__(self, real: RealNacos, names: Sequence[str], ip: str) -> None:
        self._real, self._names, self._ip = real, names, ip
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._observe)
        self.missing: list[str] = []
        self.observations = 0

    def _observe(self) -> None:
        while not self._over.is_set():
            for name in self._names:
                # A server without time for an answer says nothing of its services.
                with contextlib.suppress(OSError, HTTPException):
                    answer = self._real.client.call("GET", "/v1/ns/instance/list", serviceName=name)
                    if answer.status == HTTPStatus.OK:
                        found = [one["ip"] for one in answer.json()["hosts"]]
                        self.missing += [] if found == [self._ip] else [f"{name}: {found}"]
                        self.observations += 1

    def __enter__(self) -> "Observer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_nothing_is_missing_when_a_member_that_carries_is_killed(real: RealNacos, here: Cluster) -> None:
    names = [f"carried-{number}" for number in range(6)]
    twice = real.kind == "nacos"
    for name in names:
        done(here[0].register, name, "10.4.0.1", 80, ephemeral=False, metadata=WITHOUT_BEATS)
        eventually(lambda name=name: real.lists(name, "10.4.0.1"), SEEN_S)
    eventually(lambda: all(carries(one, 3, names, twice=twice) for one in here), SEEN_S)
    with Observer(real, names, "10.4.0.1") as observer:
        here.kill(2)
        here.settle()
        survivors = [here[0], here[1]]
        eventually(lambda: all(carries(one, 2, names, twice=twice) for one in survivors), SEEN_S)
        begun = observer.observations
        eventually(lambda: observer.observations >= begun + 300, SEEN_S)
    print(f"{observer.observations} lists, {len(observer.missing)} without their instance")
    assert observer.missing == []


def test_a_link_that_is_added_and_removed_while_members_run_leaves_nothing(real: RealNacos) -> None:
    names = [f"left-{number}" for number in range(3)]
    with Cluster(2, settings={"rollcall.cluster.id": "dc-a"}) as here:
        for name in names:
            done(here[0].register, name, "10.5.0.1", 80, ephemeral=False)
        write_links(list(here), linked_with(real, "out"))
        for name in names:
            eventually(lambda name=name: real.lists(name, "10.5.0.1"), SEEN_S)
        eventually(lambda: all(links_of(one) for one in here), SEEN_S)  # each reads its own file
        eventually(lambda: [link_of(one)["services"] for one in here] == [0, 0], SEEN_S)
        write_links(list(here), {})
        for name in names:
            eventually(lambda name=name: real.lists(name), SEEN_S)
