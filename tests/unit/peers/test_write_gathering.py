"""Writes that go to their owner in one call: each client gets its own answer, and nothing is executed twice."""

from collections.abc import Callable
from urllib.parse import urlencode

import orjson
import pytest

from app.http.api.answers import MEMBER_REPLIES, NOT_RESPONSIBLE
from app.http.api.call import ROUTES, Answer, Call, Forward, Reply
from app.http.blueprints import MODULES
from app.http.server.http_messages import head_of
from app.naming.registry.registry import Registry
from app.peers.passed_writes import HOLD_S, LoopForwarder
from app.peers.write_batches import CALL_BYTES_MAX, CALLS_MAX, WRITES_PATH, decode_calls
from app.peers.write_gathering import COMPANY_S, GATHER_S, MANY
from distro.model.types import CAPABILITY_WRITE_BATCHES, CAPABILITY_WRITES, Member, MemberState
from tests.support.fake_node import FakeNode, StubCluster
from tests.support.loops import Asked, MemberServer, SkippingLoop, answer, member_server, run_loop, silent, turns, until
from tests.support.registry_parts import naming_of

assert MODULES, "their import fills the table of routes"
TO = Forward("DEFAULT_GROUP@@a")
BATCHES = frozenset({CAPABILITY_WRITES, CAPABILITY_WRITE_BATCHES})
OWNER = "127.0.0.2:8848"


class Entry:
    """The member that clients called."""

    def __init__(self, loop: SkippingLoop, server: MemberServer, capabilities: frozenset[str] = BATCHES) -> None:
        cluster = StubCluster(standalone=False, others=[Member(server.address, MemberState.UP, capabilities)])
        cluster.give_to(server.address)
        self.node = FakeNode(cluster=cluster)
        self.forwarder = LoopForwarder(self.node, loop, MEMBER_REPLIES)
        self.told: dict[int, list[Answer]] = {}

    def forward(self, calls: list[Call], run: Callable[[], Answer] = lambda: TO) -> None:
        for number, one in enumerate(calls, len(self.told)):
            self.told[number] = []
            self.forwarder.forward(one, TO, run, self.told[number].append)

    async def answered(self, calls: list[Call]) -> list[Reply]:
        """What the client of each of these calls is told, once."""
        before = len(self.told)
        self.forward(calls)
        await until(lambda: all(self.told.values()))
        await turns(3)
        given = [self.told[number] for number in range(before, len(self.told))]
        assert all(len(one) == 1 and isinstance(one[0], Reply) for one in given)
        return [one for (one,) in given if isinstance(one, Reply)]

    def hosts(self) -> set[str]:
        view = self.node.naming.service_view("public", "DEFAULT_GROUP@@a")
        return {one.ip for one in view.instances} if view else set()


class Owner:
    """A member that executes what it gets, as its frontend would."""

    def __init__(self) -> None:
        self.node = FakeNode(cluster=StubCluster(OWNER, standalone=False, owner=OWNER))
        self.node.naming = naming_of(Registry.of(f"{OWNER}~1"), lambda: self.node.now_ms, self.node.events.append)

    def answer(self, asked: Asked) -> bytes:
        path, _, query = asked.target.partition("?")
        row = next(one for one in ROUTES if (one.method, f"/nacos{one.path}") == (asked.method, path))
        call = Call(asked.method, row.path, query.encode(), asked.headers, asked.body, "127.0.0.1", on_loop=True)
        reply = row.endpoint(call, self.node)
        assert isinstance(reply, Reply)
        return head_of(reply) + b"\r\n" + reply.body


def register(ip: str, **more: str) -> Call:
    query = urlencode({"serviceName": "a", "ip": ip, "port": "80", **more}).encode()
    return Call("POST", "/v1/ns/instance", query, {"user-agent": "curl"}, b"", "10.9.9.9")


THREE = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def three() -> list[Call]:
    return [register(ip) for ip in THREE]


def is_batch(asked: Asked) -> bool:
    return asked.target == f"/nacos{WRITES_PATH}"


def entries(*of: object) -> Callable[[Asked], bytes]:
    """Answers a batch with these entries, and any other call with ``ok``."""
    return lambda asked: answer(orjson.dumps(of)) if is_batch(asked) else answer()


def play(answering: Callable[[Asked], bytes | None], calls: list[Call]) -> tuple[list[Reply], list[Asked], Entry]:
    """What clients are told whose calls come in one turn, and what the owner got for them."""
    found: list[Reply] = []
    received: list[Asked] = []
    entry: list[Entry] = []

    async def main(loop: SkippingLoop) -> None:
        async with member_server(answering) as server:
            entry.append(Entry(loop, server))
            found.extend(await entry[0].answered(calls))
            entry[0].forwarder.close()
        received.extend(server.received)

    run_loop(main)
    return found, received, entry[0]


