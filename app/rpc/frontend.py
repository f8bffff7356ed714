"""The gRPC frontend: makes its parts, starts and stops them, and checks the connections in rounds."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace

from app.commands.name_rules import rule_of_nacos_2
from app.config.rpc_settings import RpcSettings
from app.machine.tls.node_tls import PortCertificate
from app.machine.tls.watched import WatchedFiles
from app.metrics.audit_trail import Actor
from app.naming.clients.client_model import ServiceKey
from app.naming.push.udp_subscribers import PushState
from app.peers.payload import HEADROOM_BYTES
from app.ports.grpc_ports import RpcServices
from app.rpc.members.handlers import MemberHandlers
from app.rpc.sdk.absent_config import AbsentConfigHandlers
from app.rpc.sdk.fuzzy_pusher import FuzzyPusher
from app.rpc.sdk.fuzzy_requests import FuzzyHandlers
from app.rpc.sdk.fuzzy_watches import FuzzyWatches
from app.rpc.sdk.naming import NamingHandlers
from app.rpc.sdk.push import GrpcPusher
from app.rpc.sdk.rebalancer import Rebalancer
from app.rpc.sdk.service_messages import ServiceInfos
from app.rpc.sdk.stream_rights import StreamRights
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from app.rpc.server.connection_check import ROUND_MS, ConnectionCheck
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.grpc_server import RpcServer
from app.rpc.server.limits import LimitWatch
from distro.timing.clock import SystemClock

LOG = logging.getLogger(__name__)
LIMIT_RULE_PATH = ("loader", "limitRule")
"""Below the data folder. Source: Nacos 2.0, below its home."""
CONFIG_REQUESTS = "Config"
"""The prefix of the types of all requests for configurations."""
MOVE_S = 2.0
"""The time that clients have to connect to another member after they were asked to.

