"""Arguments of the scripts that list names."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.support.arguments import names_of

ROOT = Path(__file__).resolve().parents[4]


def test_names_come_in_the_order_given() -> None:
    assert names_of(["register", "beat", "list"])("list,register") == ["list", "register"]


@pytest.mark.parametrize(
    ("module", "argument"),
    [
        ("scripts.bench.calls", "--kinds"),
        ("scripts.bench.growth", "--parts"),
        ("scripts.bench.http", "--modes"),
        ("scripts.bench.rpc", "--parts"),
        ("scripts.bench.rpc_cost", "--peers"),
        ("scripts.chaos.latency", "--cases"),
        ("scripts.chaos.rolling", "--real"),
    ],
)
def test_an_unknown_name_is_an_error_that_says_it(module: str, argument: str) -> None:
    command = [sys.executable, "-m", module, argument, "no-such"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"argument {argument}:" in done.stderr
    assert "no-such" in done.stderr
