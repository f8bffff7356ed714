"""The sender's side of the members' identity: what goes with a call so that the member called knows whose it is."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from app.auth import signed
from app.auth.identity import Identity
from app.auth.signed import NO_CLOCK, PROOF, SIGNATURE
from distro.model.types import CAPABILITY_SIGNED
from distro.wire.deadlines import CLOCK_HEADER

CLOCK = CLOCK_HEADER.lower()
SESSION_BYTES = 9


class PeerClocks(Protocol):
    """The clocks of peers, as far as known. Thread-safe."""

    def clock_of(self, peer: str) -> tuple[str, int] | None:
        """The run of a peer, and what its clock shows now; None while it has named none."""
        ...

    def note(self, peer: str, writer: str, clock_ms: int | None) -> None:
        """Take the clock that a message names which has just arrived from this run of the peer."""
        ...


@dataclass(slots=True)
class _Callee:
    """What is known of one member that is called."""

    session: str
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    key: int = 0
    """Which of our keys it knows."""


class MemberSigner:
    """Signs this member's calls, and names its secret to members that read no signatures. Thread-safe.

    One without an identity adds nothing to any call.
    """

    def __init__(
        self,
        self_address: str,
        identity: Identity | None,
        clocks: PeerClocks,
        capabilities: Callable[[str], frozenset[str]],
    ) -> None:
        """``capabilities(peer)``: those that the peer's last report named."""
        self._self_address = self_address
        self._identity = identity
        self._clocks = clocks
        self._capabilities = capabilities
        self._callees: dict[str, _Callee] = {}
        self.learnt = 0
        """Refusals that named a clock or another secret: the calls were made again. Now and then one is not counted."""

    @property
    def secret_header(self) -> str:
        """The name, in lower case, of the header that holds the secret itself; empty without an identity."""
        return self._identity.name if self._identity else ""

    def headers(self, peer: str, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers that go with a call beside ``headers``. ``target``: path and query as they are sent."""
        identity = self._identity
        if identity is None:
            return {}
        return self.headers_by(peer, method, target, body, signed.header_of(headers))

    def headers_by(
        self, peer: str, method: str, target: str, body: bytes, header: Callable[[str], str | None]
    ) -> dict[str, str]:
        """As ``headers``, with the others by a function from a name in lower case to its value."""
        identity = self._identity
        if identity is None:
            return {}
        callee = self._callees.get(peer)
        if callee is None:
            callee = self._callees.setdefault(peer, _Callee(secrets.token_urlsafe(SESSION_BYTES)))
        run, at_ms = self._clocks.clock_of(peer) or (NO_CLOCK, 0)
        made = (self._self_address, run, max(at_ms, 0), callee.session, next(callee.numbers))
        text = signed.sign(identity.keys[callee.key], method, target, body, header, made)
        if identity.signed_only or CAPABILITY_SIGNED in self._capabilities(peer):
            return {SIGNATURE: text}
        return {identity.header: identity.values[0], SIGNATURE: text}

    def learn(self, peer: str, headers: Mapping[str, str]) -> bool:
        """Take the clock and the secret that a refusal of the peer shows; whether the call is to be made once more.

        ``headers``: of the refusal, by names in lower case or without regard to case.
        """
        identity, clock, proof = self._identity, headers.get(CLOCK), headers.get(PROOF)
        if identity is None or not clock or not proof:
            return False
        run, _, clock_ms = clock.rpartition(" ")
        if run.partition("~")[0] != peer or not clock_ms.isdecimal() or len(clock_ms) > signed.NUMBER_DIGITS_MAX:
            return False
        number = signed.proof_number(identity.keys, clock, self._self_address, proof)
        if number is None:
            return False
        callee = self._callees.get(peer)
        if callee is not None:
            callee.key = number
        self._clocks.note(peer, run, int(clock_ms))
        self.learnt += 1
        return True
