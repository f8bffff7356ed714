"""The servers that ``http.py`` measures, each started on loopback and stopped at the end. Linux only."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scripts.support.member_processes import (
    COMMAND,
    CONTEXT_PATH,
    MemberProcess,
    clean_environ,
    local_members,
    start_all,
)
from scripts.support.real_nacos import SCRIPT as NACOS_SCRIPT
from scripts.support.real_nacos import lacking_tools
from scripts.support.secured_members import make_first_administrator

NACOS_TIMEOUT_S = 400.0
"""The first start fetches the jars."""
NACOS_HEAP = "512m"
RNACOS_WORKERS = "2"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.05
MEMBERS = 3
OURS = "Rollcall"
AUTH_ENABLED = "nacos.core.auth.enabled"
OTHER = "other release"
"""Name of another release of Rollcall, measured beside this one to see what a change costs."""


class CannotStart(Exception):
    """A server cannot be measured here; the text says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server, or all members of one: the first address gets the load, and the CPU of all ``pids`` is counted."""

    name: str
    addresses: tuple[str, ...]
    pids: Callable[[], list[int]]
    token: str = ""
    """Token of a user with all rights; empty for a server without login."""


def _pids_of(members: list[MemberProcess]) -> list[int]:
    return [pid for member in members for pid in member.pids()]


def _start(members: list[MemberProcess]) -> None:
    try:
        start_all(members)
    except RuntimeError as error:
        raise CannotStart(str(error)) from error


@contextlib.contextmanager
def our_node(
    port: int, folder: Path, command: Path = COMMAND, name: str = OURS, settings: Mapping[str, str] | None = None
) -> Iterator[Target]:
    """A node by itself; ``command`` is the ``rollcall`` to run. Where users must log in, one has.

    Raises:
        CannotStart: it ends, or does not serve in time.
    """
    with local_members(1, port, folder, settings, command) as members:
        _start(members)
        [member] = members
        token = _token_of_admin(member.address, member.data) if (settings or {}).get(AUTH_ENABLED) == "true" else ""
        yield Target(name, (member.address,), lambda: _pids_of(members), token)


def _token_of_admin(address: str, data: Path) -> str:
    """Make the first administrator of a node, who logs in."""
    try:
        return make_first_administrator(address, data, None)
    except RuntimeError as error:
        raise CannotStart(str(error)) from error


@contextlib.contextmanager
def our_cluster(port: int, folder: Path, command: Path = COMMAND, name: str = OURS) -> Iterator[Target]:
    """Three members that see each other; ``command`` is the ``rollcall`` to run.

    Raises:
        CannotStart: one ends, or they do not serve or see each other in time.
    """
    with local_members(MEMBERS, port, folder, command=command) as members:
        _start(members)
        for member in members:
            _await(partial(_sees_all, member.address), f"{member.address} does not see all others")
        yield Target(name, tuple(member.address for member in members), lambda: _pids_of(members))


def _sees_all(address: str) -> bool:
    status, body = _call(address, "GET", "/v1/core/cluster/nodes")
    return status == 200 and [one["state"] for one in json.loads(body)["data"]] == ["UP"] * MEMBERS


@contextlib.contextmanager
def rnacos(program: Path, port: int, folder: Path) -> Iterator[Target]:
    """r-nacos by itself; it takes the ports 1,000 and 2,000 above too.

    Raises:
        CannotStart: the program is not there, or ends, or does not serve in time.
    """
    if not os.access(program, os.X_OK):
        raise CannotStart(f"{program} is no program")
    environ = {
        **clean_environ(),
        "RNACOS_SDK_HOST": "127.0.0.1",
        "RNACOS_CONSOLE_HOST": "127.0.0.1",
        "RNACOS_HTTP_PORT": str(port),
        "RNACOS_GRPC_PORT": str(port + 1_000),
        "RNACOS_HTTP_CONSOLE_PORT": str(port + 2_000),
        "RNACOS_HTTP_WORKERS": RNACOS_WORKERS,
        "RNACOS_DATA_DIR": str(folder / "rnacos"),
        "RUST_LOG": "warn",
    }
    version = subprocess.run([program, "--version"], env=environ, capture_output=True, text=True, check=False)
    log_path = folder / "rnacos.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [program], env=environ, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
        )
    address = f"127.0.0.1:{port}"
    try:

        def serves() -> bool:
            if process.poll() is not None:
                raise CannotStart(f"r-nacos ended: {log_path.read_text(errors='replace')[-500:]}")
            return _takes_instances(address)

        _await(serves, "r-nacos takes no instances")
        yield Target(f"r-nacos {_number_in(version.stdout)}".strip(), (address,), lambda: [process.pid])
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def nacos(port: int, folder: Path, release: str = "1.4") -> Iterator[Target]:
    """A real Nacos by itself, of a line of releases; it takes the port 1,000 below too, and 2.x those above.

    Raises:
        CannotStart: something that it needs is not installed, or it does not serve in time.
    """
    if lacking := lacking_tools():
        raise CannotStart(f"{lacking} must be installed")
    # Servers run for long: with the second compiler, unlike in tests.
    environ = {**os.environ, "NACOS_XMX": NACOS_HEAP, "NACOS_TIER": "4"}
    work = folder / "nacos"
    try:
        try:
            started = subprocess.run(
                [NACOS_SCRIPT, "start", release, "standalone", work, str(port)],
                env=environ,
                capture_output=True,
                text=True,
                timeout=NACOS_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CannotStart(f"not within {error.timeout} s") from error
        if started.returncode != 0:
            raise CannotStart((started.stdout + started.stderr).strip()[-500:])
        pid = pid_of_nacos(started.stdout)
        yield Target(f"Nacos {_number_in(started.stdout)}", (f"127.0.0.1:{port}",), lambda: [pid])
    finally:
        if work.exists():
            subprocess.run([NACOS_SCRIPT, "stop", work], stdout=subprocess.DEVNULL, check=False)


def pid_of_nacos(said: str) -> int:
    """The process that the starter of Nacos speaks of; Shape: ``node http=8848 raft=7848 pid=4711``."""
    found = re.search(r"^node .*\bpid=(\d+)$", said, re.MULTILINE)
    if found is None:
        raise CannotStart(f"no process in {said!r}")
    return int(found[1])


def _number_in(said: str) -> str:
    """The first release number in a text, or nothing."""
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else ""


def _takes_instances(address: str) -> bool:
    instance = "/v1/ns/instance?serviceName=start-probe&ip=10.9.9.9&port=80"
    return _call(address, "POST", instance) == (200, b"ok") and _call(address, "DELETE", instance)[0] == 200


def _call(address: str, method: str, path: str) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=1)
    with contextlib.closing(connection):
        connection.request(method, CONTEXT_PATH + path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _await(check: Callable[[], bool], lacking: str) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if check():
                return
        if time.monotonic() > deadline_s:
            raise CannotStart(lacking)
        time.sleep(POLL_S)
