"""Real Nacos servers as members, started and stopped one by one; and clusters that they share with Rollcall members."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from distro.members.mapper import DistroMapper
from tests.support.client import Client
from tests.support.processes import Member, clean_environ

SCRIPT = Path(__file__).parent / "nacos" / "nacos.sh"
START_TIMEOUT_S = 600
ABSENT = 3
"""The exit code of ``nacos.sh`` when this machine cannot get the server."""
IDENTITY = {"key": "Cluster-Identity", "value": "mYc3LZq8vN2kW5xT0pR7"}
"""Of all members, in the settings of both kinds."""


class PeerProcessFailed(Exception):
    """A real server did not start, for a reason of its own."""


class RealMember:
    """One real Nacos. ``begin``, ``wait`` and ``stop`` may be called in turn any number of times."""

    def __init__(
        self,
        release: str,
        port: int,
        folder: Path,
        listed: Sequence[str],
        ip: str = "127.0.0.1",
        enter: Sequence[str] = (),
    ) -> None:
        """``release``: of ``nacos.sh``. ``listed``: the addresses in its member list.

        ``enter``: the words before its command, which run it in the network where it has the ``ip``.
        """
        self.address = f"{ip}:{port}"
        self.client = Client(self.address)
        self._command: list[str | Path] = [*enter, SCRIPT, "start", release, "cluster", folder, str(port)]
        self._folder = folder
        self._log = folder.with_suffix(".log")
        self._environ = {
            **os.environ,
            "NACOS_IP": ip,
            "NACOS_MEMBERS": ",".join(listed),
            "NACOS_XMX": "400m",
            "NACOS_TIER": "1",
            "NACOS_READY_S": str(START_TIMEOUT_S),
            **{f"NACOS_IDENTITY_{name.upper()}": text for name, text in IDENTITY.items()},
        }
        self._starting: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start the server; see ``wait``."""
        with self._log.open("wb") as out:
            self._starting = subprocess.Popen(self._command, env=self._environ, stdout=out, stderr=subprocess.STDOUT)

    def wait(self) -> None:
        """Return once the server takes calls. Skip the test where it cannot be had.

        Raises:
            PeerProcessFailed: it did not start.
        """
        assert self._starting is not None
        code = self._starting.wait(START_TIMEOUT_S)
        text = self._log.read_text(errors="replace")
        if code == ABSENT:
            pytest.skip(text.strip().splitlines()[-1])
        if code != 0:
            raise PeerProcessFailed(text)

    def stop(self) -> None:
        """Stop the server in order, and its start if that still runs."""
        if self._starting is not None:
            self._starting.kill()
            self._starting.wait()
        if self._folder.exists():
            command: list[str | Path] = [SCRIPT, "stop", self._folder]
            subprocess.run(command, env=clean_environ(), stdout=subprocess.DEVNULL, check=False)


def settings_beside(reals: Sequence[str], listed: Sequence[str]) -> dict[str, str]:
    """Return the settings of a Rollcall member of the list ``listed``, of which ``reals`` are real Nacos."""
    return {
        "nacos.member.list": ",".join(listed),
        "rollcall.identity.nacosMembers": ",".join(reals),
        **{f"nacos.core.auth.server.identity.{name}": text for name, text in IDENTITY.items()},
    }


@dataclass(frozen=True, slots=True)
class MixedCluster:
    """Real servers and Rollcall members with one member list and one identity."""

    reals: Sequence[RealMember]
    nodes: Sequence[Member]

    @property
    def first(self) -> Client:
        return self.reals[0].client

    @property
    def second(self) -> Client:
        return self.reals[1].client

    @property
    def ours(self) -> Member:
        """The first Rollcall member."""
        return self.nodes[0]

    @property
    def clients(self) -> tuple[Client, ...]:
        return *(one.client for one in self.reals), *(one.client for one in self.nodes)

    def owned_ip(self, member: Client, network: str) -> str:
        """Return an address of a network, ``10.0.6`` for example, for whose port 80 real Nacos takes the member."""
        mapper = DistroMapper.over(member.address, [one.address for one in self.clients])
        return next(ip for ip in (f"{network}.{number}" for number in range(1, 255)) if mapper.responsible(f"{ip}:80"))

    def stop_first(self) -> None:
        self.reals[0].stop()


@contextlib.contextmanager
def running(reals: Sequence[RealMember], nodes: Sequence[Member]) -> Iterator[MixedCluster]:
    """Start all of them together, and end them afterwards."""
    try:
        for real in reals:
            real.begin()
        for node in nodes:
            node.start()
        for real in reals:
            real.wait()
        for node in nodes:
            node.wait_ready()
        yield MixedCluster(reals, nodes)
    finally:
        for real in reals:
            real.stop()
        for node in nodes:
            node.end()
