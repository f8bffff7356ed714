"""The identity of a cluster's members, and their signed calls: how a signature is made and read, and counts once.

The identity is a secret that all members have, and the keys derived from it.

A signature states the caller, the called member, the time of the called member's clock, the number of the call, its
method, target, body and headers. Only members that know the secret can make it, and it cannot be used
twice or elsewhere.

The calls of each session of a sender are numbered, and each number counts once. A set of all nonces of a minute would
hold a million at some ten thousand calls per second. For a numbered session a window of bits is enough: a number
above it moves the window on, and one below it is refused like a repeated one.
"""

import hashlib
import hmac
import re
import secrets
import threading
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.config.identity_settings import IdentitySettings, NamedNacos

_KEY_LABEL = b"rollcall members' calls, key 1"


@dataclass(frozen=True, slots=True)
class Identity:
    """The header in which real Nacos sends the secret, its values, and the signing key of each."""

    header: str
    values: tuple[str, ...] = field(repr=False)
    """This member's value, and after it the previous one, if there is one."""
    keys: tuple[bytes, ...] = field(repr=False)
    nacos: NamedNacos
    """The members that are real Nacos: only they are sent the secret itself, and may send it."""
    grpc_exempt: frozenset[str]
    """Addresses of members whose calls over gRPC carry no identity."""

    @property
    def name(self) -> str:
        """The header's name in lower case."""
        return self.header.lower()

    def is_value(self, text: str | None) -> bool:
        """Return whether it is a value of the secret, in equal time for all texts of one length."""
        given = (text or "").encode("utf-8", "replace")
        # All values are compared, and the results summed: the number of comparisons would show which one matched.
        return sum(hmac.compare_digest(given, value.encode()) for value in self.values) > 0


def identity_of(settings: IdentitySettings | None) -> Identity | None:
    """Return the identity of the settings; None without one."""
    if settings is None:
        return None
    values = (settings.value, settings.previous) if settings.previous else (settings.value,)
    keys = tuple(hmac.digest(value.encode(), _KEY_LABEL, "sha256") for value in values)
    return Identity(settings.header, values, keys, settings.nacos, settings.grpc_exempt)


SIGNATURE = "rollcall-signature"
"""Header of a signed call. Shape: ``1 sender run ms session number digest mac``, see ``Signature``."""
PROOF = "rollcall-proof"
"""Header of a refusal that names the refusing member's clock, and proves that it knows the secret, too."""
SIGNED_HEADERS = (
    "user-agent",
    "content-type",
    "content-encoding",
    "authorization",
    "accesstoken",
    "rollcall-member",
    "rollcall-client-agent",
    "rollcall-client-address",
    "rollcall-wants-change",
    "rollcall-relay",
    "rollcall-deadline",
    "rollcall-clock",
)
"""The headers that have a meaning for the called member."""
GRPC = "GRPC"
"""The method of a message over gRPC. Its target is the name of the type."""
NO_CLOCK = "-"
"""The run of a callee whose clock the sender does not know yet."""
QUESTION_TARGET = "/rollcall-question"
"""The path of a question over HTTP. No route has it: the member answers before it reads the path."""
QUESTION_BYTES = 18
LATE_MS_MAX = 30_000
"""How long before and after its time a signature is valid."""
SIGNATURE_CHARS_MAX = 512
NUMBER_DIGITS_MAX = 18
_VERSION = "1"
_NUMBER = f"([0-9]{{1,{NUMBER_DIGITS_MAX}}})"
_SHAPE = re.compile(rf"{_VERSION} ([^ ]*) ([^ ]*) {_NUMBER} ([^ ]*) {_NUMBER} ([^ ]*) ([^ ]*)")


class Signature(NamedTuple):
    """The fields of a signature: texts as they were sent, and numbers."""

    sender: str
    """The address of the member that calls."""
    run: str
    """The run of the called member, which begins with its address; ``NO_CLOCK`` if the sender does not know it."""
    at_ms: int
    """The time of the call in the clock of that run."""
    session: str
    number: int
    """The number of the call in the sender's session."""
    digest: str
    """The base64 of the body's SHA-256."""
    mac: str

    def is_valid(self, own_run: str, now_ms: int) -> bool:
        """Return whether the call is for this run of the called member, and is not too old by the clock of that run."""
        return self.run == own_run and abs(now_ms - self.at_ms) <= LATE_MS_MAX


def digest_of(body: bytes) -> str:
    """Return the text for a body in a signature."""
    if not body:
        return _EMPTY
    return b2a_base64(hashlib.sha256(body).digest(), newline=False).decode()


def mac_of(
    key: bytes,
    method: str,
    target: str,
    unsigned: str,
    header: Callable[[str], str | None],
) -> str:
    """Return the MAC of a call.

    ``unsigned``: the signature's text before the MAC; ``header(name)``: a header or None.
    """
    # No header, target or signature contains a line feed, so no two calls have the same text.
    values = ["\0" if (value := header(name)) is None else value for name in SIGNED_HEADERS]
    # Both sides read and write headers as latin-1. Surrogates cannot come over the wire.
    text = "\n".join((method, target, unsigned, *values)).encode("latin-1", "replace")
    return b2a_base64(hmac.digest(key, text, "sha256"), newline=False).decode()


