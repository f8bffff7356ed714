"""The gRPC connections to all other members: they live on the worker's loop, and any thread may call over them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import grpc
from grpc import aio

from app.config.addresses import join_address, split_address
from app.config.rpc_settings import RPC_CLUSTER_OFFSET, RpcPort
from app.config.version import NACOS_2_VERSION
from app.peers import payload as wire
from app.peers.grpc_link import GrpcLink, LinkClosed
from app.peers.payload import Payload, PayloadError
from distro.model.errors import TransportError
from distro.wire.call_trust import CallSigner

LOG = logging.getLogger(__name__)
T = TypeVar("T")
MEMBER_LABEL = "rollcall-member"
"""The label of a connection that has the connecting member's address; Rollcall members read it."""
LATE_S = 1.0
"""The time that a thread waits beyond the deadline of its call: the loop ends the call by then."""


class GrpcLinks:
    """Thread-safe, except for ``start`` and ``stop``, which are called on the loop once each."""

    def __init__(self, self_address: str, port: RpcPort, signer: CallSigner) -> None:
        """``signer`` signs every call."""
        self._self_address = self_address
        self._port = port
        self._signer = signer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted: tuple[str, ...] = ()
        self._links: dict[str, GrpcLink] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._begun: set[asyncio.Task[Any]] = set()

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._follow()

    async def stop(self) -> None:
        """End all connections and calls; later calls fail. May be called twice."""
        self._loop = None
        ending = [*self._tasks.values(), *self._begun]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._links, self._tasks = {}, {}

    def replace(self, addresses: tuple[str, ...]) -> None:
        """Connect to these members, and to no others."""
        self._wanted = tuple(one for one in addresses if one != self._self_address)
        self._on_loop(self._follow)

    def _on_loop(self, work: Callable[[], None]) -> bool:
        loop = self._loop
        if loop is None:
            return False
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(work)
            return True
        return False

    def _follow(self) -> None:
        loop = self._loop
        if loop is None:
            return
        for address in self._links.keys() - set(self._wanted):
            self._tasks.pop(address).cancel()
            del self._links[address]
        for address in set(self._wanted) - self._links.keys():
            body = self._setup_body()
            setup = partial(self._setup, body)
            link = GrpcLink(address, partial(self._open_channel, address), setup, body, self._signer)
            self._links[address] = link
            self._tasks[address] = loop.create_task(link.run())

    def _setup(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        host = split_address(self._self_address)[0]
        return wire.encode("ConnectionSetupRequest", body, client_ip=host, headers=headers)

    def _setup_body(self) -> bytes:
        fields = {
            "clientVersion": f"Nacos-Server:v{NACOS_2_VERSION}",
            "tenant": "",
            "labels": {"source": "cluster", MEMBER_LABEL: self._self_address},
            "abilityTable": {},
            "module": "internal",
        }
        return wire.request_body(**fields)

    def _open_channel(self, address: str) -> aio.Channel:
        host, port = split_address(address)
        target = join_address(host, port + RPC_CLUSTER_OFFSET)
        options = [
            ("grpc.use_local_subchannel_pool", 1),  # a separate transport: it is what the member knows us by
            ("grpc.max_receive_message_length", self._port.message_bytes_max),
            ("grpc.max_send_message_length", self._port.message_bytes_max),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),  # those would go over another connection
        ]
        trusted = self._port.trusted or self._port.certificate
        if trusted is None:
            return aio.insecure_channel(target, options=options)
        # For each connection: the files may have changed.
        try:
            own = [file.read_bytes() for file in (self._port.private_key, self._port.certificate) if file is not None]
            credentials = grpc.ssl_channel_credentials(trusted.read_bytes(), *own)
        except OSError as error:
            raise TransportError(f"{error.filename} cannot be read: {error.strerror}") from None
        return aio.secure_channel(target, credentials, options=options)

    # --- calls -----------------------------------------------------------------------------------

    def is_running(self, peer: str) -> bool:
        """Return whether calls to the member can be made now."""
        link = self._links.get(peer)
        return link is not None and link.running

    def is_nacos(self, peer: str) -> bool:
        """Return whether a connection to the member exists, and the member is not a Rollcall member."""
        link = self._links.get(peer)
        return link is not None and link.running and not link.is_own_kind

    async def request(self, peer: str, request_type: str, body: bytes, timeout_s: float) -> Payload:
        """Make one call, on the loop.

        Raises:
            TransportError: as ``GrpcLink.request``.
        """
        link = self._links.get(peer)
        if link is None:
            raise LinkClosed(f"{peer} is not a member")
        return await link.request(request_type, body, timeout_s)

    def begin(self, work: Coroutine[Any, Any, T], done: Callable[[T | TransportError], None]) -> None:
        """Run the coroutine on the loop; ``done`` is called there once, with its result or its failure."""

        def end(task: asyncio.Task[T]) -> None:
            self._begun.discard(task)
            if task.cancelled():
                done(LinkClosed("this member ends its connections"))
            elif (error := task.exception()) is None:
                done(task.result())
            else:
                if not isinstance(error, TransportError):
                    LOG.error("a call to a member failed unexpectedly", exc_info=error)
                done(error if isinstance(error, TransportError) else TransportError(str(error)))

        def start() -> None:
            if self._loop is None:
                work.close()
                done(LinkClosed("this member ends its connections"))
                return
            task = self._loop.create_task(work)
            self._begun.add(task)
            task.add_done_callback(end)

        if not self._on_loop(start):
            work.close()
            done(LinkClosed("there are no connections to members yet, or any more"))

    def wait(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run the coroutine on the loop and return its result. Blocks: not for the loop's thread.

        Raises:
            TransportError: it failed, or did not end within ``timeout_s`` and a bit.
        """
        future: Future[T | TransportError] = Future()
        self.begin(work, future.set_result)
        try:
            result = future.result(timeout_s + LATE_S)
        except (FutureTimeoutError, CancelledError) as error:
            raise TransportError("the event loop did not send the call in time") from error
        if isinstance(result, TransportError):
            raise result
        return result

    def call(self, peer: str, type_name: str, fields: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]:
        """Call a member; return the JSON object of its answer. Blocks: not for the loop's thread.

        Raises:
            TransportError: the member cannot be reached, or answers late or with an error.
        """
        timeout_s = timeout_ms / 1_000
        return self.wait(self.request(peer, type_name, wire.request_body(**fields), timeout_s), timeout_s).json()

    def call_all(
        self, type_name: str, requests: Mapping[str, Mapping[str, Any]], timeout_ms: int
    ) -> dict[str, dict[str, Any]]:
        """Call several members at once, each with its own fields; return the JSON objects of their answers by address.

        Members that cannot be reached, or answer late or with an error, are logged and left out. Blocks: not for the
        loop's thread.
        """
        timeout_s = timeout_ms / 1_000

        async def answer_of(peer: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
            try:
                return (await self.request(peer, type_name, wire.request_body(**fields), timeout_s)).json()
            except (TransportError, PayloadError) as error:
                LOG.info("%s of %s: %s", type_name, peer, error)
                return None

        async def answers_of_all() -> list[dict[str, Any] | None]:
            return await asyncio.gather(*(answer_of(peer, fields) for peer, fields in requests.items()))

        try:
            answers = self.wait(answers_of_all(), timeout_s)
        except TransportError as error:
            LOG.info("%s of %d members: %s", type_name, len(requests), error)
            return {}
        return {peer: answer for peer, answer in zip(requests, answers, strict=True) if answer is not None}
