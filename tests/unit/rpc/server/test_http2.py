"""The server's side of HTTP/2: calls and streams, windows, bounds, and what ends a connection."""

import gzip
import random

import pytest

from app.rpc.server.control_credit import CREDIT_MAX, KeptBytes
from app.rpc.server.http2 import (
    CLOSED_AT_ONCE,
    CLOSED_KEPT,
    CallReceived,
    Http2Limits,
    MessageReceived,
    StreamDone,
    StreamOpened,
)
from app.rpc.server.http2_frames import Code
from app.rpc.server.reply_queue import Outgoing, ReplyQueue
from tests.support.http2_client import BIDI, END_HEADERS, END_STREAM, LIMITS, MAGIC, ByHand, echo, frame, prefixed

SOME = int(CREDIT_MAX) + 200
"""Frames: more than a connection may send without a call."""


def window(stream: int, count: int) -> bytes:
    return frame("WINDOW_UPDATE", 0, stream, count.to_bytes(4, "big"))


def setting(key: int, value: int) -> bytes:
    return frame("SETTINGS", 0, 0, key.to_bytes(2, "big") + value.to_bytes(4, "big"))


class CountedLooks(ReplyQueue):
    """Notes the streams whose windows it looks at again."""

    def __init__(self, kept: KeptBytes, looked: list[int]) -> None:
        super().__init__(kept)
        self._looked = looked

    def look_again(self, stream_id: int, stream: Outgoing) -> None:
        self._looked.append(stream_id)
        super().look_again(stream_id, stream)


class TestCalls:
    def test_a_call_is_answered_by_a_head_a_message_and_a_status(self) -> None:
        client = ByHand()
        assert client.send(client.call(1, b"hello")) == [CallReceived(1, b"hello")]
        client.server.reply(1, b"world")
        found = client.answered(1)
        assert found.headers == {":status": "200", "content-type": "application/grpc"}
        assert (found.messages, found.trailers, found.resets) == ([b"world"], {"grpc-status": "0"}, ())
        assert [one.flags for one in client.frames if one.stream == 1] == [END_HEADERS, 0, END_HEADERS | END_STREAM]
        assert client.server.streams == 0

    def test_bytes_may_come_one_by_one(self) -> None:
        client = ByHand(begun=False)
        data = MAGIC + frame("SETTINGS") + client.call(1, b"hello")
        assert client.send(*(data[at : at + 1] for at in range(len(data)))) == [CallReceived(1, b"hello")]

    def test_calls_that_come_together_are_each_there(self) -> None:
        client = ByHand(Http2Limits(1_000, 100, 10.0))
        ids = range(1, 161, 2)
        events = client.send(b"".join(client.call(one, b"%d" % one) for one in ids))
        assert events == [CallReceived(one, b"%d" % one) for one in ids]

    def test_a_stream_goes_both_ways_until_the_client_ends_it(self) -> None:
        client = ByHand()
        assert client.send(client.opening(1, BIDI)) == [StreamOpened(1)]
        two = prefixed(b"a") + prefixed(b"b")
        events = client.send(client.content(1, two[:3]), client.content(1, two[3:]))
        assert events == [MessageReceived(1, b"a"), MessageReceived(1, b"b")]
        client.server.send(1, b"push")
        client.server.send(1, b"again")
        assert client.send(frame("DATA", END_STREAM, 1)) == [StreamDone(1, False)]
        client.server.end(1)
        found = client.answered(1)
        assert (found.messages, found.status, found.resets) == ([b"push", b"again"], "0", ())

    def test_a_stream_that_this_side_ends_says_why_and_is_reset(self) -> None:
        client = ByHand()
        client.send(client.opening(1, BIDI))
        client.server.end(1, 14, "go elsewhere, 100 % sure\n")
        found = client.answered(1)
        assert found.headers["grpc-message"] == "go elsewhere, 100 %25 sure%0A"
        assert (found.status, found.resets) == ("14", (Code.NO_ERROR,))
        assert client.send(client.content(1, prefixed(b"late"))) == []
        assert client.ended_with is None

    def test_what_is_given_up_is_told_and_its_answer_goes_nowhere(self) -> None:
        client = ByHand()
        client.send(client.call(1, b"slow"))
        assert client.send(frame("RST_STREAM", 0, 1, bytes(4))) == [StreamDone(1, True)]
        client.server.reply(1, b"late")
        assert client.take() == []

    @pytest.mark.parametrize("path", ["/Request/other", "/", "/grpc.health.v1.Health/Check"])
    def test_a_method_that_nobody_knows_is_12(self, path: str) -> None:
        client = ByHand()
        assert client.send(client.opening(1, path), client.content(1, prefixed(b"x"), END_STREAM)) == []
        assert (client.answered(1).status, client.answered(1).headers["grpc-message"]) == ("12", "Method not found!")
        assert client.server.streams == 0

    @pytest.mark.parametrize(
        "fields", [{"content_type": "text/html"}, {":method": "GET"}, {"content_type": "application/grpcx"}]
    )
    def test_what_is_no_grpc_gets_415_once_it_is_whole(self, fields: dict[str, str]) -> None:
        client = ByHand()
        client.send(client.opening(1, **fields))
        assert client.answered(1).headers == {}
        client.send(client.content(1, b"body", END_STREAM))
        found = client.answered(1)
        assert found.headers[":status"] == "415"
        assert found.content
        assert client.server.streams == 0

    def test_a_call_without_a_message_or_with_two_fails(self) -> None:
        client = ByHand()
        assert client.send(client.opening(1, flags=END_HEADERS | END_STREAM)) == []
        assert client.send(client.opening(3), client.content(3, prefixed(b"a") + prefixed(b"b"), END_STREAM)) == []
        assert client.send(client.opening(5), client.content(5, prefixed(b"abc")[:-1], END_STREAM)) == []
        assert [client.answered(one).status for one in (1, 3, 5)] == ["13", "13", "13"]
        assert client.kept.count == 0


