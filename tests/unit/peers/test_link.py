"""Connections to a member on a real loop, with a real server on loopback at their other end."""

import asyncio
import logging
from asyncio.selector_events import _SelectorSocketTransport  # type: ignore[attr-defined]
from functools import partial

import pytest

from app.peers import link as member_link
from app.peers.link import (
    ANSWER_BYTES_MAX,
    CONNECT_S,
    IDLE_S,
    JAVA_LINKS,
    PIPELINED_LINKS,
    PIPELINED_LOAD,
    MemberLink,
    MemberLinks,
)
from app.peers.link_results import LinkAnswer, LinkResult, NotAnswered, NotSent
from distro.wire.call_trust import Question
from tests.support.loops import Asked, MemberServer, SkippingLoop, answer, member_server, run_loop, silent, turns, until
from tests.support.tiny_server import refusing_address

DEADLINE_S = 2.0


class Asker:
    """Asks a member, and notes what comes of each request."""

    def __init__(self, loop: SkippingLoop, address: str, *, pipelined: bool = True) -> None:
        self.links = MemberLinks(loop, address)
        self.results: dict[str, list[LinkResult]] = {}
        self._loop = loop
        self._pipelined = pipelined

    def ask(self, *names: str, in_s: float = DEADLINE_S) -> None:
        for name in names:
            assert self.try_to_ask(name, in_s)

    def try_to_ask(self, name: str, in_s: float = DEADLINE_S) -> bool:
        results = self.results.setdefault(name, [])
        request = f"GET /{name} HTTP/1.1\r\nhost: h\r\n\r\n".encode()
        return self.links.ask(request, self._loop.time() + in_s, results.append, pipelined=self._pipelined)

    def skip(self, seconds: float) -> None:
        """Let time pass, and those be told whose time ran out."""
        self._loop.skip(seconds)
        self.links.expire(self._loop.time())

    async def result(self, name: str) -> LinkResult:
        """What came of a request; nobody may be told twice."""
        await until(lambda: self.results[name])
        return self.only(name)

    def only(self, name: str) -> LinkResult:
        (found,) = self.results[name]
        return found

    async def bodies(self, *names: str) -> list[bytes]:
        results = [await self.result(name) for name in names]
        return [one.body if isinstance(one, LinkAnswer) else repr(one).encode() for one in results]

    async def close(self) -> None:
        """Close; whatever happened, each has been told once in the end."""
        self.links.close()
        await until(lambda: all(self.results.values()))
        await turns(3)
        assert {len(results) for results in self.results.values()} <= {1}
        assert not self.links._tasks


def echo(asked: Asked) -> bytes:
    return answer(asked.target[1:].encode())


class Writes(list[tuple[int, int]]):
    """Each write of this process: the transport, and how many requests were in it."""


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    seen = Writes()
    write = _SelectorSocketTransport.write

    def count(transport: object, data: bytes) -> None:
        if b"GET /" in data:
            seen.append((id(transport), data.count(b"GET /")))
        write(transport, data)

    monkeypatch.setattr(_SelectorSocketTransport, "write", count)
    return seen


def test_a_member_whose_name_cannot_be_looked_up_is_where_it_was() -> None:
    """The name is of a domain that has none, by its definition (RFC 6761)."""

    async def main(loop: SkippingLoop) -> None:
        async with member_server(echo) as server:
            address = f"member-1.invalid:{server.address.rpartition(':')[2]}"
            ips = {address: frozenset({"127.0.0.1"})}
            for known in (ips, {}):
                asker = Asker(loop, address)
                asker.links = MemberLinks(loop, address, known_ips=lambda one, known=known: known.get(one, ()))  # type: ignore[misc]
                asker.ask("a")
                if known:
                    assert await asker.bodies("a") == [b"a"]
                else:
                    assert await asker.result("a") == NotSent()
                await asker.close()

    run_loop(main)


# --- a member proves that it is the member --------------------------------------------------------------


def asking(loop: SkippingLoop, address: str, *, pipelined: bool) -> Asker:
    """Its member has to answer with the header ``answer: yes`` first."""
    asker = Asker(loop, address, pipelined=pipelined)
    asked = Question("/q", {"question": "1"}, lambda headers: headers.get("answer") == "yes")
    asker.links = MemberLinks(loop, address, question=lambda _: asked)
    return asker


