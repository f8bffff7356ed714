"""Requests and replies as bytes, for the worker that carries them itself."""

import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TypeVar

from app.http.api.call import JSON, Call, Reply
from app.http.input.forms import is_form
from app.http.input.params import Parameters, parse_beat, parse_list

C = TypeVar("C")
RawHeaders = list[tuple[bytes, bytes]]

MEMOISED = frozenset({parse_beat, parse_list})
"""Clients repeat these to the byte for as long as they live; what they become is a value."""
MEMO_ENTRIES_MAX = 131_072
MEMO_QUERY_BYTES_MAX = 1_024
MEMO_FULL_S = 60.0
"""A full memo keeps what it has for so long: if the oldest went, a steady round of beats would never find its own."""


class ParseMemo:
    """Remembers what parsers made of a query. One thread uses it."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._full_s: float | None = None
        self.made: dict[tuple[Callable[..., object], bytes], object] = {}

    def keep(self, key: tuple[Callable[..., object], bytes], made: object) -> None:
        """Keep what was made, if there is room."""
        if len(key[1]) > MEMO_QUERY_BYTES_MAX:
            return
        if len(self.made) >= MEMO_ENTRIES_MAX:
            now_s = self._clock_s()
            if self._full_s is None:
                self._full_s = now_s
            if now_s - self._full_s < MEMO_FULL_S:
                return
            self.made.clear()
            self._full_s = None
        self.made[key] = made


_FRAMING_LENGTHS = frozenset(map(len, ("content-length", "connection", "expect", "transfer-encoding")))


class HeaderBlock:
    """The headers of a request, as text when somebody asks. Most clients send the same ones with every request."""

    __slots__ = ("_fields", "_named", "_texts", "chunked", "connection", "content_length", "expects", "raw")

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self._fields: dict[bytes, bytes] | None = None
        self._texts: dict[str, str | None] = {}
        """Those that were asked for: the same ones are with the next request."""
        self._named: dict[str, str] | None = None
        self.content_length: bytes | None = None
        self.connection = self.expects = self.chunked = False
        for name, value in raw:
            if len(name) not in _FRAMING_LENGTHS:
                continue
            match name.lower():
                case b"content-length":
                    self.content_length = value.strip()
                case b"connection":
                    self.connection = True
                case b"expect":
                    self.expects = value.strip().lower() == b"100-continue"
                case b"transfer-encoding":
                    self.chunked = True

    def get(self, name: str) -> str | None:
        """As ``named.get(name)``, without making text of the other headers. ``name`` is one that we know."""
        try:
            return self._texts[name]
        except KeyError:
            text = self._texts[name] = self._text(name)
            return text

    def _text(self, name: str) -> str | None:
        fields = self._fields
        if fields is None:
            fields = self._fields = {raw_name.lower(): value for raw_name, value in self.raw}
        if len(fields) != len(self.raw):
            return self.named.get(name)
        value = fields.get(name.encode())
        return None if value is None else value.decode("latin-1").strip(" \t")

    @property
    def named(self) -> Mapping[str, str]:
        """By name in lower case; of a name that comes twice the values are joined by a comma.

        One with an underscore is left out, as in gunicorn: WSGI could not tell it from one with a hyphen.
        """
        if self._named is None:
            named: dict[str, str] = {}
            for raw_name, raw_value in self.raw:
                if b"_" in raw_name:
                    continue
                name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
                named[name] = f"{named[name]},{value}" if name in named else value
            self._named = named
        return self._named


class WireCall(Call):
    """A call on the loop, whose headers become text when somebody asks."""

    __slots__ = ("_block", "_memo")

    def __init__(
        self,
        method: str,
        path: str,
        raw_query: bytes,
        block: HeaderBlock,
        body: bytes,
        remote_ip: str,
        context_path: str,
        memo: ParseMemo,
    ) -> None:
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.body = body
        self.remote_ip = remote_ip
        self.context_path = context_path
        self.raw_path = ""
        self.on_loop = True
        self._parameters: Parameters | None = None
        self._block = block
        self._memo = memo

    @property
    def headers(self) -> Mapping[str, str]:  # type: ignore[override]
        return self._block.named

    def header(self, name: str) -> str | None:
        return self._block.get(name)

    def parse(self, parser: Callable[[Parameters], C]) -> C:
        if parser not in MEMOISED:
            return parser(self.parameters)
        query = self.raw_query
        if self.body:
            if not is_form(self.method, self.header("content-type") or ""):
                return parser(self.parameters)
            query = b"%b\n%b" % (query, self.body)  # no query has a line's end in it
        key = (parser, query)
        made = self._memo.made.get(key)
        if made is None:
            made = parser(self.parameters)
            self._memo.keep(key, made)
        return made  # type: ignore[return-value]


@lru_cache(256)
def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n"


_JSON_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: ".encode()


def head_of(reply: Reply) -> bytes:
    """The head of a reply that is sent whole, but for its date and what the connection adds."""
    if reply.status == 200 and reply.content_type is JSON and not reply.headers:
        return b"%b%d\r\n" % (_JSON_HEAD, len(reply.body))
    lines = [_status_line(reply.status)]
    if reply.content_type is not None:
        lines.append(f"Content-Type: {reply.content_type}\r\n")
    lines.extend(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    if reply.status >= 200 and reply.status != 204 and reply.status != 304:
        lines.append(f"Content-Length: {len(reply.body)}\r\n")
    # What a header may hold was checked where it was made; a line's end in it would be another header.
    head = "".join(lines)
    assert head.count("\n") == len(lines), "a header of a reply holds a line's end"
    return head.encode("latin-1", "replace")


def date_line(wall_s: float) -> bytes:
    """The header that dates a reply, with the end of the head's last line."""
    return f"Date: {formatdate(wall_s, usegmt=True)}\r\n".encode()
