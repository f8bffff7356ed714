"""Forwarding from the event loop to a real server on loopback; what the client is told, and what was sent for it."""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode

import pytest

from app.auth.signed import SIGNATURE
from app.http.api.answers import MEMBER_REPLIES, NOT_RESPONSIBLE, text_reply
from app.http.api.call import (
    CHANGE,
    CLIENT_ADDRESS,
    CLIENT_AGENT,
    CLOCK,
    DEADLINE,
    DECLINE,
    OK,
    RELAY,
    ROUTES,
    SHORT_CHANGE,
    WANTS_CHANGE,
    Answer,
    Call,
    Forward,
    Reply,
)
from app.http.server.http_messages import head_of
from app.naming.model.events import Origin
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from app.peers import link as member_link
from app.peers import passed_writes as forwarding
from app.peers.link import JAVA_LINKS
from app.peers.link_results import LinkResult, NotSent
from app.peers.owner_forwarder import WaitingCall, unseen_text
from app.peers.passed_writes import ASK_AFTER_S, FORWARD_S_MAX, LoopForwarder
from app.peers.peer_parts import ForwardStats
from distro.model.types import CAPABILITY_WRITES, Datum, Member, MemberState
from tests.support import views
from tests.support.fake_node import SECRET, SELF, FakeNode, StubCluster, make_settings
from tests.support.loops import Asked, MemberServer, SkippingLoop, answer, member_server, run_loop, silent, turns, until
from tests.support.registry_parts import naming_of
from tests.support.tiny_server import refusing_address

FORM = "application/x-www-form-urlencoded"
TO = Forward("DEFAULT_GROUP@@a")
KEY = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@a"
NOT_UP = answer(b"server is STARTING now, please try again later!", 503, [])
GUARD = answer(b'{"message":"receive invalid redirect request from peer 127.0.0.1"}', 400)
NOT_MINE = answer(b"not mine", 400, [(NOT_RESPONSIBLE, "1")])
NO_MEMBER = answer(b"10.9.9.9 is not the address of a listed member", 403, [(NOT_RESPONSIBLE, "1")])


def call(query: str = "serviceName=a", form: bytes = b"", method: str = "POST", **headers: str) -> Call:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Call(method, "/v1/ns/instance", query.encode("latin-1"), named, form, "10.9.9.9")


def not_here() -> Answer:
    raise AssertionError("this node is not responsible")


@dataclass
class Entry:
    """The member that the client called."""

    loop: SkippingLoop
    node: FakeNode = field(default_factory=lambda: FakeNode(cluster=StubCluster(standalone=False)))
    told: list[Answer] = field(default_factory=list)
    listed: list[set[str]] = field(default_factory=list)
    """What was listed here at the moment of each answer."""

    def __post_init__(self) -> None:
        self.stats = self.node.forwarder.stats
        self.forwarder = LoopForwarder(self.node, self.loop, MEMBER_REPLIES)

    @property
    def cluster(self) -> StubCluster:
        return self.node.cluster

    def owned_by(self, *servers: MemberServer | str, own_kind: bool = True) -> None:
        """Make the first of them responsible for everything."""
        addresses = [one if isinstance(one, str) else one.address for one in servers]
        capabilities = frozenset({CAPABILITY_WRITES} if own_kind else ())
        self.cluster.others = [Member(one, MemberState.UP, capabilities) for one in addresses]
        self.cluster.give_to(addresses[0])

    def forward(self, one: Call | None = None, run: Callable[[], Answer] = not_here) -> None:
        self.forwarder.forward(one or call(), TO, run, self._note)

    def _note(self, told: Answer) -> None:
        self.listed.append(self.hosts())
        self.told.append(told)

    def hosts(self) -> set[str]:
        view = self.node.naming.service_view("public", "DEFAULT_GROUP@@a")
        return {one.ip for one in view.instances} if view else set()

    async def answered(self, one: Call | None = None, run: Callable[[], Answer] = not_here) -> Answer:
        """Forward, and return what the client is told, once."""
        count = len(self.told)
        self.forward(one, run)
        await until(lambda: len(self.told) > count)
        await turns(3)
        assert len(self.told) == count + 1
        return self.told[-1]

    async def status(self) -> int:
        told = await self.answered()
        assert isinstance(told, Reply)
        return told.status


# --- what is sent and given back ----------------------------------------------------------------------