@pytest.mark.parametrize("pipelined", [True, False])
def test_requests_wait_until_the_member_has_proven_itself(pipelined: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda asked: None if asked.target == "/q" else echo(asked)) as server:
            asker = asking(loop, server.address, pipelined=pipelined)
            asker.ask("a", "b")
            await server.wait_for(1 if pipelined else 2)
            asker.ask("c")
            await turns(20)
            assert set(server.targets) == {"/q"}
            assert server.received[0].headers == {"host": server.address, "question": "1"}
            for one in server.received[:]:
                one.link.transport.write(answer(b"", 401, [("answer", "yes")]))
            server.answer = lambda asked: answer(b"", 401, [("answer", "yes")]) if asked.target == "/q" else echo(asked)
            assert await asker.bodies("a", "b", "c") == [b"a", b"b", b"c"]
            asker.ask("d")
            assert await asker.bodies("d") == [b"d"]
            assert server.targets.count("/q") == len(server.links), "once on each connection"
            await asker.close()

    run_loop(main)


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize(
    "given",
    [
        answer(),
        answer(b"", 401),
        answer(b"", 401, [("answer", "no")]),
        b"nonsense\r\n\r\n",
        answer() + answer(),
    ],
    ids=["ok", "no proof", "wrong", "nonsense", "two"],
)
def test_a_member_that_does_not_prove_itself_is_sent_nothing(given: bytes, pipelined: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda _: given) as server:
            asker = asking(loop, server.address, pipelined=pipelined)
            for name in ("a", "b"):
                asker.ask(name)
                assert await asker.result(name) == NotSent(), "nobody executed it: it may go elsewhere"
            assert set(server.targets) == {"/q"}
            await asker.close()

    run_loop(main)


def test_a_member_that_never_answers_the_question_is_given_up() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = asking(loop, server.address, pipelined=True)
            asker.ask("a", in_s=60.0)
            await server.wait_for(1)
            asker.skip(1.5)
            assert await asker.result("a") == NotSent()
            await until(lambda: not server.open_links)
            assert server.targets == ["/q"]
            await asker.close()

    run_loop(main)


# --- what is sent -------------------------------------------------------------------------------------


def test_requests_of_one_turn_leave_in_one_write(writes: Writes) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(echo) as server:
            asker = Asker(loop, server.address)
            for round_number in range(3):
                names = [f"{round_number}-{number}" for number in range(10)]
                asker.ask(*names)
                assert await asker.bodies(*names) == [name.encode() for name in names]
                assert [count for _, count in writes] == [10]
                writes.clear()
            assert len(server.links) == 1
            await asker.close()

    run_loop(main)


def test_what_is_asked_while_answers_are_awaited_leaves_with_the_next_of_them(writes: Writes) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            asker.ask("a")
            await server.wait_for(1)
            asker.ask("b")
            await asyncio.sleep(0)
            asker.ask("c")
            server.links[0].transport.write(answer(b"1"))
            assert await asker.bodies("a") == [b"1"]
            await server.wait_for(3)
            assert [count for _, count in writes] == [1, 2]
            await asker.close()

    run_loop(main)


def test_many_requests_under_way_take_a_second_connection(writes: Writes) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(echo) as server:
            asker = Asker(loop, server.address)
            names = [f"{number}" for number in range(3 * PIPELINED_LOAD)]
            asker.ask(*names)
            assert await asker.bodies(*names) == [name.encode() for name in names]
            assert len(server.links) == PIPELINED_LINKS
            await asker.close()

    run_loop(main)


def test_a_request_does_not_wait_for_those_of_later_turns(writes: Writes) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            for number in range(4):
                asker.ask(f"{number}")
                await server.wait_for(number + 1)
            assert [count for _, count in writes] == [1, 1, 1, 1]
            await asker.close()

    run_loop(main)


def test_one_at_a_time_needs_one_connection() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(echo) as server:
            asker = Asker(loop, server.address)
            for number in range(5):
                asker.ask(f"{number}")
                assert await asker.bodies(f"{number}") == [b"%d" % number]
            assert len(server.links) == 1
            await asker.close()

    run_loop(main)


