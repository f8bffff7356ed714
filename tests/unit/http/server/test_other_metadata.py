"""Registrations that come again with other metadata: each is answered and executed for itself."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.auth import add_user, node_with_users
from tests.support.fake_node import FakeNode, StubCluster
from tests.support.loops import SkippingLoop, run_loop
from tests.support.served import served
from tests.support.wire import keeps_nothing, replies_of, request

BEFORE = "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80&weight=2&metadata="
TIMES = 5


def register(metadata: str, after: str = "", before: str = BEFORE, method: str = "POST", safe: str = "") -> bytes:
    return request(before + quote(metadata, safe=safe) + after, method)


def metadata_of(node: FakeNode) -> Any:
    found = node.naming.hot_detail("public", "DEFAULT_GROUP@@a", "10.0.0.1", 80, "DEFAULT")
    return found and (found.weight, found.metadata)


def after_each(calls: Sequence[bytes], *, parsed: bool = False) -> list[tuple[int, bytes, Any]]:
    """Status, answer and the instance after each call of one connection; ``parsed``: nothing is kept of any."""
    found = []

    async def main(_: SkippingLoop) -> None:
        with served() as one:
            if parsed:
                one.server.repeated = keeps_nothing()
            wire = one.connect()
            for call in calls:
                wire.send(call)
                reply = wire.replies()[-1]
                found.append((reply.status, reply.body, metadata_of(one.node)))

    run_loop(main)
    return found


@pytest.mark.parametrize("safe", ["", "{}:,\"'/"])
@pytest.mark.parametrize(("method", "after"), [("POST", ""), ("PUT", "&enabled=true&app=x"), ("PATCH", "&app=x")])
def test_what_comes_of_it_is_what_comes_of_parsing_it(method: str, after: str, safe: str) -> None:
    texts = [
        '{{"zone":"a","n":"{}"}}',
        '{{"zone":"\u00e4","n":"{}"}}',
        '{{"a b":"{}"}}',
        '{{"n":{}}}',
        '{{"n":null,"m":"{}"}}',
        "n={},m=1",
        "null{}",
        '{{"n":"{}"',
        '{{"n":"' + "x" * 600 + '{}"}}',
        '{{"n":"&metadata=b{}"}}',
    ]
    calls = [request(BEFORE.replace("weight=2&metadata=", "weight=3"), "POST")]
    for text in [*texts, *texts]:
        calls += [register(text.format(number), after, method=method, safe=safe) for number in range(3)]
    assert after_each(calls) == after_each(calls, parsed=True)


@pytest.mark.parametrize(
    "target",
    [
        "/nacos/v1/ns/instance?metadata=n%3D0&serviceName=a&ip=10.0.0.1&port=80&metadata=",
        "/nacos/v1/ns/instance?m%65tadata=n%3D0&serviceName=a&ip=10.0.0.1&port=80&metadata=",
        "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80&metadata=n%3D0&metadata=",
    ],
)
def test_of_two_values_the_first_counts(target: str) -> None:
    found = after_each([register(f"n={number}", before=target) for number in range(TIMES)])
    assert [instance for *_, instance in found] == [(1.0, {"n": "0"})] * TIMES


def test_the_word_in_a_header_is_no_parameter() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            for number in range(TIMES):
                wire.send(request("/nacos/v1/ns/instance/list?serviceName=a", "GET", b"", f"X: a&metadata={number} b"))
            assert wire.statuses() == [200] * TIMES

    run_loop(main)


def test_an_empty_value_takes_the_metadata_away() -> None:
    found = after_each([register("n=1"), register("n=2"), register("n=3"), register(""), register("n=4")])
    assert [instance for *_, instance in found[2:]] == [(2.0, {"n": "3"}), (2.0, {}), (2.0, {"n": "4"})]


def test_a_right_that_is_gone_is_gone_for_them() -> None:
    node = node_with_users()
    token = add_user(node, "alice", ("public:*:*", "rw"))
    calls = [register(f"n={number}", f"&accessToken={token}") for number in range(6)]

    async def main(_: SkippingLoop) -> None:
        with served(node) as one:
            wire = one.connect()
            for call in calls[:4]:
                wire.send(call)
            node.users.remove_permission("role of alice", "public:*:*", "rw")
            wire.send(calls[4], calls[5])
            assert wire.statuses() == [200] * 4 + [403] * 2

    run_loop(main)


def test_metadata_that_are_none_are_refused_whoever_owns_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_on: list[bytes] = []
    wrong, last = register('{"n":{"m":1}}'), register("n=4")
    node = FakeNode(cluster=StubCluster(standalone=False))

    async def main(_: SkippingLoop) -> None:
        with served(node) as one:
            monkeypatch.setattr(one.requests._forwarder, "forward", lambda call, *_: passed_on.append(call.raw_query))
            wire = one.connect()
            for call in [*(register(f"n={number}") for number in range(3)), wrong, register("n=3")]:
                wire.send(call)
            assert wire.statuses() == [200, 200, 200, 400, 200]
            node.cluster.give_to("127.0.0.2:8848")
            wire.send(wrong, last)
            assert wire.statuses() == [200, 200, 200, 400, 200, 400], "the last waits for the owner's answer"

    run_loop(main)
    assert passed_on == [last.split(b" ")[1].partition(b"?")[2]]
    assert metadata_of(node) == (2.0, {"n": "3"})


@pytest.mark.parametrize("hole", ["\n", "\r", "", "\n\n", "%0A\n"])
def test_a_line_feed_in_a_target_is_refused_each_time(hole: str) -> None:
    """Real Nacos never sees a line feed in a target: behind a proxy, two servers would read two requests."""
    data = request(BEFORE + "X&app=a", "POST").replace(b"X", hole.encode())

    async def main(_: SkippingLoop) -> None:
        with served() as one:
            [before] = replies_of(await one.ask(data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))
            wire = one.connect()
            for number in range(TIMES):
                wire.send(register(f'{{"n":"{number}"}}', "&app=a"))
                assert wire.statuses()[-1] == 200
            wire.send(data)
            assert wire.statuses()[-1] == before.status == (400 if hole else 200)

    run_loop(main)
