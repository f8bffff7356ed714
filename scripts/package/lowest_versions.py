"""Runs the tests of units and properties with the lowest versions of the dependencies that setup.cfg allows.

``python -m scripts.package.lowest_versions``: in a clone of the last commit, with the oldest Python that is on this
machine. `scripts/test` runs all tests with current versions.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.package.clean_environments import PYTHONS, ROOT, found_pythons, lowest

CONSTRAINTS = "PIP_CONSTRAINT"
"""The variable by which pip, wherever it is called, holds to the versions of a file."""


def main() -> int:
    """Run the tests in a clone, and return their exit code."""
    found = next(found_pythons(), None)
    if found is None:
        print(f"none of Python {', '.join(PYTHONS)} is on this machine", file=sys.stderr)
        return 1
    version, python = found
    print(f"Python {version} with the lowest versions", flush=True)
    with tempfile.TemporaryDirectory() as name:
        clone = Path(name) / "clone"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
        constraints = Path(name) / "constraints.txt"
        constraints.write_text("\n".join(lowest((clone / "setup.cfg").read_text(encoding="utf-8"))))
        make_environment(clone, python)
        done = subprocess.run(
            ["scripts/test", "--units"], cwd=clone, env=environment(os.environ, constraints), check=False
        )
        return done.returncode


def make_environment(clone: Path, python: Path) -> None:
    """Make the environment that scripts/bootstrap.sh looks for, with this Python in place of the newest one."""
    venv = clone / ".venv"
    subprocess.run([python, "-m", "venv", venv], check=True)
    (venv / ".place").write_text(f"{venv}\n")


def environment(environ: Mapping[str, str], constraints: Path) -> dict[str, str]:
    """Return the variables of the tests: without those of this environment, and with the file of versions."""
    kept = {name: value for name, value in environ.items() if not name.startswith(("VIRTUAL_ENV", "ROLLCALL", "NACOS"))}
    return {**kept, CONSTRAINTS: str(constraints)}


if __name__ == "__main__":
    sys.exit(main())
