"""The identity of members in front of both ways to an endpoint: whatever a request says, it is decided once."""

from collections.abc import Mapping

import pytest

from app.auth.member_signer import MemberSigner
from app.auth.signed import PROOF, SIGNATURE, identity_of
from distro.model.types import CAPABILITY_SIGNED, CAPABILITY_VERSIONS, Member, MemberState
from tests.support.fake_node import PEER, SECRET, SELF, FakeNode, StubClocks, StubCluster, make_settings
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.served import served
from tests.support.wire import replies_of, request

HEADER = "Cluster-Key"
PEER_IP = PEER.partition(":")[0]
SIGNING = frozenset({CAPABILITY_VERSIONS, CAPABILITY_SIGNED})
REGISTER = "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80"
SPELLINGS = (
    REGISTER,
    REGISTER.replace("instance?", "%69nstance?"),
    "http://x" + REGISTER,
    REGISTER.replace("/v1/ns/instance?", "/v1/ns/api?"),
    "/nacos/v2/ns/instance?serviceName=a&ip=10.0.0.1&port=80",
)
MARKS = (
    "User-Agent: Nacos-Server:v2.2.0",
    "user-agent: x Nacos-Server",
    "ROLLCALL-Wants-Change: 1",
    "rollcall-relay: 1",
)


def identified_node(**settings: str) -> FakeNode:
    settings = {
        "nacos_core_auth_server_identity_key": HEADER,
        "nacos_core_auth_server_identity_value": SECRET,
    } | settings
    cluster = StubCluster(standalone=False, listed={PEER_IP}, others=[Member(PEER, MemberState.UP, SIGNING)])
    return FakeNode(make_settings(**settings), cluster)


