"""Whatever the event loop answers itself, Flask in its pool answers with the same bytes."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.naming.model.keys import EPHEMERAL_PREFIX
from app.naming.registry.operations import RegisterInstance
from distro.model.errors import CodecError, NotInitialized
from distro.model.types import MemberState
from tests.conformance.compare import Target
from tests.conformance.replay import Call, Scenario, call_of, load
from tests.conformance.test_conformance import AREAS
from tests.property.test_abuse_property import NAMES, agents, bodies, forms, types
from tests.support.fake_node import FakeNode
from tests.support.loops import run_loop, until
from tests.support.served import Served, served
from tests.support.wire import Wire

TARGET = Target("127.0.0.1", 8848)
DATE = re.compile(rb"\r\nDate: [^\r]+\r\n")
COOKIE = re.compile(rb"(\r\nSet-Cookie: [^=\r]+=)[^;\r]+")
FORM_TOKEN = re.compile(rb'(name="form" value=")[^"]+')
"""Made from the cookie."""
"""The console gives each browser another one."""
LIST_A = "/v1/ns/instance/list?serviceName=a"
FORM = "application/x-www-form-urlencoded"
HOT = [
    *(("POST", "/v1/ns/instance"), ("DELETE", "/v1/ns/instance"), ("PUT", "/v1/ns/instance/beat")),
    *(("GET", "/v1/ns/instance/list"), ("GET", "/v1/ns/api/list"), ("PUT", "/v1/ns/distro/datum")),
    *(("PUT", "/v1/ns/distro/checksum"), ("PUT", "/v1/ns/distro/beats")),
]


def wire_of(call: Call, *more: str) -> bytes:
    """The bytes of a request, after which the connection ends."""
    lines = [f"{call.method} {call.target} HTTP/1.1", "Host: 127.0.0.1:8848", *more, "Connection: close"]
    head = "".join(f"{line}\r\n" for line in lines).encode()
    return head + b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in call.headers) + b"\r\n" + (
        call.payload or b""
    )  # fmt: skip


def ask(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request of our own; ``User_Agent`` means ``User-Agent``."""
    named = {name.replace("_", "-"): value.encode() for name, value in headers.items()}
    if body:
        named["Content-Length"] = b"%d" % len(body)
    return wire_of(Call(method, f"/nacos{path}", tuple(named.items()), body))


class BothWays:
    """Two frontends with the same past: one with the hot routes on its loop, and one that leaves all to Flask."""

    def __init__(self, hot: Served, cold: Served) -> None:
        self._both = (hot, cold)

    def each(self, change: Callable[[FakeNode], object]) -> None:
        """Change something behind both frontends."""
        for one in self._both:
            change(one.node)

    async def same(self, data: bytes, client_ip: str = "127.0.0.1") -> bytes:
        """Return the answer of both, without its date and the value of a cookie, which is in forms, too."""
        answers = [await one.ask(data, client_ip) for one in self._both]
        hot, cold = [FORM_TOKEN.sub(rb"\1", COOKIE.sub(rb"\1", DATE.sub(b"\r\n", one))) for one in answers]
        assert hot == cold, f"to {data!r}\non the loop: {hot!r}\nby Flask:    {cold!r}"
        assert hot.startswith(b"HTTP/1.1 ")
        return hot

    @property
    def pooled(self) -> tuple[int, int]:
        """How many calls each has handed to Flask."""
        hot, cold = (one.node.http.pooled for one in self._both)
        return hot, cold

    @property
    def refused(self) -> int:
        """How many requests did not get as far as either way."""
        [refused] = {one.node.http.requests_refused for one in self._both}
        return refused


def run(
    *steps: bytes, nodes: Callable[[], FakeNode] = FakeNode, client_ip: str = "127.0.0.1", by_flask: int = 0,
    refused: int = 0,
) -> list[bytes]:  # fmt: skip
    """Send requests one after the other; return the answers. All but so many must have been answered on the loop.

    ``refused``: so many are refused before either way, as they are members' by their word alone.
    """

    async def main(_: object) -> list[bytes]:
        with served(nodes()) as hot, served(nodes(), hot=False) as cold:
            both = BothWays(hot, cold)
            answers = [await both.same(data, client_ip) for data in steps]
            assert both.pooled == (by_flask, len(steps) - refused)
            return answers

    return run_loop(main)


# --- what was recorded ------------------------------------------------------------------------------


@pytest.fixture
def known_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one thing that is random in an answer: the id of a namespace for which none is given."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=0x4D4D, version=4))


def requests_of(scenario: Scenario, number: int) -> Iterator[tuple[bytes, int]]:
    """Yield each request, and how many ms to wait before it."""
    variables = TARGET.variables(f"k{number}") | {"NOW": "1700000000123"}
    for step in scenario.steps:
        yield wire_of(call_of(TARGET, step, variables)), int(step.get("sleep_s", 0) * 1_000)


