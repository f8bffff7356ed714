"""The sender's side of the members' identity: headers that identify the caller to the called member."""

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from app.auth import signed
from app.auth.signed import NO_CLOCK, PROOF, QUESTION_TARGET, SIGNATURE, Identity
from app.config.identity_settings import IDENTITY_NACOS_MEMBERS, IDENTITY_VALUE
from distro.wire.call_trust import CLOCK_HEADER, Question

CLOCK = CLOCK_HEADER.lower()
SESSION_BYTES = 9
WARN_S = 60.0

log = logging.getLogger(__name__)


class PeerClocks(Protocol):
    """The clocks of peers, as far as known. Thread-safe."""

    def clock_of(self, peer: str) -> tuple[str, int] | None:
        """Return the run of a peer, and the current time of its clock; None while it has named none."""
        ...

    def note(self, peer: str, writer: str, clock_ms: int | None) -> None:
        """Note the clock in a message that has just arrived from this run of the peer."""
        ...


@dataclass(slots=True)
class _Callee:
    """The knowledge about one called member."""

    session: str
    is_nacos: bool
    """True if the operator names it as real Nacos."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    key: int = 0
    """The number of the key that the member knows."""
    warned_s: float | None = None
    """When the log last said that it does not prove the secret."""


class MemberSigner:
    """Signs this member's calls, and sends its secret only to members that are named as real Nacos. Thread-safe.

    Without an identity it adds nothing to any call.
    """

    def __init__(
        self,
        self_address: str,
        identity: Identity | None,
        clocks: PeerClocks,
    ) -> None:
        self._self_address = self_address
        self._identity = identity
        self._clocks = clocks
        self._callees: dict[str, _Callee] = {}
        self.learnt = 0
        """Refusals that named a clock or another secret, so that the calls were repeated. A few are not counted."""

    @property
    def secret_header(self) -> str:
        """The name, in lower case, of the header with the secret itself; empty without an identity."""
        return self._identity.name if self._identity else ""

    def headers(self, peer: str, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> dict[str, str]:
        """Return further headers for a call, to go with ``headers``. ``target``: path and query as they are sent."""
        identity = self._identity
        if identity is None:
            return {}
        return self.headers_by(peer, method, target, body, signed.header_of(headers))

    def headers_by(
        self, peer: str, method: str, target: str, body: bytes, header: Callable[[str], str | None]
    ) -> dict[str, str]:
        """As ``headers``, with the other headers given by a function from a name in lower case to its value."""
        identity = self._identity
        if identity is None:
            return {}
        callee = self._callee(peer)
        run, at_ms = self._clocks.clock_of(peer) or (NO_CLOCK, 0)
        made = (self._self_address, run, max(at_ms, 0), callee.session, next(callee.numbers))
        text = signed.sign(identity.keys[callee.key], method, target, body, header, made)
        if callee.is_nacos:
            return {identity.header: identity.values[0], SIGNATURE: text}
        return {SIGNATURE: text}

    def question(
        self, peer: str, method: str = "GET", target: str = QUESTION_TARGET, body: bytes = b""
    ) -> "Question | None":
        """Return a question that only the peer itself can answer; None for a peer that need not prove the secret.

        It is the first call on each new connection. Until it is answered, the peer is sent nothing else.
        """
        identity = self._identity
        if identity is None or (callee := self._callee(peer)).is_nacos:
            return None
        asker = signed.asker_of(self._self_address)
        made = (asker, NO_CLOCK, 0, callee.session, next(callee.numbers))
        text = signed.sign(identity.keys[callee.key], method, target, body, _no_header, made)
        return Question(target, {SIGNATURE: text}, partial(self._is_answered, peer, asker))

    def learn(self, peer: str, headers: Mapping[str, str]) -> bool:
        """Learn the clock and the secret from a refusal by the peer. Return whether to repeat the call.

        ``headers``: of the refusal, by names in lower case or without regard to case.
        """
        if not self._take_clock(peer, self._self_address, headers):
            return False
        self.learnt += 1
        return True

    def _take_clock(self, peer: str, asker: str, headers: Mapping[str, str]) -> bool:
        """Learn the clock and the secret of the peer, if it proves to ``asker`` that it knows one of ours."""
        identity, clock, proof = self._identity, headers.get(CLOCK), headers.get(PROOF)
        if identity is None or not clock or not proof:
            return False
        run, _, clock_ms = clock.rpartition(" ")
        if run.partition("~")[0] != peer or not clock_ms.isdecimal() or len(clock_ms) > signed.NUMBER_DIGITS_MAX:
            return False
        number = signed.proof_number(identity.keys, clock, asker, proof)
        if number is None:
            return False
        self._callee(peer).key = number
        self._clocks.note(peer, run, int(clock_ms))
        return True

    def _is_answered(self, peer: str, asker: str, headers: Mapping[str, str]) -> bool:
        """Return whether the peer proved that it knows the secret. If not, log that once a minute."""
        if self._take_clock(peer, asker, headers):
            return True
        callee, now_s = self._callee(peer), time.monotonic()
        if callee.warned_s is None or now_s - callee.warned_s >= WARN_S:
            callee.warned_s = now_s
            log.warning(
                "%s does not prove that it knows the members' secret, so this member sends it no data. "
                "If it is real Nacos, add it to %s; otherwise check that it has the same %s and lists %s",
                peer,
                IDENTITY_NACOS_MEMBERS.name,
                IDENTITY_VALUE.name,
                self._self_address,
            )
        return False

    def _callee(self, peer: str) -> _Callee:
        callee = self._callees.get(peer)
        if callee is None:
            is_nacos = self._identity is not None and self._identity.nacos.has(peer)
            made = _Callee(secrets.token_urlsafe(SESSION_BYTES), is_nacos)
            callee = self._callees.setdefault(peer, made)
        return callee


def _no_header(_name: str) -> None:
    """Return None: questions have no header that is signed."""
