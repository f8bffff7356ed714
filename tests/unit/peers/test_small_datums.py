"""Sends of the engine by the event loop: what the member is asked, and how each end of the call is told."""

from collections.abc import Callable
from random import Random

import orjson
import pytest

from app.auth.signed import SIGNATURE
from app.http.api.answers import MEMBER_REPLIES
from app.http.api.call import CLOCK, DEADLINE
from app.peers.passed_writes import LoopForwarder
from app.peers.small_datums import (
    FRAMES_MAX,
    PATH,
    SAME_FRAME_MS,
    SMALL_BYTES,
    DatumSender,
    PeerPut,
    PutAnswer,
    SmallSends,
)
from distro.model.errors import ForbiddenError, RejectedError, TransportError
from distro.model.types import CAPABILITY_DELTAS, CAPABILITY_GZIP, CAPABILITY_VERSIONS, Datum, Received, Version
from distro.wire.codec import encode_received, gunzip_if_gzip
from distro.wire.http_agent import MEMBER_HEADER
from tests.support.fake_node import SECRET, FakeNode, StubCluster, make_settings
from tests.support.loops import Asked, MemberServer, SkippingLoop, answer, member_server, run_loop, silent, turns, until
from tests.support.taken_calls import DatumAgent, StandingClock
from tests.support.tiny_server import refusing_address

VERSION = Version(1, 2, "a:1~x")
EARLIER = Version(1, 0, "a:1~x")
BASE = Version(1, 1, "a:1~x")
OWN = frozenset({CAPABILITY_VERSIONS, CAPABILITY_GZIP, CAPABILITY_DELTAS})


class Sending:
    """A member whose engine sends by its loop, and what it was told."""

    def __init__(self, loop: SkippingLoop, capabilities: frozenset[str] = OWN, deadline: str | None = "run 77") -> None:
        settings = make_settings(
            nacos_core_auth_server_identity_key="Cluster-Key", nacos_core_auth_server_identity_value=SECRET
        )
        self.node = FakeNode(settings, StubCluster(standalone=False))
        self.forwarder = LoopForwarder(self.node, loop, MEMBER_REPLIES)
        self.sender = DatumSender(self.node, self.forwarder)
        self.clock, self.told = StandingClock(), list[Received | TransportError]()
        self.agent = DatumAgent(capabilities, deadline, self.clock)
        self.sends = SmallSends(self.agent, self.clock)
        self.sends.attach(self.sender)

    def send(self, peer: str, value: str = "x") -> None:
        self.sends.start_sync(peer, [Datum("k", VERSION, value)], 2_000, self.told.append)

    async def end_of(self, peer: str, value: str = "x") -> Received | TransportError:
        self.send(peer, value)
        await until(lambda: self.told)
        await turns(3)
        [told] = self.told
        return told

    def close(self) -> None:
        self.sender.close()
        self.forwarder.close()


def test_a_small_frame_goes_by_the_loop() -> None:
    wanted = Received(refused={"k": VERSION}, wanted=("w",))

    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        async with member_server(lambda _: answer(encode_received(wanted)), secret=SECRET) as server:
            assert sending.sends.takes(server.address)
            assert await sending.end_of(server.address) == wanted
            [asked] = server.received
        assert (asked.method, asked.target) == ("PUT", f"/nacos{PATH}")
        assert asked.body == b'{"k":{"v": "x", "version": "1.2.a:1~x"}}'
        assert asked.headers[MEMBER_HEADER.lower()] == "10.0.0.1:8848"
        assert (asked.headers[DEADLINE], asked.headers[CLOCK]) == ("run 77", "own-run 5")
        assert SIGNATURE in asked.headers
        assert "content-encoding" not in asked.headers
        assert sending.agent.bytes == {server.address: len(asked.body)}
        assert not sending.agent.blocking
        sending.close()

    run_loop(main)


def test_a_frame_of_some_size_is_packed() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        async with member_server(lambda _: answer(encode_received(Received())), secret=SECRET) as server:
            assert await sending.end_of(server.address, "x" * 5_000) == Received()
            [asked] = server.received
        assert asked.headers["content-encoding"] == "gzip"
        assert b"x" * 5_000 in gunzip_if_gzip(asked.body, 10_000)
        sending.close()

    run_loop(main)


class Peers:
    """LoopCalls that note what is sent, and answer nothing."""

    def __init__(self) -> None:
        self.puts: list[PeerPut] = []

    def put(self, call: PeerPut, done: Callable[[PutAnswer | None], None]) -> None:
        self.puts.append(call)


