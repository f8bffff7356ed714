"""The table of cases names tests that there are."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parents[2]
PAGE = TESTS.parent / "docs" / "scenarios-2x.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
CASES = 60


class Row(NamedTuple):
    """One line of the table."""

    number: int
    case: str
    result: str
    shown_by: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Modules below ``tests``, and names of tests in them."""
        return NAMED.findall(self.shown_by)


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0].isdecimal():
            assert len(cells) == 4, line
            found.append(Row(int(cells[0]), *cells[1:]))
    return found


ROWS = rows()


@cache
def names_in(module: str) -> frozenset[str]:
    tree = ast.parse((TESTS / module).read_text(encoding="utf-8"))
    functions = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(one.name for one in functions if one.name.startswith("test_"))


def test_every_case_has_its_row() -> None:
    assert [row.number for row in ROWS] == list(range(1, CASES + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_a_row_names_tests_that_there_are(row: Row) -> None:
    assert row.result in ("passed", "differs")
    why = NAMED.sub("", row.shown_by)
    assert "::" not in why, "a test is written as `module.py::name`"
    if row.result == "passed":
        assert row.tests, "what passes is shown by a test"
    else:
        assert why.strip(" ,.`"), "what differs says in what and why"
    for module, name in row.tests:
        assert name in names_in(module), f"{module} has no {name}"
