"""One cluster of two real Nacos 1.4.1 servers and one node of ours: instances travel both ways."""

import json
from collections.abc import Set
from typing import Literal

from tests.peers.conftest import metrics, taken
from tests.peers.real_members import IDENTITY, MixedCluster
from tests.support.client import CODE_NOT_FOUND, Client
from tests.support.processes import eventually

SERVICES = [f"mixed-{number}" for number in range(6)]
"""So many that each of the three members is responsible for some: see ``test_each_member_is_responsible``."""
PATIENT = {"preserved.heart.beat.timeout": "300000", "preserved.ip.delete.timeout": "600000"}
"""Nobody beats here, and nothing is to expire."""
SYNC_TIMEOUT_S = 120.0
"""Real Nacos sends a change after 2 s, and repeats a failed send after 6 s."""
HEALTH_TIMEOUT_S = 120.0
ROUNDS = 2
"""Of each of the two real members."""
TAKE_OVER_TIMEOUT_S = 120.0


def listed(client: Client, service: str) -> set[tuple[str, int]]:
    answer = client.call("GET", "/v1/ns/instance/list", serviceName=service)
    return {(host["ip"], host["port"]) for host in answer.json()["hosts"]}


def register(client: Client, service: str, port: int, stage: str = "a", ip: str = "10.0.0.1") -> None:
    metadata = json.dumps({**PATIENT, "stage": stage})
    taken(client, "POST", "/v1/ns/instance", serviceName=service, ip=ip, port=port, metadata=metadata)


def await_lists(
    mixed: MixedCluster,
    service: str,
    want: Set[tuple[str, int]] = frozenset(),
    gone: Set[tuple[str, int]] = frozenset(),
    left: tuple[Client, ...] = (),
) -> None:
    """Return once each member, or each of those ``left``, lists all that is wanted, and nothing that is to be gone.

    On a busy machine real members lose sight of each other for seconds. Two of them then own a service, and one writes
    its list over the other's. Of their services clients therefore do what clients do: they beat, and register again
    what is unknown. Of ours nobody does, as nothing may be lost there; but for when a member ended, as what the other
    real one took for its own meanwhile is at that one alone. All deregister again: of a list that a real member sends
    us for a service of ours, what it lacks means nothing.
    """
    members = left or mixed.clients

    def are_as_told() -> Literal[True]:
        if left or mixed.ours.client.owner(service) != mixed.ours.address:
            beat(members[0], service, want)
        for ip, port in gone & listed(members[0], service):
            taken(members[0], "DELETE", "/v1/ns/instance", serviceName=service, ip=ip, port=port)
        lists = {one.address: listed(one, service) for one in members}
        wrong = {address: (want - found, gone & found) for address, found in lists.items()}
        assert not any(map(any, wrong.values())), f"{service}, what members lack and list in vain: {wrong}"
        return True

    eventually(are_as_told, SYNC_TIMEOUT_S)


def beat(member: Client, service: str, instances: Set[tuple[str, int]]) -> None:
    """Beat these instances, and register what that finds unknown."""
    for ip, port in instances:
        answer = member.call("PUT", "/v1/ns/instance/beat", serviceName=service, ip=ip, port=port)
        if answer.status == 200 and answer.json()["code"] == CODE_NOT_FOUND:
            register(member, service, port, ip=ip)


def test_each_member_is_responsible_for_some_and_all_agree_for_which(mixed: MixedCluster) -> None:
    owners = []
    for service in SERVICES:
        register(mixed.ours.client, service, 80)
        await_lists(mixed, service, want={("10.0.0.1", 80)})
        owners.append(eventually(lambda service=service: the_owner(mixed, service), SYNC_TIMEOUT_S))
    assert len(set(owners)) == 3


def the_owner(mixed: MixedCluster, service: str) -> str | None:
    """The member that is responsible for a service in the eyes of all that know it; None while they differ."""
    answers = [one.call("GET", "/v1/ns/operator/distro/server", serviceName=service) for one in mixed.clients]
    owners = {one.json()["responsibleServer"] for one in answers if b"responsibleServer" in one.body}
    return owners.pop() if len(owners) == 1 else None


def test_registrations_at_any_member_show_on_all(mixed: MixedCluster) -> None:
    for number, service in enumerate(SERVICES):
        register(mixed.clients[number % 3], service, 81, stage="北京")
    for service in SERVICES:
        await_lists(mixed, service, want={("10.0.0.1", 80), ("10.0.0.1", 81)})


def test_checksums_of_both_kinds_agree_so_that_nobody_asks_again(mixed: MixedCluster) -> None:
    """What one takes for different it fetches and replaces, each 5 s."""
    identity = {IDENTITY["key"]: IDENTITY["value"]}
    datums = [one.call("GET", "/v1/ns/distro/datums", headers=identity).json() for one in mixed.clients]
    keys = {key for datum in datums for key in datum if "mixed-" in key}
    assert len(keys) == len(SERVICES)

    def stripped(datum: dict, key: str) -> list[tuple]:
        fields = ("ip", "port", "weight", "enabled", "clusterName", "metadata")
        return sorted(str([one[name] for name in fields]) for one in datum[key]["value"]["instanceList"])

    for key in keys:
        assert stripped(datums[0], key) == stripped(datums[1], key) == stripped(datums[2], key), key
    # The last change may not have come to an end: real Nacos sends it 2 s later.
    eventually(lambda: is_quiet_for_rounds(mixed), SYNC_TIMEOUT_S)


