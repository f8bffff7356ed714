"""DistroHttpAgent: datums, verify rounds and snapshots over HTTP/1.1, in Nacos's shapes.

A Rollcall peer gets versions, and gzip when it advertised that; real Nacos gets plain JSON without our fields.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson

from distro.model.errors import CodecError, ForbiddenError, RejectedError, TransportError, UnfitError
from distro.model.ports import Clock, DatumCodec
from distro.model.types import CAPABILITY_GZIP, CAPABILITY_VERSIONS, Datum, Page, Received, Version
from distro.timing.sliced import dumps_sliced
from distro.wire.call_trust import CLOCK_HEADER, DEADLINE_HEADER, CallSigner, PeerTls
from distro.wire.codec import (
    decode_entries,
    decode_frame,
    decode_received,
    decode_versions,
    encode_entries,
    frame_of,
    gunzip_if_gzip,
    gzip_body,
    json_object,
)
from distro.wire.peer_calls import PeerAnswer, call_peer, peer_session

MEMBER_HEADER = "Rollcall-Member"
"""Request header with the sender's address; only Rollcall members send it."""
GZIP_FROM_BYTES = 1_024
FRAME_BYTES = len(b"{}")
"""The bytes of a frame in addition to its entries and the commas between them."""
SNAPSHOT_HEADER, SNAPSHOT_VERSIONS = "Rollcall-Snapshot", "versions"
"""Header of the answer to a request for all datums in pages: it has the versions of all keys, and no datums.

The requester does not need to know whether the peer has this release: an earlier one sends all datums at once.
"""
PAGES_QUERY = "pages=true"


def keys_body(keys: Sequence[str]) -> bytes:
    """Return the body that requests datums by key. Wire: ``{"keys": "k1,k2"}``. Nacos splits it at the commas.

    If a key contains a comma, ``listed`` repeats the keys as an array, for Rollcall members.
    """
    body: dict[str, object] = {"keys": ",".join(keys)}
    if any("," in key for key in keys):
        body["listed"] = list(keys)
    return orjson.dumps(body)


