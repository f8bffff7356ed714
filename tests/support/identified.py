"""Members with an identity, without a network: what one sends is what the other is asked about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.auth import signed
from app.auth.member_calls import Caller, Callers, Unidentified
from app.auth.member_signer import CLOCK, MemberSigner
from app.auth.signed import PROOF, identity_of
from app.config.identity_settings import IdentitySettings, NamedNacos, named_nacos
from distro.receive.call_times import CallDeadlines

HEADER = "Cluster-Key"
OLD, NEW = "the-secret-of-these-members", "another-secret-of-the-members"


@dataclass
class MachineClock:
    """A clock that the test sets."""

    now_ms: int = 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    boot_ms = wall_ms = monotonic_ms


@dataclass
class SentCall:
    """A call with its headers, as it goes over the wire."""

    method: str
    target: str
    body: bytes
    headers: dict[str, str]
    remote_ip: str
    claims: bool = True


class IdentifiedMember:
    """One member: it signs calls, and tells who makes those that come to it. ``restart`` makes it another run."""

    def __init__(self, ip: str, value: str = OLD, previous: str = "", *, nacos: str = "") -> None:
        self.ip, self.address = ip, f"{ip}:8848"
        self.clock = MachineClock()
        self.listed: set[str] = set()
        """The addresses of the members that this one lists."""
        self.parting: set[str] = set()
        self._runs = 0
        self.set_up(value, previous, nacos=nacos)

    def set_up(self, value: str, previous: str = "", *, nacos: str = "", exempt: frozenset[str] = frozenset()) -> None:
        """Start anew with these settings; no value means without an identity."""
        self._runs += 1
        self.run = f"{self.address}~{self._runs}"
        settings = IdentitySettings(HEADER, value, previous, named_nacos(nacos, exempt), exempt) if value else None
        identity = identity_of(settings)
        self.deadlines = CallDeadlines(self.run, self.clock)
        self.signer = MemberSigner(self.address, identity, self.deadlines)
        self.callers = Callers(identity, self.run, self.clock.boot_ms, self)

    # --- what the callers ask ----------------------------------------------------------------------

    def is_listed(self, remote_ip: str) -> bool:
        return any(one.startswith(f"{remote_ip}:") for one in (*self.listed, self.address))

    def is_heard(self, remote_ip: str) -> bool:
        return self.is_listed(remote_ip) or remote_ip in self.parting

    def has_any_of(self, remote_ip: str, is_one: Callable[[str], bool]) -> bool:
        return any(is_one(one) and one.startswith(f"{remote_ip}:") for one in self.listed)

    # --- calls -------------------------------------------------------------------------------------

    def call(
        self,
        peer: "IdentifiedMember",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "PUT",
        target: str = "/nacos/v1/ns/distro/datum",
    ) -> SentCall:
        """A call of this member, signed for the peer."""
        sent = dict(headers or {})
        sent |= self.signer.headers(peer.address, method, target, body, sent)
        return SentCall(method, target, body, sent, self.ip)

    def take(self, call: SentCall) -> Caller | Unidentified:
        """Who makes the call, as this member sees it."""
        headers = {name.lower(): value for name, value in call.headers.items()}
        return self.callers.caller_of(
            call.method, call.target, headers.get, call.body, call.remote_ip, claims=call.claims
        )

    def ask(self, peer: "IdentifiedMember", make: Callable[[], SentCall] | None = None) -> int:
        """Call the peer, and once more if it says how; return how often it was called.

        Raises:
            AssertionError: the call was refused for good.
        """
        make = make or (lambda: self.call(peer))
        found = peer.take(make())
        if isinstance(found, Caller):
            return 1
        assert found.status == 401, found
        assert self.signer.learn(peer.address, {name.lower(): value for name, value in found.headers.items()}), found
        assert isinstance(again := peer.take(make()), Caller), again
        return 2


def proof_headers(value: str, address: str, question: str) -> dict[str, str]:
    """The headers by which the member at an address that has this secret answers a question; ``question``: its text."""
    identity = identity_of(IdentitySettings(HEADER, value, "", NamedNacos(), frozenset()))
    asked = signed.parse(question)
    assert identity is not None
    assert asked is not None
    clock = f"{address}~1 5"
    return {CLOCK: clock, PROOF: signed.proof_of(identity.keys[0], clock, asked.sender)}


@dataclass
class IdentifiedPair:
    """Two members that list each other, know each other's kind, and have called each other."""

    first: IdentifiedMember = field(default_factory=lambda: IdentifiedMember("10.0.0.1"))
    second: IdentifiedMember = field(default_factory=lambda: IdentifiedMember("10.0.0.2"))

    def __post_init__(self) -> None:
        self.first.listed.add(self.second.address)
        self.second.listed.add(self.first.address)
        self.first.clock.now_ms, self.second.clock.now_ms = 5_000_000, 77
        self.first.ask(self.second)
        self.second.ask(self.first)
