"""What operators see of connections, and may send elsewhere; called from any thread."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from app.rpc.connections import Connection, Connections

Redirect = tuple[str, int] | None
"""The HTTP address of the member to connect to; None for any other."""


class Loader:
    """Connections of SDKs as operators see them. ``start`` and ``stop`` are called on the loop."""

    def __init__(
        self,
        connections: Connections,
        local_port: int,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        send_away: Callable[[Connection], None],
    ) -> None:
        """``send_away`` asks a client at once; rounds repeat it, and end its stream if it stays."""
        self._connections = connections
        self._local_port = local_port
        self._wall_ms = wall_ms
        self._now_ms = monotonic_ms
        self._send_away = send_away
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        self._loop = None

    def current(self) -> dict[str, Any]:
        """All connections by id. Source of the shape: Nacos 2.2.3 ServerLoaderController."""
        past_ms = self._wall_ms() - self._now_ms()
        return {one.id: self._shown(one, past_ms) for one in self._connections}

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
        return {"metaInfo": meta, "connected": not one.closing, "labels": one.labels}

    def reload_client(self, connection_id: str, redirect: Redirect) -> None:
        """Send one client elsewhere; one that is not here, and a member, are left alone."""
        self._on_loop(lambda: self._reload([one for one in self._sdk() if one.id == connection_id], redirect))

    def reload_to(self, count: int, redirect: Redirect) -> None:
        """Send so many clients elsewhere, the latest first, that ``count`` are left."""
        self._on_loop(
            lambda: self._reload(sorted(self._sdk(), key=lambda one: one.opened_ms)[max(count, 0) :], redirect)
        )

    def _sdk(self) -> list[Connection]:
        return [one for one in self._connections if one.is_sdk]

    def _reload(self, chosen: list[Connection], redirect: Redirect) -> None:
        for one in chosen:
            one.must_go, one.redirect = True, redirect
            self._send_away(one)

    def _on_loop(self, work: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended, and all connections with it
                loop.call_soon_threadsafe(work)
