"""The source archive and the wheel of the tree, and environments that hold the wheel as a user's would."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import clean_environ

ROOT = Path(__file__).resolve().parents[2]
STEP_S = 300


def run(*words: str | Path, folder: Path) -> str:
    environ = {name: value for name, value in clean_environ().items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=STEP_S)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Source archive of the tree, and the wheel that is made from it, not from the tree."""
    pytest.importorskip("build")
    # The tree's own metadata of an editable installation must not decide what is in the archive.
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if tracked.returncode:
        pytest.skip("the tree is not under git, which says what belongs to it")
    tree = folder / "tree"
    for name in tracked.stdout.decode().split("\0"):
        if name.startswith(("app/", "distro/", "deploy/", "scripts/")) or (name and "/" not in name):
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    try:
        run(sys.executable, "-m", "build", "--outdir", folder, tree, folder=folder)
    except AssertionError as error:
        if "Could not find a version" in str(error):
            pytest.skip("the package index, from which the build takes setuptools, does not answer")
        raise
    [source], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


def install(folder: Path, *packages: Path | str) -> Path:
    """The commands of a new environment that holds these packages, and what they need, and nothing else."""
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    commands = folder / "venv" / "bin"
    run(commands / "python", "-m", "pip", "install", "--quiet", *packages, folder=folder)
    return commands
