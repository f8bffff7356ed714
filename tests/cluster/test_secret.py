"""The members' secret, and what clients entrust to members, go to nobody who has not proven that it is a member."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path

import pytest

from app.auth.signed import QUESTION_TARGET
from tests.cluster.conftest import StartCluster
from tests.support.nacos_peer import NacosPeer
from tests.support.processes import FAST, PORT_OFFSETS, ClusterProcesses, Member, eventually, free_ports
from tests.support.sdk_client import run_client
from tests.support.sniffer import Sniffer, forms_of, sniffing
from tests.support.tiny_server import Given, Received, TinyServer, tiny_server

SECRET = secrets.token_urlsafe(18) + "+/=%&"
IDENTITY = {
    "nacos.core.auth.server.identity.key": "Cluster-Key",
    "nacos.core.auth.server.identity.value": SECRET,
}
MEMBERS_CALL = {"User-Agent": "Nacos-Server:1.4.8"}
ASKED_OFTEN = 6


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextmanager
def nothing_of_the_secret_is_sent(cluster: ClusterProcesses, *more: int) -> Iterator[Sniffer]:
    """Watch all ports of the members, and ``more``, and look for the secret in all that was sent."""
    ports = {port_of(one.address) + offset for one in cluster for offset in PORT_OFFSETS} | set(more)
    with sniffing(frozenset(ports)) as sniffer:
        yield sniffer
        flows = sniffer.end()
    assert sum(len(sent) for sent in flows.values()) > 10_000, "nothing was seen"
    assert any(b"rollcall-signature: 1 " in sent.lower() for sent in flows.values()), "members sign their calls"
    for flow, sent in flows.items():
        for form in forms_of(SECRET):
            assert form not in sent, f"{form!r} went from port {flow[0]} to {flow[1]}"


def pretend(received: Received) -> Given:
    """What a member of the same kind answers, but for the proof."""
    if received.target.startswith("/nacos/v1/core/cluster/report"):
        own = json.loads(received.body)
        return Given(body=json.dumps({"code": 200, "message": None, "data": "true", "rollcall": own}).encode())
    return Given(200, b"{}", {"Content-Type": "application/json", "Rollcall-Clock": "x 1", "Rollcall-Proof": "x"})


def refuse(_: Received) -> Given:
    """What a member answers that wants the call signed anew."""
    return Given(401, b"again", {"Rollcall-Clock": "127.0.0.1:1~1 1", "Rollcall-Proof": "AAAA"})


def was_asked_alone(imposter: TinyServer) -> None:
    """Nobody has sent it anything but the question that it cannot answer."""
    targets = {(one.method, one.target, one.body) for one in imposter.received}
    assert targets == {("GET", QUESTION_TARGET, b"")}, targets
    for one in imposter.received:
        assert one.headers.keys() <= {"host", "rollcall-signature"}, one.headers


def test_a_cold_start_sends_nothing_of_it(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, {**FAST, **IDENTITY})
    with nothing_of_the_secret_is_sent(cluster):
        cluster.start()
        for owner in cluster:
            service = cluster.service_of(owner, "cold")
            for number, member in enumerate(cluster):
                assert member.client.register(service, "10.0.0.1", number + 1).status == 200
            eventually(partial(cluster.all_list, service, {f"10.0.0.1:{port}" for port in (1, 2, 3)}))
        assert cluster.members[0].client.register("kept", "10.0.0.2", ephemeral="false").status == 200
        eventually(lambda: cluster.all_list("kept", {"10.0.0.2:8080"}))
        cluster.members[1].stop()
        cluster.members[1].restart()
        eventually(lambda: all(cluster.all_up(one) for one in cluster))


@pytest.mark.parametrize("answer", [pretend, refuse], ids=["pretends", "asks again"])
def test_an_imposter_at_a_stopped_members_port_is_sent_nothing(make_cluster: StartCluster, answer: object) -> None:
    assert callable(answer)
    cluster = make_cluster(3, {**FAST, **IDENTITY})
    cluster.start()
    victim, other, third = cluster.members
    service = cluster.service_of(victim, "imposter")
    with ExitStack() as stack:
        stack.enter_context(nothing_of_the_secret_is_sent(cluster))
        victim.kill_all()
        port = port_of(victim.address)
        # The ports are free when the others have closed their ends of its connections.
        http = eventually(lambda: stack.enter_context(tiny_server(answer, port)))
        grpc = eventually(lambda: stack.enter_context(tiny_server(answer, port + 1_001)))
        for number in range(ASKED_OFTEN):
            # The victim still owns the service: the others would pass the write on to it.
            with contextlib.suppress(HTTPException):
                other.client.register(service, "10.0.0.1", number + 1)
                other.client.register(f"kept-{number}", "10.0.0.2", ephemeral="false")
        http.wait_for(ASKED_OFTEN)
        eventually(lambda: other.client.states()[victim.address] == "DOWN")
        third.kill_worker()  # it loads anew, with the imposter in its list
        eventually(lambda: third.client.call("GET", "/v1/console/health/readiness").status == 200)
        was_asked_alone(http)
        assert all(one.target == "*" or one.target == QUESTION_TARGET for one in grpc.received)
    assert f"{victim.address} does not prove that it knows the members' secret" in other.log_text()
    assert "rollcall.identity.nacosMembers" in other.log_text()
    victim.restart()
    eventually(lambda: all(cluster.all_up(one) for one in cluster))


def test_an_imposter_over_grpc_is_asked_alone_and_named_nacos_gets_the_secret(tmp_path: Path) -> None:
    port, peer_port = free_ports(2)
    address, settings = f"127.0.0.1:{peer_port}", {**FAST, **IDENTITY, "rollcall.announce": "false"}
    ours = Member(port, tmp_path / "ours", {"nacos.member.list": f"127.0.0.1:{port},{address}", **settings})

    async def meets(named: bool) -> None:
        async with NacosPeer(peer_port, port) as peer:
            if named:
                await peer.wait(lambda: peer.connections)
            else:
                await asyncio.to_thread(eventually, lambda: len(peer.calls) >= 3)
                assert peer.connections == 0
                assert {kind for kind, _ in peer.calls} == {"ServerCheckRequest"}
            secrets_sent = {headers.get(IDENTITY["nacos.core.auth.server.identity.key"]) for _, headers in peer.calls}
            assert secrets_sent == ({SECRET} if named else {None})

    try:
        ours.restart()
        run_client(lambda: meets(named=False))
        ours.stop()
        ours.settings["rollcall.identity.nacosMembers"] = address
        ours.restart()
        run_client(lambda: meets(named=True))
    finally:
        ours.end()


def test_an_address_that_a_list_adds_is_sent_nothing(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, {**FAST, **IDENTITY})
    [port] = free_ports(1)
    listed = [one.address for one in cluster]
    for member in cluster:
        del member.settings["nacos.member.list"]
        (member.conf / "cluster.conf").write_text("\n".join(listed))
    cluster.start()
    with nothing_of_the_secret_is_sent(cluster, port), tiny_server(pretend, port) as imposter:
        for member in cluster:
            replace(member.conf / "cluster.conf", "\n".join([*listed, imposter.address]))
        imposter.wait_for(ASKED_OFTEN)
        eventually(lambda: all(one.client.states()[imposter.address] == "DOWN" for one in cluster))
        was_asked_alone(imposter)


def test_an_address_that_the_address_server_adds_is_sent_nothing(make_cluster: StartCluster) -> None:
    answer = Given()
    with ExitStack() as stack:
        server = stack.enter_context(tiny_server(lambda _: answer))
        host, _, server_port = server.address.rpartition(":")
        by_server = {
            "nacos.core.member.lookup.type": "address-server",
            "address.server.domain": host,
            "address.server.port": server_port,
        }
        cluster = make_cluster(3, {**FAST, **IDENTITY, **by_server})
        listed = [one.address for one in cluster]
        answer = Given(body="\n".join(listed).encode())
        [port] = free_ports(1)
        stack.enter_context(nothing_of_the_secret_is_sent(cluster, port))
        cluster.start()
        imposter = stack.enter_context(tiny_server(pretend, port))
        answer = Given(body="\n".join([*listed, imposter.address]).encode())
        imposter.wait_for(ASKED_OFTEN)
        was_asked_alone(imposter)


def replace(path: Path, text: str) -> None:
    """Write a file in one step, as editors and orchestrators do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)
