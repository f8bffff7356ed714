"""Header blocks of gRPC: what a request says, read by `hpack`, and the replies' blocks, which need no table.

A client that says the same again is read once. What is read is checked as RFC 9113, section 8 asks.
"""

import urllib.parse
from typing import Any, NamedTuple

from hpack import Decoder, HPACKError
from hpack.exceptions import OversizedHeaderListError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from app.rpc.server.control_credit import ControlCredit
from app.rpc.server.http2_frames import Code, ConnectionFault

TABLE_BYTES = 4_096
"""The size of a connection's table: the default, which needs no announcement."""
LIST_BYTES_MAX = 16_384
"""The most bytes of the fields of one block, unpacked: each field counts 32 next to its name and value. SDKs send some
400; a user's token is in the message, not here. It also bounds a block that names a large table entry repeatedly."""
KEPT_BLOCKS = 8
"""The blocks of a connection whose meaning is kept. A client has one for each method, with a time limit and without."""
KEPT_BLOCK_BYTES = 64
"""The largest block that is kept. A larger one is read each time, or clients would choose how much is kept of them."""
BYTES_PER_CREDIT = 128
FIELDS_PER_CREDIT = 6
RESIZED_PER_CREDIT = 16
"""The cost of a block next to its frame, as a field takes 2 to 5 us and a byte 0.2 us: a thousand frames of large
blocks took two seconds. The last counts bytes, too, of a block that begins with a change of the table's size, of which
it may have thousands."""
STATIC_ENTRIES = 61
"""The entries of the static table (RFC 7541, appendix A). The latest entry that was added comes behind them."""
TIME_LIMIT = b"grpc-timeout"
TIME_LIMIT_BYTES_MAX = 32
"""The longest time limit. A longer one, which gRPC does not know, is a field like others."""
CONNECTION_FIELDS = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)  # fmt: skip
"""Fields of HTTP/1.1 that mean nothing here, and so are refused."""
PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
REQUIRED = frozenset((b":method", b":scheme", b":path"))
STATUS_TEXT_BYTES_MAX = 1_024


class RequestHead(NamedTuple):
    """The fields of the first block of a stream."""

    path: bytes
    is_grpc: bool
    """True for a POST with a content type of gRPC."""
    encoding: bytes
    """The encoding of messages that are marked as packed; empty for none."""
    content_length: int
    """The length that the client announced; -1 for none."""

    @property
    def is_plain(self) -> bool:
        """True for a gRPC call in a known encoding and without an announced length: only its messages' bytes matter."""
        return self.is_grpc and self.content_length == -1 and self.encoding in (b"", b"identity", b"gzip")


class MalformedBlock(Exception):
    """The fields of a block break a rule; the table stays valid."""


class _WatchedTable(HeaderTable):
    """A table that counts its changes, and knows which of its entries are time limits.

    It always holds the entries that were added last, as one that is too large empties it: so the number of an entry is
    the count of changes when it was added, and never means another entry.
    """

    changes = 0

    def __init__(self) -> None:
        super().__init__()
        self.maxsize = TABLE_BYTES
        self.time_limits: set[int] = set()
        """The numbers of entries with a short time limit; some of these entries are gone."""

    def add(self, name: bytes, value: bytes) -> None:
        self.changes += 1
        super().add(name, value)
        if name == TIME_LIMIT and len(value) <= TIME_LIMIT_BYTES_MAX:
            if len(self.time_limits) >= TABLE_BYTES // 32:
                oldest = self.changes - len(self.dynamic_entries)
                self.time_limits = {one for one in self.time_limits if one > oldest}
            self.time_limits.add(self.changes)


