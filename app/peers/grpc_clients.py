"""The transport of clients: gRPC calls that hold no thread, and HTTP to members without a gRPC connection."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import orjson

from app.members.reports import notes_revisions
from app.naming.clients.client_codec import decode_client, decode_snapshot, encode_client, encode_verify
from app.naming.clients.client_model import ANY_REVISION, ClientSnapshot, ClientState
from app.peers.distro_payload import (
    REQUEST,
    SNAPSHOT_KEY,
    content_of,
    encode_request,
    is_success,
    packed,
)
from app.peers.grpc_link import LinkClosed
from app.peers.grpc_links import GrpcLinks
from app.peers.payload import HEADROOM_BYTES
from app.replication.client_type import ClientCodec, client_id_of, client_key
from distro.model.errors import CodecError, TransportError, UnfitError
from distro.model.ports import Clock, Done
from distro.model.types import CAPABILITY_CLIENTS_ONLY, DataOperation, Datum, Page, Received, Version
from distro.wire.codec import decode_frame, decode_received, encode_frame, gunzip_if_gzip, json_object
from distro.wire.http_agent import DistroHttpAgent

T = TypeVar("T")
SIDE_BY_SIDE = 16
"""The most calls to one real Nacos at a time: each carries one client."""


class ClientAgent:
    """DistroTransportAgent and DistroCallbackAgent of clients. Thread-safe."""

    sends_small = False  # a client's publications are many, and a link may wait

    def __init__(
        self,
        http: DistroHttpAgent,
        links: GrpcLinks,
        codec: ClientCodec,
        clock: Clock,
        release: Callable[[str], object],
        message_bytes_max: int,
    ) -> None:
        """``release(peer)``: the release of Nacos that the peer's last report named."""
        self._release = release
        self._http = http
        self._links = links
        self._codec = codec
        self._clock = clock
        self._reached: dict[tuple[str, bool], int] = {}
        self._content_bytes_max = (message_bytes_max - HEADROOM_BYTES) * 3 // 4  # base64 makes four bytes of three

    def close(self) -> None:
        self._http.close()

    def takes(self, peer: str) -> bool:
        return self._links.is_running(peer)

    # --- calls that hold no thread --------------------------------------------------------------

    def start_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> None:
        """Send the datums. A frame larger than a message may be goes over HTTP, and the caller waits for it."""
        if self._links.is_nacos(peer):
            self._links.begin(self._tell_each(peer, datums, timeout_ms / 1_000), done)
            return
        frame = encode_frame(datums, self._codec, self._clock.monotonic_ms(), versioned=True)
        over_http = partial(self._http.sync_data, peer, datums, timeout_ms)
        self._start(peer, DataOperation.CHANGE, frame, timeout_ms, over_http, done)

    def start_small_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> bool:
        return False

    def start_verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int, done: Done) -> None:
        if self._links.is_nacos(peer):
            self._links.begin(self._verify_each(peer, summary, timeout_ms / 1_000), done)
            return
        over_http = partial(self._http.verify, peer, summary, timeout_ms)
        self._start(peer, DataOperation.VERIFY, orjson.dumps(summary), timeout_ms, over_http, done)

    def _start(
        self,
        peer: str,
        operation: DataOperation,
        body: bytes,
        timeout_ms: int,
        over_http: Callable[[], Received],
        done: Done,
    ) -> None:
        content = packed(body)
        if len(content) <= self._content_bytes_max:
            self._links.begin(self._received(peer, operation, content, timeout_ms / 1_000), done)
            return
        try:
            received = over_http()
        except TransportError as error:
            done(error)
        else:
            done(received)

    async def _received(self, peer: str, operation: DataOperation, content: bytes, timeout_s: float) -> Received:
        deadline = self._http.deadline(peer, int(timeout_s * 1_000))
        body = encode_request(operation, peer, "", content, deadline)
        answer = content_of(await self._links.request(peer, REQUEST, body, timeout_s))
        try:
            return decode_received(answer)
        except CodecError as error:
            raise TransportError(f"the answer of {peer} cannot be read: {error}") from error

    # --- to real Nacos ----------------------------------------------------------------------------

    async def _tell_each(self, peer: str, datums: Iterable[Datum], timeout_s: float) -> Received:
        """Send each client in a separate call; the first failure fails all, and all are sent again."""

        async def tell(datum: Datum) -> None:
            snapshot: ClientSnapshot = datum.value
            client_id = client_id_of(datum.key)
            if snapshot.state is None:
                body = encode_request(DataOperation.DELETE, peer, client_id, None)
            else:
                body = encode_request(DataOperation.CHANGE, peer, client_id, encode_client(snapshot.state))
            answer = await self._links.request(peer, REQUEST, body, timeout_s)
            if not is_success(answer):
                raise TransportError(f"{peer} does not take client {client_id}: {answer.body[:200]!r}")

        if failures := await _side_by_side(tell, datums, timeout_s):
            raise failures[0]
        return Received()

    async def _verify_each(self, peer: str, summary: Mapping[str, str], timeout_s: float) -> Received:
        """Send each client's revision; return as ``wanted`` the clients of which the peer has another revision or none.

        A round cut short by its deadline is continued by the next one: real Nacos counts the client of an address as
        silent when no round names it for 15 s.
        """
        wanted = list[str]()
        compares = notes_revisions(self._release(peer))
        told = [item for item in summary.items() if item[1]]
        if not told:
            return Received()
        at = (peer, "#" in told[0][0])  # those with connections, and those over HTTP, have their own rounds
        start, count = self._reached.pop(at, 0) % len(told), 0

        async def verify(item: tuple[str, str]) -> None:
            nonlocal count
            key, revision = item
            client_id = client_id_of(key)
            content = encode_verify(client_id, int(revision) if compares else ANY_REVISION)
            body = encode_request(DataOperation.VERIFY, peer, client_id, content)
            if not is_success(await self._links.request(peer, REQUEST, body, timeout_s)):
                wanted.append(key)
            count += 1

        failures = await _side_by_side(verify, told[start:] + told[:start], timeout_s)
        if count < len(told):
            self._reached[at] = start + count
        if failures and not count:
            raise failures[0]
        return Received(wanted=tuple(wanted))

    # --- calls that block ----------------------------------------------------------------

    def sync_data(self, peer: str, datums: list[Datum], timeout_ms: int) -> Received:
        """Send the datums over HTTP, to a peer without a gRPC connection now."""
        self._check_takes_http(peer)
        return self._http.sync_data(peer, datums, timeout_ms)

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        """Run a verify round over HTTP, with a peer without a gRPC connection now."""
        self._check_takes_http(peer)
        return self._http.verify(peer, summary, timeout_ms)

    def compare(self, peer: str, body: bytes, timeout_ms: int) -> bytes:
        """Compare digests over HTTP: a round is about all resource types."""
        return self._http.compare(peer, body, timeout_ms)

    def _check_takes_http(self, peer: str) -> None:
        if CAPABILITY_CLIENTS_ONLY in self._http.capabilities(peer):
            raise LinkClosed(f"no connection to {peer} for members' calls")

    def query(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> list[Datum]:
        timeout_s = timeout_ms / 1_000
        if not self._links.is_running(peer):
            return self._http.query(peer, keys, timeout_ms)
        if self._links.is_nacos(peer):
            found = (self._links.wait(self._query_one(peer, key, timeout_s), timeout_s) for key in keys)
            return [one for one in found if one is not None]
        body = encode_request(DataOperation.QUERY, peer, "", packed(orjson.dumps(keys)))
        answer = self._links.wait(self._links.request(peer, REQUEST, body, timeout_s), timeout_s)
        try:
            plain = gunzip_if_gzip(content_of(answer), self._http.body_bytes_max)
            return decode_frame(plain, self._codec, self._clock.monotonic_ms())[0]
        except CodecError as error:
            raise UnfitError(f"the datums of {peer} cannot be read: {error}") from error

    async def _query_one(self, peer: str, key: str, timeout_s: float) -> Datum | None:
        body = encode_request(DataOperation.QUERY, peer, client_id_of(key), None)
        content = content_of(await self._links.request(peer, REQUEST, body, timeout_s))
        if not content:
            return None
        try:
            return _datum(peer, decode_client(json_object(content), None, self._clock.wall_ms()))
        except CodecError as error:
            raise TransportError(f"the client of {peer} cannot be read: {error}") from error

    def page(self, peer: str, keys: Sequence[str], timeout_ms: int) -> Page:
        """Return the first of these clients from a Rollcall peer, which sent their versions before."""
        return self._http.page(peer, keys, timeout_ms)

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | Mapping[str, Version] | None:
        """Return all clients of the peer; from a Rollcall peer over HTTP, which may give only their versions."""
        if not self._links.is_nacos(peer):
            return self._http.load(peer, timeout_ms)
        timeout_s = timeout_ms / 1_000
        body = encode_request(DataOperation.SNAPSHOT, peer, SNAPSHOT_KEY, None)
        content = content_of(self._links.wait(self._links.request(peer, REQUEST, body, timeout_s), timeout_s))
        try:
            states, _ = decode_snapshot(content, self._clock.wall_ms())
        except CodecError as error:
            raise TransportError(f"the snapshot of {peer} cannot be read: {error}") from error
        return [_datum(peer, state) for state in states]


class NacosClientAgent(ClientAgent):
    """The ClientAgent of the clients that only real Nacos takes: its calls fail while no real Nacos answers them.

    A Rollcall member may already run at the address where this one still expects real Nacos. It would take the
    frames of these clients for those of clients with connections.
    """

    def takes(self, peer: str) -> bool:
        return self._links.is_nacos(peer)

    def _start(
        self,
        peer: str,
        operation: DataOperation,
        body: bytes,
        timeout_ms: int,
        over_http: Callable[[], Received],
        done: Done,
    ) -> None:
        done(_no_nacos(peer))

    def _check_takes_http(self, peer: str) -> None:
        raise _no_nacos(peer)


def _no_nacos(peer: str) -> LinkClosed:
    return LinkClosed(f"no connection to a real Nacos at {peer}")


def _datum(peer: str, state: ClientState) -> Datum:
    """Return the datum of a client from a real Nacos, which need not be the member with the client's connection."""
    version = Version(1, 1, peer)
    return Datum(client_key(state.client_id), version, ClientSnapshot(version, None, state, unconfirmed=True))


async def _side_by_side(
    work: Callable[[T], Awaitable[None]], items: Iterable[T], timeout_s: float
) -> list[TransportError]:
    """Work on all items, ``SIDE_BY_SIDE`` at a time and begun in order; return the failures. A time-out is one."""
    failures = list[TransportError]()
    left = iter(items)

    async def take_turns() -> None:
        for item in left:
            try:
                await work(item)
            except TransportError as error:
                failures.append(error)

    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*(take_turns() for _ in range(SIDE_BY_SIDE)))
    except TimeoutError:
        failures.append(TransportError("the member does not answer in time"))
    return failures
