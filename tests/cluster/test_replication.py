"""Three members that nobody harms: what one takes, all have, and whoever is asked answers alike."""

import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.client import OK, Answer, Client
from tests.support.processes import ClusterProcesses, Member, eventually

SHORT_LIVED = json.dumps(
    {
        "preserved.heart.beat.interval": "300",
        "preserved.heart.beat.timeout": "6000",
        "preserved.ip.delete.timeout": "12000",
    }
)
BURST = 500


def test_what_is_registered_anywhere_is_listed_everywhere(three: ClusterProcesses) -> None:
    services = [three.service_of(owner, "anywhere") for owner in three]
    for service, (number, member) in itertools.product(services, enumerate(three)):
        answer = member.client.register(service, f"10.0.0.{number}", weight=2.5, metadata='{"zone":"a"}')
        assert (answer.status, answer.body) == (200, OK)
    for service in services:
        expected = {f"10.0.0.{number}:8080" for number in range(3)}
        eventually(lambda service=service, expected=expected: three.all_list(service, expected))  # type: ignore[misc]
        hosts = [member.client.hosts(service) for member in three]
        assert hosts[0] == hosts[1] == hosts[2]
        assert {(host["weight"], host["metadata"]["zone"], host["healthy"]) for host in hosts[0].values()} == {
            (2.5, "a", True)
        }


def test_a_writer_reads_what_it_wrote_at_the_owner(three: ClusterProcesses) -> None:
    """Two of three writes are forwarded; the answer comes after the owner has it."""
    for member, owner in itertools.product(three, three):
        service = three.service_of(owner, f"own-{member.address}")
        assert member.client.register(service, "10.0.1.1").status == 200
        assert set(owner.client.hosts(service)) == {"10.0.1.1:8080"}


def test_the_last_removal_empties_the_service_everywhere(three: ClusterProcesses) -> None:
    for owner, through in itertools.product(three, three):
        service = three.service_of(owner, f"last-{through.address}")
        assert through.client.register(service, "10.0.2.1").status == 200
        eventually(lambda service=service: three.all_list(service, {"10.0.2.1:8080"}))  # type: ignore[misc]
        assert through.client.deregister(service, "10.0.2.1").body == OK
        eventually(lambda service=service: three.all_list(service, set()))  # type: ignore[misc]


CALLS: dict[str, Callable[[Client, str], Answer]] = {
    "register": lambda client, service: client.register(service, "10.0.3.1"),
    "beat of a known instance": lambda client, service: client.beat(service, "10.0.3.1"),
    "beat of an unknown instance": lambda client, service: client.beat(service, "10.0.3.9"),
    "replace": lambda client, service: client.call(
        "PUT", "/v1/ns/instance", serviceName=service, ip="10.0.3.1", port=8080, weight=3
    ),
    "register by form": lambda client, service: client.call(
        "POST",
        "/v1/ns/instance",
        f"serviceName={service}&ip=10.0.3.2&port=80&metadata=%7B%22name%22%3A%22%C3%A9%20%26%22%7D".encode(),
        {"Content-Type": "application/x-www-form-urlencoded"},
    ),
    "remove an unknown instance": lambda client, service: client.deregister(service, "10.0.3.8"),
    "weight out of range": lambda client, service: client.register(service, "10.0.3.3", weight=10_001),
    "no port": lambda client, service: client.call("POST", "/v1/ns/instance", serviceName=service, ip="10.0.3.4"),
    "port that is no number": lambda client, service: client.call(
        "POST", "/v1/ns/instance", serviceName=service, ip="10.0.3.4", port="http"
    ),
    "persistent": lambda client, service: client.register(service, "10.0.3.5", ephemeral="false"),
    "patch of an unknown instance": lambda client, service: client.call(
        "PATCH", "/v1/ns/instance", serviceName=service, ip="10.0.3.7", port=8080, weight=1
    ),
    "strict replace of an unknown instance": lambda client, service: client.call(
        "PUT",
        "/v1/ns/instance",
        headers={"User-Agent": "Nacos-Java-Client:v1.4.8"},
        serviceName=service,
        ip="10.0.3.6",
        port=8080,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_forwarded_call_is_answered_as_by_the_owner(three: ClusterProcesses, name: str) -> None:
    owner = three.members[1]
    service = three.service_of(owner, "forwarded")
    assert owner.client.register(service, "10.0.3.1").status == 200
    answers = [CALLS[name](member.client, service) for member in three]
    seen = [(answer.status, answer.body, answer.content_type) for answer in answers]
    assert seen[0] == seen[1] == seen[2]


def test_beats_through_any_member_keep_an_instance_and_silence_removes_it(three: ClusterProcesses) -> None:
    service = three.service_of(three.members[0], "beats")
    for ip in ("10.0.4.1", "10.0.4.2"):
        assert three.members[1].client.register(service, ip, metadata=SHORT_LIVED).status == 200
    beaten, silent = "10.0.4.1:8080", "10.0.4.2:8080"
    turns = itertools.cycle(three)
    seen: set[tuple[str, bool]] = set()

    def beat_until(check: Callable[[Member, dict[str, bool]], bool]) -> Callable[[], bool]:
        def beat_and_look() -> bool:
            assert next(turns).client.beat(service, "10.0.4.1").json()["code"] == 10_200
            reached = True
            for member in three:
                healthy = {address: host["healthy"] for address, host in member.client.hosts(service).items()}
                if healthy.get(beaten) is not True:
                    raise RuntimeError(f"{member} lost the instance that beats: {healthy}")
                seen.update(healthy.items())
                reached = check(member, healthy) and reached
            return reached

        return beat_and_look

    # Its time-outs are 6 s and 12 s, checked once a second: the beats of the other may be late by seconds.
    eventually(lambda: three.all_list(service, {beaten, silent}))
    eventually(beat_until(lambda _, healthy: healthy.get(silent) is False))
    eventually(beat_until(lambda _, healthy: silent not in healthy))
    assert seen == {(beaten, True), (silent, True), (silent, False)}


def test_a_beat_of_a_removed_instance_asks_for_a_registration(three: ClusterProcesses) -> None:
    service = three.service_of(three.members[2], "removed")
    three.members[0].client.register(service, "10.0.5.1")
    eventually(lambda: three.all_list(service, {"10.0.5.1:8080"}))
    three.members[1].client.deregister(service, "10.0.5.1")
    eventually(lambda: three.all_list(service, set()))
    assert [member.client.beat(service, "10.0.5.1").json()["code"] for member in three] == [20_404] * 3


def test_a_burst_of_changes_travels_in_few_sends(three: ClusterProcesses) -> None:
    """While one send is under way, what changes meanwhile merges: one key, however often it changed, is sent once."""
    service = three.service_of(three.members[0], "burst")
    sent_before = sum(member.client.metrics()["syncSent"] for member in three)

    def register(number: int) -> int:
        member = three.members[number % 3]
        return member.client.register(service, f"10.1.{number // 250}.{number % 250}").status

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(register, range(BURST))) == {200}
    expected = {f"10.1.{number // 250}.{number % 250}:8080" for number in range(BURST)}
    eventually(lambda: three.all_list(service, expected))
    sent = sum(member.client.metrics()["syncSent"] for member in three) - sent_before
    assert sent < BURST / 2, f"{sent} sends to two peers for {BURST} changes"
