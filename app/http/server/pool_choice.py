"""Which pool of threads a call belongs to, by its method, its path and its caller."""

import enum

from app.auth.member_calls import Caller
from app.http.api.parse_memo import PASSWORD
from app.http.server.request import LOOP_FORM_BYTES_MAX, AnyRequest

READS = (b"GET", b"HEAD")
WAITING_READS = (
    "/v1/ns/service/subscribers",
    "/v1/ns/service/versions",
    "/v1/ns/explain",
    "/v1/ns/api/clientBeat",
    "/v2/core/loader/cluster",
    "/v2/core/loader/smartReloadCluster",
)
"""Reads that ask other members: they wait, and belong to ``http-people``. Pages of the console may, too."""
CONSOLE_PATH = "/console/"
PEER_PATHS = ("/v1/ns/distro/", "/v1/core/cluster/report", "/v1/ns/operator/cluster/state")


class PoolKind(enum.Enum):
    """The pools of a server."""

    PEOPLE = enum.auto()
    """Calls that may wait."""
    READERS = enum.auto()
    """Reads, which compute."""
    PEERS = enum.auto()
    """Calls of members."""
    FORMS = enum.auto()
    """Calls of clients with a large body."""


class PoolChoice:
    """The choice under one context path."""

    def __init__(self, context_path: str) -> None:
        self._peer_paths = tuple((context_path + path).encode() for path in PEER_PATHS)
        self._waiting_reads = tuple((context_path + path).encode() for path in (*WAITING_READS, CONSOLE_PATH))
        self._front_page = f"{context_path}/".encode()

    def kind_of(self, request: AnyRequest, caller: Caller) -> PoolKind:
        """The pool that answers a request."""
        target = request.target
        if caller.is_recent and (request.block.claims_member or target.startswith(self._peer_paths)):
            return PoolKind.PEERS
        if len(request.body) > LOOP_FORM_BYTES_MAX and not caller.is_recent:
            return PoolKind.FORMS
        waits = target.startswith(self._waiting_reads) or PASSWORD in target or target == self._front_page
        if request.method in READS and not waits:
            return PoolKind.READERS
        return PoolKind.PEOPLE