class TestMessages:
    def test_a_packed_message_is_unpacked(self) -> None:
        client = ByHand()
        packed = prefixed(gzip.compress(b"hello"), packed=True)
        events = client.send(client.opening(1, grpc_encoding="gzip"), client.content(1, packed, END_STREAM))
        assert events == [CallReceived(1, b"hello")]

    @pytest.mark.parametrize(
        ("encoding", "content", "status"),
        [
            ("gzip", gzip.compress(bytes(LIMITS.message_bytes_max + 1)), "8"),
            ("gzip", b"not gzip", "13"),
            ("gzip", gzip.compress(b"cut")[:-9], "13"),
            ("gzip", gzip.compress(b"more") + b"x", "13"),
            ("identity", b"x", "13"),
            ("snappy", b"x", "12"),
        ],
    )
    def test_what_cannot_be_unpacked_or_is_too_large_then_fails(
        self, encoding: str, content: bytes, status: str
    ) -> None:  # fmt: skip
        client = ByHand()
        packed = prefixed(content, packed=True)
        assert client.send(client.opening(1, grpc_encoding=encoding), client.content(1, packed, END_STREAM)) == []
        assert client.answered(1).status == status
        assert client.ended_with is None

    def test_a_message_that_is_too_large_is_refused_before_it_comes(self) -> None:
        client = ByHand()
        too_large = b"\0" + (LIMITS.message_bytes_max + 1).to_bytes(4, "big")
        client.send(client.opening(1), client.content(1, too_large))
        assert client.answered(1).status == "8"
        assert client.answered(1).resets == (Code.NO_ERROR,)
        assert client.kept.count == 0

    def test_halves_of_messages_have_a_bound_over_all_streams(self) -> None:
        client = ByHand(kept=KeptBytes(150_000))
        for stream in (1, 3):
            client.send(client.opening(stream), client.content(stream, prefixed(bytes(90_000))[:-1]))
        assert (client.answered(1).status, client.answered(3).status) == (None, "8")
        assert 0 < client.kept.count <= 150_000
        client.send(frame("RST_STREAM", 0, 1, bytes(4)))
        assert client.kept.count == 0

    def test_a_whole_message_counts_too_until_its_call_is_whole(self) -> None:
        client = ByHand(kept=KeptBytes(150_000))
        for stream in (1, 3):
            client.send(client.opening(stream), client.content(stream, prefixed(bytes(90_000))))
        assert (client.answered(1).status, client.answered(3).status) == (None, "8")
        assert client.kept.count == 90_000
        assert client.send(frame("DATA", END_STREAM, 1)) == [CallReceived(1, bytes(90_000))]
        assert client.kept.count == 0
        client.send(client.opening(5), client.content(5, prefixed(bytes(90_000))))
        client.send(frame("RST_STREAM", 0, 5, bytes(4)))
        assert client.kept.count == 0

    def test_what_all_connections_keep_has_a_bound_too(self) -> None:
        whole = KeptBytes(20_000)
        one, other = (ByHand(kept=KeptBytes(100_000, whole)) for _ in range(2))
        one.send(one.opening(1), one.content(1, prefixed(bytes(15_000))))
        other.send(other.opening(1), other.content(1, prefixed(bytes(15_000))))  # in one frame: never in half
        other.send(other.opening(3), other.content(3, prefixed(bytes(15_000))[:-1]))
        assert [other.answered(stream).status for stream in (1, 3)] == ["8", "8"]
        assert (one.kept.count, other.kept.count, whole.count) == (15_000, 0, 15_000)
        one.kept.clear()
        assert whole.count == 0

    def test_what_came_whole_ahead_of_a_fault_is_there(self) -> None:
        client = ByHand()
        two = prefixed(b"a") + prefixed(b"not packed", packed=True)
        events = client.send(client.opening(1, BIDI), client.content(1, two))
        assert events == [StreamOpened(1), MessageReceived(1, b"a"), StreamDone(1, True)]
        assert client.answered(1).status == "13"


