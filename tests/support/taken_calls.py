"""A DistroHttpAgent whose blocking calls are only noted."""

import json
from collections.abc import Mapping

from distro.model.errors import TransportError
from distro.model.types import Datum, Received
from distro.wire.http_agent import DistroHttpAgent


class StandingClock:
    """Its time goes on when the test says so."""

    now_ms = 77_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def boot_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class _Codec:
    def encode(self, datum: Datum, _now_ms: int, versioned: bool) -> bytes:
        assert versioned
        return json.dumps({"v": datum.value, "version": datum.version.to_text()}).encode()


class DatumAgent(DistroHttpAgent):
    """Notes the peers that it would have called, and the bytes that were counted."""

    def __init__(self, capabilities: frozenset[str], deadline: str | None, clock: StandingClock) -> None:
        super().__init__(
            self_address="10.0.0.1:8848",
            context_path="/nacos",
            user_agent="",
            headers={},
            codec=_Codec(),  # type: ignore[arg-type]
            clock=clock,
            capabilities=lambda _peer: capabilities,
            deadline=lambda _peer, _left_ms: deadline,
            stamp=lambda: "own-run 5",
            sent_ms=lambda _peer, _clock: 0,
            body_bytes_max=100_000,
            sent=self._count,
        )
        self.blocking: list[str] = []
        self.bytes: dict[str, int] = {}
        self.fails = False

    def _count(self, peer: str, count: int) -> None:
        self.bytes[peer] = self.bytes.get(peer, 0) + count

    def sync_frame(self, peer: str, frame: bytes, timeout_ms: int) -> Received:
        self.blocking.append(peer)
        return Received()

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        if self.fails:
            raise TransportError("no answer")
        self.blocking.append(peer)
        return Received()
