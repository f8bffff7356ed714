"""What members send each other, sent by somebody else: strangers, senders of nonsense, callers who come too early."""

import gzip
import json
import socket
from typing import Any

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.client import Answer, Client
from tests.support.processes import DIRECT_S, ClusterProcesses, Member, eventually

STRANGER = "127.0.0.2"
"""An address of this machine that is no member's: all of these are 127.0.0.1."""
KEY = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@"
GZIP = {"Content-Encoding": "gzip"}


def datum(service: str, ip: str) -> dict[str, Any]:
    """A datum as real Nacos 1.4 sends it."""
    instance = {
        "ip": ip,
        "port": 8080,
        "weight": 1.0,
        "healthy": True,
        "enabled": True,
        "ephemeral": True,
        "clusterName": "DEFAULT",
        "serviceName": f"DEFAULT_GROUP@@{service}",
        "metadata": {},
        "instanceHeartBeatInterval": 5000,
        "instanceHeartBeatTimeOut": 15000,
        "ipDeleteTimeout": 30000,
    }
    return {"key": KEY + service, "value": {"instanceList": [instance]}, "timestamp": 1}


def put_datum(client: Client, body: bytes, headers: dict[str, str] | None = None) -> Answer:
    return client.call("PUT", "/v1/ns/distro/datum", body, {"Content-Type": "application/json", **(headers or {})})


class TestStrangers:
    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("PUT", "/v1/ns/distro/datum", json.dumps({KEY + "strange": datum("strange", "10.2.0.1")}).encode()),
            ("PUT", "/v1/ns/distro/datum", b"{}"),
            ("PUT", "/v1/ns/distro/checksum?source=127.0.0.1:8848", b"{}"),
            ("GET", "/v1/ns/distro/datums", None),
            ("GET", "/v1/ns/distro/datum", json.dumps({"keys": KEY + "strange"}).encode()),
            ("POST", "/v1/core/cluster/report", b'{"ip":"127.0.0.1","port":1,"state":"UP"}'),
        ],
    )
    def test_calls_of_members_are_taken_from_members_only(
        self, three: ClusterProcesses, method: str, path: str, body: bytes | None
    ) -> None:
        # Whatever a caller says of himself: its address counts.
        headers = {
            "User-Agent": "Nacos-Server:1.4.8",
            "Rollcall-Member": three.members[1].address,
            "X-Forwarded-For": "127.0.0.1",
            "Content-Type": "application/json",
        }
        stranger = Client(three.members[0].address, source=STRANGER)
        answer = stranger.call(method, path, body, headers)
        assert answer.status == 403, answer
        assert all(not member.client.hosts("strange") for member in three)

    def test_clients_may_come_from_anywhere(self, three: ClusterProcesses) -> None:
        client = Client(three.members[0].address, source=STRANGER)
        assert client.register("from-elsewhere", "10.2.0.2").status == 200
        eventually(lambda: three.all_list("from-elsewhere", {"10.2.0.2:8080"}))

    def test_a_report_of_somebody_not_listed_adds_nobody(self, three: ClusterProcesses) -> None:
        before = three.members[0].client.states()
        report = json.dumps({"ip": "127.0.0.1", "port": 1, "state": "UP", "address": "127.0.0.1:1"}).encode()
        headers = {"User-Agent": "Nacos-Server:1.4.8", "Content-Type": "application/json"}
        answer = three.members[0].client.call("POST", "/v1/core/cluster/report", report, headers)
        assert (answer.status, answer.json()["data"]) == (200, "false")
        assert three.members[0].client.states() == before

    def test_a_member_of_our_kind_learns_that_it_is_not_listed(self, three: ClusterProcesses) -> None:
        report = {"ip": "127.0.0.1", "port": 1, "state": "UP", "address": "127.0.0.1:1"}
        report["extendInfo"] = {"rollcall": {"capabilities": ["versions"]}}
        headers = {"User-Agent": "Nacos-Server:1.4.8", "Content-Type": "application/json"}
        body = json.dumps(report).encode()
        answer = three.members[0].client.call("POST", "/v1/core/cluster/report", body, headers)
        assert answer.json() == {"code": 403, "message": None, "data": "false", "rollcall": {"listed": False}}

    def test_too_many_wrong_keys_are_not_all_named(self, three: ClusterProcesses) -> None:
        """Real Nacos, the one caller of another kind, logs the text of a refusal whole."""
        body = {KEY + f"wrong-{number}": {"value": {"instanceList": 1}} for number in range(50)}
        answer = put_datum(three.members[0].client, json.dumps(body).encode())
        assert answer.status == 400
        assert answer.body.count(b"wrong-") <= 2 * 10
        assert b"and 40 more keys" in answer.body


