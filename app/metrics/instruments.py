"""The instruments of a node, which its frontends write to and an operator reads."""

from collections.abc import Callable
from dataclasses import dataclass

from app.config.settings import Settings
from app.metrics.access_log import AccessLog
from app.metrics.audit_trail import AuditTrail
from app.metrics.request_stats import RequestStats


@dataclass(frozen=True, slots=True)
class Instruments:
    """Counters of requests, and the logs that have files of their own."""

    counts_requests: bool
    """True if requests are counted by route."""
    http: RequestStats
    grpc: RequestStats
    access_log: AccessLog
    audit: AuditTrail

    @classmethod
    def of(cls, settings: Settings, wall_ms: Callable[[], int]) -> "Instruments":
        """Return the instruments of one node. They write nothing yet."""
        return cls(
            settings.told.metrics,
            RequestStats(),
            RequestStats(),
            AccessLog(settings.told, wall_ms),
            AuditTrail(settings.told, settings.self_address, wall_ms),
        )

    def counters(self) -> dict[str, int]:
        """Return the counters of both logs."""
        return {**self.audit.counters(), **self.access_log.counters()}

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting lines of both logs. Return whether that took under ``timeout_s``. May be called twice."""
        ended = self.access_log.stop(timeout_s)
        return self.audit.stop(timeout_s) and ended
