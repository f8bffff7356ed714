"""What calls between members need so that each side trusts the other: signatures, proofs and TLS."""

import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol


class Question(NamedTuple):
    """What a peer is asked first on a new connection, so that it proves that it is the peer."""

    target: str
    headers: Mapping[str, str]
    is_answered: Callable[[Mapping[str, str]], bool]
    """Whether these headers of an answer, by names in lower case, have the proof."""

    def request(self, peer: str) -> bytes:
        """Return the request that asks it over HTTP."""
        lines = (f"{name}: {value}" for name, value in {"Host": peer, **self.headers}.items())
        return "\r\n".join((f"GET {self.target} HTTP/1.1", *lines, "", "")).encode()


class CallSigner(Protocol):
    """What makes a call known for one of this member. Thread-safe."""

    def headers(
        self, peer: str, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The headers that go with a call beside ``headers``. ``target``: path and query as they are sent."""
        ...

    def learn(self, peer: str, headers: Mapping[str, str]) -> bool:
        """Take what a refusal with status 401 says; whether the call, which was not executed, is to be made again."""
        ...

    def question(self, peer: str, method: str = "GET", target: str = ..., body: bytes = b"") -> Question | None:
        """What to ask the peer first on a new connection; None: nothing."""


class PeerTls(Protocol):
    """How peers are called over TLS. Thread-safe."""

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        ...

    def is_plain(self, host: str, port: int) -> bool:
        """Whether the peer at an address is to be called plainly."""
        ...

    def on_failure(self, host: str, port: int, error: Exception) -> bool:
        """Note a connection that was not made; return whether the peer is to be called plainly instead."""
        ...
