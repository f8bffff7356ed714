"""The mutants that mutmut makes of our code and what becomes of them; all that we know of mutmut's own files."""

import configparser
import enum
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CODE = ("distro/", "app/naming/")
"""The folders whose code is changed."""
COPIED = ("app", "distro", "scripts", "tests", "pyproject.toml", "setup.cfg")


class Outcome(enum.StrEnum):
    """What was made of a mutant."""

    REFUSED = "refused"
    """The type checker does not let it pass, so it needs no test."""
    KILLED = "killed"
    TIMED_OUT = "timed out"
    """The tests did not end in time, which counts as noticed."""
    SURVIVED = "survived"
    """All tests passed, or none calls the function."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function."""

    name: str
    """As mutmut calls it: ``distro.tasks.xǁPeerQueueǁsent__mutmut_12``."""
    function: str
    """With its class, if it has one: ``PeerQueue.sent``."""
    outcome: Outcome
    was: str = ""
    """Of a survivor: the changed lines as they are, stripped and with spaces between."""
    becomes: str = ""
    """Of a survivor: these lines in the mutant, in the same form."""


OUTCOMES = {
    "caught by type check": Outcome.REFUSED,
    "killed": Outcome.KILLED,
    # A signal of the kernel ends a process that runs out of stack in an endless recursion.
    "segfault": Outcome.KILLED,
    "timeout": Outcome.TIMED_OUT,
}
"""By mutmut's own word; by any other word the mutant survived."""


def files_of(paths: Iterable[str], root: Path) -> list[str]:
    """Return the files with code under these paths, which are relative to ``root``; without any, all.

    Raises:
        FileNotFoundError: a path has no code that is changed.
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


def check(names: Collection[str], files: Collection[str], root: Path, work: Path, workers: int) -> None:
    """Make the mutants of these files in the folder ``work``, and run the tests for those of these names or patterns.

    Raises:
        subprocess.CalledProcessError: the tests fail without any mutant; mutmut printed more.
    """
    for top in ("mutants", *COPIED):
        shutil.rmtree(work / top, ignore_errors=True)
    for top in COPIED:
        if (root / top).is_dir():
            shutil.copytree(root / top, work / top, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / top, work / top)
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(work / "setup.cfg")
    settings["mutmut"]["only_mutate"] = "\n" + "\n".join(files)
    with open(work / "setup.cfg", "w", encoding="utf-8") as file:
        settings.write(file)
    # The type checker's command in setup.cfg begins with `python`, which is to be this one.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = os.environ | {"PATH": path, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(workers), *names]
    subprocess.run(command, check=True, stdout=sys.stderr, cwd=work, env=environment)


def pattern(file: str) -> str:
    """Return what mutmut takes for all mutants of a file, but not of the modules in a folder of its name."""
    return file.removesuffix(".py").replace("/", ".") + ".x[_ǁ]*"


def read(file: str, work: Path) -> Iterator[Mutant]:
    """Yield the mutants of a file that were checked in the folder ``work``."""
    # They are of an extra that only this script needs.
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    os.chdir(work)
    data = SourceFileMutationData(path=file)
    data.load()
    for name, exit_code in data.exit_code_by_key.items():
        if exit_code is None:
            continue
        outcome = OUTCOMES.get(status_by_exit_code[exit_code], Outcome.SURVIVED)
        function, class_name = orig_function_and_class_names_from_key(name)
        was, becomes = "", ""
        if outcome is Outcome.SURVIVED:
            was, becomes = change(get_diff_for_mutant(name, path=file))
        yield Mutant(name, f"{class_name}.{function}" if class_name else function, outcome, was, becomes)


def change(diff: str) -> tuple[str, str]:
    """Return the lines that a unified diff of one change takes away, and those that it adds, each as one text."""
    lines = diff.splitlines()[2:]
    was = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    becomes = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    return was, becomes
