"""Versions that the run they name did not give: whoever sends them, all members agree on what that run said."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from app.naming.records.record_keys import persistent_key
from scripts.chaos.hostile_calls import fetch, send
from scripts.chaos.hostile_corpus import DATUMS, RECORDS_TYPE, datum, instance, list_key, put
from tests.support.processes import ClusterProcesses, Member, eventually, running_cluster

VERIFY_OFTEN = {"nacos.core.protocol.distro.data.verify.intervalMs": "1000"}
STEPS = {
    "far above": (0, 999_999_999_999_994),
    "little above": (0, 1_000_000),
    "the next": (0, 1),
    "a later epoch": (1, 0),
    "a far later epoch": (1_000_000, 0),
}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members that compare what they hold each second."""
    yield from running_cluster(tmp_path_factory.mktemp("three"), VERIFY_OFTEN)


def above(version: str, epochs: int, changes: int) -> str:
    epoch, counter, writer = version.split(".", 2)
    return f"{int(epoch) + epochs}.{int(counter) + changes}.{writer}"


def held(member: Member, asker: Member, kind: str = "") -> Mapping[str, Any]:
    """What a member tells a peer of all its keys."""
    return fetch(member.address, DATUMS + kind, asker.address)


def pairs(three: ClusterProcesses) -> Iterator[tuple[Member, Member]]:
    """Each member, and each other one in whose name it is sent something; the owner's own among them."""
    return itertools.permutations(three, 2)


def agree_on(three: ClusterProcesses, key: str, kind: str = "") -> bool:
    told = [held(member, asker, kind).get(key, {}).get("version") for member, asker in pairs(three)]
    return len(set(told)) == 1 and told[0] is not None


@pytest.mark.parametrize("step", STEPS)
def test_a_list_under_a_version_that_its_writer_did_not_give(three: ClusterProcesses, step: str) -> None:
    owner = next(iter(three))
    service = three.service_of(owner, f"forged-{step.replace(' ', '-')}")
    key = list_key(service)
    assert owner.client.register(service, "10.9.0.1").status == 200
    eventually(lambda: three.all_list(service, {"10.9.0.1:8080"}))
    given = held(owner, three.others(owner)[0])[key]["version"]
    forged = above(given, *STEPS[step])
    frame = {key: datum(key, forged, [instance(service, forged)])}
    for target, sender in pairs(three):
        send(target.address, put(sender.address, frame))
    eventually(lambda: three.all_list(service, {"10.9.0.1:8080"}) and agree_on(three, key))
    assert owner.client.register(service, "10.9.0.2").status == 200
    eventually(lambda: three.all_list(service, {"10.9.0.1:8080", "10.9.0.2:8080"}) and agree_on(three, key))


@pytest.mark.parametrize("step", STEPS)
def test_a_service_that_its_owner_never_had(three: ClusterProcesses, step: str) -> None:
    """Sent in the owner's own name: others may hold it, until the owner is asked."""
    owner = next(iter(three))
    known, service = (three.service_of(owner, f"{name}-{step.replace(' ', '-')}") for name in ("known", "never"))
    assert owner.client.register(known, "10.9.1.1").status == 200
    eventually(lambda: three.all_list(known, {"10.9.1.1:8080"}))
    given = held(owner, three.others(owner)[0])[list_key(known)]["version"]
    forged, key = above(given, *STEPS[step]), list_key(service)
    for target, sender in pairs(three):
        send(target.address, put(sender.address, {key: datum(key, forged, [instance(service, forged)])}))
    eventually(lambda: len({frozenset(one) for one in three.lists(service)}) == 1)
    assert owner.client.register(service, "10.9.1.2").status == 200
    eventually(lambda: agree_on(three, key) and len({frozenset(one) for one in three.lists(service)}) == 1)


@pytest.mark.parametrize("step", STEPS)
def test_a_record_under_a_version_that_its_writer_did_not_give(three: ClusterProcesses, step: str) -> None:
    owner = next(iter(three))
    service = three.service_of(owner, f"record-{step.replace(' ', '-')}")
    assert owner.client.register(service, "10.9.2.1", ephemeral="false", weight=2).status == 200
    eventually(lambda: three.all_list(service, {"10.9.2.1:8080"}))
    kind = f"?type={RECORDS_TYPE}"
    records = held(owner, three.others(owner)[0], kind)
    key = next(one for one in records if one.startswith(persistent_key("public", f"DEFAULT_GROUP@@{service}", "")))
    forged = above(records[key]["version"], *STEPS[step])
    told = records[key] | {"version": forged, "changed": forged, "value": records[key]["value"] | {"weight": 7}}
    for target, sender in pairs(three):
        send(target.address, put(sender.address, {key: told}))

    def weights() -> set[float]:
        return {host["weight"] for member in three for host in member.client.hosts(service).values()}

    eventually(lambda: weights() == {2} and agree_on(three, key, kind))
    assert owner.client.register(service, "10.9.2.1", ephemeral="false", weight=3).status == 200
    eventually(lambda: weights() == {3} and agree_on(three, key, kind))