class TestBodies:
    @pytest.mark.parametrize(
        ("body", "text"),
        [
            (gzip.compress(b'{"a":1}')[:-9], b"cut short"),
            (b"\x1f\x8bnonsense", b"gzip"),
            (b"{not json", b"not JSON"),
            (b"[]", b"not a JSON object"),
            (b"{}", b"receive empty entity!"),
            (gzip.compress(b"{}"), b"receive empty entity!"),
        ],
    )
    def test_what_cannot_be_read_is_a_bad_request(self, three: ClusterProcesses, body: bytes, text: bytes) -> None:
        answer = put_datum(three.members[0].client, body, GZIP)
        assert answer.status == 400
        assert text in answer.body

    @pytest.mark.parametrize("zipped", [False, True])
    def test_one_bad_key_among_good_ones_fails_alone_and_is_named(self, three: ClusterProcesses, zipped: bool) -> None:
        good, bad = [f"good-{zipped}-{number}" for number in range(2)], f"bad-{zipped}"
        body = {KEY + service: datum(service, "10.2.1.1") for service in (good[0], bad, good[1])}
        body[KEY + bad]["value"]["instanceList"][0]["port"] = "http"
        plain = json.dumps(body).encode()
        answer = put_datum(three.members[0].client, gzip.compress(plain) if zipped else plain)
        assert answer.status == 400
        assert bad.encode() in answer.body
        assert not any(service.encode() in answer.body for service in good)
        for service in good:
            assert set(three.members[0].client.hosts(service)) == {"10.2.1.1:8080"}
        assert three.members[0].client.hosts(bad) == {}


class Mute:
    """A would-be member: its port is open, and it never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> "Mute":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def was_called(self) -> bool:
        self._socket.setblocking(False)
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def answers_live(member: Member) -> bool:
    return member.client.call("GET", "/v1/console/health/liveness").status == 200


class TestStarting:
    def test_a_member_that_still_loads_sends_its_callers_elsewhere(self, make_cluster: StartCluster) -> None:
        with Mute() as mute:
            cluster = make_cluster(1, {"rollcall.distro.load.waitMs": "600000"})
            [member] = cluster
            member.settings["nacos.member.list"] += f",{mute.address}"
            member.start()
            eventually(lambda: answers_live(member))
            client = member.client
            answers = [
                client.register("early", "10.2.2.1"),
                client.deregister("early", "10.2.2.1"),
                client.beat("early", "10.2.2.1"),
                client.call("GET", "/v1/ns/instance/list", serviceName="early"),
                client.call("GET", "/v1/ns/operator/metrics"),
                put_datum(client, json.dumps({KEY + "early": datum("early", "10.2.2.1")}).encode()),
                client.call("GET", "/v1/ns/distro/datums", headers={"User-Agent": "Nacos-Server:1.4.8"}),
            ]
            assert [answer.status for answer in answers] == [503] * len(answers)
            assert {answer.body for answer in answers} == {b"server is STARTING now, please try again later!"}
            assert client.call("GET", "/v1/console/health/readiness").status == 500
            assert client.states()[member.address] == "STARTING"
        # The other one is gone now, and its port refuses: there is nothing to wait for.
        member.wait_ready()
        assert client.register("early", "10.2.2.1").status == 200
        member.stop()

    def test_a_silent_member_delays_the_start_by_three_seconds_at_most(self, make_cluster: StartCluster) -> None:
        with Mute() as mute:
            [member] = make_cluster(1)
            member.settings["nacos.member.list"] += f",{mute.address}"
            member.start()
            eventually(lambda: answers_live(member))
            member.wait_ready(DIRECT_S)
            # The load from the silent one is still under way, and would be for half a minute.
            member.stop()


def test_of_many_keys_that_failed_some_are_told(three: ClusterProcesses) -> None:
    """A short body of keys alone would else be answered with many times its size."""
    target, sender, _ = three.members
    body = json.dumps({f"{KEY}failed-{number}": {} for number in range(3_000)}).encode()
    answer = put_datum(target.client, gzip.compress(body), GZIP | {"Rollcall-Member": sender.address})
    assert (answer.status, len(answer.json()["failed"])) == (200, 1_000)


def test_a_standalone_node_calls_nobody(make_cluster: StartCluster) -> None:
    with Mute() as mute:
        [member] = make_cluster(1, {"nacos.standalone": "true"})
        member.settings["nacos.member.list"] += f",{mute.address}"
        member.start()
        member.wait_ready()
        metadata = '{"preserved.heart.beat.timeout":"500","preserved.ip.delete.timeout":"1000"}'
        assert member.client.register("alone", "10.2.3.1").status == 200
        assert member.client.register("alone", "10.2.3.2", metadata=metadata).status == 200
        # A change by a client, and some by time.
        assert member.client.deregister("alone", "10.2.3.1").status == 200
        eventually(lambda: not member.client.hosts("alone"))
        assert not mute.was_called()
        counters = member.client.metrics()
        engine = ("syncSent", "syncKeys", "verifySent", "queryKeys", "forwardAnswered", "claims")
        assert {name: counters[name] for name in engine} == dict.fromkeys(engine, 0)
        member.stop()