def test_a_change_is_written_once_for_all_peers_that_lack_the_same() -> None:
    clock, peers = StandingClock(), Peers()
    sends = SmallSends(DatumAgent(OWN, "run 77", clock), clock)
    sends.attach(peers)

    def sent(peer: str, value: str, base: Version | None = BASE) -> str:
        sends.start_sync(peer, [Datum("k", VERSION, value, base)], 2_000, lambda _end: None)
        body = peers.puts[-1].body
        assert peers.puts[-1].peer == peer
        return next(text for text in ("first", "second", "third") if text.encode() in body)

    assert [sent("b:1", "first"), sent("c:1", "second")] == ["first", "first"]
    assert sent("c:1", "second", EARLIER) == "second", "it lacks more"
    assert sent("b:1", "third", None) == "third", "whole lists are long, and nobody waits for another's"
    assert sent("c:1", "third", EARLIER) == "second"
    clock.now_ms += SAME_FRAME_MS + 1
    assert sent("c:1", "third", EARLIER) == "third", "too much of it has changed, beats for one"
    assert {one.headers[CLOCK] for one in peers.puts} == {"own-run 5"}


def datums_of(count: int, size: int) -> list[Datum]:
    return [Datum(f"k{number}", VERSION, "x" * size, BASE) for number in range(count)]


def test_many_changes_go_in_small_frames_one_after_the_other() -> None:
    """The peer's loop reads each in under a millisecond, and does other things between two of them."""
    datums = datums_of(40, 1_000)

    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)

        def answering(asked: Asked) -> bytes:
            told = list(orjson.loads(gunzip_if_gzip(asked.body, SMALL_BYTES)))
            number, sending.clock.now_ms = len(server.received), sending.clock.now_ms + 10
            ages = {told[0]: 5.0, told[1]: None}
            return answer(
                encode_received(Received({told[2]: VERSION}, {told[3]: "why"}, (told[4],), ages, {told[5]: number}))
            )

        server: MemberServer
        async with member_server(answering, secret=SECRET) as server:
            sending.sends.start_sync(server.address, datums, 2_000, sending.told.append)
            await until(lambda: sending.told)
            frames = [list(orjson.loads(gunzip_if_gzip(one.body, SMALL_BYTES))) for one in server.received]
        [told] = sending.told
        assert isinstance(told, Received)
        assert [len(one) for one in frames] == [15, 15, 10]
        assert [key for keys in frames for key in keys] == [one.key for one in datums]
        assert told.refused == {keys[2]: VERSION for keys in frames}
        assert told.failed == {keys[3]: "why" for keys in frames}
        assert told.wanted == tuple(keys[4] for keys in frames)
        assert told.pushed_ms == {keys[5]: number for number, keys in enumerate(frames, 1)}
        # The clock moved by 10 ms with each further frame; what arrived before was applied so much earlier.
        for later_ms, keys in zip((20, 10, 0), frames, strict=True):
            assert [told.ages_ms[key] for key in keys] == [5.0 + later_ms, None, *[later_ms] * (len(keys) - 2)]
        sending.close()

    run_loop(main)


def test_a_frame_that_fails_is_the_last_one() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)

        def answering(_asked: Asked) -> bytes:
            return answer(encode_received(Received())) if len(server.received) == 1 else answer(b"oops", 500)

        server: MemberServer
        async with member_server(answering, secret=SECRET) as server:
            sending.sends.start_sync(server.address, datums_of(40, 1_000), 2_000, sending.told.append)
            await until(lambda: sending.told)
            assert len(server.received) == 2
        [told] = sending.told
        assert isinstance(told, TransportError)
        sending.close()

    run_loop(main)


def test_what_hardly_packs_goes_as_it_is() -> None:
    """A peer's loop takes fewer bytes of what it has to unpack."""
    peers, clock = Peers(), StandingClock()
    sends = SmallSends(DatumAgent(OWN, "run 77", clock), clock)
    sends.attach(peers)
    noise = Random(1).randbytes(5_000).hex()
    sends.start_sync("b:1", [Datum("k", VERSION, noise, BASE)], 2_000, lambda _end: None)
    [put] = peers.puts
    assert noise.encode() in put.body
    assert "content-encoding" not in put.headers


