"""A write of a client that a member passed on with others, as a separate call, read as far as it is asked for."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from app.http.api.call import (
    AGENT_CHARS_MAX,
    BATCH_CHANGE,
    CLIENT_ADDRESS,
    DEADLINE,
    SHORT_CHANGE,
    WANTS_CHANGE,
    Call,
    Route,
)
from app.http.api.parse_memo import ParseMemo
from app.http.input.forms import Parameters
from app.metrics.audit_trail import Actor
from app.peers.write_batches import BatchedCall

C = TypeVar("C")
# ``_new_tuple(Actor, (...))`` is ``Actor(...)`` without its function in Python.
_new_tuple = tuple.__new__


class PassedOnCall(Call):
    """A call of a batch, on the event loop; it comes from the member that sent the batch."""

    __slots__ = ("_all_headers", "_batch", "_known", "_one", "deadline", "wants_change")
    deadline: str | None
    wants_change: str | None

    def __init__(self, batch: Call, row: Route, one: BatchedCall, known: ParseMemo) -> None:
        """``batch``: the call that brought it, whose sender and deadline it has."""
        self.method = row.method
        self.path = row.path
        self.raw_query = one.query
        self.body = one.body
        self.remote_ip = batch.remote_ip
        self.context_path = batch.context_path
        self.raw_path = self.hop_token = self.user = ""
        self.path_values = {}
        self.on_loop, self.has_checked_name = True, False
        self.has_member_certificate = batch.has_member_certificate
        self.caller = batch.caller
        self.address = None
        self.memo = self.read = None
        self._parameters: Parameters | None = None
        self._batch = batch
        self.deadline = batch.deadline
        self.wants_change = BATCH_CHANGE if batch.wants_change == BATCH_CHANGE else SHORT_CHANGE
        self._known = known
        self._one = one
        self._all_headers: dict[str, str] | None = None

    @property
    def headers(self) -> Mapping[str, str]:  # type: ignore[override]  # read where asked for, a field in the base class
        if self._all_headers is None:
            own = {"user-agent": self._batch.agent}
            if self.deadline is not None:
                own[DEADLINE] = self.deadline
            self._all_headers = self._one.headers(own)
        return self._all_headers

    def header(self, name: str) -> str | None:
        if name == WANTS_CHANGE:
            return self.wants_change
        if name == CLIENT_ADDRESS:
            return self._one.address
        return self.headers.get(name)

    @property
    def client_agent(self) -> str:
        return self._one.agent or self.agent

    @property
    def actor(self) -> Actor:
        address, agent = self._one.address, self.client_agent[:AGENT_CHARS_MAX]
        if not address:
            return Actor(self.remote_ip, self.user, agent)
        return _new_tuple(Actor, (address, self.user, agent, self.remote_ip))

    def parse(self, parser: Callable[[Parameters], C]) -> C:
        if self.body:
            return parser(self.parameters)
        return self._known.parse(parser, self.raw_query, lambda: self.parameters)
