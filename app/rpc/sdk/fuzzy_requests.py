"""The requests of fuzzy watches: a client says which services of a pattern it knows, and is sent the difference."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.auth.access_rules import READ, Target, naming
from app.naming.limits.admission import PREFIX
from app.naming.model.keys import GROUP_SPLITTER
from app.naming.model.nacos_errors import InvalidParam, Unavailable
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import has_instances
from app.peers.payload import failure, success
from app.rpc.sdk.fuzzy_pusher import FuzzyPusher, breathe
from app.rpc.sdk.fuzzy_state import ServiceNames, WatchedNamespace, WatchedPattern
from app.rpc.sdk.fuzzy_watches import FuzzyWatches, PatternsOverLimit
from app.rpc.server.fuzzy_pattern import FuzzyPattern
from app.rpc.server.grpc_messages import MESSAGE_BYTES_MAX
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute

WATCH, CANCEL = "WATCH", "CANCEL_WATCH"
PATTERNS_OVER_LIMIT, MATCHES_OVER_LIMIT = 50_310, 50_311
"""The codes that tell SDKs of a limit. Source: Nacos 3.0.3 ErrorCode, with the texts."""
BYTES_PER_NAME = 10
"""A received key has two pairs of ``@``, three names, quotes and a comma."""
NAMES_PER_LOOK = 128
"""The names that are compared between two looks at the clock."""
COMPARED_MAX = 16
"""The most requests whose names are compared, or wait for it; each may have some MB of names."""


class FuzzyHandlers:
    """Answers ``NamingFuzzyWatchRequest``. Used on the loop's thread."""

    def __init__(self, table: ServiceTable, watches: FuzzyWatches, pusher: FuzzyPusher) -> None:
        self._table = table
        self._watches = watches
        self._pusher = pusher
        self._compared = 0
        self._turn = asyncio.Lock()
        """One request is compared at a time: other callbacks wait for one slice, and not for one of each."""

    def routes(self) -> Mapping[str, GrpcRoute]:
        """The handlers by type of request."""
        return {
            "NamingFuzzyWatchRequest": GrpcRoute(
                self.watch,
                "NamingFuzzyWatchResponse",
                naming(READ, Target.PATTERN),
                bytes_max=MESSAGE_BYTES_MAX,
                bytes_per_value=BYTES_PER_NAME,
            )
        }

    async def watch(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Begin or repeat a client's watch of a pattern, or end it.

        Source: Nacos 3.0.3 NamingFuzzyWatchRequestHandler.
        """
        fields, client_id = request.fields, request.connection.id
        pattern = FuzzyPattern.of(fields.required("groupKeyPattern"))
        kind = fields.text("watchType")
        if kind == CANCEL:
            self._watches.cancel(client_id, pattern.text)
            return success()
        if kind != WATCH:
            raise InvalidParam(f"Unsupported request type {kind}")
        is_first = fields.flag("initializing", fields.flag("isInitializing", False))
        known = fields.array("receivedGroupKeys") if fields.has("receivedGroupKeys") else []
        if self._compared >= COMPARED_MAX:
            raise Unavailable("too many fuzzy watches begin at the same time, please try again later")
        try:
            namespace, watched = self._watches.watch(client_id, pattern)
        except PatternsOverLimit as error:
            return failure(PATTERNS_OVER_LIMIT, f"fuzzy watch pattern over limit, {error.text}")
        self._compared += 1
        try:
            async with self._turn:
                if client_id not in watched.watchers:
                    return success()  # it is gone, or has ended the watch
                await self._load(namespace)
                names, known_from = await self._difference(namespace, watched, known)
        finally:
            self._compared -= 1
        self._watches.send_names(client_id, ServiceNames(pattern, is_first, names, known_from))
        self._pusher.go_on()
        if self._watches.is_over(watched):
            self._watches.stats.matches_over += 1
            shown = f"{PREFIX}fuzzyMatches={self._watches.shown_max()}: {watched.count} services match"
            return failure(MATCHES_OVER_LIMIT, f"fuzzy watch pattern matched count over limit, bounded by {shown}")
        return success()

    async def _load(self, namespace: WatchedNamespace) -> None:
        """Read the names of a namespace's services, at its first watch."""
        if namespace.present is not None:
            return
        found, begun_s = set[str](), time.perf_counter()
        for number, service in enumerate(self._table.in_namespace(namespace.name)):
            if has_instances(service):
                found.add(service.full_name)
            if number % NAMES_PER_LOOK == 0:
                begun_s = await breathe(begun_s)
        self._watches.loaded(namespace, found, lambda name: has_instances(self._table.get(namespace.name, name)))

    async def _difference(
        self, namespace: WatchedNamespace, watched: WatchedPattern, known_keys: Sequence[Any]
    ) -> tuple[list[str], int]:
        """Compare the services that a client knows with those that match, in slices of the loop.

        Return the names of those that are new to the client, and then of those that it knows and that are gone, with
        the index of the first of these. Services that come or go in the meantime are sent to it as changes.
        """
        pattern, begun_s = watched.pattern, time.perf_counter()
        received, prefix = set[str](), namespace.name + GROUP_SPLITTER
        for number, key in enumerate(known_keys):
            if type(key) is not str:
                raise InvalidParam("field 'receivedGroupKeys' should be a list of texts")
            if key.startswith(prefix):
                received.add(key[len(prefix) :])
            if number % NAMES_PER_LOOK == 0:
                begun_s = await breathe(begun_s)
        new: list[str] = []
        known, moves = 0, watched.moves
        for number, name in enumerate(list(namespace.present or ())):
            if pattern.matches(name):
                if name in received:
                    received.remove(name)
                    known += 1
                else:
                    new.append(name)
            if number % NAMES_PER_LOOK == 0:
                begun_s = await breathe(begun_s)
        watched.set_count(known + len(new), moves)
        if shown_max := self._watches.shown_max():
            del new[max(shown_max - known, 0) :]
        known_from = len(new)
        for number, name in enumerate(received):
            if pattern.matches(name):
                new.append(name)
            if number % NAMES_PER_LOOK == 0:
                begun_s = await breathe(begun_s)
        return new, known_from