async def replay(scenarios: Iterable[Scenario]) -> tuple[int, int, int]:
    """Send all to both; return how many calls each handed to Flask, and how many requests were refused before that."""
    with served() as hot, served(hot=False) as cold:
        both = BothWays(hot, cold)
        for number, scenario in enumerate(scenarios):
            for data, wait_ms in requests_of(scenario, number):
                both.each(lambda node, wait_ms=wait_ms: setattr(node, "now_ms", node.now_ms + wait_ms))  # type: ignore[misc]
                await both.same(data)
        return *both.pooled, both.refused


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.usefixtures("known_ids")
def test_recorded_conversations(area: str) -> None:
    scenarios = load([area])
    declined, by_flask, refused = run_loop(lambda _: replay(scenarios))
    assert by_flask + refused == sum(len(one.steps) for one in scenarios)
    assert declined <= by_flask


@pytest.mark.usefixtures("known_ids")
def test_the_loop_answers_what_is_hot() -> None:
    scenarios = load(["beat", "list", "register", "deregister"])
    declined, by_flask, _ = run_loop(lambda _: replay(scenarios))
    assert declined < by_flask / 3


# --- what real servers were not asked ---------------------------------------------------------------


def filled_node() -> FakeNode:
    node = FakeNode()
    for number in range(100):
        node.naming.register(RegisterInstance("DEFAULT_GROUP@@full", f"10.0.0.{number}", 80, metadata={"k": "v" * 50}))
    return node


LIST_FULL = "/v1/ns/instance/list?serviceName=full"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Accept_Encoding": "gzip"},
        {"Accept_Encoding": "gzip;q=0, deflate"},
        {"Accept_Encoding": "*"},
        {"User_Agent": "Nacos-Java-Client:v1.4.1", "Accept_Encoding": "gzip, deflate"},
    ],
)
def test_a_long_list_and_what_the_client_accepts(headers: dict[str, str]) -> None:
    asked = ask("GET", LIST_FULL, **headers)

    async def main(_: object) -> None:
        with served(filled_node()) as hot, served(filled_node(), hot=False) as cold:
            both = BothWays(hot, cold)
            first = await both.same(asked)
            assert await both.same(asked) == first
            assert both.pooled[0] < 2, "what is kept is answered on the loop"

    run_loop(main)


INSTANCE = "?serviceName=a&ip=10.0.0.1&"
TARGETS = [
    *("", "?", "?&&=&", "?serviceName", "?serviceName=", "?serviceName=%zz", "?serviceName=%ff%fe"),
    *("?serviceName=a%00", "?serviceName=a&serviceName=b", "?servicename=a", "?serviceName=%E6%9D%AD"),
    *("?serviceName=a+b", "?serviceName=a;ip=1", "#fragment", f"{INSTANCE}port=80#fragment"),
    *(f"{INSTANCE}port=80&encoding=GBK", f"{INSTANCE}port=080", f"{INSTANCE}port=+80", f"{INSTANCE}port=8%30"),
    INSTANCE + urlencode({"beat": '{"ip":"10.0.0.1","port":80,"serviceName":"g@@b"}'}),
    INSTANCE + urlencode({"port": 80, "metadata": '{"a":"b","a":"c"}'}),
    '?serviceName=a&beat={"ip":"10.0.0.1","port":80}',
]
FORMS = [
    *(b"", b"&", b"ip=10.0.0.1&port=80", b"ip=%b5", b"\xff\xfe"),
    b'beat={"ip":"10.0.0.1","port":80,"a b":"\xe6\x9d\xad"}',
]