class Sender:
    """The peer, which signs what it sends to the node."""

    def __init__(self, node: FakeNode) -> None:
        self.clocks = StubClocks({SELF: (f"{SELF}~1", node.now_ms)})
        self.signer = MemberSigner(PEER, identity_of(node.settings.identity), self.clocks)

    def sign(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        sent = {**headers, **self.signer.headers(SELF, method, target, body, headers)}
        lines = [f"{name}: {value}" for name, value in sent.items()]
        return request(target, method, body, *lines)


@pytest.mark.parametrize("hot", [True, False], ids=["the loop", "Flask"])
@pytest.mark.parametrize("target", SPELLINGS)
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("client_ip", ["10.9.9.9", PEER_IP])
def test_a_clients_call_with_marks_of_members_is_executed_nowhere(
    hot: bool, target: str, mark: str, client_ip: str
) -> None:
    async def main(_: SkippingLoop) -> None:
        node = identified_node()
        with served(node, hot=hot) as one:
            reply = await one.reply(request(target, "POST", b"", mark, "Connection: close"), client_ip)
        assert reply.status == 403
        assert node.naming.service_view("public", "DEFAULT_GROUP@@a") is None
        assert node.http.requests_refused == 1

    run_loop(main)


@pytest.mark.parametrize("hot", [True, False], ids=["the loop", "Flask"])
def test_a_signed_call_is_taken_once_with_its_headers(hot: bool) -> None:
    async def main(_: SkippingLoop) -> None:
        node = identified_node()
        sender = Sender(node)
        marks = {"User-Agent": "Nacos-Server:1.4.8", "Rollcall-Wants-Change": "1", "Connection": "close"}
        signed = sender.sign("POST", REGISTER, b"", marks)
        with served(node, hot=hot) as one:
            taken = await one.reply(signed, PEER_IP)
            again = await one.reply(signed, PEER_IP)
        assert taken.status == 200
        assert "rollcall-change" in {name.lower() for name in taken.headers}
        assert again.status == 401
        names = {name.lower(): value for name, value in again.headers.items()}
        assert names["rollcall-clock"] == f"{SELF}~1 {node.now_ms}"
        assert PROOF in names
        assert (node.callers.stats.signed, node.callers.stats.refused_replayed) == (1, 1)

    run_loop(main)


def test_a_call_that_the_loop_declines_is_decided_once() -> None:
    """A durable write goes from the loop to a thread: its number is used up by then."""

    async def main(_: SkippingLoop) -> None:
        node = identified_node()
        marks = {"User-Agent": "Nacos-Server:1.4.8", "Connection": "close"}
        signed = Sender(node).sign("POST", REGISTER + "&ephemeral=false", b"", marks)
        with served(node) as one:
            assert (await one.reply(signed, PEER_IP)).status == 200
        assert node.http.pooled == 1
        assert node.callers.stats.signed == 1

    run_loop(main)


@pytest.mark.parametrize("hot", [True, False], ids=["the loop", "Flask"])
@pytest.mark.parametrize("signs", [True, False])
def test_datums_are_taken_by_the_secret_from_named_nacos_alone(hot: bool, signs: bool) -> None:
    async def main(_: SkippingLoop) -> None:
        node = identified_node() if signs else identified_node(rollcall_identity_nacosMembers=PEER)
        target, body = "/nacos/v1/ns/distro/datum", b'{"durable":{}}'
        by_value = request(target, "PUT", body, f"{HEADER}: {SECRET}", "Connection: close")
        with served(node, hot=hot) as one:
            assert (await one.reply(by_value, PEER_IP)).status == (403 if signs else 200)
            assert (await one.reply(by_value, "10.9.9.9")).status == 403
            signed = Sender(node).sign("PUT", target, body, {"Connection": "close"})
            assert (await one.reply(signed, PEER_IP)).status == 200
            spoiled = await one.reply(signed.replace(b"durable", b"another"), PEER_IP)
            assert spoiled.status == 403
            assert "rollcall-not-responsible" in {name.lower() for name in spoiled.headers}

    run_loop(main)


@pytest.mark.parametrize("hot", [True, False], ids=["the loop", "Flask"])
@pytest.mark.parametrize("draining", [False, True])
def test_a_member_is_asked_for_the_proof_and_called_on_the_same_connection(hot: bool, draining: bool) -> None:
    async def main(_: SkippingLoop) -> None:
        node = identified_node()
        sender = Sender(node)
        asked = sender.signer.question(SELF)
        assert asked is not None
        lines = [f"{name}: {value}" for name, value in asked.headers.items()]
        with served(node, hot=hot) as one:
            connection = one.connect(PEER_IP)
            one.server.draining = draining
            connection.send(request(asked.target, "GET", b"", *lines))
            await until(lambda: len(replies_of(connection.received)) == 1)
            reply = replies_of(connection.received)[0]
            assert reply.status == 401
            assert asked.is_answered({name.lower(): value for name, value in reply.headers.items()})
            connection.send(sender.sign("PUT", "/nacos/v1/ns/distro/datum", b'{"durable":{}}', {}))
            await until(lambda: len(replies_of(connection.received)) == 2)
            assert replies_of(connection.received)[1].status == 200
        assert (node.callers.stats.proved, node.callers.stats.signed) == (1, 1)

    run_loop(main)


def test_a_large_body_needs_a_signed_head() -> None:
    async def main(_: SkippingLoop) -> None:
        node = identified_node(rollcall_distro_bodyBytesMax=str(16 * 1024 * 1024))
        target, body = "/nacos/v1/ns/distro/datum", b"{" + b" " * (9 * 1024 * 1024) + b"}"
        signed = Sender(node).sign("PUT", target, body, {})
        head = signed.partition(b"\r\n\r\n")[0]
        with served(node) as one:
            known, unknown = one.connect(PEER_IP), one.connect(PEER_IP)
            known.send(head + b"\r\n\r\n")
            assert known.received == b""
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(SIGNATURE.encode())]
            unknown.send(b"\r\n".join(lines) + b"\r\n\r\n")
            assert unknown.statuses() == [413]

    run_loop(main)


@pytest.mark.parametrize("path", ["/distro/datums", "/distro/datum", "/operator/server/status?serverStatus=x"])
def test_standalone_nobody_is_a_member(path: str) -> None:
    async def main(_: SkippingLoop) -> None:
        node = FakeNode(cluster=StubCluster(listed=set()))
        with served(node) as one:
            data = request(f"/nacos/v1/ns{path}", "GET", b"", "Connection: close")
            reply = await one.reply(data)
        assert (reply.status, reply.body) == (403, b"127.0.0.1 is not the address of a listed member")

    run_loop(main)