SDKs do so before they end the old connection. A client that is cut off then moves once more, from its new member
(R17).
"""
MOVE_POLL_S = 0.02
MOVED_MS = 10_000
"""The time after which a client whose connection to a drained node ended has published all at its new member."""


class GrpcFrontend:
    """The gRPC frontend of a node. Made before the loop runs; ``start``, ``leave``, ``stop``: on the loop."""

    def __init__(
        self,
        services: RpcServices,
        settings: RpcSettings,
        certificates: Mapping[int, WatchedFiles[PortCertificate]],
        subscriptions: GrpcSubscriptions,
        on_pushed: Callable[[str, str], None],
    ) -> None:
        """``certificates``: by the number of a port that speaks TLS.

        ``on_pushed``: called on the loop, with namespace and full name, when the present state of a service is pushed.
        """
        now_ms = self._now_ms = SystemClock().monotonic_ms
        self.limits = LimitWatch(services.settings.data_dir.joinpath(*LIMIT_RULE_PATH))
        self.connections = Connections(services.wall_ms, now_ms, services.addresses)
        limits, table = services.settings.limits, services.clients.table.services
        self._watches = FuzzyWatches(limits.fuzzy_patterns, limits.fuzzy_patterns_per_connection, limits.fuzzy_matches)
        self.loader = Rebalancer(
            self.connections, settings.sdk.port, services, now_ms, self._send_away, self._watches.texts_of
        )
        self._infos = ServiceInfos(
            services.naming,
            lambda: services.durable.switches.default_push_cache_millis,
            services.wall_ms,
            self.connections.next_request_id,
            settings.sdk.message_bytes_max - HEADROOM_BYTES,
            services.naming.kept_lists_bytes_max // 2,
            services.answers,
        )
        self.subscriptions = subscriptions
        self._pusher = GrpcPusher(
            subscriptions, self._infos, self.connections, now_ms, lambda: services.cluster.is_behind, on_pushed
        )
        self._fuzzy_pusher = FuzzyPusher(
            self._watches, table, self.connections, now_ms, lambda: services.cluster.is_behind
        )
        self.has, self.arriving = subscriptions.has, self._watches.namespaces
        """``has`` returns whether a service, by namespace and full name, has subscriptions. For any thread.

        ``arriving`` is true while a client watches services by patterns: any change may then be of interest.
        """
        self.subscribed: Callable[[ServiceKey, str], None] = self._pusher.subscribed
        """Push a service to a client, by its id, that subscribed to it just now. Callable from any thread."""
        self.dispatcher = self._make_dispatcher(services)
        self._stream_rights = StreamRights(
            services.access, self.connections, services.clients.table, self._end, self.dispatcher.reset,
            lambda client_id: [one.resource for one in self._watches.patterns_of(client_id)],
        )  # fmt: skip
        name_rule = rule_of_nacos_2(services.settings.names)
        self._naming = NamingHandlers(services, self.subscriptions, self._infos, name_rule)
        self._members = MemberHandlers(services.client_receiver, services.cluster, services.senders, services.reports)
        self._links = services.links
        self._add_routes(services)
        self._servers = self._make_servers(services, settings, certificates)
        self._rounds: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._moving = False
        """True once clients were asked to connect to other members, as this node stops."""

    def _make_dispatcher(self, services: RpcServices) -> Dispatcher:
        """Return what answers the clients, without handlers yet."""
        audit, config_calls = services.instruments.audit, services.config_calls

        def on_no_handler(kind: str, remote_ip: str) -> None:
            if kind.startswith(CONFIG_REQUESTS):
                config_calls.refused(remote_ip, kind)  # the first of each client is logged

        return Dispatcher(
            self.connections,
            services.cluster,
            services.callers,
            services.clients.own,
            self.limits,
            self._now_ms,
            access=services.access,
            answers=services.answers,
            requests=services.instruments.grpc,
            check_pause=services.check_pause,
            on_answer=self._answered,
            on_gone=self._forget,
            on_no_handler=on_no_handler,
            on_refused=lambda what, kind, ip, why: audit.on_access(what, kind, Actor(ip), why),
        )

    def _add_routes(self, services: RpcServices) -> None:
        """Have the dispatcher answer all types of requests."""
        fuzzy = FuzzyHandlers(services.clients.table.services, self._watches, self._fuzzy_pusher)
        for routes in (self._naming.routes(), fuzzy.routes(), self._members.routes(), self.loader.routes()):
            self.dispatcher.add(routes)
        absent = AbsentConfigHandlers(services.config_calls)
        self.dispatcher.add(absent.routes() if services.settings.config_absent else absent.refusals())

    def _make_servers(
        self, services: RpcServices, settings: RpcSettings, certificates: Mapping[int, WatchedFiles[PortCertificate]]
    ) -> list[RpcServer]:
        """Return the servers of both ports."""
        return [
            RpcServer(
                services.settings.host,
                port,
                certificates.get(port.port),
                on_cluster_port,
                self.connections,
                self.dispatcher,
                self._pusher.take_pending,
                share,
            )
            for port, on_cluster_port, share in (
                (settings.sdk, False, services.room.grpc),
                (settings.cluster, True, services.room.members),
            )
        ]

    def changed(self, namespace: str, service: str) -> None:
        """Push a changed service, by namespace and full name, to its subscribers. Callable from any thread."""
        self._pusher.changed(namespace, service)
        self._fuzzy_pusher.changed(namespace, service)

    def _answered(self, client_id: str, request_id: str, went_well: bool) -> None:
        if not self._pusher.answered(client_id, request_id, went_well):
            self._fuzzy_pusher.answered(client_id, request_id, went_well)

    def _forget(self, client_id: str) -> None:
        self.subscriptions.forget(client_id)
        self._watches.forget(client_id)

    def push_states(self, namespace: str, service: str) -> list[PushState]:
        """Return how far each subscriber of a service has followed its changes. Callable from any thread."""
        agents = {one.id: one.agent for one in list(self.connections)}
        return [replace(one, agent=agents.get(one.who, "")) for one in self._pusher.states(namespace, service)]

    def counters(self) -> dict[str, int]:
        """Return the number of connections, and the results of pushes since the start. Callable from any thread."""
        pushes = {f"rpc_pushes_{name}": count for name, count in asdict(self.subscriptions.stats).items()}
        pushes |= {f"rpc_fuzzy_{name}": count for name, count in asdict(self._watches.stats).items()}
        return {
            "rpc_fuzzy_watches": self._watches.watch_count(),
            "rpc_fuzzy_patterns": self._watches.pattern_count,
            "rpc_connections": len(self.connections),
            "rpc_sdk_connections": self.connections.sdk_count,
            "rpc_streams_ended_for_rights": self._stream_rights.ended,
            **pushes,
        }

    async def start(self) -> None:
        """Listen on both ports.

        Raises:
            SettingError: a port is not free, or a certificate cannot be read.
        """
        for server in self._servers:
            await server.start()
        if self._links is not None:
            await self._links.start()
        self._pusher.start()
        self._fuzzy_pusher.start()
        self.loader.start()
        self._loop = asyncio.get_running_loop()
        self._rounds = self._loop.create_task(self._check())
        self._stream_rights.start()

    def leave(self) -> None:
        """Ask all clients to connect to other members, evenly, as this node stops; what they publish stays (R17)."""
        self.dispatcher.leaving = True
        targets = self.loader.targets()
        self._moving = bool(targets)
        for number, one in enumerate(one for one in self.connections if one.is_sdk):
            self.dispatcher.reset(one, targets[number % len(targets)] if targets else None)

    def drain(self, enabled: bool) -> None:
        """Send the clients to other members, evenly, and take no new ones; or take clients again. From any thread.

        The instances of a client stay for ``MOVED_MS`` after its connection ended, until its new member has them.
        """
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and all connections with it
                loop.call_soon_threadsafe(self._drain, enabled)

    def _drain(self, enabled: bool) -> None:
        self.dispatcher.draining = enabled
        targets = self.loader.targets()
        for number, one in enumerate(one for one in self.connections if one.is_sdk):
            one.must_go = enabled and bool(targets)
            one.redirect = targets[number % len(targets)] if targets else None
            if one.must_go:
                self._send_away(one)

    async def stop(self) -> None:
        """End all connections, and close the ports, when clients have gone to other members. May be called twice."""
        await self._let_clients_move()
        if self._rounds is not None:
            self._rounds.cancel()
        self._pusher.stop()
        self._fuzzy_pusher.stop()
        self.loader.stop()
        self._stream_rights.stop()
        if self._links is not None:
            await self._links.stop()
        for one in self.connections:
            one.close()
        await asyncio.gather(*(server.stop() for server in self._servers))
        self._naming.stop()
        self._members.stop()

    def join(self) -> None:
        """Wait for the threads after ``stop``. Not on the loop."""
        self._naming.join()
        self._members.join()

    async def _let_clients_move(self) -> None:
        """Wait until all clients that were asked to go are gone, for ``MOVE_S`` at most."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + MOVE_S
        while self._moving and self.connections.sdk_count and loop.time() < end_s:
            await asyncio.sleep(MOVE_POLL_S)
        self._moving = False

    def _send_away(self, connection: Connection) -> None:
        # A member may have left the list since the operator named it.
        is_member = self.loader.is_member(connection.redirect)
        self.dispatcher.reset(connection, connection.redirect if is_member else None)

    async def _check(self) -> None:
        check = ConnectionCheck(self._now_ms())
        due_ms = self._now_ms()
        while True:
            await asyncio.sleep(max(due_ms - self._now_ms(), 1) / 1_000)
            try:
                due_ms = self._round(check)
            except Exception:  # without rounds dead clients would stay for ever
                LOG.exception("the check of the connections failed unexpectedly")
                due_ms = self._now_ms() + ROUND_MS

    def _round(self, check: ConnectionCheck) -> int:
        now_ms = self._now_ms()
        findings, due_ms = check.tick(now_ms, list(self.connections), self.limits.rule)
        for one in findings.detect:
            self.dispatcher.detect(one)
        for one in findings.reset:
            self._send_away(one)
        for one in findings.close:
            self._close(one)
        self.dispatcher.remove_moved(now_ms - MOVED_MS)
        return due_ms

    def _close(self, connection: Connection) -> None:
        LOG.info(
            "connection %s of %s is closed: it does not answer, or exceeds a limit",
            connection.id,
            connection.remote_ip,
        )
        self._end(connection)

    def _end(self, connection: Connection) -> None:
        # At once: the end of a stream may wait for a client that does not read.
        self.dispatcher.ended(connection)
        connection.close()