# --- whose answer it is -------------------------------------------------------------------------------

THREE_ANSWERS = (
    answer(b"first", 200, [("Content-Type", "a/b"), ("X-One", " 1 ")])
    + b"HTTP/1.1 404 X\r\ntransfer-encoding: chunked\r\n\r\n3\r\nsec\r\n3;x=y\r\nond\r\n0\r\n\r\n"
    + b"HTTP/1.1 100 Continue\r\n\r\n"
    + b"HTTP/1.1 204 No Content\r\nx-one: 3\r\n\r\n"
)


@pytest.mark.parametrize("whole_bytes", [False, True], ids=["in two parts", "byte by byte"])
def test_answers_go_to_whom_they_belong_however_they_are_split(whole_bytes: bool) -> None:
    """The member is silent; what it would say is played in."""

    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            cuts = [0] if whole_bytes else range(1, len(THREE_ANSWERS))
            for cut in cuts:
                results: list[tuple[str, LinkResult]] = []
                link = await connected(loop, server)
                for name in "abc":
                    done = partial(note, results, name)
                    link.send(member_link.Exchange(b"GET / HTTP/1.1\r\n\r\n", loop.time() + 2, done))
                await turns(1)
                parts = [THREE_ANSWERS[:cut], THREE_ANSWERS[cut:]] if cut else [bytes([one]) for one in THREE_ANSWERS]
                for part in parts:
                    link.data_received(part)
                assert results == [
                    (
                        "a",
                        LinkAnswer(200, b"first", {b"content-type": b"a/b", b"x-one": b"1", b"content-length": b"5"}),
                    ),
                    ("b", LinkAnswer(404, b"second", {b"transfer-encoding": b"chunked"})),
                    ("c", LinkAnswer(204, b"", {b"x-one": b"3"})),
                ], f"cut at {cut}"
                assert not link.closed
                link.close()

    run_loop(main)


def note(results: list[tuple[str, LinkResult]], name: str, result: LinkResult) -> None:
    results.append((name, result))


async def connected(loop: SkippingLoop, server: MemberServer) -> MemberLink:
    link = MemberLink(loop, server.address, lambda: None, lambda _: None)
    await loop.create_connection(lambda: link, *server.address.split(":"))
    return link


def test_answers_that_come_together_and_late_are_told_apart() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            names = [f"{number}" for number in range(9)]
            asker.ask(*names)
            await server.wait_for(9)
            for link in server.links:
                link.transport.write(b"".join(echo(one) for one in server.received if one.link is link))
            assert await asker.bodies(*names) == [name.encode() for name in names]
            await asker.close()

    run_loop(main)


def test_what_goes_wrong_with_one_answer_does_not_hurt_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SkippingLoop) -> None:
        def fail(_: LinkResult) -> None:
            raise ValueError("boom")

        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            for name in "abcd":
                asker.ask(name)
                assert asker.links.ask(b"GET /bad HTTP/1.1\r\n\r\n", loop.time() + 2, fail, pipelined=True)
            await server.wait_for(8)
            for link in server.links:
                link.transport.write(b"".join(echo(one) for one in server.received if one.link is link))
            assert await asker.bodies(*"abcd") == [b"a", b"b", b"c", b"d"]
            await asker.close()

    with caplog.at_level(logging.ERROR):
        run_loop(main)
    assert [stats.exc_info[1].args for stats in caplog.records if stats.exc_info] == [("boom",)] * 4  # type: ignore[union-attr]


# --- a member that is silent --------------------------------------------------------------------------


def test_each_is_told_at_its_own_deadline() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            # On each of the two connections one that has waited elsewhere, behind one that has not.
            asker.ask("late-1", "late-2", in_s=2.0)
            asker.ask("early-1", "early-2", in_s=0.5)
            await server.wait_for(4)
            asker.skip(0.4)
            assert not any(asker.results.values())
            asker.skip(0.2)
            assert [asker.results[name] for name in ("early-1", "early-2")] == [[NotAnswered()]] * 2
            assert not asker.results["late-1"] + asker.results["late-2"]
            asker.skip(1.5)
            assert [asker.only(name) for name in ("late-1", "late-2")] == [NotAnswered()] * 2
            await until(lambda: not server.open_links)  # nobody waits for anything on them
            await asker.close()

    run_loop(main)


