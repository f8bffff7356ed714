"""The load of ``http.py``: its modes, the instances that they need, and one run of wrk."""

import http.client
import json
import math
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

SCRIPT = Path(__file__).with_name("http.lua")
API = "/nacos/v1/ns/instance"
AGENT = "Nacos-Java-Client:v1.4.1"
METADATA = '{"zone":"a"}'
CHANGING = ("change", "update", "patch", "batch")
"""The modes in which each request changes metadata."""
CODE_OK = 10_200
CALL_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 5
"""After which wrk counts an error."""
WRK_SLACK_S = 60.0
SHOWN_TIMEOUT_S = 30.0
NEW_OF_A_RUN = 1_000_000
"""The number of instances that one run may add."""
FILLED_ONE_BY_ONE = 10_000
"""With more instances the first would expire before the last is registered: wrk registers them."""
FILLED_PER_S = 3_000
"""The registrations a second that every server takes."""
FILL_CONNECTIONS = 16
POLL_S = 0.05


class LoadError(Exception):
    """A server could not be loaded; the text is for the operator."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One kind of load; ``sent`` is its name in the script of wrk."""

    name: str
    title: str
    sent: str
    services: int = 100
    hosts: int = 10
    gzip: bool = False

    @property
    def is_filled(self) -> bool:
        """True if its instances must be registered before it begins."""
        return self.sent != "churn"

    def service(self, number: int) -> str:
        """The name of a service without its group, as in the script of wrk."""
        return f"{'changed' if self.sent in CHANGING else 'bench'}-{self.hosts}-{number}"

    def ips(self, service: int) -> Iterator[str]:
        for host in range(self.hosts):
            yield f"10.{service % 250}.{host // 250}.{host % 250 + 1}"


_ALL = (
    Mode("churn", "churn: new instances and removals", "churn"),
    Mode("update", "update of weight and metadata", "update"),
    Mode("change", "register with other metadata", "change"),
    Mode("patch", "patch of the metadata", "patch"),
    Mode("batch", "metadata of one in a batch", "batch"),
    Mode("beat", "light beat", "beat"),
    Mode("beat100000", "light beat of 100,000", "beat", hosts=1_000),
    Mode("full", "full beat", "full"),
    Mode("full-query", "full beat in the query", "full-query"),
    Mode("list10", "list of 10", "list"),
    Mode("list1000", "list of 1,000", "list", services=2, hosts=1_000),
    Mode("list1000-gzip", "list of 1,000, gzip", "list", services=2, hosts=1_000, gzip=True),
    Mode("mixed", "mixed 80/15/5", "mixed"),
    Mode("register", "the same registrations again", "register"),
)
MODES = {mode.name: mode for mode in _ALL}


# --- instances registered before the load -------------------------------------------------------------


class Registrar:
    """One keep-alive connection to a server. Not thread-safe."""

    def __init__(self, address: str, token: str = "") -> None:
        host, _, port = address.rpartition(":")
        self._token = {"accessToken": token} if token else {}
        self._connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)

    def call(self, method: str, path: str, **parameters: object) -> bytes:
        """Return the body of an answer.

        Raises:
            LoadError: the answer is not 200.
        """
        self._connection.request(
            method, f"{API}{path}?{urlencode(parameters | self._token)}", headers={"User-Agent": AGENT}
        )
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise LoadError(f"{method} {path or '/instance'} is answered {answer.status} {body[:200]!r}")
        return body

    def keep(self, mode: Mode, number: int) -> None:
        """Register all instances of one service again.

        At some servers an instance that is created by a beat lacks its metadata, and Nacos leaves an instance
        unhealthy that is registered again without beats.
        """
        name = f"DEFAULT_GROUP@@{mode.service(number)}"
        common = {"serviceName": name, "port": 8080, "clusterName": "DEFAULT"}
        known = {one["ip"] for one in self.listed(mode.service(number)) if "zone" in one["metadata"]}
        for ip in mode.ips(number):
            if ip not in known:
                self.call("POST", "", **common, ip=ip, metadata=METADATA, app="unknown")
        for ip in mode.ips(number):
            if json.loads(self.call("PUT", "/beat", **common, ip=ip))["code"] != CODE_OK:
                # It has been removed in the meantime.
                self.call("POST", "", **common, ip=ip, metadata=METADATA, app="unknown")

    def listed(self, service: str) -> list[dict[str, Any]]:
        """The instances of a service."""
        answer = json.loads(self.call("GET", "/list", serviceName=f"DEFAULT_GROUP@@{service}"))
        hosts: list[dict[str, Any]] = answer["hosts"]
        return hosts

    def close(self) -> None:
        self._connection.close()