def test_calls_of_one_turn_go_in_one_and_each_client_gets_its_own_answer() -> None:
    calls = [register("10.0.0.1"), register("no address"), register("10.0.0.2", weight="2"), register("10.0.0.3")]
    told, received, entry = play(Owner().answer, calls)
    (batch,) = received
    assert (batch.method, batch.target) == ("PUT", f"/nacos{WRITES_PATH}")
    assert [one.query for one in decode_calls(batch.body)] == [one.raw_query for one in calls]
    assert [one.status for one in told] == [200, 400, 200, 200]
    assert [dict(one.headers) for one in told] == [{}] * 4, "the changes are for members only"
    assert entry.hosts() == set(THREE), "each client reads its own write here"
    stats = entry.node.forwarder.stats
    assert (stats.forward_answered, stats.forward_batches) == (4, 1)


def test_a_call_without_company_goes_as_it_came() -> None:
    told, received, _ = play(Owner().answer, [register("10.0.0.1")])
    assert [one.status for one in told] == [200]
    assert [one.target.partition("?")[0] for one in received] == ["/nacos/v1/ns/instance"]


def test_a_release_before_gets_each_call_by_itself() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(Owner().answer) as server:
            entry = Entry(loop, server, frozenset({CAPABILITY_WRITES}))
            assert [one.status for one in await entry.answered(three())] == [200] * 3
            entry.forwarder.close()
        assert not any(map(is_batch, server.received))
        assert len(server.received) == 3

    run_loop(main)


def test_calls_that_do_not_go_together() -> None:
    long, secret, relayed = (register(ip) for ip in THREE)
    long.raw_query += b"&x=" + b"x" * CALL_BYTES_MAX
    secret.give_token("token")
    relayed.headers = {**relayed.headers, "rollcall-relay": "1"}
    _, received, _ = play(lambda _: answer(), [long, secret, relayed, register("10.0.0.4"), register("10.0.0.5")])
    assert sorted(map(is_batch, received)) == [False] * 3 + [True]
    (batch,) = filter(is_batch, received)
    assert len(decode_calls(batch.body)) == 2


def test_a_batch_has_a_bound() -> None:
    calls = [register(f"10.0.0.{number}") for number in range(CALLS_MAX + 2)]
    told, received, _ = play(Owner().answer, calls)
    assert [one.status for one in told] == [200] * len(calls)
    assert [len(decode_calls(one.body)) for one in received] == [CALLS_MAX, 2]


@pytest.mark.parametrize(
    "body",
    [b"{", b"ok", b"[]", b"[null,null]", b"[1,2,3]", b'[["a"],null,null]', b'[[1,null],null,null]',
     b'[["200","ok",{}],null,null]', b'[[200,"ok",{"a":1}],null,null]', b'[[200,"\xc4\x80",{}],null,null]'],
)  # fmt: skip
def test_after_an_answer_that_cannot_be_read_no_call_is_made_again(body: bytes) -> None:
    told, received, _ = play(lambda _: answer(body), three())
    assert [one.status for one in told] == [503] * 3
    assert len(received) == 1


def test_after_a_lost_connection_no_call_is_made_again() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            entry = Entry(loop, server)
            entry.forward(three())
            await server.wait_for(1)
            server.links[0].transport.abort()
            await until(lambda: all(entry.told.values()))
            loop.skip(1.0)
            await turns(5)
            entry.forwarder.close()
        assert [one.status for given in entry.told.values() for one in given if isinstance(one, Reply)] == [503] * 3
        assert len(server.received) == 1

    run_loop(main)


def test_a_call_that_was_not_executed_is_made_by_itself_and_no_other() -> None:
    told, received, _ = play(entries([None, None], None, [404, "gone", {"Content-Type": "text/x"}]), three())
    assert [(one.status, one.body) for one in told] == [(200, b"ok"), (200, b"ok"), (404, b"gone")]
    assert told[2].content_type == "text/x"
    (alone,) = [one for one in received if not is_batch(one)]
    assert f"ip={THREE[1]}" in alone.target


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_who_does_not_take_the_batch_gets_each_call_by_itself(status: int) -> None:
    told, received, _ = play(lambda asked: answer(b"no", status) if is_batch(asked) else answer(), three())
    assert [one.status for one in told] == [200] * 3
    assert sorted(map(is_batch, received)) == [False] * 3 + [True]


