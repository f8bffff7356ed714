"""The pages docs/replication*.md and the code name the same rules, and ``resolve`` answers as its table says."""

import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from distro.model.types import NO_VERSION, Resolution, Version
from distro.receive.resolve import KeyVersions, resolve

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("replication", *(f"replication-{subject}" for subject in ("versions", "data", "faults", "writes")))
PAGE = "\n".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in NAMES)
RULES = [f"R{number}" for number in re.findall(r"^## R(\d+) ", PAGE, re.MULTILINE)]
CITED = re.compile(r"\bR\d+\b")
MINE, OTHERS = "a~1", "b~1"


@cache
def code(*tops: str) -> dict[str, str]:
    """The text of each module below these folders."""
    files = [path for top in tops for path in sorted((ROOT / top).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


def table(*head: str) -> list[list[str]]:
    """The rows of the table with this head."""
    lines = iter(PAGE.splitlines())
    assert any(line == f"| {' | '.join(head)} |" for line in lines), f"there is no table {head}"
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_rules_are_stated_in_order() -> None:
    assert [f"R{number}" for number in range(1, len(RULES) + 1)] == RULES
    assert len(RULES) == 18


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_cited_where_the_code_applies_it(rule: str) -> None:
    assert [name for name, text in code("app", "distro").items() if rule in CITED.findall(text)]


def test_every_cited_rule_is_stated() -> None:
    cited = {(name, rule) for name, text in code("app", "distro", "tests").items() for rule in CITED.findall(text)}
    assert not [(name, rule) for name, rule in cited if rule not in RULES]


def test_who_decides_is_named_as_in_the_code() -> None:
    """Of ``Class.method`` both are defined somewhere; of modules the file."""
    modules = code("app", "distro")
    defined = set(re.findall(r"^\s*(?:def|class|async def) (\w+)", "\n".join(modules.values()), re.MULTILINE))
    decides = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    names = {name for cell in decides for name in re.findall(r"`([^`]+)`", cell)}
    assert len(names) > 30
    files = {name for name in names if name.endswith(".py")}
    assert not [name for name in files if not any(path.endswith(f"/{name}") for path in modules)]
    assert not [name for name in names - files if not defined.issuperset(name.split("."))]


@pytest.mark.parametrize("row", table("what", "default", "setting"), ids=lambda row: row[0])
def test_a_deadline_is_the_default_of_its_setting(row: list[str]) -> None:
    _, default, setting = row
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    if setting:
        found = re.search(rf"^\| [^|]*{re.escape(setting)}[^|]* \| `(\d+)` \|", settings, re.MULTILINE)
        assert found is not None
        assert default == f"{int(found[1]) / 1_000:g} s"


def case(stored: str, received: str) -> tuple[Version | None, Version] | None:
    """The stored version and that of a datum, None where there is no such case."""
    writer = OTHERS if stored == "another writer" else MINE
    versions = {"equal": (5, 5), "higher": (6, 5), "lower": (4, 5)}
    if stored in ("unknown", "known"):
        known = None if stored == "unknown" else Version(5, 1, MINE)
        match received:
            case "unversioned":
                return known, NO_VERSION
            case "versioned" if known is None:
                return known, Version(6, 0, OTHERS)
        return None
    if received not in versions or (received == "equal" and writer == OTHERS):
        return None
    return Version(5, 1, MINE), Version(versions[received][0], 1, writer)


STORED = ("unknown", "known", "same writer", "another writer")
RECEIVED = ("versioned", "unversioned", "equal", "higher", "lower")
CASES = list(product(STORED, RECEIVED, ("yes", "no"), ("owner", "not owner"), ("yes", "no")))


@pytest.mark.parametrize("words", [words for words in CASES if case(*words[:2])], ids=", ".join)
def test_the_table_of_received_datums_is_what_is_done(words: tuple[str, ...]) -> None:
    stored, received, owner, sender, fetched = words
    rows = [
        row
        for row in table("stored", "received", "owner", "sender", "fetched", "answer")
        if all(cell in (word, "any") for cell, word in zip(row, words, strict=False))
    ]
    assert len(rows) == 1, "each case has one row"
    versions = case(stored, received)
    assert versions is not None
    given = KeyVersions(*versions, owner == "yes", sender == "owner", fetched == "yes")
    assert resolve(given).resolution is Resolution[rows[0][-1]]