class TestWindows:
    def test_a_reply_waits_for_both_windows_and_comes_in_frames(self) -> None:
        client = ByHand()
        client.send(setting(4, 20_000), client.call(1, b"x"))
        client.server.reply(1, bytes(90_000))
        client.take()
        assert [len(one.content) for one in client.of("DATA", 1)] == [16_384, 3_616]
        assert (len(client.server.replies) > 0, client.kept.count) == (True, 90_005 - 20_000)
        client.send(window(1, 100_000))
        assert sum(len(one.content) for one in client.of("DATA", 1)) == 65_535  # now that of the connection
        client.send(window(0, 100_000))
        assert (client.answered(1).messages, client.answered(1).status) == ([bytes(90_000)], "0")
        assert (len(client.server.replies) > 0, client.kept.count, client.server.streams) == (False, 0, 0)

    def test_streams_share_what_the_connection_allows_in_turns(self) -> None:
        client = ByHand()
        client.send(setting(4, 1 << 20), client.call(1, b"x") + client.call(3, b"x"))
        client.server.reply(1, bytes(200_000))
        client.server.reply(3, bytes(200_000))
        client.send(window(0, 1 << 20))
        assert (len(client.answered(1).content), len(client.answered(3).content)) == (200_005, 200_005)
        order = [one.stream for one in client.of("DATA")]
        assert order.index(3) < len(order) - 1 - order[::-1].index(1)

    def test_a_change_of_the_first_window_counts_for_open_streams_even_below_zero(self) -> None:
        client = ByHand()
        client.send(client.call(1, b"x"))
        client.server.reply(1, bytes(70_000))
        client.send(window(0, 1 << 20))
        client.send(setting(4, 100))
        before = len(client.answered(1).content)
        assert before == 65_535
        client.send(window(1, 60_000))
        assert len(client.answered(1).content) == before
        client.send(setting(4, 1 << 20))
        assert client.answered(1).messages == [bytes(70_000)]

    def test_more_than_may_wait_ends_the_connection(self) -> None:
        client = ByHand(kept=KeptBytes(100_000))
        client.send(setting(4, 0), client.call(1, b"x") + client.call(3, b"x"))
        client.server.reply(1, bytes(80_000))
        client.server.reply(3, bytes(80_000))
        assert client.ended_with == Code.ENHANCE_YOUR_CALM
        assert client.kept.count == 0

    def test_what_waits_on_a_stream_that_this_side_ended_is_sent_though_the_client_ends_it_too(self) -> None:
        client = ByHand()
        client.send(setting(4, 10), client.opening(1, BIDI), client.content(1, prefixed(b"x")))
        client.server.send(1, bytes(1_000))
        client.server.end(1, 14, "elsewhere")
        client.send(frame("DATA", END_STREAM, 1))
        client.send(window(1, 10_000))
        found = client.answered(1)
        assert (found.messages, found.status, found.resets) == ([bytes(1_000)], "14", ())
        assert (client.kept.count, client.server.streams) == (0, 0)

    def test_what_waits_for_a_stream_that_is_reset_is_dropped(self) -> None:
        client = ByHand()
        client.send(setting(4, 10), client.call(1, b"x"))
        client.server.reply(1, bytes(1_000))
        assert client.kept.count == 995
        client.send(frame("RST_STREAM", 0, 1, bytes(4)))
        assert (client.kept.count, len(client.server.replies) > 0) == (0, False)

    def test_the_windows_of_a_client_that_sends_much_are_widened(self) -> None:
        client = ByHand()
        client.send(client.opening(1, BIDI))
        for _ in range(60):
            assert len(client.send(client.content(1, prefixed(bytes(50_000))))) == 1
        assert client.ended_with is None
        assert client.of("WINDOW_UPDATE", 1)
        assert len(client.of("WINDOW_UPDATE", 0)) > 1

    def test_content_that_nobody_wants_is_passed_over(self) -> None:
        client = ByHand()
        client.send(client.opening(1, content_type="text/plain"))
        for _ in range(200):
            client.send(frame("DATA", 0, 1, bytes(16_384)))
        assert (client.ended_with, client.kept.count) == (None, 0)


