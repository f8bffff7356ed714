"""Real SDKs under a drill: each publishes an instance, subscribes to it, and chooses an address for call after call."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from scripts.support.verdicts import Measured
from tests.sdk.environments import GRPC_INSTALLERS, Environment, NotInstallable
from tests.sdk.program import Program, SdkError

REAL = ("java", "java-3", "go", "python-3")
"""Names of GRPC_INSTALLERS. The SDK of Python alone needs up to 35 s to publish again."""
CALL_PERIOD_S = 0.02
INSTANCE_PORT = 9_000


def installed(names: Sequence[str]) -> dict[str, Environment]:
    """The SDKs that can be had here; says of the others why not."""
    found = {}
    for name in names:
        try:
            found[name] = GRPC_INSTALLERS[name]()
        except NotInstallable as error:
            print(f"{name} takes no part: {error}", flush=True)
    return found


class RealClient:
    """A program with two clients of an SDK, a provider and a consumer; ``with`` starts and ends it."""

    def __init__(self, name: str, environment: Environment, folder: Path, addresses: Sequence[str]) -> None:
        self.name = name
        self.service = f"rolling-{name}"
        self.instance = f"10.102.0.{1 + REAL.index(name)}:{INSTANCE_PORT}"
        self._program = Program(environment, folder / name)
        self._addresses = addresses
        self._end = threading.Event()
        self.calls: Counter[str] = Counter()
        """By outcome; ``found`` is the only good one."""
        self.slowest_s = 0.0

    def __enter__(self) -> "RealClient":
        self._program.__enter__()
        ip, _, port = self.instance.partition(":")
        for client in ("provider", "consumer"):
            self._program.call("open", client, servers=list(self._addresses))
        whole = {"cluster": "DEFAULT", "weight": 1.0, "metadata": {}}
        self._program.call("register", "provider", service=self.service, ip=ip, port=int(port), **whole)
        self._program.call("subscribe", "consumer", service=self.service)
        self._program.wait_event("added", "consumer", self.instance)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.end()

    def halt(self) -> None:
        """Have ``call_on`` return. May be called twice, and before it began."""
        self._end.set()

    def call_on(self) -> None:
        """Choose the address for a call again and again, until ``halt``."""
        while not self._end.wait(CALL_PERIOD_S):
            begun_s = time.monotonic()
            try:
                chosen = self._program.call("select", "consumer", service=self.service)
            except SdkError as error:
                self.calls[str(error)] += 1
            else:
                self.calls["found" if chosen == self.instance else f"chose {chosen}"] += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun_s)

    def figures(self) -> Iterator[Measured]:
        """The rows of the table."""
        failed = sum(count for outcome, count in self.calls.items() if outcome != "found")
        removed = sum(kind == "removed" for kind, _, _ in self._program.events)
        yield Measured(f"{self.name}: calls with an address", self.calls["found"])
        yield Measured(f"{self.name}: calls without", failed, 0)
        yield Measured(f"{self.name}: told that the provider is gone", removed, 0)
        yield Measured(f"{self.name}: slowest choice, s", round(self.slowest_s, 3))
