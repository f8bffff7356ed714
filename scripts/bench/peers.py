"""The servers that ``http.py`` measures, each started on loopback and stopped at the end. Linux only."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
NACOS_IDENTITY = {"NACOS_IDENTITY_KEY": "server", "NACOS_IDENTITY_VALUE": "loopback"}
"""The secret of the members, without which those of 3.x refuse each other."""
RNACOS_WORKERS = "2"
RNACOS_GRPC_ABOVE = 1_000
"""Offset from the HTTP port to that of gRPC, which raft uses too, and from there to that of the console."""
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.05
MEMBERS = 3
OURS = "Rollcall"
AUTH_ENABLED = "nacos.core.auth.enabled"
OTHER = "other release"
"""Name of another release of Rollcall, measured beside this one to see the cost of a change."""


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
    """A standalone node; ``command`` is the ``rollcall`` to run. If a login is required, a user has logged in.

    Raises:
        CannotStart: it ends, or does not serve in time.
    """
    with local_members(1, port, folder, settings, command) as members:
        _start(members)
        [member] = members
        token = _token_of_admin(member.address, member.data) if (settings or {}).get(AUTH_ENABLED) == "true" else ""
        yield Target(name, (member.address,), lambda: _pids_of(members), token)


def _token_of_admin(address: str, data: Path) -> str:
    """Create the first administrator of a node, and log in."""
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
    """A standalone r-nacos; it also takes the ports 1,000 and 2,000 above its own.

    Raises:
        CannotStart: the program is missing, exits, or does not serve in time.
    """
    with _rnacos_process(program, port, folder) as process:
        _await(partial(_takes_instances, process), f"r-nacos at {process.address} takes no instances")
        yield Target(f"r-nacos {_release_of(program)}".strip(), (process.address,), lambda: [process.pid])


@contextlib.contextmanager
def rnacos_cluster(program: Path, port: int, folder: Path) -> Iterator[Target]:
    """Three members of r-nacos, which agree by raft; each also takes the ports 1,000 and 2,000 above its own.

    Raises:
        CannotStart: as for ``rnacos``, or a member does not list in time an instance of another one.
    """
    raft = [f"127.0.0.1:{port + number + RNACOS_GRPC_ABOVE}" for number in range(MEMBERS)]
    with contextlib.ExitStack() as stack:
        members = []
        for number, address in enumerate(raft):
            joins = {"RNACOS_RAFT_JOIN_ADDR": raft[0]} if number else {"RNACOS_RAFT_AUTO_INIT": "true"}
            settings = {"RNACOS_RAFT_NODE_ID": str(number + 1), "RNACOS_RAFT_NODE_ADDR": address, **joins}
            member = stack.enter_context(_rnacos_process(program, port + number, folder, settings))
            members.append(member)
            _await(partial(_takes_instances, member), f"r-nacos at {member.address} takes no instances")
        addresses = tuple(member.address for member in members)
        _await(partial(_list_each_others, addresses), "members of r-nacos do not list each other's instances")
        yield Target(f"r-nacos {_release_of(program)}".strip(), addresses, lambda: [member.pid for member in members])


@dataclass(frozen=True, slots=True)
class _RNacosProcess:
    address: str
    pid: int
    check: Callable[[], None]
    """Raises ``CannotStart`` if it ended."""


@contextlib.contextmanager
def _rnacos_process(
    program: Path, port: int, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[_RNacosProcess]:
    if not os.access(program, os.X_OK):
        raise CannotStart(f"{program} is no program")
    environ = {
        **clean_environ(),
        "RNACOS_SDK_HOST": "127.0.0.1",
        "RNACOS_CONSOLE_HOST": "127.0.0.1",
        "RNACOS_HTTP_PORT": str(port),
        "RNACOS_GRPC_PORT": str(port + RNACOS_GRPC_ABOVE),
        "RNACOS_HTTP_CONSOLE_PORT": str(port + 2 * RNACOS_GRPC_ABOVE),
        "RNACOS_HTTP_WORKERS": RNACOS_WORKERS,
        "RNACOS_DATA_DIR": str(folder / f"rnacos-{port}"),
        "RUST_LOG": "warn",
        **(settings or {}),
    }
    log_path = folder / f"rnacos-{port}.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [program], env=environ, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
        )

    def check() -> None:
        if process.poll() is not None:
            raise CannotStart(f"r-nacos ended: {log_path.read_text(errors='replace')[-500:]}")

    try:
        yield _RNacosProcess(f"127.0.0.1:{port}", process.pid, check)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _release_of(program: Path) -> str:
    said = subprocess.run([program, "--version"], env=clean_environ(), capture_output=True, text=True, check=False)
    return _number_in(said.stdout)


@contextlib.contextmanager
def nacos(port: int, folder: Path, release: str = "1.4", mode: str = "standalone") -> Iterator[Target]:
    """A real Nacos of a line of releases, ``standalone`` or a ``cluster`` of three.

    Members have ports 100 apart. Each also takes the port 1,000 below, and from 2.x on the two 1,000 above.

    Raises:
        CannotStart: a tool that it needs is not installed, or it does not serve in time.
    """
    if lacking := lacking_tools():
        raise CannotStart(f"{lacking} must be installed")
    # Servers run for a long time, so they get the optimizing compiler, unlike in tests.
    environ = {**os.environ, "NACOS_XMX": NACOS_HEAP, "NACOS_TIER": "4", **NACOS_IDENTITY}
    work = folder / "nacos"
    try:
        try:
            started = subprocess.run(
                [NACOS_SCRIPT, "start", release, mode, work, str(port)],
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
        nodes = nodes_of_nacos(started.stdout)
        addresses = tuple(f"127.0.0.1:{number}" for number in nodes)
        yield Target(f"Nacos {_number_in(started.stdout)}", addresses, lambda: list(nodes.values()))
    finally:
        if work.exists():
            subprocess.run([NACOS_SCRIPT, "stop", work], stdout=subprocess.DEVNULL, check=False)


def nodes_of_nacos(said: str) -> dict[int, int]:
    """The processes that the starter of Nacos names, by their port. Shape: ``node http=8848 raft=7848 pid=4711``."""
    found = re.findall(r"^node http=(\d+) .*\bpid=(\d+)$", said, re.MULTILINE)
    if not found:
        raise CannotStart(f"no process in {said!r}")
    return {int(port): int(pid) for port, pid in found}


def _number_in(said: str) -> str:
    """The first release number in a text; empty if there is none."""
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else ""


def _takes_instances(process: _RNacosProcess) -> bool:
    process.check()
    instance = "/v1/ns/instance?serviceName=start-probe&ip=10.9.9.9&port=80"
    taken = _call(process.address, "POST", instance) == (200, b"ok")
    return taken and _call(process.address, "DELETE", instance)[0] == 200


def _list_each_others(addresses: Sequence[str]) -> bool:
    """Return whether each of these members lists the instances registered at all of them."""
    service = "serviceName=start-probe-of-all"
    for number, address in enumerate(addresses):
        _call(address, "POST", f"/v1/ns/instance?{service}&ip=10.9.8.{number + 1}&port=80")
    lists = [_call(address, "GET", f"/v1/ns/instance/list?{service}") for address in addresses]
    return all(status == 200 and len(json.loads(body)["hosts"]) == len(addresses) for status, body in lists)


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
