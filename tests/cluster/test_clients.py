"""What a member tells of its clients, at members as they run. The test speaks for one of them, over its own address."""

import json
from contextlib import closing
from typing import Any

from tests.cluster.conftest import StartCluster
from tests.support.client import Answer
from tests.support.listener import Listener
from tests.support.processes import ClusterProcesses, Member, eventually

ID = "1700000000000_10.9.0.1_40000"
VERIFY_MS = 15_000
"""Time for what the test does before the first round."""
PREFIX = "Nacos:Naming:v2:ClientData:"


def client_datum(owner: Member, service: str, ip: str, revision: int = 1) -> dict[str, Any]:
    """A client of ``owner`` with one instance, as our own kind tells it."""
    info = {"ip": ip, "port": 8080, "healthy": True, "cluster": "DEFAULT", "extendDatum": {"zone": "a"}}
    return {
        "key": PREFIX + ID,
        "version": f"1.{revision}.{owner.address}~earlier",
        "client": {
            "clientId": ID,
            "attributes": {"clientAttributes": {"revision": revision}},
            "namespaces": ["public"],
            "groupNames": ["DEFAULT_GROUP"],
            "serviceNames": [service],
            "instancePublishInfos": [info],
            "batchInstanceData": {},
        },
        "own": {"at": [1], "seen": [""], "info": ["10.9.0.1", 40_000, "shop", "sdk"]},
    }


def tell(owner: Member, target: Member, datum: dict[str, Any]) -> Answer:
    headers = {"Content-Type": "application/json", "Rollcall-Member": owner.address}
    return target.client.call("PUT", "/v1/ns/distro/datum", json.dumps({datum["key"]: datum}).encode(), headers)


def test_a_client_is_listed_and_pushed_and_goes_when_its_member_knows_nothing_of_it(
    make_cluster: StartCluster,
) -> None:
    cluster = make_cluster(3, {"nacos.core.protocol.distro.data.verify.intervalMs": str(VERIFY_MS)})
    cluster.start()
    owner, target, other = cluster.members
    service = "of-a-connection"
    with closing(Listener()) as listener:
        target.client.call(
            "GET",
            "/v1/ns/instance/list",
            headers={"User-Agent": "Nacos-Java-Client:v1.4.8"},
            serviceName=f"DEFAULT_GROUP@@{service}",
            clientIP="127.0.0.1",
            udpPort=listener.port,
        )
        answer = tell(owner, target, client_datum(owner, service, "10.9.0.1"))
        # It may name the age of the datum, too: a busy member answers a few ms after it took it.
        assert (answer.status, answer.json()["refused"], answer.json()["failed"]) == (200, {}, {})
        assert target.client.hosts(service).keys() == {"10.9.0.1:8080"}
        assert "10.9.0.1" in json.dumps(listener.receive())
    assert other.client.hosts(service) == {}, "what came from a peer is not sent on"
    # It is of a run of the owner that is over: in the next verify round its owner answers with a tombstone.
    eventually(lambda: target.client.hosts(service) == {})
    late = tell(owner, target, client_datum(owner, service, "10.9.0.1"))
    assert list(late.json()["refused"]) == [PREFIX + ID]
    assert target.client.hosts(service) == {}, "it comes back no more"


def test_what_cannot_be_read_is_named_and_changes_nothing(three: ClusterProcesses) -> None:
    owner, target, _ = three.members
    datum = client_datum(owner, "never", "10.9.0.2")
    datum["client"]["instancePublishInfos"][0]["port"] = "80"
    answer = tell(owner, target, datum)
    assert answer.json()["failed"] == {PREFIX + ID: "field 'port' of an instance is not a number"}
    headers = {"Content-Type": "application/json"}
    body = json.dumps({PREFIX + ID: client_datum(owner, "never", "10.9.0.2")}).encode()
    assert target.client.call("PUT", "/v1/ns/distro/datum", body, headers).status == 200
    assert target.client.hosts("never") == {}, "clients are taken of our own kind only"