def sign(
    key: bytes,
    method: str,
    target: str,
    body: bytes,
    header: Callable[[str], str | None],
    made: tuple[str, str, int, str, int],
) -> str:
    """Return the text of a signature. ``made``: sender, run, time in ms, session and number, as in ``Signature``."""
    sender, run, at_ms, session, number = made
    unsigned = f"{_VERSION} {sender} {run} {at_ms} {session} {number} {digest_of(body)}"
    return f"{unsigned} {mac_of(key, method, target, unsigned, header)}"


def parse(text: str) -> Signature | None:
    """Return the fields of a signature; None if the text is not a signature."""
    if len(text) > SIGNATURE_CHARS_MAX or (found := _SHAPE.fullmatch(text)) is None:
        return None
    sender, run, at_ms, session, number, digest, mac = found.groups()
    return Signature(sender, run, int(at_ms), session, int(number), digest, mac)


def key_number(
    keys: tuple[bytes, ...],
    method: str,
    target: str,
    text: str,
    header: Callable[[str], str | None],
) -> int | None:
    """Return the number of the key that a call is signed with; None for none. ``text``: the whole signature."""
    unsigned, _, mac = text.rpartition(" ")
    given = mac.encode("utf-8", "replace")
    for number, key in enumerate(keys):
        if hmac.compare_digest(given, mac_of(key, method, target, unsigned, header).encode()):
            return number
    return None


def asker_of(sender: str) -> str:
    """Return the sender of a question: the address of the asking member, and a number that no question had before.

    A question is a signed call for no run, and so is executed nowhere. The refusal has the proof for its sender.
    """
    return f"{sender}~{secrets.token_urlsafe(QUESTION_BYTES)}"


def is_question(made: Signature) -> bool:
    """Return whether a signed call only asks whether this member knows the secret."""
    return made.run == NO_CLOCK and "~" in made.sender


def proof_of(key: bytes, clock: str, caller: str) -> str:
    """Return the text of ``PROOF`` for the clock ``run ms`` of a member and the caller that it refused."""
    text = f"clock\n{clock}\n{caller}".encode("utf-8", "replace")
    return b2a_base64(hmac.digest(key, text, "sha256"), newline=False).decode()


def proof_number(keys: tuple[bytes, ...], clock: str, caller: str, proof: str) -> int | None:
    """Return the number of the key that a proof is made with; None for none."""
    given = proof.encode("utf-8", "replace")
    matches = (at for at, key in enumerate(keys) if hmac.compare_digest(given, proof_of(key, clock, caller).encode()))
    return next(matches, None)


def header_of(headers: Mapping[str, str]) -> Callable[[str], str | None]:
    """Return a function from a name in lower case to the value of a sent header, as it arrives."""
    sent = {
        name.lower(): value.encode("latin-1", "replace").decode("latin-1").strip(" \t")
        for name, value in headers.items()
    }
    return sent.get


_EMPTY = b2a_base64(hashlib.sha256(b"").digest(), newline=False).decode()


WINDOW = 65_536
"""The numbers of one session that may arrive in any order: those of three seconds at 20,000 calls per second."""
SESSIONS_MAX = 256
"""The most sessions, each one run of one sender. A new one is refused if so many were heard within ``KEEP_MS``."""
KEEP_MS = 120_000
"""After this silence a session is forgotten: far longer than a signature is valid, before or after its time."""


class _Session:
    __slots__ = ("bits", "heard_ms", "highest")

    def __init__(self) -> None:
        self.highest = 0
        self.bits = bytearray(WINDOW // 8)
        self.heard_ms = 0

    def take(self, number: int) -> bool:
        bits, highest = self.bits, self.highest
        place, bit = number % WINDOW >> 3, 1 << (number & 7)
        if number > highest:
            if number - highest >= WINDOW:
                self.bits = bits = bytearray(WINDOW // 8)
            else:
                for passed in range(highest + 1, number):
                    bits[passed % WINDOW >> 3] &= ~(1 << (passed & 7)) & 0xFF
            self.highest = number
        elif highest - number >= WINDOW or bits[place] & bit:
            return False
        bits[place] |= bit
        return True


class Nonces:
    """The numbers that were accepted, by session. Thread-safe."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def take(self, session: str, number: int, now_ms: int) -> bool:
        """Accept a number of a session, from 1 on. Return False if it was, or may have been, accepted before."""
        with self._lock:
            known = self._sessions.get(session)
            if known is None:
                if len(self._sessions) >= SESSIONS_MAX:
                    self._forget(now_ms)
                if len(self._sessions) >= SESSIONS_MAX:
                    return False
                known = self._sessions[session] = _Session()
            known.heard_ms = now_ms
            return known.take(number)

    def _forget(self, now_ms: int) -> None:
        for session in [name for name, one in self._sessions.items() if now_ms - one.heard_ms > KEEP_MS]:
            del self._sessions[session]
