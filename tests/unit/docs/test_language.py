"""The rules of language find the sentences that they are for, and leave others alone."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOT_CHECKED = 3
BAD = {
    "Negations": (
        "The pictures are no drawings.",
        "They are what the tests run, but for the address of the node.",
        "Each call is signed, and none counts twice.",
        "The unit gives the process nothing but its data folder.",
    ),
    "NounClauses": (
        "It is removed, and whoever has it keeps it.",
        "It is counted, whatever it brings.",
        "The node shows the rule by which it decided.",
        "The node prints the name of what it found.",
        "They are what the tests run.",
        "Each step does only what is not done.",
        "The call reaches the node, and who may register is an operator.",
    ),
    "Openings": (
        "What is lost is found by comparing.",
        "Whether all agree is compared.",
        "Those of them that changed are sent.",
        "Where one more comes, the oldest is closed.",
    ),
    "Own": (
        "The tests start nodes of their own.",
        "Calls among our own kind are signed.",
        "It is more than a registry, and another kind: it votes.",
    ),
    "Other": ("The user is unknown, or the password is another.", "It uses a port other than the first."),
    "Pronouns": ("Somebody says so again.", "The member depends on what he does.", "The client is told."),
    "Phrases": (
        "It is made anew.",
        "The check stands in the log.",
        "In spite of that it goes on.",
        "Each metadata of the instance comes on top.",
    ),
    "LongSentences": ("The node sends " + "one key and " * 10 + "one more.",),
}
GOOD = (
    "There is no limit, and the node is no longer a member.",
    "A node stores one copy. What does it cost?",
    "The other members get the change.",
    "None of the members answers.",
    "Run `vale but for whoever`.",
)


def check(path: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([ROOT / ".ci/language", path], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == NOT_CHECKED:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return done


@pytest.mark.parametrize("rule", BAD)
def test_a_rule_finds_its_sentences(tmp_path: Path, rule: str) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n\n".join(BAD[rule]) + "\n")
    found = check(page)
    assert found.returncode == 1
    lines = {int(line.removeprefix(f"{page}:").split(":")[0]) for line in found.stdout.splitlines() if rule in line}
    assert lines == {1 + 2 * at for at in range(len(BAD[rule]))}, found.stdout + found.stderr


def test_plain_sentences_pass(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n\n".join(GOOD) + "\n")
    found = check(page)
    assert (found.returncode, found.stdout) == (0, "")


def test_messages_of_code_are_held_and_its_names_are_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('whoever = {"whoever": 1}\nraise ValueError(f"whoever {whoever} asks")\n')
    found = check(module)
    assert [line.split(":")[1] for line in found.stdout.splitlines()] == ["2"], found.stdout + found.stderr


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("app/http/module.py", ["1", "5"]),
        ("app/naming/model/module.py", ["1", "5"]),
        ("distro/wire/module.py", ["1", "5"]),
        ("scripts/module.py", ["5"]),
    ],
)
def test_docstrings_are_held_in_the_folders_that_the_configuration_names(
    tmp_path: Path, name: str, lines: list[str]
) -> None:
    module = tmp_path / name
    module.parent.mkdir(parents=True)
    module.write_text('"""Whoever asks."""\n\n\ndef asked() -> None:\n    raise ValueError("whatever came")\n')
    check(module)  # which compiles the linter where it is missing
    linter = shutil.which("vale") or next((ROOT / "build/tools").glob("vale-*"))
    command = [linter, "--config", ROOT / ".ci/prose/vale.ini", "--output", "line", name]
    found = set[str]()
    for _ in range(5):  # one run in ten of Vale 3.22 leaves out a docstring
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        found.update(line.split(":")[1] for line in ended.stdout.splitlines())
    assert found == set(lines)


def test_each_page_that_is_left_for_later_exists() -> None:
    """The list only shrinks: a line that finds no page any more is deleted."""
    lines = (ROOT / ".ci/prose/later.txt").read_text().splitlines()
    tops = ("docs", "app", "distro")
    paths = [path.relative_to(ROOT).as_posix() for top in tops for path in (ROOT / top).rglob("*.*")]
    paths += [path.name for path in ROOT.glob("*.md")]
    left = [line for line in lines if line and not line.startswith("#")]
    assert not [line for line in left if not any(re.match(line, path) for path in paths)]