def test_a_batch_that_is_to_be_signed_anew_goes_as_single_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.peers.signed_requests.OwnRequests.learn", lambda _self, _hop, given: given.status == 401)
    told, received, _ = play(lambda asked: answer(b"no", 401) if is_batch(asked) else answer(), three())
    assert [one.status for one in told] == [200] * 3
    assert len(received) == 4


def test_a_call_for_another_owner_is_held_and_goes_there() -> None:
    refused = [400, "not mine", {NOT_RESPONSIBLE: "1"}]

    async def main(loop: SkippingLoop) -> None:
        async with member_server(entries([None, None], refused, [None, None])) as server:
            entry = Entry(loop, server)
            entry.forward(three())
            await until(lambda: entry.told[0] and entry.told[2])
            assert not entry.told[1]
            loop.skip(HOLD_S)
            await until(lambda: entry.told[1])
            entry.forwarder.close()
        assert [is_batch(one) for one in server.received] == [True, False]

    run_loop(main)


def executed(asked: Asked) -> bytes:
    """The answer ``ok``, to each call of a batch, too."""
    return answer(orjson.dumps([[None, None]] * len(decode_calls(asked.body)))) if is_batch(asked) else answer()


def test_calls_behind_a_batch_wait_for_each_other_and_then_go_together() -> None:
    held: list[Asked] = []

    def answering(asked: Asked) -> bytes | None:
        if held:
            return executed(asked)
        held.append(asked)
        return None

    async def main(loop: SkippingLoop) -> None:
        async with member_server(answering) as server:
            entry = Entry(loop, server)
            entry.forward(three())
            await server.wait_for(1)
            for one in three():
                entry.forward([one])
                await turns(1)
            held[0].link.transport.write(answer(orjson.dumps([[None, None]] * 3)))
            await until(lambda: entry.told[2])
            assert len(server.received) == 1
            loop.skip(GATHER_S)
            await until(lambda: all(entry.told.values()))
            entry.forwarder.close()
        assert [len(decode_calls(one.body)) for one in server.received] == [3, 3]

    run_loop(main)


def test_calls_find_company_for_a_while_after_others_did(monkeypatch: pytest.MonkeyPatch) -> None:
    gather_s = 0.5  # many turns of the loop
    monkeypatch.setattr("app.peers.write_gathering.GATHER_S", gather_s)

    async def main(loop: SkippingLoop) -> None:
        async with member_server(executed) as server:
            entry = Entry(loop, server)
            await entry.answered(three())
            loop.skip(COMPANY_S / 2)
            for one in three():
                entry.forward([one])
                await turns(3)
            assert len(server.received) == 1
            loop.skip(gather_s)
            await until(lambda: all(entry.told.values()))
            loop.skip(COMPANY_S)
            begun_s = loop.time()
            await entry.answered(three()[:1])
            assert loop.time() - begun_s < gather_s, "nobody had company lately"
            entry.forwarder.close()
        assert [len(decode_calls(one.body)) if is_batch(one) else 1 for one in server.received] == [3, 3, 1]

    run_loop(main)


@pytest.mark.parametrize("before", [2, MANY, MANY + 3])
def test_as_many_calls_as_went_before_wait_no_longer_if_they_are_many(
    monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr("app.peers.write_gathering.GATHER_S", 60.0)
    enough = max(before, MANY)

    async def main(loop: SkippingLoop) -> None:
        async with member_server(executed) as server:
            entry, begun_s = Entry(loop, server), loop.time()
            await entry.answered([register(f"10.0.0.{number}") for number in range(before)])
            for number in range(enough):
                assert len(server.received) == 1
                entry.forward([register(f"10.0.1.{number}")])
                await turns(1)
            await until(lambda: all(entry.told.values()))
            assert loop.time() - begun_s < 60.0
            entry.forwarder.close()
        assert [len(decode_calls(one.body)) for one in server.received] == [before, enough]

    run_loop(main)


def test_a_client_that_writes_on_and_on_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.peers.write_gathering.GATHER_S", 60.0)

    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda _: answer()) as server:
            entry, begun_s = Entry(loop, server), loop.time()
            for number, one in enumerate(three()):
                entry.forward([one])
                await until(lambda number=number: entry.told[number])  # type: ignore[misc]
            assert loop.time() - begun_s < 60.0
            entry.forwarder.close()
        assert list(map(is_batch, server.received)) == [False] * 3

    run_loop(main)


def test_a_batch_at_a_member_that_is_closed_is_answered() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            entry = Entry(loop, server)
            entry.forward(three())
            entry.forwarder.close()
            await turns(3)
            loop.skip(HOLD_S)
            await until(lambda: all(entry.told.values()))
        assert [one.status for given in entry.told.values() for one in given if isinstance(one, Reply)] == [503] * 3
        assert not server.received

    run_loop(main)
