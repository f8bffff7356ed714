"""Ends the streams of clients whose token or right has ended: a subscription is a read that continues."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from app.auth.access_control import AccessControl, Session
from app.auth.access_rules import Action
from app.auth.refusals import NOT_PERMITTED, AccessDenied
from app.auth.user_rights import Resource
from app.naming.clients.client_table import ClientTable
from app.rpc.server.connections import Connection, Connections

ROUND_S = 1.0
SLICE = 256
"""The connections that are checked in one turn of the loop."""
RENEW_MS = 60_000
"""The time before the end of its token at which a client that shows no newer token is asked to connect again.

Client libraries log in again after nine tenths of the time, but show a member the new token only with their next call.
They open the new connection, with the new token, before they end the old one: their instances stay.
"""
RENEW_SHARE = 20
"""The divisor of the time to live, where a twentieth of that is less than ``RENEW_MS``."""

LOG = logging.getLogger(__name__)

OnConnection = Callable[[Connection], None]


class StreamRights:
    """Checks all connections in rounds. Used on the loop's thread only; does nothing while authentication is off.

    ``end``: ends a connection. ``renew``: asks its client to connect again.
    """

    def __init__(
        self,
        control: AccessControl,
        connections: Connections,
        clients: ClientTable,
        end: OnConnection,
        renew: OnConnection,
        watched: Callable[[str], Iterable[Resource]] = lambda _client_id: (),
    ) -> None:
        """``watched``: returns the resources that a client watches by patterns."""
        self._control = control
        self._connections = connections
        self._clients = clients
        self._end = end
        self._renew = renew
        self._watched = watched
        self._rounds: asyncio.Task[None] | None = None
        self.ended = 0
        """The number of streams that were ended since the start."""

    def start(self) -> None:
        """Begin the rounds. On the loop."""
        if self._control.enabled:
            self._rounds = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """End the rounds; may be called twice."""
        if self._rounds is not None:
            self._rounds.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self.look()
            except Exception:  # without rounds a token that was revoked would get pushes for ever
                LOG.exception("the check of the streams' rights failed unexpectedly")

    async def look(self) -> None:
        """Check each connection once."""
        for number, one in enumerate(self._connections):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if one.session is not None and one.registered:
                self._look_at(one, one.session)

    def _look_at(self, one: Connection, session: Session) -> None:
        control = self._control
        version = control.table.version
        try:
            control.check_lasts(session)
            if one.rights_version != version:
                self._check_rights(one, session)
                one.rights_version = version
        except AccessDenied as error:
            self.ended += 1
            LOG.info("the stream of connection %s of user %a was ended: %s", one.id, session.user, error)
            self._end(one)
            return
        assert control.tokens is not None
        renew_ms = min(RENEW_MS, control.tokens.ttl_s * 1_000 // RENEW_SHARE)
        if session.end_ms - control.wall_ms() < renew_ms and one.renewal_asked_ms != session.end_ms:
            one.renewal_asked_ms = session.end_ms
            self._renew(one)

    def _check_rights(self, one: Connection, session: Session) -> None:
        rights = self._control.rights(session)
        if not all(rights.allows(action, resource) for action, resource in self._held(one)):
            raise AccessDenied(NOT_PERMITTED)

    def _held(self, one: Connection) -> Iterator[tuple[Action, Resource]]:
        """Yield the rights that the client needs: for services that it publishes or follows."""
        for resource in self._watched(one.id):
            yield Action.READ, resource
        client = self._clients.client(one.id)
        if client is None:
            return
        for action, keys in ((Action.WRITE, client.published), (Action.READ, client.subscribed)):
            for namespace, full_name in list(keys):
                yield action, Resource.of_service(namespace, full_name)
