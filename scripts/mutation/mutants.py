"""Makes the mutants of a file with mutmut: each function gets copies with one change each; a variable selects one.

mutmut's own command runs pytest again for each mutant; only its copies are used here, see ``session``.
"""

import difflib
import enum
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CODE = ("distro/", "app/naming/")
"""The folders with the code to change."""
COPIED = ("app", "distro", "scripts", "tests", "pyproject.toml", "setup.cfg")
MYPY = ("-m", "mypy", "--output", "json", "--no-warn-unused-ignores")
NOT_OF_THE_MUTANT = {"no-redef", "has-type", "var-annotated"}
"""Errors that every copy of an ``__init__`` causes, because it declares the types of attributes again."""


class Outcome(enum.StrEnum):
    """The test outcome of a mutant."""

    REFUSED = "refused"
    """The type checker refuses it, so it needs no test."""
    KILLED = "killed"
    TIMED_OUT = "timed out"
    """The tests did not end in time, which counts as noticed."""
    SURVIVED = "survived"
    """All tests passed, or none calls the function."""
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function."""

    name: str
    """Its name in the variable: ``distro.protocol.tasks.xǁPeerQueueǁsent__mutmut_12``."""
    function: str
    """Name of the function with its class, if any: ``PeerQueue.sent``."""
    was: str
    """The original lines, stripped and joined by spaces."""
    becomes: str
    """These lines in the mutant, in the same form."""
    outcome: Outcome = Outcome.UNCHECKED


def files_of(paths: Iterable[str], root: Path) -> list[str]:
    """Return the files with code under these paths, which are relative to ``root``; without any, all.

    Raises:
        FileNotFoundError: a path has no code to change.
    """
    found: list[str] = []
    for path in list(paths) or CODE:
        ones = [root / path] if (root / path).is_file() else sorted((root / path).rglob("*.py"))
        inside = [one.relative_to(root).as_posix() for one in ones if one.suffix == ".py"]
        inside = [name for name in inside if name.startswith(CODE) and not name.endswith("__init__.py")]
        if not inside:
            raise FileNotFoundError(f"{path} has no code under {' or '.join(CODE)}")
        found += inside
    return list(dict.fromkeys(found))


def copy(root: Path, work: Path) -> None:
    """Copy the current code and tests into the folder ``work``, replacing earlier ones."""
    for top in COPIED:
        shutil.rmtree(work / top, ignore_errors=True)
        if (root / top).is_dir():
            shutil.copytree(root / top, work / top, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            work.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / top, work / top)


def make(file: str) -> list[tuple[Mutant, range]]:
    """Write the mutants of a file into the working copy; return each with its lines there, counted from 1."""
    # It belongs to an extra that only this script needs.
    from mutmut.mutation.file_mutation import mutate_file_contents

    module = file.removesuffix(".py").replace("/", ".")
    mutated = mutate_file_contents(file, Path(file).read_text(encoding="utf-8"))
    Path(file).write_text(mutated.code, encoding="utf-8")
    lines, spans = mutated.code.splitlines(), mutated.line_span_by_function_name
    made = []
    for name in mutated.mutant_names:
        kept = name.partition("__mutmut_")[0]
        function = kept.split("ǁ", 1)[1].replace("ǁ", ".") if "ǁ" in kept else kept.removeprefix("x_")
        own_name = function.rpartition(".")[2]
        was, becomes = change(
            *(
                [line.replace(one, own_name) for line in lines[spans[one].start - 1 : spans[one].end]]
                for one in (f"{kept}__mutmut_orig", name)
            )
        )
        made.append((Mutant(f"{module}.{name}", function, was, becomes), range(spans[name].start, spans[name].end + 1)))
    return made


def change(before: list[str], after: list[str]) -> tuple[str, str]:
    """Return the lines only in the function, and the lines only in its mutant, each as one text."""
    diff = list(difflib.unified_diff(before, after, n=0))[2:]
    was = " ".join(line[1:].strip() for line in diff if line.startswith("-"))
    becomes = " ".join(line[1:].strip() for line in diff if line.startswith("+"))
    return was, becomes


def refused(made: dict[str, list[tuple[Mutant, range]]]) -> set[str]:
    """Return the names of the mutants, given by file, that the type checker refuses in the working folder.

    Raises:
        RuntimeError: mypy did not run.
    """
    checked = subprocess.run([sys.executable, *MYPY, *made], capture_output=True, encoding="utf-8", check=False)
    if checked.returncode not in (0, 1):
        raise RuntimeError(checked.stdout + checked.stderr)
    found = set[str]()
    for file, line in refusals(checked.stdout.splitlines()):
        found.update(mutant.name for mutant, lines in made.get(file, ()) if line in lines)
    return found


def refusals(lines: Iterable[str]) -> list[tuple[str, int]]:
    """Return file and line of the errors that a mutant itself causes. Shape of the input: one JSON object a line."""
    errors = [json.loads(line) for line in lines if line.strip()]
    return [
        (error["file"], error["line"])
        for error in errors
        if error["severity"] == "error" and error["code"] not in NOT_OF_THE_MUTANT
    ]
