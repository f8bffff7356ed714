"""Real Nacos servers as members beside ours. The first start fetches them from Maven Central."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tests" / "peers" / "nacos" / "nacos.sh"
RELEASES = ("1.4", "2")
"""As the script names them: 1.4.1 and 2.3.1. It also has 3, for 3.0.3, whose members need a secret."""
HEAP = "400m"
START_TIMEOUT_S = 600.0


def lacking_tools() -> str:
    """Return the names of missing tools that real Nacos needs; empty when none is missing."""
    return " and ".join(tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None)


class NacosServer:
    """One real server, a member of a list."""

    def __init__(self, release: str, port: int, folder: Path, listed: Sequence[str], secret: str = "") -> None:
        """``release``: as the script names it; ``listed``: the addresses of all members, ``secret``: theirs."""
        self.address = f"127.0.0.1:{port}"
        self._work = folder / f"nacos-{port}"
        self._said = folder / f"nacos-{port}.log"
        self._command = [str(SCRIPT), "start", release, "cluster", str(self._work), str(port)]
        self._environ = {**os.environ, "NACOS_MEMBERS": ",".join(listed), "NACOS_XMX": HEAP}
        if secret:
            self._environ |= {"NACOS_IDENTITY_KEY": "Drill-Identity", "NACOS_IDENTITY_VALUE": secret}
        self._start: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to start; ``wait_ready`` waits until the start has finished."""
        with self._said.open("wb") as said:
            self._start = subprocess.Popen(self._command, env=self._environ, stdout=said, stderr=said)

    def wait_ready(self) -> None:
        """Return when the server accepts instances.

        Raises:
            RuntimeError: a tool is not installed, or the server does not start; the text is the starter's output.
        """
        if lacking := lacking_tools():
            raise RuntimeError(f"{lacking} must be installed")
        assert self._start is not None, "it was started"
        if self._start.wait(START_TIMEOUT_S) != 0:
            raise RuntimeError(self._said.read_text(errors="replace")[-1_000:])

    def kill(self) -> None:
        """Kill it with SIGKILL; it may be started again."""
        [file] = self._work.glob("node-*/pid")
        os.kill(int(file.read_text()), signal.SIGKILL)
        file.unlink()

    def complaints(self, about: str) -> list[str]:
        """The warnings and errors in its logs that name an address."""
        found = []
        for log in sorted(self._work.glob("node-*/logs/*")):
            lines = log.read_text(errors="replace").splitlines()
            found += [
                f"{log.name}: {line}" for line in lines if about in line and (" ERROR " in line or " WARN " in line)
            ]
        return found

    def end(self) -> None:
        """Stop it, ready or not."""
        if self._start is not None and self._start.poll() is None:
            self._start.kill()
            self._start.wait()
        if self._work.exists():
            subprocess.run([SCRIPT, "stop", self._work], stdout=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def nacos_servers(
    release: str, ports: Sequence[int], folder: Path, listed: Sequence[str], secret: str = ""
) -> Iterator[list[NacosServer]]:
    """Begin to start real servers, and stop them at the end."""
    servers = [NacosServer(release, port, folder, listed, secret) for port in ports]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.end()