class HeaderReader:
    """Reads the blocks of one connection, in their order.

    Two blocks mean the same if they name the same entries of the tables, with any numbers, and
    differ in time limits alone: grpc-go sends another limit with each call, and adds it to the table. Such a block is
    read here, and all others by ``hpack``.
    """

    __slots__ = ("_added", "_credit", "_decoder", "_heads", "_table")

    def __init__(self, credit: ControlCredit) -> None:
        """``credit``: pays for the bytes that are read."""
        self._credit = credit
        self._decoder = Decoder(max_header_list_size=LIST_BYTES_MAX)
        self._table = self._decoder.header_table = _WatchedTable()
        self._heads: dict[tuple[int, ...], RequestHead] = {}
        """The heads by the numbers of their entries: negative for the static table, 0 for a time limit."""
        self._added: bytes | None = None
        """The time limit that the block ``find`` found adds to the table."""

    def request(self, block: bytes) -> RequestHead:
        """Return the head of a request.

        Raises:
            ConnectionFault: the block cannot be unpacked, or is too large when it is; there were too many before.
            MalformedBlock: it is not the head of a request.
        """
        key = self._key(block)
        if key is not None and (head := self._heads.get(key)) is not None:
            if self._added is not None:
                self._table.add(TIME_LIMIT, self._added)
            return head
        fields = self._fields(block)
        head = read_head(fields)
        # Half of the bound, so that with other time limits the block is no larger than a block may be.
        if key is not None and sum([len(one) + len(two) + 32 for one, two in fields]) <= LIST_BYTES_MAX // 2:
            self._heads[key] = head
            if len(self._heads) > KEPT_BLOCKS:  # entries that went out of the table have other numbers when back
                del self._heads[next(iter(self._heads))]
        return head

    def find(self, block: bytes) -> RequestHead | None:
        """Return the head of a request that is known from another block; ``take`` must follow if it is used."""
        key = self._key(block)
        return None if key is None else self._heads.get(key)

    def take(self) -> None:
        """Count the block that ``find`` found as read."""
        if self._added is not None:
            self._table.add(TIME_LIMIT, self._added)

    def _key(self, block: bytes) -> tuple[int, ...] | None:
        """Return the numbers of the entries that a block names; None if it has more than these and a time limit."""
        table, key, at, size = self._table, list[int](), 0, len(block)
        self._added = None
        if size > KEPT_BLOCK_BYTES:
            return None
        changes, oldest = table.changes, table.changes - len(table.dynamic_entries)
        while at < size:
            byte = block[at]
            if byte < 0x80:
                break
            at += 1
            if 0x80 < byte <= 0x80 + STATIC_ENTRIES:
                key.append(0x80 - byte)
                continue
            number = changes + (0x81 + STATIC_ENTRIES) - byte
            if byte == 0xFF:
                if at >= size or block[at] >= 0x80:
                    return None
                number -= block[at]
                at += 1
            if byte == 0x80 or number <= oldest:
                return None
            key.append(0 if number in table.time_limits else number)
        else:
            return tuple(key)
        if byte & 0xC0 != 0x40 or size - at > TIME_LIMIT_BYTES_MAX:
            return None
        # One literal is left, which the table takes: its name by its entry's number, and its value.
        number, at = byte & 0x3F, at + 1
        if number == 0x3F:
            if at >= size or block[at] >= 0x80:
                return None
            number, at = number + block[at], at + 1
        if changes + 1 + STATIC_ENTRIES - number not in table.time_limits or at >= size:
            return None
        length, value = block[at] & 0x7F, block[at + 1 :]
        if len(value) != length or length == 0x7F or changes + 1 + STATIC_ENTRIES - number <= oldest:
            return None
        if block[at] & 0x80:
            try:
                value = decode_huffman(value)
            except HPACKError:
                return None
        if len(value) > TIME_LIMIT_BYTES_MAX:
            return None
        self._added = value
        key.append(0)
        return tuple(key)

    def trailers(self, block: bytes) -> None:
        """Read a block that ends a stream, and check it.

        Raises:
            ConnectionFault, MalformedBlock: as ``request``.
        """
        fields = self._fields(block)
        if any(name[:1] == b":" for name, _ in fields):
            raise MalformedBlock("a pseudo field in trailers")
        _check_fields(fields)

    def skip(self, block: bytes) -> None:
        """Read a block whose fields do not matter, to keep the table right.

        Raises:
            ConnectionFault: as ``request``.
        """
        self._fields(block)

    def _fields(self, block: bytes) -> list[tuple[bytes, bytes]]:
        is_resize = block and block[0] & 0xE0 == 0x20
        self._credit.left -= len(block) / (RESIZED_PER_CREDIT if is_resize else BYTES_PER_CREDIT)
        if self._credit.left < 0:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many header blocks without a call")
        try:
            fields: Any = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            text = f"a header block of more than {LIST_BYTES_MAX} bytes unpacked"
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, text) from None
        except (HPACKError, IndexError, ValueError) as error:
            raise ConnectionFault(Code.COMPRESSION_ERROR, f"a header block that cannot be read: {error}") from None
        read: list[tuple[bytes, bytes]] = fields
        self._credit.left -= len(read) / FIELDS_PER_CREDIT  # the next one finds what is left
        return read


