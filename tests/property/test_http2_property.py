"""Whatever comes, whole or in pieces: the same events and replies, nothing unforeseen, nothing kept at the end."""

from hypothesis import example, given
from hypothesis import strategies as st

from app.rpc.server.control_credit import KeptBytes
from app.rpc.server.grpc_messages import MessageFault, MessageReader
from app.rpc.server.http2 import Event
from tests.support.http2_client import BIDI, END_STREAM, MAGIC, UNARY, ByHand, Frame, echo, frame, prefixed

ids = st.integers(0, 12).map(lambda number: 2 * number + 1)
messages = st.one_of(st.binary(max_size=40), st.integers(0, 70_000).map(bytes))
numbers = st.one_of(st.integers(0, 70_000), st.integers(0, (1 << 32) - 1)).map(lambda number: number.to_bytes(4, "big"))


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """What a client says: mostly calls and streams in order, and frames that do not belong there."""
    client = ByHand(begun=False)  # for its encoder
    parts, opened = [MAGIC, frame("SETTINGS")], 1
    for _ in range(draw(st.integers(0, 12))):
        match draw(
            st.sampled_from(["call", "call", "stream", "message", "window", "frame", "setting", "end", "bytes"])
        ):
            case "call":
                fields = draw(st.sampled_from([{}, {"grpc-timeout": "3S"}, {"content-type": "text/plain"}]))
                block = client.block(draw(st.sampled_from([UNARY, UNARY, "/x"])), **fields)
                flags = draw(st.sampled_from([4, 4, 4, 5]))
                parts.append(frame("HEADERS", flags, opened, block))
                parts.append(client.content(opened, prefixed(draw(messages)), draw(st.sampled_from([END_STREAM, 0]))))
                opened += 2
            case "stream":
                parts.append(client.opening(opened, BIDI))
                opened += 2
            case "message":
                parts.append(client.content(draw(ids), prefixed(draw(messages))))
            case "window":
                parts.append(frame("WINDOW_UPDATE", 0, draw(st.one_of(st.just(0), ids)), draw(numbers)))
            case "setting":
                parts.append(frame("SETTINGS", 0, 0, b"\0" + bytes((draw(st.integers(0, 7)),)) + draw(numbers)))
            case "end":
                parts.append(frame(draw(st.sampled_from(["RST_STREAM", "DATA"])), END_STREAM, draw(ids), bytes(4)))
            case "frame":
                kind = draw(st.sampled_from(["HEADERS", "PRIORITY", "PING", "GOAWAY", "CONTINUATION", "PUSH_PROMISE"]))
                parts.append(
                    frame(kind, draw(st.integers(0, 255)), draw(st.integers(0, 9)), draw(st.binary(max_size=12)))
                )
            case _:
                parts.append(draw(st.binary(max_size=12)))
    return b"".join(parts)


def played(pieces: list[bytes]) -> tuple[list[Event], list[Frame], object]:
    """The events and frames of a server of echoes, and why it ended; checks that it gives back what it kept.

    Each frame is answered before the next is read. A step of several would tell pieces from the whole, and rightly:
    what is too much for a call is its reset before the reply, and passed over behind it.
    """
    kept = KeptBytes(500_000)
    client = ByHand(kept=KeptBytes(300_000, kept), begun=False)
    events: list[Event] = []
    for piece in pieces:
        client.server.receive(piece, client.now_s)
        while (found := client.server.step(1)) or client.server.has_more:
            events += found
            echo(client, found)
            client.take()
        assert not client.server.step(1)
        client.take()
    ended = client.ended_with
    client.kept.clear()
    assert kept.count == 0
    return events, client.frames, ended


def message_too_much() -> bytes:
    """A call that is whole, and a further message of it."""
    parts = (MAGIC, frame("SETTINGS"), ByHand(begun=False).call(1, b""), frame("DATA", 0, 1, prefixed(b"")))
    return b"".join(parts)


@given(data=conversations(), cuts=st.lists(st.integers(1, 3_000), max_size=30))
@example(data=message_too_much(), cuts=[len(message_too_much()) - 14])
def test_pieces_make_no_difference(data: bytes, cuts: list[int]) -> None:
    pieces, at = [], 0
    for size in cuts:
        pieces.append(data[at : at + size])
        at += size
    assert played([*pieces, data[at:]]) == played([data])


@given(data=conversations(), changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=20))
def test_whatever_is_changed_of_it_nothing_unforeseen_happens(data: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(data)
    for at, value in changes:
        changed[at % len(changed)] = value
    played([bytes(changed)])


@given(
    sent=st.lists(st.binary(max_size=300), max_size=6),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=40),
)
def test_messages_are_the_same_however_they_come(sent: list[bytes], sizes: list[int]) -> None:
    reader, data, got, at = MessageReader(b"", 300), b"".join(map(prefixed, sent)), [], 0
    for size in [*sizes, len(data) + 1]:
        got += reader.feed(data[at : at + size]) if data[at : at + size] else []
        at += size
    assert (got, reader.kept) == (sent, b"")


@given(data=st.binary(max_size=200))
def test_no_bytes_are_too_strange_for_messages(data: bytes) -> None:
    reader = MessageReader(b"gzip", 100)
    try:
        for message in reader.feed(data):
            assert len(message) <= 100
    except MessageFault as fault:
        status = fault.status
    else:
        status = 0
    assert status in (0, 8, 13)
