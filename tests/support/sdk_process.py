"""A client of the gRPC frontend in a process of its own, which can be killed, or stopped as it is.

As a program it registers one instance, says its connection's id, and then does nothing: ``PORT SERVICE IP``.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.support.processes import clean_environ
from tests.support.sdk_client import SdkClient

ROOT = Path(__file__).resolve().parent.parent.parent
LIFE_S = 600.0
"""It ends by itself after this, should a test be ended that would have ended it."""


class SdkProcess:
    """``with`` starts it and waits until its instance is registered, and ends it by its pid."""

    def __init__(self, port: int, service: str, ip: str) -> None:
        self._arguments = [str(port), service, ip]
        self.connection_id = ""

    def __enter__(self) -> "SdkProcess":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.sdk_process", *self._arguments],
            cwd=ROOT,
            env=clean_environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.connection_id = self._process.stdout.readline().decode().strip()
        assert self.connection_id, f"it ended with {self._process.wait(5)}"
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self) -> None:
        """End it at once, stopped or not; may be called twice."""
        self._process.kill()
        self._process.wait(5)

    def freeze(self) -> None:
        """Stop it as it is: its machine still acknowledges what arrives, and it answers nothing."""
        psutil.Process(self._process.pid).suspend()


async def _live(port: int, service: str, ip: str) -> None:
    async with SdkClient(port) as client:
        connection_id = await client.set_up()
        await client.register(service, ip)
        os.write(1, f"{connection_id}\n".encode())
        await asyncio.sleep(LIFE_S)


if __name__ == "__main__":
    asyncio.run(_live(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
