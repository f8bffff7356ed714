"""Calls of threads, forwarded over a loop to a real HTTP server on loopback."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from app.auth.signed import SIGNATURE
from app.config.settings import Settings
from app.http.api.answers import MEMBER_REPLIES, NOT_RESPONSIBLE, text_reply
from app.http.api.call import CLIENT_AGENT, OK, Answer, Call, Forward, Reply
from app.peers import link as member_link
from app.peers import owner_forwarder
from app.peers import passed_writes as loop_forwarding
from app.peers.link import JAVA_LINKS
from app.peers.owner_forwarder import OwnerForwarder
from app.peers.passed_writes import LoopForwarder
from app.peers.signed_requests import target_of
from distro.model.types import Member, MemberState
from tests.support.fake_node import SECRET, SELF, FakeNode, StubCluster, StubForwarder, make_settings
from tests.support.loops import loop_thread, on_loop
from tests.support.processes import eventually
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

FORM = "application/x-www-form-urlencoded"
TO = Forward("t")
STARTING = Given(503, b"server is STARTING now, please try again later!", {})
GUARD = Given(400, b'{"message":"receive invalid redirect request from peer 127.0.0.1"}')


@pytest.fixture
def cluster() -> StubCluster:
    return StubCluster(standalone=False)


class Forwarder:
    """An OwnerForwarder with its loop, as a node has them."""

    def __init__(
        self,
        cluster: StubCluster,
        settings: Settings | None = None,
        refresh: Callable[[str, tuple[str, ...], int], bool] | None = None,
    ) -> None:
        self._exit = ExitStack()
        settings = settings or make_settings()
        self.loop = self._exit.enter_context(loop_thread())
        waiting_max = max(1, settings.http_threads // 2)
        self.owner_forwarder = OwnerForwarder(cluster, waiting_max, refresh or no_refresh, text_reply)
        self.stats = self.owner_forwarder.stats
        node = FakeNode(settings, cluster, forwarder=StubForwarder(stats=self.stats))
        self.on_loop = on_loop(self.loop, lambda: LoopForwarder(node, self.loop, MEMBER_REPLIES))
        self.owner_forwarder.attach(self.on_loop)
        self.forward = self.owner_forwarder.forward

    def close(self) -> None:
        """End both, as the worker does."""

        def end() -> None:
            self.owner_forwarder.detach()
            self.on_loop.close()

        if not self.loop.is_closed():
            on_loop(self.loop, end)

    def end(self) -> None:
        self.close()
        self._exit.close()


MakeForwarder = Callable[..., Forwarder]


@pytest.fixture
def make_forwarder(cluster: StubCluster) -> Iterator[MakeForwarder]:
    made: list[Forwarder] = []

    def make(*args: Any) -> Forwarder:
        made.append(Forwarder(cluster, *args))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def forwarder(make_forwarder: MakeForwarder) -> Forwarder:
    return make_forwarder()


@pytest.fixture
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_forwarder, "FORWARD_MS_MAX", 150)
    monkeypatch.setattr(loop_forwarding, "HOLD_S", 0.01)


def call(query: str = "serviceName=a", form: dict[str, str] | None = None, **headers: str) -> Call:
    body = urlencode(form).encode() if form else b""
    return Call("POST", "/v1/ns/instance", query.encode(), {"content-type": FORM} | headers, body, "10.9.9.9")


def no_refresh(member: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
    raise AssertionError("nothing durable was written")


def not_here() -> Answer:
    raise AssertionError("this node is not responsible")


def sent_pairs(received: Received) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(received.target).query, keep_blank_values=True)


def own(cluster: StubCluster, server: TinyServer) -> None:
    cluster.give_to(server.address)
    cluster.others = [Member(server.address, MemberState.UP)]


def at_second_look_up(cluster: StubCluster, change: Callable[[], None]) -> None:
    count = 0

    def on_look_up() -> None:
        nonlocal count
        count += 1
        if count == 2:
            change()

    cluster.on_look_up = on_look_up


# --- what is sent and given back --------------------------------------------------------------------


def test_all_parameters_travel_in_the_query(cluster: StubCluster, forwarder: Forwarder) -> None:
    with tiny_server() as server:
        own(cluster, server)
        forwarder.forward(
            call("serviceName=a&x=1&x=2&encoding=GBK", {"x": "3", "metadata": '{"a":"é&="}'}), TO, not_here
        )
        (received,) = server.received
        forwarder.close()
    assert (received.method, urlsplit(received.target).path) == ("POST", "/nacos/v1/ns/instance")
    # The values were read as GBK here, and are sent in UTF-8.
    assert sent_pairs(received) == [
        ("serviceName", "a"), ("x", "1"), ("metadata", '{"a":"' + "é".encode().decode("gbk") + '&="}'),
        ("encoding", "UTF-8"), ("nofix", "1"),
    ]  # fmt: skip
    assert received.body == b""


def test_headers_are_copied_and_overwritten(cluster: StubCluster, make_forwarder: MakeForwarder) -> None:
    settings = make_settings(
        nacos_core_auth_server_identity_key="Cluster-Key",
        nacos_core_auth_server_identity_value=SECRET,
        rollcall_identity_nacosMembers="127.0.0.1",
    )
    forwarder = make_forwarder(settings)
    headers = {
        "authorization": "Bearer t",
        "user-agent": "Nacos-Java-Client:v1.4.8",
        "host": "client-saw-this:1",
        "connection": "close",
        "transfer-encoding": "chunked",
        "accept-encoding": "gzip",
        "cluster-key": "forged",
        "x y": "no header",
    }
    with tiny_server() as server:
        own(cluster, server)
        forwarder.forward(call(**headers), TO, not_here)
        found = server.received[0].headers
        forwarder.close()
    assert found.pop(SIGNATURE)
    assert found == {
        "host": server.address,
        "authorization": "Bearer t",
        "content-type": FORM,
        "client-version": "1.4.8",
        "user-agent": "Nacos-Server:1.4.8",
        "rollcall-client-address": "10.9.9.9",
        CLIENT_AGENT: "Nacos-Java-Client:v1.4.8",
        "request-source": SELF,
        "accept-charset": "UTF-8",
        "accept-encoding": "identity",
        "cluster-key": SECRET,
        "content-length": "0",
    }


def test_long_parameters_travel_as_a_form() -> None:
    target, body = target_of(call(form={"metadata": "v" * 20_000}))
    assert target == "/nacos/v1/ns/instance?encoding=UTF-8&nofix=1"
    assert body is not None
    assert dict(parse_qsl(body.decode())) == {"serviceName": "a", "metadata": "v" * 20_000}


def test_the_answer_is_that_of_the_owner(cluster: StubCluster, forwarder: Forwarder) -> None:
    with tiny_server(lambda _: Given(404, "nicht da: ü".encode(), {"Content-Type": "text/x"})) as server:
        own(cluster, server)
        assert forwarder.forward(call(), TO, not_here) == Reply(404, "nicht da: ü".encode(), "text/x")
        forwarder.close()
    assert forwarder.stats.forward_answered == 1


@pytest.mark.parametrize(
    ("status", "body"), [(400, b"Param 'ip' is required."), (503, b"too many"), (500, b"x"), (302, b"")]
)
def test_refusals_that_say_nothing_of_execution_are_final(
    cluster: StubCluster, forwarder: Forwarder, status: int, body: bytes
) -> None:
    with tiny_server(lambda _: Given(status, body, {})) as server:
        own(cluster, server)
        assert forwarder.forward(call(), TO, not_here) == Reply(status, body, None)
        assert len(server.received) == 1
        forwarder.close()


def test_connections_are_kept(cluster: StubCluster, forwarder: Forwarder) -> None:
    with tiny_server() as server:
        own(cluster, server)
        for _ in range(5):
            assert forwarder.forward(call(), TO, not_here).status == 200
        assert len({received.connection for received in server.received}) == 1
        forwarder.close()


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    cluster: StubCluster, forwarder: Forwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_link, "IDLE_S", -1.0)
    with tiny_server() as server:
        own(cluster, server)
        for _ in range(3):
            assert forwarder.forward(call(), TO, not_here).status == 200
        assert len({received.connection for received in server.received}) == 3
        forwarder.close()


def test_an_answer_without_end_is_not_read(
    cluster: StubCluster, forwarder: Forwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_link, "ANSWER_BYTES_MAX", 100)
    with tiny_server(lambda _: Given(body=b"x" * 101)) as server:
        own(cluster, server)
        assert forwarder.forward(call(), TO, not_here).status == 503
        forwarder.close()


# --- another owner ------------------------------------------------------------------------------------


NOT_MINE, NO_MEMBER = (Given(status, b"not here", {NOT_RESPONSIBLE: "1"}) for status in (400, 403))


@pytest.mark.parametrize("refusal", [STARTING, GUARD, NOT_MINE, NO_MEMBER])
def test_an_owner_that_did_not_execute_is_asked_again(
    cluster: StubCluster, forwarder: Forwarder, refusal: Given
) -> None:
    answers = [refusal, refusal, Given()]
    with tiny_server(lambda _: answers.pop(0)) as server:
        own(cluster, server)
        assert forwarder.forward(call(), TO, not_here).body == b"ok"
        assert len(server.received) == 3
        forwarder.close()
    assert forwarder.stats.forward_held == 2


def test_when_the_owner_refuses_the_next_one_gets_the_call(cluster: StubCluster, forwarder: Forwarder) -> None:
    with tiny_server() as server:
        cluster.give_to(refusing_address())
        at_second_look_up(cluster, lambda: own(cluster, server))
        assert forwarder.forward(call(), TO, not_here).body == b"ok"
        forwarder.close()
    assert forwarder.stats.forward_held == 1


def test_when_this_node_becomes_the_owner_it_executes_the_call(cluster: StubCluster, forwarder: Forwarder) -> None:
    cluster.give_to(refusing_address())
    at_second_look_up(cluster, lambda: cluster.give_to(SELF))
    answers: list[Answer] = [Forward("t"), OK]
    # The first answer: responsible by the list, but not when the endpoint looked.
    assert forwarder.forward(call(), TO, lambda: answers.pop(0)) is OK


def test_an_error_of_the_own_endpoint_is_passed_up(cluster: StubCluster, forwarder: Forwarder) -> None:
    cluster.give_to(SELF)
    with pytest.raises(AssertionError, match="not responsible"):
        forwarder.forward(call(), TO, not_here)
    assert forwarder.forward(call(), TO, lambda: OK) is OK, "the place under way was given back"


@pytest.mark.usefixtures("short_deadline")
def test_when_nobody_takes_it_the_client_is_sent_elsewhere(cluster: StubCluster, forwarder: Forwarder) -> None:
    cluster.give_to(refusing_address())
    reply = forwarder.forward(call(), TO, not_here)
    expected = f"the responsible member {cluster.owner} does not answer, please try another server"
    assert (reply.status, reply.body.decode()) == (503, expected)
    assert forwarder.stats.forward_failed == 1
    assert forwarder.stats.forward_held > 1


@pytest.mark.usefixtures("short_deadline")
@pytest.mark.parametrize("given", [Given(hang_up=True), Given(drip_s=0.02)])
def test_what_was_sent_is_never_sent_again(cluster: StubCluster, forwarder: Forwarder, given: Given) -> None:
    with tiny_server(lambda _: given) as server:
        own(cluster, server)
        reply = forwarder.forward(call(), TO, not_here)
        assert (reply.status, server.address in reply.body.decode()) == (503, True)
        assert len(server.received) == 1
        forwarder.close()


@pytest.mark.usefixtures("short_deadline")
def test_a_silent_owner_costs_the_deadline_and_no_more(cluster: StubCluster, forwarder: Forwarder) -> None:
    with tiny_server() as server:
        server.answer = lambda _: Given(hang_up=server.stopped.wait(10))
        own(cluster, server)
        assert forwarder.forward(call(), TO, not_here).status == 503
        assert not server.stopped.is_set()
        assert len(server.received) == 1
        forwarder.close()


# --- bounds -------------------------------------------------------------------------------------------


def run_many(count: int, forward: Callable[[], Reply], meanwhile: Callable[[], None]) -> list[Reply]:
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(forward) for _ in range(count)]
        meanwhile()
        return [future.result() for future in futures]


def test_no_more_than_a_few_calls_to_one_member_at_once(cluster: StubCluster, forwarder: Forwarder) -> None:
    with tiny_server() as server:

        def answer(_: Received) -> Given:
            server.wait_for(JAVA_LINKS)
            return Given()

        server.answer = answer
        own(cluster, server)
        replies = run_many(
            JAVA_LINKS + 4,
            lambda: forwarder.forward(call(), TO, not_here),
            lambda: server.wait_for(JAVA_LINKS),
        )
        assert {reply.status for reply in replies} == {200}
        assert len({received.connection for received in server.received}) <= JAVA_LINKS
        forwarder.close()


def test_half_of_the_threads_never_wait_for_other_members(cluster: StubCluster, make_forwarder: MakeForwarder) -> None:
    forwarder = make_forwarder(make_settings(rollcall_http_threads="4"))
    refused: list[Reply] = []
    over = threading.Event()
    with tiny_server() as server:
        own(cluster, server)

        def one_too_many() -> None:
            server.wait_for(2)
            refused.append(forwarder.forward(call(), TO, not_here))
            over.set()

        def answer(_: Received) -> Given:
            over.wait(5)
            return Given()

        server.answer = answer
        replies = run_many(2, lambda: forwarder.forward(call(), TO, not_here), one_too_many)
        forwarder.close()
    assert [reply.status for reply in replies] == [200, 200]
    assert (refused[0].status, forwarder.stats.forward_busy) == (503, 1)


def test_connections_to_members_that_left_are_closed(cluster: StubCluster, forwarder: Forwarder) -> None:
    with tiny_server() as first, tiny_server() as second:
        own(cluster, first)
        forwarder.forward(call(), TO, not_here)
        own(cluster, second)
        forwarder.forward(call(), TO, not_here)
        assert list(forwarder.on_loop._in_turn) == [second.address]
        forwarder.close()
        assert forwarder.on_loop._in_turn == {}
        late = forwarder.forward(call(), TO, not_here)
        assert (late.status, late.body) == (503, b"server is DOWN now, please try again later!")
        assert len(second.received) == 1


@pytest.mark.parametrize(("answer", "fetches"), [(Given(), True), (Given(400, b"bad"), False)])
def test_what_a_durable_write_changed_is_fetched_before_the_answer(
    cluster: StubCluster, make_forwarder: MakeForwarder, answer: Given, fetches: bool
) -> None:
    fetched: list[tuple[str, tuple[str, ...]]] = []

    def refresh(member: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
        assert 0 < timeout_ms <= owner_forwarder.FORWARD_MS_MAX
        fetched.append((member, keys))
        return True

    forwarder = make_forwarder(make_settings(), refresh)
    with tiny_server(lambda _: answer) as server:
        own(cluster, server)
        status = forwarder.forward(call(), Forward("t", ("key",)), not_here).status
        forwarder.close()
    assert status == answer.status
    assert fetched == ([(server.address, ("key",))] if fetches else []), "a refused write changed nothing"


@pytest.mark.parametrize(("failures", "status"), [(1, 200), (99, 503)])
def test_a_durable_write_that_cannot_be_read_here_is_not_acknowledged(
    cluster: StubCluster, make_forwarder: MakeForwarder, failures: int, status: int
) -> None:
    tries: list[str] = []

    def refresh(member: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
        tries.append(member)
        return len(tries) > failures

    forwarder = make_forwarder(make_settings(), refresh)
    with tiny_server(lambda _: Given()) as server:
        own(cluster, server)
        reply = forwarder.forward(call(), Forward("t", ("key",)), not_here)
        forwarder.close()
    assert reply.status == status
    assert tries == [server.address] * 2
    if status == 503:
        assert reply.body.decode() == owner_forwarder.unseen_text(server.address)
    assert forwarder.stats.forward_unseen == (status == 503)


# --- the end of the loop --------------------------------------------------------------------------------


def test_threads_that_wait_when_the_loop_ends_are_answered_at_once(cluster: StubCluster, forwarder: Forwarder) -> None:
    refusing = refusing_address()
    with tiny_server() as server, ThreadPoolExecutor(2) as pool:
        server.answer = lambda _: Given(hang_up=server.stopped.wait(20))
        cluster.others = [Member(one, MemberState.UP) for one in (server.address, refusing)]
        cluster.map_srv_durable = {"sent": server.address, "held": refusing}.__getitem__  # type: ignore[method-assign]
        calls = [Forward(tag, ("key",)) for tag in ("sent", "held")]
        futures = [pool.submit(forwarder.forward, call(), to, not_here) for to in calls]
        server.wait_for(1)
        eventually(lambda: forwarder.stats.forward_held, 10)
        forwarder.close()
        texts = [future.result(10).body.decode() for future in futures]
        assert not server.stopped.is_set()
    silent = "the responsible member {} does not answer, please try another server"
    assert texts == [silent.format(server.address), silent.format(refusing)]
    assert len(server.received) == 1


def test_a_call_to_which_the_loop_does_not_come_in_time_is_never_sent(
    cluster: StubCluster, forwarder: Forwarder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_forwarder, "FORWARD_MS_MAX", 50)
    monkeypatch.setattr(owner_forwarder, "LATE_S", 0.05)
    go_on = threading.Event()
    with tiny_server() as server:
        own(cluster, server)
        forwarder.loop.call_soon_threadsafe(go_on.wait, 20)
        try:
            reply = forwarder.forward(call(), TO, not_here)
        finally:
            go_on.set()
        assert (reply.status, server.address in reply.body.decode()) == (503, True)
        on_loop(forwarder.loop, lambda: None)
        assert not forwarder.on_loop._in_turn
        assert server.received == []


@pytest.mark.parametrize("closed", [False, True], ids=["no loop yet", "a loop that was closed"])
def test_without_a_loop_calls_are_refused_as_by_a_member_that_is_down(
    cluster: StubCluster, make_forwarder: MakeForwarder, closed: bool
) -> None:
    if closed:
        ended = make_forwarder()
        ended.end()
        found = ended.owner_forwarder
        found.attach(ended.on_loop)
    else:
        found = OwnerForwarder(cluster, 1, no_refresh, text_reply)
    assert found.forward(call(), TO, not_here) == text_reply(503, "server is DOWN now, please try again later!")
    found.detach()
    found.detach()