class TestBounds:
    def test_streams_above_the_bound_are_refused(self) -> None:
        client = ByHand()
        client.send(*(client.opening(2 * one + 1) for one in range(LIMITS.streams_max + 1)))
        assert client.answered(2 * LIMITS.streams_max + 1).resets == (Code.REFUSED_STREAM,)
        assert client.server.streams == LIMITS.streams_max

    @pytest.mark.parametrize(
        "one",
        [
            frame("SETTINGS"),
            frame("SETTINGS", 1),
            frame("PRIORITY", 0, 1, b"\0\0\0\3\1"),
            window(0, 1),
            frame("RST_STREAM", 0, 1, bytes(4)),
            frame("GOAWAY", 0, 0, bytes(8)),
            frame("DATA", 0, 3),
            b"\0\0\0\x77\0\0\0\0\0",
        ],
        ids=["settings", "settings ack", "priority", "window", "reset", "goaway", "empty data", "unknown"],
    )
    def test_a_flood_of_frames_that_carry_nothing_ends_the_connection(self, one: bytes) -> None:
        client = ByHand()
        client.send(client.opening(1), frame("RST_STREAM", 0, 1, bytes(4)), client.opening(3))
        client.send(one * SOME)
        assert client.ended_with == Code.ENHANCE_YOUR_CALM

    def test_a_frame_with_thousands_of_windows_changes_those_of_streams_once(self) -> None:
        """A frame of 16 KB went through the windows of all streams 2,730 times: two seconds for 250 streams."""
        client = ByHand(Http2Limits(1_000, 256, 10.0))
        client.send(*(client.opening(stream, BIDI) for stream in range(1, 501, 2)))
        looked: list[int] = []
        client.server.replies = CountedLooks(client.kept, looked)
        many = b"".join(b"\0\4" + (100 + one).to_bytes(4, "big") for one in range(2_730))
        client.send(frame("SETTINGS", 0, 0, many))
        assert (client.ended_with, len(looked)) == (None, 250)
        client.server.reply(1, bytes(5_000))
        client.send(window(0, 1 << 20))
        assert len(client.answered(1).content) == 100 + 2_729

    def test_changed_windows_of_many_streams_end_the_connection(self) -> None:
        client = ByHand(Http2Limits(1_000, 256, 10.0))
        client.send(*(client.opening(stream, BIDI) for stream in range(1, 501, 2)))
        for number in range(100):
            client.send(setting(4, 70_000 + number))
        assert client.ended_with == Code.ENHANCE_YOUR_CALM

    @pytest.mark.parametrize("of", ["stream", "connection", "all"])
    def test_windows_that_are_widened_by_a_byte_end_the_connection(self, of: str) -> None:
        """Each has a frame sent, and was paid back for it fourfold."""
        client = ByHand(kept=KeptBytes(1 << 20))
        client.send(setting(4, 0 if of != "connection" else 1 << 20), client.call(1, b"x"))
        client.server.reply(1, bytes(100_000))
        for number in range(1, SOME):
            frames = {"stream": window(1, 1), "connection": window(0, 1), "all": setting(4, number)}
            client.send(frames[of])
        assert client.ended_with == Code.ENHANCE_YOUR_CALM

    def test_windows_that_are_widened_by_what_was_read_go_on(self) -> None:
        client = ByHand(kept=KeptBytes(10 << 20))
        client.send(setting(4, 1_000), client.call(1, b"x"))
        client.server.reply(1, bytes(3_000_000))
        for _ in range(2_999):
            client.send(window(1, 1_000), window(0, 1_000))
        assert client.ended_with is None

    def test_a_window_that_is_too_wide_in_between_ends_the_connection(self) -> None:
        client = ByHand()
        client.send(frame("SETTINGS", 0, 0, b"\0\4\xff\xff\xff\xff" + b"\0\4\0\0\xff\xff"))
        assert client.ended_with == Code.FLOW_CONTROL_ERROR

    def test_a_flood_of_small_pieces_of_a_message_ends_the_connection(self) -> None:
        client = ByHand()
        message = prefixed(bytes(20_000))
        client.send(client.opening(1), *(frame("DATA", 0, 1, message[at : at + 1]) for at in range(SOME)))
        assert client.ended_with == Code.ENHANCE_YOUR_CALM

    def test_the_same_frames_beside_calls_are_welcome(self) -> None:
        client = ByHand(Http2Limits(1_000, 16, 0.0))
        for stream in range(1, 6_001, 2):
            echo(client, client.send(client.call(stream, b"x") + frame("PING", 0, 0, bytes(8)) + window(0, 6)))
        assert client.ended_with is None

    def test_a_credit_refills_by_time(self) -> None:
        client = ByHand()
        for _ in range(4):
            client.send(window(0, 1) * 900)
            client.now_s += 60
        assert client.ended_with is None

    def test_calls_that_are_given_up_at_once_end_the_connection(self) -> None:
        client = ByHand()
        for stream in range(1, 2_000, 2):
            client.send(client.call(stream, b"x") + frame("RST_STREAM", 0, stream, bytes(4)))
            if client.server.ended:
                break
        assert client.ended_with == Code.ENHANCE_YOUR_CALM
        assert 100 < stream < 1_000

    def test_pings_are_answered_and_those_that_come_too_soon_end_the_connection(self) -> None:
        client = ByHand()
        for _ in range(3):
            client.send(frame("PING", 0, 0, b"12345678"))
        assert [one.content for one in client.of("PING")] == [b"12345678"] * 3
        client.send(frame("PING", 0, 0, b"12345678"))
        assert client.ended_with == Code.ENHANCE_YOUR_CALM
        assert client.of("GOAWAY")[-1].content.endswith(b"too_many_pings")

    def test_pings_in_time_go_on_for_ever(self) -> None:
        client = ByHand()
        for _ in range(5_000):
            client.now_s += LIMITS.ping_interval_s
            client.send(frame("PING", 0, 0, bytes(8)))
        assert client.ended_with is None

    def test_a_header_block_has_a_bound_packed_and_unpacked(self) -> None:
        client = ByHand()
        client.send(frame("HEADERS", 0, 1, bytes(16_000)), frame("CONTINUATION", 0, 1, bytes(16_000)))
        assert client.ended_with == Code.ENHANCE_YOUR_CALM
        bomb = ByHand()
        large = bomb.encoder.encode([("a", "b" * 4_000)])
        bomb.send(frame("HEADERS", END_HEADERS, 1, large + b"\xbe" * 12_000))
        assert bomb.ended_with == Code.ENHANCE_YOUR_CALM

    @pytest.mark.parametrize(
        "block",
        [
            pytest.param(b"\x20\x3f\xe1\x1f" * 4_000, id="changes of the table's size"),
            pytest.param(b"\x8f" * 300, id="many fields"),
            pytest.param(b"\x0f\x00\x7f\xe1\x5c" + b"a" * 12_000, id="a large field"),
        ],
    )
    def test_blocks_that_take_long_to_read_are_fewer(self, block: bytes) -> None:
        client = ByHand()
        for stream in range(1, 400, 2):
            client.send(frame("HEADERS", END_HEADERS, stream, block))
            if client.server.ended:
                break
        assert client.ended_with == Code.ENHANCE_YOUR_CALM
        assert stream < 100, "as many as frames that cost nothing to read"

    def test_messages_that_are_packed_too_well_are_paid_for(self) -> None:
        plain, random_bytes = bytes(100_000), random.Random(1).randbytes(10_000) * 10
        for content, most in ((plain, 200), (random_bytes, 1_000)):
            client, packed = ByHand(), prefixed(gzip.compress(content), packed=True)
            for stream in range(1, 1_000, 2):
                events = client.send(client.opening(stream, grpc_encoding="gzip"))
                events += client.send(client.content(stream, packed, END_STREAM))
                if client.server.ended:
                    break
                assert events == [CallReceived(stream, content)]
                client.server.reply(stream, b"")
            assert client.ended_with == (Code.ENHANCE_YOUR_CALM if content is plain else None)
            assert stream < most

    def test_a_step_reads_one_large_block_at_most(self) -> None:
        client = ByHand()
        large = [client.opening(stream, x=f"{stream}" * 1_000) for stream in (1, 3, 5)]
        client.server.receive(b"".join(large), client.now_s)
        for streams in (1, 2, 3):
            client.server.step()
            assert client.server.streams == streams

    def test_a_block_of_many_empty_parts_ends_the_connection(self) -> None:
        client = ByHand()
        client.send(frame("HEADERS", 0, 1), *([frame("CONTINUATION", 0, 1)] * 100))
        assert client.ended_with == Code.ENHANCE_YOUR_CALM

    @pytest.mark.parametrize("block", [b"\x40", b"\x00", b"\xff\xff\xff\xff\xff\xff\xff", b"\x80", b"\x3f\xff\xff\x7f"])
    def test_a_block_that_cannot_be_read_ends_the_connection(self, block: bytes) -> None:
        client = ByHand()
        client.send(frame("HEADERS", END_HEADERS, 1, block))
        assert client.ended_with == Code.COMPRESSION_ERROR

    def test_a_block_that_repeats_means_the_same_until_the_table_changes(self) -> None:
        client = ByHand()
        first = client.block()
        repeated = client.block()
        assert first != repeated
        for stream, block in ((1, first), (3, repeated), (5, repeated)):
            events = client.send(
                frame("HEADERS", END_HEADERS, stream, block), client.content(stream, prefixed(b"x"), END_STREAM)
            )
            assert events == [CallReceived(stream, b"x")]
        client.send(client.opening(7, BIDI))  # now the same bytes name another path
        assert client.send(frame("HEADERS", END_HEADERS, 9, repeated)) != [CallReceived(9, b"x")]
        renewed = client.block()
        assert renewed != repeated
        client.send(frame("HEADERS", END_HEADERS, 11, renewed))
        assert client.send(client.content(11, prefixed(b"y"), END_STREAM)) == [CallReceived(11, b"y")]


