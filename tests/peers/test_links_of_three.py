"""The drill of links to a real Nacos of three servers, in its short form."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.conftest import LONG, skip_without_tools
from tests.sdk.environments import GRPC_INSTALLERS, NotInstallable

ROOT = Path(__file__).resolve().parents[2]
RUN_TIMEOUT_S = 1_500.0

pytestmark = [
    pytest.mark.skipif(not LONG, reason="takes eight minutes: set PEERS_LONG=1"),
    pytest.mark.timeout(RUN_TIMEOUT_S + 60.0),
]


def test_nothing_is_missing_or_left_at_three_real_nacos(tmp_path: Path) -> None:
    skip_without_tools()
    try:
        GRPC_INSTALLERS["java-3"]()
    except NotInstallable as error:
        pytest.skip(str(error))
    script = ROOT / "tests" / "peers" / "nacos" / "nacos.sh"
    if subprocess.run([script, "fetch", "3"], check=False).returncode:
        pytest.skip("real Nacos 3.0.3 cannot be built")
    command = [sys.executable, "-m", "scripts.chaos.links_nacos", "--changes", "10", "--watch-s", "20"]
    ended = subprocess.run(
        [*command, "--logs", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
