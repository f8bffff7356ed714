"""Real SDKs for a drill: each publishes an instance, subscribes to it, and needs an address for every call."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from scripts.support.verdicts import Measured
from tests.sdk.environments import GRPC_INSTALLERS, Environment, NotInstallable, install_dubbo, install_spring
from tests.sdk.program import Program, SdkError

FRAMEWORKS = {"dubbo": "providers:Greeter::", "spring": "spring-provider"}
"""The service that each provider registers."""
INSTALLERS = {name: GRPC_INSTALLERS[name] for name in ("java", "java-3", "go", "python-3")} | {
    "dubbo": install_dubbo,
    "spring": install_spring,
}
CALL_PERIOD_S = 0.1
KEPT_OUTCOMES = 3


def installed(names: Sequence[str]) -> dict[str, Environment]:
    """Return the clients that can be installed here; for each other client print the reason."""
    found = {}
    for name in names:
        try:
            found[name] = INSTALLERS[name]()
        except NotInstallable as error:
            print(f"{name} takes no part: {error}", flush=True)
    return found


class Caller:
    """Makes calls in a thread, and counts their outcomes; ``with`` starts and stops its programs."""

    def __init__(self, name: str, service: str, instance: str, good: str) -> None:
        """``instance``: the address that is live all the time, empty until the start; ``good``: the only good outcome
        of a call."""
        self.name = name
        self.service = service
        self.instance = instance
        self._good = good
        self._end = threading.Event()
        self._programs = ExitStack()
        self.calls: Counter[str] = Counter()
        self.slowest_s = 0.0

    def __enter__(self) -> "Caller":
        with ExitStack() as stack:
            self._begin(stack)
            self._programs = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._programs.close()

    def _begin(self, stack: ExitStack) -> None:
        """Start the programs, and return when calls succeed."""
        raise NotImplementedError

    def _call(self) -> str:
        """Make one call; return its outcome."""
        raise NotImplementedError

    def halt(self) -> None:
        """Make ``call_on`` return. May be called twice, and before it begins."""
        self._end.set()

    def call_on(self) -> None:
        """Make calls until ``halt``."""
        while not self._end.wait(CALL_PERIOD_S):
            begun_s = time.monotonic()
            try:
                self.calls[self._call()] += 1
            except SdkError as error:
                self.calls[str(error)] += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun_s)

    def figures(self) -> Iterator[Measured]:
        """The rows of the table."""
        failed = self.calls.copy()
        found = failed.pop(self._good, 0)
        yield Measured(f"{self.name}: calls that reached the provider", found)
        yield Measured(f"{self.name}: calls that did not", failed.total(), 0)
        yield Measured(f"{self.name}: slowest call, s", round(self.slowest_s, 3))
        for outcome, count in failed.most_common(KEPT_OUTCOMES):
            print(f"{self.name}: {count} calls: {outcome}", flush=True)


class SdkCaller(Caller):
    """A provider and a consumer of an SDK in one program; a call is the choice of an address."""

    def __init__(self, name: str, number: int, environment: Environment, folder: Path, servers: Sequence[str]) -> None:
        instance = f"10.102.0.{number}:9000"
        super().__init__(name, f"rolling-{name}", instance, instance)
        self._program = Program(environment, folder / name)
        self._servers = list(servers)

    def _begin(self, stack: ExitStack) -> None:
        stack.enter_context(self._program)
        ip, _, port = self.instance.partition(":")
        for client in ("provider", "consumer"):
            self._program.call("open", client, servers=self._servers)
        whole = {"cluster": "DEFAULT", "weight": 1.0, "metadata": {}}
        self._program.call("register", "provider", service=self.service, ip=ip, port=int(port), **whole)
        self._program.call("subscribe", "consumer", service=self.service)
        self._program.wait_event("added", "consumer", self.instance)

    def _call(self) -> str:
        chosen: str = self._program.call("select", "consumer", service=self.service)
        return chosen

    def figures(self) -> Iterator[Measured]:
        yield from super().figures()
        removed = sum(kind == "removed" for kind, _, _ in self._program.events)
        yield Measured(f"{self.name}: told that the provider is gone", removed, 0)


class FrameworkCaller(Caller):
    """A provider and a consumer of a framework, one process each; a call goes to the provider."""

    def __init__(self, name: str, environment: Environment, folder: Path, servers: Sequence[str], port: int) -> None:
        """``name``: one of ``FRAMEWORKS``; ``port``: of the provider."""
        super().__init__(name, FRAMEWORKS[name], "", "hello you")
        self._provider, self._consumer = (Program(environment, folder / f"{name}-{role}") for role in ("out", "in"))
        self._servers = list(servers)
        self._port = port

    def _begin(self, stack: ExitStack) -> None:
        stack.enter_context(self._provider)
        stack.enter_context(self._consumer)
        self.instance = self._provider.call("provide", self.name, servers=self._servers, port=self._port)
        self._consumer.call("refer", self.name, servers=self._servers)

    def _call(self) -> str:
        answer: str = self._consumer.call("call", self.name)
        return answer


def callers(
    environments: Mapping[str, Environment], folder: Path, servers: Sequence[str], port: int
) -> Iterator[Caller]:
    """One client for each environment, not started yet; ``port``: the first of a range of free ports, one for each."""
    for number, (name, environment) in enumerate(environments.items(), 1):
        if name in FRAMEWORKS:
            yield FrameworkCaller(name, environment, folder, servers, port + number)
        else:
            yield SdkCaller(name, number, environment, folder, servers)
