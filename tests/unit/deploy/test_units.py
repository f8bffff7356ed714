"""The unit of a member: systemd takes it, it is as closed as it says, and it names what is there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.tools.cli import MALLOC

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
UNIT = DEPLOY / "rollcall.service"
EXPOSURE_MAX = 1.5
"""Of systemd's 0 (closed) to 10 (open)."""
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not in the path")


def analyze(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def unit_here(tmp_path: Path) -> Path:
    """The unit with a command that is on this machine."""
    command = Path(sys.executable).with_name("rollcall")
    text = UNIT.read_text().replace("/opt/rollcall/.venv/bin/rollcall", str(command))
    assert str(command) in text
    file = tmp_path / "rollcall.service"
    file.write_text(text)
    return file


@needs_systemd
def test_systemd_takes_the_unit(unit_here: Path) -> None:
    done = analyze("verify", unit_here)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
def test_systemd_says_what_is_wrong_of_another_one(unit_here: Path) -> None:
    unit_here.write_text(unit_here.read_text().replace("UMask=0077", "UMaks=0077"))
    done = analyze("verify", unit_here)
    assert "UMaks" in done.stdout + done.stderr


@needs_systemd
def test_it_is_closed(unit_here: Path) -> None:
    done = analyze("security", "--offline=true", "--no-pager", unit_here)
    found = re.search(r"Overall exposure level for rollcall.service: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_MAX


def test_accounts_and_folders_are_those_of_the_unit() -> None:
    unit = UNIT.read_text()
    user = (DEPLOY / "rollcall.sysusers").read_text()
    assert "User=rollcall" in unit
    assert re.search(r'^u rollcall - ".+" /var/lib/rollcall /usr/sbin/nologin$', user, re.MULTILINE)
    assert "StateDirectory=rollcall\n" in unit
    assert "--data /var/lib/rollcall" in unit


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not in the path")
def test_accounts_and_folders_can_be_made(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    subprocess.run(["systemd-sysusers", f"--root={root}", DEPLOY / "rollcall.sysusers"], check=True, timeout=60)
    account = next(line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("rollcall:"))
    assert account.endswith(":/var/lib/rollcall:/usr/sbin/nologin")


def test_the_stop_takes_longer_than_a_member_does() -> None:
    from app.config.settings import read_settings

    longest_s = read_settings(environ={}).stop_timeout_s
    [given] = re.findall(r"^TimeoutStopSec=(\d+)s$", UNIT.read_text(), re.MULTILINE)
    assert int(given) > longest_s + 2


@pytest.mark.parametrize("file", ["rollcall.service", "docker/Dockerfile", "compose/compose.yaml"])
def test_what_starts_a_member_has_its_memory_given_back(file: str) -> None:
    text = (DEPLOY / file).read_text()
    for name, value in MALLOC.items():
        assert re.search(rf"{name}(=|: \"){value}\b", text), f"{name} of the command is set in {file} too"