def is_quiet_for_rounds(mixed: MixedCluster) -> bool:
    """Whether rounds went by, both ways and with each real member, in which nobody asked our node, and it nobody."""

    def has_come_round() -> bool:
        now = metrics(mixed)
        return all(now[name] >= before[name] + 2 * ROUNDS for name in ("verifySent", "verifyReceived"))

    before = metrics(mixed)
    eventually(has_come_round, SYNC_TIMEOUT_S)
    after = metrics(mixed)
    assert after["verifyFailed"] == before["verifyFailed"]
    asked = {name: after[name] - before[name] for name in ("servedKeys", "queryKeys")}
    assert not any(asked.values()), f"asked meanwhile: {asked}; {told_of(mixed)}"
    return True


def told_of(mixed: MixedCluster) -> dict[str, list[str]]:
    """What each member holds of the services, for whoever looks for the difference that makes them ask."""
    identity = {IDENTITY["key"]: IDENTITY["value"]}
    datums = [one.call("GET", "/v1/ns/distro/datums", headers=identity).json() for one in mixed.clients]
    keys = sorted({key for datum in datums for key in datum if "mixed-" in key})
    return {key: [json.dumps(datum.get(key), sort_keys=True) for datum in datums] for key in keys}


def test_a_deregistration_at_any_member_counts_on_all(mixed: MixedCluster) -> None:
    for number, service in enumerate(SERVICES):
        member = mixed.clients[(number + 1) % 3]
        taken(member, "DELETE", "/v1/ns/instance", serviceName=service, ip="10.0.0.1", port=80)
    for service in SERVICES:
        await_lists(mixed, service, gone={("10.0.0.1", 80)})


def test_health_found_by_our_node_shows_on_real_members(mixed: MixedCluster) -> None:
    def owned_by_ours() -> str:
        answers = {
            service: mixed.first.call("GET", "/v1/ns/operator/distro/server", serviceName=service).json()
            for service in SERVICES
        }
        return next((name for name, one in answers.items() if one["responsibleServer"] == mixed.ours.address), "")

    metadata = json.dumps({**PATIENT, "preserved.heart.beat.timeout": "2000"})
    silent = {"serviceName": eventually(owned_by_ours, SYNC_TIMEOUT_S), "ip": "10.0.0.9", "port": 90}
    taken(mixed.ours.client, "POST", "/v1/ns/instance", **silent, metadata=metadata)

    def is_unhealthy() -> bool:
        details = [one.call("GET", "/v1/ns/instance", **silent) for one in mixed.clients]
        return all(one.status == 200 and one.json()["healthy"] is False for one in details)

    eventually(is_unhealthy, HEALTH_TIMEOUT_S)


def test_calls_of_real_members_bring_the_identity_and_none_is_refused(mixed: MixedCluster) -> None:
    told = metrics(mixed)
    assert told["identityPlain"] > 0
    assert {name: count for name, count in told.items() if name.startswith("identityRefused") and count} == {}
    datums = mixed.ours.client.call("GET", "/v1/ns/distro/datums", headers={"User-Agent": "Nacos-Server:v1.4.1"})
    assert datums.status == 403
    wrong = {"User-Agent": "Nacos-Server:v1.4.1", IDENTITY["key"]: IDENTITY["value"][:-1]}
    assert mixed.ours.client.call("GET", "/v1/ns/distro/datums", headers=wrong).status == 403
    right = {**wrong, IDENTITY["key"]: IDENTITY["value"]}
    assert mixed.ours.client.call("GET", "/v1/ns/distro/datums", headers=right).status == 200


def test_names_that_real_members_cannot_hold_stay_at_our_node(mixed: MixedCluster) -> None:
    """They would refuse a whole message for one of them. A real member that owns such a name refuses it at once."""
    ours, left_out, kept = mixed.ours.client, metrics(mixed)["nacos1LeftOut"], json.dumps(PATIENT)
    names = [f"providers:com.foo.Outer$Inner{number}:1.0.0:" for number in range(12)]
    held = [
        name
        for name in names
        if ours.call("POST", "/v2/ns/instance", serviceName=name, ip="10.0.0.9", port=80, metadata=kept).status == 200
    ]
    assert held, "this node owns none of them"
    eventually(lambda: metrics(mixed)["nacos1LeftOut"] >= left_out + 2 * len(held), SYNC_TIMEOUT_S)
    register(ours, "mixed-after", 80)
    await_lists(mixed, "mixed-after", want={("10.0.0.1", 80)})
    for name in held:
        assert listed(ours, name) == {("10.0.0.9", 80)}
        assert not listed(mixed.first, name)
        assert mixed.ours.log_text().count(f"service DEFAULT_GROUP@@{name} of namespace public is not sent") == 1
    for name in held:
        taken(ours, "DELETE", "/v1/ns/instance", serviceName=name, ip="10.0.0.9", port=80)
    assert metrics(mixed)["syncFailed"] == 0


def test_a_dead_real_member_is_taken_over_without_a_loss(mixed: MixedCluster) -> None:
    before = {service: listed(mixed.second, service) for service in SERVICES}
    mixed.stop_first()
    left = mixed.clients[1:]

    def all_writable() -> bool:
        for service in SERVICES:
            register(left[0], service, 82)
        return True

    eventually(all_writable, TAKE_OVER_TIMEOUT_S)
    for service in SERVICES:
        await_lists(mixed, service, want=before[service] | {("10.0.0.1", 82)}, left=left)
