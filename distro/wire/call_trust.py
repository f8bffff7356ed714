"""The headers of calls between members, and the trust in them: signatures, proofs and TLS."""

import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

DEADLINE_HEADER = "Rollcall-Deadline"
"""Request header between Rollcall members: the text that ``CallDeadlines.text`` makes."""
RELAY_HEADER = "Rollcall-Relay"
"""Request header between Rollcall members: the call is for a member that the sender cannot reach (R12)."""
CLOCK_HEADER = "Rollcall-Clock"
"""Header of datums between Rollcall members, in requests and answers: a ``CallDeadlines.stamp``."""


class Question(NamedTuple):
    """The first request on a new connection, whose answer proves that the peer is the peer."""

    target: str
    headers: Mapping[str, str]
    is_answered: Callable[[Mapping[str, str]], bool]
    """Returns whether these headers of an answer, by names in lower case, have the proof."""

    def request(self, peer: str) -> bytes:
        """Return the request that asks it over HTTP."""
        lines = (f"{name}: {value}" for name, value in {"Host": peer, **self.headers}.items())
        return "\r\n".join((f"GET {self.target} HTTP/1.1", *lines, "", "")).encode()


class CallSigner(Protocol):
    """Signs calls of this member, so that others know who calls. Thread-safe."""

    def headers(
        self, peer: str, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Return further headers for a call, to go with ``headers``. ``target``: path and query as they are sent."""
        ...

    def learn(self, peer: str, headers: Mapping[str, str]) -> bool:
        """Learn from a refusal with status 401. Return whether to repeat the call, which was not executed."""
        ...

    def question(self, peer: str, method: str = "GET", target: str = ..., body: bytes = b"") -> Question | None:
        """Return the question for the peer on a new connection; None if nothing is asked."""


class PeerTls(Protocol):
    """The way peers are called over TLS. Thread-safe."""

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        ...

    def is_plain(self, host: str, port: int) -> bool:
        """Return whether the peer at an address is to be called without TLS."""
        ...

    def on_failure(self, host: str, port: int, error: Exception) -> bool:
        """Note a connection that failed. Return whether the peer is to be called without TLS instead."""
        ...