def test_our_own_kind_gets_the_call_as_it_came() -> None:
    query = "serviceName=%61+b%7b&x=1&x=2&&=&y&encoding=GBK&z=%&metadata=" + "v" * 9_000

    async def main(loop: SkippingLoop) -> None:
        settings = make_settings(
            nacos_core_auth_server_identity_key="Cluster-Key", nacos_core_auth_server_identity_value=SECRET
        )
        entry = Entry(loop, FakeNode(settings, StubCluster(standalone=False)))
        async with member_server(secret=SECRET) as server:
            entry.owned_by(server)
            headers = {
                "user_agent": "Nacos-Java-Client:v1.4.8",
                "cluster_key": "forged",
                "host": "client-saw-this",
                "connection": "close",
                "transfer_encoding": "chunked",
                "content_length": "5",
                "rollcall_change": "forged",
            }
            await entry.answered(call(query, b"", "DELETE", **headers))
            await entry.answered(call("", b"a=1&b=\xff%zz\r\n\r\n", content_type="text/odd; charset=x", **headers))
            await entry.answered(call("", b"no kind", client_version="Go:v1"))
            entry.forwarder.close()
        first, second, third = server.received
        assert (first.method, first.target, first.body) == ("DELETE", f"/nacos/v1/ns/instance?{query}", b"")
        assert (second.method, second.target) == ("POST", "/nacos/v1/ns/instance")
        assert second.body == b"a=1&b=\xff%zz\r\n\r\n"
        for one in (first, second, third):
            assert one.headers.pop(SIGNATURE).split(" ")[1] == SELF
        own = {
            "host": server.address,
            "user-agent": "Nacos-Server:1.4.8",
            WANTS_CHANGE: SHORT_CHANGE,
            CLIENT_ADDRESS: "10.9.9.9",
        }
        java = {CLIENT_AGENT: "Nacos-Java-Client:v1.4.8"}
        assert first.headers == own | java | {"content-length": "0"}
        assert second.headers == own | java | {"content-length": "14", "content-type": "text/odd; charset=x"}
        assert third.headers == own | {CLIENT_AGENT: "Go:v1", "content-length": "7"}

    run_loop(main)


CALLS = {
    "query": call(
        "serviceName=a&x=1&x=2&%C3%A9=%26+%3D&encoding=GBK&nofix=2", user_agent="Go", authorization="Bearer t"
    ),
    "form": call(
        "ip=1", urlencode({"serviceName": "é &", "ip": "2"}).encode(), content_type=FORM, x_odd="\xfc", host="h"
    ),
    "long": call("x=1", urlencode({"metadata": "é" * 5_000}).encode(), "PUT", content_type=FORM, te="trailers"),
    "empty": call("", user_agent=""),
}


SENT: dict[str, tuple[str, str, bytes, dict[str, str]]] = {
    "query": (
        "POST",
        "?serviceName=a&x=1&%C3%A9=%26+%3D&encoding=UTF-8&nofix=1",
        b"",
        {"authorization": "Bearer t", CLIENT_AGENT: "Go"},
    ),
    "form": ("POST", "?ip=1&serviceName=%C3%A9+%26&encoding=UTF-8&nofix=1", b"", {"x-odd": "\xfc", CLIENT_AGENT: ""}),
    "long": ("PUT", "?encoding=UTF-8&nofix=1", b"x=1&metadata=" + b"%C3%A9" * 5_000, {CLIENT_AGENT: ""}),
    "empty": ("POST", "?encoding=UTF-8&nofix=1", b"", {CLIENT_AGENT: ""}),
}
"""Method, query, body and headers, as they were recorded of a thread's calls over connections of their own."""
SENT_HEADERS = {
    "accept-charset": "UTF-8",
    "accept-encoding": "identity",
    "client-version": "1.4.8",
    "content-type": FORM,
    "request-source": SELF,
    "user-agent": "Nacos-Server:1.4.8",
    CLIENT_ADDRESS: "10.9.9.9",
}


