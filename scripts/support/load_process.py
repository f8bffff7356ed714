"""A load in a separate process, controlled by the drill that starts it.

The process prints ``ready``, works from each line ``go`` to the next ``halt``, and then prints its results as JSON.
"""

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSWER_TIMEOUT_S = 180.0


class LoadProcess:
    """Runs ``python -m module words``; ``kill`` ends it."""

    def __init__(self, module: str, *words: str) -> None:
        command = [sys.executable, "-m", module, *words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._name = " ".join(command[2:4])

    def wait_ready(self) -> None:
        """Return when the process is ready.

        Raises:
            RuntimeError: it exited, printed something else, or printed nothing for three minutes.
        """
        said = self._read()
        if said != "ready":
            raise RuntimeError(f"{self._name} says {said!r} instead of ready")

    def go(self) -> None:
        self._write("go")

    def halt(self) -> dict[str, Any]:
        """Pause it; return its results since ``go``."""
        self._write("halt")
        done: dict[str, Any] = json.loads(self._read())
        return done

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _write(self, word: str) -> None:
        assert self._process.stdin is not None, "a pipe"
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None, "a pipe"
        if not select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)[0]:
            raise RuntimeError(f"{self._name} is silent")
        return self._process.stdout.readline().strip()
