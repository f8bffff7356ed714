"""The receiver's side of the members' identity: finds the caller of a call, once for each call."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from app.auth import signed
from app.auth.signed import PROOF, SIGNATURE, Identity, Nonces, Signature, is_question
from app.config.identity_settings import IDENTITY_NACOS_MEMBERS
from distro.wire.call_trust import CLOCK_HEADER
from distro.wire.http_agent import MEMBER_HEADER

AGENT = "Nacos-Server"
"""The text that the agent string of every member contains."""
PREFIX = "rollcall-"
"""The prefix of the headers that Rollcall members send each other."""
MEMBER = MEMBER_HEADER.lower()
SETUP = "ConnectionSetupRequest"
"""The type of the gRPC message that introduces a connection."""
SENDERS_MAX = 1_000
WARN_MS = 60_000
log = logging.getLogger(__name__)

Header = Callable[[str], str | None]
"""Returns one header of a call, by its name in lower case."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a call. ``is_member``: a listed member, by its identity and address."""

    is_member: bool
    is_recent: bool
    """True for a listed member, or one that was recently listed."""
    sender: str = ""
    """The address named in a signed call; empty for all others."""


CLIENT = Caller(False, False)
"""A caller that is not known to be a member."""
ALL_MEMBERS = Caller(True, True)
RECENT_MEMBER = Caller(False, True)


@dataclass(frozen=True, slots=True)
class Unidentified:
    """A call that claims to be a member's without proof. It is refused, and executed nowhere."""

    status: int
    """401 if the caller can repeat the call with the information in ``headers``, else 403."""
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CallerStats:
    """Counts of members' calls: accepted ones, and refused ones by reason. Written by the loop's thread."""

    signed: int = 0
    plain: int = 0
    """Calls accepted by the secret itself."""
    proved: int = 0
    """Connections of other members to which this one proved that it knows the secret."""
    exempt: int = 0
    """Calls accepted over gRPC without a secret, because a setting names the caller."""
    refused_missing: int = 0
    """Calls with an agent or headers of members, but without secret or signature."""
    refused_value: int = 0
    """Calls with a wrong secret, or with the bare secret from a member that should sign."""
    refused_signature: int = 0
    """Calls with a malformed signature, or one for another call or secret."""
    refused_clock: int = 0
    """Calls with a signature for another run or time. Their sender gets the clock, and repeats them."""
    refused_replayed: int = 0
    refused_body: int = 0
    """Calls with a signature for another body."""
    refused_sender: int = 0
    """Calls that named another member than their signature."""
    refused_address: int = 0
    """Calls that did not come from a member's address."""


class MemberAddresses(Protocol):
    """The addresses that members' calls come from. Thread-safe."""

    def is_listed(self, remote_ip: str) -> bool:
        """Return whether it is an address of a listed member."""
        ...

    def is_heard(self, remote_ip: str) -> bool:
        """Return whether it is an address of a member that is listed, or was until recently."""
        ...

    def has_any_of(self, remote_ip: str, is_one: Callable[[str], bool]) -> bool:
        """Return whether a member for which ``is_one`` is true is listed at the address."""
        ...


class _Signed(NamedTuple):
    """A call with a signature, which is ``text``."""

    method: str
    target: str
    header: Header
    body: bytes
    text: str
    remote_ip: str