def fill(addresses: Sequence[str], mode: Mode, token: str = "") -> None:
    """Register every instance of a mode at the first of these servers, and wait until all servers list them.

    ``token``: of a user with the right to do so; empty for none.

    Raises:
        LoadError: an answer is not what it should be, or they are not listed in time.
        OSError or http.client.HTTPException: no complete answer came.
    """
    if not mode.is_filled:
        return
    callers = [Registrar(address, token) for address in addresses]
    try:
        instances = mode.services * mode.hosts
        if instances > FILLED_ONE_BY_ONE:
            registering = replace(mode, sent="register")
            seconds = math.ceil(instances / FILLED_PER_S)
            Wrk(find_wrk()).run(addresses[0], registering, FILL_CONNECTIONS, seconds, token=token)
        else:
            for number in range(mode.services):
                callers[0].keep(mode, number)
        deadline_s = time.monotonic() + SHOWN_TIMEOUT_S
        for address, caller in zip(addresses, callers, strict=True):
            for number in range(mode.services):
                service = mode.service(number)
                while (shown := len(caller.listed(service))) != mode.hosts:
                    if time.monotonic() > deadline_s:
                        raise LoadError(f"{address} lists {shown} instances of {service} instead of {mode.hosts}")
                    time.sleep(POLL_S)
    finally:
        for caller in callers:
            caller.close()


# --- wrk ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WrkRun:
    """The figures of one run of wrk: latencies in ms; ``wrong`` is 0 unless wrk checks the answers."""

    requests: int
    seconds: float
    bytes: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    refused: int
    errors: int
    wrong: int


@dataclass(frozen=True, slots=True)
class Wrk:
    """Runs wrk. ``java``: with all headers of the Java library."""

    program: str
    threads: int = 1
    java: bool = False
    runs: ClassVar[Iterator[int]] = count()
    """Numbers of the runs, so that no two runs add the same instances."""

    def command(
        self, address: str, mode: Mode, connections: int, seconds: int, check: bool = False, token: str = ""
    ) -> list[str]:
        first = f"first={next(self.runs) * NEW_OF_A_RUN}"
        words = {
            "gzip": mode.gzip,
            "java": self.java,
            "check": check,
            first: mode.sent in ("churn", "mixed"),
            f"token={token}": bool(token),
        }
        return [
            self.program,
            f"-t{self.threads}",
            f"-c{connections}",
            f"-d{seconds}s",
            "--timeout",
            f"{ANSWER_TIMEOUT_S}s",
            "-s",
            str(SCRIPT),
            f"http://{address}",
            "--",
            mode.sent,
            *map(str, (self.threads, mode.services, mode.hosts)),
            *(word for word, said in words.items() if said),
        ]

    def run(
        self, address: str, mode: Mode, connections: int, seconds: int, check: bool = False, token: str = ""
    ) -> WrkRun:
        """Put the load on a server, and return its figures.

        Raises:
            LoadError: wrk failed, or the server answered nothing.
        """
        command = self.command(address, mode, connections, seconds, check, token)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + WRK_SLACK_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise LoadError(f"{self.program} does not end") from error
        run = parse_wrk(done.stdout) if done.returncode == 0 else None
        if run is None:
            raise LoadError(f"{self.program} failed: {(done.stderr or done.stdout).strip()[-500:]}")
        if not run.requests:
            raise LoadError(f"nothing was answered, {run.errors} errors")
        return run


def find_wrk() -> str:
    """The path of wrk.

    Raises:
        LoadError: it is not installed.
    """
    if (found := shutil.which("wrk")) is None:
        raise LoadError("wrk is not installed; Debian and Ubuntu have it as the package wrk")
    return found


def parse_wrk(output: str) -> WrkRun | None:
    """Return the figures in the JSON line of wrk's script, or None when the line is missing."""
    line = next((line for line in reversed(output.splitlines()) if line.startswith("{")), None)
    return None if line is None else WrkRun(**json.loads(line))
