"""One service of echoes, twice: answered by our machine, and by grpcio's own server, which is asked over a socket."""

import random
import select
import socket
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from app.rpc.server.http2 import CallReceived, Event, Http2Limits, MessageReceived, StreamDone, StreamOpened
from tests.differential.conversations import MESSAGE_BYTES_MAX, WIDE, Conversation
from tests.support.http2_client import END_STREAM, ByHand, Heard, whole_frames

THREADS = 16
REPLY_BYTES_MAX = 200_000
"""More is asked for by changed messages alone."""
ANSWER_S = 30.0
STUCK_S = 0.02
"""Without a window for this long the other side waits for one of ours: it gets it."""
LIMITS = Http2Limits(MESSAGE_BYTES_MAX, 100, 10.0)


class Ends(Exception):
    """A message asks for the end of its call."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def reply_to(message: bytes) -> bytes | None:
    """What is answered: the message, as many bytes as it asks for, nothing.

    Raises:
        Ends: a status instead.
    """
    match message[:1]:
        case b"r":
            return bytes(min(int.from_bytes(message[1:5], "big"), REPLY_BYTES_MAX))
        case b"f":
            raise Ends((message[1:2] or b"\2")[0], message[2:].decode(errors="replace"))
        case b"n":
            return None
        case _:
            return message


Outcome = tuple[str | None, str | None, str, list[bytes]]


def outcome(heard: Heard, stream: int) -> Outcome:
    """Status of HTTP and of gRPC, its text, and the messages of a stream."""
    found = heard.answered(stream)
    ended = found.trailers or found.headers
    text = urllib.parse.unquote(ended.get("grpc-message", ""))
    return found.headers.get(":status"), found.status, text, found.messages


# --- our machine ----------------------------------------------------------------------------------


class OurEcho:
    """Answers what comes out of our machine; ``late``: some of it after what came later."""

    def __init__(self, late: random.Random | None = None) -> None:
        self.client = ByHand(LIMITS, begun=False)
        self._late = late
        self._waiting: list[tuple[int, bytes]] = []

    def take(self, pieces: Iterable[bytes]) -> ByHand:
        server = self.client.server
        for piece in pieces:
            server.receive(piece, self.client.now_s)
            while (events := server.step()) or server.has_more:
                for event in events:
                    self._on(event)
            self.client.take()
            while self._waiting and self._late is not None and self._late.random() < 0.5:
                self._answer(*self._waiting.pop(self._late.randrange(len(self._waiting))))
        while self._waiting:
            self._answer(*self._waiting.pop())
        self.client.take()
        return self.client

    def _on(self, event: Event) -> None:
        match event:
            case CallReceived(stream, message):
                if self._late is not None and self._late.random() < 0.5:
                    self._waiting.append((stream, message))
                else:
                    self._answer(stream, message)
            case MessageReceived(stream, message):
                try:
                    reply = reply_to(message)
                except Ends as end:
                    self.client.server.end(stream, end.status, end.text)
                else:
                    if reply is not None:
                        self.client.server.send(stream, reply)
            case StreamDone(stream, is_reset):
                if not is_reset:
                    self.client.server.end(stream)
            case StreamOpened():
                pass

    def _answer(self, stream: int, message: bytes) -> None:
        try:
            self.client.server.reply(stream, reply_to(message) or b"")
        except Ends as end:
            self.client.server.end(stream, end.status, end.text)


# --- grpcio ---------------------------------------------------------------------------------------

CODES = {code.value[0]: code for code in grpc.StatusCode}


def _unary(message: bytes, context: Any) -> bytes:
    try:
        return reply_to(message) or b""
    except Ends as end:
        context.abort(CODES[end.status], end.text)
        raise


def _both_ways(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for message in messages:
        try:
            reply = reply_to(message)
        except Ends as end:
            context.abort(CODES[end.status], end.text)
            raise
        if reply is not None:
            yield reply


@contextmanager
def grpcio_echo() -> Iterator[int]:
    """Serve the same by grpcio; yields its port."""
    pool = ThreadPoolExecutor(THREADS)
    options = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.so_reuseport", 0)]
    server = grpc.server(pool, options=options)
    methods = {"request": grpc.unary_unary_rpc_method_handler(_unary)}
    streams = {"requestBiStream": grpc.stream_stream_rpc_method_handler(_both_ways)}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("Request", methods),
            grpc.method_handlers_generic_handler("BiRequestStream", streams),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()
        pool.shutdown()


class _Windows:
    """What the other side permits to send."""

    def __init__(self) -> None:
        self._first = 65_535
        self._connection = 65_535
        self._streams: dict[int, int] = {}

    def on_frame(self, kind: str, flags: int, stream: int, content: bytes) -> None:
        if kind == "WINDOW_UPDATE":
            count = int.from_bytes(content, "big")
            if stream:
                self._streams[stream] = self._streams.get(stream, self._first) + count
            else:
                self._connection += count
        elif kind == "SETTINGS" and not flags:
            for at in range(0, len(content), 6):
                if int.from_bytes(content[at : at + 2], "big") == 4:
                    value = int.from_bytes(content[at + 2 : at + 6], "big")
                    self._streams = {one: had + value - self._first for one, had in self._streams.items()}
                    self._first = value

    def take(self, stream: int, size: int) -> bool:
        """Use some of them; False if they are too narrow."""
        had = self._streams.get(stream, self._first)
        if size > had or size > self._connection:
            return False
        self._streams[stream] = had - size
        self._connection -= size
        return True


class AskedGrpcio:
    """Says a conversation to grpcio, in frames, and keeps to its windows."""

    def __init__(self, port: int, talk: Conversation) -> None:
        self._talk = talk
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._heard = Heard()
        self._rest = b""
        self._windows = _Windows()
        self._ended: set[int] = set()
        self._closed = False

    def ask(self) -> Heard:
        """Return all that was answered."""
        end_s = time.monotonic() + ANSWER_S
        with self._socket:
            for one in self._talk.frames:
                self._wait_for_window(one, end_s)
                self._send(one)
            while not self._closed and not self._ended.issuperset(self._talk.compared):
                assert time.monotonic() < end_s, f"seed {self._talk.seed}: grpcio has not answered"
                self._read(0.1)
        return self._heard

    def _wait_for_window(self, one: bytes, end_s: float) -> None:
        stream = int.from_bytes(one[5:9], "big")
        if one[3] or one.startswith(b"PRI") or stream in self._ended:
            return
        while not self._closed and stream not in self._ended and not self._windows.take(stream, len(one) - 9):
            assert time.monotonic() < end_s, f"seed {self._talk.seed}: grpcio gives no window"
            if not self._read(STUCK_S):
                self._send(WIDE)

    def _send(self, data: bytes) -> None:
        while data and not self._closed:
            self._read(0)
            _, writable, _ = select.select([], [self._socket], [], STUCK_S)
            if writable:
                try:
                    data = data[self._socket.send(data) :]
                except OSError:
                    self._closed = True

    def _read(self, wait_s: float) -> bool:
        """Take what is there; whether anything was."""
        readable, _, _ = select.select([self._socket], [], [], wait_s)
        if not readable:
            return False
        try:
            data = self._socket.recv(1 << 18)
        except OSError:
            data = b""
        self._closed = self._closed or not data
        whole, self._rest = whole_frames(self._rest + data)
        for one in self._heard.hear(whole):
            self._windows.on_frame(one.kind, one.flags, one.stream, one.content)
            if one.kind == "RST_STREAM" or (one.kind in ("HEADERS", "DATA") and one.flags & END_STREAM):
                self._ended.add(one.stream)
        return bool(data)
