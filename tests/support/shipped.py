"""What deploy/ makes and says, as tests use it."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"


def secrets_in(folder: Path) -> Path:
    """The folder of the secrets that the script makes for the composition, in a copy of the tree."""
    (folder / "deploy" / "compose").mkdir(parents=True)
    script = folder / "deploy" / "secrets.sh"
    shutil.copy(DEPLOY / "secrets.sh", script)
    done = subprocess.run([script, "compose"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return folder / "deploy" / "compose" / "secrets"


def variables(text: str) -> dict[str, str]:
    """The variables of an environment file."""
    return dict(line.split("=", 1) for line in text.splitlines() if line)


def composition() -> dict[str, Any]:
    """The composition, as compose.yaml has it."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return found


def mounted(service: dict[str, Any]) -> dict[str, Path]:
    """The files that a service of the composition mounts, by their paths in the container."""
    pairs = [volume.split(":")[:2] for volume in service["volumes"] if volume.startswith(".")]
    return {inside: (COMPOSE.parent / outside).resolve() for outside, inside in pairs}