@pytest.mark.parametrize(("count", "size"), [(FRAMES_MAX + 1, SMALL_BYTES - 200), (40, SMALL_BYTES // 2)])
def test_too_many_frames_are_sent_by_the_thread_itself(count: int, size: int) -> None:
    peers, clock = Peers(), StandingClock()
    agent = DatumAgent(OWN, "run 77", clock)
    sends = SmallSends(agent, clock)
    sends.attach(peers)
    sends.start_sync("b:1", datums_of(count, size), 2_000, lambda _end: None)
    assert (agent.blocking, peers.puts) == (["b:1"], [])
    sends.start_sync("b:1", datums_of(FRAMES_MAX, size), 2_000, lambda _end: None)
    assert (agent.blocking, len(peers.puts)) == (["b:1"], 1)


def test_a_small_send_waits_for_nothing_and_a_large_one_is_not_made() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        large = [Datum("k", VERSION, "x" * SMALL_BYTES)]
        assert not sending.sends.start_small_sync("10.0.0.2:8848", large, 2_000, sending.told.append)
        sending.sends.attach(None)
        small = [Datum("k", VERSION, "x")]
        assert not sending.sends.start_small_sync("10.0.0.2:8848", small, 2_000, sending.told.append)
        assert not sending.agent.blocking
        assert sending.told == []
        sending.sends.attach(sending.sender)
        async with member_server(lambda _: answer(encode_received(Received())), secret=SECRET) as server:
            assert sending.sends.start_small_sync(server.address, small, 2_000, sending.told.append)
            await until(lambda: sending.told)
        assert (sending.told, len(server.received)) == ([Received()], 1)
        sending.close()

    run_loop(main)


def test_what_is_large_is_sent_by_the_thread_itself() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        assert await sending.end_of("10.0.0.2:8848", "x" * SMALL_BYTES) == Received()
        assert sending.agent.blocking == ["10.0.0.2:8848"]
        sending.close()

    run_loop(main)


@pytest.mark.parametrize("capabilities", [frozenset({CAPABILITY_VERSIONS}), frozenset[str]()])
def test_other_members_are_not_for_the_loop(capabilities: frozenset[str]) -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop, capabilities)
        assert not sending.sends.takes("10.0.0.2:8848")
        sending.close()

    run_loop(main)


ENDS: dict[str, tuple[Callable[[Asked], bytes | None], type[TransportError]]] = {
    "late": (silent, TransportError),
    "still loading": (lambda _: answer(b"later", 503), TransportError),
    "failed": (lambda _: answer(b"oops", 500), TransportError),
    "rejected": (lambda _: answer(b"bad", 400), RejectedError),
    "forbidden": (lambda _: answer(b"not listed", 403), ForbiddenError),
    "unreadable": (lambda _: answer(b"<html>"), TransportError),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_failure_is_told_as_such(name: str) -> None:
    answering, kind = ENDS[name]

    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        async with member_server(answering, secret=SECRET) as server:
            sending.send(server.address)
            await server.wait_for(1)
            if name == "late":
                loop.skip(2.1)
            await until(lambda: sending.told)
        [told] = sending.told
        assert type(told) is kind
        sending.close()

    run_loop(main)


def test_who_does_not_listen_is_told_of() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        assert isinstance(await sending.end_of(refusing_address()), TransportError)
        sending.close()

    run_loop(main)


def test_an_answer_that_was_read_after_a_pause_is_none() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)

        def stand_still(_: Asked) -> bytes:
            sending.clock.now_ms += 2_001
            return answer(encode_received(Received()))

        async with member_server(stand_still, secret=SECRET) as server:
            assert isinstance(await sending.end_of(server.address), TransportError)
        sending.close()

    run_loop(main)


def test_a_member_whose_clock_is_not_known_is_not_called() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop, deadline=None)
        async with member_server(secret=SECRET) as server:
            assert isinstance(await sending.end_of(server.address), TransportError)
            assert not server.received
        sending.close()

    run_loop(main)


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_refused_signature_is_made_anew_once(refusals: int) -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        sending.forwarder.requests.learn = lambda _hop, given: given.status == 401  # type: ignore[method-assign]

        def answering(asked: Asked) -> bytes:
            is_refused = len(server.received) <= refusals
            return answer(b"", 401) if is_refused else answer(encode_received(Received()))

        server: MemberServer
        async with member_server(answering, secret=SECRET) as server:
            told = await sending.end_of(server.address)
            assert len(server.received) == 2
        assert (told == Received()) is (refusals == 1)
        sending.close()

    run_loop(main)


def test_calls_under_way_end_with_the_loop() -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        async with member_server(silent, secret=SECRET) as server:
            sending.send(server.address)
            await server.wait_for(1)
            sending.sends.attach(None)
            sending.close()
            assert len(sending.told) == 1
            assert not sending.sends.takes(server.address)
            sending.send(server.address)
            assert sending.agent.blocking == [server.address], "by the thread itself, while the loop is gone"
            told: list[PutAnswer | None] = []
            sending.sender.put(PeerPut(server.address, PATH, {}, b"", 1.0), told.append)
            await until(lambda: told)
            assert told == [None]
            assert len(server.received) == 1

    run_loop(main)


def test_a_loop_that_is_closed_makes_no_call() -> None:
    senders: list[DatumSender] = []

    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        senders.append(sending.sender)
        sending.close()

    run_loop(main)
    told: list[PutAnswer | None] = []
    senders[0].put(PeerPut("10.0.0.2:8848", PATH, {}, b"", 1.0), told.append)
    assert told == [None]


@pytest.mark.parametrize("fails", [False, True])
def test_verify_rounds_are_made_by_the_thread_itself(fails: bool) -> None:
    async def main(loop: SkippingLoop) -> None:
        sending = Sending(loop)
        sending.agent.fails = fails
        sending.sends.start_verify("10.0.0.2:8848", {"k": "1"}, 2_000, sending.told.append)
        [told] = sending.told
        assert isinstance(told, TransportError) is fails
        sending.close()

    run_loop(main)
