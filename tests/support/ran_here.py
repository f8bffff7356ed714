"""Commands that run in this process: a new program spends most of a second on loading its modules."""

import contextlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from app.tools.cli import main


def run_here(*arguments: str | Path, environ: Mapping[str, str]) -> CompletedProcess[str]:
    """Run one command with this environment, whatever its exit code, as ``subprocess.run`` would."""
    out, err, typed = io.StringIO(), io.StringIO(), [str(one) for one in arguments]
    with (
        patch.dict(os.environ, environ, clear=True),
        patch("sys.argv", ["rollcall", *typed]),
        patch("tqdm.tqdm.monitor_interval", 0),  # or a thread that watches progress bars outlives the command
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(typed)
        except SystemExit as ended:  # argparse's way to refuse, or a text to print
            code = ended.code if isinstance(ended.code, int) else bool(ended.code)
            if isinstance(ended.code, str):
                err.write(f"{ended.code}\n")
    return CompletedProcess(typed, code, out.getvalue(), err.getvalue())
