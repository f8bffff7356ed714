"""Parts of a soak: the services, their instances, and the access to the members."""

import json
import ssl
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

SERVICES = 200
PORT = 8080
SDK_OFFSET = 1_000
BEAT_S = 5.0
GONE_AT = "soakGoneAt"
"""Metadata of a churned instance: the time from which it must not be listed, by the clock of ``now_ms``."""
SILENT_KEY = "soakSilent"
"""Metadata of one that never beats: a member that takes its service over gives it a whole new time-out."""
TAKEN_OVER_MS = 75_000
"""How long such an instance may still be listed after a disturbance: two time-outs, and slack."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access to the members; written to a file that only this user can read, for the load processes."""

    ports: tuple[int, ...]
    ca: str = ""
    """The file of the certificate to trust; empty without TLS."""
    user: str = ""
    """Empty if no login is required."""
    password: str = ""

    @classmethod
    def read(cls, file: Path) -> "Access":
        fields = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**fields, "ports": tuple(fields["ports"])})

    def write(self, file: Path) -> None:
        file.touch(0o600)
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.ca) if self.ca else None


def now_ms() -> int:
    """The monotonic time, which all processes of this machine share."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def service_of(number: int, services: int = SERVICES) -> str:
    return f"soak-{number % services}"


def beating(count: int, services: int = SERVICES) -> Iterator[tuple[str, str]]:
    """Service and address of each instance that beats from beginning to end."""
    for number in range(count):
        yield service_of(number, services), f"10.{100 + number // 62_500}.{number // 250 % 250}.{number % 250}"
