"""Changes the code in many small ways, one at a time, and shows the mutants that no test notices.

    python -m scripts.mutation                                    all of distro/ and app/naming/, about half an hour
    python -m scripts.mutation distro/protocol/tasks.py app/naming/push    files and folders
    python -m scripts.mutation --again distro                     survivors of the last run, with today's tests
    python -m scripts.mutation --report                           results of the last runs, with today's list

mutmut makes the mutants, and mypy removes those with type errors; then the tests that call a mutant's function run
until one fails. setup.cfg lists the exceptions and the tests. Both tools come with the extra ``mutation``:
``.venv/bin/pip install -e '.[mutation]'``. The list of accepted survivors is accepted.toml. The exit code is 1 when
fewer than 90 % of the others were noticed.
"""

import argparse
import configparser
import dataclasses
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.mutation import accepted, mutants
from scripts.mutation.accepted import Judgement, Score
from scripts.mutation.mutants import Outcome
from scripts.mutation.results import Results
from scripts.support.tables import table

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutation"
"""The folder for the changed code and the results."""
LIST = Path(__file__).with_name("accepted.toml")
PERCENT_MIN = 90.0
NICENESS = 10
NOT_NOTICED = (Outcome.SURVIVED, Outcome.UNCHECKED)
HEAD = ("mutants", "refused", "killed", "timed out", "survived", "accepted", "score")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check mutants according to the arguments, print the score, and return the exit code."""
    options = _parser().parse_args(arguments)
    if importlib.util.find_spec("mutmut") is None:
        print("mutmut is missing; install it: .venv/bin/pip install -e '.[mutation]'", file=sys.stderr)
        return 2
    files = mutants.files_of(options.paths, ROOT)
    results = Results(ROOT, WORK / "results")
    if not options.report:
        os.nice(max(0, NICENESS - os.nice(0)))
        _check(files, results, options)
    judgement = accepted.judge({file: results.of(file) for file in files}, accepted.read(LIST))
    show(judgement)
    return int(judgement.total.percent < PERCENT_MIN)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m scripts.mutation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or folder (all)")
    parser.add_argument("--again", action="store_true", help="check only survivors, and files that changed")
    parser.add_argument("--report", action="store_true", help="run nothing, show the results of the last runs")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="run only these tests instead of those in setup.cfg")
    parser.add_argument("--workers", type=int, default=1, help="processes that run tests in parallel (default 1)")
    return parser


def _check(files: list[str], results: Results, options: argparse.Namespace) -> None:
    """Check all mutants of these files, or the survivors; all mutants of a file without earlier results."""
    known = {file: results.of(file) if options.again else [] for file in files}
    left = [file for file in files if not known[file] or any(one.outcome in NOT_NOTICED for one in known[file])]
    sources = {file: results.source(file) for file in left}  # the code may change while the tests run
    mutants.copy(ROOT, WORK)
    os.chdir(WORK)
    made = {file: mutants.make(file) for file in left}
    found = {one.name: one.outcome for file in left for one in known[file]}
    if fresh := {file: made[file] for file in left if not known[file]}:
        found |= dict.fromkeys(mutants.refused(fresh), Outcome.REFUSED)
    names = [one.name for of_file in made.values() for one, _ in of_file]
    left_names = [name for name in names if found.get(name, Outcome.UNCHECKED) in NOT_NOTICED]
    try:
        _run(left_names, options.tests or _all_tests(), options.workers)
    finally:  # an interrupted run keeps its results, too: `--again` continues with the rest
        found |= _outcomes()
        for file, of_file in made.items():
            checked = [dataclasses.replace(one, outcome=found.get(one.name, Outcome.UNCHECKED)) for one, _ in of_file]
            results.put(file, checked, sources[file])


def _all_tests() -> list[str]:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read("setup.cfg")
    return settings["mutmut"]["pytest_add_cli_args_test_selection"].split()


def _outcomes() -> dict[str, Outcome]:
    """Return the outcomes of the run, by the name of the mutant."""
    pairs = [line.split(" ", 1) for line in (WORK / "outcomes").read_text(encoding="utf-8").splitlines()]
    return {name: Outcome[outcome] for outcome, name in pairs}


def _run(names: list[str], tests: list[str], workers: int) -> None:
    """Run these tests for the named mutants, in the working folder.

    Raises:
        subprocess.CalledProcessError: the tests fail without any mutant; pytest printed the failures.
    """
    plan, results = WORK / "plan", WORK / "outcomes"
    plan.write_text("\n".join(names), encoding="utf-8")
    results.write_text("", encoding="utf-8")
    more = {
        "PYTHONPATH": str(WORK),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MUTATION_PLAN": str(plan),
        "MUTATION_RESULTS": str(results),
        "MUTATION_WORKERS": str(workers),
    }
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--capture=no", "-p", "no:cacheprovider"]
    command += ["-p", "no:unraisableexception", "-p", "scripts.mutation.session", *tests]
    subprocess.run(command, check=True, stdout=sys.stderr, env=os.environ | more)


def show(judgement: Judgement) -> None:
    """Print the survivors, the entries of the list that match no survivor, and the scores."""
    for file, one in judgement.survivors:
        print(f"{file}: {one.function}\n    - {one.was}\n    + {one.becomes}")
    for entry in judgement.stale:
        print(f"accepted.toml: no survivor in {entry.file}, {entry.function}, of {entry.was!r} to {entry.becomes!r}")
    scores = [(file, score) for file, score in judgement.by_file.items() if score.mutants]
    print("\n" + table(["", *HEAD], (_cells(*one) for one in (*scores, ("all", judgement.total)))))


def _cells(name: str, score: Score) -> tuple[object, ...]:
    numbers = (score.mutants, score.refused, score.killed, score.timed_out, score.survived, score.accepted)
    note = f", {score.unchecked} unchecked" if score.unchecked else ""
    share = f"{score.percent:.1f} %" if score.killed + score.timed_out + score.survived else "-"
    return name, *numbers, share + note


if __name__ == "__main__":
    sys.exit(main())