@pytest.mark.parametrize("query", TARGETS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
def test_odd_targets(method: str, query: str) -> None:
    path = {"GET": "/v1/ns/instance/list", "PUT": "/v1/ns/instance/beat"}.get(method, "/v1/ns/instance")
    odd = ask(method, path + query)
    run(odd, odd, ask("GET", LIST_A), by_flask=2 if query == "#fragment" else 0)


@pytest.mark.parametrize(
    "kind", [FORM, f"{FORM};charset=GBK", f"{FORM}; charset=x", "text/plain", "application/json", ""]
)
@pytest.mark.parametrize("body", FORMS)
def test_odd_forms(body: bytes, kind: str) -> None:
    headers = {"Content_Type": kind} if kind else {}
    run(
        ask("POST", "/v1/ns/instance?serviceName=a", body, **headers),
        ask("PUT", "/v1/ns/instance/beat?serviceName=a", body, **headers),
        ask("GET", LIST_A),
        ask("DELETE", "/v1/ns/instance?serviceName=a", body, **headers),
    )


def test_a_form_in_chunks() -> None:
    body = b"4\r\nip=1\r\n12\r\n0.0.0.1&port=80&a=\r\n0\r\nUser-Agent: Nacos-Server\r\n\r\n"
    head = b"POST /nacos/v1/ns/instance?serviceName=a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    sent = head + b"Transfer-Encoding: chunked\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n" + body
    [answer] = run(sent)
    assert answer.endswith(b"\r\n\r\nok")


@pytest.mark.parametrize("state", [MemberState.STARTING, MemberState.DOWN])
@pytest.mark.parametrize("agent", ["Nacos-Java-Client:v1.4.1", "Nacos-Server:1.4.8"])
def test_a_node_that_does_not_serve(state: MemberState, agent: str) -> None:
    def starting() -> FakeNode:
        node = FakeNode()
        node.cluster.own_state = state
        return node

    target = "?serviceName=a&ip=10.0.0.1&port=80"
    run(*(ask(method, path + target, User_Agent=agent) for method, path in HOT[:5]), nodes=starting)


@pytest.mark.parametrize("failure", [None, CodecError("no datum"), NotInitialized()])
@pytest.mark.parametrize("client_ip", ["127.0.0.1", "10.9.9.9"])
def test_calls_of_members(failure: Exception | None, client_ip: str) -> None:
    def failing() -> FakeNode:
        node = FakeNode()
        node.replication.failure = failure
        return node

    agent = {"User_Agent": "Nacos-Server:1.4.8", "Content_Type": "application/json"}
    run(
        ask("PUT", "/v1/ns/distro/datum", b'{"%b":{}}' % f"{EPHEMERAL_PREFIX}public##G@@a".encode(), **agent),
        ask("PUT", "/v1/ns/distro/datum", b'{"durable":{}}', **agent),
        ask("PUT", "/v1/ns/distro/datum", b"\x1f\x8b broken", **agent),
        ask("PUT", "/v1/ns/distro/checksum?source=127.0.0.2:8848", b'{"a":"b"}', **agent),
        ask("PUT", "/v1/ns/distro/checksum", b"", **agent),
        ask("PUT", "/v1/ns/distro/beats", b'{"a":{"b":1}}', **agent),
        ask("PUT", "/v1/ns/distro/beats", b"[", **agent),
        nodes=failing,
        client_ip=client_ip,
        by_flask=2 if client_ip == "127.0.0.1" else 0,
        refused=0 if client_ip == "127.0.0.1" else 7,
    )


def test_what_nobody_foresaw(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret of the inside")

    def breaking() -> FakeNode:
        node = FakeNode()
        node.naming.service_view = broken  # type: ignore[assignment, method-assign]
        return node

    [answer] = run(ask("GET", LIST_A), nodes=breaking)
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"secret" not in answer
    assert caplog.text.count("RuntimeError: a secret of the inside") == 2


def test_how_a_connection_goes_on() -> None:
    async def main(_: object) -> None:
        with served() as hot, served(hot=False) as cold:
            for more in (b"", b"Connection: keep-alive\r\n", b"Connection: close\r\n"):
                lines = b"Host: x\r\n" + more
                for version in (b"1.1", b"1.0"):
                    sent = b"GET /nacos/v1/ns/instance/list?serviceName=a HTTP/" + version + b"\r\n" + lines + b"\r\n"
                    received = []
                    for one in (hot, cold):
                        wire = one.connect()
                        wire.send(sent * 2)
                        await _answered(wire)
                        received.append((DATE.sub(b"\r\n", wire.received), wire.transport.closing))
                    assert received[0] == received[1]
                    assert received[0][0].count(b"HTTP/1.1 200 OK") == (1 if received[0][1] else 2)

    run_loop(main)


async def _answered(wire: Wire) -> None:
    await until(lambda: wire.transport.closing or wire.received.count(b"HTTP/1.1 200 OK") == 2)


# --- what nobody would ask --------------------------------------------------------------------------

queries = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["a", "10.0.0.1", "80", "true", "{}", ""])), max_size=6
)
usual = st.sampled_from([[], [("serviceName", "a"), ("ip", "10.0.0.1"), ("port", "80")]])


@st.composite
def calls(draw: st.DrawFn) -> bytes:
    method, path = draw(st.sampled_from(HOT))
    pairs: Sequence[tuple[str, str]] = [*draw(usual), *draw(queries), *draw(forms).items()]
    cut = draw(st.integers(0, len(pairs)))
    body = draw(bodies) if "distro" in path else urlencode(pairs[cut:]).encode()
    headers = {"User_Agent": draw(agents), "Content_Type": draw(types)}
    return ask(method, f"{path}?{urlencode(pairs[:cut])}"[:8_000], body, **headers)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(calls(), min_size=1, max_size=8))
@example([ask("GET", LIST_A)] * 2)
def test_anything(asked: list[bytes]) -> None:
    async def main(_: object) -> None:
        with served() as hot, served(hot=False) as cold:
            both = BothWays(hot, cold)
            for data in asked:
                await both.same(data)

    run_loop(main)
