"""Members with an identity: what each takes from the others, and that nobody else makes a member's call."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException

import pytest

from app.auth.member_signer import MemberSigner
from app.auth.signed import SIGNATURE, identity_of
from app.config.identity_settings import IdentitySettings, NamedNacos
from distro.receive.call_times import CallDeadlines
from distro.timing.clock import SystemClock
from distro.wire.http_agent import MEMBER_HEADER
from tests.cluster.conftest import StartCluster
from tests.support.client import Answer, Client
from tests.support.identified import HEADER, NEW, OLD
from tests.support.processes import FAST, ClusterProcesses, Member, eventually

IDENTITY = {"nacos.core.auth.server.identity.key": HEADER, "nacos.core.auth.server.identity.value": OLD}
KEY = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@"
AGENT = {"User-Agent": "Nacos-Server:1.4.8"}


@pytest.fixture(scope="module")
def identified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members that know each other by a secret, for tests that do them no harm."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("identified"), 3, {**FAST, **IDENTITY})
    try:
        cluster.start()
        eventually(lambda: all(signs(one, cluster) for one in cluster))
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def signs(member: Member, cluster: ClusterProcesses) -> bool:
    """Whether a member has taken signed calls of the others."""
    return counts(member)["identitySigned"] >= len(cluster.members) - 1


def counts(member: Member) -> dict[str, int]:
    metrics: dict[str, int] = member.client.call("GET", "/v1/ns/operator/metrics").json()
    return {name: count for name, count in metrics.items() if name.startswith("identity")}


def put_datum(member: Member, service: str, headers: dict[str, str]) -> Answer:
    instance = {"ip": "10.6.6.6", "port": 80, "clusterName": "DEFAULT", "healthy": True, "ephemeral": True}
    datum = {"key": KEY + service, "value": {"instanceList": [instance]}, "timestamp": 1}
    body = json.dumps({KEY + service: datum}).encode()
    return member.client.call("PUT", "/v1/ns/distro/datum", body, {"Content-Type": "application/json", **headers})


def test_what_is_written_anywhere_is_listed_everywhere(identified: ClusterProcesses) -> None:
    for number, member in enumerate(identified):
        for owner in identified:
            service = identified.service_of(owner, f"signed-{number}")
            assert member.client.register(service, "10.0.0.1", number + 1).status == 200
            assert set(member.client.hosts(service)) == {f"10.0.0.1:{number + 1}"}, (
                "the write is read where it was made"
            )
            eventually(lambda service=service, number=number: identified.all_list(service, {f"10.0.0.1:{number + 1}"}))
    assert identified.members[0].client.register("kept", "10.0.0.2", ephemeral="false").status == 200
    eventually(lambda: identified.all_list("kept", {"10.0.0.2:8080"}))
    for member in identified:
        assert counts(member)["identityPlain"] == 0
        assert counts(member)["identityProved"] > 0


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (AGENT, "identityRefusedMissing"),
        ({MEMBER_HEADER: "self"}, "identityRefusedMissing"),
        ({**AGENT, HEADER: OLD}, "identityRefusedValue"),
        ({**AGENT, HEADER: NEW}, "identityRefusedValue"),
        ({**AGENT, SIGNATURE: "1 self run 1 session 1 digest mac"}, "identityRefusedSignature"),
        ({**AGENT, SIGNATURE: "nonsense"}, "identityRefusedSignature"),
    ],
    ids=["agent alone", "name alone", "the secret itself", "another secret", "forged", "nonsense"],
)
def test_whoever_only_says_to_be_a_member_changes_nothing(
    identified: ClusterProcesses, headers: dict[str, str], reason: str
) -> None:
    member, other = identified.members[:2]
    service = "forged-" + hashlib.md5(repr(headers).encode()).hexdigest()
    headers = {name: value.replace("self", other.address) for name, value in headers.items()}
    before = counts(member)[reason]
    answer = put_datum(member, service, headers)
    assert answer.status in (401, 403), answer
    assert counts(member)[reason] == before + 1
    assert not member.client.hosts(service)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/ns/distro/datums"),
        ("PUT", "/v1/ns/distro/checksum?source=x"),
        ("PUT", "/v1/ns/distro/beats"),
        ("POST", "/v1/core/cluster/report"),
        ("POST", "/v1/ns/service/status"),
        ("GET", "/v1/ns/operator/server/status?serverStatus=x"),
        ("POST", "/v1/core/cluster/server/leave"),
    ],
)
def test_without_an_identity_no_call_of_members_is_taken(identified: ClusterProcesses, method: str, path: str) -> None:
    body = None if method == "GET" else b"{}"
    for headers in ({}, AGENT, {HEADER: NEW}, {HEADER: OLD}):
        assert identified.members[0].client.call(method, path, body, headers).status == 403


def test_a_clients_call_with_marks_of_members_is_executed_nowhere(identified: ClusterProcesses) -> None:
    for number, header in enumerate(("Rollcall-Wants-Change", "Rollcall-Client-Agent", "Rollcall-Relay", "User-Agent")):
        value = "Nacos-Server:1.4.8" if header == "User-Agent" else "1"
        for member in identified:
            query = f"/v1/ns/instance?serviceName=marked-{number}&ip=10.0.0.1&port=80"
            answer = member.client.call("POST", query, b"", {header: value})
            assert answer.status == 403
            assert "rollcall-change" not in answer.headers
        assert identified.lists(f"marked-{number}") == [set(), set(), set()]


def test_the_identity_alone_writes_nothing_as_a_client(identified: ClusterProcesses) -> None:
    """Its header is no right: the call is what it would be without it."""
    client = identified.members[0].client
    answer = client.call("POST", "/v1/ns/instance?serviceName=plain&ip=10.0.0.1&port=80", b"", {HEADER: OLD})
    assert answer.status == 200


@dataclass
class Seen:
    """A call as it goes over the wire, and what its answer was."""

    target: str
    body: bytes
    headers: dict[str, str]

    def send(self, member: Member, **changed: str) -> Answer:
        target = changed.get("target", self.target)
        body = changed["body"].encode() if "body" in changed else self.body
        return member.client.call("PUT", target.removeprefix("/nacos"), body, self.headers)


class Impostor:
    """Knows the secret, and calls as a member of the cluster does: what it sends, others could have seen."""

    def __init__(self, as_member: Member, value: str = OLD) -> None:
        self.address = as_member.address
        identity = identity_of(IdentitySettings(HEADER, value, "", NamedNacos(), frozenset()))
        deadlines = CallDeadlines(f"{self.address}~0", SystemClock())
        self.signer = MemberSigner(self.address, identity, deadlines)

    def call(self, member: Member, service: str) -> Seen:
        instance = {"ip": "10.6.6.6", "port": 80, "clusterName": "DEFAULT", "healthy": True, "ephemeral": True}
        datum = {"key": KEY + service, "value": {"instanceList": [instance]}, "timestamp": 1}
        body, target = json.dumps({KEY + service: datum}).encode(), "/nacos/v1/ns/distro/datum"
        headers = {"User-Agent": AGENT["User-Agent"], "Content-Type": "application/json"}
        return Seen(target, body, headers | self.signer.headers(member.address, "PUT", target, body, headers))


def test_a_call_that_was_seen_cannot_be_used_again(identified: ClusterProcesses) -> None:
    first, second, third = identified.members
    sender = Impostor(first)
    answer = sender.call(second, "seen").send(second)
    assert answer.status == 401, "its sender does not know the clock yet"
    assert sender.signer.learn(second.address, answer.headers)
    before = counts(second)
    seen = sender.call(second, "seen")
    assert seen.send(second, body=seen.body.decode().replace("10.6.6.6", "10.6.6.7")).status == 403
    assert seen.send(second, target=seen.target + "?x=1").status == 401
    assert seen.send(third).status == 401, "it is for another member"
    assert not third.client.hosts("seen")
    assert seen.send(second).status == 200
    assert [seen.send(second).status for _ in range(3)] == [401] * 3
    after = counts(second)
    assert {
        name: after[name] - before[name] for name in after if "Refused" in name and after[name] != before[name]
    } == {
        "identityRefusedBody": 1,
        "identityRefusedSignature": 1,
        "identityRefusedReplayed": 3,
    }
    assert "10.6.6.7:80" not in second.client.hosts("seen")
    with_another_secret = Impostor(first, NEW).call(second, "seen-2").send(second)
    assert with_another_secret.status == 401
    assert not Impostor(first, NEW).signer.learn(second.address, with_another_secret.headers)
    assert not second.client.hosts("seen-2")


KEPT = json.dumps({"preserved.heart.beat.timeout": "600000", "preserved.ip.delete.timeout": "600000"})


class Writer(threading.Thread):
    """Registers instance after instance through every member in turn; notes what was acknowledged, and what not."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        super().__init__(name="writer")
        self.acknowledged: set[str] = set()
        self.refusals: list[Answer] = []
        self._members = cluster.members
        self._end = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._end.wait(0.02):
            number += 1
            service, kind = f"kept-{number}", "false" if number % 5 == 0 else "true"
            client = Client(self._members[number % 3].address)
            with contextlib.suppress(OSError, HTTPException):  # that member is being restarted
                answer = client.register(service, "10.0.0.1", ephemeral=kind, metadata=KEPT)
                if answer.status == 200:
                    self.acknowledged.add(service)
                elif answer.status != 503:  # it starts or ends, or the owner does
                    self.refusals.append(answer)

    def stop(self) -> None:
        self._end.set()
        self.join()


def test_the_secret_is_changed_in_a_rolling_restart_without_a_lost_write(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, {**FAST, **IDENTITY})
    cluster.start()
    value, previous = "nacos.core.auth.server.identity.value", "rollcall.identity.previousValue"
    writer = Writer(cluster)
    writer.start()
    try:
        for settings in ({value: NEW, previous: OLD}, {value: NEW, previous: ""}):
            for member in cluster:
                member.stop()
                member.settings.update(settings)
                member.restart()
                for one in cluster:
                    eventually(lambda one=one: cluster.all_up(one))
                count = len(writer.acknowledged)
                eventually(lambda count=count: len(writer.acknowledged) > count + 30)
    finally:
        writer.stop()
    assert writer.refusals == []
    assert len(writer.acknowledged) > 180
    for service in sorted(writer.acknowledged):
        eventually(lambda service=service: cluster.all_list(service, {"10.0.0.1:8080"}))
    for member in cluster:
        assert counts(member)["identitySigned"] > 0
        assert Impostor(cluster.members[0], OLD).call(member, "late").send(member).status == 401
        assert not member.client.hosts("late")
