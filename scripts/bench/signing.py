"""What signing and verifying a call between members costs, beside the same forwarded call without an identity.

Run: ``python -m scripts.bench.signing``. Prints microseconds of CPU per call, the best of several turns.
"""

import argparse
import time
from collections.abc import Callable

from app.auth.identity import identity_of
from app.auth.member_calls import Caller, Callers
from app.auth.member_signer import MemberSigner
from app.config.identity_settings import IdentitySettings, NamedNacos
from distro.timing.clock import SystemClock
from distro.wire.deadlines import CallDeadlines

FIRST, SECOND = "10.0.0.1:8848", "10.0.0.2:8848"
TARGET = "/nacos/v1/ns/instance/beat?serviceName=DEFAULT_GROUP%40%40orders&ip=10.1.2.3&port=8080&clusterName=DEFAULT"
HEADERS = {
    "user-agent": "Nacos-Server:1.4.8",
    "rollcall-client-agent": "Nacos-Java-Client:v1.4.8",
    "rollcall-wants-change": "1",
    "rollcall-deadline": f"{SECOND}~1 128",
}


class _Listed:
    """A list of two members that sign."""

    def is_listed(self, remote_ip: str) -> bool:
        return True

    is_heard = is_listed

    def has_any_of(self, remote_ip: str, is_one: Callable[[str], bool]) -> bool:
        return False


def measure(calls: int, turns: int, body: bytes) -> tuple[float, float]:
    """Return the microseconds of signing one call and of verifying it."""
    clock = SystemClock()
    identity = identity_of(
        IdentitySettings("Cluster-Identity", "secret-of-the-benchmark", "", NamedNacos(), frozenset())
    )
    deadlines = CallDeadlines(f"{FIRST}~1", clock)
    deadlines.note(SECOND, f"{SECOND}~1", clock.boot_ms())
    signer = MemberSigner(FIRST, identity, deadlines)
    callers = Callers(identity, f"{SECOND}~1", clock.boot_ms, _Listed())

    def verify(signed: dict[str, str]) -> None:
        found = callers.caller_of("PUT", TARGET, signed.get, body, "10.0.0.1", claims=True)
        assert isinstance(found, Caller), found

    signing, verifying = [], []
    for _ in range(turns):
        made: list[dict[str, str]] = []

        def sign(made: list[dict[str, str]] = made) -> None:
            made.append(HEADERS | signer.headers_by(SECOND, "PUT", TARGET, body, HEADERS.get))

        signing.append(_us_of(sign, calls))
        waiting = iter(made)
        verifying.append(_us_of(lambda waiting=waiting: verify(next(waiting)), calls))  # type: ignore[misc]
    return min(signing), min(verifying)


def _us_of(work: Callable[[], None], calls: int) -> float:
    begun_s = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - begun_s) * 1e6 / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000, help="of a turn")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    for name, body in (("a beat without a body", b""), ("a batch of 16 KiB", b"x" * 16_384)):
        sign_us, verify_us = measure(options.calls, options.turns, body)
        print(f"{name}: sign {sign_us:.2f} us, verify {verify_us:.2f} us, together {sign_us + verify_us:.2f} us")


if __name__ == "__main__":
    main()