class TestEnds:
    @pytest.mark.parametrize(
        "data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", MAGIC + frame("PING", 0, 0, bytes(8))]
    )
    def test_what_does_not_begin_as_http2_is_cut(self, data: bytes) -> None:
        client = ByHand(begun=False)
        client.send(data)
        assert client.ended_with == Code.PROTOCOL_ERROR
        assert not client.server.began

    def test_nothing_is_read_behind_the_end(self) -> None:
        client = ByHand()
        client.send(frame("PUSH_PROMISE", 0, 1, bytes(4)))
        assert client.ended_with == Code.PROTOCOL_ERROR
        assert client.send(client.call(1, b"x")) == []
        client.server.send(1, b"x")
        assert client.take() == []

    def test_who_is_told_to_go_twice_makes_calls_until_the_second_time(self) -> None:
        client = ByHand()
        client.server.leave()
        assert client.send(client.call(1, b"x")) == [CallReceived(1, b"x")]
        client.server.leave(finally_=True)
        assert client.send(client.call(3, b"x")) == []
        client.server.reply(1, b"y")
        assert client.answered(1).messages == [b"y"]
        lasts = [int.from_bytes(one.content[:4], "big") for one in client.of("GOAWAY")]
        assert lasts == [(1 << 31) - 1, 1]

    def test_an_answer_to_our_ping_is_noted(self) -> None:
        client = ByHand()
        client.server.ping()
        [ping] = [one for one in client.take() if one.kind == "PING"]
        assert not client.server.ping_answered
        client.send(frame("PING", 1, 0, ping.content))
        assert client.server.ping_answered


