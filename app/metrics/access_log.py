"""The access log: a line for each HTTP request, while it is switched on."""

from collections.abc import Callable
from dataclasses import asdict
from urllib.parse import parse_qsl

from app.config.observability import Observability
from app.metrics.audit_lines import json_line, time_text
from app.metrics.line_file import LineFile

SHOWN = frozenset({"serviceName", "namespaceId", "groupName", "clusterName", "ip", "port", "pageNo", "pageSize"})
"""The query parameters that are written. Others may be passwords or tokens."""
TARGET_CHARS_MAX = 2_048


class AccessLog:
    """Records the requests of the loop's thread. Any thread may change ``on`` at any time."""

    def __init__(self, settings: Observability, wall_ms: Callable[[], int]) -> None:
        self.on = settings.access_log
        self._wall_ms = wall_ms
        self._is_json = settings.log_format == "json"
        self._file = LineFile("access", settings.access_file, settings.log_file_bytes, settings.log_files, self._lost)

    def add(
        self, remote_ip: str, method: bytes, target: bytes, status: int, count: int, taken_s: float, agent: str
    ) -> None:
        """Write a request soon. ``count``: bytes of the answer's body, -1 if unknown."""
        at_ms = self._wall_ms()
        self._file.add(lambda: self._line(at_ms, remote_ip, method, target, status, count, taken_s, agent))

    def counters(self) -> dict[str, int]:
        """Return the numbers of written and lost lines since the start."""
        return {f"access_lines_{name}": count for name, count in asdict(self._file.stats).items()}

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting lines. Return whether that took under ``timeout_s``. May be called twice."""
        return self._file.stop(timeout_s)

    def _line(
        self, at_ms: int, remote_ip: str, method: bytes, target: bytes, status: int, count: int, taken_s: float,
        agent: str,
    ) -> str:  # fmt: skip
        path, _, query = target.decode("latin-1").partition("?")
        shown = [(name, value) for name, value in parse_qsl(query, errors="replace") if name in SHOWN]
        fields = {
            "time": time_text(at_ms),
            "from": remote_ip,
            "method": method.decode("latin-1"),
            "path": path[:TARGET_CHARS_MAX],
            "parameters": dict(shown),
            "status": status,
            "bytes": count,
            "seconds": round(taken_s, 6),
            "agent": agent,
        }
        if self._is_json:
            return json_line(fields)
        asked = " ".join(f"{name}={value}" for name, value in shown)
        line = (
            f"{fields['time']} {remote_ip} {fields['method']} {fields['path']} [{asked}] {status} {count} "
            f"{taken_s:.6f} {agent}"
        )
        return "".join([char if char.isprintable() else ascii(char)[1:-1] for char in line])

    def _lost(self, count: int) -> str:
        fields = {"time": time_text(self._wall_ms()), "lost": count}
        return json_line(fields) if self._is_json else f"{fields['time']} {count} lines are lost"
