"""Installs a wheel in clean environments as a user would, uses it there, and prints what that took.

``python -m scripts.package.clean_environments WHEEL``: on each Python from 3.11 to 3.13 that is on this machine with
current dependencies, and on the oldest of them with the lowest versions that setup.cfg allows.
"""

import argparse
import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
STEP_S = 900
_REQUIREMENT = re.compile(r"([\w-]+)>=([\w.]+)")
USED = """
from rollcall_registry.testing import Cluster, Registry

with Registry() as registry:
    registry.register("orders", "10.0.0.1", 8080)
    [instance] = registry.instances("orders")
    assert instance.address == "10.0.0.1:8080"
    for path in ("/api-docs", "/openapi.json", "/v1/ns/operator/metrics"):
        registry.call("GET", path)
with Cluster(3) as cluster:
    cluster[0].register("orders", "10.0.0.1")
    cluster.wait_for_instances("orders")
"""
"""A program that uses HTTP, gRPC between members, templates and schemas."""


class StepFailed(Exception):
    """A command in an environment failed; the text has its output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the wheel in each environment; return 0 if all work, else 1."""
    parser = argparse.ArgumentParser(prog="clean_environments", description=__doc__)
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args(arguments).wheel.resolve()
    pythons = dict(found_pythons())
    if not pythons:
        print(f"none of Python {', '.join(PYTHONS)} is on this machine", file=sys.stderr)
        return 1
    cases: list[tuple[str, str, Path, list[str]]] = [
        (version, "newest", python, []) for version, python in pythons.items()
    ]
    oldest = next(iter(pythons))
    cases.insert(0, (oldest, "lowest", pythons[oldest], lowest((ROOT / "setup.cfg").read_text(encoding="utf-8"))))
    failed = 0
    print("| Python | dependencies | result | installed, MB | install, s | use, s |\n|---|---|---|---|---|---|")
    for version, kind, python, constraints in cases:
        try:
            print(f"| {version} | {kind} | works | {check(wheel, python, constraints)} |", flush=True)
        except StepFailed as error:
            failed += 1
            print(f"| {version} | {kind} | FAILS | | | |", flush=True)
            print(error, file=sys.stderr)
    for version in PYTHONS:
        if version not in pythons:
            print(f"| {version} | | not on this machine | | | |")
    return 1 if failed else 0


def found_pythons() -> Iterator[tuple[str, Path]]:
    """Yield each version of PYTHONS that runs on this machine, from PATH or from pyenv, and its interpreter."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        on_path = shutil.which(f"python{version}")
        candidates = [Path(on_path)] if on_path else []
        candidates += sorted(pyenv.glob(f"{version}.*/bin/python"))
        for candidate in candidates:
            # A version manager's stub may be on PATH and not run.
            if subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
                yield version, candidate
                break


def lowest(config: str) -> list[str]:
    """Return ``name==version`` for each lower bound of what a node needs in the text of setup.cfg."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(config)
    return [f"{name}=={version}" for name, version in _REQUIREMENT.findall(parser["options"]["install_requires"])]


def check(wheel: Path, python: Path, constraints: Sequence[str]) -> str:
    """Install and use the wheel, and return size and seconds as columns of a table.

    Raises:
        StepFailed: a step failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "constraints.txt"
        file.write_text("\n".join(constraints))
        begun_s = time.monotonic()
        _run(folder, python, "-m", "venv", folder / "venv")
        commands = folder / "venv" / "bin"
        pip = (commands / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
        _run(folder, *pip, "install", "--constraint", file, wheel)
        installed_s = time.monotonic() - begun_s
        _run(folder, *pip, "check")
        size = sum(one.stat().st_size for one in (folder / "venv").rglob("*") if one.is_file() and not one.is_symlink())
        begun_s = time.monotonic()
        _run(folder, commands / "rollcall", "--version")
        _run(folder, commands / "rollcall", "files", "deploy", folder / "deploy")
        _run(folder, commands / "python", "-c", USED)
        return f"{size / 1e6:.0f} | {installed_s:.0f} | {time.monotonic() - begun_s:.0f}"


def _run(folder: Path, *words: str | Path) -> None:
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROLLCALL", "NACOS"))
    }
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=STEP_S)
    if done.returncode:
        raise StepFailed(f"{' '.join(map(str, words))[:200]}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


if __name__ == "__main__":
    sys.exit(main())