def read_head(fields: list[tuple[bytes, bytes]]) -> RequestHead:
    """Return the head of a request from the fields of its first block.

    Raises:
        MalformedBlock: they break a rule.
    """
    pseudo: dict[bytes, bytes] = {}
    content_type, encoding, length, past_pseudo = b"", b"", -1, False
    for name, value in fields:
        if name[:1] == b":":
            if past_pseudo or name in pseudo or name not in PSEUDO:
                raise MalformedBlock(f"the pseudo field {name!a} at a wrong place")
            pseudo[name] = value
            continue
        past_pseudo = True
        if name == b"content-type":
            content_type = value
        elif name == b"grpc-encoding":
            encoding = value
        elif name == b"content-length":
            if not value.isdigit() or len(value) > 18 or (length not in (-1, int(value))):
                raise MalformedBlock("content-length")
            length = int(value)
    _check_fields(fields)
    if not pseudo.keys() >= REQUIRED or not pseudo[b":path"]:
        raise MalformedBlock("a pseudo field is missing")
    of_grpc = content_type.startswith(b"application/grpc") and content_type[16:17] in (b"", b"+", b";")
    return RequestHead(pseudo[b":path"], of_grpc and pseudo[b":method"] == b"POST", encoding, length)


def _check_fields(fields: list[tuple[bytes, bytes]]) -> None:
    """Refuse fields that break a rule. The pseudo fields of a request break none."""
    for name, value in fields:
        if not name or name != name.lower() or name in CONNECTION_FIELDS:
            raise MalformedBlock(f"the field {name[:40]!a}")
        if name == b"te" and value != b"trailers":
            raise MalformedBlock("te is not trailers")


# --- replies --------------------------------------------------------------------------------------


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a field that no table holds, and that goes into none."""
    return b"\x00" + _length(len(name)) + name + _length(len(value)) + value


def _length(count: int) -> bytes:
    if count < 127:
        return bytes((count,))
    rest, out = count - 127, bytearray((127,))
    while rest >= 128:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


STATUS_200 = b"\x88"
"""Entry 8 of the static table."""
REPLY_HEAD = STATUS_200 + _literal(b"content-type", b"application/grpc")
TRAILERS_OK = _literal(b"grpc-status", b"0")
UNSUPPORTED_HEAD = _literal(b":status", b"415") + _literal(b"content-type", b"text/plain;charset=UTF-8")
"""The header block of the reply to a request that is not gRPC."""
ACCEPTED_ENCODINGS = _literal(b"grpc-accept-encoding", b"identity,gzip")


def trailers(status: int, text: str = "") -> bytes:
    """Return the block that ends a call. ``text`` is cut at ``STATUS_TEXT_BYTES_MAX``."""
    if not status and not text:
        return TRAILERS_OK
    block = _literal(b"grpc-status", str(status).encode())
    if text:
        quoted = urllib.parse.quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")[:STATUS_TEXT_BYTES_MAX]
        block += _literal(b"grpc-message", quoted.encode())
    return block