SELF = b"\0\0\0\1\0"
"""A priority that depends on stream 1."""
WIDEST = (1 << 31) - 1
OPEN = ByHand(begun=False).opening(1)


def unfit(*fields: tuple[str, str]) -> bytes:
    """The opening of a call with other fields."""
    usual = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), ("content-type", "application/grpc")]
    return frame("HEADERS", END_HEADERS, 1, bytes(ByHand(begun=False).encoder.encode([*usual, *fields])))


class TestRules:
    @pytest.mark.parametrize(
        ("said", "code"),
        [
            pytest.param(frame("HEADERS", END_HEADERS | 32, 1, b"\0\0"), Code.FRAME_SIZE_ERROR, id="half a priority"),
            pytest.param(frame("HEADERS", END_HEADERS | 32, 1, SELF), Code.PROTOCOL_ERROR, id="depends on itself"),
            pytest.param(frame("HEADERS", END_HEADERS | 8, 1), Code.FRAME_SIZE_ERROR, id="no length of padding"),
            pytest.param(OPEN + frame("DATA", 8, 1, b"\x09abc"), Code.PROTOCOL_ERROR, id="too much padding"),
            pytest.param(OPEN + frame("RST_STREAM", 0, 1, bytes(4)) + OPEN, Code.STREAM_CLOSED, id="headers again"),
            pytest.param(frame("RST_STREAM", 0, 1, bytes(4)), Code.PROTOCOL_ERROR, id="a reset of nothing"),
            pytest.param(OPEN + frame("RST_STREAM", 0, 1), Code.FRAME_SIZE_ERROR, id="an empty reset"),
            pytest.param(frame("DATA", 0, 1, b"x"), Code.PROTOCOL_ERROR, id="content of nothing"),
            pytest.param(frame("PRIORITY", 0, 0, bytes(5)), Code.PROTOCOL_ERROR, id="priority of the connection"),
            pytest.param(frame("SETTINGS", 0, 1), Code.PROTOCOL_ERROR, id="settings of a stream"),
            pytest.param(frame("SETTINGS", 0, 0, b"x"), Code.FRAME_SIZE_ERROR, id="half a setting"),
            pytest.param(frame("SETTINGS", 1, 0, b"x"), Code.FRAME_SIZE_ERROR, id="settings behind ACK"),
            pytest.param(setting(2, 2), Code.PROTOCOL_ERROR, id="push is neither on nor off"),
            pytest.param(setting(5, 1), Code.PROTOCOL_ERROR, id="frames too small"),
            pytest.param(setting(4, WIDEST + 1), Code.FLOW_CONTROL_ERROR, id="a first window too wide"),
            pytest.param(
                OPEN + window(1, 1_000) + setting(4, WIDEST), Code.FLOW_CONTROL_ERROR, id="a changed window too wide"
            ),
            pytest.param(window(0, WIDEST), Code.FLOW_CONTROL_ERROR, id="the window of the connection too wide"),
            pytest.param(window(0, 0), Code.PROTOCOL_ERROR, id="a window by nothing"),
            pytest.param(window(1, 1), Code.PROTOCOL_ERROR, id="a window of nothing"),
            pytest.param(frame("WINDOW_UPDATE", 0, 0, b"x"), Code.FRAME_SIZE_ERROR, id="half a window"),
            pytest.param(frame("PING", 0, 1, bytes(8)), Code.PROTOCOL_ERROR, id="a ping of a stream"),
            pytest.param(frame("PING", 0, 0, bytes(7)), Code.FRAME_SIZE_ERROR, id="half a ping"),
            pytest.param(frame("PING", 1, 0, bytes(8)) * SOME, Code.ENHANCE_YOUR_CALM, id="answers to no ping"),
            pytest.param(frame("GOAWAY", 0, 1, bytes(8)), Code.PROTOCOL_ERROR, id="the end of a stream as GOAWAY"),
            pytest.param(frame("GOAWAY", 0, 0, bytes(7)), Code.FRAME_SIZE_ERROR, id="half a GOAWAY"),
            pytest.param(frame("HEADERS", 0, 1) + frame("PING", 0, 0, bytes(8)), Code.PROTOCOL_ERROR, id="in a block"),
            pytest.param(b"\x01\0\0\0\0\0\0\0\1", Code.FRAME_SIZE_ERROR, id="a frame too large"),
            pytest.param(frame("HEADERS", END_HEADERS, 2, b"\x83"), Code.PROTOCOL_ERROR, id="an even stream"),
        ],
    )
    def test_what_breaks_a_rule_of_the_connection_ends_it(self, said: bytes, code: Code) -> None:
        client = ByHand()
        client.send(said)
        assert (client.ended_with, client.kept.count) == (code, 0)
        client.server.leave()
        assert client.take() == []

    @pytest.mark.parametrize(
        ("said", "code"),
        [
            pytest.param(frame("PRIORITY", 0, 1, b"x"), Code.FRAME_SIZE_ERROR, id="half a priority"),
            pytest.param(frame("PRIORITY", 0, 1, SELF), Code.PROTOCOL_ERROR, id="depends on itself"),
            pytest.param(OPEN + window(1, 0), Code.PROTOCOL_ERROR, id="a window by nothing"),
            pytest.param(OPEN + window(1, WIDEST), Code.FLOW_CONTROL_ERROR, id="a window too wide"),
            pytest.param(OPEN + frame("HEADERS", END_HEADERS, 1), Code.PROTOCOL_ERROR, id="trailers before the end"),
            pytest.param(
                OPEN + frame("HEADERS", END_HEADERS | END_STREAM, 1, b"\x83"), Code.PROTOCOL_ERROR, id="pseudo trailers"
            ),
            pytest.param(
                OPEN + ByHand(begun=False).content(1, prefixed(b"x"), END_STREAM) + frame("DATA", 0, 1),
                Code.STREAM_CLOSED,
                id="content behind the end",
            ),
            pytest.param(
                OPEN + ByHand(begun=False).content(1, prefixed(b"x"), END_STREAM) + frame("HEADERS", 5, 1),
                Code.STREAM_CLOSED,
                id="trailers behind the end",
            ),
            pytest.param(
                ByHand(begun=False).opening(1, content_length="7") + frame("DATA", END_STREAM, 1, prefixed(b"x")),
                Code.PROTOCOL_ERROR,
                id="another length than said",
            ),
            pytest.param(unfit(("content-length", "x")), Code.PROTOCOL_ERROR, id="no length"),
            pytest.param(unfit(("content-length", "1"), ("content-length", "2")), Code.PROTOCOL_ERROR, id="lengths"),
            pytest.param(unfit(("Large", "x")), Code.PROTOCOL_ERROR, id="capitals"),
            pytest.param(unfit(("", "x")), Code.PROTOCOL_ERROR, id="no name"),
            pytest.param(unfit(("connection", "close")), Code.PROTOCOL_ERROR, id="a field of HTTP/1.1"),
            pytest.param(unfit(("te", "gzip")), Code.PROTOCOL_ERROR, id="te"),
            pytest.param(unfit((":authority", "late")), Code.PROTOCOL_ERROR, id="a pseudo field behind others"),
            pytest.param(frame("HEADERS", END_HEADERS, 1, b"\x83"), Code.PROTOCOL_ERROR, id="no path"),
        ],
    )
    def test_what_breaks_a_rule_of_a_stream_resets_it_and_the_next_is_answered(self, said: bytes, code: Code) -> None:
        client = ByHand()
        client.send(said)
        assert (client.answered(1).resets, client.server.streams) == ((code,), 0)
        assert client.send(ByHand(begun=False).call(3, b"x"))[-1] == CallReceived(3, b"x")
        assert client.ended_with is None

    def test_content_for_what_this_side_reset_is_passed_over_and_for_what_the_client_did_is_not(self) -> None:
        client = ByHand()
        client.send(OPEN + window(1, 0))  # reset by this side
        client.send(OPEN[:3] + b"\1\4" + (3).to_bytes(4, "big") + OPEN[9:])
        client.send(frame("RST_STREAM", 0, 3, bytes(4)))
        before = len(client.frames)
        client.send(frame("DATA", 0, 1, b"x") + frame("DATA", 0, 3, b"x"))
        assert [(one.kind, one.stream, one.number) for one in client.frames[before:]] == [
            ("RST_STREAM", 3, Code.STREAM_CLOSED)
        ]

    def test_an_unknown_encoding_of_a_call_without_content_is_said(self) -> None:
        client = ByHand()
        assert client.send(client.opening(1, flags=END_HEADERS | END_STREAM, grpc_encoding="snappy")) == []
        assert (client.answered(1).status, client.server.streams) == ("12", 0)

    def test_a_stream_that_ends_in_a_message_or_keeps_too_much_is_over(self) -> None:
        client = ByHand(kept=KeptBytes(50_000))
        events = client.send(client.opening(1, BIDI), client.content(1, prefixed(b"abc")[:-1], END_STREAM))
        assert events == [StreamOpened(1), StreamDone(1, True)]
        events = client.send(client.opening(3, BIDI), client.content(3, prefixed(bytes(90_000))[:-1]))
        assert events == [StreamOpened(3), StreamDone(3, True)]
        assert [client.answered(one).status for one in (1, 3)] == ["13", "8"]
        assert (client.kept.count, client.server.streams) == (0, 0)


def test_who_closed_a_stream_is_known_of_the_latest_alone() -> None:
    client = ByHand(Http2Limits(1_000, 10_000, 10.0))
    last = 2 * (CLOSED_KEPT + 3 * CLOSED_AT_ONCE) + 1
    for stream in range(1, last + 1, 2):
        client.send(client.call(stream, b"x"))
        client.server.reply(stream, b"y")
    client.send(client.content(last - 2 * (CLOSED_KEPT - 1), prefixed(b"late")))
    client.send(client.content(1, prefixed(b"late")))
    resets = [one.stream for one in client.of("RST_STREAM")]
    assert resets == [last - 2 * (CLOSED_KEPT - 1)]
    assert len(client.server._closed) <= CLOSED_KEPT + CLOSED_AT_ONCE
    assert client.ended_with is None