class Callers:
    """Finds the caller of calls, once for each. Thread-safe, but counts may be lost."""

    def __init__(
        self,
        identity: Identity | None,
        own_run: str,
        clock_ms: Callable[[], int],
        members: MemberAddresses,
    ) -> None:
        """``own_run``: this member's run, for which signatures are made; ``clock_ms``: its clock since the boot."""
        self.identity = identity
        self._own_run = own_run
        self._clock_ms = clock_ms
        self._members = members
        self._nonces = Nonces()
        self._known: dict[tuple[str, bool], Caller] = {}
        self._warned_ms = -WARN_MS
        self.stats = CallerStats()

    # --- HTTP ------------------------------------------------------------------------------------

    def caller_of(
        self, method: str, target: str, header: Header, body: bytes, remote_ip: str, *, claims: bool
    ) -> Caller | Unidentified:
        """Return the caller of a call over HTTP. ``claims``: its agent or its headers claim that it is a member."""
        identity = self.identity
        if identity is None:
            return self._by_address(remote_ip, claims=claims)
        text = header(SIGNATURE)
        if text is not None:
            return self._by_signature(identity, _Signed(method, target, header, body, text, remote_ip), None)
        given = header(identity.name)
        if given is not None or claims:
            return self._by_value(identity, given, remote_ip, header(MEMBER), claims=claims)
        return CLIENT

    def may_be_large(self, method: str, target: str, header: Header, remote_ip: str) -> bool:
        """Return whether the body of a call may be as large as members' bodies, before the body is read."""
        identity, members = self.identity, self._members
        if not members.is_heard(remote_ip):
            return False
        if identity is None:
            return True
        text = header(SIGNATURE)
        made = None if text is None else signed.parse(text)
        if text is not None and made is not None and made.is_valid(self._own_run, self._clock_ms()):
            return signed.key_number(identity.keys, method, target, text, header) is not None
        return self._takes_value(identity, header(identity.name), remote_ip, header(MEMBER))

    def may_be_member(self, method: str, target: str, header: Header, remote_ip: str, named: str | None = None) -> bool:
        """Return whether a call is a member's, time and body aside. A member with a wrong clock is sent the time."""
        identity = self.identity
        if not self._members.is_heard(remote_ip):
            return False
        if identity is None:
            return True
        text = header(SIGNATURE)
        if text is not None and signed.key_number(identity.keys, method, target, text, header) is not None:
            return True
        return self._takes_value(identity, header(identity.name), remote_ip, named or header(MEMBER))

    # --- gRPC ------------------------------------------------------------------------------------

    def caller_by_grpc(
        self, type_name: str, headers: Mapping[str, str], body: bytes, remote_ip: str, named: str
    ) -> Caller | Unidentified:
        """Return the sender of a message of a members' type on the members' port.

        ``named``: its own claim, or empty.
        """
        identity = self.identity
        if identity is None:
            return self._by_address(remote_ip, claims=True)
        header = {name.lower(): value for name, value in headers.items()}.get
        text = header(SIGNATURE)
        if text is not None:
            call = _Signed(signed.GRPC, type_name, header, body, text, remote_ip)
            return self._by_signature(identity, call, named or None)
        given = header(identity.name)
        if given is None and not named:
            if self._members.has_any_of(remote_ip, identity.grpc_exempt.__contains__):
                self.stats.exempt += 1
                return ALL_MEMBERS
            # Real Nacos since 2.5 sends the secret with the calls for members, and not with the setup.
            if type_name == SETUP and self._members.has_any_of(remote_ip, identity.nacos.has):
                return CLIENT
        return self._by_value(identity, given, remote_ip, named or None, claims=True)

    def may_be_large_over_grpc(self, type_name: str, headers: Mapping[str, str], remote_ip: str, named: str) -> bool:
        """Return whether a message may be as large as members' messages, before its body is read.

        ``named``: as for ``caller_by_grpc``.
        """
        exempt = self.identity.grpc_exempt if self.identity is not None and not named else frozenset[str]()
        if exempt and self._members.has_any_of(remote_ip, exempt.__contains__):
            return True
        header = {name.lower(): value for name, value in headers.items()}.get
        return self.may_be_member(signed.GRPC, type_name, header, remote_ip, named or None)

    def clock_headers(self, caller: str, number: int = 0) -> dict[str, str]:
        """Return this member's clock for a caller that does not know it, and a proof that this member knows the secret.

        ``number``: the secret that the caller knows, too, if that is known.
        """
        if self.identity is None:
            return {}
        clock = f"{self._own_run} {self._clock_ms()}"
        return {CLOCK_HEADER: clock, PROOF: signed.proof_of(self.identity.keys[number], clock, caller)}

    # --- inside ----------------------------------------------------------------------------------

    def _by_address(self, remote_ip: str, *, claims: bool) -> Caller | Unidentified:
        if self._members.is_listed(remote_ip):
            return ALL_MEMBERS
        if self._members.is_heard(remote_ip):
            return RECENT_MEMBER
        if not claims:
            return CLIENT
        self.stats.refused_address += 1
        return Unidentified(403, f"{remote_ip} is not the address of a listed member")

    def _takes_value(self, identity: Identity, given: str | None, remote_ip: str, named: str | None) -> bool:
        """Return whether the secret itself is enough: the address is that of a member named as real Nacos."""
        if named is not None or not identity.is_value(given):
            return False  # real Nacos does not name itself
        return self._members.has_any_of(remote_ip, identity.nacos.has)

    def _by_value(
        self, identity: Identity, given: str | None, remote_ip: str, named: str | None, *, claims: bool
    ) -> Caller | Unidentified:
        if given is not None and self._takes_value(identity, given, remote_ip, named):
            self.stats.plain += 1
            return ALL_MEMBERS
        if not claims:
            return CLIENT  # with any value, the header claims no rights of a member; a call that needs them gets 403
        if given is None:
            self.stats.refused_missing += 1
        else:
            self.stats.refused_value += 1
            if named is None and identity.is_value(given) and self._members.is_listed(remote_ip):
                self._warn_of(remote_ip)
        return Unidentified(403, "a call of a member needs the identity of a member")

    def _warn_of(self, remote_ip: str) -> None:
        now_ms = self._clock_ms()
        if now_ms - self._warned_ms >= WARN_MS:
            self._warned_ms = now_ms
            log.warning(
                "a call of %s with the members' secret itself is refused: if the member there is real Nacos, "
                "add it to %s",
                remote_ip,
                IDENTITY_NACOS_MEMBERS.name,
            )

    def _by_signature(self, identity: Identity, call: "_Signed", named: str | None) -> Caller | Unidentified:
        stats, header, now_ms = self.stats, call.header, self._clock_ms()
        is_listed = self._members.is_listed(call.remote_ip)
        made = signed.parse(call.text)
        if made is None:
            stats.refused_signature += 1
            return Unidentified(403, "the signature is not understood")
        if not is_listed and not self._members.is_heard(call.remote_ip):
            stats.refused_address += 1
            return Unidentified(403, f"{call.remote_ip} is not the address of a listed member")
        number = signed.key_number(identity.keys, call.method, call.target, call.text, header)
        named = named or header(MEMBER)
        if number is not None and made.is_valid(self._own_run, now_ms):
            if made.digest != signed.digest_of(call.body):
                stats.refused_body += 1
                return Unidentified(403, "the signature is of another body")
            if named not in (None, made.sender):
                stats.refused_sender += 1
                return Unidentified(403, "the signature is of another member")
            if self._nonces.take(f"{made.sender} {made.session}", made.number, now_ms):
                stats.signed += 1
                return self._known.get((made.sender, is_listed)) or self._signed_by(made.sender, is_listed=is_listed)
            stats.refused_replayed += 1
            return self._ask_again("the signature was used before", made, number)
        if number is None:
            stats.refused_signature += 1
            return self._ask_again("the signature is of another call or secret", made, 0)
        if is_question(made):
            stats.proved += 1
            return self._ask_again("this member knows the secret", made, number)
        stats.refused_clock += 1
        return self._ask_again("the signature is for another time or run", made, number)

    def _ask_again(self, text: str, made: Signature, number: int) -> Unidentified:
        return Unidentified(401, text, self.clock_headers(made.sender, number))

    def _signed_by(self, sender: str, *, is_listed: bool) -> Caller:
        """Make the caller of all calls of a sender, and keep it: making it costs a tenth of the check."""
        if len(self._known) >= SENDERS_MAX:
            self._known.clear()
        made = self._known[sender, is_listed] = Caller(is_listed, True, sender)
        return made


def claims_member(headers: Mapping[str, str]) -> bool:
    """Return whether the headers of a call, by names in lower case, claim that a member makes it."""
    if AGENT in headers.get("user-agent", "") or AGENT in headers.get("client-version", ""):
        return True
    return any(name.startswith(PREFIX) for name in headers)
