"""Finds connections that are dead, and those that are too many. Pure: time comes in, findings go out."""

from collections.abc import Collection
from dataclasses import dataclass, field

from app.rpc.server.connections import Connection
from app.rpc.server.limits import LimitRule

ROUND_MS = 3_000
"""Source of ``ROUND_MS``, ``IDLE_MS`` and ``ANSWER_MS``: Nacos 2.0 ConnectionManager."""
IDLE_MS = 20_000
ANSWER_MS = 1_000
"""The time for the answers of all idle clients of a round, which are asked at once."""
RESET_ROUNDS_MAX = 2
"""The rounds after a reset until the stream of a client that stays is ended."""
PAUSE_MS = 2_000
"""The delay of a tick that shows that this process was paused: answers may wait unread."""


@dataclass(slots=True)
class Findings:
    """The connections that need an action of the caller."""

    detect: list[Connection] = field(default_factory=list)
    """Idle ones: ask their clients for a sign of life."""
    reset: list[Connection] = field(default_factory=list)
    """Surplus ones: ask their clients to connect to another member."""
    close: list[Connection] = field(default_factory=list)
    """Dead ones, and surplus ones whose clients ignored two resets."""


class ConnectionCheck:
    """Checks all connections in rounds of ``ROUND_MS``."""

    def __init__(self, now_ms: int) -> None:
        self._round_ms = now_ms + ROUND_MS
        self._due_ms = self._round_ms
        self._asked: dict[Connection, int] = {}
        """The time at which the client of each connection was asked; the answers are due at ``_answers_ms``."""
        self._answers_ms = 0

    def tick(self, now_ms: int, connections: Collection[Connection], rule: LimitRule) -> tuple[Findings, int]:
        """Return the present findings, and the time of the next tick."""
        findings = Findings()
        if now_ms - self._due_ms > PAUSE_MS:
            self._answers_ms = now_ms + ANSWER_MS
        if self._asked and now_ms >= self._answers_ms:
            findings.close = [one for one, asked_ms in self._asked.items() if one.active_ms <= asked_ms]
            self._asked = {}
        if now_ms >= self._round_ms:
            self._round_ms = now_ms + ROUND_MS
            self._check_all(now_ms, connections, rule, findings)
        self._due_ms = min(self._round_ms, self._answers_ms) if self._asked else self._round_ms
        return findings, self._due_ms

    def _check_all(self, now_ms: int, connections: Collection[Connection], rule: LimitRule, findings: Findings) -> None:
        sent_away = [one for one in connections if one.must_go]
        surplus = [*sent_away, *rule.surplus([one for one in connections if not one.must_go])]
        stays = set(connections).difference(surplus)
        for one in surplus:
            one.reset_rounds += 1
            (findings.close if one.reset_rounds > RESET_ROUNDS_MAX else findings.reset).append(one)
        for one in stays:
            one.reset_rounds = 0
        idle = [one for one in connections if now_ms - one.active_ms >= IDLE_MS and one not in self._asked]
        if idle:
            findings.detect = idle
            self._answers_ms = now_ms + ANSWER_MS
            self._asked.update(dict.fromkeys(idle, now_ms))