@pytest.mark.parametrize(("waiting", "own_kind"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("name", CALLS)
def test_nacos_gets_its_own_form_and_so_does_anybody_for_whose_answer_a_thread_waits(
    name: str, waiting: bool, own_kind: bool
) -> None:
    method, query, body, headers = SENT[name]

    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server() as server:
            entry.owned_by(server, own_kind=own_kind)
            if waiting:
                call = WaitingCall[Reply](entry.cluster, TO, entry.forwarder.request_maker(CALLS[name]))
                entry.forwarder.forward_waiting(call, FORWARD_S_MAX, hold_first=False)
                await server.wait_for(1)
                await until(call._future.done)
                assert call.wait(0) == Reply(200, b"ok", "text/plain")
            else:
                assert await entry.answered(CALLS[name]) == Reply(200, b"ok", "text/plain")
            entry.forwarder.close()
        (found,) = server.received
        assert (found.method, found.target, found.body) == (method, f"/nacos/v1/ns/instance{query}", body)
        own = {"host": server.address, "content-length": str(len(body))}
        wanted = {WANTS_CHANGE: SHORT_CHANGE} if own_kind else {}
        assert found.headers == SENT_HEADERS | headers | own | wanted

    run_loop(main)


@pytest.mark.parametrize("own_kind", [True, False])
def test_the_answer_is_that_of_the_owner(own_kind: bool) -> None:
    replies = [
        Reply(200, b'{"code":10200}', "application/json;charset=UTF-8"),
        Reply(404, "nicht da: ü".encode(), "text/x"),
        Reply(400, b"Param 'ip' is required.", None),
        Reply(503, b"too many", None),
        Reply(500, b"", None),
        Reply(302, b"", None),
    ]

    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server() as server:
            entry.owned_by(server, own_kind=own_kind)
            for number, reply in enumerate(replies):
                headers = [("x-other", "1")] + ([("content-type", reply.content_type)] if reply.content_type else [])
                server.answer = lambda _, reply=reply, headers=headers: answer(reply.body, reply.status, headers)
                assert await entry.answered() == reply
                assert len(server.received) == number + 1
            entry.forwarder.close()
        assert entry.stats == ForwardStats(forward_answered=len(replies))

    run_loop(main)


# --- another owner ------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_kind", [True, False])
@pytest.mark.parametrize("refusal", [NOT_UP, GUARD, NOT_MINE, NO_MEMBER])
def test_an_owner_that_did_not_execute_is_asked_again(refusal: bytes, own_kind: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        answers = [refusal, refusal, answer()]
        async with member_server(lambda _: answers.pop(0)) as server:
            entry.owned_by(server, own_kind=own_kind)
            assert await entry.status() == 200
            assert len(server.received) == 3
            entry.forwarder.close()
        assert entry.stats == ForwardStats(forward_answered=1, forward_held=2)

    run_loop(main)


@pytest.mark.parametrize("refusal", [NOT_UP, None])
def test_when_the_owner_did_not_execute_the_next_one_gets_the_call(refusal: bytes | None) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(lambda _: refusal) as first, member_server() as second:
            entry.owned_by(first if refusal else refusing_address())
            entry.forward()
            await until(lambda: entry.stats.forward_held)
            entry.owned_by(second)
            await until(lambda: entry.told)
            assert (len(first.received), len(second.received)) == (1 if refusal else 0, 1)
            entry.forwarder.close()

    run_loop(main)


@pytest.mark.parametrize("own_answer", [OK, DECLINE], ids=["answered on the loop", "left to the pool"])
def test_when_this_node_becomes_the_owner_it_executes_the_call(own_answer: Answer) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(lambda _: NOT_UP) as server:
            entry.owned_by(server)
            # The first answer: responsible by the list, but not when the endpoint looked.
            answers: list[Answer] = [TO, own_answer]
            entry.forward(run=lambda: answers.pop(0))
            await server.wait_for(1)
            entry.cluster.give_to(SELF)
            await until(lambda: entry.told)
            assert entry.told == [own_answer]
            assert not answers
            assert len(server.received) == 1
            entry.forwarder.close()
        assert entry.stats == ForwardStats(forward_held=2)

    run_loop(main)


# --- an owner that does not answer --------------------------------------------------------------------


@pytest.mark.parametrize("own_kind", [True, False])
@pytest.mark.parametrize("refusal", [NOT_UP, None])
def test_when_nobody_takes_it_the_client_is_sent_elsewhere(refusal: bytes | None, own_kind: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(lambda _: refusal) as server:
            entry.owned_by(server if refusal else refusing_address(), own_kind=own_kind)
            begun_s = loop.time()
            entry.forward()
            await until(lambda: entry.stats.forward_held)
            loop.skip(FORWARD_S_MAX * 0.9)
            stored = entry.stats.forward_held
            await until(lambda: entry.stats.forward_held > stored)
            assert not entry.told
            loop.skip(FORWARD_S_MAX * 0.1)
            await until(lambda: entry.told)
            expected = f"the responsible member {entry.cluster.owner} does not answer, please try another server"
            assert entry.told == [Reply(503, expected.encode())]
            assert loop.time() - begun_s >= FORWARD_S_MAX
            entry.forwarder.close()
        assert (entry.stats.forward_failed, entry.stats.forward_answered) == (1, 0)

    run_loop(main)


@pytest.mark.parametrize("own_kind", [True, False])
def test_a_silent_owner_costs_the_deadline_and_the_call_is_sent_once(own_kind: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(silent) as server:
            entry.owned_by(server, own_kind=own_kind)
            entry.forward()
            await server.wait_for(1)
            loop.skip(FORWARD_S_MAX * 0.8)
            await turns(5)
            assert not entry.told
            loop.skip(FORWARD_S_MAX * 0.2)
            await until(lambda: entry.told)
            assert entry.told[0] == Reply(
                503, f"the responsible member {server.address} does not answer, please try another server".encode()
            )
            server.received[0].link.transport.write(answer())
            server.answer = lambda _: answer()
            assert await entry.status() == 200
            assert len(server.received) == 2
            assert len(entry.told) == 2
            entry.forwarder.close()
        assert entry.stats == ForwardStats(forward_answered=1, forward_failed=1)

    run_loop(main)


@pytest.mark.parametrize("own_kind", [True, False])
def test_what_was_sent_and_cut_is_not_sent_again(own_kind: bool) -> None:
    def hang_up(asked: Asked) -> None:
        asked.link.transport.abort()

    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(hang_up) as server:
            entry.owned_by(server, own_kind=own_kind)
            assert await entry.status() == 503
            loop.skip(1)
            await turns(10)
            assert len(server.received) == 1
            entry.forwarder.close()
        assert (entry.stats.forward_failed, entry.stats.forward_held) == (1, 0)

    run_loop(main)


# --- bounds -------------------------------------------------------------------------------------------


def test_no_more_than_so_many_calls_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "HELD_MAX", 3)

    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server() as server:
            entry.owned_by(refusing_address())
            for count in (1, 2, 3):
                entry.forward()
                await until(lambda count=count: entry.forwarder.held == count)
            busy = Reply(503, b"too many calls wait for other members, please try another server")
            assert await entry.answered() == busy
            entry.owned_by(server)
            loop.skip(10 * forwarding.HOLD_S)
            await until(lambda: len(entry.told) == 4)
            assert [one.status for one in entry.told if isinstance(one, Reply)] == [503, 200, 200, 200]
            assert await entry.status() == 200, "their places were given back"
            entry.forwarder.close()
        assert entry.stats.forward_busy == 1

    run_loop(main)


def test_no_more_than_so_many_calls_wait_for_one_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_link, "WAITING_MAX", 3)

    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(silent) as server:
            entry.owned_by(server)
            for _ in range(4):
                entry.forward()
            assert [one.status for one in entry.told if isinstance(one, Reply)] == [503]
            assert entry.stats.forward_busy == 1
            entry.forwarder.close()
            await until(lambda: len(entry.told) == 4)

    run_loop(main)


def test_connections_are_few_and_kept() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server() as server:
            for own_kind, links_max in ((True, member_link.PIPELINED_LINKS), (False, JAVA_LINKS)):
                entry = Entry(loop)
                entry.owned_by(server, own_kind=own_kind)
                for round_number in range(1, 4):
                    for _ in range(50):
                        entry.forward()
                    await until(lambda entry=entry, number=round_number: len(entry.told) == 50 * number)
                assert len(server.links) <= links_max
                server.links.clear()
                entry.forwarder.close()
                await turns(3)

    run_loop(main)


def test_connections_to_members_that_left_are_closed_and_who_waits_is_told() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(silent) as gone, member_server() as stays:
            entry.owned_by(gone, own_kind=False)
            for _ in range(JAVA_LINKS + 1):
                entry.forward()
            await gone.wait_for(JAVA_LINKS)
            entry.owned_by(stays)
            entry.forward()
            await until(lambda: len(entry.told) == JAVA_LINKS + 2)
            statuses = sorted(one.status for one in entry.told if isinstance(one, Reply))
            # The last of them was not sent to who left; the new owner got it.
            assert statuses == [200, 200] + [503] * JAVA_LINKS
            assert not gone.open_links
            assert len(stays.received) == 2
            entry.forwarder.close()

    run_loop(main)


def test_closing_leaves_nobody_waiting() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(silent) as server:
            entry.owned_by(server)
            for _ in range(5):
                entry.forward()
            await server.wait_for(5)
            entry.owned_by(refusing_address())
            entry.forward()
            await until(lambda: entry.forwarder.held)
            entry.forwarder.close()
            loop.skip(FORWARD_S_MAX)
            await until(lambda: len(entry.told) == 6)
            assert await entry.status() == 503
            await until(lambda: not server.open_links)
            assert len(server.received) == 5

    run_loop(main)


@pytest.mark.parametrize("names_deadlines", [True, False])
def test_a_request_of_our_own_with_a_deadline_says_when_it_was_made(names_deadlines: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop, FakeNode(make_settings(), StubCluster(standalone=False, names_deadlines=names_deadlines)))
        request = entry.forwarder.requests.request_to_own("PUT", "/v1/x", "10.0.0.2:8848", b"{}", 2_000)
        entry.forwarder.close()
        lines = request.decode().split("\r\n")
        assert (f"{DEADLINE}: 10.0.0.2:8848~1 2000" in lines) == names_deadlines
        assert (f"{CLOCK}: {SELF}~1 5" in lines) == names_deadlines

    run_loop(main)


def test_requests_of_our_own_carry_our_identity() -> None:
    async def main(loop: SkippingLoop) -> None:
        settings = make_settings(
            nacos_core_auth_server_identity_key="Cluster-Key",
            nacos_core_auth_server_identity_value=SECRET,
            server_servlet_contextPath="/other",
        )
        entry = Entry(loop, FakeNode(settings, StubCluster(standalone=False)))
        results: list[LinkResult] = []
        async with member_server(secret=SECRET) as server:
            request = entry.forwarder.requests.request_to_own("PUT", "/v1/x", server.address, b"{}", 2_000)
            entry.forwarder.ask(server.address, request, loop.time() + 2, results.append, own_kind=True)
            await until(lambda: results)
            entry.forwarder.close()
            assert not entry.forwarder.ask(server.address, request, loop.time() + 2, results.append, own_kind=True)
        (found,) = server.received
        assert (found.method, found.target, found.body) == ("PUT", "/other/v1/x", b"{}")
        assert found.headers.pop(SIGNATURE)
        assert found.headers == {
            "host": server.address,
            "user-agent": "Nacos-Server:1.4.8",
            "content-length": "2",
        }

    run_loop(main)


# --- read your own writes -----------------------------------------------------------------------------


class Owner:
    """A member of our own kind that executes what it gets, as its frontend would."""

    def __init__(self) -> None:
        self.node = FakeNode(cluster=StubCluster("127.0.0.2:8848", standalone=False, owner="127.0.0.2:8848"))
        self.registry = Registry.of("127.0.0.2:8848~1")
        self.node.naming = naming_of(self.registry, lambda: self.node.now_ms, self.node.events.append)

    def answer(self, asked: Asked) -> bytes:
        path, _, query = asked.target.partition("?")
        row = next(one for one in ROUTES if (one.method, f"/nacos{one.path}") == (asked.method, path))
        made = Call(
            asked.method, row.path, query.encode("latin-1"), asked.headers, asked.body, "127.0.0.1", on_loop=True
        )
        reply = row.endpoint(made, self.node)
        assert isinstance(reply, Reply)
        return head_of(reply) + b"\r\n" + reply.body

    @property
    def datum(self) -> Datum:
        (found,) = self.registry.lists.datums([KEY])
        return found


def register(ip: str, **more: str) -> Call:
    return call(urlencode({"serviceName": "a", "ip": ip, "port": "80", **more}))


def deregister(ip: str) -> Call:
    return call(urlencode({"serviceName": "a", "ip": ip, "port": "80"}), method="DELETE")


def full_beat(ip: str) -> Call:
    query = {"serviceName": "a", "beat": f'{{"ip":"{ip}","port":80,"cluster":"DEFAULT","weight":1.0}}'}
    return Call("PUT", "/v1/ns/instance/beat", urlencode(query).encode(), {}, b"", "10.9.9.9")


def test_what_was_written_at_the_owner_is_listed_here_before_the_client_is_answered() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry, owner = Entry(loop), Owner()
        async with member_server(owner.answer) as server:
            entry.owned_by(server)
            for one in (
                register("10.0.0.1"),
                full_beat("10.0.0.2"),
                register("10.0.0.3", metadata='{"name":"Zürich \U0001f600"}'),
                deregister("10.0.0.1"),
                register("10.0.0.1", weight="3"),
                register("10.0.0.1", weight="3"),  # changes nothing
                deregister("10.0.0.9"),  # nor does this
                deregister("10.0.0.2"),
            ):
                told = await entry.answered(one)
                assert isinstance(told, Reply)
                assert (told.status, dict(told.headers)) == (200, {}), "the change is for members only"
            entry.forwarder.close()
        one, two, three = "10.0.0.1", "10.0.0.2", "10.0.0.3"
        assert entry.listed == [
            {one}, {one, two}, {one, two, three}, {two, three}, {one, two, three}, {one, two, three}, {one, two, three},
            {one, three},
        ]  # fmt: skip
        held, owned = entry.node.registry, owner.registry
        assert held.lists.version(KEY) == owned.lists.version(KEY)
        assert views.view(held, "public", TO.tag).instances == views.view(owned, "public", TO.tag).instances  # type: ignore[union-attr]
        assert {event.origin for event in entry.node.events if hasattr(event, "origin")} == {Origin.PEER}, (
            "sent on by none"
        )

    run_loop(main)


def test_the_change_in_an_answer_that_waited_here_is_as_old_as_the_answer() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry, owner = Entry(loop), Owner()
        async with member_server(owner.answer) as server:
            entry.owned_by(server)
            clock = owner.node.cluster.stamp()
            entry.cluster.sent[clock.partition("~")[0], clock] = entry.node.now_ms - 16_000
            await entry.answered(register("10.0.0.1"))
            entry.forwarder.close()
        [stored] = entry.node.naming._table.get("public", TO.tag).stored.values()  # type: ignore[union-attr]
        assert stored.changed_ms == entry.node.now_ms - 16_000

    run_loop(main)


def test_an_answer_whose_change_does_not_fit_waits_for_the_owners_send() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry, owner = Entry(loop), Owner()
        async with member_server(owner.answer) as server:
            entry.owned_by(server)
            owner.answer(Asked("POST", "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80", {}, b"", server))  # type: ignore[arg-type]
            entry.forward(register("10.0.0.2"))
            await until(lambda: entry.stats.forward_answered)
            loop.skip(ASK_AFTER_S / 2)
            await turns(5)
            assert not entry.told
            assert entry.hosts() == set(), "a change is never applied without those before it"
            assert entry.node.registry.replication.apply(owner.datum, None, entry.node.now_ms)
            await until(lambda: entry.told)
            assert entry.listed == [{"10.0.0.1", "10.0.0.2"}]
            entry.forwarder.close()

    run_loop(main)


def test_when_the_owners_send_does_not_come_its_list_is_fetched_before_the_answer() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry, owner = Entry(loop), Owner()

        def fetch(peer: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
            assert (peer, keys) == (server.address, (KEY,))
            assert 0 < timeout_ms <= FORWARD_S_MAX * 1_000
            return entry.node.registry.replication.apply(owner.datum, None, entry.node.now_ms)

        entry.node.replication.refresh = fetch  # type: ignore[method-assign]
        async with member_server(owner.answer) as server:
            entry.owned_by(server)
            owner.answer(Asked("POST", "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80", {}, b"", server))  # type: ignore[arg-type]
            entry.forward(register("10.0.0.2"))
            await until(lambda: entry.stats.forward_answered)
            assert not entry.told
            loop.skip(ASK_AFTER_S * 2)
            await until(lambda: entry.told)
            assert entry.told == [Reply(200, b"ok", OK.content_type)]
            assert entry.listed == [{"10.0.0.1", "10.0.0.2"}]
            entry.forwarder.close()

    run_loop(main)


def test_what_cannot_be_read_here_by_the_deadline_is_not_acknowledged() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry, owner = Entry(loop), Owner()
        entry.node.replication.refresh_fails = True
        async with member_server(owner.answer) as server:
            entry.owned_by(server)
            owner.answer(Asked("POST", "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80", {}, b"", server))  # type: ignore[arg-type]
            for ip in ("10.0.0.2", "10.0.0.3"):
                entry.forward(register(ip))
            await until(lambda: entry.stats.forward_answered == 2)
            loop.skip(ASK_AFTER_S * 2)
            await until(lambda: entry.node.replication.refreshed)
            assert not entry.told
            loop.skip(FORWARD_S_MAX)
            await until(lambda: len(entry.told) == 2)
            assert entry.told == [text_reply(503, unseen_text(server.address))] * 2
            assert entry.stats.forward_unseen == 2
            assert set(entry.node.replication.refreshed) == {(server.address, (KEY,))}
            entry.forwarder.close()

    run_loop(main)


def merged(owner: Owner) -> None:
    """Many came from a member that keeps no versions."""
    listed = [{"ip": f"10.0.0.{number}", "port": 80, "serviceName": TO.tag, "app": "DEFAULT"} for number in (3, 4)]
    fields = {"key": KEY, "value": {"instanceList": listed}}
    owner.registry.replication.merge(
        InstanceListCodec(lambda: 0).decode(KEY, fields, owner.node.now_ms), owner.node.now_ms
    )


def emptied(owner: Owner) -> None:
    owner.registry.writes.empty("public", TO.tag, owner.node.now_ms)


MANY: dict[str, tuple[Callable[[Owner], None], Call]] = {
    "registered again": (merged, register("10.0.0.3", weight="1.0")),
    "beaten": (merged, full_beat("10.0.0.3")),
    "deregistered": (emptied, deregister("10.0.0.1")),
}


@pytest.mark.parametrize("name", MANY)
def test_what_changed_with_many_others_is_not_taken_alone(name: str) -> None:
    """The call itself changed nothing, and the one change before it is of more than its instance (R5)."""
    change_many, one = MANY[name]

    async def main(loop: SkippingLoop) -> None:
        entry, owner = Entry(loop), Owner()
        async with member_server(owner.answer) as server:
            entry.owned_by(server)
            for ip in ("10.0.0.1", "10.0.0.2"):
                await entry.answered(register(ip))
            change_many(owner)
            version = owner.registry.lists.version(KEY)
            entry.forward(one)
            await until(lambda: entry.stats.forward_answered == 3)
            await turns(5)
            assert owner.registry.lists.version(KEY) == version, "it changed nothing"
            assert entry.hosts() == {"10.0.0.1", "10.0.0.2"}
            entry.node.registry.replication.apply(
                owner.datum, entry.node.registry.lists.version(KEY), entry.node.now_ms
            )
            await until(lambda: len(entry.told) == 3)
            shown = views.view(owner.registry, "public", TO.tag)
            assert entry.hosts() == {found.ip for found in shown.instances}  # type: ignore[union-attr]
            entry.forwarder.close()

    run_loop(main)


@pytest.mark.parametrize(
    "change", ["", "{", "[]", "{}", '{"key":"k","id":"i","version":"1.0.w","age":-1,"keep":1}', "x" * 5_000]
)
def test_a_change_that_cannot_be_read_does_not_hide_the_answer(change: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server(lambda _: answer(headers=[(CHANGE, change)])) as server:
            entry.owned_by(server)
            assert await entry.answered() == Reply(200, b"ok", None)
            entry.forwarder.close()

    with caplog.at_level(logging.WARNING):
        run_loop(main)
    assert "cannot be read" in caplog.text


def test_answers_leave_no_cycles_behind() -> None:
    """Such as live until the collector of cycles comes, which it hardly ever does."""

    async def main(loop: SkippingLoop) -> None:
        entry, owner = Entry(loop), Owner()
        async with member_server(owner.answer) as server:
            entry.owned_by(server)
            await entry.answered(register("10.0.0.1"))
            gc.collect()
            gc.disable()
            try:
                for number in range(20):
                    await entry.answered(register(f"10.0.1.{number}"))
                assert not [one for one in gc.get_objects() if isinstance(one, forwarding.ForwardedCall)]
            finally:
                gc.enable()
            entry.forwarder.close()

    run_loop(main)


def test_nothing_is_sent_to_a_member_whose_name_cannot_be_resolved(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        results: list[LinkResult] = []
        name = "a" * 64 + ".example:80"
        entry.forwarder.ask(name, b"GET / HTTP/1.1\r\n\r\n", loop.time() + 2, results.append, own_kind=True)
        await until(lambda: results)
        assert results == [NotSent()]
        entry.forwarder.close()

    run_loop(main)


# --- deadlines (R13), and members that cannot be called (R12) ------------------------------------------


@pytest.mark.parametrize("waiting", [False, True])
def test_the_owner_is_told_until_when_the_call_may_be_executed(waiting: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        entry.cluster.names_deadlines = True
        refusals = [NOT_UP, answer()]
        async with member_server(lambda _: refusals.pop(0)) as server:
            entry.owned_by(server)
            if waiting:
                one = WaitingCall[Reply](entry.cluster, TO, entry.forwarder.request_maker(call()))
                entry.forwarder.forward_waiting(one, FORWARD_S_MAX, hold_first=False)
                await until(one._future.done)
            else:
                await entry.answered(call(rollcall_deadline=f"{SELF}~1 1500"))
            entry.forwarder.close()
        first, second = (asked.headers[DEADLINE] for asked in server.received)
        assert first == f"{server.address}~1 {2_000 if waiting else 1_500}", "of a relayed call what is left of its own"
        assert int(second.split()[1]) < int(first.split()[1]), "the second try has less time left"

    run_loop(main)


@pytest.mark.parametrize("waiting", [False, True])
def test_a_call_for_a_member_that_cannot_be_called_goes_through_another_one(waiting: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server() as owner, member_server() as relay:
            entry.owned_by(owner, relay)
            entry.cluster.hops = {owner.address: relay.address}
            if waiting:
                one = WaitingCall[Reply](entry.cluster, TO, entry.forwarder.request_maker(call()))
                entry.forwarder.forward_waiting(one, FORWARD_S_MAX, hold_first=False)
                await until(one._future.done)
                assert (one.member, one.hop) == (owner.address, relay.address)
            else:
                assert await entry.status() == 200
            entry.forwarder.close()
        assert owner.received == []
        assert [asked.headers.get(RELAY) for asked in relay.received] == ["1"]

    run_loop(main)


@pytest.mark.parametrize("waiting", [False, True])
def test_a_call_that_was_passed_on_once_goes_to_its_owner_or_nowhere(waiting: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        relayed = call(rollcall_relay="1", rollcall_wants_change="1", user_agent="Nacos-Server:1.4.8")
        text = '{"key":"k","id":"i","version":"1.0.a:1~1"}'
        change = [("content-type", "text/plain"), (CHANGE, text), (CLOCK, "a:1~1 5")]
        async with member_server(lambda _: answer(headers=change)) as owner, member_server() as relay:
            entry.owned_by(owner, relay)
            if waiting:
                one = WaitingCall[Reply](entry.cluster, TO, entry.forwarder.request_maker(relayed), is_relayed=True)
                entry.forwarder.forward_waiting(one, FORWARD_S_MAX, hold_first=False)
                await until(one._future.done)
            else:
                told = await entry.answered(relayed)
                assert isinstance(told, Reply)
                assert told.headers == {CHANGE: text, CLOCK: "a:1~1 5"}, "for the member that passed it on"
            assert [asked.headers.get(RELAY) for asked in owner.received] == [None]
            entry.cluster.hops = {owner.address: relay.address}
            if not waiting:
                [passed] = owner.received
                assert passed.headers[WANTS_CHANGE] == "1", "the form that the first member reads, whose release it is"
                assert (await entry.answered(relayed)).status == 503  # type: ignore[union-attr]
            entry.forwarder.close()
        assert relay.received == []

    run_loop(main)


def test_without_a_way_to_the_owner_nothing_is_sent_and_the_client_gets_a_503() -> None:
    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        async with member_server() as owner:
            entry.owned_by(owner)
            entry.cluster.hops = {owner.address: None}
            entry.forward()
            loop.skip(FORWARD_S_MAX / 2)
            await turns(5)
            assert entry.told == []
            assert (await_status := await until(lambda: entry.told))
            assert await_status[0].status == 503  # type: ignore[union-attr]
            assert owner.received == []
            entry.forwarder.close()

    run_loop(main)


def test_a_connection_that_is_given_up_is_reset() -> None:
    """Closed in order, the kernel would deliver what it has not sent for up to a minute."""

    async def main(loop: SkippingLoop) -> None:
        entry = Entry(loop)
        resets: list[Exception | None] = []
        async with member_server(silent) as owner:
            entry.owned_by(owner)
            entry.forward()
            await owner.wait_for(1)
            [link] = owner.links
            lost = link.connection_lost
            link.connection_lost = lambda error: (resets.append(error), lost(error))  # type: ignore[method-assign,assignment,func-returns-value]
            loop.skip(FORWARD_S_MAX)
            await until(lambda: resets)
            entry.forwarder.close()
        assert isinstance(resets[0], ConnectionResetError)

    run_loop(main)
