"""SDK connections for operators: their list, the load of the members, and moving clients to another member."""

import asyncio
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from typing import Any

from app.auth.access_rules import MEMBERS
from app.config.addresses import join_address, split_address
from app.naming.model.keys import INT_MAX
from app.naming.model.nacos_errors import InvalidParam
from app.peers.payload import SUCCESS, success
from app.ports.grpc_ports import RpcServices
from app.rpc.sdk.balance import MemberLoad, Move, count_to_keep, moves, parse_load, summary
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute
from distro.model.types import MemberState

LOAD_REQUEST, RELOAD_REQUEST = "ServerLoaderInfoRequest", "ServerReloadRequest"
CALL_MS_MAX = 3_000
"""The time-out of calls to other members, which are all made at once. Source: Nacos 2.2.3, its time-out of calls."""

ADDRESS_CHARS_SHOWN = 100

Redirect = tuple[str, int] | None
"""The HTTP address of the member to connect to; None for any other member."""


class Rebalancer:
    """SDK connections as operators see and move them. Thread-safe; ``start`` and ``stop`` are called on the loop."""

    def __init__(
        self,
        connections: Connections,
        local_port: int,
        services: RpcServices,
        monotonic_ms: Callable[[], int],
        send_away: Callable[[Connection], None],
        watched: Callable[[str], list[str]] = lambda _client_id: [],
    ) -> None:
        """``send_away`` asks a client at once to leave; the connection check asks again, then ends the connection.

        ``watched``: returns the patterns of services that a client watches, on any thread.
        """
        self._connections = connections
        self._local_port = local_port
        self._services = services
        self._now_ms = monotonic_ms
        self._send_away = send_away
        self._watched = watched
        self._loop: asyncio.AbstractEventLoop | None = None

    def routes(self) -> Mapping[str, GrpcRoute]:
        """Return the handlers of other members' requests, by type of request."""
        return {
            LOAD_REQUEST: GrpcRoute(self.tell_load, "ServerLoaderInfoResponse", access=MEMBERS),
            RELOAD_REQUEST: GrpcRoute(self.shed, "ServerReloadResponse", access=MEMBERS),
        }

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """Move no more clients. May be called twice."""
        self._loop = None

    # --- this node -------------------------------------------------------------------------------

    def current(self, ids: Set[str] | None = None) -> dict[str, Any]:
        """Return all connections, or ``ids``, by id. Source of the shape: Nacos 2.2.3 ServerLoaderController."""
        past_ms = self._services.wall_ms() - self._now_ms()
        return {one.id: self._shown(one, past_ms) for one in self._connections if ids is None or one.id in ids}

    def _shown(self, one: Connection, past_ms: int) -> dict[str, Any]:
        meta = {
            "connectType": "GRPC",
            "clientIp": one.client_ip,
            "remoteIp": one.remote_ip,
            "remotePort": one.remote_port,
            "localPort": self._local_port + one.on_cluster_port,
            "version": one.agent,
            "connectionId": one.id,
            "createTime": past_ms + one.opened_ms,
            "lastActiveTime": past_ms + one.active_ms,
            "appName": one.app,
            "tenant": one.tenant,
            "labels": one.labels,
        }
        if patterns := self._watched(one.id):
            meta["fuzzyWatches"] = sorted(patterns)
        return {"metaInfo": meta, "connected": not one.closing, "labels": one.labels}

    def reload_client(self, connection_id: str, redirect: Redirect) -> None:
        """Send one SDK client elsewhere. An id that is not connected here, or is a member, is ignored.

        Raises:
            InvalidParam: ``redirect`` is not the address of a listed member.
        """
        self._check(redirect)
        self._on_loop(lambda: self._reload([one for one in self._sdk() if one.id == connection_id], redirect))

    def reload_to(self, count: int, redirect: Redirect) -> None:
        """Send SDK clients elsewhere, the latest first, until ``count`` are left.

        Raises:
            InvalidParam: ``redirect`` is not the address of a listed member.
        """
        self._check(redirect)
        self._on_loop(
            lambda: self._reload(sorted(self._sdk(), key=lambda one: one.opened_ms)[max(count, 0) :], redirect)
        )

    def targets(self) -> list[tuple[str, int]]:
        """Return the HTTP addresses of the other members that serve, for the clients of a node that stops."""
        cluster = self._services.cluster
        serving = [one.address for one in cluster.members() if one.state is MemberState.UP]
        return [split_address(one) for one in serving if one != cluster.self_address]

    # --- all members -----------------------------------------------------------------------------

    def cluster(self) -> dict[str, Any]:
        """Return the load of each member, and how evenly clients are spread. Blocks: not for the event loop."""
        return summary(self._loads(), len(self._services.cluster.members()))

    def smart_reload(self, factor: float) -> bool:
        """Have the fullest members send clients to the emptiest; return whether all of them agreed. Blocks.

        A member that does not report its load takes no part.
        """
        to_make = moves(self._loads(), factor)
        own = self._services.cluster.self_address
        requests = {one.source: _reload_fields(one) for one in to_make if one.source != own}
        answers = self._ask(RELOAD_REQUEST, requests)
        for one in to_make:
            if one.source == own:
                self._shed_to(one.keep, split_address(one.target))
        return all(peer in answers and answers[peer].get("resultCode") == SUCCESS for peer in requests)

    def _loads(self) -> list[MemberLoad]:
        """Return the loads of all members that report theirs, by address."""
        own = self._services.cluster.self_address
        others = [
            one.address
            for one in self._services.cluster.members()
            if one.address != own and one.state is not MemberState.DOWN
        ]
        answers = self._ask(LOAD_REQUEST, {address: {"module": "internal"} for address in others})
        loads = (parse_load(address, answer) for address, answer in answers.items())
        return sorted([self._own_load(), *(one for one in loads if one is not None)], key=lambda one: one.address)

    def _ask(self, type_name: str, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        links = self._services.links
        return {} if links is None else links.call_all(type_name, requests, CALL_MS_MAX)

    def _own_load(self) -> MemberLoad:
        figures, known = self._services.counters(), self._connections
        load, cpu = str(figures.get("load", "")), str(figures.get("cpu", ""))
        return MemberLoad(self._services.cluster.self_address, len(known), known.sdk_count, load, cpu)

    # --- what other members ask ------------------------------------------------------------------

    async def tell_load(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Answer with the load of this node."""
        return success(loaderMetrics=self._own_load().fields())

    async def shed(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Send the clients above ``reloadCount`` to a member; answer "ignore" when this node has no more than that."""
        wanted = request.fields.whole("reloadCount", -1, 0, INT_MAX)
        if wanted < 0:
            raise InvalidParam("field 'reloadCount' is required")
        redirect = _redirect_of(request)
        self._check(redirect)
        return success(message="ok" if self._shed_to(wanted, redirect) else "ignore")

    def _shed_to(self, wanted: int, redirect: Redirect) -> bool:
        count = self._connections.sdk_count
        if count <= wanted:
            return False
        self.reload_to(count_to_keep(count, wanted), redirect)
        return True

    # --- inside ----------------------------------------------------------------------------------

    def _sdk(self) -> list[Connection]:
        return [one for one in self._connections if one.is_sdk]

    def is_member(self, redirect: Redirect) -> bool:
        """Return whether clients may be sent to this address now: only to members, or anyone could collect clients."""
        if redirect is None:
            return True
        return join_address(*redirect) in {one.address for one in self._services.cluster.members()}

    def _check(self, redirect: Redirect) -> None:
        if redirect is not None and not self.is_member(redirect):
            raise InvalidParam(f"{join_address(*redirect)[:ADDRESS_CHARS_SHOWN]} is not the address of a listed member")

    def _reload(self, chosen: list[Connection], redirect: Redirect) -> None:
        for one in chosen:
            one.must_go, one.redirect = True, redirect
            self._send_away(one)

    def _on_loop(self, work: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and all connections with it
                loop.call_soon_threadsafe(work)


def _reload_fields(one: Move) -> Mapping[str, Any]:
    return {"reloadCount": one.keep, "reloadServer": one.target, "module": "internal"}


def _redirect_of(request: GrpcRequest) -> Redirect:
    text = request.fields.text("reloadServer")
    try:
        return split_address(text) if text else None
    except ValueError as error:
        raise InvalidParam(f"field 'reloadServer' is illegal: {error}") from None
