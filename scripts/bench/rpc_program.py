"""The gRPC load program (``rpc_load/``, in Go): compiles it when it is missing, and runs it for the benchmarks."""

import hashlib
import json
import select
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.bench.peers import CannotStart
from scripts.support.member_processes import clean_environ

SOURCES = Path(__file__).with_name("rpc_load")
KEPT = Path(__file__).resolve().parents[2] / "build" / "rpc_load"
"""Folder of compiled programs, named by the digest of their sources; not in the repository."""
BUILD_TIMEOUT_S = 600
"""Enough time for a cold cache and a slow network."""
ANSWER_TIMEOUT_S = 300.0
OPEN_TIMEOUT_S = 600.0
ADDRESSES = ",".join(f"127.0.0.{last}" for last in range(2, 10))
"""Addresses to connect from: a node allows one address nine tenths of all connections, and ports are limited."""


def build() -> Path:
    """Return the path of the program.

    Raises:
        CannotStart: go is missing, or cannot compile the program.
    """
    files = sorted(one for one in SOURCES.iterdir() if one.suffix in (".go", ".mod", ".sum"))
    text = hashlib.sha256(b"\0".join(one.read_bytes() for one in files)).hexdigest()[:16]
    program = KEPT / f"rpc_load-{text}"
    if program.exists():
        return program
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise CannotStart("go must be installed")
    KEPT.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(program), "."]
    built = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if built.returncode:
        raise CannotStart(f"go cannot compile the load program: {built.stderr[-500:]}")
    return program


class RpcLoad:
    """Clients of one or more gRPC ports, in a process of their own; ``close`` ends it."""

    def __init__(
        self, program: Path, addresses: Sequence[str], connections: int, *more: str, wide: bool = False
    ) -> None:
        """``more``: further arguments of the program. ``wide``: connect from several loopback addresses in turn.

        Raises:
            CannotStart: not all connections could be made.
        """
        words = ["-addresses", ",".join(addresses), "-connections", str(connections), *more]
        if wide:
            words += ["-sources", ADDRESSES]
        self._process = subprocess.Popen(
            [program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environ()
        )
        self.opened = self._read(OPEN_TIMEOUT_S)

    def do(self, *words: object) -> dict[str, Any]:
        """Give a command; return its result.

        Raises:
            CannotStart: it failed, with the program's message.
        """
        assert self._process.stdin is not None, "a pipe"
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        found = self._read(ANSWER_TIMEOUT_S)
        if "error" in found:
            raise CannotStart(f"{words}: {found['error']}")
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None, "a pipe"
        line = ""
        if select.select([self._process.stdout], [], [], timeout_s)[0]:
            line = self._process.stdout.readline()
        if not line:
            self.close()
            raise CannotStart("the load program prints nothing, see its errors above")
        found: dict[str, Any] = json.loads(line)
        return found