class DistroHttpAgent:
    """The DistroTransportAgent of one resource type over HTTP. Thread-safe; connections to each peer are kept.

    ``capabilities(peer)``: the capabilities in the peer's last report. Source: Nacos 1.4.1 NamingProxy; docs/wire.md.
    """

    def __init__(
        self,
        *,
        self_address: str,
        context_path: str,
        user_agent: str,
        headers: Mapping[str, str],
        codec: DatumCodec,
        clock: Clock,
        capabilities: Callable[[str], frozenset[str]],
        deadline: Callable[[str, int], str | None],
        stamp: Callable[[], str],
        sent_ms: Callable[[str, str | None], int],
        body_bytes_max: int,
        tls: PeerTls | None = None,
        signer: CallSigner | None = None,
        resource_type: str = "",
        sent: Callable[[str, int], None] = lambda _peer, _count: None,
    ) -> None:
        """``resource_type``: the type that requests name; empty for instance lists, the only type of real Nacos 1.4.

        ``tls``: the TLS settings for calls to peers; None for plain HTTP.

        ``deadline(peer, timeout_ms)``: the deadline of a call in the peer's clock, empty for none (R13), None if the
        peer may not be called. ``stamp()``: the time of a call. ``sent_ms(peer, stamp)``: when an answer was made, by
        our clock; now if it has no stamp. All as in ``CallDeadlines``. ``sent(peer, count)``: counts bytes of a body.
        """
        self._base_path = f"{context_path}/v1/ns"
        self._type_query = f"type={quote(resource_type)}" if resource_type else ""
        self.self_address = self_address
        self._codec = codec
        self._clock = clock
        self.capabilities = capabilities
        self._deadline = deadline
        self.stamp = stamp
        self._sent_ms = sent_ms
        self.sent = sent
        self.body_bytes_max = body_bytes_max
        self._session = peer_session(
            user_agent,
            {"Content-Type": "application/json;charset=UTF-8", MEMBER_HEADER: self_address, **headers},
            tls,
            signer,
        )
        self._scheme = "http" if tls is None else "https"

    def close(self) -> None:
        self._session.close()

    def deadline(self, peer: str, left_ms: int) -> str:
        """Return the deadline of a call to the peer that is given up after ``left_ms``; empty for none (R13).

        Raises:
            TransportError: the peer may not be called, because it names a clock that is not known here yet.
        """
        deadline = self._deadline(peer, left_ms)
        if deadline is None:
            raise TransportError(f"{peer} has not reported itself yet, and no call to it can have a deadline")
        return deadline

    def sync_data(self, peer: str, datums: list[Datum], timeout_ms: int) -> Received:
        """PUT the datums; return the keys that a Rollcall peer refused or could not read.

        Raises:
            UnfitError: they are too large for one call; nothing was sent.
        """
        versioned = CAPABILITY_VERSIONS in self.capabilities(peer)
        entries = list[bytes]()
        left = self.body_bytes_max - FRAME_BYTES
        for entry in encode_entries(datums, self._codec, self._clock.monotonic_ms(), versioned=versioned):
            entries.append(entry)
            left -= len(entry) + 1
            if left < 0:
                raise UnfitError(f"{len(entries)} of {len(datums)} keys are over {self.body_bytes_max} bytes")
        return self.sync_frame(peer, frame_of(entries), timeout_ms)

    def entries(self, datums: list[Datum]) -> list[bytes]:
        """Return the entries of the frame of these datums, as of now, for a Rollcall member."""
        return list(encode_entries(datums, self._codec, self._clock.monotonic_ms(), versioned=True))

    def sync_frame(self, peer: str, frame: bytes, timeout_ms: int) -> Received:
        """PUT a frame that was encoded just now; otherwise as ``sync_data``."""
        if len(frame) > self.body_bytes_max:
            raise UnfitError(f"a frame of {len(frame)} bytes is over {self.body_bytes_max}")
        versioned = CAPABILITY_VERSIONS in self.capabilities(peer)
        return self._received(self.call("PUT", peer, "/distro/datum", timeout_ms, frame), versioned)

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        """PUT the version summary of the owned keys, or checksums for real Nacos.

        Return the states that are newer at the peer.
        """
        versioned = CAPABILITY_VERSIONS in self.capabilities(peer)
        path = f"/distro/checksum?source={self.self_address}&{self._type_query}".rstrip("&")
        return self._received(self.call("PUT", peer, path, timeout_ms, dumps_sliced(summary)), versioned)

    def compare(self, peer: str, body: bytes, timeout_ms: int) -> bytes:
        """PUT a message of a round that compares digests; return the plain answer. Shape: docs/wire-data.md."""
        return self.call("PUT", peer, "/distro/digest", timeout_ms, body)

    def query(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> list[Datum]:
        """Return the peer's datums of these keys. Wire: GET with a body, as in Nacos."""
        body = keys_body(keys)
        return self._datums(peer, self._call("GET", peer, "/distro/datum", timeout_ms, body, plain=True))

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | Mapping[str, Version] | None:
        """Return all datums of the type that the peer has, or the versions of all its keys, whose datums ``page`` gets.

        None if it answers 503, because it has not loaded yet.
        """
        query = f"{self._type_query}&{PAGES_QUERY}".lstrip("&")
        try:
            answer = self._call("GET", peer, f"/distro/datums?{query}", timeout_ms, None)
        except _Unavailable:
            return None
        if answer.headers.get(SNAPSHOT_HEADER) != SNAPSHOT_VERSIONS:
            return self._datums(peer, answer)
        try:
            return decode_versions(self._fields(answer))
        except CodecError as error:
            raise TransportError(f"the peer's versions cannot be read: {error}") from error

    def page(self, peer: str, keys: Sequence[str], timeout_ms: int) -> Page:
        """Return the peer's datums of the first of these keys, which are of this type."""
        body = keys_body(keys)
        answer = self._call("GET", peer, f"/distro/datum?{PAGES_QUERY}", timeout_ms, body, plain=True)
        made_ms = self._sent_ms(peer, answer.headers.get(CLOCK_HEADER))
        try:
            fields = self._fields(answer)
        except CodecError as error:
            raise UnfitError(f"the peer's datums cannot be read: {error}") from error
        return Page(decode_entries(fields, self._codec, made_ms)[0], tuple(fields))

    def _fields(self, answer: PeerAnswer) -> dict[str, Any]:
        return json_object(gunzip_if_gzip(answer.body, self.body_bytes_max) or b"{}")

    def call(
        self, method: str, peer: str, path: str, timeout_ms: int, body: bytes | None, *, plain: bool = False
    ) -> bytes:
        """Call ``path`` below ``/v1/ns``; return the body of the answer. ``plain``: never gzip the request's body.

        Raises:
            ForbiddenError: status 403.
            RejectedError: another status 4xx, or 501.
            TransportError: no answer in time, or another status than 200.
        """
        return self._call(method, peer, path, timeout_ms, body, plain=plain).body

    def _call(
        self, method: str, peer: str, path: str, timeout_ms: int, body: bytes | None, *, plain: bool = False
    ) -> PeerAnswer:
        deadline = self.deadline(peer, timeout_ms)
        headers = {DEADLINE_HEADER: deadline, CLOCK_HEADER: self.stamp()} if deadline else {}
        gzip_worth = body is not None and len(body) >= GZIP_FROM_BYTES and not plain
        if body is not None and gzip_worth and CAPABILITY_GZIP in self.capabilities(peer):
            body = gzip_body(body)
            headers["Content-Encoding"] = "gzip"
        self.sent(peer, len(body or b""))
        url = f"{self._scheme}://{peer}{self._base_path}{path}"
        answer = call_peer(
            self._session, method, url, timeout_ms, body=body, headers=headers, body_bytes_max=self.body_bytes_max
        )
        status = answer.status
        if status == HTTPStatus.OK:
            return answer
        text = f"{method} {url}: status {status}: {answer.body[:200]!r}"
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise _Unavailable(text)
        if status == HTTPStatus.FORBIDDEN:
            raise ForbiddenError(text)
        # Nacos 2.x answers 501 to endpoints that it removed.
        if 400 <= status < 500 or status == HTTPStatus.NOT_IMPLEMENTED:
            raise RejectedError(text)
        raise TransportError(text)

    def _received(self, answer: bytes, versioned: bool) -> Received:
        if not versioned or answer == b"ok":
            return Received()
        try:
            return decode_received(answer)
        except CodecError as error:
            raise TransportError(f"the peer's answer cannot be read: {error}") from error

    def _datums(self, peer: str, answer: PeerAnswer) -> list[Datum]:
        """Return the datums in an answer.

        Their ages count from when the answer was made, however long it was under way.
        """
        made_ms = self._sent_ms(peer, answer.headers.get(CLOCK_HEADER))
        try:
            plain = gunzip_if_gzip(answer.body, self.body_bytes_max)
            datums, _ = decode_frame(plain or b"{}", self._codec, made_ms)
        except CodecError as error:
            raise UnfitError(f"the peer's datums cannot be read: {error}") from error
        return datums


class _Unavailable(TransportError):
    """The peer answered 503: it has not loaded its data yet."""