def test_a_new_request_does_not_wait_behind_those_whose_time_ran_out() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            asker.ask("a", "b", in_s=1.0)
            asker.ask("c", "d", in_s=5.0)
            await server.wait_for(4)
            asker.skip(1.5)
            assert asker.only("a") == asker.only("b") == NotAnswered()
            stuck = list(server.links)
            server.answer = echo
            asker.ask("e", "f")
            assert await asker.bodies("e", "f") == [b"e", b"f"]
            assert {asked.link for asked in server.received[4:]}.isdisjoint(stuck)
            # The answers come after all: a's and b's are nobody's, the others belong to c and d.
            for asked in server.received[:4]:
                asked.link.transport.write(echo(asked))
            assert await asker.bodies("c", "d") == [b"c", b"d"]
            assert asker.only("a") == asker.only("b") == NotAnswered()
            await asker.close()

    run_loop(main)


def test_while_a_member_is_silent_connections_do_not_pile_up() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            for number in range(40):
                asker.ask(f"{number}")
                await server.wait_for(number + 1)
                asker.skip(0.5)
                await turns(3)
                assert len(server.open_links) <= 2 * PIPELINED_LINKS
            await asker.close()

    run_loop(main)


# --- connections that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize("pipelined", [True, False])
def test_a_refused_connection_means_that_nothing_was_sent(pipelined: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        asker = Asker(loop, refusing_address(), pipelined=pipelined)
        names = [f"{number}" for number in range(20)]
        asker.ask(*names)
        assert [await asker.result(name) for name in names] == [NotSent()] * 20
        await asker.close()

    run_loop(main)


@pytest.mark.parametrize("pipelined", [True, False])
def test_a_connection_that_does_not_come_to_be_is_given_up(pipelined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(loop: SkippingLoop, *_: object) -> None:
        await loop.create_future()

    monkeypatch.setattr(SkippingLoop, "create_connection", never)

    async def main(loop: SkippingLoop) -> None:
        asker = Asker(loop, "127.0.0.1:1", pipelined=pipelined)
        asker.ask("soon", in_s=CONNECT_S / 2)
        asker.ask("later", in_s=CONNECT_S * 2)
        await turns(2)
        asker.skip(CONNECT_S * 0.6)
        assert asker.only("soon") == NotSent()
        assert not asker.results["later"]
        loop.skip(CONNECT_S)
        assert await asker.result("later") == NotSent()
        await asker.close()

    run_loop(main)


def test_an_address_that_is_no_name_is_no_reason_to_hang(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SkippingLoop) -> None:
        asker = Asker(loop, "a" * 64 + ".example:80")  # a label has at most 63 letters
        asker.ask("a")
        assert await asker.result("a") == NotSent()
        await asker.close()

    run_loop(main)
    assert "connecting to" in caplog.text


@pytest.mark.parametrize("how", ["abort", "close"])
@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 X\r\ncontent-le", answer(b"long body")[:-3]])
def test_what_was_sent_and_cut_is_not_sent_again(how: str, part: bytes) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            asker.ask("a", "b", "c")
            await server.wait_for(3)
            for link in server.links:
                link.transport.write(part)
                getattr(link.transport, how)()
            assert [await asker.result(name) for name in "abc"] == [NotAnswered()] * 3
            server.answer = echo
            asker.ask("d")
            assert await asker.bodies("d") == [b"d"]
            assert sorted(server.targets) == ["/a", "/b", "/c", "/d"]
            await asker.close()

    run_loop(main)


def test_a_connection_that_the_member_closed_while_idle_is_not_used() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(echo) as server:
            asker = Asker(loop, server.address)
            asker.ask("a", "b")
            assert await asker.bodies("a", "b") == [b"a", b"b"]
            for link in server.links:
                link.transport.close()
            await until(lambda: not server.open_links)
            await until(lambda: not asker.links._links)
            asker.ask("c", "d")
            assert await asker.bodies("c", "d") == [b"c", b"d"]
            assert len(server.links) == 2
            await asker.close()

    run_loop(main)


@pytest.mark.parametrize("pipelined", [True, False])
def test_a_connection_that_was_quiet_for_long_is_not_used_again(pipelined: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(echo) as server:
            asker = Asker(loop, server.address, pipelined=pipelined)
            for name in "abc":
                asker.ask(name)
                await asker.result(name)
                loop.skip(IDLE_S * 0.9)
            assert len(server.links) == 1
            loop.skip(IDLE_S * 0.2)
            asker.ask("d")
            assert await asker.bodies("d") == [b"d"]
            assert len(server.links) == 2
            await until(lambda: len(server.open_links) == 1)
            await asker.close()

    run_loop(main)


def test_behind_an_answer_that_closes_nothing_was_executed() -> None:
    async def main(loop: SkippingLoop) -> None:
        def close(asked: Asked) -> bytes | None:
            first = next(one for one in server.received if one.link is asked.link)
            return answer(b"bye", headers=[("connection", "close")]) if asked is first else None

        async with member_server(close) as server:
            asker = Asker(loop, server.address)
            asker.ask(*"abcdef")
            assert await asker.bodies("a") == [b"bye"]
            assert [await asker.result(name) for name in "bcdef"] == [NotSent()] * 5
            await until(lambda: not server.open_links)
            await asker.close()

    run_loop(main)


def test_what_is_asked_when_an_answer_closes_goes_over_another_connection() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda _: answer(b"bye", headers=[("connection", "close")])) as server:
            asker = Asker(loop, server.address)
            for name in "abc":
                asker.ask(name)
                assert await asker.bodies(name) == [b"bye"]
            assert len(server.links) == 3
            await asker.close()

    run_loop(main)


HUGE = b"x" * (ANSWER_BYTES_MAX + 1)
BROKEN = {
    "no HTTP": b"220 mail.example ready\r\n",
    "bytes": b"\x00\xff\x16\x03\x01" * 10,
    "broken length": b"HTTP/1.1 200 X\r\ncontent-length: ten\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 X\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    "broken chunk": b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "another protocol": b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    "more behind the last": answer(headers=[("connection", "close")]) + answer(),
    "huge": answer(HUGE),
    "huge in chunks": b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(HUGE), HUGE),
    "huge header": answer(headers=[("x", HUGE.decode())]),
    "many headers": answer(headers=[(f"x{number}", "y" * 1_000) for number in range(1 + ANSWER_BYTES_MAX // 1_000)]),
}


@pytest.mark.parametrize("said", BROKEN)
def test_what_is_no_answer_ends_the_connection(said: str) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address)
            asker.ask("a", "b", "c")
            await server.wait_for(3)
            for link in list(server.links):
                link.transport.write(BROKEN[said])
            answered = {"a"} if said == "more behind the last" else set()
            for name in "abc":
                result = await asker.result(name)
                assert result == NotAnswered() if name not in answered else isinstance(result, LinkAnswer)
            await until(lambda: not server.open_links)
            server.answer = echo
            asker.ask("d")
            assert await asker.bodies("d") == [b"d"]
            assert len(server.received) == 4
            await asker.close()

    run_loop(main)


def test_the_largest_answer_is_taken() -> None:
    async def main(loop: SkippingLoop) -> None:
        body = b"x" * (ANSWER_BYTES_MAX - len("content-length1048576"))
        async with member_server(lambda _: answer(body, headers=[])) as server:
            asker = Asker(loop, server.address)
            asker.ask("a", "b")
            assert await asker.bodies("a", "b") == [body, body]
            await asker.close()

    run_loop(main)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(lambda asked: echo(asked) + answer(b"stray")) as server:
            asker = Asker(loop, server.address)
            asker.ask("a")
            assert await asker.bodies("a") == [b"a"]
            await until(lambda: not server.open_links)
            asker.ask("b")
            assert await asker.bodies("b") == [b"b"]
            await asker.close()

    run_loop(main)


# --- bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipelined", [True, False])
def test_no_more_than_so_many_wait_for_one_member(pipelined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_link, "WAITING_MAX", 20)

    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address, pipelined=pipelined)
            asker.ask(*[f"{number}" for number in range(20)])
            assert not asker.try_to_ask("over")
            await server.wait_for(20 if pipelined else JAVA_LINKS)
            assert not asker.try_to_ask("over")
            asked = server.received[0]
            asked.link.transport.write(echo(asked))
            await asker.result(asked.target[1:])
            assert asker.try_to_ask("over")
            assert not asker.try_to_ask("over")
            await asker.close()

    run_loop(main)


# --- real Nacos ---------------------------------------------------------------------------------------


def test_real_nacos_gets_one_request_at_a_time_on_each_of_few_connections() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address, pipelined=False)
            names = [f"{number:02}" for number in range(3 * JAVA_LINKS)]
            asker.ask(*names)
            await server.wait_for(JAVA_LINKS)
            while len(server.received) < len(names):
                await turns(3)
                under_way = [one for one in server.received if not asker.results[one.target[1:]]]
                assert len({one.link for one in under_way}) == len(under_way) == JAVA_LINKS
                count = len(server.received)
                under_way[3].link.transport.write(echo(under_way[3]))
                await server.wait_for(count + 1)
                # Whoever waits the longest comes next.
                assert server.targets[count] == f"/{names[count]}"
            await turns(3)
            for one in server.received:
                if not asker.results[one.target[1:]]:
                    one.link.transport.write(echo(one))
            assert await asker.bodies(*names) == [name.encode() for name in names]
            assert len(server.links) == JAVA_LINKS
            await asker.close()

    run_loop(main)


def test_a_silent_nacos_costs_those_who_wait_their_deadline_only() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address, pipelined=False)
            sent = [f"sent-{number}" for number in range(JAVA_LINKS)]
            asker.ask(*sent, in_s=1.0)
            await server.wait_for(JAVA_LINKS)
            asker.ask("patient", in_s=5.0)
            asker.ask("impatient", in_s=0.5)
            asker.skip(0.6)
            assert asker.only("impatient") == NotSent()
            assert not asker.results["patient"]
            server.answer = echo
            asker.skip(0.6)
            assert [asker.only(name) for name in sent] == [NotAnswered()] * JAVA_LINKS
            assert await asker.bodies("patient") == [b"patient"]
            assert "/impatient" not in server.targets
            await asker.close()

    run_loop(main)


