"""The type checker's word on mutants: ``python -m scripts.mutation.types mypy``, which mutmut runs in its folder.

A mutant that mypy refuses cannot come into the code, and needs no test. It prints mypy's errors as mypy does, one JSON
object a line, without those that come from how mutants are kept: all beside each other, as methods of the same class.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator

MYPY = (
    "-m",
    "mypy",
    "--output",
    "json",
    "--cache-dir",
    "../.mypy_cache",
    "--no-warn-unused-ignores",
    "distro",
    "app/naming",
)
NOT_OF_THE_MUTANT = {"no-redef", "has-type", "var-annotated"}
"""What each copy of an ``__init__`` brings, as it gives the same attributes their types once more."""


def refusals(lines: Iterable[str]) -> Iterator[str]:
    """Yield those lines of mypy that say something of a mutant.

    Raises:
        ValueError: a line is no JSON object, as mypy did not run.
    """
    for line in lines:
        if line.strip() and json.loads(line)["code"] not in NOT_OF_THE_MUTANT:
            yield line


if __name__ == "__main__":
    checked = subprocess.run([sys.executable, *MYPY], stdout=subprocess.PIPE, encoding="utf-8", check=False)
    for line in refusals(checked.stdout.splitlines()):
        print(line)