def test_a_cut_connection_to_nacos_makes_room_for_the_next() -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(silent) as server:
            asker = Asker(loop, server.address, pipelined=False)
            names = [f"{number}" for number in range(JAVA_LINKS + 1)]
            asker.ask(*names)
            await server.wait_for(JAVA_LINKS)
            server.answer = echo
            cut = server.received[0]
            cut.link.transport.abort()
            assert await asker.result(cut.target[1:]) == NotAnswered()
            assert await asker.bodies(names[-1]) == [names[-1].encode()]
            await asker.close()

    run_loop(main)


# --- the end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("when", ["connecting", "under way", "idle"])
def test_closing_leaves_nothing_and_nobody_untold(pipelined: bool, when: str) -> None:
    async def main(loop: SkippingLoop) -> None:
        async with member_server(echo if when == "idle" else silent) as server:
            asker = Asker(loop, server.address, pipelined=pipelined)
            names = [f"{number}" for number in range(JAVA_LINKS + 4)]
            asker.ask(*names)
            if when == "under way":
                await server.wait_for(len(names) if pipelined else JAVA_LINKS)
            elif when == "idle":
                await asker.bodies(*names)
            asker.links.close()
            sent = set(server.targets)
            await until(lambda: all(asker.results.values()))
            for name in names:
                result = asker.only(name)
                if when != "idle":
                    assert result == (NotAnswered() if f"/{name}" in sent else NotSent()), name
            await until(lambda: not server.open_links)
            assert set(server.targets) == sent, "nothing is sent after the end"
            assert not asker.try_to_ask("late")
            del asker.results["late"]
            await asker.close()

    run_loop(main)


def test_closing_before_the_loop_turned_tells_those_who_asked() -> None:
    async def main(loop: SkippingLoop) -> None:
        asker = Asker(loop, refusing_address())
        asker.ask("a")
        await asker.close()
        assert asker.only("a") == NotSent()
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    run_loop(main)
